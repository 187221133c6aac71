//! From a command line to what it describes.

use std::collections::BTreeMap;

use super::super::pci::PciAddress;
use super::super::smp::llcs_at;
use super::super::{ParseError, cpu_model};
use super::options::Options;
use super::parse::{Assignment, CommandLine, Node, Statements, path_hugepage_kib};
use crate::cpuset::{CpuId, CpuSet};
use crate::guest::{GuestLlc, GuestNode, GuestTopology, Level};
use crate::vm::{Device, GuestCpu, Spec};

/// How many bridges lie between a device and its root bus at most; ends loops in a broken file.
const MAX_BRIDGES: usize = 16;

/// Reads a command line; see [`read`](super::read).
pub(super) fn read(text: &str) -> Result<Spec, ParseError> {
    Ok(spec(&CommandLine::parse(text)?.says))
}

/// What the options describe together.
pub(super) fn spec(says: &Statements) -> Spec {
    let topology = topology(says);
    Spec {
        name: says.name.clone(),
        vcpus: topology.as_ref().map_or(1, |topology| topology.vcpus),
        max_vcpus: says.machine.smp.max_vcpus(),
        memory_mib: says.total_memory_bytes() >> 20,
        cpu: guest_cpu(says.cpu.as_ref()),
        hugepage_kib: hugepage_kib(says),
        devices: devices(&says.devices),
        topology,
        ..Spec::default()
    }
}

/// The topology that the options state; `None` when they say nothing about CPUs or nodes.
fn topology(says: &Statements) -> Option<GuestTopology> {
    let machine = &says.machine;
    if machine.smp.is_empty() && machine.caches.is_empty() && says.nodes.is_empty() {
        return None;
    }
    let mut topology = machine.smp.resolve(machine.prefer_sockets);
    topology.llcs = llcs(says, &topology);
    let mut nodes: Vec<&Node> = says.nodes.iter().collect();
    nodes.sort_by_key(|node| node.id);
    let cpus = node_cpus(&nodes, &says.assignments, &topology);
    topology.distances = distances(&nodes, &says.distances);
    topology.numa_nodes = nodes
        .into_iter()
        .zip(cpus)
        .map(|(node, vcpus)| guest_node(says, node, vcpus))
        .collect();
    Some(topology)
}

/// The stated LLCs. `host-cache-info` takes sharing from the host, whatever else is said.
fn llcs(says: &Statements, topology: &GuestTopology) -> Vec<GuestLlc> {
    let cpu = says.cpu.as_ref();
    let hidden = cpu.is_some_and(|cpu| {
        cpu.is_on("host-cache-info") || cpu.value("l3-cache").is_some_and(|value| value == "off")
    });
    let default = cpu
        .is_some_and(|cpu| cpu.is_on("l3-cache"))
        .then_some(Level::Die);
    let size = cpu
        .and_then(|cpu| cpu.value("model"))
        .and_then(cpu_model::llc_size_bytes)
        .unwrap_or(0);
    match says.machine.llc_level().or(default) {
        Some(level) if !hidden => llcs_at(topology, level, size),
        _ => Vec::new(),
    }
}

fn guest_node(says: &Statements, node: &Node, vcpus: CpuSet) -> GuestNode {
    let backend = node.memdev.as_deref().and_then(|id| says.backend(id));
    let bytes = backend
        .map(|backend| backend.size_bytes)
        .or(node.memory_bytes);
    let host_nodes = backend.map(|backend| &backend.host_nodes);
    GuestNode {
        vcpus,
        memory_mib: bytes.unwrap_or(0) >> 20,
        host_nodes: host_nodes
            .into_iter()
            .flat_map(CpuSet::iter)
            .map(|node| node.0)
            .collect(),
    }
}

/// The present vCPUs of each node. What no option assigns goes to the node of its socket, modulo the number of nodes
/// (`x86_get_default_cpu_node_id` in QEMU).
fn node_cpus(nodes: &[&Node], assignments: &[Assignment], topology: &GuestTopology) -> Vec<CpuSet> {
    let present = CpuSet::from_range(0..topology.vcpus);
    let mut cpus: Vec<CpuSet> = nodes
        .iter()
        .map(|node| node.cpus.intersection(&present))
        .collect();
    let per_socket = topology.slots_in(Level::Socket).max(1);
    let mut assigned = cpus.iter().fold(CpuSet::new(), |all, some| all.union(some));
    for vcpu in present.iter().filter(|_| !nodes.is_empty()) {
        if assigned.contains(vcpu) {
            continue;
        }
        let named = assignments
            .iter()
            .find(|assignment| names_slot(assignment, topology, vcpu))
            .and_then(|assignment| nodes.iter().position(|node| node.id == assignment.node));
        let by_socket = (vcpu.0 / per_socket) as usize % nodes.len();
        cpus[named.unwrap_or(by_socket)].insert(vcpu);
        assigned.insert(vcpu);
    }
    cpus
}

/// Whether a `-numa cpu` names the slot of a vCPU; levels it leaves out match any.
fn names_slot(assignment: &Assignment, topology: &GuestTopology, vcpu: CpuId) -> bool {
    let inner = [
        topology.dies,
        topology.modules,
        topology.cores,
        topology.threads,
    ];
    let mut rest = vcpu.0;
    let mut ids = [0; 5];
    for (id, count) in ids[1..].iter_mut().zip(inner).rev() {
        *id = rest % count.max(1);
        rest /= count.max(1);
    }
    ids[0] = rest;
    let agrees =
        |(level, id): (&Option<u64>, u32)| level.is_none_or(|level| level == u64::from(id));
    assignment.levels.iter().zip(ids).all(agrees)
}

/// The distance table; one direction stands for both, as in QEMU. Empty when nothing is stated.
fn distances(nodes: &[&Node], stated: &[[u64; 3]]) -> Vec<Vec<u32>> {
    if stated.is_empty() {
        return Vec::new();
    }
    let stated: BTreeMap<(u64, u64), u64> = stated
        .iter()
        .map(|&[from, to, value]| ((from, to), value))
        .collect();
    let value = |from: u64, to: u64| {
        let default = if from == to { 10 } else { 20 };
        let value = stated.get(&(from, to)).or_else(|| stated.get(&(to, from)));
        value.map_or(default, |&value| u32::try_from(value).unwrap_or(u32::MAX))
    };
    let row = |from: &&Node| nodes.iter().map(|to| value(from.id, to.id)).collect();
    nodes.iter().map(row).collect()
}

fn guest_cpu(cpu: Option<&Options>) -> GuestCpu {
    match cpu.and_then(|cpu| cpu.value("model")) {
        None => GuestCpu::Unstated,
        Some("host") => GuestCpu::Host,
        Some(model) => GuestCpu::Named(model.to_owned()),
    }
}

fn hugepage_kib(says: &Statements) -> Option<u64> {
    let of_nodes = says
        .nodes
        .iter()
        .filter_map(|node| says.backend(node.memdev.as_deref()?));
    let mut backends = of_nodes.chain(says.machine_backend());
    let by_backend = backends.find_map(|backend| backend.hugepage_kib);
    by_backend.or_else(|| says.mem_path.as_deref().and_then(path_hugepage_kib))
}

fn devices(options: &[Options]) -> Vec<Device> {
    let by_id: BTreeMap<&str, &Options> = options
        .iter()
        .filter_map(|device| Some((device.value("id")?, device)))
        .collect();
    let passed_through = options
        .iter()
        .filter(|device| {
            device
                .value("driver")
                .is_some_and(|driver| driver.starts_with("vfio-pci"))
        })
        .enumerate();
    passed_through
        .map(|(index, device)| Device {
            name: device
                .value("id")
                .map_or_else(|| format!("hostdev{index}"), str::to_owned),
            address: device.value("host").map(address).unwrap_or_default(),
            guest_node: guest_node_of(device, &by_id),
        })
        .collect()
}

/// The vNUMA node of the expander bridge above a device, if there is one.
fn guest_node_of(device: &Options, by_id: &BTreeMap<&str, &Options>) -> Option<u32> {
    let mut bus = device.value("bus")?;
    for _ in 0..MAX_BRIDGES {
        let bridge = by_id.get(bus.strip_suffix(".0").unwrap_or(bus))?;
        if let Some(node) = bridge.value("numa_node") {
            return node.parse().ok();
        }
        bus = bridge.value("bus")?;
    }
    None
}

/// A host address in full, or as it stands when it is in no notation we know.
fn address(text: &str) -> String {
    PciAddress::from_linux(text).map_or_else(|| text.to_owned(), |address| address.to_string())
}
