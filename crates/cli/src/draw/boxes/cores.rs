//! Cores as text: one sign each, or a table of their CPU numbers.

use crate::draw::palette::Role;
use crate::draw::parts::{Speed, ThreadState, Tile};
use crate::draw::text::{Block, Line, width};
use crate::draw::units::plural;

/// Most entries of a legend.
const ENTRIES: usize = 8;

/// The sign of a core: whole with all its threads, half with fewer, small when slow, hatched when isolated.
pub(super) fn glyph(tile: &Tile) -> (Role, char) {
    let any = |wanted| tile.threads.iter().any(|(_, state)| *state == wanted);
    if !tile.is_present() {
        return (Role::Absent, '·');
    }
    if any(ThreadState::Isolated) {
        return (Role::Isolated, '▒');
    }
    let few = tile.fewer > 0 || any(ThreadState::Absent);
    match tile.speed {
        Speed::Fast if few => (Role::Core, '▀'),
        Speed::Fast => (Role::Core, '■'),
        Speed::Middle => (Role::MiddleCore, '▪'),
        Speed::Slow => (Role::SlowCore, '▫'),
    }
}

/// What the signs of the cores mean.
pub(super) fn legend<'a>(tiles: impl Iterator<Item = &'a Tile>) -> Vec<(Role, String)> {
    let mut entries: Vec<(Role, String)> = Vec::new();
    for tile in tiles {
        let (role, sign) = glyph(tile);
        let present = tile
            .threads
            .iter()
            .filter(|(_, state)| *state != ThreadState::Absent);
        let threads = plural(present.count(), "thread");
        let meaning = match (role, tile.speed) {
            (Role::Isolated, _) => "isolated".to_owned(),
            (Role::Absent, _) => "slot without vCPU".to_owned(),
            (_, Speed::Fast) => format!("core, {threads}"),
            (_, Speed::Middle) => format!("slower core, {threads}"),
            (_, Speed::Slow) => format!("slow core, {threads}"),
        };
        let entry = (role, format!("{sign} {meaning}"));
        if !entries.contains(&entry) && entries.len() < ENTRIES {
            entries.push(entry);
        }
    }
    entries
}

/// A sign per core, in rows of equal length of at most `most` signs; runs of equal ones as one piece of text.
pub(super) fn glyph_rows(tiles: &[Tile], most: usize) -> Block {
    let rows = tiles.len().div_ceil(most.max(1)).max(1);
    let rows = tiles.chunks(tiles.len().div_ceil(rows).max(1)).map(|row| {
        let signs: Vec<(Role, char)> = row.iter().map(glyph).collect();
        let runs = signs.chunk_by(|a, b| a.0 == b.0);
        runs.fold(Line::default(), |line, run| {
            line.with(
                run[0].0,
                run.iter().map(|(_, sign)| *sign).collect::<String>(),
            )
        })
    });
    rows.collect()
}

/// Cores as a table of their CPU numbers with cells of at least `cell` columns and a title in the upper edge; `None` when
/// that is wider than `room`.
pub(super) fn grid(tiles: &[Tile], title: &Line, cell: usize, room: usize) -> Option<Block> {
    let texts: Vec<Line> = tiles.iter().map(tile_text).collect();
    let mut cell = width(&texts).max(cell);
    let most = (room.saturating_sub(1) / (cell + 3)).max(1);
    let rows = tiles.len().div_ceil(most);
    let columns = tiles.len().div_ceil(rows.max(1)).max(1);
    // The title stands in the edge: ┌─ title ─┐.
    if title.width() > 0 {
        cell = cell.max((title.width() + 5).div_ceil(columns).saturating_sub(3));
    }
    if columns * (cell + 3) + 1 > room {
        return None;
    }
    let edge = |left: &str, middle: &str, right: &str| {
        format!(
            "{left}{}{right}",
            vec!["─".repeat(cell + 2); columns].join(middle)
        )
    };
    let top = edge("┌", "┬", "┐");
    let mut lines = vec![if title.width() == 0 {
        Line::new(Role::Frame, top)
    } else {
        let rest: String = top.chars().skip(title.width() + 4).collect();
        Line::new(Role::Frame, "┌─ ")
            .then(title.clone())
            .with(Role::Frame, format!(" {rest}"))
    }];
    for row in texts.chunks(columns) {
        let start = Line::new(Role::Frame, "│");
        lines.push((0..columns).fold(start, |line, column| {
            let text = row.get(column).cloned().unwrap_or_default();
            line.with(Role::Plain, " ")
                .then(text.padded(cell))
                .with(Role::Frame, " │")
        }));
    }
    lines.push(Line::new(Role::Frame, edge("└", "┴", "┘")));
    Some(lines)
}

/// The CPU numbers of a core; a dot for a thread that is not there.
pub(super) fn tile_text(tile: &Tile) -> Line {
    let hidden = if tile.hidden { tile.fewer } else { 0 };
    let usable = if tile.speed == Speed::Fast {
        Role::Plain
    } else {
        tile.speed.role()
    };
    let threads = tile.threads.iter().map(|(cpu, state)| match state {
        ThreadState::Usable => (usable, cpu.to_string()),
        ThreadState::Isolated => (Role::Isolated, format!("▒{cpu}")),
        ThreadState::Absent => (Role::Absent, "·".to_owned()),
    });
    let hidden = std::iter::repeat_n((Role::Absent, "·".to_owned()), hidden);
    threads
        .chain(hidden)
        .enumerate()
        .fold(Line::default(), |line, (position, (role, text))| {
            let line = if position > 0 {
                line.with(Role::Plain, " ")
            } else {
                line
            };
            line.with(role, text)
        })
}
