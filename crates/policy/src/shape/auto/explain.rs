//! Why `auto` decided as it did, what lost, and what a person should know: in words, with the numbers that decided.

use model::{Finding, GuestTopology, Reason};

use super::fit::{Fit, Missing, Want};
use super::reason;
use crate::shape::{Goal, Request};

pub(super) fn single_flow() -> Reason {
    reason(
        "single-flow",
        "one busy flow is fastest when its thread stays glued to its interrupt, and a guest that sees no shared cache \
         does not move it: flat on purpose (vSphere 8.0 study, tables 4 and 5)"
            .into(),
    )
}

pub(super) fn reasons(
    request: &Request,
    want: &Want,
    fit: &Fit,
    topology: &GuestTopology,
) -> Vec<Reason> {
    let mut reasons = vec![
        nodes(request, want, fit),
        llcs(fit, topology),
        sockets(request, fit, topology),
    ];
    reasons.push(if want.threads > 1 {
        let why = if request
            .overrides
            .threads_per_core
            .or(request.vm.esxi.num_smt)
            .is_some()
        {
            "as asked".to_owned()
        } else if request.overrides.prefer_ht == Some(true) {
            "threads count as room (prefer-HT)".to_owned()
        } else {
            format!(
                "{} vCPUs are more than the {} cores",
                want.slots,
                request.host.cores.len()
            )
        };
        let text = format!(
            "{} threads per core are shown, {why}: vCPUs run on sibling threads",
            want.threads
        );
        reason("smt-shown", text)
    } else {
        reason(
            "one-vcpu-per-core",
            "each vCPU is shown as a core, and is meant to get one".into(),
        )
    });
    if topology.maxcpus() > topology.vcpus {
        let text = format!(
            "{} of {} slots are present, filled in index order, because QEMU wants every socket and die alike",
            topology.vcpus,
            topology.maxcpus()
        );
        reasons.push(reason("empty-slots", text));
    }
    reasons
}

fn nodes(request: &Request, want: &Want, fit: &Fit) -> Reason {
    let (vcpus, n_nodes) = (want.slots, fit.nodes());
    let room = fit.node_cores * want.threads;
    let unit = if want.threads > 1 { "threads" } else { "cores" };
    if request.overrides.numa_nodes.is_some() {
        return reason(
            "numa-nodes-asked",
            format!("{n_nodes} vNUMA nodes, as asked"),
        );
    }
    if vcpus > room.saturating_mul(n_nodes) {
        let text = format!(
            "{vcpus} vCPUs are more than the {} {unit} there are: spread over the whole host",
            room.saturating_mul(n_nodes)
        );
        return reason("exceeds-host", text);
    }
    if n_nodes == 1 {
        return reason(
            "fits-one-node",
            format!("{vcpus} vCPUs fit the {room} {unit} of one NUMA node"),
        );
    }
    let memory = gib(want.memory_mib);
    let by_cpus = vcpus.div_ceil(room.max(1));
    if by_cpus < n_nodes && !want.whole_host && fit.node_memory_mib > 0 {
        let text = format!(
            "{vcpus} vCPUs would fit the {room} {unit} of {by_cpus} node(s), but {memory} do not fit {} each: \
             {n_nodes} nodes, so that each part of the memory is local to the vCPUs that see it",
            gib(fit.node_memory_mib)
        );
        return reason("memory-exceeds-node", text);
    }
    let text = format!(
        "{vcpus} vCPUs exceed the {room} {unit} of one node: {n_nodes} nodes, the fewest that hold them"
    );
    reason("vcpus-exceed-node", text)
}

fn llcs(fit: &Fit, topology: &GuestTopology) -> Reason {
    let size = if fit.llc_bytes == 0 {
        String::new()
    } else {
        format!(" of {}", mib(fit.llc_bytes))
    };
    let sizes: Vec<usize> = topology.llcs.iter().map(|llc| llc.vcpus.len()).collect();
    let text = match sizes[..] {
        [all] if all > fit.largest_llc as usize * topology.threads as usize => {
            format!(
                "{all} vCPUs share the one last-level cache{size} there is, {} cores",
                fit.largest_llc
            )
        }
        [all] => format!(
            "all {all} vCPUs fit the {} cores of one last-level cache{size}",
            fit.largest_llc
        ),
        _ => format!(
            "{} last-level caches{size} are shown as such, with {} vCPUs: one holds at most {} cores, and the guest \
             keeps related threads under one",
            sizes.len(),
            runs(&sizes),
            fit.largest_llc
        ),
    };
    reason("llc-groups", text)
}

/// `4+4+4+1` or `16 x 4`.
fn runs(sizes: &[usize]) -> String {
    if sizes.len() > 4 && sizes.iter().all(|size| size == &sizes[0]) {
        return format!("{} x {}", sizes.len(), sizes[0]);
    }
    if sizes.len() > 12 {
        let (least, most) = (sizes.iter().min(), sizes.iter().max());
        return format!("{} to {} each", least.unwrap_or(&0), most.unwrap_or(&0));
    }
    sizes
        .iter()
        .map(usize::to_string)
        .collect::<Vec<_>>()
        .join("+")
}

fn sockets(request: &Request, fit: &Fit, topology: &GuestTopology) -> Reason {
    let sockets = topology.sockets;
    if request
        .overrides
        .cores_per_socket
        .is_some_and(|cores| cores > 0)
    {
        let text = format!(
            "{sockets} sockets of {} cores, as asked",
            topology.cores_per_socket()
        );
        return reason("cores-per-socket-asked", text);
    }
    if sockets < fit.packages {
        let names: Vec<&str> = request.limits.iter().map(|limit| limit.name).collect();
        let text = format!(
            "{sockets} sockets although {} packages are used: {} counts no more",
            fit.packages,
            names.join(", ")
        );
        return reason("socket-limit", text);
    }
    let text = match sockets {
        1 => "one socket: the VM stays in one package".to_owned(),
        _ => format!(
            "{sockets} sockets, one per package it needs, so that the guest's levels nest as the host's"
        ),
    };
    reason("sockets-are-packages", text)
}

pub(super) fn rejected(
    request: &Request,
    want: &Want,
    fit: &Fit,
    topology: &GuestTopology,
) -> Vec<Reason> {
    let vcpus = request.vm.vcpus;
    let mut rejected = Vec::new();
    if vcpus > 1 {
        let text = format!(
            "{vcpus} sockets of 1 core: no shared cache is visible, a woken thread never looks for an idle neighbour; \
             right only for a single busy flow (`--goal single-flow`)"
        );
        rejected.push(reason("flat", text));
    }
    if topology.llcs.len() > topology.numa_nodes.len() {
        let text = format!(
            "one cache per vNUMA node, as ESXi sized sockets: the guest would see {} where it runs on {}, and move \
             threads between them unawares",
            topology.numa_nodes.len(),
            topology.llcs.len()
        );
        rejected.push(reason("one-llc-per-socket", text));
    }
    if fit.nodes() > 1 && request.overrides.numa_nodes.is_none() {
        let text = format!(
            "{} nodes: {} cores and {} per node are too small for {} vCPUs and {}",
            fit.nodes() - 1,
            fit.node_cores,
            if fit.node_memory_mib == 0 {
                "unknown memory".into()
            } else {
                gib(fit.node_memory_mib)
            },
            want.slots,
            gib(want.memory_mib)
        );
        rejected.push(reason("fewer-nodes", text));
    }
    if want.threads == 1 && request.host.threads_per_core() > 1 && vcpus > 1 {
        let text = format!(
            "{} threads per core: half the cores, so two busy vCPUs would share one; \
             `--threads-per-core 2` if the VM is meant to live on sibling threads",
            request.host.threads_per_core()
        );
        rejected.push(reason("smt", text));
    }
    rejected
}

pub(super) fn findings(
    request: &Request,
    want: &Want,
    fit: &Fit,
    missing: Missing,
    topology: &GuestTopology,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(lacking(request, want, missing));
    findings.extend(uneven(request, want, topology));
    findings.extend(threads(request, want));
    findings.extend(hot_add(request, want, topology));
    if want.slots == topology.vcpus {
        findings.extend(memory_only(topology));
    }
    if let Some(asked) = request
        .overrides
        .numa_nodes
        .filter(|&asked| asked as usize > distinct(fit))
    {
        let text = format!(
            "{asked} vNUMA nodes were asked for, {} host nodes back them: some share one",
            distinct(fit)
        );
        findings.push(Finding::warning("numa-nodes-share-host-node", text));
    }
    if request.goal == Goal::Latency {
        findings.push(latency(request.vm.vcpus));
    }
    findings.extend(nested(topology));
    findings.extend(mixed_cores(request));
    findings.extend(unread_keys(request));
    findings
}

fn distinct(fit: &Fit) -> usize {
    let mut ids: Vec<u32> = fit.host_nodes.iter().flatten().copied().collect();
    ids.sort_unstable();
    ids.dedup();
    ids.len()
}

fn lacking(request: &Request, want: &Want, missing: Missing) -> Vec<Finding> {
    let (slots, cores, cpus) = (
        want.slots,
        request.host.cores.len(),
        request.host.cpus.len(),
    );
    let mut findings = Vec::new();
    if slots as usize > cpus {
        findings.push(Finding::error(
            "more-vcpus-than-cpus",
            format!(
                "{slots} vCPUs on a host of {cpus} CPUs: they wait for each other whenever all are busy; \
                 give at most {cores}"
            ),
        ));
    } else if slots as usize > cores {
        findings.push(Finding::warning(
            "more-vcpus-than-cores",
            format!("{slots} vCPUs on a host of {cores} cores: busy ones share a core; give at most {cores}"),
        ));
    }
    if missing.cpus && slots as usize <= cpus {
        let text =
            format!("{slots} vCPUs do not fit the caches and nodes of this host one per core");
        findings.push(Finding::warning("no-even-fit", text));
    }
    if missing.memory {
        findings.push(memory_exceeds_host(request, want));
    }
    if missing.undivided_memory {
        let text = format!(
            "no node has a vNUMA node's share of {}: each vNUMA node is backed by several host nodes; \
             more vCPUs or more vNUMA nodes would divide it",
            gib(want.memory_mib)
        );
        findings.push(Finding::warning("memory-over-several-nodes", text));
    }
    findings
}

fn memory_exceeds_host(request: &Request, want: &Want) -> Finding {
    let what = match want.hugepage_kib {
        Some(kib) => format!("in free hugepages of {}", mib(kib << 10)),
        None => format!("({} in all)", gib(request.host.memory_mib())),
    };
    let text = format!(
        "{} of memory are more than the host's nodes hold {what}; give less or enlarge the pools",
        gib(want.memory_mib)
    );
    Finding::error("memory-exceeds-host", text)
}

/// A host with two kinds of core, and a VM that one kind cannot hold.
fn mixed_cores(request: &Request) -> Option<Finding> {
    let cores = &request.host.cores;
    let fastest = cores.iter().map(|core| core.efficiency).max()?;
    let fast = cores
        .iter()
        .filter(|core| core.efficiency == fastest)
        .count();
    (fast < cores.len() && request.vm.vcpus as usize > fast).then(|| {
        let text = format!(
            "{} vCPUs are more than the {fast} fast cores: some run on slower ones, and the guest expects them alike",
            request.vm.vcpus
        );
        Finding::warning("mixes-core-kinds", text)
    })
}

/// Keys and decisions that only ESXi rules read.
fn unread_keys(request: &Request) -> Option<Finding> {
    let keys = &request.vm.esxi;
    let set = [
        (
            "virtualHW.version",
            keys.hw_version.is_some() || request.overrides.hw_version.is_some(),
        ),
        (
            "numa.vcpu.coresPerNode",
            keys.cores_per_node.is_some_and(|cores| cores > 0),
        ),
        (
            "numa.vcpu.maxPerVirtualNode",
            keys.max_per_virtual_node.is_some(),
        ),
        (
            "numa.vcpu.maxPerMachineNode",
            keys.max_per_machine_node.is_some(),
        ),
        ("numa.vcpu.maxPerClient", keys.max_per_client.is_some()),
        ("numa.vcpu.min", keys.vcpu_min.is_some()),
        (
            "numa.vcpu.followcorespersocket",
            keys.follow_cores_per_socket == Some(true),
        ),
        ("numa.consolidate", keys.consolidate == Some(false)),
        ("numa.nodeAffinity", !keys.node_affinity.is_empty()),
    ];
    let names: Vec<&str> = set
        .iter()
        .filter(|(_, set)| *set)
        .map(|(name, _)| *name)
        .collect();
    (!names.is_empty()).then(|| {
        let text = format!(
            "{} count only under an ESXi rule (`--rule esxi-8.0`)",
            names.join(", ")
        );
        Finding::info("esxi-keys-not-used", text)
    })
}

/// Counts that would fill every LLC and node alike, nearest below and above.
fn uneven(request: &Request, want: &Want, topology: &GuestTopology) -> Option<Finding> {
    let uneven = |sizes: &Vec<usize>| sizes.windows(2).any(|pair| pair[0] != pair[1]);
    let llcs: Vec<usize> = topology.llcs.iter().map(|llc| llc.vcpus.len()).collect();
    let nodes: Vec<usize> = topology
        .numa_nodes
        .iter()
        .map(|node| node.vcpus.len())
        .collect();
    let levels = [("last-level caches", llcs), ("vNUMA nodes", nodes)];
    let (level, sizes) = levels.into_iter().find(|(_, sizes)| uneven(sizes))?;
    if want.slots != request.vm.vcpus {
        return None;
    }
    let fits_evenly = |&vcpus: &u32| {
        let (fit, missing) = super::fit::fit(
            request.host,
            &Want {
                slots: vcpus,
                ..want.clone()
            },
        );
        missing == Missing::default()
            && fit.nodes() * fit.groups * fit.cores * want.threads == vcpus
    };
    let vcpus = request.vm.vcpus;
    let reach = vcpus.min(64);
    let below = (vcpus - reach + 1..vcpus).rev().find(fits_evenly);
    let above = (vcpus + 1..=vcpus + reach).find(fits_evenly);
    let counts: Vec<String> = [below, above]
        .into_iter()
        .flatten()
        .map(|count| count.to_string())
        .collect();
    let advice = if counts.is_empty() {
        String::new()
    } else {
        format!("; {} would fill them evenly", counts.join(" or "))
    };
    let text = format!(
        "{vcpus} vCPUs fill the {level} unevenly ({}){advice}",
        runs(&sizes)
    );
    Some(Finding::info("uneven-vcpus", text))
}

fn threads(request: &Request, want: &Want) -> Option<Finding> {
    let asked = request
        .overrides
        .threads_per_core
        .or(request.vm.esxi.num_smt)?;
    (asked > want.threads).then(|| {
        let text = format!(
            "{asked} threads per core were asked for; {} are shown, because {}",
            want.threads,
            if request.goal == Goal::Latency {
                "the goal is latency: whole cores"
            } else {
                "the host has no more"
            }
        );
        Finding::warning("threads-not-shown", text)
    })
}

fn hot_add(request: &Request, want: &Want, topology: &GuestTopology) -> Option<Finding> {
    let asked = request.overrides.hot_add.or(request.vm.esxi.vcpu_hotadd) == Some(true);
    if want.slots > topology.vcpus {
        let text = format!(
            "{} vCPUs can be added up to {}: they fill caches and nodes in index order, and vNUMA stays on",
            want.slots - topology.vcpus,
            want.slots
        );
        return Some(Finding::info("hot-add-slots", text));
    }
    asked.then(|| {
        let text = "hot-add was asked for, but the VM fills the cores of its nodes: no slot is reserved; \
                    `--max-vcpus` reserves some on further nodes";
        Finding::warning("hot-add-no-room", text)
    })
}

fn memory_only(topology: &GuestTopology) -> Option<Finding> {
    let empty = topology
        .numa_nodes
        .iter()
        .filter(|node| node.vcpus.is_empty())
        .count();
    (empty > 0).then(|| {
        let text = format!("{empty} vNUMA nodes have memory but no present vCPU; a larger vCPU count would use them");
        Finding::warning("vnode-without-vcpus", text)
    })
}

fn latency(vcpus: u32) -> Finding {
    let text = format!(
        "for latency give the VM {vcpus} whole cores of its own and one more for vhost, I/O and emulator threads, keep \
         idle vCPUs polling (halt_poll_ns), and switch interrupt coalescing off on its NIC; that costs the host \
         {} cores whether the VM is busy or not, and their power",
        vcpus + 1
    );
    Finding::info("latency-cost", text)
}

/// A person's cores per socket can put an LLC or node across a boundary.
fn nested(topology: &GuestTopology) -> Option<Finding> {
    let across = topology.llcs.iter().any(|llc| {
        !topology
            .numa_nodes
            .iter()
            .any(|node| llc.vcpus.is_subset(&node.vcpus))
    });
    (across && topology.numa_nodes.len() > 1).then(|| {
        Finding::warning(
            "llc-spans-nodes",
            "a virtual cache spans vNUMA nodes: Linux guests cut it at the node",
        )
    })
}

fn gib(mib: u64) -> String {
    if mib.is_multiple_of(1024) {
        format!("{} GiB", mib / 1024)
    } else {
        format!("{mib} MiB")
    }
}

fn mib(bytes: u64) -> String {
    if bytes >= 1 << 20 {
        format!("{} MiB", bytes >> 20)
    } else {
        format!("{} KiB", bytes >> 10)
    }
}
