//! What is wrong with a placement. Runs on every plan before it is applied, in tests and in production.

use std::collections::BTreeMap;

use super::{Placement, VmId};
use crate::cpuset::CpuSet;
use crate::finding::Finding;
use crate::host::{Host, NodeId};
use crate::tenant::{Affinity, Vm};

/// What of a host is not for VMs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reserve {
    /// CPUs never used.
    pub cpus: CpuSet,
    /// Memory never used, in MiB by node index; missing entries are 0.
    pub memory_mib: Vec<u64>,
}

impl Reserve {
    /// Memory of a node for VMs, in MiB; `None` when the host does not say how much it has.
    pub fn usable_mib(&self, host: &Host, node: NodeId) -> Option<u64> {
        let reserved = self.memory_mib.get(node.index()).copied().unwrap_or(0);
        (host.memory_mib() > 0)
            .then(|| host.nodes[node.index()].memory_mib.saturating_sub(reserved))
    }
}

impl Affinity {
    /// The CPUs of a host it allows; all of them when it says nothing.
    pub fn cpus_on(&self, host: &Host) -> CpuSet {
        let mut allowed = host.cpuset();
        if let Some(cpus) = &self.cpus {
            allowed = allowed.intersection(cpus);
        }
        if !self.nodes.is_empty() {
            let named = host
                .nodes
                .iter()
                .filter(|node| self.nodes.contains(&node.id));
            let cpus = named.fold(CpuSet::new(), |sum, node| sum.union(&node.cpus));
            allowed = allowed.intersection(&cpus);
        }
        allowed
    }
}

impl Placement {
    /// Everything that must not be: vCPUs placed twice or not at all (of VMs that are placed), CPUs that do not exist,
    /// are reserved, isolated or outside a VM's hard affinity, system threads without CPUs, dedicated
    /// cores that are shared, nodes with more memory handed out than they have. Empty when all is well.
    pub fn check(&self, host: &Host, vms: &[Vm], reserve: &Reserve) -> Vec<Finding> {
        let mut wrong = Vec::new();
        if let Some(group) = self
            .groups
            .iter()
            .find(|group| group.vm.index() >= vms.len())
        {
            let text = format!(
                "a group belongs to VM {}, but there are {}",
                group.vm.0,
                vms.len()
            );
            return vec![Finding::error("placement-unknown-vm", text)];
        }
        check_vcpus(self, vms, &mut wrong);
        check_cpus(self, host, vms, reserve, &mut wrong);
        check_system(self, host, reserve, &mut wrong);
        check_dedicated(self, host, vms, reserve, &mut wrong);
        check_memory(self, host, reserve, &mut wrong);
        wrong
    }
}

fn check_vcpus(placement: &Placement, vms: &[Vm], wrong: &mut Vec<Finding>) {
    let mut seen: BTreeMap<VmId, (CpuSet, usize)> = BTreeMap::new();
    for group in &placement.groups {
        let (union, total) = seen.entry(group.vm).or_default();
        *union = union.union(&group.vcpus);
        *total += group.vcpus.len();
    }
    for (id, (union, total)) in seen {
        let vm = &vms[id.index()];
        if union != CpuSet::from_range(0..vm.vcpus) || total != union.len() {
            let text = format!(
                "{}: vCPUs {union} are placed ({total} in sum) instead of 0-{} once each",
                vm.name,
                vm.vcpus.saturating_sub(1)
            );
            wrong.push(Finding::error("placement-vcpus", text));
        }
    }
}

fn check_cpus(
    placement: &Placement,
    host: &Host,
    vms: &[Vm],
    reserve: &Reserve,
    wrong: &mut Vec<Finding>,
) {
    let all = host.cpuset();
    for group in &placement.groups {
        let vm = &vms[group.vm.index()];
        let named = |what: &str| {
            format!(
                "{} vCPUs {} on CPUs {}: {what}",
                vm.name, group.vcpus, group.cpus
            )
        };
        let home = host.llcs.get(group.llc.index());
        if home.is_none() || group.node.index() >= host.nodes.len() || !group.cpus.is_subset(&all) {
            wrong.push(Finding::error(
                "placement-no-such-cpu",
                named("not all of them exist"),
            ));
            continue;
        }
        if group.pinned && group.cpus.len() != group.vcpus.len() {
            wrong.push(Finding::error(
                "placement-pinned",
                named("a pinned group needs as many CPUs as vCPUs"),
            ));
        }
        if group.cpus.is_empty() {
            wrong.push(Finding::error(
                "placement-no-cpus",
                named("nothing to run on"),
            ));
        }
        if group.cpus.intersects(&reserve.cpus) {
            wrong.push(Finding::error(
                "placement-reserved",
                named("some are reserved"),
            ));
        }
        if !vm.dedicated && group.cpus.intersects(&host.isolated) {
            wrong.push(Finding::error(
                "placement-isolated",
                named("some are isolated, for dedicated VMs only"),
            ));
        }
        if !vm.hard.is_empty() && !group.cpus.is_subset(&vm.hard.cpus_on(host)) {
            wrong.push(Finding::error(
                "placement-affinity",
                named("outside the VM's hard affinity"),
            ));
        }
    }
}

/// System threads need CPUs that exist and are not reserved. A VM's affinity is about its vCPUs.
fn check_system(placement: &Placement, host: &Host, reserve: &Reserve, wrong: &mut Vec<Finding>) {
    let all = host.cpuset();
    for home in &placement.system {
        if home.cpus.is_empty() || !home.cpus.is_subset(&all) || home.cpus.intersects(&reserve.cpus)
        {
            let text = format!(
                "system threads of VM {} on CPUs {}: none, not there or reserved",
                home.vm.0, home.cpus
            );
            wrong.push(Finding::error("placement-system", text));
        }
    }
}

/// Cores of dedicated VMs belong to one vCPU each, and to no other VM.
fn check_dedicated(
    placement: &Placement,
    host: &Host,
    vms: &[Vm],
    reserve: &Reserve,
    wrong: &mut Vec<Finding>,
) {
    if !vms.iter().any(|vm| vm.dedicated) {
        return;
    }
    let cores_of = |cpus: &CpuSet| -> Vec<u32> {
        let mut cores: Vec<u32> = cpus
            .iter()
            .filter_map(|id| host.cpu(id))
            .map(|cpu| cpu.core.0)
            .collect();
        cores.sort_unstable();
        cores.dedup();
        cores
    };
    let mut owner: Vec<Option<VmId>> = vec![None; host.cores.len()];
    let (dedicated, shared): (Vec<_>, Vec<_>) = placement
        .groups
        .iter()
        .partition(|group| vms[group.vm.index()].dedicated);
    for group in dedicated {
        let cores = cores_of(&group.cpus);
        let taken = cores.iter().any(|&core| owner[core as usize].is_some());
        let halved = |core: &u32| host.cores[*core as usize].cpus.intersects(&reserve.cpus);
        if taken || cores.len() < group.vcpus.len() || cores.iter().any(halved) {
            let name = &vms[group.vm.index()].name;
            let text = format!(
                "{name} is dedicated, but vCPUs {} have no whole cores of their own",
                group.vcpus
            );
            wrong.push(Finding::error("placement-dedicated", text));
        }
        for core in cores {
            owner[core as usize] = Some(group.vm);
        }
    }
    for group in shared {
        if let Some(other) = cores_of(&group.cpus)
            .iter()
            .find_map(|&core| owner[core as usize])
        {
            let (name, other) = (&vms[group.vm.index()].name, &vms[other.index()].name);
            let text = format!("{name} may run on a core of {other}, which is dedicated");
            wrong.push(Finding::error("placement-dedicated", text));
        }
    }
}

fn check_memory(placement: &Placement, host: &Host, reserve: &Reserve, wrong: &mut Vec<Finding>) {
    let mut used = vec![0_u64; host.nodes.len()];
    for home in &placement.memory {
        match used.get_mut(home.node.index()) {
            Some(sum) => *sum = sum.saturating_add(home.mib),
            None => wrong.push(Finding::error(
                "placement-no-such-node",
                format!("memory on node {}", home.node.0),
            )),
        }
    }
    for (node, &mib) in (0..).map(NodeId).zip(&used) {
        if let Some(usable) = reserve
            .usable_mib(host, node)
            .filter(|&usable| mib > usable)
        {
            let text = format!(
                "{mib} MiB are placed on node {}, which has {usable} MiB for VMs",
                node.0
            );
            wrong.push(Finding::error("placement-memory", text));
        }
    }
}
