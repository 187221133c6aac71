//! From the text of a value to what it means, with its range.

use std::ops::RangeInclusive;

use model::duration;

use super::fault::{Fault, shown};
use super::tree::{Node, Value};
use crate::rng::Law;
use crate::spec::Scaled;
use crate::time::{LONGEST_NS, Nanos};

/// Largest coefficient of variation of a time: beyond it a mean says nothing about a run of seconds. Ours.
const MAX_CV: f64 = 20.0;

/// How a time varies.
#[derive(Clone, Copy, PartialEq)]
enum LawKind {
    Fixed,
    Exponential,
    LogNormal,
    Uniform,
}
const LAWS: [(&str, LawKind); 4] = [
    ("fixed", LawKind::Fixed),
    ("exponential", LawKind::Exponential),
    ("lognormal", LawKind::LogNormal),
    ("uniform", LawKind::Uniform),
];

/// A number in a range.
pub(super) fn number(node: &Node, range: RangeInclusive<f64>) -> Result<f64, Fault> {
    let text = node.bare().text()?;
    let value = text.replace('_', "").parse::<f64>().ok();
    value.filter(|value| range.contains(value)).ok_or_else(|| {
        let (least, most) = (range.start(), range.end());
        let message = format!("{} is not possible; give {least} to {most}", shown(text));
        Fault::at(message, node.bare().span.clone())
    })
}

/// A whole number in a range.
pub(super) fn whole(node: &Node, range: RangeInclusive<u64>) -> Result<u64, Fault> {
    let text = node.bare().text()?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value = if is_number { text.parse().ok() } else { None };
    value.filter(|value| range.contains(value)).ok_or_else(|| {
        let (least, most) = (range.start(), range.end());
        let message = format!(
            "{} is not possible; give a whole number from {least} to {most}",
            shown(text)
        );
        Fault::at(message, node.bare().span.clone())
    })
}

/// A duration that may be 0.
pub(super) fn duration_or_zero(node: &Node) -> Result<Nanos, Fault> {
    let bare = node.bare();
    duration::read(bare.text()?).map_err(|message| Fault::at(message, bare.span.clone()))
}

/// A duration above 0.
pub(super) fn duration_above_zero(node: &Node) -> Result<Nanos, Fault> {
    match duration_or_zero(node)? {
        0 => Err(Fault::at(
            "a duration of 0 is not possible here",
            node.bare().span.clone(),
        )),
        ns => Ok(ns),
    }
}

/// A number that may grow with the VM: `10` or `10/vcpu`.
pub(super) fn scaled(node: &Node, most: u32) -> Result<Scaled, Fault> {
    let text = node.bare().text()?;
    let digits = text.strip_suffix("/vcpu");
    let per_vcpu = digits.is_some();
    let digits = digits.unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let count = if is_number { digits.parse().ok() } else { None };
    count
        .filter(|count| (1..=most).contains(count))
        .map(|count| Scaled { count, per_vcpu })
        .ok_or_else(|| {
            let message = format!(
                "{} is no such number; give 1 to {most}, or so many for each vCPU as in 10/vcpu",
                shown(text)
            );
            Fault::at(message, node.bare().span.clone())
        })
}

/// Bytes: `512K`, `4M`, `1G`.
pub(super) fn bytes(node: &Node) -> Result<f64, Fault> {
    /// Most memory that a vCPU uses again and again: more than any cache.
    const MOST: f64 = 1e12;
    let text = node.bare().text()?;
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => Some(1.0),
        "k" | "kib" => Some(1024.0),
        "m" | "mib" => Some(1024.0 * 1024.0),
        "g" | "gib" => Some(1024.0 * 1024.0 * 1024.0),
        _ => None,
    };
    let is_plain = digits
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value = digits.parse::<f64>().ok().filter(|_| is_plain);
    let value = unit.zip(value).map(|(unit, value)| unit * value);
    value
        .filter(|value| (0.0..=MOST).contains(value))
        .ok_or_else(|| {
            let message = format!("{} is no size; write it as 512K, 4M or 1G", shown(text));
            Fault::at(message, node.bare().span.clone())
        })
}

/// How many a second: `500` or `500/s`.
pub(super) fn rate(node: &Node, most: f64) -> Result<f64, Fault> {
    let text = node.bare().text()?;
    let digits = text.strip_suffix("/s").unwrap_or(text).trim_end();
    let value = digits.replace('_', "").parse::<f64>().ok();
    value
        .filter(|value| (0.001..=most).contains(value))
        .ok_or_else(|| {
            let message = format!("{} is no rate; give 0.001/s to {most}/s", shown(text));
            Fault::at(message, node.bare().span.clone())
        })
}

/// One of some words.
pub(super) fn word<T: Copy>(node: &Node, words: &[(&str, T)]) -> Result<T, Fault> {
    let text = node.bare().text()?;
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let message = format!("{} is none of {}", shown(text), names.join(", "));
        Fault {
            unknown: Some((
                text.to_owned(),
                names.iter().map(|&name| name.to_owned()).collect(),
            )),
            ..Fault::at(message, node.bare().span.clone())
        }
    })
}

/// A time that varies: a mean (exponential), or a table with `value` and `law`, `cv`, or with `from` and `to`.
pub(super) fn law(node: &Node) -> Result<Law, Fault> {
    let law = law_or_zero(node)?;
    if law.mean_ns() == 0 {
        return Err(Fault::at(
            "a time of 0 is not possible here",
            node.bare().span.clone(),
        ));
    }
    Ok(law)
}

/// As [`law`], and it may be 0.
pub(super) fn law_or_zero(node: &Node) -> Result<Law, Fault> {
    if matches!(node.value, Value::Text(_)) {
        return Ok(match short(node)? {
            0 => Law::Fixed { mean_ns: 0 },
            mean_ns => Law::Exponential { mean_ns },
        });
    }
    let cv = node.find("cv");
    let kind = match (node.find("law"), node.find("from").or(node.find("to")), cv) {
        (Some(law), ..) => word(law, &LAWS)?,
        (None, Some(_), _) => LawKind::Uniform,
        (None, None, Some(_)) => LawKind::LogNormal,
        (None, None, None) => LawKind::Exponential,
    };
    let keys: &[&str] = match kind {
        LawKind::Uniform => &["from", "to"],
        LawKind::LogNormal => &["value", "cv"],
        LawKind::Fixed | LawKind::Exponential => &["value"],
    };
    let need = |key: &str| {
        node.find(key).ok_or_else(|| {
            let message = format!("a time needs {} here", keys.join(" and "));
            Fault::at(message, node.span.clone())
        })
    };
    // What a workload of the library had for another law is no fault of the scenario.
    let odd = |entry: &&super::tree::Entry| {
        ["value", "cv", "from", "to"].contains(&entry.key.as_str())
            && !keys.contains(&entry.key.as_str())
            && entry.node.is_said()
    };
    if let Some(entry) = node.entries().iter().find(odd) {
        let message = format!(
            "`{}` says nothing here; this law has {}",
            entry.key,
            keys.join(" and ")
        );
        return Err(Fault::at(message, entry.key_span.clone()));
    }
    Ok(match kind {
        LawKind::Fixed => Law::Fixed {
            mean_ns: short(need("value")?)?,
        },
        LawKind::Exponential => match short(need("value")?)? {
            0 => Law::Fixed { mean_ns: 0 },
            mean_ns => Law::Exponential { mean_ns },
        },
        LawKind::LogNormal => Law::LogNormal {
            mean_ns: short(need("value")?)?,
            cv: number(need("cv")?, 0.001..=MAX_CV)?,
        },
        LawKind::Uniform => {
            let (from_ns, to_ns) = (short(need("from")?)?, short(need("to")?)?);
            if from_ns > to_ns {
                return Err(Fault::at(
                    "`from` is above `to`",
                    need("from")?.span.clone(),
                ));
            }
            Law::Uniform { from_ns, to_ns }
        }
    })
}

/// A duration of one piece of work.
fn short(node: &Node) -> Result<Nanos, Fault> {
    let ns = duration_or_zero(node)?;
    if ns > LONGEST_NS {
        return Err(Fault::at(
            "one piece of work or wait is at most an hour",
            node.bare().span.clone(),
        ));
    }
    Ok(ns)
}
