//! VMs in a TOML file: `[[vm]]` tables, and the host and policy they are meant for.

use std::ops::Range;

use toml::de::{DeString, DeTable, DeValue};
use toml::{Spanned, Value};

use super::keys::{self, KEYS};
use super::{Batch, MAX_FILE_BYTES, MAX_VCPUS, MAX_VMS, Scenario, ScenarioError, Work, inline};
use crate::tenant::Vm;

/// Keys of a VM that are not in [`KEYS`]: its size, and what is no single value.
pub(super) const SIZE: [&str; 5] = ["name", "count", "vcpus", "memory", "with"];
/// Keys of the file itself.
const TOP: [&str; 5] = ["host", "hosts", "reserve", "policy", "vm"];
/// Tables of a file that only a simulation reads; to a placement they say nothing.
pub const SIMULATION_TABLES: [&str; 6] = ["run", "workload", "sweep", "qos", "tiles", "network"];

pub(super) type Entry<'a> = (&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>);

/// Reads a scenario file.
///
/// # Errors
/// No TOML, unknown keys, values out of range, with the place.
pub fn read(text: &str) -> Result<Scenario, ScenarioError> {
    if text.len() > MAX_FILE_BYTES {
        let message = format!(
            "the file has {} bytes; a scenario has at most {MAX_FILE_BYTES}",
            text.len()
        );
        return Err(ScenarioError::new(message, 0..0));
    }
    let table = DeTable::parse(text).map_err(|error| {
        ScenarioError::new(error.message().trim(), error.span().unwrap_or(0..0))
    })?;
    let mut scenario = Scenario::default();
    for (key, value) in in_order(table.get_ref()) {
        let (place, name) = (value.span(), key.get_ref().as_ref());
        match name {
            "host" => scenario.hosts.push(scalar(value)?),
            "hosts" => {
                let hosts = list(value)?;
                if hosts.is_empty() {
                    let message = "`hosts` names no host: name one, or leave it out to ask about this machine";
                    return Err(ScenarioError::new(message, place));
                }
                scenario.hosts.extend(hosts);
            }
            "policy" => scenario.policies = list(value)?,
            "reserve" => {
                let set = list(value)?.join(",").parse();
                scenario.reserve = Some(set.map_err(|error: crate::cpuset::CpuSetError| {
                    ScenarioError::new(error.to_string(), place)
                })?);
            }
            "vm" => scenario.batches = vms(value)?,
            _ if SIMULATION_TABLES.contains(&name) => {}
            _ => {
                let known = TOP.into_iter().chain(SIMULATION_TABLES).collect();
                return Err(ScenarioError::unknown(
                    "key of a scenario",
                    name,
                    known,
                    key.span(),
                ));
            }
        }
    }
    Ok(scenario)
}

/// The scenario as a file; [`read`] gives it back.
pub fn write(scenario: &Scenario) -> String {
    let mut text = String::new();
    let quoted = |text: &str| Value::from(text).to_string();
    let quoted_list = |items: &[String]| Value::from(items.to_vec()).to_string();
    match scenario.hosts.as_slice() {
        [] => {}
        [host] => text += &format!("host = {}\n", quoted(host)),
        hosts => text += &format!("hosts = {}\n", quoted_list(hosts)),
    }
    if let Some(reserve) = &scenario.reserve {
        text += &format!("reserve = {}\n", quoted(&reserve.to_string()));
    }
    match scenario.policies.as_slice() {
        [] => {}
        policies => text += &format!("policy = {}\n", quoted_list(policies)),
    }
    for batch in &scenario.batches {
        text += &batch_text(batch);
    }
    text
}

fn batch_text(batch: &Batch) -> String {
    let vm = &batch.vm;
    let size = [
        ("name", (!vm.name.is_empty()).then(|| vm.name.clone())),
        ("count", batch.count.map(|count| count.to_string())),
        ("vcpus", Some(vm.vcpus.to_string())),
        (
            "memory",
            (vm.memory_mib > 0).then(|| keys::memory_text(vm.memory_mib)),
        ),
    ];
    let others = KEYS.iter().map(|key| (key.name, key.text(batch)));
    let mut text = "\n[[vm]]\n".to_owned();
    for (name, value) in size.into_iter().chain(others) {
        let Some(value) = value else { continue };
        // Numbers and flags stand bare, as a person would write them; "007" is a name.
        let is_bare = value == "true"
            || value
                .parse::<u32>()
                .is_ok_and(|number| number.to_string() == value);
        let is_bare = is_bare && !matches!(name, "name" | "near" | "workload" | "rule");
        let value = if is_bare {
            value
        } else {
            Value::from(value).to_string()
        };
        text += &format!("{name} = {value}\n");
    }
    if let Some(with) = &batch.work.with {
        text += &format!("with = {with}\n");
    }
    text
}

fn vms(value: &Spanned<DeValue<'_>>) -> Result<Vec<Batch>, ScenarioError> {
    let wrong = |span: Range<usize>| {
        ScenarioError::new("VMs are written as [[vm]] tables, one for each batch", span)
    };
    let Some(tables) = value.get_ref().as_array() else {
        return Err(wrong(value.span()));
    };
    let mut batches = Vec::new();
    for table in tables {
        let Some(entries) = table.get_ref().as_table() else {
            return Err(wrong(table.span()));
        };
        batches.push(vm(entries, table.span())?);
    }
    Ok(batches)
}

fn vm(entries: &DeTable<'_>, table: Range<usize>) -> Result<Batch, ScenarioError> {
    let mut batch = Batch {
        count: None,
        vm: Vm::new("", 0, 0),
        work: Work::default(),
    };
    let (mut has_vcpus, mut seen) = (false, Vec::new());
    for (key, value) in in_order(entries) {
        let name = key.get_ref().as_ref();
        let at_value = |message| ScenarioError::new(message, value.span());
        match name {
            "name" => batch.vm.name = keys::label(&scalar(value)?).map_err(at_value)?,
            "count" => {
                let count = keys::number("VMs", &scalar(value)?, 1, MAX_VMS);
                batch.count = Some(count.map_err(at_value)?);
            }
            "vcpus" => {
                let vcpus = keys::number("vCPUs", &scalar(value)?, 0, MAX_VCPUS);
                (batch.vm.vcpus, has_vcpus) = (vcpus.map_err(at_value)?, true);
            }
            "memory" => batch.vm.memory_mib = keys::memory(&scalar(value)?).map_err(at_value)?,
            "with" => batch.work.with = Some(inline::table(value)?),
            _ => {
                let Some(found) = keys::find(name) else {
                    let known = SIZE.into_iter().chain(KEYS.iter().map(|key| key.name));
                    let known = known.collect();
                    return Err(ScenarioError::unknown(
                        "key of a VM",
                        name,
                        known,
                        key.span(),
                    ));
                };
                if seen.contains(&found.name) {
                    let message = format!("{name} is {} once more; leave one", found.name);
                    return Err(ScenarioError::new(message, key.span()));
                }
                seen.push(found.name);
                let text = list(value)?.join(",");
                found.set(&mut batch, &text).map_err(at_value)?;
            }
        }
    }
    if !has_vcpus {
        let message = "a [[vm]] needs vcpus, the number of its vCPUs";
        return Err(ScenarioError::new(message, table));
    }
    Ok(batch)
}

/// The entries in the order of the file, so that the first error is the first one there.
pub(super) fn in_order<'a>(table: &'a DeTable<'a>) -> Vec<Entry<'a>> {
    let mut entries: Vec<Entry<'a>> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// A value as text; a list gives several.
fn list(value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, ScenarioError> {
    match value.get_ref() {
        DeValue::Array(items) => items.iter().map(scalar).collect(),
        _ => Ok(vec![scalar(value)?]),
    }
}

pub(super) fn scalar(value: &Spanned<DeValue<'_>>) -> Result<String, ScenarioError> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => {
            let value = i64::from_str_radix(number.as_str(), number.radix());
            Ok(value.map_or_else(|_| number.to_string(), |value| value.to_string()))
        }
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Boolean(is_set) => Ok(is_set.to_string()),
        other => Err(ScenarioError::new(
            format!(
                "a text, number or flag is needed here, not a {}",
                other.type_str()
            ),
            value.span(),
        )),
    }
}
