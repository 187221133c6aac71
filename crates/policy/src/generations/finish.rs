//! From seats to a plan: groups, moves against what was, reasons and the bill.

use std::collections::BTreeMap;

use model::host::{LlcId, NodeId};
use model::placement::{Group, MemoryHome, Placement, SystemHome, VmId};
use model::{CpuSet, Reason};

use super::ground::{Ground, Seat};
use super::memory;
use crate::cost;
use crate::plan::{Move, Moved, Plan};

/// Everything that was decided.
#[derive(Debug)]
pub(super) struct Finished {
    /// Seats of VMs that are not dedicated.
    pub(super) seats: BTreeMap<VmId, Vec<Seat>>,
    pub(super) memory: Vec<MemoryHome>,
    pub(super) system: Vec<SystemHome>,
    pub(super) reasons: Vec<(Option<VmId>, Reason)>,
    /// Why placed VMs moved, as far as a decision moved them.
    pub(super) moved: Vec<(VmId, Reason)>,
}

/// The plan.
pub(super) fn plan(ground: &Ground, finished: Finished) -> Plan {
    let Finished {
        seats,
        memory,
        system,
        mut reasons,
        moved,
    } = finished;
    let mut placement = Placement {
        groups: Vec::new(),
        memory,
        system,
    };
    for (id, seats) in seats
        .iter()
        .chain(ground.dedicated.iter().map(|(id, seats)| (id, seats)))
    {
        placement.groups.extend(groups(ground, *id, seats));
    }
    placement.sort();
    for (id, seats) in &ground.dedicated {
        let cpus = seats
            .iter()
            .fold(CpuSet::new(), |sum, seat| sum.union(&seat.cpus));
        let text = format!(
            "{} has the cores of CPUs {cpus} to itself",
            ground.vm(*id).name
        );
        reasons.push((Some(*id), Reason::new("dedicated-cores", text)));
    }
    reasons.extend(remote_memory(ground, &placement));
    reasons.sort_by_key(|(id, _)| *id);
    let why: BTreeMap<VmId, Reason> = moved.into_iter().collect();
    let before = &ground.now.placement;
    let bill = cost::evaluate(&ground.problem, &ground.now.host, &placement, before);
    Plan {
        generation: ground.now.generation.saturating_add(1),
        moves: moves(ground, &placement, &why),
        placement,
        reasons,
        refused: ground.refused.clone(),
        cost: bill.total,
    }
}

/// CPUs for the system threads of a VM on a domain. Those of a dedicated VM run on nobody's cores, so not on its own.
pub(super) fn system_cpus<'g>(ground: &'g Ground, id: VmId, domain: u32) -> &'g CpuSet {
    let is_dedicated = ground.tenant(id).dedicated;
    let room = if is_dedicated {
        ground.any_room(domain)
    } else {
        ground.room(id, domain)
    };
    &room.cpus
}

/// The domain where a VM's system threads are now.
pub(super) fn system_before(ground: &Ground, id: VmId) -> Option<u32> {
    let home = ground
        .now
        .placement
        .system
        .iter()
        .find(|home| home.vm == id)?;
    ground.problem.site.domain_of(home.llc, home.node, false)
}

/// A home for system threads.
pub(super) fn system_home(ground: &Ground, id: VmId, domain: u32) -> SystemHome {
    let place = &ground.problem.site.domains[domain as usize];
    let cpus = system_cpus(ground, id, domain).clone();
    SystemHome {
        vm: id,
        llc: place.llc,
        node: place.node,
        cpus,
    }
}

/// The groups of a VM: one for each domain.
fn groups(ground: &Ground, id: VmId, seats: &[Seat]) -> Vec<Group> {
    let mut groups: BTreeMap<(u32, bool), Group> = BTreeMap::new();
    for seat in seats {
        let place = &ground.problem.site.domains[seat.domain as usize];
        let group = groups
            .entry((seat.domain, seat.pinned))
            .or_insert_with(|| Group {
                vm: id,
                vcpus: CpuSet::new(),
                llc: place.llc,
                node: place.node,
                cpus: CpuSet::new(),
                pinned: seat.pinned,
            });
        group.vcpus = group.vcpus.union(&seat.vcpus);
        group.cpus = group.cpus.union(&seat.cpus);
    }
    groups.into_values().collect()
}

fn remote_memory(ground: &Ground, placement: &Placement) -> Vec<(Option<VmId>, Reason)> {
    let placed = placement.groups.iter().map(|group| group.vm);
    let mut placed: Vec<VmId> = placed.collect();
    placed.dedup();
    let remote = |id: VmId| {
        let nodes: Vec<NodeId> = placement
            .groups_of(id)
            .iter()
            .map(|group| group.node)
            .collect();
        let away = placement
            .memory_of(id)
            .iter()
            .filter(|home| !nodes.contains(&home.node));
        let away: Vec<&MemoryHome> = away.filter(|home| home.mib > 0).collect();
        let mib = away
            .iter()
            .fold(0_u64, |sum, home| sum.saturating_add(home.mib));
        let first = away.first()?.node.0;
        let text = format!(
            "{mib} MiB of {}, on node {first} first, are on nodes where it has no vCPUs: \
             its homes are full, or the pages have not followed yet",
            ground.vm(id).name
        );
        Some((Some(id), Reason::new("remote-memory", text)))
    };
    placed.into_iter().filter_map(remote).collect()
}

fn moves(ground: &Ground, placement: &Placement, why: &BTreeMap<VmId, Reason>) -> Vec<Move> {
    let mut moves = Vec::new();
    for id in (0..).map(VmId).take(ground.now.vms.len()) {
        let (old, new) = (ground.now.placement.groups_of(id), placement.groups_of(id));
        if old.is_empty() || new.is_empty() {
            continue;
        }
        let vcpu_moves = vcpu_moves(ground, old, new);
        let name = &ground.vm(id).name;
        let reason = why.get(&id).cloned().unwrap_or_else(|| {
            let text =
                format!("{name} cannot stay where it was, or is in more places than it needs");
            Reason::new("rehomed", text)
        });
        let vcpus = vcpu_moves.into_iter().map(|what| Move {
            vm: id,
            what,
            reason: reason.clone(),
        });
        moves.extend(vcpus);
        let mib = memory::PERIOD_MIB;
        let text = format!(
            "{name}: memory follows home, {mib} MiB in a period for the whole host at most"
        );
        let reason = Reason::new("page-migration", text);
        let memory = memory_moves(ground, placement, id);
        moves.extend(memory.into_iter().map(|what| Move {
            vm: id,
            what,
            reason: reason.clone(),
        }));
    }
    moves
}

fn vcpu_moves(ground: &Ground, old: &[Group], new: &[Group]) -> Vec<Moved> {
    let exists = |llc: LlcId| llc.index() < ground.now.host.llcs.len();
    let mut moves: BTreeMap<(LlcId, LlcId), CpuSet> = BTreeMap::new();
    for from in old.iter().filter(|group| exists(group.llc)) {
        for to in new.iter().filter(|group| group.llc != from.llc) {
            let vcpus = from.vcpus.intersection(&to.vcpus);
            if !vcpus.is_empty() {
                let sum = moves.entry((from.llc, to.llc)).or_default();
                *sum = sum.union(&vcpus);
            }
        }
    }
    let moves = moves.into_iter();
    moves
        .map(|((from, to), vcpus)| Moved::Vcpus { vcpus, from, to })
        .collect()
}

/// Memory that left a node, matched with memory that came to another, both by ascending node.
fn memory_moves(ground: &Ground, placement: &Placement, id: VmId) -> Vec<Moved> {
    let n_nodes = ground.now.host.nodes.len();
    let sums = |homes: &[MemoryHome]| {
        let mut sums = vec![0_u64; n_nodes];
        for home in homes {
            if let Some(sum) = sums.get_mut(home.node.index()) {
                *sum = sum.saturating_add(home.mib);
            }
        }
        sums
    };
    let (old, new) = (
        sums(ground.now.placement.memory_of(id)),
        sums(placement.memory_of(id)),
    );
    let pairs = old.iter().zip(&new);
    let mut left: Vec<u64> = pairs
        .clone()
        .map(|(old, new)| old.saturating_sub(*new))
        .collect();
    let mut came: Vec<u64> = pairs.map(|(old, new)| new.saturating_sub(*old)).collect();
    let mut moves = Vec::new();
    for (from, left) in (0..).map(NodeId).zip(&mut left) {
        for (to, came) in (0..).map(NodeId).zip(&mut came) {
            let mib = (*left).min(*came);
            if mib > 0 {
                moves.push(Moved::Memory { mib, from, to });
                *left -= mib;
                *came -= mib;
            }
        }
    }
    moves
}
