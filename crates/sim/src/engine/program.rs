//! Programs: the threads of a VM, the requests they serve, and the steps of a request.

use std::collections::VecDeque;

use hdrhistogram::Histogram;

use super::packet::INTERRUPT_QUEUES;
use super::{Event, NONE, Simulator};
use crate::rng::{Law, Purpose, Stream};
use crate::spec::{Arrivals, Clients, Packets, Step, Workload};
use crate::time::{Nanos, US, Work, work_of};

/// One way between two VMs of a host: send exit 1, transmit thread 1.75, virtual switch 1.25, receive thread 2,
/// injection 4 us (reference model, section 2.4, per direction).
const CALL_NS: Nanos = 10 * US;

/// What the threads of one VM do.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) guest: u32,
    pub(crate) workload: u32,
    /// Threads without a request, the one that slept last on top: its data are warm.
    pub(super) idle: Vec<u32>,
    pub(super) pending: VecDeque<Request>,
    pub(crate) users: u32,
    pub(crate) think: Law,
    pub(crate) per_s: f64,
    arrivals: Stream,
    devices: Stream,
    /// Requests so far, which number the streams of their work.
    pub(super) count: u64,
    seed: u64,
    locks: Vec<Lock>,
    device_queues: Vec<DeviceQueue>,
    /// The thread to which work is handed, and who waits for it.
    scribe: u32,
    handed: VecDeque<(u32, Nanos)>,
    /// Guests that a call step goes to, by step; taken in turn.
    pub(crate) callees: Vec<Vec<u32>>,
    call_turn: u32,
    /// Bursts: until when the present state lasts, and whether it is a burst.
    burst: (Nanos, bool),
    pub(crate) operations: u64,
    pub(crate) latency: Histogram<u64>,
}

/// Work that somebody asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(super) asked: Nanos,
    pub(super) number: u64,
    pub(super) reply: Reply,
}

/// Who waits for the answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reply {
    User(u32),
    Nobody,
    Thread(u32),
}

/// A thread of a guest.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    pub(crate) guest: u32,
    pub(crate) vcpu: u32,
    pub(crate) next: u32,
    pub(crate) todo: Work,
    pub(super) program: u32,
    pub(super) step: u32,
    /// Whether the present step has begun; waiting for a lock or a device, it is not begun again.
    is_begun: bool,
    /// Whether the work of the present step is to make packets ready that it then waits for.
    pub(super) is_sending: bool,
    /// Whether the answer to its request goes out as packets.
    answers: bool,
    pub(super) request: Request,
    pub(super) dice: Stream,
}

#[derive(Debug, Default)]
struct Lock {
    holder: Option<u32>,
    waiting: VecDeque<u32>,
}

#[derive(Debug, Default)]
struct DeviceQueue {
    busy: u32,
    waiting: VecDeque<u32>,
}

/// What became of a thread that ended its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It has more work.
    Works,
    /// It sleeps until somebody wakes it.
    Sleeps,
}

/// Seconds of the largest latency a histogram holds: an hour.
pub(super) const LONGEST_LATENCY: u64 = 3_600_000_000_000;

/// A histogram of latencies with three digits, from nanoseconds to an hour.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_LATENCY, 3).expect("the bounds are in order")
}

impl Program {
    /// The program of a guest; its threads are the next of `threads`.
    pub(super) fn new(
        (guest, vcpus): (u32, u32),
        (index, workload): (u32, &Workload),
        seed: u64,
        threads: &mut Vec<Thread>,
        program: u32,
    ) -> Self {
        let users = match workload.clients {
            Clients::Closed { users, .. } => users.of(vcpus),
            Clients::Open { .. } | Clients::Called => 0,
        };
        let first = threads.len() as u32;
        let count = workload.threads.of(vcpus);
        // One more takes the work that is handed over.
        for number in 0..=count {
            threads.push(Thread {
                guest,
                vcpu: number % vcpus,
                next: NONE,
                todo: 0,
                program,
                step: 0,
                is_begun: false,
                is_sending: false,
                answers: false,
                request: Request {
                    asked: 0,
                    number: 0,
                    reply: Reply::Nobody,
                },
                dice: Stream::new(seed, Purpose::Service, guest),
            });
        }
        let locks = workload.steps.iter().map(|step| match step {
            Step::Lock { lock, .. } => lock + 1,
            _ => 0,
        });
        let locks = locks.max().unwrap_or(0);
        Self {
            guest,
            workload: index,
            idle: (first..first + count).rev().collect(),
            pending: VecDeque::with_capacity(users as usize),
            users,
            think: Law::Fixed { mean_ns: 0 },
            per_s: 0.0,
            arrivals: Stream::new(seed, Purpose::Arrivals, guest),
            devices: Stream::new(seed, Purpose::Device, guest),
            count: 0,
            seed,
            locks: (0..locks).map(|_| Lock::default()).collect(),
            device_queues: workload
                .devices
                .iter()
                .map(|_| DeviceQueue::default())
                .collect(),
            scribe: first + count,
            handed: VecDeque::with_capacity(count as usize),
            callees: Vec::new(),
            call_turn: 0,
            burst: (0, false),
            operations: 0,
            latency: histogram(),
        }
    }

    /// Figures start from nothing.
    pub(super) fn forget(&mut self) {
        self.operations = 0;
        self.latency.reset();
    }

    /// How long until the next request of an open loop.
    fn gap(&mut self, arrivals: Arrivals, now: Nanos) -> Nanos {
        let even = |per_s: f64| (1e9 / per_s).round() as Nanos;
        match arrivals {
            Arrivals::Even => even(self.per_s),
            Arrivals::Poisson => self.arrivals.draw(Law::Exponential {
                mean_ns: even(self.per_s),
            }),
            Arrivals::Bursts {
                factor,
                on_ns,
                off_ns,
            } => {
                let (on, off) = (on_ns as f64, off_ns as f64);
                let calm = ((on + off - factor * on) / off).max(0.01);
                let mut at = now;
                loop {
                    if at >= self.burst.0 {
                        let is_burst = !self.burst.1;
                        self.burst = (at + if is_burst { on_ns } else { off_ns }, is_burst);
                    }
                    let density = if self.burst.1 { factor } else { calm };
                    let mean_ns = even(self.per_s * density);
                    let gap = self.arrivals.draw(Law::Exponential { mean_ns });
                    if at + gap <= self.burst.0 {
                        return at + gap - now;
                    }
                    at = self.burst.0;
                }
            }
        }
    }
}

impl Simulator<'_> {
    /// The program of a guest, if it runs one.
    pub(super) fn program_of(&self, guest: u32) -> Option<u32> {
        let found = self
            .programs
            .binary_search_by_key(&guest, |program| program.guest);
        found.ok().map(|index| index as u32)
    }

    pub(super) fn workload(&self, program: u32) -> &Workload {
        &self.spec.workloads[self.programs[program as usize].workload as usize]
    }

    /// A user of a closed loop asks.
    pub(super) fn ask(&mut self, guest: u32, user: u32) {
        self.request(guest, user, Reply::User(user));
    }

    /// A request of an open loop arrives.
    pub(super) fn arrive(&mut self, guest: u32) {
        let Some(program) = self.program_of(guest) else {
            return;
        };
        let Clients::Open { arrivals, .. } = self.workload(program).clients else {
            return;
        };
        let entry = &mut self.programs[program as usize];
        let number = entry.count as u32;
        let gap = entry.gap(arrivals, self.now);
        self.queue.push(self.now + gap, Event::Arrive { guest });
        self.request(guest, number, Reply::Nobody);
    }

    /// A call of a thread reaches another VM.
    pub(super) fn called(&mut self, thread: u32, guest: u32) {
        self.request(guest, thread, Reply::Thread(thread));
    }

    /// What a thread slept for is over.
    pub(super) fn answered(&mut self, thread: u32) {
        let guest = self.threads[thread as usize].guest;
        let vcpus = self.guests[guest as usize].vcpus;
        self.interrupt(guest, thread % vcpus.min(INTERRUPT_QUEUES), thread);
    }

    /// A request comes, over the network if the workload says so: an idle thread takes it, or it waits.
    fn request(&mut self, guest: u32, flow: u32, reply: Reply) {
        let Some(program) = self.program_of(guest) else {
            return;
        };
        if !self.guests[guest as usize].is_on {
            self.fail(reply);
            return;
        }
        let request = self.number(program, reply);
        let exchange = self.workload(program).network;
        if let Some(exchange) = exchange.filter(|_| !matches!(reply, Reply::Thread(_))) {
            self.send_request((guest, flow), request, exchange.request);
            return;
        }
        let vcpu = flow % self.guests[guest as usize].vcpus.min(INTERRUPT_QUEUES);
        let thread = self.serve(guest, request);
        self.interrupt(guest, vcpu, thread);
    }

    /// Nobody serves a request: a caller gets an error for an answer.
    fn fail(&mut self, reply: Reply) {
        if let Reply::Thread(thread) = reply {
            self.queue
                .push(self.now + CALL_NS, Event::Answered { thread });
        }
    }

    /// Fails all requests that wait or are served in a VM that goes.
    pub(super) fn fail_all(&mut self, guest: u32) {
        let Some(program) = self.program_of(guest) else {
            return;
        };
        let entry = &mut self.programs[program as usize];
        let pending = std::mem::take(&mut entry.pending);
        let idle = std::mem::take(&mut entry.idle);
        for request in pending {
            self.fail(request.reply);
        }
        for thread in 0..self.threads.len() as u32 {
            let entry = &self.threads[thread as usize];
            let is_scribe = self.programs[program as usize].scribe == thread;
            if entry.program == program && !is_scribe && !idle.contains(&thread) {
                self.fail(entry.request.reply);
            }
        }
    }

    /// Gives a thread a request; the work of it depends on the request only, not on who serves it and when.
    pub(super) fn take_request(&mut self, thread: u32, request: Request) {
        let answers = self.answer_of(self.threads[thread as usize].program, request);
        let entry = &mut self.threads[thread as usize];
        let program = &self.programs[entry.program as usize];
        let of_user = match request.reply {
            Reply::User(user) => u64::from(user) << 32,
            Reply::Nobody | Reply::Thread(_) => 0,
        };
        let seed = program.seed ^ request.number.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ of_user;
        entry.dice = Stream::new(seed, Purpose::Service, program.guest);
        entry.request = request;
        entry.step = 0;
        entry.is_begun = false;
        entry.is_sending = false;
        entry.answers = answers.is_some();
        entry.todo = 0;
    }

    /// A thread on a vCPU has no work left in its step: what is next.
    pub(super) fn advance_thread(&mut self, thread: u32) -> Turn {
        loop {
            if self.threads[thread as usize].is_begun {
                if self.threads[thread as usize].is_sending {
                    self.send_step(thread);
                    return Turn::Sleeps;
                }
                self.end_step(thread);
                if self.is_at_end(thread) && self.end_request(thread) == Turn::Sleeps {
                    return Turn::Sleeps;
                }
            }
            self.threads[thread as usize].is_begun = true;
            let turn = self.begin_step(thread);
            if turn == Turn::Sleeps || self.threads[thread as usize].todo > 0 {
                return turn;
            }
        }
    }

    fn is_at_end(&self, thread: u32) -> bool {
        let entry = &self.threads[thread as usize];
        let is_scribe = self.programs[entry.program as usize].scribe == thread;
        // To send the answer is one more step.
        let steps = self.workload(entry.program).steps.len() + usize::from(entry.answers);
        is_scribe || entry.step as usize >= steps
    }

    fn begin_step(&mut self, thread: u32) -> Turn {
        let (program, step) = {
            let entry = &self.threads[thread as usize];
            (entry.program, entry.step as usize)
        };
        if self.programs[program as usize].scribe == thread {
            return self.begin_handed(thread);
        }
        let spec = self.spec;
        let workload = &spec.workloads[self.programs[program as usize].workload as usize];
        let Some(step_spec) = workload.steps.get(step) else {
            return self.begin_answer(thread);
        };
        match step_spec {
            Step::Cpu(law) => self.give_work(thread, *law),
            Step::Sleep(law) => {
                let time = self.threads[thread as usize].dice.draw(*law);
                self.queue.push(self.now + time, Event::Answered { thread });
                Turn::Sleeps
            }
            Step::Io { device } => self.begin_io(thread, *device),
            Step::Lock { lock, hold } => {
                let entry = &mut self.programs[program as usize].locks[*lock as usize];
                if entry.holder.is_some() {
                    entry.waiting.push_back(thread);
                    return Turn::Sleeps;
                }
                entry.holder = Some(thread);
                self.give_work(thread, *hold)
            }
            Step::Handoff(law) => self.hand_over(thread, *law),
            Step::Call { .. } => match workload.network {
                Some(exchange) => self.begin_sending(thread, exchange.request),
                None => self.call(thread, step),
            },
            &Step::Network { packets, bytes } => {
                let count = packets;
                self.begin_sending(thread, Packets { count, bytes })
            }
        }
    }

    fn give_work(&mut self, thread: u32, law: Law) -> Turn {
        let entry = &mut self.threads[thread as usize];
        entry.todo = work_of(entry.dice.draw(law)).max(1);
        Turn::Works
    }

    /// Ends a step: what it held is free again.
    fn end_step(&mut self, thread: u32) {
        let entry = &self.threads[thread as usize];
        let (program, step) = (entry.program, entry.step as usize);
        if self.programs[program as usize].scribe == thread {
            return;
        }
        let spec = self.spec;
        let workload = &spec.workloads[self.programs[program as usize].workload as usize];
        self.threads[thread as usize].step += 1;
        if let Some(Step::Lock { lock, hold }) = workload.steps.get(step) {
            let entry = &mut self.programs[program as usize].locks[*lock as usize];
            entry.holder = entry.waiting.pop_front();
            if let Some(next) = entry.holder {
                let waker = self.world_of(thread);
                self.give_work(next, *hold);
                self.wake_thread(next, waker);
            }
        }
    }

    /// A request is answered; the thread takes the next one, if one waits.
    fn end_request(&mut self, thread: u32) -> Turn {
        let program = self.threads[thread as usize].program;
        let request = self.threads[thread as usize].request;
        if self.programs[program as usize].scribe == thread {
            return self.end_handed(thread, request);
        }
        let answer = self.answer_of(program, request);
        let think = self.programs[program as usize].think;
        match (request.reply, answer) {
            (Reply::User(_) | Reply::Nobody, Some(packets)) => {
                let think_ns = self.threads[thread as usize].dice.draw(think);
                self.send_answer(thread, packets, think_ns);
            }
            (Reply::User(_), None) => {
                let think_ns = self.threads[thread as usize].dice.draw(think);
                self.end_operation(program, request, think_ns);
            }
            (Reply::Nobody, None) => self.end_operation(program, request, 0),
            (Reply::Thread(caller), answer) => {
                self.end_operation(program, request, 0);
                if let Some(packets) = answer {
                    self.send_reply(thread, caller, packets);
                } else {
                    let event = Event::Answered { thread: caller };
                    self.queue.push(self.now + CALL_NS, event);
                }
            }
        }
        let entry = &mut self.programs[program as usize];
        if let Some(next) = entry.pending.pop_front() {
            self.take_request(thread, next);
            return Turn::Works;
        }
        entry.idle.push(thread);
        Turn::Sleeps
    }

    fn begin_io(&mut self, thread: u32, device: usize) -> Turn {
        let program = self.threads[thread as usize].program as usize;
        let spec = self.spec;
        let workload = &spec.workloads[self.programs[program].workload as usize];
        let entry = &mut self.programs[program];
        let queue = &mut entry.device_queues[device];
        let parallel = workload.devices[device].parallel;
        if parallel > 0 && queue.busy >= parallel {
            queue.waiting.push_back(thread);
            return Turn::Sleeps;
        }
        queue.busy += 1;
        let time = entry.devices.draw(workload.devices[device].latency);
        self.queue
            .push(self.now + time, Event::DeviceDone { thread });
        Turn::Sleeps
    }

    /// A device is done with the request of a thread. It completes on the vCPU of the device's queue if that shares a
    /// virtual cache with the one that asked, otherwise there (`rq_affinity` 1; reference model, section 3).
    pub(super) fn device_done(&mut self, thread: u32) {
        let (program, guest) = {
            let entry = &self.threads[thread as usize];
            (entry.program as usize, entry.guest)
        };
        let spec = self.spec;
        let workload = &spec.workloads[self.programs[program].workload as usize];
        let step = self.threads[thread as usize].step as usize;
        let Some(Step::Io { device }) = workload.steps.get(step) else {
            return;
        };
        let entry = &mut self.programs[program];
        let queue = &mut entry.device_queues[*device];
        queue.busy -= 1;
        if let Some(next) = queue.waiting.pop_front() {
            queue.busy += 1;
            let time = entry.devices.draw(workload.devices[*device].latency);
            self.queue
                .push(self.now + time, Event::DeviceDone { thread: next });
        }
        let asked = self.threads[thread as usize].vcpu;
        let home = *device as u32 % self.guests[guest as usize].vcpus;
        let shares = self.guests[guest as usize].domains[home as usize].contains(&asked);
        self.interrupt(guest, if shares { home } else { asked }, thread);
    }

    /// Hands work to the VM's scribe and waits for it.
    fn hand_over(&mut self, thread: u32, law: Law) -> Turn {
        let program = self.threads[thread as usize].program as usize;
        let time = self.threads[thread as usize].dice.draw(law).max(1);
        let waker = self.world_of(thread);
        let entry = &mut self.programs[program];
        entry.handed.push_back((thread, time));
        let scribe = entry.scribe;
        if entry.handed.len() == 1 {
            self.threads[scribe as usize].is_begun = false;
            self.wake_thread(scribe, waker);
        }
        Turn::Sleeps
    }

    fn begin_handed(&mut self, thread: u32) -> Turn {
        let program = self.threads[thread as usize].program as usize;
        let Some(&(_, time)) = self.programs[program].handed.front() else {
            return Turn::Sleeps;
        };
        self.threads[thread as usize].todo = work_of(time);
        Turn::Works
    }

    fn end_handed(&mut self, scribe: u32, _: Request) -> Turn {
        let program = self.threads[scribe as usize].program as usize;
        let waker = self.world_of(scribe);
        if let Some((thread, _)) = self.programs[program].handed.pop_front() {
            self.wake_thread(thread, waker);
        }
        if self.programs[program].handed.is_empty() {
            Turn::Sleeps
        } else {
            Turn::Works
        }
    }

    /// Calls a VM of the tile without a network.
    fn call(&mut self, thread: u32, step: usize) -> Turn {
        let guest = self.next_callee(thread, step);
        self.queue
            .push(self.now + CALL_NS, Event::Called { thread, guest });
        Turn::Sleeps
    }

    /// The VM of the tile that is called, each in turn.
    pub(super) fn next_callee(&mut self, thread: u32, step: usize) -> u32 {
        let program = self.threads[thread as usize].program as usize;
        let entry = &mut self.programs[program];
        let choices = &entry.callees[step];
        let callee = choices[entry.call_turn as usize % choices.len()];
        entry.call_turn = entry.call_turn.wrapping_add(1);
        let from = entry.guest;
        self.note_talk(from, callee);
        callee
    }

    /// The world on which a running thread is.
    pub(super) fn world_of(&self, thread: u32) -> u32 {
        let entry = &self.threads[thread as usize];
        self.guests[entry.guest as usize].first + entry.vcpu
    }

    /// Lets the thread of a running vCPU go through its steps as far as it needs no time for them.
    pub(super) fn finish_work(&mut self, world: u32) {
        loop {
            let entry = &self.worlds[world as usize];
            let thread = entry.thread;
            if entry.debt > 0 || entry.packet_todo > 0 {
                return;
            }
            if entry.has_packets() {
                self.turn_packets(world);
                continue;
            }
            if thread == NONE || self.threads[thread as usize].todo > 0 {
                return;
            }
            if self.advance_thread(thread) == Turn::Sleeps {
                self.worlds[world as usize].thread = NONE;
                self.settle_in(world);
            }
        }
    }
}
