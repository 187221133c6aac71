//! Limits: a VM that has used up what it may use in a period stands still until the next one. Reservations: a VM that has
//! had less than it is promised comes first.

use super::world::{Kind, State};
use super::{Event, NONE, Simulator};

impl Simulator<'_> {
    /// Whether a running world's VM has nothing left.
    pub(super) fn is_over_limit(&self, world: u32) -> bool {
        let entry = &self.worlds[world as usize];
        entry.kind == Kind::Vcpu && self.guests[entry.guest as usize].limit_left() == Some(0)
    }

    /// Stops all vCPUs of a VM until its limit is good for more.
    pub(super) fn hold_back(&mut self, world: u32) {
        let guest = self.worlds[world as usize].guest;
        for index in self.guests[guest as usize].worlds() {
            match self.worlds[index as usize].state {
                State::Running => {
                    let cpu = self.worlds[index as usize].cpu;
                    self.stop(cpu, State::Limited);
                    self.pick(cpu);
                }
                State::Ready => {
                    self.leave_queue(index);
                    self.set_state(index, State::Limited);
                }
                _ => {}
            }
        }
    }

    /// vCPUs of VMs that have had less than they are promised come before all others, also while they wait.
    pub(super) fn honour_reservations(&mut self) {
        for guest in 0..self.guests.len() {
            let entry = &self.guests[guest];
            if entry.reservation == 0 || !entry.is_owed(self.now) {
                continue;
            }
            for world in entry.worlds() {
                if self.worlds[world as usize].state == State::Ready {
                    let (claim, queue) = (self.claim(world), self.worlds[world as usize].queue);
                    self.queues.rekey(queue, world, claim);
                    self.preempt(world, claim, queue);
                }
            }
        }
    }

    /// A new period: the VM may go on.
    pub(super) fn refill_limit(&mut self, guest: u32) {
        if !self.guests[guest as usize].is_on {
            return;
        }
        let period = self.hypervisor.limit_period_ns;
        for world in self.guests[guest as usize].worlds() {
            let cpu = self.worlds[world as usize].cpu;
            if self.worlds[world as usize].state == State::Running {
                self.settle(cpu);
            }
        }
        self.guests[guest as usize].refill(period);
        for world in self.guests[guest as usize].worlds() {
            match self.worlds[world as usize].state {
                State::Limited => self.wake(world),
                State::Running => self.arm(self.worlds[world as usize].cpu),
                _ => {}
            }
        }
        self.queue.push(self.now + period, Event::Refill { guest });
    }

    /// Takes a ready world out of its queue.
    pub(super) fn leave_queue(&mut self, world: u32) {
        let queue = self.worlds[world as usize].queue;
        if queue != NONE {
            self.queues.remove(queue, world);
        }
    }
}
