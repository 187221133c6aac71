//! What a plan changes: homes, masks, and worlds that are where they may no longer be.

use model::placement::VmId;
use model::{CpuId, Vm};
use policy::plan::Talk;

use super::bits::Bits;
use super::world::State;
use super::{Event, Simulator};
use crate::hypervisor::Queues;
use crate::reconcile::{SMOOTHING, load_of, mask_of};
use crate::time::{Nanos, S};

impl Simulator<'_> {
    /// The policy plans and the plan is applied.
    pub(super) fn rebalance(&mut self) {
        self.rebalance_now();
        if let Some(period) = self.hypervisor.rebalance_ns {
            self.queue.push(self.now + period, Event::Rebalance);
        }
    }

    /// A VM as the policy sees it: with the load that was observed.
    pub(crate) fn observed_vm(&mut self, guest: u32) -> Vm {
        let entry = &self.guests[guest as usize];
        if entry.is_on && self.now > entry.observed_ns {
            for world in entry.worlds() {
                let cpu = self.worlds[world as usize].cpu;
                match self.worlds[world as usize].state {
                    State::Running => self.settle(cpu),
                    state => self.set_state(world, state),
                }
            }
            let wanted: Nanos = self.guests[guest as usize]
                .worlds()
                .map(|world| &self.worlds[world as usize])
                .map(|world| world.wanted_ns)
                .sum();
            let entry = &mut self.guests[guest as usize];
            let load = load_of(
                wanted - entry.wanted_before_ns,
                self.now - entry.observed_ns,
                entry.vcpus,
            );
            entry.wanted_before_ns = wanted;
            self.observe_system(guest);
            let vm = &mut self.vms[guest as usize];
            let smoothed = f64::from(vm.load) * (1.0 - SMOOTHING) + load * SMOOTHING;
            vm.load = (smoothed.round() as u32).min(1000);
            self.guests[guest as usize].observed_ns = self.now;
        }
        self.vms[guest as usize].clone()
    }

    /// Gives every world its home and its mask; who is on a CPU that is not his any more leaves it.
    pub(crate) fn seat_all(&mut self) {
        self.place_memory();
        let dedicated = self.dedicated_cpus();
        let groups = std::mem::take(&mut self.placement.groups);
        for group in &groups {
            let guest = group.vm.0;
            let allowed = self.allowed(guest, group, &dedicated);
            let bits = self.layout.bits(&allowed);
            let mask = mask_of(&mut self.masks, bits);
            let own: Vec<CpuId> = group.cpus.iter().collect();
            for (turn, vcpu) in group.vcpus.iter().enumerate() {
                let world = self.guests[guest as usize].first + vcpu.0;
                // A pinned vCPU starts on its CPU, others on the freest of their home.
                let start = if group.pinned {
                    own.get(turn).and_then(|&cpu| self.layout.index(cpu))
                } else {
                    self.freest(group.llc.0, &self.masks[mask as usize])
                };
                let mask = if group.pinned && self.is_bound_to_group(guest) {
                    let mut one = Bits::new(self.layout.len());
                    if let Some(cpu) = start {
                        one.insert(cpu);
                    }
                    mask_of(&mut self.masks, one)
                } else {
                    mask
                };
                self.seat_world(world, group.llc.0, mask, start);
            }
        }
        self.placement.groups = groups;
        self.starters.fill(0);
        self.seat_system(&dedicated);
    }

    /// The CPU of an LLC on whose core, and on which, fewest worlds are to start.
    fn freest(&self, llc: u32, allowed: &Bits) -> Option<u32> {
        let starters = |cpu: u32| self.starters[cpu as usize];
        let of_core = |cpu: u32| self.layout.core_of(cpu).map(starters).sum::<u32>();
        let cpus = self.layout.llcs[llc as usize].clone();
        let inside = cpus.filter(|&cpu| allowed.contains(cpu));
        inside.min_by_key(|&cpu| (of_core(cpu), starters(cpu), cpu))
    }

    fn is_bound_to_group(&self, guest: u32) -> bool {
        self.hypervisor.bind == crate::hypervisor::Bind::Group || self.vms[guest as usize].dedicated
    }

    pub(super) fn seat_world(&mut self, world: u32, llc: u32, mask: u32, start: Option<u32>) {
        let is_new = self.worlds[world as usize].state == State::Off;
        let entry = &mut self.worlds[world as usize];
        entry.home_llc = llc;
        entry.mask = mask;
        if is_new {
            entry.cpu = start.unwrap_or(entry.cpu);
            self.starters[entry.cpu as usize] += 1;
            return;
        }
        let cpu = entry.cpu;
        let allowed = &self.masks[mask as usize];
        // A dispatcher with a queue for each LLC is told of a new home; the others see it at the next wake-up.
        let is_told = self.hypervisor.queues == Queues::PerLlc && self.layout.llc_of(cpu) != llc;
        match entry.state {
            State::Running if is_told || !allowed.contains(cpu) => {
                self.stop(cpu, State::Halted);
                self.wake(world);
                self.pick(cpu);
            }
            State::Ready => {
                self.leave_queue(world);
                self.set_state(world, State::Halted);
                self.wake(world);
            }
            _ => {}
        }
    }

    pub(crate) fn note_rebalance(&mut self) {
        self.record.rebalances += 1;
    }

    pub(crate) fn note_unsound(&mut self) {
        self.record.unsound_plans += 1;
    }

    /// Counts a call between VMs: calls a second since the start of the run.
    pub(super) fn note_talk(&mut self, a: u32, b: u32) {
        let (a, b) = (VmId(a.min(b)), VmId(a.max(b)));
        let found = self
            .talks
            .binary_search_by_key(&(a, b), |talk| (talk.a, talk.b));
        let index = found.unwrap_or_else(|index| {
            self.talks.insert(index, Talk { a, b, per_s: 0 });
            self.talk_counts.insert(index, 0);
            index
        });
        self.talk_counts[index] += 1;
        let seconds = (self.now / S).max(1);
        self.talks[index].per_s =
            (self.talk_counts[index] / seconds).min(u64::from(u32::MAX)) as u32;
    }
}
