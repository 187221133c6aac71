//! VMware's rules of thumb for the size of a VM, beside what ESXi does by itself.

use super::{Places, Request};

/// What the rules of thumb say about a number of vCPUs on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// This shape, with one vNUMA node per socket.
    Fits {
        /// Virtual sockets, each on a host node of its own.
        sockets: u32,
        /// Cores of each.
        cores_per_socket: u32,
    },
    /// No even split over few nodes.
    SubOptimal {
        /// The next smaller number of vCPUs that fits.
        fewer: Option<u32>,
        /// The next larger number of vCPUs that fits.
        more: Option<u32>,
    },
}

/// The rules of thumb: one socket with all cores until a host node's cores or memory are exceeded; beyond that an even
/// split over the fewest nodes; an odd number above a node is sub-optimal.
///
/// Unlike ESXi's own sizing they count memory. Source: Achtemichuk, "Virtual Machine vCPU and vNUMA Rightsizing - Rules
/// of Thumb", 2017, with its two tables. Unknown memory sizes do not count.
pub fn advise(request: &Request) -> Advice {
    let places = Places::new(request.host, &request.vm.esxi.node_affinity);
    let memory_mib = request.vm.memory_mib;
    let vcpus = request.vm.vcpus;
    if let Some((sockets, cores_per_socket)) = even_split(vcpus, memory_mib, &places) {
        return Advice::Fits {
            sockets,
            cores_per_socket,
        };
    }
    let fits = |vcpus: &u32| even_split(*vcpus, memory_mib, &places).is_some();
    let cores: u32 = places.nodes.iter().map(|node| node.cores).sum();
    Advice::SubOptimal {
        fewer: (1..=cores.min(vcpus.saturating_sub(1))).rev().find(fits),
        more: (vcpus.saturating_add(1)..=cores).find(fits),
    }
}

/// Sockets and cores per socket of an even split over the fewest nodes.
fn even_split(vcpus: u32, memory_mib: u64, places: &Places) -> Option<(u32, u32)> {
    let n_places = u32::try_from(places.nodes.len()).unwrap_or(u32::MAX);
    let for_memory = match places.memory_mib {
        0 => 1,
        node => u32::try_from(memory_mib.div_ceil(node)).unwrap_or(u32::MAX),
    };
    let nodes = vcpus.div_ceil(places.cores).max(for_memory.min(n_places));
    if nodes <= 1 {
        return (vcpus > 0).then_some((1, vcpus));
    }
    if !vcpus.is_multiple_of(2) {
        return None;
    }
    (nodes..=n_places)
        .find(|&nodes| vcpus.is_multiple_of(nodes))
        .map(|nodes| (nodes, vcpus / nodes))
}
