//! The document of `vtopo simulate` for a trace.

#![allow(
    clippy::cast_precision_loss,
    reason = "milliseconds of a hundred years are far below 2^52"
)]

use model::Finding;
use serde::Serialize;
use sim::fleet::{Algorithm, FleetOutcome, HostKind};
use sim::time::S;

use crate::commands::simulate::Fleet;

/// A trace that was played.
#[derive(Serialize)]
pub(crate) struct FleetsDocument {
    /// No figure here was measured.
    simulated: bool,
    trace: TraceDocument,
    hosts: Vec<HostsDocument>,
    fleets: Vec<FleetDocument>,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct TraceDocument {
    format: &'static str,
    vms: usize,
    span_s: f64,
}

#[derive(Serialize)]
struct HostsDocument {
    name: String,
    count: u32,
    cpus: u32,
    memory_mib: u32,
}

#[derive(Serialize)]
struct FleetDocument {
    algorithm: &'static str,
    placed: u32,
    refused: u32,
    too_large: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_refused: Option<VmDocument>,
    peak_hosts_used: u32,
    cpu_percent: ShareDocument,
    memory_percent: ShareDocument,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<EndDocument>,
    /// In hexadecimal: numbers of JSON have 53 bits.
    placement_hash: String,
}

#[derive(Serialize)]
struct VmDocument {
    name: String,
    at_s: f64,
    cpus: f64,
    memory_mib: u32,
}

#[derive(Serialize)]
struct ShareDocument {
    mean: f64,
    peak: f64,
}

#[derive(Serialize)]
struct EndDocument {
    vms: u32,
    hosts_used: u32,
    room: u64,
    fragmentation_percent: f64,
}

impl FleetsDocument {
    pub(crate) fn new(fleet: &Fleet) -> Self {
        let hosts = |kind: &HostKind| HostsDocument {
            name: kind.name.clone(),
            count: kind.count,
            cpus: kind.milli_cpus / 1_000,
            memory_mib: kind.memory_mib,
        };
        let of = |(algorithm, outcome): &(Algorithm, FleetOutcome)| {
            FleetDocument::new(fleet, *algorithm, outcome)
        };
        Self {
            simulated: true,
            trace: TraceDocument {
                format: fleet.kind.name(),
                vms: fleet.trace.vms.len(),
                span_s: fleet.span_ns() as f64 / S as f64,
            },
            hosts: fleet.hosts.iter().map(hosts).collect(),
            fleets: fleet.runs.iter().map(of).collect(),
            findings: fleet.trace.findings.clone(),
        }
    }
}

impl FleetDocument {
    fn new(fleet: &Fleet, algorithm: Algorithm, outcome: &FleetOutcome) -> Self {
        let first = fleet.first_refused(outcome);
        let share = |mean, peak| ShareDocument {
            mean: percent(mean),
            peak: percent(peak),
        };
        Self {
            algorithm: algorithm.name(),
            placed: outcome.placed,
            refused: outcome.refused,
            too_large: outcome.too_large,
            first_refused: first.map(|vm| VmDocument {
                name: vm.name.clone(),
                at_s: vm.on_ns as f64 / S as f64,
                cpus: f64::from(vm.milli_cpus) / 1_000.0,
                memory_mib: vm.memory_mib,
            }),
            peak_hosts_used: outcome.peak_hosts_used,
            cpu_percent: share(outcome.cpu_permille, outcome.peak_cpu_permille),
            memory_percent: share(outcome.memory_permille, outcome.peak_memory_permille),
            end: outcome.series.last().map(|point| EndDocument {
                vms: point.vms,
                hosts_used: point.hosts_used,
                room: point.room,
                fragmentation_percent: percent(point.fragmentation_permille),
            }),
            placement_hash: format!("{:016x}", outcome.placement_hash),
        }
    }
}

fn percent(permille: u32) -> f64 {
    f64::from(permille) / 10.0
}
