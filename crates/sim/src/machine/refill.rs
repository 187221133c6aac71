//! What a move of a vCPU costs: what it had in caches that it cannot reach from where it is now.

use super::fabric::LINE;
use super::vector::Vector;
use crate::time::Nanos;

/// Lines that are fetched at the same time after a move (reference model, section 2.3: memory parallelism about 8).
const MLP: f64 = 8.0;
/// A core fills its L2 with a line in 10 ns at most (L3 of Rome: 34 cycles, 10.3 ns).
const L2_LINE_NS: f64 = 10.3;

/// Time to fetch so many bytes from somewhere that a line takes so long from.
pub fn time_ns(bytes: f64, line_ns: f64) -> Nanos {
    (bytes / LINE * line_ns / MLP).round() as Nanos
}

/// What a vCPU can have loaded into L2 while it ran for so long.
pub fn loaded_l2(vector: &Vector, l2_bytes: f64, ran: Nanos) -> f64 {
    (ran as f64 / L2_LINE_NS * LINE)
        .min(l2_bytes)
        .min(vector.working_set)
}

/// To another core under the same LLC: its L2 comes from there.
pub fn within_llc_ns(vector: &Vector, l2_bytes: f64, ran: Nanos) -> Nanos {
    time_ns(loaded_l2(vector, l2_bytes, ran), L2_LINE_NS)
}

/// What a vCPU can have in an LLC after it ran there for so long, with so many misses for each microsecond.
pub fn loaded_llc(vector: &Vector, held: f64, misses_per_us: f64, ran: Nanos) -> f64 {
    (ran as f64 / 1000.0 * misses_per_us * LINE)
        .min(held)
        .min(vector.working_set)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference model, section 2.3: 512 KiB of L2 about 10 us, 4 MiB from another LLC 0.8 ms, 16 MiB 3.3 ms.
    #[test]
    fn refills_take_what_the_reference_says() {
        let vector = Vector {
            working_set: 64e6,
            misses_per_us: 10.0,
            ..Vector::COMPUTE
        };
        let l2 = within_llc_ns(&vector, 512.0 * 1024.0, 1_000_000);
        assert!((9_000..12_000).contains(&l2), "{l2}");
        let mib = 1024.0 * 1024.0;
        for (bytes, us) in [(4.0 * mib, 819), (16.0 * mib, 3_276)] {
            assert_eq!(time_ns(bytes, 100.0) / 1000, us);
        }
        assert!(loaded_llc(&vector, 4.0 * mib, 10.0, 100_000) < 65_000.0);
    }
}
