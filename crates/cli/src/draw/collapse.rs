//! Draws equal parts once: sixteen LLCs of four cores become one line.

use super::parts::{Kind, Name, Part, Speed, ThreadState, Tile};
use super::units::{mib, plural};

/// Most cores that are drawn as signs where a part is one line.
const SIGNS: usize = 16;

/// What makes two parts look the same; CPU numbers do not.
#[derive(PartialEq)]
struct Look {
    /// Each without its number.
    names: Vec<Name>,
    tiles: Vec<(Speed, usize, Vec<ThreadState>)>,
    children: Vec<Look>,
}

/// The parts with runs of equal neighbours drawn as one, at every depth: nodes without CPUs always, others as far as they
/// are at most `height` boxes high (0 is a box without boxes inside).
pub(super) fn collapse(parts: &[Part], height: Option<usize>) -> Vec<Part> {
    let looks: Vec<Look> = parts.iter().map(look).collect();
    let low = |part: &Part| height.is_some_and(|height| self::height(part) <= height);
    let indices: Vec<usize> = (0..parts.len()).collect();
    let runs = indices
        .chunk_by(|&a, &b| looks[a] == looks[b] && (parts[a].tiles.is_empty() || low(&parts[a])));
    runs.map(|run| {
        let run = &parts[run[0]..=run[run.len() - 1]];
        match run {
            [one] => Part {
                children: collapse(&one.children, height),
                ..one.clone()
            },
            _ => merge(run),
        }
    })
    .collect()
}

/// The part without the boxes inside, which it describes in words.
pub(super) fn summarise(part: &Part) -> Part {
    let wordy = !part.children.is_empty() || part.tiles.len() > SIGNS;
    let summary = if wordy { contents(part) } else { String::new() };
    Part {
        children: Vec::new(),
        summary,
        ..part.clone()
    }
}

/// Boxes between the part and its innermost box.
pub(super) fn height(part: &Part) -> usize {
    part.children
        .iter()
        .map(|child| height(child) + 1)
        .max()
        .unwrap_or(0)
}

/// Number of boxes without boxes inside.
pub(super) fn leaves(parts: &[Part]) -> usize {
    parts.iter().map(|part| leaves(&part.children).max(1)).sum()
}

/// What a part holds, in words: `4 LLCs × 8 cores × 2 threads`.
fn contents(part: &Part) -> String {
    if part.children.is_empty() {
        return cores(&part.tiles);
    }
    let looks: Vec<Look> = part.children.iter().map(look).collect();
    let indices: Vec<usize> = (0..looks.len()).collect();
    let runs = indices.chunk_by(|&a, &b| looks[a] == looks[b]).map(|run| {
        let child = &part.children[run[0]];
        let noun = child
            .names
            .first()
            .map_or("part", |name| noun(name.kind, false));
        let count = run.len() * child.count;
        let inside = contents(child);
        let memory = child
            .names
            .first()
            .map(|name| name.memory_mib)
            .filter(|&memory| memory > 0);
        let memory = memory
            .map(|memory| format!(" of {}", mib(memory)))
            .unwrap_or_default();
        format!("{}{memory} × {inside}", plural(count, noun))
    });
    runs.collect::<Vec<_>>().join(" + ")
}

/// The word for a kind of object.
pub(super) fn noun(kind: Kind, guest: bool) -> &'static str {
    match kind {
        Kind::Package if guest => "socket",
        Kind::Package => "package",
        Kind::Node | Kind::SpareNode => "node",
        Kind::Die => "die",
        Kind::Module => "module",
        Kind::Llc => "LLC",
    }
}

/// `8 cores × 2 threads`, or `6 cores × 2 threads + 8 cores` where they differ.
fn cores(tiles: &[Tile]) -> String {
    let alike = |a: &Tile, b: &Tile| a.speed == b.speed && a.threads.len() == b.threads.len();
    let runs = tiles.chunk_by(alike).map(|run| {
        let cores = plural(run.len(), "core");
        match run[0].threads.len() {
            1 => cores,
            threads => format!("{cores} × {threads} threads"),
        }
    });
    runs.collect::<Vec<_>>().join(" + ")
}

fn look(part: &Part) -> Look {
    let states = |tile: &Tile| tile.threads.iter().map(|(_, state)| *state).collect();
    Look {
        names: part
            .names
            .iter()
            .map(|name| Name {
                ids: Vec::new(),
                ..name.clone()
            })
            .collect(),
        // The children have their own.
        tiles: if part.children.is_empty() {
            part.tiles
                .iter()
                .map(|tile| (tile.speed, tile.fewer, states(tile)))
                .collect()
        } else {
            Vec::new()
        },
        children: part.children.iter().map(look).collect(),
    }
}

fn merge(run: &[Part]) -> Part {
    let first = summarise(&run[0]);
    let names: Vec<Name> = first
        .names
        .iter()
        .enumerate()
        .map(|(position, name)| Name {
            ids: run
                .iter()
                .flat_map(|part| part.names[position].ids.iter().copied())
                .collect(),
            ..name.clone()
        })
        .collect();
    let cpus = run
        .iter()
        .fold(model::CpuSet::new(), |all, part| all.union(&part.cpus));
    Part {
        names,
        cpus,
        count: run.len(),
        ..first
    }
}
