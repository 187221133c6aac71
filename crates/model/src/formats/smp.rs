//! What the QEMU and libvirt formats share: QEMU's rule for omitted `-smp` values, which spelling of a topology an
//! emulator version understands, which node a vacant slot belongs to, how two VMs differ.

use std::collections::BTreeMap;

use crate::cpuset::{CpuId, CpuSet, MAX_CPUS};
use crate::finding::Finding;
use crate::guest::{GuestLlc, GuestTopology, Level};
use crate::vm::{Device, Spec};

/// Most vCPUs a reader accepts: the limit of QEMU's `q35` machine (`virsh domcapabilities`, `vcpu max`).
pub(super) const MAX_VCPUS: u32 = 4096;

/// Most vNUMA nodes a reader accepts (`MAX_NODES` in QEMU's `include/sysemu/numa.h`).
pub(super) const MAX_NODES: usize = 128;

/// More sockets of one vCPU than this are called flat; up to here they cost nothing worth a warning.
const FLAT_SOCKETS: u32 = 2;

/// First QEMU major version with `smp-cache` and modules on x86.
pub(super) const SMP_CACHE_SINCE: u32 = 10;

/// Reads the CPU and node sets of one file. A hostile file can write ranges that take far longer to fill than to write,
/// so the members of all sets of a file are counted.
#[derive(Debug)]
pub(super) struct Sets {
    left: u32,
}

impl Default for Sets {
    /// Room for 4096 vCPUs each bound to 1024 host CPUs.
    fn default() -> Self {
        Self { left: 1 << 22 }
    }
}

impl Sets {
    /// Reads `0-3,8`, and libvirt's `0-7,^3`, where later parts win. The error says what is wrong with the text.
    pub(super) fn read(&mut self, text: &str) -> Result<CpuSet, String> {
        let number = |digits: &str| {
            let digits = digits.trim();
            let value = digits.parse().ok().filter(|&value: &u32| value < MAX_CPUS);
            value.ok_or_else(|| {
                let shown: String = digits.chars().take(20).collect();
                format!("{shown:?} is no number below {MAX_CPUS}; write a set as \"0-3,8\"")
            })
        };
        let mut set = CpuSet::new();
        if text.trim().is_empty() {
            return Ok(set);
        }
        for part in text.split(',') {
            let part = part.trim();
            let (range, exclude) = part
                .strip_prefix('^')
                .map_or((part, false), |rest| (rest, true));
            let (first, last) = match range.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(range)?, number(range)?),
            };
            let count = (last + 1)
                .checked_sub(first)
                .ok_or_else(|| format!("{range} runs backwards"))?;
            self.left = self
                .left
                .checked_sub(count)
                .ok_or("the sets of the file have too many members")?;
            for cpu in (first..=last).map(CpuId) {
                if exclude {
                    set.remove(cpu);
                } else {
                    set.insert(cpu);
                }
            }
        }
        Ok(set)
    }
}

/// The values of `-smp` and of `-machine smp.*`, as far as they are given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Smp {
    cpus: Option<u32>,
    sockets: Option<u32>,
    dies: Option<u32>,
    clusters: Option<u32>,
    modules: Option<u32>,
    cores: Option<u32>,
    threads: Option<u32>,
    maxcpus: Option<u32>,
}

impl Smp {
    /// Keys that [`set`](Self::set) knows.
    pub(super) const KEYS: [&'static str; 8] = [
        "cpus", "sockets", "dies", "clusters", "modules", "cores", "threads", "maxcpus",
    ];

    /// Sets a value by its QEMU name; `None` when there is no such key or the number is 0 or above [`MAX_VCPUS`].
    pub(super) fn set(&mut self, key: &str, value: u64) -> Option<()> {
        let value = u32::try_from(value)
            .ok()
            .filter(|value| (1..=MAX_VCPUS).contains(value))?;
        let place = match key {
            "cpus" => &mut self.cpus,
            "sockets" => &mut self.sockets,
            "dies" => &mut self.dies,
            "clusters" => &mut self.clusters,
            "modules" => &mut self.modules,
            "cores" => &mut self.cores,
            "threads" => &mut self.threads,
            "maxcpus" => &mut self.maxcpus,
            _ => return None,
        };
        *place = Some(value);
        Some(())
    }

    /// Whether nothing is given.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Fills what is omitted as QEMU does (`machine_parse_smp_config` in `hw/core/machine-smp.c`): cores before
    /// sockets before threads, or sockets first on machine types before 6.2. Clusters, which x86 does not have, count
    /// as modules. The result need not hold together: `-smp 10,sockets=4` is 4 sockets of 2 cores for 10 vCPUs.
    pub(super) fn resolve(&self, prefer_sockets: bool) -> GuestTopology {
        let modules = self.modules.unwrap_or(1) * self.clusters.unwrap_or(1);
        let dies = self.dies.unwrap_or(1);
        let given = [self.sockets, self.cores, self.threads];
        let slots = self.maxcpus.or(self.cpus);
        // What one omitted level must hold so that the product is the number of slots.
        let rest = |others: [Option<u32>; 2]| {
            let others = others.map(|level| u64::from(level.unwrap_or(1)));
            let product = u64::from(dies) * u64::from(modules) * others[0] * others[1];
            slots.map_or(1, |slots| {
                u32::try_from(u64::from(slots) / product).unwrap_or(0)
            })
        };
        let [sockets, cores, threads] = match given {
            [None, cores, threads] if prefer_sockets || cores.is_some() => [
                rest([cores, threads]),
                cores.unwrap_or(1),
                threads.unwrap_or(1),
            ],
            [sockets, None, threads] => [
                sockets.unwrap_or(1),
                rest([sockets, threads]),
                threads.unwrap_or(1),
            ],
            [sockets, cores, None] => [
                sockets.unwrap_or(1),
                cores.unwrap_or(1),
                rest([sockets, cores]),
            ],
            [sockets, cores, threads] => [sockets, cores, threads].map(|level| level.unwrap_or(1)),
        };
        let mut topology = GuestTopology::uniform(1, [sockets, dies, modules, cores, threads]);
        let slots = self.maxcpus.unwrap_or_else(|| topology.maxcpus());
        topology.vcpus = self.cpus.unwrap_or(slots).clamp(1, MAX_VCPUS);
        topology
    }

    /// Present vCPUs, when they are given.
    pub(super) fn cpus(&self) -> Option<u32> {
        self.cpus
    }

    /// `maxcpus`, when it is given.
    pub(super) fn maxcpus(&self) -> Option<u32> {
        self.maxcpus
    }

    /// vCPU slots beyond the present ones, when the text reserves some.
    pub(super) fn max_vcpus(&self) -> Option<u32> {
        self.maxcpus
            .filter(|&max| self.cpus.is_some_and(|cpus| max > cpus))
    }
}

/// How a topology is written for an emulator version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spelling {
    /// `[sockets, dies, modules, cores, threads]`.
    pub(super) levels: [u32; 5],
    /// The level whose objects are the LLCs, when the topology states LLCs that can be said; without `smp-cache` always
    /// the die, where QEMU puts L3 by default.
    pub(super) llc: Option<Level>,
    /// Whether the version has `smp-cache` and modules.
    pub(super) modern: bool,
    /// What could not be said as it is.
    pub(super) findings: Vec<Finding>,
}

impl Spelling {
    /// Spells a topology. LLC sharing is the contract: where a version has dies only (QEMU before 10), dies are made to
    /// be the LLCs and what they stood for is reported.
    pub(super) fn new(topology: &GuestTopology, qemu_major: u32) -> Self {
        let mut findings = Vec::new();
        let llc = topology.llc_level();
        if llc.is_none() && !topology.llcs.is_empty() {
            findings.push(Finding::warning(
                "lost-llc",
                "no level of the topology has the stated LLCs as its objects, so QEMU cannot show them; \
                 the guest sees one L3 per die: choose dies or modules that match the LLCs",
            ));
        }
        let levels = [
            topology.sockets,
            topology.dies,
            topology.modules,
            topology.cores,
            topology.threads,
        ];
        if qemu_major >= SMP_CACHE_SINCE {
            return Self {
                levels,
                llc,
                modern: true,
                findings,
            };
        }
        let dies_only = with_dies_only(levels, llc, topology);
        findings.extend(dies_only_findings(levels, dies_only, qemu_major));
        Self {
            levels: dies_only,
            llc: llc.map(|_| Level::Die),
            modern: false,
            findings,
        }
    }

    /// Whether the guest's L3 is smaller than a socket, so that it needs a CPU that can say so.
    pub(super) fn llc_inside_socket(&self) -> bool {
        self.llc.is_some_and(|level| level != Level::Socket)
            && self.levels[1..4].iter().any(|&level| level > 1)
    }

    /// Whether QEMU's default (L3 per die) is not what the topology states, so that `smp-cache` is needed.
    pub(super) fn needs_smp_cache(&self, topology: &GuestTopology) -> Option<Level> {
        let level = self.llc?;
        let same = topology.slots_in(level) == topology.slots_in(Level::Die);
        (level != Level::Die && !same).then_some(level)
    }

    /// Whether APIC ids pass 254, beyond which interrupts need an IOMMU with extended mode. Each level takes whole bits
    /// of the id (`include/hw/i386/topology.h`).
    pub(super) fn needs_extended_apic_ids(&self) -> bool {
        let ids = self
            .levels
            .iter()
            .rev()
            .fold((0u64, 1u64), |(last, size), &level| {
                let level = u64::from(level.max(1));
                let more = (level - 1).saturating_mul(size);
                (
                    last.saturating_add(more),
                    size.saturating_mul(level.next_power_of_two()),
                )
            });
        ids.0 > 254
    }
}

fn with_dies_only(
    [sockets, dies, modules, cores, threads]: [u32; 5],
    llc: Option<Level>,
    topology: &GuestTopology,
) -> [u32; 5] {
    let inside = |level| topology.slots_in(level) / threads.max(1);
    let (dies, cores) = match llc {
        Some(Level::Socket) => (1, inside(Level::Socket)),
        Some(Level::Module) => (dies.saturating_mul(modules), cores),
        Some(Level::Core) => (inside(Level::Socket), 1),
        Some(Level::Die | Level::Thread) | None => (dies, modules.saturating_mul(cores)),
    };
    [sockets, dies, 1, cores, threads]
}

fn dies_only_findings(from: [u32; 5], to: [u32; 5], qemu_major: u32) -> Option<Finding> {
    let [_, dies, modules, ..] = from;
    if from == to {
        return None;
    }
    let text = format!(
        "QEMU {qemu_major} has neither modules nor smp-cache and puts one L3 in each die: {dies} dies of {modules} \
         modules are written as {} dies of {} cores, so that the LLCs are right; QEMU {SMP_CACHE_SINCE} can say both",
        to[1], to[3]
    );
    let code = if modules > 1 {
        "lost-modules"
    } else {
        "lost-smp-cache"
    };
    Some(Finding::info(code, text))
}

/// The LLCs of a topology when each object of a level has one.
pub(super) fn llcs_at(topology: &GuestTopology, level: Level, size_bytes: u64) -> Vec<GuestLlc> {
    topology
        .blocks(topology.slots_in(level))
        .into_iter()
        .map(|vcpus| GuestLlc {
            vcpus,
            size_bytes,
            guest_size_bytes: size_bytes,
        })
        .collect()
}

/// All slots, present or not, by vNUMA node: QEMU and libvirt want every slot assigned. A vacant slot belongs to the
/// node of its own die or socket; where nodes divide the slots evenly, to the node whose share it is in.
pub(super) fn slots_by_node(topology: &GuestTopology) -> Vec<CpuSet> {
    let nodes = &topology.numa_nodes;
    let mut slots: Vec<CpuSet> = nodes.iter().map(|node| node.vcpus.clone()).collect();
    let maxcpus = topology.maxcpus().min(MAX_VCPUS);
    let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    if count == 0 {
        return slots;
    }
    let share = maxcpus.div_ceil(count).max(1);
    let even = (0..topology.vcpus.min(maxcpus))
        .all(|vcpu| topology.node_of(CpuId(vcpu)) == Some((vcpu / share) as usize));
    let last = topology
        .vcpus
        .checked_sub(1)
        .and_then(|vcpu| topology.node_of(CpuId(vcpu)));
    for slot in topology.vcpus..maxcpus {
        let node = if even {
            (slot / share) as usize
        } else {
            last.unwrap_or(0)
        };
        slots[node.min(nodes.len() - 1)].insert(CpuId(slot));
    }
    slots
}

/// The keys of `-machine` that state which level shares which cache: the L3 at a level where that must be said, and
/// what `others` say about other caches, as long as they are not shared wider than the L3, which QEMU refuses. Of our
/// own accord we state no L1 and L2: QEMU puts them in the core, and no L3 is inside a core.
pub(super) fn smp_cache(
    others: &[(String, String)],
    llc: Option<Level>,
    stated: Option<Level>,
) -> Vec<(String, String)> {
    let fits =
        |level: &str| level_by_name(level).is_none_or(|level| llc.is_none_or(|llc| level >= llc));
    let mut caches: Vec<(&str, &str)> = others
        .iter()
        .map(|(cache, level)| (cache.as_str(), level.as_str()))
        .filter(|(cache, level)| *cache != "l3" && fits(level))
        .collect();
    caches.extend(stated.map(|level| ("l3", level.as_str())));
    let keys = caches
        .iter()
        .enumerate()
        .flat_map(|(index, (cache, level))| {
            let key = |part| format!("smp-cache.{index}.{part}");
            [
                (key("cache"), (*cache).to_owned()),
                (key("topology"), (*level).to_owned()),
            ]
        });
    keys.collect()
}

/// Whether two topologies have the same vCPUs in the same levels.
pub(super) fn same_slots(one: &GuestTopology, other: &GuestTopology) -> bool {
    let levels = |of: &GuestTopology| {
        [
            of.vcpus, of.sockets, of.dies, of.modules, of.cores, of.threads,
        ]
    };
    levels(one) == levels(other)
}

/// Whether two topologies state the same LLCs, whatever their sizes, which no format can say.
pub(super) fn same_llcs(one: &GuestTopology, other: &GuestTopology) -> bool {
    let vcpus = |of: &GuestTopology| {
        of.llcs
            .iter()
            .map(|llc| llc.vcpus.clone())
            .collect::<Vec<_>>()
    };
    vcpus(one) == vcpus(other)
}

/// Memory of the guest in MiB: what its vNUMA nodes have together, since QEMU wants both to agree.
pub(super) fn memory_mib(spec: &Spec) -> u64 {
    let nodes = spec.topology.as_ref().map_or(0, GuestTopology::memory_mib);
    if nodes > 0 { nodes } else { spec.memory_mib }
}

/// What is wrong with a VM that is to be written: parts of its topology that do not fit each other or the rest.
pub(super) fn problems(spec: &Spec) -> Vec<Finding> {
    let Some(topology) = &spec.topology else {
        return Vec::new();
    };
    let mut findings: Vec<Finding> = topology
        .check()
        .into_iter()
        .map(|text| Finding::error("topology-broken", format!("{text}; the VM will not start")))
        .collect();
    let nodes = topology.memory_mib();
    if nodes > 0 && nodes != spec.memory_mib {
        let text = format!(
            "the vNUMA nodes have {nodes} MiB, the VM {} MiB; the sum of the nodes is written",
            spec.memory_mib
        );
        findings.push(Finding::warning("memory-mismatch", text));
    }
    if !topology.distances.is_empty() && slit(topology, 0, 0).is_none() {
        let text = "the distance table does not fit the vNUMA nodes; the guest sees 10 and 20";
        findings.push(Finding::warning("lost-distances", text));
    }
    findings
}

/// What is wrong with a topology as a file states it; `maxcpus` is the number of slots where that is stated too.
pub(super) fn topology_findings(topology: &GuestTopology, maxcpus: Option<u32>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let [vcpus, slots] = [topology.vcpus, topology.maxcpus()];
    let stated = maxcpus.unwrap_or(vcpus);
    if slots != stated {
        let text = format!(
            "{} sockets x {} dies x {} modules x {} cores x {} threads are {slots} vCPUs, but {stated} are asked for; \
             the VM will not start: make both agree",
            topology.sockets, topology.dies, topology.modules, topology.cores, topology.threads
        );
        findings.push(Finding::error("topology-mismatch", text));
    }
    if topology.sockets > FLAT_SOCKETS && topology.sockets == slots {
        let text = format!(
            "{slots} sockets of one vCPU: the guest sees no shared cache and searches for idle CPUs one by one, and some \
             guests and licences count sockets; use cores instead"
        );
        findings.push(Finding::warning("flat-topology", text));
    }
    let spanning = |llc: &&GuestLlc| {
        let nodes = topology
            .numa_nodes
            .iter()
            .filter(|node| node.vcpus.intersects(&llc.vcpus));
        nodes.count() > 1
    };
    if let Some(llc) = topology.llcs.iter().find(spanning) {
        let text = format!(
            "the last-level cache of vCPUs {} spans NUMA nodes; no machine has that, and the guest's scheduler drops one \
             of the two: make dies or sockets that fit the nodes",
            llc.vcpus
        );
        findings.push(Finding::warning("llc-spans-nodes", text));
    }
    findings
}

/// vCPUs that more than one NUMA node claims, in the order of the nodes' sets.
pub(super) fn overlap<'a>(nodes: impl Iterator<Item = &'a CpuSet>) -> Option<Finding> {
    let (mut all, mut twice) = (CpuSet::new(), CpuSet::new());
    for node in nodes {
        twice = twice.union(&all.intersection(node));
        all = all.union(node);
    }
    let text = format!("vCPUs {twice} are in more than one NUMA node; the VM will not start");
    (!twice.is_empty()).then(|| Finding::error("numa-overlap", text))
}

/// Findings about devices that an edit leaves where they are, though the VM wants them on another vNUMA node: moving a
/// device changes its guest address, which a running guest's configuration may depend on.
pub(super) fn unmoved_devices(wanted: &Spec, file: &Spec) -> Vec<Finding> {
    let name = |device: &Device| (device.address.clone(), device.name.clone());
    let at: BTreeMap<_, _> = file
        .devices
        .iter()
        .map(|device| (name(device), device.guest_node))
        .collect();
    let moved = wanted.devices.iter().filter_map(|device| {
        let node = device.guest_node?;
        (at.get(&name(device)) != Some(&Some(node))).then_some((device, node))
    });
    moved
        .map(|(device, node)| {
            let text = format!(
                "device {} belongs on vNUMA node {node}; an edit does not move devices: put it behind an expander \
                 bridge of that node, or write a new file",
                device.name
            );
            Finding::warning("lost-device-node", text)
        })
        .collect()
}

/// A level by QEMU's name.
pub(super) fn level_by_name(name: &str) -> Option<Level> {
    [Level::Socket, Level::Die, Level::Module, Level::Core]
        .into_iter()
        .find(|level| level.as_str() == name)
}

/// The distance from one vNUMA node to another as SLIT can hold it: 10 to itself, 11 to 254 otherwise; `None` when the
/// topology states no (complete) table.
pub(super) fn slit(topology: &GuestTopology, from: usize, to: usize) -> Option<u32> {
    let distances = &topology.distances;
    let nodes = topology.numa_nodes.len();
    if distances.len() != nodes || distances.iter().any(|row| row.len() != nodes) {
        return None;
    }
    let stated = *distances.get(from)?.get(to)?;
    Some(if from == to {
        10
    } else {
        stated.clamp(11, 254)
    })
}

#[cfg(test)]
pub(super) mod tests;
