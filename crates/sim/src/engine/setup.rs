//! From a spec to a host with VMs at time 0.

use std::ops::Range;
use std::sync::Arc;

use model::GuestTopology;
use model::placement::{Placement, VmId};

use super::bits::Bits;
use super::cpu::Cpu;
use super::guest::Guest;
use super::layout::Layout;
use super::program::Program;
use super::queues::Queues;
use super::world::{State, World};
use super::{Event, Setting, Simulator, account, machine, vnic};
use crate::hypervisor;
use crate::machine::fabric::Fabric;
use crate::machine::vector::Vector;
use crate::queue::Queue;
use crate::rng::{Law, Purpose, Stream};
use crate::spec::{Clients, Step, Workload};
use crate::time::Nanos;

/// Why a run cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The plan must not be applied.
    #[error("the first plan of policy {policy} does not hold together ({count} findings): {first}")]
    Unsound {
        /// The policy.
        policy: &'static str,
        /// Findings.
        count: usize,
        /// The first of them.
        first: String,
    },
    /// A VM cannot be placed.
    #[error("policy {policy} cannot place {vm}: {reason}")]
    Refused {
        /// The policy.
        policy: &'static str,
        /// The VM's name.
        vm: String,
        /// Why.
        reason: String,
    },
    /// The spec contradicts itself.
    #[error("{0}")]
    Spec(String),
}

impl<'a> Simulator<'a> {
    pub(super) fn new(setting: Setting<'a>, seed: u64) -> Result<Self, SimulationError> {
        let Setting {
            host,
            reserve,
            hypervisor,
            policy,
            spec,
        } = setting;
        check(setting)?;
        let fabric = Fabric::new(host);
        let layout = Layout::new(host, &fabric);
        let all = layout.len();
        let queues = match hypervisor.queues {
            hypervisor::Queues::PerCpu => all,
            hypervisor::Queues::PerLlc => layout.llcs.len(),
        };
        let mut idle = Bits::new(all);
        (0..all as u32).for_each(|cpu| idle.insert(cpu));
        let vcpus: usize = spec.vms.iter().map(|vm| vm.vm.vcpus as usize).sum();
        let vectors = spec.vms.iter().map(|vm| {
            let workload = vm.workload.map(|index| spec.workloads[index].vector);
            (workload.unwrap_or(Vector::COMPUTE), vm.vm.vcpus)
        });
        let mut simulator = Self {
            host: Arc::clone(host),
            reserve: reserve.clone(),
            hypervisor,
            policy,
            spec,
            seed,
            now: 0,
            queue: Queue::with_capacity(4 * (all + vcpus)),
            busy: vec![0; layout.cores.len()],
            cpus: vec![Cpu::new(); all],
            idle_threads: idle.clone(),
            idle_cores: idle,
            starters: vec![0; all],
            queues: Queues::new(queues),
            worlds: Vec::with_capacity(vcpus),
            masks: Vec::new(),
            guests: Vec::with_capacity(spec.vms.len()),
            programs: Vec::new(),
            threads: Vec::new(),
            paths: vnic::paths(&fabric),
            placement: Placement::default(),
            vms: spec.vms.iter().map(|vm| vm.vm.clone()).collect(),
            moved_ns: vec![None; spec.vms.len()],
            generation: 0,
            talks: Vec::new(),
            talk_counts: Vec::new(),
            machine: machine::Hardware::new(&fabric, vectors, hypervisor.page_rate),
            record: account::Record::new(spec.timeline),
            dice: Stream::new(seed, Purpose::Dispatch, 0),
            is_balancing: false,
            layout,
            fabric,
        };
        simulator.create_guests();
        simulator.create_vnics();
        simulator.schedule();
        simulator.plan_first()?;
        Ok(simulator)
    }

    /// Worlds, guests, threads and programs of all VMs.
    fn create_guests(&mut self) {
        let spec = self.spec;
        for (index, vm) in (0_u32..).zip(&spec.vms) {
            let first = self.worlds.len() as u32;
            let vcpus = vm.vm.vcpus;
            self.worlds
                .extend((0..vcpus).map(|vcpu| World::new(index, vcpu, vm.vm.shares.max(1))));
            let mut guest = Guest::new(first, vcpus, vm.system, vm.vm.limit);
            guest.reservation = vm.vm.reservation;
            guest.domains = domains(&vm.guest, vcpus);
            guest.sockets = blocks(vm.guest.slots_in(model::guest::Level::Socket), vcpus);
            self.guests.push(guest);
            if let Some(workload) = vm.workload {
                let number = self.programs.len() as u32;
                let mut program = Program::new(
                    (index, vcpus),
                    (workload as u32, &spec.workloads[workload]),
                    self.seed,
                    &mut self.threads,
                    number,
                );
                program.callees = callees(self, index, &spec.workloads[workload]);
                self.programs.push(program);
                self.set_rates(number, workload);
            }
        }
    }

    /// Think times and rates.
    fn set_rates(&mut self, program: u32, workload: usize) {
        let entry = &mut self.programs[program as usize];
        match self.spec.workloads[workload].clients {
            Clients::Closed { think, .. } => entry.think = think.unwrap_or(entry.think),
            Clients::Open { per_s, .. } => entry.per_s = per_s.unwrap_or(entry.per_s),
            Clients::Called => {}
        }
    }

    /// What happens by itself.
    fn schedule(&mut self) {
        let spec = self.spec;
        self.queue.push(spec.warmup_ns, Event::WarmedUp);
        self.queue.push(machine::EPOCH_NS, Event::Epoch);
        if let Some(period) = self.hypervisor.rebalance_ns {
            self.queue.push(period, Event::Rebalance);
        }
        for (guest, vm) in (0_u32..).zip(&spec.vms) {
            self.queue.push(vm.on_ns, Event::PowerOn { guest });
            if let Some(off) = vm.off_ns {
                self.queue.push(off, Event::PowerOff { guest });
            }
        }
    }

    /// Powers a VM on: its vCPUs halt until there is something to do, its users begin one after the other.
    pub(super) fn power_on(&mut self, guest: u32) {
        if self.now > 0 {
            self.rebalance_now();
        }
        if self.placement.groups_of(VmId(guest)).is_empty() {
            self.record.refused.push(guest);
            return;
        }
        self.guests[guest as usize].is_on = true;
        self.guests[guest as usize].observed_ns = self.now;
        let worlds = self.guests[guest as usize].worlds();
        for world in worlds.chain(self.system_worlds(guest)) {
            self.set_state(world, State::Halted);
        }
        if self.guests[guest as usize].limit_left().is_some() {
            self.guests[guest as usize].refill(self.hypervisor.limit_period_ns);
            let at = self.now + self.hypervisor.limit_period_ns;
            self.queue.push(at, Event::Refill { guest });
        }
        let Some(program) = self.program_of(guest) else {
            return;
        };
        let entry = &self.programs[program as usize];
        let (users, think, per_s) = (entry.users, entry.think, entry.per_s);
        let mut dice = Stream::new(self.seed, Purpose::Guest, guest);
        for user in 0..users {
            // The first time everybody starts somewhere in his thinking, and at least not all at once.
            let time = dice.draw(think) + Nanos::from(dice.below(1_000_000));
            self.queue.push(self.now + time, Event::Ask { guest, user });
        }
        if per_s > 0.0 {
            let mean_ns = (1e9 / per_s).round() as Nanos;
            let time = dice.draw(Law::Exponential { mean_ns });
            self.queue.push(self.now + time, Event::Arrive { guest });
        }
    }

    /// Powers a VM off: what it was doing is lost.
    pub(super) fn power_off(&mut self, guest: u32) {
        if !self.guests[guest as usize].is_on {
            return;
        }
        self.guests[guest as usize].is_on = false;
        let worlds = self.guests[guest as usize].worlds();
        for world in worlds.chain(self.system_worlds(guest)) {
            match self.worlds[world as usize].state {
                State::Running => {
                    let cpu = self.worlds[world as usize].cpu;
                    self.stop(cpu, State::Off);
                    self.pick(cpu);
                }
                State::Ready => {
                    self.leave_queue(world);
                    self.set_state(world, State::Off);
                }
                _ => self.set_state(world, State::Off),
            }
        }
        self.drop_packets(guest);
        self.fail_all(guest);
        self.rebalance_now();
    }
}

/// What the spec must not say.
fn check(setting: Setting<'_>) -> Result<(), SimulationError> {
    let Setting { spec, .. } = setting;
    let wrong = |text: String| Err(SimulationError::Spec(text));
    if spec.warmup_ns >= spec.duration_ns {
        return wrong("the warm-up is as long as the run: nothing would be measured".to_owned());
    }
    vnic::check(spec)?;
    for vm in &spec.vms {
        let name = &vm.vm.name;
        if vm.vm.vcpus == 0 {
            return wrong(format!("{name} has no vCPU"));
        }
        let Some(workload) = vm.workload else {
            continue;
        };
        let Some(workload) = spec.workloads.get(workload) else {
            return wrong(format!(
                "{name} has workload number {workload}, which is not there"
            ));
        };
        if let Clients::Closed { think: None, .. } | Clients::Open { per_s: None, .. } =
            workload.clients
        {
            return wrong(format!(
                "workload {:?} leaves its think time or rate to the load of the VM; `scenario::expand` makes one of it",
                workload.name
            ));
        }
        let advances = |step: &Step| !matches!(step, Step::Lock { .. } | Step::Handoff(_));
        if !workload.steps.iter().any(advances) {
            return wrong(format!(
                "an operation of workload {:?} takes no time",
                workload.name
            ));
        }
        for step in &workload.steps {
            match step {
                Step::Io { device } if *device >= workload.devices.len() => {
                    return wrong(format!(
                        "workload {:?} has no device {device}",
                        workload.name
                    ));
                }
                Step::Call { to } if !has_callee(setting, vm.tile, to) => {
                    return wrong(format!("{name} calls {to:?}, which no VM of its tile runs"));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn has_callee(setting: Setting<'_>, tile: u32, to: &str) -> bool {
    let spec = setting.spec;
    let runs = |vm: &crate::spec::VmSpec| {
        vm.workload
            .is_some_and(|index| spec.workloads[index].name == to)
    };
    spec.vms.iter().any(|vm| vm.tile == tile && runs(vm))
}

/// Guests that each step may call.
fn callees(simulator: &Simulator<'_>, guest: u32, workload: &Workload) -> Vec<Vec<u32>> {
    let spec = simulator.spec;
    let tile = spec.vms[guest as usize].tile;
    let step_callees = |step: &Step| {
        let Step::Call { to } = step else {
            return Vec::new();
        };
        let vms = (0_u32..).zip(&spec.vms);
        vms.filter(|(_, vm)| vm.tile == tile)
            .filter(|(_, vm)| {
                vm.workload
                    .is_some_and(|index| spec.workloads[index].name == *to)
            })
            .map(|(index, _)| index)
            .collect()
    };
    workload.steps.iter().map(step_callees).collect()
}

/// By vCPU: the neighbours in its virtual last-level cache. A guest that was told nothing sees one for each socket.
fn domains(guest: &GuestTopology, vcpus: u32) -> Vec<Range<u32>> {
    if guest.llcs.is_empty() {
        return blocks(guest.slots_in(model::guest::Level::Socket), vcpus);
    }
    let mut domains: Vec<Range<u32>> = (0..vcpus).map(|vcpu| vcpu..vcpu + 1).collect();
    for llc in &guest.llcs {
        let (Some(first), Some(last)) = (llc.vcpus.first(), llc.vcpus.last()) else {
            continue;
        };
        for vcpu in llc.vcpus.iter().filter(|vcpu| vcpu.0 < vcpus) {
            domains[vcpu.index()] = first.0..(last.0 + 1).min(vcpus);
        }
    }
    domains
}

/// By vCPU: the block of so many slots in which it is.
fn blocks(slots: u32, vcpus: u32) -> Vec<Range<u32>> {
    let slots = slots.max(1);
    let block =
        |vcpu: u32| vcpu / slots * slots..((vcpu / slots + 1).saturating_mul(slots)).min(vcpus);
    (0..vcpus).map(block).collect()
}
