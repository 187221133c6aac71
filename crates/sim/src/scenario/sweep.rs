//! Values to try one after the other.

use super::Sweep;
use super::fault::{Fault, shown};
use super::set::set;
use super::tree::{Node, Value};

/// Most combinations of all sweeps of a scenario. Ours.
pub const MAX_POINTS: usize = 1000;

/// Most sweeps of a scenario. Ours.
const MAX_SWEEPS: usize = 8;

/// Parts of one in the numbers of `from`, `to` and `step`.
const PARTS: i128 = 1_000_000;

/// All combinations, as [`set`](super::set()) takes them; the last sweep varies fastest. One without assignments if there are no
/// sweeps.
pub fn grid(sweeps: &[Sweep]) -> Vec<Vec<(String, String)>> {
    let mut points = vec![Vec::new()];
    for sweep in sweeps {
        let with = |point: &Vec<(String, String)>, value: &String| {
            let mut point = point.clone();
            point.push((sweep.key.clone(), value.clone()));
            point
        };
        points = points
            .iter()
            .flat_map(|point| sweep.values.iter().map(move |value| with(point, value)))
            .collect();
    }
    points
}

/// Reads the sweeps of a text; their keys exist there.
pub(super) fn read(text: &str, items: &[Node]) -> Result<Vec<Sweep>, Fault> {
    let mut sweeps: Vec<Sweep> = Vec::new();
    let mut points: usize = 1;
    if let Some(item) = items.get(MAX_SWEEPS) {
        let message = format!("a scenario has at most {MAX_SWEEPS} sweeps");
        return Err(Fault::at(message, item.span.clone()));
    }
    for item in items {
        let Some(key) = item.find("key") else {
            return Err(Fault::at(
                "a [[sweep]] needs its key, such as vm.db.count",
                item.span.clone(),
            ));
        };
        let sweep = Sweep {
            key: key.text()?.to_owned(),
            values: values(item)?,
        };
        let place = key.span.clone();
        if sweep.key.starts_with("sweep") || sweeps.iter().any(|other| other.key == sweep.key) {
            let message = format!(
                "{} cannot be swept here: it is swept already",
                shown(&sweep.key)
            );
            return Err(Fault::at(message, place));
        }
        let first = [(sweep.key.clone(), sweep.values[0].clone())];
        set(text, &first).map_err(|error| Fault {
            message: error.message,
            span: place,
            unknown: error.unknown,
        })?;
        points = points.saturating_mul(sweep.values.len());
        if points > MAX_POINTS {
            let message =
                format!("all sweeps together have {points} points; {MAX_POINTS} are the most");
            return Err(Fault::at(message, item.span.clone()));
        }
        sweeps.push(sweep);
    }
    Ok(sweeps)
}

fn values(item: &Node) -> Result<Vec<String>, Fault> {
    let steps = ["from", "to", "step"].map(|key| item.find(key));
    match (item.find("values"), steps) {
        (Some(values), [None, None, None]) => match &values.value {
            Value::List(items) if items.is_empty() => {
                Err(Fault::at("there is no value to try", values.span.clone()))
            }
            Value::List(items) if items.len() > MAX_POINTS => {
                let message = format!("a sweep has at most {MAX_POINTS} values");
                Err(Fault::at(message, values.span.clone()))
            }
            Value::List(items) => items
                .iter()
                .map(|item| item.text().map(str::to_owned))
                .collect(),
            _ => Err(Fault::at(
                "values are a list, such as [8, 16, 30]",
                values.span.clone(),
            )),
        },
        (None, [Some(from), Some(to), Some(step)]) => range(from, to, step),
        _ => Err(Fault::at(
            "a [[sweep]] has either values, or from, to and step",
            item.span.clone(),
        )),
    }
}

fn range(from: &Node, to: &Node, step: &Node) -> Result<Vec<String>, Fault> {
    let [(first, unit), (last, last_unit), (each, each_unit)] =
        [quantity(from)?, quantity(to)?, quantity(step)?];
    if unit != last_unit || unit != each_unit {
        let message = "from, to and step need the same unit";
        return Err(Fault::at(message, to.span.clone()));
    }
    if each <= 0 || first > last {
        let message = "a sweep goes upwards, in steps above 0";
        return Err(Fault::at(message, step.span.clone()));
    }
    let count = (last - first) / each + 1;
    if count > MAX_POINTS as i128 {
        let message = format!("{count} values; a sweep has at most {MAX_POINTS}");
        return Err(Fault::at(message, step.span.clone()));
    }
    Ok((0..count)
        .map(|number| text(first + number * each, &unit))
        .collect())
}

/// A number in millionths, and its unit: `50%`, `1.5s`, `8`.
fn quantity(node: &Node) -> Result<(i128, String), Fault> {
    let text = node.text()?;
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_short = !whole.is_empty() && whole.len() <= 18 && part.len() <= 6;
    let value = if is_short && is_digits(whole) && is_digits(part) {
        let millionths = format!("{part:0<6}").parse::<i128>().ok();
        whole.parse::<i128>().ok().zip(millionths)
    } else {
        None
    };
    value
        .map(|(whole, part)| (whole * PARTS + part, text[digits.len()..].to_owned()))
        .ok_or_else(|| {
            let message = format!(
                "{} is no number to step through, such as 8, 0.5 or 50%",
                shown(text)
            );
            Fault::at(message, node.span.clone())
        })
}

fn text(parts: i128, unit: &str) -> String {
    let number = format!("{}.{:06}", parts / PARTS, parts % PARTS);
    let number = number.trim_end_matches('0').trim_end_matches('.');
    format!("{number}{unit}")
}
