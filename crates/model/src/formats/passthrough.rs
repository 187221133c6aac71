//! Host devices of a VM, sorted by the vNUMA node that the guest shall see them on.

use std::collections::BTreeMap;

use super::pci::PciAddress;
use crate::finding::Finding;
use crate::vm::{Device, Spec};

/// Bus numbers that all expander bridges together may take; the rest of the 256 is for the root bus.
const EXPANDER_BUSES: usize = 192;

/// Slots of an expander bridge.
const EXPANDER_SLOTS: usize = 32;

/// Devices with their host addresses by vNUMA node, those without one first.
pub(super) type ByNode<'a> = Vec<(Option<u32>, Vec<(&'a Device, PciAddress)>)>;

/// The devices that can be passed through by QEMU, and findings about the others. Each node's devices take one bus
/// number each and one for their expander bridge; if that is more than there are, none is on a node.
pub(super) fn by_node(spec: &Spec) -> (ByNode<'_>, Vec<Finding>) {
    let nodes = spec
        .topology
        .as_ref()
        .map_or(0, |topology| topology.numa_nodes.len());
    let mut findings = Vec::new();
    let mut by_node: BTreeMap<Option<u32>, Vec<(&Device, PciAddress)>> = BTreeMap::new();
    for device in &spec.devices {
        let Some(address) = PciAddress::from_linux(&device.address) else {
            let text = format!(
                "device {} has no host PCI address such as 0000:41:00.0; it is left out",
                device.name
            );
            findings.push(Finding::warning("lost-device", text));
            continue;
        };
        if address.all_functions() {
            let text =
                format!("of device {address} only function 0 is passed through; add the others");
            findings.push(Finding::warning("lost-device-functions", text));
        }
        let node = device.guest_node.filter(|&node| (node as usize) < nodes);
        if node != device.guest_node {
            let text = format!("device {address} is for a vNUMA node that the VM does not have");
            findings.push(Finding::warning("lost-device-node", text));
        }
        by_node.entry(node).or_default().push((device, address));
    }
    let crowded = by_node
        .iter()
        .any(|(node, devices)| node.is_some() && devices.len() > EXPANDER_SLOTS);
    if crowded || buses(by_node.iter()) > EXPANDER_BUSES {
        let text = format!(
            "more than {EXPANDER_SLOTS} devices on a vNUMA node or {EXPANDER_BUSES} buses for all; the devices are on no \
             vNUMA node"
        );
        findings.push(Finding::warning("lost-device-node", text));
        let all = by_node.into_values().flatten().collect();
        by_node = BTreeMap::from([(None, all)]);
    }
    (by_node.into_iter().collect(), findings)
}

/// The number of the first bus of the expander bridges; theirs end at 255.
pub(super) fn first_bus(by_node: &ByNode) -> usize {
    256 - buses(by_node.iter().map(|(node, devices)| (node, devices)))
}

fn buses<'a, T: 'a>(by_node: impl Iterator<Item = (&'a Option<u32>, &'a Vec<T>)>) -> usize {
    by_node
        .filter(|(node, _)| node.is_some())
        .map(|(_, devices)| 1 + devices.len())
        .sum()
}
