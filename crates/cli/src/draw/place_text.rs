//! A placement as text: the machine with a box for each LLC, a column for each core, and on the lines of a box the
//! threads of its cores with the VM that sits on each.
//!
//! ```text
//! package 0 · node 0                      LLC 0 has VM A on four cores, and VM B on their siblings
//!   LLC      0    1
//!   cores    AAAA│CCCC
//!   siblings BBBB│····
//! ```

use std::collections::BTreeMap;

use model::CpuSet;
use model::host::{CoreId, LlcId, NodeId};
use model::placement::VmId;

use super::palette::Role;
use super::place_labels::{self, Labels};
use super::place_seats::{PlaceView, Seat, Seats};
use super::text::{Block, Line, flow, flow_cpus, hanging, print};
use super::units::{mib, ranges};
use super::{MIN_WIDTH, Style};

/// Columns of the names of lines.
const LABEL: usize = 11;
/// Lines of vCPUs that wait for a thread; a `+` stands for more.
const WAITING: usize = 3;
/// Lines of the list of VMs at most.
const LEGEND: usize = 8;
/// Lines of LLCs of a node that are all drawn.
const STRIPS: usize = 4;
/// Pairs of VMs on one core that are listed.
const PAIRS: usize = 24;

/// How much of a machine is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Nodes with their names and memory, LLCs with their numbers, and who shares cores.
    Full,
    /// Boxes only, to compare several placements on one screen.
    Compact,
}

/// An LLC, or a part of one where it is wider than a line.
struct Cell {
    llc: LlcId,
    /// Threads of its cores.
    cores: Vec<CpuSet>,
}

/// A CPU set for each core of an LLC on a node.
type Nodes = BTreeMap<(u32, NodeId), BTreeMap<LlcId, BTreeMap<CoreId, CpuSet>>>;

/// Draws who sits where. Ends with a line feed.
pub fn place_text(view: &PlaceView, detail: Detail, style: Style) -> String {
    let width = style.width.max(MIN_WIDTH);
    let seats = Seats::new(view);
    let labels = Labels::new(view.vms.len());
    let mut page = Block::new();
    for ((package, node), llcs) in nodes(view) {
        if detail == Detail::Full {
            page.push(title(view, package, node));
        }
        let cells = cells(llcs, labels, width - LABEL);
        let drawing = Drawing {
            seats: &seats,
            labels,
            detail,
            name: format!("node {}", view.host.nodes[node.index()].id),
        };
        page.extend(drawing.strips(&cells, width - LABEL));
    }
    if detail == Detail::Full {
        page.extend(pairs(view, &seats, labels, width));
    }
    print(&page, style.colour)
}

/// Explains the letters and signs of drawings of these placements. Ends with a line feed.
pub fn place_legend(views: &[PlaceView], style: Style) -> String {
    let width = style.width.max(MIN_WIDTH);
    let Some(first) = views.first() else {
        return String::new();
    };
    let labels = Labels::new(first.vms.len());
    let entries = place_labels::entries(first.vms);
    let mut lines = Block::new();
    let mut shown = 0;
    for entry in &entries {
        let [start, sign, end] = place_labels::span(labels, entry.ends);
        let line = Line::new(place_labels::role(entry.ends.0), start)
            .with(Role::Muted, sign)
            .with(place_labels::role(entry.ends.1), end)
            .with(Role::Plain, format!(" {}", entry.text));
        let is_full = lines.len() == LEGEND;
        match lines.last_mut() {
            Some(last) if last.width() + 3 + line.width() <= width => {
                *last = std::mem::take(last).with(Role::Plain, "   ").then(line);
            }
            _ if is_full => break,
            _ => lines.push(line),
        }
        shown += (entry.ends.1.0 - entry.ends.0.0 + 1) as usize;
    }
    if shown < first.vms.len() {
        let more = format!("+{} more", first.vms.len() - shown);
        lines.push(Line::new(Role::Muted, more));
    }
    let signs = flow(&signs(views), "   ", false, width).into_iter();
    lines.extend(signs.map(|text| Line::new(Role::Muted, text)));
    print(&lines, style.colour)
}

fn nodes(view: &PlaceView) -> Nodes {
    let mut nodes = Nodes::new();
    for cpu in &view.host.cpus {
        let llcs = nodes.entry((cpu.package.0, cpu.node)).or_default();
        let cores = llcs.entry(cpu.llc).or_default();
        cores.entry(cpu.core).or_default().insert(cpu.id);
    }
    nodes
}

fn title(view: &PlaceView, package: u32, node: NodeId) -> Line {
    let home = &view.host.nodes[node.index()];
    let mut line = Line::default();
    if view.host.packages_known {
        line = line
            .with(Role::Package, format!("package {package}"))
            .with(Role::Frame, " · ");
    }
    line = line.with(Role::Node, format!("node {}", home.id));
    if home.memory_mib == 0 {
        return line;
    }
    let used = view.placement.memory.iter().filter(|own| own.node == node);
    let used: u64 = used.map(|own| own.mib).sum();
    let used = if used == 0 {
        "none".to_owned()
    } else {
        mib(used)
    };
    let text = format!(" · {used} of {} for VMs", mib(home.memory_mib));
    line.with(Role::Muted, text)
}

/// Columns of a core.
fn core_width(labels: Labels) -> usize {
    match labels.width() {
        1 => 1,
        // Numbers need blanks between them.
        digits => digits + 1,
    }
}

fn cells(
    llcs: BTreeMap<LlcId, BTreeMap<CoreId, CpuSet>>,
    labels: Labels,
    room: usize,
) -> Vec<Cell> {
    let most = (room / core_width(labels)).max(1);
    let mut cells = Vec::new();
    for (llc, cores) in llcs {
        let cores: Vec<CpuSet> = cores.into_values().collect();
        let pieces = cores.chunks(most).map(<[CpuSet]>::to_vec);
        cells.extend(pieces.map(|cores| Cell { llc, cores }));
    }
    cells
}

/// Columns of an LLC: its cores, and its number above them.
fn width_of(cell: &Cell, labels: Labels) -> usize {
    let digits = cell.llc.0.to_string().len();
    (cell.cores.len() * core_width(labels)).max(digits)
}

/// The LLCs of a node on as few lines as hold them, evenly.
fn strips(cells: &[Cell], labels: Labels, room: usize) -> impl Iterator<Item = &[Cell]> {
    let widest = cells.iter().map(|cell| width_of(cell, labels)).max();
    let columns = ((room + 1) / (widest.unwrap_or(1) + 1)).max(1);
    let rows = cells.len().div_ceil(columns).max(1);
    cells.chunks(cells.len().div_ceil(rows).max(1))
}

/// What the lines of a strip share.
struct Drawing<'a> {
    seats: &'a Seats,
    labels: Labels,
    detail: Detail,
    name: String,
}

impl Drawing<'_> {
    /// All LLCs of a node; where they are many, lines where nobody sits are one.
    fn strips(&self, cells: &[Cell], room: usize) -> Block {
        let all: Vec<&[Cell]> = strips(cells, self.labels, room).collect();
        let is_many = all.len() > STRIPS;
        let runs = all.chunk_by(|a, b| is_many && self.is_free(a) && self.is_free(b));
        let mut lines = Block::new();
        for run in runs {
            if let ([_, _, ..], true) = (run, is_many) {
                let ids = run.iter().flat_map(|strip| strip.iter());
                let mut ids: Vec<u32> = ids.map(|cell| cell.llc.0).collect();
                ids.dedup();
                let texts = flow_cpus(&format!("LLCs {} are free", ranges(&ids)), room);
                lines.extend(hanging(Role::Muted, "", LABEL, texts));
            } else {
                lines.extend(run.iter().flat_map(|strip| self.strip(strip)));
            }
        }
        lines
    }

    fn is_free(&self, cells: &[Cell]) -> bool {
        let cpus = cells.iter().flat_map(|cell| &cell.cores);
        cpus.flat_map(CpuSet::iter)
            .all(|cpu| self.seats.first(cpu) == Seat::Free)
    }

    fn strip(&self, cells: &[Cell]) -> Block {
        let cores = || cells.iter().flat_map(|cell| &cell.cores);
        let threads = cores().map(CpuSet::len).max().unwrap_or(1);
        let waiting = cores()
            .map(|cpus| self.seats.waiting(cpus).len())
            .max()
            .unwrap_or(0);
        let mut lines = Block::new();
        if self.detail == Detail::Full {
            lines.push(self.numbers(cells));
        }
        for row in 0..threads + waiting.min(WAITING) {
            let name = match (row, self.detail) {
                (0, Detail::Compact) => self.name.as_str(),
                (0, Detail::Full) => "  cores",
                (row, _) if row >= threads => "  waiting",
                _ => "  siblings",
            };
            let mut line = Line::new(Role::Muted, name).padded(LABEL);
            for (position, cell) in cells.iter().enumerate() {
                if position > 0 {
                    line = line.with(Role::Frame, "│");
                }
                let start = line.width();
                for cpus in &cell.cores {
                    let (role, sign) = self.sign(cpus, row, threads);
                    let blanks = core_width(self.labels).saturating_sub(sign.chars().count());
                    line = line.with(role, sign).with(Role::Plain, " ".repeat(blanks));
                }
                line = line.padded(start + width_of(cell, self.labels));
            }
            lines.push(line);
        }
        lines
    }

    fn numbers(&self, cells: &[Cell]) -> Line {
        let start = Line::new(Role::Muted, "  LLC").padded(LABEL);
        cells
            .iter()
            .enumerate()
            .fold(start, |line, (position, cell)| {
                let line = if position > 0 {
                    line.with(Role::Plain, " ")
                } else {
                    line
                };
                let number = Line::new(Role::Llc, cell.llc.0.to_string());
                line.then(number.padded(width_of(cell, self.labels)))
            })
    }

    /// What a core shows on a line: a thread, or a vCPU that waits for one.
    fn sign(&self, cpus: &CpuSet, row: usize, threads: usize) -> (Role, String) {
        let of_vm = |vm: VmId| (place_labels::role(vm), self.labels.of(vm));
        if row >= threads {
            let waiting = self.seats.waiting(cpus);
            let (index, last) = (row - threads, WAITING - 1);
            return match waiting.get(index) {
                Some(_) if index == last && waiting.len() > WAITING => {
                    (Role::Warning, "+".to_owned())
                }
                Some(&vm) => of_vm(vm),
                None => (Role::Plain, String::new()),
            };
        }
        let Some(cpu) = cpus.iter().nth(row) else {
            return (Role::Plain, String::new());
        };
        match self.seats.first(cpu) {
            Seat::Vm(vm) => of_vm(vm),
            Seat::Free => (Role::Muted, "·".to_owned()),
            Seat::Reserved => (Role::Absent, "░".to_owned()),
            Seat::Isolated => (Role::Isolated, "▒".to_owned()),
            Seat::KeptFree => (Role::Muted, "×".to_owned()),
        }
    }
}

/// Who shares cores with whom, the most frequent first.
fn pairs(view: &PlaceView, seats: &Seats, labels: Labels, width: usize) -> Block {
    let mut counts: BTreeMap<(VmId, VmId), usize> = BTreeMap::new();
    for core in &view.host.cores {
        let mut vms: Vec<VmId> = core
            .cpus
            .iter()
            .flat_map(|cpu| seats.on(cpu))
            .copied()
            .collect();
        vms.sort_unstable();
        if vms.len() > 1 {
            for pair in vms.windows(2) {
                *counts.entry((pair[0], pair[1])).or_default() += 1;
            }
        }
    }
    if counts.is_empty() {
        return hanging(Role::Muted, "pairs", LABEL, vec!["none".to_owned()]);
    }
    let mut sorted: Vec<((VmId, VmId), usize)> = counts.into_iter().collect();
    sorted.sort_by_key(|&(pair, count)| (std::cmp::Reverse(count), pair));
    let text = |&((a, b), count): &((VmId, VmId), usize)| {
        let both = format!("{}+{}", labels.of(a), labels.of(b));
        if count > 1 {
            format!("{both} {count}×")
        } else {
            both
        }
    };
    let mut texts: Vec<String> = sorted.iter().take(PAIRS).map(text).collect();
    if sorted.len() > PAIRS {
        texts.push(format!("+{} more pairs", sorted.len() - PAIRS));
    }
    hanging(
        Role::Muted,
        "pairs",
        LABEL,
        flow(&texts, "  ", false, width - LABEL),
    )
}

fn signs(views: &[PlaceView]) -> Vec<String> {
    let mut found: Vec<Seat> = Vec::new();
    for view in views {
        let seats = Seats::new(view);
        found.extend(view.host.cpus.iter().map(|cpu| seats.first(cpu.id)));
    }
    let known = [
        (Seat::Free, "· free"),
        (Seat::Reserved, "░ reserved"),
        (Seat::Isolated, "▒ isolated, for dedicated VMs"),
        (Seat::KeptFree, "× kept free beside a dedicated vCPU"),
    ];
    let there = known.into_iter().filter(|(seat, _)| found.contains(seat));
    std::iter::once("a box is an LLC, a column a core")
        .chain(there.map(|(_, text)| text))
        .map(str::to_owned)
        .collect()
}
