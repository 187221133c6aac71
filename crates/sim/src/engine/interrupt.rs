//! Interrupts of devices and networks: they take time of a vCPU and wake threads from there.

use super::world::State;
use super::{NONE, Simulator};

impl Simulator<'_> {
    /// An interrupt for a vCPU that wakes a thread, or only costs time (`NONE`).
    pub(super) fn interrupt(&mut self, guest: u32, vcpu: u32, thread: u32) {
        let world = self.guests[guest as usize].first + vcpu;
        let cost = self.hypervisor.costs.interrupt_ns;
        match self.worlds[world as usize].state {
            State::Off => {}
            State::Running => {
                let cpu = self.worlds[world as usize].cpu;
                self.settle(cpu);
                self.add_debt(world, cost);
                if thread != NONE {
                    self.wake_thread(thread, world);
                }
                if self.cpus[cpu as usize].world == world {
                    self.arm(cpu);
                }
            }
            state => {
                self.add_debt(world, cost);
                if thread == NONE {
                    return;
                }
                let inbox = self.worlds[world as usize].inbox;
                self.threads[thread as usize].next = inbox;
                self.worlds[world as usize].inbox = thread;
                if state == State::Halted {
                    self.wake_halted(world);
                }
            }
        }
    }

    /// A vCPU is on a CPU again: threads whose interrupts came meanwhile wake up now.
    pub(super) fn take_inbox(&mut self, world: u32) {
        let mut thread = std::mem::replace(&mut self.worlds[world as usize].inbox, NONE);
        // The list has the latest first; threads wake in the order of their interrupts.
        let mut oldest = NONE;
        while thread != NONE {
            let next = std::mem::replace(&mut self.threads[thread as usize].next, oldest);
            oldest = thread;
            thread = next;
        }
        while oldest != NONE {
            let next = self.threads[oldest as usize].next;
            self.wake_thread(oldest, world);
            oldest = next;
        }
    }
}
