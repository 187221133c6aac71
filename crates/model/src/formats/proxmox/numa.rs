//! `numa` and `numaN`: vNUMA nodes.

use crate::cpuset::{CpuId, CpuSet};
use crate::formats::ParseError;
use crate::formats::lines::{MAX_MEMORY_MIB, Setting, Settings};
use crate::formats::smp::{MAX_NODES as MAX_QEMU_NODES, Sets, slots_by_node};
use crate::guest::{GuestNode, GuestTopology};

use super::{Smp, conf};

/// Most `numaN` lines (`$MAX_NUMA` of `Memory.pm`).
pub(super) const MAX_NODES: u32 = 8;

/// One `numaN` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NumaLine {
    /// vCPU slots, present or not.
    pub(super) slots: CpuSet,
    /// Memory in MiB; 0 when the line has none.
    pub(super) memory_mib: u64,
    /// Host nodes.
    pub(super) host_nodes: CpuSet,
}

/// Whether `numa: 1` is set, without which no `numaN` counts.
pub(super) fn is_on(file: &Settings) -> bool {
    file.text("numa")
        .is_some_and(|value| ["1", "on", "yes", "true"].contains(&value))
}

/// The file's `numaN` lines by number.
pub(super) fn lines(file: &Settings) -> Result<Vec<(u32, NumaLine)>, ParseError> {
    let mut sets = Sets::default();
    file.numbered("numa", "")
        .filter(|(index, _)| *index < MAX_NODES)
        .map(|(index, setting)| Ok((index, line(setting, &mut sets)?)))
        .collect()
}

/// The nodes QEMU is told about: the `numaN` lines, or one per socket.
pub(super) fn read(
    file: &Settings,
    smp: Smp,
    vcpus: u32,
    memory_mib: u64,
) -> Result<Vec<GuestNode>, ParseError> {
    let lines = lines(file)?;
    if !is_on(file) {
        return Ok(Vec::new());
    }
    if lines.is_empty() {
        return Ok(per_socket(smp, vcpus, memory_mib));
    }
    let present = CpuSet::from_range(0..vcpus);
    let node = |(_, line): (u32, NumaLine)| GuestNode {
        vcpus: line.slots.intersection(&present),
        memory_mib: line.memory_mib,
        host_nodes: line.host_nodes.iter().map(|node| node.0).collect(),
    };
    Ok(lines.into_iter().map(node).collect())
}

/// One node per socket, what `numa: 1` means without `numaN` lines; none where QEMU refuses as many.
pub(super) fn per_socket(smp: Smp, vcpus: u32, memory_mib: u64) -> Vec<GuestNode> {
    if smp.sockets as usize > MAX_QEMU_NODES {
        return Vec::new();
    }
    let present = CpuSet::from_range(0..vcpus);
    let sockets = GuestTopology::uniform(smp.slots, [1; 5]).blocks(smp.cores);
    let node = |slots: CpuSet| GuestNode {
        vcpus: slots.intersection(&present),
        memory_mib: memory_mib / u64::from(smp.sockets.max(1)),
        host_nodes: Vec::new(),
    };
    sockets.into_iter().map(node).collect()
}

/// The lines that state the nodes of a topology, slots that wait for hot-plug included, since QEMU wants every slot on
/// a node; an error says why they cannot be stated.
pub(super) fn wanted(shape: &GuestTopology) -> Result<Vec<NumaLine>, String> {
    let nodes = &shape.numa_nodes;
    if nodes.len() > MAX_NODES as usize {
        return Err(format!(
            "{} vNUMA nodes; Proxmox VE has at most {MAX_NODES}",
            nodes.len()
        ));
    }
    let slots = slots_by_node(shape);
    if slots.iter().any(CpuSet::is_empty) {
        return Err("a vNUMA node without vCPUs; Proxmox VE needs cpus= on every node".to_owned());
    }
    let line = |(node, slots): (&GuestNode, CpuSet)| NumaLine {
        slots,
        memory_mib: node.memory_mib,
        host_nodes: node.host_nodes.iter().copied().map(CpuId).collect(),
    };
    Ok(nodes.iter().zip(slots).map(line).collect())
}

/// The line in Proxmox VE's words; `policy` is the one the file has, if any.
pub(super) fn text(line: &NumaLine, policy: Option<&str>) -> String {
    let list = |set: &CpuSet| set.to_string().replace(',', ";");
    let (cpus, memory) = (list(&line.slots), line.memory_mib);
    if line.host_nodes.is_empty() {
        return format!("cpus={cpus},memory={memory}");
    }
    let new = if line.host_nodes.len() == 1 {
        "preferred"
    } else {
        "interleave"
    };
    let (nodes, policy) = (list(&line.host_nodes), policy.unwrap_or(new));
    format!("cpus={cpus},hostnodes={nodes},memory={memory},policy={policy}")
}

fn line(setting: &Setting, sets: &mut Sets) -> Result<NumaLine, ParseError> {
    let mut set = |key: &str| {
        let list = conf::property(&setting.value, key, false).unwrap_or_default();
        // A comma ends the property, so what is left separates ranges by semicolons only.
        let set = sets.read(&list.replace(';', ","));
        set.map_err(|problem| {
            setting.error(&format!("{key}= with ranges such as 0-3;8: {problem}"))
        })
    };
    let memory = conf::property(&setting.value, "memory", false).unwrap_or("0");
    let memory_mib = memory.parse().ok().filter(|mib| *mib <= MAX_MEMORY_MIB);
    Ok(NumaLine {
        slots: set("cpus")?,
        memory_mib: memory_mib.ok_or_else(|| setting.error("memory= in whole MiB"))?,
        host_nodes: set("hostnodes")?,
    })
}
