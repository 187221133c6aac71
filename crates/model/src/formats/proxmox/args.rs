//! `args`: what Proxmox VE appends to QEMU's command line, as far as it changes what the guest sees.
//!
//! Ours are `smp.` and `smp-cache.` options of `-machine`, `-numa dist` and `-global MODEL-x86_64-cpu.topoext=on`; an
//! edit replaces them and leaves every other word as it is.

mod words;

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::formats::cpu_model;
use crate::formats::lines::{Settings, Wanted};
use crate::formats::smp::{MAX_VCPUS, SMP_CACHE_SINCE, Spelling, level_by_name, slit, smp_cache};
use crate::formats::{ParseError, Target};
use crate::guest::{GuestTopology, Level};
use crate::host::Vendor;
use crate::vm::{GuestCpu, Spec};

use self::words::{Fate, options, rewrite, words};
use super::conf;

/// First QEMU major version where `-machine smp.dies=` works (6.1, which made `smp` a property of the machine).
const MACHINE_SMP_SINCE: u32 = 6;

/// The numbers of `-smp` by QEMU's names.
const NUMBERS: [&str; 7] = [
    "cpus", "maxcpus", "sockets", "dies", "modules", "cores", "threads",
];

/// Models that take their vendor from the host (`CPUConfig.pm`).
const ANY_VENDOR: [&str; 6] = ["host", "max", "kvm32", "kvm64", "qemu32", "qemu64"];

/// What `args` changes.
#[derive(Debug, Clone, Default)]
pub(super) struct Overrides {
    numbers: [Option<u32>; 7],
    /// What `smp-cache` says: a cache and the level that shares it.
    caches: Vec<(String, String)>,
    /// Distances between vNUMA nodes: from, to, value.
    pub(super) distances: Vec<(u32, u32, u32)>,
}

impl Overrides {
    /// The numbers of `-smp` with these changes: `[cpus, maxcpus, sockets, dies, modules, cores, threads]`.
    pub(super) fn over(&self, own: [u32; 7]) -> [u32; 7] {
        let mut numbers = own;
        for (number, new) in numbers.iter_mut().zip(self.numbers) {
            *number = new.unwrap_or(*number);
        }
        numbers
    }

    /// The level whose objects share an L3, as far as it is stated: by `smp-cache`, or by dies or modules, since QEMU
    /// puts one L3 in each die.
    pub(super) fn llc(&self) -> Option<Level> {
        let stated = self.caches.iter().find(|(cache, _)| cache == "l3");
        let has_dies = self.numbers[3].is_some() || self.numbers[4].is_some();
        stated
            .and_then(|(_, level)| level_by_name(level))
            .or(has_dies.then_some(Level::Die))
    }
}

/// What the file's `args` changes. Open quotes change nothing: Proxmox VE then passes no argument at all.
pub(super) fn overrides(file: &Settings) -> Result<Overrides, ParseError> {
    let Some(setting) = file.of("args") else {
        return Ok(Overrides::default());
    };
    parse(&setting.value).map_err(|name| setting.error(&format!("{name}= from 1 to {MAX_VCPUS}")))
}

/// Whether `args` can be taken apart: its quotes are closed.
pub(super) fn is_readable(args: &str) -> bool {
    words(args).is_some()
}

/// Whether Proxmox VE adds vCPUs one by one (`hotplug` has `cpu`): it then names socket and core only, so that QEMU
/// refuses dies, modules and threads ("CPU die-id is not set", "Invalid CPU core-id").
pub(super) fn has_cpu_hotplug(file: &Settings) -> bool {
    hotplug(file, "cpu")
}

/// Whether `hotplug` has a feature. Its default (`1`) is network, disk and usb.
pub(super) fn hotplug(file: &Settings, feature: &str) -> bool {
    let features = file.text("hotplug").unwrap_or_default();
    features.split([',', ';', ' ']).any(|word| word == feature)
}

/// The `args` to have for a shape, when it differs from the file's.
pub(super) fn wanted(
    spec: &Spec,
    shape: &GuestTopology,
    file: &Settings,
    target: Target,
    findings: &mut Vec<Finding>,
) -> Option<Wanted> {
    let old = file.text("args").unwrap_or_default();
    let rest = without_ours(old);
    let mut spelling = Spelling::new(shape, target.qemu_major);
    if let Some(problem) = obstacle(&spelling, rest.is_some(), file, target) {
        let only_threads = spelling.levels[1..3] == [1, 1] && !has_small_llcs(&spelling);
        let code = if only_threads {
            "lost-threads"
        } else {
            "lost-llc"
        };
        findings.push(Finding::warning(
            code,
            format!("{problem}; the guest sees plain sockets of cores, one LLC each"),
        ));
        spelling.levels = [shape.sockets, 1, 1, shape.slots_in(Level::Socket), 1];
        spelling.llc = None;
    } else {
        findings.append(&mut spelling.findings);
    }
    let rest = rest?;
    let mut own = machine(spec, shape, [old, &rest], &spelling, target);
    own.extend(distances(shape));
    if is_structured(&spelling) {
        let model = model(spec, file);
        own.extend(topoext(&model, target, findings));
        findings.extend(size_differs(&model, shape));
    }
    if !own.is_empty() {
        findings.push(explanation(&own, target));
    }
    let parts = std::iter::once(rest)
        .chain(own)
        .filter(|part| !part.is_empty());
    let new = parts.collect::<Vec<_>>().join(" ");
    (new != old).then(|| ("args".to_owned(), Some(new).filter(|new| !new.is_empty())))
}

/// Whether there is more to say than sockets of cores with one LLC each.
fn is_structured(spelling: &Spelling) -> bool {
    let [_, dies, modules, _, threads] = spelling.levels;
    has_small_llcs(spelling) || dies.max(modules).max(threads) > 1
}

fn has_small_llcs(spelling: &Spelling) -> bool {
    matches!(spelling.llc, Some(Level::Module | Level::Core))
}

/// Why the levels below the socket cannot be stated, if they must be.
fn obstacle(
    spelling: &Spelling,
    readable: bool,
    file: &Settings,
    target: Target,
) -> Option<String> {
    if !is_structured(spelling) {
        return None;
    }
    let what = "threads, dies, modules and LLCs need -machine smp.* in args";
    if has_cpu_hotplug(file) {
        return Some(format!(
            "{what}, which QEMU refuses with `cpu` in hotplug; take it out"
        ));
    }
    if target.qemu_major < MACHINE_SMP_SINCE {
        return Some(format!(
            "{what}, which QEMU {} does not know",
            target.qemu_major
        ));
    }
    (!readable).then(|| format!("{what}, and the quotes in the file's args do not close"))
}

/// `-machine smp.dies=...` with the numbers that the rest of `args` would leave at others, and `smp-cache` with what the
/// old `args` said of other caches.
fn machine(
    spec: &Spec,
    shape: &GuestTopology,
    [old, rest]: [&str; 2],
    spelling: &Spelling,
    target: Target,
) -> Vec<String> {
    let [sockets, dies, modules, cores, threads] = spelling.levels;
    let (slots, per_socket) = (shape.maxcpus(), shape.slots_in(Level::Socket));
    let rest = parse(rest).unwrap_or_default();
    let without = rest.over([spec.vcpus, slots, sockets, 1, 1, per_socket, 1]);
    let with = [spec.vcpus, slots, sockets, dies, modules, cores, threads];
    let mut parts: Vec<String> = NUMBERS
        .iter()
        .zip(without)
        .zip(with)
        .filter(|((_, without), with)| without != with)
        .map(|((name, _), with)| format!("smp.{name}={with}"))
        .collect();
    // Newer models put L3 elsewhere by default, so the level is stated also where it is QEMU's default.
    let divided = dies.saturating_mul(modules) > 1;
    let stated = spelling
        .llc
        .filter(|&level| divided || level != Level::Socket);
    if target.qemu_major >= SMP_CACHE_SINCE {
        let others = parse(old).unwrap_or_default().caches;
        let keys = smp_cache(&others, spelling.llc, stated);
        parts.extend(
            keys.into_iter()
                .map(|(key, value)| format!("{key}={value}")),
        );
    }
    if parts.is_empty() {
        Vec::new()
    } else {
        vec![format!("-machine {}", parts.join(","))]
    }
}

/// `-numa dist` for every pair of nodes, when the topology states distances.
fn distances(shape: &GuestTopology) -> Vec<String> {
    let nodes = shape.numa_nodes.len();
    if nodes > super::numa::MAX_NODES as usize {
        return Vec::new();
    }
    let pairs = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
    pairs
        .filter(|(from, to)| from != to)
        .filter_map(|(from, to)| {
            let distance = slit(shape, from, to)?;
            Some(format!("-numa dist,src={from},dst={to},val={distance}"))
        })
        .collect()
}

/// The QEMU model behind the VM's `cpu`. Proxmox VE's own levels are `qemu64` with flags, and its default is `kvm64`
/// (`CPUConfig.pm`).
fn model(spec: &Spec, file: &Settings) -> String {
    let model = match &spec.cpu {
        GuestCpu::Unstated if file.list.is_empty() => "host",
        GuestCpu::Unstated => file
            .text("cpu")
            .and_then(|value| conf::property(value, "cputype", true))
            .unwrap_or("kvm64"),
        GuestCpu::Host => "host",
        GuestCpu::Named(model) => model,
    };
    if model.starts_with("x86-64-v") {
        "qemu64".to_owned()
    } else {
        model.to_owned()
    }
}

/// On AMD a guest learns about threads and LLCs through `topoext`, which Intel's models never have, AMD's newer ones
/// always, and the others when asked. Proxmox VE's `cpu` cannot ask: it allows few flags.
fn topoext(model: &str, target: Target, findings: &mut Vec<Finding>) -> Option<String> {
    let custom = model.starts_with("custom-");
    let askable = ANY_VENDOR.contains(&model) || cpu_model::is_amd(model) || custom;
    if cpu_model::has_topoext(model) || !askable || target.vendor == Vendor::Intel {
        return None;
    }
    if target.vendor == Vendor::Other || custom {
        findings.push(Finding::info(
            "topoext-needed",
            format!("on AMD a guest with CPU {model} sees threads and LLCs only with topoext; use an EPYC model there"),
        ));
        return None;
    }
    Some(format!("-global {model}-x86_64-cpu.topoext=on"))
}

fn size_differs(model: &str, shape: &GuestTopology) -> Option<Finding> {
    let wanted = shape
        .llcs
        .iter()
        .map(|llc| llc.size_bytes)
        .find(|&bytes| bytes > 0)?;
    let shown = cpu_model::llc_size_bytes(model).filter(|&shown| shown != wanted)?;
    let (wanted, shown) = (wanted >> 20, shown >> 20);
    Some(Finding::info(
        "llc-size-differs",
        format!(
            "CPU {model} shows LLCs of {shown} MiB, the host's have {wanted} MiB; QEMU cannot set the size"
        ),
    ))
}

fn explanation(own: &[String], target: Target) -> Finding {
    let needs = if own.iter().any(|part| part.contains("smp-cache")) {
        format!("QEMU {SMP_CACHE_SINCE} (Proxmox VE 9)")
    } else {
        format!(
            "QEMU {MACHINE_SMP_SINCE}.1, and is written for QEMU {}",
            target.qemu_major
        )
    };
    Finding::info(
        "topology-in-args",
        format!(
            "args gets `{}`, since Proxmox VE cannot state it; only root@pam may set args, and it needs {needs}",
            own.join(" ")
        ),
    )
}

/// `args` without our own options; `None` when it cannot be taken apart.
fn without_ours(args: &str) -> Option<String> {
    rewrite(args, |option, value| match option {
        "-machine" | "--machine" | "-M" => {
            let ours = |part: &&str| part.starts_with("smp.") || part.starts_with("smp-cache.");
            let others: Vec<&str> = value.split(',').filter(|part| !ours(part)).collect();
            if others.is_empty() {
                Fate::Remove
            } else if value.split(',').any(|part| ours(&part)) {
                Fate::Change(others.join(","))
            } else {
                Fate::Keep
            }
        }
        "-numa" | "--numa" if value.starts_with("dist,") => Fate::Remove,
        "-global" | "--global" if value.ends_with("-x86_64-cpu.topoext=on") => Fate::Remove,
        _ => Fate::Keep,
    })
}

/// What arguments change; an error is the name of a number that is none.
fn parse(args: &str) -> Result<Overrides, String> {
    let words = words(args).unwrap_or_default();
    let mut found = Overrides::default();
    let mut caches: Vec<(&str, &str)> = Vec::new();
    for (option, value) in options(&words) {
        let parts = value.text.split(',');
        match option.text.as_str() {
            "-smp" | "--smp" => {
                for part in parts {
                    let (name, number) = part.split_once('=').unwrap_or(("cpus", part));
                    found.set(name, number)?;
                }
            }
            "-machine" | "--machine" | "-M" => {
                for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                    if let Some(name) = name.strip_prefix("smp.") {
                        found.set(name, value)?;
                    } else if name.starts_with("smp-cache.") {
                        caches.push((name, value));
                    }
                }
            }
            "-numa" | "--numa" => found.distances.extend(distance(&value.text)),
            _ => {}
        }
    }
    found.caches = pairs(&caches);
    Ok(found)
}

impl Overrides {
    fn set(&mut self, name: &str, number: &str) -> Result<(), String> {
        let Some(at) = NUMBERS.iter().position(|known| *known == name) else {
            return Ok(());
        };
        let number = number
            .parse()
            .ok()
            .filter(|number| (1..=MAX_VCPUS).contains(number));
        self.numbers[at] = Some(number.ok_or_else(|| name.to_owned())?);
        Ok(())
    }
}

/// The caches and levels in `smp-cache.N.cache=l3` and `smp-cache.N.topology=LEVEL`.
fn pairs(keys: &[(&str, &str)]) -> Vec<(String, String)> {
    let topologies: BTreeMap<&str, &str> = keys
        .iter()
        .filter_map(|(key, level)| Some((key.strip_suffix(".topology")?, *level)))
        .collect();
    let caches = keys.iter().filter_map(|(key, cache)| {
        let level = topologies.get(key.strip_suffix(".cache")?)?;
        Some(((*cache).to_owned(), (*level).to_owned()))
    });
    caches.collect()
}

/// `dist,src=0,dst=1,val=21`.
fn distance(value: &str) -> Option<(u32, u32, u32)> {
    let parts = value.strip_prefix("dist,")?;
    let number = |key| conf::property(parts, key, false)?.parse::<u32>().ok();
    Some((number("src")?, number("dst")?, number("val")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_options_win_and_others_mean_nothing() {
        let args = "-smp 8,dies=2 -machine 'smp.dies=4,smp.cores=2' -cpu host -machine smp-cache.0.cache=l3,smp-cache.0.topology=die -numa dist,src=0,dst=1,val=21";
        let found = parse(args).unwrap();
        assert_eq!(found.over([1; 7]), [8, 1, 1, 4, 1, 2, 1]);
        assert_eq!(found.llc(), Some(Level::Die));
        assert_eq!(found.distances, [(0, 1, 21)]);
    }

    #[test]
    fn our_options_come_out_and_everything_else_stays() {
        for (args, rest) in [
            ("-machine smp.dies=2", ""),
            (
                "-no-reboot  -machine smp.dies=2,smp-cache.0.cache=l3",
                "-no-reboot",
            ),
            (
                "-machine smp.dies=2 -smbios 'type=0,vendor=A B'",
                "-smbios 'type=0,vendor=A B'",
            ),
            ("-a  -machine smp.dies=2  -b", "-a  -b"),
            (
                "-machine hpet=off,smp.dies=2,vmport=off -b",
                "-machine hpet=off,vmport=off -b",
            ),
            (
                "-machine \"smp.dies=2,kernel=a b\"",
                "-machine 'kernel=a b'",
            ),
            ("-M smp.cores=2 -M smp.dies=2 -x", "-x"),
            ("-numa dist,src=0,dst=1,val=21 -numa node", "-numa node"),
            (
                "-global host-x86_64-cpu.topoext=on -global kvm-pit.x=y",
                "-global kvm-pit.x=y",
            ),
            ("-smp dies=2", "-smp dies=2"),
            ("-machine", "-machine"),
        ] {
            assert_eq!(without_ours(args).as_deref(), Some(rest), "{args}");
        }
        assert_eq!(without_ours("-machine 'smp.dies=2"), None);
    }

    #[test]
    fn numbers_out_of_range_are_errors() {
        for (args, name) in [
            ("-smp dies=0", "dies"),
            ("-smp x", "cpus"),
            ("-machine smp.cores=99999999999", "cores"),
            ("-machine smp.threads=-2", "threads"),
        ] {
            assert_eq!(parse(args).unwrap_err(), name, "{args}");
        }
    }
}
