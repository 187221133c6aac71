//! What all ESXi releases do in the same order: homes, rebalancing, seats, memory, system threads.

use std::collections::BTreeMap;

use model::placement::{SystemHome, VmId};
use model::{CpuSet, Reason};

use super::board::Board;
use super::finish::{self, Finished};
use super::ground::{Ground, Seat};
use super::homes::{Allowance, Attraction, Homes, Zones};
use super::memory::{self, Wish};
use super::rebalance;
use crate::plan::{Plan, Snapshot};

/// What one release does its own way.
pub(super) trait Release {
    /// What it takes for a node.
    fn zones(&self) -> Zones;
    /// How VMs that talk attract each other.
    fn attraction(&self) -> Attraction;
    /// Seats a client that kept its home as far as it may stay where it was; the vCPUs that may not.
    fn keep(
        &self,
        board: &mut Board,
        client: usize,
        before: Vec<Seat>,
        allowance: &mut Allowance,
    ) -> CpuSet;
    /// Seats vCPUs of a client in its home.
    fn seat(&self, board: &mut Board, client: usize, vcpus: &CpuSet);
    /// Moves seats when all sit.
    fn relieve(&self, board: &mut Board, allowance: &mut Allowance);
    /// Why a VM sits as it does.
    fn reason(&self, board: &Board, id: VmId) -> Reason;
    /// Whether system threads look for a place beside the VM's vCPUs first.
    fn keeps_system_near(&self) -> bool;
}

/// The plan of a release.
pub(super) fn plan(release: &dyn Release, now: &Snapshot) -> Plan {
    let ground = Ground::new(now);
    let mut allowance = Allowance::new(&ground);
    let mut homes = Homes::new(
        &ground,
        release.zones(),
        release.attraction(),
        &mut allowance,
    );
    let mut moved = rebalance::run(&mut homes, &mut allowance);
    let mut board = Board::new(&homes);
    let mut unseated = Vec::new();
    for client in 0..homes.clients.len() {
        let before = board.before(client);
        unseated.push(if before.is_empty() {
            homes.clients[client].vcpus.clone()
        } else {
            release.keep(&mut board, client, before, &mut allowance)
        });
    }
    for (client, vcpus) in unseated
        .iter()
        .enumerate()
        .filter(|(_, vcpus)| !vcpus.is_empty())
    {
        release.seat(&mut board, client, vcpus);
    }
    release.relieve(&mut board, &mut allowance);
    let memory = memory::place(&ground, &wishes(&homes), memory::PERIOD_MIB);
    let system = system(release, &board);
    let mut reasons = Vec::new();
    for &id in &ground.shared {
        reasons.extend(home_reasons(&homes, id).map(|reason| (Some(id), reason)));
        reasons.push((Some(id), release.reason(&board, id)));
    }
    moved.append(&mut board.moved);
    let mut seats: BTreeMap<VmId, Vec<Seat>> = BTreeMap::new();
    for (client, own) in homes.clients.iter().zip(board.seats) {
        seats.entry(client.vm).or_default().extend(own);
    }
    finish::plan(
        &ground,
        Finished {
            seats,
            memory,
            system,
            reasons,
            moved,
        },
    )
}

/// Where memory should be: at home.
fn wishes(homes: &Homes) -> Vec<Wish> {
    let mut wishes: BTreeMap<(VmId, u32), Vec<(model::host::NodeId, u64)>> = BTreeMap::new();
    for client in &homes.clients {
        let vcpus = u64::try_from(client.vcpus.len()).unwrap_or(u64::MAX);
        wishes
            .entry((client.vm, client.cell))
            .or_default()
            .push((homes.zones[client.zone].node, vcpus));
    }
    wishes
        .into_iter()
        .map(|((vm, cell), nodes)| Wish { vm, cell, nodes })
        .collect()
}

fn home_reasons(homes: &Homes, id: VmId) -> impl Iterator<Item = Reason> {
    let ground = homes.ground;
    let name = &ground.vm(id).name;
    let clients = homes.clients_of(id);
    let mut zones: Vec<usize> = clients
        .iter()
        .map(|&client| homes.clients[client].zone)
        .collect();
    zones.dedup();
    let names: Vec<String> = zones.iter().map(|&zone| homes.name_of(zone)).collect();
    let loads: Vec<String> = zones
        .iter()
        .map(|&zone| format!("{} %", homes.permille(zone, 0) / 10))
        .collect();
    let (names, loads) = (names.join(", "), loads.join(", "));
    let fresh = clients
        .iter()
        .any(|&client| homes.clients[client].was != Some(homes.clients[client].zone));
    let drawn: i64 = clients
        .iter()
        .map(|&client| homes.clients[client].drawn_by)
        .max()
        .unwrap_or(0);
    let first = if drawn > 0 {
        let check = match homes.attraction.cap_percent {
            None => "however full it is".to_owned(),
            Some(percent) => format!("as long as {percent} % of its cores are enough"),
        };
        let text = format!(
            "{name} is at home on {names} with {drawn} VMs it talks to more than 500 times a second, {check}; load {loads}"
        );
        Reason::new("action-affinity", text)
    } else if fresh {
        let text = format!(
            "{name} is at home on {names} by load and memory; {loads} of the cores are asked for"
        );
        Reason::new("numa-home", text)
    } else {
        Reason::new(
            "numa-home-kept",
            format!("{name} stays at home on {names}; load {loads}"),
        )
    };
    let wide = (zones.len() > 1).then(|| {
        let vcpus = ground.vm(id).vcpus;
        let text = format!(
            "{name} has {vcpus} vCPUs in {} parts with homes of their own",
            clients.len()
        );
        Reason::new("wide-vm", text)
    });
    [Some(first), wide].into_iter().flatten()
}

/// Homes for system threads: where they were, if that is still a home of the VM; otherwise the emptiest LLC of the VM,
/// as far as the release looks there and it has room, or of its nodes. They do not count when vCPUs are seated: 7.0 U2
/// fills LLCs with vCPUs and leaves no room for network threads (claim S3-62).
fn system(release: &dyn Release, board: &Board) -> Vec<SystemHome> {
    let ground = board.ground();
    let mut taken = vec![0; ground.problem.site.domains.len()];
    let shared = ground.shared.iter().map(|&id| {
        let clients = board.homes.clients_of(id);
        (
            id,
            clients
                .iter()
                .flat_map(|&client| &board.seats[client])
                .map(|seat| seat.domain)
                .collect(),
        )
    });
    let dedicated = ground.dedicated.iter();
    let dedicated =
        dedicated.map(|(id, seats)| (*id, seats.iter().map(|seat| seat.domain).collect()));
    let all: Vec<(VmId, Vec<u32>)> = shared.chain(dedicated).collect();
    let mut homes = Vec::new();
    for (id, own) in all {
        let demand = i64::from(ground.vm(id).system);
        if demand == 0 {
            continue;
        }
        let nodes: Vec<_> = own.iter().map(|&domain| ground.node_of(domain)).collect();
        let spare = |domain: u32| board.spare(domain) - taken[domain as usize];
        let open = |domain: &u32| !finish::system_cpus(ground, id, *domain).is_empty();
        let near = |domain: &u32| nodes.contains(&ground.node_of(*domain));
        let emptiest = |domains: &mut dyn Iterator<Item = u32>| {
            domains
                .filter(open)
                .max_by_key(|&domain| (spare(domain), std::cmp::Reverse(domain)))
        };
        let before =
            finish::system_before(ground, id).filter(|domain| near(domain) && open(domain));
        let beside = release
            .keeps_system_near()
            .then(|| emptiest(&mut own.iter().copied()));
        let beside = beside.flatten().filter(|&domain| spare(domain) >= demand);
        let domain = before
            .or(beside)
            .or_else(|| emptiest(&mut ground.domains().filter(near)))
            .or_else(|| emptiest(&mut ground.domains()));
        if let Some(domain) = domain {
            taken[domain as usize] += demand;
            homes.push(finish::system_home(ground, id, domain));
        }
    }
    homes
}
