//! From a VM to a domain XML.

use super::super::cpu_model::Model;
use super::super::passthrough;
use super::super::smp::{Spelling, memory_mib, problems, slit, slots_by_node, smp_cache};
use super::super::{Accelerator, Target, Written};
use super::document::QEMU_NAMESPACE;
use super::xml::{Xml, escaped};
use crate::cpuset::{CpuId, CpuSet};
use crate::finding::Finding;
use crate::guest::{GuestNode, GuestTopology};
use crate::vm::Spec;

/// Writes a domain XML; see [`write`](super::write).
pub(super) fn write(spec: &Spec, target: Target) -> Written {
    let flat = GuestTopology::uniform(spec.vcpus, [slots(spec), 1, 1, 1, 1]);
    let topology = spec.topology.as_ref().unwrap_or(&flat);
    let spelled = Spelling::new(topology, target.qemu_major);
    let model = Model::new(&spec.cpu, &spelled, target);
    let arguments = qemu_arguments(topology, &spelled, &model);
    let mut findings = problems(spec);
    findings.extend(spelled.findings.clone());
    findings.extend(model.findings.clone());
    findings.extend(unsayable(spec, topology));
    let mut xml = Xml::default();
    let kvm = target.accelerator == Accelerator::Kvm;
    let kind = if kvm { "kvm" } else { "qemu" };
    let namespace = match arguments[..] {
        [] => String::new(),
        _ => format!(" xmlns:qemu='{QEMU_NAMESPACE}'"),
    };
    xml.open("domain", &format!(" type='{kind}'{namespace}"));
    xml.text(
        "name",
        "",
        if spec.name.is_empty() {
            "vm"
        } else {
            &spec.name
        },
    );
    metadata(&mut xml, spec);
    xml.text("memory", " unit='KiB'", &kib(memory_mib(spec)));
    memory_backing(&mut xml, spec);
    let vcpus = topology.vcpus;
    let slots = topology.maxcpus();
    let current = if vcpus < slots {
        format!(" current='{vcpus}'")
    } else {
        String::new()
    };
    xml.text(
        "vcpu",
        &format!(" placement='static'{current}"),
        &slots.to_string(),
    );
    cputune(&mut xml, spec);
    numatune(&mut xml, topology);
    xml.open("os", "");
    xml.text("type", " arch='x86_64' machine='q35'", "hvm");
    xml.close("os");
    features(&mut xml, &spelled);
    cpu(&mut xml, spec, &spelled, &model, kvm);
    findings.extend(devices(&mut xml, spec, &spelled));
    if !arguments.is_empty() {
        xml.open("qemu:commandline", "");
        for argument in arguments.iter().flat_map(|(name, value)| [*name, value]) {
            xml.empty("qemu:arg", &format!(" value='{}'", escaped(argument)));
        }
        xml.close("qemu:commandline");
        findings.push(custom_arguments());
    }
    xml.close("domain");
    Written {
        text: xml.into_text(),
        findings,
    }
}

/// What libvirt has no element for, as arguments of QEMU.
fn qemu_arguments(
    topology: &GuestTopology,
    spelled: &Spelling,
    model: &Model,
) -> Vec<(&'static str, String)> {
    let keys = machine_keys(topology, spelled, &[]);
    let parts: Vec<String> = keys
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let machine = (!parts.is_empty()).then(|| ("-machine", parts.join(",")));
    machine.into_iter().chain(globals(model)).collect()
}

/// The keys of `-machine` that libvirt has no element for: QEMU merges repeated `-machine`, so they win over libvirt's
/// own `-smp`. `caches` are what the file says about other caches.
pub(super) fn machine_keys(
    topology: &GuestTopology,
    spelled: &Spelling,
    caches: &[(String, String)],
) -> Vec<(String, String)> {
    let [_, _, modules, cores, _] = spelled.levels;
    let mut keys = Vec::new();
    if modules > 1 {
        keys.push(("smp.modules".to_owned(), modules.to_string()));
        keys.push(("smp.cores".to_owned(), cores.to_string()));
    }
    keys.extend(smp_cache(
        caches,
        spelled.llc,
        spelled.needs_smp_cache(topology),
    ));
    keys
}

/// CPU properties that are no `<feature>`.
pub(super) fn globals(model: &Model) -> Vec<(&'static str, String)> {
    let properties = model.properties.iter().filter(|(key, _)| !is_feature(key));
    properties
        .map(|(key, value)| {
            (
                "-global",
                format!("{}-x86_64-cpu.{key}={value}", model.name),
            )
        })
        .collect()
}

/// Attributes of `<topology>`. libvirt checks their product against `<vcpu>` and knows no modules, so those count as
/// cores here.
pub(super) fn topology_levels(spelled: &Spelling) -> [(&'static str, u32); 5] {
    let [sockets, dies, modules, cores, threads] = spelled.levels;
    let cores = cores.saturating_mul(modules);
    [
        ("sockets", sockets),
        ("dies", dies),
        ("clusters", 1),
        ("cores", cores),
        ("threads", threads),
    ]
}

/// Mode of a `<memnode>`: preferred memory of one host node, or interleaved over several. libvirt takes several for
/// `preferred` only on kernels with `MPOL_PREFERRED_MANY`; `strict` would keep the VM from starting on a full node;
/// `restrictive` works only for all cells and the domain at once.
pub(super) fn memnode_mode(host_nodes: &[u32]) -> &'static str {
    if host_nodes.len() > 1 {
        "interleave"
    } else {
        "preferred"
    }
}

/// Attributes of a `<memnode>`.
pub(super) fn memnode(cell: usize, mode: &str, host_nodes: &[u32]) -> String {
    format!(
        " cellid='{cell}' mode='{mode}' nodeset='{}'",
        nodeset(host_nodes)
    )
}

/// Host nodes as a set for `nodeset`.
pub(super) fn nodeset(host_nodes: &[u32]) -> CpuSet {
    host_nodes.iter().copied().map(CpuId).collect()
}

/// Cells that have memory of their own, as a set for `nodeset`.
pub(super) fn cells_with_memory(topology: &GuestTopology) -> CpuSet {
    let cells = (0..)
        .zip(&topology.numa_nodes)
        .filter(|(_, node)| node.memory_mib > 0);
    cells.map(|(cell, _)| CpuId(cell)).collect()
}

/// Whether a CPU property is a `<feature>` for libvirt.
pub(super) fn is_feature(property: &str) -> bool {
    ["topoext", "x2apic"].contains(&property)
}

/// What a person should know about arguments behind libvirt's back.
pub(super) fn custom_arguments() -> Finding {
    let text = "libvirt has no XML for modules, smp-cache or CPU properties: they are passed by <qemu:commandline>, which \
                marks the running domain as tainted (custom-argv) and is not compared in a live migration";
    Finding::info("custom-argv", text)
}

/// Memory in KiB as text.
pub(super) fn kib(mib: u64) -> String {
    mib.saturating_mul(1024).to_string()
}

fn metadata(xml: &mut Xml, spec: &Spec) {
    let Some(os) = spec.guest_os.as_ref().filter(|os| is_osinfo(os)) else {
        return;
    };
    let namespace = " xmlns:libosinfo='http://libosinfo.org/xmlns/libvirt/domain/1.0'";
    xml.open("metadata", "");
    xml.open("libosinfo:libosinfo", namespace);
    xml.empty("libosinfo:os", &format!(" id='{}'", escaped(os)));
    xml.close("libosinfo:libosinfo");
    xml.close("metadata");
}

pub(super) fn memory_backing(xml: &mut Xml, spec: &Spec) {
    let Some(kib) = spec.hugepage_kib else {
        return;
    };
    let cells = spec
        .topology
        .as_ref()
        .map(cells_with_memory)
        .filter(|cells| !cells.is_empty());
    let nodeset = cells
        .map(|cells| format!(" nodeset='{cells}'"))
        .unwrap_or_default();
    xml.open("memoryBacking", "");
    xml.open("hugepages", "");
    xml.empty("page", &format!(" size='{kib}' unit='KiB'{nodeset}"));
    xml.close("hugepages");
    // Without it libvirt needs a mounted hugetlbfs of that page size.
    xml.empty("source", " type='memfd'");
    xml.close("memoryBacking");
}

pub(super) fn cputune(xml: &mut Xml, spec: &Spec) {
    if spec.pins.is_empty() {
        return;
    }
    xml.open("cputune", "");
    for pin in &spec.pins {
        xml.empty(
            "vcpupin",
            &format!(" vcpu='{}' cpuset='{}'", pin.vcpu, pin.cpus),
        );
    }
    xml.close("cputune");
}

pub(super) fn numatune(xml: &mut Xml, topology: &GuestTopology) {
    let bound = |node: &GuestNode| !node.host_nodes.is_empty();
    if !topology.numa_nodes.iter().any(bound) {
        return;
    }
    xml.open("numatune", "");
    for (cell, node) in topology
        .numa_nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| bound(node))
    {
        let (mode, nodes) = (memnode_mode(&node.host_nodes), nodeset(&node.host_nodes));
        xml.empty(
            "memnode",
            &format!(" cellid='{cell}' mode='{mode}' nodeset='{nodes}'"),
        );
    }
    xml.close("numatune");
}

fn features(xml: &mut Xml, spelled: &Spelling) {
    xml.open("features", "");
    xml.empty("acpi", "");
    xml.empty("apic", "");
    if spelled.needs_extended_apic_ids() {
        xml.empty("ioapic", " driver='qemu'");
    }
    xml.close("features");
}

fn cpu(xml: &mut Xml, spec: &Spec, spelled: &Spelling, model: &Model, kvm: bool) {
    match model.name.as_str() {
        "host" => xml.open(
            "cpu",
            " mode='host-passthrough' check='none' migratable='on'",
        ),
        "max" => xml.open("cpu", " mode='maximum' check='none'"),
        name => {
            // Software emulation lacks features of every model; libvirt would refuse to start.
            let check = if kvm { "partial" } else { "none" };
            xml.open(
                "cpu",
                &format!(" mode='custom' match='exact' check='{check}'"),
            );
            xml.text("model", " fallback='forbid'", name);
        }
    }
    if spec.topology.is_some() {
        let levels = topology_levels(spelled).map(|(name, count)| format!(" {name}='{count}'"));
        xml.empty("topology", &levels.concat());
    }
    if spelled.llc.is_some() {
        xml.empty("cache", " level='3' mode='emulate'");
    }
    for (name, _) in model.properties.iter().filter(|(name, _)| is_feature(name)) {
        xml.empty("feature", &format!(" policy='require' name='{name}'"));
    }
    if let Some(topology) = spec
        .topology
        .as_ref()
        .filter(|topology| !topology.numa_nodes.is_empty())
    {
        xml.open("numa", "");
        for (index, slots) in slots_by_node(topology).iter().enumerate() {
            cell(xml, topology, index, slots, "");
        }
        xml.close("numa");
    }
    xml.close("cpu");
}

/// A cell with its distances; `more` are further attributes.
pub(super) fn cell(
    xml: &mut Xml,
    topology: &GuestTopology,
    index: usize,
    slots: &CpuSet,
    more: &str,
) {
    let cpus = if slots.is_empty() {
        String::new()
    } else {
        format!(" cpus='{slots}'")
    };
    let memory = kib(topology.numa_nodes[index].memory_mib);
    let attributes = format!(" id='{index}'{cpus} memory='{memory}' unit='KiB'{more}");
    if siblings(topology, index).is_empty() {
        xml.empty("cell", &attributes);
        return;
    }
    xml.open("cell", &attributes);
    distances(xml, topology, index);
    xml.close("cell");
}

/// The distances from a cell, when the topology states them.
pub(super) fn distances(xml: &mut Xml, topology: &GuestTopology, from: usize) {
    let siblings = siblings(topology, from);
    if siblings.is_empty() {
        return;
    }
    xml.open("distances", "");
    for sibling in siblings {
        xml.empty("sibling", &sibling);
    }
    xml.close("distances");
}

fn siblings(topology: &GuestTopology, from: usize) -> Vec<String> {
    let cells = 0..topology.numa_nodes.len();
    let sibling = |to| Some(format!(" id='{to}' value='{}'", slit(topology, from, to)?));
    cells.filter_map(sibling).collect()
}

/// Passed-through devices; those with a vNUMA node behind an expander bridge that tells the guest so.
fn devices(xml: &mut Xml, spec: &Spec, spelled: &Spelling) -> Vec<Finding> {
    let (by_node, findings) = passthrough::by_node(spec);
    if by_node.is_empty() && !spelled.needs_extended_apic_ids() {
        xml.empty("devices", "");
        return findings;
    }
    xml.open("devices", "");
    if spelled.needs_extended_apic_ids() {
        xml.open("iommu", " model='intel'");
        xml.empty("driver", " intremap='on' eim='on'");
        xml.close("iommu");
    }
    if by_node.iter().any(|(node, _)| node.is_some()) {
        xml.empty("controller", " type='pci' index='0' model='pcie-root'");
    }
    let (mut bus_number, mut controller) = (passthrough::first_bus(&by_node), 0);
    for (node, devices) in &by_node {
        let Some(node) = node else {
            devices
                .iter()
                .map(|(_, host)| host.numbers())
                .for_each(|host| hostdev(xml, host, None));
            continue;
        };
        controller += 1;
        let expander = controller;
        xml.open(
            "controller",
            &format!(" type='pci' index='{expander}' model='pcie-expander-bus'"),
        );
        xml.open("target", &format!(" busNr='{bus_number}'"));
        xml.text("node", "", &node.to_string());
        xml.close("target");
        xml.close("controller");
        bus_number += 1 + devices.len();
        for (slot, (_, host)) in (0..).zip(devices) {
            controller += 1;
            xml.open(
                "controller",
                &format!(" type='pci' index='{controller}' model='pcie-root-port'"),
            );
            xml.empty("address", &guest_address(expander, slot));
            xml.close("controller");
            hostdev(xml, host.numbers(), Some(controller));
        }
    }
    xml.close("devices");
    findings
}

fn hostdev(xml: &mut Xml, [domain, bus, slot, function]: [u32; 4], port: Option<u32>) {
    xml.open("hostdev", " mode='subsystem' type='pci' managed='yes'");
    xml.open("source", "");
    let host = format!(
        " domain='{domain:#06x}' bus='{bus:#04x}' slot='{slot:#04x}' function='{function:#x}'"
    );
    xml.empty("address", &host);
    xml.close("source");
    if let Some(port) = port {
        xml.empty("address", &guest_address(port, 0));
    }
    xml.close("hostdev");
}

fn guest_address(bus: u32, slot: u32) -> String {
    format!(" type='pci' domain='0x0000' bus='{bus:#04x}' slot='{slot:#04x}' function='0x0'")
}

fn unsayable(spec: &Spec, topology: &GuestTopology) -> Vec<Finding> {
    let mut findings = Vec::new();
    if spec.name.is_empty() {
        findings.push(Finding::info(
            "no-name",
            "the VM has no name; libvirt wants one and gets \"vm\"",
        ));
    }
    if let Some(os) = spec.guest_os.as_ref().filter(|os| !is_osinfo(os)) {
        let text =
            format!("the guest system {os:?} is no libosinfo id; libvirt is not told about it");
        findings.push(Finding::info("lost-guest-os", text));
    }
    if topology.numa_nodes.iter().any(|node| node.memory_mib == 0) {
        let text = "a vNUMA node has no memory; libvirt makes a backend of size 0 for it, which QEMU refuses: give each \
                    node memory";
        findings.push(Finding::error("lost-memoryless-node", text));
    }
    findings
}

fn is_osinfo(os: &str) -> bool {
    os.contains("://")
}

/// vCPU slots of a VM without topology.
pub(super) fn slots(spec: &Spec) -> u32 {
    spec.max_vcpus.unwrap_or(0).max(spec.vcpus).max(1)
}
