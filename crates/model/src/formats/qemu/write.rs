//! From a VM to the arguments of QEMU.

use super::super::cpu_model::Model;
use super::super::passthrough;
use super::super::smp::{Spelling, memory_mib, problems, slit, slots_by_node, smp_cache};
use super::super::{Accelerator, Target};
use super::options::Options;
use crate::cpuset::CpuSet;
use crate::finding::Finding;
use crate::guest::GuestTopology;
use crate::vm::{Device, Spec};

/// A VM as arguments; see [`arguments`](super::arguments).
pub(super) fn arguments(spec: &Spec, target: Target) -> (Vec<String>, Vec<Finding>) {
    let flat = GuestTopology::uniform(spec.vcpus, [1, 1, 1, slots(spec), 1]);
    let topology = spec.topology.as_ref();
    let spelled = Spelling::new(topology.unwrap_or(&flat), target.qemu_major);
    let model = Model::new(&spec.cpu, &spelled, target);
    let mut findings = problems(spec);
    findings.extend(spelled.findings.clone());
    findings.extend(model.findings.clone());
    findings.extend(lost_pins(spec));
    let mut out = Arguments::default();
    if !spec.name.is_empty() {
        let mut name = Options::default();
        name.push("guest", &spec.name);
        name.push("debug-threads", "on");
        out.option("-name", name.to_text());
    }
    out.option("-machine", machine(spec, &spelled, target));
    out.option("-cpu", cpu(&model, &spelled));
    out.option("-m", format!("{}M", memory_mib(spec)));
    let flat_smp = || flat_smp(spec);
    out.option(
        "-smp",
        topology.map_or_else(flat_smp, |topology| smp(topology, &spelled)),
    );
    if spelled.needs_extended_apic_ids() {
        out.option("-device", "intel-iommu,intremap=on,eim=on");
    }
    if let Some(topology) = topology.filter(|topology| !topology.numa_nodes.is_empty()) {
        numa(&mut out, spec, topology, target);
    } else if needs_backend(spec, target) {
        let object = backend("mem", spec, memory_mib(spec), &[], target);
        out.option("-object", object.to_text());
    }
    findings.extend(devices(&mut out, spec));
    (out.words, findings)
}

/// `-smp` with every level spelled.
pub(super) fn smp(topology: &GuestTopology, spelled: &Spelling) -> String {
    let [sockets, dies, modules, cores, threads] = spelled.levels;
    // Older versions do not know the word.
    let modules = if spelled.modern {
        format!("modules={modules},")
    } else {
        String::new()
    };
    format!(
        "{},maxcpus={},sockets={sockets},dies={dies},{modules}cores={cores},threads={threads}",
        topology.vcpus,
        topology.maxcpus()
    )
}

/// `-smp` of a VM without topology: QEMU makes all its slots cores of one socket.
pub(super) fn flat_smp(spec: &Spec) -> String {
    let max = spec.max_vcpus.filter(|&max| max > spec.vcpus);
    let max = max.map(|max| format!(",maxcpus={max}")).unwrap_or_default();
    format!("{}{max}", spec.vcpus)
}

/// A memory backend: preferred memory of one host node, or interleaved over several; never bound, so that a full node
/// slows the guest down instead of keeping it from starting.
pub(super) fn backend(
    id: &str,
    spec: &Spec,
    memory_mib: u64,
    host_nodes: &[u32],
    target: Target,
) -> Options {
    let mut object = match spec.hugepage_kib {
        Some(kib) => {
            let mut object = Options::new("qom-type", "memory-backend-memfd");
            object.push("hugetlb", "on");
            object.push("hugetlbsize", &format!("{kib}k"));
            // Hugepages that are missing at first touch kill the guest: take them all at the start.
            object.push("prealloc", "on");
            object
        }
        None => Options::new("qom-type", "memory-backend-ram"),
    };
    if spec.hugepage_kib.is_none() && target.accelerator == Accelerator::Tcg {
        // Software emulation is for trying a shape, also where there is less memory than the guest has.
        object.push("reserve", "off");
    }
    object.push("id", id);
    object.push("size", &format!("{memory_mib}M"));
    push_host_nodes(&mut object, host_nodes);
    object
}

/// Adds the host nodes and the policy of a backend.
pub(super) fn push_host_nodes(object: &mut Options, host_nodes: &[u32]) {
    for node in host_nodes {
        object.push("host-nodes", &node.to_string());
    }
    match host_nodes {
        [] => {}
        [_] => object.push("policy", "preferred"),
        _ => object.push("policy", "interleave"),
    }
}

/// `-numa node` of one vNUMA node.
pub(super) fn numa_node(index: usize, slots: &CpuSet, memdev: Option<&str>) -> String {
    let mut node = Options::new("kind", "node");
    node.push("nodeid", &index.to_string());
    for range in slots
        .to_string()
        .split(',')
        .filter(|range| !range.is_empty())
    {
        node.push("cpus", range);
    }
    if let Some(id) = memdev {
        node.push("memdev", id);
    }
    node.to_text()
}

/// `-numa dist` for every pair of vNUMA nodes, when the topology states distances.
pub(super) fn numa_distances(topology: &GuestTopology) -> Vec<String> {
    let nodes = topology.numa_nodes.len();
    let pairs = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
    pairs
        .filter(|(from, to)| from != to)
        .filter_map(|(from, to)| {
            Some(format!(
                "dist,src={from},dst={to},val={}",
                slit(topology, from, to)?
            ))
        })
        .collect()
}

/// Arguments, an option and its value at a time.
#[derive(Default)]
struct Arguments {
    words: Vec<String>,
}

impl Arguments {
    fn option(&mut self, name: &str, value: impl Into<String>) {
        self.words.extend([name.to_owned(), value.into()]);
    }
}

fn machine(spec: &Spec, spelled: &Spelling, target: Target) -> String {
    let mut machine = Options::new("type", "q35");
    let kvm = target.accelerator == Accelerator::Kvm;
    machine.push("accel", if kvm { "kvm" } else { "tcg" });
    if kvm && spelled.needs_extended_apic_ids() {
        machine.push("kernel-irqchip", "split");
    }
    let topology = spec.topology.as_ref();
    if topology.is_none_or(|topology| topology.numa_nodes.is_empty()) && needs_backend(spec, target)
    {
        machine.push("memory-backend", "mem");
    }
    for (key, value) in smp_cache(&[], spelled.llc, spelled.llc.filter(|_| spelled.modern)) {
        machine.push(&key, &value);
    }
    machine.to_text()
}

fn cpu(model: &Model, spelled: &Spelling) -> String {
    let mut cpu = Options::new("model", &model.name);
    for (key, value) in &model.properties {
        cpu.push(key, value);
    }
    if spelled.llc.is_some() && !spelled.modern {
        cpu.push("l3-cache", "on");
    }
    cpu.to_text()
}

fn numa(out: &mut Arguments, spec: &Spec, topology: &GuestTopology, target: Target) {
    for (index, (node, slots)) in topology
        .numa_nodes
        .iter()
        .zip(slots_by_node(topology))
        .enumerate()
    {
        let id = format!("mem{index}");
        // QEMU has no backend of size 0; a node without memory is a node without backend.
        let memdev = (node.memory_mib > 0).then_some(id.as_str());
        if memdev.is_some() {
            let object = backend(&id, spec, node.memory_mib, &node.host_nodes, target);
            out.option("-object", object.to_text());
        }
        out.option("-numa", numa_node(index, &slots, memdev));
    }
    for distance in numa_distances(topology) {
        out.option("-numa", distance);
    }
}

/// Passed-through devices, each behind a root port of its own; those with a vNUMA node under an expander bridge that
/// tells the guest so.
fn devices(out: &mut Arguments, spec: &Spec) -> Vec<Finding> {
    let (by_node, findings) = passthrough::by_node(spec);
    let (mut bus_number, mut port) = (passthrough::first_bus(&by_node), 0);
    for (node, devices) in &by_node {
        let mut parent = "pcie.0".to_owned();
        if let Some(node) = node {
            parent = format!("pxb{node}");
            let bridge =
                format!("pxb-pcie,id={parent},bus=pcie.0,bus_nr={bus_number},numa_node={node}");
            out.option("-device", bridge);
            bus_number += 1 + devices.len();
        }
        for (device, address) in devices {
            port += 1;
            let host = address.with_function();
            let id = device_id(device);
            out.option(
                "-device",
                format!("pcie-root-port,id=port{port},bus={parent},chassis={port}"),
            );
            out.option(
                "-device",
                format!("vfio-pci,host={host},bus=port{port}{id}"),
            );
        }
    }
    findings
}

/// `,id=` when QEMU takes the name as one (`id_wellformed` in `util/id.c`); names the reader makes up are none.
fn device_id(device: &Device) -> String {
    let mut chars = device.name.chars();
    let first = chars
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic());
    let rest = chars.all(|char| char.is_ascii_alphanumeric() || "-._".contains(char));
    let taken = ["pxb", "port", "mem"]
        .iter()
        .any(|ours| device.name.starts_with(ours));
    if first && rest && !taken {
        format!(",id={}", device.name)
    } else {
        String::new()
    }
}

/// What a command line cannot say.
fn lost_pins(spec: &Spec) -> Option<Finding> {
    let text = format!(
        "{} vCPUs are pinned; QEMU's command line cannot say it: pin the threads by QMP's thread ids and taskset",
        spec.pins.len()
    );
    (!spec.pins.is_empty()).then(|| Finding::info("lost-pins", text))
}

fn needs_backend(spec: &Spec, target: Target) -> bool {
    spec.hugepage_kib.is_some() || target.accelerator == Accelerator::Tcg
}

fn slots(spec: &Spec) -> u32 {
    spec.max_vcpus.unwrap_or(0).max(spec.vcpus).max(1)
}
