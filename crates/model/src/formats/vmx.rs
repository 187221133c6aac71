//! VMware's `.vmx`: `key = "value"` lines.
//!
//! Keys ignore case. VMware does not start a VM whose file repeats a key; here the last one counts and [`lint`] says so. What a key means, its range and its default: docs/esxi-keys.md.
//!
//! **What is stated.** The topology is read only where the file states `cpuid.coresPerSocket` (above 0) and it divides
//! `numvcpus`; ESXi decides the rest at power-on. vNUMA nodes are read from `numa.vcpu.coresPerNode`,
//! `numa.vcpu.maxPerVirtualNode`, `numa.vcpu.followcorespersocket` or the size ESXi persisted, in this order, and only
//! when they leave more than one node. LLCs are never stated.
//!
//! **Cores and threads.** VMware's cores per socket and cores per node count vCPUs: a socket of 4 cores with 2 threads
//! is `cpuid.coresPerSocket = "8"` with `cpuid.numSMT = "2"` (inferred: both must divide `numvcpus`, and the API calls
//! the first "the virtual socket size").

mod devices;
mod dict;
mod keys;
mod lint;
mod shape;
mod write;

use crate::cpuset::CpuSet;
use crate::finding::Finding;
use crate::vm::{Pin, Spec};

use super::lines::{MAX_MEMORY_MIB, Settings, apply, checked, new_problems, with_memory_of_nodes};
use super::smp::{MAX_VCPUS, Sets, problems};
use super::{ParseError, Target, Written};

/// The hardware version of new files, and of files that state none: ESXi 8.0's first, which every ESXi 8 runs.
const HW_VERSION: u32 = 20;

/// `memSize` of a file without one, in MB.
const DEFAULT_MEMORY_MIB: u64 = 256;

/// Names of the keys that concern shape, as [`EsxiKeys`](crate::EsxiKeys) holds them.
pub fn shape_keys() -> Vec<&'static str> {
    keys::names()
}

/// Reads a `.vmx`.
///
/// # Errors
/// No line is a setting, or the value of a key that concerns shape is no number, no truth value or out of every range.
pub fn read(text: &str) -> Result<Spec, ParseError> {
    spec(&settings(text)?)
}

/// Writes a `.vmx` for ESXi 8.
pub fn write(spec: &Spec, _target: &Target) -> Written {
    let (wanted, mut lost) = write::new_file(&with_memory_of_nodes(spec));
    lost.splice(0..0, problems(spec));
    finish(apply("", &Settings::default(), &wanted, &dict::STYLE), lost)
}

/// Changes what differs from the file, keeping every other byte.
///
/// A changed shape also takes out the sizes that ESXi persisted for the old one (`numa.autosize.cookie`,
/// `numa.autosize.vcpu.maxPerVirtualNode`, `cpuid.coresPerSocket.cookie`), which would win over it.
///
/// # Errors
/// As [`read`].
pub fn edit(text: &str, spec: &Spec, _target: &Target) -> Result<Written, ParseError> {
    let file = settings(text)?;
    let was = self::spec(&file)?;
    let [old, new] = [&was, spec].map(with_memory_of_nodes);
    let (wanted, mut lost) = write::changes(&old, &new, &file);
    lost.splice(0..0, new_problems(&was, spec));
    Ok(finish(apply(text, &file, &wanted, &dict::STYLE), lost))
}

/// What is wrong with the file by itself: what VMware refuses (errors), what costs performance (warnings).
///
/// # Errors
/// As [`read`].
pub fn lint(text: &str) -> Result<Vec<Finding>, ParseError> {
    let file = settings(text)?;
    Ok(lint::findings(text, &file, &spec(&file)?))
}

fn finish(text: String, mut findings: Vec<Finding>) -> Written {
    findings.extend(checked(lint(&text)));
    Written { text, findings }
}

fn settings(text: &str) -> Result<Settings, ParseError> {
    let file = dict::parse(text);
    file.check_not_empty(text, "`numvcpus = \"4\"`")?;
    Ok(file)
}

fn spec(file: &Settings) -> Result<Spec, ParseError> {
    let vcpus = file.small("numvcpus", 1..=MAX_VCPUS)?.unwrap_or(1);
    let memory_mib = file
        .number("memsize", 0..=MAX_MEMORY_MIB)?
        .unwrap_or(DEFAULT_MEMORY_MIB);
    let esxi = keys::read(file)?;
    let huge = dict::flag(file, "sched.mem.lpage.enable1gpage")?;
    Ok(Spec {
        name: name(file, "displayname")?.unwrap_or_default(),
        vcpus,
        memory_mib,
        guest_os: name(file, "guestos")?,
        topology: shape::implied(&esxi, vcpus, memory_mib),
        hugepage_kib: (huge == Some(true)).then_some(1 << 20),
        devices: devices::read(file)?,
        pins: pins(file, vcpus)?,
        esxi,
        ..Spec::default()
    })
}

fn name(file: &Settings, key: &str) -> Result<Option<String>, ParseError> {
    match file.of(key) {
        Some(setting) if setting.value.contains('\0') => {
            Err(setting.error("a text without NUL characters"))
        }
        setting => Ok(setting
            .map(|setting| setting.value.clone())
            .filter(|value| !value.is_empty())),
    }
}

/// `sched.vcpuN.affinity`, and `sched.cpu.affinity` for the vCPUs without one of their own; "all" is no pin.
fn pins(file: &Settings, vcpus: u32) -> Result<Vec<Pin>, ParseError> {
    let mut sets = Sets::default();
    let mut affinity = |key: &str| match file.of(key) {
        Some(setting) if !setting.value.trim().eq_ignore_ascii_case("all") => {
            sets.read(&setting.value).map_err(|problem| {
                setting.error(&format!(
                    "\"all\" or host CPUs such as \"0,2,4\": {problem}"
                ))
            })
        }
        _ => Ok(CpuSet::new()),
    };
    let all = affinity("sched.cpu.affinity")?;
    let mut pins = Vec::new();
    for vcpu in 0..vcpus {
        let key = format!("sched.vcpu{vcpu}.affinity");
        let own = affinity(&key)?;
        let cpus = if file.text(&key).is_some() {
            own
        } else {
            all.clone()
        };
        if !cpus.is_empty() {
            pins.push(Pin { vcpu, cpus });
        }
    }
    Ok(pins)
}

#[cfg(test)]
mod tests;
