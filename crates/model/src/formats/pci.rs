//! PCI addresses as VM files write them.

use std::fmt;

/// A PCI function, or all functions of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PciAddress {
    domain: u32,
    bus: u32,
    slot: u32,
    /// `None` means all functions.
    function: Option<u32>,
}

impl PciAddress {
    /// Reads Linux' notation, all hexadecimal: `0000:41:00.0`, `41:00.0`, or `0000:41:00` for all functions.
    pub(super) fn from_linux(text: &str) -> Option<Self> {
        Self::parse(text.trim(), 16)
    }

    /// Reads VMware's notation, `segment:bus:slot.function` in decimal (`00000:013:00.0` is Linux' `0000:0d:00.0`),
    /// with or without padding and segment. An address of exactly Linux' widths (4:2:2.1) is taken as Linux' own,
    /// since people paste it from `lspci`.
    pub(super) fn from_vmware(text: &str) -> Option<Self> {
        let text = text.trim();
        let widths: Vec<usize> = text.split([':', '.']).map(str::len).collect();
        Self::parse(text, if widths == [4, 2, 2, 1] { 16 } else { 10 })
    }

    /// VMware's notation of the address; function 0 when all functions are meant.
    pub(super) fn to_vmware(self) -> String {
        let function = self.function.unwrap_or(0);
        format!(
            "{:05}:{:03}:{:02}.{function}",
            self.domain, self.bus, self.slot
        )
    }

    /// The address with function 0 when all functions are meant.
    pub(super) fn with_function(self) -> Self {
        Self {
            function: self.function.or(Some(0)),
            ..self
        }
    }

    /// The four numbers: domain, bus, slot, function (0 when all are meant).
    pub(super) fn numbers(self) -> [u32; 4] {
        [self.domain, self.bus, self.slot, self.function.unwrap_or(0)]
    }

    /// Whether the address means every function of the device.
    pub(super) fn all_functions(self) -> bool {
        self.function.is_none()
    }

    fn parse(text: &str, radix: u32) -> Option<Self> {
        let number = |text: &str, limit: u32| {
            let value = u32::from_str_radix(text, radix).ok()?;
            (value < limit && !text.starts_with('+')).then_some(value)
        };
        let (device, function) = match text.split_once('.') {
            Some((device, function)) => (device, Some(number(function, 8)?)),
            None => (text, None),
        };
        let fields: Vec<&str> = device.split(':').collect();
        let (domain, bus, slot) = match fields[..] {
            [bus, slot] => ("0", bus, slot),
            [domain, bus, slot] => (domain, bus, slot),
            _ => return None,
        };
        Some(Self {
            domain: number(domain, 1 << 16)?,
            bus: number(bus, 1 << 8)?,
            slot: number(slot, 1 << 5)?,
            function,
        })
    }
}

impl fmt::Display for PciAddress {
    /// Linux' notation with domain, e.g. `0000:41:00.0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}", self.domain, self.bus, self.slot)?;
        self.function
            .map_or(Ok(()), |function| write!(f, ".{function:x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_notations_name_the_same_device() {
        for (vmware, linux, canonical) in [
            ("00000:013:00.0", "0000:0d:00.0", "00000:013:00.0"),
            ("00000:026:01.2", "1a:01.2", "00000:026:01.2"),
            ("130:00.0", "0000:82:00.0", "00000:130:00.0"),
            ("0:66:0.0", "0000:42:00.0", "00000:066:00.0"),
            ("0000:41:00.0", "0000:41:00.0", "00000:065:00.0"),
        ] {
            let address = PciAddress::from_vmware(vmware).unwrap();
            assert_eq!(Some(address), PciAddress::from_linux(linux), "{vmware}");
            assert_eq!(address.to_vmware(), canonical);
        }
        let device = PciAddress::from_linux("41:00").unwrap();
        assert!(device.all_functions());
        assert_eq!(device.to_string(), "0000:41:00");
    }

    #[test]
    fn refuses_what_is_no_address() {
        for text in [
            "",
            "41",
            "0000:41:00.8",
            "g1:00.0",
            "1:2:3:4.0",
            "00000:256:00.0",
            "0:+1:0.0",
        ] {
            assert_eq!(PciAddress::from_vmware(text), None, "{text:?}");
        }
        assert_eq!(PciAddress::from_linux("0000:41:20.0"), None);
    }
}
