//! Baselines against what the papers say of them, with drawings: a line for each node, a box for each LLC, a letter for
//! each vCPU (`A` is the first VM by name), a dot for each core that is left over.

mod claims;
mod properties;
mod rules;

use std::sync::Arc;

use model::host::Synthetic;
use model::placement::{Placement, Reserve, VmId};
use model::{CpuSet, Host, Vm};

use crate::plan::{Plan, Snapshot, Talk};
use crate::policies::named;

/// Two packages of four LLCs of four cores of two threads.
fn small() -> Host {
    Synthetic {
        packages: 2,
        llcs_per_node: 4,
        cores_per_llc: 4,
        threads_per_core: 2,
        llc_mib: 16,
        node_mib: 64 << 10,
        ..Synthetic::default()
    }
    .host("small")
}

/// EPYC 7702 and 7742: 16 LLCs of 4 cores in a package.
fn rome(packages: u32) -> Host {
    Synthetic {
        packages,
        llcs_per_node: 16,
        cores_per_llc: 4,
        threads_per_core: 2,
        llc_mib: 16,
        node_mib: 1 << 20,
        ..Synthetic::default()
    }
    .host("rome")
}

/// EPYC 7713: 8 LLCs of 8 cores in each of two packages.
fn milan() -> Host {
    Synthetic {
        packages: 2,
        llcs_per_node: 8,
        cores_per_llc: 8,
        threads_per_core: 2,
        llc_mib: 32,
        node_mib: 512 << 10,
        ..Synthetic::default()
    }
    .host("milan")
}

/// `vm1`, `vm2` and so on, with so many vCPUs and 1 GiB for each.
fn vms(sizes: &[u32]) -> Vec<Vm> {
    let vm = |(index, &vcpus)| Vm::new(format!("vm{index}"), vcpus, u64::from(vcpus) << 10);
    (1..).zip(sizes).map(vm).collect()
}

fn arrivals(host: &Host, vms: Vec<Vm>) -> Snapshot {
    Snapshot::empty(Arc::new(host.clone()), vms, Reserve::default())
}

/// All of them talk to each other.
fn all_talk(now: &mut Snapshot, per_s: u32) {
    let ids: Vec<VmId> = (0..).map(VmId).take(now.vms.len()).collect();
    for (index, &a) in ids.iter().enumerate() {
        now.talks
            .extend(ids[index + 1..].iter().map(|&b| Talk { a, b, per_s }));
    }
}

/// The same moment after the plan, one period later.
fn after(now: &Snapshot, plan: &Plan) -> Snapshot {
    Snapshot {
        at_ns: now.at_ns + 2_000_000_000,
        placement: plan.placement.clone(),
        generation: plan.generation,
        ..now.clone()
    }
}

/// The plan, which must hold together.
fn plan(policy: &str, now: &Snapshot) -> Plan {
    let plan = named(policy).unwrap().plan(now);
    let vms: Vec<Vm> = now.vms.iter().map(|state| state.vm.clone()).collect();
    assert_eq!(
        plan.placement.check(&now.host, &vms, &now.reserve),
        [],
        "{policy}"
    );
    for id in (0..).map(VmId).take(vms.len()) {
        let refused = plan.refused.iter().any(|(other, _)| *other == id);
        assert_eq!(
            plan.placement.groups_of(id).is_empty(),
            refused,
            "{policy}: {id:?}"
        );
    }
    plan
}

fn draw(now: &Snapshot, placement: &Placement) -> String {
    let mut order: Vec<VmId> = (0..).map(VmId).take(now.vms.len()).collect();
    order.sort_by_key(|id| {
        (
            now.vms[id.index()].vm.name.len(),
            &now.vms[id.index()].vm.name,
        )
    });
    let letter = |id: VmId| {
        let rank = order.iter().position(|&other| other == id).unwrap();
        char::from(b'A' + u8::try_from(rank % 26).unwrap())
    };
    let mut lines = String::new();
    for (index, node) in now.host.nodes.iter().enumerate() {
        lines += &format!("N{index} ");
        for (llc, cache) in now.host.llcs.iter().enumerate() {
            let cpus = cache.cpus.intersection(&node.cpus);
            if cpus.is_empty() {
                continue;
            }
            let here = placement
                .groups
                .iter()
                .filter(|group| group.llc.index() == llc && group.node.index() == index);
            let mut letters: Vec<char> = here
                .flat_map(|group| vec![letter(group.vm); group.vcpus.len()])
                .collect();
            letters.sort_unstable();
            let text: String = letters.into_iter().collect();
            lines += &format!(
                "|{text:.<width$}",
                width = now.host.cores_in(&cpus) as usize
            );
        }
        lines += "|\n";
    }
    lines
}

/// LLCs that a VM is on.
fn llcs_of(placement: &Placement, id: u32) -> usize {
    placement.groups_of(VmId(id)).len()
}

/// Nodes that a VM is on.
fn nodes_of(placement: &Placement, id: u32) -> Vec<u32> {
    let groups = placement.groups_of(VmId(id)).iter();
    let mut nodes: Vec<u32> = groups.map(|group| group.node.0).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// vCPUs that share their core, and all, of those that are pinned.
fn paired(host: &Host, placement: &Placement) -> (usize, usize) {
    let pinned = placement.groups.iter().filter(|group| group.pinned);
    let cpus: Vec<CpuSet> = pinned.map(|group| group.cpus.clone()).collect();
    let mut on_core = vec![0_usize; host.cores.len()];
    for cpu in cpus.iter().flat_map(CpuSet::iter) {
        on_core[host.cpu(cpu).unwrap().core.index()] += 1;
    }
    (
        on_core.iter().filter(|&&n| n > 1).sum(),
        on_core.iter().sum(),
    )
}

fn codes(plan: &Plan, id: u32) -> Vec<&'static str> {
    let own = plan.reasons.iter().filter(|(vm, _)| *vm == Some(VmId(id)));
    own.map(|(_, reason)| reason.code).collect()
}
