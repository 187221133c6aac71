//! Regroups the CPUs of a host and carries memory, distances, devices and latencies over.

use std::collections::BTreeSet;

use crate::cpuset::CpuSet;
use crate::host::{Cache, Core, Host, HostError, HugepagePool, Latency, Node, NodeId, Vendor};

/// The CPUs of a package in `n` parts: whole LLCs in order where `n` divides their number; cores in order, as even as
/// possible and larger parts first, where there is one LLC (43, 43 and 42 cores of a Xeon 6980P). `None` where neither
/// works.
pub(crate) fn parts_of(host: &Host, package: &CpuSet, n: u32) -> Option<Vec<CpuSet>> {
    let n = usize::try_from(n).ok().filter(|&n| n > 0)?;
    let llcs: Vec<CpuSet> = host
        .llcs_in(package)
        .map(|id| host.llcs[id.index()].cpus.intersection(package))
        .collect();
    let units = match llcs.len() {
        count if count % n == 0 => llcs,
        1 => {
            let cores = host
                .cores
                .iter()
                .map(|core| core.cpus.intersection(package));
            cores.filter(|cpus| !cpus.is_empty()).collect()
        }
        _ => return None,
    };
    if units.len() < n {
        return None;
    }
    let mut units = units.iter();
    let parts = (0..n).map(|part| {
        let size = units.len().div_ceil(n - part);
        union(units.by_ref().take(size))
    });
    Some(parts.collect())
}

/// The `index`th of `parts` even shares; the first ones take the remainder.
pub(crate) fn share(total: u64, parts: u64, index: u64) -> u64 {
    total / parts + u64::from(index < total % parts)
}

/// The host with these nodes, which partition its CPUs. `near` gives the distance of two nodes that are in the same
/// package, that were in the same node; where it gives none, the old distance stays.
pub(super) fn regroup(
    host: &Host,
    sets: &[CpuSet],
    near: impl Fn(bool, bool) -> Option<u32>,
) -> Result<Host, HostError> {
    if host.cpu_nodes().map(|(_, node)| &node.cpus).eq(sets) {
        return Ok(host.clone());
    }
    let origins = origins(host, sets);
    let mut parts = host.to_parts();
    parts.nodes = new_nodes(host, sets, &origins);
    parts.distances = new_distances(host, sets, &origins, near);
    for device in &mut parts.devices {
        device.node = device.node.and_then(|id| new_node_of(host, &origins, id));
    }
    Host::from_parts(parts)
}

/// One node with everything, no distances, devices nowhere; memory at the mean of all packages.
pub(super) fn interleave(host: &Host) -> Result<Host, HostError> {
    let mut parts = host.to_parts();
    let mut hugepages = Vec::new();
    for pool in host.nodes.iter().flat_map(|node| &node.hugepages) {
        add_pool(&mut hugepages, *pool);
    }
    parts.nodes = vec![Node {
        id: 0,
        cpus: host.cpuset(),
        memory_mib: total_memory(&host.nodes),
        hugepages,
    }];
    parts.distances = Vec::new();
    for device in &mut parts.devices {
        device.node = None;
    }
    if let Some(latency) = &mut parts.latency
        && let (Some(local), Some(remote)) = (latency.dram_local_ns, latency.dram_remote_ns.take())
        && host.cpu_nodes().count() > 1
    {
        let packages = as_f64(host.packages.len());
        latency.dram_local_ns = Some((local + (packages - 1.0) * remote) / packages);
    }
    Host::from_parts(parts)
}

/// The host with the first thread of each core only.
pub(super) fn first_threads(host: &Host) -> Result<Host, HostError> {
    let mut parts = host.to_parts();
    parts.cores = host
        .cores
        .iter()
        .map(|core| Core {
            cpus: core.cpus.first().into_iter().collect(),
            ..core.clone()
        })
        .collect();
    parts.cpus = union(parts.cores.iter().map(|core| &core.cpus));
    parts.latency = None;
    let mut result = Host::from_parts(parts)?;
    result.latency = carried_latency(host, &result);
    if let Some(latency) = &mut result.latency {
        latency.smt_ns = None;
    }
    Ok(result)
}

/// The host with one last-level cache per set instead of its L3s, each with an even share of its package's L3.
pub(super) fn cut_llcs(host: &Host, sets: &[CpuSet]) -> Result<Host, HostError> {
    if host.llcs.iter().map(|llc| &llc.cpus).eq(sets) {
        return Ok(host.clone());
    }
    let mut parts = host.to_parts();
    parts.caches.retain(|cache| cache.level != 3);
    for package in &host.packages {
        let sets: Vec<&CpuSet> = sets
            .iter()
            .filter(|set| set.is_subset(&package.cpus))
            .collect();
        let sizes = host
            .llcs_in(&package.cpus)
            .map(|id| host.llcs[id.index()].size_bytes);
        let size = sizes.fold(0, u64::saturating_add);
        parts
            .caches
            .extend((0..).zip(&sets).map(|(index, set)| Cache {
                level: 3,
                kind: 'u',
                size_bytes: share(size, sets.len() as u64, index),
                cpus: (*set).clone(),
            }));
    }
    parts.latency = None;
    let mut result = Host::from_parts(parts)?;
    result.latency = carried_latency(host, &result);
    Ok(result)
}

/// For each new node the old nodes it comes from: those its CPUs were at home in, then each node that was no CPU's home
/// by itself.
fn origins(host: &Host, sets: &[CpuSet]) -> Vec<Vec<NodeId>> {
    let with_cpus = sets.iter().map(|set| {
        let nodes: BTreeSet<NodeId> = set
            .iter()
            .filter_map(|cpu| host.cpu(cpu))
            .map(|cpu| cpu.node)
            .collect();
        nodes.into_iter().collect()
    });
    let homes: BTreeSet<NodeId> = host.cpu_nodes().map(|(id, _)| id).collect();
    let others = (0..)
        .map(NodeId)
        .take(host.nodes.len())
        .filter(|id| !homes.contains(id));
    with_cpus.chain(others.map(|id| vec![id])).collect()
}

fn new_nodes(host: &Host, sets: &[CpuSet], origins: &[Vec<NodeId>]) -> Vec<Node> {
    let mut parts = vec![0; host.nodes.len()];
    for old in origins.iter().flatten() {
        parts[old.index()] += 1;
    }
    let mut taken = vec![0; host.nodes.len()];
    let mut nodes = Vec::new();
    for (id, (index, old_nodes)) in (0..).zip(origins.iter().enumerate()) {
        let mut node = Node {
            id,
            cpus: sets.get(index).cloned().unwrap_or_default(),
            memory_mib: 0,
            hugepages: Vec::new(),
        };
        for old in old_nodes.iter().map(|old| old.index()) {
            let part = |total| share(total, parts[old], taken[old]);
            node.memory_mib = node
                .memory_mib
                .saturating_add(part(host.nodes[old].memory_mib));
            for pool in &host.nodes[old].hugepages {
                let pool = HugepagePool {
                    total: part(pool.total),
                    free: part(pool.free),
                    ..*pool
                };
                add_pool(&mut node.hugepages, pool);
            }
            taken[old] += 1;
        }
        nodes.push(node);
    }
    nodes
}

fn new_distances(
    host: &Host,
    sets: &[CpuSet],
    origins: &[Vec<NodeId>],
    near: impl Fn(bool, bool) -> Option<u32>,
) -> Vec<Vec<u32>> {
    let unknown = match host.processor.vendor {
        Vendor::Amd => 32,
        Vendor::Intel => 21,
        Vendor::Other => 20,
    };
    let package_of = |node: usize| {
        let first = sets.get(node)?.first()?;
        host.cpu(first).map(|cpu| cpu.package)
    };
    let distance = |from: usize, to: usize| {
        if from == to {
            return 10;
        }
        let (old_from, old_to) = (origins[from][0], origins[to][0]);
        let is_same_node = old_from == old_to;
        let (a, b) = (package_of(from), package_of(to));
        let is_same_package = a.is_some() && a == b;
        match near(is_same_package, is_same_node) {
            Some(distance) => distance,
            None if !is_same_node && !host.distances.is_empty() => host.distance(old_from, old_to),
            None if is_same_package => 12,
            None => unknown,
        }
    };
    let all = 0..origins.len();
    all.clone()
        .map(|from| all.clone().map(|to| distance(from, to)).collect())
        .collect()
}

/// The new node that alone holds all of an old one, by the kernel's numbers.
fn new_node_of(host: &Host, origins: &[Vec<NodeId>], id: u32) -> Option<u32> {
    let old = host.nodes.iter().position(|node| node.id == id)?;
    let mut holders = (0..)
        .zip(origins)
        .filter(|(_, nodes)| nodes.iter().any(|node| node.index() == old))
        .map(|(id, _)| id);
    let first = holders.next()?;
    holders.next().is_none().then_some(first)
}

/// The old latencies for the new LLCs: each entry is the mean over the old LLCs that the new ones meet.
fn carried_latency(old: &Host, new: &Host) -> Option<Latency> {
    let mut latency = old.latency.clone()?;
    if latency.llc_ns.is_empty() {
        return Some(latency);
    }
    let origins: Vec<BTreeSet<usize>> = new
        .llcs
        .iter()
        .map(|llc| {
            llc.cpus
                .iter()
                .filter_map(|cpu| old.cpu(cpu))
                .map(|cpu| cpu.llc.index())
                .collect()
        })
        .collect();
    let mean = |from: &BTreeSet<usize>, to: &BTreeSet<usize>| {
        let pairs = from.iter().flat_map(|&a| to.iter().map(move |&b| (a, b)));
        let sum: f64 = pairs.map(|(a, b)| latency.llc_ns[a][b]).sum();
        sum / as_f64(from.len() * to.len())
    };
    let row = |from| origins.iter().map(|to| mean(from, to)).collect();
    latency.llc_ns = origins.iter().map(row).collect();
    Some(latency)
}

fn add_pool(pools: &mut Vec<HugepagePool>, pool: HugepagePool) {
    match pools
        .iter_mut()
        .find(|known| known.size_kib == pool.size_kib)
    {
        Some(known) => {
            known.total = known.total.saturating_add(pool.total);
            known.free = known.free.saturating_add(pool.free);
        }
        None => pools.push(pool),
    }
}

fn total_memory(nodes: &[Node]) -> u64 {
    nodes
        .iter()
        .map(|node| node.memory_mib)
        .fold(0, u64::saturating_add)
}

fn union<'a>(sets: impl Iterator<Item = &'a CpuSet>) -> CpuSet {
    sets.fold(CpuSet::new(), |all, set| all.union(set))
}

/// A small count as a number to divide by.
fn as_f64(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
