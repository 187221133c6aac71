//! TOML as a tree that two texts can be merged in: a workload and what a scenario changes of it.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::{Fault, shown};

/// A value with its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    /// Where in the scenario; `None` for what a workload of the library says.
    pub(super) span: Option<Range<usize>>,
    pub(super) value: Value,
}

/// What a node is. All that is no list and no table is kept as text: `80` and `"80"` mean the same.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A key of a table with its value, in the order of the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_span: Option<Range<usize>>,
    pub(super) node: Node,
}

/// Longest list or table whose items are looked up by name: more steps than an operation may have.
const MAX_ITEMS: usize = 1000;

impl Entry {
    /// The value of a figure.
    fn value(node: Node) -> Self {
        Self {
            key: "value".to_owned(),
            key_span: node.span.clone(),
            node,
        }
    }
}

/// What a figure may have beside its value: an override of the value makes them untrue.
pub(super) const EVIDENCE: [&str; 3] = ["evidence", "source", "range"];

impl Node {
    /// Reads a text.
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        let table = DeTable::parse(text)
            .map_err(|error| Fault::at(error.message().trim(), error.span().or(Some(0..0))))?;
        let span = table.span();
        Self::table(table.get_ref(), span)
    }

    fn table(table: &DeTable<'_>, span: Range<usize>) -> Result<Self, Fault> {
        let mut entries = Vec::new();
        for (key, value) in table {
            entries.push(Entry {
                key: key.get_ref().to_string(),
                key_span: Some(key.span()),
                node: Self::value(value)?,
            });
        }
        entries.sort_by_key(|entry| entry.key_span.as_ref().map(|span| span.start));
        Ok(Self {
            span: Some(span),
            value: Value::Table(entries),
        })
    }

    fn value(value: &Spanned<DeValue<'_>>) -> Result<Self, Fault> {
        let span = value.span();
        let text = match value.get_ref() {
            DeValue::Table(table) => return Self::table(table, span),
            DeValue::Array(items) => {
                let items: Result<Vec<Self>, Fault> = items.iter().map(Self::value).collect();
                return Ok(Self {
                    span: Some(span),
                    value: Value::List(items?),
                });
            }
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| number.to_string(), |value| value.to_string()),
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::Boolean(is_set) => is_set.to_string(),
            DeValue::Datetime(_) => {
                let message = "a text, number or flag is needed here, not a date; put it in quotes";
                return Err(Fault::at(message, Some(span)));
            }
        };
        Ok(Self {
            span: Some(span),
            value: Value::Text(text),
        })
    }

    /// The same without places, for what no scenario says.
    pub(super) fn without_places(mut self) -> Self {
        self.span = None;
        match &mut self.value {
            Value::Text(_) => {}
            Value::List(items) => {
                for item in items {
                    *item = std::mem::replace(item, Self::empty()).without_places();
                }
            }
            Value::Table(entries) => {
                for entry in entries {
                    entry.key_span = None;
                    entry.node = std::mem::replace(&mut entry.node, Self::empty()).without_places();
                }
            }
        }
        self
    }

    /// A table without entries.
    pub(super) fn empty() -> Self {
        Self {
            span: None,
            value: Value::Table(Vec::new()),
        }
    }

    /// Its entries; none if it is no table.
    pub(super) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    /// Its items; none if it is no list.
    pub(super) fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// The value of a key.
    pub(super) fn find(&self, key: &str) -> Option<&Self> {
        let mut entries = self.entries().iter();
        entries
            .find(|entry| entry.key == key)
            .map(|entry| &entry.node)
    }

    /// The value of a path of keys.
    pub(super) fn path(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.find(key))
    }

    /// What stands for a figure: itself, or its `value`.
    pub(super) fn bare(&self) -> &Self {
        self.find("value").unwrap_or(self)
    }

    /// Its text.
    pub(super) fn text(&self) -> Result<&str, Fault> {
        match &self.value {
            Value::Text(text) => Ok(text),
            Value::List(_) => Err(Fault::at(
                "one value is needed here, not a list",
                self.span.clone(),
            )),
            Value::Table(_) => Err(Fault::at(
                "one value is needed here, not a table",
                self.span.clone(),
            )),
        }
    }

    /// Whether a scenario says it, and not the library.
    pub(super) fn is_said(&self) -> bool {
        self.span.is_some()
    }
}

/// A tree with the changes that another one makes. Tables are merged; a value changes the `value` of a figure; tables
/// named after items of a list, by `name` or number from 1, change these; any other list replaces.
pub(super) fn merge(base: Node, over: &Node) -> Result<Node, Fault> {
    let span = over.span.clone().or(base.span.clone());
    let value = match (base.value, &over.value) {
        (Value::Table(entries), Value::Table(changes)) => {
            Value::Table(merge_tables(entries, changes)?)
        }
        // A bare number becomes the value of what is said about it.
        (Value::Text(text), Value::Table(changes)) => {
            let value = Node {
                span: base.span,
                value: Value::Text(text),
            };
            Value::Table(merge_tables(vec![Entry::value(value)], changes)?)
        }
        (Value::Table(mut entries), Value::Text(_)) => {
            let is_figure = |entry: &Entry| ["value", "from"].contains(&entry.key.as_str());
            if !entries.iter().any(is_figure) {
                return Ok(over.clone());
            }
            let change = [Entry::value(over.clone())];
            entries = merge_tables(entries, &change)?;
            Value::Table(entries)
        }
        (Value::List(mut items), Value::Table(changes)) => {
            if items.len().max(changes.len()) > MAX_ITEMS {
                let message =
                    format!("a list of more than {MAX_ITEMS} cannot be changed item by item");
                return Err(Fault::at(message, span));
            }
            for change in changes {
                let at = position(&items, &change.key).ok_or_else(|| no_item(&items, change))?;
                let item = std::mem::replace(&mut items[at], Node::empty());
                items[at] = merge(item, &change.node)?;
            }
            Value::List(items)
        }
        (_, value) => value.clone(),
    };
    Ok(Node { span, value })
}

/// The entries of a table with changes. What is no longer true of a figure with another value goes.
fn merge_tables(mut entries: Vec<Entry>, changes: &[Entry]) -> Result<Vec<Entry>, Fault> {
    if entries.len().max(changes.len()) > MAX_ITEMS {
        let message = format!("a table of more than {MAX_ITEMS} keys cannot be changed key by key");
        let place = changes.first().and_then(|change| change.key_span.clone());
        return Err(Fault::at(message, place));
    }
    let changes_to = |key: &str| {
        let is_text = |change: &Entry| matches!(change.node.value, Value::Text(_));
        changes
            .iter()
            .any(|change| change.key == key && is_text(change))
    };
    let was_range = entries.iter().any(|entry| entry.key == "from");
    let untrue: &[&str] = match (changes_to("value"), changes_to("from") || changes_to("to")) {
        (true, _) if was_range => &["evidence", "source", "range", "from", "to", "law"],
        (true, _) => &EVIDENCE,
        (false, true) => &["evidence", "source", "range", "value", "cv", "law"],
        (false, false) => &[],
    };
    entries.retain(|entry| !untrue.contains(&entry.key.as_str()));
    for change in changes {
        merge_entry(&mut entries, change)?;
    }
    Ok(entries)
}

fn merge_entry(entries: &mut Vec<Entry>, change: &Entry) -> Result<(), Fault> {
    let Some(entry) = entries.iter_mut().find(|entry| entry.key == change.key) else {
        entries.push(change.clone());
        return Ok(());
    };
    let base = std::mem::replace(&mut entry.node, Node::empty());
    entry.node = merge(base, &change.node)?;
    entry.key_span.clone_from(&change.key_span);
    Ok(())
}

/// The item of that name, or with that number from 1.
fn position(items: &[Node], key: &str) -> Option<usize> {
    let name = |item: &Node| {
        item.find("name")
            .and_then(|name| name.text().ok().map(str::to_owned))
    };
    items
        .iter()
        .position(|item| name(item).as_deref() == Some(key))
        .or_else(|| {
            key.parse::<usize>()
                .ok()?
                .checked_sub(1)
                .filter(|at| *at < items.len())
        })
}

fn no_item(items: &[Node], change: &Entry) -> Fault {
    let names = items
        .iter()
        .filter_map(|item| item.find("name")?.text().ok());
    let known: Vec<String> = names.map(str::to_owned).collect();
    let message = format!(
        "{} is none of them; say which by name or by a number from 1 to {}",
        shown(&change.key),
        items.len()
    );
    Fault {
        unknown: Some((change.key.clone(), known)),
        ..Fault::at(message, change.key_span.clone())
    }
}
