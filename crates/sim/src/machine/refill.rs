//! What a move costs a thread: the data that its old place held has to be fetched again.
//!
//! `lines * latency of the source / 8` (reference model, section 2.3): 4 MiB from another LLC are 0.8 ms at 100 ns. It comes
//! on top of what is missed in the steady state, once for each move.

use super::fabric::Fabric;
use super::vector::{LINE, Vector};
use crate::time::Nanos;

/// Lines that are fetched at the same time (reference model, section 2.3).
pub const PARALLEL: f64 = 8.0;
/// A thread takes over from another on a CPU: 1 to 2 us on bare metal (reference model, section 2.3; general knowledge).
pub const SWITCH_NS: Nanos = 1_500;
/// A vCPU takes over from another, with leaving the guest and entering it: 3 to 6 us (same place).
pub const VCPU_SWITCH_NS: Nanos = 4_500;
/// So long after a thread ran, Linux takes its data to be in the cache (`sysctl_sched_migration_cost`).
pub const CACHE_HOT_NS: Nanos = 500_000;
/// A hit in the LLC against a line that another core of the LLC holds: 10.3 of 25 ns on a 7702 (reference, machine table).
const LLC_HIT: f64 = 0.41;

/// A thread that moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Move {
    /// CPU it leaves.
    pub from: u32,
    /// CPU it comes to.
    pub to: u32,
    /// Node of most of its memory.
    pub home: u32,
    /// Bytes it had in its old LLC: its occupancy, or what it [`loaded`] there when that is less.
    pub bytes: f64,
}

/// Bytes that a thread has loaded into an LLC after so many ns of own work there, at most its working set.
pub fn loaded(vector: &Vector, own_ns: f64) -> f64 {
    // While it fills the cache it misses as with hardly any.
    let misses = super::cache::misses_per_us(vector, 0.0);
    (own_ns / 1000.0 * misses * LINE).clamp(0.0, vector.working_set.max(0.0))
}

/// Time in ns that a thread waits for its data after a move, in all.
pub fn refill_ns(fabric: &Fabric, vector: &Vector, step: &Move) -> f64 {
    let [from, to] = [step.from, step.to].map(|cpu| cpu as usize);
    if fabric.cpu_core[from] == fabric.cpu_core[to] {
        return 0.0;
    }
    let bytes = step.bytes.min(vector.working_set).max(0.0);
    let [old, new] = [fabric.cpu_llc[from], fabric.cpu_llc[to]];
    let core_bytes = fabric.core_bytes[fabric.cpu_core[to] as usize];
    let near_ns = LLC_HIT * fabric.coherence_ns(new, new, step.home);
    if old == new {
        return wait_ns(bytes.min(core_bytes), near_ns);
    }
    // What is clean comes from memory, what is not from the old LLC; hardware takes the nearer where it can choose.
    let memory_ns = fabric.node_dram_ns(fabric.cpu_node[to], step.home);
    let far_ns = fabric.coherence_ns(new, old, step.home).min(memory_ns);
    let fits = bytes.min(fabric.llc_bytes[new as usize]);
    wait_ns(fits, far_ns)
}

fn wait_ns(bytes: f64, latency_ns: f64) -> f64 {
    bytes / LINE * latency_ns / PARALLEL
}

#[cfg(test)]
mod tests;
