//! From a VM to the settings of its file.

use crate::cpuset::CpuSet;
use crate::finding::Finding;
use crate::formats::Target;
use crate::formats::guest_os;
use crate::formats::lines::{Settings, Wanted};
use crate::guest::{GuestTopology, Level};
use crate::vm::{GuestCpu, Pin, Spec};

use super::numa::NumaLine;
use super::{Smp, args, conf, devices, numa};

/// The settings of a new file, with what they cannot say.
pub(super) fn new_file(spec: &Spec, target: Target) -> (Vec<Wanted>, Vec<Finding>) {
    let set = |key: &str, value: &str| (key.to_owned(), Some(value.to_owned()));
    let (mut settings, findings) = changes(&Spec::default(), spec, &Settings::default(), target);
    settings.push(set("machine", "q35"));
    if spec.cpu == GuestCpu::Unstated {
        settings.push(set("cpu", "host"));
    }
    settings.sort();
    (settings, findings)
}

/// What must change in a file that says `was` so that it says `spec`, with what it cannot say.
pub(super) fn changes(
    was: &Spec,
    spec: &Spec,
    file: &Settings,
    target: Target,
) -> (Vec<Wanted>, Vec<Finding>) {
    let (mut wanted, mut findings) = (Vec::new(), Vec::new());
    let mut set = |key: &str, value: Option<String>| wanted.push((key.to_owned(), value));
    if spec.name != was.name {
        set("name", name(&spec.name, &mut findings));
    }
    if spec.memory_mib != was.memory_mib {
        set("memory", Some(spec.memory_mib.to_string()));
    }
    if spec.guest_os != was.guest_os {
        set("ostype", ostype(spec, &mut findings));
    }
    if spec.cpu != was.cpu {
        wanted.extend(cpu(&spec.cpu, file, &mut findings));
    }
    let of = |spec: &Spec| (spec.vcpus, spec.max_vcpus, spec.topology.clone());
    if of(spec) != of(was) || spec.hugepage_kib != was.hugepage_kib {
        let shape = shape_of(spec);
        wanted.extend(counts(spec, &shape, file));
        wanted.extend(nodes(spec, &shape, file, &mut findings));
        wanted.extend(args::wanted(spec, &shape, file, target, &mut findings));
    }
    if spec.hugepage_kib != was.hugepage_kib {
        set_hugepages(spec, &mut wanted, &mut findings);
    }
    if spec.devices != was.devices {
        let (devices, lost) = devices::changes(was, spec, file);
        wanted.extend(devices);
        findings.extend(lost);
    }
    if affinity(&spec.pins) != affinity(&was.pins) {
        wanted.push(pins(spec, &mut findings));
    }
    (wanted, findings)
}

/// The topology to write: the stated one, or one socket with all vCPUs.
fn shape_of(spec: &Spec) -> GuestTopology {
    let slots = spec.max_vcpus.unwrap_or(0).max(spec.vcpus).max(1);
    let plain = || GuestTopology::uniform(spec.vcpus, [1, 1, 1, slots, 1]);
    let mut shape = spec.topology.clone().unwrap_or_else(plain);
    shape.vcpus = spec.vcpus;
    shape
}

/// `sockets`, `cores` and `vcpus`, as far as the file says something else.
fn counts(spec: &Spec, shape: &GuestTopology, file: &Settings) -> Vec<Wanted> {
    let cores = shape.slots_in(Level::Socket);
    let slots = shape.maxcpus();
    let old = super::smp(file).ok().filter(|_| !file.list.is_empty());
    let mut wanted = Vec::new();
    let mut set = |key: &str, old: Option<u32>, new: u32| {
        if old != Some(new) {
            wanted.push((key.to_owned(), Some(new.to_string())));
        }
    };
    set("sockets", old.map(|old| old.sockets), shape.sockets);
    set("cores", old.map(|old| old.cores), cores);
    let hot = (spec.vcpus < slots).then_some(spec.vcpus);
    match hot {
        Some(vcpus) if file.text("vcpus").and_then(|text| text.parse().ok()) == Some(vcpus) => {}
        Some(vcpus) => wanted.push(("vcpus".to_owned(), Some(vcpus.to_string()))),
        // Without the key all slots are present; a number equal to all of them may stay.
        None if old.is_some_and(|old| old.vcpus == slots) => {}
        None => wanted.push(("vcpus".to_owned(), None)),
    }
    wanted
}

/// `numa` and `numaN`, as far as the file says something else.
fn nodes(
    spec: &Spec,
    shape: &GuestTopology,
    file: &Settings,
    findings: &mut Vec<Finding>,
) -> Vec<Wanted> {
    let old = numa::lines(file).unwrap_or_default();
    let smp = Smp {
        sockets: shape.sockets.max(1),
        cores: shape.slots_in(Level::Socket),
        slots: shape.maxcpus(),
        vcpus: spec.vcpus,
    };
    let implied = numa::per_socket(smp, spec.vcpus, spec.memory_mib);
    if numa::is_on(file) && old.is_empty() && shape.numa_nodes == implied {
        return Vec::new();
    }
    let lines = numa::wanted(shape).unwrap_or_else(|problem| {
        findings.push(Finding::warning(
            "lost-numa-nodes",
            format!("{problem}; no vNUMA nodes are written"),
        ));
        Vec::new()
    });
    // Proxmox VE wants NUMA on for hugepages; without numaN lines it makes one node per socket.
    let on = !lines.is_empty() || spec.hugepage_kib.is_some();
    if on && lines.is_empty() && shape.sockets > 1 {
        findings.push(Finding::warning(
            "numa-for-hugepages",
            "hugepages need numa: 1, which makes a vNUMA node of each socket; state the nodes or use one socket",
        ));
    }
    let mut wanted: Vec<Wanted> = Vec::new();
    if on != numa::is_on(file) {
        wanted.push(("numa".to_owned(), on.then(|| "1".to_owned())));
    }
    let mut lines = lines.into_iter();
    for index in 0..numa::MAX_NODES {
        let key = format!("numa{index}");
        let old: Option<&NumaLine> = old
            .iter()
            .find(|(number, _)| *number == index)
            .map(|(_, line)| line);
        let new = lines.next();
        if new.as_ref() != old {
            let policy = file
                .text(&key)
                .and_then(|line| conf::property(line, "policy", false));
            wanted.push((key.clone(), new.map(|line| numa::text(&line, policy))));
        }
    }
    wanted
}

fn set_hugepages(spec: &Spec, wanted: &mut Vec<Wanted>, findings: &mut Vec<Finding>) {
    let size = match spec.hugepage_kib {
        Some(2048) => Some("2"),
        Some(1_048_576) => Some("1024"),
        None => None,
        Some(kib) => {
            findings.push(Finding::warning(
                "lost-hugepages",
                format!("pages of {kib} KiB: Proxmox VE has 2 MiB and 1 GiB; none are asked for"),
            ));
            None
        }
    };
    wanted.push(("hugepages".to_owned(), size.map(str::to_owned)));
}

fn ostype(spec: &Spec, findings: &mut Vec<Finding>) -> Option<String> {
    let os = spec.guest_os.as_deref()?;
    let ostype = guest_os::to_proxmox(os).unwrap_or_else(|| {
        findings.push(Finding::warning(
            "lost-guest-os",
            format!(
                "guest {os:?} has no Proxmox VE ostype here; written as other, set ostype by hand"
            ),
        ));
        "other"
    });
    Some(ostype.to_owned())
}

/// `cpu`, with the flags and other properties that the file has.
fn cpu(cpu: &GuestCpu, file: &Settings, findings: &mut Vec<Finding>) -> Option<Wanted> {
    let model = match cpu {
        GuestCpu::Unstated => return None,
        GuestCpu::Host => "host",
        GuestCpu::Named(model) => model,
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if model.is_empty() || !model.bytes().all(plain) {
        findings.push(Finding::warning(
            "lost-cpu-model",
            format!("{model:?} is no name of a CPU model; the model is left as it is"),
        ));
        return None;
    }
    let old = file.text("cpu").unwrap_or_default();
    let is_model = |part: &str| !part.contains('=') || part.starts_with("cputype=");
    let others = old.split(',').map(str::trim).filter(|part| !is_model(part));
    let parts: Vec<&str> = std::iter::once(model).chain(others).collect();
    Some(("cpu".to_owned(), Some(parts.join(","))))
}

/// Proxmox VE takes DNS names only.
fn name(name: &str, findings: &mut Vec<Finding>) -> Option<String> {
    if name.is_empty() || is_dns_name(name) {
        return Some(name.to_owned()).filter(|name| !name.is_empty());
    }
    let allowed = |char: char| {
        if char.is_ascii_alphanumeric() {
            char
        } else {
            '-'
        }
    };
    let labels = name.split('.').map(|label| {
        let label: String = label.chars().map(allowed).take(63).collect();
        label.trim_matches('-').to_owned()
    });
    let labels: Vec<String> = labels.filter(|label| !label.is_empty()).collect();
    let written = labels.join(".");
    findings.push(Finding::warning(
        "lost-name",
        format!("{name:?} is no DNS name, which Proxmox VE needs; written as {written:?}"),
    ));
    Some(written).filter(|written| !written.is_empty())
}

/// Labels of letters, digits and inner hyphens, joined by dots (`dns-name` of Proxmox VE's schema).
pub(super) fn is_dns_name(name: &str) -> bool {
    name.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    })
}

/// The host CPUs of all pinned vCPUs together.
fn affinity(pins: &[Pin]) -> CpuSet {
    pins.iter()
        .fold(CpuSet::new(), |all, pin| all.union(&pin.cpus))
}

fn pins(spec: &Spec, findings: &mut Vec<Finding>) -> Wanted {
    let all = affinity(&spec.pins);
    let pinned = u32::try_from(spec.pins.len()).unwrap_or(u32::MAX);
    if pinned > 0 && (pinned < spec.vcpus || spec.pins.iter().any(|pin| pin.cpus != all)) {
        findings.push(Finding::warning(
            "lost-pins",
            format!("vCPUs have different host CPUs; affinity is one set for every thread of the VM and gets {all}"),
        ));
    }
    let value = (!all.is_empty()).then(|| all.to_string());
    ("affinity".to_owned(), value)
}
