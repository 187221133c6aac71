//! Which VM held how much of which last-level cache, as a map: LLCs from left to right, VMs from top to bottom.

use std::collections::BTreeMap;

use svg::node::element::{Rectangle, SVG, Text, Title};

use super::super::request::Scene;
use super::super::study::Picture;
use crate::draw::clean;

/// Most VMs of a map: more are too thin to read.
pub(super) const MOST_VMS: usize = 64;
/// Columns of the names.
const NAMES: f64 = 92.0;
/// Width and height of a field at most.
const FIELD: (f64, f64) = (26.0, 16.0);
/// Width of the map without the names.
const WIDTH: f64 = 560.0;

/// What the map shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// Bytes of the cache.
    Bytes,
    /// Where its vCPUs ran, where the outcome says nothing of caches.
    Time,
}

/// The map of a run's first seed, and what it shows; `None` without anything to show.
pub(super) fn map(scene: &Scene, picture: &Picture) -> Option<(String, Shown)> {
    let (parts, shown) = parts(scene, picture)?;
    let members = &scene.simulation.members;
    let rows = members.len().min(MOST_VMS);
    let llcs = scene.host.llcs.len().max(1);
    let wide = (WIDTH / llcs as f64).min(FIELD.0);
    let height = rows as f64 * FIELD.1 + 24.0;
    let width = NAMES + wide * llcs as f64 + 4.0;
    let mut svg = SVG::new()
        .set("viewBox", (0.0, 0.0, width, height))
        // Few and large fields would look like more than many small ones.
        .set("style", format!("max-width:{:.0}px", width * 1.3))
        .set("role", "img")
        .set("class", "map");
    let largest = parts.values().copied().fold(0.0, f64::max);
    for (row, member) in members.iter().take(rows).enumerate() {
        let y = row as f64 * FIELD.1;
        let name = Text::new(clean(&member.vm.name, 12))
            .set("x", NAMES - 6.0)
            .set("y", y + FIELD.1 - 4.0)
            .set("text-anchor", "end");
        svg = svg.add(name);
    }
    let step = (llcs / 16).max(1);
    for llc in (0..llcs).step_by(step) {
        let number = Text::new(llc.to_string())
            .set("x", NAMES + (llc as f64 + 0.5) * wide)
            .set("y", height - 10.0)
            .set("text-anchor", "middle");
        svg = svg.add(number);
    }
    let frame = Rectangle::new()
        .set("x", NAMES)
        .set("y", 0)
        .set("width", wide * llcs as f64)
        .set("height", rows as f64 * FIELD.1)
        .set("class", "ground");
    svg = svg.add(frame);
    for (&(llc, vm), &value) in &parts {
        if vm as usize >= rows || value <= 0.0 {
            continue;
        }
        let name = clean(&members[vm as usize].vm.name, 40);
        let field = Rectangle::new()
            .set("x", rounded(NAMES + f64::from(llc) * wide + 0.5))
            .set("y", rounded(f64::from(vm) * FIELD.1 + 0.5))
            .set("width", rounded(wide - 1.0))
            .set("height", FIELD.1 - 1.0)
            .set("class", "hot")
            .set("fill-opacity", rounded(0.12 + 0.88 * value / largest))
            .add(Title::new(tip(&name, llc, value, shown)));
        svg = svg.add(field);
    }
    Some((svg.to_string(), shown))
}

fn tip(name: &str, llc: u32, value: f64, shown: Shown) -> String {
    match shown {
        Shown::Bytes => format!("{name} on LLC {llc}: {:.2} MiB", value / 1_048_576.0),
        Shown::Time => format!(
            "{name} on LLC {llc}: {:.0} % of its running time",
            value * 100.0
        ),
    }
}

/// By LLC and VM.
type Parts = BTreeMap<(u32, u32), f64>;

/// What each VM had of each LLC, and what that is.
fn parts(scene: &Scene, picture: &Picture) -> Option<(Parts, Shown)> {
    let mut parts: Parts = BTreeMap::new();
    for (llc, held) in (0_u32..).zip(&picture.llc_held) {
        parts.extend(held.iter().map(|&(vm, bytes)| ((llc, vm), bytes)));
    }
    if parts.values().any(|bytes| *bytes > 0.0) {
        return Some((parts, Shown::Bytes));
    }
    parts.clear();
    let mut of_vm: BTreeMap<u32, f64> = BTreeMap::new();
    for segment in &picture.timeline {
        let llc = scene.host.cpus[segment.cpu as usize].llc.0;
        let ns = (segment.to_ns - segment.from_ns) as f64;
        *parts.entry((llc, segment.vm)).or_default() += ns;
        *of_vm.entry(segment.vm).or_default() += ns;
    }
    for (&(_, vm), value) in &mut parts {
        *value /= of_vm[&vm].max(1.0);
    }
    (!parts.is_empty()).then_some((parts, Shown::Time))
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
