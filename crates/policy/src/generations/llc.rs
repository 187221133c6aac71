//! `llc`: ESXi 7.0 U2 and later.
//!
//! # Behaviour
//! A home node by load; action affinity, but not above 90 % of a node's cores (`Numa.CoreCapRatioPct`). There, logical
//! groups of at most the cores of an LLC, as few as possible and balanced: 4 vCPUs on Rome are one group, 8 are two of 4
//! (claims S3-08, S3-14). Each goes to an LLC of its own, the one with most cores free; by chance where several are
//! alike. A group stays where it is unless its LLC is over-packed and another one has room (claim S3-26: 0.3 moves a
//! second instead of 2.3).
//!
//! # Defects, on purpose
//! * Dies and quadrants are not known: two groups of a VM usually are on different dies (claim S3-14).
//! * Groups are packed even for VMs that live on memory bandwidth and cache (claim S3-58, -7 %).
//! * System threads are not counted, and find LLCs full of vCPUs (claim S3-62).
//! * Virtual LLCs of the guest are not known; they came with 8.0.

use model::placement::VmId;
use model::{CpuId, CpuSet, Reason};

use super::board::Board;
use super::draw::{draw, pick};
use super::ground::Seat;
use super::homes::{Allowance, Attraction, Zones};
use super::numa::{self, Release};
use super::{CHECKED, describe, groups, split};
use crate::plan::{Plan, Snapshot};
use crate::reconcile::Policy;

/// Groups of cores per LLC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Llc;

impl Policy for Llc {
    fn name(&self) -> &'static str {
        "llc"
    }

    fn plan(&self, now: &Snapshot) -> Plan {
        numa::plan(self, now)
    }
}

impl Release for Llc {
    fn zones(&self) -> Zones {
        Zones::Nodes
    }

    fn attraction(&self) -> Attraction {
        CHECKED
    }

    fn keep(
        &self,
        board: &mut Board,
        client: usize,
        before: Vec<Seat>,
        allowance: &mut Allowance,
    ) -> CpuSet {
        let limits = limits(board, client);
        groups::keep(board, client, before, (&limits, allowance))
    }

    fn seat(&self, board: &mut Board, client: usize, vcpus: &CpuSet) {
        let n = u32::try_from(vcpus.len()).unwrap_or(u32::MAX);
        let limits = limits(board, client);
        let sizes = split::sizes(&groups::left(board, client, &limits), n);
        let mut rest = vcpus.iter().peekable();
        for size in sizes.unwrap_or_default() {
            let first = rest.peek().map_or(0, |vcpu| vcpu.0);
            let roomy = groups::roomy(board, client, &limits, size);
            // Two groups of a VM share an LLC only when there is no other.
            let fresh = roomy
                .iter()
                .copied()
                .filter(|&domain| board.own(client, domain) == 0);
            let fresh: Vec<u32> = fresh.collect();
            let choice = if fresh.is_empty() { &roomy } else { &fresh };
            let Some(domain) = roomiest(board, client, choice, first) else {
                break;
            };
            board.sit(client, domain, rest.by_ref().take(size as usize).collect());
        }
    }

    /// Groups of over-packed LLCs go where there is room. Every move leaves less over-packing, so it ends.
    fn relieve(&self, board: &mut Board, allowance: &mut Allowance) {
        let mut again = true;
        while again {
            again = false;
            for client in 0..board.seats.len() {
                for index in 0..board.seats[client].len() {
                    again |= relieve_seat(board, client, index, allowance);
                }
            }
        }
    }

    fn reason(&self, board: &Board, id: VmId) -> Reason {
        let domains = super::domains_of(board, id);
        let packed = domains.iter().any(|&domain| board.spare(domain) < 0);
        let (code, more) = if packed {
            (
                "llc-over-packed",
                "; no LLC of its node has as many cores free",
            )
        } else {
            ("llc-groups", "")
        };
        let name = &board.ground().vm(id).name;
        Reason::new(
            code,
            format!(
                "{name} is cut by cores of an LLC: {}{more}",
                describe(board, id)
            ),
        )
    }

    fn keeps_system_near(&self) -> bool {
        true
    }
}

fn relieve_seat(board: &mut Board, client: usize, index: usize, allowance: &mut Allowance) -> bool {
    let seat = board.seats[client][index].clone();
    let was_there = !board.before(client).is_empty();
    if board.spare(seat.domain) >= 0 || was_there && !board.ground().has_dwelt(board.vm_of(client))
    {
        return false;
    }
    // Where other vNUMA nodes of the VM share the home, one group that goes would make them regroup, and so on.
    let home = &board.homes.clients[client];
    if board.homes.vcpus_in(home.vm, home.zone) as usize > home.vcpus.len() {
        return false;
    }
    let demand = board.demand(client, seat.vcpus.len());
    let open = board.domains_of(client).iter().zip(limits(board, client));
    let open = open.filter(|(domain, cap)| {
        **domain != seat.domain
            && board.own(client, **domain) == 0
            && *cap as usize >= seat.vcpus.len()
            && board.spare(**domain) >= demand
    });
    let open: Vec<u32> = open.map(|(domain, _)| *domain).collect();
    let first = seat.vcpus.first().map_or(0, |CpuId(vcpu)| vcpu);
    let Some(domain) = roomiest(board, client, &open, first) else {
        return false;
    };
    if was_there && !allowance.spend(seat.vcpus.len()) {
        return false;
    }
    let over = -board.spare(seat.domain);
    let name = &board.ground().vm(board.vm_of(client)).name;
    let text = format!(
        "{name}: vCPUs {} leave an LLC with {over} milli-CPU more than its cores for one with room",
        seat.vcpus
    );
    board
        .moved
        .push((board.vm_of(client), Reason::new("llc-over-packed", text)));
    board.take(client, index);
    board.sit(client, domain, seat.vcpus);
    true
}

/// One of the domains with most cores free, by chance.
fn roomiest(board: &Board, client: usize, domains: &[u32], vcpu: u32) -> Option<u32> {
    let most = domains.iter().map(|&domain| board.spare(domain)).max()?;
    let best: Vec<u32> = domains
        .iter()
        .copied()
        .filter(|&domain| board.spare(domain) == most)
        .collect();
    let ground = board.ground();
    pick(
        &best,
        draw(
            &ground.vm(board.vm_of(client)).name,
            vcpu,
            ground.now.generation,
        ),
    )
}

/// vCPUs that the client's VM may have on each domain of its home: its cores, or its threads for VMs that count those. A
/// VM that is wider than all of them gets an equal share of each domain.
fn limits(board: &Board, client: usize) -> Vec<u32> {
    let (ground, id) = (board.ground(), board.vm_of(client));
    let rooms: Vec<_> = (board.domains_of(client).iter())
        .map(|&domain| ground.room(id, domain))
        .collect();
    let by_threads = ground.vm(id).prefer_ht;
    let cores = rooms
        .iter()
        .map(|room| if by_threads { room.threads } else { room.cores });
    let cores: Vec<u32> = cores.collect();
    let wanted = board.homes.vcpus_in(id, board.homes.clients[client].zone);
    if cores.iter().sum::<u32>() >= wanted {
        return cores;
    }
    let open = rooms.iter().filter(|room| room.threads > 0).count();
    let share = wanted.div_ceil(u32::try_from(open).unwrap_or(u32::MAX).max(1));
    let shares = rooms.iter().map(|room| room.threads.min(share));
    if shares.clone().sum::<u32>() >= wanted {
        return shares.collect();
    }
    rooms.iter().map(|room| room.threads).collect()
}
