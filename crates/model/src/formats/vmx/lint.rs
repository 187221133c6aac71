//! What is wrong with a `.vmx` by itself.
//!
//! Limits per hardware version: `VirtualMachineConfigOption` of ESXi (hardware versions 10 to 22). What stops a power-on is
//! an error, what costs performance a warning.

use crate::finding::Finding;
use crate::formats::lines::{Settings, lines};
use crate::vm::{EsxiKeys, Spec};

use super::{HW_VERSION, shape};

/// What one hardware version allows.
struct Limits {
    vcpus: u32,
    memory_mib: u64,
    cores_per_socket: u32,
}

/// Everything that is wrong with a file.
pub(super) fn findings(text: &str, file: &Settings, spec: &Spec) -> Vec<Finding> {
    let mut findings = form(text, file);
    ranges(spec, &mut findings);
    sockets(spec, &mut findings);
    threads(spec, &mut findings);
    nodes(spec, &mut findings);
    persisted(spec, &mut findings);
    advice(spec, &mut findings);
    devices(file, spec, &mut findings);
    pins(file, spec, &mut findings);
    findings
}

fn form(text: &str, file: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    // A file with `msg.autoanswer` and `msg.autoAnswer` does not start: hashicorp/vagrant issue 2597.
    for (key, count) in file.repeated() {
        findings.push(Finding::error(
            "duplicate-key",
            format!(
                "`{key}` occurs {count} times (keys ignore case); VMware does not start such a VM, vtopo reads the last one; \
                 keep one of them"
            ),
        ));
    }
    if let Some(first) = file.unreadable.first() {
        let line = lines(&text[..first.end]).count();
        findings.push(Finding::error(
            "unreadable-line",
            format!(
                "line {line} is no `key = \"value\"` ({} such lines); VMware skips or refuses it",
                file.unreadable.len()
            ),
        ));
    }
    let encoding = file.text(".encoding").unwrap_or("UTF-8");
    if !encoding.eq_ignore_ascii_case("utf-8") && !text.is_ascii() {
        findings.push(Finding::warning(
            "encoding-not-utf8",
            format!("the file says its encoding is {encoding}, but was read as UTF-8; names may be wrong"),
        ));
    }
    findings
}

/// Limits of a hardware version, or of the newest for a file that states none.
fn limits(version: Option<u32>) -> Limits {
    let (vcpus, memory_mib, cores_per_socket) = match version.unwrap_or(u32::MAX) {
        ..=10 => (64, 1_035_264, 64),
        11..=12 => (128, 4_177_920, 128),
        13..=14 => (128, 6_275_072, 128),
        15..=16 => (256, 6_275_072, 128),
        17..=19 => (768, 25_149_440, 128),
        20..=21 => (768, 25_149_440, 256),
        22.. => (960, 25_149_440, 960),
    };
    Limits {
        vcpus,
        memory_mib,
        cores_per_socket,
    }
}

fn ranges(spec: &Spec, findings: &mut Vec<Finding>) {
    let version = spec.esxi.hw_version;
    let hardware = version.map_or("any hardware version".to_owned(), |version| {
        format!("hardware version {version}")
    });
    let limits = limits(version);
    let mut above = |code, what: &str, found: u64, limit: u64| {
        if found > limit {
            let text = format!("{what} {found}; {hardware} has at most {limit}");
            findings.push(Finding::error(code, text));
        }
    };
    above(
        "vcpus-above-limit",
        "numvcpus is",
        spec.vcpus.into(),
        limits.vcpus.into(),
    );
    above(
        "memory-above-limit",
        "memSize is",
        spec.memory_mib,
        limits.memory_mib,
    );
    let cores = spec.esxi.cores_per_socket.unwrap_or(0);
    above(
        "cores-per-socket-above-limit",
        "cpuid.coresPerSocket is",
        cores.into(),
        limits.cores_per_socket.into(),
    );
    if spec.memory_mib < 4 || !spec.memory_mib.is_multiple_of(4) {
        findings.push(Finding::error(
            "memory-not-multiple-of-4",
            format!(
                "memSize is {} MB; VMware needs a multiple of 4",
                spec.memory_mib
            ),
        ));
    }
    if version.is_some_and(|version| !(10..=22).contains(&version)) {
        findings.push(Finding::info(
            "hw-version-unknown",
            format!(
                "{hardware} is outside 10 to 22 (ESXi 5.5 to 9.0); limits of the nearest are used"
            ),
        ));
    }
}

fn sockets(spec: &Spec, findings: &mut Vec<Finding>) {
    let (vcpus, modern) = (spec.vcpus, version(&spec.esxi) >= 20);
    match spec.esxi.cores_per_socket {
        Some(0) if !modern => findings.push(Finding::error(
            "cores-per-socket-zero",
            "cpuid.coresPerSocket is 0 (automatic), which needs hardware version 20; write 1",
        )),
        Some(cores) if cores > 0 && vcpus > 1 && !vcpus.is_multiple_of(cores) => {
            findings.push(Finding::error(
                "cores-per-socket-indivisible",
                format!("cpuid.coresPerSocket {cores} does not divide numvcpus {vcpus}; ESXi refuses to power the VM on"),
            ));
        }
        // The vSphere 8.0 study measures gains of one core per socket for single-flow network and storage loads.
        Some(1) if modern && vcpus > 1 => findings.push(Finding::info(
            "flat-on-purpose",
            "cpuid.coresPerSocket is 1, so the guest sees no shared cache; right for one busy flow, else take the line out \
             and ESXi 8 chooses",
        )),
        _ => {}
    }
}

fn threads(spec: &Spec, findings: &mut Vec<Finding>) {
    let Some(threads) = spec.esxi.num_smt.filter(|&threads| threads != 1) else {
        return;
    };
    if threads != 2 {
        findings.push(Finding::error(
            "threads-out-of-range",
            format!("cpuid.numSMT is {threads}; it is 1 or 2"),
        ));
        return;
    }
    let per_socket = spec.esxi.cores_per_socket.unwrap_or(0);
    if !spec.vcpus.is_multiple_of(2) || !per_socket.is_multiple_of(2) {
        findings.push(Finding::error(
            "threads-indivisible",
            format!(
                "cpuid.numSMT 2 needs even numvcpus and cpuid.coresPerSocket; they are {} and {per_socket}",
                spec.vcpus
            ),
        ));
    }
    if version(&spec.esxi) < 20 {
        findings.push(Finding::error(
            "threads-need-hw-20",
            "cpuid.numSMT 2 (virtual hyper-threading) needs hardware version 20",
        ));
    } else {
        findings.push(Finding::info(
            "threads-need-reservation",
            "cpuid.numSMT 2 is meant for latency sensitivity high: all CPU and memory reserved, on a host with SMT on",
        ));
    }
}

fn nodes(spec: &Spec, findings: &mut Vec<Finding>) {
    let (keys, vcpus) = (&spec.esxi, spec.vcpus);
    let per_socket = keys.cores_per_socket.filter(|&cores| cores > 0);
    let fits = |size: u32| {
        per_socket.is_none_or(|cores| size.is_multiple_of(cores) || cores.is_multiple_of(size))
    };
    if let Some(size) = keys.cores_per_node.filter(|&size| size > 0) {
        if !vcpus.is_multiple_of(size) || !fits(size) {
            let cores = per_socket.unwrap_or(0);
            findings.push(Finding::error(
                "cores-per-node-indivisible",
                format!(
                    "numa.vcpu.coresPerNode {size} must divide numvcpus {vcpus} and be a multiple or a divisor of \
                     cpuid.coresPerSocket {cores}; ESXi refuses to power the VM on"
                ),
            ));
        }
        if version(keys) < 20 || per_socket.is_none() {
            findings.push(Finding::warning(
                "cores-per-node-ignored",
                "numa.vcpu.coresPerNode needs hardware version 20 and a stated cpuid.coresPerSocket",
            ));
        }
        if keys.max_per_virtual_node.is_some_and(|other| other != size) {
            findings.push(Finding::warning(
                "two-node-sizes",
                "numa.vcpu.coresPerNode and numa.vcpu.maxPerVirtualNode differ; keep one of them",
            ));
        }
    }
    if keys.max_per_virtual_node == Some(0) {
        findings.push(Finding::error(
            "max-per-virtual-node-zero",
            "numa.vcpu.maxPerVirtualNode is 0; it is at least 1, take the line out for the automatic size",
        ));
    }
    let other = [
        keys.max_per_virtual_node,
        keys.autosize_max_per_virtual_node,
    ];
    for size in other.into_iter().flatten().filter(|&size| size > 0) {
        if size < vcpus && !fits(size) {
            findings.push(Finding::warning(
                "sockets-split-by-nodes",
                format!(
                    "vNUMA nodes of {size} vCPUs cut sockets of {} apart, so caches seem shared that are not; make one a \
                     multiple of the other",
                    per_socket.unwrap_or(0)
                ),
            ));
        }
    }
}

fn persisted(spec: &Spec, findings: &mut Vec<Finding>) {
    if !shape::cookie_fits(&spec.esxi, spec.vcpus) {
        let cookie = spec.esxi.autosize_cookie.unwrap_or(0);
        findings.push(Finding::warning(
            "stale-autosize",
            format!(
                "numa.autosize.cookie {cookie} was made for {} vCPUs, numvcpus is {}; ESXi sizes again at the next power-on",
                cookie / 10_000,
                spec.vcpus
            ),
        ));
    }
}

fn advice(spec: &Spec, findings: &mut Vec<Finding>) {
    let (keys, vcpus) = (&spec.esxi, spec.vcpus);
    let hidden = keys.vcpu_hotadd == Some(true) && keys.allow_hotadd != Some(true);
    if hidden && vcpus >= keys.vcpu_min.unwrap_or(shape::DEFAULT_VCPU_MIN) {
        findings.push(Finding::warning(
            "hot-add-hides-vnuma",
            format!(
                "vcpu.hotadd is on, so a VM of {vcpus} vCPUs gets one vNUMA node even where it spans several host nodes; turn \
                 it off, or set numa.allowHotadd on ESXi 8"
            ),
        ));
    }
    let size = shape::node_size(keys, vcpus);
    if let Some(size) = size.filter(|&size| !vcpus.is_multiple_of(size)) {
        let even = vcpus.next_multiple_of(size);
        findings.push(Finding::warning(
            "odd-vcpus-above-node",
            format!("{vcpus} vCPUs do not split evenly over vNUMA nodes of {size}; {even} would"),
        ));
    }
}

fn devices(file: &Settings, spec: &Spec, findings: &mut Vec<Finding>) {
    let is = |key: &str, value: &str| {
        file.text(key)
            .is_some_and(|it| it.eq_ignore_ascii_case(value))
    };
    let shown = is("chipset.motherboardlayout", "acpi")
        && is("firmware", "efi")
        && version(&spec.esxi) >= 20;
    let on_nodes: Vec<_> = spec
        .devices
        .iter()
        .filter(|device| device.guest_node.is_some())
        .collect();
    if !on_nodes.is_empty() && !shown {
        findings.push(Finding::warning(
            "device-nodes-ignored",
            "a .pxm shows a device on a vNUMA node only with chipset.motherboardLayout = \"acpi\", firmware = \"efi\" and \
             hardware version 20; without them the guest sees no node",
        ));
    }
    let nodes = spec
        .topology
        .as_ref()
        .map_or(0, |shape| shape.numa_nodes.len());
    for device in on_nodes {
        let node = device.guest_node.unwrap_or(0);
        if nodes > 0 && node as usize >= nodes {
            findings.push(Finding::error(
                "device-node-missing",
                format!(
                    "{} is on vNUMA node {node}, but the VM has nodes 0 to {}",
                    device.name,
                    nodes - 1
                ),
            ));
        }
    }
}

fn pins(file: &Settings, spec: &Spec, findings: &mut Vec<Finding>) {
    let pinned = file.numbered("sched.vcpu", ".affinity");
    let missing: Vec<u32> = pinned
        .map(|(vcpu, _)| vcpu)
        .filter(|&vcpu| vcpu >= spec.vcpus)
        .collect();
    if let Some(vcpu) = missing.first() {
        findings.push(Finding::warning(
            "pin-of-missing-vcpu",
            format!(
                "sched.vcpu{vcpu}.affinity is set, but the VM has {} vCPUs",
                spec.vcpus
            ),
        ));
    }
    if !spec.pins.is_empty() {
        findings.push(Finding::warning(
            "pinned-vcpus",
            format!(
                "{} vCPUs have a fixed affinity; ESXi's NUMA scheduler leaves such a VM alone",
                spec.pins.len()
            ),
        ));
    }
}

fn version(keys: &EsxiKeys) -> u32 {
    keys.hw_version.unwrap_or(HW_VERSION)
}
