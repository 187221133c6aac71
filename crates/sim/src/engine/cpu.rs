//! CPUs: who is on them, how fast, and until when.

use policy::cost::weights::SMT_THREAD_PERMILLE;
use policy::hot;

use super::world::{Kind, State};
use super::{Event, NONE, Simulator};
use crate::time::{Nanos, Work, time_of, work_of};

/// A CPU of the host.
#[derive(Debug, Clone)]
pub(crate) struct Cpu {
    /// Who is on it.
    pub(crate) world: u32,
    /// Who was on it last.
    pub(crate) last: u32,
    /// Until when its time is settled.
    pub(crate) settled: Nanos,
    /// Speed since then.
    pub(crate) speed: u32,
    /// Whether another thread of its core was busy since then.
    pub(crate) is_paired: bool,
    /// Whether its world only polls.
    pub(crate) is_quiet: bool,
    /// Number of the event that counts.
    pub(crate) generation: u32,
    /// When the world on it started, and when another has its turn.
    pub(crate) started: Nanos,
    pub(crate) slice_end: Nanos,
    /// When it may next look for work, by level.
    pub(crate) next_pull: [Nanos; super::layout::LEVELS],
    /// Time it was busy.
    pub(crate) busy_ns: Nanos,
}

impl Cpu {
    pub(crate) fn new() -> Self {
        Self {
            world: NONE,
            last: NONE,
            settled: 0,
            speed: 0,
            is_paired: false,
            is_quiet: false,
            generation: 0,
            started: 0,
            slice_end: 0,
            next_pull: [0; super::layout::LEVELS],
            busy_ns: 0,
        }
    }
}

impl Simulator<'_> {
    /// Puts a ready world on an idle CPU.
    pub(super) fn start(&mut self, world: u32, cpu: u32) {
        debug_assert_eq!(self.cpus[cpu as usize].world, NONE, "the CPU is idle");
        self.set_state(world, State::Running);
        match self.worlds[world as usize].kind {
            Kind::Vcpu => self.charge_arrival(world, cpu),
            Kind::System => self.charge_system(world, cpu),
        }
        let slice = self.slice_of(cpu);
        let entry = &mut self.cpus[cpu as usize];
        entry.world = world;
        entry.last = world;
        entry.settled = self.now;
        entry.started = self.now;
        entry.slice_end = self.now + slice;
        self.idle_threads.remove(cpu);
        let core = self.layout.core_of(cpu);
        for thread in core {
            self.idle_cores.remove(thread);
        }
        self.cpus[cpu as usize].is_quiet = false;
        self.busy[self.layout.core[cpu as usize] as usize] += 1;
        self.update_core(cpu);
        self.take_inbox(world);
        self.settle_in(world);
        self.arm(cpu);
    }

    /// Takes the world off a CPU. The CPU is idle afterwards: whoever calls this gives it other work.
    pub(super) fn stop(&mut self, cpu: u32, state: State) -> u32 {
        self.settle(cpu);
        self.raise_floor(self.queue_of(cpu));
        let entry = &mut self.cpus[cpu as usize];
        let world = std::mem::replace(&mut entry.world, NONE);
        entry.generation = entry.generation.wrapping_add(1);
        let started = entry.started;
        self.record
            .segment(&self.worlds[world as usize], cpu, started, self.now);
        self.set_state(world, state);
        self.idle_threads.insert(cpu);
        let core = self.layout.core[cpu as usize] as usize;
        if !self.cpus[cpu as usize].is_quiet {
            self.busy[core] -= 1;
        }
        let threads = self.layout.cores[core].clone();
        if threads
            .clone()
            .all(|thread| self.cpus[thread as usize].world == NONE)
        {
            threads.for_each(|thread| self.idle_cores.insert(thread));
        }
        self.update_core(cpu);
        world
    }

    /// Books what the world on a CPU did since the last time.
    pub(super) fn settle(&mut self, cpu: u32) {
        let entry = &mut self.cpus[cpu as usize];
        let spent = self.now - entry.settled;
        entry.settled = self.now;
        if spent == 0 || entry.world == NONE {
            return;
        }
        entry.busy_ns += spent;
        let (speed, is_paired) = (entry.speed, entry.is_paired);
        let world = &mut self.worlds[entry.world as usize];
        world.run(spent, is_paired, self.layout.llc[cpu as usize]);
        let charged = if is_paired {
            spent * Nanos::from(self.hypervisor.paired_charge) / 1000
        } else {
            spent
        };
        world.vtime = hot::charge(world.vtime, charged, world.weight);
        let is_polling = world.is_polling();
        let left = world.work_off(spent * Work::from(speed), speed);
        if world.kind == Kind::System {
            world.wanted_ns += demand(spent, is_paired);
            return;
        }
        self.guests[world.guest as usize].spend(spent);
        if is_polling {
            // It waits without touching caches or memory.
            world.time.poll_ns += spent;
            return;
        }
        world.wanted_ns += demand(spent, is_paired);
        if let Some(thread) = self.threads.get_mut(world.thread as usize) {
            thread.todo = thread.todo.saturating_sub(left);
        }
        let smt = self.machine.vector(world.guest).smt;
        let worked = if is_paired {
            (spent as f64 * smt) as Nanos
        } else {
            spent
        };
        let llc = self.layout.llc[cpu as usize];
        self.machine.ran(entry.world, llc, worked);
    }

    /// Gives all busy threads of a core the speed they have now.
    fn update_core(&mut self, cpu: u32) {
        let busy = self.busy[self.layout.core[cpu as usize] as usize];
        for thread in self.layout.core_of(cpu) {
            let world = self.cpus[thread as usize].world;
            if world == NONE {
                continue;
            }
            if thread != cpu {
                self.settle(thread);
            }
            let is_paired = busy > 1;
            let (alone, paired) = (
                self.worlds[world as usize].alone,
                self.worlds[world as usize].paired,
            );
            let entry = &mut self.cpus[thread as usize];
            entry.is_paired = is_paired;
            entry.speed = if is_paired { paired } else { alone };
            if thread != cpu {
                self.arm(thread);
            }
        }
    }

    /// Gives the world on a CPU its present speed.
    pub(super) fn update_speed(&mut self, cpu: u32) {
        self.settle(cpu);
        let entry = &mut self.cpus[cpu as usize];
        let world = &self.worlds[entry.world as usize];
        let speed = if entry.is_paired {
            world.paired
        } else {
            world.alone
        };
        if speed != entry.speed {
            entry.speed = speed;
            self.arm(cpu);
        }
    }

    /// A vCPU that polls leaves the core to the other thread (`cpu_relax` in KVM's loop), and comes back when it works.
    fn update_quiet(&mut self, cpu: u32) {
        let entry = &mut self.cpus[cpu as usize];
        let is_quiet = self.worlds[entry.world as usize].is_polling();
        if entry.is_quiet == is_quiet {
            return;
        }
        entry.is_quiet = is_quiet;
        let busy = &mut self.busy[self.layout.core[cpu as usize] as usize];
        *busy = if is_quiet { *busy - 1 } else { *busy + 1 };
        self.settle(cpu);
        self.update_core(cpu);
    }

    /// Schedules the moment at which a busy CPU needs a decision.
    pub(super) fn arm(&mut self, cpu: u32) {
        self.update_quiet(cpu);
        let entry = &self.cpus[cpu as usize];
        let world = &self.worlds[entry.world as usize];
        let mut due = if world.has_packets() {
            // They come before the thread: its interrupt took the vCPU.
            self.now + time_of(world.debt + world.packet_todo, entry.speed)
        } else if world.thread != NONE || world.debt > 0 {
            let todo = self
                .threads
                .get(world.thread as usize)
                .map_or(0, |thread| thread.todo);
            self.now + time_of(world.debt + todo, entry.speed)
        } else {
            world.poll_until.max(self.now)
        };
        if world.queued > 0 && world.thread != NONE {
            due = due.min(world.guest_slice_end.max(self.now));
        }
        if self.has_waiting(cpu) {
            due = due.min(entry.slice_end.max(self.now));
        }
        if world.kind == Kind::Vcpu
            && let Some(left) = self.guests[world.guest as usize].limit_left()
        {
            due = due.min(self.now + left);
        }
        let entry = &mut self.cpus[cpu as usize];
        entry.generation = entry.generation.wrapping_add(1);
        let generation = entry.generation;
        self.queue.push(due, Event::Due { cpu, generation });
    }

    /// What a CPU does has come to an end: decides what is next.
    pub(super) fn due(&mut self, cpu: u32) {
        self.settle(cpu);
        let world = self.cpus[cpu as usize].world;
        if world == NONE {
            return;
        }
        self.finish_work(world);
        if self.is_over_limit(world) {
            self.hold_back(world);
            return;
        }
        if self.is_done(world) {
            self.halt(world);
            return;
        }
        if self.now >= self.cpus[cpu as usize].slice_end && self.yield_turn(cpu) {
            return;
        }
        self.turn_guest_slice(world);
        self.arm(cpu);
    }

    /// Whether a running world has nothing left and has polled long enough.
    fn is_done(&self, world: u32) -> bool {
        let world = &self.worlds[world as usize];
        world.is_polling() && self.now >= world.poll_until
    }

    /// Takes a world without work off its CPU.
    fn halt(&mut self, world: u32) {
        let cpu = self.worlds[world as usize].cpu;
        self.stop(cpu, State::Halted);
        self.pick(cpu);
    }

    /// Adds to what a world has to do besides its threads' work.
    pub(super) fn add_debt(&mut self, world: u32, time: Nanos) {
        self.worlds[world as usize].debt += work_of(time);
    }
}

/// What running time says of demand. Next to a busy thread the same work takes longer: without the difference, a crowded
/// host would look as if its VMs wanted more, and policies would chase their own effects.
fn demand(spent: Nanos, is_paired: bool) -> Nanos {
    if is_paired {
        spent * SMT_THREAD_PERMILLE as Nanos / 1000
    } else {
        spent
    }
}
