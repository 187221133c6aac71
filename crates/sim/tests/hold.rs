//! The hold model: each entity schedules itself again after a random delay, for ever. Two runs are the same run.

use sim::queue::Queue;
use sim::rng::{Law, Purpose, Stream};
use sim::time::{MS, Nanos, US};

/// A hash over all events, in their order.
fn trace(seed: u64, entities: u32, events: u32) -> u64 {
    let mut delays = Stream::new(seed, Purpose::Arrivals, 0);
    // Few different delays, so that many events meet at one moment and their order is the queue's choice.
    let mut delay = || match delays.below(4) {
        0 => MS,
        1 => 2 * MS,
        _ => delays.draw(Law::Exponential { mean_ns: 100 * US }),
    };
    let mut queue = Queue::with_capacity(entities as usize);
    for entity in 0..entities {
        queue.push(delay(), entity);
    }
    let mut hash = 0_u64;
    for _ in 0..events {
        let (now, entity): (Nanos, u32) = queue.pop().expect("each event schedules another");
        hash = (hash ^ now ^ u64::from(entity) << 40).wrapping_mul(0x0000_0100_0000_01b3);
        queue.push(now + delay(), entity);
    }
    assert_eq!(queue.len(), entities as usize);
    hash
}

#[test]
fn equal_seeds_give_equal_traces() {
    for entities in [1, 64, 5_000] {
        assert_eq!(trace(7, entities, 50_000), trace(7, entities, 50_000));
        assert_ne!(trace(7, entities, 50_000), trace(8, entities, 50_000));
    }
}
