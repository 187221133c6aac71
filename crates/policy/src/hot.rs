//! The fast path: who runs next, where a woken vCPU goes, and when an idle CPU may take another LLC's work.
//!
//! ```text
//!   wakes up ──▶ wake_vtime ──▶ seat ──┬─▶ a CPU at home ◀── preempts
//!                                      ├─▶ a CPU of another LLC
//!                                      └─▶ Wait: the queue of the home LLC, ordered by virtual time
//!   CPU is free ──▶ its own queue, else another one if may_steal ──▶ slice ──▶ runs ──▶ charge
//! ```
//!
//! The functions are C, in `crates/policy/hot/dispatch.h`, because a BPF scheduler includes the same source: what is
//! simulated is what runs. They are pure and have an answer for every input. Who calls them keeps the queues, one per
//! LLC, and the masks of what is idle.
//!
//! *Virtual time* is nanoseconds of CPU time at [`model::tenant::NORMAL_SHARES`]. The *clock* of a queue is the largest
//! virtual time that it has started. A vCPU's virtual time belongs to the queue of its home, wherever it runs; those of
//! two queues do not compare.
//!
//! A *distance* is a class: 0 the same LLC, 1 the same quadrant or die, 2 the same package, 3 (and more) another one.

use std::ops::{BitOr, BitOrAssign};

/// What is idle for a vCPU that wakes up: a set, put together with `|`.
///
/// Only where it may run: what the slow path forbids is not idle for it. A whole core is idle when all its CPUs are;
/// whether its threads are then said to be idle too does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Idle(u32);

impl Idle {
    /// Nothing is idle.
    pub const NONE: Self = Self(0);
    /// The CPU at home where it ran last, and its whole core.
    pub const PREV_CORE: Self = Self(1);
    /// A whole core at home.
    pub const HOME_CORE: Self = Self(2);
    /// The CPU at home where it ran last.
    pub const PREV_THREAD: Self = Self(4);
    /// A CPU at home.
    pub const HOME_THREAD: Self = Self(8);
    /// A whole core of the nearest other LLC that has an idle CPU.
    pub const AWAY_CORE: Self = Self(16);
    /// A CPU of that LLC.
    pub const AWAY_THREAD: Self = Self(32);

    /// Whether all of `other` is in it.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Idle {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Idle {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

/// Where a woken vCPU goes. All but [`Seat::Wait`] name what was idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Seat {
    /// The CPU where it ran last, whose whole core is idle.
    PrevCore,
    /// A CPU of an idle core at home.
    HomeCore,
    /// The CPU where it ran last; a sibling is busy.
    PrevThread,
    /// An idle CPU at home; a sibling is busy.
    HomeThread,
    /// A CPU of an idle core of the nearest other LLC.
    AwayCore,
    /// An idle CPU of the nearest other LLC; a sibling is busy.
    AwayThread,
    /// The queue of its home.
    Wait,
}

/// The virtual time of a vCPU that had `vtime` and then ran for `ran_ns`.
///
/// Twice the `weight` (shares; 0 counts as 1) lets it pass half as fast. Rounded up, so that no run is free; saturates.
#[inline]
pub fn charge(vtime: u64, ran_ns: u64, weight: u32) -> u64 {
    vtopo_charge(vtime, ran_ns, weight)
}

/// The virtual time at which a vCPU that slept with `vtime` enters a queue whose clock is `queue_vtime`: it keeps at
/// most one slice of credit.
#[inline]
pub fn wake_vtime(vtime: u64, queue_vtime: u64, slice_ns: u64) -> u64 {
    vtopo_wake_vtime(vtime, queue_vtime, slice_ns)
}

/// The virtual time of a vCPU whose home changes from a queue with clock `from_vtime` to one with clock `to_vtime`: it
/// stays as far before or behind.
#[inline]
pub fn move_vtime(vtime: u64, from_vtime: u64, to_vtime: u64) -> u64 {
    vtopo_move_vtime(vtime, from_vtime, to_vtime)
}

/// How long a vCPU may run, in nanoseconds, when `waiting` wait at an LLC of `cpus` CPUs: `base_ns`, and less when more
/// wait than there are CPUs, but not below 500 us and never above `base_ns`.
#[inline]
pub fn slice(base_ns: u64, waiting: u32, cpus: u32) -> u64 {
    vtopo_slice(base_ns, waiting, cpus)
}

/// Whether a woken vCPU takes the CPU of a running one of the same queue at once: only if it is behind by more than a
/// slice. `running_vtime` counts up to now.
#[inline]
pub fn preempts(running_vtime: u64, woken_vtime: u64, slice_ns: u64) -> bool {
    vtopo_preempts(running_vtime, woken_vtime, slice_ns)
}

/// How long the head of a queue must have waited, in nanoseconds, before a CPU at that distance is worth going to, when
/// `waiting` wait there, the head included. [`may_steal`] turns true at this time: a dispatcher may set a timer by it.
#[inline]
pub fn patience(distance: u32, waiting: u32) -> u64 {
    vtopo_patience(distance, waiting)
}

/// Where a woken vCPU goes.
///
/// A whole core at home, the last one first; a thread at home, the last one first; away only when the queue at home
/// would make it wait for longer than the way is worth; else it waits. `distance` is the class of the LLC that the
/// `AWAY` flags speak of, `waited_ns` how long the head of the home's queue has waited, `waiting` how many wait there.
#[inline]
pub fn seat(idle: Idle, distance: u32, waited_ns: u64, waiting: u32) -> Seat {
    match Idle(vtopo_seat(idle.0, distance, waited_ns, waiting)) {
        Idle::PREV_CORE => Seat::PrevCore,
        Idle::HOME_CORE => Seat::HomeCore,
        Idle::PREV_THREAD => Seat::PrevThread,
        Idle::HOME_THREAD => Seat::HomeThread,
        Idle::AWAY_CORE => Seat::AwayCore,
        Idle::AWAY_THREAD => Seat::AwayThread,
        _ => Seat::Wait,
    }
}

/// Whether an idle CPU at that distance may take the head of a queue. `waited_ns` is how long the head has waited,
/// `waiting` how many wait there, the head included. At distance 0 the queue is the CPU's own.
#[inline]
pub fn may_steal(distance: u32, waited_ns: u64, waiting: u32) -> bool {
    vtopo_may_steal(distance, waited_ns, waiting)
}

// SAFETY: `build.rs` compiles these from `hot/dispatch.h`, whose functions have the same types (C's `bool` is Rust's).
// They take and give integers by value, touch no memory, and are defined for every input; hence each is `safe`.
#[expect(unsafe_code, reason = "C, so that BPF can have the same source")]
unsafe extern "C" {
    safe fn vtopo_charge(vtime: u64, ran_ns: u64, weight: u32) -> u64;
    safe fn vtopo_wake_vtime(vtime: u64, queue_vtime: u64, slice_ns: u64) -> u64;
    safe fn vtopo_move_vtime(vtime: u64, from_vtime: u64, to_vtime: u64) -> u64;
    safe fn vtopo_slice(base_ns: u64, waiting: u32, cpus: u32) -> u64;
    safe fn vtopo_preempts(running_vtime: u64, woken_vtime: u64, slice_ns: u64) -> bool;
    safe fn vtopo_patience(distance: u32, waiting: u32) -> u64;
    safe fn vtopo_seat(idle: u32, distance: u32, waited_ns: u64, waiting: u32) -> u32;
    safe fn vtopo_may_steal(distance: u32, waited_ns: u64, waiting: u32) -> bool;
}

#[cfg(test)]
mod tests;
