//! Cuts a VM into vNUMA nodes (VPDs, what the guest sees) and NUMA clients (PPDs, what the host schedules as one).
//!
//! **Rule since 6.5.** vCPUs are spread evenly over the fewest host nodes by cores; a client holds whole virtual sockets
//! ("mini affinity rule", Denneman 2021-12-02: 30 vCPUs on 2 x 20 cores are 16 + 14 with 2 cores per socket, 18 + 12
//! with 6). The guest sees the clients as its nodes if it is large enough and CPUs cannot be hot-added. Memory does not
//! count. The published form of the rule is `roundup(ceil(V / N), cores per socket)`; here whole sockets are dealt out,
//! which gives the same wherever that form stays within a node, and never more than a node where it does not.
//!
//! **Before 6.5** cores per socket above 1 were the vNUMA node size, and each vNUMA node was a client, or several where
//! it exceeded a host node (6.0, advanced virtual NUMA attributes: `numa.vcpu.maxPerClient`).
//!
//! **Properties.** Nodes and clients are contiguous blocks in index order and cover every vCPU once.

use std::ops::Range;

use super::Release;
use super::hardware;
use super::setup::{Kept, Setup};

/// `Numa.MaxProximityDomains` of 5.5 and 6.0 (advanced options of 6.0 U3); the option is gone in 6.5.
const MAX_CLIENTS_BEFORE_6_5: usize = 16;

/// How a VM is cut.
#[derive(Debug)]
pub(super) struct Sizing {
    /// What decided about the nodes the guest sees.
    pub(super) by: SizedBy,
    /// vCPUs of a full vNUMA node.
    pub(super) node_vcpus: u32,
    /// vNUMA nodes, in guest order.
    pub(super) nodes: Vec<Range<u32>>,
    /// NUMA clients.
    pub(super) clients: Vec<Range<u32>>,
    /// What this host would give a VM that was never powered on.
    pub(super) fresh: Vec<Range<u32>>,
    /// Blocks were joined to keep within a maximum.
    pub(super) joined: bool,
}

/// What decided about the vNUMA nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SizedBy {
    /// Hot-add leaves one node.
    HotAdd,
    /// `numa.vcpu.coresPerNode`, as vCPUs.
    CoresPerNode(u32),
    /// Too small or too old to be shown NUMA.
    TooSmall,
    /// `numa.vcpu.maxPerVirtualNode`.
    MaxPerVirtualNode(u32),
    /// Cores per socket (before 6.5, or `numa.vcpu.followcorespersocket`).
    Sockets,
    /// What an earlier power-on wrote down: vCPUs per node.
    Kept(u32),
    /// `numa.autosize`: as many vCPUs as a host node has cores.
    FullNodes,
    /// The host's nodes.
    Host,
}

/// Cuts a VM for host nodes that take `capacity` vCPUs each, of which it may use `n_places`.
pub(super) fn size(setup: &Setup, capacity: u32, n_places: usize) -> Sizing {
    let fit = fit(setup, capacity, n_places);
    let fresh = if setup.shows_numa() {
        fit.clone()
    } else {
        chunks(&(0..setup.vcpus), u32::MAX)
    };
    let by = sized_by(setup);
    let nodes = match by {
        SizedBy::Host => fresh.clone(),
        _ => set_nodes(setup, by, capacity),
    };
    let clients = match by {
        // Clients follow the host at every power-on and migration, the guest's nodes do not (Denneman 2022-03-11).
        SizedBy::HotAdd | SizedBy::TooSmall | SizedBy::Kept(_) | SizedBy::Host => fit,
        // By default each virtual node is a client, several where it exceeds a host node.
        _ => within(&nodes, setup.threads, capacity),
    };
    let clients = match setup.max_per_client {
        Some(most) => within(&clients, setup.threads, most),
        None => clients,
    };
    let most_clients = match setup.release {
        Release::V5_5 | Release::V6_0 => MAX_CLIENTS_BEFORE_6_5,
        _ => usize::MAX,
    };
    let joined_nodes = join(&nodes, hardware::MAX_NUMA_NODES as usize);
    let joined_clients = join(&clients, most_clients);
    Sizing {
        by,
        node_vcpus: joined_nodes.first().map_or(0, |node| node.end - node.start),
        joined: joined_nodes.len() < nodes.len() || joined_clients.len() < clients.len(),
        nodes: joined_nodes,
        clients: joined_clients,
        fresh,
    }
}

/// Who decides, the strongest first.
///
/// `coresPerNode` is honoured below `numa.vcpu.min`, the older `maxPerVirtualNode` is not: the API says that the VM
/// "uses the value as vNUMA node size", the older controls that a smaller VM "is always UMA".
fn sized_by(setup: &Setup) -> SizedBy {
    if setup.forces_uma() {
        SizedBy::HotAdd
    } else if let Some(size) = setup.cores_per_node {
        SizedBy::CoresPerNode(size)
    } else if !setup.shows_numa() {
        SizedBy::TooSmall
    } else if let Some(most) = setup.max_per_virtual_node {
        SizedBy::MaxPerVirtualNode(most)
    } else if setup.follows_sockets && setup.cores_kept_together() > 1 {
        SizedBy::Sockets
    } else if let Kept::Valid(size) = setup.kept_node {
        SizedBy::Kept(size)
    } else if setup.autosize {
        SizedBy::FullNodes
    } else {
        SizedBy::Host
    }
}

/// vNUMA nodes where it is not the host that decides.
fn set_nodes(setup: &Setup, by: SizedBy, capacity: u32) -> Vec<Range<u32>> {
    let (all, unit) = (0..setup.vcpus, setup.unit());
    match by {
        SizedBy::CoresPerNode(size) | SizedBy::Kept(size) => chunks(&all, size),
        SizedBy::MaxPerVirtualNode(most) => even(&all, setup.threads, most, 1),
        SizedBy::Sockets => chunks(&all, unit),
        SizedBy::FullNodes => chunks(&all, (capacity / unit).max(1) * unit),
        SizedBy::HotAdd | SizedBy::TooSmall | SizedBy::Host => chunks(&all, u32::MAX),
    }
}

/// The clients that this host gives: whole sockets, spread evenly over the fewest nodes.
///
/// `numa.consolidate = FALSE` takes the smallest number above one, not all nodes: a 6-vCPU VM on an EPYC 7601 with four
/// nodes per package became two clients of three (Denneman 2019-02-19).
fn fit(setup: &Setup, capacity: u32, n_places: usize) -> Vec<Range<u32>> {
    let (all, unit) = (0..setup.vcpus, setup.unit());
    if unit > capacity {
        // A socket larger than a node cannot stay together; each is split evenly by itself. Never observed.
        return within(&chunks(&all, unit), setup.threads, capacity);
    }
    let least = if setup.consolidate || n_places < 2 {
        1
    } else {
        2
    };
    even(&all, unit, capacity, least)
}

/// Cuts a range into blocks of whole units, as even as whole units allow, each at most `most` long (but a unit at
/// least), at least `least` of them where there are as many units. The last may be smaller.
fn even(range: &Range<u32>, unit: u32, most: u32, least: u32) -> Vec<Range<u32>> {
    let unit = unit.max(1);
    let units = (range.end - range.start).div_ceil(unit);
    let blocks = units
        .div_ceil((most / unit).max(1))
        .max(least.min(units))
        .max(1);
    chunks(range, units.div_ceil(blocks).saturating_mul(unit))
}

/// Cuts each range evenly into blocks of at most `most`.
fn within(ranges: &[Range<u32>], unit: u32, most: u32) -> Vec<Range<u32>> {
    let cut = |range| even(range, unit, most, 1);
    ranges.iter().flat_map(cut).collect()
}

/// Cuts a range into blocks of `size`; the last may be smaller.
fn chunks(range: &Range<u32>, size: u32) -> Vec<Range<u32>> {
    let size = size.clamp(1, (range.end - range.start).max(1));
    range
        .clone()
        .step_by(size as usize)
        .map(|start| start..start.saturating_add(size).min(range.end))
        .collect()
}

/// Joins neighbours until there are at most `most`.
fn join(ranges: &[Range<u32>], most: usize) -> Vec<Range<u32>> {
    let together = ranges.len().div_ceil(most).max(1);
    ranges
        .chunks(together)
        .map(|neighbours| neighbours[0].start..neighbours[neighbours.len() - 1].end)
        .collect()
}
