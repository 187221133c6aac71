//! Where VMware's behaviour is not known, and what is done here instead. Each doubt is told only where it matters to
//! the VM at hand.

use model::Reason;

use super::setup::CoresPerSocket;
use super::vnuma::SizedBy;
use super::{Decided, explain, hardware};

/// Reasons with the code `uncertain`: what is not known, what was chosen.
pub(super) fn doubts(decided: &Decided) -> Vec<Reason> {
    let checks = [
        uneven_automatic_sockets,
        sockets_on_split_packages,
        several_caches_per_socket,
        automatic_with_hot_add,
        automatic_with_prefer_ht,
        hidden_nodes_under_automatic,
        one_client_above_node_memory,
        socket_larger_than_node,
        unequal_host_nodes,
        spread_over_how_many,
        full_nodes,
        nodes_below_minimum,
        guest_threads,
        old_hardware,
        joined_blocks,
    ];
    checks
        .into_iter()
        .filter_map(|check| check(decided))
        .map(|text| Reason::new("uncertain", text))
        .collect()
}

fn is_automatic(decided: &Decided) -> bool {
    decided.setup.cores == CoresPerSocket::Auto
}

fn is_wide(decided: &Decided) -> bool {
    decided.sizing.clients.len() > 1
}

fn uneven_automatic_sockets(decided: &Decided) -> Option<String> {
    let sizing = decided.sizing;
    let cores = decided.topology.cores_per_socket();
    let even = cores.saturating_mul(decided.setup.threads) == sizing.node_vcpus;
    (is_automatic(decided) && decided.setup.kept_cores.is_none() && !even && decided.setup.slots == decided.setup.vcpus)
        .then(|| {
            format!(
                "how ESXi 8.0 cuts sockets on vNUMA nodes of {} is not known, it may even make unequal sockets; equal \
                 sockets of {cores} that lie within one node were chosen",
                explain::blocks(&sizing.nodes)
            )
        })
}

fn sockets_on_split_packages(decided: &Decided) -> Option<String> {
    (is_automatic(decided) && is_wide(decided) && decided.places.splits_packages).then(|| {
        "whether an automatic socket follows the host's package or its NUMA node is not known where packages have \
         several nodes; the node was chosen"
            .to_owned()
    })
}

fn several_caches_per_socket(decided: &Decided) -> Option<String> {
    let (llc_cores, _) = decided.places.llc;
    let cores = decided.topology.cores_per_socket();
    (decided.setup.automatic() && cores > llc_cores).then(|| {
        let inexpressible = if decided.topology.dies == 1 {
            "; they are unequal, so no level of the topology has their size"
        } else {
            ""
        };
        format!(
            "only the size of the virtual cache is proven; whether a socket of {cores} cores shows several caches on a \
             host with {llc_cores}-core caches is not: groups of at most {llc_cores} cores were chosen{inexpressible}"
        )
    })
}

fn automatic_with_hot_add(decided: &Decided) -> Option<String> {
    (is_automatic(decided) && decided.setup.hot_add).then(|| {
        format!(
            "automatic cores per socket under CPU hot-add are not documented; {} were chosen, so that a socket is one \
             vNUMA node and the reserved slots are whole sockets",
            decided.topology.cores_per_socket()
        )
    })
}

fn automatic_with_prefer_ht(decided: &Decided) -> Option<String> {
    (is_automatic(decided) && decided.setup.prefer_ht && decided.setup.vcpus > decided.places.cores).then(|| {
        "the effect of preferHT on automatic cores per socket is not documented; nodes and sockets were sized by \
         threads"
            .to_owned()
    })
}

fn hidden_nodes_under_automatic(decided: &Decided) -> Option<String> {
    let sizing = decided.sizing;
    (is_automatic(decided) && sizing.by == SizedBy::TooSmall && is_wide(decided)).then(|| {
        format!(
            "whether automatic sockets follow vNUMA nodes ({}) or host nodes ({}) below numa.vcpu.min is not known; \
             the vNUMA node was chosen",
            explain::blocks(&sizing.nodes),
            explain::blocks(&sizing.clients)
        )
    })
}

fn one_client_above_node_memory(decided: &Decided) -> Option<String> {
    let node_mib = decided.places.memory_mib;
    (node_mib > 0 && decided.setup.memory_mib > node_mib && !is_wide(decided)).then(|| {
        "a VM whose memory alone exceeds a host node is one NUMA client by its statistics and two by the text that \
         shows them (Denneman 2022-11-03); one was chosen"
            .to_owned()
    })
}

fn socket_larger_than_node(decided: &Decided) -> Option<String> {
    let (setup, sizing) = (decided.setup, decided.sizing);
    let splits = matches!(
        sizing.by,
        SizedBy::Host | SizedBy::TooSmall | SizedBy::HotAdd | SizedBy::Kept(_)
    );
    (splits && setup.unit() > decided.capacity).then(|| {
        format!(
            "a socket of {} on host nodes of {} was never observed; each socket was split evenly by itself",
            explain::count(setup.unit(), "vCPU"),
            explain::count(decided.capacity, explain::measure(setup))
        )
    })
}

fn unequal_host_nodes(decided: &Decided) -> Option<String> {
    (decided.places.uneven && decided.setup.vcpus > decided.places.cores).then(|| {
        format!(
            "how ESXi sizes a VM on unequal NUMA nodes is not documented; the smallest node ({}) was taken for all",
            explain::count(decided.places.cores, "core")
        )
    })
}

fn spread_over_how_many(decided: &Decided) -> Option<String> {
    let nodes = decided.places.nodes.len();
    (!decided.setup.consolidate && nodes > 2).then(|| {
        format!(
            "numa.consolidate = FALSE was described as \"as many nodes as possible\" and as \"the optimal number above \
             one\"; the fewest above one were chosen of {nodes}"
        )
    })
}

fn full_nodes(decided: &Decided) -> Option<String> {
    let sizing = decided.sizing;
    (sizing.by == SizedBy::FullNodes && sizing.nodes != sizing.fresh).then(|| {
        format!(
            "numa.autosize is documented as \"the same number of vCPUs per virtual node as cores per physical node\", \
             taken here by the letter: {}; an even split would be {}",
            explain::blocks(&sizing.nodes),
            explain::blocks(&sizing.fresh)
        )
    })
}

fn nodes_below_minimum(decided: &Decided) -> Option<String> {
    let setup = decided.setup;
    (matches!(decided.sizing.by, SizedBy::CoresPerNode(_)) && !setup.shows_numa()).then(|| {
        format!(
            "whether manual vNUMA nodes are shown below numa.vcpu.min ({}) is not known; they are, since the API says \
             that the VM uses the value",
            setup.vcpu_min
        )
    })
}

fn guest_threads(decided: &Decided) -> Option<String> {
    (decided.setup.threads > 1).then(|| {
        "how guest SMT counts in vNUMA sizing is not documented; a vCPU was counted as one thread of a host node, and \
         cores per socket as cores"
            .to_owned()
    })
}

fn old_hardware(decided: &Decided) -> Option<String> {
    (decided.setup.hw < hardware::OLDEST_KNOWN).then(|| {
        format!(
            "the limits of hardware version {} are not known here; those of {} were taken",
            decided.setup.hw,
            hardware::OLDEST_KNOWN
        )
    })
}

fn joined_blocks(decided: &Decided) -> Option<String> {
    decided.sizing.joined.then(|| {
        format!(
            "what ESXi does with more vNUMA nodes or NUMA clients than it allows is not known; neighbours were joined: \
             {} vNUMA nodes, {} clients",
            decided.sizing.nodes.len(),
            decided.sizing.clients.len()
        )
    })
}
