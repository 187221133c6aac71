//! Changing a domain XML without touching what is not ours.

mod arguments;
mod memory;
mod tree;

use std::collections::BTreeMap;

use super::super::cpu_model::Model;
use super::super::smp::{Spelling, problems, same_llcs, same_slots, unmoved_devices};
use super::super::{ParseError, Target, Written};
use super::document::{Node, child, children, domain, number_attribute, parse};
use super::xml::Xml;
use super::{read, write};
use crate::finding::Finding;
use crate::guest::GuestTopology;
use crate::vm::{GuestCpu, Pin, Spec};

use tree::Tree;

/// Edits a domain; see [`edit`](super::edit).
pub(super) fn edit(text: &str, spec: &Spec, target: Target) -> Result<Written, ParseError> {
    let document = parse(text)?;
    let domain = domain(&document)?;
    let old = read::spec(domain)?;
    let mut tree = Tree::new(text);
    let mut findings = Vec::new();
    vcpus(&mut tree, domain, spec, &old);
    if let Some(topology) = &spec.topology {
        findings.extend(self::topology(
            &mut tree,
            domain,
            (spec, &old),
            topology,
            target,
        )?);
    }
    if spec.pins != old.pins {
        pins(&mut tree, domain, spec, &old)?;
    }
    findings.extend(memory::edit(&mut tree, domain, spec, &old));
    findings.extend(unmoved_devices(spec, &old));
    Ok(Written {
        text: tree.finish(),
        findings,
    })
}

/// Present vCPUs and slots of a VM.
fn counts(spec: &Spec) -> (u32, u32) {
    match &spec.topology {
        Some(topology) => (topology.vcpus, topology.maxcpus()),
        None => (spec.vcpus, write::slots(spec)),
    }
}

/// `<vcpu>`, and `<vcpus>`, which goes when the count changes: libvirt makes a new one.
fn vcpus<'a>(tree: &mut Tree<'a>, domain: Node<'a>, spec: &Spec, old: &Spec) {
    let (vcpus, slots) = counts(spec);
    if (vcpus, slots) == counts(old) {
        return;
    }
    if let Some(individual) = child(domain, "vcpus") {
        tree.remove(individual);
    }
    let Some(vcpu) = child(domain, "vcpu") else {
        let mut xml = Xml::default();
        let current = if vcpus < slots {
            format!(" current='{vcpus}'")
        } else {
            String::new()
        };
        xml.text("vcpu", &current, &slots.to_string());
        return tree.insert(domain, &["memory", "name"], &xml);
    };
    if slots != write::slots(old) {
        tree.set_text(vcpu, &slots.to_string());
    }
    if vcpus < slots {
        tree.set_attribute(vcpu, "current", &vcpus.to_string());
    } else {
        tree.remove_attribute(vcpu, "current");
    }
}

/// Levels, caches, the CPU model, cells, and what goes through `<qemu:commandline>`.
fn topology<'a>(
    tree: &mut Tree<'a>,
    domain: Node<'a>,
    (spec, old): (&Spec, &Spec),
    topology: &GuestTopology,
    target: Target,
) -> Result<Vec<Finding>, ParseError> {
    let was = old.topology.as_ref();
    let same_cpus = was.is_some_and(|was| same_slots(was, topology));
    let same_llcs = was.is_some_and(|was| same_llcs(was, topology));
    let renamed = spec.cpu != GuestCpu::Unstated && spec.cpu != old.cpu;
    let spelled = Spelling::new(topology, target.qemu_major);
    let mut findings = Vec::new();
    // New content of <cpu>, in the order libvirt writes it.
    let mut content = Xml::default();
    let cpu = child(domain, "cpu");
    if !same_cpus || !same_llcs || renamed {
        let effective = if renamed { &spec.cpu } else { &old.cpu };
        let mut model = Model::new(effective, &spelled, target);
        if *effective == GuestCpu::Unstated && !model.properties.is_empty() {
            // libvirt takes features only with a model, and we leave the choice of one to the file.
            model.properties.clear();
            let text = "the domain names no CPU model, so the guest gets QEMU's default and may not see its threads and \
                        LLCs; choose <cpu mode='host-passthrough'/> or a model";
            findings.push(Finding::warning("no-cpu-model", text));
        }
        findings.extend(problems(spec));
        findings.extend(spelled.findings.clone());
        findings.extend(model.findings.clone());
        if renamed {
            rename(tree, cpu, &model.name, &mut content);
        }
        if !same_cpus {
            levels(tree, cpu, &spelled, &mut content);
        }
        caches(tree, cpu, &spelled, topology, &mut content);
        features(tree, cpu, &model, &mut content);
        findings.extend(arguments::edit(tree, domain, &spelled, topology, &model));
    }
    memory::cells(tree, domain, topology, was, &mut content)?;
    if content.is_empty() {
        return Ok(findings);
    }
    if let Some(cpu) = cpu {
        tree.append(cpu, &content);
        return Ok(findings);
    }
    let mut xml = Xml::default();
    xml.open(
        "cpu",
        if renamed {
            mode_attributes(&spec.cpu)
        } else {
            ""
        },
    );
    xml.extend(&content);
    xml.close("cpu");
    tree.insert(domain, &["features", "os", "vcpu", "memory"], &xml);
    Ok(findings)
}

fn mode_attributes(cpu: &GuestCpu) -> &'static str {
    match cpu {
        GuestCpu::Host => " mode='host-passthrough' check='none'",
        GuestCpu::Named(name) if name == "max" => " mode='maximum' check='none'",
        GuestCpu::Named(_) => " mode='custom' match='exact'",
        GuestCpu::Unstated => "",
    }
}

/// The model: mode and name.
fn rename<'a>(tree: &mut Tree<'a>, cpu: Option<Node<'a>>, name: &str, content: &mut Xml) {
    let mode = match name {
        "host" => "host-passthrough",
        "max" => "maximum",
        _ => "custom",
    };
    let model = cpu.and_then(|cpu| child(cpu, "model"));
    if let Some(cpu) = cpu {
        tree.set_attribute(cpu, "mode", mode);
        if mode != "custom" {
            tree.remove_attribute(cpu, "match");
        } else if cpu.attribute("match").is_none() {
            tree.set_attribute(cpu, "match", "exact");
        }
    }
    match model {
        Some(model) if mode == "custom" => tree.set_text(model, name),
        Some(model) => tree.remove(model),
        None if mode == "custom" => content.text("model", "", name),
        None => {}
    }
}

/// `<topology>`: attributes that are there or that matter.
fn levels<'a>(tree: &mut Tree<'a>, cpu: Option<Node<'a>>, spelled: &Spelling, content: &mut Xml) {
    let levels = write::topology_levels(spelled);
    let Some(topology) = cpu.and_then(|cpu| child(cpu, "topology")) else {
        let levels = levels.map(|(name, count)| format!(" {name}='{count}'"));
        return content.empty("topology", &levels.concat());
    };
    for (name, count) in levels {
        let optional = ["dies", "clusters"].contains(&name) && count == 1;
        if !optional || topology.attribute(name).is_some() {
            tree.set_attribute(topology, name, &count.to_string());
        }
    }
}

/// `<cache>`: the emulated L3, which alone follows the levels; taken out when no LLC is stated any more.
fn caches<'a>(
    tree: &mut Tree<'a>,
    cpu: Option<Node<'a>>,
    spelled: &Spelling,
    topology: &GuestTopology,
    content: &mut Xml,
) {
    let cache = cpu.and_then(|cpu| child(cpu, "cache"));
    let mode = cache.and_then(|cache| cache.attribute("mode"));
    match (cache, spelled.llc) {
        (Some(cache), Some(_)) if mode != Some("emulate") => {
            tree.set_attribute(cache, "mode", "emulate");
            tree.set_attribute(cache, "level", "3");
        }
        (Some(cache), None) if mode == Some("emulate") => tree.remove(cache),
        (None, Some(_)) if spelled.needs_smp_cache(topology).is_none() => {
            content.empty("cache", " level='3' mode='emulate'");
        }
        _ => {}
    }
}

/// `<feature>`s without which the guest would not see the topology.
fn features<'a>(tree: &mut Tree<'a>, cpu: Option<Node<'a>>, model: &Model, content: &mut Xml) {
    for (name, _) in model
        .properties
        .iter()
        .filter(|(name, _)| write::is_feature(name))
    {
        let mut all = cpu.into_iter().flat_map(|cpu| children(cpu, "feature"));
        match all.find(|feature| feature.attribute("name") == Some(name)) {
            Some(feature) if feature.attribute("policy") != Some("force") => {
                tree.set_attribute(feature, "policy", "require");
            }
            Some(_) => {}
            None => content.empty("feature", &format!(" policy='require' name='{name}'")),
        }
    }
}

/// `<vcpupin>`s: those that differ are changed, those that are no more are taken out, new ones added.
fn pins<'a>(
    tree: &mut Tree<'a>,
    domain: Node<'a>,
    spec: &Spec,
    old: &Spec,
) -> Result<(), ParseError> {
    let wanted: BTreeMap<u64, &Pin> = spec
        .pins
        .iter()
        .map(|pin| (u64::from(pin.vcpu), pin))
        .collect();
    // `cpuset` of <vcpu> pins vCPUs without an element of their own.
    let mut stated: BTreeMap<u64, &Pin> = old
        .pins
        .iter()
        .map(|pin| (u64::from(pin.vcpu), pin))
        .collect();
    let tune = child(domain, "cputune");
    for element in tune.into_iter().flat_map(|tune| children(tune, "vcpupin")) {
        let vcpu = number_attribute(element, "vcpu")?.unwrap_or(u64::MAX);
        match wanted.get(&vcpu) {
            Some(pin) if stated.get(&vcpu) != Some(pin) => {
                tree.set_attribute(element, "cpuset", &pin.cpus.to_string());
                stated.insert(vcpu, pin);
            }
            Some(_) => {}
            None => tree.remove(element),
        }
    }
    let new = wanted
        .iter()
        .filter(|(vcpu, pin)| stated.get(vcpu) != Some(pin));
    let pins: Vec<Pin> = new.map(|(_, pin)| (*pin).clone()).collect();
    if pins.is_empty() {
        return Ok(());
    }
    let mut xml = Xml::default();
    write::cputune(
        &mut xml,
        &Spec {
            pins,
            ..Spec::default()
        },
    );
    match tune {
        Some(tune) => tree.append(tune, &xml.content()),
        None => tree.insert(domain, &["vcpus", "vcpu"], &xml),
    }
    Ok(())
}
