//! A VM as a scheduler sees it: its size, what it does, and what its owner asks for. [`Spec`](crate::Spec) is what a VM
//! file says; a `Vm` is what a placement needs.

use serde::Serialize;

use crate::cpuset::CpuSet;
use crate::guest::GuestTopology;

/// Shares of a vCPU at VMware's level "normal"; low is half, high twice of it (vSphere API, `SharesLevel`).
pub const NORMAL_SHARES: u32 = 1000;

/// A VM to place. Loads are thousandths of a CPU ("milli-CPU").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vm {
    /// Unique among the VMs of one snapshot.
    pub name: String,
    /// vCPUs, at least 1.
    pub vcpus: u32,
    /// Memory in MiB; 0 means unknown and takes no room.
    pub memory_mib: u64,
    /// What the guest sees. Its vNUMA nodes and last-level caches are kept whole; `None` leaves the split to the policy.
    pub guest: Option<GuestTopology>,
    /// Mean demand of one vCPU in milli-CPU, 0 to 1000.
    pub load: u32,
    /// How much memory bandwidth and cache its vCPUs ask for.
    pub bandwidth: Intensity,
    /// How much its vCPUs exchange cache lines with each other.
    pub sharing: Intensity,
    /// Demand of its system threads (vhost, iothreads, emulator) together, in milli-CPU; 0 when not known.
    pub system: u32,
    /// Whole cores of its own ("isolated" in the papers, latency sensitivity *high* in VMware's words).
    pub dedicated: bool,
    /// Count hardware threads instead of cores when it is split (VMware: `preferHT`).
    pub prefer_ht: bool,
    /// Shares of one vCPU; [`NORMAL_SHARES`] is normal.
    pub shares: u32,
    /// Guaranteed CPU of the whole VM in milli-CPU.
    pub reservation: u32,
    /// Most CPU the whole VM may use in milli-CPU.
    pub limit: Option<u32>,
    /// CPUs it must stay on.
    pub hard: Affinity,
    /// CPUs it should be on.
    pub soft: Affinity,
    /// VMs with the same label keep apart.
    pub apart: Option<Apart>,
    /// VMs with the same label talk to each other and belong together.
    pub near: Option<String>,
    /// Host nodes (the kernel's numbers) its devices hang on.
    pub device_nodes: Vec<u32>,
}

/// A coarse statement of how much a VM does of something; the numbers behind the words are the cost function's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Intensity {
    /// Hardly any (`CoreMark`).
    Low,
    /// What most servers do.
    #[default]
    Mid,
    /// As much as it can get (`SPECjbb` for bandwidth, OLTP for sharing).
    High,
}

/// Where a VM may or should be; empty means anywhere. With both, a CPU has to be in both.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Affinity {
    /// CPUs.
    pub cpus: Option<CpuSet>,
    /// Nodes by the kernel's number.
    pub nodes: Vec<u32>,
}

/// A rule that VMs keep apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apart {
    /// VMs with the same label keep apart.
    pub label: String,
    /// What two of them may not share.
    pub scope: Scope,
}

/// What VMs that keep apart may not share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// A last-level cache.
    #[default]
    Llc,
    /// A NUMA node.
    Node,
    /// A package.
    Package,
    /// A host.
    Host,
}

impl Vm {
    /// A VM that keeps all its vCPUs busy and asks for nothing else.
    pub fn new(name: impl Into<String>, vcpus: u32, memory_mib: u64) -> Self {
        Self {
            name: name.into(),
            vcpus,
            memory_mib,
            guest: None,
            load: 1000,
            bandwidth: Intensity::Mid,
            sharing: Intensity::Mid,
            system: 0,
            dedicated: false,
            prefer_ht: false,
            shares: NORMAL_SHARES,
            reservation: 0,
            limit: None,
            hard: Affinity::default(),
            soft: Affinity::default(),
            apart: None,
            near: None,
            device_nodes: Vec::new(),
        }
    }

    /// Demand of one vCPU in milli-CPU after the limit.
    pub fn effective_load(&self) -> u32 {
        let share_of_limit = self
            .limit
            .map_or(u32::MAX, |limit| limit / self.vcpus.max(1));
        self.load.min(1000).min(share_of_limit)
    }
}

impl Affinity {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.cpus.is_none() && self.nodes.is_empty()
    }
}
