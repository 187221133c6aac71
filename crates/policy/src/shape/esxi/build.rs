//! Puts numbers into the guest's topology: sockets, caches, nodes, memory.

use std::ops::Range;

use model::{CpuSet, GuestLlc, GuestNode, GuestTopology, Level};

use super::NumaClient;
use super::hardware;
use super::places::Places;
use super::setup::{CoresPerSocket, Setup};
use super::vnuma::Sizing;

/// Cores per socket.
///
/// Every automatic value seen in public is the size of one vNUMA node, so that is the rule. Where nodes are unequal or
/// cut across (21 vCPUs on 20-core nodes), the largest size that divides both the VM and its first node is taken: no
/// socket then lies on two nodes, and all are equal. With hot-add and reserved slots it must also divide the slots,
/// since only whole sockets can be added.
pub(super) fn cores_per_socket(setup: &Setup, sizing: &Sizing) -> u32 {
    let (CoresPerSocket::Default(cores) | CoresPerSocket::Manual(cores)) = setup.cores else {
        return automatic_cores(setup, sizing);
    };
    cores
}

fn automatic_cores(setup: &Setup, sizing: &Sizing) -> u32 {
    let cores = setup.vcpus / setup.threads;
    let most = hardware::max_cores_per_socket(setup.hw);
    if let Some(kept) = setup.kept_cores
        && kept <= most
        && cores.is_multiple_of(kept)
    {
        return kept;
    }
    let mut size = gcd(cores, sizing.node_vcpus / setup.threads);
    if setup.slots > setup.vcpus {
        size = gcd(size, setup.slots / setup.threads);
    }
    (1..=size.min(most))
        .rev()
        .find(|&divisor| size.is_multiple_of(divisor))
        .unwrap_or(1)
}

/// The topology, with nodes, memory and caches.
pub(super) fn topology(
    setup: &Setup,
    places: &Places,
    sizing: &Sizing,
    cores: u32,
) -> GuestTopology {
    let sockets = (setup.slots / cores / setup.threads).max(1);
    let mut topology = GuestTopology::uniform(setup.vcpus, [sockets, 1, 1, cores, setup.threads]);
    if setup.automatic() {
        share_physical_llcs(&mut topology, places.llc);
    } else {
        // Before hardware version 20 each socket shows one cache of the size of all caches of a package.
        let per_socket = topology.blocks(topology.slots_in(Level::Socket));
        topology.llcs = llcs(per_socket, places.package_llc_bytes);
    }
    let memory = split(setup.memory_mib, &vec![1; sizing.nodes.len()]);
    topology.numa_nodes = sizing
        .nodes
        .iter()
        .zip(memory)
        .map(|(vcpus, memory_mib)| GuestNode {
            vcpus: CpuSet::from_range(vcpus.clone()),
            memory_mib,
            host_nodes: places.backing(vcpus, &sizing.clients),
        })
        .collect();
    topology
}

/// The NUMA clients with their memory: each vNUMA node's memory goes to the clients that back it, by vCPUs.
pub(super) fn clients(sizing: &Sizing, topology: &GuestTopology) -> Vec<NumaClient> {
    let mut memory = vec![0; sizing.clients.len()];
    for (node, shown) in sizing.nodes.iter().zip(&topology.numa_nodes) {
        let shares: Vec<u32> = sizing
            .clients
            .iter()
            .map(|client| overlap(client, node))
            .collect();
        for (sum, share) in memory.iter_mut().zip(split(shown.memory_mib, &shares)) {
            *sum += share;
        }
    }
    sizing
        .clients
        .iter()
        .zip(memory)
        .map(|(vcpus, memory_mib)| NumaClient {
            vcpus: CpuSet::from_range(vcpus.clone()),
            memory_mib,
        })
        .collect()
}

/// Cuts each socket into groups of at most the cores of a physical cache, as few and even as possible, each with a
/// cache of that size. Equal groups are dies; unequal ones (13 cores on 8-core caches) are only listed, since no level
/// of a uniform hierarchy has their size.
fn share_physical_llcs(topology: &mut GuestTopology, (llc_cores, bytes): (u32, u64)) {
    let (cores, threads) = (topology.cores, topology.threads);
    let groups = cores.div_ceil(llc_cores.min(cores).max(1));
    let blocks = if cores.is_multiple_of(groups) {
        (topology.dies, topology.cores) = (groups, cores / groups);
        topology.blocks(topology.slots_in(Level::Die))
    } else {
        let size = cores.div_ceil(groups) * threads;
        let sockets = topology.blocks(topology.slots_in(Level::Socket));
        sockets
            .iter()
            .flat_map(|socket| blocks_of(socket, size))
            .collect()
    };
    topology.llcs = llcs(blocks, bytes);
}

fn llcs(blocks: Vec<CpuSet>, size_bytes: u64) -> Vec<GuestLlc> {
    let llc = |vcpus| GuestLlc {
        vcpus,
        size_bytes,
        guest_size_bytes: size_bytes,
    };
    blocks.into_iter().map(llc).collect()
}

/// Cuts a set into blocks of `size` members, in order.
fn blocks_of(set: &CpuSet, size: u32) -> Vec<CpuSet> {
    let members: Vec<_> = set.iter().collect();
    members
        .chunks(size.max(1) as usize)
        .map(|block| block.iter().copied().collect())
        .collect()
}

/// Splits MiB by weights; what does not divide goes to the first ones, 1 MiB each.
fn split(total: u64, weights: &[u32]) -> Vec<u64> {
    let sum: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
    if sum == 0 {
        return vec![0; weights.len()];
    }
    // Memory is at most 25,149,440 MiB and weights at most 960, so the products stay far below 2^64.
    let mut parts: Vec<u64> = weights
        .iter()
        .map(|&weight| total.saturating_mul(u64::from(weight)) / sum)
        .collect();
    let mut left = total.saturating_sub(parts.iter().sum());
    for (part, &weight) in parts.iter_mut().zip(weights) {
        if left > 0 && weight > 0 {
            *part += 1;
            left -= 1;
        }
    }
    parts
}

/// vCPUs that two ranges share.
fn overlap(a: &Range<u32>, b: &Range<u32>) -> u32 {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
