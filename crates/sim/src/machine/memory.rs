//! How much longer memory takes under load, and how bandwidth is kept within what hardware carries.
//!
//! A node, an LLC's link and the links between packages are *pipes*. A busier pipe is slower, by
//! `1 + 0.5 rho^2 / (1 - rho)` up to 2.5 (reference model, section 2.2, the shape of loaded-latency curves; an estimate), and
//! threads that wait longer ask for less. [`settle`] finds the factor where both agree. Where threads ask for more than the
//! pipe carries even so, the factor is raised until the demand fits: then bandwidth, not latency, is what is divided.

/// Latency of a pipe that is nearly full, against an empty one (reference model, section 2.2: about 2.5 at 95 %).
pub const NEARLY_FULL: f64 = 2.5;
/// Largest factor. Ours: 64 times as many bytes as fit is more than cores can ask for.
pub const MOST: f64 = 64.0;
/// How exactly a pipe's utilisation is found. Ours.
const TOLERANCE: f64 = 1e-5;
/// Most evaluations of the demand; 10 are typical.
const ROUNDS: u32 = 60;
/// Fixed point of sums, so that they do not depend on their order: units of a byte each ns.
const UNIT: f64 = 4_294_967_296.0;

/// Who asks a pipe for bytes: a thread, or threads that are alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flow {
    /// Bytes through the pipe for each us of own work, times the busy threads.
    pub bytes: f64,
    /// Time in ns that a us of own work takes without waiting for memory; above 0.
    pub work_ns: f64,
    /// Time in ns that it waits for memory that nobody else uses.
    pub wait_ns: f64,
}

/// A pipe in balance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settled {
    /// Latency against that of the unloaded pipe, 1 to [`MOST`].
    pub factor: f64,
    /// What goes through it, in bytes each ns.
    pub bytes_per_ns: f64,
}

/// Latency of a pipe of this utilisation (0 to 1) against that of an idle one.
pub fn loaded_factor(rho: f64) -> f64 {
    if rho >= 1.0 {
        return NEARLY_FULL;
    }
    let rho = rho.max(0.0);
    (1.0 + 0.5 * rho * rho / (1.0 - rho)).min(NEARLY_FULL)
}

/// The factor of a pipe that carries `capacity` bytes each ns, with all that goes through it.
pub fn settle(capacity: f64, flows: &[Flow]) -> Settled {
    let idle = demand(flows, 1.0);
    let settled = |factor| Settled {
        factor,
        bytes_per_ns: demand(flows, factor),
    };
    if idle <= 0.0 || capacity.is_infinite() {
        return settled(1.0);
    }
    let capacity = capacity.max(1e-9);
    let excess = |fill: f64| demand(flows, factor_of(fill)) - fill.min(1.0) * capacity;
    // The demand falls with the factor, so that a pipe which could carry all of it at once is never fuller than that.
    let most = 2.0 - NEARLY_FULL / MOST;
    let mut high = if idle <= capacity {
        idle / capacity
    } else {
        most
    };
    let mut low = 0.0;
    let (mut at_low, mut at_high) = (idle, excess(high));
    if at_high >= 0.0 {
        return settled(factor_of(high));
    }
    // False position; halving the value of an end that stays keeps it from crawling (the Illinois rule).
    let mut last_is_low = None;
    for _ in 0..ROUNDS {
        if high - low <= TOLERANCE {
            break;
        }
        let middle = (low * at_high - high * at_low) / (at_high - at_low);
        let at = excess(middle);
        if at.abs() <= TOLERANCE * capacity {
            high = middle;
            break;
        }
        let is_low = at > 0.0;
        if is_low {
            (low, at_low) = (middle, at);
            at_high *= if last_is_low == Some(true) { 0.5 } else { 1.0 };
        } else {
            (high, at_high) = (middle, at);
            at_low *= if last_is_low == Some(false) { 0.5 } else { 1.0 };
        }
        last_is_low = Some(is_low);
    }
    settled(factor_of(high))
}

/// Up to 1 the fill is the utilisation; from there to 2 the pipe is full and the factor grows without limit.
fn factor_of(fill: f64) -> f64 {
    if fill < 1.0 {
        loaded_factor(fill)
    } else {
        NEARLY_FULL / (2.0 - fill)
    }
}

fn demand(flows: &[Flow], factor: f64) -> f64 {
    // Signed, since processors convert to that in one instruction.
    let of = |flow: &Flow| (flow.bytes / (flow.work_ns + flow.wait_ns * factor) * UNIT) as i64;
    flows.iter().map(of).sum::<i64>() as f64 / UNIT
}

#[cfg(test)]
mod tests;
