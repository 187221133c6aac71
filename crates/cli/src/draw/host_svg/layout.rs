//! Where the boxes and cores of a machine go, in pixels.

use std::collections::BTreeMap;

use crate::draw::boxes::cache_size;
use crate::draw::collapse::noun;
use crate::draw::parts::{Kind, Name, Part, Tile};
use crate::draw::units::{mib, plural, ranges};

/// Sizes that depend on how many CPUs there are to show.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    /// A thread.
    pub(super) thread: (u32, u32),
    /// Font of CPU numbers.
    pub(super) number: u32,
    /// Font of names.
    pub(super) name: u32,
    /// Space around what is inside a box.
    pub(super) pad: u32,
    /// Space between boxes, and between cores half of that.
    pub(super) gap: u32,
}

/// Something at its place.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) w: u32,
    pub(super) h: u32,
    pub(super) what: What,
}

/// What is drawn.
#[derive(Debug, Clone)]
pub(super) enum What {
    /// A box with its name, a remark on its right, and a tooltip.
    Box {
        kind: Kind,
        name: String,
        aside: String,
        tooltip: String,
    },
    /// A core.
    Core(Tile),
    /// A remark.
    Remark(String),
}

/// Things that belong together, from the corner (0, 0).
#[derive(Debug, Clone, Default)]
pub(super) struct Figure {
    pub(super) w: u32,
    pub(super) h: u32,
    pub(super) items: Vec<Item>,
}

impl Scale {
    /// Large enough to read, small enough that 256 CPUs are 1200 pixels wide.
    pub(super) fn of(cpus: usize) -> Self {
        let scale = |thread, number, name, pad, gap| Self {
            thread,
            number,
            name,
            pad,
            gap,
        };
        match cpus {
            0..=16 => scale((52, 44), 17, 16, 14, 14),
            17..=40 => scale((38, 34), 14, 15, 12, 12),
            41..=128 => scale((30, 26), 12, 14, 10, 10),
            129..=512 => scale((26, 22), 11, 12, 8, 8),
            513..=2048 => scale((12, 12), 0, 12, 6, 6),
            _ => scale((6, 8), 0, 11, 5, 4),
        }
    }
}

impl Figure {
    /// Moves everything.
    pub(super) fn moved(mut self, dx: u32, dy: u32) -> Self {
        for item in &mut self.items {
            item.x += dx;
            item.y += dy;
        }
        self
    }
}

/// All parts, if possible at most `room` pixels wide.
pub(super) fn lay_out(parts: &[Part], scale: Scale, room: u32) -> Figure {
    let mut plan = Plan {
        scale,
        room,
        titles: BTreeMap::new(),
    };
    plan.measure_titles(parts);
    let figures = parts
        .iter()
        .map(|part| plan.part(part, &part.names))
        .collect();
    arrange(figures, 2 * scale.gap, room)
}

/// Columns and rows that come nearest to the shape of a page, without a ragged last row if possible.
pub(super) fn arrange(figures: Vec<Figure>, gap: u32, room: u32) -> Figure {
    /// Width to height.
    const SHAPE: f64 = 1.6;
    let size = |columns: usize| {
        let rows: Vec<&[Figure]> = figures.chunks(columns).collect();
        let width = |column: usize| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|f| f.w)
                .max()
        };
        let widths: Vec<u32> = (0..columns).filter_map(width).collect();
        let heights: Vec<u32> = rows
            .iter()
            .map(|row| row.iter().map(|f| f.h).max().unwrap_or(0))
            .collect();
        (widths, heights)
    };
    let total = |parts: &[u32]| {
        let gaps = u32::try_from(parts.len().saturating_sub(1))
            .unwrap_or(0)
            .saturating_mul(gap);
        parts
            .iter()
            .fold(gaps, |sum, part| sum.saturating_add(*part))
    };
    let cost = |columns: usize| {
        let (widths, heights) = size(columns);
        let (w, h) = (total(&widths), total(&heights).max(1));
        let shape = (f64::from(w) / f64::from(h) / SHAPE).ln().abs();
        let ragged = if figures.len().is_multiple_of(columns) {
            0.0
        } else {
            0.6
        };
        let outside = if w > room { f64::from(w) } else { 0.0 };
        shape + ragged + outside
    };
    // More columns than that make no page.
    let most = figures.len().clamp(1, 64);
    let columns = (1..=most)
        .min_by(|&a, &b| cost(a).total_cmp(&cost(b)))
        .unwrap_or(1);
    let (widths, heights) = size(columns);
    let mut all = Figure {
        w: total(&widths),
        h: total(&heights),
        items: Vec::new(),
    };
    for (position, figure) in figures.into_iter().enumerate() {
        let (row, column) = (position / columns, position % columns);
        let before = |sizes: &[u32], end: usize| sizes[..end].iter().map(|size| size + gap).sum();
        let (x, y) = (before(&widths, column), before(&heights, row));
        all.items.extend(figure.moved(x, y).items);
    }
    all
}

/// Pixels that a text takes at most in common fonts; `DejaVu Sans` is the widest of them.
pub(super) fn measure(text: &str, font: u32) -> u32 {
    let permille = |c: char| match c {
        ' ' | '.' | ',' | ':' | ';' | '·' | '|' | '\'' | 'i' | 'l' | 'j' => 350,
        'M' | 'W' | 'm' | 'w' | '@' | '%' | '=' | '×' => 900,
        '0'..='9' | 'a'..='z' | '-' | '/' | '(' | ')' => 650,
        'A'..='Z' | '_' | '+' => 760,
        _ => {
            550 * u32::try_from(unicode_width::UnicodeWidthChar::width(c).unwrap_or(1))
                .unwrap_or(2)
                .max(1)
        }
    };
    let sum = text.chars().map(permille).fold(0, u32::saturating_add);
    sum.saturating_mul(font) / 1000 + 1
}

/// What all boxes of a picture share.
struct Plan {
    scale: Scale,
    room: u32,
    /// The widest title of each kind of box, so that equal boxes are equally wide.
    titles: BTreeMap<Kind, u32>,
}

impl Plan {
    fn measure_titles(&mut self, parts: &[Part]) {
        for part in parts {
            for name in &part.names {
                let wide = measure(&title(part, name), self.scale.name + 1);
                let widest = self.titles.entry(name.kind).or_default();
                *widest = wide.max(*widest);
            }
            self.measure_titles(&part.children);
        }
    }

    /// A part as a box for each of its names, one in the other.
    fn part(&self, part: &Part, names: &[Name]) -> Figure {
        let scale = self.scale;
        let content = if names.len() > 1 {
            self.part(part, &names[1..])
        } else if !part.children.is_empty() {
            let children = part.children.iter();
            arrange(
                children
                    .map(|child| self.part(child, &child.names))
                    .collect(),
                scale.gap,
                self.room,
            )
        } else if part.tiles.is_empty() {
            remark("memory only", scale)
        } else {
            let alike = |a: &Tile, b: &Tile| a.speed == b.speed && slots(a) == slots(b);
            let kinds = part.tiles.chunk_by(alike);
            stack(
                kinds.map(|tiles| cores(tiles, scale, self.room)).collect(),
                scale.gap,
            )
        };
        match names.first() {
            Some(name) => self.boxed(part, name, content, names.len() == part.names.len()),
            None => content,
        }
    }

    /// A box; of boxes with the same CPUs the outermost tells them.
    fn boxed(&self, part: &Part, name: &Name, content: Figure, outermost: bool) -> Figure {
        let scale = self.scale;
        let text = title(part, name);
        let cpus = part.cpus.to_string();
        let inner = content
            .w
            .max(self.titles.get(&name.kind).copied().unwrap_or(0));
        let aside = match name.kind {
            Kind::Package => format!("{} · {cpus}", plural(part.tiles.len(), "core")),
            _ => cpus.clone(),
        };
        let both = measure(&text, scale.name + 1) + measure(&aside, scale.name) + 2 * scale.pad;
        let aside = if outermost && both <= inner && !cpus.is_empty() {
            aside
        } else {
            String::new()
        };
        let tooltip = if cpus.is_empty() {
            text.clone()
        } else {
            format!("{text}: CPUs {cpus}")
        };
        let header = scale.name + scale.pad;
        let (w, h) = (inner + 2 * scale.pad, content.h + header + 2 * scale.pad);
        let what = What::Box {
            kind: name.kind,
            name: text,
            aside,
            tooltip,
        };
        let mut items = vec![Item {
            x: 0,
            y: 0,
            w,
            h,
            what,
        }];
        items.extend(content.moved(scale.pad, header + scale.pad).items);
        Figure { w, h, items }
    }
}

fn title(part: &Part, name: &Name) -> String {
    let cut = if name.cut { " (part)" } else { "" };
    let size = match name.cache {
        Some(cache) => cache_size(cache, false),
        None if name.memory_mib > 0 => mib(name.memory_mib),
        None => String::new(),
    };
    let size = if size.is_empty() {
        size
    } else {
        format!(" · {size}")
    };
    let each = if part.count > 1 { " each" } else { "" };
    let spare = if name.kind == Kind::SpareNode {
        " spare"
    } else {
        ""
    };
    format!(
        "{} {}{cut}{size}{each}{spare}",
        noun(name.kind, false),
        ranges(&name.ids)
    )
}

/// Cores of one kind.
fn cores(tiles: &[Tile], scale: Scale, room: u32) -> Figure {
    let figures = tiles.iter().map(|tile| {
        let (columns, rows) = threads_grid(slots(tile));
        let (w, h) = (columns * scale.thread.0, rows * scale.thread.1);
        let item = Item {
            x: 0,
            y: 0,
            w,
            h,
            what: What::Core(tile.clone()),
        };
        Figure {
            w,
            h,
            items: vec![item],
        }
    });
    arrange(figures.collect(), scale.gap / 2, room)
}

/// Threads of a core, with those that are there but not usable.
pub(super) fn slots(tile: &Tile) -> usize {
    tile.threads.len() + if tile.hidden { tile.fewer } else { 0 }
}

/// Columns and rows of the threads of a core.
pub(super) fn threads_grid(threads: usize) -> (u32, u32) {
    let columns = match threads {
        0..=2 => threads.max(1),
        3..=4 => 2,
        5..=8 => 4,
        _ => 8,
    };
    let rows = threads.div_ceil(columns).max(1);
    let number = |count| u32::try_from(count).unwrap_or(u32::MAX / 4096).min(4096);
    (number(columns), number(rows))
}

fn remark(text: &str, scale: Scale) -> Figure {
    let (w, h) = (measure(text, scale.name), scale.name + 4);
    Figure {
        w,
        h,
        items: vec![Item {
            x: 0,
            y: 0,
            w,
            h,
            what: What::Remark(text.to_owned()),
        }],
    }
}

fn stack(figures: Vec<Figure>, gap: u32) -> Figure {
    figures.into_iter().fold(Figure::default(), |all, next| {
        let y = if all.h > 0 { all.h + gap } else { 0 };
        let (w, h) = (all.w.max(next.w), y + next.h);
        let items = all
            .items
            .into_iter()
            .chain(next.moved(0, y).items)
            .collect();
        Figure { w, h, items }
    })
}
