//! Lists of events in one block of memory: what a bucket holds, in the order in which it came.

use std::ops::Range;

use super::Entry;
use crate::time::Nanos;

/// Events in a chunk. A list is read and written in runs of neighbours, so that memory streams, and no list leaves more
/// than this unused. Ours: 8 took a third longer than 16 or 32 with a million events.
pub(super) const CHUNK: usize = 32;
/// No chunk.
const NONE: u32 = u32::MAX;

/// The block. Chunks that lists gave back are used again, the last first: it is still in the cache.
#[derive(Debug, Clone)]
pub(super) struct Chunks<E> {
    entries: Vec<Entry<E>>,
    next: Vec<u32>,
    free: u32,
}

/// Events in the order in which they were added.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    /// The earliest of its times.
    pub(super) earliest: Nanos,
    /// The latest of its times.
    pub(super) latest: Nanos,
    /// How many.
    pub(super) count: u32,
    first: u32,
    last: u32,
    /// Events in the last chunk. A list without chunks says it is full, so that one comparison finds both.
    filled: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self {
        earliest: Nanos::MAX,
        latest: 0,
        count: 0,
        first: NONE,
        last: NONE,
        filled: CHUNK as u32,
    };
}

impl<E: Copy> Chunks<E> {
    /// A block with room for so many chunks.
    pub(super) fn with_capacity(chunks: usize) -> Self {
        Self {
            entries: Vec::with_capacity(chunks * CHUNK),
            next: Vec::with_capacity(chunks),
            free: NONE,
        }
    }

    /// Adds an event to the end of a list.
    #[inline]
    pub(super) fn add(&mut self, list: &mut List, entry: Entry<E>) {
        if list.filled as usize == CHUNK {
            let chunk = self.take(entry);
            if list.first == NONE {
                list.first = chunk;
            } else {
                self.next[list.last as usize] = chunk;
            }
            list.last = chunk;
            list.filled = 0;
        }
        self.entries[list.last as usize * CHUNK + list.filled as usize] = entry;
        list.filled += 1;
        list.count += 1;
        list.earliest = list.earliest.min(entry.at);
        list.latest = list.latest.max(entry.at);
    }

    /// Where the first events of a list are, up to a chunk of them. Nothing when the list is empty.
    #[inline]
    pub(super) fn first(list: &List) -> Option<Range<usize>> {
        let start = list.first as usize * CHUNK;
        let here = (list.count as usize).min(CHUNK);
        (here > 0).then_some(start..start + here)
    }

    /// Takes these first events off the list and gives their chunk back.
    #[inline]
    pub(super) fn drop_first(&mut self, list: &mut List, here: &Range<usize>) {
        let chunk = list.first;
        list.count -= here.len() as u32;
        list.first = self.next[chunk as usize];
        self.next[chunk as usize] = self.free;
        self.free = chunk;
    }

    /// The events at these places.
    #[inline]
    pub(super) fn entries(&self, places: Range<usize>) -> &[Entry<E>] {
        &self.entries[places]
    }

    /// The event at this place.
    #[inline]
    pub(super) fn entry(&self, place: usize) -> Entry<E> {
        self.entries[place]
    }

    /// Events for which there is room.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    #[inline]
    fn take(&mut self, filler: Entry<E>) -> u32 {
        if self.free == NONE {
            return self.grow(filler);
        }
        let chunk = self.free;
        self.free = self.next[chunk as usize];
        chunk
    }

    #[cold]
    fn grow(&mut self, filler: Entry<E>) -> u32 {
        let chunk = self.next.len() as u32;
        self.next.push(NONE);
        self.entries.resize(self.entries.len() + CHUNK, filler);
        chunk
    }
}
