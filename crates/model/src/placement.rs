//! Where VMs are, or are to be: groups of vCPUs on last-level caches, memory on nodes.

mod check;

use crate::cpuset::CpuSet;
use crate::host::{LlcId, NodeId};

pub use check::Reserve;

/// Index of a VM in the list of VMs that goes with a placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VmId(pub u32);

impl VmId {
    /// The id as an index into its list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The homes of all placed VMs of one host, by VM and then by first vCPU. A VM without groups is not placed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    /// Groups of vCPUs.
    pub groups: Vec<Group>,
    /// Memory, one entry for each VM and node.
    pub memory: Vec<MemoryHome>,
    /// System threads (vhost, iothreads, emulator) of VMs that have any.
    pub system: Vec<SystemHome>,
}

/// vCPUs of one VM that belong together, and their home: at most one LLC's cores (VMware: logical group).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The VM.
    pub vm: VmId,
    /// Its vCPUs.
    pub vcpus: CpuSet,
    /// Home LLC.
    pub llc: LlcId,
    /// Home node.
    pub node: NodeId,
    /// CPUs they may use.
    pub cpus: CpuSet,
    /// Whether each vCPU has one of the CPUs to itself, in ascending order; there are then as many CPUs as vCPUs.
    /// Otherwise they share all of them, and the kernel chooses.
    pub pinned: bool,
}

/// Memory of a VM on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryHome {
    /// The VM.
    pub vm: VmId,
    /// The vNUMA node of the VM whose memory it is, by index; 0 for a VM without vNUMA.
    pub cell: u32,
    /// The node that holds it.
    pub node: NodeId,
    /// How much, in MiB.
    pub mib: u64,
}

/// Home of a VM's system threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemHome {
    /// The VM.
    pub vm: VmId,
    /// Home LLC.
    pub llc: LlcId,
    /// Home node.
    pub node: NodeId,
    /// CPUs they may use.
    pub cpus: CpuSet,
}

impl Placement {
    /// The groups of one VM; needs the order the type promises.
    pub fn groups_of(&self, vm: VmId) -> &[Group] {
        let start = self.groups.partition_point(|group| group.vm < vm);
        let length = self.groups[start..].partition_point(|group| group.vm == vm);
        &self.groups[start..start + length]
    }

    /// The memory of one VM; needs the order the type promises.
    pub fn memory_of(&self, vm: VmId) -> &[MemoryHome] {
        let start = self.memory.partition_point(|home| home.vm < vm);
        let length = self.memory[start..].partition_point(|home| home.vm == vm);
        &self.memory[start..start + length]
    }

    /// The home of a VM's system threads; needs the order the type promises.
    pub fn system_of(&self, vm: VmId) -> Option<&SystemHome> {
        let found = self.system.binary_search_by_key(&vm, |home| home.vm);
        found.ok().map(|index| &self.system[index])
    }

    /// Puts the entries in the order the type promises.
    pub fn sort(&mut self) {
        self.groups
            .sort_by_key(|group| (group.vm, group.vcpus.first(), group.llc));
        self.memory
            .sort_by_key(|home| (home.vm, home.cell, home.node));
        self.system.sort_by_key(|home| home.vm);
    }
}
