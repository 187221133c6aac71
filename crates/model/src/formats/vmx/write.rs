//! From a VM to the settings of its file.

use crate::cpuset::CpuSet;
use crate::finding::Finding;
use crate::formats::guest_os;
use crate::formats::lines::{Settings, Wanted};
use crate::vm::{GuestCpu, Pin, Spec};

use super::{HW_VERSION, devices, keys, shape};

/// The settings of a new file, with what they cannot say.
pub(super) fn new_file(spec: &Spec) -> (Vec<Wanted>, Vec<Finding>) {
    let set = |key: &str, value: &str| (key.to_owned(), Some(value.to_owned()));
    let mut settings = vec![set(".encoding", "UTF-8"), set("config.version", "8")];
    let (changes, findings) = changes(&Spec::default(), spec, &Settings::default());
    if spec.esxi.hw_version.is_none() {
        settings.push(set("virtualHW.version", &HW_VERSION.to_string()));
    }
    settings.extend(changes);
    (settings, findings)
}

/// What must change in a file that says `was` so that it says `spec`, with what it cannot say.
pub(super) fn changes(was: &Spec, spec: &Spec, file: &Settings) -> (Vec<Wanted>, Vec<Finding>) {
    let (mut wanted, mut findings) = (Vec::new(), Vec::new());
    let mut set = |key: &str, value: Option<String>| wanted.push((key.to_owned(), value));
    let shape_changed =
        (was.vcpus, &was.topology, &was.esxi) != (spec.vcpus, &spec.topology, &spec.esxi);
    if spec.name != was.name {
        set(
            "displayName",
            Some(spec.name.clone()).filter(|name| !name.is_empty()),
        );
    }
    if spec.guest_os != was.guest_os {
        set("guestOS", guest_os(spec, &mut findings));
    }
    if spec.memory_mib != was.memory_mib {
        let memory = |mib: u64| Some(mib.to_string());
        set("memSize", memory(spec.memory_mib));
        // A full reservation, which passed-through devices need, stays one.
        let all_reserved = file.text("sched.mem.min") == memory(was.memory_mib).as_deref();
        if all_reserved && spec.hugepage_kib == was.hugepage_kib {
            set("sched.mem.min", memory(spec.memory_mib));
        }
    }
    if spec.vcpus != was.vcpus {
        set("numvcpus", Some(spec.vcpus.to_string()));
    }
    if shape_changed {
        let (settled, lost) = shape::settled(spec);
        wanted.extend(keys::difference(&was.esxi, &settled));
        findings.extend(lost);
    }
    if spec.hugepage_kib != was.hugepage_kib {
        wanted.extend(hugepages(spec, &mut findings));
    }
    if spec.devices != was.devices {
        let (devices, lost) = devices::changes(was, spec, file);
        wanted.extend(devices);
        findings.extend(lost);
    }
    if spec.pins != was.pins {
        wanted.extend(pins(was, spec, file));
    }
    findings.extend(lost(was, spec));
    (wanted, findings)
}

fn guest_os(spec: &Spec, findings: &mut Vec<Finding>) -> Option<String> {
    let os = spec.guest_os.as_deref()?;
    let id = guest_os::to_vmware(os).unwrap_or_else(|| {
        findings.push(Finding::warning(
            "lost-guest-os",
            format!("guest {os:?} has no VMware id here; written as other-64, set guestOS by hand"),
        ));
        "other-64"
    });
    Some(id.to_owned())
}

/// 1 GiB pages need all memory reserved; ESXi uses 2 MiB pages by itself where it can.
fn hugepages(spec: &Spec, findings: &mut Vec<Finding>) -> Vec<Wanted> {
    const KEY: &str = "sched.mem.lpage.enable1GPage";
    let set = |key: &str, value: &str| (key.to_owned(), Some(value.to_owned()));
    match spec.hugepage_kib {
        Some(1_048_576) => vec![
            set(KEY, "TRUE"),
            set("sched.mem.pin", "TRUE"),
            set("sched.mem.min", &spec.memory_mib.to_string()),
        ],
        other => {
            findings.extend(other.map(|kib| {
                Finding::info(
                    "lost-hugepages",
                    format!("pages of {kib} KiB cannot be asked for; a .vmx knows 1 GiB only, and ESXi backs memory with 2 MiB pages where it can"),
                )
            }));
            vec![(KEY.to_owned(), None)]
        }
    }
}

fn pins(was: &Spec, spec: &Spec, file: &Settings) -> Vec<Wanted> {
    // Without a pin of its own a vCPU falls back to the VM's.
    let unpinned = file.of("sched.cpu.affinity").map(|_| "all".to_owned());
    let of = |pins: &[Pin], vcpu: u32| -> Option<CpuSet> {
        let at = pins.binary_search_by_key(&vcpu, |pin| pin.vcpu).ok()?;
        Some(pins[at].cpus.clone())
    };
    let sorted = |pins: &[Pin]| {
        let mut pins = pins.to_vec();
        pins.sort_by_key(|pin| pin.vcpu);
        pins
    };
    let (old, new) = (sorted(&was.pins), sorted(&spec.pins));
    let mut vcpus: Vec<u32> = old.iter().chain(&new).map(|pin| pin.vcpu).collect();
    vcpus.sort_unstable();
    vcpus.dedup();
    vcpus
        .into_iter()
        .filter(|&vcpu| of(&old, vcpu) != of(&new, vcpu))
        .map(|vcpu| {
            let cpus = of(&new, vcpu).map(|cpus| list(&cpus));
            (
                format!("sched.vcpu{vcpu}.affinity"),
                cpus.or_else(|| unpinned.clone()),
            )
        })
        .collect()
}

/// `0,1,2`: the form VMware writes, without ranges.
fn list(cpus: &CpuSet) -> String {
    let cpus: Vec<String> = cpus.iter().map(|cpu| cpu.to_string()).collect();
    cpus.join(",")
}

fn lost(was: &Spec, spec: &Spec) -> Vec<Finding> {
    let mut findings = Vec::new();
    let slots = spec.max_vcpus.filter(|&max| max > spec.vcpus);
    if let Some(max) = slots.filter(|_| spec.max_vcpus != was.max_vcpus) {
        findings.push(Finding::info(
            "lost-max-vcpus",
            format!("{max} vCPU slots for hot-plug: a .vmx has no such number; vcpu.hotadd lets vCPUs be added, and hides vNUMA"),
        ));
    }
    if let GuestCpu::Named(model) = &spec.cpu
        && spec.cpu != was.cpu
    {
        findings.push(Finding::info(
            "lost-cpu-model",
            format!("CPU model {model}: a VM on ESXi sees the host's processor, masked by the cluster's EVC mode"),
        ));
    }
    findings
}
