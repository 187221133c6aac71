//! A host as dense tables: who sits where, how far everything is from everything, and what it can carry.
//!
//! CPUs are numbered by their position in [`Host::cpus`], everything else by the host's own tables. What the host does not
//! know is filled in with typical figures, and [`Fabric::doubts`] says so.

mod distance;
#[cfg(test)]
mod tests;

use model::Host;
use model::host::{Cache, NodeId, Vendor};

/// A host prepared for the simulation.
#[derive(Debug, Clone)]
pub struct Fabric {
    /// Core of each CPU.
    pub cpu_core: Vec<u32>,
    /// Last-level cache of each CPU.
    pub cpu_llc: Vec<u32>,
    /// Node of each CPU.
    pub cpu_node: Vec<u32>,
    /// Package of each CPU.
    pub cpu_package: Vec<u32>,
    /// CPUs of each core: the siblings of a CPU are those of its core.
    pub core_cpus: Lists,
    /// What a core's own caches hold, in bytes: the largest cache that no other core shares.
    pub core_bytes: Vec<f64>,
    /// Node of each LLC: that of its first CPU.
    pub llc_node: Vec<u32>,
    /// Package of each LLC.
    pub llc_package: Vec<u32>,
    /// Size of each LLC.
    pub llc_bytes: Vec<f64>,
    /// CPUs of each LLC.
    pub llc_cpus: Lists,
    /// What the link of an LLC to memory carries, in bytes each ns (GB/s); infinite when not known.
    pub llc_link_bytes_per_ns: f64,
    /// Package of each node; that of the nearest node with CPUs for a node of memory only.
    pub node_package: Vec<u32>,
    /// CPUs of each node.
    pub node_cpus: Lists,
    /// What the memory of each node carries, in bytes each ns; infinite when not known.
    pub node_bytes_per_ns: Vec<f64>,
    /// What the memory of a package carries, in bytes each ns; infinite when not known.
    pub package_bytes_per_ns: f64,
    /// What a package sends of its memory to the others, in bytes each ns; infinite when not known.
    pub remote_bytes_per_ns: f64,
    /// Nodes by distance from each node, itself first: where memory is taken when a node is full.
    pub nodes_near: Lists,
    /// Number of packages.
    pub packages: usize,
    /// From a CPU of one thread of a core to the other.
    pub smt_ns: f64,
    distances: distance::Distances,
    doubts: Vec<&'static str>,
}

/// Lists of small numbers, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

/// Figures of a kind of machine, for what a host does not say.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Typical {
    /// Within an LLC, and between threads of a core.
    same_ns: f64,
    smt_ns: f64,
    /// To another LLC of the node, and of another node of the package.
    node_ns: f64,
    package_ns: f64,
    /// To another package, and to an LLC of the own package for a line homed elsewhere.
    cross_ns: f64,
    home_remote_ns: f64,
    dram_local_ns: f64,
    dram_remote_ns: f64,
    /// Distance that firmware gives another package.
    slit: f64,
}

/// Many LLCs in a package: the row of the EPYC 7702 (reference, machine table: caches are measured, memory and SMT are
/// those of the 7742).
const MANY: Typical = Typical {
    same_ns: 25.0,
    smt_ns: 8.0,
    node_ns: 119.0,
    package_ns: 135.0,
    cross_ns: 233.0,
    home_remote_ns: 236.0,
    dram_local_ns: 122.0,
    dram_remote_ns: 205.0,
    slit: 32.0,
};

/// One LLC in a package, x86: Gold 6148 and its siblings (reference, machine table: measured). Other LLCs of a package
/// do not occur; the figure of a 7950X stands in.
const ONE: Typical = Typical {
    same_ns: 48.0,
    smt_ns: 7.4,
    node_ns: 73.0,
    package_ns: 73.0,
    cross_ns: 137.5,
    home_remote_ns: 137.5,
    dram_local_ns: 85.0,
    dram_remote_ns: 139.0,
    slit: 21.0,
};

/// One LLC in a package, others: Graviton 3 and 4 (reference, machine table; memory is general knowledge).
const MESH: Typical = Typical {
    same_ns: 46.0,
    smt_ns: 8.0,
    node_ns: 73.0,
    package_ns: 73.0,
    cross_ns: 138.6,
    home_remote_ns: 138.6,
    dram_local_ns: 117.5,
    dram_remote_ns: 215.0,
    slit: 20.0,
};

/// LLC of a core on machines that do not say: what miss rates are given for (reference model, section 2.6).
const CORE_LLC_BYTES: f64 = super::vector::REFERENCE_BYTES;
/// No LLC is larger, so that sums over all who share it cannot overflow. Ours.
const MOST_LLC_BYTES: f64 = 64.0 * 1024.0 * 1024.0 * 1024.0;
/// Own cache of a core on machines that do not say: the L2 of EPYC 7002 and 7003.
const CORE_BYTES: f64 = 512.0 * 1024.0;
/// Memory traffic that other packages may draw against what a package carries: 34.4 of 111 GB/s on a Platinum 8180
/// (reference model, sections 1 and 2.5). The only machine with a figure; a guess for all others.
const REMOTE_SHARE: f64 = 0.31;

impl Fabric {
    /// Prepares a host. A host without CPUs gives empty tables.
    pub fn new(host: &Host) -> Self {
        let mut doubts = Vec::new();
        let column = |of: fn(&model::host::Cpu) -> u32| host.cpus.iter().map(of).collect();
        let cpu_core: Vec<u32> = column(|cpu| cpu.core.0);
        let cpu_llc: Vec<u32> = column(|cpu| cpu.llc.0);
        let cpu_node: Vec<u32> = column(|cpu| cpu.node.0);
        let cpu_package: Vec<u32> = column(|cpu| cpu.package.0);
        let core_cpus = Lists::of(&cpu_core, host.cores.len());
        let llc_cpus = Lists::of(&cpu_llc, host.llcs.len());
        let node_cpus = Lists::of(&cpu_node, host.nodes.len());
        let first =
            |cpus: &[u32], table: &[u32]| cpus.first().map_or(0, |&cpu| table[cpu as usize]);
        let llcs = 0..host.llcs.len();
        let llc_package: Vec<u32> = llcs
            .map(|llc| first(llc_cpus.of_index(llc), &cpu_package))
            .collect();
        let node_package = node_packages(host, &node_cpus, &cpu_package);
        let typical = typical(host);
        let distances = distance::Distances::new(host, (&typical, &node_package), &mut doubts);
        let [package_bytes_per_ns, llc_link_bytes_per_ns] = bandwidths(host, &mut doubts);
        let latency = host.latency.as_ref();
        Self {
            llc_node: host.llcs.iter().map(|llc| llc.node.0).collect(),
            llc_bytes: llc_bytes(host, &cpu_core, &llc_cpus, &mut doubts),
            core_bytes: core_bytes(host, &core_cpus, &mut doubts),
            node_bytes_per_ns: node_bandwidths(host, package_bytes_per_ns, &cpu_package),
            remote_bytes_per_ns: if host.packages.len() > 1 {
                REMOTE_SHARE * package_bytes_per_ns
            } else {
                f64::INFINITY
            },
            nodes_near: nodes_near(host),
            packages: host.packages.len(),
            smt_ns: latency
                .and_then(|known| known.smt_ns)
                .unwrap_or(typical.smt_ns),
            cpu_core,
            cpu_llc,
            cpu_node,
            cpu_package,
            core_cpus,
            llc_package,
            llc_cpus,
            llc_link_bytes_per_ns,
            node_package,
            node_cpus,
            package_bytes_per_ns,
            distances,
            doubts,
        }
    }

    /// CPUs of the same core, the CPU among them.
    pub fn siblings(&self, cpu: u32) -> &[u32] {
        self.core_cpus
            .of_index(self.cpu_core[cpu as usize] as usize)
    }

    /// Time in ns until a core under LLC `requester` has a line that a core under LLC `owner` wrote, whose memory is on
    /// node `home`. Within an LLC the home does not matter; between two LLCs of a package, a home on another package
    /// costs as much as a trip there (reference model, finding 1).
    pub fn coherence_ns(&self, requester: u32, owner: u32, home: u32) -> f64 {
        let [local, remote] = self.coherence_by_home(requester, owner);
        if self.node_package[home as usize] == self.llc_package[requester as usize] {
            local
        } else {
            remote
        }
    }

    /// [`coherence_ns`](Self::coherence_ns) for a home in the requester's package, and for any other home.
    pub fn coherence_by_home(&self, requester: u32, owner: u32) -> [f64; 2] {
        let near = self.distances.llc_ns(requester, owner);
        let is_inside = requester != owner
            && self.llc_package[requester as usize] == self.llc_package[owner as usize];
        if is_inside {
            [near, near.max(self.distances.home_remote_ns)]
        } else {
            [near, near]
        }
    }

    /// Time in ns of a load from an unloaded node's memory, from the CPUs of an LLC: the mean over them where an LLC
    /// lies over several nodes.
    pub fn dram_ns(&self, llc: u32, node: u32) -> f64 {
        let (cpus, nodes) = (self.llc_cpus.of_index(llc as usize), &self.cpu_node);
        let first = self.llc_node[llc as usize];
        if cpus.iter().all(|&cpu| nodes[cpu as usize] == first) {
            return self.node_dram_ns(first, node);
        }
        let sum: f64 = cpus
            .iter()
            .map(|&cpu| self.node_dram_ns(nodes[cpu as usize], node))
            .sum();
        sum / cpus.len().max(1) as f64
    }

    /// Time in ns of a load from an unloaded node's memory, from a CPU of node `from`.
    pub fn node_dram_ns(&self, from: u32, node: u32) -> f64 {
        self.distances.dram_ns(from, node)
    }

    /// How near two LLCs are: 0 the same, 1 clearly nearer than the package at large (a quadrant, a die), 2 the same
    /// package, 3 another.
    pub fn distance_class(&self, a: u32, b: u32) -> u8 {
        self.distances.class(a, b)
    }

    /// What is not known of this host and was filled in, one sentence each.
    pub fn doubts(&self) -> &[&'static str] {
        &self.doubts
    }
}

impl Lists {
    /// Positions in `owners`, by owner; owners are below `count`.
    pub fn of(owners: &[u32], count: usize) -> Self {
        let mut starts = vec![0; count + 1];
        for &owner in owners {
            starts[owner as usize + 1] += 1;
        }
        for index in 0..count {
            starts[index + 1] += starts[index];
        }
        let mut next = starts.clone();
        let mut items = vec![0; owners.len()];
        for (item, &owner) in (0..).zip(owners) {
            items[next[owner as usize] as usize] = item;
            next[owner as usize] += 1;
        }
        Self { starts, items }
    }

    /// One list.
    pub fn of_index(&self, index: usize) -> &[u32] {
        &self.items[self.starts[index] as usize..self.starts[index + 1] as usize]
    }
}

fn typical(host: &Host) -> Typical {
    if host.llcs.len() > host.packages.len() {
        return MANY;
    }
    match host.processor.vendor {
        Vendor::Amd | Vendor::Intel => ONE,
        Vendor::Other => MESH,
    }
}

/// Package of the first CPU; of a node without CPUs that of the nearest node which has some.
fn node_packages(host: &Host, node_cpus: &Lists, cpu_package: &[u32]) -> Vec<u32> {
    let own = |node: usize| {
        let first = node_cpus.of_index(node).first();
        first.map(|&cpu| cpu_package[cpu as usize])
    };
    let ids = 0..host.nodes.len() as u32;
    let nearest = |node: u32| {
        let with_cpus = ids.clone().filter(|&other| own(other as usize).is_some());
        with_cpus.min_by_key(|&other| host.distance(NodeId(node), NodeId(other)))
    };
    let package = |node: u32| {
        own(node as usize)
            .or_else(|| own(nearest(node)? as usize))
            .unwrap_or(0)
    };
    ids.clone().map(package).collect()
}

fn nodes_near(host: &Host) -> Lists {
    let count = host.nodes.len() as u32;
    let mut lists = Lists {
        starts: vec![0],
        items: Vec::new(),
    };
    for node in 0..count {
        let start = lists.items.len();
        lists.items.extend(0..count);
        lists.items[start..].sort_by_key(|&other| {
            (
                other != node,
                host.distance(NodeId(node), NodeId(other)),
                other,
            )
        });
        lists.starts.push(lists.items.len() as u32);
    }
    lists
}

fn llc_bytes(
    host: &Host,
    cpu_core: &[u32],
    llc_cpus: &Lists,
    doubts: &mut Vec<&'static str>,
) -> Vec<f64> {
    let cores = |llc: usize| {
        let mut cores: Vec<u32> = llc_cpus
            .of_index(llc)
            .iter()
            .map(|&cpu| cpu_core[cpu as usize])
            .collect();
        cores.sort_unstable();
        cores.dedup();
        cores.len().max(1) as f64
    };
    if host.llcs.iter().any(|llc| llc.size_bytes == 0) {
        doubts.push("the size of a last-level cache is not known; 2 MiB for each core are assumed");
    }
    let bytes = |(index, llc): (usize, &model::host::Llc)| match llc.size_bytes {
        0 => CORE_LLC_BYTES * cores(index),
        bytes => (bytes as f64).min(MOST_LLC_BYTES),
    };
    host.llcs.iter().enumerate().map(bytes).collect()
}

fn core_bytes(host: &Host, core_cpus: &Lists, doubts: &mut Vec<&'static str>) -> Vec<f64> {
    let mut bytes = vec![0.0_f64; core_cpus.starts.len() - 1];
    let is_data = |cache: &&Cache| cache.kind != 'i' && cache.size_bytes > 0;
    for cache in host.caches.iter().filter(is_data) {
        let mut cores = cache.cpus.iter().filter_map(|id| host.cpu(id));
        let Some(core) = cores.next().map(|cpu| cpu.core) else {
            continue;
        };
        if cores.all(|cpu| cpu.core == core) {
            let largest = &mut bytes[core.index()];
            *largest = largest.max(cache.size_bytes as f64);
        }
    }
    if bytes.contains(&0.0) {
        doubts.push("the caches of the cores are not known; 512 KiB for each are assumed");
    }
    for bytes in bytes.iter_mut().filter(|bytes| **bytes == 0.0) {
        *bytes = CORE_BYTES;
    }
    bytes
}

/// Of a package's memory, and of an LLC's link, in bytes each ns.
fn bandwidths(host: &Host, doubts: &mut Vec<&'static str>) -> [f64; 2] {
    let known = host.bandwidth.as_ref();
    let stated = |mbs: u64| {
        if mbs == 0 {
            f64::INFINITY
        } else {
            mbs as f64 / 1000.0
        }
    };
    let bandwidths = [
        known.map_or(f64::INFINITY, |known| stated(known.package_mbs)),
        known.map_or(f64::INFINITY, |known| stated(known.llc_link_mbs)),
    ];
    if bandwidths[0].is_infinite() {
        doubts.push("the memory bandwidth is not known; memory is never saturated here");
    } else if host.packages.len() > 1 {
        doubts.push("what packages send each other is taken as 0.31 of a package's bandwidth, as on a Platinum 8180");
    }
    if bandwidths[1].is_infinite() && host.llcs.len() > host.packages.len() {
        doubts.push("the links of the last-level caches to memory are not known; they are never saturated here");
    }
    bandwidths
}

/// Each package's bandwidth divided over the nodes that have CPUs in it; a node of memory only is never saturated.
fn node_bandwidths(host: &Host, package: f64, cpu_package: &[u32]) -> Vec<f64> {
    let mut pairs: Vec<(u32, u32)> = host
        .cpus
        .iter()
        .zip(cpu_package)
        .map(|(cpu, &package)| (package, cpu.node.0))
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    let mut parts = vec![0.0; host.nodes.len()];
    for &(at, node) in &pairs {
        let nodes = pairs.iter().filter(|(package, _)| *package == at).count();
        parts[node as usize] += package / nodes as f64;
    }
    let or_infinite = |part: f64| if part > 0.0 { part } else { f64::INFINITY };
    parts.into_iter().map(or_infinite).collect()
}
