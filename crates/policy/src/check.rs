//! What is wrong with a VM as its file describes it, on a given host: misfits a person would want to know before
//! power-on. What the file contradicts by itself is its format's `lint`.

use std::collections::BTreeMap;

use model::host::{CoreId, Host, LlcId};
use model::{CpuSet, Finding, GuestTopology, Spec};

use crate::shape::{Limit, limits};

/// A VM file's facts to be held against a host.
#[derive(Debug, Clone)]
pub struct Subject<'a> {
    /// The VM.
    pub vm: &'a Spec,
    /// The topology the guest will get: the file's own, or what its hypervisor gives by default.
    pub topology: &'a GuestTopology,
    /// The host.
    pub host: &'a Host,
    /// Licence and guest limits.
    pub limits: &'a [&'static Limit],
}

/// Findings about a VM on a host, in a fixed order: what cannot run, what runs badly, what is lost to licences.
pub fn check(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(size(subject));
    findings.extend(node_fit(subject));
    findings.extend(cache_fit(subject));
    findings.extend(backing(subject));
    findings.extend(pins(subject));
    findings.extend(devices(subject));
    findings.extend(limits::findings(subject.limits, subject.topology));
    findings
}

fn size(subject: &Subject) -> Vec<Finding> {
    let (vm, host) = (subject.vm, subject.host);
    let mut findings = Vec::new();
    if vm.memory_mib == 0 {
        findings.push(Finding::error(
            "no-memory",
            "the file states no memory: the VM cannot start",
        ));
    }
    if vm.vcpus as usize > host.cpus.len() {
        let text = format!(
            "{} vCPUs on a host of {} CPUs wait for each other",
            vm.vcpus,
            host.cpus.len()
        );
        findings.push(Finding::error("more-vcpus-than-cpus", text));
    } else if vm.vcpus as usize > host.cores.len() {
        let text = format!(
            "{} vCPUs on a host of {} cores: two busy vCPUs share a core; ESXi accounts 62.5 % of one to each",
            vm.vcpus,
            host.cores.len()
        );
        findings.push(Finding::warning("more-vcpus-than-cores", text));
    }
    if host.memory_mib() > 0 && vm.memory_mib > host.memory_mib() {
        let text = format!(
            "{} MiB of memory on a host of {} MiB",
            vm.memory_mib,
            host.memory_mib()
        );
        findings.push(Finding::error("memory-exceeds-host", text));
    }
    findings
}

/// One vNUMA node that no host node can hold.
fn node_fit(subject: &Subject) -> Vec<Finding> {
    let (vm, host) = (subject.vm, subject.host);
    if subject.topology.numa_nodes.len() > 1 || host.cpu_nodes().count() < 2 {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let cores = host
        .cpu_nodes()
        .map(|(_, node)| host.cores_in(&node.cpus))
        .max()
        .unwrap_or(0);
    let memory = host
        .cpu_nodes()
        .map(|(_, node)| node.memory_mib)
        .max()
        .unwrap_or(0);
    if vm.vcpus > cores {
        let text = format!(
            "{} vCPUs exceed the {cores} cores of a node, but the guest sees one node",
            vm.vcpus
        );
        findings.push(Finding::warning("vcpus-exceed-node", text));
    }
    if memory > 0 && vm.memory_mib > memory && vm.vcpus <= cores {
        let remote = 100 - memory * 100 / vm.memory_mib;
        let text = format!(
            "{} MiB exceed the {memory} MiB of a node, but the guest sees one node: about {remote} % of its memory \
             is remote unawares",
            vm.memory_mib
        );
        findings.push(Finding::warning("memory-exceeds-node", text));
    }
    findings
}

/// Sockets that hide or promise caches.
fn cache_fit(subject: &Subject) -> Option<Finding> {
    let (topology, host) = (subject.topology, subject.host);
    let largest = host
        .llcs
        .iter()
        .map(|llc| host.cores_in(&llc.cpus))
        .max()
        .unwrap_or(1);
    if topology.vcpus > 1 && topology.cores_per_socket() * topology.threads == 1 {
        let text = format!(
            "{} sockets of one core: the guest sees no shared cache and never looks for an idle neighbour",
            topology.sockets
        );
        return Some(Finding::warning("flat-topology", text));
    }
    // A file that says nothing about caches gets QEMU's default: one per die.
    let per_die = topology.blocks(topology.slots_in(model::Level::Die));
    let shown = if topology.llcs.is_empty() {
        per_die.iter().map(CpuSet::len).max()
    } else {
        topology.llcs.iter().map(|llc| llc.vcpus.len()).max()
    };
    let cores = u32::try_from(shown.unwrap_or(0)).unwrap_or(u32::MAX) / topology.threads.max(1);
    (cores > largest && topology.vcpus > largest).then(|| {
        let text = format!(
            "the guest takes {cores} cores for sharing one cache; a cache of this host has {largest}, \
             so its scheduler moves threads between caches unawares"
        );
        Finding::warning("llc-too-wide", text)
    })
}

/// Host nodes that a vNUMA node names.
fn backing(subject: &Subject) -> Vec<Finding> {
    let host = subject.host;
    let mut findings = Vec::new();
    for (index, guest) in subject.topology.numa_nodes.iter().enumerate() {
        let named: Vec<_> = guest
            .host_nodes
            .iter()
            .map(|id| (id, host.nodes.iter().find(|node| node.id == *id)))
            .collect();
        for (id, _) in named.iter().filter(|(_, node)| node.is_none()) {
            let text = format!(
                "vNUMA node {index} asks for host node {id}, which this host does not have"
            );
            findings.push(Finding::error("host-node-missing", text));
        }
        let memory: u64 = named
            .iter()
            .filter_map(|(_, node)| *node)
            .map(|node| node.memory_mib)
            .sum();
        if memory > 0 && guest.memory_mib > memory {
            let text = format!(
                "vNUMA node {index} has {} MiB, its host nodes {memory} MiB",
                guest.memory_mib
            );
            findings.push(Finding::error("host-node-too-small", text));
        }
    }
    findings
}

fn pins(subject: &Subject) -> Vec<Finding> {
    let (vm, host) = (subject.vm, subject.host);
    let usable = host.cpuset();
    let mut findings = Vec::new();
    let mut of_core: BTreeMap<CoreId, CpuSet> = BTreeMap::new();
    let mut llcs: BTreeMap<LlcId, u32> = BTreeMap::new();
    for pin in &vm.pins {
        let missing = pin.cpus.difference(&usable);
        if !missing.is_empty() {
            let text = format!(
                "vCPU {} is bound to CPUs {missing}, which this host does not offer",
                pin.vcpu
            );
            findings.push(Finding::error("pin-outside-host", text));
        }
        let cpus: Vec<_> = pin.cpus.iter().filter_map(|cpu| host.cpu(cpu)).collect();
        if let [cpu] = cpus[..] {
            of_core
                .entry(cpu.core)
                .or_default()
                .insert(model::CpuId(pin.vcpu));
            *llcs.entry(cpu.llc).or_default() += 1;
        }
    }
    let shared: Vec<String> = of_core
        .values()
        .filter(|vcpus| vcpus.len() > 1)
        .map(CpuSet::to_string)
        .collect();
    if !shared.is_empty() && subject.topology.threads == 1 {
        let text = format!(
            "vCPUs {} are bound to sibling threads of a core, but the guest takes them for cores: it does not know \
             that they slow each other",
            shared.join("; ")
        );
        findings.push(Finding::warning("pins-share-core", text));
    }
    findings.extend(pinned_spread(&llcs, vm, host));
    findings
}

/// One-to-one pins over more LLCs than the VM needs.
fn pinned_spread(llcs: &BTreeMap<LlcId, u32>, vm: &Spec, host: &Host) -> Option<Finding> {
    let largest = host
        .llcs
        .iter()
        .map(|llc| host.cores_in(&llc.cpus))
        .max()
        .unwrap_or(1)
        .max(1);
    let pinned: u32 = llcs.values().sum();
    let needed = pinned.div_ceil(largest) as usize;
    (pinned == vm.vcpus && llcs.len() > needed).then(|| {
        let text = format!(
            "the pins use {} last-level caches where {needed} would do",
            llcs.len()
        );
        Finding::warning("pins-spread", text)
    })
}

fn devices(subject: &Subject) -> Vec<Finding> {
    let (topology, host) = (subject.topology, subject.host);
    let home = |address: &str| {
        let known = |device: &&model::host::HostDevice| {
            device.address == address || device.address.strip_prefix("0000:") == Some(address)
        };
        host.devices.iter().find(known)
    };
    let mut findings = Vec::new();
    for device in subject
        .vm
        .devices
        .iter()
        .filter(|device| !device.address.is_empty())
    {
        let Some(found) = home(&device.address) else {
            let text = format!(
                "device {} ({}) is not on this host",
                device.name, device.address
            );
            findings.push(Finding::warning("device-unknown", text));
            continue;
        };
        let Some(node) = found.node else { continue };
        let shown = device
            .guest_node
            .and_then(|index| topology.numa_nodes.get(index as usize));
        if topology.numa_nodes.len() > 1 && shown.is_none() {
            let text = format!(
                "device {} hangs on host node {node}, but the guest sees no node for it",
                device.name
            );
            findings.push(Finding::info("device-without-node", text));
        } else if shown
            .is_some_and(|guest| !guest.host_nodes.is_empty() && !guest.host_nodes.contains(&node))
        {
            let text = format!(
                "device {} hangs on host node {node}, but is shown on a vNUMA node of another",
                device.name
            );
            findings.push(Finding::warning("device-on-wrong-node", text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use model::host::Synthetic;
    use model::vm::Pin;

    use super::*;

    fn rome() -> Host {
        Synthetic {
            packages: 2,
            llcs_per_node: 4,
            cores_per_llc: 4,
            threads_per_core: 2,
            llc_mib: 16,
            node_mib: 65_536,
            ..Synthetic::default()
        }
        .host("rome")
    }

    fn codes(vm: &Spec, levels: [u32; 5]) -> Vec<&'static str> {
        let topology = GuestTopology::uniform(vm.vcpus, levels);
        let subject = Subject {
            vm,
            topology: &topology,
            host: &rome(),
            limits: &[],
        };
        check(&subject).iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn names_each_misfit() {
        let vm = |vcpus, memory_mib| Spec {
            vcpus,
            memory_mib,
            ..Spec::default()
        };
        for (vm, levels, expected) in [
            (vm(4, 8192), [1, 1, 1, 4, 1], vec![]),
            (vm(4, 8192), [4, 1, 1, 1, 1], vec!["flat-topology"]),
            (vm(8, 8192), [1, 1, 1, 8, 1], vec!["llc-too-wide"]),
            (vm(8, 8192), [1, 2, 1, 4, 1], vec![]),
            (vm(4, 100_000), [1, 1, 1, 4, 1], vec!["memory-exceeds-node"]),
            (vm(20, 8192), [5, 1, 1, 4, 1], vec!["vcpus-exceed-node"]),
            (
                vm(40, 8192),
                [10, 1, 1, 4, 1],
                vec!["more-vcpus-than-cores", "vcpus-exceed-node"],
            ),
            (
                vm(80, 200_000),
                [20, 1, 1, 4, 1],
                vec![
                    "more-vcpus-than-cpus",
                    "memory-exceeds-host",
                    "vcpus-exceed-node",
                ],
            ),
        ] {
            assert_eq!(
                codes(&vm, levels),
                expected,
                "{} vCPUs as {levels:?}",
                vm.vcpus
            );
        }
    }

    #[test]
    fn reads_pins_against_the_host() {
        let pinned = |cpus: &[&str]| Spec {
            vcpus: 4,
            memory_mib: 1024,
            pins: (0..)
                .zip(cpus)
                .map(|(vcpu, cpus)| Pin {
                    vcpu,
                    cpus: cpus.parse().unwrap(),
                })
                .collect(),
            ..Spec::default()
        };
        let levels = [1, 1, 1, 4, 1];
        // CPUs 0-3 are the first threads of LLC 0; 32-35 are their siblings.
        assert!(codes(&pinned(&["0", "1", "2", "3"]), levels).is_empty());
        assert_eq!(
            codes(&pinned(&["0", "32", "1", "33"]), levels),
            ["pins-share-core"]
        );
        assert_eq!(
            codes(&pinned(&["0", "4", "8", "12"]), levels),
            ["pins-spread"]
        );
        assert_eq!(
            codes(&pinned(&["0", "1", "2", "99"]), levels),
            ["pin-outside-host"]
        );
        assert!(codes(&pinned(&["0-3", "0-3", "0-3", "0-3"]), levels).is_empty());
    }
}
