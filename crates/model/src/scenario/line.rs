//! VMs in one line: `[NAME=]VCPUSxMEMORY[*COUNT][@KEY=VALUE,FLAG,…]`.

use std::ops::Range;

use super::keys::{self, KEYS, shown};
use super::{Batch, MAX_VCPUS, MAX_VMS, ScenarioError, Work};
use crate::tenant::Vm;

const FORM: &str = "write it as [NAME=]VCPUSxMEMORY[*COUNT][@KEY=VALUE,…], e.g. 8x64G*30@cpu=60%";

/// Reads a batch of VMs such as `8x64G*30` or `db=4x16G*8@cpu=60%,bw=high,dedicated`. Inside a value `+` separates, as
/// in `nodes=0+1`.
///
/// # Errors
/// Text that is no such batch, with the place of the bad piece.
pub fn read_batch(text: &str) -> Result<Batch, ScenarioError> {
    let (size, options) = match text.split_once('@') {
        Some((size, options)) => (size, Some(options)),
        None => (text, None),
    };
    let mut batch = read_size(text, size)?;
    let options = options.into_iter().flat_map(|options| options.split(','));
    let mut seen: Vec<&str> = Vec::new();
    for option in options {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value.trim())),
            None => (option, None),
        };
        let name = name.trim();
        let place = span(text, name);
        let Some(key) = keys::find(name) else {
            let known = KEYS.iter().map(|key| key.name).collect();
            return Err(ScenarioError::unknown("key of a VM", name, known, place));
        };
        if seen.contains(&key.name) {
            return Err(ScenarioError::new(
                format!("{name} is given twice; leave one"),
                place,
            ));
        }
        seen.push(key.name);
        match value {
            Some(value) => key
                .set(&mut batch, value)
                .map_err(|message| ScenarioError::new(message, span(text, value)))?,
            None if key.is_flag => key
                .set(&mut batch, "true")
                .map_err(|message| ScenarioError::new(message, place))?,
            None => {
                return Err(ScenarioError::new(
                    format!("{name} needs a value, as in {name}=…"),
                    place,
                ));
            }
        }
    }
    Ok(batch)
}

fn read_size(text: &str, size: &str) -> Result<Batch, ScenarioError> {
    let fail = |message: String, piece: &str| ScenarioError::new(message, span(text, piece));
    let (name, rest) = match size.split_once('=') {
        Some((name, rest)) => {
            let name = name.trim();
            let name = keys::label(name).map_err(|message| fail(message, name))?;
            (name, rest)
        }
        None => (String::new(), size),
    };
    let (rest, count) = match rest.split_once('*') {
        Some((rest, count)) => {
            let count = count.trim();
            let number = keys::number("VMs", count, 1, MAX_VMS);
            (rest, Some(number.map_err(|message| fail(message, count))?))
        }
        None => (rest, None),
    };
    let Some((vcpus, memory)) = rest.split_once(['x', 'X', '×']) else {
        return Err(fail(format!("{} is no VM; {FORM}", shown(rest)), rest));
    };
    let (vcpus, memory) = (vcpus.trim(), memory.trim());
    let vcpus = keys::number("vCPUs", vcpus, 0, MAX_VCPUS)
        .map_err(|message| fail(format!("{message}; {FORM}"), vcpus))?;
    let mib = keys::memory(memory).map_err(|message| fail(message, memory))?;
    Ok(Batch {
        count,
        vm: Vm::new(name, vcpus, mib),
        work: Work::default(),
    })
}

/// The bytes of a piece of the text.
fn span(text: &str, piece: &str) -> Range<usize> {
    let start = (piece.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    start.min(text.len())..(start + piece.len()).min(text.len())
}
