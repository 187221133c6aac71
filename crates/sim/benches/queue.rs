//! Time of one event of the hold model: take the next, schedule one more. Beside our queue two heaps, the alternatives it
//! was chosen over. Times are those that the process computed, so that other programs disturb them little. Figures and how
//! they were taken are in docs/performance.md.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rustix::time::{ClockId, clock_gettime};
use sim::queue::Queue;
use sim::rng::{Law, Purpose, Stream};
use sim::time::{MS, Nanos, S, US};

/// As large as an event may be.
type Event = [u64; 3];

/// Delays are drawn before the clock runs, and used over and over.
const DELAYS: usize = 1 << 14;

trait Events {
    const NAME: &'static str;
    fn with_capacity(events: usize) -> Self;
    fn push(&mut self, at: Nanos, event: Event);
    fn pop(&mut self) -> (Nanos, Event);
}

impl Events for Queue<Event> {
    const NAME: &'static str = "queue";

    fn with_capacity(events: usize) -> Self {
        Queue::with_capacity(events)
    }

    fn push(&mut self, at: Nanos, event: Event) {
        Queue::push(self, at, event);
    }

    fn pop(&mut self) -> (Nanos, Event) {
        Queue::pop(self).expect("each event schedules another")
    }
}

/// The heap of the standard library.
struct BinaryHeapOf {
    heap: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    scheduled: u64,
}

impl Events for BinaryHeapOf {
    const NAME: &'static str = "binary-heap";

    fn with_capacity(events: usize) -> Self {
        Self {
            heap: BinaryHeap::with_capacity(events),
            scheduled: 0,
        }
    }

    fn push(&mut self, at: Nanos, event: Event) {
        self.scheduled += 1;
        self.heap.push(Reverse((at, self.scheduled, event)));
    }

    fn pop(&mut self) -> (Nanos, Event) {
        let Reverse((at, _, event)) = self.heap.pop().expect("each event schedules another");
        (at, event)
    }
}

/// Four children for each parent, keys of 16 bytes (time, order, place of the event), events apart.
struct FourAryHeap {
    keys: Vec<u128>,
    events: Vec<Event>,
    free: Vec<usize>,
    scheduled: u128,
}

const CHILDREN: usize = 4;
const PLACE_BITS: u32 = 28;

impl Events for FourAryHeap {
    const NAME: &'static str = "four-ary-heap";

    fn with_capacity(events: usize) -> Self {
        Self {
            keys: Vec::with_capacity(events),
            events: Vec::with_capacity(events),
            free: Vec::with_capacity(events),
            scheduled: 0,
        }
    }

    fn push(&mut self, at: Nanos, event: Event) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.events.push(event);
            self.events.len() - 1
        });
        self.events[place] = event;
        self.scheduled += 1;
        let key = u128::from(at) << 64 | self.scheduled << PLACE_BITS | place as u128;
        let mut hole = self.keys.len();
        self.keys.push(key);
        while hole > 0 {
            let parent = (hole - 1) / CHILDREN;
            if self.keys[parent] <= key {
                break;
            }
            self.keys[hole] = self.keys[parent];
            hole = parent;
        }
        self.keys[hole] = key;
    }

    fn pop(&mut self) -> (Nanos, Event) {
        let moved = self.keys.pop().expect("each event schedules another");
        let first = self.keys.first().copied().unwrap_or(moved);
        let mut hole = 0;
        loop {
            let children =
                hole * CHILDREN + 1..(hole * CHILDREN + 1 + CHILDREN).min(self.keys.len());
            let Some(least) = children.min_by_key(|&child| self.keys[child]) else {
                break;
            };
            if self.keys[least] >= moved {
                break;
            }
            self.keys[hole] = self.keys[least];
            hole = least;
        }
        if let Some(place) = self.keys.get_mut(hole) {
            *place = moved;
        }
        let place = (first & ((1 << PLACE_BITS) - 1)) as usize;
        self.free.push(place);
        ((first >> 64) as Nanos, self.events[place])
    }
}

/// Even delays, the usual hold model.
fn exponential(stream: &mut Stream) -> Nanos {
    stream.draw(Law::Exponential { mean_ns: S })
}

/// Delays of a host: 90 % near, 9 % at the end of a tick, 1 % at the next rebalancing. Shares are ours.
fn bursty(stream: &mut Stream) -> Nanos {
    match stream.below(100) {
        0 => 2 * S,
        1..10 => 4 * MS,
        _ => US + u64::from(stream.below(100_000)),
    }
}

fn hold<Q: Events>(criterion: &mut Criterion, law: (&str, fn(&mut Stream) -> Nanos)) {
    let mut group = criterion.benchmark_group(format!("hold/{}", law.0));
    group.throughput(Throughput::Elements(1));
    for entities in [64, 1_000, 10_000, 100_000, 1_000_000] {
        let mut stream = Stream::new(1, Purpose::Arrivals, 0);
        let delays: Vec<Nanos> = (0..DELAYS).map(|_| law.1(&mut stream)).collect();
        let mut queue = Q::with_capacity(entities);
        for entity in 0..entities {
            queue.push(law.1(&mut stream), [entity as u64, 1, 2]);
        }
        let mut events = 0_usize;
        let mut step = || {
            let (now, event) = queue.pop();
            queue.push(now + delays[events % DELAYS], event);
            events += 1;
            now
        };
        // Twice around: as full and as worn as it will be.
        for _ in 0..2 * entities {
            step();
        }
        group.bench_function(BenchmarkId::new(Q::NAME, entities), |bencher| {
            bencher.iter_custom(|count| {
                let before = computed();
                for _ in 0..count {
                    black_box(step());
                }
                computed().saturating_sub(before)
            });
        });
    }
    group.finish();
}

/// How long this process has computed.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::from_nanos((time.tv_sec * 1_000_000_000 + time.tv_nsec).cast_unsigned())
}

fn queues(criterion: &mut Criterion) {
    type Draw = fn(&mut Stream) -> Nanos;
    let laws: [(&str, Draw); 2] = [("exponential", exponential), ("bursty", bursty)];
    for law in laws {
        hold::<Queue<Event>>(criterion, law);
        hold::<BinaryHeapOf>(criterion, law);
        hold::<FourAryHeap>(criterion, law);
    }
}

criterion_group!(benches, queues);
criterion_main!(benches);
