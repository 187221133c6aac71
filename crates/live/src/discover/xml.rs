//! Reads an XML text before hwloc's C parser does, and writes anew what hwloc may see.
//!
//! hwloc trusts an XML to be its own: where objects contradict each other it stops the process by assertion, loops or
//! writes to standard error (`hwloc_look_xml` of hwloc says so: "We should check that the existing object sets
//! are consistent"). So the tree is checked here by the rules of `hwloc_topology_check`, and hwloc gets only the
//! elements and attributes that were checked.

mod objects;
mod write;

use roxmltree::{Document, Node, ParsingOptions};

use super::{DiscoverError, MAX_XML_BYTES};

/// Deepest nesting that is read. Real machines stay below 30 (packages, dies, caches, cores, bridges, devices).
const MAX_DEPTH: usize = 128;

/// The text for hwloc, with everything in it checked.
///
/// # Errors
/// The text is not well-formed, not hwloc's, contradicts itself, or is hostile.
pub(super) fn checked(text: &str) -> Result<String, DiscoverError> {
    if text.len() > MAX_XML_BYTES {
        return Err(DiscoverError::TooLarge { bytes: text.len() });
    }
    let refuse = |problem: String| DiscoverError::Xml { problem };
    if text.contains("<!ENTITY") {
        return Err(refuse(
            "it declares entities, which hwloc never writes".into(),
        ));
    }
    if depth_exceeds(text, MAX_DEPTH) {
        return Err(refuse(format!(
            "elements are nested more than {MAX_DEPTH} deep"
        )));
    }
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    let document =
        Document::parse_with_options(text, options).map_err(|error| refuse(error.to_string()))?;
    let topology = document.root_element();
    match topology.tag_name().name() {
        "topology" | "root" => rewritten(topology).map_err(refuse),
        "domain" => Err(refuse(
            "it is a libvirt domain; give it as VM, not as host".into(),
        )),
        other => Err(refuse(format!(
            "its root element is <{other}>, not <topology>"
        ))),
    }
}

fn rewritten(topology: Node<'_, '_>) -> Result<String, String> {
    // Version 1 has no version attribute, and its NUMA nodes hold the cores instead of lying beside them.
    let version = topology.attribute("version").unwrap_or("1");
    let edition = match version.split('.').next() {
        Some("1") => Edition::V1,
        Some("2") => Edition::V2,
        _ => {
            return Err(format!(
                "version {version:?} is not read; export with an lstopo of hwloc 2"
            ));
        }
    };
    let mut roots = topology
        .children()
        .filter(|node| node.has_tag_name("object"));
    let (Some(root), None) = (roots.next(), roots.next()) else {
        return Err("it must hold exactly one machine".into());
    };
    objects::check(root, edition)?;
    write::topology(topology, root, edition)
}

/// How the description nests NUMA nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edition {
    /// hwloc 1: above the cores.
    V1,
    /// hwloc 2: beside them.
    V2,
}

/// Whether start tags outrun end tags by more than `limit` anywhere. Counts `<x` and `</x` and `/>`; comments and
/// attribute values can only make the count too large by what they contain, which real files do not.
fn depth_exceeds(text: &str, limit: usize) -> bool {
    let bytes = text.as_bytes();
    let mut depth = 0usize;
    for (at, &byte) in bytes.iter().enumerate() {
        match (byte, bytes.get(at + 1)) {
            (b'<', Some(b'/')) | (b'/', Some(b'>')) => depth = depth.saturating_sub(1),
            (b'<', Some(next)) if next.is_ascii_alphabetic() => depth += 1,
            _ => {}
        }
        if depth > limit {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_hostile_texts_with_a_reason() {
        let deep = format!(
            "<topology>{}{}</topology>",
            "<object>".repeat(100_000),
            "</object>".repeat(100_000)
        );
        for (text, problem) in [
            ("", "no hwloc XML"),
            ("<topology", "no hwloc XML"),
            ("<topology><object></topology>", "no hwloc XML"),
            ("<topology/>", "exactly one machine"),
            ("<topology version=\"9.0\"/>", "version"),
            ("<domain/>", "libvirt domain"),
            ("<html/>", "<html>"),
            ("<!DOCTYPE t [<!ENTITY a \"b\">]><topology/>", "entities"),
            (deep.as_str(), "deep"),
        ] {
            let message = checked(text).unwrap_err().to_string();
            assert!(message.contains(problem), "{message}");
        }
    }
}
