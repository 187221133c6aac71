//! Coloured text in lines and blocks, measured in terminal columns.

use std::fmt::Write;

use textwrap::{Options, WordSplitter};
use unicode_width::UnicodeWidthStr;

use super::palette::Role;

/// Columns of the labels of captions and findings.
pub(super) const LABEL: usize = 11;

/// A line: pieces of text with their roles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line(Vec<(Role, String)>);

/// Lines below each other.
pub(super) type Block = Vec<Line>;

impl Line {
    /// A line of one piece.
    pub(super) fn new(role: Role, text: impl Into<String>) -> Self {
        Self(vec![(role, text.into())])
    }

    /// The line with a piece more.
    pub(super) fn with(mut self, role: Role, text: impl Into<String>) -> Self {
        self.0.push((role, text.into()));
        self
    }

    /// The line with another one after it.
    pub(super) fn then(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Columns it takes.
    pub(super) fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.width()).sum()
    }

    /// Its text, with the role of its first piece.
    pub(super) fn plain(&self) -> (Role, String) {
        let role = self.0.first().map_or(Role::Plain, |(role, _)| *role);
        (role, self.0.iter().map(|(_, text)| text.as_str()).collect())
    }

    /// The line filled up with blanks.
    pub(super) fn padded(self, width: usize) -> Self {
        let blanks = width.saturating_sub(self.width());
        self.with(Role::Plain, " ".repeat(blanks))
    }
}

/// Lines behind a label in a column of its own.
pub(super) fn hanging(role: Role, label: &str, indent: usize, texts: Vec<String>) -> Block {
    let lines = texts.into_iter().enumerate().map(|(position, text)| {
        let label = if position == 0 { label } else { "" };
        Line::new(role, label)
            .padded(indent)
            .with(Role::Plain, text)
    });
    lines.collect()
}

/// Columns of the widest line.
pub(super) fn width(block: &[Line]) -> usize {
    block.iter().map(Line::width).max().unwrap_or(0)
}

/// Blocks beside each other, all but the last padded to their width, with a separator on every line.
pub(super) fn beside(blocks: Vec<Block>, separator: &Line) -> Block {
    let height = blocks.iter().map(Vec::len).max().unwrap_or(0);
    let mut lines = vec![Line::default(); height];
    for (position, mut block) in blocks.into_iter().enumerate() {
        let wide = width(&block);
        block.resize(height, Line::default());
        for (line, piece) in lines.iter_mut().zip(block) {
            let start = std::mem::take(line);
            let start = if position > 0 {
                start.then(separator.clone())
            } else {
                start
            };
            *line = start.then(piece.padded(wide));
        }
    }
    lines
}

/// Items on lines of at most `width` columns, with a separator between items of a line, kept at the end where a line
/// breaks after it if `keep` says so. Items wider than a line
/// are broken between words.
pub(super) fn flow(items: &[String], separator: &str, keep: bool, width: usize) -> Vec<String> {
    let kept = if keep { separator.trim_end() } else { "" };
    let mut lines: Vec<String> = Vec::new();
    for (position, item) in items.iter().enumerate() {
        let last = position + 1 == items.len();
        let room = if last {
            width
        } else {
            width.saturating_sub(kept.width())
        };
        match lines.last_mut() {
            Some(line) if line.width() + separator.width() + item.width() <= room => {
                line.push_str(separator);
                line.push_str(item);
            }
            previous => {
                if let Some(line) = previous {
                    line.push_str(kept);
                }
                lines.extend(wrap(item, room));
            }
        }
    }
    lines
}

/// A CPU list such as `0-3,64-67`, broken after commas.
pub(super) fn flow_cpus(cpus: &str, width: usize) -> Vec<String> {
    let items: Vec<String> = cpus.split(',').map(str::to_owned).collect();
    flow(&items, ",", true, width)
}

/// Words on lines of at most `width` columns; names with hyphens stay whole, longer words are cut.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let options = Options::new(width.max(1)).word_splitter(WordSplitter::NoHyphenation);
    let lines = textwrap::wrap(text, options);
    lines
        .into_iter()
        .map(std::borrow::Cow::into_owned)
        .collect()
}

/// The lines as one text, each ended by a line feed and without blanks before it.
pub(super) fn print(block: &[Line], colour: bool) -> String {
    let mut out = String::new();
    for line in block {
        let mut left = line.plain().1.trim_end().len();
        for (role, text) in &line.0 {
            let text = &text[..text.len().min(left)];
            left -= text.len();
            let style = role.ansi();
            if colour && !text.trim().is_empty() && style != anstyle::Style::new() {
                write!(out, "{style}{text}{style:#}").expect("writing to a string cannot fail");
            } else {
                out.push_str(text);
            }
        }
        out.push('\n');
    }
    out
}
