//! From the tree of a workload to the workload.

use std::ops::Range;

use super::fault::{Fault, shown};
use super::tree::{Entry, Node, Value};
use super::value;
use crate::machine::vector::Vector;
use crate::spec::{Arrivals, Clients, Device, Scaled, Step, Workload};

/// Most threads and users of one VM: those of the whole are bounded again when the VMs are known. Ours.
const MAX_EACH: u32 = 1_000_000;
/// Most operations a second of an open loop in one VM: a hundred for each microsecond are no longer events. Ours.
const MAX_RATE: f64 = 1e8;
/// Most steps of an operation, repetitions counted. Ours.
const MAX_STEPS: usize = 1000;
/// Most devices. Ours.
const MAX_DEVICES: usize = 100;
/// Most locks of a VM. Ours.
const MAX_LOCKS: u64 = 1000;
/// Most packets of a step in each direction: 64 KiB of small ones. Ours.
const MAX_PACKETS: u64 = 1000;
/// Most bytes of a packet: what the IP header can say, which segmentation offload uses.
const MAX_PACKET_BYTES: u64 = 65_535;
/// Most instructions in a microsecond: six in each cycle of a 5 GHz clock, which no processor retires. Ours.
const MAX_INSTRUCTIONS: f64 = 30_000.0;
/// Most misses of a thousand instructions. Ours.
const MAX_MPKI: f64 = 300.0;
/// Most lines that a microsecond of own work exchanges: one in each nanosecond. Ours.
const MAX_LINES: f64 = 1000.0;
/// Most misses in flight of one core: line-fill buffers and a prefetcher. Ours.
const MAX_MLP: f64 = 64.0;

/// Users, threads and think time that stand for what the VM's load says.
const FROM_LOAD: &str = "load";

/// A workload as it was read, with the places that later checks point to.
#[derive(Debug, Clone)]
pub(super) struct Defined {
    pub(super) workload: Workload,
    /// What it calls, and where it says so.
    pub(super) calls: Vec<(String, Option<Range<usize>>)>,
}

/// Reads a workload whose keys are known to be right.
pub(super) fn read(name: &str, node: &Node) -> Result<Defined, Fault> {
    let (devices, device_names) = devices(node.find("device"))?;
    let (steps, calls) = steps(node, &device_names)?;
    let threads = match node.find("threads") {
        Some(threads) => value::scaled(threads, MAX_EACH)?,
        None => Scaled {
            count: 1,
            per_vcpu: true,
        },
    };
    let workload = Workload {
        name: name.to_owned(),
        vector: vector(node.find("vector").unwrap_or(&Node::empty()))?,
        clients: clients(node)?,
        threads,
        steps,
        devices,
    };
    Ok(Defined { workload, calls })
}

fn vector(node: &Node) -> Result<Vector, Fault> {
    let plain = Vector::COMPUTE;
    let number = |key: &str, default: f64, least: f64, most: f64| match node.find(key) {
        Some(node) => value::number(node, least..=most),
        None => Ok(default),
    };
    let mpki = number("llc_mpki", 0.0, 0.0, MAX_MPKI)?;
    let instructions = number("instructions_per_us", 0.0, 1.0, MAX_INSTRUCTIONS)?;
    if mpki > 0.0 && node.find("instructions_per_us").is_none() {
        return Err(Fault::at(
            "llc_mpki needs instructions_per_us: misses are counted for each microsecond of own work",
            node.find("llc_mpki").and_then(|node| node.span.clone()),
        ));
    }
    Ok(Vector {
        smt: number("smt", plain.smt, 0.5, 1.0)?,
        misses_per_us: mpki * instructions / 1000.0,
        alpha: number("alpha", plain.alpha, 0.0, 2.0)?,
        floor: number("floor", plain.floor, 0.0, 1.0)?,
        working_set: match node.find("working_set") {
            Some(node) => value::bytes(node)?,
            None => plain.working_set,
        },
        mlp: number("mlp", plain.mlp, 1.0, MAX_MLP)?,
        shared_lines_per_us: number(
            "shared_lines_per_us",
            plain.shared_lines_per_us,
            0.0,
            MAX_LINES,
        )?,
        sharing_mlp: number("sharing_mlp", plain.sharing_mlp, 1.0, MAX_MLP)?,
    })
}

fn clients(workload: &Node) -> Result<Clients, Fault> {
    #[derive(Clone, Copy)]
    enum Kind {
        Closed,
        Open,
        Called,
    }
    let Some(node) = workload.find("clients") else {
        let message = "nobody asks for work: say in `clients` who does, such as clients = { kind = \"closed\", users = 10 }";
        return Err(Fault::at(message, workload.span.clone()));
    };
    let kinds = [
        ("closed", Kind::Closed),
        ("open", Kind::Open),
        ("called", Kind::Called),
    ];
    let Some(kind) = node.find("kind") else {
        let message = "clients need a kind: closed, open or called";
        return Err(Fault::at(message, node.span.clone()));
    };
    let kind = value::word(kind, &kinds)?;
    let (word, keys): (_, &[&str]) = match kind {
        Kind::Closed => ("closed", &["kind", "users", "think"]),
        Kind::Open => (
            "open",
            &[
                "kind",
                "rate",
                "arrivals",
                "burst_factor",
                "burst_on",
                "burst_off",
            ],
        ),
        Kind::Called => ("called", &["kind"]),
    };
    // What a workload of the library had for another kind is no fault of the scenario.
    let is_odd = |entry: &&Entry| !keys.contains(&entry.key.as_str()) && entry.key_span.is_some();
    if let Some(entry) = node.entries().iter().find(is_odd) {
        let message = format!(
            "`{}` says nothing about clients of the kind \"{word}\"",
            entry.key
        );
        return Err(Fault::at(message, entry.key_span.clone()));
    }
    match kind {
        Kind::Called => Ok(Clients::Called),
        Kind::Closed => closed(node),
        Kind::Open => Ok(Clients::Open {
            per_s: match node.find("rate").filter(|rate| !is_from_load(rate)) {
                Some(rate) => Some(value::rate(rate, MAX_RATE)?),
                None => None,
            },
            arrivals: arrivals(node)?,
        }),
    }
}

fn closed(node: &Node) -> Result<Clients, Fault> {
    let Some(users) = node.find("users") else {
        let message = "a closed loop needs its number of users";
        return Err(Fault::at(message, node.span.clone()));
    };
    Ok(Clients::Closed {
        users: value::scaled(users, MAX_EACH)?,
        think: match node.find("think").filter(|think| !is_from_load(think)) {
            Some(think) => Some(value::law_or_zero(think)?),
            None => None,
        },
    })
}

fn is_from_load(node: &Node) -> bool {
    matches!(node.bare().text(), Ok(FROM_LOAD))
}

fn arrivals(node: &Node) -> Result<Arrivals, Fault> {
    #[derive(Clone, Copy)]
    enum Kind {
        Poisson,
        Even,
        Bursts,
    }
    let kinds = [
        ("poisson", Kind::Poisson),
        ("even", Kind::Even),
        ("bursts", Kind::Bursts),
    ];
    let kind = match node.find("arrivals") {
        Some(arrivals) => value::word(arrivals, &kinds)?,
        None => Kind::Poisson,
    };
    let bursts = ["burst_factor", "burst_on", "burst_off"];
    match kind {
        Kind::Bursts => {
            let need = |key: &str| {
                node.find(key).ok_or_else(|| {
                    let message = format!("bursts need {}", bursts.join(", "));
                    Fault::at(
                        message,
                        node.find("arrivals").and_then(|node| node.span.clone()),
                    )
                })
            };
            let on_ns = value::duration_above_zero(need(bursts[1])?)?;
            let off_ns = value::duration_above_zero(need(bursts[2])?)?;
            // With a larger factor the stream between bursts would be less than nothing.
            let most = (on_ns + off_ns) as f64 / on_ns as f64;
            let factor = value::number(need(bursts[0])?, 1.0..=most)?;
            Ok(Arrivals::Bursts {
                factor,
                on_ns,
                off_ns,
            })
        }
        Kind::Poisson | Kind::Even => {
            let said = node.entries().iter();
            let mut odd = said
                .filter(|entry| bursts.contains(&entry.key.as_str()) && entry.key_span.is_some());
            if let Some(entry) = odd.next() {
                let message = format!("`{}` needs arrivals = \"bursts\"", entry.key);
                return Err(Fault::at(message, entry.key_span.clone()));
            }
            Ok(match kind {
                Kind::Even => Arrivals::Even,
                _ => Arrivals::Poisson,
            })
        }
    }
}

fn devices(node: Option<&Node>) -> Result<(Vec<Device>, Vec<String>), Fault> {
    let mut devices = Vec::new();
    for entry in node.map_or(&[][..], Node::entries) {
        let Some(latency) = entry.node.find("latency") else {
            return Err(Fault::at(
                "a device needs its latency",
                entry.key_span.clone(),
            ));
        };
        devices.push(Device {
            name: entry.key.clone(),
            latency: value::law(latency)?,
            parallel: match entry.node.find("parallel") {
                Some(parallel) => value::whole(parallel, 0..=u64::from(MAX_EACH))? as u32,
                None => 0,
            },
        });
        if devices.len() > MAX_DEVICES {
            let message = format!("a workload has at most {MAX_DEVICES} devices");
            return Err(Fault::at(message, entry.key_span.clone()));
        }
    }
    let names = devices.iter().map(|device| device.name.clone()).collect();
    Ok((devices, names))
}

type Calls = Vec<(String, Option<Range<usize>>)>;

fn steps(workload: &Node, devices: &[String]) -> Result<(Vec<Step>, Calls), Fault> {
    let (mut steps, mut calls) = (Vec::new(), Vec::new());
    let items = match workload.find("step") {
        Some(node) if matches!(node.value, Value::Table(_)) => {
            let message = "there are no steps to change: write new ones as [[step]]";
            return Err(Fault::at(message, node.span.clone()));
        }
        Some(node) => node.items(),
        None => &[],
    };
    if items.is_empty() {
        let message = "an operation without steps never ends: write them as [[step]], or start from a known workload with `like`";
        return Err(Fault::at(message, workload.span.clone()));
    }
    for item in items {
        let step = step(item, devices)?;
        if let Step::Call { to } = &step {
            let place = item.find("call").and_then(|node| node.span.clone());
            calls.push((to.clone(), place));
        }
        let times = match item.find("times") {
            Some(times) => value::whole(times, 1..=MAX_STEPS as u64)? as usize,
            None => 1,
        };
        if steps.len() + times > MAX_STEPS {
            let message =
                format!("an operation has at most {MAX_STEPS} steps, repetitions counted");
            return Err(Fault::at(message, item.span.clone()));
        }
        steps.extend(std::iter::repeat_n(step, times));
    }
    Ok((steps, calls))
}

fn step(node: &Node, devices: &[String]) -> Result<Step, Fault> {
    const VERBS: [&str; 7] = ["cpu", "io", "sleep", "hold", "handoff", "call", "packets"];
    let is_verb = |entry: &&Entry| VERBS.contains(&entry.key.as_str());
    let verbs: Vec<&Entry> = node.entries().iter().filter(is_verb).collect();
    let [verb] = verbs.as_slice() else {
        let message = format!("a step has one of {}, and only one", VERBS.join(", "));
        // Of several the last one is what a scenario added.
        let place = verbs.last().and_then(|verb| verb.key_span.clone());
        return Err(Fault::at(message, place.or(node.span.clone())));
    };
    for (key, of) in [("lock", "hold"), ("bytes", "packets")] {
        let odd = node.entries().iter().find(|entry| entry.key == key);
        if let Some(odd) = odd.filter(|_| verb.key != of) {
            let message = format!("`{key}` belongs to a step with `{of}`");
            return Err(Fault::at(message, odd.key_span.clone()));
        }
    }
    let subject = &verb.node;
    Ok(match verb.key.as_str() {
        "cpu" => Step::Cpu(value::law(subject)?),
        "sleep" => Step::Sleep(value::law(subject)?),
        "handoff" => Step::Handoff(value::law(subject)?),
        "hold" => Step::Lock {
            lock: match node.find("lock") {
                Some(lock) => value::whole(lock, 0..=MAX_LOCKS - 1)? as u32,
                None => 0,
            },
            hold: value::law(subject)?,
        },
        "io" => {
            let name = subject.text()?;
            let device = devices.iter().position(|device| device == name);
            let device = device.ok_or_else(|| {
                let known = devices.iter().cloned();
                Fault::unknown("device of the workload", name, known, subject.span.clone())
            })?;
            Step::Io { device }
        }
        "call" => Step::Call {
            to: workload_name(subject)?,
        },
        _ => Step::Network {
            packets: value::whole(subject, 1..=MAX_PACKETS)? as u32,
            bytes: match node.find("bytes") {
                Some(bytes) => value::whole(bytes, 1..=MAX_PACKET_BYTES)? as u32,
                None => 64,
            },
        },
    })
}

/// A name of a workload: something to see on one line.
pub(super) fn workload_name(node: &Node) -> Result<String, Fault> {
    let name = node.text()?;
    check_name(name, node.span.clone())?;
    Ok(name.to_owned())
}

/// Refuses what cannot be shown as a name.
pub(super) fn check_name(name: &str, place: Option<Range<usize>>) -> Result<(), Fault> {
    let is_odd = name.trim() != name || name.chars().any(char::is_control);
    if name.is_empty() || is_odd || name.chars().count() > 200 {
        let message = format!(
            "{} is no name; give 1 to 200 characters without blanks around them",
            shown(name)
        );
        return Err(Fault::at(message, place));
    }
    Ok(())
}
