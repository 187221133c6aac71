//! The simulated host as a machine to the policies: the same `observe` and `apply` as on a real one.

use std::convert::Infallible;
use std::sync::Arc;

use model::CpuSet;
use model::placement::{Placement, VmId};
use policy::plan::{Budget, Moved, Plan, Snapshot, Talk, VmState};
use policy::reconcile::{Machine, StepError, step};

use crate::engine::bits::Bits;
use crate::engine::{SimulationError, Simulator};
use crate::hypervisor::Bind;
use crate::time::Nanos;

impl Machine for Simulator<'_> {
    type Error = Infallible;

    fn observe(&mut self) -> Result<Snapshot, Infallible> {
        let on: Vec<u32> = self.powered_on();
        let place = |vm: VmId| on.binary_search(&vm.0).ok().map(|index| VmId(index as u32));
        let mut vms = Vec::with_capacity(on.len());
        for &guest in &on {
            let vm = self.observed_vm(guest);
            let moved_ns = self.moved_ns[guest as usize];
            vms.push(VmState { vm, moved_ns });
        }
        let talks = self.talks.iter().filter_map(|talk| {
            Some(Talk {
                a: place(talk.a)?,
                b: place(talk.b)?,
                per_s: talk.per_s,
            })
        });
        Ok(Snapshot {
            at_ns: self.now,
            host: Arc::clone(&self.host),
            reserve: self.reserve.clone(),
            vms,
            placement: renumber(&self.placement, place),
            talks: talks.collect(),
            budget: Budget::default(),
            generation: self.generation,
        })
    }

    fn apply(&mut self, plan: &Plan) -> Result<(), Infallible> {
        let on = self.powered_on();
        let guest = |vm: VmId| on.get(vm.index()).map(|&guest| VmId(guest));
        for change in &plan.moves {
            if let (Some(vm), Moved::Vcpus { .. }) = (guest(change.vm), &change.what) {
                self.moved_ns[vm.index()] = Some(self.now);
                self.note_rebalance();
            }
        }
        self.generation = plan.generation;
        self.placement = renumber(&plan.placement, guest);
        self.seat_all();
        Ok(())
    }
}

impl Simulator<'_> {
    /// The plan of the start. It must place every VM that is there from the beginning.
    pub(crate) fn plan_first(&mut self) -> Result<(), SimulationError> {
        let policy = self.policy;
        let plan = match step(self, policy) {
            Ok(plan) => plan,
            Err(StepError::Machine(never)) => match never {},
            Err(StepError::Unsound(wrong)) => {
                return Err(SimulationError::Unsound {
                    policy: policy.name(),
                    count: wrong.len(),
                    first: wrong
                        .first()
                        .map_or_else(String::new, |finding| finding.text.clone()),
                });
            }
        };
        if let Some((vm, reason)) = plan.refused.first() {
            let on = self.powered_on();
            let name = on
                .get(vm.index())
                .map(|&guest| self.vms[guest as usize].name.clone());
            return Err(SimulationError::Refused {
                policy: policy.name(),
                vm: name.unwrap_or_default(),
                reason: reason.text.clone(),
            });
        }
        Ok(())
    }

    /// One round of the policy.
    pub(crate) fn rebalance_now(&mut self) {
        let policy = self.policy;
        if step(self, policy).is_err() {
            self.note_unsound();
        }
    }

    /// VMs that are on, or are to be at this moment.
    fn powered_on(&self) -> Vec<u32> {
        let is_on = |guest: &u32| {
            let spec = self.vm_spec(*guest);
            spec.on_ns <= self.now && spec.off_ns.is_none_or(|off| off > self.now)
        };
        (0..self.vms.len() as u32).filter(is_on).collect()
    }

    /// Where a VM's vCPUs may run: its groups, by how far the hypervisor is bound by them.
    pub(crate) fn allowed(
        &self,
        guest: u32,
        group: &model::placement::Group,
        dedicated: &CpuSet,
    ) -> CpuSet {
        let vm = &self.vms[guest as usize];
        if self.hypervisor.bind == Bind::Group || vm.dedicated {
            return group.cpus.clone();
        }
        let usable = vm.hard.cpus_on(&self.host);
        let usable = usable
            .difference(&self.reserve.cpus)
            .difference(&self.host.isolated)
            .difference(dedicated);
        let bound = match self.hypervisor.bind {
            Bind::Node => {
                let node = &self.host.nodes[group.node.index()];
                usable.intersection(&node.cpus)
            }
            _ => usable,
        };
        if bound.is_empty() {
            group.cpus.clone()
        } else {
            bound
        }
    }

    /// CPUs that belong to dedicated VMs alone.
    pub(crate) fn dedicated_cpus(&self) -> CpuSet {
        let groups = self.placement.groups.iter();
        let dedicated = groups.filter(|group| self.vms[group.vm.index()].dedicated);
        dedicated.fold(CpuSet::new(), |sum, group| sum.union(&group.cpus))
    }
}

/// A placement with other VM numbers; VMs without a number are left out.
fn renumber(placement: &Placement, number: impl Fn(VmId) -> Option<VmId>) -> Placement {
    let mut renumbered = Placement::default();
    for group in &placement.groups {
        if let Some(vm) = number(group.vm) {
            renumbered.groups.push(model::placement::Group {
                vm,
                ..group.clone()
            });
        }
    }
    for home in &placement.memory {
        if let Some(vm) = number(home.vm) {
            renumbered
                .memory
                .push(model::placement::MemoryHome { vm, ..*home });
        }
    }
    for home in &placement.system {
        if let Some(vm) = number(home.vm) {
            renumbered
                .system
                .push(model::placement::SystemHome { vm, ..home.clone() });
        }
    }
    renumbered
}

/// How much of the newest value a smoothed load takes. Ours: loads of the last few periods count.
pub(crate) const SMOOTHING: f64 = 0.3;

/// The mask of a set of CPUs in a list of masks; it is appended when it is new.
pub(crate) fn mask_of(masks: &mut Vec<Bits>, bits: Bits) -> u32 {
    let found = masks.iter().position(|mask| *mask == bits);
    found.unwrap_or_else(|| {
        masks.push(bits);
        masks.len() - 1
    }) as u32
}

/// Wanted time of a VM's vCPUs over a period, in thousandths of a CPU for each vCPU.
pub(crate) fn load_of(wanted: Nanos, period: Nanos, vcpus: u32) -> f64 {
    wanted as f64 * 1000.0 / (period.max(1) as f64 * f64::from(vcpus.max(1)))
}
