//! Writes a checked topology for hwloc: only elements and attributes whose values were looked at.

use std::fmt::Write;

use roxmltree::Node;

use super::{Edition, objects};

/// Notes kept per object; hwloc's own machines have some twenty.
const MAX_INFOS: usize = 64;

/// Rows of a distance matrix; Linux has at most 1024 nodes (`MAX_NUMNODES` with `NODES_SHIFT` 10).
const MAX_MATRIX: usize = 1024;

/// Kinds of core; a machine has three.
const MAX_KINDS: usize = 64;

/// Attributes of objects that are numbers, with the largest that is read.
const NUMBERS: [(&str, u64); 10] = [
    ("os_index", u32::MAX as u64),
    ("depth", 128),
    ("cache_size", 1 << 40),
    ("cache_linesize", 1 << 16),
    ("cache_type", 2),
    ("local_memory", 1 << 56),
    ("kind", u32::MAX as u64),
    ("subkind", u32::MAX as u64),
    ("dont_merge", 1),
    ("osdev_type", 255),
];

/// Attributes of objects that are texts.
const TEXTS: [&str; 5] = ["name", "subtype", "pci_busid", "pci_type", "bridge_pci"];

/// Attributes of objects that are sets; `gp_index` is left out: hwloc numbers objects itself.
const SETS: [&str; 7] = [
    "cpuset",
    "complete_cpuset",
    "online_cpuset",
    "allowed_cpuset",
    "nodeset",
    "complete_nodeset",
    "allowed_nodeset",
];

/// The whole text.
///
/// # Errors
/// A value that is none of its kind or beyond any machine.
pub(super) fn topology(
    topology: Node<'_, '_>,
    root: Node<'_, '_>,
    edition: Edition,
) -> Result<String, String> {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    text.push_str(match edition {
        Edition::V1 => "<!DOCTYPE topology SYSTEM \"hwloc.dtd\">\n<topology>\n",
        Edition::V2 => "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n",
    });
    object(&mut text, root)?;
    for matrix in elements(topology, "distances2") {
        // Others join objects that are no NUMA nodes; nobody asks for them.
        if matrix.attribute("type") == Some("NUMANode")
            && matrix.attribute("indexing") == Some("os")
        {
            distances(&mut text, matrix)?;
        }
    }
    for kind in elements(topology, "cpukind").take(MAX_KINDS) {
        let cpus = kind.attribute("cpuset").unwrap_or_default();
        if objects::set(cpus)?.is_empty() {
            return Err("a kind of core has no CPUs".into());
        }
        text.push_str("<cpukind");
        attribute(&mut text, "cpuset", cpus);
        text.push_str(">\n");
        infos(&mut text, kind);
        text.push_str("</cpukind>\n");
    }
    text.push_str("</topology>\n");
    Ok(text)
}

fn object(text: &mut String, node: Node<'_, '_>) -> Result<(), String> {
    text.push_str("<object");
    let type_name = node.attribute("type").unwrap_or_default();
    attribute(text, "type", type_name);
    for (name, most) in NUMBERS {
        if let Some(value) = node.attribute(name) {
            let number = number(value, most)
                .ok_or_else(|| format!("{name} of a {type_name} is {value:?}"))?;
            attribute(text, name, &number.to_string());
        }
    }
    for name in SETS {
        if let Some(value) = node.attribute(name) {
            let infinite = value == "0xf...f" && name.ends_with("nodeset");
            if !infinite {
                objects::set(value)?;
            }
            attribute(text, name, value);
        }
    }
    for name in TEXTS {
        if let Some(value) = node.attribute(name) {
            attribute(text, name, value);
        }
    }
    if let Some(sides @ ("0-1" | "1-1")) = node.attribute("bridge_type") {
        attribute(text, "bridge_type", sides);
    }
    text.push_str(">\n");
    for pages in elements(node, "page_type")
        .filter(|_| type_name == "NUMANode")
        .take(MAX_INFOS)
    {
        let value = |name: &str| number(pages.attribute(name)?, 1 << 56);
        if let (Some(size), Some(count)) = (value("size"), value("count")) {
            let _ = writeln!(text, "<page_type size=\"{size}\" count=\"{count}\"/>");
        }
    }
    infos(text, node);
    for matrix in elements(node, "distances") {
        latencies(text, matrix)?;
    }
    elements(node, "object").try_for_each(|child| object(text, child))?;
    text.push_str("</object>\n");
    Ok(())
}

fn infos(text: &mut String, node: Node<'_, '_>) {
    for info in elements(node, "info").take(MAX_INFOS) {
        if let (Some(name), Some(value)) = (info.attribute("name"), info.attribute("value")) {
            text.push_str("<info");
            attribute(text, "name", name);
            attribute(text, "value", value);
            text.push_str("/>\n");
        }
    }
}

/// A matrix of version 2: numbers of nodes, then values row by row.
fn distances(text: &mut String, matrix: Node<'_, '_>) -> Result<(), String> {
    let numbers = |name: &'static str, most: u64| -> Option<Vec<u64>> {
        let texts: Vec<&str> = elements(matrix, name)
            .filter_map(|part| part.text())
            .collect();
        texts
            .iter()
            .flat_map(|text| text.split_whitespace())
            .map(|value| number(value, most))
            .collect()
    };
    let wrong = || "a distance matrix is not square, or holds what is no distance".to_owned();
    let nodes = numbers("indexes", u64::from(u32::MAX)).ok_or_else(wrong)?;
    let values = numbers("u64values", u64::from(u32::MAX)).ok_or_else(wrong)?;
    let distinct: std::collections::BTreeSet<&u64> = nodes.iter().collect();
    let square = values.len() == nodes.len() * nodes.len() && distinct.len() == nodes.len();
    if nodes.len() > MAX_MATRIX || !square {
        return Err(wrong());
    }
    if nodes.len() < 2 {
        return Ok(());
    }
    let kind = matrix
        .attribute("kind")
        .and_then(|kind| number(kind, 255))
        .ok_or_else(wrong)?;
    let _ = writeln!(
        text,
        "<distances2 type=\"NUMANode\" nbobjs=\"{}\" kind=\"{kind}\" name=\"NUMALatency\" indexing=\"os\">",
        nodes.len()
    );
    for (tag, numbers) in [("indexes", nodes), ("u64values", values)] {
        let list: String = numbers.iter().map(|number| format!("{number} ")).collect();
        let _ = writeln!(text, "<{tag} length=\"{}\">{list}</{tag}>", list.len());
    }
    text.push_str("</distances2>\n");
    Ok(())
}

/// A matrix of version 1: factors of a base.
fn latencies(text: &mut String, matrix: Node<'_, '_>) -> Result<(), String> {
    let wrong = || "a distance matrix is not square, or holds what is no distance".to_owned();
    let float = |node: Node<'_, '_>, name: &str| {
        let value: f64 = node.attribute(name)?.parse().ok()?;
        (0.0..=1e6).contains(&value).then_some(value)
    };
    let whole = |name: &str| {
        matrix
            .attribute(name)
            .and_then(|value| number(value, MAX_MATRIX as u64))
    };
    let (Some(size), Some(depth), Some(base)) = (
        whole("nbobjs"),
        whole("relative_depth"),
        float(matrix, "latency_base"),
    ) else {
        return Err(wrong());
    };
    let values: Option<Vec<f64>> = elements(matrix, "latency")
        .map(|value| float(value, "value"))
        .collect();
    let values = values
        .filter(|values| values.len() as u64 == size * size)
        .ok_or_else(wrong)?;
    let _ = writeln!(
        text,
        "<distances nbobjs=\"{size}\" relative_depth=\"{depth}\" latency_base=\"{base:.6}\">"
    );
    for value in values {
        let _ = writeln!(text, "<latency value=\"{value:.6}\"/>");
    }
    text.push_str("</distances>\n");
    Ok(())
}

fn elements<'a, 'd>(node: Node<'a, 'd>, name: &'static str) -> impl Iterator<Item = Node<'a, 'd>> {
    node.children()
        .filter(move |child| child.has_tag_name(name))
}

fn number(text: &str, most: u64) -> Option<u64> {
    text.parse().ok().filter(|&number| number <= most)
}

fn attribute(text: &mut String, name: &str, value: &str) {
    let _ = write!(text, " {name}=\"");
    for character in value.chars() {
        match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            // hwloc writes printable ASCII; what else may be in a name is no reason to fail.
            ' '..='~' => text.push(character),
            _ => text.push('?'),
        }
    }
    text.push('"');
}
