//! CPUs that look for work in the queues of others.

use policy::hot;

use super::dispatch::BALANCE_NS;
use super::layout::LEVELS;
use super::{Event, NONE, Simulator};
use crate::hypervisor;
use crate::time::Nanos;

/// CPUs looked at in one look (`Cpu.PcpuMigrateIdlePcpus`, `Cpu.FairnessRebalancePcpus`: 4).
const LOOKED_AT: u32 = 4;

impl Simulator<'_> {
    /// A round: every idle CPU that may look again does so.
    pub(super) fn balance(&mut self) {
        self.is_balancing = false;
        if self.queues.waiting == 0 {
            return;
        }
        self.honour_reservations();
        let mut at = 0;
        let all = self.layout.len() as u32;
        while let Some(cpu) = self.idle_threads.first_common(&self.idle_threads, at..all) {
            self.pull(cpu, 0);
            if self.queues.waiting == 0 {
                return;
            }
            at = cpu + 1;
        }
        self.is_balancing = true;
        self.queue.push(self.now + BALANCE_NS, Event::Balance);
    }

    /// A CPU has just run out of work.
    pub(super) fn pull_when_idle(&mut self, cpu: u32) {
        self.pull(cpu, self.hypervisor.newly_idle);
    }

    /// Looks for work level by level; below `free` the period does not count.
    fn pull(&mut self, cpu: u32, free: usize) {
        if self.hypervisor.queues == hypervisor::Queues::PerLlc {
            self.steal(cpu);
            return;
        }
        for level in 0..LEVELS {
            let Some(period) = self.hypervisor.pull_ns[level] else {
                continue;
            };
            if level >= free && self.now < self.cpus[cpu as usize].next_pull[level] {
                continue;
            }
            // "Average milliseconds between opportunities": spread by a half, so that CPUs do not march in step.
            let jitter = Nanos::from(self.dice.below((period / 1_000) as u32)) * 1_000;
            self.cpus[cpu as usize].next_pull[level] = self.now + period / 2 + jitter;
            if let Some(world) = self.take_at_level(cpu, level, 0) {
                self.start_from_queue(world, cpu);
                return;
            }
        }
    }

    /// Takes a world that waits at another CPU, exactly `level` away.
    fn take_at_level(&mut self, cpu: u32, level: usize, at_least_ns: Nanos) -> Option<u32> {
        let range = self.span(cpu, level);
        let occupied = &self.queues.occupied;
        occupied.first_common(occupied, range.clone())?;
        let start = range.start + self.dice.below(range.end - range.start);
        let mut left = LOOKED_AT;
        // Once round the range, from a random CPU on.
        for part in [start..range.end, range.start..start] {
            let mut at = part.start;
            while let Some(other) = self.next_occupied(at..part.end) {
                at = other + 1;
                if other == cpu || self.layout.level(cpu, other) != level {
                    continue;
                }
                let first = self.queues.first(other);
                let waited = first.map_or(0, |first| self.now - first.since);
                if waited >= at_least_ns
                    && let Some(world) = self.take_for(cpu, other)
                {
                    return Some(world);
                }
                left -= 1;
                if left == 0 {
                    return None;
                }
            }
        }
        None
    }

    fn next_occupied(&self, range: std::ops::Range<u32>) -> Option<u32> {
        let occupied = &self.queues.occupied;
        occupied.first_common(occupied, range)
    }

    /// Takes a world that has waited elsewhere for more than a slice, while a CPU changes its world anyway.
    pub(super) fn take_starving(&mut self, cpu: u32) -> Option<u32> {
        if self.hypervisor.queues == hypervisor::Queues::PerLlc || self.queues.waiting == 0 {
            return None;
        }
        let slice = self.hypervisor.slice_ns;
        (0..LEVELS).find_map(|level| self.take_at_level(cpu, level, slice))
    }

    /// The CPUs among which those of a level are.
    fn span(&self, cpu: u32, level: usize) -> std::ops::Range<u32> {
        match level {
            0 => self.layout.core_of(cpu),
            1 => self.layout.llcs[self.layout.llc_of(cpu) as usize].clone(),
            _ => 0..self.layout.len() as u32,
        }
    }

    /// With a queue for each LLC: the own one, then others by distance, as the rules allow.
    fn steal(&mut self, cpu: u32) {
        let here = self.layout.llc_of(cpu);
        for turn in 0..self.queues.count() as usize {
            let llc = self.layout.near[here as usize][turn];
            let Some(first) = self.queues.first(llc) else {
                continue;
            };
            let waited = self.now - first.since;
            let class = self.layout.class(here, llc);
            if turn > 0 && !hot::may_steal(class.into(), waited, self.queues.len(llc)) {
                continue;
            }
            if let Some(world) = self.take_for(cpu, llc) {
                self.start_from_queue(world, cpu);
                return;
            }
        }
        debug_assert_eq!(self.cpus[cpu as usize].world, NONE, "nothing was found");
    }
}
