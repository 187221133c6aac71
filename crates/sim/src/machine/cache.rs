//! One last-level cache and those who share it.
//!
//! Everybody fills it as fast as he misses, and what he fills in displaces what is there, whoever's it is. In the steady
//! state shares of the cache are therefore as shares of the misses: `c_i = C r_i m_i(c_i) / sum` (reference model, section
//! 2.2), found by iteration. Nobody holds more than he uses again; what he leaves is the others'.

use super::vector::{REFERENCE_BYTES, Vector};

/// Iterations of the fixed point in one settlement; it goes on from the last one's answer (section 2.2: 5 to 10).
const ITERATIONS: usize = 6;
/// A cache holds a little of everybody who uses it: a 4 KiB page.
const LEAST_BYTES: f64 = 4096.0;

/// Somebody who uses a cache.
#[derive(Debug, Clone, Copy)]
pub struct Sharer {
    /// What he does.
    pub vector: Vector,
    /// How much of the time he runs there, above 0.
    pub busy: f64,
    /// What he holds, in bytes: the last answer before, the new one after.
    pub held: f64,
}

/// Misses for each microsecond of own work with so much cache: a power law, down to what no cache can save; with the
/// whole working set in the cache nothing else is left.
pub fn misses_per_us(vector: &Vector, bytes: f64) -> f64 {
    let floor = vector.misses_per_us * vector.floor;
    if bytes >= vector.working_set {
        return floor;
    }
    let law = vector.misses_per_us * (bytes.max(LEAST_BYTES) / REFERENCE_BYTES).powf(-vector.alpha);
    law.max(floor)
}

/// Shares a cache of so many bytes.
pub fn share(capacity: f64, sharers: &mut [Sharer]) {
    let wanted = |sharer: &Sharer| sharer.vector.working_set.max(LEAST_BYTES);
    let all: f64 = sharers.iter().map(wanted).sum();
    if all <= capacity {
        for sharer in sharers {
            sharer.held = sharer.vector.working_set.max(LEAST_BYTES);
        }
        return;
    }
    let even = capacity / sharers.len().max(1) as f64;
    for sharer in sharers.iter_mut() {
        if sharer.held <= 0.0 {
            sharer.held = even.min(wanted(sharer));
        }
    }
    for _ in 0..ITERATIONS {
        let pressure = |sharer: &Sharer| {
            // Those who hold all they use press as if they held a little less: otherwise they would lose it again.
            let bytes = sharer.held.min(0.95 * wanted(sharer));
            (sharer.busy * misses_per_us(&sharer.vector, bytes)).max(1e-9)
        };
        let sum: f64 = sharers.iter().map(pressure).sum();
        let mut left = capacity;
        let mut left_sum = sum;
        for sharer in sharers.iter_mut() {
            let press = pressure(sharer);
            let fair = (capacity * press / sum).min(wanted(sharer));
            left -= fair;
            if fair < wanted(sharer) {
                // Half-way, so that it does not swing.
                sharer.held = f64::midpoint(sharer.held, fair);
            } else {
                sharer.held = fair;
                left_sum -= press;
            }
        }
        hand_out(sharers, left, left_sum, wanted);
    }
}

/// What some do not want goes to the others by their pressure on the cache.
fn hand_out(sharers: &mut [Sharer], left: f64, sum: f64, wanted: impl Fn(&Sharer) -> f64) {
    if left <= 0.0 || sum <= 0.0 {
        return;
    }
    let room: f64 = sharers
        .iter()
        .map(|sharer| wanted(sharer) - sharer.held)
        .sum();
    if room <= 0.0 {
        return;
    }
    let part = (left / room).min(1.0);
    for sharer in sharers {
        sharer.held += (wanted(sharer) - sharer.held) * part / 2.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1024.0 * 1024.0;

    fn sharer(misses_per_us: f64, working_set_mib: f64, busy: f64) -> Sharer {
        let vector = Vector {
            misses_per_us,
            working_set: working_set_mib * MIB,
            ..Vector::COMPUTE
        };
        Sharer {
            vector,
            busy,
            held: 0.0,
        }
    }

    fn settled(capacity_mib: f64, mut sharers: Vec<Sharer>) -> Vec<f64> {
        for _ in 0..20 {
            share(capacity_mib * MIB, &mut sharers);
        }
        sharers.iter().map(|sharer| sharer.held / MIB).collect()
    }

    #[test]
    fn equals_share_equally_and_fill_the_cache() {
        let held = settled(16.0, vec![sharer(5.0, 64.0, 1.0); 4]);
        for mib in held {
            assert!((mib - 4.0).abs() < 0.01, "{mib}");
        }
    }

    #[test]
    fn alone_one_holds_what_he_uses_or_what_there_is() {
        assert!((settled(16.0, vec![sharer(5.0, 3.0, 0.1)])[0] - 3.0).abs() < 1e-9);
        assert!((settled(16.0, vec![sharer(5.0, 64.0, 0.1)])[0] - 16.0).abs() < 0.05);
    }

    /// With exponent a and rates r, `c_i` is proportional to `r_i^(1 / (1 + a))`.
    #[test]
    fn two_power_laws_have_the_closed_form() {
        let held = settled(16.0, vec![sharer(8.0, 1e6, 1.0), sharer(1.0, 1e6, 1.0)]);
        let ratio = 8.0_f64.powf(1.0 / 1.5);
        assert!((held[0] / held[1] / ratio - 1.0).abs() < 0.02, "{held:?}");
        assert!((held[0] + held[1] - 16.0).abs() < 0.05, "{held:?}");
    }

    #[test]
    fn who_wants_little_leaves_the_rest_to_others() {
        let held = settled(16.0, vec![sharer(50.0, 2.0, 1.0), sharer(1.0, 64.0, 1.0)]);
        assert!(held[0] > 1.6 && held[0] <= 2.0 + 1e-9, "{held:?}");
        assert!(held[0] + held[1] <= 16.0 + 0.05, "{held:?}");
        assert!(held[1] > 13.0, "{held:?}");
    }

    #[test]
    fn more_cache_never_means_more_misses() {
        let vector = sharer(5.0, 8.0, 1.0).vector;
        let misses: Vec<f64> = (0..100)
            .map(|step| misses_per_us(&vector, f64::from(step) * 0.2 * MIB))
            .collect();
        assert!(misses.windows(2).all(|pair| pair[0] >= pair[1]));
        assert!((misses_per_us(&vector, 2.0 * MIB) - 5.0).abs() < 1e-9);
    }
}
