//! Shapes that both emulators' tests write and start.

use model::guest::Level;
use model::{GuestLlc, GuestNode, GuestTopology, Spec};

/// VMs of all kinds, each with the name of what is special about it.
pub(crate) fn all() -> Vec<(&'static str, Spec)> {
    let mut vms = vec![
        ("one", vm(1, [1, 1, 1, 1, 1], Level::Socket, 0)),
        ("flat", vm(4, [4, 1, 1, 1, 1], Level::Socket, 0)),
        ("cores", vm(8, [1, 1, 1, 8, 1], Level::Die, 1)),
        ("dies", vm(16, [1, 4, 1, 4, 1], Level::Die, 1)),
        ("modules", vm(16, [1, 1, 4, 4, 1], Level::Module, 1)),
        ("threads", vm(16, [2, 2, 1, 2, 2], Level::Die, 2)),
        ("llc-per-core", vm(8, [1, 1, 1, 4, 2], Level::Core, 0)),
        ("thirteen-of-16", vm(13, [1, 4, 1, 4, 1], Level::Die, 1)),
        ("two-nodes", vm(16, [2, 1, 1, 8, 1], Level::Socket, 2)),
        ("four-nodes", vm(32, [4, 1, 1, 8, 1], Level::Socket, 4)),
        ("hot-add", vm(8, [2, 2, 1, 4, 1], Level::Die, 2)),
        ("odd-cores", vm(18, [2, 3, 1, 3, 1], Level::Die, 2)),
        ("wide", vm(300, [2, 1, 1, 150, 1], Level::Socket, 2)),
    ];
    for (name, vm) in &mut vms {
        (*name).clone_into(&mut vm.name);
    }
    let two_nodes = vms[8].1.topology.as_mut().expect("made with one");
    two_nodes.distances = vec![vec![10, 32], vec![32, 10]];
    vms
}

/// A VM of `[sockets, dies, modules, cores, threads]` with the LLCs of a level and `nodes` equal vNUMA nodes of 64 MiB,
/// backed by host node 0.
fn vm(vcpus: u32, levels: [u32; 5], llc: Level, nodes: u32) -> Spec {
    let mut topology = GuestTopology::uniform(vcpus, levels);
    let llcs = topology.blocks(topology.slots_in(llc)).into_iter();
    topology.llcs = llcs
        .map(|vcpus| GuestLlc {
            vcpus,
            size_bytes: 0,
            guest_size_bytes: 0,
        })
        .collect();
    let share = topology.maxcpus().checked_div(nodes).unwrap_or(0);
    let ranges = (0..nodes).map(|node| (node * share).min(vcpus)..((node + 1) * share).min(vcpus));
    let numa_nodes = ranges.map(|range| GuestNode {
        vcpus: model::CpuSet::from_range(range),
        memory_mib: 64,
        host_nodes: vec![0],
    });
    topology.numa_nodes = numa_nodes.collect();
    let memory_mib = if nodes > 0 {
        u64::from(nodes) * 64
    } else {
        128
    };
    Spec {
        vcpus,
        memory_mib,
        topology: Some(topology),
        ..Spec::default()
    }
}
