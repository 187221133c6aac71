//! Files of one setting a line (`.vmx`, Proxmox VE's `.conf`), edited in place so that every byte we do not own stays.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use super::splice::Splices;
use super::{ParseError, smp};
use crate::finding::Finding;
use crate::vm::Spec;

/// Largest memory a reader accepts, in MiB: 4 PiB, what 52 physical address bits reach.
pub(super) const MAX_MEMORY_MIB: u64 = 1 << 32;

/// One setting as it stands in the file.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    /// The key as compared (lower case where the format ignores case).
    pub(super) key: String,
    /// The value, decoded.
    pub(super) value: String,
    /// Bytes of the value as written, without quotes.
    pub(super) span: Range<usize>,
    /// Whether quotes surround the span.
    pub(super) quoted: bool,
    /// Bytes of the line with its end.
    pub(super) line: Range<usize>,
}

/// The settings of a file in file order. Where a key is repeated the last one counts.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// All settings, repeated ones too.
    pub(super) list: Vec<Setting>,
    /// Lines that are neither settings, comments nor blank.
    pub(super) unreadable: Vec<Range<usize>>,
    /// Where new settings go, in bytes.
    pub(super) end: usize,
    last: BTreeMap<String, usize>,
}

impl Settings {
    /// No setting yet; new ones go to the byte `end`.
    pub(super) fn ending_at(end: usize) -> Self {
        Self {
            end,
            ..Self::default()
        }
    }

    /// Adds the next setting of the file.
    pub(super) fn push(&mut self, setting: Setting) {
        self.last.insert(setting.key.clone(), self.list.len());
        self.list.push(setting);
    }

    /// The setting of a key that counts.
    pub(super) fn of(&self, key: &str) -> Option<&Setting> {
        self.last.get(key).map(|&at| &self.list[at])
    }

    /// The value of a key, without surrounding blanks; `None` when absent or blank.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        let value = self.of(key)?.value.trim();
        (!value.is_empty()).then_some(value)
    }

    /// The number a key holds; `None` when absent or blank.
    pub(super) fn number(
        &self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, ParseError> {
        self.text(key)
            .and_then(|_| self.of(key))
            .map(|setting| setting.number(range))
            .transpose()
    }

    /// As [`number`](Self::number), for numbers below 2^32.
    pub(super) fn small(
        &self,
        key: &str,
        range: RangeInclusive<u32>,
    ) -> Result<Option<u32>, ParseError> {
        let range = u64::from(*range.start())..=u64::from(*range.end());
        Ok(self
            .number(key, range)?
            .and_then(|number| u32::try_from(number).ok()))
    }

    /// The settings whose key is `prefix`, a number and `suffix`, by number; those that count only.
    pub(super) fn numbered<'a>(
        &'a self,
        prefix: &'a str,
        suffix: &'a str,
    ) -> impl Iterator<Item = (u32, &'a Setting)> {
        let mut found: Vec<(u32, &Setting)> = self
            .last
            .range(prefix.to_owned()..)
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter_map(|(key, &at)| {
                let digits = key.strip_prefix(prefix)?.strip_suffix(suffix)?;
                let canonical = digits.parse::<u32>().ok()?;
                (canonical.to_string() == digits).then(|| (canonical, &self.list[at]))
            })
            .collect();
        found.sort_by_key(|&(number, _)| number);
        found.into_iter()
    }

    /// Keys that occur more than once, each with its count.
    pub(super) fn repeated(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for setting in &self.list {
            *counts.entry(setting.key.as_str()).or_insert(0) += 1;
        }
        counts.retain(|_, count| *count > 1);
        counts
    }

    /// That the file has a setting at all.
    pub(super) fn check_not_empty(&self, text: &str, form: &str) -> Result<(), ParseError> {
        if !self.list.is_empty() {
            return Ok(());
        }
        let end = text.find('\n').unwrap_or(text.len());
        Err(ParseError::new(
            format!("no setting found; a file of this kind has lines like {form}"),
            0..end,
        ))
    }
}

impl Setting {
    /// The number in the value.
    pub(super) fn number(&self, range: RangeInclusive<u64>) -> Result<u64, ParseError> {
        let number = self.value.trim().parse::<u64>().ok();
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| {
                self.error(&format!(
                    "a whole number from {} to {}",
                    range.start(),
                    range.end()
                ))
            })
    }

    /// The error that the value is not what it should be.
    pub(super) fn error(&self, expected: &str) -> ParseError {
        let value: String = self.value.chars().take(60).collect();
        ParseError::new(
            format!("`{}` is {value:?}; expected {expected}", self.key),
            self.span.clone(),
        )
    }
}

/// A line of a text.
#[derive(Debug, Clone)]
pub(super) struct Line<'a> {
    /// What it says, without its end.
    pub(super) body: &'a str,
    /// Where the body starts, in bytes.
    pub(super) start: usize,
    /// The whole line with its end, in bytes.
    pub(super) span: Range<usize>,
}

/// The lines of a text, each ended by LF or CR LF; a byte order mark is no part of the first.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut start = text.len() - text.trim_start_matches('\u{feff}').len();
    text[start..].split_inclusive('\n').map(move |line| {
        let span = start..start + line.len();
        start = span.end;
        let body = line.strip_suffix('\n').unwrap_or(line);
        Line {
            body: body.strip_suffix('\r').unwrap_or(body),
            start: span.start,
            span,
        }
    })
}

/// How a format writes a setting.
pub(super) struct Style {
    /// Encodes a value for the place of an old one; the second argument says whether quotes surround that place.
    pub(super) value: fn(&str, bool) -> String,
    /// Writes a whole setting, without line end.
    pub(super) line: fn(&str, &str) -> String,
    /// Turns a key as written into the key as compared.
    pub(super) key: fn(&str) -> String,
}

/// A setting to have: a key and its value, or `None` when the key must go.
pub(super) type Wanted = (String, Option<String>);

/// The text with the wanted settings: values replaced in place, unwanted lines taken out, new lines at the end.
pub(super) fn apply(text: &str, file: &Settings, wanted: &[Wanted], style: &Style) -> String {
    let (mut splices, mut added) = (Splices::default(), Vec::new());
    for (name, value) in wanted {
        let key = (style.key)(name);
        match (file.of(&key), value) {
            (Some(old), Some(new)) if old.value == *new => {}
            (Some(old), Some(new)) => {
                splices.replace(old.span.clone(), (style.value)(new, old.quoted));
            }
            (Some(_), None) => {
                let lines = file.list.iter().filter(|setting| setting.key == key);
                lines.for_each(|setting| splices.remove(setting.line.clone()));
            }
            (None, Some(new)) => added.push((style.line)(name, new)),
            (None, None) => {}
        }
    }
    if !added.is_empty() {
        splices.insert(file.end, new_lines(&text[..file.end], &added));
    }
    splices.apply(text)
}

/// The VM with the memory that its vNUMA nodes have together, since QEMU, Proxmox VE and VMware want both to agree.
pub(super) fn with_memory_of_nodes(spec: &Spec) -> Spec {
    Spec {
        memory_mib: smp::memory_mib(spec),
        ..spec.clone()
    }
}

/// What is wrong with the topology that an edit asks for, unless the file has it already.
pub(super) fn new_problems(was: &Spec, spec: &Spec) -> Vec<Finding> {
    let changed = (&was.topology, was.memory_mib) != (&spec.topology, spec.memory_mib);
    if changed {
        smp::problems(spec)
    } else {
        Vec::new()
    }
}

/// The findings about a file just written, also when it cannot be read back.
pub(super) fn checked(lint: Result<Vec<Finding>, ParseError>) -> Vec<Finding> {
    lint.unwrap_or_else(|error| vec![Finding::error("unusable-file", error.message)])
}

/// Lines to put after `before`, with line ends like those it has.
fn new_lines(before: &str, added: &[String]) -> String {
    let crlf = before
        .find('\n')
        .is_some_and(|at| before[..at].ends_with('\r'));
    let end = if crlf { "\r\n" } else { "\n" };
    let open = !before.is_empty() && !before.ends_with('\n') && before != "\u{feff}";
    let mut out = String::from(if open { end } else { "" });
    for line in added {
        out.push_str(line);
        out.push_str(end);
    }
    out
}

#[cfg(test)]
pub(super) mod table;
