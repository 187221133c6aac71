//! Whole cores for dedicated VMs, the same in all policies: VMware calls it exclusive affinity (latency sensitivity
//! *high*, since 5.5) and settles it when the VM is powered on.
//!
//! A core is whole when none of its threads is reserved. Isolated cores come first, then the node that holds the cell,
//! then the LLC with most free cores (ours).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::host::CoreId;
use model::placement::VmId;
use model::{CpuId, CpuSet, Host};

use super::ground::{Seat, covers};
use crate::cost::problem::Problem;
use crate::plan::Snapshot;

/// The first allowed CPU of each whole core that nobody has, with its domain, by core.
pub(super) fn free(
    now: &Snapshot,
    problem: &Problem,
    allowed: &CpuSet,
    taken: &CpuSet,
) -> BTreeMap<CoreId, (CpuId, u32)> {
    let (host, mut free) = (&now.host, BTreeMap::new());
    for (index, domain) in (0..).zip(&problem.site.domains) {
        for cpu in domain
            .cpus
            .intersection(allowed)
            .iter()
            .filter_map(|id| host.cpu(id))
        {
            let threads = &host.cores[cpu.core.index()].cpus;
            if !threads.intersects(taken) && !threads.intersects(&now.reserve.cpus) {
                free.entry(cpu.core).or_insert((cpu.id, index));
            }
        }
    }
    free
}

/// The seats the VM has now, if they are whole cores of its own.
pub(super) fn kept(
    now: &Snapshot,
    problem: &Problem,
    id: VmId,
    (allowed, free): (&CpuSet, &BTreeMap<CoreId, (CpuId, u32)>),
) -> Option<Vec<Seat>> {
    let groups = now.placement.groups_of(id);
    covers(groups, problem.tenants[id.index()].vcpus).then_some(())?;
    let mut seen = CpuSet::new();
    let mut seats = Vec::new();
    for group in groups {
        (group.pinned && group.cpus.len() == group.vcpus.len()).then_some(())?;
        let mut on = None;
        for cpu in group.cpus.iter() {
            let core = now.host.cpu(cpu)?.core;
            let &(_, domain) = free.get(&core)?;
            let first = seen.insert(CpuId(core.0));
            (first && *on.get_or_insert(domain) == domain).then_some(())?;
        }
        let place = &problem.site.domains[on? as usize];
        // A CPU may be forbidden although another thread of its core is not.
        let stays = group.cpus.is_subset(&place.cpus) && group.cpus.is_subset(allowed);
        (stays && (place.llc, place.node) == (group.llc, group.node)).then_some(())?;
        seats.push(Seat {
            vcpus: group.vcpus.clone(),
            domain: on?,
            cpus: group.cpus.clone(),
            pinned: true,
        });
    }
    Some(seats)
}

/// New seats for a dedicated VM; `None` when there are too few cores.
pub(super) fn chosen(
    problem: &Problem,
    id: VmId,
    free: &BTreeMap<CoreId, (CpuId, u32)>,
) -> Option<Vec<Seat>> {
    let tenant = &problem.tenants[id.index()];
    (free.len() >= tenant.vcpus as usize).then_some(())?;
    let mut cpus_of: BTreeMap<u32, Vec<CpuId>> = BTreeMap::new();
    for &(cpu, domain) in free.values().rev() {
        cpus_of.entry(domain).or_default().push(cpu);
    }
    let mut seats = Vec::new();
    for cell in &tenant.cells {
        let mut vcpus = cell.vcpus.iter().peekable();
        for domain in preferred(problem, &cpus_of, cell.vcpus.len()) {
            let cpus = cpus_of.entry(domain).or_default();
            let mut seat = Seat {
                vcpus: CpuSet::new(),
                domain,
                cpus: CpuSet::new(),
                pinned: true,
            };
            while vcpus.peek().is_some() {
                let Some(cpu) = cpus.pop() else { break };
                seat.cpus.insert(cpu);
                seat.vcpus.extend(vcpus.next());
            }
            if !seat.vcpus.is_empty() {
                seats.push(seat);
            }
        }
    }
    Some(seats)
}

/// All CPUs of the cores that the CPUs are in.
pub(super) fn with_siblings(host: &Host, cpus: impl Iterator<Item = CpuId>) -> CpuSet {
    let cores = cpus.filter_map(|id| host.cpu(id));
    cores.fold(CpuSet::new(), |sum, cpu| {
        sum.union(&host.cores[cpu.core.index()].cpus)
    })
}

/// Domains in the order a cell of `n` vCPUs should take their cores.
fn preferred(problem: &Problem, cpus_of: &BTreeMap<u32, Vec<CpuId>>, n: usize) -> Vec<u32> {
    let site = &problem.site;
    let mut by_node = vec![[0; 2]; site.nodes.len()];
    for (&domain, cpus) in cpus_of {
        let domain = &site.domains[domain as usize];
        let [all, isolated] = &mut by_node[domain.node.index()];
        *all += cpus.len();
        *isolated += if domain.isolated { cpus.len() } else { 0 };
    }
    let mut domains: Vec<u32> = cpus_of.keys().copied().collect();
    domains.sort_by_key(|&index| {
        let domain = &site.domains[index as usize];
        let [all, isolated] = by_node[domain.node.index()];
        let node = (
            isolated < n,
            all < n,
            Reverse(isolated),
            Reverse(all),
            domain.node,
        );
        (
            node,
            !domain.isolated,
            Reverse(cpus_of[&index].len()),
            index,
        )
    });
    domains
}
