//! What is wrong with a command line by itself.

use super::super::ParseError;
use super::super::cpu_model::{has_topoext, is_amd};
use super::super::smp::{overlap, topology_findings};
use super::parse::{CommandLine, Statements};
use super::read;
use crate::finding::Finding;
use crate::guest::GuestTopology;
use crate::vm::Spec;

/// Lints a command line; see [`lint`](super::lint).
pub(super) fn lint(text: &str) -> Result<Vec<Finding>, ParseError> {
    let line = CommandLine::parse(text)?;
    let (says, spec) = (&line.says, read::spec(&line.says));
    let mut findings = Vec::new();
    if let Some(topology) = &spec.topology {
        findings.extend(topology_findings(topology, says.machine.smp.maxcpus()));
        findings.extend(nodes(says, topology, &spec));
        findings.extend(threads_hidden(says, topology));
    }
    findings.extend(caches(says));
    findings.extend(bound_memory(says));
    Ok(findings)
}

fn nodes(says: &Statements, topology: &GuestTopology, spec: &Spec) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut ids: Vec<u64> = says.nodes.iter().map(|node| node.id).collect();
    ids.sort_unstable();
    if !ids.iter().copied().eq(0..ids.len() as u64) {
        let text = "the ids of the NUMA nodes are not 0, 1, 2 … once each; QEMU will not start";
        findings.push(Finding::error("numa-node-ids", text));
    }
    findings.extend(overlap(says.nodes.iter().map(|node| &node.cpus)));
    for node in &says.nodes {
        let backend = node.memdev.as_deref().map(|id| (id, says.backend(id)));
        if let Some((id, None)) = backend {
            let text = format!(
                "NUMA node {} uses memory backend {id:?}, which is nowhere defined",
                node.id
            );
            findings.push(Finding::error("numa-memdev-missing", text));
        }
    }
    let nodes = topology.memory_mib();
    if !topology.numa_nodes.is_empty() && nodes != spec.memory_mib {
        let text = format!(
            "the NUMA nodes have {nodes} MiB, the VM {} MiB; QEMU starts only when both agree",
            spec.memory_mib
        );
        findings.push(Finding::error("memory-mismatch", text));
    }
    findings
}

fn threads_hidden(says: &Statements, topology: &GuestTopology) -> Option<Finding> {
    let cpu = says.cpu.as_ref()?;
    let model = cpu.value("model")?;
    let off = cpu.is_off("topoext") || !has_topoext(model) && !cpu.is_on("topoext");
    if topology.threads < 2 || !is_amd(model) || !off {
        return None;
    }
    let text = format!(
        "{model} has no topoext here, so the guest does not see its {} threads per core; add topoext=on to -cpu",
        topology.threads
    );
    Some(Finding::warning("missing-topoext", text))
}

fn caches(says: &Statements) -> Option<Finding> {
    let on = says
        .cpu
        .as_ref()
        .is_some_and(|cpu| cpu.is_on("host-cache-info"));
    let text = "host-cache-info=on gives the guest the host's cache sharing, whatever dies and smp-cache say; it fits only \
                a guest that is the whole host: take it out";
    on.then(|| Finding::warning("host-cache-passthrough", text))
}

fn bound_memory(says: &Statements) -> Option<Finding> {
    let bound = says
        .backends
        .iter()
        .find(|backend| backend.options.value("policy") == Some("bind"))?;
    let text = format!(
        "memory backend {} is bound to host nodes {}: when they are full, pages are not found elsewhere; use \
         policy=preferred unless that is wanted",
        bound.id, bound.host_nodes
    );
    Some(Finding::info("memory-strict", text))
}
