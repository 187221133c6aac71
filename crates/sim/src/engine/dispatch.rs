//! Which CPU for this wake-up, and who runs next.

use std::ops::Range;

use policy::hot::{self, Idle, Seat};

use super::bits::Bits;
use super::queues::Entry;
use super::world::{Kind, State};
use super::{Event, NONE, Simulator};
use crate::hypervisor::{self, First, WholeCores};
use crate::time::{MS, Nanos};

/// Between two rounds in which idle CPUs look for work: the shortest period of any hypervisor here.
pub(super) const BALANCE_NS: Nanos = MS;

/// How far before all others the vCPUs of a VM come that has had less than its reservation: more than shares can be apart.
const PROMISED_AHEAD_NS: u64 = 60_000 * MS;

impl Simulator<'_> {
    /// A halted, stopped or held back world wants to run: on an idle CPU at once, or in a queue.
    pub(super) fn wake(&mut self, world: u32) {
        self.set_state(world, State::Ready);
        self.take_credit(world);
        let seat = match self.hypervisor.queues {
            hypervisor::Queues::PerCpu => self.search_cpu(world),
            hypervisor::Queues::PerLlc => self.search_llc(world),
        };
        match seat {
            Ok(cpu) => self.start_from_queue(world, cpu),
            Err(queue) => self.enqueue(world, queue),
        }
    }

    /// Starts a ready world that may wait in no queue; its virtual time follows it to the new queue.
    pub(super) fn start_from_queue(&mut self, world: u32, cpu: u32) {
        self.rebase(world, self.queue_of(cpu));
        self.start(world, cpu);
    }

    /// Lets a ready world wait.
    pub(super) fn enqueue(&mut self, world: u32, queue: u32) {
        self.raise_floor(queue);
        self.rebase(world, queue);
        let entry = &self.worlds[world as usize];
        let (mut vtime, guest, kind) = (entry.vtime, entry.guest, entry.kind);
        if kind == Kind::Vcpu {
            self.watch_skew(guest);
            vtime = self.claim(world);
            self.guests[guest as usize].slide(self.now);
        }
        self.queues.push(queue, world, vtime, self.now);
        self.preempt(world, vtime, queue);
        if !self.is_balancing {
            self.is_balancing = true;
            self.queue.push(self.now + BALANCE_NS, Event::Balance);
        }
    }

    /// The virtual time by which a world claims a CPU: a reservation comes before all shares, as if its VM were far behind.
    pub(super) fn claim(&self, world: u32) -> u64 {
        let entry = &self.worlds[world as usize];
        match self.guests.get(entry.guest as usize) {
            Some(guest) if entry.kind == Kind::Vcpu && guest.is_owed(self.now) => {
                entry.vtime.saturating_sub(PROMISED_AHEAD_NS)
            }
            _ => entry.vtime,
        }
    }

    /// Gives an idle CPU its next world, if there is one for it.
    pub(super) fn pick(&mut self, cpu: u32) {
        if self.queues.waiting == 0 {
            return;
        }
        let queue = self.queue_of(cpu);
        if let Some(world) = self.take_for(cpu, queue) {
            self.start(world, cpu);
            return;
        }
        self.pull_when_idle(cpu);
    }

    /// Takes the first world of a queue that may run on a CPU.
    pub(super) fn take_for(&mut self, cpu: u32, queue: u32) -> Option<u32> {
        let (worlds, masks) = (&self.worlds, &self.masks);
        let may = |world: u32| masks[worlds[world as usize].mask as usize].contains(cpu);
        self.queues.take(queue, |entry| may(entry.world))
    }

    /// The slice of a world on a CPU is over: whether somebody else had his turn.
    pub(super) fn yield_turn(&mut self, cpu: u32) -> bool {
        let queue = self.queue_of(cpu);
        let running = self.cpus[cpu as usize].world;
        let first = self.queues.first(queue).map(Entry::vtime);
        // Whoever has had less than all who wait goes on.
        let next = match first {
            Some(vtime) if vtime > self.claim(running) => None,
            _ => self.take_for(cpu, queue),
        };
        // Who has waited elsewhere for longer than a slice is taken over (fairness between queues).
        let next = next.or_else(|| self.take_starving(cpu));
        let slice = self.slice_of(cpu);
        let Some(next) = next else {
            self.cpus[cpu as usize].slice_end = self.now + slice;
            return false;
        };
        self.stop(cpu, State::Ready);
        self.rebase(next, queue);
        self.start(next, cpu);
        self.enqueue(running, queue);
        true
    }

    /// Lets a woken world that is far behind in virtual time take the place of the one most ahead.
    pub(super) fn preempt(&mut self, world: u32, woken_vtime: u64, queue: u32) {
        let mask = &self.masks[self.worlds[world as usize].mask as usize];
        let mut victim: Option<(u64, u32)> = None;
        for cpu in self.cpus_of_queue(queue) {
            let running = self.cpus[cpu as usize].world;
            if running == NONE || !mask.contains(cpu) {
                continue;
            }
            let vtime = self.claim(running);
            if hot::preempts(vtime, woken_vtime, self.hypervisor.preempt_ns)
                && victim.is_none_or(|(most, _)| vtime > most)
            {
                victim = Some((vtime, cpu));
            }
        }
        let is_first = self.queues.len(queue) == 1;
        if let Some((_, cpu)) = victim {
            self.cpus[cpu as usize].slice_end = self.now;
            self.arm(cpu);
        } else if is_first {
            // Whoever ran without anybody waiting gets a slice from now on.
            for cpu in self.cpus_of_queue(queue) {
                if self.cpus[cpu as usize].world != NONE {
                    let slice = self.slice_of(cpu);
                    let entry = &mut self.cpus[cpu as usize];
                    entry.slice_end = (entry.started + slice).max(self.now + slice / 4);
                    self.arm(cpu);
                }
            }
        }
    }

    /// A CPU of its own for a woken world, or the queue where it waits: dispatchers with a queue for each CPU. They look at
    /// the last CPU, then in one LLC; from further away work is pulled, in its time.
    fn search_cpu(&mut self, world: u32) -> Result<u32, u32> {
        let entry = &self.worlds[world as usize];
        let (last, wake) = (entry.cpu, self.hypervisor.wake);
        let allowed = &self.masks[entry.mask as usize];
        let wants_core = self.wants_whole_core(wake.whole_cores);
        let llc = match wake.first {
            First::Home => entry.home_llc,
            First::Last => self.layout.llc_of(last),
        };
        let range = self.layout.llcs[llc as usize].clone();
        let may_last =
            range.contains(&last) && allowed.contains(last) && self.idle_threads.contains(last);
        if may_last && (!wants_core || self.idle_cores.contains(last)) {
            return Ok(last);
        }
        if let Some(cpu) = self.search_candidates(world, range.clone(), wants_core) {
            return Ok(cpu);
        }
        Err(self.shortest_queue(world, range))
    }

    /// At most so many idle CPUs of a range, from the last one on: the first of an idle core, otherwise the first.
    fn search_candidates(
        &mut self,
        world: u32,
        range: Range<u32>,
        wants_core: bool,
    ) -> Option<u32> {
        // Who does not look for cores begins anywhere: the next CPU would be the other thread of a busy core.
        let anywhere = range.start + self.dice.below(range.len() as u32);
        let entry = &self.worlds[world as usize];
        let allowed = &self.masks[entry.mask as usize];
        let mut at = if wants_core { entry.cpu } else { anywhere };
        let mut found = None;
        for _ in 0..self.hypervisor.wake.candidates.min(range.len() as u32) {
            let Some(cpu) = self.idle_threads.next_common(allowed, range.clone(), at) else {
                break;
            };
            if !wants_core || self.idle_cores.contains(cpu) {
                return Some(cpu);
            }
            found = found.or(Some(cpu));
            at = cpu + 1;
        }
        found
    }

    /// The shortest queue of a range, the last CPU's if it is one of them; any allowed CPU's if the range has none.
    fn shortest_queue(&mut self, world: u32, range: Range<u32>) -> u32 {
        let entry = &self.worlds[world as usize];
        let allowed = &self.masks[entry.mask as usize];
        let inside = range.filter(|&cpu| allowed.contains(cpu));
        let found = inside.min_by_key(|&cpu| (self.queues.len(cpu), cpu != entry.cpu, cpu));
        let all = 0..self.layout.len() as u32;
        let draw = self.dice.below(all.end);
        found
            .or_else(|| allowed.next_common(allowed, all, draw))
            .unwrap_or(0)
    }

    /// The same with a queue for each LLC, by the rules of `policy/hot/dispatch.h`.
    fn search_llc(&mut self, world: u32) -> Result<u32, u32> {
        let entry = &self.worlds[world as usize];
        let (home, last) = (entry.home_llc, entry.cpu);
        let allowed = &self.masks[entry.mask as usize];
        let range = &self.layout.llcs[home as usize];
        let in_home = |idle: &Bits| idle.next_common(allowed, range.clone(), last);
        let is_last =
            |idle: &Bits| range.contains(&last) && allowed.contains(last) && idle.contains(last);
        let (core, thread) = (in_home(&self.idle_cores), in_home(&self.idle_threads));
        let away = if thread.is_none() {
            self.nearest_idle(world)
        } else {
            None
        };
        let away_core = away.is_some_and(|(cpu, _)| self.idle_cores.contains(cpu));
        let flags = [
            (is_last(&self.idle_cores), Idle::PREV_CORE),
            (is_last(&self.idle_threads), Idle::PREV_THREAD),
            (core.is_some(), Idle::HOME_CORE),
            (thread.is_some(), Idle::HOME_THREAD),
            (away_core, Idle::AWAY_CORE),
            (away.is_some(), Idle::AWAY_THREAD),
        ];
        let found = flags.into_iter().filter(|(is_idle, _)| *is_idle);
        let idle = found.fold(Idle::NONE, |sum, (_, flag)| sum | flag);
        let distance = away.map_or(0, |(_, class)| class);
        let waited = self
            .queues
            .first(home)
            .map_or(0, |first| self.now - first.since);
        match hot::seat(idle, distance.into(), waited, self.queues.len(home)) {
            Seat::PrevCore | Seat::PrevThread => Ok(last),
            Seat::HomeCore => core.ok_or(home),
            Seat::HomeThread => thread.ok_or(home),
            Seat::AwayCore | Seat::AwayThread => away.map(|(cpu, _)| cpu).ok_or(home),
            Seat::Wait => Err(home),
        }
    }

    /// The nearest idle CPU outside a world's home, a whole core if there is one, with its distance class.
    fn nearest_idle(&self, world: u32) -> Option<(u32, u8)> {
        let entry = &self.worlds[world as usize];
        let allowed = &self.masks[entry.mask as usize];
        let mut found = None;
        for &llc in &self.layout.near[entry.home_llc as usize][1..] {
            let class = self.layout.class(entry.home_llc, llc);
            if found.is_some_and(|(_, nearest)| class > nearest) {
                break;
            }
            let range = self.layout.llcs[llc as usize].clone();
            if let Some(cpu) = self.idle_cores.first_common(allowed, range.clone()) {
                return Some((cpu, class));
            }
            found = found.or_else(|| {
                let thread = self.idle_threads.first_common(allowed, range);
                thread.map(|cpu| (cpu, class))
            });
        }
        found
    }

    fn wants_whole_core(&self, when: WholeCores) -> bool {
        match when {
            WholeCores::Always => true,
            WholeCores::UpTo(percent) => {
                let all = self.layout.len() as u32;
                (all - self.idle_threads.len()) * 100 <= all * percent
            }
        }
    }

    /// The queue of a CPU.
    pub(super) fn queue_of(&self, cpu: u32) -> u32 {
        match self.hypervisor.queues {
            hypervisor::Queues::PerCpu => cpu,
            hypervisor::Queues::PerLlc => self.layout.llc_of(cpu),
        }
    }

    /// The CPUs of a queue.
    pub(super) fn cpus_of_queue(&self, queue: u32) -> Range<u32> {
        match self.hypervisor.queues {
            hypervisor::Queues::PerCpu => queue..queue + 1,
            hypervisor::Queues::PerLlc => self.layout.llcs[queue as usize].clone(),
        }
    }

    /// Whether somebody waits for a CPU.
    pub(super) fn has_waiting(&self, cpu: u32) -> bool {
        self.queues.waiting > 0 && self.queues.len(self.queue_of(cpu)) > 0
    }

    pub(super) fn slice_of(&self, cpu: u32) -> Nanos {
        match self.hypervisor.queues {
            hypervisor::Queues::PerCpu => self.hypervisor.slice_ns,
            hypervisor::Queues::PerLlc => {
                let queue = self.queue_of(cpu);
                let cpus = self.cpus_of_queue(queue).len() as u32;
                hot::slice(self.hypervisor.slice_ns, self.queues.len(queue), cpus)
            }
        }
    }

    /// Carries the virtual time of a queue on.
    pub(super) fn raise_floor(&mut self, queue: u32) {
        let running = self.cpus_of_queue(queue).filter_map(|cpu| {
            let world = self.cpus[cpu as usize].world;
            (world != NONE).then(|| self.worlds[world as usize].vtime)
        });
        let least = running.min().unwrap_or(u64::MAX);
        self.queues.raise_floor(queue, least);
    }

    /// Translates the virtual time of a world to another queue's. It is at most `Cpu.BoundLagQuanta` (8) slices ahead of
    /// who is there already.
    fn rebase(&mut self, world: u32, queue: u32) {
        let floor = self.queues.floor(queue);
        let entry = &mut self.worlds[world as usize];
        let slice = self.hypervisor.slice_ns;
        if entry.queue == NONE {
            entry.vtime = floor;
        } else if entry.queue != queue {
            let moved = hot::move_vtime(entry.vtime, self.queues.floor(entry.queue), floor);
            entry.vtime = moved.min(floor.saturating_add(8 * slice));
        }
        entry.queue = queue;
    }

    /// A world that slept comes back to its queue: the credit of a long sleep is taken from it.
    fn take_credit(&mut self, world: u32) {
        let queue = self.worlds[world as usize].queue;
        if queue != NONE {
            self.raise_floor(queue);
            let floor = self.queues.floor(queue);
            let entry = &mut self.worlds[world as usize];
            entry.vtime = hot::wake_vtime(entry.vtime, floor, self.hypervisor.slice_ns);
        }
    }
}
