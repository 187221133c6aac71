//! From keys to the topology they state, and from a topology to the keys that state it.

use crate::finding::Finding;
use crate::formats::smp::{MAX_VCPUS, slit};
use crate::guest::{GuestNode, GuestTopology, Level};
use crate::vm::{EsxiKeys, Spec};

use super::HW_VERSION;

/// Fewest vCPUs for which ESXi shows vNUMA, when `numa.vcpu.min` is not set (VMware, "Virtual NUMA Controls").
pub(super) const DEFAULT_VCPU_MIN: u32 = 9;

/// Most vNUMA nodes of a VM (`VirtualMachineConfigOption` of hardware version 20 and later).
const MAX_NODES: usize = 64;

/// The topology the keys state, if they state one.
pub(super) fn implied(keys: &EsxiKeys, vcpus: u32, memory_mib: u64) -> Option<GuestTopology> {
    let stated = keys.cores_per_socket.filter(|&cores| cores > 0)?;
    // With a single vCPU the key has no effect (VMware KB 1010184).
    let per_socket = if vcpus == 1 { 1 } else { stated };
    let threads = keys.num_smt.unwrap_or(1).max(1);
    if !vcpus.is_multiple_of(per_socket) || !per_socket.is_multiple_of(threads) {
        return None;
    }
    let levels = [vcpus / per_socket, 1, 1, per_socket / threads, threads];
    let mut shape = GuestTopology::uniform(vcpus, levels);
    if let Some(size) = node_size(keys, vcpus) {
        shape.numa_nodes = nodes(&shape, size, memory_mib);
    }
    Some(shape)
}

/// vCPUs per vNUMA node, when the keys state it and it leaves more than one node.
pub(super) fn node_size(keys: &EsxiKeys, vcpus: u32) -> Option<u32> {
    let one_node = keys.vcpu_hotadd == Some(true) && keys.allow_hotadd != Some(true);
    if one_node || vcpus < keys.vcpu_min.unwrap_or(DEFAULT_VCPU_MIN) {
        return None;
    }
    let followed = keys.cores_per_socket;
    let resized = keys.autosize == Some(true) || keys.autosize_once == Some(false);
    [
        keys.cores_per_node,
        keys.max_per_virtual_node,
        followed.filter(|_| keys.follow_cores_per_socket == Some(true)),
        keys.autosize_max_per_virtual_node
            .filter(|_| !resized && cookie_fits(keys, vcpus)),
    ]
    .into_iter()
    .flatten()
    .find(|&size| size > 0)
    .filter(|&size| size < vcpus)
}

/// Whether the persisted vNUMA size was made for this number of vCPUs: the cookie is `numvcpus * 10000` and more.
pub(super) fn cookie_fits(keys: &EsxiKeys, vcpus: u32) -> bool {
    keys.autosize_cookie
        .is_none_or(|cookie| cookie / 10_000 == u64::from(vcpus))
}

/// The keys of a VM whose topology wins over what its keys state, with what they cannot say.
pub(super) fn settled(spec: &Spec) -> (EsxiKeys, Vec<Finding>) {
    let (mut keys, mut findings) = (spec.esxi.clone(), Vec::new());
    let wanted = spec.topology.as_ref();
    let shape = wanted.map(|wanted| nearest(spec, wanted, &mut findings));
    let stated = implied(&keys, spec.vcpus, spec.memory_mib);
    let other = shape.filter(|shape| stated.as_ref() != Some(shape));
    if let Some(shape) = &other {
        state(&mut keys, shape);
    }
    if other.is_some() || !cookie_fits(&keys, spec.vcpus) {
        drop_persisted(&mut keys, &mut findings);
    }
    (keys, findings)
}

/// Writes the shape into the keys.
fn state(keys: &mut EsxiKeys, shape: &GuestTopology) {
    let vcpus = shape.vcpus;
    keys.cores_per_socket = Some(shape.slots_in(Level::Socket));
    keys.num_smt = (shape.threads > 1 || keys.num_smt.is_some()).then_some(shape.threads);
    let size = shape.numa_nodes.first().map(vcpu_count);
    let modern = keys.hw_version.unwrap_or(HW_VERSION) >= 20;
    keys.cores_per_node = size.filter(|_| modern);
    keys.max_per_virtual_node = size.filter(|_| !modern);
    if keys.follow_cores_per_socket == Some(true) {
        keys.follow_cores_per_socket = None;
    }
    if size.is_some() && vcpus < keys.vcpu_min.unwrap_or(DEFAULT_VCPU_MIN) {
        keys.vcpu_min = Some(vcpus);
    }
    if size.is_some() && keys.vcpu_hotadd == Some(true) {
        keys.allow_hotadd = Some(true);
    }
}

fn drop_persisted(keys: &mut EsxiKeys, findings: &mut Vec<Finding>) {
    let persisted = keys.autosize_cookie.is_some()
        || keys.autosize_max_per_virtual_node.is_some()
        || keys.cores_per_socket_cookie.is_some();
    keys.autosize_cookie = None;
    keys.autosize_max_per_virtual_node = None;
    keys.cores_per_socket_cookie = None;
    if persisted {
        findings.push(Finding::info(
            "persisted-shape-dropped",
            "the sizes that ESXi kept from an earlier power-on (numa.autosize.*, cpuid.coresPerSocket.cookie) are taken \
             out, since they were made for another shape and would win over this one",
        ));
    }
}

/// The nearest topology that a `.vmx` can state; what it loses goes to the findings.
fn nearest(spec: &Spec, wanted: &GuestTopology, findings: &mut Vec<Finding>) -> GuestTopology {
    let vcpus = spec.vcpus.max(1);
    let threads = threads(wanted, vcpus, findings);
    let per_socket = per_socket(wanted, vcpus, threads, findings);
    let levels = [vcpus / per_socket, 1, 1, per_socket / threads, threads];
    let mut shape = GuestTopology::uniform(vcpus, levels);
    lost_inside_sockets(wanted, findings);
    match even_size(spec, wanted, per_socket) {
        Ok(Some(size)) => {
            shape.numa_nodes = nodes(&shape, size, spec.memory_mib);
            lost_in_nodes(wanted, &shape, findings);
        }
        Ok(None) => lost_in_nodes(wanted, &shape, findings),
        Err(problem) => findings.push(Finding::warning(
            "lost-numa-nodes",
            format!("{problem}; ESXi will size the vNUMA nodes at power-on"),
        )),
    }
    shape
}

fn threads(wanted: &GuestTopology, vcpus: u32, findings: &mut Vec<Finding>) -> u32 {
    let threads = wanted.threads.max(1);
    if threads <= 2 && vcpus.is_multiple_of(threads) {
        return threads;
    }
    findings.push(Finding::warning(
        "lost-threads",
        format!(
            "{threads} threads per core for {vcpus} vCPUs: cpuid.numSMT is 1 or 2 and divides the vCPUs; written as cores"
        ),
    ));
    1
}

/// vCPUs per socket: VMware has no empty slots, so it must divide the vCPUs.
fn per_socket(
    wanted: &GuestTopology,
    vcpus: u32,
    threads: u32,
    findings: &mut Vec<Finding>,
) -> u32 {
    let slots = wanted.slots_in(Level::Socket).max(1);
    if vcpus.is_multiple_of(slots) && slots.is_multiple_of(threads) {
        return slots;
    }
    let per_socket = (1..=slots.min(vcpus).min(MAX_VCPUS))
        .rev()
        .find(|size| vcpus.is_multiple_of(*size) && size.is_multiple_of(threads))
        .unwrap_or(threads);
    let sockets = vcpus / per_socket;
    findings.push(Finding::warning(
        "lost-slots",
        format!(
            "the shape has {} slots in sockets of {slots} for {vcpus} vCPUs; a .vmx has no empty slots and gets {sockets} \
             sockets of {per_socket}; a multiple of {slots} vCPUs would fit",
            wanted.maxcpus()
        ),
    ));
    per_socket
}

fn lost_inside_sockets(wanted: &GuestTopology, findings: &mut Vec<Finding>) {
    let caches = wanted.llcs.len();
    let per_socket = wanted.blocks(wanted.slots_in(Level::Socket));
    if caches > 0
        && !per_socket
            .iter()
            .eq(wanted.llcs.iter().map(|llc| &llc.vcpus))
    {
        findings.push(Finding::warning(
            "lost-llc",
            format!(
                "{caches} LLCs in {} sockets: a .vmx cannot state caches; ESXi chooses the virtual LLC itself",
                wanted.sockets
            ),
        ));
    } else if caches == 0 && wanted.dies.max(wanted.modules) > 1 {
        findings.push(Finding::info(
            "lost-dies",
            "dies and modules are unknown to a .vmx; their cores are counted as the socket's",
        ));
    }
}

/// vCPUs per node when there are several nodes and a `.vmx` can state them; an error says why it cannot.
fn even_size(spec: &Spec, wanted: &GuestTopology, per_socket: u32) -> Result<Option<u32>, String> {
    let count = wanted.numa_nodes.len();
    let (Some(first), true) = (wanted.numa_nodes.first(), count > 1) else {
        return Ok(None);
    };
    if count > MAX_NODES {
        return Err(format!("{count} vNUMA nodes; ESXi has at most {MAX_NODES}"));
    }
    let size = vcpu_count(first);
    let blocks = GuestTopology::uniform(spec.vcpus, [1; 5]).blocks(size);
    let spans = wanted.numa_nodes.iter().map(|node| &node.vcpus);
    if size == 0 || !spec.vcpus.is_multiple_of(size) || !blocks.iter().eq(spans) {
        let sizes: Vec<String> = wanted
            .numa_nodes
            .iter()
            .map(|node| node.vcpus.len().to_string())
            .collect();
        return Err(format!(
            "vNUMA nodes of {} vCPUs: VMware needs equal nodes of consecutive vCPUs",
            sizes.join(" + ")
        ));
    }
    if !size.is_multiple_of(per_socket) && !per_socket.is_multiple_of(size) {
        return Err(format!(
            "vNUMA nodes of {size} vCPUs are neither a multiple nor a divisor of the {per_socket} per socket; \
             ESXi would not power the VM on"
        ));
    }
    let keys = &spec.esxi;
    if keys.vcpu_hotadd == Some(true) && keys.hw_version.is_some_and(|version| version < 20) {
        return Err("CPU hot-add hides vNUMA before hardware version 20".to_owned());
    }
    Ok(Some(size))
}

fn lost_in_nodes(wanted: &GuestTopology, shape: &GuestTopology, findings: &mut Vec<Finding>) {
    let memory = |shape: &GuestTopology| -> Vec<u64> {
        shape
            .numa_nodes
            .iter()
            .map(|node| node.memory_mib)
            .collect()
    };
    let (asked, even) = (memory(wanted), memory(shape));
    let spread = |memory: &[u64]| {
        let (min, max) = (memory.iter().min(), memory.iter().max());
        max.zip(min).map_or(0, |(max, min)| max - min)
    };
    if asked.len() == even.len() && spread(&asked) > 1 {
        findings.push(Finding::warning(
            "lost-node-memory",
            format!("vNUMA nodes of {asked:?} MiB: ESXi splits memory evenly, {even:?} MiB"),
        ));
    }
    if slit(wanted, 0, 0).is_some() {
        findings.push(Finding::info(
            "lost-distances",
            "distances between vNUMA nodes cannot be stated; ESXi shows its own",
        ));
    }
    if wanted
        .numa_nodes
        .iter()
        .any(|node| !node.host_nodes.is_empty())
    {
        findings.push(Finding::info(
            "lost-host-nodes",
            "which host nodes back the memory is not written: ESXi places NUMA clients itself; numa.nodeAffinity would \
             bind the whole VM",
        ));
    }
}

/// Blocks of `size` vCPUs with an equal share of the memory each; the first ones take what is left over.
fn nodes(shape: &GuestTopology, size: u32, memory_mib: u64) -> Vec<GuestNode> {
    let blocks = shape.blocks(size);
    let count = blocks.len() as u64;
    let (each, rest) = (memory_mib / count.max(1), memory_mib % count.max(1));
    (0u64..)
        .zip(blocks)
        .map(|(index, vcpus)| GuestNode {
            vcpus,
            memory_mib: each + u64::from(index < rest),
            host_nodes: Vec::new(),
        })
        .collect()
}

fn vcpu_count(node: &GuestNode) -> u32 {
    u32::try_from(node.vcpus.len()).unwrap_or(u32::MAX)
}
