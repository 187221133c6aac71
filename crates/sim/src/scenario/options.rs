//! The small tables of a scenario: `[run]`, `[tiles]`, `[network]` and `[[qos]]`.

use super::fault::{Fault, shown};
use super::tree::{Node, Value};
use super::value;
use super::{Metric, Network, Qos, Run};
use crate::time::Nanos;

/// Most seeds: intervals no longer get narrower in a useful time. Ours.
const MAX_SEEDS: u64 = 10_000;
/// Most tiles: the VMs are bounded on their own. Ours.
const MAX_TILES: u64 = 10_000;

const METRICS: [(&str, Metric); 10] = [
    ("mean", Metric::Mean),
    ("p50", Metric::Quantile(0.5)),
    ("p90", Metric::Quantile(0.9)),
    ("p95", Metric::Quantile(0.95)),
    ("p99", Metric::Quantile(0.99)),
    ("p99.9", Metric::Quantile(0.999)),
    ("max", Metric::Max),
    ("throughput", Metric::Throughput),
    ("ready", Metric::Ready),
    ("costop", Metric::CoStop),
];

pub(super) fn run(node: &Node) -> Result<Run, Fault> {
    let mut run = Run::default();
    if let Some(duration) = node.find("duration") {
        run.duration_ns = value::duration_above_zero(duration)?;
        // A tenth, as the default has it.
        run.warmup_ns = run.duration_ns / 10;
    }
    if let Some(warmup) = node.find("warmup") {
        run.warmup_ns = value::duration_or_zero(warmup)?;
        if run.warmup_ns >= run.duration_ns {
            let message = format!(
                "the warm-up of {} leaves nothing of a run of {}",
                model::duration::text(run.warmup_ns),
                model::duration::text(run.duration_ns)
            );
            return Err(Fault::at(message, warmup.span.clone()));
        }
    }
    if let Some(seeds) = node.find("seeds") {
        run.seeds = value::whole(seeds, 1..=MAX_SEEDS)? as u32;
    }
    if let Some(seed) = node.find("seed") {
        // What TOML calls a number, less the seeds that follow it.
        run.seed = value::whole(seed, 0..=i64::MAX as u64 - MAX_SEEDS)?;
    }
    if let Some(timeline) = node.find("timeline") {
        run.timeline = Some(span(timeline, &run)?);
    }
    Ok(run)
}

/// A length after the warm-up, or from when to when.
fn span(node: &Node, run: &Run) -> Result<(Nanos, Nanos), Fault> {
    let (from, to) = if let Value::Text(_) = node.value {
        let length = value::duration_above_zero(node)?;
        (run.warmup_ns, run.warmup_ns.saturating_add(length))
    } else {
        let [from, to] = node.items() else {
            let message = "a timeline is a length, or a list of two times: from, to";
            return Err(Fault::at(message, node.span.clone()));
        };
        (
            value::duration_or_zero(from)?,
            value::duration_above_zero(to)?,
        )
    };
    if from >= to || to > run.duration_ns {
        let message = format!(
            "the timeline goes from {} to {}, the run to {}",
            model::duration::text(from),
            model::duration::text(to),
            model::duration::text(run.duration_ns)
        );
        return Err(Fault::at(message, node.span.clone()));
    }
    Ok((from, to))
}

pub(super) fn tiles(root: &Node, scenario: &model::scenario::Scenario) -> Result<u32, Fault> {
    let Some(tiles) = root.find("tiles") else {
        return Ok(1);
    };
    if !scenario.batches.iter().any(|batch| batch.work.tile) {
        let message = "no VM is in the tiles; say tile = true in the [[vm]] that are";
        return Err(Fault::at(message, tiles.span.clone()));
    }
    match tiles.find("count") {
        Some(count) => Ok(value::whole(count, 1..=MAX_TILES)? as u32),
        None => Ok(1),
    }
}

pub(super) fn network(node: &Node) -> Result<Network, Fault> {
    let duration = |key: &str| node.find(key).map(value::duration_or_zero).transpose();
    let choice = |key: &str, words: [(&str, bool); 2]| {
        let word = |node| value::word(node, &words);
        node.find(key).map(word).transpose()
    };
    Ok(Network {
        moderation_ns: duration("moderation")?,
        shared_queue: choice("queues", [("own", false), ("shared", true)])?,
        coalescing_ns: duration("coalescing")?,
        direct: choice("path", [("switch", false), ("direct", true)])?,
        wire_ns: duration("wire")?,
    })
}

pub(super) fn qos(items: &[Node], names: &[&str]) -> Result<Vec<Qos>, Fault> {
    items.iter().map(|item| one_qos(item, names)).collect()
}

fn one_qos(item: &Node, names: &[&str]) -> Result<Qos, Fault> {
    let need = |key: &str| {
        item.find(key).ok_or_else(|| {
            let message = "a [[qos]] needs workload, metric and limit";
            Fault::at(message, item.span.clone())
        })
    };
    let (workload, metric, limit) = (need("workload")?, need("metric")?, need("limit")?);
    let name = workload.text()?;
    if !names.contains(&name) {
        let known = names.iter().copied();
        return Err(Fault::unknown(
            "workload of a VM here",
            name,
            known,
            workload.span.clone(),
        ));
    }
    let metric = value::word(metric, &METRICS)?;
    let limit = match metric {
        Metric::Mean | Metric::Quantile(_) | Metric::Max => {
            value::duration_above_zero(limit)? as f64
        }
        Metric::Throughput => value::rate(limit, 1e12)?,
        Metric::Ready | Metric::CoStop => percent(limit)?,
    };
    Ok(Qos {
        workload: name.to_owned(),
        metric,
        limit,
    })
}

/// A share of time: `5%`.
fn percent(node: &Node) -> Result<f64, Fault> {
    let text = node.text()?;
    let value = text
        .strip_suffix('%')
        .and_then(|text| text.trim_end().parse::<f64>().ok());
    value
        .filter(|value| (0.0..=100.0).contains(value))
        .map(|value| value / 100.0)
        .ok_or_else(|| {
            let message = format!("{} is no share of time; write it as 5%", shown(text));
            Fault::at(message, node.span.clone())
        })
}
