//! Makes a [`Host`] from the parts a description gives, and checks that they hold together.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::llcs::last_level_caches;
use super::{
    Bandwidth, Cache, Core, CoreId, Cpu, Host, HostDevice, Latency, Llc, LlcId, Node, NodeId,
    Package, PackageId, Processor,
};
use crate::cpuset::{CpuId, CpuSet};

/// What a description says of a machine. Unknown parts stay empty; [`Host::from_parts`] fills the gaps by the rules of
/// each field.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Parts {
    /// See [`Host::name`].
    pub name: String,
    /// See [`Host::processor`].
    pub processor: Processor,
    /// Usable CPUs; must not be empty.
    pub cpus: CpuSet,
    /// Cores; CPUs in none become cores of their own.
    pub cores: Vec<Core>,
    /// Dies, where known.
    pub dies: Vec<CpuSet>,
    /// NUMA nodes; none becomes one node 0 with all CPUs. CPUs in several are at home in the smallest; CPUs in none (their node
    /// is not usable) stay out of every node and are related to the nearest, see [`Cpu::node`].
    pub nodes: Vec<Node>,
    /// Packages; none becomes one package; CPUs in none become a package of their own, together.
    pub packages: Vec<CpuSet>,
    /// All caches; the last-level caches are found among them.
    pub caches: Vec<Cache>,
    /// See [`Host::distances`]; a matrix of another size than `nodes` is an error.
    pub distances: Vec<Vec<u32>>,
    /// See [`Host::latency`]; a matrix of another size than the LLCs is an error.
    pub latency: Option<Latency>,
    /// See [`Host::bandwidth`]; without a figure for the package it is left out.
    pub bandwidth: Option<Bandwidth>,
    /// See [`Host::devices`].
    pub devices: Vec<HostDevice>,
    /// See [`Host::offline`].
    pub offline: CpuSet,
    /// See [`Host::restricted`].
    pub restricted: CpuSet,
    /// See [`Host::isolated`].
    pub isolated: CpuSet,
}

/// A part of a host, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// The cores.
    Core,
    /// The last-level caches.
    Llc,
    /// The packages.
    Package,
}

/// Why parts make no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// No usable CPU.
    #[error("the description has no usable CPU; give at least one")]
    NoCpus,
    /// Two objects of a kind claim a CPU.
    #[error("CPU {cpu} is in two {relation:?} objects; each CPU belongs to exactly one")]
    Overlap {
        /// The kind.
        relation: Relation,
        /// The CPU.
        cpu: CpuId,
    },
    /// A matrix has the wrong size.
    #[error("the {what} matrix is not {size} x {size}; give one row and one column per {per}")]
    Matrix {
        /// `distance` or `latency`.
        what: &'static str,
        /// Rows and columns it must have.
        size: usize,
        /// `node` or `LLC`.
        per: &'static str,
    },
    /// Two nodes have the same number.
    #[error("node {id} is described twice")]
    DuplicateNode {
        /// The kernel's number.
        id: u32,
    },
}

impl Host {
    /// Builds a host: fills gaps, sorts every table, finds the last-level caches, relates every CPU to its place.
    ///
    /// # Errors
    /// No CPU, overlapping cores, caches of the last level or packages, duplicate nodes, matrices of the wrong size.
    pub fn from_parts(parts: Parts) -> Result<Self, HostError> {
        if parts.cpus.is_empty() {
            return Err(HostError::NoCpus);
        }
        let cores = complete_cores(&parts);
        let nodes = complete_nodes(&parts)?;
        let packages_known = parts.packages.iter().any(|set| set.intersects(&parts.cpus));
        let packages = complete_packages(&parts);
        let (llc_source, mut llcs) = last_level_caches(&parts, &cores, &nodes, &packages);
        check_matrix(
            "distance",
            parts.distances.iter().map(Vec::len),
            nodes.len(),
            "node",
        )?;
        if let Some(latency) = &parts.latency {
            check_matrix(
                "latency",
                latency.llc_ns.iter().map(Vec::len),
                llcs.len(),
                "LLC",
            )?;
        }

        let cpus = relate(&parts.cpus, &cores, &llcs, &nodes, &packages)?;
        for llc in &mut llcs {
            let first = llc
                .cpus
                .first()
                .and_then(|first| cpus.binary_search_by_key(&first, |cpu| cpu.id).ok());
            llc.node = first.map_or(NodeId(0), |index| cpus[index].node);
        }
        let mut dies = restrict(parts.dies.iter(), &parts.cpus);
        dies.sort();
        dies.sort_by_key(CpuSet::first);
        let mut caches = parts.caches;
        for cache in &mut caches {
            cache.cpus = cache.cpus.intersection(&parts.cpus);
        }
        caches.retain(|cache| !cache.cpus.is_empty());
        caches.sort_by_key(|cache| (cache.level, cache.kind, cache.cpus.first()));
        Ok(Self {
            name: parts.name,
            processor: parts.processor,
            cpus,
            cores,
            llcs,
            dies,
            nodes,
            packages,
            caches,
            distances: parts.distances,
            latency: parts.latency,
            bandwidth: parts.bandwidth.filter(|known| known.package_mbs > 0),
            devices: parts.devices,
            offline: parts.offline,
            restricted: parts.restricted,
            isolated: parts.isolated.intersection(&parts.cpus),
            llc_source,
            packages_known,
        })
    }

    /// The parts the host was made of, to change some and build again (what-ifs).
    pub fn to_parts(&self) -> Parts {
        Parts {
            name: self.name.clone(),
            processor: self.processor.clone(),
            cpus: self.cpuset(),
            cores: self.cores.clone(),
            dies: self.dies.clone(),
            nodes: self.nodes.clone(),
            packages: if self.packages_known {
                self.packages
                    .iter()
                    .map(|package| package.cpus.clone())
                    .collect()
            } else {
                Vec::new()
            },
            caches: self.caches.clone(),
            distances: self.distances.clone(),
            latency: self.latency.clone(),
            bandwidth: self.bandwidth.clone(),
            devices: self.devices.clone(),
            offline: self.offline.clone(),
            restricted: self.restricted.clone(),
            isolated: self.isolated.clone(),
        }
    }
}

/// The sets cut down to usable CPUs, without empty ones.
fn restrict<'a>(sets: impl Iterator<Item = &'a CpuSet>, cpus: &CpuSet) -> Vec<CpuSet> {
    sets.map(|set| set.intersection(cpus))
        .filter(|set| !set.is_empty())
        .collect()
}

fn complete_cores(parts: &Parts) -> Vec<Core> {
    let mut cores: Vec<Core> = parts
        .cores
        .iter()
        .map(|core| Core {
            cpus: core.cpus.intersection(&parts.cpus),
            ..core.clone()
        })
        .filter(|core| !core.cpus.is_empty())
        .collect();
    let known = union(cores.iter().map(|core| &core.cpus));
    cores.extend(parts.cpus.difference(&known).iter().map(|cpu| Core {
        cpus: [cpu].into_iter().collect(),
        efficiency: 0,
    }));
    cores.sort_by_key(|core| core.cpus.first());
    cores
}

fn complete_nodes(parts: &Parts) -> Result<Vec<Node>, HostError> {
    let mut nodes = parts.nodes.clone();
    if nodes.is_empty() {
        nodes.push(Node {
            id: 0,
            cpus: parts.cpus.clone(),
            memory_mib: 0,
            hugepages: Vec::new(),
        });
    }
    let mut ids = BTreeSet::new();
    let mut seen: Vec<CpuSet> = Vec::new();
    for node in &mut nodes {
        if !ids.insert(node.id) {
            return Err(HostError::DuplicateNode { id: node.id });
        }
        // Linux gives CPUs to one node only; hwloc shows them again under memory of another kind beside it (HBM).
        let cpus = node.cpus.intersection(&parts.cpus);
        node.cpus = if seen.contains(&cpus) {
            CpuSet::new()
        } else {
            cpus
        };
        seen.push(node.cpus.clone());
    }
    Ok(nodes)
}

fn complete_packages(parts: &Parts) -> Vec<Package> {
    let mut packages = restrict(parts.packages.iter(), &parts.cpus);
    let homeless = parts.cpus.difference(&union(packages.iter()));
    if !homeless.is_empty() {
        packages.push(homeless);
    }
    packages.sort_by_key(CpuSet::first);
    packages.into_iter().map(|cpus| Package { cpus }).collect()
}

pub(super) fn union<'a>(sets: impl Iterator<Item = &'a CpuSet>) -> CpuSet {
    sets.flat_map(CpuSet::iter).collect()
}

/// The place of every CPU in every table.
fn relate(
    usable: &CpuSet,
    cores: &[Core],
    llcs: &[Llc],
    nodes: &[Node],
    packages: &[Package],
) -> Result<Vec<Cpu>, HostError> {
    let len = usable.last().map_or(0, |last| last.index() + 1);
    let core_of = index(len, Relation::Core, cores.iter().map(|core| &core.cpus))?;
    let llc_of = index(len, Relation::Llc, llcs.iter().map(|llc| &llc.cpus))?;
    let node_of = home_nodes(len, nodes);
    let package_of = index(
        len,
        Relation::Package,
        packages.iter().map(|package| &package.cpus),
    )?;
    // A CPU whose node is not usable (its memory is forbidden to us) is nearest to a node of its package.
    let neighbour = |package: u32| {
        let cpus = &packages[package as usize].cpus;
        cpus.iter()
            .map(|cpu| node_of[cpu.index()])
            .find(|&node| node != NONE)
            .unwrap_or(0)
    };
    let cpu = |id: CpuId| {
        let package = package_of[id.index()];
        let node = match node_of[id.index()] {
            NONE => neighbour(package),
            node => node,
        };
        Cpu {
            id,
            core: CoreId(core_of[id.index()]),
            llc: LlcId(llc_of[id.index()]),
            node: NodeId(node),
            package: PackageId(package),
        }
    };
    Ok(usable.iter().map(cpu).collect())
}

/// For each CPU number below `len` the smallest node that holds it, or [`NONE`].
fn home_nodes(len: usize, nodes: &[Node]) -> Vec<u32> {
    let mut large_to_small: Vec<(u32, &Node)> = (0..).zip(nodes).collect();
    large_to_small.sort_by_key(|(index, node)| (Reverse(node.cpus.len()), Reverse(*index)));
    let mut of = vec![NONE; len];
    for (index, node) in large_to_small {
        for cpu in node.cpus.iter().filter(|cpu| cpu.index() < len) {
            of[cpu.index()] = index;
        }
    }
    of
}

/// In no object.
const NONE: u32 = u32::MAX;

/// For each CPU number below `len` the index of the object that holds it, or [`NONE`].
fn index<'a>(
    len: usize,
    relation: Relation,
    sets: impl Iterator<Item = &'a CpuSet>,
) -> Result<Vec<u32>, HostError> {
    let mut of = vec![NONE; len];
    for (object, set) in (0u32..).zip(sets) {
        for cpu in set.iter().filter(|cpu| cpu.index() < len) {
            if of[cpu.index()] != NONE {
                return Err(HostError::Overlap { relation, cpu });
            }
            of[cpu.index()] = object;
        }
    }
    Ok(of)
}

fn check_matrix(
    what: &'static str,
    rows: impl ExactSizeIterator<Item = usize>,
    size: usize,
    per: &'static str,
) -> Result<(), HostError> {
    let n_rows = rows.len();
    if n_rows == 0 || (n_rows == size && rows.into_iter().all(|row| row == size)) {
        return Ok(());
    }
    Err(HostError::Matrix { what, size, per })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::LlcSource;

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    fn cache(level: u8, cpus: &str, size_bytes: u64) -> Cache {
        Cache {
            level,
            kind: 'u',
            size_bytes,
            cpus: set(cpus),
        }
    }

    #[test]
    fn fills_every_gap_by_rule() {
        let host = Host::from_parts(Parts {
            cpus: set("0-3"),
            ..Parts::default()
        })
        .unwrap();
        assert_eq!(
            (host.cores.len(), host.nodes.len(), host.packages.len()),
            (4, 1, 1)
        );
        assert_eq!(
            (host.llc_source, host.llcs[0].level, &host.llcs[0].cpus),
            (LlcSource::Nodes, 0, &set("0-3"))
        );
        assert!(!host.packages_known);
    }

    #[test]
    fn keeps_bandwidth_only_with_a_figure_for_the_package() {
        for (package_mbs, is_kept) in [(204_800, true), (0, false)] {
            let bandwidth = Some(Bandwidth {
                package_mbs,
                llc_link_mbs: 25_600,
                source: "a test".into(),
            });
            let host = Host::from_parts(Parts {
                cpus: set("0-3"),
                bandwidth: bandwidth.clone(),
                ..Parts::default()
            })
            .unwrap();
            assert_eq!(host.bandwidth, bandwidth.filter(|_| is_kept));
            assert_eq!(host.to_parts().bandwidth, host.bandwidth);
        }
    }

    #[test]
    fn finds_the_last_level_cache() {
        for (caches, source, spans) in [
            (
                vec![cache(3, "0-3", 8), cache(3, "4-7", 4), cache(2, "0-1", 1)],
                LlcSource::L3,
                "0-3 4-7",
            ),
            (
                vec![cache(2, "0-3", 8), cache(2, "4-7", 8)],
                LlcSource::L2,
                "0-3 4-7",
            ),
            (
                vec![cache(3, "0-3", 8), cache(2, "4-5", 2), cache(2, "6-7", 2)],
                LlcSource::Mixed,
                "0-3 4-5 6-7",
            ),
            (vec![cache(3, "0-3", 8)], LlcSource::L3, "0-3 4-7"),
            (
                vec![cache(2, "0-1", 1), cache(2, "2-3", 1)],
                LlcSource::L2,
                "0-1 2-3 4-7",
            ),
            (vec![cache(1, "0", 1)], LlcSource::Nodes, "0-7"),
        ] {
            let cores = (0..8)
                .map(|cpu| Core {
                    cpus: set(&cpu.to_string()),
                    efficiency: 0,
                })
                .collect();
            let host = Host::from_parts(Parts {
                cpus: set("0-7"),
                cores,
                caches,
                ..Parts::default()
            })
            .unwrap();
            let found: Vec<String> = host.llcs.iter().map(|llc| llc.cpus.to_string()).collect();
            assert_eq!((host.llc_source, found.join(" ").as_str()), (source, spans));
        }
    }

    #[test]
    fn refuses_parts_that_contradict() {
        let node = |id, cpus: &str| Node {
            id,
            cpus: set(cpus),
            memory_mib: 0,
            hugepages: vec![],
        };
        let parts = |cpus: &str| Parts {
            cpus: set(cpus),
            ..Parts::default()
        };
        assert_eq!(Host::from_parts(parts("")).unwrap_err(), HostError::NoCpus);
        let twice = Parts {
            nodes: vec![node(0, "0"), node(0, "1")],
            ..parts("0-1")
        };
        assert_eq!(
            Host::from_parts(twice).unwrap_err(),
            HostError::DuplicateNode { id: 0 }
        );
        let overlap = Parts {
            packages: vec![set("0-1"), set("1")],
            ..parts("0-1")
        };
        assert!(matches!(
            Host::from_parts(overlap),
            Err(HostError::Overlap { .. })
        ));
        let ragged = Parts {
            distances: vec![vec![10, 20]],
            ..parts("0-1")
        };
        assert!(matches!(
            Host::from_parts(ragged),
            Err(HostError::Matrix { .. })
        ));
    }
}
