//! `[sets]`, `[[node]]`, `[[cache]]` and `[[device]]`: any machine in CPU sets. What is given replaces what
//! `[geometry]` made.

use std::ops::Range;

use toml::Spanned;

use super::regular::{MAX_MEMORY_MIB, number};
use super::schema::{CacheTable, File, NodeTable, Number, PoolTable, Sets, SetsTable};
use super::{HostFileError, MAX_HOST_CPUS, MAX_NODES};
use crate::cpuset::{CpuId, CpuSet, CpuSetError};
use crate::host::{Cache, Core, HostDevice, HostError, HugepagePool, Node, Parts, Relation};

/// Longest text of a CPU set: every CPU by itself, such as `16383,`.
const MAX_SET_BYTES: usize = 6 * MAX_HOST_CPUS as usize;
/// Most mentions of a CPU in all sets of one kind; caches have several levels and kinds.
const MAX_MENTIONS: usize = MAX_HOST_CPUS as usize;
const MAX_CACHE_MENTIONS: usize = 8 * MAX_MENTIONS;

/// Puts the explicit parts of the file in place of the regular ones.
pub(super) fn apply(parts: &mut Parts, file: &File) -> Result<(), HostFileError> {
    let empty = SetsTable::default();
    let sets = file.sets.as_ref().map_or(&empty, Spanned::get_ref);
    if let Some(cores) = &sets.cores {
        let cores = cpu_sets("cores", cores, MAX_MENTIONS)?;
        parts.cores = cores
            .into_iter()
            .map(|cpus| Core {
                cpus,
                efficiency: 0,
            })
            .collect();
    }
    if let Some(packages) = &sets.packages {
        parts.packages = cpu_sets("packages", packages, MAX_MENTIONS)?;
    }
    if let Some(dies) = &sets.dies {
        parts.dies = cpu_sets("dies", dies, MAX_MENTIONS)?;
    }
    if let Some(tables) = &file.node {
        parts.nodes = nodes(tables)?;
    }
    if let Some(tables) = &file.cache {
        parts.caches = caches(tables)?;
    }
    let optional =
        |key, set: Option<&Spanned<String>>| set.map_or(Ok(CpuSet::new()), |set| cpu_set(key, set));
    parts.offline = optional("offline", sets.offline.as_ref())?;
    parts.restricted = optional("restricted", sets.restricted.as_ref())?;
    parts.isolated = optional("isolated", sets.isolated.as_ref())?;
    parts.cpus = usable_cpus(parts, sets, file.geometry.is_some())?;
    efficiencies(parts, sets)?;
    parts.devices = devices(file);
    Ok(())
}

/// Where the file says what parts contradict.
pub(super) fn span(file: &File, error: &HostError) -> Option<Range<usize>> {
    let sets = file.sets.as_ref().map(Spanned::get_ref);
    match error {
        HostError::Overlap { relation, cpu } => match relation {
            Relation::Core => last_naming(sets?.cores.as_deref()?, *cpu),
            Relation::Package => last_naming(sets?.packages.as_deref()?, *cpu),
            Relation::Llc => {
                let caches = file.cache.iter().flatten().rev();
                caches
                    .filter(|cache| cache.get_ref().level > 1)
                    .find_map(|cache| last_naming(&cache.get_ref().cpus, *cpu))
            }
        },
        HostError::DuplicateNode { id } => {
            let mut nodes = file.node.iter().flatten().rev();
            let is_same = |number: &Number| *number.get_ref() == i64::from(*id);
            let node = nodes.find(|node| node.get_ref().id.as_ref().is_some_and(is_same));
            node.map(Spanned::span)
        }
        HostError::NoCpus | HostError::Matrix { .. } => None,
    }
}

fn last_naming(texts: &[Spanned<String>], cpu: CpuId) -> Option<Range<usize>> {
    let names = |text: &&Spanned<String>| {
        text.get_ref()
            .parse()
            .is_ok_and(|set: CpuSet| set.contains(cpu))
    };
    texts.iter().rev().find(names).map(Spanned::span)
}

fn cpu_set(key: &str, text: &Spanned<String>) -> Result<CpuSet, HostFileError> {
    let fail = |problem: String| HostFileError::new(format!("`{key}`: {problem}"), text.span());
    if text.get_ref().len() > MAX_SET_BYTES {
        return Err(fail(format!(
            "a CPU set has at most {MAX_SET_BYTES} characters"
        )));
    }
    let set: CpuSet = text
        .get_ref()
        .parse()
        .map_err(|error: CpuSetError| fail(error.to_string()))?;
    match set.last() {
        Some(last) if last.0 >= MAX_HOST_CPUS => Err(fail(format!(
            "CPU {last} is not below {MAX_HOST_CPUS}, the most a host file describes"
        ))),
        _ => Ok(set),
    }
}

/// A list of sets, none empty, that name at most so many CPUs together.
fn cpu_sets(key: &str, texts: &Sets, most: usize) -> Result<Vec<CpuSet>, HostFileError> {
    let mut sets = Vec::new();
    let mut mentions = 0;
    for text in texts {
        let set = cpu_set(key, text)?;
        mentions += set.len();
        if set.is_empty() {
            let message =
                format!("`{key}` has an empty set; write CPUs as \"0-3,8\" or leave it out");
            return Err(HostFileError::new(message, text.span()));
        }
        if mentions > most {
            let message = format!("`{key}` names more than {most} CPUs; give each CPU one set");
            return Err(HostFileError::new(message, text.span()));
        }
        sets.push(set);
    }
    Ok(sets)
}

/// The nodes. They may nest (a node of spare memory around others) but not cross.
fn nodes(tables: &[Spanned<NodeTable>]) -> Result<Vec<Node>, HostFileError> {
    let mut nodes: Vec<Node> = Vec::new();
    for table in tables {
        let fail = |message: String| Err(HostFileError::new(message, table.span()));
        let node = node(table)?;
        if nodes.len() == MAX_NODES as usize {
            return fail(format!(
                "more than {MAX_NODES} [[node]] tables, the most of a host file"
            ));
        }
        let crosses = |other: &&Node| {
            let (a, b) = (&node.cpus, &other.cpus);
            a.intersects(b) && !a.is_subset(b) && !b.is_subset(a)
        };
        if let Some(other) = nodes.iter().find(crosses) {
            let shared = other.cpus.intersection(&node.cpus);
            let (id, other) = (node.id, other.id);
            return fail(format!(
                "CPUs {shared} are in node {id} and in node {other}; give each CPU one node"
            ));
        }
        nodes.push(node);
    }
    Ok(nodes)
}

fn node(table: &Spanned<NodeTable>) -> Result<Node, HostFileError> {
    let node = table.get_ref();
    let Some(id) = &node.id else {
        let message = "[[node]] lacks `id`, the kernel's node number";
        return Err(HostFileError::new(message, table.span()));
    };
    let memory = node.memory_mib.as_ref();
    Ok(Node {
        id: u32::try_from(number("id", id, 0..=i64::from(u32::MAX))?)
            .expect("the range ends there"),
        cpus: node
            .cpus
            .as_ref()
            .map_or(Ok(CpuSet::new()), |cpus| cpu_set("cpus", cpus))?,
        memory_mib: memory.map_or(Ok(0), |value| {
            number("memory_mib", value, 0..=MAX_MEMORY_MIB)
        })?,
        hugepages: pools(node.hugepages.as_deref().unwrap_or_default())?,
    })
}

fn pools(tables: &[PoolTable]) -> Result<Vec<HugepagePool>, HostFileError> {
    let one = |table: &PoolTable| {
        Ok(HugepagePool {
            size_kib: number("size_kib", &table.size_kib, 1..=MAX_MEMORY_MIB)?,
            total: number("total", &table.total, 0..=MAX_MEMORY_MIB)?,
            free: number("free", &table.free, 0..=MAX_MEMORY_MIB)?,
        })
    };
    tables.iter().map(one).collect()
}

fn caches(tables: &[Spanned<CacheTable>]) -> Result<Vec<Cache>, HostFileError> {
    let mut caches = Vec::new();
    let mut mentions = 0;
    for table in tables {
        let CacheTable {
            level,
            kind,
            size_bytes,
            cpus,
        } = table.get_ref();
        if !['d', 'i', 'u'].contains(kind) {
            let message = format!(
                "`kind` is {kind:?}; give \"d\" (data), \"i\" (instructions) or \"u\" (both)"
            );
            return Err(HostFileError::new(message, table.span()));
        }
        let size_bytes = number("size_bytes", size_bytes, 0..=i64::MAX)?;
        let sets = cpu_sets("cpus", cpus, MAX_CACHE_MENTIONS - mentions)?;
        mentions += sets.iter().map(CpuSet::len).sum::<usize>();
        caches.extend(sets.into_iter().map(|cpus| Cache {
            level: *level,
            kind: *kind,
            size_bytes,
            cpus,
        }));
    }
    Ok(caches)
}

/// The CPUs as stated, or all that anything names but offline and restricted ones. Only the CPUs of a regular machine may
/// be cut down by stating fewer.
fn usable_cpus(parts: &Parts, sets: &SetsTable, is_regular: bool) -> Result<CpuSet, HostFileError> {
    let taken = parts.offline.union(&parts.restricted);
    let known = all_cpus(parts).difference(&taken);
    let Some(stated) = &sets.cpus else {
        if known.is_empty() {
            let message = "the file describes no CPU; give [geometry], or `cpus` under [sets]";
            return Err(HostFileError::new(message, 0..0));
        }
        return Ok(known);
    };
    let cpus = cpu_set("cpus", stated)?;
    let beyond = known.difference(&cpus);
    if cpus.is_empty() {
        let message = "`cpus` is empty; a host has at least one usable CPU";
        return Err(HostFileError::new(message, stated.span()));
    }
    if !is_regular && !beyond.is_empty() {
        let message = format!(
            "`cpus` lacks {beyond}, which cores, caches, nodes or packages name; add them, or take them out there"
        );
        return Err(HostFileError::new(message, stated.span()));
    }
    Ok(cpus)
}

fn all_cpus(parts: &Parts) -> CpuSet {
    let sets = [
        parts
            .cores
            .iter()
            .map(|core| &core.cpus)
            .collect::<Vec<_>>(),
        parts.nodes.iter().map(|node| &node.cpus).collect(),
        parts.caches.iter().map(|cache| &cache.cpus).collect(),
        parts.packages.iter().collect(),
    ];
    sets.into_iter()
        .flatten()
        .fold(CpuSet::new(), |all, set| all.union(set))
}

/// Marks the cores of each kind; a core is of a kind when its first CPU is.
fn efficiencies(parts: &mut Parts, sets: &SetsTable) -> Result<(), HostFileError> {
    for kind in sets.core_kinds.as_deref().unwrap_or_default() {
        let cpus = cpu_set("core_kinds", &kind.cpus)?;
        for core in &mut parts.cores {
            if core.cpus.first().is_some_and(|first| cpus.contains(first)) {
                core.efficiency = kind.efficiency;
            }
        }
    }
    Ok(())
}

fn devices(file: &File) -> Vec<HostDevice> {
    let tables = file.device.iter().flatten();
    tables
        .map(|table| HostDevice {
            address: table.address.clone(),
            class: table.class.clone(),
            os_names: table.os_names.clone(),
            node: table.node,
        })
        .collect()
}
