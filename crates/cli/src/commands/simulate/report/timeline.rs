//! Who ran where: time from left to right, CPUs from top to bottom by LLC, one colour for each VM and a tone for each vCPU.

use std::collections::BTreeMap;

use sim::outcome::Segment;
use svg::node::element::path::Data;
use svg::node::element::{Path, Rectangle, SVG, Text, Title};

use super::super::request::Scene;
use super::super::study::Picture;
use crate::draw::clean;

/// Spans that are drawn at most: a browser has to show them. The drawn time becomes shorter. Ours.
const MOST_SPANS: usize = 12_000;
/// Columns of the names of LLCs.
const NAMES: f64 = 60.0;
/// Width of the time.
const WIDTH: f64 = 1040.0;
/// Height of the whole, so that large hosts stay on a screen.
const HEIGHT: f64 = 720.0;
/// Height of a CPU at most.
const ROW: f64 = 12.0;

/// The drawing of the first seed of a run, and its time in nanoseconds from and to; `None` where nothing was recorded.
pub(super) fn timeline(scene: &Scene, picture: &Picture) -> Option<(String, (u64, u64))> {
    let (from, to) = window(&picture.timeline)?;
    let rows = Rows::new(scene);
    let scale = WIDTH / (to - from) as f64;
    let mut svg = SVG::new()
        .set(
            "viewBox",
            (0.0, 0.0, NAMES + WIDTH + 4.0, rows.height + 26.0),
        )
        .set("role", "img")
        .set("class", "timeline");
    for (llc, (top, height)) in rows.llcs.iter().enumerate() {
        let ground = Rectangle::new()
            .set("x", NAMES)
            .set("y", rounded(*top))
            .set("width", WIDTH)
            .set("height", rounded(*height))
            .set("class", "ground");
        svg = svg.add(ground);
        if *height >= 7.0 || llc % 4 == 0 {
            let name = Text::new(format!("LLC {llc}"))
                .set("x", NAMES - 6.0)
                .set("y", rounded(top + height / 2.0 + 3.5))
                .set("text-anchor", "end");
            svg = svg.add(name);
        }
    }
    let mut spans: BTreeMap<(u32, Option<u32>), Data> = BTreeMap::new();
    for segment in &picture.timeline {
        let (start, end) = (segment.from_ns.max(from), segment.to_ns.min(to));
        if start >= end {
            continue;
        }
        let x = rounded(NAMES + (start - from) as f64 * scale);
        let wide = rounded(((end - start) as f64 * scale).max(0.05));
        let y = rounded(rows.tops[segment.cpu as usize]);
        let tall = rounded(rows.row * 0.86);
        let data = spans.entry((segment.vm, segment.vcpu)).or_default();
        *data = std::mem::take(data)
            .move_to((x, y))
            .horizontal_line_by(wide)
            .vertical_line_by(tall)
            .horizontal_line_by(-wide)
            .close();
    }
    for ((vm, vcpu), data) in spans {
        let name = scene.simulation.members.get(vm as usize);
        let name = name.map_or_else(String::new, |member| clean(&member.vm.name, 40));
        let title = match vcpu {
            Some(vcpu) => format!("{name}, vCPU {vcpu}"),
            None => format!("{name}, system thread"),
        };
        let path = Path::new()
            .set("d", data)
            .set("fill", colour(vm, vcpu))
            .add(Title::new(title));
        svg = svg.add(path);
    }
    let svg = with_axis(svg, rows.height, to - from);
    Some((svg.to_string(), (from, to)))
}

/// The drawing with its times.
fn with_axis(mut svg: SVG, height: f64, length: u64) -> SVG {
    for step in 0..=10_u32 {
        let x = NAMES + WIDTH * f64::from(step) / 10.0;
        let at = length as f64 * f64::from(step) / 10.0 / 1e6;
        let anchor = match step {
            0 => "start",
            10 => "end",
            _ => "middle",
        };
        let label = Text::new(format!("{at:.2} ms"))
            .set("x", x)
            .set("y", rounded(height + 16.0))
            .set("text-anchor", anchor);
        svg = svg.add(label);
    }
    svg
}

/// A VM's colour: hues by the golden angle, so that neighbours differ; a vCPU's tone of it.
pub(super) fn colour(vm: u32, vcpu: Option<u32>) -> String {
    let hue = f64::from(vm) * 137.508 % 360.0;
    let tone = vcpu.map_or(30, |vcpu| 44 + vcpu % 4 * 7);
    format!("hsl({hue:.0} 62% {tone}%)")
}

/// The longest time from the beginning that has few enough spans.
fn window(timeline: &[Segment]) -> Option<(u64, u64)> {
    let from = timeline.iter().map(|segment| segment.from_ns).min()?;
    let last = timeline.iter().map(|segment| segment.to_ns).max()?;
    let mut starts: Vec<u64> = timeline.iter().map(|segment| segment.from_ns).collect();
    starts.sort_unstable();
    let to = starts.get(MOST_SPANS).copied().unwrap_or(last);
    (from < to).then_some((from, to))
}

/// Where each CPU is drawn.
struct Rows {
    /// By index of the CPU.
    tops: Vec<f64>,
    /// By LLC: top and height.
    llcs: Vec<(f64, f64)>,
    row: f64,
    height: f64,
}

impl Rows {
    fn new(scene: &Scene) -> Self {
        let host = &scene.host;
        let gap = 0.6;
        let all = host.cpus.len() as f64 + gap * host.llcs.len() as f64;
        let row = (HEIGHT / all.max(1.0)).min(ROW);
        let mut tops = vec![0.0; host.cpus.len()];
        let mut llcs = Vec::new();
        let mut y = 0.0;
        for llc in 0..host.llcs.len() {
            let start = y;
            // Threads of a core are neighbours.
            let mut own: Vec<(u32, usize)> = (0..host.cpus.len())
                .filter(|&cpu| host.cpus[cpu].llc.index() == llc)
                .map(|cpu| (host.cpus[cpu].core.0, cpu))
                .collect();
            own.sort_unstable();
            for (_, cpu) in own {
                tops[cpu] = y;
                y += row;
            }
            llcs.push((start, y - start));
            y += row * gap;
        }
        Self {
            tops,
            llcs,
            row,
            height: y,
        }
    }
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
