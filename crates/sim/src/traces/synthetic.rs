//! A trace like that of a cloud, from a seed: many small VMs, most of them short-lived, more by day than by night. For tests,
//! benchmarks and people without a trace. Its shape follows what the Huawei data set says of itself (two thirds of the requests
//! are of one CPU, the number of VMs grows for weeks); every number is ours, none is fitted, no row is copied.

use super::{Trace, TraceVm};
use crate::rng::{Law, Purpose, Stream};
use crate::time::S;

/// What is drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// Of the random numbers.
    pub seed: u64,
    /// Length, in seconds.
    pub span_s: u32,
    /// Arrivals a day, on average.
    pub vms_per_day: u32,
    /// How far the rate of arrivals swings around its mean in a day, 0 to 1000: 1000 is none at midnight, twice the mean at noon.
    pub swing_permille: u32,
    /// Sizes and how often each is asked for.
    pub sizes: Vec<SizeShare>,
    /// How long VMs live, and how often each law applies.
    pub lives: Vec<LifeShare>,
}

/// A size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeShare {
    /// CPUs.
    pub cpus: u32,
    /// Memory in GiB.
    pub memory_gib: u32,
    /// How often, relative to the other sizes.
    pub weight: u32,
}

/// A law of lifetimes: exponential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifeShare {
    /// Its mean in seconds.
    pub mean_s: u32,
    /// How often, relative to the other laws.
    pub weight: u32,
}

const DAY_S: u64 = 86_400;
/// Arrivals of a trace; ours. A month of the default has some 125,000.
const MAX_ARRIVALS: usize = 10_000_000;

impl Default for Parameters {
    fn default() -> Self {
        let size = |cpus, memory_gib, weight| SizeShare {
            cpus,
            memory_gib,
            weight,
        };
        Self {
            seed: 1,
            span_s: 86_400,
            // Ours: as many a day as the data set's 125,430 in 30 days, rounded.
            vms_per_day: 4_200,
            // Ours.
            swing_permille: 400,
            // Ours: small ones first, as in "1U1G, 1U2G, 2U4G and 4U8G" of the data set's description.
            sizes: vec![
                size(1, 1, 35),
                size(1, 2, 33),
                size(2, 4, 15),
                size(4, 8, 10),
                size(2, 8, 2),
                size(8, 16, 4),
                size(16, 32, 1),
            ],
            // Ours: most for half an hour, every fifth for ten days, so that some thousand are there after weeks.
            lives: vec![
                LifeShare {
                    mean_s: 1_800,
                    weight: 4,
                },
                LifeShare {
                    mean_s: 864_000,
                    weight: 1,
                },
            ],
        }
    }
}

/// Draws a trace. Times are whole seconds, and every VM lives for one at least; who lives beyond the end has no end.
pub fn trace(parameters: &Parameters) -> Trace {
    let draw = |index| Stream::new(parameters.seed, Purpose::Arrivals, index);
    let [mut arrivals, mut sizes, mut lives] = [draw(0), draw(1), draw(2)];
    let mut trace = Trace::default();
    let mut at_ns = 0_u64;
    let end_ns = u64::from(parameters.span_s) * S;
    let Some(gap_ns) = shortest_gap_ns(parameters) else {
        return trace;
    };
    while trace.vms.len() < MAX_ARRIVALS {
        at_ns = at_ns.saturating_add(exponential(&mut arrivals, gap_ns));
        if at_ns >= end_ns {
            break;
        }
        // Arrivals come at the highest rate, and those of a quieter hour are thinned out.
        if !arrivals.happens(share_of_highest(parameters, at_ns / S)) {
            continue;
        }
        let size = pick(&parameters.sizes, |it| it.weight, &mut sizes);
        let life = pick(&parameters.lives, |it| it.weight, &mut lives);
        let (Some(size), Some(life)) = (size, life) else {
            break;
        };
        let on_s = at_ns / S;
        let life_s = (exponential(&mut lives, u64::from(life.mean_s) * S) / S).max(1);
        let off_s = Some(on_s + life_s).filter(|off| *off < u64::from(parameters.span_s));
        trace.vms.push(TraceVm {
            name: (trace.vms.len() + 1).to_string(),
            on_ns: (on_s * S).cast_signed(),
            off_ns: off_s.map(|off| (off * S).cast_signed()),
            milli_cpus: size.cpus.saturating_mul(1_000),
            memory_mib: size.memory_gib.saturating_mul(1_024),
            utilisation: Vec::new(),
        });
    }
    trace
}

/// The trace in the columns of Huawei-East-1: whole CPUs and GB, both rounded up, and whole seconds. VMs are numbered from 1 in
/// the trace's order.
pub fn to_huawei_csv(trace: &Trace) -> String {
    let mut events = Vec::with_capacity(2 * trace.vms.len());
    for (vm, it) in trace.vms.iter().enumerate() {
        events.push((it.on_ns, 1, vm));
        if let Some(off_ns) = it.off_ns {
            // At one moment others go before this one comes; who comes and goes at once goes last.
            events.push((off_ns, if off_ns > it.on_ns { 0 } else { 2 }, vm));
        }
    }
    events.sort_unstable();
    let mut text = String::from("vmid,cpu,memory,time,type\n");
    for (at_ns, class, vm) in events {
        let it = &trace.vms[vm];
        text.push_str(&format!(
            "{},{},{},{},{}\n",
            vm + 1,
            it.milli_cpus.div_ceil(1_000),
            it.memory_mib.div_ceil(1_024),
            at_ns.div_euclid(S.cast_signed()),
            u32::from(class != 1),
        ));
    }
    text
}

/// The mean time between arrivals at the busiest hour.
fn shortest_gap_ns(parameters: &Parameters) -> Option<u64> {
    let highest = u64::from(1_000 + parameters.swing_permille.min(1_000));
    let per_day_milli = u64::from(parameters.vms_per_day) * highest;
    (DAY_S * S * 1_000)
        .checked_div(per_day_milli)
        .map(|gap| gap.max(1))
}

/// The rate at a second of the trace over the highest: a triangle with its top at noon.
fn share_of_highest(parameters: &Parameters, at_s: u64) -> f64 {
    let swing = i64::from(parameters.swing_permille.min(1_000));
    let from_noon = (at_s % DAY_S).abs_diff(DAY_S / 2).cast_signed();
    let half = (DAY_S / 2).cast_signed();
    // From `1 - swing` at midnight to `1 + swing` at noon.
    let rate = 1_000 + swing - 2 * swing * from_noon / half;
    rate as f64 / (1_000 + swing) as f64
}

/// An exponential time of any mean; the stream's own laws end at an hour.
fn exponential(stream: &mut Stream, mean_ns: u64) -> u64 {
    let unit_ns = stream.draw(Law::Exponential { mean_ns: S });
    (u128::from(unit_ns) * u128::from(mean_ns) / u128::from(S)) as u64
}

fn pick<T: Copy>(shares: &[T], weight: impl Fn(&T) -> u32, stream: &mut Stream) -> Option<T> {
    let sum = shares
        .iter()
        .fold(0_u32, |sum, it| sum.saturating_add(weight(it)));
    let mut left = stream.below(sum);
    for it in shares {
        match left.checked_sub(weight(it)) {
            Some(rest) => left = rest,
            None => return Some(*it),
        }
    }
    None
}
