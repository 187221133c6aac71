//! Which caches of a machine are its last-level caches.

use std::collections::BTreeMap;

use super::build::union;
use super::{Core, Llc, LlcSource, Node, NodeId, Package, Parts};
use crate::cpuset::{CpuId, CpuSet};

/// A cache that may be a last-level cache: CPUs, bytes, level.
type Candidate = (CpuSet, u64, u8);

/// L3 where there is one, else the largest shared L2, else one per node. CPUs that no L3 covers on a machine that has
/// L3s (low-power cores of a hybrid processor, packages whose description lacks it) take the L2 or core they have.
pub(super) fn last_level_caches(
    parts: &Parts,
    cores: &[Core],
    nodes: &[Node],
    packages: &[Package],
) -> (LlcSource, Vec<Llc>) {
    let (source, mut found) = described(parts, cores);
    let mut left = parts
        .cpus
        .difference(&union(found.iter().map(|(cpus, ..)| cpus)));
    let stand_ins = nodes.iter().map(|node| &node.cpus);
    for stand_in in stand_ins.chain(packages.iter().map(|package| &package.cpus)) {
        let cpus = stand_in.intersection(&left);
        if !cpus.is_empty() {
            left = left.difference(&cpus);
            found.push((cpus, 0, 0));
        }
    }
    found.sort_by_key(|(cpus, ..)| cpus.first());
    let llc = |(cpus, size_bytes, level)| Llc {
        cpus,
        size_bytes,
        level,
        node: NodeId(0),
    };
    (source, found.into_iter().map(llc).collect())
}

/// The last-level caches among the caches that the description names.
fn described(parts: &Parts, cores: &[Core]) -> (LlcSource, Vec<Candidate>) {
    let mut found = of_level(parts, 3);
    let l2 = of_level(parts, 2);
    if found.is_empty() {
        return if any_spans_cores(&l2, cores) {
            (LlcSource::L2, l2)
        } else {
            (LlcSource::Nodes, Vec::new())
        };
    }
    let uncovered = parts
        .cpus
        .difference(&union(found.iter().map(|(cpus, ..)| cpus)));
    let before = found.len();
    found.extend(
        l2.into_iter()
            .filter(|(cpus, ..)| cpus.is_subset(&uncovered)),
    );
    (
        if found.len() > before {
            LlcSource::Mixed
        } else {
            LlcSource::L3
        },
        found,
    )
}

/// Data and unified caches of a level, cut down to usable CPUs.
fn of_level(parts: &Parts, level: u8) -> Vec<Candidate> {
    let caches = parts
        .caches
        .iter()
        .filter(|cache| cache.level == level && cache.kind != 'i');
    caches
        .map(|cache| {
            (
                cache.cpus.intersection(&parts.cpus),
                cache.size_bytes,
                level,
            )
        })
        .filter(|(cpus, ..)| !cpus.is_empty())
        .collect()
}

fn any_spans_cores(caches: &[Candidate], cores: &[Core]) -> bool {
    let core_of: BTreeMap<CpuId, usize> = (0usize..)
        .zip(cores)
        .flat_map(|(index, core)| core.cpus.iter().map(move |cpu| (cpu, index)))
        .collect();
    caches.iter().any(|(cpus, ..)| {
        let mut cores = cpus.iter().filter_map(|cpu| core_of.get(&cpu));
        let first = cores.next();
        cores.any(|core| Some(core) != first)
    })
}
