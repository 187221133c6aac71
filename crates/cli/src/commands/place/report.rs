//! The answer for people: table, comparison, drawing, explanation; and as CSV.

use comfy_table::{CellAlignment, Table};
use model::Vm;
use model::placement::VmId;
use policy::cost::Cost;
use policy::metrics::Metrics;

use super::request::Request;
use super::runs::{Run, Runs};
use super::view;
use super::words::{comparison, cpus, exact_vcpus, hundredths, meaning, vcpus};
use crate::args::PlaceCommand;
use crate::draw::{Detail, PlaceView, Style, clean, notes, place_legend, place_text, plural};
use crate::say;

/// Lines of drawings that leave room for the table and the sentences on a screen of 50.
const SCREEN: usize = 32;
/// Refused VMs that are told when nobody asked for an explanation.
const REFUSED: usize = 8;

pub(super) fn text(command: &PlaceCommand, request: &Request, runs: &Runs, style: Style) -> String {
    let vms: Vec<Vm> = runs.vms().cloned().collect();
    let mut text = heading(runs, &vms, style);
    let rows: Vec<(&str, &Metrics)> = runs
        .all
        .iter()
        .map(|run| (run.policy, &run.metrics))
        .collect();
    text += &table(&rows);
    text.push('\n');
    text += &comparison(runs, style);
    let views: Vec<_> = runs.all.iter().map(|run| view(runs, run, &vms)).collect();
    text += &drawings(runs, &views, style);
    text.push('\n');
    text += &place_legend(&views, style);
    let first = runs.first();
    if command.explain {
        for run in &runs.all {
            text += &explain(runs, run, &vms, style);
        }
    } else {
        text += &refused(first, REFUSED, style);
        if first.plan.refused.is_empty() && !first.plan.reasons.is_empty() {
            text.push('\n');
            text += &notes::paragraph("`--explain` tells why every VM is where it is.", style);
        }
    }
    if !request.findings.is_empty() {
        text.push('\n');
        text += &say::findings(&request.findings, style);
    }
    text
}

/// All placements below each other where they fit a screen, otherwise the best one.
fn drawings(runs: &Runs, views: &[PlaceView], style: Style) -> String {
    let draw = |view, detail| place_text(view, detail, style);
    if let [only] = views {
        return format!("\n{}", draw(only, Detail::Full));
    }
    let all: Vec<String> = views
        .iter()
        .map(|view| draw(view, Detail::Compact))
        .collect();
    let lines: usize = all.iter().map(|text| text.lines().count() + 2).sum();
    if lines > SCREEN {
        let first = runs.ranking[0];
        let picture = draw(&views[first], Detail::Full);
        return format!("\n{}\n{picture}", runs.all[first].policy);
    }
    let named = runs.all.iter().zip(all);
    named
        .map(|(run, text)| format!("\n{}\n{text}", run.policy))
        .collect()
}

/// The figures in sentences, for a picture.
pub(super) fn sentences(runs: &Runs) -> Vec<String> {
    let run = runs.first();
    let metrics = &run.metrics;
    vec![format!(
        "{}: {} of {} VMs placed, {} LLCs and {} nodes each in the mean, {} vCPUs share a core, {} of {} vCPUs of work lost",
        run.policy,
        metrics.placed,
        metrics.placed + metrics.refused,
        hundredths(metrics.llcs_spanned),
        hundredths(metrics.nodes_spanned),
        metrics.smt_paired_vcpus,
        vcpus(metrics.cost.total()),
        cpus(metrics.demand),
    )]
}

/// The head of a table of figures as CSV. Loads and ratios are in thousandths.
pub(super) const CSV_HEAD: &str = "policy,host,vms,refused,vcpus,threads,demand_milli,overcommit_milli,llcs_spanned_milli,\
    nodes_spanned_milli,packages_spanned_milli,smt_paired_vcpus,memory_mib,remote_memory_mib,cost\n";

/// Figures by policy, a line each.
pub(super) fn csv(runs: &Runs) -> String {
    let rows = runs
        .all
        .iter()
        .map(|run| csv_row(run.policy, &runs.host.name, &run.metrics));
    CSV_HEAD.to_owned() + &rows.collect::<String>()
}

/// A line of figures.
pub(super) fn csv_row(policy: &str, host: &str, metrics: &Metrics) -> String {
    let host = host.replace('"', "\"\"").replace(char::is_control, " ");
    let counts = [
        u64::from(metrics.placed),
        u64::from(metrics.refused),
        u64::from(metrics.vcpus),
        metrics.threads,
        metrics.demand,
        metrics.overcommit,
        metrics.llcs_spanned,
        metrics.nodes_spanned,
        metrics.packages_spanned,
        u64::from(metrics.smt_paired_vcpus),
        metrics.memory_mib,
        metrics.remote_memory_mib,
    ]
    .map(|count| count.to_string())
    .join(",");
    let cost = exact_vcpus(metrics.cost.total());
    format!("{policy},\"{host}\",{counts},{cost}\n")
}

fn heading(runs: &Runs, vms: &[Vm], style: Style) -> String {
    let wanted: u64 = vms.iter().map(|vm| u64::from(vm.vcpus)).sum();
    let host = &runs.host;
    let text = format!(
        "{} with {} on {}: {}, {}, {}, {}",
        plural(vms.len(), "VM"),
        plural(usize::try_from(wanted).unwrap_or(usize::MAX), "vCPU"),
        clean(&host.name, 80),
        plural(host.cores.len(), "core"),
        plural(host.cpus.len(), "thread"),
        plural(host.llcs.len(), "LLC"),
        plural(host.nodes.len(), "node"),
    );
    notes::paragraph(&text, style) + "\n"
}

/// A row for each name.
pub(super) fn table(rows: &[(&str, &Metrics)]) -> String {
    let has_refused = rows.iter().any(|(_, metrics)| metrics.refused > 0);
    let mut header = vec![
        "policy",
        "LLCs/VM",
        "nodes/VM",
        "paired vCPUs",
        "fullest LLC",
        "remote",
        "lost vCPUs",
    ];
    header.extend(has_refused.then_some("refused"));
    let mut table = plain_table();
    table.set_header(header);
    for (name, metrics) in rows {
        let fullest = metrics.worst_llc.map_or_else(String::new, |crowd| {
            format!("{} on {} threads", crowd.vcpus, crowd.threads)
        });
        let lost = vcpus(metrics.cost.total());
        let mut row = vec![
            (*name).to_owned(),
            hundredths(metrics.llcs_spanned),
            hundredths(metrics.nodes_spanned),
            metrics.smt_paired_vcpus.to_string(),
            fullest,
            format!("{} %", hundredths(metrics.remote_memory() * 100)),
            format!("{lost} of {}", cpus(metrics.demand)),
        ];
        row.extend(has_refused.then(|| plural(metrics.refused as usize, "VM")));
        table.add_row(row);
    }
    print(&mut table)
}

/// A table without lines.
pub(super) fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table
}

/// The table as lines, with numbers to the right.
pub(super) fn print(table: &mut Table) -> String {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    // The table has a blank before every line.
    let text = table.trim_fmt();
    let lines = text
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(line));
    lines.map(|line| format!("{line}\n")).collect()
}

fn refused(run: &Run, most: usize, style: Style) -> String {
    let refused = &run.plan.refused;
    if refused.is_empty() {
        return String::new();
    }
    let mut text = "\nRefused\n".to_owned();
    for (_, reason) in refused.iter().take(most) {
        text += &notes::item(&format!("{} [{}]", reason.text, reason.code), style);
    }
    if refused.len() > most {
        text += &notes::item(&format!("and {} more", refused.len() - most), style);
    }
    text
}

/// Why each VM is where it is; what the placement costs, by term and by VM.
fn explain(runs: &Runs, run: &Run, vms: &[Vm], style: Style) -> String {
    let mut text = format!("\nWhy, by {}\n", run.policy);
    for (_, reason) in &run.plan.reasons {
        text += &notes::item(&reason.text, style);
    }
    text += &refused(run, usize::MAX, style);
    text += &format!(
        "\nWhat it costs, by {}: {} of {} vCPUs of work\n",
        run.policy,
        exact_vcpus(run.bill.total.total()),
        cpus(run.metrics.demand)
    );
    for (term, nano) in run.bill.total.terms() {
        let line = format!("{} {}: {}", exact_vcpus(nano), term.as_str(), meaning(term));
        text += &notes::item(&line, style);
    }
    text += &format!("\nOf that each VM by itself, by {}\n", run.policy);
    let own = (0..).map(VmId).zip(&run.bill.by_vm);
    for (id, cost) in own.filter(|(_, cost)| **cost != Cost::default()) {
        let terms: Vec<String> = cost
            .terms()
            .map(|(term, nano)| format!("{} {}", term.as_str(), exact_vcpus(nano)))
            .collect();
        let name = vms.get(id.index()).map_or("", |vm| vm.name.as_str());
        text += &notes::item(&format!("{name}: {}", terms.join(", ")), style);
    }
    let shared = run.bill.by_domain.iter().map(Cost::total).sum::<i64>();
    let line = format!(
        "the rest, {}, is what VMs lose to each other on {} LLCs",
        exact_vcpus(shared),
        runs.host.llcs.len()
    );
    text + &notes::item(&line, style)
}
