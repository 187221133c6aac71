//! Many runs side by side: every seed on every case, on all CPUs of the machine that simulates.
//!
//! All cases see the same seeds, so that they can be compared run by run ("common random numbers"). Seeds come before
//! cases: whoever stops early has whole seeds. What comes out does not depend on the number of threads or on their order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use model::Host;
use model::placement::Reserve;
use policy::policies;
use policy::reconcile::Policy;

use crate::engine::{Setting, SimulationError, run_with};
use crate::hypervisor::Hypervisor;
use crate::outcome::Outcome;
use crate::spec::RunSpec;
use crate::time::Nanos;

/// What is simulated, and under which policy.
#[derive(Debug, Clone)]
pub struct Case {
    /// The machine.
    pub host: Arc<Host>,
    /// What of it is not for VMs.
    pub reserve: Reserve,
    /// How vCPUs are dispatched.
    pub hypervisor: Hypervisor,
    /// Name of a placement policy, one of [`policies::NAMES`].
    pub policy: &'static str,
    /// VMs, workloads and times.
    pub spec: RunSpec,
}

/// What runs tell while they run. All of it is called from several threads at once.
pub trait Watch: Sync {
    /// So much simulated time more is done.
    fn advanced(&self, ns: Nanos);
    /// A run came to its end after so many events.
    fn ended(&self, events: u64);
}

/// Nobody watches.
impl Watch for () {
    fn advanced(&self, _ns: Nanos) {}
    fn ended(&self, _events: u64) {}
}

/// What became of one run.
#[derive(Debug)]
pub enum Ran<T> {
    /// It came to its end.
    Done(T),
    /// It could not start.
    Failed(SimulationError),
    /// It was stopped, or never began.
    Stopped,
}

/// The policy of a name, as a machine wants it that plans every two seconds; `None` for a name that is none.
pub fn policy_of(name: &str) -> Option<Box<dyn Policy>> {
    match name {
        "best" => Some(Box::new(policy::place::Best)),
        _ => policies::named(name),
    }
}

/// Runs all cases with all seeds on so many threads (0 is one for each CPU), and keeps of every outcome what `keep` makes of
/// it, given the index of the case and of the seed. The result is by case, then by seed. Once `stop` is set, no run begins
/// and those that run end soon.
pub fn replicate<T: Send>(
    (cases, seeds): (&[Case], &[u64]),
    threads: usize,
    stop: &AtomicBool,
    watch: &dyn Watch,
    keep: &(dyn Fn(usize, usize, Outcome) -> T + Sync),
) -> Vec<Vec<Ran<T>>> {
    let jobs = cases.len() * seeds.len();
    let next = AtomicUsize::new(0);
    // One run after the other in the order of seeds; a parallel iterator would begin in the middle, too.
    let work = || {
        let mut done = Vec::new();
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= jobs || stop.load(Ordering::Relaxed) {
                return done;
            }
            let (seed, case) = (job / cases.len(), job % cases.len());
            let ran = match one(&cases[case], seeds[seed], stop, watch) {
                Ok(Some(outcome)) => Ran::Done(keep(case, seed, outcome)),
                Ok(None) => Ran::Stopped,
                Err(error) => Ran::Failed(error),
            };
            done.push((case, seed, ran));
        }
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.min(jobs))
        .build();
    let done: Vec<Vec<(usize, usize, Ran<T>)>> = match pool {
        Ok(pool) => pool.broadcast(|_| work()),
        // No thread can be had: the one that asks does it all.
        Err(_) => vec![work()],
    };
    let empty = || seeds.iter().map(|_| Ran::Stopped).collect();
    let mut all: Vec<Vec<Ran<T>>> = cases.iter().map(|_| empty()).collect();
    for (case, seed, ran) in done.into_iter().flatten() {
        all[case][seed] = ran;
    }
    all
}

fn one(
    case: &Case,
    seed: u64,
    stop: &AtomicBool,
    watch: &dyn Watch,
) -> Result<Option<Outcome>, SimulationError> {
    let Some(policy) = policy_of(case.policy) else {
        return Err(SimulationError::Spec(format!(
            "there is no policy called {:?}",
            case.policy
        )));
    };
    let setting = Setting {
        host: &case.host,
        reserve: &case.reserve,
        hypervisor: &case.hypervisor,
        policy: &*policy,
        spec: &case.spec,
    };
    let told = std::cell::Cell::new(0);
    let tell = |now: Nanos| {
        watch.advanced(now - told.get());
        told.set(now);
    };
    let outcome = run_with(setting, seed, &|now| {
        tell(now);
        !stop.load(Ordering::Relaxed)
    })?;
    if let Some(outcome) = &outcome {
        tell(case.spec.duration_ns);
        watch.ended(outcome.events);
    }
    Ok(outcome)
}
