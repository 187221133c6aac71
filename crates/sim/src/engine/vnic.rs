//! Virtual adapters: the system threads that serve them, where these run, and how interrupts are held back.

use model::CpuSet;
use model::placement::{Group, VmId};

use super::packet::Paths;
use super::world::{Kind, State, World};
use super::{Event, NONE, SimulationError, Simulator};
use crate::hypervisor::PacketThreads;
use crate::machine::fabric::Fabric;
use crate::machine::vector::Vector;
use crate::network::{AdapterQueues, Coalescing, tick_after};
use crate::reconcile::{SMOOTHING, load_of, mask_of};
use crate::rng::{Purpose, Stream};
use crate::spec::{RunSpec, Step};
use crate::time::{FULL_SPEED, LONGEST_NS, Nanos, S, US};

/// A virtual adapter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vnic {
    /// The worlds that receive and transmit; one for both, and none without the network or with direct assignment. With a
    /// shared receive queue nobody receives for one VM alone.
    pub(super) receive: u32,
    pub(super) transmit: u32,
    /// When the timer of the host's adapter ticks.
    pub(super) phase_ns: Nanos,
    /// Packets for which no interrupt was sent yet, first and last.
    held: u32,
    held_tail: u32,
    waiting: u32,
    /// Mean time between packets, and when the last one came.
    gap_ns: Nanos,
    last_ns: Nanos,
    /// Number of the timer that counts.
    generation: u32,
    /// What its system threads ran or wanted to at the last observation.
    wanted_before_ns: Nanos,
}

impl Simulator<'_> {
    /// The worlds of virtual adapters, behind all vCPUs.
    pub(super) fn create_vnics(&mut self) {
        let (spec, network) = (self.spec, self.network());
        let mut dice = Stream::new(self.seed, Purpose::Network, 0);
        let is_shared = network.queues == AdapterQueues::Shared && !network.direct;
        for (guest, vm) in (0_u32..).zip(&spec.vms) {
            let mut nic = Vnic {
                receive: NONE,
                transmit: NONE,
                phase_ns: dice.bits() % network.moderation_ns.max(1),
                held: NONE,
                held_tail: NONE,
                waiting: 0,
                gap_ns: S,
                last_ns: 0,
                generation: 0,
                wanted_before_ns: 0,
            };
            if self.uses_network(guest) && !network.direct {
                let weight = vm.vm.shares.max(1);
                nic.transmit = self.create_system(guest, weight);
                nic.receive = match self.hypervisor.packet_threads {
                    _ if is_shared => NONE,
                    PacketThreads::One => nic.transmit,
                    PacketThreads::Two => self.create_system(guest, weight),
                };
            }
            self.paths.nics.push(nic);
        }
        if is_shared && self.paths.nics.iter().any(|nic| nic.transmit != NONE) {
            let world = self.create_system(NONE, model::tenant::NORMAL_SHARES);
            self.paths.shared = world;
        }
    }

    fn create_system(&mut self, guest: u32, weight: u32) -> u32 {
        let mut world = World::new(guest, NONE, weight);
        world.kind = Kind::System;
        // Reference model, section 2.1: 0.65 for what computes; packets are not worked on from memory.
        world.paired = (f64::from(FULL_SPEED) * Vector::COMPUTE.smt).round() as u32;
        self.worlds.push(world);
        self.worlds.len() as u32 - 1
    }

    /// Whether packets ever come to a VM or leave it.
    fn uses_network(&self, guest: u32) -> bool {
        let Some(program) = self.program_of(guest) else {
            return false;
        };
        let workload = self.workload(program);
        let sends = |step: &Step| matches!(step, Step::Network { .. });
        let is_called = || {
            let mut callers = self.programs.iter().filter(|program| {
                self.spec.workloads[program.workload as usize]
                    .network
                    .is_some()
            });
            callers.any(|program| program.callees.iter().flatten().any(|&to| to == guest))
        };
        workload.network.is_some() || workload.steps.iter().any(sends) || is_called()
    }

    /// The system threads that work for one VM alone.
    pub(super) fn system_worlds(&self, guest: u32) -> impl Iterator<Item = u32> + use<> {
        let Vnic {
            receive, transmit, ..
        } = self.paths.nics[guest as usize];
        let second = (receive != transmit).then_some(receive);
        let worlds = [Some(transmit), second].into_iter().flatten();
        worlds.filter(|&world| world != NONE)
    }

    /// Gives system threads their homes: what the placement says, else beside the first group of their VM.
    pub(super) fn seat_system(&mut self, dedicated: &CpuSet) {
        for guest in 0..self.paths.nics.len() as u32 {
            if self.paths.nics[guest as usize].transmit == NONE {
                continue;
            }
            let Some((group, first)) = self.system_home(guest, dedicated) else {
                continue;
            };
            let allowed = self.allowed(guest, &group, dedicated);
            let mask = mask_of(&mut self.masks, self.layout.bits(&allowed));
            let own: Vec<_> = group.cpus.iter().collect();
            for (turn, world) in self.system_worlds(guest).enumerate() {
                let start = own.get((first + turn) % own.len().max(1));
                let start = start.and_then(|&cpu| self.layout.index(cpu));
                self.seat_world(world, group.llc.0, mask, start);
            }
        }
        if self.paths.shared != NONE {
            self.seat_shared(dedicated);
        }
    }

    /// The home of a VM's system threads as a group, and the first of its CPUs to start on.
    fn system_home(&self, guest: u32, dedicated: &CpuSet) -> Option<(Group, usize)> {
        let vm = VmId(guest);
        let group = self.placement.groups_of(vm).first()?;
        if let Some(home) = self.placement.system_of(vm) {
            let group = Group {
                llc: home.llc,
                node: home.node,
                cpus: home.cpus.clone(),
                ..group.clone()
            };
            return Some((group, 0));
        }
        let mut beside = group.clone();
        if self.vms[guest as usize].dedicated {
            // Its CPUs are one for each vCPU: the threads go to any others.
            let others = self.open_cpus(dedicated);
            if !others.is_empty() {
                beside.cpus = others;
            }
            return Some((beside, 0));
        }
        let vcpus = group.vcpus.len();
        Some((beside, vcpus))
    }

    /// What a policy learns of a VM's system threads: their load since it last looked.
    pub(super) fn observe_system(&mut self, guest: u32) {
        if self.paths.nics[guest as usize].transmit == NONE {
            return;
        }
        let mut wanted = 0;
        for world in self.system_worlds(guest) {
            let &World { state, cpu, .. } = &self.worlds[world as usize];
            match state {
                State::Running => self.settle(cpu),
                state => self.set_state(world, state),
            }
            wanted += self.worlds[world as usize].wanted_ns;
        }
        let nic = &mut self.paths.nics[guest as usize];
        let since = wanted - std::mem::replace(&mut nic.wanted_before_ns, wanted);
        let period = self.now - self.guests[guest as usize].observed_ns;
        let load = load_of(since, period, 1);
        let vm = &mut self.vms[guest as usize];
        let smoothed = f64::from(vm.system) * (1.0 - SMOOTHING) + load * SMOOTHING;
        vm.system = smoothed.round() as u32;
    }

    fn seat_shared(&mut self, dedicated: &CpuSet) {
        let mut open = self.open_cpus(dedicated);
        if open.is_empty() {
            open = self.host.cpuset();
        }
        let start = open.first().and_then(|cpu| self.layout.index(cpu));
        let llc = start.map_or(0, |cpu| self.layout.llc_of(cpu));
        let mask = mask_of(&mut self.masks, self.layout.bits(&open));
        let world = self.paths.shared;
        self.seat_world(world, llc, mask, start);
        if self.worlds[world as usize].state == State::Off {
            self.set_state(world, State::Halted);
        }
    }

    /// CPUs on which the host may do what it likes.
    fn open_cpus(&self, dedicated: &CpuSet) -> CpuSet {
        let all = self.host.cpuset().difference(&self.reserve.cpus);
        all.difference(&self.host.isolated).difference(dedicated)
    }

    /// A system thread comes to a CPU. What it needs of caches is in the costs of its packets.
    pub(super) fn charge_system(&mut self, world: u32, cpu: u32) {
        let last = self.worlds[world as usize].cpu;
        let entry = &mut self.worlds[world as usize];
        entry.moves.cpu += u64::from(last != cpu);
        entry.moves.llc += u64::from(self.layout.llc_of(last) != self.layout.llc_of(cpu));
        entry.moves.node += u64::from(self.layout.node_of(last) != self.layout.node_of(cpu));
        entry.cpu = cpu;
        self.add_debt(world, self.network().costs.wake_ns);
    }

    /// Packets are in a guest's memory: an interrupt for them, now or later.
    pub(super) fn coalesce(&mut self, message: u32) {
        let to = self.paths.message(message).to;
        match self.network().coalescing {
            Coalescing::Off => self.inject(message),
            Coalescing::Fixed { period_ns } => {
                let phase = self.paths.nics[to as usize].phase_ns;
                let at = tick_after(self.now, period_ns, phase);
                self.queue.push(at, Event::Interrupt { message });
            }
            Coalescing::Adaptive {
                period_ns,
                bound_ns,
            } => {
                let longest = period_ns.min(bound_ns);
                let depth = self.expected(to, longest);
                self.hold(to, message);
                let nic = &self.paths.nics[to as usize];
                if nic.waiting >= depth {
                    self.release(to);
                } else if nic.waiting == 1 {
                    let generation = nic.generation;
                    let event = Event::Coalesced {
                        guest: to,
                        generation,
                    };
                    self.queue.push(self.now + longest, event);
                }
            }
        }
    }

    /// The packets that a period is expected to bring; one more has come.
    fn expected(&mut self, guest: u32, period: Nanos) -> u32 {
        let nic = &mut self.paths.nics[guest as usize];
        let gap = (self.now - nic.last_ns).min(S);
        nic.last_ns = self.now;
        // An eighth of the newest gap, as the kernel's averages take it. Ours.
        nic.gap_ns = nic.gap_ns - nic.gap_ns / 8 + gap / 8;
        (period / nic.gap_ns.max(1)).clamp(1, u32::MAX.into()) as u32
    }

    fn hold(&mut self, guest: u32, message: u32) {
        let nic = &mut self.paths.nics[guest as usize];
        let (mut head, mut tail) = (nic.held, nic.held_tail);
        nic.waiting += 1;
        self.paths.append((&mut head, &mut tail), message);
        let nic = &mut self.paths.nics[guest as usize];
        (nic.held, nic.held_tail) = (head, tail);
    }

    /// The interrupt for all packets that wait.
    fn release(&mut self, guest: u32) {
        let nic = &mut self.paths.nics[guest as usize];
        nic.generation = nic.generation.wrapping_add(1);
        nic.waiting = 0;
        let mut message = std::mem::replace(&mut nic.held, NONE);
        while message != NONE {
            let next = self.paths.message(message).next;
            self.inject(message);
            message = next;
        }
    }

    /// Whoever waited for more packets has waited long enough.
    pub(super) fn coalesced(&mut self, guest: u32, generation: u32) {
        if self.paths.nics[guest as usize].generation == generation {
            self.release(guest);
        }
    }

    /// A VM is powered off: its packets on the host are lost.
    pub(super) fn drop_packets(&mut self, guest: u32) {
        let nic = &mut self.paths.nics[guest as usize];
        nic.generation = nic.generation.wrapping_add(1);
        nic.waiting = 0;
        let held = std::mem::replace(&mut nic.held, NONE);
        self.paths.drop_all(held);
        let worlds = self.guests[guest as usize].worlds();
        for world in worlds.chain(self.system_worlds(guest)) {
            let entry = &mut self.worlds[world as usize];
            (entry.batch, entry.packet_todo) = (0, 0);
            let jobs = std::mem::replace(&mut entry.jobs, NONE);
            self.paths.drop_all(jobs);
        }
    }
}

/// By pair of LLCs: how much longer a line takes between them than within the first, in nanoseconds, with its memory near.
pub(super) fn paths(fabric: &Fabric) -> Paths {
    let llcs = fabric.llc_bytes.len() as u32;
    let line = |pair: u32| {
        let (from, to) = (pair / llcs, pair % llcs);
        let [[far, _], [near, _]] = [to, from].map(|to| fabric.coherence_by_home(from, to));
        (far - near).clamp(0.0, 1e6).round() as u32
    };
    Paths::new((0..llcs * llcs).map(line).collect())
}

/// What the network of a spec must not say.
pub(super) fn check(spec: &RunSpec) -> Result<(), SimulationError> {
    let wrong = |text: String| Err(SimulationError::Spec(text));
    let network = &spec.network;
    let costs = &network.costs;
    if network.wire_ns == 0 {
        return wrong("the network's wire takes no time: a round trip might never end".to_owned());
    }
    let (period, bound) = match network.coalescing {
        Coalescing::Off => (US, US),
        Coalescing::Fixed { period_ns } => (period_ns, period_ns),
        Coalescing::Adaptive {
            period_ns,
            bound_ns,
        } => (period_ns, bound_ns),
    };
    if period == 0 || bound == 0 {
        return wrong("the period of interrupt coalescing is 0; leave coalescing off".to_owned());
    }
    let times = [
        network.wire_ns,
        network.moderation_ns,
        period,
        bound,
        costs.wake_ns,
        costs.receive_ns,
        costs.batched_ns,
        costs.transmit_ns,
        costs.switch_ns,
        costs.copy_ns_per_kb,
        costs.kick_ns,
        costs.stack_ns,
        costs.client_ns,
    ];
    if let Some(long) = times.into_iter().find(|&time| time > LONGEST_NS) {
        return wrong(format!(
            "a time of the network is {long} ns; an hour is the longest"
        ));
    }
    for workload in &spec.workloads {
        let name = &workload.name;
        let is_empty = |step: &Step| matches!(step, Step::Network { packets: 0, .. });
        let asks_nothing = workload.network.is_some_and(|all| all.request.count == 0);
        if asks_nothing || workload.steps.iter().any(is_empty) {
            return wrong(format!(
                "workload {name:?} sends 0 packets over the network; at least 1 is needed"
            ));
        }
    }
    Ok(())
}
