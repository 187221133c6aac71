//! The queue of events to come.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::time::Nanos;

/// Events by time; those of one moment in the order in which they were scheduled.
#[derive(Debug, Clone)]
pub struct Queue<E> {
    heap: BinaryHeap<Entry<E>>,
    scheduled: u64,
}

#[derive(Debug, Clone)]
struct Entry<E> {
    at: Nanos,
    order: u64,
    event: E,
}

impl<E> Queue<E> {
    /// An empty queue with room for so many events.
    pub fn with_capacity(events: usize) -> Self {
        Self {
            heap: BinaryHeap::with_capacity(events),
            scheduled: 0,
        }
    }

    /// Schedules an event.
    pub fn push(&mut self, at: Nanos, event: E) {
        let order = self.scheduled;
        self.scheduled += 1;
        self.heap.push(Entry { at, order, event });
    }

    /// Takes the next event with its time.
    pub fn pop(&mut self) -> Option<(Nanos, E)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }

    /// When the next event is.
    pub fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Events that wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}
