//! Where ready worlds wait: by virtual time, those of one time in the order in which they came.

use crate::time::Nanos;

/// All queues of a host.
#[derive(Debug, Clone)]
pub(crate) struct Queues {
    queues: Vec<Queue>,
    /// Worlds that wait, over all queues.
    pub(crate) waiting: u32,
    order: u64,
}

/// One queue. The virtual time of its worlds counts from its floor.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    /// Ascending, so that the last one is next.
    entries: Vec<Entry>,
    /// The latest virtual time at which somebody was taken.
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
            queues: vec![Queue::default(); count],
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
        let entries = &mut self.queues[queue as usize].entries;
        let at = entries.partition_point(|other| (other.vtime, other.order) > (vtime, entry.order));
        entries.insert(at, entry);
    }

    /// Takes the first world of a queue that a test lets pass.
    pub(crate) fn take(&mut self, queue: u32, may: impl Fn(&Entry) -> bool) -> Option<u32> {
        let queue = &mut self.queues[queue as usize];
        let at = queue.entries.iter().rposition(may)?;
        let entry = queue.entries.remove(at);
        queue.floor = queue.floor.max(entry.vtime);
        self.waiting -= 1;
        Some(entry.world)
    }

    /// Takes a certain world out.
    pub(crate) fn remove(&mut self, queue: u32, world: u32) {
        let entries = &mut self.queues[queue as usize].entries;
        if let Some(at) = entries.iter().position(|entry| entry.world == world) {
            entries.remove(at);
            self.waiting -= 1;
        }
    }

    pub(crate) fn len(&self, queue: u32) -> u32 {
        self.queues[queue as usize].entries.len() as u32
    }

    /// The one that is next.
    pub(crate) fn first(&self, queue: u32) -> Option<&Entry> {
        self.queues[queue as usize].entries.last()
    }

    pub(crate) fn floor(&self, queue: u32) -> u64 {
        self.queues[queue as usize].floor
    }

    /// Virtual time does not stand still while a queue is empty: who runs carries it on.
    pub(crate) fn raise(&mut self, queue: u32, vtime: u64) {
        let queue = &mut self.queues[queue as usize];
        queue.floor = queue.floor.max(vtime);
    }

    pub(crate) fn count(&self) -> u32 {
        self.queues.len() as u32
    }
}

impl Entry {
    pub(crate) fn vtime(&self) -> u64 {
        self.vtime
    }
}
