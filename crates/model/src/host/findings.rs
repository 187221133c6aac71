//! What an operator should know about a host before placing VMs on it.

use super::{CoreId, Host, LlcSource, Vendor};
use crate::cpuset::CpuSet;
use crate::finding::Finding;

/// Findings about a host, in a fixed order: what hides topology first, then what is uneven, then what is missing.
pub fn findings(host: &Host) -> Vec<Finding> {
    let checks = [
        node_interleaving,
        ccx_as_numa,
        nodes_per_package,
        uneven_llcs,
        hybrid_cores,
        smt_off,
        offline,
        restricted,
        isolated,
        memory_only_nodes,
        uneven_nodes,
        cpus_without_node,
        no_cache_information,
        no_package_information,
        memory_unknown,
    ];
    checks.into_iter().filter_map(|check| check(host)).collect()
}

/// Zen and later: CPUID families 0x17 (Zen, Zen 2, Hygon 0x18), 0x19 (Zen 3, 4), 0x1a (Zen 5).
fn is_zen(host: &Host) -> bool {
    host.processor.vendor == Vendor::Amd
        && host.processor.family.is_some_and(|family| family >= 0x17)
}

fn node_interleaving(host: &Host) -> Option<Finding> {
    let (packages, nodes) = (host.packages.len(), host.cpu_nodes().count());
    (packages > 1 && nodes == 1).then(|| {
        let doubt = if host.memory_mib() == 0 {
            " (or this description, which has no memory sizes either, lacks the NUMA nodes)"
        } else {
            ""
        };
        Finding::warning(
            "node-interleaving",
            format!(
                "{packages} packages share one NUMA node: memory is interleaved over all packages{doubt}; \
                 turn node interleaving off in the firmware so that VMs get local memory"
            ),
        )
    })
}

fn ccx_as_numa(host: &Host) -> Option<Finding> {
    let nodes: Vec<&CpuSet> = host.cpu_nodes().map(|(_, node)| &node.cpus).collect();
    let node_is_llc = nodes.len() == host.llcs.len()
        && nodes.iter().all(|cpus| {
            // The LLC of the node's first CPU is the only one that can be the node.
            let first = cpus.first().and_then(|first| host.cpu(first));
            first.is_some_and(|cpu| host.llcs[cpu.llc.index()].cpus == **cpus)
        });
    let per_package = nodes.len() / host.packages.len();
    // No firmware offers more than four memory nodes per package (NPS4, SNC4); more than that are caches.
    let asked = (is_zen(host) && per_package > 1) || per_package > 4;
    (host.llc_source != LlcSource::Nodes && node_is_llc && asked).then(|| {
        Finding::warning(
            "ccx-as-numa",
            format!(
                "each of the {} NUMA nodes is one last-level cache (\"L3 as NUMA\", CCX-as-NUMA): nodes do not stand \
                 for memory, and schedulers copy pages between nodes of equal distance; prefer NPS1 without it",
                nodes.len()
            ),
        )
    })
}

fn nodes_per_package(host: &Host) -> Option<Finding> {
    let mut nodes_of = vec![0; host.packages.len()];
    for (id, node) in host.cpu_nodes() {
        let package = host.package_of_node(id)?;
        if node.cpus.is_subset(&host.packages[package.index()].cpus) {
            nodes_of[package.index()] += 1;
        }
    }
    let per_package: usize = nodes_of.into_iter().max()?;
    (per_package > 1 && ccx_as_numa(host).is_none()).then(|| {
        let name = match host.processor.vendor {
            Vendor::Amd if is_zen(host) => format!("NPS{per_package}"),
            Vendor::Intel => format!("SNC{per_package}"),
            _ => format!("{per_package} dies with memory"),
        };
        Finding::info(
            "nodes-per-package",
            format!("{per_package} NUMA nodes per package ({name}): VMs larger than a node are split sooner"),
        )
    })
}

fn uneven_llcs(host: &Host) -> Option<Finding> {
    let cores = cores_per_llc(host);
    let mut kinds: Vec<(u32, u64)> = cores
        .into_iter()
        .zip(host.llcs.iter().map(|llc| llc.size_bytes))
        .collect();
    kinds.sort_unstable();
    let mut groups: Vec<(usize, (u32, u64))> = Vec::new();
    for kind in kinds {
        match groups.last_mut() {
            Some((count, last)) if *last == kind => *count += 1,
            _ => groups.push((1, kind)),
        }
    }
    (groups.len() > 1).then(|| {
        let parts: Vec<String> = groups
            .iter()
            .rev()
            .map(|(count, (cores, size))| format!("{count} x {cores} cores{}", mib_suffix(*size)))
            .collect();
        let text = format!(
            "last-level caches differ: {}; VMs are grouped by what each holds",
            parts.join(", ")
        );
        Finding::info("uneven-llcs", text)
    })
}

/// Number of cores by LLC, in one pass over the CPUs.
fn cores_per_llc(host: &Host) -> Vec<u32> {
    let mut places: Vec<(usize, CoreId)> = host
        .cpus
        .iter()
        .map(|cpu| (cpu.llc.index(), cpu.core))
        .collect();
    places.sort_unstable();
    places.dedup();
    let mut cores = vec![0; host.llcs.len()];
    for (llc, _) in places {
        cores[llc] += 1;
    }
    cores
}

fn mib_suffix(bytes: u64) -> String {
    if bytes == 0 {
        String::new()
    } else {
        format!("/{} MiB", bytes >> 20)
    }
}

fn hybrid_cores(host: &Host) -> Option<Finding> {
    let fastest = host.cores.iter().map(|core| core.efficiency).max()?;
    let fast = host
        .cores
        .iter()
        .filter(|core| core.efficiency == fastest)
        .count();
    (fast < host.cores.len()).then(|| {
        let slow = host.cores.len() - fast;
        Finding::info(
            "hybrid-cores",
            format!("{fast} fast and {slow} slower cores: keep a VM on one kind, its guest expects equal vCPUs"),
        )
    })
}

fn smt_off(host: &Host) -> Option<Finding> {
    (is_zen(host) && host.threads_per_core() == 1).then(|| {
        Finding::info(
            "smt-off",
            "this processor has two threads per core, one is shown: SMT is off in the firmware or by the kernel",
        )
    })
}

fn offline(host: &Host) -> Option<Finding> {
    (!host.offline.is_empty()).then(|| {
        Finding::warning(
            "offline-cpus",
            format!(
                "CPUs {} are offline and not used; cores and caches are counted without them",
                host.offline
            ),
        )
    })
}

fn restricted(host: &Host) -> Option<Finding> {
    (!host.restricted.is_empty()).then(|| {
        Finding::warning(
            "restricted-cpus",
            format!(
                "CPUs {} are online but not allowed here (cgroup or container)",
                host.restricted
            ),
        )
    })
}

fn isolated(host: &Host) -> Option<Finding> {
    (!host.isolated.is_empty()).then(|| {
        let text = format!(
            "CPUs {} are isolated from load balancing: for dedicated VMs only",
            host.isolated
        );
        Finding::info("isolated-cpus", text)
    })
}

fn memory_only_nodes(host: &Host) -> Option<Finding> {
    let ids: Vec<String> = host
        .nodes
        .iter()
        .filter(|node| node.cpus.is_empty())
        .map(|node| node.id.to_string())
        .collect();
    (!ids.is_empty()).then(|| {
        let text = format!(
            "nodes {} have memory but no CPUs: never a VM's home by default",
            ids.join(", ")
        );
        Finding::info("memory-only-nodes", text)
    })
}

fn uneven_nodes(host: &Host) -> Option<Finding> {
    let sizes: Vec<u32> = host
        .cpu_nodes()
        .map(|(_, node)| host.cores_in(&node.cpus))
        .collect();
    let (least, most) = (sizes.iter().min()?, sizes.iter().max()?);
    (least < most).then(|| {
        Finding::info(
            "uneven-nodes",
            format!("NUMA nodes have between {least} and {most} cores"),
        )
    })
}

fn cpus_without_node(host: &Host) -> Option<Finding> {
    let housed: CpuSet = host
        .nodes
        .iter()
        .flat_map(|node| node.cpus.iter())
        .collect();
    let homeless = host.cpuset().difference(&housed);
    (!homeless.is_empty()).then(|| {
        let text =
            format!("CPUs {homeless} have no usable memory node: their memory is always remote");
        Finding::warning("cpus-without-node", text)
    })
}

fn no_cache_information(host: &Host) -> Option<Finding> {
    match host.llc_source {
        LlcSource::Nodes => Some(Finding::warning(
            "no-cache-information",
            "no shared cache is described: one last-level cache per NUMA node is assumed",
        )),
        LlcSource::L2 => Some(Finding::info(
            "llc-is-l2",
            "no L3: the shared L2 is the last-level cache",
        )),
        LlcSource::L3 | LlcSource::Mixed => None,
    }
}

fn no_package_information(host: &Host) -> Option<Finding> {
    (!host.packages_known).then(|| {
        Finding::info(
            "no-package-information",
            "no package is described: the machine is taken as one package",
        )
    })
}

fn memory_unknown(host: &Host) -> Option<Finding> {
    (host.memory_mib() == 0).then(|| {
        Finding::info(
            "memory-unknown",
            "memory sizes are not described: no limit is applied to VM memory",
        )
    })
}
