//! Seats that are not pinned: what the releases that know LLCs share.

use std::collections::BTreeMap;

use model::CpuSet;

use super::board::Board;
use super::ground::Seat;
use super::homes::Allowance;
use super::split;

/// Seats a client where it was if it needs all those LLCs and fits each; otherwise, when it may move, leaves it to be
/// seated anew. `limits` are the most vCPUs of its VM on each domain of its home. Gives the vCPUs that do not sit.
pub(super) fn keep(
    board: &mut Board,
    client: usize,
    before: Vec<Seat>,
    (limits, allowance): (&[u32], &mut Allowance),
) -> CpuSet {
    let vcpus = &board.homes.clients[client].vcpus;
    let mut inside: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for seat in before {
        let sum = inside.entry(seat.domain).or_default();
        *sum = sum.union(&seat.vcpus);
    }
    let free: Vec<u32> = (board.domains_of(client).iter().zip(limits))
        .map(|(&domain, limit)| limit.saturating_sub(others(board, client, domain)))
        .collect();
    let limit = |domain: u32| {
        let mut free = board.domains_of(client).iter().zip(&free);
        free.find(|(other, _)| **other == domain)
            .map_or(0, |(_, free)| *free)
    };
    let fits = inside
        .iter()
        .all(|(&domain, vcpus)| vcpus.len() <= limit(domain) as usize);
    let n = u32::try_from(vcpus.len()).unwrap_or(u32::MAX);
    let few = split::fewest(&free, n).is_none_or(|fewest| inside.len() <= fewest as usize);
    let may_move = board.ground().has_dwelt(board.vm_of(client));
    if !(fits && few) && may_move && allowance.spend(vcpus.len()) {
        return vcpus.clone();
    }
    for (domain, vcpus) in inside {
        board.sit(client, domain, vcpus);
    }
    CpuSet::new()
}

/// What is left of `limits` when the VM's other seats are taken off.
pub(super) fn left(board: &Board, client: usize, limits: &[u32]) -> Vec<u32> {
    let domains = board.domains_of(client).iter().zip(limits);
    domains
        .map(|(&domain, limit)| limit.saturating_sub(board.own(client, domain)))
        .collect()
}

/// Domains of the client's home with room for `size` vCPUs of its VM.
pub(super) fn roomy(board: &Board, client: usize, limits: &[u32], size: u32) -> Vec<u32> {
    let domains = board
        .domains_of(client)
        .iter()
        .zip(left(board, client, limits));
    domains
        .filter(|(_, left)| *left >= size)
        .map(|(domain, _)| *domain)
        .collect()
}

/// vCPUs of the VM's other clients on a domain before this plan.
fn others(board: &Board, client: usize, domain: u32) -> u32 {
    let client = &board.homes.clients[client];
    let seats = board.ground().seats_now(client.vm).unwrap_or_default();
    let here = seats.iter().filter(|seat| seat.domain == domain);
    let others: usize = here
        .map(|seat| seat.vcpus.difference(&client.vcpus).len())
        .sum();
    u32::try_from(others).unwrap_or(u32::MAX)
}
