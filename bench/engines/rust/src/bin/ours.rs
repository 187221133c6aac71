//! Ours: the queue of the crate `sim` under a loop over a closed set of events, as its simulator runs it.

use engines::{Tally, asked, measure};
use sim::queue::Queue;

/// As large as the simulator's events may be.
#[derive(Clone, Copy)]
enum Event {
    Wake { entity: u64, _rest: [u64; 2] },
}

fn main() {
    const { assert!(size_of::<Event>() <= 24) };
    let asked = asked();
    let mut tally = Tally::default();
    let mut queue = Queue::with_capacity(asked.entities as usize);
    for entity in 0..asked.entities {
        queue.push(
            tally.count(0, entity),
            Event::Wake {
                entity,
                _rest: [0; 2],
            },
        );
    }
    measure("ours", &asked, |moment| {
        while let Some((now, event)) = queue.pop_before(moment) {
            match event {
                Event::Wake { entity, .. } => queue.push(now + tally.count(now, entity), event),
            }
        }
        tally
    });
}
