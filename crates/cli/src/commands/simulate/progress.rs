//! What is told while runs go on, how fast they were, and Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use sim::replicate::Watch;

use crate::failure::Failure;
use crate::say;

/// The parts of a second in which simulated time is counted.
const PER_S: u64 = 1_000_000_000;

/// A bar on standard error, where that is a terminal, and the counts for the last word.
pub(super) struct Progress {
    bar: ProgressBar,
    started: Instant,
    runs: u64,
    ended: AtomicU64,
    events: AtomicU64,
    ns: AtomicU64,
}

impl Progress {
    /// Begins with so many runs of so much simulated time in sum.
    pub(super) fn new(runs: u64, ns: u64) -> Self {
        let bar = ProgressBar::new(ns.max(1));
        bar.set_style(
            ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}, {eta} left")
                .expect("the template is ours"),
        );
        bar.enable_steady_tick(Duration::from_millis(200));
        let progress = Self {
            bar,
            started: Instant::now(),
            runs,
            ended: AtomicU64::new(0),
            events: AtomicU64::new(0),
            ns: AtomicU64::new(0),
        };
        progress.tell();
        progress
    }

    /// More runs than were known.
    pub(super) fn add(&mut self, runs: u64, ns: u64) {
        self.runs += runs;
        self.bar.inc_length(ns);
    }

    /// A line above the bar.
    pub(super) fn line(&self, text: &str) {
        self.bar.suspend(|| say::remark(text));
    }

    /// Takes the bar away and says how fast it went.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
        let wall = self.started.elapsed().as_secs_f64().max(1e-3);
        let simulated = self.ns.load(Ordering::Relaxed) as f64 / PER_S as f64;
        let events = self.events.load(Ordering::Relaxed) as f64;
        say::remark(&format!(
            "{} runs, {simulated:.1} simulated seconds in {wall:.1} s: {:.1} a second, {:.2} million events a second",
            self.ended.load(Ordering::Relaxed),
            simulated / wall,
            events / wall / 1e6,
        ));
    }

    fn tell(&self) {
        let simulated = self.ns.load(Ordering::Relaxed) / PER_S;
        let ended = self.ended.load(Ordering::Relaxed);
        self.bar.set_message(format!(
            "{ended} of {} runs, {simulated} simulated seconds",
            self.runs
        ));
    }
}

impl Watch for Progress {
    fn advanced(&self, ns: u64) {
        let before = self.ns.fetch_add(ns, Ordering::Relaxed);
        self.bar.inc(ns);
        if before / PER_S != (before + ns) / PER_S {
            self.tell();
        }
    }

    fn ended(&self, events: u64) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.events.fetch_add(events, Ordering::Relaxed);
        self.tell();
    }
}

/// A flag that the first Ctrl-C sets; the second ends the process at once.
///
/// # Errors
/// The system does not let us know of signals.
pub(super) fn on_interrupt() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            #[expect(
                clippy::exit,
                reason = "the user asked twice, and no file is half written"
            )]
            std::process::exit(130);
        }
        say::remark("stopping; what is finished follows. Ctrl-C again ends at once.");
    })
    .map_err(|error| Failure::new(format!("cannot watch for Ctrl-C: {error}")))?;
    Ok(stop)
}
