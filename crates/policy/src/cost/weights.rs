//! The numbers of the cost function, each with its source. "Ours" marks a choice, not a measurement.

use model::Vm;
use model::tenant::{Intensity, NORMAL_SHARES};

/// A vCPU's work, in nano-vCPU.
pub const VCPU: i64 = 1_000_000_000;
/// A vCPU's work for one thousandth of demand.
pub const PER_MILLI: i64 = VCPU / 1000;

/// Throughput of one of two busy threads of a core against a thread that has the core alone, in thousandths. `CoreMark`
/// 8x16 in the 7.0 U2 study implies 0.65 (reference model 2.1; claim S3-51).
pub const SMT_THREAD_PERMILLE: i64 = 650;
/// Speed of a slow core of a hybrid processor against a fast one, in thousandths. Ours, typical of P and E cores.
pub const SLOW_CORE_PERMILLE: i64 = 600;
/// What a vCPU costs that waits for a thread, in thousandths of its work: its own work, and three times as much again
/// for the siblings it holds up (locks, co-stop). Ours; larger than any distance, so that waiting is the last resort.
pub const WAITING_PERMILLE: i64 = 4000;
/// What demand costs that has more shares than its domain has room for, in thousandths. Ours.
pub const FAIRNESS_PERMILLE: i64 = 500;
/// What demand above half the cores of a domain costs, in thousandths. Ours; decides only what nothing else decides.
pub const CROWDING_PERMILLE: i64 = 10;
/// Work lost for each MiB of footprint that its LLC cannot hold, in nano-vCPU: `SPECjbb` with 16 vCPUs of 16 MiB lost
/// 7 % on 4 instead of 16 LLCs of 16 MiB (claim S3-58, a calibration row): 16 x 7 % / 192 MiB.
pub const CACHE_PER_MIB: i64 = 6_000_000;
/// Work lost for each MB/s above what a link or node carries: a [`Intensity::High`] vCPU lives on its 6,000 MB/s.
pub const BANDWIDTH_PER_MBS: i64 = VCPU / 6000;
/// Work lost for each ns between a system thread and a vCPU it serves, in nano-vCPU for a busy thread: as
/// [`Intensity::High`] sharing, since every packet crosses.
pub const SYSTEM_PER_NS: i64 = 5_000_000;
/// Share of a vCPU's time that touches its devices' memory, in thousandths. Ours.
pub const DEVICE_PERMILLE: i64 = 100;
/// What uneven parts of a cell cost, as so many ns more between pairs of vCPUs: as many pairs as the square of what the
/// largest part has more than the smallest, beyond one. An uneven VM has LLCs of unequal width, which no guest topology
/// shows; but 3 + 1 vCPUs exchange less across LLCs than 2 + 2 (by one pair in four). This is a quarter more than that
/// gain in a node without known latencies (85 ns), so that balanced parts win where nothing else speaks against them.
pub const BALANCE_NS: i64 = 106;
/// What each vCPU outside its soft affinity costs. Ours.
pub const SOFT_AFFINITY: i64 = 250_000_000;
/// Work lost for each ns between VMs that talk, in nano-vCPU for a busy vCPU: half of [`Intensity::Mid`] sharing. Ours.
pub const NEAR_PER_NS: i64 = 1_000_000;
/// A vCPU that changes its LLC inside a node. Ours: a refill of 16 MiB takes 3.3 ms (reference model 2.3), but a plan
/// that gains less than this is not worth the disturbance.
pub const MOVE_LLC: i64 = 10_000_000;
/// A vCPU that changes its node.
pub const MOVE_NODE: i64 = 30_000_000;
/// A GiB of memory that changes its node: 32 s of copying at ESXi's 8,000 pages a second. Ours.
pub const MOVE_GIB: i64 = 5_000_000;

/// Work lost for each ns that a vCPU's partners are farther than its own LLC, in nano-vCPU. High: OLTP on two instead
/// of four to five LLCs gains 17 % for 32 ns of mean distance (claim S3-11 with the latencies of a 7702). Low is
/// `CoreMark`, which shares nothing, and mid lies between (ours).
pub const fn sharing_per_ns(intensity: Intensity) -> i64 {
    match intensity {
        Intensity::Low => 100_000,
        Intensity::Mid => 2_000_000,
        Intensity::High => 5_000_000,
    }
}

/// Share of time that waits for memory, in thousandths. High: 1.6 times the latency costs 40 % (claims S4-01, S4-02);
/// the others are ours.
pub const fn stall_permille(intensity: Intensity) -> i64 {
    match intensity {
        Intensity::Low => 50,
        Intensity::Mid => 200,
        Intensity::High => 670,
    }
}

/// Cache one busy vCPU fills, in MiB. Mid is an EPYC core's part of its LLC; high is what `SPECjbb` uses when it can.
/// Ours.
pub const fn footprint_mib(intensity: Intensity) -> i64 {
    match intensity {
        Intensity::Low => 1,
        Intensity::Mid => 4,
        Intensity::High => 16,
    }
}

/// Memory traffic of one busy vCPU in MB/s. High is a 32nd of a Rome socket's 204.8 GB/s; the others are ours.
pub const fn traffic_mbs(intensity: Intensity) -> i64 {
    match intensity {
        Intensity::Low => 200,
        Intensity::Mid => 1500,
        Intensity::High => 6000,
    }
}

/// What a vCPU of mean demand `u` needs so that its bursts seldom wait, in milli-CPU: `u + u (1 - u) / 2`. The margin
/// follows the variance of an on-off source, as effective bandwidths do (F. P. Kelly, Notes on effective bandwidths,
/// 1996); the half is ours.
pub fn effective_demand(load_milli: u32) -> i64 {
    let load = i64::from(load_milli.min(1000));
    load + load * (1000 - load) / 2000
}

/// A quantity of a domain that hinges look at, in thousandths of its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Cores wanted.
    Cores,
    /// Threads wanted.
    Threads,
    /// Threads wanted, weighted by shares; a normal vCPU counts 1.
    Shares,
    /// Cache footprint in MiB.
    Footprint,
    /// Memory traffic in MB/s.
    Traffic,
}

/// What is asked of a domain, by [`Resource`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load([i64; 5]);

impl Load {
    /// One vCPU of a VM. A dedicated vCPU takes a whole core of `threads_per_core` threads, however idle it is.
    pub fn of_vcpu(vm: &Vm, threads_per_core: u32) -> Self {
        let demand = effective_demand(vm.effective_load());
        let shares = demand * i64::from(vm.shares) / i64::from(NORMAL_SHARES);
        let whole = 1000 * i64::from(threads_per_core);
        let cpu = if vm.dedicated {
            [1000, whole, whole]
        } else {
            [demand, demand, shares]
        };
        let [footprint, traffic] = [footprint_mib(vm.bandwidth), traffic_mbs(vm.bandwidth)];
        Self([cpu[0], cpu[1], cpu[2], demand * footprint, demand * traffic])
    }

    /// The system threads of a VM: demand only.
    pub fn of_system(vm: &Vm) -> Self {
        let demand = i64::from(vm.system);
        Self([demand, demand, demand, 0, 0])
    }

    /// One quantity.
    pub fn of(&self, resource: Resource) -> i64 {
        self.0[resource as usize]
    }

    /// Adds a load so many times; a negative number takes it away.
    pub fn add(&mut self, other: &Self, times: i64) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs * times;
        }
    }
}
