//! Requests from the first packet to the answer, and what goes over the network: requests and answers of clients, calls of other VMs, and packets that threads wait for.

use super::packet::{Cargo, Message};
use super::program::{LONGEST_LATENCY, Reply, Request, Turn};
use super::{Event, NONE, Simulator};
use crate::spec::{Packets, Step};
use crate::time::{Nanos, work_of};

impl Simulator<'_> {
    /// A client asks a VM.
    pub(super) fn send_request(
        &mut self,
        (guest, flow): (u32, u32),
        request: Request,
        packets: Packets,
    ) {
        self.send_in(Message {
            next: NONE,
            from: NONE,
            to: guest,
            flow,
            packets,
            llc: NONE,
            cargo: Cargo::Request(request),
        });
    }

    /// The call of another VM's thread is through the guest's stack.
    pub(super) fn serve_call(&mut self, guest: u32, thread: u32) -> u32 {
        let Some(program) = self.program_of(guest) else {
            return NONE;
        };
        let request = self.number(program, Reply::Thread(thread));
        self.serve(guest, request)
    }

    /// The packets that answer a request; `None` if it is answered without any. How callers are answered is theirs to say.
    pub(super) fn answer_of(&self, program: u32, request: Request) -> Option<Packets> {
        match request.reply {
            Reply::User(_) | Reply::Nobody => {
                let answer = self.workload(program).network?.answer;
                (answer.count > 0).then_some(answer)
            }
            Reply::Thread(caller) => {
                let caller = self.threads[caller as usize].program;
                let Packets { count, bytes } = self.workload(caller).network?.answer;
                let count = count.max(1);
                Some(Packets { count, bytes })
            }
        }
    }

    /// A step that sends packets and waits for others: at first they have to be made ready.
    pub(super) fn begin_sending(&mut self, thread: u32, packets: Packets) -> Turn {
        self.threads[thread as usize].is_sending = true;
        self.make_ready(thread, packets)
    }

    /// The last step of a request whose answer goes out as packets.
    pub(super) fn begin_answer(&mut self, thread: u32) -> Turn {
        let entry = &self.threads[thread as usize];
        match self.answer_of(entry.program, entry.request) {
            Some(packets) => self.make_ready(thread, packets),
            None => Turn::Works,
        }
    }

    /// The guest's stack, and the exit that tells the host.
    fn make_ready(&mut self, thread: u32, packets: Packets) -> Turn {
        let network = self.network();
        let stack = network.costs.stack_ns.saturating_mul(packets.count.into());
        let kick = if network.direct {
            0
        } else {
            network.costs.kick_ns
        };
        self.threads[thread as usize].todo = work_of(stack.saturating_add(kick));
        Turn::Works
    }

    /// The packets of a step go out; the thread waits for those that come back.
    pub(super) fn send_step(&mut self, thread: u32) {
        let entry = &mut self.threads[thread as usize];
        entry.is_sending = false;
        let (program, step) = (entry.program, entry.step as usize);
        let workload = &self.spec.workloads[self.programs[program as usize].workload as usize];
        match (workload.steps.get(step), workload.network) {
            (Some(&Step::Network { packets, bytes }), _) => {
                let count = packets;
                self.send(
                    thread,
                    NONE,
                    Packets { count, bytes },
                    Cargo::Reply { thread },
                );
            }
            (Some(Step::Call { .. }), Some(exchange)) => {
                let to = self.next_callee(thread, step);
                self.send(thread, to, exchange.request, Cargo::Call { thread });
            }
            _ => debug_assert!(false, "only these steps send"),
        }
    }

    /// A thread answers a client.
    pub(super) fn send_answer(&mut self, thread: u32, packets: Packets, think_ns: Nanos) {
        let entry = &self.threads[thread as usize];
        let cargo = Cargo::Answer {
            program: entry.program,
            request: entry.request,
            think_ns,
        };
        self.send(thread, NONE, packets, cargo);
    }

    /// A thread answers one of another VM.
    pub(super) fn send_reply(&mut self, thread: u32, caller: u32, packets: Packets) {
        let to = self.threads[caller as usize].guest;
        self.send(thread, to, packets, Cargo::Reply { thread: caller });
    }

    fn send(&mut self, thread: u32, to: u32, packets: Packets, cargo: Cargo) {
        let cpu = self.worlds[self.world_of(thread) as usize].cpu;
        let flow = match cargo {
            Cargo::Reply { thread } | Cargo::Call { thread } => thread,
            Cargo::Request(_) | Cargo::Answer { .. } => 0,
        };
        self.transmit(Message {
            next: NONE,
            from: self.threads[thread as usize].guest,
            to,
            flow,
            packets,
            llc: self.layout.llc_of(cpu),
            cargo,
        });
    }

    /// A new request, asked now.
    pub(super) fn number(&mut self, program: u32, reply: Reply) -> Request {
        let entry = &mut self.programs[program as usize];
        let number = entry.count;
        entry.count += 1;
        Request {
            asked: self.now,
            number,
            reply,
        }
    }

    /// Gives a request to an idle thread, which is to be woken; without one it waits (`NONE`).
    pub(super) fn serve(&mut self, guest: u32, request: Request) -> u32 {
        let Some(program) = self.program_of(guest) else {
            return NONE;
        };
        let entry = &mut self.programs[program as usize];
        let Some(thread) = entry.idle.pop() else {
            entry.pending.push_back(request);
            return NONE;
        };
        self.take_request(thread, request);
        thread
    }

    /// An operation is over for who asked for it; a user thinks and asks again.
    pub(super) fn end_operation(&mut self, program: u32, request: Request, think_ns: Nanos) {
        let entry = &mut self.programs[program as usize];
        entry.operations += 1;
        let latency = (self.now - request.asked).clamp(1, LONGEST_LATENCY);
        entry
            .latency
            .record(latency)
            .expect("the latency is inside the bounds");
        let guest = entry.guest;
        if let Reply::User(user) = request.reply {
            self.queue
                .push(self.now + think_ns, Event::Ask { guest, user });
        }
    }
}
