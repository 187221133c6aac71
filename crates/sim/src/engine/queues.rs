//! Where ready worlds wait: by virtual time, those of one time in the order in which they came.

use super::bits::Bits;
use crate::time::Nanos;

/// All queues of a host.
#[derive(Debug, Clone)]
pub(crate) struct Queues {
    all: Vec<Queue>,
    /// Queues in which somebody waits.
    pub(crate) occupied: Bits,
    /// Worlds that wait, over all queues.
    pub(crate) waiting: u32,
    order: u64,
}

/// One queue. The virtual time of its worlds counts from its floor.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    /// Ascending, so that the last one is next.
    entries: Vec<Entry>,
    /// Nobody who runs or waits is behind it.
    pub(crate) floor: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    vtime: u64,
    order: u64,
    pub(crate) world: u32,
    pub(crate) since: Nanos,
}

impl Queues {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            all: vec![Queue::default(); count],
            occupied: Bits::new(count),
            waiting: 0,
            order: 0,
        }
    }

    pub(crate) fn push(&mut self, queue: u32, world: u32, vtime: u64, since: Nanos) {
        let entry = Entry {
            vtime,
            order: self.order,
            world,
            since,
        };
        self.order += 1;
        self.waiting += 1;
        self.occupied.insert(queue);
        let entries = &mut self.all[queue as usize].entries;
        let at = entries.partition_point(|other| (other.vtime, other.order) > (vtime, entry.order));
        entries.insert(at, entry);
    }

    /// Takes the first world of a queue that a test lets pass.
    pub(crate) fn take(&mut self, queue: u32, may: impl Fn(&Entry) -> bool) -> Option<u32> {
        let taken = &mut self.all[queue as usize];
        let at = taken.entries.iter().rposition(may)?;
        let entry = taken.entries.remove(at);
        self.left(queue);
        Some(entry.world)
    }

    /// Virtual time goes on while nobody waits: nobody who runs or waits is behind the floor.
    pub(crate) fn raise_floor(&mut self, queue: u32, least_running: u64) {
        let queue = &mut self.all[queue as usize];
        let first = queue.entries.last().map_or(u64::MAX, |entry| entry.vtime);
        let least = first.min(least_running);
        if least != u64::MAX {
            queue.floor = queue.floor.max(least);
        }
    }

    /// Takes a certain world out.
    pub(crate) fn remove(&mut self, queue: u32, world: u32) {
        let entries = &mut self.all[queue as usize].entries;
        if let Some(at) = entries.iter().position(|entry| entry.world == world) {
            entries.remove(at);
            self.left(queue);
        }
    }

    /// Moves a world that waits to where its claim is now.
    pub(crate) fn rekey(&mut self, queue: u32, world: u32, vtime: u64) {
        let entries = &mut self.all[queue as usize].entries;
        let Some(at) = entries.iter().position(|entry| entry.world == world) else {
            return;
        };
        let entry = Entry {
            vtime,
            ..entries.remove(at)
        };
        let at = entries.partition_point(|other| (other.vtime, other.order) > (vtime, entry.order));
        entries.insert(at, entry);
    }

    fn left(&mut self, queue: u32) {
        self.waiting -= 1;
        if self.all[queue as usize].entries.is_empty() {
            self.occupied.remove(queue);
        }
    }

    pub(crate) fn len(&self, queue: u32) -> u32 {
        self.all[queue as usize].entries.len() as u32
    }

    /// The one that is next.
    pub(crate) fn first(&self, queue: u32) -> Option<&Entry> {
        self.all[queue as usize].entries.last()
    }

    pub(crate) fn floor(&self, queue: u32) -> u64 {
        self.all[queue as usize].floor
    }

    pub(crate) fn count(&self) -> u32 {
        self.all.len() as u32
    }
}

impl Entry {
    /// What it claims the CPU by.
    pub(crate) fn vtime(&self) -> u64 {
        self.vtime
    }
}
