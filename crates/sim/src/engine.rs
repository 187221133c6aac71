//! The event loop: CPUs, the worlds that run on them, guests and their threads.
//!
//! # Vocabulary
//! A *world* is what a hypervisor schedules: a vCPU, or a system thread that moves packets. A *thread* is what a guest
//! schedules on its vCPUs. A thread works through the steps of *requests*, which *users* make. Work is done at the speed of
//! the CPU at that moment; whenever the speed changes (the core's other thread starts or stops, caches fill, memory moves),
//! what was done so far is settled (`cpu`) and the end of the work is scheduled anew. The event that was scheduled before is
//! not searched: it carries a generation, and is dropped when it comes up.
//!
//! # Invariants
//! Time of CPUs and worlds is conserved to the nanosecond. Nothing is allocated once the run has warmed up. Nothing
//! depends on the order of VMs but the numbers of ties.

mod account;
pub(crate) mod bits;
mod cosched;
mod cpu;
mod dispatch;
mod event;
mod exchange;
mod guest;
mod interrupt;
pub(crate) mod layout;
mod limit;
mod machine;
mod outcome;
mod packet;
mod program;
mod pull;
mod queues;
mod seat;
mod setup;
mod vnic;
mod world;

use std::sync::Arc;

use model::placement::{Placement, Reserve};
use model::{Host, Vm};
use policy::plan::Talk;
use policy::reconcile::Policy;

use crate::hypervisor::Hypervisor;
use crate::machine::fabric::Fabric;
use crate::outcome::Outcome;
use crate::queue::Queue;
use crate::rng::Stream;
use crate::spec::{RunSpec, VmSpec};
use crate::time::{MS, Nanos};

use bits::Bits;
use cpu::Cpu;
use event::Event;
use guest::Guest;
use layout::Layout;
use program::{Program, Thread};
use queues::Queues;
use world::World;

pub(crate) use program::histogram;
pub use setup::SimulationError;

/// No world, no thread.
pub(crate) const NONE: u32 = u32::MAX;

/// A host with its VMs at one moment.
pub struct Simulator<'a> {
    pub(crate) host: Arc<Host>,
    pub(crate) reserve: Reserve,
    pub(crate) hypervisor: &'a Hypervisor,
    pub(crate) policy: &'a dyn Policy,
    pub(crate) spec: &'a RunSpec,
    pub(crate) seed: u64,
    pub(crate) now: Nanos,
    queue: Queue<Event>,
    layout: Layout,
    fabric: Fabric,
    cpus: Vec<Cpu>,
    /// Busy threads of each core.
    busy: Vec<u32>,
    idle_threads: Bits,
    /// All threads of cores without a busy thread.
    idle_cores: Bits,
    /// Worlds that are to start on each CPU; while a plan is applied.
    starters: Vec<u32>,
    queues: Queues,
    worlds: Vec<World>,
    /// Sets of CPUs on which worlds may run; worlds name them by index.
    masks: Vec<Bits>,
    guests: Vec<Guest>,
    programs: Vec<Program>,
    threads: Vec<Thread>,
    paths: packet::Paths,
    pub(crate) placement: Placement,
    pub(crate) vms: Vec<Vm>,
    pub(crate) moved_ns: Vec<Option<Nanos>>,
    pub(crate) generation: u64,
    pub(crate) talks: Vec<Talk>,
    talk_counts: Vec<u64>,
    machine: machine::Hardware,
    record: account::Record,
    dice: Stream,
    is_balancing: bool,
}

/// What is simulated: the same for all seeds.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The machine.
    pub host: &'a Arc<Host>,
    /// What of it is not for VMs.
    pub reserve: &'a Reserve,
    /// How vCPUs are dispatched.
    pub hypervisor: &'a Hypervisor,
    /// How they are placed.
    pub policy: &'a dyn Policy,
    /// VMs, workloads and times.
    pub spec: &'a RunSpec,
}

/// One run. Equal settings and seeds give equal outcomes, event by event.
///
/// # Errors
/// The policy's first plan does not hold together or places no VM, or the spec contradicts itself.
pub fn run(setting: Setting<'_>, seed: u64) -> Result<Outcome, SimulationError> {
    let mut simulator = Simulator::new(setting, seed)?;
    simulator.run_until(setting.spec.duration_ns);
    Ok(simulator.into_outcome())
}

/// [`run`], with somebody who watches: every few simulated milliseconds `goes_on` is told the time of the run, and may end
/// it. The outcome is the same as that of [`run`]; a run that was ended has none.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    setting: Setting<'_>,
    seed: u64,
    goes_on: &dyn Fn(Nanos) -> bool,
) -> Result<Option<Outcome>, SimulationError> {
    let mut simulator = Simulator::new(setting, seed)?;
    let is_done = simulator.run_until_or(setting.spec.duration_ns, goes_on);
    Ok(is_done.then(|| simulator.into_outcome()))
}

/// Simulated time between two looks of [`run_with`] at whether to go on. Ours: a large host takes well below a second of
/// real time for it, a small one does not notice the look.
const LOOK_NS: Nanos = 5 * MS;

impl Simulator<'_> {
    /// Runs until a time, as [`run_until`](Self::run_until), unless it is told to stop; whether it came to the end.
    pub fn run_until_or(&mut self, until: Nanos, goes_on: &dyn Fn(Nanos) -> bool) -> bool {
        while self.now < until {
            if !goes_on(self.now) {
                return false;
            }
            self.run_until(self.now.saturating_add(LOOK_NS).min(until));
        }
        self.run_until(until);
        true
    }

    /// Runs until a time since the start; what happens at that very moment still happens.
    pub fn run_until(&mut self, until: Nanos) {
        while let Some(at) = self.queue.next_at() {
            if at > until {
                break;
            }
            let Some((at, event)) = self.queue.pop() else {
                break;
            };
            self.now = at;
            self.step(event);
        }
        self.now = until.max(self.now);
    }

    fn step(&mut self, event: Event) {
        if let Event::Due { cpu, generation } = event
            && self.cpus[cpu as usize].generation != generation
        {
            return;
        }
        self.record.count(self.now, event);
        match event {
            Event::Due { cpu, .. } => self.due(cpu),
            Event::Ask { guest, user } => self.ask(guest, user),
            Event::Arrive { guest } => self.arrive(guest),
            Event::Answered { thread } => self.answered(thread),
            Event::DeviceDone { thread } => self.device_done(thread),
            Event::Called { thread, guest } => self.called(thread, guest),
            Event::Packet { message } => self.packet(message),
            Event::Client { message } => self.at_client(message),
            Event::Interrupt { message } => self.inject(message),
            Event::Coalesced { guest, generation } => self.coalesced(guest, generation),
            Event::Balance => self.balance(),
            Event::GuestBalance { guest } => self.guest_balance(guest),
            Event::Cosched { guest } => self.cosched(guest),
            Event::Refill { guest } => self.refill_limit(guest),
            Event::Epoch => self.epoch(),
            Event::Rebalance => self.rebalance(),
            Event::WarmedUp => self.warmed_up(),
            Event::PowerOn { guest } => self.power_on(guest),
            Event::PowerOff { guest } => self.power_off(guest),
        }
    }

    pub(crate) fn vm_spec(&self, guest: u32) -> &VmSpec {
        &self.spec.vms[guest as usize]
    }
}
