//! What is said of a host in words, above and below its picture, the same in text and in SVG.

use std::collections::BTreeMap;

use model::host::{HostDevice, LlcSource};
use model::{CpuSet, Host};

use super::units::{bytes, clean, kib, mib, plural, ranges, span};

/// Longest name of a machine, processor or source that is shown.
const NAME: usize = 160;
/// Most devices of a class on a node that are shown by name.
const DEVICES: usize = 6;
/// Most kinds of caches that are shown; a hybrid processor has about twelve.
const CACHES: usize = 32;
/// Most nodes whose distances are shown one by one even where they follow a rule.
const FEW_NODES: usize = 4;
/// Most nodes whose distances are shown one by one.
const MANY_NODES: usize = 16;

/// A caption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fact {
    /// One word.
    pub(super) label: &'static str,
    /// Each on a line of its own; a line is a list of items, between which it may break.
    pub(super) lines: Vec<Vec<String>>,
}

/// SLIT distances as they are worth showing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Distances {
    /// One node, or not known.
    None,
    /// What they come down to, e.g. `10 local`, `32 other package`.
    Classes(Vec<String>),
    /// Too few or too irregular for that: the kernel's node numbers and the distances, and what they come down to.
    Table(Vec<u32>, Vec<Vec<u32>>, Vec<String>),
}

/// The name of the machine and of its processor, which may be empty.
pub(super) fn names(host: &Host) -> (String, String) {
    (clean(&host.name, NAME), clean(&host.processor.model, NAME))
}

/// The machine in numbers: `2 packages × 64 cores × 2 threads = 256 CPUs`, `32 LLCs × 16 MiB` and so on.
pub(super) fn summary(host: &Host) -> Vec<String> {
    vec![cpu_count(host), llc_count(host), node_count(host)]
}

fn cpu_count(host: &Host) -> String {
    let (packages, cores, cpus) = (host.packages.len(), host.cores.len(), host.cpus.len());
    let mut per_package = vec![0; packages];
    for core in &host.cores {
        let first = core.cpus.first().and_then(|cpu| host.cpu(cpu));
        if let Some(cpu) = first {
            per_package[cpu.package.index()] += 1;
        }
    }
    let threads = host.cores[0].cpus.len();
    let even = per_package.iter().all(|&count| count == per_package[0])
        && host.cores.iter().all(|core| core.cpus.len() == threads);
    let cpus = plural(cpus, "CPU");
    let known = host.packages_known;
    match (even, threads) {
        (true, _) if known => format!(
            "{} × {} × {} = {cpus}",
            plural(packages, "package"),
            plural(per_package[0], "core"),
            plural(threads, "thread")
        ),
        (true, _) if !known => format!(
            "{} × {} = {cpus}",
            plural(cores, "core"),
            plural(threads, "thread")
        ),
        _ if known => format!(
            "{}, {}, {cpus}",
            plural(packages, "package"),
            plural(cores, "core")
        ),
        _ => format!("{}, {cpus}", plural(cores, "core")),
    }
}

fn llc_count(host: &Host) -> String {
    if host.llc_source == LlcSource::Nodes {
        return "no shared cache described".into();
    }
    let mut sizes: BTreeMap<u64, usize> = BTreeMap::new();
    for llc in &host.llcs {
        *sizes.entry(llc.size_bytes).or_default() += 1;
    }
    let total = plural(host.llcs.len(), "LLC");
    let ends = (sizes.keys().next(), sizes.keys().next_back());
    match (sizes.len(), ends) {
        (1, (Some(0), _)) => total,
        (1, (Some(&size), _)) if host.llcs.len() == 1 => format!("{total} of {}", bytes(size)),
        (1, (Some(&size), _)) => format!("{total} × {}", bytes(size)),
        (2..=3, _) => {
            let named = sizes.iter().rev().map(|(&size, &count)| match count {
                1 => bytes(size),
                _ => format!("{count} × {}", bytes(size)),
            });
            format!("{total}: {}", named.collect::<Vec<_>>().join(" + "))
        }
        (_, (Some(&least), Some(&most))) => {
            format!("{total} of {} to {}", bytes(least), bytes(most))
        }
        _ => total,
    }
}

fn node_count(host: &Host) -> String {
    let first = host.nodes[0].memory_mib;
    let even = host.nodes.iter().all(|node| node.memory_mib == first);
    let only = host.nodes.len() - host.cpu_nodes().count();
    let nodes = plural(host.nodes.len(), "node");
    let nodes = if only > 0 {
        format!("{nodes}, {only} memory-only")
    } else {
        nodes
    };
    match (host.memory_mib(), host.nodes.len()) {
        (0, _) => format!("{nodes}, memory unknown"),
        (memory, 1) => format!("{nodes} of {}", mib(memory)),
        (memory, _) if even && only == 0 => format!("{nodes} × {} = {}", mib(first), mib(memory)),
        (memory, _) => format!("{nodes}, {} in all", mib(memory)),
    }
}

/// The captions below the picture, without distances and findings.
pub(super) fn facts(host: &Host) -> Vec<Fact> {
    let facts = [
        ("hugepages", hugepages(host)),
        ("caches", caches(host)),
        ("latency", latency(host)),
        ("bandwidth", bandwidth(host)),
        ("devices", devices(host)),
    ];
    facts
        .into_iter()
        .map(|(label, lines)| Fact { label, lines })
        .filter(|fact| !fact.lines.is_empty())
        .collect()
}

/// CPUs that are there but not in the picture, and CPUs that are in it but set apart.
pub(super) fn set_apart(host: &Host) -> Vec<(&'static str, &CpuSet)> {
    let sets = [
        ("offline", &host.offline),
        ("not allowed", &host.restricted),
        ("isolated", &host.isolated),
    ];
    sets.into_iter()
        .filter(|(_, set)| !set.is_empty())
        .collect()
}

/// Pools by node, equal neighbours together.
fn hugepages(host: &Host) -> Vec<Vec<String>> {
    let runs = host.nodes.chunk_by(|a, b| a.hugepages == b.hugepages);
    let described = runs.filter(|run| !run[0].hugepages.is_empty()).map(|run| {
        let ids: Vec<u32> = run.iter().map(|node| node.id).collect();
        let owner = match ids.len() {
            1 => format!("node {}", ids[0]),
            _ => format!("nodes {} each", ranges(&ids)),
        };
        let mut items: Vec<String> = run[0]
            .hugepages
            .iter()
            .map(|pool| {
                format!(
                    "{} × {}, {} free",
                    pool.total,
                    kib(pool.size_kib),
                    pool.free
                )
            })
            .collect();
        items[0] = format!("{owner}: {}", items[0]);
        items
    });
    described.collect()
}

/// `L1d 32 KiB, L2 512 KiB per core` and so on, by what shares them.
fn caches(host: &Host) -> Vec<Vec<String>> {
    let known = host.caches.iter().filter(|cache| cache.size_bytes > 0);
    let kinds: BTreeMap<(u8, char, usize, u64), &CpuSet> = known
        .map(|cache| {
            (
                (cache.level, cache.kind, cache.cpus.len(), cache.size_bytes),
                &cache.cpus,
            )
        })
        .collect();
    // Sharers with the sizes of each cache they share, in order of first appearance.
    let mut shared: Lists<(String, Vec<String>)> = Vec::new();
    for (&(level, kind, _, size), cpus) in kinds.iter().take(CACHES) {
        let letter = if kind == 'u' {
            String::new()
        } else {
            clean(&kind.to_string(), 1)
        };
        let caches = entry(&mut shared, sharers(host, cpus));
        let sizes = entry(caches, format!("L{level}{letter}"));
        if !sizes.contains(&bytes(size)) {
            sizes.push(bytes(size));
        }
    }
    let items = shared.iter().map(|(sharers, caches)| {
        let texts = caches
            .iter()
            .map(|(name, sizes)| format!("{name} {}", sizes.join(" or ")));
        format!("{} per {sharers}", texts.collect::<Vec<_>>().join(", "))
    });
    let items: Vec<String> = items.collect();
    if items.is_empty() {
        Vec::new()
    } else {
        vec![items]
    }
}

/// Lists by key, in the order in which the keys came.
type Lists<T> = Vec<(String, Vec<T>)>;

/// The list under a key, made if new.
fn entry<T>(lists: &mut Lists<T>, key: String) -> &mut Vec<T> {
    let known = lists.iter().position(|(known, _)| *known == key);
    let index = known.unwrap_or(lists.len());
    if known.is_none() {
        lists.push((key, Vec::new()));
    }
    &mut lists[index].1
}

fn sharers(host: &Host, cpus: &CpuSet) -> String {
    match host.cores_in(cpus) {
        1 if cpus.len() == 1 && host.threads_per_core() > 1 => {
            let shared = cpus.first().and_then(|cpu| host.cpu(cpu));
            let whole = shared.is_none_or(|cpu| host.cores[cpu.core.index()].cpus.len() == 1);
            if whole {
                "core".into()
            } else {
                "thread".into()
            }
        }
        1 => "core".into(),
        cores => format!("{cores} cores"),
    }
}

/// Tiers in nanoseconds and where they come from.
fn latency(host: &Host) -> Vec<Vec<String>> {
    let Some(latency) = &host.latency else {
        return Vec::new();
    };
    let package = |llc: usize| {
        let first = host.llcs[llc].cpus.first().and_then(|cpu| host.cpu(cpu));
        first.map(|cpu| cpu.package)
    };
    let packages: Vec<_> = (0..host.llcs.len()).map(package).collect();
    let tier = |wanted: &dyn Fn(usize, usize) -> bool| {
        let rows = latency.llc_ns.iter().enumerate();
        let pairs =
            rows.flat_map(|(a, row)| row.iter().enumerate().map(move |(b, ns)| (a, b, *ns)));
        span(pairs.filter(|&(a, b, _)| wanted(a, b)).map(|(_, _, ns)| ns))
    };
    let one = |ns: Option<f64>| span(ns.into_iter());
    let cores = [
        ("same core", one(latency.smt_ns)),
        ("same LLC", tier(&|a, b| a == b)),
        (
            "other LLC, same package",
            tier(&|a, b| a != b && packages[a] == packages[b]),
        ),
        (
            "the same, homed on another package",
            one(latency.home_remote_ns),
        ),
        ("other package", tier(&|a, b| packages[a] != packages[b])),
    ];
    let memory = [
        ("local", one(latency.dram_local_ns)),
        ("remote", one(latency.dram_remote_ns)),
    ];
    let line = |what: &str, tiers: &[(&str, Option<String>)]| -> Vec<String> {
        let known = tiers
            .iter()
            .filter_map(|(tier, ns)| Some(format!("{tier} {}", ns.as_ref()?)));
        let mut items: Vec<String> = known.collect();
        if let Some(first) = items.first_mut() {
            *first = format!("{what} (ns): {first}");
        }
        items
    };
    let mut lines = vec![line("core to core", &cores), line("memory", &memory)];
    lines.retain(|line| !line.is_empty());
    if !lines.is_empty() {
        let origin = if latency.measured_here {
            "measured here"
        } else {
            "published"
        };
        let source = clean(&latency.source, 5 * NAME);
        lines.push(vec![if source.is_empty() {
            origin.to_owned()
        } else {
            format!("{origin}: {source}")
        }]);
    }
    lines
}

/// Peak of the memory of a package, what the link of an LLC carries, and where that comes from.
fn bandwidth(host: &Host) -> Vec<Vec<String>> {
    let Some(known) = &host.bandwidth else {
        return Vec::new();
    };
    let mut figures = vec![format!("{} per package", gbs(known.package_mbs))];
    if known.llc_link_mbs > 0 {
        figures.push(format!("{} per LLC", gbs(known.llc_link_mbs)));
    }
    let source = clean(&known.source, 5 * NAME);
    let mut lines = vec![figures];
    if !source.is_empty() {
        lines.push(vec![format!("source: {source}")]);
    }
    lines
}

/// MB/s in GB/s with the digits they have: `204.8 GB/s`.
fn gbs(mbs: u64) -> String {
    let text = format!("{}.{:03}", mbs / 1000, mbs % 1000);
    let digits = text.trim_end_matches('0').trim_end_matches('.');
    format!("{digits} GB/s")
}

/// Devices by node and class.
fn devices(host: &Host) -> Vec<Vec<String>> {
    // Devices of unknown place come last.
    let place = |device: &HostDevice| (device.node.is_none(), device.node);
    let mut devices: Vec<&HostDevice> = host.devices.iter().collect();
    devices.sort_by_key(|device| (place(device), &device.class));
    let nodes = devices.chunk_by(|a, b| a.node == b.node).map(|devices| {
        let classes = devices.chunk_by(|a, b| a.class == b.class);
        let mut items: Vec<String> = classes.flat_map(devices_of_class).collect();
        let place = devices[0]
            .node
            .map_or_else(|| "no node".to_owned(), |id| format!("node {id}"));
        items[0] = format!("{place}: {}", items[0]);
        items
    });
    nodes.collect()
}

fn devices_of_class(devices: &[&HostDevice]) -> Vec<String> {
    let class = clean(&devices[0].class, NAME / 4);
    let named = devices.iter().take(DEVICES).map(|device| {
        let names = clean(&device.os_names.join(" "), NAME / 4);
        let address = clean(&device.address, NAME / 4);
        let parts = [class.as_str(), &names, &address];
        parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    });
    let more = devices.len().saturating_sub(DEVICES);
    let more = (more > 0).then(|| format!("{more} more {class}"));
    named.chain(more).collect()
}

/// SLIT distances: a table of few nodes; for many the rule they follow, if they follow one.
pub(super) fn distances(host: &Host) -> Distances {
    let n = host.nodes.len();
    if n < 2 || host.distances.len() != n {
        return Distances::None;
    }
    let classes = distance_classes(host);
    let regular = classes.iter().all(|(_, least, most)| least == most);
    let texts = classes.into_iter().map(|(class, least, most)| {
        if least == most {
            format!("{least} {class}")
        } else {
            format!("{least} to {most} {class}")
        }
    });
    let texts = texts.collect();
    if n <= FEW_NODES || (!regular && n <= MANY_NODES) {
        let ids = host.nodes.iter().map(|node| node.id).collect();
        return Distances::Table(ids, host.distances.clone(), texts);
    }
    Distances::Classes(texts)
}

/// Least and greatest distance of each relation of two nodes that occurs.
fn distance_classes(host: &Host) -> Vec<(&'static str, u32, u32)> {
    let mut package = vec![None; host.nodes.len()];
    for (id, _) in host.cpu_nodes() {
        package[id.index()] = host.package_of_node(id);
    }
    let mut classes: BTreeMap<u8, (&'static str, u32, u32)> = BTreeMap::new();
    for (from, row) in host.distances.iter().enumerate() {
        for (to, &distance) in row.iter().enumerate() {
            let (order, class) = match (package[from], package[to]) {
                _ if from == to => (0, "local"),
                (None, _) | (_, None) => (3, "memory-only node"),
                _ if !host.packages_known => (2, "other node"),
                (a, b) if a == b => (1, "same package"),
                _ => (2, "other package"),
            };
            let (_, least, most) = classes.entry(order).or_insert((class, distance, distance));
            *least = distance.min(*least);
            *most = distance.max(*most);
        }
    }
    classes.into_values().collect()
}
