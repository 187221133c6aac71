//! The NUMA rebalancer that ESXi runs every 2 s (`Numa.RebalancePeriod`).
//!
//! # Rules
//! A plan is one period: one client that was placed before gets another home, or two change places. Clients that arrive
//! with the plan are moved until nothing improves, so that a plan from an empty host is where rebalancing would end.
//!
//! * *Locality*: to the zone with more related clients, if 130 for each of them outweighs the percents of memory left
//!   behind; see [`Attraction`](super::homes::Attraction).
//! * *Balance*: from a loaded zone to the least loaded one, if they differ by 10 % of their cores
//!   (`Numa.MigImbalanceThreshold`), by 2 % less afterwards (`Numa.MigThreshold`), and by half as much at most
//!   (`Numa.MigThrashThreshold`); a client with memory there is preferred.
//! * *Swap*: two clients of unequal demand change places, with the same thresholds, 15 periods after their last move
//!   (`Numa.SwapConsiderPeriod`; the snapshot's dwell time).
//!
//! Clients whose VM is bound to CPUs are not managed. ESXi considers swaps every third period only; here every period
//! considers all (ours).
//!
//! # Properties
//! Balance never takes a client from its relations, and locality always brings relations together; so the relations that
//! share a zone never get fewer, and between two increases imbalance only shrinks: it ends. Whether ESXi has such an
//! order is not documented; without it, attraction and balance would undo each other for ever.

use std::cmp::Reverse;

use model::Reason;
use model::placement::VmId;

use super::homes::{Allowance, Homes};

/// Least difference of two zones that starts a move, in thousandths of their cores.
const IMBALANCE_PERMILLE: i64 = 100;
/// Least improvement.
const IMPROVEMENT_PERMILLE: i64 = 20;
/// Most difference afterwards, in percent of what it was.
const THRASH_PERCENT: i64 = 50;
/// Most clients of a zone that are considered for swaps. Ours; pairs are many.
const SWAP_CANDIDATES: usize = 256;

/// Clients to rehome, and why.
type Change = (Vec<(usize, usize)>, Reason);

/// Runs one period. Returns why placed VMs moved.
pub(super) fn run(homes: &mut Homes, allowance: &mut Allowance) -> Vec<(VmId, Reason)> {
    // More rounds than any balance needs; a bound nonetheless, for a plan must end.
    for _ in 0..4 * homes.clients.len() + 16 {
        let Some((changes, _)) = next(homes, &|homes, client| homes.clients[client].was.is_none())
        else {
            break;
        };
        for (client, zone) in changes {
            homes.rehome(client, zone);
        }
    }
    let free = |homes: &Homes, client: usize| {
        let client = &homes.clients[client];
        client.was == Some(client.zone) && homes.ground.has_dwelt(client.vm)
    };
    let mut why = Vec::new();
    if let Some((changes, reason)) = next(homes, &free) {
        let vcpus = changes
            .iter()
            .map(|&(client, _)| homes.clients[client].vcpus.len());
        if allowance.spend(vcpus.sum()) {
            for (client, zone) in changes {
                homes.rehome(client, zone);
                why.push((homes.clients[client].vm, reason.clone()));
            }
        }
    }
    why
}

/// The next change among clients that are free to move.
fn next(homes: &Homes, is_free: &dyn Fn(&Homes, usize) -> bool) -> Option<Change> {
    let is_managed = |client: usize| {
        let vm = homes.ground.vm(homes.clients[client].vm);
        vm.hard.cpus.is_none() && is_free(homes, client)
    };
    let movable: Vec<usize> = (0..homes.clients.len())
        .filter(|&client| is_managed(client))
        .collect();
    locality(homes, &movable).or_else(|| balance(homes, &movable))
}

fn locality(homes: &Homes, movable: &[usize]) -> Option<Change> {
    if homes.attraction.weight == 0 {
        return None;
    }
    movable.iter().find_map(|&index| {
        let client = &homes.clients[index];
        if homes.ground.tenant(client.vm).partners.is_empty() {
            return None;
        }
        let demand = homes.demand(client);
        let here = homes.related(client.vm, client.zone);
        let gain = |zone: usize| {
            let memory = |zone| homes.memory_percent(client, zone);
            let more = homes.related(client.vm, zone) - here;
            let points = homes.attraction.weight * more + memory(zone) - memory(client.zone);
            (more > 0 && points > 0).then_some((points, more))
        };
        let others = (0..homes.zones.len()).filter(|&zone| zone != client.zone);
        let open =
            others.filter(|&zone| homes.may_go(index, zone) && homes.may_attract(zone, demand));
        let gains = open.filter_map(|zone| gain(zone).map(|gain| (gain, Reverse(zone))));
        let ((points, more), Reverse(zone)) = gains.max()?;
        let name = &homes.ground.vm(client.vm).name;
        let text = format!(
            "{name} goes to {} for {more} more VMs it talks to: {points} points gained",
            homes.name_of(zone)
        );
        Some((vec![(index, zone)], Reason::new("action-affinity", text)))
    })
}

fn balance(homes: &Homes, movable: &[usize]) -> Option<Change> {
    let mut zones: Vec<usize> = (0..homes.zones.len()).collect();
    zones.sort_by_key(|&zone| (Reverse(homes.permille(zone, 0)), zone));
    let cold = zones
        .iter()
        .copied()
        .min_by_key(|&zone| (homes.permille(zone, 0), zone))?;
    let hot = zones.iter().copied();
    let mut hot =
        hot.filter(|&zone| homes.permille(zone, 0) - homes.permille(cold, 0) >= IMBALANCE_PERMILLE);
    hot.find_map(|hot| {
        let of = |zone: usize| {
            let own = movable
                .iter()
                .copied()
                .filter(move |&client| homes.clients[client].zone == zone);
            own.collect::<Vec<usize>>()
        };
        let (from, to) = (of(hot), of(cold));
        single(homes, &from, cold).or_else(|| swap(homes, &from, &to))
    })
}

fn single(homes: &Homes, from: &[usize], cold: usize) -> Option<Change> {
    let key = |&index: &usize| {
        let client = &homes.clients[index];
        let fits = homes.may_go(index, cold) && has_memory(homes, cold, client.memory_mib, 0);
        (fits && !leaves_relations(homes, index, cold)).then_some(())?;
        let after = after(homes, client.zone, cold, homes.demand(client))?;
        Some((Reverse(homes.memory_percent(client, cold)), after, index))
    };
    let (_, after, index) = from.iter().filter_map(key).min()?;
    let client = &homes.clients[index];
    let before = homes.permille(client.zone, 0) - homes.permille(cold, 0);
    let text = format!(
        "{} goes from {} to {}: their loads differ by {} instead of {} thousandths of their cores",
        homes.ground.vm(client.vm).name,
        homes.name_of(client.zone),
        homes.name_of(cold),
        after,
        before
    );
    Some((vec![(index, cold)], Reason::new("numa-balance", text)))
}

fn swap(homes: &Homes, from: &[usize], to: &[usize]) -> Option<Change> {
    let pairs = from.iter().take(SWAP_CANDIDATES);
    let pairs = pairs.flat_map(|&a| to.iter().take(SWAP_CANDIDATES).map(move |&b| (a, b)));
    let key = |(a, b): (usize, usize)| {
        let (one, other) = (&homes.clients[a], &homes.clients[b]);
        let more = homes.demand(one) - homes.demand(other);
        let after = after(homes, one.zone, other.zone, more).filter(|_| more > 0)?;
        let related = homes
            .ground
            .tenant(one.vm)
            .partners
            .iter()
            .any(|(id, _)| *id == other.vm);
        let leaves = leaves_relations(homes, a, other.zone) || leaves_relations(homes, b, one.zone);
        let fits = homes.may_go(a, other.zone) && homes.may_go(b, one.zone);
        let memory = has_memory(homes, other.zone, one.memory_mib, other.memory_mib)
            && has_memory(homes, one.zone, other.memory_mib, one.memory_mib);
        (fits && memory && !leaves && !related && one.vm != other.vm).then_some((after, a, b))
    };
    let (after, a, b) = pairs.filter_map(key).min()?;
    let (one, other) = (&homes.clients[a], &homes.clients[b]);
    let [name, with] = [one, other].map(|client| homes.ground.vm(client.vm).name.as_str());
    let [from, to] = [one, other].map(|client| homes.name_of(client.zone));
    let text = format!(
        "{name} on {from} and {with} on {to} change places: the loads then differ by {after} thousandths"
    );
    Some((
        vec![(a, other.zone), (b, one.zone)],
        Reason::new("numa-swap", text),
    ))
}

/// The difference of two zones' loads after `demand` went from `hot` to `cold`, if all thresholds are met.
fn after(homes: &Homes, hot: usize, cold: usize, demand: i64) -> Option<i64> {
    let before = homes.permille(hot, 0) - homes.permille(cold, 0);
    let after = (homes.permille(hot, -demand) - homes.permille(cold, demand)).abs();
    let pays = before - after >= IMPROVEMENT_PERMILLE && 100 * after <= THRASH_PERCENT * before;
    pays.then_some(after)
}

fn has_memory(homes: &Homes, zone: usize, comes: u64, goes: u64) -> bool {
    homes
        .free_mib(zone)
        .is_none_or(|free| free.saturating_add(goes) >= comes)
}

fn leaves_relations(homes: &Homes, client: usize, zone: usize) -> bool {
    let client = &homes.clients[client];
    homes.related(client.vm, zone) < homes.related(client.vm, client.zone)
}
