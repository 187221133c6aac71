//! NUMA clients and their homes: the first stage of every ESXi scheduler.
//!
//! # Terminology
//! A *zone* is what the scheduler takes for a node: a node, or each LLC where the firmware says so. A *client* is the
//! vCPUs of one cell of a VM in one zone; a cell wider than any zone becomes several clients.
//!
//! # Initial placement
//! The zone with room for the client's memory and cores that is least loaded afterwards; further clients of a wide VM
//! next to the first ones (documented: CPU and memory are balanced, and clients of a wide VM are close together).
//! Action affinity comes first where it counts: see [`Attraction`].

use std::cmp::Reverse;

use model::CpuSet;
use model::host::NodeId;
use model::placement::{MemoryHome, VmId};

use super::ground::{Ground, Seat};
use super::split;

/// What the scheduler takes for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zones {
    /// The nodes that have CPUs.
    Nodes,
    /// Every LLC; which of them share a package is not known.
    Llcs,
}

/// How VMs that talk attract each other.
///
/// ESXi adds 130 points for a unit of action affinity (`Numa.LocalityWeightActionAffinity`) and 1 for each percent of
/// memory that is local (`Numa.LocalityWeightMem`). What a unit is, is not documented. Here it is one related client in
/// the zone (ours): then one more of them outweighs all of a client's memory, which is what makes six VMs gather on one
/// node from a balanced start (claim S3-37).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attraction {
    /// Points for each related client; 0 switches it off.
    pub(super) weight: i64,
    /// Most load of a zone, in percent of its cores, that it may lead to (`Numa.CoreCapRatioPct`); `None` is no check.
    pub(super) cap_percent: Option<i64>,
}

/// A zone.
#[derive(Debug, Clone)]
pub(super) struct Zone {
    pub(super) domains: Vec<u32>,
    pub(super) node: NodeId,
    /// Cores for VMs in milli-CPU.
    pub(super) capacity: i64,
    /// Demand of the clients that live here, in milli-CPU.
    pub(super) load: i64,
}

/// vCPUs of a cell with one home.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) vm: VmId,
    pub(super) cell: u32,
    pub(super) vcpus: CpuSet,
    pub(super) zone: usize,
    pub(super) memory_mib: u64,
    /// The zone it had before this plan; `None` for one that arrives or had to be cut anew.
    pub(super) was: Option<usize>,
    /// What attracted it, if anything did.
    pub(super) drawn_by: i64,
}

/// Clients and what they add up to.
#[derive(Debug)]
pub(super) struct Homes<'g> {
    pub(super) ground: &'g Ground<'g>,
    pub(super) zones: Vec<Zone>,
    /// In the order VMs are served.
    pub(super) clients: Vec<Client>,
    pub(super) attraction: Attraction,
    /// Memory at home, in MiB by node.
    home_mib: Vec<u64>,
    zone_of_domain: Vec<usize>,
    by_vm: Vec<Vec<usize>>,
    zones_are_near: bool,
}

/// What may still be moved in this plan.
#[derive(Debug)]
pub(super) struct Allowance {
    vcpus: u32,
}

impl Allowance {
    /// What the snapshot allows.
    pub(super) fn new(ground: &Ground) -> Self {
        Self {
            vcpus: ground.now.budget.vcpus,
        }
    }

    /// Whether so many vCPUs may move; if so, they are used up.
    pub(super) fn spend(&mut self, vcpus: usize) -> bool {
        let rest = u32::try_from(vcpus)
            .ok()
            .and_then(|vcpus| self.vcpus.checked_sub(vcpus));
        self.vcpus = rest.unwrap_or(self.vcpus);
        rest.is_some()
    }
}

/// Whether a cell may stay in the zones it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stay {
    Yes,
    /// It is in more zones than it needs.
    Scattered,
    No,
}

impl<'g> Homes<'g> {
    /// Homes for all admitted VMs that are not dedicated: the ones they have, if those will do, otherwise new ones.
    pub(super) fn new(
        ground: &'g Ground<'g>,
        kind: Zones,
        attraction: Attraction,
        allowance: &mut Allowance,
    ) -> Self {
        let mut homes = Self::empty(ground, kind, attraction);
        let mut homeless: Vec<(VmId, u32)> = Vec::new();
        for &id in &ground.shared {
            let seats = ground.seats_now(id);
            for cell in (0..).take(ground.tenant(id).cells.len()) {
                let kept = seats
                    .as_deref()
                    .is_some_and(|seats| homes.keep(id, cell, seats, allowance));
                if !kept {
                    homeless.push((id, cell));
                }
            }
        }
        for (id, cell) in homeless {
            homes.settle(id, cell);
        }
        let mut ranks = vec![0; ground.now.vms.len()];
        for (rank, id) in ground.shared.iter().enumerate() {
            ranks[id.index()] = rank;
        }
        homes
            .clients
            .sort_by_key(|client| (ranks[client.vm.index()], client.cell, client.vcpus.first()));
        homes.index();
        homes
    }

    /// Load of a zone in thousandths of its cores, with `more` milli-CPU added.
    pub(super) fn permille(&self, zone: usize, more: i64) -> i64 {
        let zone = &self.zones[zone];
        1000 * (zone.load + more) / zone.capacity.max(1)
    }

    /// What a client asks for, in milli-CPU.
    pub(super) fn demand(&self, client: &Client) -> i64 {
        self.ground.demand(client.vm) * i64::try_from(client.vcpus.len()).unwrap_or(i64::MAX)
    }

    /// The clients of a VM, by index.
    pub(super) fn clients_of(&self, id: VmId) -> &[usize] {
        &self.by_vm[id.index()]
    }

    /// vCPUs of a VM that are at home in a zone.
    pub(super) fn vcpus_in(&self, id: VmId, zone: usize) -> u32 {
        let own = self
            .clients_of(id)
            .iter()
            .map(|&index| &self.clients[index]);
        let here = own.filter(|client| client.zone == zone);
        u32::try_from(here.map(|client| client.vcpus.len()).sum::<usize>()).unwrap_or(u32::MAX)
    }

    /// How many more vCPUs of a VM a zone holds.
    pub(super) fn room_for(&self, id: VmId, zone: usize) -> u32 {
        let domains = self.zones[zone].domains.iter();
        let cap: u32 = domains.map(|&domain| self.ground.cap(id, domain)).sum();
        cap.saturating_sub(self.vcpus_in(id, zone))
    }

    /// Whether a client may go to a zone: its VM has room there, and no other cell of the VM would find room to come
    /// together where this client was. Without the latter, the next plan would have to bring that cell together.
    pub(super) fn may_go(&self, client: usize, zone: usize) -> bool {
        let Client { vm, ref vcpus, .. } = self.clients[client];
        if (self.room_for(vm, zone) as usize) < vcpus.len() {
            return false;
        }
        let n_cells = self.ground.tenant(vm).cells.len();
        let own = self.clients_of(vm);
        if n_cells == 1 || own.len() == n_cells {
            return true;
        }
        (0..).take(n_cells).all(|cell| {
            let mut inside = vec![CpuSet::new(); self.zones.len()];
            let mut outside = vec![0; self.zones.len()];
            for &index in own {
                let other = &self.clients[index];
                let at = if index == client { zone } else { other.zone };
                if other.cell == cell {
                    inside[at] = inside[at].union(&other.vcpus);
                } else {
                    outside[at] += other.vcpus.len();
                }
            }
            self.may_stay(vm, &inside, &outside) == Stay::Yes
        })
    }

    /// Memory of a zone's node that is nobody's home yet, in MiB; `None` means unknown.
    pub(super) fn free_mib(&self, zone: usize) -> Option<u64> {
        let node = self.zones[zone].node;
        let usable = self.ground.problem.site.nodes[node.index()].memory_mib?;
        Some(usable.saturating_sub(self.home_mib[node.index()]))
    }

    /// Clients of related VMs in a zone; 0 when attraction is off.
    pub(super) fn related(&self, id: VmId, zone: usize) -> i64 {
        if self.attraction.weight == 0 {
            return 0;
        }
        let partners = self.ground.tenant(id).partners.iter();
        let mut ids: Vec<VmId> = partners.map(|(partner, _)| *partner).collect();
        ids.sort_unstable();
        ids.dedup();
        let clients = ids.iter().flat_map(|&partner| self.clients_of(partner));
        let here = clients
            .filter(|&&index| self.clients[index].zone == zone)
            .count();
        i64::try_from(here).unwrap_or(i64::MAX)
    }

    /// Whether attraction may lead so much demand to a zone.
    pub(super) fn may_attract(&self, zone: usize, demand: i64) -> bool {
        let most = self.attraction.cap_percent;
        most.is_none_or(|percent| self.permille(zone, demand) <= 10 * percent)
    }

    /// What people call a zone.
    pub(super) fn name_of(&self, zone: usize) -> String {
        let zone = &self.zones[zone];
        match zone.domains[..] {
            [domain] if !self.zones_are_near => {
                format!(
                    "LLC {}",
                    self.ground.problem.site.domains[domain as usize].llc.0
                )
            }
            _ => format!("node {}", zone.node.0),
        }
    }

    /// Gives a client another home.
    pub(super) fn rehome(&mut self, client: usize, zone: usize) {
        let (demand, mib) = (
            self.demand(&self.clients[client]),
            self.clients[client].memory_mib,
        );
        let from = std::mem::replace(&mut self.clients[client].zone, zone);
        self.zones[from].load -= demand;
        self.zones[zone].load += demand;
        let [from, to] = [from, zone].map(|zone| self.zones[zone].node.index());
        self.home_mib[from] = self.home_mib[from].saturating_sub(mib);
        self.home_mib[to] = self.home_mib[to].saturating_add(mib);
    }

    /// Percent of the client's memory that is on a zone's node now.
    pub(super) fn memory_percent(&self, client: &Client, zone: usize) -> i64 {
        let own = self.ground.now.placement.memory_of(client.vm).iter();
        let own = own.filter(|home| home.cell == client.cell);
        let (mut here, mut all) = (0_u128, 0_u128);
        for MemoryHome { node, mib, .. } in own {
            here += u128::from(if *node == self.zones[zone].node {
                *mib
            } else {
                0
            });
            all += u128::from(*mib);
        }
        i64::try_from((100 * here).checked_div(all).unwrap_or(0)).unwrap_or(0)
    }

    fn empty(ground: &'g Ground<'g>, kind: Zones, attraction: Attraction) -> Self {
        let site = &ground.problem.site;
        let zone = |node: NodeId, domains: Vec<u32>| {
            let cores: u32 = domains
                .iter()
                .map(|&domain| ground.any_room(domain).cores)
                .sum();
            Zone {
                domains,
                node,
                capacity: 1000 * i64::from(cores),
                load: 0,
            }
        };
        let shared = ground
            .domains()
            .filter(|&domain| !ground.any_room(domain).cpus.is_empty());
        let zones: Vec<Zone> = match kind {
            Zones::Llcs => shared
                .map(|domain| zone(ground.node_of(domain), vec![domain]))
                .collect(),
            Zones::Nodes => (0..)
                .map(NodeId)
                .take(site.nodes.len())
                .map(|node| {
                    let own = shared
                        .clone()
                        .filter(|&domain| ground.node_of(domain) == node);
                    zone(node, own.collect())
                })
                .filter(|zone| !zone.domains.is_empty())
                .collect(),
        };
        let mut zone_of_domain = vec![usize::MAX; site.domains.len()];
        for (index, zone) in zones.iter().enumerate() {
            for &domain in &zone.domains {
                zone_of_domain[domain as usize] = index;
            }
        }
        Self {
            ground,
            zones,
            clients: Vec::new(),
            attraction,
            home_mib: vec![0; site.nodes.len()],
            zone_of_domain,
            by_vm: vec![Vec::new(); ground.now.vms.len()],
            zones_are_near: kind == Zones::Nodes,
        }
    }

    fn index(&mut self) {
        for list in &mut self.by_vm {
            list.clear();
        }
        for (index, client) in self.clients.iter().enumerate() {
            self.by_vm[client.vm.index()].push(index);
        }
    }

    /// Makes clients of a cell where it is; `false` when it has to be cut and placed anew.
    fn keep(&mut self, id: VmId, cell: u32, seats: &[Seat], allowance: &mut Allowance) -> bool {
        let cells = &self.ground.tenant(id).cells;
        let vcpus = &cells[cell as usize].vcpus;
        let mut inside = vec![CpuSet::new(); self.zones.len()];
        let mut outside = vec![0; self.zones.len()];
        for seat in seats {
            let zone = self.zone_of_domain[seat.domain as usize];
            inside[zone] = inside[zone].union(&seat.vcpus.intersection(vcpus));
            outside[zone] += seat.vcpus.difference(vcpus).len();
        }
        let stay = self.may_stay(id, &inside, &outside);
        let moves = vcpus.len();
        if stay == Stay::No
            || stay == Stay::Scattered && self.ground.has_dwelt(id) && allowance.spend(moves)
        {
            return false;
        }
        for (zone, vcpus) in inside
            .into_iter()
            .enumerate()
            .filter(|(_, vcpus)| !vcpus.is_empty())
        {
            self.add(id, cell, vcpus, (zone, Some(zone)));
        }
        true
    }

    fn may_stay(&self, id: VmId, inside: &[CpuSet], outside: &[usize]) -> Stay {
        let cap = |zone: &Zone| -> u32 {
            zone.domains
                .iter()
                .map(|&domain| self.ground.cap(id, domain))
                .sum()
        };
        let caps = self.zones.iter().zip(outside);
        let caps: Vec<u32> = caps
            .map(|(zone, &others)| {
                cap(zone).saturating_sub(u32::try_from(others).unwrap_or(u32::MAX))
            })
            .collect();
        if inside
            .iter()
            .zip(&caps)
            .any(|(vcpus, &cap)| vcpus.len() > cap as usize)
        {
            return Stay::No;
        }
        let used = inside.iter().filter(|vcpus| !vcpus.is_empty()).count();
        let all: usize = inside.iter().map(CpuSet::len).sum();
        let fewest = split::fewest(&caps, u32::try_from(all).unwrap_or(u32::MAX));
        if fewest.is_some_and(|fewest| used > fewest as usize) {
            Stay::Scattered
        } else {
            Stay::Yes
        }
    }

    /// Cuts a cell into clients and gives each the best home.
    fn settle(&mut self, id: VmId, cell: u32) {
        let vcpus = self.ground.tenant(id).cells[cell as usize].vcpus.clone();
        let caps: Vec<u32> = (0..self.zones.len())
            .map(|zone| self.room_for(id, zone))
            .collect();
        let n = u32::try_from(vcpus.len()).unwrap_or(u32::MAX);
        // Admission has counted the CPUs, and the cells of a VM have no more vCPUs than the VM.
        let sizes = split::sizes(&caps, n).unwrap_or_default();
        let mut rest = vcpus.iter();
        for size in sizes {
            let piece: CpuSet = rest.by_ref().take(size as usize).collect();
            let Some((zone, drawn_by)) = self.best_zone(id, cell, &piece) else {
                break;
            };
            self.add(id, cell, piece, (zone, None));
            if let Some(client) = self.clients.last_mut() {
                client.drawn_by = drawn_by;
            }
        }
    }

    /// The zone for a new client, and how many related clients drew it there.
    fn best_zone(&self, id: VmId, cell: u32, vcpus: &CpuSet) -> Option<(usize, i64)> {
        let size = u32::try_from(vcpus.len()).unwrap_or(u32::MAX);
        let demand = self.ground.demand(id) * i64::from(size);
        let mib = self.memory_of(id, cell, vcpus);
        let before = self.ground.seats_now(id).unwrap_or_default();
        let key = |zone: usize| {
            let here = before
                .iter()
                .filter(|seat| self.zone_of_domain[seat.domain as usize] == zone);
            let stays: usize = here.map(|seat| seat.vcpus.intersection(vcpus).len()).sum();
            let drawn = if self.may_attract(zone, demand) {
                self.related(id, zone)
            } else {
                0
            };
            let no_memory = self.free_mib(zone).is_some_and(|free| free < mib);
            let crowded = self.permille(zone, demand) > 1000;
            let memory = self.home_mib[self.zones[zone].node.index()].saturating_add(mib);
            let load = (
                crowded,
                self.distance(id, zone),
                self.permille(zone, demand),
            );
            (
                Reverse(stays),
                Reverse(drawn),
                no_memory,
                load,
                memory,
                zone,
            )
        };
        let eligible = (0..self.zones.len()).filter(|&zone| self.room_for(id, zone) >= size);
        let best = eligible.map(key).min()?;
        let (_, Reverse(drawn), .., zone) = best;
        Some((zone, drawn))
    }

    /// How far a zone is from the clients that the VM has already, by the firmware's distances.
    fn distance(&self, id: VmId, zone: usize) -> u32 {
        if !self.zones_are_near {
            return 0;
        }
        let host = &self.ground.now.host;
        let own = self
            .clients_of(id)
            .iter()
            .map(|&index| self.zones[self.clients[index].zone].node);
        own.map(|node| {
            host.distance(node, self.zones[zone].node)
                .saturating_sub(10)
        })
        .sum()
    }

    fn add(&mut self, id: VmId, cell: u32, vcpus: CpuSet, (zone, was): (usize, Option<usize>)) {
        let memory_mib = self.memory_of(id, cell, &vcpus);
        let client = Client {
            vm: id,
            cell,
            vcpus,
            zone,
            memory_mib,
            was,
            drawn_by: 0,
        };
        self.zones[zone].load += self.demand(&client);
        let node = self.zones[zone].node.index();
        self.home_mib[node] = self.home_mib[node].saturating_add(memory_mib);
        self.by_vm[id.index()].push(self.clients.len());
        self.clients.push(client);
    }

    /// The client's part of its cell's memory.
    fn memory_of(&self, id: VmId, cell: u32, vcpus: &CpuSet) -> u64 {
        let cell = &self.ground.tenant(id).cells[cell as usize];
        let part =
            u128::from(cell.memory_mib) * vcpus.len() as u128 / cell.vcpus.len().max(1) as u128;
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}
