//! All runs of a command, and what they say over seeds.

use std::sync::atomic::{AtomicBool, Ordering};

use hdrhistogram::Histogram;
use sim::engine::SimulationError;
use sim::metrics::{self, Figure, Latencies, Metric, Sample, Scope, latency_us};
use sim::outcome::{Outcome, Segment};
use sim::replicate::{Case, Ran, Watch, replicate};
use sim::scenario::{self, Qos};

use super::request::Scene;
use crate::failure::Failure;

/// Everything that was asked for, as far as it came.
pub(crate) struct Study {
    /// By point of the sweeps.
    pub(crate) scenes: Vec<Vec<Run>>,
    /// Whether every run came to its end.
    pub(crate) is_complete: bool,
}

/// A policy and a rule at one point, over its seeds.
pub(crate) struct Run {
    /// The policy's name.
    pub(crate) policy: &'static str,
    /// The rule's name.
    pub(crate) rule: String,
    /// Why nothing was run: a VM that is not powered on or has no place.
    pub(crate) refused: Option<String>,
    /// Seeds that count: those that all policies of the point have finished.
    pub(crate) seeds: usize,
    /// Of the host with all VMs.
    pub(crate) whole: Part,
    /// By workload.
    pub(crate) workloads: Vec<Part>,
    /// By VM.
    pub(crate) vms: Vec<Part>,
    /// What became of the limits.
    pub(crate) bounds: Vec<Bound>,
    /// What the first seed left to draw.
    pub(crate) picture: Option<Picture>,
    /// What is odd about the runs.
    pub(crate) remarks: Vec<String>,
    /// Whether VMs that came later found no place.
    pub(crate) has_homeless: bool,
}

/// A workload, a VM, or all.
pub(crate) struct Part {
    /// Its name; empty for the whole.
    pub(crate) name: String,
    /// What a VM runs.
    pub(crate) workload: String,
    /// Figures over the seeds.
    pub(crate) figures: Vec<Figure>,
    /// Latencies of all seeds.
    pub(crate) latencies: Histogram<u64>,
}

/// A limit and whether it is met.
pub(crate) struct Bound {
    /// The limit.
    pub(crate) qos: Qos,
    /// The figure it is about.
    pub(crate) metric: Metric,
    /// The limit in the figure's unit.
    pub(crate) limit: f64,
    /// The figure over all seeds; `None` if there is none, which meets nothing.
    pub(crate) value: Option<f64>,
    /// Seeds that meet it by themselves.
    pub(crate) seeds_met: usize,
}

/// What a run left to draw.
#[derive(Default)]
pub(crate) struct Picture {
    /// Who ran where.
    pub(crate) timeline: Vec<Segment>,
    /// By LLC: bytes held by VM index.
    pub(crate) llc_held: Vec<Vec<(u32, f64)>>,
}

impl Part {
    /// A figure, if it is there.
    pub(crate) fn figure(&self, metric: Metric) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.metric == metric)
    }

    /// The middle of a figure.
    pub(crate) fn mean(&self, metric: Metric) -> Option<f64> {
        self.figure(metric).map(|figure| figure.estimate.mean)
    }
}

impl Bound {
    /// Whether the figure over all seeds keeps the limit.
    pub(crate) fn is_met(&self) -> bool {
        self.value
            .is_some_and(|value| meets(&self.qos, value, self.limit))
    }
}

impl Run {
    /// Whether it ran and met all limits.
    pub(crate) fn is_good(&self) -> bool {
        self.refused.is_none() && !self.has_homeless && self.bounds.iter().all(Bound::is_met)
    }
}

/// Whom runs are told to, and who may end them.
#[derive(Clone, Copy)]
pub(crate) struct Control<'a> {
    pub(crate) threads: usize,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) watch: &'a dyn Watch,
}

/// Runs all variants of all scenes with all seeds.
///
/// # Errors
/// A spec that contradicts itself, or a policy whose plan does not hold together.
pub(super) fn study(scenes: &[Scene], seeds: &[u64], control: Control) -> Result<Study, Failure> {
    let variants = scenes.iter().flat_map(|scene| &scene.variants);
    let cases: Vec<Case> = variants
        .filter_map(|variant| variant.case.as_ref().ok().cloned())
        .collect();
    let keep = |_: usize, seed: usize, outcome: Outcome| {
        let sample = metrics::sample(&outcome);
        let picture = (seed == 0).then_some(Picture {
            timeline: outcome.timeline,
            llc_held: outcome.host.llc_held,
        });
        (sample, picture)
    };
    let Control {
        threads,
        stop,
        watch,
    } = control;
    let ran = replicate((&cases, seeds), threads, stop, watch, &keep);
    let is_complete = !stop.load(Ordering::Relaxed)
        || !ran.iter().flatten().any(|run| matches!(run, Ran::Stopped));
    let mut ran = ran.into_iter();
    let mut results = Vec::new();
    for scene in scenes {
        let mut all = Vec::new();
        for variant in &scene.variants {
            all.push(match &variant.case {
                Ok(_) => finished(ran.next().unwrap_or_default())?,
                Err(why) => Err(why.clone()),
            });
        }
        results.push(scene_runs(scene, all));
    }
    Ok(Study {
        scenes: results,
        is_complete,
    })
}

type Kept = (Sample, Option<Picture>);

/// What the seeds of a case gave, up to the first that did not end; or why a VM has no place.
fn finished(runs: Vec<Ran<Kept>>) -> Result<Result<Vec<Kept>, String>, Failure> {
    let mut kept = Vec::new();
    for run in runs {
        match run {
            Ran::Done(done) => kept.push(done),
            Ran::Failed(error @ SimulationError::Refused { .. }) => {
                return Ok(Err(error.to_string()));
            }
            Ran::Failed(error @ SimulationError::Unsound { .. }) => {
                return Err(Failure::new(error.to_string())
                    .help("this is a mistake in vtopo; please report it with the scenario"));
            }
            Ran::Failed(error) => return Err(Failure::new(error.to_string())),
            Ran::Stopped => break,
        }
    }
    Ok(Ok(kept))
}

/// Only seeds that all have are compared.
fn scene_runs(scene: &Scene, all: Vec<Result<Vec<Kept>, String>>) -> Vec<Run> {
    let seeds = all.iter().flatten().map(Vec::len).min().unwrap_or(0);
    let mut base: Option<Vec<Sample>> = None;
    let mut runs = Vec::new();
    for (variant, result) in scene.variants.iter().zip(all) {
        let (samples, mut pictures, refused) = match result {
            Ok(kept) => {
                let (samples, pictures): (Vec<_>, Vec<_>) = kept.into_iter().take(seeds).unzip();
                (samples, pictures, None)
            }
            Err(why) => (Vec::new(), Vec::new(), Some(why)),
        };
        let against = base.as_deref().unwrap_or_default();
        let workloads = parts(&samples, against, |sample| &sample.workloads);
        let bounds = if samples.is_empty() {
            Vec::new()
        } else {
            bounds(&scene.simulation.qos, &samples, &workloads)
        };
        let mut remarks: Vec<String> = Vec::new();
        for remark in samples.iter().flat_map(|sample| &sample.remarks) {
            if !remarks.contains(remark) {
                remarks.push(remark.clone());
            }
        }
        runs.push(Run {
            policy: variant.policy,
            rule: variant.rule.clone(),
            refused,
            seeds: samples.len(),
            whole: part(&samples, against, |sample| Some(&sample.whole)),
            workloads,
            vms: parts(&samples, against, |sample| &sample.vms),
            bounds,
            picture: pictures.first_mut().and_then(Option::take),
            remarks,
            has_homeless: samples.iter().any(|sample| sample.refused > 0),
        });
        if base.is_none() && !samples.is_empty() {
            base = Some(samples);
        }
    }
    runs
}

fn parts(samples: &[Sample], base: &[Sample], of: fn(&Sample) -> &Vec<Scope>) -> Vec<Part> {
    let count = samples.first().map_or(0, |sample| of(sample).len());
    (0..count)
        .map(|index| part(samples, base, |sample| of(sample).get(index)))
        .collect()
}

fn part<'a>(
    samples: &'a [Sample],
    base: &'a [Sample],
    of: impl Fn(&'a Sample) -> Option<&'a Scope>,
) -> Part {
    let own: Vec<&Scope> = samples.iter().filter_map(&of).collect();
    let base: Vec<&Scope> = base.iter().filter_map(&of).collect();
    let first = own.first();
    Part {
        name: first.map_or_else(String::new, |scope| scope.name.clone()),
        workload: first.map_or_else(String::new, |scope| scope.workload.clone()),
        figures: metrics::figures(&own, &base),
        latencies: Latencies::merged(own.iter().map(|scope| &scope.latencies)),
    }
}

fn bounds(qos: &[Qos], samples: &[Sample], workloads: &[Part]) -> Vec<Bound> {
    let bound = |qos: &Qos| {
        let (metric, factor) = limited(qos.metric);
        let limit = qos.limit * factor;
        let of_seed = |sample: &Sample| {
            let mut scopes = sample.workloads.iter();
            let scope = scopes.find(|scope| scope.name == qos.workload)?;
            let own = Latencies::merged([&scope.latencies]);
            value(qos, metric, &own, scope.value(metric))
        };
        let seen: Vec<Option<f64>> = samples.iter().map(of_seed).collect();
        let part = workloads.iter().find(|part| part.name == qos.workload);
        Bound {
            qos: qos.clone(),
            metric,
            limit,
            value: part.and_then(|part| value(qos, metric, &part.latencies, part.mean(metric))),
            seeds_met: seen
                .iter()
                .flatten()
                .filter(|value| meets(qos, **value, limit))
                .count(),
        }
    };
    qos.iter().map(bound).collect()
}

/// The figure that a limit is about, and what makes its unit of that of the limit.
fn limited(metric: scenario::Metric) -> (Metric, f64) {
    match metric {
        scenario::Metric::Mean | scenario::Metric::Quantile(_) => (Metric::LatencyMean, 1e-3),
        scenario::Metric::Max => (Metric::LatencyMax, 1e-3),
        scenario::Metric::Throughput => (Metric::Throughput, 1.0),
        scenario::Metric::Ready => (Metric::Ready, 100.0),
        scenario::Metric::CoStop => (Metric::CoStop, 100.0),
    }
}

fn value(qos: &Qos, metric: Metric, latencies: &Histogram<u64>, plain: Option<f64>) -> Option<f64> {
    match qos.metric {
        scenario::Metric::Quantile(_) if latencies.is_empty() => None,
        scenario::Metric::Quantile(quantile) => {
            Some(latencies.value_at_quantile(quantile) as f64 / 1e3)
        }
        scenario::Metric::Mean | scenario::Metric::Max => latency_us(latencies, metric),
        _ => plain,
    }
}

fn meets(qos: &Qos, value: f64, limit: f64) -> bool {
    if qos.metric.is_least() {
        value >= limit
    } else {
        value <= limit
    }
}
