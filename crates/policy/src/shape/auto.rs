//! vtopo's own rule: show the guest the caches and nodes it will really run on.
//!
//! **Problem.** ESXi 8 shows a guest one socket per vNUMA node and the size of one LLC. On hosts with many LLCs that is
//! half the truth: a 16-vCPU guest on 4-core LLCs believes that 16 vCPUs share 16 MiB. And ESXi looks at vCPUs only: a VM
//! whose memory is larger than a node keeps one node and a third of its accesses go remote (reference section 2.2).
//!
//! **Approach.** The fewest host nodes that hold both the vCPUs (one per core) and the memory; in each node the fewest
//! LLCs; then sockets = host packages, vNUMA nodes = host nodes, dies = LLCs, so that the guest's scheduler domains nest
//! as the host's do.
//!
//! **Terminology.** A *slot* is a place for a vCPU; QEMU's hierarchy is uniform, so 13 vCPUs on 4-core LLCs are 13 of 16
//! slots, filled in index order.
//!
//! **Algorithm.**
//! ```text
//! threads  = 1, or the host's when asked for or when there are more vCPUs than cores
//! for n = 1, 2, ... host nodes:                     fewest nodes first
//!     choose n nodes that hold ceil(vCPUs / n) vCPUs and memory / n each, in as few packages as can be
//!     for g = 1, 2, ... LLCs of a node:             fewest LLCs first
//!         for c = ceil(vCPUs / n / g) ...:          the most even filling first
//!             if the slots filled in order fit the LLCs: done
//! ```
//!
//! **Properties.** No virtual LLC spans vNUMA nodes or holds more vCPUs than its host LLC has cores (threads when SMT is
//! shown); a larger host node never gives more vNUMA nodes; the answer does not depend on anything but the request.

mod explain;
mod fit;

use model::host::NodeId;
use model::{Finding, GuestCpu, GuestLlc, GuestNode, GuestTopology, Host, Reason};

use super::{Goal, Refusal, Request, Shape, flat, limits};
use fit::{Fit, Want};

/// Shapes a VM by vtopo's own rule.
///
/// # Errors
/// An override that no guest can have: cores per socket that do not divide the vCPUs, more vNUMA nodes than vCPUs.
pub fn shape(request: &Request) -> Result<Shape, Refusal> {
    if request.goal == Goal::SingleFlow {
        let mut shape = flat::shape(request);
        shape.reasons.insert(0, explain::single_flow());
        return Ok(shape);
    }
    check_overrides(request)?;
    let want = want(request);
    let (fit, missing) = fit::fit(request.host, &want);
    let topology = match request.overrides.cores_per_socket {
        Some(cores) if cores > 0 => with_cores_per_socket(request, &want, &fit, cores),
        _ => with_packages(request, &want, &fit),
    };
    let (device_nodes, device_findings) = place_devices(request, &topology);
    let mut shape = Shape {
        reasons: explain::reasons(request, &want, &fit, &topology),
        rejected: explain::rejected(request, &want, &fit, &topology),
        findings: explain::findings(request, &want, &fit, missing, &topology),
        topology,
        numa_clients: Vec::new(),
        device_nodes,
        cpu: GuestCpu::Unstated,
        hugepage_kib: request.vm.hugepage_kib,
    };
    shape.findings.extend(device_findings);
    Ok(shape)
}

fn check_overrides(request: &Request) -> Result<(), Refusal> {
    let (vcpus, overrides) = (request.vm.vcpus, &request.overrides);
    if let Some(nodes) = overrides
        .numa_nodes
        .filter(|&nodes| nodes == 0 || nodes > vcpus)
    {
        let text =
            format!("{nodes} vNUMA nodes were asked for {vcpus} vCPUs; give between 1 and {vcpus}");
        return Err(Refusal {
            code: "numa-nodes-out-of-range",
            text,
        });
    }
    let threads = overrides.threads_per_core.unwrap_or(1);
    if threads == 0 || !vcpus.is_multiple_of(threads) {
        let text = format!("{threads} threads per core do not divide {vcpus} vCPUs");
        return Err(Refusal {
            code: "threads-indivisible",
            text,
        });
    }
    if let Some(cores) = overrides.cores_per_socket.filter(|&cores| cores > 0)
        && !vcpus.is_multiple_of(cores.saturating_mul(threads))
    {
        let text = format!(
            "{cores} cores per socket do not divide {vcpus} vCPUs{}; give a divisor or leave it out",
            if threads > 1 {
                format!(" of {threads} threads per core")
            } else {
                String::new()
            }
        );
        return Err(Refusal {
            code: "cores-per-socket-indivisible",
            text,
        });
    }
    Ok(())
}

/// What has to be fitted: slots, memory and threads after the person's decisions.
fn want(request: &Request) -> Want {
    let (vm, overrides) = (request.vm, &request.overrides);
    let threads = threads(request);
    let want = Want {
        slots: vm.vcpus,
        memory_mib: vm.memory_mib,
        threads,
        whole_host: vm.vcpus > cores(request.host),
        nodes: overrides.numa_nodes,
        hugepage_kib: vm.hugepage_kib,
        near: device_host_nodes(request),
    };
    let hot_add = overrides.hot_add.or(vm.esxi.vcpu_hotadd).unwrap_or(false);
    let slots = match overrides.max_vcpus.or(vm.max_vcpus) {
        Some(max) => max.max(vm.vcpus),
        // Nobody said how many: twice as many, as far as the nodes that the VM needs anyway have cores for them.
        None if hot_add => {
            let (fit, _) = fit::fit(request.host, &want);
            let room = fit.nodes() * fit.node_cores * threads;
            vm.vcpus.saturating_mul(2).min(room).max(vm.vcpus)
        }
        None => vm.vcpus,
    };
    Want { slots, ..want }
}

/// Threads per core that are used and shown: siblings only when asked for, or when there are not enough cores.
fn threads(request: &Request) -> u32 {
    let (vm, host, overrides) = (request.vm, request.host, &request.overrides);
    let has = host.threads_per_core();
    let node = host
        .cpu_nodes()
        .map(|(_, node)| host.cores_in(&node.cpus))
        .max()
        .unwrap_or(0);
    let prefers = overrides.prefer_ht.or(vm.esxi.prefer_ht) == Some(true) && vm.vcpus > node;
    // Cores without siblings (hybrid processors) do not take two vCPUs.
    let with_siblings = host
        .cores
        .iter()
        .filter(|core| core.cpus.len() >= has as usize)
        .count();
    let siblings_suffice = vm.vcpus as usize <= with_siblings * has as usize;
    let asked = overrides.threads_per_core.or(vm.esxi.num_smt).unwrap_or(1);
    match request.goal {
        Goal::Latency => 1,
        _ if (vm.vcpus > cores(host) || prefers) && siblings_suffice => has,
        _ => asked.min(has),
    }
}

fn cores(host: &Host) -> u32 {
    u32::try_from(host.cores.len()).unwrap_or(u32::MAX)
}

/// Host nodes (the kernel's numbers) of the VM's passed-through devices.
fn device_host_nodes(request: &Request) -> Vec<u32> {
    request
        .vm
        .devices
        .iter()
        .filter_map(|device| host_node(request.host, &device.address))
        .collect()
}

fn host_node(host: &Host, address: &str) -> Option<u32> {
    let same = |known: &str| known == address || known.strip_prefix("0000:") == Some(address);
    host.devices
        .iter()
        .find(|device| same(&device.address))
        .and_then(|device| device.node)
}

/// Sockets are host packages, dies are LLCs.
fn with_packages(request: &Request, want: &Want, fit: &Fit) -> GuestTopology {
    let n_groups = fit.nodes() * fit.groups;
    let sockets = match limits::max_sockets(&request.limits) {
        Some(most) => fit.packages.min(most.max(1)),
        None => fit.packages,
    };
    let dies = n_groups.div_ceil(sockets);
    let mut topology = GuestTopology::uniform(
        request.vm.vcpus,
        [sockets, dies, 1, fit.cores, want.threads],
    );
    cut(request, fit, &mut topology, fit.cores * want.threads);
    topology
}

/// A person chose the socket size; LLCs are the largest equal parts of it that fit a host LLC.
fn with_cores_per_socket(
    request: &Request,
    want: &Want,
    fit: &Fit,
    per_socket: u32,
) -> GuestTopology {
    let vcpus = request.vm.vcpus;
    let cores = vcpus.div_ceil(want.threads);
    let per_node = cores.div_ceil(fit.nodes());
    let fits = |&part: &u32| {
        per_socket.is_multiple_of(part)
            && part <= fit.largest_llc
            && (fit.nodes() == 1 || per_node.is_multiple_of(part))
    };
    let part = (1..=per_socket).rev().find(fits).unwrap_or(1);
    let shape = [
        cores.div_ceil(per_socket),
        per_socket / part,
        1,
        part,
        want.threads,
    ];
    let mut topology = GuestTopology::uniform(vcpus, shape);
    let groups = Fit {
        groups: per_node.div_ceil(part),
        ..fit.clone()
    };
    cut(request, &groups, &mut topology, part * want.threads);
    topology
}

/// Cuts the slots into LLCs of `group` slots and vNUMA nodes of whole LLCs.
fn cut(request: &Request, fit: &Fit, topology: &mut GuestTopology, group: u32) {
    topology.llcs = topology
        .blocks(group)
        .into_iter()
        .map(|vcpus| GuestLlc {
            vcpus,
            size_bytes: fit.llc_bytes,
            guest_size_bytes: fit.llc_bytes,
        })
        .collect();
    let blocks = topology.blocks(group * fit.groups);
    let shares = split_memory(
        request.vm.memory_mib,
        &weights(topology, fit, group * fit.groups),
    );
    topology.numa_nodes = fit
        .host_nodes
        .iter()
        .zip(shares)
        .enumerate()
        .map(|(index, (host_nodes, memory_mib))| GuestNode {
            vcpus: blocks.get(index).cloned().unwrap_or_default(),
            memory_mib,
            host_nodes: host_nodes.clone(),
        })
        .collect();
    topology.distances = distances(request.host, &topology.numa_nodes);
}

/// The host's distances between the nodes that back the vNUMA nodes; none for one node or where the host does not say.
fn distances(host: &Host, nodes: &[GuestNode]) -> Vec<Vec<u32>> {
    if nodes.len() < 2 || host.distances.is_empty() {
        return Vec::new();
    }
    let backing = |node: &GuestNode| {
        let first = node.host_nodes.first();
        let place = host.nodes.iter().position(|known| Some(&known.id) == first);
        NodeId(u32::try_from(place.unwrap_or(0)).expect("a host has few nodes"))
    };
    let backed: Vec<NodeId> = nodes.iter().map(backing).collect();
    let distance = |from: usize, to: usize| match host.distance(backed[from], backed[to]) {
        _ if from == to => LOCAL,
        // Two guest nodes on one host node: ACPI allows the local distance on the diagonal only.
        near => near.max(LOCAL + 1),
    };
    (0..nodes.len())
        .map(|from| (0..nodes.len()).map(|to| distance(from, to)).collect())
        .collect()
}

/// SLIT distance of a node to itself (ACPI 6.5, section 5.2.17).
const LOCAL: u32 = 10;

/// What each vNUMA node's memory is measured by: its slots, so that every vCPU has the same; all alike where a share
/// would not fit its host node.
fn weights(topology: &GuestTopology, fit: &Fit, per_node: u32) -> Vec<u64> {
    let slots = u64::from(fit.slots);
    let weight = |node: u64| {
        slots
            .saturating_sub(node * u64::from(per_node))
            .min(u64::from(per_node))
    };
    let weights: Vec<u64> = (0..u64::from(fit.nodes())).map(weight).collect();
    let largest = fit.memory_mib.saturating_mul(weights[0]) / slots.max(1);
    let fits = fit.node_memory_mib == 0 || largest <= fit.node_memory_mib;
    if fits && topology.vcpus > 1 {
        weights
    } else {
        vec![1; weights.len()]
    }
}

/// Shares in MiB by weight, the remainder to the first nodes that have any.
fn split_memory(memory_mib: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u64 = weights.iter().sum::<u64>().max(1);
    let mut shares: Vec<u64> = weights
        .iter()
        .map(|weight| memory_mib / sum * weight + memory_mib % sum * weight / sum)
        .collect();
    let mut left = memory_mib - shares.iter().sum::<u64>();
    for (share, _) in shares
        .iter_mut()
        .zip(weights)
        .filter(|(_, weight)| **weight > 0)
    {
        let more = left.min(1);
        *share += more;
        left -= more;
    }
    shares
}

/// The vNUMA node of each device, and what cannot be had.
fn place_devices(
    request: &Request,
    topology: &GuestTopology,
) -> (Vec<(String, u32)>, Vec<Finding>) {
    let (mut placed, mut findings) = (Vec::new(), Vec::new());
    for device in &request.vm.devices {
        let name = &device.name;
        let Some(node) = host_node(request.host, &device.address) else {
            let text = format!(
                "device {name} ({}) is not known on this host: no node is shown for it",
                device.address
            );
            findings.push(Finding::warning("device-unknown", text));
            continue;
        };
        let guest = (0u32..)
            .zip(&topology.numa_nodes)
            .find(|(_, guest)| guest.host_nodes.contains(&node));
        match guest {
            Some((guest, _)) => placed.push((name.clone(), guest)),
            None => findings.push(Finding::warning(
                "device-remote",
                format!(
                    "device {name} ({}) hangs on host node {node}, where the VM has no memory: \
                     its traffic crosses nodes; give the VM a node there with `--numa-nodes`",
                    device.address
                ),
            )),
        }
    }
    (placed, findings)
}

/// One reason, for the short form of an answer.
pub(super) fn reason(code: &'static str, text: String) -> Reason {
    Reason { code, text }
}

#[cfg(test)]
mod tests;
