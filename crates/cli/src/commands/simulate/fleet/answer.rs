//! The answer for people, and the fleet over time as CSV.

use sim::fleet::{FleetOutcome, HostKind};
use sim::time::S;

use super::Fleet;
use crate::commands::simulate::table;
use crate::draw::{Style, mib, notes, plural};
use crate::say;

const HEAD: &str =
    "algorithm,at_s,vms,refused,hosts_used,cpu_percent,memory_percent,room,fragmentation_percent\n";

/// A row of the answer: its name and its value.
type Row = (&'static str, fn(&FleetOutcome) -> String);

const ROWS: [Row; 11] = [
    ("VMs placed", |it| it.placed.to_string()),
    ("VMs refused", |it| it.refused.to_string()),
    ("  too large for any host", |it| it.too_large.to_string()),
    ("most hosts used", |it| it.peak_hosts_used.to_string()),
    ("CPU in use, mean %", |it| percent(it.cpu_permille)),
    ("CPU in use, most %", |it| percent(it.peak_cpu_permille)),
    ("memory in use, mean %", |it| percent(it.memory_permille)),
    ("memory in use, most %", |it| {
        percent(it.peak_memory_permille)
    }),
    ("at the end: VMs", |it| last(it, |point| point.vms.into())),
    ("  room for median VMs", |it| last(it, |point| point.room)),
    ("  fragmentation %", |it| {
        let point = it.series.last();
        point.map_or_else(String::new, |point| percent(point.fragmentation_permille))
    }),
];

/// The whole answer.
pub(super) fn text(fleet: &Fleet, style: Style) -> String {
    let mut text = notes::paragraph(&heading(fleet), style);
    text.push('\n');
    let mut table = table::empty(style);
    let names = fleet
        .runs
        .iter()
        .map(|(algorithm, _)| algorithm.name().to_owned());
    table.set_header([String::new()].into_iter().chain(names));
    for (name, value) in ROWS {
        let values = fleet.runs.iter().map(|(_, outcome)| value(outcome));
        table.add_row([name.to_owned()].into_iter().chain(values));
    }
    text += &table::printed(table);
    for (algorithm, outcome) in &fleet.runs {
        if let Some(said) = refused(fleet, outcome) {
            text += &notes::item(&format!("{}: {said}", algorithm.name()), style);
        }
    }
    text + &say::findings(&fleet.trace.findings, style)
}

/// The fleet at all moments.
pub(super) fn csv(fleet: &Fleet) -> String {
    let mut text = HEAD.to_owned();
    for (algorithm, outcome) in &fleet.runs {
        for point in &outcome.series {
            text += &format!(
                "{},{},{},{},{},{},{},{},{}\n",
                algorithm.name(),
                point.at_ns as f64 / S as f64,
                point.vms,
                point.refused,
                point.hosts_used,
                percent(point.cpu_permille),
                percent(point.memory_permille),
                point.room,
                percent(point.fragmentation_permille),
            );
        }
    }
    text
}

fn heading(fleet: &Fleet) -> String {
    let count: usize = fleet.hosts.iter().map(|kind| kind.count as usize).sum();
    let kind = |kind: &HostKind| {
        format!(
            "{} x {} ({}, {})",
            kind.count,
            kind.name,
            plural((kind.milli_cpus / 1_000) as usize, "thread"),
            mib(kind.memory_mib.into())
        )
    };
    let kinds: Vec<String> = fleet.hosts.iter().map(kind).collect();
    format!(
        "Replayed, not measured: {} of a {} trace over {} on {}: {}",
        plural(fleet.trace.vms.len(), "VM"),
        fleet.kind.name(),
        time(fleet.span_ns()),
        plural(count, "host"),
        kinds.join(", "),
    )
}

/// Who was refused first.
fn refused(fleet: &Fleet, outcome: &FleetOutcome) -> Option<String> {
    let vm = fleet.first_refused(outcome)?;
    let after = vm.on_ns.abs_diff(fleet.start_ns()?);
    Some(format!(
        "the first that is refused is {:?} after {}, with {} CPUs and {}",
        vm.name,
        time(after),
        f64::from(vm.milli_cpus) / 1_000.0,
        mib(vm.memory_mib.into()),
    ))
}

fn last(outcome: &FleetOutcome, value: fn(&sim::fleet::FleetPoint) -> u64) -> String {
    let point = outcome.series.last();
    point.map_or_else(String::new, |point| value(point).to_string())
}

fn percent(permille: u32) -> String {
    format!("{}.{}", permille / 10, permille % 10)
}

/// A time in the largest unit of which there are two.
fn time(ns: u64) -> String {
    let seconds = ns as f64 / S as f64;
    let units = [("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)];
    let unit = units.into_iter().find(|unit| seconds >= 2.0 * unit.1);
    let (name, length) = unit.unwrap_or(("seconds", 1.0));
    format!("{:.1} {name}", seconds / length)
}
