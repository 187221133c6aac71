//! QEMU's x86 CPU models, as far as a guest's caches and topology depend on them.
//!
//! QEMU 10 has no property for the size of a cache: a model brings its own, and models without cache data of their own
//! (all Intel ones, `host` and `max`) show QEMU's legacy caches. Source: the `CPUCaches` tables and
//! `builtin_x86_defs` of QEMU 10's `target/i386/cpu.c`; the names are those of `qemu-system-x86_64 -cpu help` 10.0.2.

use crate::finding::Finding;
use crate::host::{Processor, Vendor};
use crate::vm::GuestCpu;

use super::smp::Spelling;
use super::{Accelerator, Target};

const MIB: u64 = 1 << 20;

/// What models without cache data of their own show: QEMU's `legacy_l3_cache`.
const LEGACY_LLC_BYTES: u64 = 16 * MIB;

/// AMD's server models with the size of their L3 and their Zen generation, oldest first.
const EPYC: [(&str, u64, u8); 4] = [
    ("EPYC", 8 * MIB, 1),
    ("EPYC-Rome", 16 * MIB, 2),
    ("EPYC-Milan", 32 * MIB, 3),
    ("EPYC-Genoa", 32 * MIB, 4),
];

/// Hygon's model, a licensed Zen 1.
const DHYANA: (&str, u64) = ("Dhyana", 8 * MIB);

/// Models that show the legacy caches, without versions and the suffixes of aliases.
const WITH_LEGACY_CACHES: &str = "486 Broadwell Cascadelake-Server ClearwaterForest Conroe Cooperlake Denverton \
    GraniteRapids Haswell Icelake-Server IvyBridge KnightsMill Nehalem Opteron_G1 Opteron_G2 Opteron_G3 Opteron_G4 \
    Opteron_G5 Penryn SandyBridge SapphireRapids SierraForest Skylake-Client Skylake-Server Snowridge Westmere \
    YongFeng athlon base core2duo coreduo host kvm32 kvm64 max n270 pentium pentium2 pentium3 phenom qemu32 qemu64";

/// The size of the L3 that a QEMU model shows its guest, in bytes; `None` for a model QEMU 10.0 does not have.
/// Versions (`EPYC-v4`) and aliases (`Haswell-noTSX-IBRS`) show what their model shows.
pub fn llc_size_bytes(model: &str) -> Option<u64> {
    let base = base_name(model);
    let own = EPYC
        .iter()
        .map(|&(name, bytes, _)| (name, bytes))
        .chain([DHYANA])
        .find(|&(name, _)| name == base);
    let legacy = || {
        WITH_LEGACY_CACHES
            .split_whitespace()
            .any(|name| name == base)
            .then_some(LEGACY_LLC_BYTES)
    };
    own.map(|(_, bytes)| bytes).or_else(legacy)
}

/// The QEMU model whose L3 is as large as the host's, for an AMD Zen host: the newest of the host's generation or
/// older, so that the host can run it. `None` on other hosts and for sizes that no model has; there the guest gets the
/// host's CPU and sees QEMU's legacy 16 MiB.
pub fn model_for(processor: &Processor, llc_bytes: u64) -> Option<&'static str> {
    let host = zen_generation(processor)?;
    EPYC.iter()
        .rev()
        .find(|&&(_, bytes, generation)| bytes == llc_bytes && generation <= host)
        .map(|&(name, _, _)| name)
}

/// The CPU of a guest as QEMU is told about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Model {
    /// The model's name for `-cpu`.
    pub(super) name: String,
    /// Properties without which the guest would not see its topology.
    pub(super) properties: Vec<(&'static str, &'static str)>,
    /// What a person should know about the choice.
    pub(super) findings: Vec<Finding>,
}

impl Model {
    /// The model for a guest CPU and a topology. A guest on AMD learns about threads and L3 groups through `topoext`,
    /// which `host` does not have by default; software emulation does not have it at all and needs Intel's leaves.
    pub(super) fn new(cpu: &GuestCpu, spelling: &Spelling, target: Target) -> Self {
        match target.accelerator {
            Accelerator::Kvm => Self::for_kvm(cpu, spelling, target.vendor),
            Accelerator::Tcg => Self::for_tcg(cpu, spelling),
        }
    }

    fn for_kvm(cpu: &GuestCpu, spelling: &Spelling, vendor: Vendor) -> Self {
        let [_, _, _, _, threads] = spelling.levels;
        let structured = threads > 1 || spelling.llc_inside_socket();
        let name = match cpu {
            GuestCpu::Unstated | GuestCpu::Host => "host",
            GuestCpu::Named(name) => name,
        };
        let (mut properties, mut findings) = (Vec::new(), Vec::new());
        if vendor == Vendor::Amd && (name == "host" || structured && !has_topoext(name)) {
            properties.push(("topoext", "on"));
        }
        if vendor == Vendor::Other && name == "host" && structured {
            let text = "the host's vendor is not known; on AMD the guest sees its threads and LLCs only with \
                        topoext=on (libvirt: <feature policy='require' name='topoext'/>)";
            findings.push(Finding::info("vendor-unknown", text));
        }
        Self {
            name: name.to_owned(),
            properties,
            findings,
        }
    }

    fn for_tcg(cpu: &GuestCpu, spelling: &Spelling) -> Self {
        let [_, dies, modules, _, threads] = spelling.levels;
        let mut findings = Vec::new();
        let name = match cpu {
            GuestCpu::Unstated => "max",
            GuestCpu::Host => {
                let text = "the host's CPU needs KVM; software emulation gets QEMU's `max` instead";
                findings.push(Finding::info("cpu-host-needs-kvm", text));
                "max"
            }
            GuestCpu::Named(name) => name,
        };
        let mut properties = Vec::new();
        let structured = dies > 1 || modules > 1 || threads > 1 || spelling.llc_inside_socket();
        if structured {
            properties.push(("vendor", "GenuineIntel"));
            if is_amd(name) {
                let text = format!(
                    "software emulation cannot show an AMD guest its threads, dies and LLCs (no topoext): {name} \
                     reports Intel as its vendor instead"
                );
                findings.push(Finding::info("tcg-shows-intel", text));
            }
        }
        if dies > 1 || modules > 1 {
            // QEMU 10.0 aborts in firmware when 0x1f is the highest basic leaf: leaves out of range are answered with
            // it, whatever their ECX (`encode_topo_cpuid1f`: assertion `count <= CPU_TOPOLOGY_LEVEL_SOCKET`).
            properties.push(("min-level", "0x20"));
        }
        if spelling.needs_extended_apic_ids() {
            properties.push(("x2apic", "on"));
        }
        Self {
            name: name.to_owned(),
            properties,
            findings,
        }
    }
}

/// Whether a model has `topoext` without being asked to (`builtin_x86_defs`).
pub(super) fn has_topoext(model: &str) -> bool {
    ["EPYC", "Dhyana"]
        .iter()
        .any(|prefix| model.starts_with(prefix))
}

/// Whether a model's vendor is AMD (or Hygon), when nothing overrides it.
pub(super) fn is_amd(model: &str) -> bool {
    has_topoext(model)
        || ["Opteron", "athlon", "phenom"]
            .iter()
            .any(|prefix| model.starts_with(prefix))
}

fn base_name(model: &str) -> &str {
    let version = |name: &str| {
        let digits = name.rsplit_once("-v")?.1;
        (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| name.len() - digits.len() - 2)
    };
    let mut name = version(model).map_or(model, |end| &model[..end]);
    for suffix in ["-IBRS", "-IBPB", "-noTSX"] {
        name = name.strip_suffix(suffix).unwrap_or(name);
    }
    name
}

/// The Zen generation of an AMD processor by family and model, as in `bsp_init_amd` of Linux
/// (`arch/x86/kernel/cpu/amd.c`); the family's oldest when the model is not known.
fn zen_generation(processor: &Processor) -> Option<u8> {
    if processor.vendor != Vendor::Amd {
        return None;
    }
    let model = processor.model_number.unwrap_or(0);
    match (processor.family?, model) {
        (0x17, 0x30..=0x4f | 0x60..=0x7f | 0x90..=0xaf) => Some(2),
        (0x17, _) => Some(1),
        (0x19, 0x10..=0x1f | 0x60..=0xaf) => Some(4),
        (0x19, _) => Some(3),
        (0x1a.., _) => Some(5),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_model_version_and_alias() {
        for (model, mib) in [
            ("EPYC", Some(8)),
            ("EPYC-v4", Some(8)),
            ("EPYC-IBPB", Some(8)),
            ("EPYC-Rome", Some(16)),
            ("EPYC-Rome-v3", Some(16)),
            ("EPYC-Milan-v2", Some(32)),
            ("EPYC-Genoa", Some(32)),
            ("Dhyana-v2", Some(8)),
            ("Haswell-noTSX-IBRS", Some(16)),
            ("Icelake-Server-v7", Some(16)),
            ("host", Some(16)),
            ("max", Some(16)),
            ("EPYC-Turin", None),
            ("EPYC-v", None),
            ("", None),
        ] {
            assert_eq!(llc_size_bytes(model), mib.map(|mib| mib * MIB), "{model}");
        }
    }

    #[test]
    fn a_model_is_chosen_that_the_host_can_run() {
        // Family, model and MiB of L3.
        for (what, family, model_number, mib, chosen) in [
            ("EPYC 7601", 0x17, Some(0x01), 8, "EPYC"),
            ("EPYC 7702", 0x17, Some(0x31), 16, "EPYC-Rome"),
            ("EPYC 7763", 0x19, Some(0x01), 32, "EPYC-Milan"),
            ("EPYC 7773X", 0x19, Some(0x01), 96, ""),
            ("EPYC 9654", 0x19, Some(0x11), 32, "EPYC-Genoa"),
            ("EPYC 9754", 0x19, Some(0xa0), 16, "EPYC-Rome"),
            ("EPYC 9755", 0x1a, Some(0x02), 32, "EPYC-Genoa"),
            ("Ryzen 5950X", 0x19, Some(0x21), 32, "EPYC-Milan"),
            ("Rome's size on Zen 1", 0x17, Some(0x01), 16, ""),
            ("family alone", 0x19, None, 32, "EPYC-Milan"),
            ("Opteron 6174", 0x10, Some(9), 8, ""),
        ] {
            let processor = Processor {
                vendor: Vendor::Amd,
                model: what.to_owned(),
                family: Some(family),
                model_number,
            };
            let model = model_for(&processor, mib * MIB).unwrap_or_default();
            assert_eq!(model, chosen, "{what}");
        }
        let intel = Processor {
            vendor: Vendor::Intel,
            family: Some(6),
            ..Processor::default()
        };
        assert_eq!(model_for(&intel, 16 * MIB), None);
        assert_eq!(model_for(&Processor::default(), 16 * MIB), None);
    }

    /// A model as text: name, properties, codes of findings. `-` is an unstated CPU.
    fn model(cpu: &str, levels: [u32; 5], accelerator: Accelerator, vendor: Vendor) -> String {
        let cpu = match cpu {
            "-" => GuestCpu::Unstated,
            "host" => GuestCpu::Host,
            name => GuestCpu::Named(name.to_owned()),
        };
        let target = Target {
            accelerator,
            vendor,
            qemu_major: 10,
        };
        let topology = crate::GuestTopology::uniform(8, levels);
        let model = Model::new(&cpu, &Spelling::new(&topology, 10), target);
        let properties = model
            .properties
            .iter()
            .map(|(key, value)| format!(" {key}={value}"));
        let findings = model
            .findings
            .iter()
            .map(|finding| format!(" ? {}", finding.code));
        model.name + &properties.chain(findings).collect::<Vec<_>>().concat()
    }

    #[test]
    fn the_guest_gets_what_it_needs_to_see_its_shape() {
        let (flat, smt) = ([8, 1, 1, 1, 1], [1, 1, 1, 4, 2]);
        let (dies, wide) = ([1, 2, 1, 4, 1], [2, 1, 1, 150, 1]);
        for (cpu, levels, vendor, expected) in [
            ("host", flat, Vendor::Amd, "host topoext=on"),
            ("-", flat, Vendor::Intel, "host"),
            ("host", smt, Vendor::Other, "host ? vendor-unknown"),
            ("EPYC-Rome", smt, Vendor::Amd, "EPYC-Rome"),
            ("Opteron_G5", smt, Vendor::Amd, "Opteron_G5 topoext=on"),
            ("Opteron_G5", flat, Vendor::Amd, "Opteron_G5"),
        ] {
            assert_eq!(model(cpu, levels, Accelerator::Kvm, vendor), expected);
        }
        for (cpu, levels, expected) in [
            ("-", flat, "max"),
            ("-", smt, "max vendor=GenuineIntel"),
            ("host", flat, "max ? cpu-host-needs-kvm"),
            ("EPYC-Rome", wide, "EPYC-Rome x2apic=on"),
            (
                "Haswell",
                dies,
                "Haswell vendor=GenuineIntel min-level=0x20",
            ),
            ("EPYC", smt, "EPYC vendor=GenuineIntel ? tcg-shows-intel"),
        ] {
            assert_eq!(model(cpu, levels, Accelerator::Tcg, Vendor::Amd), expected);
        }
    }
}
