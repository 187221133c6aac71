//! The queue of events to come.
//!
//! # Problem
//!
//! A run is millions of "take the next event, schedule one or two". A simulator holds some hundred to some ten thousand
//! events; most are due within microseconds, some within seconds, and many at the very same moment. A heap pays the
//! logarithm of their number for each of them, in comparisons that no processor can foresee and, when there are many, in
//! memory that no cache holds. Here an event costs about the same however many wait.
//!
//! # Approach
//!
//! Times are integers and mostly grow, so events are sorted by digits, as in a radix heap or a hierarchical timing wheel,
//! and only the few that are due next are sorted by comparison, as in a ladder queue.
//!
//! # Terminology
//!
//! - *Front*: the events up to the moment `front_until`, sorted. The next event is its first.
//! - *Bucket*: events after the front, unsorted, in the order in which they were scheduled. A time belongs to the bucket
//!   `(level, slot)` where `level` is its highest digit that differs from that of `base`, and `slot` is that digit.
//!   A digit has 6 bits, so that one word says which slots of a level hold events.
//! - *Base*: a time not after any event in a bucket. It moves only when the front is empty or there are no buckets.
//!
//! # Algorithm
//!
//! `push`: into the front if the time is not after `front_until`, else to the end of its bucket. A front that grows too
//! long hands its later events back to the buckets.
//! `pop`: the first of the front. When there is none, the lowest slot of the lowest level becomes the front, if its events
//! are few or all of one moment; else they are dealt out again with a base of their own, to lower levels, and so on.
//!
//! # Properties
//!
//! - Exact order by time, then by scheduling order. No number is kept for that: buckets are lists, events of one time are
//!   always in the same bucket, and dealing out, sorting and inserting keep the order of equals.
//! - An event moves at most once for each level, and there are as many levels between an event and the front as digits
//!   are needed to tell the events that wait apart: about 3 for a million of them.
//! - Chunks and buckets are used again: memory grows with the most events that ever waited, not with time.
//!
//! # Why not a heap
//!
//! Measured by `cargo bench -p sim --bench queue` (the hold model, CPU time, criterion's middle estimates), which has the
//! alternatives: the binary heap of the standard library, and an implicit heap of four children with keys of 16 bytes and
//! the events apart. Both took longer from 64 events on, with even and with bursty delays: 1.4 times at least, 4 times and
//! more from 100,000 on. The figures are in `docs/performance.md`. In trials that are not kept, a heap of eight children
//! was slower than that of four, and digits of 3, 4 and 5 bits were slower than those of 6 from 20,000 events on.

mod chunks;
#[cfg(test)]
mod tests;

use chunks::{CHUNK, Chunks, List};

use crate::time::Nanos;

/// Bits of a digit: the slots of a level are the bits of one word.
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = Nanos::BITS.div_ceil(BITS) as usize;
/// The most events of a bucket that are sorted rather than dealt out. Ours: 8 to 32 differ by a fifth at most.
const SORTED_MAX: u32 = 24;
/// The most events in the front, unless they are of one moment. Ours: 24 to 64 differ by a fifth at most.
const FRONT_MAX: usize = 48;
/// Events that stay when the front grew too long. Ours: some, so that it is not empty at once.
const FRONT_KEPT: usize = 12;
/// Chunks for lists that are not full, beside those that the events fill. Ours: two levels of lists.
const SPARE_CHUNKS: usize = 2 * SLOTS;

/// Events by time; those of one moment in the order in which they were scheduled.
///
/// Any time may be scheduled at any moment and is taken in its order. It is fast when no event is earlier than the one
/// taken last, as in every simulation; one that is earlier comes next, with its own time, and only costs more.
#[derive(Debug, Clone)]
pub struct Queue<E> {
    /// Sorted from `head` on; what is before was taken.
    front: Vec<Entry<E>>,
    head: usize,
    /// Every event up to here is in the front, every later one in a bucket.
    front_until: Nanos,
    base: Nanos,
    /// Bit by bit, whether a level has events.
    levels: u32,
    /// For each level bit by bit, whether a slot has events.
    slots: [u64; LEVELS],
    /// By level, then slot.
    buckets: Vec<List>,
    /// Events in buckets.
    bucketed: usize,
    chunks: Chunks<E>,
}

#[derive(Debug, Clone, Copy)]
struct Entry<E> {
    at: Nanos,
    event: E,
}

impl<E: Copy> Queue<E> {
    /// An empty queue with room for so many events; it grows when there are more.
    pub fn with_capacity(events: usize) -> Self {
        Self {
            front: Vec::with_capacity(events.max(2 * FRONT_MAX)),
            head: 0,
            front_until: Nanos::MAX,
            base: 0,
            levels: 0,
            slots: [0; LEVELS],
            buckets: vec![List::EMPTY; LEVELS * SLOTS],
            bucketed: 0,
            chunks: Chunks::with_capacity(events.div_ceil(CHUNK) + SPARE_CHUNKS),
        }
    }

    /// Schedules an event.
    #[inline]
    pub fn push(&mut self, at: Nanos, event: E) {
        let entry = Entry { at, event };
        if at > self.front_until {
            self.add_to_bucket(entry);
        } else {
            self.insert_in_front(entry);
        }
    }

    /// Takes the next event with its time.
    #[inline]
    pub fn pop(&mut self) -> Option<(Nanos, E)> {
        if self.head == self.front.len() && !self.refill_front() {
            return None;
        }
        let entry = self.front[self.head];
        self.head += 1;
        Some((entry.at, entry.event))
    }

    /// Takes the next event with its time, if it is before this moment.
    #[inline]
    pub fn pop_before(&mut self, moment: Nanos) -> Option<(Nanos, E)> {
        if self.next_at()? < moment {
            self.pop()
        } else {
            None
        }
    }

    /// When the next event is.
    #[inline]
    pub fn next_at(&self) -> Option<Nanos> {
        match self.front.get(self.head) {
            Some(entry) => Some(entry.at),
            None if self.levels == 0 => None,
            None => {
                let (level, slot) = self.lowest();
                Some(self.buckets[level * SLOTS + slot].earliest)
            }
        }
    }

    /// Events that wait.
    pub fn len(&self) -> usize {
        self.front.len() - self.head + self.bucketed
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bucket with the next events, by level and slot; there is one.
    #[inline]
    fn lowest(&self) -> (usize, usize) {
        let level = self.levels.trailing_zeros() as usize;
        (level, self.slots[level].trailing_zeros() as usize)
    }

    #[inline]
    fn add_to_bucket(&mut self, entry: Entry<E>) {
        let level = level_of(entry.at ^ self.base);
        let slot = (entry.at >> (BITS as usize * level)) as usize % SLOTS;
        self.levels |= 1 << level;
        self.slots[level] |= 1 << slot;
        self.chunks
            .add(&mut self.buckets[level * SLOTS + slot], entry);
        self.bucketed += 1;
    }

    #[inline]
    fn insert_in_front(&mut self, entry: Entry<E>) {
        if self.front.len() - self.head >= FRONT_MAX {
            self.insert_in_long_front(entry);
            return;
        }
        self.make_room();
        self.front.push(entry);
        let waiting = &mut self.front[self.head..];
        // From the end, because an event of the same time comes after those that wait.
        let mut hole = waiting.len() - 1;
        while hole > 0 && waiting[hole - 1].at > entry.at {
            waiting[hole] = waiting[hole - 1];
            hole -= 1;
        }
        waiting[hole] = entry;
    }

    #[cold]
    fn insert_in_long_front(&mut self, entry: Entry<E>) {
        self.make_room();
        let waiting = &self.front[self.head..];
        let before = waiting.partition_point(|it| it.at <= entry.at);
        let place = self.head + before;
        if self.head > 0 && before <= waiting.len() / 2 {
            self.front.copy_within(self.head..place, self.head - 1);
            self.head -= 1;
            self.front[place - 1] = entry;
        } else {
            self.front.insert(place, entry);
        }
        self.shorten_front();
    }

    /// Uses the places of taken events again. Half of all at least is free then, so that an event moves once on average.
    #[inline]
    fn make_room(&mut self) {
        if self.head >= FRONT_MAX && self.head >= self.front.len() / 2 {
            self.front.drain(..self.head);
            self.head = 0;
        }
    }

    /// Hands all but the first events back to the buckets, unless they are of the same moment as these.
    fn shorten_front(&mut self) {
        if self.levels == 0 {
            self.base = self.front[self.head].at;
        }
        // What is before the base has no bucket.
        let waiting = &self.front[self.head..];
        let until = waiting[FRONT_KEPT].at.max(self.base);
        let kept = self.head + waiting.partition_point(|it| it.at <= until);
        if kept == self.front.len() {
            return;
        }
        self.front_until = until;
        for index in kept..self.front.len() {
            self.add_to_bucket(self.front[index]);
        }
        self.front.truncate(kept);
    }

    /// Makes the next bucket the front. False when there is none.
    fn refill_front(&mut self) -> bool {
        self.front.clear();
        self.head = 0;
        while self.levels != 0 {
            let (level, mut list) = self.take_lowest();
            let spread = list.earliest ^ list.latest;
            if spread == 0 || list.count <= SORTED_MAX {
                let range = if spread == 0 { 0 } else { below(level) };
                self.base = list.earliest & !range;
                // Nobody else waits: the front may take all that comes until it is long.
                let alone = self.levels == 0;
                self.front_until = if alone { Nanos::MAX } else { self.base | range };
                self.load_front(&mut list);
                return true;
            }
            self.base = list.earliest & !below(level_of(spread) + 1);
            self.deal_out(&mut list);
        }
        self.front_until = Nanos::MAX;
        false
    }

    fn take_lowest(&mut self) -> (usize, List) {
        let (level, slot) = self.lowest();
        self.slots[level] &= !(1 << slot);
        if self.slots[level] == 0 {
            self.levels &= !(1 << level);
        }
        let list = std::mem::replace(&mut self.buckets[level * SLOTS + slot], List::EMPTY);
        self.bucketed -= list.count as usize;
        (level, list)
    }

    fn load_front(&mut self, list: &mut List) {
        while let Some(here) = Chunks::<E>::first(list) {
            self.front
                .extend_from_slice(self.chunks.entries(here.clone()));
            self.chunks.drop_first(list, &here);
        }
        if list.earliest != list.latest {
            sort(&mut self.front);
        }
    }

    fn deal_out(&mut self, list: &mut List) {
        while let Some(here) = Chunks::<E>::first(list) {
            for index in here.clone() {
                self.add_to_bucket(self.chunks.entry(index));
            }
            self.chunks.drop_first(list, &here);
        }
    }
}

/// The level of the highest bit in which two times differ; the lowest when they do not.
#[inline]
fn level_of(difference: u64) -> usize {
    ((difference | 1).ilog2() / BITS) as usize
}

/// Ones in all digits below a level; there are none above the highest.
fn below(level: usize) -> u64 {
    let bits = BITS * level as u32;
    1_u64.checked_shl(bits).map_or(u64::MAX, |bit| bit - 1)
}

/// By insertion: few events, nearly sorted as often as not, and equals must stay in their order.
fn sort<E: Copy>(entries: &mut [Entry<E>]) {
    for end in 1..entries.len() {
        let entry = entries[end];
        let mut hole = end;
        while hole > 0 && entries[hole - 1].at > entry.at {
            entries[hole] = entries[hole - 1];
            hole -= 1;
        }
        entries[hole] = entry;
    }
}
