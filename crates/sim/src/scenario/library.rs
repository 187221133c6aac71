//! Workloads by name: those that vtopo brings, and those of a scenario, which may start from them.

use std::ops::Range;

use super::fault::{Fault, ScenarioError};
use super::schema::{self, Schema, WORKLOAD};
use super::tree::{Node, Value, merge};
use super::workload;
use crate::spec::Workload;

/// Largest workload file, in bytes.
const MAX_FILE_BYTES: usize = 1 << 20;
/// Most workloads of a scenario that start from each other in a row. Ours.
const MAX_LIKE: usize = 20;
/// Letters of evidence: measured, measured on a sibling, linked, kernel constant, stated in a paper, general knowledge,
/// estimate (reference model, "evidence tags").
const TAGS: [&str; 7] = ["M", "M-sibling", "L", "K", "S", "G", "E"];

/// Workloads that a scenario can name without saying what they are.
#[derive(Debug, Clone, Default)]
pub struct Library {
    entries: Vec<(String, Node)>,
}

/// A number of a workload file with what it stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// Its keys, such as `vector.llc_mpki` or `step.1.cpu`.
    pub key: String,
    /// The value as it is written.
    pub value: String,
    /// How well it is known: `M` measured, `L` on a cited page, `K` constant of the kernel, `S` stated in a paper, `G` general
    /// knowledge, `E` estimate; empty where the file does not say.
    pub evidence: String,
    /// Where it was found, or how it was made; empty where the file does not say.
    pub source: String,
}

impl Figure {
    /// Whether nobody measured or stated it: better numbers may replace it.
    pub fn is_prior(&self) -> bool {
        !["M", "M-sibling", "L", "K", "S"].contains(&self.evidence.as_str())
    }
}

impl Library {
    /// Adds a workload: its name, and its text as a TOML file.
    ///
    /// # Errors
    /// A text that is no workload.
    pub fn add(&mut self, name: &str, text: &str) -> Result<(), ScenarioError> {
        let added = file(name, text).map_err(|fault| fault.or_at(0..0))?;
        self.entries.retain(|(known, _)| known != name);
        self.entries.push((name.to_owned(), added.without_places()));
        Ok(())
    }

    /// The names, in the order in which they were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(name, _)| name.as_str())
    }

    /// What it is, in a sentence; empty if its file does not say.
    pub fn summary(&self, name: &str) -> &str {
        let node = self.find(name).and_then(|node| node.find("summary"));
        node.and_then(|node| node.text().ok()).unwrap_or_default()
    }

    /// The workload as its file says it.
    pub fn workload(&self, name: &str) -> Option<Workload> {
        let read = workload::read(name, self.find(name)?);
        read.ok().map(|defined| defined.workload)
    }

    /// All numbers of a workload with what they stand on.
    pub fn figures(&self, name: &str) -> Vec<Figure> {
        let mut figures = Vec::new();
        if let Some(node) = self.find(name) {
            collect(node, &WORKLOAD, "", &mut figures);
        }
        figures
    }

    pub(super) fn find(&self, name: &str) -> Option<&Node> {
        let mut entries = self.entries.iter();
        entries
            .find(|(known, _)| known == name)
            .map(|(_, node)| node)
    }
}

fn file(name: &str, text: &str) -> Result<Node, Fault> {
    if text.len() > MAX_FILE_BYTES {
        let message = format!(
            "the file has {} bytes; a workload has at most {MAX_FILE_BYTES}",
            text.len()
        );
        return Err(Fault::at(message, None));
    }
    let node = Node::parse(text)?;
    schema::check(&node, &WORKLOAD, "key of a workload")?;
    if let Some(like) = node.find("like") {
        let message = "a workload file stands for itself; only a scenario has `like`";
        return Err(Fault::at(message, like.span.clone()));
    }
    workload::check_name(name, None)?;
    workload::read(name, &node)?;
    check_tags(&node)?;
    Ok(node)
}

fn check_tags(node: &Node) -> Result<(), Fault> {
    if let Some(tag) = node.find("evidence") {
        let tags: Vec<(&str, ())> = TAGS.map(|tag| (tag, ())).into();
        super::value::word(tag, &tags)?;
    }
    let mut inner = node.entries().iter().map(|entry| &entry.node);
    inner.try_for_each(check_tags)?;
    node.items().iter().try_for_each(check_tags)
}

fn collect(node: &Node, schema: &Schema, path: &str, figures: &mut Vec<Figure>) {
    let join = |key: &str| match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    };
    match schema {
        Schema::Table(keys) => {
            for entry in node.entries() {
                if let Some((_, schema)) = keys.iter().find(|(name, _)| *name == entry.key) {
                    collect(&entry.node, schema, &join(&entry.key), figures);
                }
            }
        }
        Schema::Named(each) => {
            for entry in node.entries() {
                collect(&entry.node, each, &join(&entry.key), figures);
            }
        }
        Schema::List(each, name, _) => {
            for (number, item) in (1..).zip(node.items()) {
                let named = item.find(name).and_then(|name| name.text().ok());
                let key = named.map_or_else(|| number.to_string(), str::to_owned);
                collect(item, each, &join(&key), figures);
            }
        }
        Schema::Figure | Schema::Law => {
            let text = |key: &str| {
                let text = node.find(key).and_then(|node| node.text().ok());
                text.unwrap_or_default().to_owned()
            };
            let value = match &node.value {
                Value::Text(text) => text.clone(),
                _ if node.find("from").is_some() => format!("{} to {}", text("from"), text("to")),
                _ => text("value"),
            };
            figures.push(Figure {
                key: path.to_owned(),
                value,
                evidence: text("evidence"),
                source: text("source"),
            });
        }
        Schema::Value | Schema::Vm => {}
    }
}

/// The workloads that a scenario can name: its own over those of the library.
pub(super) struct Known<'a> {
    pub(super) library: &'a Library,
    /// The `workload` table of the scenario.
    pub(super) own: &'a Node,
}

impl Known<'_> {
    /// The tree of a workload, with everything that it starts from.
    pub(super) fn resolve(&self, name: &str, place: Option<Range<usize>>) -> Result<Node, Fault> {
        self.resolve_below(name, place, &mut Vec::new())
    }

    /// The names of the scenario's workloads that this one starts from, itself included.
    pub(super) fn chain(&self, name: &str) -> Vec<String> {
        let mut chain = Vec::new();
        let mut next = Some(name.to_owned());
        while let Some(name) = next.filter(|name| chain.len() < MAX_LIKE && !chain.contains(name)) {
            let like = self
                .own
                .path(&[&name, "like"])
                .and_then(|like| like.text().ok());
            next = like.map(str::to_owned);
            chain.push(name);
        }
        chain
    }

    fn resolve_below(
        &self,
        name: &str,
        place: Option<Range<usize>>,
        below: &mut Vec<String>,
    ) -> Result<Node, Fault> {
        let Some(own) = self.own.find(name) else {
            return self
                .library
                .find(name)
                .cloned()
                .ok_or_else(|| self.unknown(name, place));
        };
        below.push(name.to_owned());
        if below.len() > MAX_LIKE {
            let message = format!("more than {MAX_LIKE} workloads start from each other here");
            return Err(Fault::at(message, place));
        }
        let base = match own.find("like") {
            Some(like) => {
                let (base, place) = (like.text()?, like.span.clone());
                match self.library.find(base).filter(|_| base == name) {
                    Some(node) => node.clone(),
                    None if below.iter().any(|known| known == base) => {
                        let message = format!("{} starts from itself", below.join(" is like "));
                        return Err(Fault::at(message, place));
                    }
                    None => self.resolve_below(base, place, below)?,
                }
            }
            None => self.library.find(name).cloned().unwrap_or_else(Node::empty),
        };
        merge(base, own)
    }

    fn unknown(&self, name: &str, place: Option<Range<usize>>) -> Fault {
        let own = self.own.entries().iter().map(|entry| entry.key.clone());
        let known = own.chain(self.library.names().map(str::to_owned));
        Fault::unknown("workload", name, known, place)
    }
}
