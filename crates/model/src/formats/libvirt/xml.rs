//! XML text, an element a line, indented by two blanks as libvirt does.

use std::fmt::Write;

/// A text being written.
#[derive(Debug, Default)]
pub(super) struct Xml {
    text: String,
    depth: usize,
}

impl Xml {
    /// The start of an element; attributes come as text with a leading blank.
    pub(super) fn open(&mut self, name: &str, attributes: &str) {
        self.line(&format!("<{name}{attributes}>"));
        self.depth += 1;
    }

    /// The end of an element.
    pub(super) fn close(&mut self, name: &str) {
        self.depth -= 1;
        self.line(&format!("</{name}>"));
    }

    /// An element without content.
    pub(super) fn empty(&mut self, name: &str, attributes: &str) {
        self.line(&format!("<{name}{attributes}/>"));
    }

    /// An element with text, which is escaped.
    pub(super) fn text(&mut self, name: &str, attributes: &str, content: &str) {
        self.line(&format!(
            "<{name}{attributes}>{}</{name}>",
            escaped(content)
        ));
    }

    /// Whether nothing has been written.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The lines with their depth.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().map(|line| {
            let content = line.trim_start_matches(' ');
            ((line.len() - content.len()) / 2, content)
        })
    }

    /// Adds other elements.
    pub(super) fn extend(&mut self, other: &Self) {
        for (depth, line) in other.lines() {
            let depth = self.depth + depth;
            let _ = writeln!(self.text, "{:1$}{line}", "", 2 * depth);
        }
    }

    /// What is inside the single element written so far.
    pub(super) fn content(&self) -> Self {
        let mut inner = Self::default();
        for (depth, line) in self.lines().filter(|(depth, _)| *depth > 0) {
            let _ = writeln!(inner.text, "{:1$}{line}", "", 2 * (depth - 1));
        }
        inner
    }

    /// The whole text.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{:1$}{line}", "", 2 * self.depth);
    }
}

/// Text as it stands in content or in an attribute of either quotes; characters that XML cannot hold become `_`.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&apos;"),
            '"' => out.push_str("&quot;"),
            '\t' | ' '..='\u{fffd}' | '\u{10000}'.. => out.push(char),
            _ => out.push('_'),
        }
    }
    out
}
