//! Guests: which vCPU runs which thread, as the guest's own scheduler decides on the topology it was shown.

use std::ops::Range;

use super::world::State;
use super::{Event, NONE, Simulator};
use crate::spec::GuestSystem;
use crate::time::{MS, Nanos, US, work_of};

/// A guest's slice when several threads want one vCPU: 3 ms, the kernel's base slice on 8 and more CPUs is 2.8 to 3 ms
/// (`kernel/sched/fair.c`, `sysctl_sched_base_slice`).
const SLICE_NS: Nanos = 3 * MS;
/// A vCPU that expects to be idle for less does not look for threads of others (`sysctl_sched_migration_cost`).
const MIGRATION_COST_NS: Nanos = 500 * US;

/// A reservation is held over such a time: a few quanta (`Cpu.Quantum` 200 ms). Ours.
const PROMISE_NS: Nanos = 1_000 * MS;

/// A powered-on VM.
#[derive(Debug, Clone)]
pub(crate) struct Guest {
    pub(crate) first: u32,
    pub(crate) vcpus: u32,
    pub(crate) is_on: bool,
    pub(crate) is_watched: bool,
    /// Lag of the slowest vCPU.
    pub(crate) lag_ns: Nanos,
    pub(crate) system: GuestSystem,
    /// By vCPU: those that share its virtual last-level cache, and those of its virtual socket.
    pub(crate) domains: Vec<Range<u32>>,
    pub(crate) sockets: Vec<Range<u32>>,
    pub(crate) is_balancing: bool,
    /// CPU that it is promised, in thousandths.
    pub(crate) reservation: u32,
    /// What is left of the limit, less than nothing when several vCPUs used up the last of it at once, and the limit in
    /// thousandths of a CPU.
    limit: Option<(i64, u32)>,
    /// When the promise was last looked at, and what it was given by then.
    promised: (Nanos, Nanos),
    /// Running time of all vCPUs since power-on, and at the last observation.
    pub(crate) spent_ns: Nanos,
    pub(crate) wanted_before_ns: Nanos,
    pub(crate) observed_ns: Nanos,
}

impl Guest {
    pub(crate) fn new(first: u32, vcpus: u32, system: GuestSystem, limit: Option<u32>) -> Self {
        Self {
            first,
            vcpus,
            is_on: false,
            is_watched: false,
            lag_ns: 0,
            system,
            domains: Vec::new(),
            sockets: Vec::new(),
            is_balancing: false,
            reservation: 0,
            promised: (0, 0),
            limit: limit.map(|milli| (0, milli)),
            spent_ns: 0,
            wanted_before_ns: 0,
            observed_ns: 0,
        }
    }

    /// Its worlds.
    pub(crate) fn worlds(&self) -> Range<u32> {
        self.first..self.first + self.vcpus
    }

    pub(crate) fn spend(&mut self, time: Nanos) {
        self.spent_ns += time;
        if let Some((left, _)) = &mut self.limit {
            *left -= time as i64;
        }
    }

    /// Whether it has had less than it is promised, since the beginning of a window of time.
    pub(crate) fn is_owed(&self, now: Nanos) -> bool {
        let (since, spent) = self.promised;
        let due = (now - since) * Nanos::from(self.reservation) / 1000;
        self.spent_ns - spent < due
    }

    /// Begins a new window when the old one is over: what a VM did not want in the past is not owed to it.
    pub(crate) fn slide(&mut self, now: Nanos) {
        if now - self.promised.0 > PROMISE_NS {
            self.promised = (now, self.spent_ns);
        }
    }

    /// What is left of the limit; `None` is no limit.
    pub(crate) fn limit_left(&self) -> Option<Nanos> {
        self.limit.map(|(left, _)| left.max(0) as Nanos)
    }

    pub(crate) fn refill(&mut self, period: Nanos) {
        if let Some((left, milli)) = &mut self.limit {
            let quota = (period * Nanos::from(*milli) / 1000).max(1) as i64;
            *left = (*left + quota).min(quota);
        }
    }
}

impl Simulator<'_> {
    /// Makes a sleeping thread runnable: on the vCPU its guest chooses.
    pub(super) fn wake_thread(&mut self, thread: u32, waker: u32) {
        let guest = self.threads[thread as usize].guest;
        let vcpu = self.choose_vcpu(thread, waker);
        let world = self.guests[guest as usize].first + vcpu;
        self.threads[thread as usize].vcpu = vcpu;
        if waker != NONE && waker != world {
            let cost = self.hypervisor.costs.ipi_ns;
            self.add_debt(waker, cost);
            self.worlds[waker as usize].moves.ipis += 1;
        }
        self.append_thread(world, thread);
        match self.worlds[world as usize].state {
            State::Running => self.thread_came(world),
            State::Halted => self.wake_halted(world),
            _ => {}
        }
        if self.worlds[world as usize].queued > 0 {
            self.watch_guest(guest);
        }
    }

    /// A thread came to a vCPU that is on a CPU.
    fn thread_came(&mut self, world: u32) {
        let cpu = self.worlds[world as usize].cpu;
        self.end_poll(world);
        if self.worlds[world as usize].thread == NONE {
            self.settle_in(world);
        } else if self.worlds[world as usize].queued == 1 {
            self.worlds[world as usize].guest_slice_end = self.now + SLICE_NS;
        }
        if self.cpus[cpu as usize].world == world {
            self.settle(cpu);
            self.arm(cpu);
        }
    }

    /// Something came for a vCPU that is on a CPU: if it was polling, that is over.
    pub(super) fn end_poll(&mut self, world: u32) {
        if self.worlds[world as usize].is_polling() {
            self.settle(self.worlds[world as usize].cpu);
            let cost = self.hypervisor.costs.polled_wake_ns;
            self.add_debt(world, cost);
            self.note_idle_end(world, self.worlds[world as usize].poll_ns);
        }
    }

    /// Wakes a halted vCPU; its polling adapts to how long it slept.
    pub(super) fn wake_halted(&mut self, world: u32) {
        let slept = self.now - self.worlds[world as usize].since;
        self.note_idle_end(world, slept);
        let lag = self.guests[self.worlds[world as usize].guest as usize].lag_ns;
        let entry = &mut self.worlds[world as usize];
        entry.moves.wakeups += 1;
        // Who slept is neither ahead nor behind.
        entry.lag_ns = lag;
        if let Some(poll) = self.hypervisor.poll {
            entry.poll_ns = match entry.poll_ns {
                _ if slept > poll.max_ns => 0,
                0 => poll.start_ns,
                before => (before * Nanos::from(poll.grow)).min(poll.max_ns),
            };
        }
        let cost = self.hypervisor.costs.wake_ns;
        self.add_debt(world, cost);
        self.wake(world);
    }

    fn note_idle_end(&mut self, world: u32, idle: Nanos) {
        let entry = &mut self.worlds[world as usize];
        // `update_avg` of `kernel/sched/fair.c`: an eighth of the difference, at most twice the migration cost.
        let mean = entry.idle_mean_ns;
        entry.idle_mean_ns = (mean - mean / 8 + idle / 8).min(2 * MIGRATION_COST_NS);
    }

    fn append_thread(&mut self, world: u32, thread: u32) {
        self.threads[thread as usize].next = NONE;
        let entry = &mut self.worlds[world as usize];
        if entry.head == NONE {
            entry.head = thread;
        } else {
            self.threads[entry.tail as usize].next = thread;
        }
        entry.tail = thread;
        entry.queued += 1;
    }

    fn take_thread(&mut self, world: u32) -> u32 {
        let entry = &mut self.worlds[world as usize];
        let thread = entry.head;
        if thread != NONE {
            entry.head = self.threads[thread as usize].next;
            entry.queued -= 1;
        }
        thread
    }

    /// Gives a running vCPU without a thread its next one; without any it polls for a while.
    pub(super) fn settle_in(&mut self, world: u32) {
        if self.worlds[world as usize].thread != NONE {
            return;
        }
        let mut thread = self.take_thread(world);
        if thread == NONE && self.worlds[world as usize].idle_mean_ns >= MIGRATION_COST_NS {
            thread = self.pull_thread(world);
        }
        let entry = &mut self.worlds[world as usize];
        entry.thread = thread;
        entry.guest_slice_end = self.now + SLICE_NS;
        if thread == NONE {
            entry.poll_until = self.now + entry.poll_ns;
        } else {
            self.threads[thread as usize].vcpu = entry.vcpu;
        }
    }

    /// Lets the next thread of a vCPU have its turn when the slice of the current one is over.
    pub(super) fn turn_guest_slice(&mut self, world: u32) {
        let entry = &self.worlds[world as usize];
        if entry.queued == 0 || entry.thread == NONE || self.now < entry.guest_slice_end {
            return;
        }
        let thread = entry.thread;
        self.append_thread(world, thread);
        self.worlds[world as usize].thread = NONE;
        self.settle_in(world);
        // A switch between threads inside the guest: 1 to 2 us (reference model, section 2.3).
        self.worlds[world as usize].debt += work_of(1_500);
    }

    /// Takes a waiting thread from the vCPU of the guest that has most.
    fn pull_thread(&mut self, world: u32) -> u32 {
        let guest = &self.guests[self.worlds[world as usize].guest as usize];
        let others = guest.worlds().filter(|&other| other != world);
        let most =
            others.max_by_key(|&other| (self.worlds[other as usize].queued, u32::MAX - other));
        most.map_or(NONE, |other| self.take_thread(other))
    }

    /// Threads wait behind others while vCPUs are idle: the guest's balancer looks at it in its time, a millisecond for
    /// each CPU of the domain (`sd->balance_interval`).
    fn watch_guest(&mut self, guest: u32) {
        let entry = &mut self.guests[guest as usize];
        if entry.vcpus > 1 && !entry.is_balancing {
            entry.is_balancing = true;
            let interval = Nanos::from(entry.vcpus) * MS;
            self.queue
                .push(self.now + interval, Event::GuestBalance { guest });
        }
    }

    /// Idle vCPUs of a guest take threads that wait elsewhere.
    pub(super) fn guest_balance(&mut self, guest: u32) {
        self.guests[guest as usize].is_balancing = false;
        if !self.guests[guest as usize].is_on {
            return;
        }
        let worlds = self.guests[guest as usize].worlds();
        let mut waiting: u32 = worlds
            .clone()
            .map(|world| self.worlds[world as usize].queued)
            .sum();
        for world in worlds {
            if waiting == 0 {
                return;
            }
            let entry = &self.worlds[world as usize];
            if entry.state != State::Halted || entry.head != NONE {
                continue;
            }
            let thread = self.pull_thread(world);
            if thread == NONE {
                return;
            }
            waiting -= 1;
            self.threads[thread as usize].vcpu = self.worlds[world as usize].vcpu;
            self.append_thread(world, thread);
            self.wake_halted(world);
        }
        if waiting > 0 {
            self.watch_guest(guest);
        }
    }

    fn choose_vcpu(&self, thread: u32, waker: u32) -> u32 {
        let entry = &self.threads[thread as usize];
        let guest = &self.guests[entry.guest as usize];
        let waker = (waker != NONE).then(|| self.worlds[waker as usize].vcpu);
        match guest.system {
            GuestSystem::Linux => self.choose_as_linux(guest, entry.vcpu, waker),
            GuestSystem::Windows => self.choose_as_windows(guest, entry.vcpu, waker),
        }
    }

    /// `select_task_rq_fair`: the last vCPU or the waker's (`wake_affine`), then the next idle one in the virtual last-level
    /// cache of that (`select_idle_sibling`). Without a shared cache `sd_llc_size` stays 1 and nothing is searched
    /// (reference model, section 0, finding 6).
    fn choose_as_linux(&self, guest: &Guest, last: u32, waker: Option<u32>) -> u32 {
        let is_idle = |vcpu: u32| self.is_idle_vcpu(guest, vcpu);
        let domain = |vcpu: u32| guest.domains[vcpu as usize].clone();
        let target = match waker {
            Some(waker) if waker != last && !is_idle(last) => {
                let load = |vcpu: u32| self.load_of(guest, vcpu);
                if load(waker) < load(last) {
                    waker
                } else {
                    last
                }
            }
            _ => last,
        };
        if is_idle(target) {
            return target;
        }
        let domain = domain(target);
        if domain.contains(&last) && is_idle(last) {
            return last;
        }
        let after = (target + 1..domain.end).chain(domain.start..target);
        after
            .into_iter()
            .find(|&vcpu| is_idle(vcpu))
            .unwrap_or(target)
    }

    /// The ideal or last processor while each is a socket of its own; otherwise the next idle one of the socket, not the
    /// one that takes the interrupt if another is idle (claims S0-20, S0-21, S0-31).
    fn choose_as_windows(&self, guest: &Guest, last: u32, waker: Option<u32>) -> u32 {
        let is_idle = |vcpu: u32| self.is_idle_vcpu(guest, vcpu);
        let socket = guest.sockets[last as usize].clone();
        if socket.len() <= 1 {
            if is_idle(last) {
                return last;
            }
            let all = 0..guest.vcpus;
            let after = (last + 1..all.end).chain(0..last);
            return after
                .into_iter()
                .find(|&vcpu| is_idle(vcpu))
                .unwrap_or(last);
        }
        let after = || (last + 1..socket.end).chain(socket.start..=last);
        after()
            .find(|&vcpu| is_idle(vcpu) && Some(vcpu) != waker)
            .or_else(|| after().find(|&vcpu| is_idle(vcpu)))
            .unwrap_or(last)
    }

    /// Whether the guest sees a vCPU as idle. It cannot see whether the hypervisor runs it.
    fn is_idle_vcpu(&self, guest: &Guest, vcpu: u32) -> bool {
        let world = &self.worlds[(guest.first + vcpu) as usize];
        world.thread == NONE && world.head == NONE && world.inbox == NONE
    }

    fn load_of(&self, guest: &Guest, vcpu: u32) -> u32 {
        let world = &self.worlds[(guest.first + vcpu) as usize];
        world.queued + u32::from(world.thread != NONE)
    }
}
