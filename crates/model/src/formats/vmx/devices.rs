//! Passed-through PCI devices: `pciPassthruN.present`, `.id` and `.pxm`.

use crate::finding::Finding;
use crate::formats::ParseError;
use crate::formats::lines::{Settings, Wanted};
use crate::formats::pci::PciAddress;
use crate::vm::{Device, Spec};

use super::{HW_VERSION, dict};

const PREFIX: &str = "pciPassthru";

/// Device numbers a reader looks at. The highest seen in public files is `pciPassthru31`; this is room to spare.
const MAX_DEVICES: u32 = 128;

/// Reads the devices that are present, by number.
pub(super) fn read(file: &Settings) -> Result<Vec<Device>, ParseError> {
    let prefix = PREFIX.to_ascii_lowercase();
    let mut devices = Vec::new();
    for (index, _) in file.numbered(&prefix, ".present") {
        if index >= MAX_DEVICES {
            break;
        }
        if dict::flag(file, &format!("{prefix}{index}.present"))? != Some(true) {
            continue;
        }
        let id = file.text(&format!("{prefix}{index}.id"));
        devices.push(Device {
            name: format!("{PREFIX}{index}"),
            address: id
                .and_then(PciAddress::from_vmware)
                .map_or_else(String::new, |address| address.to_string()),
            guest_node: node(file, &format!("{prefix}{index}.pxm"))?,
        });
    }
    Ok(devices)
}

/// What must change for the wanted devices.
pub(super) fn changes(was: &Spec, spec: &Spec, file: &Settings) -> (Vec<Wanted>, Vec<Finding>) {
    let (mut wanted, mut findings) = (Vec::new(), Vec::new());
    let indices = indices(&spec.devices);
    let mut on_nodes = Vec::new();
    for (device, &index) in spec.devices.iter().zip(&indices) {
        let old = index.and_then(|index| old_device(was, index));
        if old
            .is_some_and(|old| old.address == device.address && old.guest_node == device.guest_node)
        {
            continue;
        }
        let address = PciAddress::from_linux(&device.address);
        let (Some(index), true) = (index, address.is_some() || old.is_some()) else {
            findings.push(lost(device));
            continue;
        };
        if let Some(address) = address
            && old.is_none_or(|old| old.address != device.address)
        {
            wanted.push((format!("{PREFIX}{index}.present"), Some("TRUE".to_owned())));
            wanted.push((format!("{PREFIX}{index}.id"), Some(address.to_vmware())));
            findings.extend(address.all_functions().then(|| only_function_0(device)));
        }
        if old.and_then(|old| old.guest_node) != device.guest_node {
            on_nodes.push((index, device.guest_node));
        }
    }
    for old in &was.devices {
        let index = index_of(&old.name);
        if !indices.contains(&index) {
            wanted.push((format!("{}.present", old.name), Some("FALSE".to_owned())));
        }
    }
    place(&on_nodes, spec, file, &mut wanted, &mut findings);
    (wanted, findings)
}

/// Shows devices on vNUMA nodes. It needs the ACPI motherboard layout and with it EFI; a guest that was installed for
/// BIOS would not boot with EFI, so the firmware of an existing file is left alone.
fn place(
    devices: &[(u32, Option<u32>)],
    spec: &Spec,
    file: &Settings,
    wanted: &mut Vec<Wanted>,
    findings: &mut Vec<Finding>,
) {
    let new_file = file.list.is_empty();
    let efi = new_file
        || file
            .text("firmware")
            .is_some_and(|it| it.eq_ignore_ascii_case("efi"));
    let able = efi && spec.esxi.hw_version.unwrap_or(HW_VERSION) >= 20;
    for &(index, node) in devices {
        if node.is_none() || able {
            wanted.push((
                format!("{PREFIX}{index}.pxm"),
                node.map(|node| node.to_string()),
            ));
        }
    }
    if !devices.iter().any(|(_, node)| node.is_some()) {
        return;
    }
    if able {
        let acpi = Some("acpi".to_owned());
        wanted.push(("chipset.motherboardLayout".to_owned(), acpi));
        wanted.extend(new_file.then(|| ("firmware".to_owned(), Some("efi".to_owned()))));
    } else {
        findings.push(Finding::warning(
            "lost-device-nodes",
            "devices are not put on their vNUMA nodes: that needs hardware version 20 and EFI firmware, and a guest \
             installed for BIOS does not boot with EFI",
        ));
    }
}

fn old_device(was: &Spec, index: u32) -> Option<&Device> {
    was.devices
        .iter()
        .find(|old| index_of(&old.name) == Some(index))
}

/// The number of each device: its own if it has VMware's name, else the first free one; `None` when there is none left.
fn indices(devices: &[Device]) -> Vec<Option<u32>> {
    let own: Vec<Option<u32>> = devices
        .iter()
        .map(|device| index_of(&device.name))
        .collect();
    let mut free = (0..MAX_DEVICES).filter(|index| !own.contains(&Some(*index)));
    own.iter().map(|own| own.or_else(|| free.next())).collect()
}

fn index_of(name: &str) -> Option<u32> {
    let digits = name.strip_prefix(PREFIX)?;
    let index: u32 = digits.parse().ok()?;
    (index < MAX_DEVICES && index.to_string() == digits).then_some(index)
}

/// The vNUMA node in a `.pxm`; a negative number means none.
fn node(file: &Settings, key: &str) -> Result<Option<u32>, ParseError> {
    match file.text(key) {
        Some(text) if text.starts_with('-') && text.parse::<i64>().is_ok() => Ok(None),
        _ => file.small(key, 0..=u32::MAX),
    }
}

fn lost(device: &Device) -> Finding {
    let Device { name, address, .. } = device;
    Finding::warning(
        "lost-device",
        format!(
            "{name} ({address:?}) is not written: a .vmx names a device by its PCI address, and vtopo numbers them below {MAX_DEVICES}"
        ),
    )
}

fn only_function_0(device: &Device) -> Finding {
    Finding::info(
        "lost-device-functions",
        format!(
            "{}: only function 0 of {} is passed through; add the others as devices of their own",
            device.name, device.address
        ),
    )
}
