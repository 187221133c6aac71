//! What a last-level cache holds of whom, and what is missed for that.
//!
//! Misses fall with the cache by a power law, `m(c) = m0 (c / 2 MiB)^-alpha`, down to a floor, and to the floor at once
//! where the working set fits. Who brings in more lines holds more: occupancies solve
//! `c_i = C r_i m_i(c_i) / sum of r_j m_j(c_j)` (reference model, section 2.2), none above its working set. Both sides
//! only depend on how long everybody ran, not on how fast, so that more cache or fewer neighbours never hurt anybody.

use super::vector::{MOST_PER_US, REFERENCE_BYTES, Vector};

/// Most rounds of a [`share`]; 5 to 10 (reference model, section 2.2).
const ROUNDS: u32 = 10;
/// How far a round goes to its target. The plain iteration multiplies an error by -alpha; this takes all of it away for
/// alpha 0.5.
const DAMPING: f64 = 2.0 / 3.0;
/// Change of occupancies, as a share of the cache, at which rounds end; the next epoch goes on from there. Ours.
const TOLERANCE: f64 = 1e-4;
/// Less than this part of the anchor is as good as nothing: own caches of the cores serve from here on. Ours.
const LEAST: f64 = 1.0 / 64.0;
/// Part of the working set from where misses leave the power law for the floor, which is reached at the whole. Ours, so
/// that a few bytes more or less never change much.
const KNEE: f64 = 0.5;
/// Fixed point of sums, so that they do not depend on their order: units of a byte or of a miss each us.
const UNIT: f64 = 65_536.0;

/// The miss curve of a vector, prepared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Curve {
    /// Misses each us of own work at the anchor.
    misses_per_us: f64,
    alpha: f64,
    floor: f64,
    /// Bytes at which `misses_per_us` holds: the reference, or where the knee begins in a smaller set.
    anchor: f64,
    /// The working set in bytes.
    pub working_set: f64,
    /// Misses against the anchor's where the knee begins.
    at_knee: f64,
}

/// Something that shares an LLC: the vCPUs of a VM that ran under it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sharer {
    /// What it misses.
    pub curve: Curve,
    /// Time for which it ran, over the time: 2 are two busy vCPUs.
    pub busy: f64,
    /// Working sets that it brings, at least 1: two vCPUs bring two, but one that comes and goes brings no second one.
    pub sets: f64,
    /// Bytes that it holds; the last value is where the search begins, 0 for a newcomer.
    pub bytes: f64,
    /// What it inserts, in fixed point; scratch.
    inserts: u64,
}

impl Curve {
    /// The curve of a vector, whose fields are brought into their ranges.
    pub fn new(vector: &Vector) -> Self {
        let vector = vector.clamped();
        let knee = KNEE * vector.working_set;
        let mut curve = Self {
            misses_per_us: vector.misses_per_us,
            alpha: vector.alpha,
            floor: vector.floor,
            anchor: REFERENCE_BYTES.min(knee),
            working_set: vector.working_set,
            at_knee: 0.0,
        };
        curve.at_knee = curve.power(knee);
        curve
    }

    /// Misses for each us of own work with so much cache for one working set. Without a working set nothing is used again,
    /// and all cache is in vain.
    pub fn misses_per_us(&self, bytes: f64) -> f64 {
        let knee = KNEE * self.working_set;
        let share = if self.anchor <= 0.0 {
            1.0
        } else if bytes <= knee {
            self.power(bytes)
        } else if bytes < self.working_set {
            let beyond = (bytes - knee) / (self.working_set - knee);
            self.at_knee + (self.floor - self.at_knee) * beyond
        } else {
            self.floor
        };
        (self.misses_per_us * share).min(MOST_PER_US)
    }

    /// Lines inserted for each us of own work: without the knee, since what is capped by the working set is capped there.
    fn inserts_per_us(&self, bytes: f64) -> f64 {
        if self.anchor <= 0.0 {
            return self.misses_per_us;
        }
        (self.misses_per_us * self.power(bytes)).min(MOST_PER_US)
    }

    fn power(&self, bytes: f64) -> f64 {
        let size = (bytes / self.anchor).max(LEAST);
        let is_square_root = (self.alpha - 0.5).abs() < 1e-12;
        let power = if is_square_root {
            1.0 / size.sqrt()
        } else {
            size.powf(-self.alpha)
        };
        power.max(self.floor)
    }
}

/// Misses for each us of own work with so much cache for one working set.
pub fn misses_per_us(vector: &Vector, bytes: f64) -> f64 {
    Curve::new(vector).misses_per_us(bytes)
}

impl Sharer {
    /// A newcomer.
    pub fn new(curve: Curve, busy: f64, sets: f64) -> Self {
        Self {
            curve,
            busy,
            sets,
            bytes: 0.0,
            inserts: 0,
        }
    }

    /// Misses of each of its vCPUs for each us of own work.
    pub fn misses_per_us(&self) -> f64 {
        self.curve.misses_per_us(self.bytes / self.sets)
    }

    fn wanted(&self, capacity: f64) -> f64 {
        (self.curve.working_set * self.sets).min(capacity)
    }
}

/// Divides an LLC of so many bytes, by changing [`Sharer::bytes`]. The order of the sharers does not matter.
pub fn share(capacity: f64, sharers: &mut [Sharer]) {
    let wanted: u64 = sharers
        .iter()
        .map(|sharer| fixed(sharer.wanted(capacity)))
        .sum();
    if wanted <= fixed(capacity) {
        for sharer in sharers {
            sharer.bytes = sharer.wanted(capacity);
        }
        return;
    }
    let equal = capacity / sharers.len() as f64;
    for sharer in &mut *sharers {
        if sharer.bytes <= 0.0 {
            sharer.bytes = equal.min(sharer.wanted(capacity));
        }
    }
    for _ in 0..ROUNDS {
        if round(capacity, sharers) <= TOLERANCE * capacity {
            return;
        }
    }
}

/// One damped step; returns the largest change in bytes.
fn round(capacity: f64, sharers: &mut [Sharer]) -> f64 {
    for sharer in &mut *sharers {
        let rate = sharer.curve.inserts_per_us(sharer.bytes / sharer.sets);
        sharer.inserts = fixed(sharer.busy * rate);
    }
    let level = level(capacity, sharers);
    let mut change = 0.0_f64;
    for sharer in sharers {
        let target = (level * sharer.inserts as f64).min(sharer.wanted(capacity));
        let step = DAMPING * (target - sharer.bytes);
        sharer.bytes += step;
        change = change.max(step.abs());
    }
    change
}

/// Bytes for each unit of insertion so that all is divided, nobody above what it wants.
fn level(capacity: f64, sharers: &[Sharer]) -> f64 {
    let mut level = 0.0;
    // Each pass gives what the capped leave to the others; ends when nobody new is capped.
    for _ in 0..ROUNDS {
        let (mut left, mut inserts) = (fixed(capacity), 0_u64);
        for sharer in sharers {
            let wanted = sharer.wanted(capacity);
            if level * sharer.inserts as f64 >= wanted {
                left = left.saturating_sub(fixed(wanted));
            } else {
                inserts += sharer.inserts;
            }
        }
        if inserts == 0 {
            break;
        }
        let next = left as f64 / UNIT / inserts as f64;
        if next <= level {
            break;
        }
        level = next;
    }
    level
}

fn fixed(value: f64) -> u64 {
    (value * UNIT) as u64
}

#[cfg(test)]
mod tests;
