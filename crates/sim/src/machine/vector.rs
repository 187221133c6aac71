//! What a workload asks of the hardware, as a vector of rates.

/// Cache for which [`Vector::misses_per_us`] is given: 2 MiB for each busy vCPU (reference model, section 2.6).
pub const REFERENCE_BYTES: f64 = 2.0 * 1024.0 * 1024.0;

/// Bytes of a cache line.
pub const LINE: f64 = 64.0;

/// Most misses or exchanges of a microsecond: one in each nanosecond, far above what a core can have under way.
pub const MOST_PER_US: f64 = 1000.0;

/// What a microsecond of a thread's own work does to the machine. *Own work* is time on a whole core with all data in
/// caches and nobody to share lines with; everything else slows it down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Vector {
    /// Speed when the core's other thread is busy, against 1 alone: 0.5 gains nothing from SMT, 1 suffers nothing.
    pub smt: f64,
    /// Misses of the last-level cache for each microsecond of own work, with [`REFERENCE_BYTES`].
    pub misses_per_us: f64,
    /// Exponent of the miss curve: misses fall with cache^-alpha.
    pub alpha: f64,
    /// Share of these misses that no cache can save (0 to 1).
    pub floor: f64,
    /// Bytes that one vCPU uses again and again: more cache than this saves nothing, and this is lost when it moves.
    pub working_set: f64,
    /// Misses that wait for memory at the same time, at least 1.
    pub mlp: f64,
    /// Cache lines exchanged with other vCPUs of the VM for each microsecond of own work.
    pub shared_lines_per_us: f64,
    /// Exchanges that wait at the same time, at least 1.
    pub sharing_mlp: f64,
}

impl Vector {
    /// Work that lives in registers and L1: only the other thread of the core matters.
    pub const COMPUTE: Self = Self {
        smt: 0.65,
        misses_per_us: 0.0,
        alpha: 0.5,
        floor: 0.0,
        working_set: 0.0,
        mlp: 4.0,
        shared_lines_per_us: 0.0,
        sharing_mlp: 1.0,
    };

    /// The vector with every field in its range; what is not a number becomes the end of the range that costs nothing.
    #[must_use]
    pub fn clamped(&self) -> Self {
        let within = |value: f64, low: f64, high: f64| value.max(low).min(high);
        Self {
            smt: if self.smt.is_nan() {
                1.0
            } else {
                within(self.smt, 0.1, 1.0)
            },
            misses_per_us: within(self.misses_per_us, 0.0, MOST_PER_US),
            alpha: within(self.alpha, 0.05, 2.0),
            floor: within(self.floor, 0.0, 1.0),
            working_set: self.working_set.max(0.0),
            mlp: within(self.mlp, 1.0, 1000.0),
            shared_lines_per_us: within(self.shared_lines_per_us, 0.0, MOST_PER_US),
            sharing_mlp: within(self.sharing_mlp, 1.0, 1000.0),
        }
    }
}
