//! The keys that concern shape, in one table for reading and writing.

use crate::cpuset::MAX_CPUS;
use crate::formats::ParseError;
use crate::formats::lines::{Settings, Wanted};
use crate::vm::EsxiKeys;

use super::dict;

/// Where the value of a key lives.
enum Slot<'a> {
    Number(&'a mut Option<u32>),
    Cookie(&'a mut Option<u64>),
    /// A truth value written `TRUE` or `FALSE`.
    Flag(&'a mut Option<bool>),
    /// A truth value written `1` or `0`.
    Digit(&'a mut Option<bool>),
    Nodes(&'a mut Vec<u32>),
}

/// Reads the keys.
pub(super) fn read(file: &Settings) -> Result<EsxiKeys, ParseError> {
    let mut keys = EsxiKeys::default();
    for (name, slot) in slots(&mut keys) {
        let key = name.to_ascii_lowercase();
        match slot {
            Slot::Number(value) => *value = file.small(&key, 0..=u32::MAX)?,
            Slot::Cookie(value) => *value = file.number(&key, 0..=u64::MAX)?,
            Slot::Flag(value) | Slot::Digit(value) => *value = dict::flag(file, &key)?,
            Slot::Nodes(value) => *value = nodes(file, &key)?,
        }
    }
    Ok(keys)
}

/// The keys of `new` whose value differs from `old`, with their new value.
pub(super) fn difference(old: &EsxiKeys, new: &EsxiKeys) -> Vec<Wanted> {
    let (mut old, mut new) = (old.clone(), new.clone());
    let old = slots(&mut old).map(|(_, slot)| slot.text());
    slots(&mut new)
        .into_iter()
        .zip(old)
        .map(|((name, slot), old)| (name.to_owned(), slot.text(), old))
        .filter(|(_, new, old)| new != old)
        .map(|(name, new, _)| (name, new))
        .collect()
}

/// The names of all keys.
pub(super) fn names() -> Vec<&'static str> {
    slots(&mut EsxiKeys::default())
        .into_iter()
        .map(|(name, _)| name)
        .collect()
}

fn slots(keys: &mut EsxiKeys) -> [(&'static str, Slot<'_>); 19] {
    use Slot::{Cookie, Digit, Flag, Nodes, Number};
    [
        ("virtualHW.version", Number(&mut keys.hw_version)),
        ("vcpu.hotadd", Flag(&mut keys.vcpu_hotadd)),
        ("cpuid.coresPerSocket", Number(&mut keys.cores_per_socket)),
        (
            "cpuid.coresPerSocket.cookie",
            Number(&mut keys.cores_per_socket_cookie),
        ),
        ("cpuid.numSMT", Number(&mut keys.num_smt)),
        ("numa.vcpu.coresPerNode", Number(&mut keys.cores_per_node)),
        (
            "numa.vcpu.maxPerVirtualNode",
            Number(&mut keys.max_per_virtual_node),
        ),
        (
            "numa.autosize.vcpu.maxPerVirtualNode",
            Number(&mut keys.autosize_max_per_virtual_node),
        ),
        ("numa.autosize.cookie", Cookie(&mut keys.autosize_cookie)),
        ("numa.autosize", Flag(&mut keys.autosize)),
        ("numa.autosize.once", Flag(&mut keys.autosize_once)),
        ("numa.vcpu.min", Number(&mut keys.vcpu_min)),
        (
            "numa.vcpu.maxPerMachineNode",
            Number(&mut keys.max_per_machine_node),
        ),
        ("numa.vcpu.maxPerClient", Number(&mut keys.max_per_client)),
        ("numa.vcpu.preferHT", Flag(&mut keys.prefer_ht)),
        (
            "numa.vcpu.followcorespersocket",
            Digit(&mut keys.follow_cores_per_socket),
        ),
        ("numa.consolidate", Flag(&mut keys.consolidate)),
        ("numa.allowHotadd", Flag(&mut keys.allow_hotadd)),
        ("numa.nodeAffinity", Nodes(&mut keys.node_affinity)),
    ]
}

impl Slot<'_> {
    /// The value as the file writes it; `None` when the key is not there.
    fn text(self) -> Option<String> {
        let digit = |on: bool| if on { "1" } else { "0" };
        let word = |on: bool| if on { "TRUE" } else { "FALSE" };
        match self {
            Self::Number(value) => value.map(|number| number.to_string()),
            Self::Cookie(value) => value.map(|number| number.to_string()),
            Self::Flag(value) => value.map(|on| word(on).to_owned()),
            Self::Digit(value) => value.map(|on| digit(on).to_owned()),
            Self::Nodes(value) if value.is_empty() => None,
            Self::Nodes(value) => {
                let nodes: Vec<String> = value.iter().map(u32::to_string).collect();
                Some(nodes.join(","))
            }
        }
    }
}

fn nodes(file: &Settings, key: &str) -> Result<Vec<u32>, ParseError> {
    let Some(setting) = file.of(key) else {
        return Ok(Vec::new());
    };
    let value = setting.value.trim();
    if value.is_empty() || value.eq_ignore_ascii_case("all") {
        return Ok(Vec::new());
    }
    let node = |text: &str| text.trim().parse().ok().filter(|node| *node < MAX_CPUS);
    value
        .split(',')
        .map(node)
        .collect::<Option<Vec<u32>>>()
        .ok_or_else(|| setting.error("host nodes such as \"0,1\""))
}
