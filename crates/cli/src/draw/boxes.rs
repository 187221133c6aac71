//! Draws the parts of a machine as boxes of text.
//!
//! Packages and nodes are framed, LLCs inside them are cells (`LLC 0 ■■■■ 0-3,128-131`, a block per core), dies are rows
//! of cells. Small machines show the CPU numbers of every core instead. The most detailed picture within the line budget
//! wins; in it, every box takes the arrangement with the fewest lines.

mod cores;
mod names;

use super::collapse::{collapse, height, leaves, summarise};
use super::palette::Role;
use super::parts::{Kind, Machine, Name, Part, Speed, Tile};
use super::text::{Block, Line, beside, flow_cpus, width, wrap};
use super::units::plural;
use cores::{glyph_rows, grid, legend, tile_text};
pub(super) use names::cache_size;
use names::{Sizes, join, names};

/// Most lines of a picture, where its parts allow: with captions it then fits a terminal of some 40 lines.
const LINES: usize = 28;
/// Most cores that are drawn one by one with their CPU numbers.
const CORES: usize = 64;
/// Most cells drawn before equal ones are drawn as one.
const CELLS: usize = 256;
/// Most boxes beside each other.
const COLUMNS: usize = 16;
/// Most signs of cores on a line.
const SIGNS: usize = 32;
/// Columns of a CPU list in a cell; longer lists are broken.
const CPU_COLUMNS: usize = 24;

/// A picture and what its signs mean.
pub(super) struct Picture {
    pub(super) lines: Block,
    pub(super) legend: Vec<(Role, String)>,
}

/// The picture, at most `room` columns wide.
pub(super) fn picture(machine: &Machine, room: usize) -> Picture {
    let parts = collapse(&machine.parts(), None);
    let tallest = parts.iter().map(height).max().unwrap_or(0);
    let n_cores: usize = parts.iter().map(|part| part.tiles.len()).sum();
    let mut lines = Block::new();
    for detail in Detail::all(tallest, machine.guest) {
        let parts = detail.of(&parts);
        let too_much = match detail {
            Detail::Cores => n_cores > CORES,
            Detail::Collapsed(height) if height == tallest => false,
            _ => leaves(&parts) > CELLS,
        };
        if too_much {
            continue;
        }
        let outer = Space {
            depth: detail.depth(),
            room,
            least: 0,
            strict: false,
        };
        lines = Pen::new(machine, &parts, detail)
            .best(&parts, outer)
            .unwrap_or_default();
        if lines.len() <= detail.lines() {
            break;
        }
    }
    let signs: String = lines.iter().map(|line| line.plain().1).collect();
    let mut legend = legend(parts.iter().flat_map(|part| &part.tiles));
    legend.retain(|(_, text)| text.chars().next().is_some_and(|sign| signs.contains(sign)));
    Picture { lines, legend }
}

/// How much is drawn, most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Every core.
    Cores,
    /// Every box.
    Cells,
    /// Boxes so high that equal neighbours are drawn once.
    Collapsed(usize),
    /// A line for each of the outermost boxes.
    Outermost,
}

impl Detail {
    fn all(tallest: usize, guest: bool) -> Vec<Self> {
        let mut all = vec![Self::Cores, Self::Cells];
        all.extend((0..tallest).map(Self::Collapsed));
        // The vCPUs of equal sockets follow from their order; the CPUs of packages do not.
        if !guest {
            all.push(Self::Outermost);
        }
        all.push(Self::Collapsed(tallest));
        all
    }

    fn of(self, parts: &[Part]) -> Vec<Part> {
        match self {
            Self::Cores | Self::Cells => parts.to_vec(),
            Self::Collapsed(height) => collapse(parts, Some(height)),
            Self::Outermost => parts.iter().map(summarise).collect(),
        }
    }

    /// Most lines it may take to be preferred.
    fn lines(self) -> usize {
        if self == Self::Outermost {
            2 * LINES
        } else {
            LINES
        }
    }

    /// Boxes around the outermost: one that is not drawn, where they are lines.
    fn depth(self) -> usize {
        usize::from(self == Self::Outermost)
    }
}

/// How all parts of one picture are drawn.
struct Pen {
    guest: bool,
    /// Whether cores are drawn one by one.
    cores: bool,
    /// Sizes to tell in cells: those that differ, for the header tells the others.
    sizes: Sizes,
    /// Columns of what recurs, so that it aligns all over the picture: labels of rows; labels, signs and CPU lists of
    /// cells; CPU numbers of a core by its number of threads.
    row: usize,
    label: usize,
    signs: usize,
    cpus: usize,
    tiles: Vec<usize>,
}

/// Where a part is drawn.
#[derive(Clone, Copy)]
struct Space {
    /// Boxes around it.
    depth: usize,
    /// Columns it may take.
    room: usize,
    /// Columns its frame must take.
    least: usize,
    /// Whether it may not be drawn at all rather than with broken titles and cells.
    strict: bool,
}

impl Pen {
    fn new(machine: &Machine, parts: &[Part], detail: Detail) -> Self {
        let mut pen = Self {
            guest: machine.guest,
            cores: detail == Detail::Cores,
            sizes: Sizes {
                memory: !even(parts, &|name| {
                    (name.kind == Kind::Node).then_some(name.memory_mib)
                }),
                caches: !even(parts, &|name| name.cache),
                shown_caches: !even(parts, &|name| name.cache),
            },
            row: 0,
            label: 0,
            signs: 0,
            cpus: 0,
            tiles: Vec::new(),
        };
        if detail.depth() > 0 {
            pen.measure(parts);
        }
        for part in parts {
            pen.measure(&part.children);
            for tile in part.tiles.iter().take(CORES) {
                let threads = tile.threads.len();
                pen.tiles.resize(pen.tiles.len().max(threads + 1), 0);
                pen.tiles[threads] = tile_text(tile).width().max(pen.tiles[threads]);
            }
        }
        pen
    }

    fn measure(&mut self, parts: &[Part]) {
        for part in parts {
            if self.is_row(part) {
                self.row = self.label(part).width().max(self.row);
            }
            if !is_cell(part) {
                self.measure(&part.children);
                continue;
            }
            self.label = self.label(part).width().max(self.label);
            self.signs = width(&self.signs(part)).max(self.signs);
            self.cpus = part.cpus.to_string().len().min(CPU_COLUMNS).max(self.cpus);
        }
    }

    /// The parts without broken titles and cells if that is possible, with them otherwise. `None` only when strict.
    fn best(&self, parts: &[Part], space: Space) -> Option<Block> {
        let strict = self.arrange(
            parts,
            Space {
                strict: true,
                ..space
            },
        );
        if strict.is_some() || space.strict {
            strict
        } else {
            self.arrange(parts, space)
        }
    }

    /// Parts beside and below each other, in the number of columns that takes the fewest lines. `None` only when strict.
    fn arrange(&self, parts: &[Part], space: Space) -> Option<Block> {
        let cells = space.depth > 0 && !self.cores && parts.iter().all(is_cell);
        let separator = if cells {
            Line::new(Role::Frame, " │ ")
        } else if parts.iter().all(|part| self.is_row(part)) {
            Line::new(Role::Plain, "   ")
        } else {
            Line::new(Role::Plain, " ")
        };
        let mut best: Option<(usize, Block)> = None;
        for columns in (1..=parts.len().min(COLUMNS)).rev() {
            let each = space.room.saturating_sub(separator.width() * (columns - 1)) / columns;
            let strict = space.strict || columns > 1;
            let Some(blocks) = self.column(
                parts,
                columns,
                Space {
                    room: each,
                    strict,
                    ..space
                },
            ) else {
                continue;
            };
            let rows = blocks.chunks(columns);
            let block: Block = rows
                .flat_map(|row| beside(row.to_vec(), &separator))
                .collect();
            // A ragged last row costs half the picture again: four and four look better than five and three.
            let ragged = !parts.len().is_multiple_of(columns);
            let cost = block.len() * if ragged { 3 } else { 2 };
            if best.as_ref().is_none_or(|(least, _)| cost <= *least) {
                best = Some((cost, block));
            }
        }
        best.map(|(_, block)| block)
    }

    /// The parts as they stand in `columns` columns: in several rows all as wide as the widest.
    fn column(&self, parts: &[Part], columns: usize, space: Space) -> Option<Vec<Block>> {
        let draw = |least: usize| -> Option<Vec<Block>> {
            parts
                .iter()
                .map(|part| self.draw(part, Space { least, ..space }))
                .collect()
        };
        let natural = draw(0)?;
        let widest = natural.iter().map(|block| width(block)).max().unwrap_or(0);
        let alone = columns >= parts.len() && columns > 1;
        if alone || natural.iter().all(|block| width(block) == widest) {
            return Some(natural);
        }
        let mut blocks = draw(widest)?;
        for line in blocks.iter_mut().flatten() {
            *line = std::mem::take(line).padded(widest);
        }
        Some(blocks)
    }

    fn draw(&self, part: &Part, space: Space) -> Option<Block> {
        if space.depth > 0 && self.is_row(part) {
            return self.row(part, space);
        }
        if space.depth > 0 && is_cell(part) && !self.cores {
            return self.cell(part, space);
        }
        if space.depth > 0 && is_cell(part) {
            let grid = self.titled_grid(part, space.room);
            if grid.is_some() {
                return grid;
            }
        }
        let inside = Space {
            depth: space.depth + 1,
            room: space.room.saturating_sub(4),
            least: 0,
            strict: space.strict,
        };
        let content = if part.tiles.is_empty() {
            vec![self.without_cpus()]
        } else if !is_cell(part) {
            self.best(&part.children, inside)?
        } else if self.cores && part.count == 1 {
            self.grids(part, inside.room)
        } else {
            self.filling(part, inside.room)
        };
        self.frame(part, content, space)
    }

    /// A box with its names in the upper edge, and on its right what it holds.
    fn frame(&self, part: &Part, content: Block, space: Space) -> Option<Block> {
        let mut names = names(part, self.guest, self.all_sizes()).into_iter();
        let mut title = names.next().unwrap_or_default();
        let mut body = Block::new();
        // Names that do not fit the edge go inside.
        for name in names {
            if body.is_empty() && title.width() + name.width() + 9 <= space.room {
                title = title.with(Role::Frame, " · ").then(name);
            } else {
                body.extend(broken(&name, space.room.saturating_sub(4)));
            }
        }
        if title.width() + 6 > space.room {
            body.splice(0..0, broken(&title, space.room.saturating_sub(4)));
            title = Line::default();
        }
        if space.strict && (!body.is_empty() || width(&content) + 4 > space.room) {
            return None;
        }
        body.extend(content);
        let aside = aside(
            part,
            space.depth,
            space.room.saturating_sub(title.width() + 9),
        );
        let aside_width = if aside.is_empty() {
            0
        } else {
            aside.chars().count() + 3
        };
        let wide = (title.width() + aside_width + 6)
            .max(width(&body) + 4)
            .max(space.least);
        let edges = if space.depth == 0 {
            ["╭", "╮", "╰", "╯"]
        } else {
            ["┌", "┐", "└", "┘"]
        };
        let rule = "─".repeat(wide - title.width() - aside_width - 5);
        let mut top = Line::new(Role::Frame, format!("{}─ ", edges[0]))
            .then(title)
            .with(Role::Frame, format!(" {rule}"));
        if !aside.is_empty() {
            top = top
                .with(Role::Muted, format!(" {aside} "))
                .with(Role::Frame, "─");
        }
        let side = |edge: &str| Line::new(Role::Frame, edge);
        let mut lines = vec![top.then(side(edges[1]))];
        let body = body.into_iter();
        lines.extend(body.map(|line| side("│ ").then(line.padded(wide - 4)).then(side(" │"))));
        lines.push(side(&format!(
            "{}{}{}",
            edges[2],
            "─".repeat(wide - 2),
            edges[3]
        )));
        Some(lines)
    }

    /// A die with its LLCs behind it.
    fn row(&self, part: &Part, space: Space) -> Option<Block> {
        let label = self.label(part).padded(self.row).with(Role::Plain, "  ");
        let room = space.room.saturating_sub(label.width());
        let inside = Space {
            depth: space.depth + 1,
            room,
            ..space
        };
        let cells = self.best(&part.children, inside)?;
        Some(beside(vec![vec![label], cells], &Line::default()))
    }

    /// A part without boxes inside: its label, a sign per core, its CPUs.
    fn cell(&self, part: &Part, space: Space) -> Option<Block> {
        let left = self.label + 1 + self.signs + 1;
        if left + self.cpus <= space.room {
            let pad = |block: Block, wide: usize| -> Block {
                block.into_iter().map(|line| line.padded(wide)).collect()
            };
            let columns = vec![
                pad(vec![self.label(part)], self.label),
                pad(self.signs(part), self.signs),
                pad(cpu_lines(part, self.cpus), self.cpus),
            ];
            return Some(beside(columns, &Line::new(Role::Plain, " ")));
        }
        if space.strict {
            return None;
        }
        let mut lines = broken(&self.label(part), space.room);
        for line in self.signs(part) {
            lines.extend(broken(&line, space.room));
        }
        lines.extend(cpu_lines(part, space.room));
        Some(lines)
    }

    /// What a framed part without boxes inside holds: its cores and CPUs on lines of their own.
    fn filling(&self, part: &Part, room: usize) -> Block {
        let mut lines: Block = self
            .signs(part)
            .iter()
            .flat_map(|line| broken(line, room))
            .collect();
        lines.extend(cpu_lines(part, room));
        lines
    }

    /// Cores one by one, each kind in a grid of its own.
    fn grids(&self, part: &Part, room: usize) -> Block {
        if let [only] = part.tiles.as_slice() {
            return broken(&tile_text(only), room);
        }
        let kinds: Vec<&[Tile]> = part.tiles.chunk_by(|a, b| a.speed == b.speed).collect();
        let title = |speed| match speed {
            _ if kinds.len() == 1 => Line::default(),
            Speed::Fast => Line::new(Role::Core, "fast cores"),
            Speed::Middle => Line::new(Role::MiddleCore, "slower cores"),
            Speed::Slow => Line::new(Role::SlowCore, "slow cores"),
        };
        let grids = kinds.iter().map(|tiles| {
            let grid = grid(tiles, &title(tiles[0].speed), self.tile(tiles), room);
            grid.unwrap_or_else(|| {
                tiles
                    .iter()
                    .flat_map(|tile| broken(&tile_text(tile), room))
                    .collect()
            })
        });
        grids.flatten().collect()
    }

    /// The grid of a part whose cores are alike, with its names in the upper edge, if that fits.
    fn titled_grid(&self, part: &Part, room: usize) -> Option<Block> {
        let alike = part
            .tiles
            .windows(2)
            .all(|pair| pair[0].speed == pair[1].speed);
        if !alike || part.tiles.is_empty() || part.count > 1 {
            return None;
        }
        let title = join(names(part, self.guest, self.all_sizes()));
        grid(&part.tiles, &title, self.tile(&part.tiles), room)
    }

    fn tile(&self, tiles: &[Tile]) -> usize {
        let widths = tiles.iter().map(|tile| self.tiles.get(tile.threads.len()));
        widths
            .map(|width| width.copied().unwrap_or(0))
            .max()
            .unwrap_or(0)
    }

    fn all_sizes(&self) -> Sizes {
        Sizes {
            memory: true,
            caches: true,
            ..self.sizes
        }
    }

    fn label(&self, part: &Part) -> Line {
        join(names(part, self.guest, self.sizes))
    }

    /// A sign per core, or in words what is inside.
    fn signs(&self, part: &Part) -> Block {
        if part.tiles.is_empty() {
            return vec![self.without_cpus()];
        }
        let times = if part.count > 1 {
            format!("{} × ", part.count)
        } else {
            String::new()
        };
        if !part.summary.is_empty() {
            return vec![Line::new(Role::Muted, times + &part.summary)];
        }
        let rows = glyph_rows(&part.tiles, SIGNS).into_iter();
        rows.map(|row| Line::new(Role::Muted, times.clone()).then(row))
            .collect()
    }

    fn without_cpus(&self) -> Line {
        Line::new(
            Role::Muted,
            if self.guest {
                "no vCPU yet"
            } else {
                "memory only"
            },
        )
    }

    /// Whether a part is a die or module whose LLCs are cells.
    fn is_row(&self, part: &Part) -> bool {
        let minor = |kind| matches!(kind, Kind::Die | Kind::Module);
        !self.cores
            && !is_cell(part)
            && part.names.iter().all(|name| minor(name.kind))
            && part.children.iter().all(is_cell)
    }
}

/// Whether nothing is drawn inside the part but cores.
fn is_cell(part: &Part) -> bool {
    part.children.is_empty() || part.count > 1
}

/// Whether a property is the same for all objects that have it.
fn even<T: PartialEq>(parts: &[Part], of: &impl Fn(&Name) -> Option<T>) -> bool {
    fn collect<T>(parts: &[Part], of: &impl Fn(&Name) -> Option<T>, values: &mut Vec<T>) {
        for part in parts {
            values.extend(part.names.iter().filter_map(of));
            collect(&part.children, of, values);
        }
    }
    let mut values = Vec::new();
    collect(parts, of, &mut values);
    values.windows(2).all(|pair| pair[0] == pair[1])
}

/// Cores and, of the outermost boxes, CPUs, as far as they fit `room` and are not told inside.
fn aside(part: &Part, depth: usize, room: usize) -> String {
    let present = part.tiles.iter().filter(|tile| tile.is_present()).count() * part.count;
    let cores = plural(present, "core");
    let listed = depth > 0 || is_cell(part);
    let both = format!("{cores} · {}", part.cpus);
    match present {
        0 | 1 => String::new(),
        _ if !listed && both.chars().count() <= room => both,
        _ if cores.len() <= room => cores,
        _ => String::new(),
    }
}

/// A line that may be longer than `room`, broken between words.
fn broken(line: &Line, room: usize) -> Block {
    if line.width() <= room {
        return vec![line.clone()];
    }
    let (role, text) = line.plain();
    wrap(&text, room)
        .into_iter()
        .map(|text| Line::new(role, text))
        .collect()
}

fn cpu_lines(part: &Part, room: usize) -> Block {
    let cpus = part.cpus.to_string();
    let lines = if cpus.is_empty() {
        Vec::new()
    } else {
        flow_cpus(&cpus, room)
    };
    lines
        .into_iter()
        .map(|line| Line::new(Role::Plain, line))
        .collect()
}
