//! A host machine: flat tables of CPUs, cores, LLCs, dies, NUMA nodes and packages.
//!
//! Nodes, packages, dies and LLCs nest differently on every machine (two nodes in one package on Magny-Cours, one node
//! over two packages with node interleaving, node = LLC with CCX-as-NUMA), so nothing nests here: each table holds
//! CPU sets, and [`Cpu`] knows its own place in each.
//!
//! Ids are dense indices in order of the first CPU (the kernel's trick, `kernel/sched/topology.c`), except nodes, which
//! come in order of the kernel's node number; [`Node::id`] is that number.

mod build;
mod findings;
mod llcs;
mod synthetic;

use crate::cpuset::{CpuId, CpuSet};

pub use build::{HostError, Parts, Relation};
pub use findings::findings;
pub use synthetic::Synthetic;

macro_rules! dense_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into its table.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

dense_id!(
    /// Index into [`Host::cores`].
    CoreId
);
dense_id!(
    /// Index into [`Host::llcs`].
    LlcId
);
dense_id!(
    /// Index into [`Host::nodes`]; not the kernel's node number, which is [`Node::id`].
    NodeId
);
dense_id!(
    /// Index into [`Host::packages`].
    PackageId
);

/// A machine as the kernel (or a description) presents it. Made by [`Host::from_parts`], which fills [`cpus`](Self::cpus).
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Preset name, file stem, `live`, or the synthetic text.
    pub name: String,
    /// The processor, as far as known.
    pub processor: Processor,
    /// Usable CPUs by ascending number.
    pub cpus: Vec<Cpu>,
    /// Physical cores.
    pub cores: Vec<Core>,
    /// Last-level caches; always a partition of the CPUs (see [`LlcSource`]).
    pub llcs: Vec<Llc>,
    /// Dies or CCDs, where known; may be empty.
    pub dies: Vec<CpuSet>,
    /// NUMA nodes; at least one. Memory-only nodes have no CPUs.
    pub nodes: Vec<Node>,
    /// Processor packages; always a partition of the CPUs.
    pub packages: Vec<Package>,
    /// All caches, smallest level first.
    pub caches: Vec<Cache>,
    /// SLIT distances by node index, 10 is local; empty when unknown.
    pub distances: Vec<Vec<u32>>,
    /// Measured or published latencies, where known.
    pub latency: Option<Latency>,
    /// Memory bandwidth, where known.
    pub bandwidth: Option<Bandwidth>,
    /// PCI devices worth placing for (network, storage, accelerators), with their node.
    pub devices: Vec<HostDevice>,
    /// CPUs that are there but offline.
    pub offline: CpuSet,
    /// CPUs that are online but forbidden to us (cgroup or container).
    pub restricted: CpuSet,
    /// CPUs taken out of load balancing (`isolcpus`): for dedicated VMs only.
    pub isolated: CpuSet,
    /// Where `llcs` come from.
    pub llc_source: LlcSource,
    /// Whether the description named packages; otherwise one package stands for the machine.
    pub packages_known: bool,
}

/// What is known of the processor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Processor {
    /// Who made it.
    pub vendor: Vendor,
    /// The name it gives itself, e.g. `AMD EPYC 7702 64-Core Processor`; empty when unknown.
    pub model: String,
    /// CPUID display family (0x17 = Zen 1/2, 0x19 = Zen 3/4, 0x1a = Zen 5, 6 = Intel).
    pub family: Option<u32>,
    /// CPUID display model.
    pub model_number: Option<u32>,
}

/// Processor vendor, as far as it changes what a guest can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Vendor {
    /// AMD, and Hygon with AMD's leaves.
    Amd,
    /// Intel.
    Intel,
    /// Anything else, or not known.
    #[default]
    Other,
}

/// A logical CPU and its place in every table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// Linux CPU number.
    pub id: CpuId,
    /// Its core.
    pub core: CoreId,
    /// Its last-level cache.
    pub llc: LlcId,
    /// Its NUMA node. A CPU whose own node is not usable is in no [`Node::cpus`]; this is then the nearest node.
    pub node: NodeId,
    /// Its package.
    pub package: PackageId,
}

/// A physical core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Core {
    /// Its usable threads.
    pub cpus: CpuSet,
    /// Rank by performance among the machine's kinds of core: 0 is the slowest kind; all 0 when cores are alike.
    pub efficiency: u8,
}

/// A last-level cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Llc {
    /// CPUs that share it.
    pub cpus: CpuSet,
    /// Size in bytes; 0 means unknown.
    pub size_bytes: u64,
    /// Cache level, 3 or 2; 0 when made up because the description has no cache.
    pub level: u8,
    /// Node of its first CPU.
    pub node: NodeId,
}

/// How the last-level caches of a host were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LlcSource {
    /// L3, where it is the shared cache.
    #[default]
    L3,
    /// No L3: the largest shared L2.
    L2,
    /// Some CPUs lie under an L3, the others under their L2 only (low-power cores beside a hybrid processor's L3).
    Mixed,
    /// No cache information: one LLC per NUMA node stands in.
    Nodes,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The kernel's node number.
    pub id: u32,
    /// CPUs it is local to; empty for a memory-only node. A node of spare memory may lie around others, so that sets
    /// nest; [`Cpu::node`] is the smallest.
    pub cpus: CpuSet,
    /// Memory in MiB; 0 means unknown when every node has 0, otherwise none.
    pub memory_mib: u64,
    /// Hugepage pools.
    pub hugepages: Vec<HugepagePool>,
}

/// A pool of hugepages on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HugepagePool {
    /// Page size in KiB (2048 or 1048576 on x86).
    pub size_kib: u64,
    /// Pages in the pool.
    pub total: u64,
    /// Pages nobody uses now.
    pub free: u64,
}

/// A processor package (physical socket).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its CPUs.
    pub cpus: CpuSet,
}

/// A cache of any level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// 1, 2, 3 ...
    pub level: u8,
    /// `d`ata, `i`nstruction or `u`nified, as Linux abbreviates.
    pub kind: char,
    /// Size in bytes; 0 means unknown.
    pub size_bytes: u64,
    /// CPUs that share it.
    pub cpus: CpuSet,
}

/// Latencies in nanoseconds; one way (half a round trip) between CPUs, load-to-use for memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Latency {
    /// Median core-to-core latency by (LLC, LLC); the diagonal is within one LLC.
    pub llc_ns: Vec<Vec<f64>>,
    /// Between two threads of a core.
    pub smt_ns: Option<f64>,
    /// Between LLCs of one package when the cache line's memory is homed on another package.
    pub home_remote_ns: Option<f64>,
    /// Memory of the own node.
    pub dram_local_ns: Option<f64>,
    /// Memory behind another package.
    pub dram_remote_ns: Option<f64>,
    /// Whether this machine's own probe measured it; otherwise it is a published figure for the model or a sibling.
    pub measured_here: bool,
    /// Where the figures come from, in one line.
    pub source: String,
}

/// Memory bandwidth in MB/s: 10^6 bytes a second, as memory modules are sold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bandwidth {
    /// Peak of the DRAM of one package, whatever its number of nodes; above 0.
    pub package_mbs: u64,
    /// What one last-level cache's link to memory carries, reading; 0 means unknown.
    pub llc_link_mbs: u64,
    /// Where the figures come from, in one line.
    pub source: String,
}

/// A PCI device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostDevice {
    /// Address, e.g. `0000:41:00.0`.
    pub address: String,
    /// What it is, e.g. `Ethernet`, `NVMe`, `GPU`.
    pub class: String,
    /// Names the operating system gives it, e.g. `eth0`; may be empty.
    pub os_names: Vec<String>,
    /// The kernel's number of the node it hangs on; `None` when the machine does not say.
    pub node: Option<u32>,
}

impl Host {
    /// All usable CPUs.
    pub fn cpuset(&self) -> CpuSet {
        self.cpus.iter().map(|cpu| cpu.id).collect()
    }

    /// The entry of a CPU, if it is usable.
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        self.cpus
            .binary_search_by_key(&id, |cpu| cpu.id)
            .ok()
            .map(|index| &self.cpus[index])
    }

    /// Total memory in MiB; 0 means unknown.
    pub fn memory_mib(&self) -> u64 {
        self.nodes.iter().map(|node| node.memory_mib).sum()
    }

    /// Number of cores that have a CPU in the set.
    pub fn cores_in(&self, cpus: &CpuSet) -> u32 {
        let used = cpus.iter().filter_map(|id| self.cpu(id));
        let mut cores: Vec<CoreId> = used.map(|cpu| cpu.core).collect();
        cores.sort_unstable();
        cores.dedup();
        count(cores.iter())
    }

    /// LLCs that have a CPU in the set, by ascending id.
    pub fn llcs_in<'a>(&'a self, cpus: &'a CpuSet) -> impl Iterator<Item = LlcId> + 'a {
        (0..)
            .map(LlcId)
            .zip(&self.llcs)
            .filter(|(_, llc)| llc.cpus.intersects(cpus))
            .map(|(id, _)| id)
    }

    /// Nodes that are home to CPUs, by ascending index.
    pub fn cpu_nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        let is_home = |id: NodeId, node: &Node| {
            let mut homes = node.cpus.iter().filter_map(|cpu| self.cpu(cpu));
            homes.any(|cpu| cpu.node == id)
        };
        (0..)
            .map(NodeId)
            .zip(&self.nodes)
            .filter(move |(id, node)| is_home(*id, node))
    }

    /// The package of a node: that of its first CPU; `None` for a memory-only node.
    pub fn package_of_node(&self, node: NodeId) -> Option<PackageId> {
        let first = self.nodes[node.index()].cpus.first()?;
        self.cpu(first).map(|cpu| cpu.package)
    }

    /// The largest number of threads in a core: 1 without SMT.
    pub fn threads_per_core(&self) -> u32 {
        self.cores
            .iter()
            .map(|core| u32::try_from(core.cpus.len()).unwrap_or(u32::MAX))
            .max()
            .unwrap_or(1)
    }

    /// SLIT distance of two nodes; 10 and 20 (the ACPI default) where the machine does not say.
    pub fn distance(&self, from: NodeId, to: NodeId) -> u32 {
        let known = self
            .distances
            .get(from.index())
            .and_then(|row| row.get(to.index()));
        known.copied().unwrap_or(if from == to { 10 } else { 20 })
    }
}

/// Length of an iterator as the `u32` that counts use here.
fn count(items: impl Iterator) -> u32 {
    u32::try_from(items.count()).expect("tables are bounded by MAX_CPUS")
}
