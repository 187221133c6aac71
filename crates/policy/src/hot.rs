//! Temporary twin of the fast path.
#![allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Idle {
    pub prev_core: bool,
    pub prev_thread: bool,
    pub home_core: bool,
    pub home_thread: bool,
    pub away_core: bool,
    pub away_thread: bool,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    PrevCore,
    PrevThread,
    HomeCore,
    HomeThread,
    AwayCore,
    AwayThread,
    Wait,
}
pub fn charge(vtime: u64, ran: u64, weight: u32) -> u64 {
    vtime + ran * 1000 / u64::from(weight.max(1))
}
pub fn wake_vtime(vtime: u64, queue: u64, slice: u64) -> u64 {
    vtime.max(queue.saturating_sub(slice))
}
pub fn slice(base: u64, waiting: u32, cpus: u32) -> u64 {
    (base * u64::from(cpus.max(1)) / u64::from(cpus.max(1) + waiting)).max(500_000)
}
pub fn preempts(running: u64, woken: u64, slice: u64) -> bool {
    running > woken.saturating_add(slice)
}
pub fn seat(idle: Idle, distance: u32, waited: u64, waiting: u32) -> Seat {
    if idle.prev_core {
        Seat::PrevCore
    } else if idle.home_core {
        Seat::HomeCore
    } else if idle.prev_thread {
        Seat::PrevThread
    } else if idle.home_thread {
        Seat::HomeThread
    } else if idle.away_core && (waited > 1_000_000 * u64::from(distance) || waiting > 2 * distance)
    {
        Seat::AwayCore
    } else if idle.away_thread && waited > 2_000_000 * u64::from(distance) {
        Seat::AwayThread
    } else {
        Seat::Wait
    }
}
pub fn may_steal(distance: u32, waited: u64, _waiting: u32) -> bool {
    waited > 1_000_000 * u64::from(distance)
}
