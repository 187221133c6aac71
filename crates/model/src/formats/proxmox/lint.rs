//! What is wrong with a Proxmox VE configuration by itself.

use crate::cpuset::CpuSet;
use crate::finding::Finding;
use crate::formats::ParseError;
use crate::formats::lines::{Settings, lines};
use crate::formats::smp::{MAX_NODES, topology_findings};
use crate::vm::{GuestCpu, Spec};

use super::numa::NumaLine;
use super::{Smp, args, conf, numa, write};

/// Everything that is wrong with a file.
pub(super) fn findings(
    text: &str,
    file: &Settings,
    spec: &Spec,
) -> Result<Vec<Finding>, ParseError> {
    let smp = super::smp(file)?;
    let nodes = numa::lines(file)?;
    let mut findings = form(text, file);
    counts(file, smp, spec, &mut findings);
    if let Some(shape) = &spec.topology {
        let shared = topology_findings(shape, Some(shape.maxcpus())).into_iter();
        // `node_cpus` says the same with the slots that wait for hot-plug.
        findings.extend(shared.filter(|finding| finding.code != "numa-overlap"));
    }
    memory(file, spec, &mut findings);
    numa(file, &nodes, &mut findings);
    if numa::is_on(file) && nodes.is_empty() && smp.sockets as usize > MAX_NODES {
        findings.push(Finding::error(
            "numa-above-limit",
            format!(
                "numa: 1 makes a vNUMA node of each of the {} sockets; QEMU has at most {MAX_NODES}",
                smp.sockets
            ),
        ));
    }
    if numa::is_on(file) && !nodes.is_empty() {
        node_cpus(&nodes, smp, &mut findings);
        node_memory(file, &nodes, spec, &mut findings);
    }
    hugepages(file, &nodes, &mut findings);
    advice(spec, &mut findings);
    Ok(findings)
}

fn form(text: &str, file: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (key, count) in file.repeated() {
        findings.push(Finding::warning(
            "duplicate-key",
            format!(
                "`{key}` occurs {count} times; Proxmox VE takes the last one and drops the others"
            ),
        ));
    }
    if let Some(first) = file.unreadable.first() {
        let line = lines(&text[..first.end]).count();
        findings.push(Finding::warning(
            "unreadable-line",
            format!(
                "line {line} is no `key: value` ({} such lines); Proxmox VE drops it",
                file.unreadable.len()
            ),
        ));
    }
    if let Some(name) = file.text("name").filter(|name| !write::is_dns_name(name)) {
        findings.push(Finding::warning(
            "name-not-dns",
            format!("name {name:?} is no DNS name; Proxmox VE drops it"),
        ));
    }
    findings
}

fn counts(file: &Settings, smp: Smp, spec: &Spec, findings: &mut Vec<Finding>) {
    let Smp {
        sockets,
        cores,
        slots,
        vcpus,
    } = smp;
    if vcpus > slots {
        findings.push(Finding::error(
            "vcpus-above-slots",
            format!("vcpus {vcpus} is more than sockets {sockets} * cores {cores}; QEMU refuses to start"),
        ));
    }
    let Some(args) = file.text("args") else {
        return;
    };
    if !args::is_readable(args) {
        findings.push(Finding::warning(
            "args-unreadable",
            "the quotes in args do not close; Proxmox VE then passes none of it",
        ));
    } else if spec.topology.is_none() && vcpus <= slots {
        findings.push(Finding::error(
            "args-mismatch",
            format!("with args, the levels of -smp no longer multiply to the {slots} slots; QEMU refuses to start"),
        ));
    }
    let plain =
        |shape: &crate::GuestTopology| shape.threads == 1 && shape.dies == 1 && shape.modules == 1;
    let refused = spec.topology.as_ref().is_some_and(|shape| !plain(shape)) && spec.vcpus > 1;
    if refused && args::has_cpu_hotplug(file) {
        findings.push(Finding::error(
            "args-with-cpu-hotplug",
            "hotplug has `cpu`, so Proxmox VE adds each vCPU by socket and core only; QEMU refuses that with the dies, \
             modules or threads of args; take one of them out",
        ));
    }
}

fn memory(file: &Settings, spec: &Spec, findings: &mut Vec<Finding>) {
    let memory = spec.memory_mib;
    if memory < 16 {
        findings.push(Finding::error(
            "memory-too-small",
            format!("memory is {memory} MiB; Proxmox VE needs at least 16"),
        ));
    }
    let balloon: Option<u64> = file.text("balloon").and_then(|text| text.parse().ok());
    if let Some(balloon) = balloon.filter(|&balloon| balloon > memory) {
        findings.push(Finding::warning(
            "balloon-above-memory",
            format!("balloon {balloon} is more than memory {memory}"),
        ));
    }
    if balloon.is_some_and(|balloon| balloon > 0) && spec.hugepage_kib.is_some() {
        findings.push(Finding::warning(
            "balloon-with-hugepages",
            "hugepages are allocated at start and a balloon does not give them back; set balloon: 0",
        ));
    }
}

fn numa(file: &Settings, nodes: &[(u32, NumaLine)], findings: &mut Vec<Finding>) {
    if nodes.is_empty() {
        return;
    }
    if !numa::is_on(file) {
        findings.push(Finding::warning(
            "numa-lines-ignored",
            "numaN lines count only with numa: 1; the guest sees one node",
        ));
        return;
    }
    if args::hotplug(file, "memory") {
        findings.push(Finding::error(
            "numa-with-memory-hotplug",
            "hotplug has `memory`, which Proxmox VE refuses with numaN lines; take one of them out",
        ));
    }
    if let Some((gap, (index, _))) = (0..).zip(nodes).find(|(at, (index, _))| at != index) {
        findings.push(Finding::error(
            "numa-gap",
            format!("numa{index} is there but numa{gap} is not; QEMU refuses to start"),
        ));
    }
    for (index, line) in nodes {
        let key = format!("numa{index}");
        let policy = file
            .text(&key)
            .and_then(|text| conf::property(text, "policy", false));
        if line.slots.is_empty() || line.memory_mib == 0 {
            findings.push(Finding::error(
                "numa-incomplete",
                format!("{key} needs cpus= and memory=; Proxmox VE refuses to start"),
            ));
        }
        match policy {
            None if !line.host_nodes.is_empty() => findings.push(Finding::error(
                "numa-without-policy",
                format!("{key} has hostnodes= without policy=; Proxmox VE refuses to start"),
            )),
            Some("bind") => findings.push(Finding::info(
                "numa-strict",
                format!("{key} binds its memory strictly: the VM does not start, or is killed, when the node is full"),
            )),
            _ => {}
        }
    }
}

fn node_cpus(nodes: &[(u32, NumaLine)], smp: Smp, findings: &mut Vec<Finding>) {
    let slots = CpuSet::from_range(0..smp.slots);
    let mut covered = CpuSet::new();
    for (index, line) in nodes {
        let twice = covered.intersection(&line.slots);
        let beyond = line.slots.difference(&slots);
        if !twice.is_empty() {
            findings.push(Finding::error(
                "numa-cpus-twice",
                format!(
                    "vCPUs {twice} of numa{index} are on another node too; QEMU refuses to start"
                ),
            ));
        }
        if !beyond.is_empty() {
            findings.push(Finding::error(
                "numa-cpus-beyond",
                format!(
                    "numa{index} has vCPUs {beyond}, but there are {} slots; QEMU refuses to start",
                    smp.slots
                ),
            ));
        }
        covered = covered.union(&line.slots);
    }
    let missing = slots.difference(&covered);
    if !missing.is_empty() {
        findings.push(Finding::warning(
            "numa-cpus-missing",
            format!("vCPUs {missing} are on no vNUMA node; QEMU puts them on node 0 and will refuse it one day"),
        ));
    }
}

fn node_memory(
    file: &Settings,
    nodes: &[(u32, NumaLine)],
    spec: &Spec,
    findings: &mut Vec<Finding>,
) {
    let sum: u64 = nodes.iter().map(|(_, line)| line.memory_mib).sum();
    // With memory hot-plug the start memory is another; that combination is refused anyway.
    if sum != spec.memory_mib && !args::hotplug(file, "memory") {
        findings.push(Finding::error(
            "numa-memory-sum",
            format!(
                "numaN lines have {sum} MiB, memory is {}; Proxmox VE refuses to start",
                spec.memory_mib
            ),
        ));
    }
}

fn hugepages(file: &Settings, nodes: &[(u32, NumaLine)], findings: &mut Vec<Finding>) {
    let Some(size) = file.text("hugepages") else {
        return;
    };
    if !numa::is_on(file) {
        findings.push(Finding::error(
            "hugepages-without-numa",
            "hugepages need numa: 1; Proxmox VE refuses to start",
        ));
        return;
    }
    let unit = if size == "1024" { 1024 } else { 2 };
    for (index, line) in nodes {
        // `hugepages_topology` takes a single digit.
        let one_node = line.host_nodes.len() == 1 && line.host_nodes.iter().all(|node| node.0 < 10);
        if !one_node {
            findings.push(Finding::error(
                "hugepages-host-node",
                format!("numa{index} needs hostnodes= with one node below 10 for hugepages; Proxmox VE refuses to start"),
            ));
        }
        if !line.memory_mib.is_multiple_of(unit) {
            findings.push(Finding::error(
                "hugepages-unaligned",
                format!(
                    "numa{index} has {} MiB, no multiple of {unit}; Proxmox VE refuses to start",
                    line.memory_mib
                ),
            ));
        }
    }
}

fn advice(spec: &Spec, findings: &mut Vec<Finding>) {
    if !spec.pins.is_empty() {
        findings.push(Finding::warning(
            "affinity-one-set",
            "affinity is one set for vCPUs, I/O and emulator threads alike, so they get in each other's way; bind the \
             vCPU threads one by one where that matters",
        ));
    }
    let model = match &spec.cpu {
        GuestCpu::Unstated => "kvm64 (the default)",
        GuestCpu::Named(model) => model,
        GuestCpu::Host => return,
    };
    let generic = ["kvm64", "kvm32", "qemu64", "qemu32", "x86-64-v"];
    if generic.iter().any(|prefix| model.starts_with(prefix)) && spec.vcpus > 1 {
        findings.push(Finding::warning(
            "cpu-hides-cache",
            format!(
                "cpu {model} shows 16 MiB of L3 whatever the host has, and on AMD no sharing at all; use host or the \
                 host's EPYC model"
            ),
        ));
    }
}
