//! From a run that has ended to its figures.

use super::Simulator;
use super::program::histogram;
use crate::outcome::{HostOutcome, Moves, Outcome, Times, VmOutcome, WorkloadOutcome};

impl Simulator<'_> {
    pub(super) fn into_outcome(mut self) -> Outcome {
        self.settle_all();
        self.close_segments();
        let window_ns = self.now - self.record.measured_from;
        let workloads = self.workload_outcomes();
        let vms = (0..self.guests.len() as u32)
            .map(|guest| self.vm_outcome(guest))
            .collect();
        let mut remarks = Vec::new();
        for workload in &workloads {
            if workload.vms > 0 && workload.operations == 0 {
                remarks.push(format!(
                    "no operation of {} ended in the window",
                    workload.name
                ));
            }
        }
        if self.record.unsound_plans > 0 {
            remarks.push(format!(
                "{} plans of {} did not hold together and were not applied",
                self.record.unsound_plans,
                self.policy.name()
            ));
        }
        for &guest in &self.record.refused {
            let name = &self.vm_spec(guest).vm.name;
            remarks.push(format!(
                "{name} was not powered on: the policy had no place for it"
            ));
        }
        Outcome {
            seed: self.seed,
            window_ns,
            events: self.record.events,
            trace_hash: self.record.hash,
            workloads,
            vms,
            host: self.host_outcome(),
            timeline: std::mem::take(&mut self.record.segments),
            remarks,
        }
    }

    fn workload_outcomes(&self) -> Vec<WorkloadOutcome> {
        let outcome = |(index, workload): (usize, &crate::spec::Workload)| {
            let programs = self
                .programs
                .iter()
                .filter(|program| program.workload as usize == index);
            let mut outcome = WorkloadOutcome {
                name: workload.name.clone(),
                vms: 0,
                operations: 0,
                latency: histogram(),
            };
            for program in programs {
                outcome.vms += 1;
                outcome.operations += program.operations;
                outcome
                    .latency
                    .add(&program.latency)
                    .expect("the histograms have the same bounds");
            }
            outcome
        };
        self.spec
            .workloads
            .iter()
            .enumerate()
            .map(outcome)
            .collect()
    }

    fn vm_outcome(&self, guest: u32) -> VmOutcome {
        let spec = self.vm_spec(guest);
        let program = self
            .program_of(guest)
            .map(|index| &self.programs[index as usize]);
        let mut time = Times::default();
        let mut moves = Moves::default();
        for world in self.guests[guest as usize].worlds() {
            let world = &self.worlds[world as usize];
            time.add(&world.time);
            moves.add(&world.moves);
        }
        let mut system = Times::default();
        for world in self.system_worlds(guest) {
            system.add(&self.worlds[world as usize].time);
        }
        VmOutcome {
            name: spec.vm.name.clone(),
            workload: spec.workload,
            vcpus: spec.vm.vcpus,
            operations: program.map_or(0, |program| program.operations),
            latency: program.map_or_else(histogram, |program| program.latency.clone()),
            time,
            system,
            moves,
            cache_bytes: self.seen_mean(&self.machine.seen.held, guest as usize),
            remote_share: self.seen_mean(&self.machine.seen.remote, guest as usize),
            llcs_mean: self.seen_mean(&self.machine.seen.llcs, guest as usize),
        }
    }

    /// The mean over the settlements of the window.
    fn seen_mean(&self, sums: &[f64], index: usize) -> f64 {
        let settlements = self.machine.seen.settlements.max(1) as f64;
        sums.get(index).map_or(0.0, |sum| sum / settlements)
    }

    fn held_by_llc(&self) -> Vec<Vec<(u32, f64)>> {
        let by_vm = |sums: &Vec<f64>| {
            let means = (0..sums.len()).map(|vm| (vm as u32, self.seen_mean(sums, vm)));
            means.filter(|(_, bytes)| *bytes > 0.0).collect()
        };
        self.machine.seen.held_by_llc.iter().map(by_vm).collect()
    }

    /// What the thread that receives for all VMs did.
    fn shared_times(&self) -> Times {
        let world = self.worlds.get(self.paths.shared as usize);
        world.map_or_else(Times::default, |world| world.time)
    }

    fn host_outcome(&self) -> HostOutcome {
        let window = self.now - self.record.measured_from;
        let busy = |range: &std::ops::Range<u32>| {
            let sum: u64 = range
                .clone()
                .map(|cpu| self.cpus[cpu as usize].busy_ns)
                .sum();
            sum as f64 / (range.len() as f64 * window.max(1) as f64)
        };
        HostOutcome {
            busy_ns: self.cpus.iter().map(|cpu| cpu.busy_ns).sum(),
            cpu_ns: window * self.cpus.len() as u64,
            llc_busy: self.layout.llcs.iter().map(busy).collect(),
            llc_held: self.held_by_llc(),
            node_traffic: (0..self.fabric.node_package.len())
                .map(|node| self.seen_mean(&self.machine.seen.node_load, node))
                .collect(),
            rebalances: self.record.rebalances,
            refused: self.record.refused.len() as u32,
            unsound_plans: self.record.unsound_plans,
            system: self.shared_times(),
        }
    }
}

impl Times {
    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        self.run_ns += other.run_ns;
        self.ready_ns += other.ready_ns;
        self.costop_ns += other.costop_ns;
        self.halted_ns += other.halted_ns;
        self.paired_ns += other.paired_ns;
        self.home_ns += other.home_ns;
        self.poll_ns += other.poll_ns;
        self.overhead_ns += other.overhead_ns;
        self.limited_ns += other.limited_ns;
    }
}

impl Moves {
    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        self.cpu += other.cpu;
        self.llc += other.llc;
        self.node += other.node;
        self.wakeups += other.wakeups;
        self.ipis += other.ipis;
        self.pages += other.pages;
    }
}
