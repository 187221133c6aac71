//! Memory: the total, cells, the host nodes behind them, hugepages.

use std::collections::BTreeMap;

use super::super::super::ParseError;
use super::super::super::smp::{memory_mib, same_slots, slit, slots_by_node};
use super::super::document::{Node, child, children, descend, memory_kib, number_attribute, text};
use super::super::xml::Xml;
use super::super::{read, write};
use super::tree::Tree;
use crate::finding::Finding;
use crate::guest::GuestTopology;
use crate::vm::Spec;

/// Changes the total, the host nodes and the hugepages where `spec` differs from `old`.
pub(super) fn edit<'a>(
    tree: &mut Tree<'a>,
    domain: Node<'a>,
    spec: &Spec,
    old: &Spec,
) -> Option<Finding> {
    if memory_mib(spec) != memory_mib(old) {
        total(tree, domain, memory_mib(spec));
    }
    let none = GuestTopology::uniform(1, [1; 5]);
    let was = old.topology.as_ref().unwrap_or(&none);
    let topology = spec.topology.as_ref().unwrap_or(was);
    let finding = host_nodes(tree, domain, topology, was);
    let same_cells = write::cells_with_memory(topology) == write::cells_with_memory(was);
    if spec.hugepage_kib != old.hugepage_kib || spec.hugepage_kib.is_some() && !same_cells {
        hugepages(tree, domain, spec, topology);
    }
    finding
}

/// `<cell>`s: those that differ are changed where they stand, those that are no more are taken out, new ones are like
/// the first. Without `<numa>` they become new content of `<cpu>`.
pub(super) fn cells<'a>(
    tree: &mut Tree<'a>,
    domain: Node<'a>,
    topology: &GuestTopology,
    was: Option<&GuestTopology>,
    content: &mut Xml,
) -> Result<(), ParseError> {
    let none = GuestTopology::uniform(1, [1; 5]);
    let was = was.unwrap_or(&none);
    let numa = descend(domain, &["cpu", "numa"]);
    let same_distances = {
        let nodes = 0..topology.numa_nodes.len();
        let mut pairs = nodes
            .clone()
            .flat_map(|from| nodes.clone().map(move |to| (from, to)));
        pairs.all(|(from, to)| slit(topology, from, to) == slit(was, from, to))
    };
    if same_slots(was, topology) && was.numa_nodes == topology.numa_nodes && same_distances {
        return Ok(());
    }
    if topology.numa_nodes.is_empty() {
        if let Some(numa) = numa {
            tree.remove(numa);
        }
        return Ok(());
    }
    let cells = read::cells_by_id(domain)?;
    let more: String = ["memAccess", "discard"]
        .iter()
        .filter_map(|name| Some(format!(" {name}='{}'", cells.first()?.1.attribute(*name)?)))
        .collect();
    let (slots, old_slots) = (slots_by_node(topology), slots_by_node(was));
    let mut new = Xml::default();
    for (index, node) in topology.numa_nodes.iter().enumerate() {
        let Some((id, cell)) = cells.get(index) else {
            write::cell(&mut new, topology, index, &slots[index], &more);
            continue;
        };
        if *id != index as u64 {
            tree.set_attribute(*cell, "id", &index.to_string());
        }
        let moved = was.numa_nodes[index].vcpus != node.vcpus || old_slots[index] != slots[index];
        if slots[index].is_empty() {
            tree.remove_attribute(*cell, "cpus");
        } else if moved || !same_slots(was, topology) {
            set_cpus(tree, *cell, &slots[index].to_string());
        }
        if was.numa_nodes[index].memory_mib != node.memory_mib {
            set_memory(tree, *cell, node.memory_mib);
        }
        distances(tree, *cell, index, topology, was);
    }
    for (_, cell) in cells.iter().skip(topology.numa_nodes.len()) {
        tree.remove(*cell);
    }
    match numa {
        Some(numa) if !new.is_empty() => tree.append(numa, &new),
        None => {
            content.open("numa", "");
            content.extend(&new);
            content.close("numa");
        }
        Some(_) => {}
    }
    Ok(())
}

fn set_cpus<'a>(tree: &mut Tree<'a>, cell: Node<'a>, slots: &str) {
    let stated = cell
        .attribute("cpus")
        .and_then(|cpus| cpus.parse::<crate::CpuSet>().ok());
    if stated.is_none_or(|stated| stated.to_string() != slots) {
        tree.set_attribute(cell, "cpus", slots);
    }
}

fn set_memory<'a>(tree: &mut Tree<'a>, cell: Node<'a>, mib: u64) {
    tree.set_attribute(cell, "memory", &write::kib(mib));
    if cell.attribute("unit").is_some_and(|unit| unit != "KiB") {
        tree.set_attribute(cell, "unit", "KiB");
    }
}

fn distances<'a>(
    tree: &mut Tree<'a>,
    cell: Node<'a>,
    index: usize,
    topology: &GuestTopology,
    was: &GuestTopology,
) {
    let count = topology.numa_nodes.len();
    let same = was.numa_nodes.len() == count
        && (0..count).all(|to| slit(topology, index, to) == slit(was, index, to));
    if same {
        return;
    }
    if let Some(stated) = child(cell, "distances") {
        tree.remove(stated);
    }
    let mut new = Xml::default();
    write::distances(&mut new, topology, index);
    if !new.is_empty() {
        tree.append(cell, &new);
    }
}

/// `<memory>`, and `<currentMemory>` where it was all of it.
fn total<'a>(tree: &mut Tree<'a>, domain: Node<'a>, mib: u64) {
    let Some(memory) = child(domain, "memory") else {
        return;
    };
    let stated = |node: Node| memory_kib(node, text(node)).ok();
    let current = child(domain, "currentMemory");
    let current = current.filter(|current| stated(*current) == stated(memory));
    for node in [memory].into_iter().chain(current) {
        tree.set_text(node, &write::kib(mib));
        if node.attribute("unit").is_some_and(|unit| unit != "KiB") {
            tree.set_attribute(node, "unit", "KiB");
        }
    }
}

/// `<memnode>`s of cells whose host nodes change. Their mode stays; a new one is as strict as the domain's `<memory>`.
fn host_nodes<'a>(
    tree: &mut Tree<'a>,
    domain: Node<'a>,
    topology: &GuestTopology,
    was: &GuestTopology,
) -> Option<Finding> {
    let numatune = child(domain, "numatune");
    let own = numatune.and_then(|numatune| child(numatune, "memory"));
    let mut entries = BTreeMap::new();
    for entry in numatune
        .into_iter()
        .flat_map(|numatune| children(numatune, "memnode"))
    {
        entries.insert(number_attribute(entry, "cellid").ok().flatten(), entry);
    }
    let (mut new, mut left) = (Xml::default(), entries.len());
    for index in 0..topology.numa_nodes.len().max(was.numa_nodes.len()) {
        let wanted = topology.numa_nodes.get(index).map(|node| &node.host_nodes);
        if wanted == was.numa_nodes.get(index).map(|node| &node.host_nodes) {
            continue;
        }
        match (
            entries.get(&Some(index as u64)),
            wanted.filter(|nodes| !nodes.is_empty()),
        ) {
            (Some(entry), None) => {
                tree.remove(*entry);
                left -= 1;
            }
            (Some(entry), Some(nodes)) => {
                tree.set_attribute(*entry, "nodeset", &write::nodeset(nodes).to_string());
                if entry.attribute("mode") == Some("preferred") {
                    tree.set_attribute(*entry, "mode", write::memnode_mode(nodes));
                }
            }
            (None, Some(nodes)) => {
                let own = own.and_then(|own| own.attribute("mode"));
                let own = own.filter(|mode| ["strict", "restrictive"].contains(mode));
                let mode = own.unwrap_or(write::memnode_mode(nodes));
                new.empty("memnode", &write::memnode(index, mode, nodes));
            }
            (None, None) => {}
        }
    }
    if !new.is_empty() && own.is_some_and(|own| own.attribute("placement") == Some("auto")) {
        let text = "the domain leaves its memory to numad (placement='auto'), and libvirt takes no <memnode> beside that; \
                    take placement='auto' out to bind the cells";
        return Some(Finding::warning("lost-host-nodes", text));
    }
    match numatune {
        Some(numatune) if !new.is_empty() => tree.append(numatune, &new),
        Some(numatune) if left == 0 && !entries.is_empty() && own.is_none() => {
            tree.remove(numatune);
        }
        None if !new.is_empty() => {
            let mut xml = Xml::default();
            xml.open("numatune", "");
            xml.extend(&new);
            xml.close("numatune");
            tree.insert(domain, &["cputune", "vcpus", "vcpu", "memory"], &xml);
        }
        _ => {}
    }
    None
}

/// `<hugepages>` and its page.
fn hugepages<'a>(tree: &mut Tree<'a>, domain: Node<'a>, spec: &Spec, topology: &GuestTopology) {
    let backing = child(domain, "memoryBacking");
    let hugepages = backing.and_then(|backing| child(backing, "hugepages"));
    let Some(kib) = spec.hugepage_kib else {
        return hugepages.map_or((), |hugepages| tree.remove(hugepages));
    };
    let cells = write::cells_with_memory(topology).to_string();
    if let Some(page) = hugepages.and_then(|hugepages| child(hugepages, "page")) {
        let size = page
            .attribute("size")
            .and_then(|size| memory_kib(page, size).ok());
        if size != Some(kib) {
            tree.set_attribute(page, "size", &kib.to_string());
            tree.set_attribute(page, "unit", "KiB");
        }
        match page.attribute("nodeset") {
            Some(_) if cells.is_empty() => tree.remove_attribute(page, "nodeset"),
            Some(_) => tree.set_attribute(page, "nodeset", &cells),
            None => {}
        }
        return;
    }
    let mut xml = Xml::default();
    write::memory_backing(
        &mut xml,
        &Spec {
            topology: Some(topology.clone()),
            ..spec.clone()
        },
    );
    match (hugepages, backing) {
        // `<hugepages/>` alone means the default size.
        (Some(hugepages), _) => tree.append(hugepages, &xml.content().content()),
        (None, Some(backing)) => {
            let mut own = Xml::default();
            own.open("hugepages", "");
            own.extend(&xml.content().content());
            own.close("hugepages");
            tree.append(backing, &own);
        }
        (None, None) => tree.insert(domain, &["currentMemory", "memory", "name"], &xml),
    }
}
