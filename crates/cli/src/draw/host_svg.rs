//! A host machine as a picture for a wiki: packages, nodes, LLCs and cores as boxes in each other, with what is known of
//! distances, latencies and devices below. One file without references to others.

mod layout;
mod paint;
mod placement;

use model::{CpuId, CpuSet, Finding, Host};
use svg::node::element::{Group, SVG};

use super::collapse::collapse;
use super::facts::{self, Distances};
use super::notes::{sentence, severity};
use super::palette::{FORBIDDEN_FILL as FORBIDDEN, OFFLINE_FILL as OFFLINE, Role, core_fill};
use super::parts::{Machine, Speed, ThreadState, Tile};
use super::text::{flow, wrap};
use super::units::clean;
use layout::{Figure, Item, Scale, What, lay_out, measure};
use paint::{Label, Occupant, item, page, rectangle, thread};

pub use placement::place_svg;

/// Space around everything.
const MARGIN: u32 = 24;
/// Widest picture that machines are arranged for; odd ones may be wider.
const WIDTH: u32 = 1400;
/// Narrowest page.
const NARROWEST: u32 = 720;
/// Widest picture that has its captions beside it instead of below.
const SMALL: u32 = 640;
/// Columns of captions beside a picture.
const BESIDE: u32 = 520;
/// Column of the labels of captions.
const LABEL: u32 = 104;
/// Font of captions.
const FONT: u32 = 14;
/// Height of a line of captions.
const LINE: u32 = 21;
/// Most CPUs outside the picture that get a tile each.
const APART: usize = 512;

/// Draws a host as SVG: self-contained, with a background of its own, CPU numbers as tooltips (and as text where they fit).
/// Ends with a line feed.
pub fn host_svg(host: &Host) -> String {
    let parts = collapse(&Machine::of_host(host).parts(), None);
    let scale = Scale::of(host.cpus.len());
    let machine = lay_out(&parts, scale, WIDTH - 2 * MARGIN);
    let (name, _) = facts::names(host);
    let beside = machine.w <= SMALL;
    let width = machine.w + 2 * MARGIN + if beside { MARGIN + BESIDE } else { 0 };
    let width = width.max(NARROWEST);

    let mut sheet = Sheet {
        left: MARGIN,
        right: width - MARGIN,
        y: MARGIN,
        elements: Vec::new(),
    };
    sheet.header(host);
    let (top, machine_width) = (sheet.y, machine.w);
    sheet.figure(machine, scale, &|_| None);
    let bottom = sheet.y;
    if beside {
        (sheet.left, sheet.y) = (MARGIN + machine_width + MARGIN, top);
    }
    let tiles: Vec<&Tile> = parts.iter().flat_map(|part| &part.tiles).collect();
    sheet.set_apart(host, scale);
    sheet.legend(&tiles);
    sheet.captions(host);
    sheet.findings(&model::host::findings(host));
    sheet.y = sheet.y.max(bottom);
    format!("{}\n", sheet.finish(&name))
}

/// A page that grows downwards, between two edges.
struct Sheet {
    left: u32,
    right: u32,
    /// Where the next thing goes.
    y: u32,
    elements: Vec<Group>,
}

impl Sheet {
    fn header(&mut self, host: &Host) {
        let (name, processor) = facts::names(host);
        let title = Group::new();
        for (text, font, bold) in [(name, 24, true), (processor, 16, false)] {
            for line in self.wrapped(&text, font, 0) {
                let label = Label {
                    x: self.left,
                    y: self.y + font,
                    font,
                    role: Role::Title,
                    text: &line,
                };
                let element = if bold { label.bold() } else { label.element() };
                self.elements.push(title.clone().add(element));
                self.y += font * 3 / 2;
            }
        }
        let items = facts::summary(host);
        let lines = flow(&items, "  ·  ", false, self.columns(FONT + 1, 0));
        for line in lines {
            self.line(self.left, Role::Muted, FONT + 1, &line);
        }
        self.y += MARGIN / 2;
    }

    fn figure(
        &mut self,
        figure: Figure,
        scale: Scale,
        occupant: &dyn Fn(CpuId) -> Option<Occupant>,
    ) {
        let (height, figure) = (figure.h, figure.moved(self.left, self.y));
        let things = figure.items.iter();
        self.elements
            .extend(things.map(|thing| item(thing, scale, occupant)));
        self.y += height + MARGIN;
    }

    /// CPUs that are there but cannot be used: their place in the machine is not known.
    fn set_apart(&mut self, host: &Host, scale: Scale) {
        for (what, cpus) in facts::set_apart(host) {
            if what == "isolated" {
                continue;
            }
            self.caption_label(what);
            let scale = Scale {
                number: scale.number.max(11),
                ..scale
            };
            let (w, h) = (scale.thread.0.max(26), scale.thread.1.max(22));
            if cpus.len() > APART {
                self.paragraph(&format!("CPUs {cpus}"));
            } else {
                self.tiles(
                    cpus,
                    if what == "offline" {
                        OFFLINE
                    } else {
                        FORBIDDEN
                    },
                    (w, h),
                    scale,
                );
            }
        }
    }

    fn tiles(&mut self, cpus: &CpuSet, fill: &str, (w, h): (u32, u32), scale: Scale) {
        let columns = ((self.right - self.left - LABEL) / (w + 4)).max(1);
        let mut rows = 0;
        for (position, cpu) in (0u32..).zip(cpus.iter()) {
            rows = position / columns + 1;
            let place = Item {
                x: self.left + LABEL + position % columns * (w + 4),
                y: self.y + position / columns * (h + 4),
                w,
                h,
                what: What::Remark(String::new()),
            };
            let frame = rectangle(place.x, place.y, w, h)
                .set("rx", 3)
                .set("fill", "none")
                .set("stroke", Role::Frame.hex())
                .set("stroke-dasharray", "3 2");
            self.elements
                .push(thread(&place, fill, &cpu.to_string(), scale).add(frame));
        }
        self.y += rows * (h + 4) + LINE / 2;
    }

    /// What the colours of cores mean, where there is more than one.
    fn legend(&mut self, tiles: &[&Tile]) {
        let any = |test: &dyn Fn(&Tile) -> bool| tiles.iter().any(|tile| test(tile));
        let speed = |speed: Speed| any(&|tile| tile.speed == speed);
        let isolated = any(&|tile| {
            tile.threads
                .iter()
                .any(|(_, state)| *state == ThreadState::Isolated)
        });
        let entries = [
            (
                speed(Speed::Fast),
                core_fill(Role::Core).0,
                "core, a square per thread",
            ),
            (
                speed(Speed::Middle),
                core_fill(Role::MiddleCore).0,
                "slower core",
            ),
            (speed(Speed::Slow), core_fill(Role::SlowCore).0, "slow core"),
            (isolated, Role::Isolated.hex(), "isolated CPU"),
            (any(&|tile| tile.hidden), "url(#hatch)", "no usable thread"),
        ];
        let mut x = self.left;
        for (_, fill, text) in entries.into_iter().filter(|(shown, ..)| *shown) {
            let wide = 24 + measure(text, FONT) + 2 * FONT;
            if x > self.left && x + wide > self.right {
                x = self.left;
                self.y += LINE;
            }
            let square = rectangle(x, self.y + 3, 16, 16)
                .set("rx", 3)
                .set("fill", fill)
                .set("stroke", Role::Frame.hex());
            let label = Label {
                x: x + 24,
                y: self.y + 16,
                font: FONT,
                role: Role::Muted,
                text,
            };
            self.elements
                .push(Group::new().add(square).add(label.element()));
            x += wide;
        }
        self.y += LINE + LINE / 2;
    }

    fn captions(&mut self, host: &Host) {
        match facts::distances(host) {
            Distances::None => {}
            Distances::Classes(classes) => {
                self.caption_label("distances");
                self.paragraph(&classes.join(", "));
            }
            Distances::Table(ids, rows, _) => {
                self.caption_label("distances");
                self.matrix(&ids, &rows);
            }
        }
        for fact in facts::facts(host) {
            self.caption_label(fact.label);
            for items in &fact.lines {
                let lines = match items.as_slice() {
                    [prose] => self.wrapped(prose, FONT, LABEL),
                    _ => flow(items, "  ·  ", false, self.columns(FONT, LABEL)),
                };
                for line in lines {
                    self.line(self.left + LABEL, Role::Plain, FONT, &line);
                }
            }
            self.y += LINE / 3;
        }
    }

    /// Distances from row to column, darker where farther.
    fn matrix(&mut self, ids: &[u32], rows: &[Vec<u32>]) {
        let digits = ids
            .iter()
            .chain(rows.iter().flatten())
            .map(|number| measure(&number.to_string(), 12));
        let (w, h) = (digits.max().unwrap_or(0).max(30) + 8, 22);
        let farthest = rows.iter().flatten().copied().max().unwrap_or(0).max(11);
        let (left, top) = (self.left + LABEL, self.y);
        let centred = |x: u32, y: u32, role: Role, text: &str| {
            let label = Label {
                x: x + w / 2,
                y: y + 15,
                font: 12,
                role,
                text,
            };
            label.element().set("text-anchor", "middle")
        };
        let mut group = Group::new().add(centred(left, top, Role::Muted, "node"));
        for (index, id) in (1u32..).zip(ids) {
            let id = id.to_string();
            group = group
                .add(centred(left + index * w, top, Role::Muted, &id))
                .add(centred(left, top + index * h, Role::Muted, &id));
        }
        for (row, distances) in (1u32..).zip(rows) {
            for (column, &distance) in (1u32..).zip(distances) {
                let (x, y) = (left + column * w, top + row * h);
                // 10 is local by definition (ACPI SLIT); the rest is shaded by its share of the farthest.
                let shade = f64::from(distance.saturating_sub(10)) / f64::from(farthest - 10);
                let cell = rectangle(x + 1, y + 1, w - 2, h - 2)
                    .set("rx", 3)
                    .set("fill", Role::SlowCore.hex())
                    .set("fill-opacity", format!("{:.2}", 0.08 + 0.52 * shade));
                group = group
                    .add(cell)
                    .add(centred(x, y, Role::Plain, &distance.to_string()));
            }
        }
        self.elements.push(group);
        let rows = u32::try_from(rows.len()).unwrap_or(0);
        self.right = self.right.max(left + (rows + 1) * w);
        self.y += (rows + 1) * h + LINE / 2;
    }

    fn findings(&mut self, findings: &[Finding]) {
        for finding in findings {
            let role = Role::of_severity(finding.severity);
            let label = severity(finding.severity);
            let label = Label {
                x: self.left,
                y: self.y + FONT,
                font: FONT,
                role,
                text: label,
            };
            self.elements.push(Group::new().add(label.bold()));
            self.paragraph(&clean(&sentence(finding), 2000));
        }
    }

    fn caption_label(&mut self, text: &str) {
        let label = Label {
            x: self.left,
            y: self.y + FONT,
            font: FONT,
            role: Role::Muted,
            text,
        };
        self.elements.push(Group::new().add(label.bold()));
    }

    fn paragraph(&mut self, text: &str) {
        for line in self.wrapped(text, FONT, LABEL) {
            self.line(self.left + LABEL, Role::Plain, FONT, &line);
        }
        self.y += LINE / 3;
    }

    fn line(&mut self, x: u32, role: Role, font: u32, text: &str) {
        let label = Label {
            x,
            y: self.y + font,
            font,
            role,
            text,
        };
        self.elements.push(Group::new().add(label.element()));
        self.y += LINE;
    }

    fn wrapped(&self, text: &str, font: u32, indent: u32) -> Vec<String> {
        if text.is_empty() {
            Vec::new()
        } else {
            wrap(text, self.columns(font, indent))
        }
    }

    /// Characters on a line; digits are the widest that texts are full of.
    fn columns(&self, font: u32, indent: u32) -> usize {
        let room = self.right.saturating_sub(self.left + indent);
        (room * 100 / (font * 58)).max(10) as usize
    }

    fn finish(self, name: &str) -> SVG {
        let page = page(self.right + MARGIN, self.y + MARGIN / 2, name);
        self.elements.into_iter().fold(page, SVG::add)
    }
}
