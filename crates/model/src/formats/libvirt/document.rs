//! A domain XML as a tree with byte positions.

use roxmltree::{Document, ParsingOptions};

use super::super::ParseError;

/// An element or text of the file.
pub(super) type Node<'a> = roxmltree::Node<'a, 'a>;

/// The namespace of `<qemu:commandline>`.
pub(super) const QEMU_NAMESPACE: &str = "http://libvirt.org/schemas/domain/qemu/1.0";

/// Most attributes in one tag; domain XML has less than 20. The parser compares each attribute with all before it.
const MAX_ATTRIBUTES: usize = 256;

/// Most namespace declarations in a file; domain XML has less than 10. The parser copies them from parent to child.
const MAX_NAMESPACES: usize = 64;

/// Most elements, texts and comments in a file.
const MAX_NODES: u32 = 1 << 20;

/// Parses a file.
///
/// # Errors
/// It is no XML, has a document type (entities are not expanded), or is made to exhaust the parser.
pub(super) fn parse(text: &str) -> Result<Document<'_>, ParseError> {
    check_tags(text)?;
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: MAX_NODES,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(text, options).map_err(|error| {
        let at = offset(text, error.pos());
        ParseError::new(format!("not a domain XML: {error}"), at..at)
    })
}

/// The domain of a file: its root, or the first one inside (`virsh snapshot-dumpxml`, libvirt's state files).
///
/// # Errors
/// There is none.
pub(super) fn domain<'a>(document: &'a Document<'a>) -> Result<Node<'a>, ParseError> {
    let found = document
        .descendants()
        .find(|node| is_element(*node, "domain"));
    found.ok_or_else(|| {
        let root = document.root_element();
        let start = root.range().start;
        let message = format!(
            "<{}> found; expected a libvirt <domain>",
            root.tag_name().name()
        );
        ParseError::new(message, start..start + 1)
    })
}

/// The first child element of a name.
pub(super) fn child<'a>(node: Node<'a>, name: &'static str) -> Option<Node<'a>> {
    children(node, name).next()
}

/// The child elements of a name.
pub(super) fn children<'a>(
    node: Node<'a>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a>> + Clone {
    node.children()
        .filter(move |child| is_element(*child, name))
}

/// Whether a node is an element of libvirt's own of a name.
fn is_element(node: Node, name: &str) -> bool {
    let tag = node.tag_name();
    node.is_element() && tag.namespace().is_none() && tag.name() == name
}

/// The first element along a path of names.
pub(super) fn descend<'a>(node: Node<'a>, path: &[&'static str]) -> Option<Node<'a>> {
    path.iter().try_fold(node, |node, name| child(node, name))
}

/// The text of an element without blanks around it.
pub(super) fn text(node: Node<'_>) -> &str {
    text_node(node)
        .and_then(|text| text.text())
        .unwrap_or_default()
        .trim()
}

/// The first text in an element that is not blank.
pub(super) fn text_node(node: Node<'_>) -> Option<Node<'_>> {
    let blank = |text: &str| text.trim().is_empty();
    node.children()
        .find(|child| child.is_text() && !child.text().is_none_or(blank))
}

/// An attribute as a number, decimal or `0x` hexadecimal.
///
/// # Errors
/// It is there and no number.
pub(super) fn number_attribute(node: Node, name: &str) -> Result<Option<u64>, ParseError> {
    let Some(attribute) = node.attribute_node(name) else {
        return Ok(None);
    };
    let text = attribute.value().trim();
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map(Some).map_err(|_| {
        let (tag, value) = (node.tag_name().name(), shortened(attribute.value()));
        let message = format!("{name} of <{tag}> is {value:?}; write a whole number");
        ParseError::new(message, attribute.range_value())
    })
}

/// An error at the content of an element.
pub(super) fn error_at(node: Node, problem: &str) -> ParseError {
    let range = node
        .first_child()
        .map_or(node.range(), |content| content.range());
    ParseError::new(format!("<{}>: {problem}", node.tag_name().name()), range)
}

/// The memory that an element states, in KiB, which is libvirt's unit when there is none.
///
/// # Errors
/// The number or the unit is none.
pub(super) fn memory_kib(node: Node, number: &str) -> Result<u64, ParseError> {
    let unit = node.attribute("unit").unwrap_or("KiB");
    let bytes = unit_bytes(unit)
        .and_then(|unit| u128::from(number.trim().parse::<u64>().ok()?).checked_mul(unit))
        .and_then(|bytes| u64::try_from(bytes >> 10).ok());
    bytes.ok_or_else(|| {
        let (number, unit) = (shortened(number), shortened(unit));
        error_at(node, &format!("{number:?} {unit:?} is no memory size; write a number and a unit such as KiB or GiB"))
    })
}

/// Bytes of a unit (`virScaleInteger` in libvirt): `b`, and `k`, `M`, `G`, `T`, `P`, `E` alone or with `iB` as powers of
/// 1024, with `B` as powers of 1000, in either case.
fn unit_bytes(unit: &str) -> Option<u128> {
    let unit = unit.trim().to_ascii_lowercase();
    if ["", "b", "byte", "bytes"].contains(&unit.as_str()) {
        return Some(1);
    }
    let (prefix, rest) = unit.split_at_checked(1)?;
    let power = 1 + u32::try_from("kmgtpe".find(prefix)?).ok()?;
    match rest {
        "" | "ib" => Some(1024u128.pow(power)),
        "b" => Some(1000u128.pow(power)),
        _ => None,
    }
}

/// The beginning of a text that may be long.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

/// Refuses tags with more attributes, and files with more namespaces, than any domain has.
fn check_tags(text: &str) -> Result<(), ParseError> {
    let bytes = text.as_bytes();
    let (mut at, mut namespaces) = (0, 0);
    while let Some(open) = find(bytes, at, b"<") {
        let rest = &bytes[open..];
        let skipped = [
            (&b"<!--"[..], &b"-->"[..]),
            (b"<![CDATA[", b"]]>"),
            (b"<?", b"?>"),
        ]
        .into_iter()
        .find(|(start, _)| rest.starts_with(start))
        .map(|(_, end)| find(bytes, open + 2, end).unwrap_or(bytes.len()));
        if let Some(end) = skipped {
            at = end + 1;
            continue;
        }
        let (mut quote, mut attributes, mut end) = (None, 0, bytes.len());
        for (offset, &byte) in rest.iter().enumerate() {
            match (quote, byte) {
                (Some(open), close) if open == close => quote = None,
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b'=') => attributes += 1,
                (None, b'x') if rest[offset..].starts_with(b"xmlns") => namespaces += 1,
                (None, b'>') => {
                    end = open + offset;
                    break;
                }
                _ => {}
            }
        }
        if attributes > MAX_ATTRIBUTES || namespaces > MAX_NAMESPACES {
            let message = format!(
                "more than {MAX_ATTRIBUTES} attributes in a tag or {MAX_NAMESPACES} namespaces; no domain has that"
            );
            return Err(ParseError::new(message, open..open + 1));
        }
        at = end.max(open + 1);
    }
    Ok(())
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(what.len())
        .position(|window| window == what)
        .map(|at| from + at)
}

/// The byte of a row and a column, both from 1.
fn offset(text: &str, at: roxmltree::TextPos) -> usize {
    let lines = text.split_inclusive('\n');
    let before: usize = lines
        .clone()
        .take(at.row.saturating_sub(1) as usize)
        .map(str::len)
        .sum();
    let line = lines
        .clone()
        .nth(at.row.saturating_sub(1) as usize)
        .unwrap_or_default();
    let columns = line.chars().take(at.col.saturating_sub(1) as usize);
    before + columns.map(char::len_utf8).sum::<usize>()
}
