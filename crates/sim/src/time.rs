//! Time and work. Both are integers, so that sums never depend on their order and nothing is lost to rounding.

/// Simulated time since the start of a run, or a span of it, in nanoseconds.
pub type Nanos = u64;

/// A microsecond.
pub const US: Nanos = 1_000;
/// A millisecond.
pub const MS: Nanos = 1_000_000;
/// A second.
pub const S: Nanos = 1_000_000_000;

/// Work in units of which a thread at full speed does [`FULL_SPEED`] in a nanosecond.
pub type Work = u64;

/// Speed of a thread that has a core to itself and all its data in caches, in units of work per nanosecond.
pub const FULL_SPEED: u32 = 1 << 16;

/// The longest span that is scheduled as one piece of work: work of an hour at full speed is far from overflow.
pub const LONGEST_NS: Nanos = 3_600 * S;

/// Work that takes a time at full speed.
pub fn work_of(time: Nanos) -> Work {
    time.min(LONGEST_NS) * Work::from(FULL_SPEED)
}

/// Time that work takes at a speed above 0, rounded up: at the end of it the work is done.
pub fn time_of(work: Work, speed: u32) -> Nanos {
    work.div_ceil(Work::from(speed.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_time_are_inverse_at_full_speed() {
        for time in [0, 1, 7, US, S, LONGEST_NS] {
            assert_eq!(time_of(work_of(time), FULL_SPEED), time);
        }
        assert_eq!(time_of(work_of(S), FULL_SPEED / 2), 2 * S);
        assert_eq!(time_of(1, FULL_SPEED), 1);
    }
}
