//! NeXosim: a model for each entity, which schedules its own input, on the single-threaded executor.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use engines::{Tally, asked, measure};
use nexosim::model::{Context, Model, schedulable};
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use serde::{Deserialize, Serialize};

/// Models may run on any thread, so what they share is atomic; on one thread, loads and stores are enough.
static EVENTS: AtomicU64 = AtomicU64::new(0);
static SUM: AtomicU64 = AtomicU64::new(0);

fn tally() -> Tally {
    Tally {
        events: EVENTS.load(Relaxed),
        sum: SUM.load(Relaxed),
    }
}

#[derive(Serialize, Deserialize)]
struct Entity {
    number: u64,
}

#[Model]
impl Entity {
    #[nexosim(init)]
    async fn init(&mut self, context: &Context<Self>) {
        self.wake((), context).await;
    }

    #[nexosim(schedulable)]
    async fn wake(&mut self, _: (), context: &Context<Self>) {
        let now = context.time();
        let now = now.as_secs() as u64 * 1_000_000_000 + u64::from(now.subsec_nanos());
        let mut tally = tally();
        let delay = Duration::from_nanos(tally.count(now, self.number));
        EVENTS.store(tally.events, Relaxed);
        SUM.store(tally.sum, Relaxed);
        context
            .schedule_event(delay, schedulable!(Self::wake), ())
            .expect("a delay is not in the past");
    }
}

fn main() {
    let asked = asked();
    let mut init = SimInit::with_num_threads(1);
    for number in 0..asked.entities {
        // An entity never has more than one message waiting.
        init = init.add_model(Entity { number }, Mailbox::with_capacity(1), "entity");
    }
    let mut simulation = init
        .init(MonotonicTime::EPOCH)
        .expect("entities only schedule events");
    measure("nexosim", &asked, |moment| {
        // Up to a time and at it.
        let until = MonotonicTime::EPOCH + Duration::from_nanos(moment - 1);
        simulation
            .step_until(until)
            .expect("entities only schedule events");
        tally()
    });
}
