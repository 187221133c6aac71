//! What is wrong with a domain by itself.

use super::super::ParseError;
use super::super::cpu_model::{has_topoext, is_amd};
use super::super::smp::{MAX_VCPUS, Sets, overlap, topology_findings};
use super::document::{
    Node, child, children, descend, domain, memory_kib, number_attribute, parse, text,
};
use super::read;
use crate::cpuset::CpuSet;
use crate::finding::Finding;
use crate::guest::GuestTopology;
use crate::vm::{GuestCpu, Spec};

/// Lints a domain; see [`lint`](super::lint).
pub(super) fn lint(text: &str) -> Result<Vec<Finding>, ParseError> {
    let document = parse(text)?;
    let domain = domain(&document)?;
    let spec = read::spec(domain)?;
    let machine = read::machine(domain)?;
    let mut findings = Vec::new();
    match &spec.topology {
        Some(topology) => {
            findings.extend(topology_findings(topology, machine.smp.maxcpus()));
            findings.extend(cells(domain, topology)?);
            findings.extend(threads_hidden(domain, topology));
        }
        None => findings.extend(flat(&spec)),
    }
    findings.extend(memory(domain)?);
    findings.extend(passed_through_cache(domain));
    findings.extend(tuning(domain)?);
    findings.extend(pins(domain, &spec));
    Ok(findings)
}

/// libvirt makes each vCPU a socket when there is no `<topology>`.
fn flat(spec: &Spec) -> Vec<Finding> {
    let slots = spec.max_vcpus.unwrap_or(spec.vcpus);
    let topology = GuestTopology::uniform(spec.vcpus, [slots, 1, 1, 1, 1]);
    topology_findings(&topology, Some(slots))
}

fn cells(domain: Node, topology: &GuestTopology) -> Result<Vec<Finding>, ParseError> {
    let mut findings = Vec::new();
    let cells = read::cells_by_id(domain)?;
    if !cells.iter().map(|(id, _)| *id).eq(0..cells.len() as u64) {
        let text = "the ids of the cells are not 0, 1, 2 … once each; libvirt refuses the domain";
        findings.push(Finding::error("numa-cell-ids", text));
    }
    let mut sets = Sets::default();
    let cpus: Vec<CpuSet> = cells
        .iter()
        .map(|(_, cell)| {
            sets.read(cell.attribute("cpus").unwrap_or_default())
                .unwrap_or_default()
        })
        .collect();
    findings.extend(overlap(cpus.iter()));
    let assigned = cpus.iter().fold(CpuSet::new(), |all, some| all.union(some));
    let all = CpuSet::from_range(0..topology.maxcpus().min(MAX_VCPUS));
    let missing = all.difference(&assigned);
    if !cells.is_empty() && !missing.is_empty() {
        let text = format!(
            "no cell has vCPUs {missing}; libvirt puts them into cell 0: assign every slot"
        );
        findings.push(Finding::warning("numa-not-covering", text));
    }
    let beyond = assigned.difference(&all);
    if !beyond.is_empty() {
        let text = format!(
            "cells have vCPUs {beyond}, which the domain does not have; libvirt refuses it"
        );
        findings.push(Finding::error("numa-beyond-vcpus", text));
    }
    Ok(findings)
}

fn memory(domain: Node) -> Result<Option<Finding>, ParseError> {
    let mut cells = 0u64;
    for cell in read::cells_of(domain) {
        cells = cells.saturating_add(read::cell_memory_kib(cell)?);
    }
    let stated = child(domain, "memory").and_then(|memory| memory_kib(memory, text(memory)).ok());
    let stated = stated.unwrap_or(cells);
    let text = format!(
        "<memory> says {stated} KiB, the cells have {cells} KiB; libvirt takes the sum of the cells: make both agree"
    );
    Ok((cells > 0 && cells != stated).then(|| Finding::warning("memory-mismatch", text)))
}

fn passed_through_cache(domain: Node) -> Option<Finding> {
    let cache = descend(domain, &["cpu", "cache"])?;
    let text = "<cache mode='passthrough'/> gives the guest the host's cache sharing, whatever its topology; it fits only a \
                guest that is the whole host: use <cache level='3' mode='emulate'/>";
    let passthrough = cache.attribute("mode") == Some("passthrough");
    passthrough.then(|| Finding::warning("host-cache-passthrough", text))
}

/// AMD guests learn about threads by `topoext`, which old models and the host's CPU do not have by themselves.
fn threads_hidden(domain: Node, topology: &GuestTopology) -> Option<Finding> {
    if topology.threads < 2 {
        return None;
    }
    let mut features = child(domain, "cpu")
        .into_iter()
        .flat_map(|cpu| children(cpu, "feature"));
    let policy = features
        .find(|feature| feature.attribute("name") == Some("topoext"))
        .map(|feature| feature.attribute("policy").unwrap_or("require"));
    let off = policy.is_some_and(|policy| ["disable", "forbid"].contains(&policy));
    let threads = topology.threads;
    let (sure, who) = match read::guest_cpu(domain) {
        GuestCpu::Named(model)
            if is_amd(&model) && (off || policy.is_none() && !has_topoext(&model)) =>
        {
            (true, model)
        }
        GuestCpu::Host if off || policy.is_none() => (false, "the host's CPU".to_owned()),
        _ => return None,
    };
    let advice = "add <feature policy='require' name='topoext'/>";
    Some(if sure {
        let text = format!(
            "{who} has no topoext here, so the guest does not see its {threads} threads per core; {advice}"
        );
        Finding::warning("missing-topoext", text)
    } else {
        let text = format!(
            "on an AMD host, {who} comes without topoext and the guest does not see its {threads} threads per core; {advice}"
        );
        Finding::info("missing-topoext", text)
    })
}

fn tuning(domain: Node) -> Result<Vec<Finding>, ParseError> {
    let mut findings = Vec::new();
    let numatune = child(domain, "numatune");
    let entries = numatune
        .into_iter()
        .flat_map(|numatune| numatune.children());
    let cells = read::cells_by_id(domain)?;
    for entry in entries.filter(Node::is_element) {
        let name = entry.tag_name().name();
        let nodes = entry.attribute("nodeset").unwrap_or_default();
        if entry.attribute("mode").is_none_or(|mode| mode == "strict") && !nodes.is_empty() {
            let text = format!(
                "<{name}> binds memory strictly to host nodes {nodes}: when they are full the VM does not start or is \
                 killed; mode='preferred' is enough for locality"
            );
            findings.push(Finding::info("memory-strict", text));
        }
        let cell = number_attribute(entry, "cellid").ok().flatten();
        if let Some(cell) = cell.filter(|cell| cells.iter().all(|(id, _)| id != cell)) {
            let text = format!(
                "<memnode> is for cell {cell}, which is not there; libvirt refuses the domain"
            );
            findings.push(Finding::error("memnode-without-cell", text));
        }
    }
    let automatic = |node: Node| node.attribute("placement") == Some("auto");
    let memory = numatune.and_then(|numatune| child(numatune, "memory"));
    if child(domain, "vcpu").is_some_and(automatic) || memory.is_some_and(automatic) {
        let text = "placement='auto' lets numad choose host nodes once at start, blind to LLCs; it overrides what vtopo decides";
        findings.push(Finding::warning("placement-auto", text));
    }
    Ok(findings)
}

/// Pins of vCPUs that are not there, which libvirt ignores, and host CPUs that half of the vCPUs share.
fn pins(domain: Node, spec: &Spec) -> Vec<Finding> {
    let slots = u64::from(spec.max_vcpus.unwrap_or(spec.vcpus));
    let mut findings = Vec::new();
    for pin in child(domain, "cputune")
        .into_iter()
        .flat_map(|tune| children(tune, "vcpupin"))
    {
        let vcpu = number_attribute(pin, "vcpu").ok().flatten();
        if let Some(vcpu) = vcpu.filter(|&vcpu| vcpu >= slots) {
            let text =
                format!("vCPU {vcpu} is pinned, but there are only {slots}; libvirt ignores it");
            findings.push(Finding::warning("pin-without-vcpu", text));
        }
    }
    let emulator = descend(domain, &["cputune", "emulatorpin"]);
    if !spec.pins.is_empty() && emulator.is_none() {
        let text = "the vCPUs are pinned, the emulator's threads are not: they run anywhere, also on the vCPUs' CPUs; add \
                    <emulatorpin>";
        findings.push(Finding::info("emulator-not-pinned", text));
    }
    findings
}
