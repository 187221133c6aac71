//! Checks an XML text before hwloc's C parser sees it: well-formed, no entities of its own, no depth that only an
//! attacker would write.

use super::{DiscoverError, MAX_XML_BYTES};

/// Deepest nesting that is read. Real machines stay below 30 (packages, dies, caches, cores, bridges, devices).
const MAX_DEPTH: usize = 128;

/// Refuses a text that is not well-formed, not hwloc's, or hostile.
pub(super) fn check(text: &str) -> Result<(), DiscoverError> {
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
    let options = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..roxmltree::ParsingOptions::default()
    };
    let document = roxmltree::Document::parse_with_options(text, options)
        .map_err(|error| refuse(error.to_string()))?;
    let root = document.root_element().tag_name().name();
    match root {
        "topology" | "root" => Ok(()),
        "domain" => Err(refuse(
            "it is a libvirt domain; give it as VM, not as host".into(),
        )),
        other => Err(refuse(format!(
            "its root element is <{other}>, not <topology>"
        ))),
    }
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
            ("<domain/>", "libvirt domain"),
            ("<html/>", "<html>"),
            ("<!DOCTYPE t [<!ENTITY a \"b\">]><topology/>", "entities"),
            (deep.as_str(), "deep"),
        ] {
            let message = check(text).unwrap_err().to_string();
            assert!(message.contains(problem), "{message}");
        }
    }
}
