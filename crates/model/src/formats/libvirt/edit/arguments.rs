//! What goes through `<qemu:commandline>`: keys of `-machine` that libvirt has no element for, and `-global`s.

use super::super::super::cpu_model::Model;
use super::super::super::qemu::Options;
use super::super::super::smp::Spelling;
use super::super::document::{Node, QEMU_NAMESPACE};
use super::super::xml::{Xml, escaped};
use super::super::{read, write};
use super::tree::Tree;
use crate::finding::Finding;
use crate::guest::GuestTopology;

/// Changes the arguments so that they say what the topology needs, and nothing else about levels and L3.
pub(super) fn edit<'a>(
    tree: &mut Tree<'a>,
    domain: Node<'a>,
    spelled: &Spelling,
    topology: &GuestTopology,
    model: &Model,
) -> Option<Finding> {
    let caches = read::machine(domain)
        .map(|machine| machine.caches)
        .unwrap_or_default();
    let keys = write::machine_keys(topology, spelled, &caches);
    let options = read::qemu_options(domain);
    let machines = || options.iter().filter(|(name, _)| *name == "machine");
    let place = machines()
        .find(|(_, value)| says_ours(*value))
        .or(machines().next());
    let mut kept: Vec<Node> = read::qemu_arguments(domain).collect();
    for (name, value) in &options {
        let text = value.attribute("value").unwrap_or_default();
        let mut options = Options::parse(text, "type");
        let here = place.is_some_and(|(_, place)| place == value);
        options.retain(|key| !is_ours(key) || here && keys.iter().any(|(ours, _)| ours == key));
        for (key, value) in keys.iter().filter(|_| here) {
            options.set(key, value);
        }
        if *name == "smp" || options.iter().next().is_none() {
            let at = kept.iter().position(|node| node == value).unwrap_or(0);
            for argument in kept.drain(at.saturating_sub(1)..=at) {
                tree.remove(argument);
            }
        } else if options.to_text() != text {
            tree.set_attribute(*value, "value", &options.to_text());
        }
    }
    let mut new: Vec<(&str, String)> = Vec::new();
    if place.is_none() && !keys.is_empty() {
        let parts: Vec<String> = keys
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        new.push(("-machine", parts.join(",")));
    }
    let stated = |value: &str| {
        kept.iter()
            .any(|argument| argument.attribute("value") == Some(value))
    };
    new.extend(
        write::globals(model)
            .into_iter()
            .filter(|(_, value)| !stated(value)),
    );
    let none_left = kept.is_empty() && new.is_empty();
    add(tree, domain, &new, none_left);
    (!keys.is_empty() || !new.is_empty()).then(write::custom_arguments)
}

/// Whether a key of `-machine` states levels or caches.
fn is_ours(key: &str) -> bool {
    key.starts_with("smp.") || key.starts_with("smp-cache.")
}

fn says_ours(argument: Node) -> bool {
    let options = Options::parse(argument.attribute("value").unwrap_or_default(), "type");
    options.iter().any(|(key, _)| is_ours(key))
}

/// Adds arguments, with the element and the namespace where they are missing; takes the element out when it has
/// nothing to say any more.
fn add<'a>(tree: &mut Tree<'a>, domain: Node<'a>, new: &[(&str, String)], none_left: bool) {
    let command_line = domain
        .children()
        .find(|child| child.has_tag_name((QEMU_NAMESPACE, "commandline")));
    if let Some(command_line) = command_line.filter(|_| none_left) {
        let had_arguments = read::qemu_arguments(domain).next().is_some();
        let others = command_line.children().filter(Node::is_element).count();
        if had_arguments && others == read::qemu_arguments(domain).count() {
            tree.remove(command_line);
        }
    }
    if new.is_empty() {
        return;
    }
    let around = command_line.unwrap_or(domain);
    let prefix = around.lookup_prefix(QEMU_NAMESPACE);
    if prefix.is_none() {
        tree.declare_namespace(domain, "qemu", QEMU_NAMESPACE);
    }
    let prefix = prefix.unwrap_or("qemu");
    let mut xml = Xml::default();
    let (element, argument) = (format!("{prefix}:commandline"), format!("{prefix}:arg"));
    xml.open(&element, "");
    for value in new.iter().flat_map(|(name, value)| [*name, value]) {
        xml.empty(&argument, &format!(" value='{}'", escaped(value)));
    }
    xml.close(&element);
    match command_line {
        Some(command_line) => tree.append(command_line, &xml.content()),
        None => tree.append(domain, &xml),
    }
}
