//! What a policy knows and what it answers. A policy keeps nothing between calls: what it must remember (last move,
//! smoothed load) is in the snapshot, so that a recorded day replays exactly.

use std::sync::Arc;

use model::host::{LlcId, NodeId};
use model::placement::{Placement, Reserve, VmId};
use model::{CpuSet, Host, Reason, Vm};

use crate::cost::Cost;

/// All that a policy may know about one host at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Time in nanoseconds since any fixed moment.
    pub at_ns: u64,
    /// The machine, with the CPUs that are usable now.
    pub host: Arc<Host>,
    /// What of it is not for VMs.
    pub reserve: Reserve,
    /// The VMs, in any order.
    pub vms: Vec<VmState>,
    /// Where they are; VMs without groups have just arrived.
    pub placement: Placement,
    /// Who talks to whom.
    pub talks: Vec<Talk>,
    /// How much may be moved at once.
    pub budget: Budget,
    /// Number of the last plan that was applied.
    pub generation: u64,
}

/// A VM and what is remembered of it.
#[derive(Debug, Clone)]
pub struct VmState {
    /// The VM; its loads are smoothed by whoever observes.
    pub vm: Vm,
    /// When the policy last moved it, in the snapshot's time; `None` means never.
    pub moved_ns: Option<u64>,
}

/// Two VMs that communicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Talk {
    /// One VM.
    pub a: VmId,
    /// The other.
    pub b: VmId,
    /// Wake-ups between them per second.
    pub per_s: u32,
}

/// How much one plan may move. Arrivals are not moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// vCPUs that may change their LLC in one plan.
    pub vcpus: u32,
    /// Memory that may change its node in one plan, in MiB.
    pub memory_mib: u64,
    /// How long a VM stays where it was put, in nanoseconds.
    pub dwell_ns: u64,
}

impl Default for Budget {
    /// 64 vCPUs and 64 GiB at a time, and 30 s at every place: fifteen rebalance periods, as ESXi waits before it
    /// reconsiders a client (`Numa.SwapConsiderPeriod` 15 at `Numa.RebalancePeriod` 2000 ms).
    fn default() -> Self {
        Self {
            vcpus: 64,
            memory_mib: 65_536,
            dwell_ns: 30_000_000_000,
        }
    }
}

/// A complete answer: nothing is left to choose for who applies it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// The number of this plan: the snapshot's plus one.
    pub generation: u64,
    /// Where everything belongs.
    pub placement: Placement,
    /// What changes against the snapshot, for VMs that were placed before.
    pub moves: Vec<Move>,
    /// Why, by VM; `None` is about the host as a whole.
    pub reasons: Vec<(Option<VmId>, Reason)>,
    /// VMs that cannot be placed, by VM. They have no groups in `placement`.
    pub refused: Vec<(VmId, Reason)>,
    /// What the placement costs.
    pub cost: Cost,
}

/// A change of home.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    /// The VM.
    pub vm: VmId,
    /// What moves.
    pub what: Moved,
    /// Why, with the gain.
    pub reason: Reason,
}

/// What a move moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moved {
    /// vCPUs change their home LLC.
    Vcpus {
        /// Which.
        vcpus: CpuSet,
        /// Where they were.
        from: LlcId,
        /// Where they go.
        to: LlcId,
    },
    /// Memory changes its node.
    Memory {
        /// How much, in MiB.
        mib: u64,
        /// Where it was.
        from: NodeId,
        /// Where it goes.
        to: NodeId,
    },
}

impl Snapshot {
    /// VMs that want to be placed on an empty host.
    pub fn empty(host: Arc<Host>, vms: Vec<Vm>, reserve: Reserve) -> Self {
        Self {
            at_ns: 0,
            host,
            reserve,
            vms: vms
                .into_iter()
                .map(|vm| VmState { vm, moved_ns: None })
                .collect(),
            placement: Placement::default(),
            talks: Vec::new(),
            budget: Budget::default(),
            generation: 0,
        }
    }
}
