//! The books: where the time of worlds went, what happened, and the hash that proves that two runs are equal.

use super::event::Event;
use super::world::{Kind, State, World};
use super::{NONE, Simulator};
use crate::outcome::{Moves, Segment, Times};
use crate::time::Nanos;

/// What is recorded besides the figures of worlds and programs.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) events: u64,
    pub(crate) hash: u64,
    pub(crate) segments: Vec<Segment>,
    timeline: Option<(Nanos, Nanos)>,
    pub(crate) measured_from: Nanos,
    pub(crate) rebalances: u64,
    pub(crate) unsound_plans: u64,
    /// VMs that came and found no place.
    pub(crate) refused: Vec<u32>,
}

/// Segments that a timeline has at most: a picture with more shows nothing, and memory stays bounded.
const MOST_SEGMENTS: usize = 2_000_000;

impl Record {
    pub(crate) fn new(timeline: Option<(Nanos, Nanos)>) -> Self {
        Self {
            events: 0,
            hash: 0xcbf2_9ce4_8422_2325,
            segments: Vec::new(),
            timeline,
            measured_from: 0,
            rebalances: 0,
            unsound_plans: 0,
            refused: Vec::new(),
        }
    }

    /// Counts an event and mixes it into the hash (multiply and rotate, as `FxHash` does).
    pub(crate) fn count(&mut self, at: Nanos, event: Event) {
        self.events += 1;
        let (kind, what) = event.code();
        for word in [at ^ kind << 58, what] {
            self.hash = (self.hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }

    pub(crate) fn segment(&mut self, world: &World, cpu: u32, from_ns: Nanos, to_ns: Nanos) {
        let Some((start, end)) = self.timeline else {
            return;
        };
        let (from_ns, to_ns) = (from_ns.max(start), to_ns.min(end));
        if from_ns < to_ns && self.segments.len() < MOST_SEGMENTS {
            self.segments.push(Segment {
                cpu,
                vm: world.guest,
                vcpu: (world.kind == Kind::Vcpu).then_some(world.vcpu),
                from_ns,
                to_ns,
            });
        }
    }
}

impl Simulator<'_> {
    /// The only way in which a world changes its state.
    pub(super) fn set_state(&mut self, world: u32, state: State) {
        let now = self.now;
        let entry = &mut self.worlds[world as usize];
        let spent = now - entry.since;
        match entry.state {
            // Running time is booked by the CPU.
            State::Off | State::Running => {}
            State::Halted => entry.time.halted_ns += spent,
            State::Ready => {
                entry.time.ready_ns += spent;
                entry.wanted_ns += spent;
                entry.lag_ns += spent;
            }
            State::Limited => {
                entry.time.ready_ns += spent;
                entry.time.limited_ns += spent;
            }
            State::Costopped => {
                entry.time.costop_ns += spent;
                entry.wanted_ns += spent;
                entry.lag_ns += spent;
            }
        }
        entry.state = state;
        entry.since = now;
        if entry.kind == Kind::Vcpu {
            let slowest = &mut self.guests[entry.guest as usize].lag_ns;
            *slowest = entry.lag_ns.max(*slowest);
        }
    }

    /// Books everything up to now, without changing anything.
    pub(super) fn settle_all(&mut self) {
        for cpu in 0..self.cpus.len() as u32 {
            self.settle(cpu);
        }
        for world in 0..self.worlds.len() as u32 {
            let state = self.worlds[world as usize].state;
            self.set_state(world, state);
        }
    }

    /// The warm-up is over: all figures start from nothing.
    pub(super) fn warmed_up(&mut self) {
        self.settle_all();
        for world in &mut self.worlds {
            world.time = Times::default();
            world.moves = Moves::default();
        }
        for cpu in &mut self.cpus {
            cpu.busy_ns = 0;
        }
        for program in &mut self.programs {
            program.forget();
        }
        self.machine.forget();
        self.record.rebalances = 0;
        self.record.measured_from = self.now;
    }

    /// Closes the spans of what runs at the end.
    pub(super) fn close_segments(&mut self) {
        for cpu in 0..self.cpus.len() as u32 {
            let entry = &self.cpus[cpu as usize];
            if entry.world != NONE {
                let world = &self.worlds[entry.world as usize];
                self.record.segment(world, cpu, entry.started, self.now);
            }
        }
        let by_place = |segment: &Segment| (segment.cpu, segment.from_ns);
        self.record.segments.sort_by_key(by_place);
    }
}
