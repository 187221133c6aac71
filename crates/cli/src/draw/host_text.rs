//! A host machine as text: what it is in numbers, its parts as boxes, what is known of distances, caches and devices,
//! and what to know before placing VMs on it.

use model::Host;

use super::boxes::picture;
use super::facts::{self, Distances};
use super::notes::finding_lines;
use super::palette::Role;
use super::parts::Machine;
use super::text::{Block, LABEL, Line, flow, hanging, print, wrap};
use super::{MIN_WIDTH, Style};

/// Draws a host. No line is wider than the style says (or [`MIN_WIDTH`]); every usable CPU number appears, by itself or
/// in a range; equal parts of big machines are drawn once. Ends with a line feed.
pub fn host_text(host: &Host, style: Style) -> String {
    let width = style.width.max(MIN_WIDTH);
    let machine = Machine::of_host(host);
    let (name, processor) = facts::names(host);
    let mut page = header(&name, &processor, &facts::summary(host), width);
    page.push(Line::default());
    let picture = picture(&machine, width);
    page.extend(picture.lines);
    let mut signs = picture.legend;
    signs.retain(|(role, _)| *role != Role::Isolated);
    signs.extend(set_apart_signs(host));
    page.extend(legend_lines(&signs, width));
    page.push(Line::default());
    page.extend(captions(host, width));
    let findings = model::host::findings(host);
    page.extend(
        findings
            .iter()
            .flat_map(|finding| finding_lines(finding, width)),
    );
    while page.last().is_some_and(|line| line.width() == 0) {
        page.pop();
    }
    print(&page, style.colour)
}

/// The name in bold, what it is, and its numbers.
pub(super) fn header(name: &str, what: &str, items: &[String], width: usize) -> Block {
    let mut lines = Block::new();
    let both = format!("{name}  {what}");
    let one_line = wrap(&both, width).len() == 1;
    if one_line {
        lines.push(Line::new(Role::Title, name).with(Role::Plain, format!("  {what}")));
    } else {
        lines.extend(
            wrap(name, width)
                .into_iter()
                .map(|line| Line::new(Role::Title, line)),
        );
        lines.extend(
            wrap(what, width)
                .into_iter()
                .map(|line| Line::new(Role::Plain, line)),
        );
    }
    let numbers = flow(items, " · ", false, width);
    lines.extend(numbers.into_iter().map(|line| Line::new(Role::Plain, line)));
    lines
}

/// What the signs of the picture mean.
pub(super) fn legend_lines(signs: &[(Role, String)], width: usize) -> Block {
    let mut lines = Block::new();
    for (role, text) in signs {
        let sign: String = text.chars().take(1).collect();
        let entry =
            Line::new(*role, sign).with(Role::Muted, text.chars().skip(1).collect::<String>());
        match lines.last_mut() {
            Some(line) if line.width() + 3 + entry.width() <= width => {
                *line = std::mem::take(line).with(Role::Plain, "   ").then(entry);
            }
            _ => lines.push(entry),
        }
    }
    lines
}

/// Captions with their labels in a column of their own.
fn captions(host: &Host, width: usize) -> Block {
    let room = width - LABEL;
    let mut lines = Block::new();
    let distances = match facts::distances(host) {
        Distances::None => Vec::new(),
        Distances::Classes(classes) => flow(&classes, ", ", true, room),
        Distances::Table(ids, rows, classes) => {
            let table = table(&ids, &rows);
            let fits = table.iter().all(|line| line.len() <= room);
            if fits {
                table
            } else {
                flow(&classes, ", ", true, room)
            }
        }
    };
    lines.extend(hanging(Role::Muted, "distances", LABEL, distances));
    for fact in facts::facts(host) {
        let texts = fact.lines.iter().flat_map(|items| {
            // A single item is prose. Items go on with an indent, for the next line may be another's.
            let mut lines = match items.as_slice() {
                [prose] => wrap(prose, room - 2),
                _ => flow(items, " · ", false, room - 2),
            };
            lines
                .iter_mut()
                .skip(1)
                .for_each(|line| line.insert_str(0, "  "));
            lines
        });
        lines.extend(hanging(Role::Muted, fact.label, LABEL, texts.collect()));
    }
    lines
}

/// Distances from the node of the row to the node of the column.
fn table(ids: &[u32], rows: &[Vec<u32>]) -> Vec<String> {
    let digits = |number: &u32| number.to_string().len();
    let cell = ids
        .iter()
        .chain(rows.iter().flatten())
        .map(digits)
        .max()
        .unwrap_or(1)
        + 2;
    let row = |label: &str, numbers: &[u32]| {
        let start = format!("{label:>4} ");
        numbers
            .iter()
            .fold(start, |line, number| format!("{line}{number:>cell$}"))
    };
    let head = row("node", ids);
    let rows = ids
        .iter()
        .zip(rows)
        .map(|(id, distances)| row(&id.to_string(), distances));
    std::iter::once(head).chain(rows).collect()
}

fn set_apart_signs(host: &Host) -> Vec<(Role, String)> {
    let signs = facts::set_apart(host).into_iter().map(|(what, cpus)| {
        let role = if what == "isolated" {
            Role::Isolated
        } else {
            Role::Absent
        };
        let sign = if what == "isolated" { '▒' } else { '·' };
        let list = cpus.to_string();
        let list = match cpus.len() {
            1 => format!("CPU {list}"),
            many if list.len() > MIN_WIDTH / 2 => format!("{many} CPUs"),
            _ => format!("CPUs {list}"),
        };
        (role, format!("{sign} {what}: {list}"))
    });
    signs.collect()
}
