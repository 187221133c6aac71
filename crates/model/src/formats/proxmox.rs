//! Proxmox VE's `/etc/pve/qemu-server/NNN.conf`: `key: value` lines.
//!
//! Only the main part counts: what follows the first `[section]` line (snapshots, `[PENDING]`, `[special:...]`) is
//! neither read nor changed. Behaviour follows qemu-server 9 (`parse_vm_config` and `config_to_command` of
//! `QemuServer.pm`, `QemuServer/Memory.pm`).
//!
//! **What is stated.** Proxmox VE always passes `-smp VCPUS,sockets=S,cores=C,maxcpus=S*C`, so the topology is known.
//! It has no threads, dies, modules or shared caches of its own, but appends `args` to QEMU's command line, where
//! `-machine smp.dies=4,smp.cores=4` changes single levels of that `-smp` (tried with QEMU 10.0; QEMU 6.1 made `smp` a
//! property of the machine). That is how the writer states them; `sockets * cores` stays the number of slots, so that
//! Proxmox VE's own checks hold.
//!
//! **Memory policy.** A new `numaN` line gets `policy=preferred` for one host node and `interleave` for several, never
//! `bind`: a VM should start although its node is full. The policy of an existing line stays.

mod args;
mod conf;
mod devices;
mod lint;
mod numa;
mod write;

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::guest::GuestTopology;
use crate::vm::{GuestCpu, Pin, Spec};

use self::args::Overrides;
use super::lines::{MAX_MEMORY_MIB, Settings, apply, checked, new_problems, with_memory_of_nodes};
use super::smp::{MAX_NODES, MAX_VCPUS, Sets, llcs_at, problems};
use super::{ParseError, Target, Written};

/// `memory` of a file without one, in MiB (`Memory.pm`).
const DEFAULT_MEMORY_MIB: u64 = 512;

/// Reads a Proxmox VE configuration.
///
/// # Errors
/// No line is a setting, or the value of a key that concerns shape is no number or out of every range.
pub fn read(text: &str) -> Result<Spec, ParseError> {
    spec(&settings(text)?)
}

/// Writes a Proxmox VE configuration, sorted by key as Proxmox VE does. Disks and network are the reader's to add.
pub fn write(spec: &Spec, target: &Target) -> Written {
    let (wanted, mut lost) = write::new_file(&with_memory_of_nodes(spec), *target);
    lost.splice(0..0, problems(spec));
    finish(apply("", &Settings::default(), &wanted, &conf::STYLE), lost)
}

/// Changes what differs from the file, keeping every other byte; options in `args` that are not ours stay too.
///
/// # Errors
/// As [`read`].
pub fn edit(text: &str, spec: &Spec, target: &Target) -> Result<Written, ParseError> {
    let file = settings(text)?;
    let was = self::spec(&file)?;
    let [old, new] = [&was, spec].map(with_memory_of_nodes);
    let (wanted, mut lost) = write::changes(&old, &new, &file, *target);
    lost.splice(0..0, new_problems(&was, spec));
    Ok(finish(apply(text, &file, &wanted, &conf::STYLE), lost))
}

/// What is wrong with the file by itself: what Proxmox VE or QEMU refuses (errors), what costs performance (warnings).
///
/// # Errors
/// As [`read`].
pub fn lint(text: &str) -> Result<Vec<Finding>, ParseError> {
    let file = settings(text)?;
    lint::findings(text, &file, &spec(&file)?)
}

fn finish(text: String, mut findings: Vec<Finding>) -> Written {
    findings.extend(checked(lint(&text)));
    Written { text, findings }
}

fn settings(text: &str) -> Result<Settings, ParseError> {
    let file = conf::parse(text);
    file.check_not_empty(text, "`cores: 4`")?;
    Ok(file)
}

/// What QEMU is told about the vCPUs, before `args`.
#[derive(Debug, Clone, Copy)]
struct Smp {
    sockets: u32,
    cores: u32,
    /// Slots: sockets * cores.
    slots: u32,
    vcpus: u32,
}

fn smp(file: &Settings) -> Result<Smp, ParseError> {
    // `smp` is the old name of `sockets`.
    let old = file.small("smp", 1..=MAX_VCPUS)?.unwrap_or(1);
    let sockets = file.small("sockets", 1..=MAX_VCPUS)?.unwrap_or(old);
    let cores = file.small("cores", 1..=MAX_VCPUS)?.unwrap_or(1);
    let slots = sockets.saturating_mul(cores);
    if slots > MAX_VCPUS {
        let culprit = file.of("cores").or_else(|| file.of("sockets"));
        let span = culprit.map_or(0..0, |setting| setting.span.clone());
        return Err(ParseError::new(
            format!("{sockets} sockets of {cores} cores; QEMU has at most {MAX_VCPUS} vCPUs"),
            span,
        ));
    }
    let vcpus = file
        .small("vcpus", 0..=MAX_VCPUS)?
        .filter(|&vcpus| vcpus > 0);
    Ok(Smp {
        sockets,
        cores,
        slots,
        vcpus: vcpus.unwrap_or(slots),
    })
}

fn spec(file: &Settings) -> Result<Spec, ParseError> {
    let smp = smp(file)?;
    let overrides = args::overrides(file)?;
    let numbers = overrides.over([smp.vcpus, smp.slots, smp.sockets, 1, 1, smp.cores, 1]);
    let [vcpus, slots, ..] = numbers;
    let memory_mib = memory_mib(file)?;
    let mut topology = topology(numbers, &overrides);
    let nodes = numa::read(file, smp, vcpus, memory_mib)?;
    if let Some(shape) = &mut topology {
        shape.distances = distances(&overrides, nodes.len());
        shape.numa_nodes = nodes;
    }
    Ok(Spec {
        name: file.text("name").unwrap_or_default().to_owned(),
        vcpus,
        max_vcpus: (slots > vcpus).then_some(slots),
        memory_mib,
        guest_os: file.text("ostype").map(str::to_owned),
        hugepage_kib: hugepage_kib(file, memory_mib, topology.as_ref())?,
        topology,
        cpu: cpu(file),
        devices: devices::read(file),
        pins: pins(file, vcpus)?,
        ..Spec::default()
    })
}

/// The topology QEMU makes of `[cpus, maxcpus, sockets, dies, modules, cores, threads]`; `None` when it would refuse it.
fn topology(numbers: [u32; 7], overrides: &Overrides) -> Option<GuestTopology> {
    let [vcpus, slots, sockets, dies, modules, cores, threads] = numbers;
    let mut shape = GuestTopology::uniform(vcpus, [sockets, dies, modules, cores, threads]);
    if shape.maxcpus() != slots || vcpus > slots {
        return None;
    }
    if let Some(level) = overrides.llc() {
        shape.llcs = llcs_at(&shape, level, 0);
    }
    Some(shape)
}

/// The distances between nodes that `args` states; QEMU takes one direction for both, and 20 where none is given.
fn distances(overrides: &Overrides, nodes: usize) -> Vec<Vec<u32>> {
    if overrides.distances.is_empty() || nodes > MAX_NODES {
        return Vec::new();
    }
    let stated: BTreeMap<(u32, u32), u32> = overrides
        .distances
        .iter()
        .map(|&(from, to, distance)| ((from, to), distance))
        .collect();
    let distance = |from: u32, to: u32| {
        let other = stated.get(&(from, to)).or(stated.get(&(to, from)));
        if from == to {
            10
        } else {
            other.copied().unwrap_or(20)
        }
    };
    let row = |from| (0u32..).take(nodes).map(|to| distance(from, to)).collect();
    (0u32..).take(nodes).map(row).collect()
}

/// `memory: 4096` or `memory: current=4096`.
fn memory_mib(file: &Settings) -> Result<u64, ParseError> {
    let Some(setting) = file.of("memory") else {
        return Ok(DEFAULT_MEMORY_MIB);
    };
    let current = conf::property(&setting.value, "current", true).unwrap_or(&setting.value);
    let mib = current
        .trim()
        .parse()
        .ok()
        .filter(|mib| *mib <= MAX_MEMORY_MIB);
    mib.ok_or_else(|| setting.error("whole MiB such as 4096"))
}

/// `any` takes 1 GiB pages where the memory of every node allows it, else 2 MiB (`hugepages_size`).
fn hugepage_kib(
    file: &Settings,
    memory_mib: u64,
    shape: Option<&GuestTopology>,
) -> Result<Option<u64>, ParseError> {
    let nodes = shape.map_or(&[][..], |shape| &shape.numa_nodes);
    let whole = |mib: u64| mib.is_multiple_of(1024);
    match file.text("hugepages") {
        None => Ok(None),
        Some("1024") => Ok(Some(1 << 20)),
        Some("any") if whole(memory_mib) && nodes.iter().all(|node| whole(node.memory_mib)) => {
            Ok(Some(1 << 20))
        }
        Some("any" | "2") => Ok(Some(2 << 10)),
        Some(_) => Err(file
            .of("hugepages")
            .expect("it has a value")
            .error("any, 2 or 1024")),
    }
}

fn cpu(file: &Settings) -> GuestCpu {
    let model = file
        .text("cpu")
        .and_then(|value| conf::property(value, "cputype", true));
    match model {
        None => GuestCpu::Unstated,
        Some("host") => GuestCpu::Host,
        Some(model) => GuestCpu::Named(model.to_owned()),
    }
}

/// `affinity` binds every thread of the VM, and so every vCPU.
fn pins(file: &Settings, vcpus: u32) -> Result<Vec<Pin>, ParseError> {
    let Some(setting) = file.of("affinity") else {
        return Ok(Vec::new());
    };
    let cpus = Sets::default().read(&setting.value);
    let cpus =
        cpus.map_err(|problem| setting.error(&format!("host CPUs such as 0,5,8-11: {problem}")))?;
    Ok((0..vcpus)
        .map(|vcpu| Pin {
            vcpu,
            cpus: cpus.clone(),
        })
        .collect())
}

#[cfg(test)]
mod tests;
