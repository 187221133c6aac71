//! SVG elements of a machine.

use svg::node::element::{
    Definitions, Group, Line, Pattern, Rectangle, SVG, Text as TextElement, Title,
};

use model::CpuId;

use super::layout::{Item, Scale, What, measure, slots, threads_grid};
use crate::draw::palette::{
    CORE_INK, LLC_EDGE, LLC_FILL, NODE_EDGE, NODE_FILL, PACKAGE_FILL, PAPER, Role, SANS, core_fill,
};
use crate::draw::parts::{Kind, Speed, ThreadState, Tile};

/// Smallest font of a CPU number that is worth drawing.
const SMALLEST: u32 = 7;

/// Who sits on a thread.
pub(super) struct Occupant {
    pub(super) fill: &'static str,
    /// A short name; the CPU's number is drawn where nobody sits.
    pub(super) text: String,
    pub(super) tooltip: String,
}

/// A text at a baseline.
pub(super) struct Label<'a> {
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) font: u32,
    pub(super) role: Role,
    pub(super) text: &'a str,
}

impl Label<'_> {
    pub(super) fn element(&self) -> TextElement {
        TextElement::new(self.text)
            .set("x", self.x)
            .set("y", self.y)
            .set("font-size", self.font)
            .set("fill", self.role.hex())
    }

    pub(super) fn bold(&self) -> TextElement {
        self.element().set("font-weight", 600)
    }
}

/// The page: its own background, so that it reads the same on light and dark wikis.
pub(super) fn page(width: u32, height: u32, name: &str) -> SVG {
    let stripes = Line::new()
        .set("x1", 0)
        .set("y1", 0)
        .set("x2", 0)
        .set("y2", 6)
        .set("stroke", Role::Frame.hex())
        .set("stroke-width", 3);
    let hatch = Pattern::new()
        .set("id", "hatch")
        .set("width", 6)
        .set("height", 6)
        .set("patternUnits", "userSpaceOnUse")
        .set("patternTransform", "rotate(45)")
        .add(rectangle(0, 0, 6, 6).set("fill", PAPER))
        .add(stripes);
    let paper = rectangle(0, 0, width, height)
        .set("rx", 12)
        .set("fill", PAPER);
    svg::Document::new()
        .set("viewBox", (0, 0, width, height))
        .set("width", width)
        .set("height", height)
        .set("font-family", SANS)
        .set("role", "img")
        .add(Title::new(name))
        .add(Definitions::new().add(hatch))
        .add(paper)
}

/// A box, a core or a remark.
pub(super) fn item(
    item: &Item,
    scale: Scale,
    occupant: &dyn Fn(CpuId) -> Option<Occupant>,
) -> Group {
    match &item.what {
        What::Box {
            kind,
            name,
            aside,
            tooltip,
        } => {
            let group = Group::new()
                .add(Title::new(tooltip))
                .add(frame(item, *kind, scale))
                .add(name_of(item, *kind, name, scale));
            if aside.is_empty() {
                return group;
            }
            let aside = Label {
                x: item.x + item.w - scale.pad,
                y: item.y + scale.pad + scale.name,
                font: scale.name - 2,
                role: Role::Muted,
                text: aside,
            };
            group.add(aside.element().set("text-anchor", "end"))
        }
        What::Core(tile) => core(item, tile, scale, occupant),
        What::Remark(text) => {
            let label = Label {
                x: item.x,
                y: item.y + scale.name,
                font: scale.name,
                role: Role::Muted,
                text,
            };
            Group::new().add(label.element())
        }
    }
}

pub(super) fn rectangle(x: u32, y: u32, w: u32, h: u32) -> Rectangle {
    Rectangle::new()
        .set("x", x)
        .set("y", y)
        .set("width", w)
        .set("height", h)
}

/// A thread, or a CPU that is no part of a core.
pub(super) fn thread(item: &Item, fill: &str, text: &str, scale: Scale) -> Group {
    let radius = (item.h / 6).min(3);
    let group = Group::new().add(
        rectangle(item.x, item.y, item.w, item.h)
            .set("rx", radius)
            .set("fill", fill),
    );
    if text.is_empty() {
        return group;
    }
    let room = item.w.saturating_sub(2);
    let font = (SMALLEST..=scale.number)
        .rev()
        .find(|&font| measure(text, font) <= room);
    match font {
        Some(font) => group.add(
            Label {
                x: item.x + item.w / 2,
                y: item.y + item.h / 2 + font * 9 / 25,
                font,
                role: Role::Plain,
                text,
            }
            .element()
            .set("fill", CORE_INK)
            .set("text-anchor", "middle"),
        ),
        None => group,
    }
}

fn frame(item: &Item, kind: Kind, scale: Scale) -> Rectangle {
    let rectangle = rectangle(item.x, item.y, item.w, item.h);
    let radius = scale.pad;
    match kind {
        Kind::Package => rectangle
            .set("rx", radius + 2)
            .set("fill", PACKAGE_FILL)
            .set("stroke", Role::Frame.hex())
            .set("stroke-width", 2),
        Kind::Node => rectangle
            .set("rx", radius)
            .set("fill", NODE_FILL)
            .set("stroke", NODE_EDGE),
        Kind::SpareNode => rectangle
            .set("rx", radius)
            .set("fill", "none")
            .set("stroke", Role::Node.hex())
            .set("stroke-dasharray", "2 3"),
        Kind::Die | Kind::Module => rectangle
            .set("rx", radius)
            .set("fill", "none")
            .set("stroke", Role::Frame.hex())
            .set("stroke-dasharray", "4 3"),
        Kind::Llc => rectangle
            .set("rx", radius * 3 / 4)
            .set("fill", LLC_FILL)
            .set("stroke", LLC_EDGE),
    }
}

fn name_of(item: &Item, kind: Kind, name: &str, scale: Scale) -> TextElement {
    let role = match kind {
        Kind::Package => Role::Package,
        Kind::Node | Kind::SpareNode => Role::Node,
        Kind::Die | Kind::Module => Role::Muted,
        Kind::Llc => Role::Llc,
    };
    let label = Label {
        x: item.x + scale.pad,
        y: item.y + scale.pad + scale.name,
        font: if kind == Kind::Package {
            scale.name + 1
        } else {
            scale.name
        },
        role,
        text: name,
    };
    if kind == Kind::Die {
        label.element()
    } else {
        label.bold()
    }
}

fn core(
    item: &Item,
    tile: &Tile,
    scale: Scale,
    occupant: &dyn Fn(CpuId) -> Option<Occupant>,
) -> Group {
    let (columns, _) = threads_grid(slots(tile));
    let cpus: model::CpuSet = tile.threads.iter().map(|(cpu, _)| *cpu).collect();
    let (fill, edge) = core_fill(tile.speed.role());
    let kind = match tile.speed {
        Speed::Fast => "core",
        Speed::Middle => "slower core",
        Speed::Slow => "slow core",
    };
    let mut group = Group::new()
        .add(Title::new(format!("{kind}: CPUs {cpus}")))
        .add(
            rectangle(item.x, item.y, item.w, item.h)
                .set("rx", (item.h / 5).min(4))
                .set("fill", edge),
        );
    let (w, h) = scale.thread;
    let place = |position: u32| Item {
        x: item.x + position % columns * w + 1,
        y: item.y + position / columns * h + 1,
        w: w - 2,
        h: h - 2,
        what: What::Core(tile.clone()),
    };
    let mut position = 0;
    for (cpu, state) in &tile.threads {
        let plain = match state {
            ThreadState::Isolated => Role::Isolated.hex(),
            ThreadState::Usable | ThreadState::Absent => fill,
        };
        group = group.add(match occupant(*cpu) {
            Some(who) => {
                thread(&place(position), who.fill, &who.text, scale).add(Title::new(who.tooltip))
            }
            None => thread(&place(position), plain, &cpu.to_string(), scale),
        });
        position += 1;
    }
    for _ in tile.threads.len()..slots(tile) {
        group = group.add(thread(&place(position), "url(#hatch)", "", scale));
        position += 1;
    }
    group
}
