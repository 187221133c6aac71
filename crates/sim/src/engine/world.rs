//! A world: what the hypervisor schedules.

use crate::outcome::{Moves, Times};
use crate::time::{Nanos, Work};

use super::NONE;

/// What a world is doing. It changes through `Simulator::set_state` only, which keeps the books.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Its VM is not powered on.
    Off,
    /// Nothing to do.
    Halted,
    /// Waits for a CPU in a queue.
    Ready,
    /// On a CPU.
    Running,
    /// Stopped because it is ahead of its siblings.
    Costopped,
    /// Stopped because its VM has used up its limit.
    Limited,
}

/// What a world is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It runs threads of a guest, and takes packets for them.
    Vcpu,
    /// A thread of the host that moves packets.
    System,
}

/// A vCPU or a system thread.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) kind: Kind,
    /// Its VM; `NONE` is a system thread for all of them.
    pub(crate) guest: u32,
    /// Its number; `NONE` for a system thread.
    pub(crate) vcpu: u32,
    pub(crate) state: State,
    /// Since when, in its state.
    pub(crate) since: Nanos,
    /// The CPU it is on, or was last.
    pub(crate) cpu: u32,
    pub(crate) home_llc: u32,
    /// Where it may run, an index into the simulator's masks.
    pub(crate) mask: u32,
    pub(crate) weight: u32,
    pub(crate) vtime: u64,
    /// Queue it waits in, when it is ready.
    pub(crate) queue: u32,
    /// Work besides its threads': switches, interrupts, refilled caches.
    pub(crate) debt: Work,
    /// Speed alone on a core, and next to a busy thread, on the LLC where it is.
    pub(crate) alone: u32,
    pub(crate) paired: u32,
    /// The thread on it.
    pub(crate) thread: u32,
    /// Threads that wait for it, first and last.
    pub(crate) head: u32,
    pub(crate) tail: u32,
    pub(crate) queued: u32,
    /// Threads that interrupts woke while it was not running.
    pub(crate) inbox: u32,
    /// Packets that it has to work on before anything else, first and last; how many of them it works on now, and how much
    /// of that is left.
    pub(crate) jobs: u32,
    pub(crate) jobs_tail: u32,
    pub(crate) batch: u32,
    pub(crate) packet_todo: Work,
    pub(crate) guest_slice_end: Nanos,
    /// How long it polls before it halts, and until when it polls now.
    pub(crate) poll_ns: Nanos,
    pub(crate) poll_until: Nanos,
    /// Time it could not go on although it wanted to, for co-scheduling.
    pub(crate) lag_ns: Nanos,
    /// How long it has run on the LLC on which it is.
    pub(crate) warm_ns: Nanos,
    /// Mean idle time between two busy periods, as the guest's scheduler estimates it.
    pub(crate) idle_mean_ns: Nanos,
    /// Time it ran or wanted to, since power-on.
    pub(crate) wanted_ns: Nanos,
    pub(crate) time: Times,
    pub(crate) moves: Moves,
}

impl World {
    pub(crate) fn new(guest: u32, vcpu: u32, weight: u32) -> Self {
        Self {
            kind: Kind::Vcpu,
            guest,
            vcpu,
            state: State::Off,
            since: 0,
            cpu: 0,
            home_llc: 0,
            mask: 0,
            weight,
            vtime: 0,
            queue: NONE,
            debt: 0,
            alone: crate::time::FULL_SPEED,
            paired: crate::time::FULL_SPEED,
            thread: NONE,
            head: NONE,
            tail: NONE,
            queued: 0,
            inbox: NONE,
            jobs: NONE,
            jobs_tail: NONE,
            batch: 0,
            packet_todo: 0,
            guest_slice_end: 0,
            poll_ns: 0,
            poll_until: 0,
            lag_ns: 0,
            warm_ns: 0,
            idle_mean_ns: 0,
            wanted_ns: 0,
            time: Times::default(),
            moves: Moves::default(),
        }
    }

    /// It was on a CPU for so long.
    pub(crate) fn run(&mut self, spent: Nanos, is_paired: bool, llc: u32) {
        self.time.run_ns += spent;
        self.warm_ns += spent;
        if is_paired {
            self.time.paired_ns += spent;
        }
        if llc == self.home_llc {
            self.time.home_ns += spent;
        }
    }

    /// Does so much work, what is owed first, then packets; what is left is its thread's.
    pub(crate) fn work_off(&mut self, mut work: Work, speed: u32) -> Work {
        let paid = work.min(self.debt);
        self.debt -= paid;
        work -= paid;
        self.time.overhead_ns += paid / Work::from(speed.max(1));
        let packets = work.min(self.packet_todo);
        self.packet_todo -= packets;
        work - packets
    }

    /// Whether it is on a CPU without anything to do, waiting a moment before it halts.
    pub(crate) fn is_polling(&self) -> bool {
        self.state == State::Running && self.thread == NONE && self.debt == 0 && !self.has_packets()
    }

    /// Whether packets wait for it, or it works on some.
    pub(crate) fn has_packets(&self) -> bool {
        self.jobs != NONE || self.batch > 0
    }
}
