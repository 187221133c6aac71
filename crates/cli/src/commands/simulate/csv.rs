//! All figures as CSV: a line for each figure of the whole, of each workload and of each VM.

use sim::metrics::Figure;

use super::request::Scene;
use super::study::{Part, Run, Study};

const HEAD: &str = "point,policy,rule,scope,name,metric,unit,mean,ci95_low,ci95_high,difference_percent,\
    difference_low,difference_high,seeds\n";

pub(super) fn text(scenes: &[Scene], study: &Study) -> String {
    let mut text = HEAD.to_owned();
    for (scene, runs) in scenes.iter().zip(&study.scenes) {
        let point: Vec<String> = scene
            .point
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let point = quoted(&point.join(" "));
        for run in runs {
            let whole = [("all", &run.whole)].into_iter();
            let workloads = run.workloads.iter().map(|part| ("workload", part));
            let vms = run.vms.iter().map(|part| ("vm", part));
            for (scope, part) in whole.chain(workloads).chain(vms) {
                text += &lines(&point, run, scope, part);
            }
        }
    }
    text
}

fn lines(point: &str, run: &Run, scope: &str, part: &Part) -> String {
    let name = quoted(&part.name);
    let head = format!("{point},{},{},{scope},{name}", run.policy, run.rule);
    let line = |figure: &Figure| {
        let metric = figure.metric;
        let change = figure.difference.and_then(|found| found.percent);
        let [low, high] = ends(figure.estimate.interval());
        let [change_low, change_high] = ends(change.and_then(|change| change.interval()));
        format!(
            "{head},{},{},{},{low},{high},{},{change_low},{change_high},{}\n",
            metric.name(),
            metric.unit(),
            figure.estimate.mean,
            change.map_or_else(String::new, |change| change.mean.to_string()),
            run.seeds
        )
    };
    part.figures.iter().map(line).collect()
}

fn ends(interval: Option<(f64, f64)>) -> [String; 2] {
    match interval {
        Some((low, high)) => [low.to_string(), high.to_string()],
        None => [String::new(), String::new()],
    }
}

/// A text that may hold anything.
fn quoted(text: &str) -> String {
    let text = text.replace('"', "\"\"").replace(char::is_control, " ");
    format!("\"{text}\"")
}
