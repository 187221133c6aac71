//! Random numbers: one stream for each purpose and user of it, so that a new draw in one place changes no draw in another,
//! and runs of two policies with one seed see the same arrivals and the same work ("common random numbers").

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Exp1, LogNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::time::{LONGEST_NS, Nanos};

/// A stream of random numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream(Xoshiro256PlusPlus);

/// What a stream is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// When requests arrive, how long users think.
    Arrivals,
    /// How much work a step is.
    Service,
    /// What devices and networks do.
    Device,
    /// What a dispatcher leaves to chance.
    Dispatch,
    /// What a guest's scheduler leaves to chance.
    Guest,
    /// Where a policy's choice is one of many (its pseudo-random state).
    Policy,
    /// When the timers of adapters tick.
    Network,
}

/// How a quantity varies. Times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Law {
    /// Always the same.
    Fixed {
        /// The value.
        mean_ns: Nanos,
    },
    /// Memoryless.
    Exponential {
        /// Its mean.
        mean_ns: Nanos,
    },
    /// Skewed with a tail, as service times of servers are.
    LogNormal {
        /// Its mean.
        mean_ns: Nanos,
        /// Standard deviation over mean, above 0.
        cv: f64,
    },
    /// Evenly between two values.
    Uniform {
        /// The least.
        from_ns: Nanos,
        /// The most, at least `from_ns`.
        to_ns: Nanos,
    },
}

impl Stream {
    /// The stream of a seed for the `index`th user of a purpose.
    pub fn new(seed: u64, purpose: Purpose, index: u32) -> Self {
        // SplitMix64's increments keep neighbouring (purpose, index) pairs apart; the generator's own seeding mixes them.
        let key = (purpose as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (u64::from(index) + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Self(Xoshiro256PlusPlus::seed_from_u64(seed ^ key))
    }

    /// A number below `limit`, which is above 0.
    pub fn below(&mut self, limit: u32) -> u32 {
        self.0.random_range(0..limit.max(1))
    }

    /// Whether something happens that has this probability.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.0.random::<f64>() < probability
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A value of a law, at most an hour.
    pub fn draw(&mut self, law: Law) -> Nanos {
        let value = match law {
            Law::Fixed { mean_ns } => return mean_ns.min(LONGEST_NS),
            Law::Uniform { from_ns, to_ns } => {
                return self
                    .0
                    .random_range(from_ns..=to_ns.max(from_ns))
                    .min(LONGEST_NS);
            }
            Law::Exponential { mean_ns } => {
                let unit: f64 = Exp1.sample(&mut self.0);
                unit * mean_ns as f64
            }
            Law::LogNormal { mean_ns, cv } => {
                let variance = (cv * cv).ln_1p();
                let unit = LogNormal::new(-variance / 2.0, variance.sqrt());
                unit.map_or(1.0, |unit| unit.sample(&mut self.0)) * mean_ns as f64
            }
        };
        (value.round() as Nanos).min(LONGEST_NS)
    }
}

impl Law {
    /// The mean, in nanoseconds.
    pub fn mean_ns(self) -> Nanos {
        match self {
            Self::Fixed { mean_ns }
            | Self::Exponential { mean_ns }
            | Self::LogNormal { mean_ns, .. } => mean_ns,
            Self::Uniform { from_ns, to_ns } => from_ns / 2 + to_ns / 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{MS, US};

    #[test]
    fn streams_repeat_and_differ() {
        let draw = |seed, purpose, index| Stream::new(seed, purpose, index).bits();
        let all = [
            draw(1, Purpose::Arrivals, 0),
            draw(1, Purpose::Arrivals, 1),
            draw(1, Purpose::Service, 0),
            draw(2, Purpose::Arrivals, 0),
        ];
        assert_eq!(all[0], draw(1, Purpose::Arrivals, 0));
        for (first, a) in all.iter().enumerate() {
            assert!(all[first + 1..].iter().all(|b| a != b));
        }
    }

    #[test]
    fn laws_have_their_mean() {
        let laws = [
            Law::Fixed { mean_ns: MS },
            Law::Exponential { mean_ns: MS },
            Law::LogNormal {
                mean_ns: MS,
                cv: 1.5,
            },
            Law::Uniform {
                from_ns: 500 * US,
                to_ns: 1500 * US,
            },
        ];
        for law in laws {
            let mut stream = Stream::new(7, Purpose::Service, 0);
            let count = 200_000;
            let sum: Nanos = (0..count).map(|_| stream.draw(law)).sum();
            let mean = sum as f64 / f64::from(count);
            assert!((mean / MS as f64 - 1.0).abs() < 0.02, "{law:?}: {mean}");
            assert_eq!(law.mean_ns(), MS);
        }
    }
}
