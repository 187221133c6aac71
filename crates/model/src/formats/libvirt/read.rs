//! From a domain XML to what it describes.

use std::collections::BTreeMap;

use super::super::pci::PciAddress;
use super::super::qemu::{Machine, Options};
use super::super::smp::{MAX_NODES, MAX_VCPUS, Sets, llcs_at};
use super::super::{ParseError, cpu_model};
use super::document::{
    Node, QEMU_NAMESPACE, child, children, descend, domain, error_at, memory_kib, number_attribute,
    parse, text,
};
use crate::cpuset::CpuSet;
use crate::guest::{GuestLlc, GuestNode, GuestTopology, Level};
use crate::vm::{Device, GuestCpu, Pin, Spec};

/// How many bridges lie between a device and its root bus at most; ends loops in a broken file.
const MAX_BRIDGES: usize = 16;

/// Reads a domain XML; see [`read`](super::read).
pub(super) fn read(text: &str) -> Result<Spec, ParseError> {
    let document = parse(text)?;
    spec(domain(&document)?)
}

/// What a domain describes.
pub(super) fn spec(domain: Node) -> Result<Spec, ParseError> {
    let mut sets = Sets::default();
    let machine = machine(domain)?;
    let topology = topology(domain, &machine, &mut sets)?;
    let vcpus = machine.smp.cpus().unwrap_or(1);
    Ok(Spec {
        name: child(domain, "name")
            .map(text)
            .unwrap_or_default()
            .to_owned(),
        vcpus,
        max_vcpus: machine.smp.max_vcpus(),
        memory_mib: total_memory_kib(domain)? >> 10,
        guest_os: guest_os(domain),
        cpu: guest_cpu(domain),
        hugepage_kib: hugepage_kib(domain)?,
        devices: devices(domain),
        pins: pins(domain, vcpus, &mut sets)?,
        topology,
        ..Spec::default()
    })
}

/// vCPUs and levels as QEMU gets them: from `<vcpu>` and `<topology>`, over which the arguments of
/// `<qemu:commandline>` win. Without `<topology>` libvirt makes every vCPU a socket.
pub(super) fn machine(domain: Node) -> Result<Machine, ParseError> {
    let mut machine = Machine::default();
    let vcpu = child(domain, "vcpu");
    let max = vcpu.map_or(Ok(1), |vcpu| {
        text(vcpu)
            .parse()
            .map_err(|_| error_at(vcpu, "not a number of vCPUs"))
    })?;
    let individual = child(domain, "vcpus").map(|vcpus| {
        children(vcpus, "vcpu")
            .filter(|vcpu| vcpu.attribute("enabled") == Some("yes"))
            .count() as u64
    });
    let current = vcpu.map_or(Ok(None), |vcpu| number_attribute(vcpu, "current"))?;
    let counts = [
        ("maxcpus", max),
        ("cpus", individual.or(current).unwrap_or(max)),
    ];
    let levels = descend(domain, &["cpu", "topology"]);
    let level = |name| levels.map_or(Ok(None), |levels| number_attribute(levels, name));
    let (sockets, other) = if levels.is_some() { (1, 1) } else { (max, 1) };
    let mut values = counts.to_vec();
    for name in ["sockets", "dies", "clusters", "cores", "threads"] {
        let default = if name == "sockets" { sockets } else { other };
        values.push((name, level(name)?.unwrap_or(default)));
    }
    for (name, value) in values {
        machine.smp.set(name, value).ok_or_else(|| {
            let node = levels
                .filter(|_| !name.ends_with("cpus"))
                .or(vcpu)
                .unwrap_or(domain);
            let message = format!("{name} is {value}; QEMU takes 1 to {MAX_VCPUS}");
            ParseError::new(message, node.range())
        })?;
    }
    for (argument, node) in qemu_options(domain) {
        let value = node.attribute("value").unwrap_or_default();
        let read = match argument {
            "smp" => machine.read_smp(&Options::parse(value, "cpus")),
            _ => machine.read_machine(&Options::parse(value, "type")),
        };
        read.map_err(|problem| ParseError::new(format!("-{argument}: {problem}"), node.range()))?;
    }
    Ok(machine)
}

/// The `-machine` and `-smp` among the arguments of `<qemu:commandline>`: which one, and the element of its value.
pub(super) fn qemu_options(domain: Node<'_>) -> Vec<(&'static str, Node<'_>)> {
    let arguments: Vec<Node> = qemu_arguments(domain).collect();
    let pairs = arguments.windows(2).filter_map(|pair| {
        let name = match pair[0].attribute("value")?.trim_start_matches('-') {
            "machine" | "M" => "machine",
            "smp" => "smp",
            _ => return None,
        };
        Some((name, pair[1]))
    });
    pairs.collect()
}

/// The arguments of `<qemu:commandline>`.
pub(super) fn qemu_arguments(domain: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    let command_line = domain
        .children()
        .filter(|child| child.has_tag_name((QEMU_NAMESPACE, "commandline")));
    command_line
        .flat_map(|command_line| command_line.children())
        .filter(|argument| argument.has_tag_name((QEMU_NAMESPACE, "arg")))
}

/// Memory of the domain in KiB: what the cells have together, as libvirt takes it, or `<memory>`.
pub(super) fn total_memory_kib(domain: Node) -> Result<u64, ParseError> {
    let mut cells = 0u64;
    for cell in cells_of(domain) {
        cells = cells.saturating_add(cell_memory_kib(cell)?);
    }
    match child(domain, "memory") {
        Some(memory) if cells == 0 => memory_kib(memory, text(memory)),
        _ => Ok(cells),
    }
}

/// Memory of a cell in KiB.
pub(super) fn cell_memory_kib(cell: Node) -> Result<u64, ParseError> {
    cell.attribute("memory")
        .map_or(Ok(0), |memory| memory_kib(cell, memory))
}

/// The cells in the order of the file.
pub(super) fn cells_of(domain: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    descend(domain, &["cpu", "numa"])
        .into_iter()
        .flat_map(|numa| children(numa, "cell"))
}

/// The cells by id, which is their place where they have none.
///
/// # Errors
/// An id is no number, or there are more than QEMU takes.
pub(super) fn cells_by_id(domain: Node<'_>) -> Result<Vec<(u64, Node<'_>)>, ParseError> {
    let mut cells = Vec::new();
    for (index, cell) in cells_of(domain).enumerate() {
        if index == MAX_NODES {
            let message =
                format!("more than {MAX_NODES} cells; QEMU has at most so many NUMA nodes");
            return Err(ParseError::new(message, cell.range()));
        }
        cells.push((number_attribute(cell, "id")?.unwrap_or(index as u64), cell));
    }
    cells.sort_by_key(|(id, _)| *id);
    Ok(cells)
}

fn topology(
    domain: Node,
    machine: &Machine,
    sets: &mut Sets,
) -> Result<Option<GuestTopology>, ParseError> {
    let cells = cells_by_id(domain)?;
    let levels = descend(domain, &["cpu", "topology"]);
    let says_caches = child(domain, "cpu").is_some_and(|cpu| child(cpu, "cache").is_some());
    let nothing = levels.is_none() && !says_caches && qemu_options(domain).is_empty();
    if nothing && cells.is_empty() {
        return Ok(None);
    }
    let mut topology = machine.smp.resolve(false);
    topology.llcs = llcs(domain, machine, &topology);
    topology.numa_nodes = nodes(domain, &cells, &topology, sets)?;
    topology.distances = distances(&cells)?;
    Ok(Some(topology))
}

/// The stated LLCs: `smp-cache`, or the emulated L3, which QEMU puts in each die. Passed-through and disabled caches
/// say nothing.
fn llcs(domain: Node, machine: &Machine, topology: &GuestTopology) -> Vec<GuestLlc> {
    let cache = descend(domain, &["cpu", "cache"]);
    let mode = cache.and_then(|cache| cache.attribute("mode"));
    let level = machine
        .llc_level()
        .or((mode == Some("emulate")).then_some(Level::Die));
    let size = match guest_cpu(domain) {
        GuestCpu::Unstated => None,
        GuestCpu::Host => cpu_model::llc_size_bytes("host"),
        GuestCpu::Named(name) => cpu_model::llc_size_bytes(&name),
    };
    match level {
        Some(level) if !matches!(mode, Some("passthrough" | "disable")) => {
            llcs_at(topology, level, size.unwrap_or(0))
        }
        _ => Vec::new(),
    }
}

fn nodes(
    domain: Node,
    cells: &[(u64, Node)],
    topology: &GuestTopology,
    sets: &mut Sets,
) -> Result<Vec<GuestNode>, ParseError> {
    let present = CpuSet::from_range(0..topology.vcpus);
    let host_nodes = host_nodes(domain, sets)?;
    let mut nodes = Vec::new();
    for (id, cell) in cells {
        let cpus = match cell.attribute_node("cpus") {
            Some(cpus) => read_set(sets, cpus.value(), cpus.range_value())?,
            None => CpuSet::new(),
        };
        let backing = host_nodes.get(&Some(*id)).or(host_nodes.get(&None));
        nodes.push(GuestNode {
            vcpus: cpus.intersection(&present),
            memory_mib: cell_memory_kib(*cell)? >> 10,
            host_nodes: backing
                .into_iter()
                .flat_map(CpuSet::iter)
                .map(|node| node.0)
                .collect(),
        });
    }
    // libvirt puts what no cell has into the first (`qemuDomainDefNumaCPUsRectify`).
    let assigned = nodes
        .iter()
        .fold(CpuSet::new(), |all, node| all.union(&node.vcpus));
    if let Some(first) = nodes.first_mut() {
        first.vcpus = first.vcpus.union(&present.difference(&assigned));
    }
    Ok(nodes)
}

/// Host nodes by cell; `None` is the domain's own `<memory nodeset=…>`, for cells without an entry.
fn host_nodes(domain: Node, sets: &mut Sets) -> Result<BTreeMap<Option<u64>, CpuSet>, ParseError> {
    let mut by_cell = BTreeMap::new();
    let Some(numatune) = child(domain, "numatune") else {
        return Ok(by_cell);
    };
    for entry in children(numatune, "memory").chain(children(numatune, "memnode")) {
        if let Some(nodeset) = entry.attribute_node("nodeset") {
            let cell = number_attribute(entry, "cellid")?;
            by_cell.insert(
                cell,
                read_set(sets, nodeset.value(), nodeset.range_value())?,
            );
        }
    }
    Ok(by_cell)
}

/// The distance table; empty when no cell states any.
fn distances(cells: &[(u64, Node)]) -> Result<Vec<Vec<u32>>, ParseError> {
    let mut stated = BTreeMap::new();
    for (from, cell) in cells {
        let siblings = child(*cell, "distances")
            .into_iter()
            .flat_map(|all| children(all, "sibling"));
        for sibling in siblings {
            let (to, value) = (
                number_attribute(sibling, "id")?,
                number_attribute(sibling, "value")?,
            );
            if let (Some(to), Some(value)) = (to, value) {
                stated.insert((*from, to), u32::try_from(value).unwrap_or(u32::MAX));
            }
        }
    }
    if stated.is_empty() {
        return Ok(Vec::new());
    }
    let value = |from: u64, to: u64| {
        let value = stated.get(&(from, to)).or_else(|| stated.get(&(to, from)));
        value.copied().unwrap_or(if from == to { 10 } else { 20 })
    };
    let row = |from: u64| cells.iter().map(|(to, _)| value(from, *to)).collect();
    Ok(cells.iter().map(|(from, _)| row(*from)).collect())
}

fn guest_os(domain: Node) -> Option<String> {
    let metadata = child(domain, "metadata")?;
    let os = metadata.descendants().find(|node| {
        node.tag_name().name() == "os"
            && node
                .tag_name()
                .namespace()
                .is_some_and(|namespace| namespace.contains("libosinfo"))
    })?;
    os.attribute("id").map(str::to_owned)
}

pub(super) fn guest_cpu(domain: Node) -> GuestCpu {
    let Some(cpu) = child(domain, "cpu") else {
        return GuestCpu::Unstated;
    };
    match (cpu.attribute("mode"), child(cpu, "model").map(text)) {
        (Some("host-passthrough" | "host-model"), _) => GuestCpu::Host,
        (Some("maximum"), _) => GuestCpu::Named("max".to_owned()),
        (_, Some(model)) if !model.is_empty() => GuestCpu::Named(model.to_owned()),
        _ => GuestCpu::Unstated,
    }
}

/// Size of the hugepages in KiB; x86's default where the element does not say.
fn hugepage_kib(domain: Node) -> Result<Option<u64>, ParseError> {
    let Some(hugepages) = descend(domain, &["memoryBacking", "hugepages"]) else {
        return Ok(None);
    };
    match child(hugepages, "page").and_then(|page| Some((page, page.attribute("size")?))) {
        Some((page, size)) => memory_kib(page, size).map(Some),
        None => Ok(Some(2048)),
    }
}

/// Pins by vCPU; `cpuset` of `<vcpu>` stands for those without one of their own.
fn pins(domain: Node, vcpus: u32, sets: &mut Sets) -> Result<Vec<Pin>, ParseError> {
    let mut pins = BTreeMap::new();
    for pin in child(domain, "cputune")
        .into_iter()
        .flat_map(|tune| children(tune, "vcpupin"))
    {
        let vcpu = number_attribute(pin, "vcpu")?.and_then(|vcpu| u32::try_from(vcpu).ok());
        // libvirt ignores pins of vCPUs that are not there.
        let vcpu = vcpu.filter(|&vcpu| vcpu < MAX_VCPUS);
        if let (Some(vcpu), Some(cpus)) = (vcpu, pin.attribute_node("cpuset")) {
            pins.insert(vcpu, read_set(sets, cpus.value(), cpus.range_value())?);
        }
    }
    if let Some(cpuset) = child(domain, "vcpu").and_then(|vcpu| vcpu.attribute_node("cpuset")) {
        let all = read_set(sets, cpuset.value(), cpuset.range_value())?;
        for vcpu in 0..vcpus {
            pins.entry(vcpu).or_insert_with(|| all.clone());
        }
    }
    Ok(pins
        .into_iter()
        .map(|(vcpu, cpus)| Pin { vcpu, cpus })
        .collect())
}

fn devices(domain: Node) -> Vec<Device> {
    let Some(devices) = child(domain, "devices") else {
        return Vec::new();
    };
    let bridges: BTreeMap<u64, Node> = children(devices, "controller")
        .filter(|controller| controller.attribute("type") == Some("pci"))
        .filter_map(|controller| Some((number_attribute(controller, "index").ok()??, controller)))
        .collect();
    let passed_through = devices
        .children()
        .filter(|device| match device.tag_name().name() {
            "hostdev" => device.attribute("type") == Some("pci"),
            "interface" => device.attribute("type") == Some("hostdev"),
            _ => false,
        });
    passed_through
        .enumerate()
        .map(|(index, device)| {
            let alias = child(device, "alias").and_then(|alias| alias.attribute("name"));
            let source = descend(device, &["source", "address"]);
            Device {
                name: alias.map_or_else(|| format!("hostdev{index}"), str::to_owned),
                address: source.and_then(host_address).unwrap_or_default(),
                guest_node: guest_node(device, &bridges),
            }
        })
        .collect()
}

fn host_address(address: Node) -> Option<String> {
    let part = |name| {
        number_attribute(address, name)
            .ok()
            .map(|part| part.unwrap_or(0))
    };
    let [domain, bus, slot, function] = [
        part("domain")?,
        part("bus")?,
        part("slot")?,
        part("function")?,
    ];
    let text = format!("{domain:04x}:{bus:02x}:{slot:02x}.{function:x}");
    PciAddress::from_linux(&text).map(|address| address.to_string())
}

/// The vNUMA node of the expander bridge above a device, if there is one.
fn guest_node(device: Node, bridges: &BTreeMap<u64, Node>) -> Option<u32> {
    let mut node = device;
    for _ in 0..MAX_BRIDGES {
        let bus = number_attribute(child(node, "address")?, "bus").ok()??;
        node = *bridges.get(&bus)?;
        if let Some(cell) = descend(node, &["target", "node"]) {
            return text(cell).parse().ok();
        }
    }
    None
}

fn read_set(
    sets: &mut Sets,
    value: &str,
    range: std::ops::Range<usize>,
) -> Result<CpuSet, ParseError> {
    sets.read(value)
        .map_err(|problem| ParseError::new(problem, range))
}
