//! What can be said of a VM beside its size: each key with its names, and its value as text in both directions.

use super::{Batch, System, Work};
use crate::cpuset::{CpuId, CpuSet, MAX_CPUS};
use crate::duration;
use crate::tenant::{Apart, Intensity, NORMAL_SHARES, Scope, Vm};

/// Longest name or label, in characters.
const MAX_NAME: usize = 200;
/// Most CPU of a demand, reservation or limit, in milli-CPU: every CPU that a set can hold.
const MAX_MILLI: u32 = MAX_CPUS * 1000;
/// Most shares of a vCPU, as in the vSphere API.
const MAX_SHARES: u32 = 1_000_000;
/// Most memory of a VM in MiB: 4 PiB, what 52 physical address bits reach.
const MAX_MEMORY_MIB: u64 = 1 << 32;

type Set<T> = fn(&mut T, &str) -> Result<(), String>;
type Text<T> = fn(&T) -> Option<String>;

/// Which part of a batch a key is about; each reads its value and writes it as it is read, or `None` where it is the default.
enum About {
    Vm(Set<Vm>, Text<Vm>),
    Work(Set<Work>, Text<Work>),
}

/// Something that can be said of a VM.
pub(super) struct Key {
    /// Its name in files; `-` and `_` are the same to the reader.
    pub(super) name: &'static str,
    /// Its short name; empty if it has none.
    pub(super) short: &'static str,
    /// Whether it can stand without a value.
    pub(super) is_flag: bool,
    about: About,
}

impl Key {
    /// Reads a value; the error says what is allowed.
    pub(super) fn set(&self, batch: &mut Batch, text: &str) -> Result<(), String> {
        match self.about {
            About::Vm(set, _) => set(&mut batch.vm, text),
            About::Work(set, _) => set(&mut batch.work, text),
        }
    }

    /// The value as [`set`](Self::set) reads it; `None` where it is the default.
    pub(super) fn text(&self, batch: &Batch) -> Option<String> {
        match self.about {
            About::Vm(_, text) => text(&batch.vm),
            About::Work(_, text) => text(&batch.work),
        }
    }
}

/// All keys, in the order they are written.
pub(super) static KEYS: [Key; 22] = [
    key("cpu", "", set_load, |vm| percent_text(vm.load, 1000)),
    key("bandwidth", "bw", set_bandwidth, |vm| {
        intensity_text(vm.bandwidth)
    }),
    key("sharing", "share", set_sharing, |vm| {
        intensity_text(vm.sharing)
    }),
    key("io", "", set_system, |vm| percent_text(vm.system, 0)),
    flag("dedicated", "", set_dedicated, |vm| flag_text(vm.dedicated)),
    flag("prefer_ht", "ht", set_prefer_ht, |vm| {
        flag_text(vm.prefer_ht)
    }),
    key("shares", "", set_shares, shares_text),
    key("reservation", "", set_reservation, reservation_text),
    key("limit", "", set_limit, |vm| vm.limit.map(milli_text)),
    key("cpus", "", set_hard_cpus, |vm| {
        vm.hard.cpus.as_ref().map(CpuSet::to_string)
    }),
    key("nodes", "", set_hard_nodes, |vm| nodes_text(&vm.hard.nodes)),
    key("prefer_cpus", "", set_soft_cpus, |vm| {
        vm.soft.cpus.as_ref().map(CpuSet::to_string)
    }),
    key("prefer_nodes", "", set_soft_nodes, |vm| {
        nodes_text(&vm.soft.nodes)
    }),
    key("apart", "", set_apart, apart_text),
    key("near", "", set_near, |vm| vm.near.clone()),
    key("device_nodes", "device_node", set_device_nodes, |vm| {
        nodes_text(&vm.device_nodes)
    }),
    work("workload", false, set_workload, |work| {
        work.workload.clone()
    }),
    work("system", false, set_guest_system, |work| {
        match work.system {
            System::Linux => None,
            System::Windows => Some("windows".to_owned()),
        }
    }),
    work("rule", false, set_rule, |work| work.rule.clone()),
    work("on", false, set_on, |work| {
        (work.on_ns > 0).then(|| duration::text(work.on_ns))
    }),
    work("off", false, set_off, |work| {
        work.off_ns.map(duration::text)
    }),
    work("tile", true, set_tile, |work| flag_text(work.tile)),
];

const fn key(name: &'static str, short: &'static str, set: Set<Vm>, text: Text<Vm>) -> Key {
    Key {
        name,
        short,
        is_flag: false,
        about: About::Vm(set, text),
    }
}

const fn flag(name: &'static str, short: &'static str, set: Set<Vm>, text: Text<Vm>) -> Key {
    Key {
        name,
        short,
        is_flag: true,
        about: About::Vm(set, text),
    }
}

/// Something that only a simulation looks at.
const fn work(name: &'static str, is_flag: bool, set: Set<Work>, text: Text<Work>) -> Key {
    Key {
        name,
        short: "",
        is_flag,
        about: About::Work(set, text),
    }
}

/// A key by any of its names.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    let name = name.replace('-', "_");
    KEYS.iter()
        .find(|key| !name.is_empty() && (key.name == name || key.short == name))
}

/// Memory as people write it, in MiB: `64G`, `1.5T`, `512M`, `512`. 0 means that nobody knows.
pub(super) fn memory(text: &str) -> Result<u64, String> {
    let wrong = || format!("{} is no memory size; write it as 64G or 512M", shown(text));
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let kib = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "m" | "mib" | "mb" => 1 << 10,
        "g" | "gib" | "gb" => 1 << 20,
        "t" | "tib" | "tb" => 1 << 30,
        _ => return Err(wrong()),
    };
    let (whole, thousandths) = decimal(digits).ok_or_else(wrong)?;
    let kib = whole
        .checked_mul(kib)
        .and_then(|sum| sum.checked_add(thousandths * kib / 1000));
    match kib.map(|kib| kib >> 10) {
        Some(0) if whole + thousandths > 0 => Err(format!(
            "{} is less than 1 MiB; give a VM at least that, or 0 where it is not known",
            shown(text)
        )),
        Some(mib) if mib <= MAX_MEMORY_MIB => Ok(mib),
        _ => Err(format!(
            "{} is more than the 4 PiB an x86 machine can address",
            shown(text)
        )),
    }
}

/// Memory as [`memory`] reads it.
pub(super) fn memory_text(mib: u64) -> String {
    if mib > 0 && mib.is_multiple_of(1024) {
        format!("{}G", mib / 1024)
    } else {
        format!("{mib}M")
    }
}

/// A number of things, from `least` to `most`.
pub(super) fn number(what: &str, text: &str, least: u32, most: u32) -> Result<u32, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value = if is_number { text.parse().ok() } else { None };
    value
        .filter(|value| (least..=most).contains(value))
        .ok_or_else(|| {
            format!(
                "{} is no number of {what}; give {least} to {most}",
                shown(text)
            )
        })
}

/// A name or label: something to see on one line.
pub(super) fn label(text: &str) -> Result<String, String> {
    let is_odd = text.trim() != text || text.chars().any(char::is_control);
    if text.is_empty() || is_odd || text.chars().count() > MAX_NAME {
        return Err(format!(
            "{} is no name; give 1 to {MAX_NAME} characters without blanks around them",
            shown(text)
        ));
    }
    Ok(text.to_owned())
}

/// A text from outside for a message.
pub(super) fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(60).collect::<String>())
}

/// A number with up to three decimals, as its whole part and thousandths.
fn decimal(text: &str) -> Option<(u64, u64)> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(rest) || rest.len() > 3 {
        return None;
    }
    let thousandths = format!("{rest:0<3}").parse().ok()?;
    Some((whole.parse().ok()?, thousandths))
}

/// CPUs of time in milli-CPU: `2.5` is 2500.
fn milli(text: &str) -> Result<u32, String> {
    let (whole, thousandths) = decimal(text)
        .ok_or_else(|| format!("{} is no number of CPUs; write it as 4 or 2.5", shown(text)))?;
    let milli = whole
        .checked_mul(1000)
        .and_then(|milli| u32::try_from(milli + thousandths).ok());
    milli
        .filter(|&milli| milli <= MAX_MILLI)
        .ok_or_else(|| format!("{} CPUs are more than {MAX_CPUS}", shown(text)))
}

fn milli_text(milli: u32) -> String {
    let text = format!("{}.{:03}", milli / 1000, milli % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A percentage of one CPU in milli-CPU, at most `most`: `60%` or `60` is 600.
fn percent(text: &str, most: u32) -> Result<u32, String> {
    let wrong = || {
        format!(
            "{} is no share of a CPU; give 0% to {}%, in steps of 0.1",
            shown(text),
            most / 10
        )
    };
    let digits = text.strip_suffix('%').unwrap_or(text).trim_end();
    let (whole, thousandths) = decimal(digits).ok_or_else(wrong)?;
    let milli = whole.checked_mul(10).map(|tens| tens + thousandths / 100);
    milli
        .and_then(|milli| u32::try_from(milli).ok())
        .filter(|&milli| milli <= most && thousandths % 100 == 0)
        .ok_or_else(wrong)
}

fn percent_text(milli: u32, default: u32) -> Option<String> {
    let text = match milli % 10 {
        0 => format!("{}%", milli / 10),
        tenths => format!("{}.{tenths}%", milli / 10),
    };
    (milli != default).then_some(text)
}

fn intensity(text: &str) -> Result<Intensity, String> {
    match text {
        "low" => Ok(Intensity::Low),
        "mid" => Ok(Intensity::Mid),
        "high" => Ok(Intensity::High),
        _ => Err(format!("{} is none of low, mid, high", shown(text))),
    }
}

fn intensity_text(intensity: Intensity) -> Option<String> {
    match intensity {
        Intensity::Low => Some("low".to_owned()),
        Intensity::Mid => None,
        Intensity::High => Some("high".to_owned()),
    }
}

fn yes(text: &str) -> Result<bool, String> {
    match text {
        "true" | "yes" | "on" => Ok(true),
        "false" | "no" | "off" => Ok(false),
        _ => Err(format!("{} is none of true, false", shown(text))),
    }
}

fn flag_text(is_set: bool) -> Option<String> {
    is_set.then(|| "true".to_owned())
}

/// A set of CPUs; `+` is a comma where commas mean something else.
fn cpus(text: &str) -> Result<CpuSet, String> {
    let set: CpuSet = text
        .replace('+', ",")
        .parse()
        .map_err(|error: crate::cpuset::CpuSetError| error.to_string())?;
    if set.is_empty() {
        return Err("the list is empty; write it as 0-3, several parts as 0-3+8".to_owned());
    }
    Ok(set)
}

fn nodes(text: &str) -> Result<Vec<u32>, String> {
    cpus(text)
        .map(|set| set.iter().map(|node| node.0).collect())
        .map_err(|error| {
            error
                .replacen("CPU set", "nodes", 1)
                .replace("write CPUs", "write them")
        })
}

fn nodes_text(nodes: &[u32]) -> Option<String> {
    let set: CpuSet = nodes.iter().copied().map(CpuId).collect();
    (!set.is_empty()).then(|| set.to_string())
}

fn set_load(vm: &mut Vm, text: &str) -> Result<(), String> {
    percent(text, 1000).map(|load| vm.load = load)
}

fn set_bandwidth(vm: &mut Vm, text: &str) -> Result<(), String> {
    intensity(text).map(|bandwidth| vm.bandwidth = bandwidth)
}

fn set_sharing(vm: &mut Vm, text: &str) -> Result<(), String> {
    intensity(text).map(|sharing| vm.sharing = sharing)
}

fn set_system(vm: &mut Vm, text: &str) -> Result<(), String> {
    percent(text, MAX_MILLI).map(|system| vm.system = system)
}

fn set_dedicated(vm: &mut Vm, text: &str) -> Result<(), String> {
    yes(text).map(|dedicated| vm.dedicated = dedicated)
}

fn set_prefer_ht(vm: &mut Vm, text: &str) -> Result<(), String> {
    yes(text).map(|prefer_ht| vm.prefer_ht = prefer_ht)
}

fn set_shares(vm: &mut Vm, text: &str) -> Result<(), String> {
    vm.shares = match text {
        "low" => NORMAL_SHARES / 2,
        "normal" => NORMAL_SHARES,
        "high" => NORMAL_SHARES * 2,
        _ => number("shares", text, 1, MAX_SHARES)
            .map_err(|error| format!("{error}, or low, normal or high"))?,
    };
    Ok(())
}

fn shares_text(vm: &Vm) -> Option<String> {
    (vm.shares != NORMAL_SHARES).then(|| vm.shares.to_string())
}

fn set_reservation(vm: &mut Vm, text: &str) -> Result<(), String> {
    milli(text).map(|reservation| vm.reservation = reservation)
}

fn reservation_text(vm: &Vm) -> Option<String> {
    (vm.reservation != 0).then(|| milli_text(vm.reservation))
}

fn set_limit(vm: &mut Vm, text: &str) -> Result<(), String> {
    let limit = milli(text)?;
    if limit == 0 {
        return Err("a VM with a limit of 0 CPUs never runs; give at least 0.001".to_owned());
    }
    vm.limit = Some(limit);
    Ok(())
}

fn set_hard_cpus(vm: &mut Vm, text: &str) -> Result<(), String> {
    cpus(text).map(|cpus| vm.hard.cpus = Some(cpus))
}

fn set_hard_nodes(vm: &mut Vm, text: &str) -> Result<(), String> {
    nodes(text).map(|nodes| vm.hard.nodes = nodes)
}

fn set_soft_cpus(vm: &mut Vm, text: &str) -> Result<(), String> {
    cpus(text).map(|cpus| vm.soft.cpus = Some(cpus))
}

fn set_soft_nodes(vm: &mut Vm, text: &str) -> Result<(), String> {
    nodes(text).map(|nodes| vm.soft.nodes = nodes)
}

fn set_device_nodes(vm: &mut Vm, text: &str) -> Result<(), String> {
    nodes(text).map(|nodes| vm.device_nodes = nodes)
}

fn set_near(vm: &mut Vm, text: &str) -> Result<(), String> {
    label(text).map(|label| vm.near = Some(label))
}

/// `LABEL` or `LABEL:SCOPE`.
fn set_apart(vm: &mut Vm, text: &str) -> Result<(), String> {
    let (name, scope) = match text.rsplit_once(':') {
        None => (text, Scope::default()),
        Some((name, "llc")) => (name, Scope::Llc),
        Some((name, "node")) => (name, Scope::Node),
        Some((name, "package")) => (name, Scope::Package),
        Some((name, "host")) => (name, Scope::Host),
        Some((_, scope)) => {
            return Err(format!(
                "{} is none of llc, node, package, host",
                shown(scope)
            ));
        }
    };
    let label = label(name)?;
    vm.apart = Some(Apart { label, scope });
    Ok(())
}

fn apart_text(vm: &Vm) -> Option<String> {
    let apart = vm.apart.as_ref()?;
    let scope = match apart.scope {
        Scope::Llc => "llc",
        Scope::Node => "node",
        Scope::Package => "package",
        Scope::Host => "host",
    };
    Some(format!("{}:{scope}", apart.label))
}

fn set_workload(work: &mut Work, text: &str) -> Result<(), String> {
    label(text).map(|name| work.workload = Some(name))
}

fn set_guest_system(work: &mut Work, text: &str) -> Result<(), String> {
    work.system = match text {
        "linux" => System::Linux,
        "windows" => System::Windows,
        _ => return Err(format!("{} is none of linux, windows", shown(text))),
    };
    Ok(())
}

fn set_rule(work: &mut Work, text: &str) -> Result<(), String> {
    label(text).map(|rule| work.rule = Some(rule))
}

fn set_on(work: &mut Work, text: &str) -> Result<(), String> {
    duration::read(text).map(|ns| work.on_ns = ns)
}

fn set_off(work: &mut Work, text: &str) -> Result<(), String> {
    let ns = duration::read(text)?;
    if ns == 0 {
        return Err("a VM that is switched off at 0 never runs; leave the VM out".to_owned());
    }
    work.off_ns = Some(ns);
    Ok(())
}

fn set_tile(work: &mut Work, text: &str) -> Result<(), String> {
    yes(text).map(|tile| work.tile = tile)
}
