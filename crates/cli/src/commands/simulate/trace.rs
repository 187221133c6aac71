//! Who ran where as a trace for Perfetto and Chrome's trace viewer ("Trace Event Format"): a process for each LLC, a thread
//! for each CPU, a slice for each span, and a counter of busy CPUs for each LLC. Times are in microseconds.

use std::collections::BTreeMap;

use serde::Serialize;
use sim::outcome::Segment;

use super::request::Scene;
use super::study::{Picture, Run};

/// Names are those of the format.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Trace {
    display_time_unit: &'static str,
    other_data: BTreeMap<&'static str, String>,
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
}

#[derive(Serialize)]
struct Event {
    name: String,
    ph: &'static str,
    pid: u32,
    tid: u32,
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<String>,
    args: BTreeMap<&'static str, Value>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Number(u32),
}

/// The first seed of a run as JSON, by time.
pub(super) fn text(scene: &Scene, run: &Run, picture: &Picture) -> String {
    let host = &scene.host;
    let mut events = Vec::new();
    for (llc, cache) in (0_u32..).zip(&host.llcs) {
        let name = format!("LLC {llc} (node {})", cache.node.0);
        events.push(meta("process_name", (llc, 0), Value::Text(name)));
        events.push(meta("process_sort_index", (llc, 0), Value::Number(llc)));
    }
    for cpu in &host.cpus {
        let place = (cpu.llc.0, cpu.id.0);
        let name = format!("cpu {}", cpu.id.0);
        events.push(meta("thread_name", place, Value::Text(name)));
        events.push(meta("thread_sort_index", place, Value::Number(cpu.id.0)));
    }
    let mut timed: Vec<(u64, Event)> = picture
        .timeline
        .iter()
        .filter(|segment| segment.to_ns > segment.from_ns)
        .map(|segment| (segment.from_ns, slice(scene, segment)))
        .chain(counters(scene, &picture.timeline))
        .collect();
    timed.sort_by_key(|(at, event)| (*at, event.pid, event.tid, event.ph == "C"));
    events.extend(timed.into_iter().map(|(_, event)| event));
    let about = [
        ("what", "simulated by vtopo, not measured".to_owned()),
        ("host", host.name.clone()),
        ("policy", run.policy.to_owned()),
        ("rule", run.rule.clone()),
    ];
    let trace = Trace {
        display_time_unit: "ns",
        other_data: about.into_iter().collect(),
        events,
    };
    serde_json::to_string(&trace).expect("a trace has text keys and finite numbers") + "\n"
}

fn meta(name: &str, (pid, tid): (u32, u32), value: Value) -> Event {
    let key = match value {
        Value::Text(_) => "name",
        Value::Number(_) => "sort_index",
    };
    Event {
        name: name.to_owned(),
        ph: "M",
        pid,
        tid,
        ts: 0.0,
        dur: None,
        cat: None,
        args: [(key, value)].into_iter().collect(),
    }
}

fn slice(scene: &Scene, segment: &Segment) -> Event {
    let cpu = &scene.host.cpus[segment.cpu as usize];
    let vm = scene.simulation.members.get(segment.vm as usize);
    let vm = vm.map_or_else(String::new, |member| member.vm.name.clone());
    let name = match segment.vcpu {
        Some(vcpu) => format!("{vm} vcpu {vcpu}"),
        None => format!("{vm} system"),
    };
    Event {
        name,
        ph: "X",
        pid: cpu.llc.0,
        tid: cpu.id.0,
        ts: micros(segment.from_ns),
        dur: Some(micros(segment.to_ns - segment.from_ns)),
        cat: Some(vm),
        args: BTreeMap::new(),
    }
}

/// Busy CPUs of each LLC whenever they change.
fn counters(scene: &Scene, timeline: &[Segment]) -> Vec<(u64, Event)> {
    let mut changes: BTreeMap<(u32, u64), i64> = BTreeMap::new();
    for segment in timeline {
        let llc = scene.host.cpus[segment.cpu as usize].llc.0;
        *changes.entry((llc, segment.from_ns)).or_default() += 1;
        *changes.entry((llc, segment.to_ns)).or_default() -= 1;
    }
    let (mut of, mut busy) = (None, 0_i64);
    let mut counters = Vec::new();
    for ((llc, at), change) in changes {
        if of != Some(llc) {
            (of, busy) = (Some(llc), 0);
        }
        busy += change;
        if change == 0 {
            continue;
        }
        let value = Value::Number(u32::try_from(busy).unwrap_or(0));
        let event = Event {
            name: "busy CPUs".to_owned(),
            ph: "C",
            pid: llc,
            tid: 0,
            ts: micros(at),
            dur: None,
            cat: None,
            args: [("busy", value)].into_iter().collect(),
        };
        counters.push((at, event));
    }
    counters
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}
