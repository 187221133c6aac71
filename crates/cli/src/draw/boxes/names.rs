//! What parts are called, with their sizes.

use crate::draw::collapse::noun;
use crate::draw::palette::Role;
use crate::draw::parts::{Cache, Kind, Name, Part};
use crate::draw::text::Line;
use crate::draw::units::{bytes, mib, ranges};

/// Which sizes stand beside the names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) memory: bool,
    pub(super) caches: bool,
    /// The size that a guest is shown, where it differs.
    pub(super) shown_caches: bool,
}

/// The names of a part with the sizes asked for, outermost first, and its notes; never empty.
pub(super) fn names(part: &Part, guest: bool, sizes: Sizes) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for name in &part.names {
        let cut = if name.cut { " (part)" } else { "" };
        let text = format!("{} {}{cut}", noun(name.kind, guest), ranges(&name.ids));
        let line = Line::new(role(name.kind), text);
        let size = size(name, part.count, sizes);
        lines.push(if size.is_empty() {
            line
        } else {
            line.with(Role::Muted, size)
        });
        if sizes.memory && !name.note.is_empty() {
            lines.push(Line::new(Role::Muted, name.note.clone()));
        }
    }
    if lines.is_empty() {
        lines.push(Line::new(
            Role::Muted,
            if part.cpus.is_empty() {
                "empty"
            } else {
                "no node"
            },
        ));
    }
    lines
}

/// Names on one line.
pub(super) fn join(names: Vec<Line>) -> Line {
    names
        .into_iter()
        .enumerate()
        .fold(Line::default(), |line, (position, name)| {
            let line = if position > 0 {
                line.with(Role::Frame, " · ")
            } else {
                line
            };
            line.then(name)
        })
}

/// Size of a cache as text, its level where it is not the usual, and with `shown` what a guest is shown where that
/// differs; nothing when unknown.
pub(in crate::draw) fn cache_size(cache: Cache, shown: bool) -> String {
    if cache.size_bytes == 0 {
        return String::new();
    }
    let level = if cache.level == 2 { " L2" } else { "" };
    let differs = cache.shown_bytes != cache.size_bytes && cache.shown_bytes != 0;
    let shown = if shown && differs {
        format!(" (guest sees {})", bytes(cache.shown_bytes))
    } else {
        String::new()
    };
    format!("{}{level}{shown}", bytes(cache.size_bytes))
}

fn size(name: &Name, count: usize, sizes: Sizes) -> String {
    let each = if count > 1 { " each" } else { "" };
    let size = match (name.kind, name.cache) {
        (Kind::Llc, Some(cache)) if sizes.caches => cache_size(cache, sizes.shown_caches),
        _ if sizes.memory && name.memory_mib > 0 => mib(name.memory_mib),
        _ => String::new(),
    };
    let spare = if name.kind == Kind::SpareNode {
        " spare"
    } else {
        ""
    };
    if size.is_empty() {
        spare.to_owned()
    } else {
        format!(" {size}{each}{spare}")
    }
}

fn role(kind: Kind) -> Role {
    match kind {
        Kind::Package => Role::Package,
        Kind::Node | Kind::SpareNode => Role::Node,
        Kind::Die | Kind::Module => Role::Muted,
        Kind::Llc => Role::Llc,
    }
}
