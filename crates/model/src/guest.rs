//! The topology a guest sees, in QEMU's words.

use serde::Serialize;

use crate::cpuset::{CpuId, CpuSet};

/// A level of the guest's CPU hierarchy, outermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A processor package.
    Socket,
    /// A die of a package.
    Die,
    /// A module of a die (QEMU 10 and later).
    Module,
    /// A core.
    Core,
    /// A hardware thread.
    Thread,
}

impl Level {
    /// QEMU's name of the level, as in `smp-cache.0.topology=die`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Die => "die",
            Self::Module => "module",
            Self::Core => "core",
            Self::Thread => "thread",
        }
    }
}

/// What the guest is shown: a uniform hierarchy of slots, of which the first `vcpus` are present, cut into vNUMA nodes
/// and last-level caches.
///
/// `dies`, `modules`, `cores` and `threads` are per parent; their product with `sockets` is [`maxcpus`](Self::maxcpus).
/// vCPU sets name present vCPUs only. vCPUs fill slots in index order, as QEMU numbers them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GuestTopology {
    /// Present vCPUs, at least 1.
    pub vcpus: u32,
    /// Processor packages.
    pub sockets: u32,
    /// Dies per socket.
    pub dies: u32,
    /// Modules per die.
    pub modules: u32,
    /// Cores per module.
    pub cores: u32,
    /// Threads per core.
    pub threads: u32,
    /// vNUMA nodes (VMware: VPDs), in guest order; empty means the guest gets no NUMA description at all.
    pub numa_nodes: Vec<GuestNode>,
    /// Last-level caches by the vCPUs that share them; empty means "not stated" (a file that says nothing about it).
    pub llcs: Vec<GuestLlc>,
    /// SLIT distances between vNUMA nodes by index, 10 is local; empty means the default of 10 and 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub distances: Vec<Vec<u32>>,
}

/// One vNUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GuestNode {
    /// Present vCPUs of the node; may be empty when its slots wait for hot-plug.
    pub vcpus: CpuSet,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Host nodes (the kernel's numbers) that back it; empty means any.
    pub host_nodes: Vec<u32>,
}

/// One virtual last-level cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GuestLlc {
    /// Present vCPUs that share it.
    pub vcpus: CpuSet,
    /// The size we want the guest to see, in bytes; 0 means unknown.
    pub size_bytes: u64,
    /// The size that the chosen form can show, in bytes; 0 means unknown.
    pub guest_size_bytes: u64,
}

impl GuestTopology {
    /// A topology of `[sockets, dies, modules, cores, threads]` without NUMA description and with no LLC stated.
    pub fn uniform(vcpus: u32, [sockets, dies, modules, cores, threads]: [u32; 5]) -> Self {
        let (numa_nodes, llcs, distances) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            vcpus,
            sockets,
            dies,
            modules,
            cores,
            threads,
            numa_nodes,
            llcs,
            distances,
        }
    }

    /// Number of vCPU slots, present or not.
    pub fn maxcpus(&self) -> u32 {
        self.slots_in(Level::Socket).saturating_mul(self.sockets)
    }

    /// What VMware calls `cpuid.coresPerSocket`: all cores of one socket, whatever dies and modules they sit in.
    pub fn cores_per_socket(&self) -> u32 {
        self.dies
            .saturating_mul(self.modules)
            .saturating_mul(self.cores)
    }

    /// Slots in one object of a level, e.g. in one die.
    pub fn slots_in(&self, level: Level) -> u32 {
        let inner = match level {
            Level::Socket => [self.dies, self.modules, self.cores, self.threads],
            Level::Die => [1, self.modules, self.cores, self.threads],
            Level::Module => [1, 1, self.cores, self.threads],
            Level::Core => [1, 1, 1, self.threads],
            Level::Thread => [1; 4],
        };
        inner.into_iter().fold(1, u32::saturating_mul)
    }

    /// The present vCPUs cut into blocks of `slots` slots, in index order; blocks without present vCPUs are left out.
    pub fn blocks(&self, slots: u32) -> Vec<CpuSet> {
        let slots = slots.max(1);
        (0..self.vcpus.div_ceil(slots))
            .map(|block| CpuSet::from_range(block * slots..((block + 1) * slots).min(self.vcpus)))
            .collect()
    }

    /// The level whose blocks are exactly the stated LLCs; `None` when no LLC is stated or no level fits (then QEMU's
    /// `smp-cache` cannot express it).
    ///
    /// Empty slots leave a choice: with 4 of 16 vCPUs present, a socket of four dies and its first die hold the same
    /// ones. The level with the fewest slots is meant then (nobody splits a socket into dies to share a cache over
    /// them), but a core only where nothing else fits; of equal levels the outermost.
    pub fn llc_level(&self) -> Option<Level> {
        if self.llcs.is_empty() {
            return None;
        }
        let fits = |level: &Level| {
            let blocks = self.blocks(self.slots_in(*level));
            blocks.iter().eq(self.llcs.iter().map(|llc| &llc.vcpus))
        };
        [Level::Socket, Level::Die, Level::Module]
            .into_iter()
            .filter(fits)
            .min_by_key(|&level| self.slots_in(level))
            .or_else(|| Some(Level::Core).filter(fits))
    }

    /// Sum of the nodes' memory in MiB.
    pub fn memory_mib(&self) -> u64 {
        self.numa_nodes.iter().map(|node| node.memory_mib).sum()
    }

    /// The vNUMA node of a vCPU, by index into `numa_nodes`.
    pub fn node_of(&self, vcpu: CpuId) -> Option<usize> {
        self.numa_nodes
            .iter()
            .position(|node| node.vcpus.contains(vcpu))
    }

    /// Everything that is wrong with the topology, in words; empty when it holds together.
    pub fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if [
            self.sockets,
            self.dies,
            self.modules,
            self.cores,
            self.threads,
        ]
        .contains(&0)
        {
            wrong.push("a level has 0 members".to_owned());
        }
        if self.vcpus == 0 || self.vcpus > self.maxcpus() {
            wrong.push(format!(
                "{} vCPUs do not fit {} slots",
                self.vcpus,
                self.maxcpus()
            ));
        }
        let all = CpuSet::from_range(0..self.vcpus);
        let nodes = self.numa_nodes.iter().map(|node| &node.vcpus);
        let llcs = self.llcs.iter().map(|llc| &llc.vcpus);
        if !self.numa_nodes.is_empty() {
            wrong.extend(check_partition("vNUMA nodes", nodes, &all));
        }
        if !self.llcs.is_empty() {
            wrong.extend(check_partition("LLCs", llcs, &all));
        }
        wrong
    }
}

fn check_partition<'a>(
    what: &str,
    parts: impl Iterator<Item = &'a CpuSet> + Clone,
    all: &CpuSet,
) -> Option<String> {
    let union = parts
        .clone()
        .fold(CpuSet::new(), |sum, part| sum.union(part));
    let total: usize = parts.map(CpuSet::len).sum();
    (union != *all || total != all.len())
        .then(|| format!("{what} hold vCPUs {union} ({total} in sum) instead of {all} once each"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirteen_vcpus_on_four_core_llcs_are_13_of_16() {
        let mut shape = GuestTopology::uniform(13, [1, 4, 1, 4, 1]);
        assert_eq!((shape.maxcpus(), shape.cores_per_socket()), (16, 16));
        let blocks = shape.blocks(shape.slots_in(Level::Die));
        shape.llcs = blocks
            .into_iter()
            .map(|vcpus| GuestLlc {
                vcpus,
                size_bytes: 0,
                guest_size_bytes: 0,
            })
            .collect();
        let spans: Vec<String> = shape.llcs.iter().map(|llc| llc.vcpus.to_string()).collect();
        assert_eq!(spans, ["0-3", "4-7", "8-11", "12"]);
        assert_eq!(shape.llc_level(), Some(Level::Die));
        assert!(shape.check().is_empty());
    }

    #[test]
    fn empty_slots_do_not_widen_a_cache() {
        for (vcpus, levels, expected) in [
            (4, [2, 16, 1, 4, 1], Level::Die),
            (1, [1, 1, 1, 8, 1], Level::Socket),
            (8, [8, 1, 1, 1, 1], Level::Socket),
            (2, [1, 1, 4, 2, 1], Level::Module),
        ] {
            let mut shape = GuestTopology::uniform(vcpus, levels);
            let blocks = shape.blocks(shape.slots_in(expected)).into_iter();
            shape.llcs = blocks
                .map(|vcpus| GuestLlc {
                    vcpus,
                    size_bytes: 0,
                    guest_size_bytes: 0,
                })
                .collect();
            assert_eq!(shape.llc_level(), Some(expected), "{vcpus} of {levels:?}");
        }
    }

    #[test]
    fn check_names_what_does_not_hold_together() {
        let mut shape = GuestTopology::uniform(5, [1, 1, 1, 4, 1]);
        assert_eq!(shape.check(), ["5 vCPUs do not fit 4 slots"]);
        shape.cores = 8;
        let node = |vcpus: &str| GuestNode {
            vcpus: vcpus.parse().unwrap(),
            memory_mib: 1,
            host_nodes: vec![],
        };
        shape.numa_nodes = vec![node("0-2"), node("2-4")];
        assert_eq!(
            shape.check(),
            ["vNUMA nodes hold vCPUs 0-4 (6 in sum) instead of 0-4 once each"]
        );
    }
}
