//! Sysinternals' Coreinfo: rows of `*` and `-`, one column per logical CPU.
//!
//! ```text
//! Logical to Physical Processor Map:
//! **--  Physical Processor 0 (Hyperthreaded)
//! --**  Physical Processor 1 (Hyperthreaded)
//! ```
//!
//! With several processor groups (more than 64 CPUs) a row has its title first and then one line of columns per group:
//!
//! ```text
//! Physical Processor 0 (Hyperthreaded):
//! **--
//! ----
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::host::Cache;
use model::{CpuId, CpuSet};

use super::{MAX_GUEST_CPUS, ReportError, SeenCpu, SeenGuest, SeenNode, Source, read_size};

/// From this CPU number on the map names CPUs (`0-3`) instead of drawing a column for each.
const COLUMNS_MAX: u32 = 512;

/// The topology in Coreinfo's form. It has no associativity and line size, which the guest's report does not carry.
/// With CPUs above 511, CPU lists stand in place of columns.
pub fn coreinfo_map(seen: &SeenGuest) -> String {
    let columns = seen.online.last().map_or(0, |cpu| cpu.0 + 1);
    let stars = |cpus: &CpuSet| {
        if columns > COLUMNS_MAX {
            return cpus.to_string();
        }
        let star = |cpu| {
            if cpus.contains(CpuId(cpu)) { '*' } else { '-' }
        };
        (0..columns).map(star).collect()
    };
    let mut map = String::new();
    let mut section = |title: &str, rows: Vec<(&CpuSet, String)>| {
        // Writing to a string cannot fail.
        let _ = writeln!(map, "{title}:");
        for (cpus, label) in rows {
            let _ = writeln!(map, "{}  {label}", stars(cpus));
        }
        map.push('\n');
    };
    let cores = seen.cores().unwrap_or_default();
    let rows = (0..).zip(&cores).map(|(core, cpus): (u32, _)| {
        let threads = if cpus.len() > 1 {
            " (Hyperthreaded)"
        } else {
            ""
        };
        (cpus, format!("Physical Processor {core}{threads}"))
    });
    section("Logical to Physical Processor Map", rows.collect());
    let packages = seen.packages().unwrap_or_default();
    let rows = (0..)
        .zip(&packages)
        .map(|(id, cpus): (u32, _)| (cpus, format!("Socket {id}")));
    section("Logical Processor to Socket Map", rows.collect());
    let nodes = seen.nodes.iter().flatten();
    let rows = nodes.map(|node| (&node.cpus, format!("NUMA Node {}", node.id)));
    section("Logical Processor to NUMA Node Map", rows.collect());
    section("Logical Processor to Cache Map", cache_rows(seen));
    map.truncate(map.trim_end().len());
    map.push('\n');
    map
}

/// Caches by first CPU, then level, numbered through each kind, as Coreinfo prints them.
fn cache_rows(seen: &SeenGuest) -> Vec<(&CpuSet, String)> {
    let mut caches: Vec<&Cache> = seen.caches.iter().flatten().collect();
    caches.sort_by_key(|cache| (cache.cpus.first(), cache.level, cache.kind));
    let mut numbers = [0; 3];
    caches
        .into_iter()
        .map(|cache| {
            let (kind, name) = match cache.kind {
                'd' => (0, "Data Cache"),
                'i' => (1, "Instruction Cache"),
                _ => (2, "Unified Cache"),
            };
            let number = numbers[kind];
            numbers[kind] += 1;
            let (size, unit) = match cache.size_bytes {
                bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => (bytes >> 20, "MB"),
                bytes => (bytes >> 10, "KB"),
            };
            let label = format!(
                "{name:<17} {number:>3}, Level {}, {size:>4} {unit}",
                cache.level
            );
            (&cache.cpus, label)
        })
        .collect()
}

/// Reads Coreinfo's output, any of its sections.
pub(super) fn read(text: &str) -> Result<SeenGuest, ReportError> {
    let rows = read_rows(text);
    let packages = places(&rows, "Socket ");
    let cores = places(&rows, "Physical Processor ");
    let online: CpuSet = rows.iter().flat_map(|row| row.cpus.iter()).collect();
    if online.is_empty() {
        return Err(ReportError::NoCpus);
    }
    let mut seen = SeenGuest::new(Source::Coreinfo, online);
    let place = |id| SeenCpu {
        id,
        package: packages.get(&id).copied(),
        die: None,
        cluster: None,
        core: cores.get(&id).copied(),
        siblings: None,
    };
    seen.cpus = seen.online.iter().map(place).collect();
    let mut caches: Vec<Cache> = rows.iter().filter_map(read_cache).collect();
    super::sort_caches(&mut caches);
    seen.caches = (!caches.is_empty()).then_some(caches);
    let mut nodes: Vec<SeenNode> = rows.iter().filter_map(read_node).collect();
    nodes.sort_by_key(|node| node.id);
    seen.nodes = (!nodes.is_empty()).then_some(nodes);
    Ok(seen)
}

/// In which row of a kind each CPU has its star, counting from 0.
fn places(rows: &[Row], kind: &str) -> BTreeMap<CpuId, u32> {
    let rows = rows.iter().filter(|row| row.title.starts_with(kind));
    (0..)
        .zip(rows)
        .flat_map(|(place, row)| row.cpus.iter().map(move |cpu| (cpu, place)))
        .collect()
}

/// One line of a map.
struct Row {
    title: String,
    cpus: CpuSet,
}

fn read_rows(text: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut in_map = false;
    // Column at which the next line of a group-wise row continues.
    let mut next_column = None;
    for line in text.lines().map(str::trim) {
        if line.ends_with(" Map:") {
            (in_map, next_column) = (true, None);
            continue;
        }
        let (columns, title) =
            line.split_at(line.find(|c| c != '*' && c != '-').unwrap_or(line.len()));
        let title = title.trim();
        if !in_map || line.is_empty() {
            next_column = None;
        } else if columns.is_empty() {
            // A title before its columns, or a remark such as "No NUMA nodes.".
            let title = line.strip_suffix(':');
            next_column = title.map(|_| 0);
            rows.extend(title.map(|title| Row {
                title: title.to_owned(),
                cpus: CpuSet::new(),
            }));
        } else if !title.is_empty() {
            let cpus = read_columns(columns, 0);
            rows.push(Row {
                title: title.to_owned(),
                cpus,
            });
            next_column = None;
        } else if let (Some(row), Some(column)) = (rows.last_mut(), next_column) {
            row.cpus = row.cpus.union(&read_columns(columns, column));
            let width = u32::try_from(columns.len()).unwrap_or(u32::MAX);
            next_column = Some(column.saturating_add(width));
        }
    }
    rows
}

/// The CPUs with a star, where the first column is CPU `first`.
fn read_columns(columns: &str, first: u32) -> CpuSet {
    let cpus = (first..MAX_GUEST_CPUS).zip(columns.bytes());
    cpus.filter(|&(_, byte)| byte == b'*')
        .map(|(cpu, _)| CpuId(cpu))
        .collect()
}

/// Reads `Unified Cache  1, Level 3,   16 MB, Assoc  16, LineSize  64`.
fn read_cache(row: &Row) -> Option<Cache> {
    let mut parts = row.title.split(',').map(str::trim);
    let name = parts.next()?;
    let kind = match name.split_once(" Cache")?.0 {
        "Data" => 'd',
        "Instruction" => 'i',
        _ => 'u',
    };
    let level = parts.next()?.strip_prefix("Level ")?.trim().parse().ok()?;
    Some(Cache {
        level,
        kind,
        size_bytes: parts.next().and_then(read_size).unwrap_or(0),
        cpus: row.cpus.clone(),
    })
}

fn read_node(row: &Row) -> Option<SeenNode> {
    let id: u32 = row.title.strip_prefix("NUMA Node ")?.trim().parse().ok()?;
    Some(SeenNode {
        id,
        cpus: row.cpus.clone(),
        present_mib: None,
        usable_mib: None,
        distances: None,
    })
}
