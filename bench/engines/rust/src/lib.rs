//! The hold model: each entity schedules itself again after an exponential delay, for ever. What all engines share is here
//! (and once more in `hold.py` and `simgrid/hold.cpp`): the delays, the count of events, and the clock around the run.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// The mean delay. Times are whole nanoseconds, so that engines with a floating-point clock keep them exactly.
pub const MEAN_NS: f64 = 1e9;

/// What is asked for on the command line: `ENTITIES EVENTS REPEATS`.
pub struct Asked {
    /// Entities, each with one event that waits.
    pub entities: u64,
    /// About so many events are timed at once.
    pub events: u64,
    /// So many times.
    pub repeats: u64,
}

/// What happened so far. The sum of draws is the same in every engine that runs the same events, in whatever order it
/// takes those of one moment.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    /// Events.
    pub events: u64,
    /// Sum of their draws, modulo 2^64.
    pub sum: u64,
}

/// A random number that belongs to an entity and a moment, so that no engine has a generator's state to load.
#[inline]
pub fn draw(now: u64, entity: u64) -> u64 {
    // Multipliers of SplitMix64.
    let mixed =
        (now ^ entity.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 32)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// The exponential delay of a draw, in nanoseconds, at least 1.
#[inline]
pub fn delay(draw: u64) -> u64 {
    let even = ((draw >> 11) as f64 + 0.5) * (1.0 / (1_u64 << 53) as f64);
    1 + (-even.ln() * MEAN_NS) as u64
}

impl Tally {
    /// Counts an event; the delay to the next one of the entity.
    #[inline]
    pub fn count(&mut self, now: u64, entity: u64) -> u64 {
        let draw = draw(now, entity);
        self.events += 1;
        self.sum = self.sum.wrapping_add(draw);
        delay(draw)
    }
}

/// Reads the command line.
pub fn asked() -> Asked {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|it| it.parse().ok())
        .collect();
    let [entities, events, repeats] = numbers[..] else {
        panic!("type ENTITIES EVENTS REPEATS");
    };
    Asked {
        entities,
        events,
        repeats,
    }
}

/// Runs an engine from end to end of spans of time, and prints the document. `run_to` runs all events before a moment.
#[expect(clippy::disallowed_methods, reason = "a benchmark has a clock")]
pub fn measure(engine: &str, asked: &Asked, mut run_to: impl FnMut(u64) -> Tally) {
    let span = |events: u64| (events as f64 * MEAN_NS / asked.entities as f64) as u64;
    // Each entity once on average and at least 20,000 events, so that everything has been touched.
    let mut moment = span(asked.entities.max(20_000));
    let mut before = run_to(moment);
    let mut repeats = Vec::new();
    for _ in 0..asked.repeats {
        moment += span(asked.events);
        let (start, computed) = (Instant::now(), computed_ns());
        let tally = run_to(moment);
        let (ns, wall_ns) = (computed_ns() - computed, start.elapsed().as_nanos());
        repeats.push(format!(
            "{{\"events\": {}, \"ns\": {ns}, \"wall_ns\": {wall_ns}}}",
            tally.events - before.events
        ));
        before = tally;
    }
    let (events, sum) = (before.events, before.sum);
    let repeats = repeats.join(", ");
    println!(
        "{{\"engine\": \"{engine}\", \"events\": {events}, \"sum\": \"{sum:016x}\", \"repeats\": [{repeats}]}}"
    );
}

/// How long this process has computed. Unlike the time of day, it does not count what else ran on the CPU.
fn computed_ns() -> i64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
