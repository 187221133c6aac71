//! Moves of VMs that sit already: few, worth it, and never back and forth.
//!
//! # Rules
//! - A move must gain more than it costs (the `migration` term), more than [`WORTH_PERMILLE`] of the VM's work, and more
//!   than [`IMBALANCE_PERMILLE`] of what its domains' loads are worth: hysteresis against noise in the loads.
//! - A VM stays for [`Budget::dwell_ns`](crate::plan::Budget) where it was put.
//! - A plan moves no more than its budget, the greatest gain first.
//! - What a plan seats anew, it seats so that none of this would move it again.
//!
//! # Properties
//! With constant loads every plan lowers the cost by more than a fixed amount or moves nothing, so that moves end.

use super::floor;
use super::insert::{Effort, best_seat};
use super::search::{self, Seating};
use super::state::{Seat, State, copied};
use crate::cost::weights::PER_MILLI;
use crate::plan::Snapshot;

/// What a move must gain beyond its cost, in thousandths of the VM's work: the least improvement for which ESXi moves
/// (`Numa.MigThreshold` 2 %).
const WORTH_PERMILLE: i64 = 20;
/// What it must gain besides, in thousandths of what the loads on its domains would cost at the price of their last
/// unit: ESXi moves only from nodes with 10 % more load (`Numa.MigImbalanceThreshold`). Loads that wander by half of that
/// do not move anything there and back.
const IMBALANCE_PERMILLE: i64 = 100;
/// VMs looked at in one plan, those with most to gain first: bounds the work on hosts with hundreds of VMs.
const LOOKED_AT: usize = 48;

/// Rounds of moves that new seats get before a plan is given out. Most plans need one that moves nothing, few more than
/// two; the bound is for hosts where every move makes room for the next. Ours.
const ROUNDS: usize = 16;

/// Moves seated VMs while it is worth it and the budget lasts. Returns the VMs that moved, with what it gained.
pub(super) fn rebalance(state: &mut State, now: &Snapshot, seated: &[usize]) -> Vec<(usize, i64)> {
    let mut vcpus_left = i64::from(now.budget.vcpus);
    let mut mib_left = i64::try_from(now.budget.memory_mib).unwrap_or(i64::MAX);
    if vcpus_left <= 0 && mib_left <= 0 {
        return Vec::new();
    }
    let rested = |vm: usize| {
        now.vms[vm]
            .moved_ns
            .is_none_or(|moved| now.at_ns.saturating_sub(moved) >= now.budget.dwell_ns)
    };
    let mut candidates = candidates(state, seated, &search::ideal_costs(state, seated));
    candidates.retain(|&vm| rested(vm));
    candidates.truncate(LOOKED_AT);
    let nearest_ns = floor::nearest_ns(state);
    let mut moved = Vec::new();
    while let Some((position, gain, seat)) =
        best_move(state, &candidates, [vcpus_left, mib_left], nearest_ns)
    {
        let vm = candidates.remove(position);
        let [vcpus, mib] = extent(state, vm, &seat);
        (vcpus_left, mib_left) = (vcpus_left - vcpus, mib_left - mib);
        state.take(vm);
        state.put(vm, seat);
        moved.push((vm, gain));
    }
    moved
}

/// Moves VMs that this plan seated as long as the next plan would find a move of theirs worth it: the search may have
/// ended because its budget was spent, or because it was near enough to what cannot be undercut.
pub(super) fn settle(state: &mut State, arrivals: &Seating) {
    let nearest_ns = floor::nearest_ns(state);
    for _ in 0..ROUNDS {
        let mut is_settled = true;
        let mut candidates = candidates(state, &arrivals.vms, &arrivals.ideal);
        candidates.truncate(LOOKED_AT);
        for vm in candidates {
            if let Some((_, seat)) = worthy_move(state, vm, nearest_ns) {
                state.take(vm);
                state.put(vm, seat);
                is_settled = false;
            }
        }
        if is_settled {
            return;
        }
    }
}

/// VMs that have something to gain, most first, given what each would cost alone.
fn candidates(state: &State, seated: &[usize], ideal: &[i64]) -> Vec<usize> {
    let gain = |(&vm, ideal): (&usize, &i64)| (state.burden(vm) - ideal, vm);
    let mut ranked: Vec<(i64, usize)> = seated.iter().zip(ideal).map(gain).collect();
    ranked.retain(|&(gain, vm)| gain > worth(state, vm));
    ranked.sort_by_key(|&(gain, vm)| (std::cmp::Reverse(gain), vm));
    ranked.into_iter().map(|(_, vm)| vm).collect()
}

/// The move that gains most: position among the candidates, gain, seat.
fn best_move(
    state: &mut State,
    candidates: &[usize],
    left: [i64; 2],
    nearest_ns: i64,
) -> Option<(usize, i64, Seat)> {
    let mut best: Option<(usize, i64, Seat)> = None;
    for (position, &vm) in candidates.iter().enumerate() {
        let Some((gain, seat)) = worthy_move(state, vm, nearest_ns) else {
            continue;
        };
        let affordable = extent(state, vm, &seat)
            .iter()
            .zip(left)
            .all(|(need, left)| *need <= left);
        if affordable && best.as_ref().is_none_or(|(_, most, _)| gain > *most) {
            best = Some((position, gain, seat));
        }
    }
    best
}

/// The best seat for a VM that has to pay for leaving its own, if it gains more than the move is worth; with the gain.
fn worthy_move(state: &mut State, vm: usize, nearest_ns: i64) -> Option<(i64, Seat)> {
    let worth = worth(state, vm);
    let old = state.take(vm);
    let before = std::mem::replace(&mut state.before[vm], old.clone());
    let price = state.quote(vm, &old);
    let may_gain = floor::load(state, vm)
        .is_some_and(|load| price - load - floor::own(state, vm, nearest_ns) > worth);
    let seat = may_gain
        .then(|| best_seat(state, vm, Effort::QUICK))
        .flatten();
    let better = seat.map(|seat| (price - state.quote(vm, &seat), seat));
    state.before[vm] = before;
    state.put(vm, old);
    better.filter(|(gain, _)| *gain > worth)
}

fn worth(state: &State, vm: usize) -> i64 {
    let tenant = state.tenant(vm);
    let work = i64::from(tenant.vcpus)
        * tenant
            .load
            .of(crate::cost::weights::Resource::Cores)
            .max(100)
        * PER_MILLI;
    work * WORTH_PERMILLE / 1000 + state.swing(vm) * IMBALANCE_PERMILLE / 1000
}

/// vCPUs and MiB that change their place with a seat.
fn extent(state: &State, vm: usize, seat: &Seat) -> [i64; 2] {
    let old = &state.before[vm];
    let stay = |seat: &Seat, cell: u32, domain: u32| -> i64 {
        let own = seat
            .pieces
            .iter()
            .filter(|piece| (piece.cell, piece.domain) == (cell, domain));
        own.map(|piece| i64::from(piece.size)).sum()
    };
    let mut left = 0;
    let mut seen: Vec<(u32, u32)> = Vec::new();
    for piece in &old.pieces {
        let key = (piece.cell, piece.domain);
        if !seen.contains(&key) {
            seen.push(key);
            left += (stay(old, key.0, key.1) - stay(seat, key.0, key.1)).max(0);
        }
    }
    let copied = copied(old, &seat.memory);
    [left, i64::try_from(copied).unwrap_or(i64::MAX)]
}
