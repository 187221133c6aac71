//! Changes to elements and attributes of a file, as replacements of its bytes.

use std::fmt::Write;
use std::ops::Range;

use super::super::super::splice::Splices;
use super::super::document::{Node, child, text_node};
use super::super::xml::{Xml, escaped};

/// Changes to a file.
pub(super) struct Tree<'a> {
    text: &'a str,
    splices: Splices,
    /// New content by the element it goes to the end of.
    appended: Vec<(Node<'a>, String)>,
}

impl<'a> Tree<'a> {
    /// No change yet.
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            splices: Splices::default(),
            appended: Vec::new(),
        }
    }

    /// Sets the text of an element.
    pub(super) fn set_text(&mut self, node: Node<'a>, value: &str) {
        if let Some(content) = text_node(node) {
            let (range, content) = (content.range(), &self.text[content.range()]);
            let start = range.start + content.len() - content.trim_start().len();
            let end = range.end - (content.len() - content.trim_end().len());
            self.splices.replace(start..end, escaped(value));
        } else {
            let tag = self.start_tag(node);
            let name = &self.text[self.name(node)];
            if self.is_self_closing(node) {
                self.splices.replace(
                    tag.end - 2..tag.end,
                    format!(">{}</{name}>", escaped(value)),
                );
            } else {
                self.splices.insert(tag.end, escaped(value));
            }
        }
    }

    /// Sets an attribute where it stands, or adds it after the last one in the quotes of the element.
    pub(super) fn set_attribute(&mut self, node: Node<'a>, name: &str, value: &str) {
        if let Some(attribute) = node.attribute_node(name) {
            if attribute.value() != value {
                self.splices
                    .replace(attribute.range_value(), escaped(value));
            }
            return;
        }
        let last = node
            .attributes()
            .map(|attribute| attribute.range().end)
            .max();
        let at = last.unwrap_or(self.name(node).end);
        let quote = self.text[..at]
            .chars()
            .next_back()
            .filter(|quote| "'\"".contains(*quote));
        let quote = quote.unwrap_or('\'');
        self.splices
            .insert(at, format!(" {name}={quote}{}{quote}", escaped(value)));
    }

    /// Takes an attribute out with the blanks before it.
    pub(super) fn remove_attribute(&mut self, node: Node<'a>, name: &str) {
        if let Some(attribute) = node.attribute_node(name) {
            let range = attribute.range();
            let start = self.text[..range.start].trim_end().len();
            self.splices.remove(start..range.end);
        }
    }

    /// Takes an element out with the blanks before it.
    pub(super) fn remove(&mut self, node: Node<'a>) {
        let range = node.range();
        let start = self.text[..range.start].trim_end().len();
        self.splices.remove(start..range.end);
    }

    /// Adds elements at the end of an element, indented like what is there.
    pub(super) fn append(&mut self, parent: Node<'a>, content: &Xml) {
        let sibling = parent.first_element_child();
        let indent = match sibling {
            Some(sibling) => self.indent(sibling),
            None => self
                .indent(parent)
                .map(|indent| format!("{indent}{}", self.step(parent))),
        };
        let text = self.indented(content, indent.as_deref());
        match self.appended.iter_mut().find(|(node, _)| *node == parent) {
            Some((_, already)) => already.push_str(&text),
            None => self.appended.push((parent, text)),
        }
    }

    /// Adds elements after the first child there is of some names, or at the end.
    pub(super) fn insert(&mut self, parent: Node<'a>, after: &[&'static str], content: &Xml) {
        match after.iter().find_map(|name| child(parent, name)) {
            Some(sibling) => self.insert_after(sibling, content),
            None => self.append(parent, content),
        }
    }

    /// Adds elements after an element, indented like it.
    fn insert_after(&mut self, sibling: Node<'a>, content: &Xml) {
        let text = self.indented(content, self.indent(sibling).as_deref());
        self.splices.insert(sibling.range().end, text);
    }

    /// Declares a namespace in the tag of an element.
    pub(super) fn declare_namespace(&mut self, node: Node<'a>, prefix: &str, uri: &str) {
        let tag = self.start_tag(node);
        let end = tag.end - if self.is_self_closing(node) { 2 } else { 1 };
        let at = self.text[..end].trim_end().len();
        let quote = self.text[..at]
            .chars()
            .next_back()
            .filter(|quote| "'\"".contains(*quote));
        let quote = quote.unwrap_or('\'');
        self.splices
            .insert(at, format!(" xmlns:{prefix}={quote}{uri}{quote}"));
    }

    /// The text with all changes.
    pub(super) fn finish(mut self) -> String {
        for (parent, content) in std::mem::take(&mut self.appended) {
            let name = self.text[self.name(parent)].to_owned();
            let last = parent.children().rfind(|child| !child.is_text());
            let end = self.indent(parent).map_or(String::new(), |indent| {
                format!("{}{indent}", self.newline())
            });
            let tag = self.start_tag(parent);
            if self.is_self_closing(parent) {
                self.splices
                    .replace(tag.end - 2..tag.end, format!(">{content}{end}</{name}>"));
            } else if let Some(last) = last {
                self.splices.insert(last.range().end, content);
            } else {
                // An element without elements: what blanks it has stand before its end.
                let blank = self.text[tag.end..].starts_with(['\n', '\r']);
                self.splices
                    .insert(tag.end, if blank { content } else { content + &end });
            }
        }
        self.splices.apply(self.text)
    }

    /// Lines of new content, each on a line of its own where the file does so.
    fn indented(&self, content: &Xml, indent: Option<&str>) -> String {
        let mut out = String::new();
        for (depth, line) in content.lines() {
            if let Some(indent) = indent {
                let _ = write!(out, "{}{indent}{}", self.newline(), "  ".repeat(depth));
            }
            out.push_str(line);
        }
        out
    }

    /// The blanks before an element that stands first on its line; `None` in the midst of a line.
    fn indent(&self, node: Node<'a>) -> Option<String> {
        let before = &self.text[..node.range().start];
        let line = &before[before.rfind('\n').map_or(0, |newline| newline + 1)..];
        line.chars()
            .all(|char| char == ' ' || char == '\t')
            .then(|| line.to_owned())
    }

    /// What one level adds to the indentation around an element.
    fn step(&self, node: Node<'a>) -> String {
        let parent = node.parent_element().and_then(|parent| self.indent(parent));
        let own = self.indent(node).unwrap_or_default();
        let step = parent.and_then(|parent| own.strip_prefix(&parent).map(str::to_owned));
        step.filter(|step| !step.is_empty())
            .unwrap_or_else(|| "  ".to_owned())
    }

    fn newline(&self) -> &'static str {
        if self.text.contains("\r\n") {
            "\r\n"
        } else {
            "\n"
        }
    }

    /// The bytes of the element's name in its start tag, prefix included.
    fn name(&self, node: Node<'a>) -> Range<usize> {
        let start = node.range().start + 1;
        let end = |char: char| char.is_whitespace() || char == '/' || char == '>';
        let length = self.text[start..].find(end).unwrap_or(0);
        start..start + length
    }

    /// The bytes of the element's start tag.
    fn start_tag(&self, node: Node<'a>) -> Range<usize> {
        let range = node.range();
        let mut quote = None;
        for (offset, byte) in self.text[range.clone()].bytes().enumerate() {
            match (quote, byte) {
                (Some(open), close) if open == close => quote = None,
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b'>') => return range.start..range.start + offset + 1,
                _ => {}
            }
        }
        range
    }

    fn is_self_closing(&self, node: Node<'a>) -> bool {
        self.text[self.start_tag(node)].ends_with("/>")
    }
}
