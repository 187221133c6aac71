//! Packets on their way: the wire, the adapter's timer, the system threads of the host, the virtual adapter, the guest.
//!
//! Packets that belong together are one *message*. Worlds take messages as jobs in the order in which they come: a system
//! thread receives or sends them, a vCPU takes them through its guest's stack before it goes on with a thread. Received
//! packets that wait together are one batch: all of them go on when the last of them is done, as a poll of an adapter does.

use super::program::Request;
use super::world::{Kind, State};
use super::{Event, NONE, Simulator};
use crate::network::{Network, tick_after};
use crate::spec::Packets;
use crate::time::{Nanos, work_of};

/// Interrupts of a device go to at most so many vCPUs: queues of a virtual adapter. Ours.
pub(super) const INTERRUPT_QUEUES: u32 = 8;

/// Packets that belong together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    /// The one behind it in the queue where it is.
    pub(super) next: u32,
    /// The VM it comes from and the one it goes to; `NONE` is the client outside.
    pub(super) from: u32,
    pub(super) to: u32,
    /// What chooses the vCPU that takes its interrupt.
    pub(super) flow: u32,
    pub(super) packets: Packets,
    /// The LLC where it was touched last; `NONE` when an adapter wrote it.
    pub(super) llc: u32,
    pub(super) cargo: Cargo,
}

/// What a message is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cargo {
    /// A client asks.
    Request(Request),
    /// The answer to it, and how long the user thinks then.
    Answer {
        program: u32,
        request: Request,
        think_ns: Nanos,
    },
    /// A thread calls another VM.
    Call { thread: u32 },
    /// A thread that waits for it: an answer from another VM, or its own packets back from the client.
    Reply { thread: u32 },
}

/// All messages and where they pass.
#[derive(Debug)]
pub(super) struct Paths {
    messages: Vec<Message>,
    /// The first of those that are free.
    free: u32,
    /// By VM.
    pub(super) nics: Vec<super::vnic::Vnic>,
    /// The world that receives for all VMs, if there is one.
    pub(super) shared: u32,
    /// By `from * llcs + to`: nanoseconds by which a cache line takes longer than within an LLC.
    pub(super) line_ns: Vec<u32>,
}

impl Paths {
    pub(super) fn new(line_ns: Vec<u32>) -> Self {
        Self {
            messages: Vec::new(),
            free: NONE,
            nics: Vec::new(),
            shared: NONE,
            line_ns,
        }
    }

    fn keep(&mut self, message: Message) -> u32 {
        if self.free == NONE {
            self.messages.push(message);
            return self.messages.len() as u32 - 1;
        }
        let index = self.free;
        self.free = self.messages[index as usize].next;
        self.messages[index as usize] = message;
        index
    }

    fn drop(&mut self, index: u32) {
        self.messages[index as usize].next = self.free;
        self.free = index;
    }

    pub(super) fn drop_all(&mut self, mut head: u32) {
        while head != NONE {
            let next = self.messages[head as usize].next;
            self.drop(head);
            head = next;
        }
    }

    pub(super) fn message(&self, index: u32) -> &Message {
        &self.messages[index as usize]
    }

    /// Puts a message at the end of a list.
    pub(super) fn append(&mut self, list: (&mut u32, &mut u32), index: u32) {
        let (head, tail) = list;
        self.messages[index as usize].next = NONE;
        if *head == NONE {
            *head = index;
        } else {
            self.messages[*tail as usize].next = index;
        }
        *tail = index;
    }
}

impl<'a> Simulator<'a> {
    pub(super) fn network(&self) -> &'a Network {
        let spec = self.spec;
        &spec.network
    }

    /// A client sends packets to a VM.
    pub(super) fn send_in(&mut self, message: Message) {
        let index = self.paths.keep(message);
        self.come_in(index);
    }

    /// A vCPU has made packets ready.
    pub(super) fn transmit(&mut self, message: Message) {
        let world = self.paths.nics[message.from as usize].transmit;
        let index = self.paths.keep(message);
        if self.network().direct {
            self.leave(index);
        } else {
            self.give_packets(world, index);
        }
    }

    /// Over the wire to the host, up to the interrupt of the adapter.
    fn come_in(&mut self, message: u32) {
        let network = self.network();
        let to = self.paths.message(message).to;
        let phase = match self.paths.shared {
            NONE => self.paths.nics[to as usize].phase_ns,
            _ => self.paths.nics[0].phase_ns,
        };
        let at = self.now + network.wire_ns;
        let at = tick_after(at, network.moderation_ns, phase);
        self.queue.push(at, Event::Packet { message });
    }

    /// The adapter interrupts for packets.
    pub(super) fn packet(&mut self, message: u32) {
        let to = self.paths.message(message).to;
        if !self.guests[to as usize].is_on {
            self.paths.drop(message);
        } else if self.network().direct {
            self.inject(message);
        } else if self.paths.shared == NONE {
            self.give_packets(self.paths.nics[to as usize].receive, message);
        } else {
            self.give_packets(self.paths.shared, message);
        }
    }

    /// Packets leave the host, or go through the adapter's own switch.
    fn leave(&mut self, message: u32) {
        let entry = &mut self.paths.messages[message as usize];
        entry.llc = NONE;
        if entry.to != NONE {
            self.come_in(message);
            return;
        }
        let network = self.network();
        let at = self.now + network.wire_ns + network.costs.client_ns;
        self.queue.push(at, Event::Client { message });
    }

    /// The client has packets in its hands.
    pub(super) fn at_client(&mut self, message: u32) {
        let entry = &mut self.paths.messages[message as usize];
        match entry.cargo {
            Cargo::Answer {
                program,
                request,
                think_ns,
            } => {
                self.paths.drop(message);
                self.end_operation(program, request, think_ns);
            }
            Cargo::Reply { .. } => {
                (entry.from, entry.to) = (NONE, entry.from);
                self.come_in(message);
            }
            Cargo::Request(_) | Cargo::Call { .. } => self.paths.drop(message),
        }
    }

    /// Gives a system thread packets.
    fn give_packets(&mut self, world: u32, message: u32) {
        let entry = &mut self.worlds[world as usize];
        let is_idle = !entry.has_packets();
        self.paths
            .append((&mut entry.jobs, &mut entry.jobs_tail), message);
        match entry.state {
            State::Halted => {
                entry.moves.wakeups += 1;
                self.wake(world);
            }
            State::Running if is_idle => {
                let cpu = entry.cpu;
                self.settle(cpu);
                self.arm(cpu);
            }
            _ => {}
        }
    }

    /// Interrupts a vCPU for packets.
    pub(super) fn inject(&mut self, message: u32) {
        let &Message { to, flow, .. } = self.paths.message(message);
        let guest = &self.guests[to as usize];
        let world = guest.first + flow % guest.vcpus.min(INTERRUPT_QUEUES);
        let state = self.worlds[world as usize].state;
        if state == State::Off {
            self.paths.drop(message);
            return;
        }
        let cpu = self.worlds[world as usize].cpu;
        if state == State::Running {
            self.settle(cpu);
            self.end_poll(world);
        }
        // While its stack is at work it looks for more by itself.
        if !self.worlds[world as usize].has_packets() {
            self.add_debt(world, self.hypervisor.costs.interrupt_ns);
        }
        let entry = &mut self.worlds[world as usize];
        self.paths
            .append((&mut entry.jobs, &mut entry.jobs_tail), message);
        match state {
            State::Running => self.arm(cpu),
            State::Halted => self.wake_halted(world),
            _ => {}
        }
    }

    /// Ends the batch at which a world on a CPU was, or begins one.
    pub(super) fn turn_packets(&mut self, world: u32) {
        if self.worlds[world as usize].batch == 0 {
            self.begin_batch(world);
            return;
        }
        for _ in 0..self.worlds[world as usize].batch {
            let entry = &mut self.worlds[world as usize];
            let message = entry.jobs;
            entry.jobs = self.paths.message(message).next;
            match entry.kind {
                Kind::Vcpu => self.deliver(world, message),
                Kind::System => self.forward(world, message),
            }
        }
        self.worlds[world as usize].batch = 0;
    }

    fn begin_batch(&mut self, world: u32) {
        let entry = &self.worlds[world as usize];
        let here = self.layout.llc_of(entry.cpu);
        let costs = &self.network().costs;
        let first = self.paths.message(entry.jobs);
        let Packets { count, bytes } = first.packets;
        let mut batch = 1;
        let time = match entry.kind {
            Kind::Vcpu => costs.stack_ns.saturating_mul(count.into()),
            Kind::System if first.from != NONE => {
                let more = costs.batched_ns.saturating_mul(Nanos::from(count) - 1);
                (costs.transmit_ns + costs.switch_ns + costs.copy_ns(count, bytes))
                    .saturating_add(more)
            }
            Kind::System => {
                let (messages, packets, copy) = self.received(entry.jobs);
                batch = messages;
                let more = costs.batched_ns.saturating_mul(packets - 1);
                (costs.receive_ns + costs.switch_ns + copy).saturating_add(more)
            }
        };
        let time = time.saturating_add(self.fetch_ns(first, here));
        let entry = &mut self.worlds[world as usize];
        entry.batch = batch;
        entry.packet_todo = work_of(time);
    }

    /// Messages from outside at the head of a queue: how many, their packets, and the time to copy them.
    fn received(&self, mut head: u32) -> (u32, Nanos, Nanos) {
        let costs = &self.network().costs;
        let (mut messages, mut all, mut copy) = (0, 0, 0_u64);
        while head != NONE {
            let message = self.paths.message(head);
            if message.from != NONE {
                break;
            }
            let Packets { count, bytes } = message.packets;
            messages += 1;
            all += Nanos::from(count);
            copy = copy.saturating_add(costs.copy_ns(count, bytes));
            head = message.next;
        }
        (messages, all, copy)
    }

    /// What it takes to get packets out of the caches of another LLC.
    fn fetch_ns(&self, message: &Message, here: u32) -> Nanos {
        if message.llc == NONE || message.llc == here {
            return 0;
        }
        let pair = message.llc as usize * self.layout.llcs.len() + here as usize;
        let Packets { count, bytes } = message.packets;
        let lines = self.network().costs.lines(count, bytes);
        lines.saturating_mul(self.paths.line_ns[pair].into())
    }

    /// A system thread is done with packets.
    fn forward(&mut self, world: u32, message: u32) {
        let here = self.layout.llc_of(self.worlds[world as usize].cpu);
        let entry = &mut self.paths.messages[message as usize];
        entry.llc = here;
        let to = entry.to;
        if to == NONE {
            self.leave(message);
        } else if self.guests[to as usize].is_on {
            self.coalesce(message);
        } else {
            self.paths.drop(message);
        }
    }

    /// The guest's stack is done with packets: who waits for them goes on.
    fn deliver(&mut self, world: u32, message: u32) {
        let &Message { to, cargo, .. } = self.paths.message(message);
        self.paths.drop(message);
        let thread = match cargo {
            Cargo::Request(request) => self.serve(to, request),
            Cargo::Call { thread } => self.serve_call(to, thread),
            Cargo::Reply { thread } => thread,
            Cargo::Answer { .. } => NONE,
        };
        if thread != NONE {
            self.wake_thread(thread, world);
        }
    }
}
