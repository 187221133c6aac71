//! What still fits, and what a failing host would leave without a place.

use model::Vm;
use model::placement::VmId;

use super::coarse::Coarse;
use super::{FleetPlan, HostPlan, Member, are_twins, id, plan_host};
use crate::cost::Term;
use crate::cost::weights::effective_demand;

/// How many more VMs of a kind fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// By host.
    pub by_host: Vec<u32>,
}

/// What happens when a host fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The host that fails.
    pub host: usize,
    /// VMs it holds.
    pub vms: u32,
    /// Those of them that no other host takes.
    pub homeless: Vec<VmId>,
    /// vCPUs' worth of work that the others lose more than the host did, in nano-vCPU, for those that find a place.
    pub more_cost: i64,
}

impl Room {
    /// All hosts together.
    pub fn total(&self) -> u64 {
        self.by_host.iter().map(|&n| u64::from(n)).sum()
    }
}

/// How many more VMs like `wanted` each host takes beside what it holds, without moving anything and without more
/// demand than threads on any LLC that had none before.
pub fn room(members: &[Member], vms: &[Vm], fleet: &FleetPlan, wanted: &Vm) -> Room {
    let mut by_host: Vec<u32> = Vec::with_capacity(members.len());
    for host in 0..members.len() {
        let twin = (0..host)
            .rev()
            .take(super::LOOK_BACK)
            .find(|&other| are_twins(members, vms, fleet, [other, host]));
        let n = match twin {
            Some(other) => by_host[other],
            None => room_on(&members[host], vms, &fleet.hosts[host], wanted),
        };
        by_host.push(n);
    }
    Room { by_host }
}

/// What each host's failure would mean: its VMs go to the hosts where they add least. By the coarse picture of whole nodes.
pub fn losses(members: &[Member], vms: &[Vm], fleet: &FleetPlan) -> Vec<Loss> {
    let mut coarse = Coarse::new(members, vms);
    for (host, held) in fleet.hosts.iter().enumerate() {
        held.vms.iter().for_each(|vm| coarse.put(vm.index(), host));
    }
    fleet
        .hosts
        .iter()
        .enumerate()
        .map(|(host, held)| loss(&mut coarse, host, held))
        .collect()
}

fn loss(coarse: &mut Coarse, failing: usize, held: &HostPlan) -> Loss {
    let whole = coarse.save();
    coarse.forget_host(failing);
    let mut homeless = Vec::new();
    let mut more_cost = 0;
    for vm in held.vms.iter().map(|vm| vm.index()) {
        match coarse.best_host(vm, |host| host != failing) {
            Some(host) => {
                more_cost += coarse.cost(vm, host).unwrap_or(0);
                coarse.put(vm, host);
            }
            None => homeless.push(id(vm)),
        }
    }
    coarse.restore(whole);
    Loss {
        host: failing,
        vms: u32::try_from(held.vms.len()).unwrap_or(u32::MAX),
        homeless,
        more_cost,
    }
}

/// The largest number that fits, found by doubling and halving: what fits once fits with fewer.
fn room_on(member: &Member, vms: &[Vm], held: &HostPlan, wanted: &Vm) -> u32 {
    // As many as have demand for all threads; idle ones count a twentieth of a CPU each.
    let milli = 1000 * u64::try_from(member.host.cpus.len()).unwrap_or(u64::MAX / 1000);
    let demand = u64::try_from(effective_demand(wanted.effective_load()))
        .unwrap_or(0)
        .max(50);
    let most = milli / (demand * u64::from(wanted.vcpus.max(1))) + 1;
    let (mut fits, mut fails) = (0, u32::try_from(most).unwrap_or(u32::MAX));
    while fails - fits > 1 {
        let middle = fits + (fails - fits) / 2;
        if do_fit(member, vms, held, wanted, middle) {
            fits = middle;
        } else {
            fails = middle;
        }
    }
    fits
}

fn do_fit(member: &Member, vms: &[Vm], held: &HostPlan, wanted: &Vm, n: u32) -> bool {
    let mut own: Vec<Vm> = held.vms.iter().map(|vm| vms[vm.index()].clone()).collect();
    own.extend((0..n).map(|index| Vm {
        name: format!("more-{index}-of-{}", wanted.name),
        ..wanted.clone()
    }));
    let local = HostPlan {
        vms: (0..own.len()).map(id).collect(),
        plan: held.plan.clone(),
    };
    let plan = plan_host(member, &own, &local);
    plan.refused.is_empty() && plan.cost[Term::Overcommit] <= held.plan.cost[Term::Overcommit]
}
