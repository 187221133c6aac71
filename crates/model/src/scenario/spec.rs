//! From what a VM file says to what a placement needs.

use crate::cpuset::CpuSet;
use crate::finding::Finding;
use crate::host::Host;
use crate::tenant::Vm;
use crate::vm::Spec;

/// The VM of a file. Its vNUMA nodes and caches are kept; pins of all vCPUs and `numa.nodeAffinity` become hard affinity;
/// passed-through devices count on the node where `host` has them. Findings say what could not be carried over.
pub fn from_spec(spec: &Spec, host: Option<&Host>) -> (Vm, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut vm = Vm::new(spec.name.clone(), spec.vcpus, spec.memory_mib);
    let stated = spec.topology.as_ref().filter(|topology| {
        topology.vcpus == spec.vcpus
            && topology.check().is_empty()
            && !(topology.llcs.is_empty() && topology.numa_nodes.is_empty())
    });
    vm.guest = stated.cloned();
    vm.prefer_ht = spec.esxi.prefer_ht.unwrap_or(false);
    let mut nodes = spec.esxi.node_affinity.clone();
    nodes.sort_unstable();
    nodes.dedup();
    vm.hard.nodes = nodes;
    let pinned: CpuSet = spec.pins.iter().map(|pin| crate::CpuId(pin.vcpu)).collect();
    if !spec.pins.is_empty() {
        if CpuSet::from_range(0..spec.vcpus).is_subset(&pinned) {
            let all = spec
                .pins
                .iter()
                .fold(CpuSet::new(), |sum, pin| sum.union(&pin.cpus));
            vm.hard.cpus = Some(all);
        } else {
            findings.push(Finding::info(
                "pins-of-some-vcpus",
                format!(
                    "{}: only vCPUs {pinned} of {} are pinned, so that the pins bind no whole group: they are left out",
                    spec.name, spec.vcpus
                ),
            ));
        }
    }
    for device in &spec.devices {
        let Some(host) = host.filter(|_| !device.address.is_empty()) else {
            continue;
        };
        match host
            .devices
            .iter()
            .find(|known| known.address == device.address)
        {
            Some(known) => vm.device_nodes.extend(known.node),
            None => findings.push(Finding::info(
                "device-not-on-host",
                format!(
                    "{}: {} has no device {}: it does not count for the placement",
                    spec.name, host.name, device.address
                ),
            )),
        }
    }
    vm.device_nodes.sort_unstable();
    vm.device_nodes.dedup();
    (vm, findings)
}
