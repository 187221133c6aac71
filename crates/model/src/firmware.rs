//! What a host would look like with other firmware settings: a [`Host`] in, another out.
//!
//! ```
//! use model::firmware::{self, Firmware};
//! use model::host::Synthetic;
//! let rome = Synthetic { packages: 2, llcs_per_node: 16, cores_per_llc: 4, node_mib: 1 << 20, ..Synthetic::default() };
//! let nps4 = Firmware { nps: Some(4), ..Firmware::default() };
//! let host = firmware::apply(&rome.host("rome"), &nps4).unwrap();
//! assert_eq!((host.name.as_str(), host.nodes.len()), ("rome+nps4", 8));
//! assert_eq!(host.distances[0][..4], [10, 12, 12, 12]);
//! ```
//!
//! What each setting does to what the operating system sees:
//!
//! | setting | nodes | distances | last-level caches |
//! |---|---|---|---|
//! | `NPSn` (AMD) | n per package, whole LLCs in order of their CPUs | 10, 12 in the package | same |
//! | CCX-as-NUMA (AMD) | one per LLC | 10, 11 in the memory node, else as before | same |
//! | `SNCn` (Intel) | n per package, cores in order | 10, 11 (n = 2) or 12 in the package | same: CPUID, Linux and hwloc show one L3 over all clusters (LIKWID issue 203, Gramine pull request 530) |
//! | the same on Haswell and Broadwell (Cluster-on-Die) | as SNC | as SNC | cut: each cluster shows its share (LIKWID issue 531; `intel_cod_cpu` in Linux' `smpboot.c`) |
//! | SMT off | same | same | same, first thread of each core only, CPU numbers kept |
//! | node interleaving | one, all memory | none | same |
//!
//! Between packages distances stay as they were; where unknown, 32 on AMD and 21 on Intel, which their firmware writes,
//! and ACPI's 20 elsewhere. Memory and hugepages are divided evenly. A device keeps its node only where one new node
//! holds all of its old one; otherwise the machine does not say. Nodes that are no CPU's home follow, memory only.
//!
//! Latencies stay, since measured values exist for few settings (NPS4 on Rome saves 9 ns of 122, SNC2 on Skylake 7 of
//! 81); two exceptions are arithmetic: a cut or merged cache takes the mean of what it came from, and interleaved
//! memory costs the mean over all packages. Bandwidth stays too: it is that of a package, however many nodes share it.
//!
//! Properties: CPUs (but for SMT off), memory and hugepages are conserved; applying a setting twice is applying it once.

mod nodes;

use crate::cpuset::CpuSet;
use crate::host::{Host, HostError, LlcSource, Processor, Vendor};
use crate::host_file::MAX_NODES;

pub(crate) use nodes::{parts_of, share};

/// Firmware settings to try; the default changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Firmware {
    /// Nodes per socket of AMD processors: 1, 2 or 4.
    pub nps: Option<u32>,
    /// AMD's "L3 cache as NUMA domain": one node per last-level cache.
    pub ccx_as_numa: bool,
    /// Sub-NUMA clusters of Intel processors, 1 is off; Cluster-on-Die on Haswell and Broadwell.
    pub snc: Option<u32>,
    /// One thread per core.
    pub smt_off: bool,
    /// One node for the machine, memory interleaved over all packages (AMD's NPS0).
    pub node_interleaving: bool,
}

/// Why a setting does not go with a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{asked} is not possible: {found}; {possible}")]
pub struct FirmwareError {
    /// The setting.
    pub asked: String,
    /// What the host has.
    pub found: String,
    /// What would be possible.
    pub possible: String,
}

/// The host under these settings; its name gets a suffix such as `+nps4`.
///
/// # Errors
/// A setting that the processor does not have, that does not divide its packages, or that contradicts another one.
pub fn apply(host: &Host, firmware: &Firmware) -> Result<Host, FirmwareError> {
    check_combination(firmware)?;
    let mut result = host.clone();
    if let Some(n) = firmware.nps {
        result = nodes_per_socket(&result, n)?;
    }
    if let Some(n) = firmware.snc {
        result = sub_numa_clusters(&result, n)?;
    }
    if firmware.ccx_as_numa {
        result = llc_as_numa(&result)?;
    }
    if firmware.node_interleaving {
        result =
            nodes::interleave(&result).map_err(|error| odd_host("node interleaving", &error))?;
    }
    if firmware.smt_off {
        result = nodes::first_threads(&result).map_err(|error| odd_host("SMT off", &error))?;
    }
    result.name = renamed(&host.name, firmware);
    Ok(result)
}

fn check_combination(firmware: &Firmware) -> Result<(), FirmwareError> {
    let named = [
        (firmware.nps.is_some(), "NPS"),
        (firmware.snc.is_some(), "SNC"),
        (firmware.ccx_as_numa, "CCX-as-NUMA"),
    ];
    let asked: Vec<&str> = named
        .iter()
        .filter(|(on, _)| *on)
        .map(|(_, name)| *name)
        .collect();
    if firmware.node_interleaving && !asked.is_empty() {
        return Err(FirmwareError {
            asked: format!("node interleaving with {}", asked.join(" and ")),
            found: "interleaving makes one node of the machine".into(),
            possible: "ask for one of them".into(),
        });
    }
    if firmware.snc.is_some() && (firmware.nps.is_some() || firmware.ccx_as_numa) {
        return Err(FirmwareError {
            asked: asked.join(" with "),
            found: "SNC is Intel's setting, NPS and CCX-as-NUMA are AMD's".into(),
            possible: "ask for one of them".into(),
        });
    }
    Ok(())
}

fn nodes_per_socket(host: &Host, n: u32) -> Result<Host, FirmwareError> {
    let refuse = |found: String, possible: String| FirmwareError {
        asked: format!("NPS{n}"),
        found,
        possible,
    };
    let processor = described(&host.processor);
    if host.processor.vendor == Vendor::Intel {
        let instead = "sub-NUMA clusters (SNC) are Intel's setting of that kind";
        return Err(refuse(format!("{processor} is not AMD's"), instead.into()));
    }
    if is_before_zen(&host.processor) {
        let instead = "its nodes are its dies; node interleaving is possible";
        return Err(refuse(
            format!("{processor} has no such setting"),
            instead.into(),
        ));
    }
    if n == 0 {
        let instead = "ask for node interleaving";
        return Err(refuse(
            "that is one node of all packages".into(),
            instead.into(),
        ));
    }
    let options = nps_options(host);
    let fits = |&n: &u32| {
        let whole = |package: &CpuSet| host.llcs_in(package).count().is_multiple_of(n as usize);
        host.packages.iter().all(|package| whole(&package.cpus))
    };
    let possible: Vec<u32> = options.into_iter().filter(fits).collect();
    if !possible.contains(&n) {
        return Err(refuse(
            format!("{processor} with {} per package", llcs_per_package(host)),
            format!("possible: {}", list("NPS", &possible)),
        ));
    }
    let sets = divided(host, n).ok_or_else(|| refuse(processor, "possible: NPS1".into()))?;
    let near = |same_package: bool, _| same_package.then_some(12);
    nodes::regroup(host, &sets, near).map_err(|error| odd_host(&format!("NPS{n}"), &error))
}

/// Zen 2 and later server parts offer NPS1, 2 and 4; Zen 1 has what its dies give (four nodes on EPYC 7001); desktop
/// parts have one node (AMD's tuning guides). Where the model is not known, all are taken as possible.
fn nps_options(host: &Host) -> Vec<u32> {
    let (Some(family), Some(model)) = (host.processor.family, host.processor.model_number) else {
        return vec![1, 2, 4];
    };
    let is_server = match family {
        0x17 if model < 0x30 => {
            let nodes = host.cpu_nodes().count() / host.packages.len();
            return u32::try_from(nodes).into_iter().collect();
        }
        0x17 => (0x30..0x40).contains(&model),
        0x19 => model < 0x20 || (0xa0..0xb0).contains(&model),
        0x1a => model < 0x20,
        _ => true,
    };
    if is_server { vec![1, 2, 4] } else { vec![1] }
}

fn sub_numa_clusters(host: &Host, n: u32) -> Result<Host, FirmwareError> {
    let refuse = |found: String, possible: String| FirmwareError {
        asked: format!("SNC{n}"),
        found,
        possible,
    };
    let processor = described(&host.processor);
    if host.processor.vendor == Vendor::Amd {
        let instead = "nodes per socket (NPS) are AMD's setting of that kind";
        return Err(refuse(
            format!("{processor} is not Intel's"),
            instead.into(),
        ));
    }
    let mut possible = snc_options(&host.processor).to_vec();
    if possible == [n] {
        // No such setting, so nothing to turn off.
        return Ok(host.clone());
    }
    possible.retain(|&n| divided(host, n).is_some());
    let sets = divided(host, n).filter(|_| possible.contains(&n));
    let Some(sets) = sets else {
        let cores = host.cores.len() / host.packages.len();
        return Err(refuse(
            format!(
                "{processor} with {} and {cores} cores per package",
                llcs_per_package(host)
            ),
            format!("possible: {}", list("SNC", &possible)),
        ));
    };
    let near = move |same_package: bool, _| same_package.then_some(if n == 2 { 11 } else { 12 });
    let odd = |error: HostError| odd_host(&format!("SNC{n}"), &error);
    let host = nodes::regroup(host, &sets, near).map_err(odd)?;
    if is_cluster_on_die(&host.processor) && host.llc_source == LlcSource::L3 {
        return nodes::cut_llcs(&host, &sets).map_err(odd);
    }
    Ok(host)
}

/// By display model (`arch/x86/include/asm/intel-family.h`): what the presets list, none before Haswell-EP, any for
/// processors not known here.
fn snc_options(processor: &Processor) -> &'static [u32] {
    match (processor.vendor, processor.family, processor.model_number) {
        (Vendor::Intel, Some(6), Some(model)) => match model {
            // Haswell-EP and Broadwell-EP/EX (Cluster-on-Die), Skylake and Cascade Lake, Ice Lake.
            0x3f | 0x4f | 0x55 | 0x6a | 0x6c => &[1, 2],
            // Sapphire Rapids and Emerald Rapids.
            0x8f | 0xcf => &[1, 2, 4],
            // Granite Rapids: as many as compute dies.
            0xad | 0xae => &[1, 2, 3],
            0x00..0x3f => &[1],
            _ => &[1, 2, 3, 4],
        },
        _ => &[1, 2, 3, 4],
    }
}

fn is_cluster_on_die(processor: &Processor) -> bool {
    processor.vendor == Vendor::Intel
        && processor.family == Some(6)
        && matches!(processor.model_number, Some(0x3f | 0x4f))
}

fn llc_as_numa(host: &Host) -> Result<Host, FirmwareError> {
    let refuse = |found: String, possible: &str| FirmwareError {
        asked: "CCX-as-NUMA".into(),
        found,
        possible: possible.into(),
    };
    let processor = described(&host.processor);
    if host.processor.vendor == Vendor::Intel {
        return Err(refuse(
            format!("{processor} is not AMD's"),
            "sub-NUMA clusters (SNC) are Intel's setting of that kind",
        ));
    }
    if is_before_zen(&host.processor) {
        return Err(refuse(
            format!("{processor} has no such setting"),
            "its nodes are its dies; node interleaving is possible",
        ));
    }
    if host.llc_source == LlcSource::Nodes {
        return Err(refuse(
            "the description has no caches".into(),
            "describe the last-level caches",
        ));
    }
    if host.llcs.len() > MAX_NODES as usize {
        return Err(refuse(
            format!("{} last-level caches", host.llcs.len()),
            "Linux takes at most 1024 nodes",
        ));
    }
    let sets: Vec<CpuSet> = host.llcs.iter().map(|llc| llc.cpus.clone()).collect();
    let near = |_, same_node: bool| same_node.then_some(11);
    nodes::regroup(host, &sets, near).map_err(|error| odd_host("CCX-as-NUMA", &error))
}

/// Each package in `n` parts, all packages in order; `None` where one does not divide or the nodes would be too many.
fn divided(host: &Host, n: u32) -> Option<Vec<CpuSet>> {
    if host.packages.len().checked_mul(n as usize)? > MAX_NODES as usize {
        return None;
    }
    let parts: Option<Vec<_>> = host
        .packages
        .iter()
        .map(|package| parts_of(host, &package.cpus, n))
        .collect();
    Some(parts?.into_iter().flatten().collect())
}

fn is_before_zen(processor: &Processor) -> bool {
    processor.vendor == Vendor::Amd && processor.family.is_some_and(|family| family < 0x17)
}

fn described(processor: &Processor) -> String {
    let vendor = match processor.vendor {
        Vendor::Amd => "an AMD processor",
        Vendor::Intel => "an Intel processor",
        Vendor::Other => "this processor",
    };
    if processor.model.is_empty() {
        vendor.to_owned()
    } else {
        processor.model.clone()
    }
}

fn llcs_per_package(host: &Host) -> String {
    let counts = host
        .packages
        .iter()
        .map(|package| host.llcs_in(&package.cpus).count());
    let mut counts: Vec<usize> = counts.collect();
    counts.sort_unstable();
    counts.dedup();
    let texts: Vec<String> = counts.iter().map(ToString::to_string).collect();
    let noun = if counts == [1] { "cache" } else { "caches" };
    format!("{} last-level {noun}", texts.join(" or "))
}

fn list(prefix: &str, options: &[u32]) -> String {
    let texts: Vec<String> = options.iter().map(|n| format!("{prefix}{n}")).collect();
    if texts.is_empty() {
        "none".into()
    } else {
        texts.join(", ")
    }
}

fn odd_host(asked: &str, error: &HostError) -> FirmwareError {
    FirmwareError {
        asked: asked.to_owned(),
        found: error.to_string(),
        possible: "correct the description of the host".into(),
    }
}

/// The name without the suffixes that a new setting replaces, and with its own.
fn renamed(name: &str, firmware: &Firmware) -> String {
    let mut segments = name.split('+');
    let mut result = segments.next().unwrap_or_default().to_owned();
    let lays_out = firmware.nps.is_some() || firmware.snc.is_some() || firmware.node_interleaving;
    let replaced = |segment: &str| match segment {
        "nps1" | "nps2" | "nps4" | "snc1" | "snc2" | "snc3" | "snc4" | "node-interleaving" => {
            lays_out
        }
        "ccx-as-numa" => lays_out || firmware.ccx_as_numa,
        "smt-off" => firmware.smt_off,
        _ => false,
    };
    let added = [
        firmware.nps.map(|n| format!("nps{n}")),
        firmware.snc.map(|n| format!("snc{n}")),
        firmware.ccx_as_numa.then(|| "ccx-as-numa".to_owned()),
        firmware
            .node_interleaving
            .then(|| "node-interleaving".to_owned()),
        firmware.smt_off.then(|| "smt-off".to_owned()),
    ];
    let kept = segments
        .filter(|segment| !replaced(segment))
        .map(str::to_owned);
    for segment in kept.chain(added.into_iter().flatten()) {
        result.push('+');
        result.push_str(&segment);
    }
    result
}

#[cfg(test)]
mod tests;
