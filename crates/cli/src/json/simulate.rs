//! The document of `vtopo simulate`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};
use sim::metrics::Figure;
use sim::statistics::Estimate;

use crate::commands::simulate::{Bound, Found, Part, Run, Scene, Step, Study};

/// An example of a scenario.
#[derive(Serialize)]
pub(crate) struct ExampleDocument {
    pub(crate) example: &'static str,
}

/// Everything that was simulated.
#[derive(Serialize)]
pub(crate) struct SimulateDocument {
    /// No figure here was measured.
    simulated: bool,
    incomplete: bool,
    host: String,
    runs: Vec<RunDocument>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    find_max: Vec<FoundDocument>,
}

#[derive(Serialize)]
struct RunDocument {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    point: BTreeMap<String, String>,
    policy: &'static str,
    rule: String,
    seed_count: usize,
    metrics: Metrics,
    workloads: Vec<PartDocument>,
    vms: Vec<PartDocument>,
    qos: Vec<BoundDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    remarks: Vec<String>,
}

/// Figures by name, in the order of reports.
type Metrics = Map<String, Value>;

#[derive(Serialize)]
struct PartDocument {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    workload: Option<String>,
    metrics: Metrics,
}

#[derive(Serialize)]
struct FigureDocument {
    #[serde(flatten)]
    estimate: EstimateDocument,
    unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<EstimateDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference_percent: Option<EstimateDocument>,
}

#[derive(Serialize)]
struct EstimateDocument {
    mean: f64,
    ci95: Option<[f64; 2]>,
}

#[derive(Serialize)]
struct BoundDocument {
    workload: String,
    metric: String,
    limit: f64,
    value: Option<f64>,
    unit: &'static str,
    ok: bool,
    seeds_ok: usize,
}

#[derive(Serialize)]
struct FoundDocument {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    point: BTreeMap<String, String>,
    policy: &'static str,
    rule: String,
    key: String,
    /// The most that was seen to meet every limit; `None` if not even the first did.
    most: Option<u64>,
    /// Whether more was seen to be too much.
    bounded: bool,
    steps: Vec<StepDocument>,
}

#[derive(Serialize)]
struct StepDocument {
    value: u64,
    ok: bool,
    seeds_ok: usize,
    seed_count: usize,
    qos: Vec<BoundDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

impl SimulateDocument {
    pub(crate) fn new(scenes: &[Scene], study: &Study) -> Self {
        let pairs = scenes.iter().zip(&study.scenes);
        let of_scene = |(scene, runs): (&Scene, &Vec<Run>)| {
            let point = point(&scene.point);
            let documents = runs.iter().map(|run| RunDocument::new(point.clone(), run));
            documents.collect::<Vec<_>>()
        };
        Self {
            simulated: true,
            incomplete: !study.is_complete,
            host: scenes
                .first()
                .map_or_else(String::new, |scene| scene.host.name.clone()),
            runs: pairs.flat_map(of_scene).collect(),
            find_max: Vec::new(),
        }
    }

    /// The document of a search.
    pub(crate) fn found(host: String, found: &[Found], is_complete: bool) -> Self {
        Self {
            simulated: true,
            incomplete: !is_complete,
            host,
            runs: Vec::new(),
            find_max: found.iter().map(FoundDocument::new).collect(),
        }
    }
}

impl RunDocument {
    fn new(point: BTreeMap<String, String>, run: &Run) -> Self {
        Self {
            point,
            policy: run.policy,
            rule: run.rule.clone(),
            seed_count: run.seeds,
            metrics: metrics(&run.whole),
            workloads: run.workloads.iter().map(PartDocument::new).collect(),
            vms: run.vms.iter().map(PartDocument::new).collect(),
            qos: run.bounds.iter().map(BoundDocument::new).collect(),
            refused: run.refused.clone(),
            remarks: run.remarks.clone(),
        }
    }
}

impl PartDocument {
    fn new(part: &Part) -> Self {
        Self {
            name: part.name.clone(),
            workload: (!part.workload.is_empty()).then(|| part.workload.clone()),
            metrics: metrics(part),
        }
    }
}

impl BoundDocument {
    fn new(bound: &Bound) -> Self {
        Self {
            workload: bound.qos.workload.clone(),
            metric: bound.qos.metric.name(),
            limit: rounded(bound.limit),
            value: bound.value.map(rounded),
            unit: bound.metric.unit(),
            ok: bound.is_met(),
            seeds_ok: bound.seeds_met,
        }
    }
}

impl FoundDocument {
    fn new(found: &Found) -> Self {
        let step = |step: &Step| StepDocument {
            value: step.value,
            ok: step.is_good,
            seeds_ok: step.seeds_met,
            seed_count: step.seeds,
            qos: step.bounds.iter().map(BoundDocument::new).collect(),
            refused: step.refused.clone(),
        };
        Self {
            point: point(&found.point),
            policy: found.policy,
            rule: found.rule.clone(),
            key: found.key.clone(),
            most: found.answer.most,
            bounded: found.answer.too_much.is_some(),
            steps: found.steps.iter().map(step).collect(),
        }
    }
}

impl EstimateDocument {
    fn new(estimate: Estimate) -> Self {
        Self {
            mean: rounded(estimate.mean),
            ci95: estimate
                .interval()
                .map(|(low, high)| [rounded(low), rounded(high)]),
        }
    }
}

fn point(point: &[(String, String)]) -> BTreeMap<String, String> {
    point.iter().cloned().collect()
}

fn metrics(part: &Part) -> Metrics {
    let entry = |figure: &Figure| {
        let document = FigureDocument {
            estimate: EstimateDocument::new(figure.estimate),
            unit: figure.metric.unit(),
            difference: figure
                .difference
                .map(|found| EstimateDocument::new(found.absolute)),
            difference_percent: figure
                .difference
                .and_then(|found| found.percent)
                .map(EstimateDocument::new),
        };
        let value = serde_json::to_value(document).expect("figures are finite numbers and texts");
        (figure.metric.name().to_owned(), value)
    };
    part.figures.iter().map(entry).collect()
}

/// Nine digits: more are noise of the arithmetic.
fn rounded(value: f64) -> f64 {
    format!("{value:.8e}").parse().unwrap_or(value)
}
