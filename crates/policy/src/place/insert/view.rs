//! What a cell sees of the host while it looks for a place: the domains worth looking at, and what one vCPU costs on each.

use model::host::{NodeId, PackageId};

use super::{Split, count};
use crate::cost::weights;
use crate::place::state::{Memory, Piece, Seat, State, copied};

/// Nodes tried as a home on hosts with more than [`SMALL_NODES`].
const HOMES: usize = 4;
/// Hosts with no more nodes that have CPUs are looked at whole.
const SMALL_NODES: usize = 16;

/// A cell's view.
#[derive(Debug)]
pub(super) struct View {
    pub(super) vm: usize,
    pub(super) cell: usize,
    /// Package that holds most of the cell's memory.
    pub(super) home: Option<PackageId>,
    /// Domains worth looking at, ascending.
    pub(super) domains: Vec<u32>,
    /// What one vCPU costs on each domain, without loads and without the cell's other pieces.
    pub(super) unit: Vec<i64>,
    /// The cell's memory.
    pub(super) memory: Vec<Memory>,
    /// What moving the memory costs.
    pub(super) memory_moved: i64,
    /// The VM's vCPUs of other cells, by domain.
    earlier: Vec<Piece>,
    /// The cell's vCPUs before, by domain, and the cost of leaving for another domain or node.
    before: Vec<Piece>,
    node_of: Vec<u32>,
}

impl View {
    /// The view of a cell whose memory goes to `memory`, after the VM's earlier cells.
    pub(super) fn new(
        state: &State,
        vm: usize,
        (cell, earlier): (usize, &Seat),
        (memory, homes): (Vec<Memory>, &[NodeId]),
    ) -> Self {
        let (tenant, site) = (state.tenant(vm), &state.problem.site);
        let index = count(cell);
        let domains = domains(state, vm, &memory, homes);
        let mut unit = vec![0; site.domains.len()];
        for &domain in &domains {
            let far =
                |piece: &Piece| i64::from(piece.size) * site.extra_ns(domain, piece.domain, None);
            let pairs: i64 = earlier.pieces.iter().map(far).sum();
            unit[domain as usize] = tenant.alone(site, domain)
                + tenant.per_extra_dram * state.extra_memory(&memory, index, domain)
                + tenant.per_pair_ns * pairs
                + near(state, vm, domain);
        }
        let before: Vec<Piece> = state.before[vm]
            .pieces
            .iter()
            .filter(|piece| piece.cell == index)
            .copied()
            .collect();
        Self {
            vm,
            cell,
            home: state.home(&memory, index),
            domains,
            unit,
            memory_moved: memory_moved(state, vm, &memory),
            memory,
            earlier: earlier.pieces.clone(),
            node_of: if before.is_empty() {
                Vec::new()
            } else {
                site.domains.iter().map(|domain| domain.node.0).collect()
            },
            before,
        }
    }

    /// Most vCPUs that one domain takes.
    pub(super) fn widest(&self, state: &State) -> u32 {
        let caps = &state.tenant(self.vm).caps;
        self.domains
            .iter()
            .map(|&domain| caps[domain as usize])
            .max()
            .unwrap_or(0)
    }

    /// vCPUs of the VM's other cells on a domain.
    pub(super) fn earlier_count(&self, domain: u32) -> u32 {
        super::own_count(&self.earlier, domain)
    }

    /// What it costs that a piece of `size` comes to a domain where it was not before, beside `own` that are there.
    pub(super) fn moving(&self, domain: u32, own: u32, size: u32) -> i64 {
        if self.before.is_empty() {
            return 0;
        }
        let was = super::own_count(&self.before, domain).saturating_sub(own);
        let node = self.node_of[domain as usize];
        let was_on_node = self
            .before
            .iter()
            .any(|piece| self.node_of[piece.domain as usize] == node);
        let each = if was_on_node {
            weights::MOVE_LLC
        } else {
            weights::MOVE_NODE
        };
        i64::from(size.saturating_sub(was)) * each
    }

    /// Domains to try for the first piece: `None` alone lets the piece choose for itself; otherwise the cheapest ones,
    /// and of equally cheap ones some from all over the host.
    pub(super) fn anchors(
        &self,
        state: &mut State,
        split: &Split,
        most: usize,
    ) -> Vec<Option<u32>> {
        let Some(&(size, _)) = split.first().filter(|_| split.len() > 1 && most > 1) else {
            return vec![None];
        };
        state.evaluations += self.domains.len() as u64;
        let cost = |domain: u32| {
            let own = i64::from(size) * self.unit[domain as usize];
            own + state.more_load_cost(self.vm, domain, size) + self.moving(domain, 0, size)
        };
        let mut ranked: Vec<(i64, u32)> = self
            .domains
            .iter()
            .map(|&domain| (cost(domain), domain))
            .collect();
        ranked.sort_unstable();
        if ranked.len() <= most {
            return ranked.into_iter().map(|(_, domain)| Some(domain)).collect();
        }
        let cheapest = ranked.partition_point(|(cost, _)| *cost == ranked[0].0);
        if cheapest <= most {
            return ranked[..most]
                .iter()
                .map(|(_, domain)| Some(*domain))
                .collect();
        }
        (0..most)
            .map(|index| Some(ranked[index * cheapest / most].1))
            .collect()
    }
}

/// The ways to give a cell memory: where it is already, and each home node with the nearest ones behind it. A cell
/// without memory has one way: none.
pub(super) fn memories(
    state: &State,
    vm: usize,
    cell: usize,
    homes: &[NodeId],
) -> Vec<Vec<Memory>> {
    let index = count(cell);
    let mib = state.tenant(vm).cells[cell].memory_mib;
    if mib == 0 {
        return vec![Vec::new()];
    }
    let mut ways: Vec<Vec<Memory>> = Vec::new();
    let stay: Vec<Memory> = state.before[vm]
        .memory
        .iter()
        .filter(|home| home.cell == index)
        .copied()
        .collect();
    let has_room =
        |home: &Memory| state.free_mib[home.node.index()].is_none_or(|free| free >= home.mib);
    if !stay.is_empty()
        && stay.iter().all(has_room)
        && stay.iter().map(|home| home.mib).sum::<u64>() == mib
    {
        ways.push(stay);
    }
    for &home in homes {
        let way = allot(state, index, mib, home);
        if let Some(way) = way.filter(|way| !ways.contains(way)) {
            ways.push(way);
        }
    }
    ways
}

fn allot(state: &State, cell: u32, mib: u64, home: NodeId) -> Option<Vec<Memory>> {
    if state.free_mib[home.index()].is_none_or(|free| free >= mib) {
        return Some(vec![Memory {
            cell,
            node: home,
            mib,
        }]);
    }
    let mut nodes: Vec<NodeId> = (0..count(state.free_mib.len())).map(NodeId).collect();
    nodes.sort_by_key(|&node| {
        (
            node != home,
            state.problem.site.extra_dram(home, node),
            node,
        )
    });
    let mut rest = mib;
    let mut way = Vec::new();
    for node in nodes {
        let take = state.free_mib[node.index()].map_or(rest, |free| free.min(rest));
        if take > 0 {
            way.push(Memory {
                cell,
                node,
                mib: take,
            });
            rest -= take;
        }
    }
    way.sort_unstable();
    (rest == 0).then_some(way)
}

/// Nodes that may be a cell's home: all on small hosts; otherwise those with most room, and those the VM has a reason
/// to be on.
pub(super) fn homes(state: &State, vm: usize, earlier: &Seat) -> Vec<NodeId> {
    let (tenant, site) = (state.tenant(vm), &state.problem.site);
    let may = |node: &NodeId| {
        let own = site.nodes[node.index()].domains.iter();
        own.copied().any(|domain| tenant.caps[domain as usize] > 0)
    };
    let mut nodes: Vec<NodeId> = site.home_nodes.iter().copied().filter(may).collect();
    if site.home_nodes.len() <= SMALL_NODES || nodes.len() <= HOMES {
        return nodes;
    }
    let room = |node: &NodeId| {
        i64::from(site.nodes[node.index()].cores) * 1000 - state.node_demand[node.index()]
    };
    nodes.select_nth_unstable_by_key(HOMES - 1, |node| {
        (std::cmp::Reverse(room(node).max(0)), *node)
    });
    nodes.truncate(HOMES);
    let node_of = |piece: &Piece| site.domains[piece.domain as usize].node;
    nodes.extend(
        earlier
            .pieces
            .iter()
            .chain(&state.before[vm].pieces)
            .map(node_of),
    );
    nodes.extend(tenant.device_nodes.iter().filter(|node| may(node)));
    for (partner, _) in tenant.partners.iter().take(HOMES) {
        nodes.extend(state.seats[partner.index()].pieces.iter().map(node_of));
    }
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// Domains worth looking at: all on small hosts; otherwise those of the homes, and all if these are not enough.
fn domains(state: &State, vm: usize, memory: &[Memory], homes: &[NodeId]) -> Vec<u32> {
    let (tenant, site) = (state.tenant(vm), &state.problem.site);
    let may = |domain: &u32| tenant.caps[*domain as usize] > 0;
    let all = || (0..count(site.domains.len())).filter(may);
    if site.home_nodes.len() <= SMALL_NODES {
        return all().collect();
    }
    let mut nodes: Vec<NodeId> = homes
        .iter()
        .copied()
        .chain(memory.iter().map(|home| home.node))
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    let of_node = |node: &NodeId| site.nodes[node.index()].domains.iter().copied();
    let mut near: Vec<u32> = nodes.iter().flat_map(of_node).filter(may).collect();
    if tenant.dedicated {
        near.extend(all().filter(|domain| site.domains[*domain as usize].isolated));
    }
    near.sort_unstable();
    near.dedup();
    let room: u32 = near
        .iter()
        .map(|&domain| tenant.caps[domain as usize])
        .sum();
    if room < tenant.vcpus {
        all().collect()
    } else {
        near
    }
}

/// What one vCPU on a domain loses by the distance to partners that sit.
fn near(state: &State, vm: usize, domain: u32) -> i64 {
    let tenant = state.tenant(vm);
    let mut cost = 0;
    for &(partner, per_ns) in &tenant.partners {
        let pieces = &state.seats[partner.index()].pieces;
        let total: i64 = pieces.iter().map(|piece| i64::from(piece.size)).sum();
        let ns = pieces.iter().map(|piece| {
            i64::from(piece.size) * state.problem.site.extra_ns(domain, piece.domain, None)
        });
        cost += per_ns * ns.sum::<i64>() / (total * i64::from(tenant.vcpus)).max(1);
    }
    cost
}

fn memory_moved(state: &State, vm: usize, memory: &[Memory]) -> i64 {
    let before = &state.before[vm];
    if before.pieces.is_empty() {
        return 0;
    }
    let copied = copied(before, memory);
    i64::try_from(copied.div_ceil(1024)).unwrap_or(0) * weights::MOVE_GIB
}
