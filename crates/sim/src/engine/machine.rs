//! The hardware under the worlds: how fast each of them is, and what a move costs.

use super::{Event, NONE, Simulator};
use crate::time::{FULL_SPEED, MS, Nanos, US};

/// Between two settlements of caches, memory and speeds. Ours: caches of 16 MiB fill in 3.3 ms (reference model, section
/// 2.3), so that nothing changes much faster.
pub(super) const EPOCH_NS: Nanos = 10 * MS;

/// What is known of the worlds' use of the hardware.
#[derive(Debug, Clone)]
pub(crate) struct Hardware {
    smt: Vec<f64>,
}

impl Hardware {
    pub(crate) fn new(smt: Vec<f64>) -> Self {
        Self { smt }
    }

    /// A world ran on an LLC.
    pub(crate) fn ran(&mut self, _: u32, _: u32, _: Nanos) {}

    /// Figures start from nothing.
    pub(crate) fn forget(&mut self) {}
}

impl Simulator<'_> {
    /// Settles caches, memory and speeds.
    pub(super) fn epoch(&mut self) {
        for cpu in 0..self.cpus.len() as u32 {
            self.settle(cpu);
        }
        for cpu in 0..self.cpus.len() as u32 {
            if self.cpus[cpu as usize].world != NONE {
                self.update_speed(cpu);
            }
        }
        self.queue.push(self.now + EPOCH_NS, Event::Epoch);
    }

    /// A world comes to a CPU: a switch, and what it had in caches that it cannot reach from here.
    pub(super) fn charge_arrival(&mut self, world: u32, cpu: u32) {
        let costs = self.hypervisor.costs;
        let last = self.worlds[world as usize].cpu;
        let (old_llc, llc) = (self.layout.llc_of(last), self.layout.llc_of(cpu));
        let mut cost = costs.switch_ns;
        let entry = &mut self.worlds[world as usize];
        if last != cpu {
            entry.moves.cpu += 1;
            entry.cpu = cpu;
            cost += 10 * US;
        }
        if llc != old_llc {
            entry.moves.llc += 1;
            entry.warm_ns = 0;
            if self.layout.node_of(last) != self.layout.node_of(cpu) {
                entry.moves.node += 1;
            }
        }
        let smt = self.machine.smt[entry.guest as usize];
        entry.alone = FULL_SPEED;
        entry.paired = (f64::from(FULL_SPEED) * smt).round() as u32;
        self.add_debt(world, cost);
    }
}
