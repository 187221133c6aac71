//! The answer about several hosts: a line for each kind of host, what fits, what fails; and as CSV.

use policy::fleet::Loss;
use policy::metrics::Metrics;

use super::fleet::Placed;
use super::report;
use super::request::Request;
use super::words::{cpus, vcpus};
use crate::draw::{Style, notes, plural};
use crate::say;

/// Rows of a table for people.
const ROWS: usize = 30;
/// Refused or homeless VMs that are named.
const NAMED: usize = 8;

/// A host in figures; hosts with equal ones share a row.
#[derive(PartialEq)]
struct Row<'a> {
    kind: &'a str,
    metrics: &'a Metrics,
    host_mib: u64,
    more: Option<u32>,
    homeless: Option<usize>,
}

pub(super) fn text(request: &Request, placed: &Placed, explain: bool, style: Style) -> String {
    let wanted: u64 = request.vms.iter().map(|vm| u64::from(vm.vcpus)).sum();
    let heading = format!(
        "{} with {wanted} vCPUs on {}",
        plural(request.vms.len(), "VM"),
        plural(placed.members.len(), "host"),
    );
    let mut text = notes::paragraph(&heading, style) + "\n";
    text += &report::table(&[("best", &placed.metrics)]);
    text.push('\n');
    text += &hosts(placed);
    text += &headroom(request, placed, style);
    if placed.metrics.refused > 0 {
        text += "\nRefused\n";
        let most = if explain { usize::MAX } else { NAMED };
        for (_, reason) in placed.refused(request).take(most) {
            text += &notes::item(&format!("{} [{}]", reason.text, reason.code), style);
        }
        let left = placed.plan.refused.len().saturating_sub(most);
        if left > 0 {
            text += &notes::item(&format!("and {left} more"), style);
        }
    }
    if explain {
        for (label, held) in placed.labels.iter().zip(&placed.plan.hosts) {
            if !held.plan.reasons.is_empty() {
                text += &format!("\nWhy, on {label}\n");
            }
            for (_, reason) in &held.plan.reasons {
                text += &notes::item(&reason.text, style);
            }
        }
    }
    if !request.findings.is_empty() {
        text.push('\n');
        text += &say::findings(&request.findings, style);
    }
    text
}

/// Figures by host, a line each.
pub(super) fn csv(placed: &Placed) -> String {
    let mut text = report::CSV_HEAD.trim_end().to_owned();
    text += &format!(
        "{}{}\n",
        if placed.room.is_some() { ",more" } else { "" },
        if placed.losses.is_some() {
            ",homeless_if_it_fails"
        } else {
            ""
        }
    );
    for (index, (label, metrics)) in placed.labels.iter().zip(&placed.by_host).enumerate() {
        text += report::csv_row("best", label, metrics).trim_end();
        if let Some((_, room)) = &placed.room {
            text += &format!(",{}", room.by_host[index]);
        }
        if let Some(losses) = &placed.losses {
            text += &format!(",{}", losses[index].homeless.len());
        }
        text.push('\n');
    }
    text
}

fn hosts(placed: &Placed) -> String {
    let rows: Vec<Row> = (0..placed.members.len())
        .map(|index| row(placed, index))
        .collect();
    let runs: Vec<&[Row]> = rows.chunk_by(|a, b| a == b).collect();
    let mut table = report::plain_table();
    let mut header = vec!["host", "VMs", "vCPUs on threads", "memory", "lost vCPUs"];
    header.extend(placed.room.iter().map(|_| "more fit"));
    header.extend(placed.losses.iter().map(|_| "homeless if it fails"));
    table.set_header(header);
    let mut start = 0;
    for run in runs.iter().take(ROWS) {
        let name = match run.len() {
            1 => placed.labels[start].clone(),
            n => {
                let last = &placed.labels[start + n - 1];
                let number = last.rsplit_once('#').map_or("", |(_, number)| number);
                format!("{}–{number}", placed.labels[start])
            }
        };
        start += run.len();
        table.add_row(cells(name, &run[0]));
    }
    let mut text = report::print(&mut table);
    if runs.len() > ROWS {
        let left = placed.members.len() - start;
        text += &format!("and {} more; --csv FILE has all\n", plural(left, "host"));
    }
    text
}

fn row(placed: &Placed, index: usize) -> Row<'_> {
    let host = &placed.members[index].host;
    Row {
        kind: &host.name,
        metrics: &placed.by_host[index],
        host_mib: host.memory_mib(),
        more: placed.room.as_ref().map(|(_, room)| room.by_host[index]),
        homeless: placed
            .losses
            .as_ref()
            .map(|losses| losses[index].homeless.len()),
    }
}

fn cells(name: String, row: &Row) -> Vec<String> {
    let metrics = row.metrics;
    let memory = match row.host_mib {
        0 => format!("{} GiB", metrics.memory_mib / 1024),
        all => format!("{} of {} GiB", metrics.memory_mib / 1024, all / 1024),
    };
    let mut cells = vec![
        name,
        metrics.placed.to_string(),
        format!("{} on {}", metrics.vcpus, metrics.threads),
        memory,
        format!(
            "{} of {}",
            vcpus(metrics.cost.total()),
            cpus(metrics.demand)
        ),
    ];
    cells.extend(row.more.map(|more| more.to_string()));
    cells.extend(row.homeless.map(|homeless| homeless.to_string()));
    cells
}

fn headroom(request: &Request, placed: &Placed, style: Style) -> String {
    let mut text = String::new();
    if let Some((wanted, room)) = &placed.room {
        let sentence = format!(
            "{} more VMs of {wanted} fit, without moving any and without more demand than threads on an LLC that had none.",
            room.total()
        );
        text += &format!("\n{}", notes::paragraph(&sentence, style));
    }
    if let Some(losses) = &placed.losses {
        text += &format!(
            "\n{}",
            notes::paragraph(&failure(request, placed, losses), style)
        );
    }
    text
}

/// What the worst failure of one host means.
fn failure(request: &Request, placed: &Placed, losses: &[Loss]) -> String {
    let worst = losses
        .iter()
        .max_by_key(|loss| (loss.homeless.len(), loss.vms, std::cmp::Reverse(loss.host)));
    let Some(worst) = worst else {
        return "There is no host that could fail.".to_owned();
    };
    let label = &placed.labels[worst.host];
    if worst.homeless.is_empty() {
        return format!(
            "Any one host may fail: its VMs find a place on the others, at most {} of them ({label}).",
            worst.vms
        );
    }
    let names: Vec<&str> = worst
        .homeless
        .iter()
        .take(NAMED)
        .filter_map(|vm| request.vms.get(vm.index()))
        .map(|vm| vm.name.as_str())
        .collect();
    let dots = if worst.homeless.len() > NAMED {
        ", …"
    } else {
        ""
    };
    let short = losses.iter().filter(|loss| !loss.homeless.is_empty());
    format!(
        "When {label} fails, {} of its {} have no place: {}{dots}. {} of {} cannot fail without that.",
        worst.homeless.len(),
        plural(worst.vms as usize, "VM"),
        names.join(", "),
        short.count(),
        plural(losses.len(), "host"),
    )
}
