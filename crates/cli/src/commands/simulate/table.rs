//! The answer for people: figures with intervals, policies beside each other.

use comfy_table::{Cell, CellAlignment, Color, Table};
use sim::metrics::Metric;

use super::request::{Assignment, Scene, label};
use super::study::{Bound, Part, Run, Study};
use super::words::{self, Verdict};
use crate::draw::{Style, clean, notes, plural};

/// Policies beside the first that fit a line.
const BESIDE: usize = 2;
/// Tones of what is better and worse, as in all drawings.
const TONES: [u8; 2] = [36, 172];

/// The whole answer.
pub(super) fn text(scenes: &[Scene], study: &Study, style: Style) -> String {
    let mut text = String::new();
    for (scene, runs) in scenes.iter().zip(&study.scenes) {
        if !text.is_empty() {
            text.push('\n');
        }
        text += &notes::paragraph(&heading(scene, runs), style);
        text.push('\n');
        text += &tables(runs, style);
        text += &notes::paragraph(&words::headline(runs), style);
        text += &bounds(runs, style);
        text += &refused(runs, style);
        for remark in remarks(runs) {
            text += &notes::item(&remark, style);
        }
    }
    let has_differences = study.scenes.iter().any(|runs| runs.len() > 1);
    if has_differences {
        text += "\n* the 95 % interval of the difference to the first policy excludes 0 (equal seeds)\n";
    }
    if !study.is_complete {
        text += "\nIncomplete: it was stopped before all runs had ended. Figures are those of the seeds that had.\n";
    }
    text
}

/// What was simulated, in a sentence.
pub(super) fn heading(scene: &Scene, runs: &[Run]) -> String {
    let simulation = &scene.simulation;
    let host = &scene.host;
    let vcpus: usize = simulation
        .members
        .iter()
        .map(|member| member.vm.vcpus as usize)
        .sum();
    let run = &simulation.run;
    let seeds = runs.iter().map(|run| run.seeds).max().unwrap_or(0);
    format!(
        "Simulated, not measured{}: {} with {} on {} ({}, {}), {} after a warm-up of {}, {}",
        point(&scene.point),
        plural(simulation.members.len(), "VM"),
        plural(vcpus, "vCPU"),
        clean(&host.name, 80),
        plural(host.cpus.len(), "thread"),
        plural(host.llcs.len(), "LLC"),
        model::duration::text(run.duration_ns - run.warmup_ns),
        model::duration::text(run.warmup_ns),
        plural(seeds, "seed"),
    )
}

fn point(point: &[Assignment]) -> String {
    if point.is_empty() {
        return String::new();
    }
    let all: Vec<String> = point
        .iter()
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    format!(", {}", all.join(", "))
}

/// What is odd, each remark once, with the policy where not all have it.
pub(super) fn remarks(runs: &[Run]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for run in runs {
        for remark in &run.remarks {
            if !all.contains(remark) {
                all.push(remark.clone());
            }
        }
    }
    all
}

fn tables(runs: &[Run], style: Style) -> String {
    let there: Vec<&Run> = runs.iter().filter(|run| run.seeds > 0).collect();
    let Some((base, others)) = there.split_first() else {
        return String::new();
    };
    let is_rules = runs.iter().any(|run| run.rule != runs[0].rule);
    let chunks: Vec<&[&Run]> = if others.is_empty() {
        vec![&[]]
    } else {
        others.chunks(BESIDE).collect()
    };
    let mut text = String::new();
    for chunk in chunks {
        let runs: Vec<&Run> = [*base].into_iter().chain(chunk.iter().copied()).collect();
        let names: Vec<String> = runs
            .iter()
            .map(|run| label(run.policy, &run.rule, is_rules))
            .collect();
        let workloads = base.workloads.len();
        let is_whole = |metric: Metric| workloads == 1 || !is_of_operations(metric);
        let whole: Vec<&Part> = runs.iter().map(|run| &run.whole).collect();
        text += &table("", (&names, &whole), is_whole, style);
        if workloads < 2 {
            continue;
        }
        for index in 0..workloads {
            let parts: Vec<&Part> = runs.iter().map(|run| &run.workloads[index]).collect();
            let title = clean(&parts[0].name, 40);
            text += &table(&title, (&names, &parts), is_of_operations, style);
        }
    }
    text
}

/// Figures of operations; of several workloads they mean something one by one.
pub(super) fn is_of_operations(metric: Metric) -> bool {
    metric <= Metric::LatencyMax || metric == Metric::CpuPerOp
}

/// A row for each figure, for each policy a column, and one for the difference to the first.
fn table(
    title: &str,
    (names, parts): (&[String], &[&Part]),
    is_shown: impl Fn(Metric) -> bool,
    style: Style,
) -> String {
    let mut table = empty(style);
    let mut header = vec![title.to_owned()];
    for (position, name) in names.iter().enumerate() {
        header.push(name.clone());
        if position > 0 {
            header.push(format!("to {}", names[0]));
        }
    }
    table.set_header(header);
    let mut has_rows = false;
    for metric in Metric::all().filter(|metric| is_shown(*metric)) {
        let largest = parts
            .iter()
            .filter_map(|part| part.mean(metric))
            .map(f64::abs)
            .fold(0.0, f64::max);
        if largest > 0.0 {
            table.add_row(row(metric, largest, parts));
            has_rows = true;
        }
    }
    if has_rows {
        printed(table)
    } else {
        String::new()
    }
}

/// A table without lines.
pub(super) fn empty(style: Style) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    if style.colour {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table
}

/// A table of names with figures beside them, and an empty line.
pub(super) fn printed(mut table: Table) -> String {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let text = table.trim_fmt();
    let lines = text
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(line));
    lines.map(|line| format!("{line}\n")).collect::<String>() + "\n"
}

fn row(metric: Metric, largest: f64, parts: &[&Part]) -> Vec<Cell> {
    let (unit, factor) = words::unit(metric, largest);
    let mut row = vec![Cell::new(format!("{} {unit}", metric.name()))];
    for (position, part) in parts.iter().enumerate() {
        let figure = part.figure(metric);
        let shown = figure.map(|figure| words::estimate(&figure.estimate.times(factor)));
        row.push(Cell::new(shown.unwrap_or_default()));
        if position == 0 {
            continue;
        }
        let difference = figure.and_then(|figure| figure.difference);
        let text = difference.map(|difference| words::difference(&difference, unit, factor));
        let cell = Cell::new(text.unwrap_or_default());
        row.push(match figure.map(words::verdict) {
            Some(Verdict::Better) => cell.fg(Color::AnsiValue(TONES[0])),
            Some(Verdict::Worse) => cell.fg(Color::AnsiValue(TONES[1])),
            _ => cell,
        });
    }
    row
}

fn bounds(runs: &[Run], style: Style) -> String {
    let is_rules = runs.iter().any(|run| run.rule != runs[0].rule);
    let mut text = String::new();
    for run in runs {
        let name = label(run.policy, &run.rule, is_rules);
        for bound in &run.bounds {
            text += &notes::item(&format!("{name}: {}", bound_text(bound, run.seeds)), style);
        }
    }
    if text.is_empty() {
        text
    } else {
        format!("\nLimits\n{text}")
    }
}

/// A limit, what came out, and how many seeds keep it.
pub(super) fn bound_text(bound: &Bound, seeds: usize) -> String {
    let (unit, factor) = words::unit(bound.metric, bound.limit);
    let value = bound.value.map_or_else(
        || "nothing to measure".to_owned(),
        |value| format!("{} {unit}", words::number(value * factor)),
    );
    format!(
        "{} {} {} {} {unit}: {value}, {} ({} of {seeds} seeds)",
        clean(&bound.qos.workload, 40),
        bound.qos.metric.name(),
        if bound.qos.metric.is_least() {
            "at least"
        } else {
            "at most"
        },
        words::number(bound.limit * factor),
        if bound.is_met() { "met" } else { "not met" },
        bound.seeds_met,
    )
}

fn refused(runs: &[Run], style: Style) -> String {
    let is_rules = runs.iter().any(|run| run.rule != runs[0].rule);
    let lines = runs.iter().filter_map(|run| {
        let why = run.refused.as_ref()?;
        let name = label(run.policy, &run.rule, is_rules);
        Some(notes::item(&format!("{name}: {why}"), style))
    });
    let lines: String = lines.collect();
    if lines.is_empty() {
        lines
    } else {
        format!("\nNot simulated\n{lines}")
    }
}
