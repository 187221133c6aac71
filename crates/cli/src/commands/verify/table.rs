//! The comparison as a person reads it: a column per guest, then what the guest's own tools say.

use comfy_table::{Cell, Color, ContentArrangement, Table, presets};
use lab::compare::{Field, NOT_REPORTED, NOT_SHOWN, show};
use lab::report::coreinfo_map;
use model::Finding;

use super::Guest;
use crate::draw::Style;
use crate::say;

/// Lines of `lscpu` that tell of topology.
const LSCPU_KEYS: [&str; 12] = [
    "CPU(s):",
    "On-line CPU(s) list:",
    "Model name:",
    "Thread(s) per core:",
    "Core(s) per socket:",
    "Socket(s):",
    "L1d cache:",
    "L2 cache:",
    "L3 cache:",
    "L1d:",
    "L2:",
    "L3:",
];

/// Guests larger than this are summed up unless the tools' output is asked for.
const MAP_VCPUS: usize = 32;

pub(super) fn comparison(guests: &[Guest], tools: bool, style: Style) -> String {
    let mut text = fields(guests, style) + "\n" + &lscpu(guests, style);
    for guest in guests {
        if !guest.seen.cpus.is_empty() && (tools || guest.seen.online.len() <= MAP_VCPUS) {
            text += &format!(
                "\nCoreInfo-style map of the guest under rule {}\n{}",
                guest.rule,
                map(guest, tools)
            );
        }
        for tool in &guest.seen.tools {
            if tools || tool.command.starts_with("numactl") {
                let output = tool.text.trim_end();
                text += &format!(
                    "\n$ {}   (in the guest under rule {})\n{output}\n",
                    tool.command, guest.rule
                );
            }
        }
    }
    text.push('\n');
    for guest in guests {
        let verdict = if guest.ok() {
            "sees exactly the plan"
        } else {
            "does NOT see the plan"
        };
        text += &format!("The guest under rule {} {verdict}.\n", guest.rule);
    }
    let mut findings: Vec<Finding> = Vec::new();
    for finding in guests.iter().flat_map(|guest| &guest.findings) {
        if !findings.contains(finding) {
            findings.push(finding.clone());
        }
    }
    if !findings.is_empty() {
        text.push('\n');
        text += &say::findings(&findings, style);
    }
    text
}

/// The map without the caches that every core has for itself, unless everything is asked for.
fn map(guest: &Guest, whole: bool) -> String {
    let private = |line: &&str| line.contains("Level 1,") || line.contains("Level 2,");
    let map = coreinfo_map(&guest.seen);
    map.lines()
        .filter(|line| whole || !private(line))
        .map(|line| format!("{line}\n"))
        .collect()
}

fn fields(guests: &[Guest], style: Style) -> String {
    let mut table = new_table(style);
    let mut header = vec!["field".to_owned()];
    header.extend(guests.iter().map(|guest| format!("rule {}", guest.rule)));
    table.set_header(header);
    let mut names: Vec<&str> = Vec::new();
    for field in guests.iter().flat_map(|guest| &guest.fields) {
        if !names.contains(&field.name.as_str()) {
            names.push(&field.name);
        }
    }
    for name in names {
        let mut row = vec![Cell::new(name)];
        for guest in guests {
            let field = guest.fields.iter().find(|field| field.name == name);
            row.push(field.map_or_else(|| Cell::new(""), |field| cell(field, style)));
        }
        table.add_row(row);
    }
    format!("What the guest's kernel sees\n{}\n", table.trim_fmt())
}

fn cell(field: &Field, style: Style) -> Cell {
    let seen = show(&field.seen);
    if field.ok && [NOT_REPORTED, NOT_SHOWN].contains(&seen.as_str()) {
        return Cell::new(format!("– {seen}"));
    }
    let (text, colour) = if field.ok {
        (format!("✓ {seen}"), Color::Green)
    } else {
        (
            format!("✗ {seen}, planned {}", show(&field.planned)),
            Color::Red,
        )
    };
    let cell = Cell::new(text);
    if style.colour { cell.fg(colour) } else { cell }
}

/// The lines of the guests' own `lscpu` side by side.
fn lscpu(guests: &[Guest], style: Style) -> String {
    let outputs: Vec<Vec<(&str, &str)>> = guests
        .iter()
        .map(|guest| {
            let tool = guest.seen.tools.iter().find(|tool| tool.command == "lscpu");
            let lines = tool.map_or("", |tool| tool.text.as_str()).lines();
            lines
                .filter_map(|line| line.split_at_checked(line.find(':')? + 1))
                .collect()
        })
        .collect();
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in outputs.iter().flatten() {
        let wanted = LSCPU_KEYS.contains(&key.trim()) || key.trim().starts_with("NUMA node");
        if wanted && !keys.contains(key) {
            keys.push(key);
        }
    }
    if keys.is_empty() {
        return String::new();
    }
    let mut table = new_table(style);
    let mut header = vec!["$ lscpu".to_owned()];
    header.extend(guests.iter().map(|guest| format!("rule {}", guest.rule)));
    table.set_header(header);
    for key in keys {
        let value = |lines: &Vec<(&str, &str)>| {
            lines
                .iter()
                .find(|(known, _)| *known == key)
                .map_or(String::new(), |(_, value)| value.trim().to_owned())
        };
        let mut row = vec![key.trim().to_owned()];
        row.extend(outputs.iter().map(value));
        table.add_row(row);
    }
    format!("What the guest's own lscpu says\n{}\n", table.trim_fmt())
}

fn new_table(style: Style) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(style.width).unwrap_or(100));
    if style.colour {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table
}
