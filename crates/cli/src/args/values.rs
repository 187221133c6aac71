//! Values that clap cannot read by itself.

use std::str::FromStr;

use policy::shape::MAX_VCPUS;

/// Memory in MiB, at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory(pub(crate) u64);

/// Largest memory that is accepted, in MiB: 4 PiB, what 52 physical address bits reach.
const MAX_MEMORY_MIB: u64 = 1 << 32;

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let digits = trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let kib_per_unit: u64 = match trimmed[digits.len()..].to_ascii_lowercase().as_str() {
            "k" | "kib" | "kb" => 1,
            "" | "m" | "mib" | "mb" => 1 << 10,
            "g" | "gib" | "gb" => 1 << 20,
            "t" | "tib" | "tb" => 1 << 30,
            unit => return Err(format!("{unit:?} is no unit; write memory as 64G or 512M")),
        };
        let (whole, fraction) = digits.trim().split_once('.').unwrap_or((digits.trim(), ""));
        let wrong = || format!("{text:?} is no memory size; write it as 64G or 512M");
        if fraction.len() > 6 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        let whole: u64 = whole.parse().map_err(|_| wrong())?;
        let fraction_value: u64 = if fraction.is_empty() {
            0
        } else {
            fraction.parse().map_err(|_| wrong())?
        };
        let scale = 10u64.pow(u32::try_from(fraction.len()).unwrap_or(0));
        let kib = whole
            .checked_mul(kib_per_unit)
            .and_then(|kib| kib.checked_add(fraction_value * kib_per_unit / scale));
        match kib.map(|kib| kib >> 10) {
            Some(0) => Err(format!(
                "{text} is less than 1 MiB; give a VM at least that"
            )),
            Some(mib) if mib <= MAX_MEMORY_MIB => Ok(Self(mib)),
            _ => Err(format!(
                "{text} is more than the 4 PiB an x86 machine can address"
            )),
        }
    }
}

/// A size of hugepages in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HugepageSize(pub(crate) u64);

impl FromStr for HugepageSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "2m" | "2mib" | "2048" => Ok(Self(2048)),
            "1g" | "1gib" | "1048576" => Ok(Self(1 << 20)),
            _ => Err(format!(
                "{text:?} is no hugepage size of x86; write 2M or 1G"
            )),
        }
    }
}

/// `on` or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnOff {
    /// As it is
    On,
    /// Off
    Off,
}

/// A key of a `.vmx` with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EsxiKey {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl FromStr for EsxiKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => Ok(Self {
                key: key.trim().to_owned(),
                value: value.trim().trim_matches('"').to_owned(),
            }),
            _ => Err(format!(
                "{text:?} is no key and value; write it as numa.vcpu.preferHT=TRUE"
            )),
        }
    }
}

/// A number of vCPUs, 1 to [`MAX_VCPUS`].
pub(crate) fn vcpus(text: &str) -> Result<u32, String> {
    match text.trim().parse::<u64>() {
        Ok(0) => Err("a VM has at least 1 vCPU".into()),
        Ok(vcpus) if vcpus <= u64::from(MAX_VCPUS) => {
            Ok(u32::try_from(vcpus).expect("it is below the maximum"))
        }
        Ok(vcpus) => Err(format!(
            "QEMU's q35 machine has at most {MAX_VCPUS} vCPUs, not {vcpus}"
        )),
        Err(_) => Err(format!(
            "{text:?} is no number of vCPUs; give 1 to {MAX_VCPUS}"
        )),
    }
}

/// A PCI address in full, `0000:41:00.0`.
pub(crate) fn pci_address(text: &str) -> Result<String, String> {
    let wrong = || format!("{text:?} is no PCI address; write it as 0000:41:00.0 (see `lspci -D`)");
    let (rest, function) = text.trim().rsplit_once('.').ok_or_else(wrong)?;
    let parts: Vec<&str> = rest.split(':').collect();
    let (domain, bus, slot) = match parts[..] {
        [domain, bus, slot] => (domain, bus, slot),
        [bus, slot] => ("0", bus, slot),
        _ => return Err(wrong()),
    };
    let hex = |digits: &str, most: u32| {
        u32::from_str_radix(digits, 16)
            .ok()
            .filter(|&value| value <= most)
            .ok_or_else(wrong)
    };
    Ok(format!(
        "{:04x}:{:02x}:{:02x}.{:x}",
        hex(domain, 0xffff)?,
        hex(bus, 0xff)?,
        hex(slot, 0x1f)?,
        hex(function, 7)?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_sizes() {
        for (text, mib) in [
            ("64G", 65536),
            ("512", 512),
            ("512M", 512),
            ("1.5g", 1536),
            ("2TiB", 2 << 20),
            ("2048k", 2),
        ] {
            assert_eq!(text.parse(), Ok(Memory(mib)), "{text}");
        }
        for text in [
            "",
            "G",
            "0",
            "-1G",
            "64X",
            "1e9",
            "99999999999999999999G",
            "18446744073709551615T",
            "500K",
            "1.G.5",
            "9999999T",
        ] {
            assert!(text.parse::<Memory>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn numbers_of_vcpus() {
        assert_eq!(vcpus("16"), Ok(16));
        for text in ["0", "-1", "1000000000", "99999999999999999999999", "x", ""] {
            assert!(vcpus(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn pci_addresses() {
        assert_eq!(pci_address("41:00.0").as_deref(), Ok("0000:41:00.0"));
        assert_eq!(pci_address("0001:C1:1f.7").as_deref(), Ok("0001:c1:1f.7"));
        for text in ["", "41:00", "41:00.8", "g1:00.0", "1:2:3:4.5", "41:20.0"] {
            assert!(pci_address(text).is_err(), "{text:?}");
        }
    }
}
