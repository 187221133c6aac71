//! What an administrator should know about a VM that powers on: VMware's advice, where the VM goes against it.

use model::Finding;
use model::vm::Device;

use super::advise::{Advice, advise};
use super::explain::{blocks, count, length, measure};
use super::places::affinity_findings;
use super::setup::{CoresPerSocket, Kept};
use super::vnuma::SizedBy;
use super::{Decided, hardware};
use crate::shape::Goal;

/// All findings, what costs most first.
pub(super) fn findings(decided: &Decided) -> Vec<Finding> {
    let checks = [
        hot_add_hides_numa,
        memory,
        more_vcpus_than_cores,
        uneven_split,
        affinity_too_narrow,
        kept_size,
        numa_nodes_not_shown,
        cores_per_socket_misfit,
        one_core_on_purpose,
        too_many_sockets,
        hot_add_slots,
        licence_view,
        single_flow,
    ];
    let mut findings: Vec<Finding> = checks
        .into_iter()
        .filter_map(|check| check(decided))
        .collect();
    let affinity = &decided.request.vm.esxi.node_affinity;
    findings.extend(affinity_findings(decided.request.host, affinity));
    findings.extend(decided.setup.ignored.iter().cloned());
    let devices = decided.request.vm.devices.iter();
    findings.extend(devices.filter_map(|device| device_without_node(decided, device)));
    findings
}

/// The vNUMA node a device is shown on: what the VM file says, where the VM can say it. ESXi chooses none by itself.
pub(super) fn device_node(decided: &Decided, device: &Device) -> Option<u32> {
    let nodes = decided.sizing.nodes.len();
    device
        .guest_node
        .filter(|&node| decided.setup.automatic() && (node as usize) < nodes)
}

fn hot_add_hides_numa(decided: &Decided) -> Option<Finding> {
    let (setup, clients) = (decided.setup, decided.sizing.clients.len());
    (decided.sizing.by == SizedBy::HotAdd && clients > 1).then(|| {
        let keep = if setup.automatic() {
            "turn hot-add off, or set numa.allowHotadd"
        } else {
            "turn hot-add off"
        };
        let text = format!(
            "CPU hot-add hides NUMA: {} run on {clients} host nodes, the guest sees one, and its memory is interleaved, \
             so about {} % of accesses are remote; {keep}",
            count(setup.vcpus, "vCPU"),
            100 - 100 / clients
        );
        Finding::warning("hot-add-hides-vnuma", text)
    })
}

/// More NUMA clients than nodes they may run on: they share one, however wide the guest believes itself to be.
fn affinity_too_narrow(decided: &Decided) -> Option<Finding> {
    let (allowed, clients) = (
        decided.request.vm.esxi.node_affinity.len(),
        decided.sizing.clients.len(),
    );
    (allowed > 0 && clients > allowed).then(|| {
        let text = format!(
            "numa.nodeAffinity allows {}, but the VM is {clients} NUMA clients: they share cores and memory there; \
             allow as many nodes, or give fewer vCPUs",
            count(u32::try_from(allowed).unwrap_or(u32::MAX), "node")
        );
        Finding::warning("affinity-too-narrow", text)
    })
}

fn memory(decided: &Decided) -> Option<Finding> {
    let (memory, host) = (decided.setup.memory_mib, decided.request.host);
    if host.memory_mib() == 0 {
        return None;
    }
    if memory > host.memory_mib() {
        let text = format!(
            "the VM has {}, the host {}: ESXi powers it on unless its memory is reserved, and then balloons and swaps",
            gib(memory),
            gib(host.memory_mib())
        );
        return Some(Finding::warning("memory-exceeds-host", text));
    }
    let remote = remote_percent(decided);
    (remote > 0).then(|| {
        let advice = if decided.sizing.clients.len() > 1 {
            "use more vNUMA nodes or less memory"
        } else if decided.setup.automatic() {
            "set cores per socket and NUMA nodes by hand, so that the guest sees the nodes its memory is on"
        } else {
            "set numa.consolidate = FALSE, or take less memory"
        };
        let text = format!(
            "{} do not fit the {} of the host nodes that the VM runs on: expect about {remote} % of it to be remote; {advice}",
            gib(memory),
            gib(decided.places.memory_mib)
        );
        Finding::warning("memory-exceeds-node", text)
    })
}

/// Share of the VM's memory that its host nodes cannot hold, in percent. Denneman measured 32 % where this says 33 (96
/// GB on 64 GB nodes, 2017-10-05), and 31 to 41 % where it says 33 (384 GB on 256 GB, 2022-11-03).
fn remote_percent(decided: &Decided) -> u64 {
    let places = decided.places;
    let mut asked = vec![0_u64; places.nodes.len()];
    for (client, home) in decided
        .clients
        .iter()
        .zip(places.homes(decided.clients.len()))
    {
        asked[home] += client.memory_mib;
    }
    let beyond = asked.iter().zip(&places.nodes);
    let remote: u64 = beyond
        .map(|(asked, node)| asked.saturating_sub(node.memory_mib))
        .sum();
    remote.saturating_mul(100) / decided.setup.memory_mib.max(1)
}

fn more_vcpus_than_cores(decided: &Decided) -> Option<Finding> {
    let (vcpus, cores) = (decided.setup.vcpus, decided.request.host.cores.len());
    (vcpus as usize > cores && decided.setup.threads == 1).then(|| {
        let text = format!(
            "{vcpus} vCPUs on {cores} cores: the VM competes with itself; VMware advises no more vCPUs than cores"
        );
        Finding::warning("more-vcpus-than-cores", text)
    })
}

fn uneven_split(decided: &Decided) -> Option<Finding> {
    let (setup, clients) = (decided.setup, &decided.sizing.clients);
    let sizes = || clients.iter().map(|client| client.end - client.start);
    if clients.len() < 2 || sizes().min() == sizes().max() {
        return None;
    }
    let odd = !setup.vcpus.is_multiple_of(2);
    let better = match advise(decided.request) {
        Advice::Fits {
            sockets,
            cores_per_socket,
        } => {
            format!("{sockets} x {cores_per_socket} cores per socket would be even")
        }
        Advice::SubOptimal { fewer, more } => {
            let fits: Vec<String> = fewer
                .into_iter()
                .chain(more)
                .map(|n| n.to_string())
                .collect();
            format!("{} would be even", fits.join(" or "))
        }
    };
    let text = format!(
        "{} exceed the {} of a host node and split unevenly: {}; {better}",
        count(setup.vcpus, "vCPU"),
        count(decided.capacity, measure(setup)),
        blocks(clients)
    );
    let code = if odd {
        "odd-vcpus-above-node"
    } else {
        "uneven-numa-clients"
    };
    Some(Finding::warning(code, text))
}

fn kept_size(decided: &Decided) -> Option<Finding> {
    let sizing = decided.sizing;
    let kept =
        matches!(decided.setup.kept_node, Kept::Valid(_)) && matches!(sizing.by, SizedBy::Kept(_));
    (kept && sizing.nodes != sizing.fresh).then(|| {
        let text = format!(
            "the vNUMA nodes ({}) were sized on another host, this one would give {}; set numa.autosize.once = FALSE and \
             vmx.reboot.PowerCycle = TRUE to size them again at the next reboot",
            blocks(&sizing.nodes),
            blocks(&sizing.fresh)
        );
        Finding::warning("stale-autosize", text)
    })
}

fn numa_nodes_not_shown(decided: &Decided) -> Option<Finding> {
    let (setup, sizing) = (decided.setup, decided.sizing);
    let node = setup.cores_per_node.or(setup.max_per_virtual_node)?;
    let asked = setup.vcpus.div_ceil(node.max(1));
    let why = match sizing.by {
        SizedBy::HotAdd => "CPU hot-add is on".to_owned(),
        SizedBy::TooSmall => setup.hides_numa_because(),
        _ => return None,
    };
    (asked > 1).then(|| {
        let text = format!(
            "{} were asked for and are not shown: {why}",
            count(asked, "vNUMA node")
        );
        Finding::warning("numa-nodes-not-shown", text)
    })
}

fn cores_per_socket_misfit(decided: &Decided) -> Option<Finding> {
    let (setup, sizing) = (decided.setup, decided.sizing);
    let CoresPerSocket::Manual(cores) = setup.cores else {
        return None;
    };
    let unit = setup.unit();
    let fewest = setup.vcpus.div_ceil(decided.capacity) as usize;
    let (llc_cores, _) = decided.places.llc;
    let why = if unit > decided.capacity && sizing.clients.len() > 1 {
        format!(
            "a socket exceeds the {} of a host node",
            count(decided.capacity, measure(setup))
        )
    } else if setup.consolidate && cores > 1 && sizing.clients.len() > fewest {
        format!(
            "whole sockets take {} NUMA clients, {} would be enough",
            sizing.clients.len(),
            fewest
        )
    } else if sizing.nodes.len() > 1
        && !sizing.node_vcpus.is_multiple_of(unit)
        && !unit.is_multiple_of(sizing.node_vcpus)
    {
        format!(
            "sockets and vNUMA nodes ({}) cut through each other",
            blocks(&sizing.nodes)
        )
    } else if setup.automatic() && cores > llc_cores && !cores.is_multiple_of(llc_cores) {
        format!("it is no multiple of the {llc_cores} cores of a last-level cache")
    } else {
        return None;
    };
    let text = format!(
        "{} per socket fit this host badly: {why}",
        count(cores, "core")
    );
    Some(Finding::warning("cores-per-socket-misfit", text))
}

fn one_core_on_purpose(decided: &Decided) -> Option<Finding> {
    let setup = decided.setup;
    let flat = setup.automatic()
        && setup.cores == CoresPerSocket::Manual(1)
        && setup.vcpus > setup.threads;
    flat.then(|| {
        Finding::info(
            "flat-on-purpose",
            "one core per socket was set although ESXi would choose: right for one latency-bound flow, otherwise leave \
             it to ESXi",
        )
    })
}

fn too_many_sockets(decided: &Decided) -> Option<Finding> {
    let sockets = decided.topology.sockets;
    (sockets > hardware::MAX_SOCKETS).then(|| {
        let text = format!(
            "{sockets} sockets; VMware supports {}: give more cores per socket",
            hardware::MAX_SOCKETS
        );
        Finding::warning("too-many-sockets", text)
    })
}

fn hot_add_slots(decided: &Decided) -> Option<Finding> {
    let (slots, shown) = (decided.setup.slots, decided.topology.maxcpus());
    (shown < slots).then(|| {
        let text = format!(
            "{slots} vCPU slots were asked for, {shown} are there: only whole sockets of {} can be added",
            count(decided.topology.cores_per_socket(), "core")
        );
        Finding::info("hot-add-slots", text)
    })
}

/// A person changed the sockets of a VM whose licences count them.
fn licence_view(decided: &Decided) -> Option<Finding> {
    let request = decided.request;
    let before = request
        .vm
        .esxi
        .cores_per_socket
        .filter(|&cores| cores > 0)?;
    let after = request.overrides.cores_per_socket?;
    let (vcpus, sockets) = (decided.setup.vcpus, decided.topology.sockets);
    let counted = request
        .limits
        .iter()
        .any(|limit| limit.max_sockets.is_some());
    (counted && before != after && vcpus.div_ceil(before) != sockets).then(|| {
        let text = format!(
            "the guest sees {} instead of {}: products licensed or limited by socket count anew",
            count(sockets, "socket"),
            vcpus.div_ceil(before)
        );
        Finding::info("licence-view", text)
    })
}

fn single_flow(decided: &Decided) -> Option<Finding> {
    let wants = decided.request.goal == Goal::SingleFlow;
    (wants && decided.setup.automatic() && decided.topology.cores_per_socket() > 1).then(|| {
        Finding::info(
            "single-flow",
            "ESXi does not know what a VM is for: for one busy flow set one core per socket, or keep a hardware version \
             before 20 (vSphere 8.0 Virtual Topology study)",
        )
    })
}

fn device_without_node(decided: &Decided, device: &Device) -> Option<Finding> {
    let node = device.guest_node?;
    if device_node(decided, device).is_some() {
        return None;
    }
    let why = if decided.setup.automatic() {
        format!(
            "the VM has {}",
            count(length(&decided.sizing.nodes), "vNUMA node")
        )
    } else {
        format!("that needs hardware version {}", hardware::FIRST_AUTOMATIC)
    };
    let text = format!(
        "{} cannot be shown on vNUMA node {node}: {why}",
        device.name
    );
    Some(Finding::warning("device-node", text))
}

/// MiB as GiB where they are whole.
fn gib(mib: u64) -> String {
    if mib.is_multiple_of(1024) {
        format!("{} GiB", mib >> 10)
    } else {
        format!("{mib} MiB")
    }
}
