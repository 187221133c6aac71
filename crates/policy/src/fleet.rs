//! Many hosts: which host, then where on it.
//!
//! # Approach
//! The host is chosen by the same cost on a coarser picture: every node is one domain with the room of all of its own,
//! so that what a VM adds is a lower bound of what it will cost there (the module `coarse`). VMs come in `best`'s order, each goes to
//! the host where it adds least, the first of equals. Then `best` places every host; what it has to refuse goes to the
//! other hosts, host by host, until nobody takes it.
//!
//! # Properties
//! Every VM is on one host or refused with a reason; hosts with equal VMs get equal placements; the outcome does not
//! depend on the order of the VMs.

mod coarse;
mod headroom;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use model::placement::{Reserve, VmId};
use model::{Host, Reason, Vm};

use crate::cost::Cost;
use crate::place::{Best, canonical_order_of};
use crate::plan::{Budget, Plan, Snapshot};
use crate::reconcile::Policy;

use coarse::Coarse;

pub use headroom::{Loss, Room, losses, room};

/// A host of a fleet. Hosts that are alike share the description.
#[derive(Debug, Clone)]
pub struct Member {
    /// The machine.
    pub host: Arc<Host>,
    /// What of it is not for VMs.
    pub reserve: Reserve,
}

/// Where the VMs of a fleet are.
#[derive(Debug, Clone, Default)]
pub struct FleetPlan {
    /// By host.
    pub hosts: Vec<HostPlan>,
    /// VMs that no host takes, by VM.
    pub refused: Vec<(VmId, Reason)>,
}

/// What one host of a fleet holds.
#[derive(Debug, Clone, Default)]
pub struct HostPlan {
    /// Its VMs, as indices into the fleet's list; the plan's ids index this list.
    pub vms: Vec<VmId>,
    /// Where they are on it.
    pub plan: Plan,
}

impl FleetPlan {
    /// The cost of all hosts.
    pub fn cost(&self) -> Cost {
        self.hosts
            .iter()
            .fold(Cost::default(), |sum, host| sum + host.plan.cost)
    }

    /// The host of each VM, by VM; `None` for those refused.
    pub fn host_of(&self, n_vms: usize) -> Vec<Option<usize>> {
        let mut hosts = vec![None; n_vms];
        for (host, held) in self.hosts.iter().enumerate() {
            held.vms
                .iter()
                .for_each(|vm| hosts[vm.index()] = Some(host));
        }
        hosts
    }
}

/// Places VMs over hosts. With no hosts, every VM is refused.
pub fn place(members: &[Member], vms: &[Vm]) -> FleetPlan {
    let mut fleet = FleetPlan {
        hosts: vec![HostPlan::default(); members.len()],
        refused: Vec::new(),
    };
    let mut coarse = Coarse::new(members, vms);
    let mut left_out = Vec::new();
    for vm in canonical_order_of(vms.iter()) {
        match coarse.best_host(vm, |_| true) {
            Some(host) => {
                coarse.put(vm, host);
                fleet.hosts[host].vms.push(id(vm));
            }
            None => left_out.push((vm, None, coarse.refusal(vm))),
        }
    }
    for host in 0..members.len() {
        fleet.hosts[host].vms.sort_unstable();
        let twin = (0..host)
            .rev()
            .take(LOOK_BACK)
            .find(|&other| are_twins(members, vms, &fleet, [other, host]));
        let plan = match twin {
            Some(other) => renamed(vms, &fleet, [other, host]),
            None => plan_host(&members[host], vms, &fleet.hosts[host]),
        };
        let held = &mut fleet.hosts[host];
        let refused = plan
            .refused
            .iter()
            .map(|(local, reason)| (held.vms[local.index()].index(), Some(host), reason.clone()));
        left_out.extend(refused);
        held.plan = plan;
    }
    for (vm, refused_by, reason) in left_out {
        if !try_elsewhere(members, vms, &mut fleet, &mut coarse, (vm, refused_by)) {
            fleet.refused.push((id(vm), reason));
        }
    }
    fleet.hosts.iter_mut().for_each(drop_refused);
    fleet.refused.sort_by_key(|(vm, _)| *vm);
    fleet
}

/// Hosts before this one that are looked at for equal VMs: neighbours are filled alike.
const LOOK_BACK: usize = 8;
/// Hosts that are asked for a VM which the coarse picture misjudged.
const ASKED: usize = 16;

/// Whether two hosts are the same machine with VMs that differ in nothing but their names, and in no relation to others.
fn are_twins(members: &[Member], vms: &[Vm], fleet: &FleetPlan, [a, b]: [usize; 2]) -> bool {
    let (mine, theirs) = (&fleet.hosts[a].vms, &fleet.hosts[b].vms);
    let alike = |a: &VmId, b: &VmId| {
        let (a, b) = (&vms[a.index()], &vms[b.index()]);
        a.near.is_none()
            && a.apart.is_none()
            && Vm {
                name: String::new(),
                ..a.clone()
            } == Vm {
                name: String::new(),
                ..b.clone()
            }
    };
    Arc::ptr_eq(&members[a].host, &members[b].host)
        && members[a].reserve == members[b].reserve
        && mine.len() == theirs.len()
        && mine.iter().zip(theirs).all(|(a, b)| alike(a, b))
}

/// The plan of a twin, with the names of this host's VMs in its reasons.
fn renamed(vms: &[Vm], fleet: &FleetPlan, [twin, host]: [usize; 2]) -> Plan {
    let mut plan = fleet.hosts[twin].plan.clone();
    let name = |host: usize, local: VmId| {
        vms[fleet.hosts[host].vms[local.index()].index()]
            .name
            .as_str()
    };
    let rename = |local: VmId, reason: &mut Reason| {
        if let Some(rest) = reason.text.strip_prefix(name(twin, local)) {
            reason.text = format!("{}{rest}", name(host, local));
        }
    };
    for (local, reason) in &mut plan.reasons {
        if let Some(local) = local {
            rename(*local, reason);
        }
    }
    for (local, reason) in &mut plan.refused {
        rename(*local, reason);
    }
    plan
}

fn plan_host(member: &Member, vms: &[Vm], held: &HostPlan) -> Plan {
    Best.plan(&snapshot(member, vms, held))
}

/// A host with its VMs where they are; nothing placed may move.
fn snapshot(member: &Member, vms: &[Vm], held: &HostPlan) -> Snapshot {
    let own = held.vms.iter().map(|vm| vms[vm.index()].clone()).collect();
    let mut now = Snapshot::empty(member.host.clone(), own, member.reserve.clone());
    now.placement = held.plan.placement.clone();
    now.budget = Budget {
        vcpus: 0,
        memory_mib: 0,
        ..Budget::default()
    };
    now
}

/// Asks the hosts where the VM adds least, one after the other, until `best` finds it a place on one.
fn try_elsewhere(
    members: &[Member],
    vms: &[Vm],
    fleet: &mut FleetPlan,
    coarse: &mut Coarse,
    (vm, refused_by): (usize, Option<usize>),
) -> bool {
    let mut asked: Vec<usize> = refused_by.into_iter().collect();
    for _ in 0..ASKED {
        let Some(host) = coarse.best_host(vm, |host| !asked.contains(&host)) else {
            return false;
        };
        asked.push(host);
        let held = &fleet.hosts[host];
        let mut more = HostPlan {
            vms: held.vms.clone(),
            plan: held.plan.clone(),
        };
        more.vms.push(id(vm));
        let plan = plan_host(&members[host], vms, &more);
        if plan
            .refused
            .iter()
            .all(|(local, _)| more.vms[local.index()] != id(vm))
        {
            coarse.put(vm, host);
            fleet.hosts[host] = HostPlan { plan, ..more };
            return true;
        }
    }
    false
}

/// Takes refused VMs off a host's list.
fn drop_refused(held: &mut HostPlan) {
    if held.plan.refused.is_empty() {
        return;
    }
    let refused: Vec<VmId> = held
        .plan
        .refused
        .drain(..)
        .map(|(local, _)| local)
        .collect();
    let mut new_id = vec![None; held.vms.len()];
    let kept = (0..held.vms.len()).filter(|&local| !refused.contains(&id(local)));
    for (position, local) in kept.clone().enumerate() {
        new_id[local] = Some(id(position));
    }
    held.vms = kept.map(|local| held.vms[local]).collect();
    let renamed = |local: VmId| new_id[local.index()].unwrap_or(local);
    let plan = &mut held.plan;
    plan.placement
        .groups
        .iter_mut()
        .for_each(|group| group.vm = renamed(group.vm));
    plan.placement
        .memory
        .iter_mut()
        .for_each(|home| home.vm = renamed(home.vm));
    plan.placement
        .system
        .iter_mut()
        .for_each(|home| home.vm = renamed(home.vm));
    plan.reasons
        .retain(|(vm, _)| vm.is_none_or(|vm| new_id[vm.index()].is_some()));
    plan.reasons
        .iter_mut()
        .for_each(|(vm, _)| *vm = vm.map(renamed));
}

fn id(vm: usize) -> VmId {
    VmId(u32::try_from(vm).unwrap_or(u32::MAX))
}
