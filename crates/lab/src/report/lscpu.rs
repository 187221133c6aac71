//! `lscpu` of util-linux: JSON of `-J`, `-J -e` and `-J -C` (one or several in a file), and the plain summary.

use std::collections::BTreeMap;

use model::host::Cache;
use model::{CpuId, CpuSet};
use serde_json::Value;

use super::{
    CacheCount, MAX_GUEST_CPUS, MAX_GUEST_NODES, ReportError, SeenCpu, SeenGuest, SeenNode, Source,
    read_set, read_size,
};

/// Reads one or several JSON documents.
pub(super) fn read_json(text: &str) -> Result<SeenGuest, ReportError> {
    let mut pairs = Vec::new();
    let mut rows = Vec::new();
    let mut counts = Vec::new();
    for document in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let document = document.map_err(|error| ReportError::Json(error.to_string()))?;
        let array = |key: &str| document.get(key).and_then(Value::as_array);
        flatten(array("lscpu").map_or(&[], Vec::as_slice), &mut pairs);
        rows.extend(array("cpus").into_iter().flatten().cloned());
        counts.extend(array("caches").into_iter().flatten().filter_map(read_count));
    }
    if pairs.is_empty() && rows.is_empty() {
        return Err(ReportError::Unknown);
    }
    let mut seen = from_pairs(&pairs);
    add_rows(&mut seen, &rows);
    if !counts.is_empty() {
        seen.summary.caches = counts;
    }
    add_cache_sizes(&mut seen);
    if seen.online.is_empty() {
        return Err(ReportError::NoCpus);
    }
    Ok(seen)
}

/// Reads the plain summary: `Name:   value` lines.
pub(super) fn read_plain(text: &str) -> Result<SeenGuest, ReportError> {
    let pairs: Vec<(String, String)> = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect();
    if !pairs.iter().any(|(name, _)| name == "CPU(s)") {
        return Err(ReportError::Unknown);
    }
    let seen = from_pairs(&pairs);
    if seen.online.is_empty() {
        return Err(ReportError::NoCpus);
    }
    Ok(seen)
}

/// The `field` and `data` of every entry, children included. The JSON reader bounds the depth.
fn flatten(entries: &[Value], pairs: &mut Vec<(String, String)>) {
    for entry in entries {
        let text = |key: &str| entry.get(key).and_then(Value::as_str);
        if let (Some(field), Some(data)) = (text("field"), text("data")) {
            let field = field.trim().trim_end_matches(':');
            pairs.push((field.to_owned(), data.trim().to_owned()));
        }
        if let Some(children) = entry.get("children").and_then(Value::as_array) {
            flatten(children, pairs);
        }
    }
}

fn from_pairs(pairs: &[(String, String)]) -> SeenGuest {
    let mut seen = SeenGuest::new(Source::Lscpu, CpuSet::new());
    let mut nodes = BTreeMap::new();
    for (name, value) in pairs {
        let set = || read_set(value);
        match name.as_str() {
            "On-line CPU(s) list" => seen.online = set().unwrap_or_default(),
            "Off-line CPU(s) list" => seen.present = set(),
            "Model name" => seen.cpu_model = Some(value.clone()),
            "Socket(s)" => seen.summary.sockets = value.parse().ok(),
            "Core(s) per socket" => seen.summary.cores_per_socket = value.parse().ok(),
            "Thread(s) per core" => seen.summary.threads_per_core = value.parse().ok(),
            _ => {
                if let (Some(id), Some(cpus)) = (node_number(name), set()) {
                    nodes.insert(id, cpus);
                } else if let Some(count) = cache_count(name, value) {
                    seen.summary.caches.push(count);
                }
            }
        }
    }
    // What lscpu calls off-line is present without being in use.
    let offline = seen.present.take().unwrap_or_default();
    seen.present = (!seen.online.is_empty()).then(|| seen.online.union(&offline));
    seen.nodes = to_nodes(nodes);
    seen
}

/// The number in `NUMA node0 CPU(s)`.
fn node_number(name: &str) -> Option<u32> {
    let digits = name
        .strip_prefix("NUMA node")?
        .trim_end()
        .strip_suffix("CPU(s)")?;
    let number = digits.trim().parse().ok();
    number.filter(|&number| number < MAX_GUEST_NODES)
}

/// Reads `L3` and `32 MiB (2 instances)`, the size of all together; or `L3 cache` and `16384K`, the size of one, in the
/// words before util-linux 2.34.
fn cache_count(name: &str, value: &str) -> Option<CacheCount> {
    let (level, kind) = cache_name(name.strip_suffix(" cache").unwrap_or(name))?;
    let (size, instances) = match value.split_once('(') {
        Some((size, rest)) => (size, rest.split_whitespace().next()?.parse().ok()),
        None => (value, None),
    };
    let total = read_size(size)?;
    Some(CacheCount {
        level,
        kind,
        instances,
        size_bytes: total / u64::from(instances.unwrap_or(1)).max(1),
    })
}

/// Level and kind of `L1d`, `l1i`, `L2`, `L3`.
fn cache_name(name: &str) -> Option<(u8, char)> {
    let rest = name.strip_prefix(['L', 'l'])?;
    let (level, kind) = match rest.strip_suffix(['d', 'i']) {
        Some(level) => (level, rest.chars().next_back()?),
        None => (rest, 'u'),
    };
    let level = level.parse().ok().filter(|level| (1..=4).contains(level))?;
    Some((level, kind))
}

/// A row of `lscpu -C`: it knows the size of one cache, not how many there are.
fn read_count(row: &Value) -> Option<CacheCount> {
    let (level, kind) = cache_name(row.get("name")?.as_str()?)?;
    let size = |key: &str| match row.get(key)? {
        Value::String(text) => read_size(text),
        number => number.as_u64(),
    };
    let size_bytes = size("one-size")?;
    let instances = size("all-size").and_then(|all| all.checked_div(size_bytes));
    Some(CacheCount {
        level,
        kind,
        instances: instances.and_then(|count| u32::try_from(count).ok()),
        size_bytes,
    })
}

/// Rows of `lscpu -e`: one per CPU, with the columns the caller asked for.
fn add_rows(seen: &mut SeenGuest, rows: &[Value]) {
    let mut nodes: BTreeMap<u32, CpuSet> = BTreeMap::new();
    let mut caches: BTreeMap<(u8, char, u32), CpuSet> = BTreeMap::new();
    let mut cpus: BTreeMap<CpuId, SeenCpu> = BTreeMap::new();
    for row in rows {
        let offline = row.get("online").is_some_and(|online| {
            online == &Value::Bool(false) || online.as_str().is_some_and(|word| word == "no")
        });
        let id = column(row, "cpu").filter(|&id| id < MAX_GUEST_CPUS && !offline);
        let Some(id) = id.map(CpuId).filter(|id| !cpus.contains_key(id)) else {
            continue;
        };
        seen.online.insert(id);
        if let Some(node) = column(row, "node").filter(|&node| node < MAX_GUEST_NODES) {
            nodes.entry(node).or_default().insert(id);
        }
        for (cache, index) in cache_columns(row) {
            caches
                .entry((cache.0, cache.1, index))
                .or_default()
                .insert(id);
        }
        let cpu = SeenCpu {
            id,
            package: column(row, "socket"),
            die: None,
            cluster: column(row, "cluster"),
            core: column(row, "core"),
            siblings: None,
        };
        cpus.insert(id, cpu);
    }
    seen.cpus = cpus.into_values().collect();
    if !nodes.is_empty() {
        seen.nodes = to_nodes(nodes);
    }
    let mut caches: Vec<Cache> = caches
        .into_iter()
        .map(|((level, kind, _), cpus)| Cache {
            level,
            kind,
            size_bytes: 0,
            cpus,
        })
        .collect();
    super::sort_caches(&mut caches);
    seen.caches = (!caches.is_empty()).then_some(caches);
}

/// A number, or a number in a text as before util-linux 2.38.
fn column(row: &Value, name: &str) -> Option<u32> {
    match row.get(name)? {
        Value::String(text) => text.parse().ok(),
        number => number.as_u64().and_then(|number| number.try_into().ok()),
    }
}

/// The parts of the `"l1d:l1i:l2:l3": "0:0:0:0"` column: which cache, and its number.
fn cache_columns(row: &Value) -> Vec<((u8, char), u32)> {
    let row = row.as_object().into_iter().flatten();
    let columns = row.filter(|(name, _)| name.starts_with(['l', 'L']));
    let Some((names, numbers)) = columns
        .filter_map(|(names, numbers)| Some((names, numbers.as_str()?)))
        .find(|(names, _)| names.split(':').all(|name| cache_name(name).is_some()))
    else {
        return Vec::new();
    };
    names
        .split(':')
        .zip(numbers.split(':'))
        .filter_map(|(name, number)| Some((cache_name(name)?, number.parse().ok()?)))
        .collect()
}

/// Gives the caches of `-e`, which have no size, the size that the summary or `-C` states.
fn add_cache_sizes(seen: &mut SeenGuest) {
    for cache in seen.caches.iter_mut().flatten() {
        let count = seen
            .summary
            .caches
            .iter()
            .find(|count| (count.level, count.kind) == (cache.level, cache.kind));
        cache.size_bytes = count.map_or(0, |count| count.size_bytes);
    }
}

fn to_nodes(nodes: BTreeMap<u32, CpuSet>) -> Option<Vec<SeenNode>> {
    let nodes: Vec<SeenNode> = nodes
        .into_iter()
        .map(|(id, cpus)| SeenNode {
            id,
            cpus,
            present_mib: None,
            usable_mib: None,
            distances: None,
        })
        .collect();
    (!nodes.is_empty()).then_some(nodes)
}
