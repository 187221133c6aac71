//! What a run gave: figures of the measured window, after the warm-up.

use hdrhistogram::Histogram;

use crate::time::Nanos;

/// Everything one run gave.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// Length of the measured window.
    pub window_ns: Nanos,
    /// Events of the whole run.
    pub events: u64,
    /// Hash over all events with their times: equal runs have equal hashes.
    pub trace_hash: u64,
    /// By workload name, in the scenario's order.
    pub workloads: Vec<WorkloadOutcome>,
    /// By VM.
    pub vms: Vec<VmOutcome>,
    /// The host as a whole.
    pub host: HostOutcome,
    /// What ran where, if it was asked for.
    pub timeline: Vec<Segment>,
    /// What is odd about the run, such as a window in which nothing ended.
    pub remarks: Vec<String>,
}

/// A workload over all VMs that run it.
#[derive(Debug, Clone)]
pub struct WorkloadOutcome {
    /// Its name.
    pub name: String,
    /// VMs that run it.
    pub vms: u32,
    /// Operations that ended in the window.
    pub operations: u64,
    /// Their latency in nanoseconds: from when the client asked (was due to ask, in an open loop) to the answer.
    pub latency: Histogram<u64>,
}

/// A VM.
#[derive(Debug, Clone)]
pub struct VmOutcome {
    /// Its name.
    pub name: String,
    /// Index into [`Outcome::workloads`].
    pub workload: Option<usize>,
    /// vCPUs.
    pub vcpus: u32,
    /// Operations that ended in the window.
    pub operations: u64,
    /// Latency of them in nanoseconds.
    pub latency: Histogram<u64>,
    /// What its vCPUs did, in sum.
    pub time: Times,
    /// What its system threads did, in sum: packets of its virtual adapter.
    pub system: Times,
    /// What its vCPUs suffered, in sum.
    pub moves: Moves,
    /// Mean last-level cache it held, in bytes.
    pub cache_bytes: f64,
    /// Mean share of its memory accesses that left the node, 0 to 1.
    pub remote_share: f64,
    /// Mean number of LLCs on which vCPUs of it ran or waited.
    pub llcs_mean: f64,
}

/// Where the time of vCPUs or system threads went, in nanoseconds. The first four make up the whole time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// On a CPU, with polling.
    pub run_ns: Nanos,
    /// Ready without a CPU (`%RDY`).
    pub ready_ns: Nanos,
    /// Stopped for slower siblings (`%CSTP`).
    pub costop_ns: Nanos,
    /// Halted.
    pub halted_ns: Nanos,
    /// Of the running time: with the core's other thread busy.
    pub paired_ns: Nanos,
    /// Of the running time: on a home LLC.
    pub home_ns: Nanos,
    /// Of the running time: polling after the last thread of the guest went to sleep.
    pub poll_ns: Nanos,
    /// Of the running time: switches, exits, interrupts and refilled caches at full speed.
    pub overhead_ns: Nanos,
    /// Of the ready time: held back by a limit (`%MLMTD`).
    pub limited_ns: Nanos,
}

/// Moves of vCPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moves {
    /// Starts on another CPU than last time.
    pub cpu: u64,
    /// Of them, on another LLC.
    pub llc: u64,
    /// Of them, on another node.
    pub node: u64,
    /// Wake-ups of halted vCPUs.
    pub wakeups: u64,
    /// Wake-ups across vCPUs of the VM (inter-processor interrupts).
    pub ipis: u64,
    /// Pages copied between nodes.
    pub pages: u64,
}

/// The host.
#[derive(Debug, Clone, Default)]
pub struct HostOutcome {
    /// Time all CPUs were busy, in sum.
    pub busy_ns: Nanos,
    /// Time of all CPUs, in sum.
    pub cpu_ns: Nanos,
    /// By LLC: the share of time its CPUs were busy, 0 to 1.
    pub llc_busy: Vec<f64>,
    /// By LLC: mean bytes held, by VM index, of VMs that held any.
    pub llc_held: Vec<Vec<(u32, f64)>>,
    /// By node: mean memory traffic over what the memory carries, 0 to 1.
    pub node_traffic: Vec<f64>,
    /// Homes changed by the policy.
    pub rebalances: u64,
    /// VMs that came later and found no place.
    pub refused: u32,
    /// Plans that were refused by the check; none is expected.
    pub unsound_plans: u64,
    /// What system threads that serve all VMs did, in sum.
    pub system: Times,
}

/// A span of a CPU with one vCPU or system thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Index of the host's CPU.
    pub cpu: u32,
    /// Index of the VM; `u32::MAX` for a system thread that serves all of them.
    pub vm: u32,
    /// vCPU; `None` for a system thread.
    pub vcpu: Option<u32>,
    /// From.
    pub from_ns: Nanos,
    /// To.
    pub to_ns: Nanos,
}
