//! `best`, vtopo's own policy: every VM where the whole costs least.
//!
//! # Problem
//! Choose, for every VM, how many of its vCPUs run on which domain (LLC and node), and which nodes hold its memory, so
//! that the sum of [`cost`](crate::cost) is least. That is a quadratic assignment with packing constraints: no method
//! finds the optimum of every case quickly.
//!
//! # Approach
//! VMs are seated one after the other, the most demanding first, each on the best seat that is left
//! (`insert`: every home for its memory, several ways to split it, several domains to start from). Then VMs are taken
//! out and seated again, alone, in pairs and in threes, as long as it gains and the budget of evaluations lasts
//! (`search`). VMs that sit already move only if it is worth the move (`rebalance`); by the same rules the plan moves those it
//! has just seated, as long as the next plan would. What cannot gain is not looked at (`floor`).
//!
//! # Terminology
//! A *seat* is where a VM is: its *pieces* (vCPUs of a cell on a domain), memory and system threads.
//!
//! # Properties
//! Deterministic; the VMs' order does not matter (they are sorted, names last); what fits nowhere is refused with a reason
//! and all others are placed; the running cost equals [`cost::evaluate`](fn@crate::cost::evaluate) of the outcome; a
//! placement that `best` made is left alone by `best`.

mod explain;
mod finish;
mod floor;
mod insert;
mod polish;
mod rebalance;
mod search;
mod state;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use model::placement::{Placement, VmId};
use model::{Reason, Vm};

use crate::cost::evaluate;
use crate::cost::problem::Problem;
use crate::plan::{Plan, Snapshot};
use crate::reconcile::Policy;
use search::Patience;
use state::State;

/// vtopo's own policy, as quick as a live host wants it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Best;

/// The same policy for planning: it searches some hundred times as long before it is content.
#[derive(Debug, Clone, Copy, Default)]
pub struct PatientBest;

/// What `best` may spend on a live host.
const QUICK: Patience = Patience {
    search: 8_000,
    per_vm: 30,
};
/// What it may spend on a plan for people.
const PATIENT: Patience = Patience {
    search: 4_000_000,
    per_vm: 1000,
};

impl Policy for Best {
    fn name(&self) -> &'static str {
        "best"
    }

    fn plan(&self, now: &Snapshot) -> Plan {
        plan(now, QUICK)
    }
}

impl Policy for PatientBest {
    fn name(&self) -> &'static str {
        "best"
    }

    fn plan(&self, now: &Snapshot) -> Plan {
        plan(now, PATIENT)
    }
}

fn plan(now: &Snapshot, patience: Patience) -> Plan {
    let order = canonical_order_of(now.vms.iter().map(|state| &state.vm));
    if order.iter().is_sorted() {
        return plan_sorted(now, patience);
    }
    let mut plan = plan_sorted(&permuted(now, &order), patience);
    rename(&mut plan, &order);
    plan
}

fn plan_sorted(now: &Snapshot, patience: Patience) -> Plan {
    let problem = Problem::new(now);
    let mut state = State::new(&problem);
    let displaced = explain::seat_placed(&mut state, now);
    let arrivals: Vec<usize> = (0..now.vms.len())
        .filter(|&vm| !state.is_seated(vm))
        .collect();
    let seated: Vec<usize> = (0..now.vms.len())
        .filter(|&vm| state.is_seated(vm))
        .collect();
    let mut arrivals = search::seat_all(&mut state, &arrivals, patience);
    let moved = rebalance::rebalance(&mut state, now, &seated);
    rebalance::settle(&mut state, &arrivals);
    while search::seat_left_out(&mut state, &mut arrivals) {
        rebalance::settle(&mut state, &arrivals);
    }
    let (placement, without_cpus) = finish::placement(&mut state, now);
    let bill = evaluate::evaluate(&problem, &now.host, &placement, &now.placement);
    debug_assert_eq!(
        bill.total.total(),
        state.cost,
        "the running cost is the cost"
    );
    let mut reasons = explain::reasons(&state, now);
    reasons.extend(
        displaced
            .iter()
            .map(|&vm| (Some(id(vm)), explain::displaced(now, vm))),
    );
    let mut refused: Vec<(VmId, Reason)> = arrivals
        .left_out
        .into_iter()
        .map(|vm| (id(vm), explain::refusal(&state, now, vm)))
        .collect();
    refused.extend(
        without_cpus
            .into_iter()
            .map(|vm| (id(vm), explain::affinity_taken(now, vm))),
    );
    refused.sort_by_key(|(vm, _)| *vm);
    Plan {
        generation: now.generation + 1,
        moves: explain::moves(now, &placement, &moved, &displaced),
        reasons,
        refused,
        cost: bill.total,
        placement,
    }
}

/// The order in which VMs are seated: dedicated ones first, then those with a hard affinity, the widest, those with most
/// memory; names last. Indices into `vms`.
pub fn canonical_order_of<'a>(vms: impl Iterator<Item = &'a Vm>) -> Vec<usize> {
    let vms: Vec<&Vm> = vms.collect();
    let mut order: Vec<usize> = (0..vms.len()).collect();
    let key = |vm: &Vm| {
        (
            Reverse(vm.dedicated),
            vm.hard.is_empty(),
            Reverse(vm.vcpus),
            Reverse(vm.memory_mib),
        )
    };
    order.sort_by(|&a, &b| {
        key(vms[a])
            .cmp(&key(vms[b]))
            .then_with(|| natural(&vms[a].name, &vms[b].name))
    });
    order
}

/// `vm2` before `vm10`: shorter names first, as numbered names want it.
fn natural(a: &str, b: &str) -> std::cmp::Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

fn permuted(now: &Snapshot, order: &[usize]) -> Snapshot {
    let mut new_id = vec![0; order.len()];
    for (position, &old) in order.iter().enumerate() {
        new_id[old] = position;
    }
    let renamed = |old: VmId| new_id.get(old.index()).map_or(old, |&new| id(new));
    let mut sorted = now.clone();
    sorted.vms = order.iter().map(|&old| now.vms[old].clone()).collect();
    rename_placement(&mut sorted.placement, renamed);
    for talk in &mut sorted.talks {
        (talk.a, talk.b) = (renamed(talk.a), renamed(talk.b));
    }
    sorted
}

/// Gives the plan's VMs the ids of the snapshot that was asked about.
fn rename(plan: &mut Plan, order: &[usize]) {
    let renamed = |new: VmId| order.get(new.index()).map_or(new, |&old| id(old));
    rename_placement(&mut plan.placement, renamed);
    plan.moves
        .iter_mut()
        .for_each(|step| step.vm = renamed(step.vm));
    plan.refused
        .iter_mut()
        .for_each(|(vm, _)| *vm = renamed(*vm));
    let rename_reason = |(vm, _): &mut (Option<VmId>, Reason)| *vm = vm.map(renamed);
    plan.reasons.iter_mut().for_each(rename_reason);
    plan.moves.sort_by_key(|step| step.vm);
    plan.refused.sort_by_key(|(vm, _)| *vm);
    plan.reasons.sort_by_key(|(vm, _)| *vm);
}

fn rename_placement(placement: &mut Placement, renamed: impl Fn(VmId) -> VmId) {
    placement
        .groups
        .iter_mut()
        .for_each(|group| group.vm = renamed(group.vm));
    placement
        .memory
        .iter_mut()
        .for_each(|home| home.vm = renamed(home.vm));
    placement
        .system
        .iter_mut()
        .for_each(|home| home.vm = renamed(home.vm));
    placement.sort();
}

fn id(vm: usize) -> VmId {
    VmId(u32::try_from(vm).unwrap_or(u32::MAX))
}
