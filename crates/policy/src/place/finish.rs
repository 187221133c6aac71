//! From seats to a placement: which vCPUs, which CPUs.

use std::collections::BTreeMap;

use model::host::CoreId;
use model::placement::{Group, MemoryHome, Placement, SystemHome, VmId};
use model::{CpuId, CpuSet};

use super::state::{FREE, Seat, State};
use crate::cost::evaluate::domain_of;
use crate::group::Cell;
use crate::plan::Snapshot;

/// The placement the seats mean. vCPUs stay where they were as far as the seats allow, and fill the rest in index order.
/// VMs whose domain has room, but not on the CPUs they must stay on, lose their seat; they are returned.
pub(super) fn placement(state: &mut State, now: &Snapshot) -> (Placement, Vec<usize>) {
    let mut without_cpus: Vec<usize> = Vec::new();
    loop {
        let placement = whole_placement(state, now);
        let lacks = |group: &&Group| {
            group.cpus.is_empty() || group.pinned && group.cpus.len() != group.vcpus.len()
        };
        let group = placement.groups.iter().find(lacks).map(|group| group.vm);
        let system = placement
            .system
            .iter()
            .find(|home| home.cpus.is_empty())
            .map(|home| home.vm);
        let Some(vm) = group.or(system) else {
            return (placement, without_cpus);
        };
        state.take(vm.index());
        without_cpus.push(vm.index());
    }
}

fn whole_placement(state: &State, now: &Snapshot) -> Placement {
    let cores = dedicated_cores(state, now);
    let mut placement = Placement::default();
    for (id, seat) in (0..).map(VmId).zip(&state.seats) {
        for (domain, vcpus) in groups_of(state, now, id, seat) {
            let place = &state.problem.site.domains[domain as usize];
            let dedicated = state.tenant(id.index()).dedicated;
            let cpus = if dedicated {
                cores.of_group(id, &vcpus)
            } else {
                cores.shared(now, id, domain, &place.cpus)
            };
            placement.groups.push(Group {
                vm: id,
                vcpus,
                llc: place.llc,
                node: place.node,
                cpus,
                pinned: dedicated,
            });
        }
        let homes = seat.memory.iter().map(|home| MemoryHome {
            vm: id,
            cell: home.cell,
            node: home.node,
            mib: home.mib,
        });
        placement.memory.extend(homes);
        if let Some(domain) = seat.system {
            let place = &state.problem.site.domains[domain as usize];
            let cpus = cores.shared(now, id, domain, &place.cpus);
            placement.system.push(SystemHome {
                vm: id,
                llc: place.llc,
                node: place.node,
                cpus,
            });
        }
    }
    placement.sort();
    placement
}

/// The groups of a VM by domain.
fn groups_of(state: &State, now: &Snapshot, id: VmId, seat: &Seat) -> Vec<(u32, CpuSet)> {
    let mut groups = Vec::new();
    for (index, cell) in (0..).zip(&state.tenant(id.index()).cells) {
        let pieces = seat.pieces.iter().filter(|piece| piece.cell == index);
        if cell.blocks.is_empty() {
            let mut sizes: BTreeMap<u32, u32> = BTreeMap::new();
            for piece in pieces {
                *sizes.entry(piece.domain).or_default() += piece.size;
            }
            groups.extend(named_vcpus(state, now, id, cell, sizes));
            continue;
        }
        let mut taken: BTreeMap<u32, usize> = BTreeMap::new();
        for piece in pieces.filter(|piece| piece.block != FREE) {
            let start = taken.entry(piece.block).or_default();
            let block = cell.blocks[piece.block as usize].iter();
            let vcpus: CpuSet = block.skip(*start).take(piece.size as usize).collect();
            *start += vcpus.len();
            groups.push((piece.domain, vcpus));
        }
    }
    groups
}

/// Which vCPUs of a free cell go to which domain, given how many.
fn named_vcpus(
    state: &State,
    now: &Snapshot,
    id: VmId,
    cell: &Cell,
    sizes: BTreeMap<u32, u32>,
) -> Vec<(u32, CpuSet)> {
    let old = now.placement.groups_of(id);
    if old.is_empty() {
        let mut rest = cell.vcpus.iter();
        return sizes
            .into_iter()
            .map(|(domain, size)| (domain, rest.by_ref().take(size as usize).collect()))
            .collect();
    }
    let mut stay: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for group in old {
        if let Some(domain) = domain_of(state.problem, state.tenant(id.index()), group) {
            let kept = stay.entry(domain).or_default();
            *kept = kept.union(&group.vcpus.intersection(&cell.vcpus));
        }
    }
    let mut groups: Vec<(u32, u32, CpuSet)> = sizes
        .into_iter()
        .map(|(domain, size)| {
            let kept = stay.get(&domain).map_or_else(CpuSet::new, |kept| {
                kept.iter().take(size as usize).collect()
            });
            (domain, size, kept)
        })
        .collect();
    let all_kept = groups
        .iter()
        .fold(CpuSet::new(), |sum, (_, _, kept)| sum.union(kept));
    let rest = cell.vcpus.difference(&all_kept);
    let mut rest = rest.iter();
    for (_, size, vcpus) in &mut groups {
        while vcpus.len() < *size as usize {
            let Some(vcpu) = rest.next() else { break };
            vcpus.insert(vcpu);
        }
    }
    groups
        .into_iter()
        .map(|(domain, _, vcpus)| (domain, vcpus))
        .collect()
}

/// CPUs of dedicated VMs, by VM and the group's first vCPU; all of their CPUs, by domain.
#[derive(Debug, Default)]
struct Dedicated {
    by_group: BTreeMap<(VmId, Option<CpuId>), Vec<CpuId>>,
    taken: BTreeMap<u32, CpuSet>,
}

/// Gives every vCPU of the dedicated VMs a core: the one it had if it may keep it; otherwise a fast one that no hard
/// affinity of a shared VM names, lowest first.
fn dedicated_cores(state: &State, now: &Snapshot) -> Dedicated {
    let mut dedicated = Dedicated::default();
    if !state.problem.tenants.iter().any(|tenant| tenant.dedicated) {
        return dedicated;
    }
    let shared = now
        .vms
        .iter()
        .filter(|state| !state.vm.dedicated && state.vm.hard.cpus.is_some());
    let wanted = shared.fold(CpuSet::new(), |sum, state| {
        sum.union(&state.vm.hard.cpus_on(&now.host))
    });
    for (id, seat) in (0..).map(VmId).zip(&state.seats) {
        if !state.tenant(id.index()).dedicated {
            continue;
        }
        for (domain, vcpus) in groups_of(state, now, id, seat) {
            let mut choice = core_choice(state, now, id, domain, &wanted);
            let taken = dedicated.taken.entry(domain).or_default();
            choice.retain(|(_, cpus)| !cpus.intersects(taken));
            let mine = dedicated.by_group.entry((id, vcpus.first())).or_default();
            for (choice, cpus) in choice.into_iter().take(vcpus.len()) {
                *taken = taken.union(&cpus);
                mine.push(choice.cpu);
            }
        }
    }
    dedicated
}

/// A core that a dedicated VM may have. Ordered as it should choose.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Choice {
    is_new: bool,
    /// A slow core, or one that a shared VM must stay on.
    is_worse: bool,
    /// The CPU its vCPU gets.
    cpu: CpuId,
}

/// The cores of a domain in the order a dedicated VM should take them, with their usable CPUs.
fn core_choice(
    state: &State,
    now: &Snapshot,
    id: VmId,
    domain: u32,
    wanted: &CpuSet,
) -> Vec<(Choice, CpuSet)> {
    let place = &state.problem.site.domains[domain as usize];
    let host = &now.host;
    let had = now
        .placement
        .groups_of(id)
        .iter()
        .fold(CpuSet::new(), |sum, group| sum.union(&group.cpus));
    let allowed = now.vms[id.index()].vm.hard.cpus_on(host);
    let mut cores: Vec<CoreId> = place
        .cpus
        .iter()
        .filter_map(|cpu| host.cpu(cpu))
        .map(|cpu| cpu.core)
        .collect();
    cores.sort_unstable();
    cores.dedup();
    let best_kind = cores
        .iter()
        .map(|core| host.cores[core.index()].efficiency)
        .max()
        .unwrap_or(0);
    let choice_of = |core: CoreId| {
        let cpus = host.cores[core.index()].cpus.intersection(&place.cpus);
        let own = cpus.intersection(&allowed);
        // A core whose other thread is reserved or in another domain is no whole core.
        if cpus != host.cores[core.index()].cpus {
            return None;
        }
        let kept = own.intersection(&had).first();
        let is_slow = host.cores[core.index()].efficiency < best_kind;
        let cpu = kept.or(own.first())?;
        Some((
            Choice {
                is_new: kept.is_none(),
                is_worse: is_slow || cpus.intersects(wanted),
                cpu,
            },
            cpus,
        ))
    };
    let mut choices: Vec<(Choice, CpuSet)> = cores.into_iter().filter_map(choice_of).collect();
    choices.sort_by(|(a, _), (b, _)| a.cmp(b));
    choices
}

impl Dedicated {
    fn of_group(&self, id: VmId, vcpus: &CpuSet) -> CpuSet {
        let cpus = self.by_group.get(&(id, vcpus.first()));
        cpus.into_iter().flatten().copied().collect()
    }

    fn shared(&self, now: &Snapshot, id: VmId, domain: u32, cpus: &CpuSet) -> CpuSet {
        let vm = &now.vms[id.index()].vm;
        let own = if vm.hard.is_empty() {
            cpus.clone()
        } else {
            cpus.intersection(&vm.hard.cpus_on(&now.host))
        };
        match self.taken.get(&domain) {
            None => own,
            Some(taken) => own.difference(taken),
        }
    }
}
