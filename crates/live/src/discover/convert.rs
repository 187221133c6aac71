//! Flattens hwloc's tree into the parts of a host.

use hwlocality::Topology;
use hwlocality::cpu::cpuset::CpuSet as HwlocSet;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::distance::DistancesKind;
use hwlocality::object::types::{CacheType, ObjectType};
use model::cpuset::MAX_CPUS;
use model::host::{Cache, Core, HostDevice, HugepagePool, Node, Parts, Processor, Vendor};
use model::{CpuId, CpuSet};

/// Everything a topology says that a [`model::Host`] holds.
pub(super) fn parts(name: &str, topology: &Topology) -> Parts {
    let cpus: CpuSet = topology
        .objects_with_type(ObjectType::PU)
        .filter_map(TopologyObject::os_index)
        .filter_map(cpu_id)
        .collect();
    let missing = set_of(&topology.complete_cpuset().clone_target()).difference(&cpus);
    let root = topology.root_object();
    // An XML does not say why a CPU is missing; a cgroup in its notes is the likely reason.
    let in_cgroup = text(root, "LinuxCgroup").is_some_and(|group| group != "/");
    let (offline, restricted) = if in_cgroup {
        (CpuSet::new(), missing)
    } else {
        (missing, CpuSet::new())
    };
    let nodes = nodes(topology);
    Parts {
        name: name.to_owned(),
        processor: processor(topology),
        cores: cores(topology),
        dies: spans(topology, ObjectType::Die),
        distances: distances(topology, &nodes),
        packages: spans(topology, ObjectType::Package),
        caches: caches(topology),
        devices: devices(topology),
        latency: None,
        bandwidth: None,
        isolated: CpuSet::new(),
        nodes,
        cpus,
        offline,
        restricted,
    }
}

fn cpu_id(index: usize) -> Option<CpuId> {
    u32::try_from(index)
        .ok()
        .filter(|&index| index < MAX_CPUS)
        .map(CpuId)
}

/// An hwloc set as ours. An infinite set (hwloc can express one) is cut at [`MAX_CPUS`].
fn set_of(set: &HwlocSet) -> CpuSet {
    set.iter_set()
        .map(usize::from)
        .take(MAX_CPUS as usize)
        .map_while(cpu_id)
        .collect()
}

fn cpuset(object: &TopologyObject) -> CpuSet {
    object
        .cpuset()
        .map(|set| set_of(&set.clone_target()))
        .unwrap_or_default()
}

fn spans(topology: &Topology, kind: ObjectType) -> Vec<CpuSet> {
    topology
        .objects_with_type(kind)
        .map(cpuset)
        .filter(|set| !set.is_empty())
        .collect()
}

fn text(object: &TopologyObject, key: &str) -> Option<String> {
    object
        .info(key)
        .map(|value| value.to_string_lossy().trim().to_owned())
        .filter(|value| !value.is_empty())
}

/// The processor as the first package that names it says, or the machine itself (older XML).
fn processor(topology: &Topology) -> Processor {
    let objects = || {
        topology
            .objects_with_type(ObjectType::Package)
            .chain([topology.root_object()])
    };
    let first = |key: &str| objects().find_map(|object| text(object, key));
    let model = first("CPUModel").unwrap_or_default();
    let vendor = match first("CPUVendor").as_deref() {
        Some("AuthenticAMD" | "HygonGenuine") => Vendor::Amd,
        Some("GenuineIntel") => Vendor::Intel,
        _ if model.starts_with("AMD") => Vendor::Amd,
        _ if model.starts_with("Intel") => Vendor::Intel,
        _ => Vendor::Other,
    };
    let number = |key: &str| first(key)?.parse().ok();
    Processor {
        vendor,
        family: number("CPUFamilyNumber"),
        model_number: number("CPUModelNumber"),
        model,
    }
}

fn cores(topology: &Topology) -> Vec<Core> {
    let kinds = core_kinds(topology);
    let efficiency = |cpus: &CpuSet| {
        let rank = kinds
            .iter()
            .position(|kind| kind.intersects(cpus))
            .unwrap_or(0);
        u8::try_from(rank).unwrap_or(u8::MAX)
    };
    spans(topology, ObjectType::Core)
        .into_iter()
        .map(|cpus| Core {
            efficiency: efficiency(&cpus),
            cpus,
        })
        .collect()
}

/// The machine's kinds of core, slowest first. hwloc also makes a kind of every maximum frequency (favoured cores of a
/// server, all of one base frequency); only another core type, capacity or base frequency is another kind to a scheduler.
fn core_kinds(topology: &Topology) -> Vec<CpuSet> {
    let Ok(kinds) = topology.cpu_kinds() else {
        return Vec::new();
    };
    let mut merged: Vec<(String, CpuSet)> = Vec::new();
    for kind in kinds {
        let value = |key: &&str| {
            let info = kind
                .infos
                .iter()
                .find(|info| info.name().to_bytes() == key.as_bytes());
            info.map(|info| info.value().to_string_lossy().into_owned())
        };
        let Some(label) = ["CoreType", "LinuxCapacity", "FrequencyBaseMHz"]
            .iter()
            .find_map(value)
        else {
            return Vec::new();
        };
        let cpus = set_of(&kind.cpuset);
        match merged.iter_mut().find(|(known, _)| *known == label) {
            Some((_, known)) => *known = known.union(&cpus),
            None => merged.push((label, cpus)),
        }
    }
    merged.into_iter().map(|(_, cpus)| cpus).collect()
}

fn nodes(topology: &Topology) -> Vec<Node> {
    let mut nodes: Vec<Node> = topology
        .objects_with_type(ObjectType::NUMANode)
        .filter_map(|object| {
            let Some(ObjectAttributes::NUMANode(attributes)) = object.attributes() else {
                return None;
            };
            // The smallest page is the base page, not a pool: 4 KiB on x86, 64 KiB on POWER.
            let base = attributes
                .page_types()
                .iter()
                .map(|page| page.size().get())
                .min()
                .unwrap_or(0);
            let pools = attributes.page_types().iter().map(|pool| HugepagePool {
                size_kib: pool.size().get() / 1024,
                total: pool.count(),
                free: pool.count(),
            });
            Some(Node {
                id: u32::try_from(object.os_index()?).ok()?,
                cpus: cpuset(object),
                memory_mib: attributes
                    .local_memory()
                    .map_or(0, |bytes| bytes.get() >> 20),
                hugepages: pools
                    .filter(|pool| pool.size_kib > base / 1024 && pool.total > 0)
                    .collect(),
            })
        })
        .collect();
    nodes.sort_by_key(|node| node.id);
    nodes
}

fn caches(topology: &Topology) -> Vec<Cache> {
    let caches = topology.normal_objects().filter_map(|object| {
        let Some(ObjectAttributes::Cache(attributes)) = object.attributes() else {
            return None;
        };
        let kind = match attributes.cache_type() {
            CacheType::Unified => 'u',
            CacheType::Data => 'd',
            CacheType::Instruction => 'i',
            CacheType::Unknown(_) => return None,
        };
        Some(Cache {
            level: u8::try_from(attributes.depth()).ok()?,
            kind,
            size_bytes: attributes.size().map_or(0, std::num::NonZeroU64::get),
            cpus: cpuset(object),
        })
    });
    caches.filter(|cache| !cache.cpus.is_empty()).collect()
}

/// The SLIT by node, when the operating system gave one for all nodes.
fn distances(topology: &Topology, nodes: &[Node]) -> Vec<Vec<u32>> {
    let kind = DistancesKind::FROM_OS | DistancesKind::MEANS_LATENCY;
    let Ok(matrices) = topology.distances_with_type(Some(kind), ObjectType::NUMANode) else {
        return Vec::new();
    };
    let complete = matrices.iter().find_map(|matrix| {
        let ids: Option<Vec<usize>> = matrix.objects().map(|object| object?.os_index()).collect();
        let ids = ids?;
        let place: Option<Vec<usize>> = nodes
            .iter()
            .map(|node| ids.iter().position(|&id| id == node.id as usize))
            .collect();
        let place = place?;
        let values = matrix.distances();
        let value =
            |from: usize, to: usize| u32::try_from(*values.get(from * ids.len() + to)?).ok();
        place
            .iter()
            .map(|&from| place.iter().map(|&to| value(from, to)).collect())
            .collect::<Option<Vec<Vec<u32>>>>()
    });
    complete.unwrap_or_default()
}

fn devices(topology: &Topology) -> Vec<HostDevice> {
    let mut devices: Vec<HostDevice> = topology
        .objects_with_type(ObjectType::PCIDevice)
        .filter_map(|object| {
            let Some(ObjectAttributes::PCIDevice(pci)) = object.attributes() else {
                return None;
            };
            let os_names = object.io_children().filter_map(|child| child.name());
            Some(HostDevice {
                address: format!(
                    "{:04x}:{:02x}:{:02x}.{:x}",
                    pci.domain(),
                    pci.bus_id(),
                    pci.bus_device(),
                    pci.function()
                ),
                class: class_name(pci.class_id()).to_owned(),
                os_names: os_names
                    .map(|name| name.to_string_lossy().into_owned())
                    .collect(),
                node: local_node(topology, object),
            })
        })
        .collect();
    devices.sort_by(|a, b| a.address.cmp(&b.address));
    devices
}

/// The node a device hangs on: the one node local to its first ancestor with CPUs; none when there are several.
fn local_node(topology: &Topology, device: &TopologyObject) -> Option<u32> {
    let ancestor = device.first_non_io_ancestor()?;
    let nodes = ancestor.nodeset()?;
    let mut nodes = nodes.iter_set().map(usize::from);
    let (first, second) = (nodes.next()?, nodes.next());
    if second.is_some() && topology.objects_with_type(ObjectType::NUMANode).len() > 1 {
        return None;
    }
    u32::try_from(first).ok()
}

/// PCI base class and subclass in words (PCI code and ID assignment specification, the classes worth placing for).
fn class_name(class: u16) -> &'static str {
    match class {
        0x0108 => "NVMe",
        0x0200 => "Ethernet",
        0x0207 => "InfiniBand",
        _ => match class >> 8 {
            0x01 => "storage",
            0x02 => "network",
            0x03 => "display",
            0x0b | 0x12 => "accelerator",
            0x0c => "serial bus",
            _ => "other",
        },
    }
}
