//! `hostpciN`: passed-through PCI devices.

use crate::finding::Finding;
use crate::formats::lines::{Settings, Wanted};
use crate::formats::pci::PciAddress;
use crate::vm::{Device, Spec};

use super::conf;

/// Most `hostpciN` lines (`$MAX_HOSTPCI_DEVICES` of `PCI.pm`).
const MAX_DEVICES: u32 = 16;

/// Reads the devices: one for each address, so several of one name where a line has several; one without address where
/// a line names a cluster-wide mapping.
pub(super) fn read(file: &Settings) -> Vec<Device> {
    let mut devices = Vec::new();
    for (_, setting) in file.numbered("hostpci", "") {
        let host = conf::property(&setting.value, "host", true).unwrap_or_default();
        devices.extend(host.split(';').map(|address| {
            Device {
                name: setting.key.clone(),
                address: PciAddress::from_linux(address)
                    .map_or_else(String::new, |address| address.to_string()),
                guest_node: None,
            }
        }));
    }
    devices
}

/// What must change for the wanted devices.
pub(super) fn changes(was: &Spec, spec: &Spec, file: &Settings) -> (Vec<Wanted>, Vec<Finding>) {
    let (mut wanted, mut findings) = (Vec::new(), Vec::new());
    let named = names(&spec.devices);
    for (device, name) in spec.devices.iter().zip(&named) {
        if name.is_none()
            || (device.address.is_empty() && file.of(name.as_deref().unwrap_or_default()).is_none())
        {
            findings.push(lost(device));
        }
    }
    if spec
        .devices
        .iter()
        .any(|device| device.guest_node.is_some())
    {
        findings.push(Finding::info(
            "lost-device-nodes",
            "Proxmox VE cannot put a device on a vNUMA node; the guest sees all of them on none",
        ));
    }
    for index in 0..MAX_DEVICES {
        let name = format!("hostpci{index}");
        let old = addresses(was.devices.iter().filter(|device| device.name == name));
        let new = spec.devices.iter().zip(&named);
        let new = addresses(
            new.filter(|(_, own)| own.as_ref() == Some(&name))
                .map(|(device, _)| device),
        );
        if old == new {
            continue;
        }
        let kept = new.is_none() && named.contains(&Some(name.clone()));
        if !kept {
            wanted.push((name.clone(), new.map(|new| line(&new, file, &name))));
        }
    }
    (wanted, findings)
}

/// The addresses of one line; `None` when it has none that can be written.
fn addresses<'a>(devices: impl Iterator<Item = &'a Device>) -> Option<String> {
    let addresses: Vec<String> = devices
        .filter_map(|device| PciAddress::from_linux(&device.address))
        .map(|address| address.to_string())
        .collect();
    (!addresses.is_empty()).then(|| addresses.join(";"))
}

/// The line with these addresses: the file's with its other properties, or a new one.
fn line(addresses: &str, file: &Settings, name: &str) -> String {
    let Some(old) = file.text(name) else {
        let q35 = file.list.is_empty() || file.text("machine").is_some_and(|it| it.contains("q35"));
        return format!("{addresses}{}", if q35 { ",pcie=1" } else { "" });
    };
    let is_host = |part: &str| {
        !part.contains('=') || part.starts_with("host=") || part.starts_with("mapping=")
    };
    let others = old.split(',').map(str::trim).filter(|part| !is_host(part));
    std::iter::once(addresses)
        .chain(others)
        .collect::<Vec<_>>()
        .join(",")
}

/// The line of each device: its own name if it is Proxmox VE's, else the first free one; `None` when there is none left.
fn names(devices: &[Device]) -> Vec<Option<String>> {
    let all: Vec<String> = (0..MAX_DEVICES)
        .map(|index| format!("hostpci{index}"))
        .collect();
    let own = |device: &Device| all.iter().find(|name| **name == device.name).cloned();
    let taken: Vec<String> = devices.iter().filter_map(own).collect();
    let mut free = all.iter().filter(|name| !taken.contains(name)).cloned();
    devices
        .iter()
        .map(|device| own(device).or_else(|| free.next()))
        .collect()
}

fn lost(device: &Device) -> Finding {
    let Device { name, address, .. } = device;
    Finding::warning(
        "lost-device",
        format!(
            "{name} ({address:?}) is not written: a line names a device by its PCI address, and there are {MAX_DEVICES} lines"
        ),
    )
}
