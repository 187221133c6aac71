//! A trace instead of a scenario: VMs come to a fleet of hosts and go, once for each way to choose a host.

mod answer;
mod input;

use std::time::Instant;

use model::Host;
use sim::fleet::{self, Algorithm, FleetOutcome, HostKind, MAX_HOSTS};
use sim::traces::{Kind, Trace, TraceVm};

use super::{Answer, has_output};
use crate::args::SimulateCommand;
use crate::draw::{clean, plural};
use crate::failure::Failure;
use crate::json::FleetsDocument;
use crate::{files, hosts, say};
pub(super) use input::{Input, open};

/// Longest name that is taken from a file.
const NAME: usize = 80;

/// A trace that was played.
pub(crate) struct Fleet {
    /// The format of the trace.
    pub(crate) kind: Kind,
    /// The VMs.
    pub(crate) trace: Trace,
    /// The hosts.
    pub(crate) hosts: Vec<HostKind>,
    /// What came of it, by algorithm.
    pub(crate) runs: Vec<(Algorithm, FleetOutcome)>,
}

impl Fleet {
    /// From the first arrival to the last event, in nanoseconds.
    pub(crate) fn span_ns(&self) -> u64 {
        self.start_ns().map_or(0, |start| {
            let last = self.runs.first().and_then(|run| run.1.series.last());
            last.map_or(0, |last| last.at_ns.abs_diff(start))
        })
    }

    /// The first arrival.
    pub(crate) fn start_ns(&self) -> Option<i64> {
        Some(self.runs.first()?.1.series.first()?.at_ns)
    }

    /// The first VM that got no host.
    pub(crate) fn first_refused(&self, outcome: &FleetOutcome) -> Option<&TraceVm> {
        let index = outcome
            .host_of
            .iter()
            .position(|host| *host == fleet::NOWHERE)?;
        self.trace.vms.get(index)
    }
}

/// Plays a trace and shows the answer.
pub(super) fn run(command: &SimulateCommand, input: input::Opened) -> Result<Answer, Failure> {
    check(command)?;
    let found = hosts::fleet(&command.host, MAX_HOSTS, &command.firmware)?;
    let started = Instant::now();
    let kind = input.kind;
    let mut trace = input.read(command)?;
    for vm in &mut trace.vms {
        vm.name = clean(&vm.name, NAME);
    }
    let reading = started.elapsed().as_secs_f64();
    let played = Fleet {
        kind,
        hosts: capacities(&found, &trace)?,
        runs: Vec::new(),
        trace,
    };
    let played = play(command, played)?;
    let playing = started.elapsed().as_secs_f64() - reading;
    let events: u64 = played.runs.iter().map(|run| run.1.events).sum();
    say::remark(&format!(
        "{} read in {reading:.1} s; {events} events of {} in {playing:.2} s: {:.2} million a second",
        plural(played.trace.vms.len(), "VM"),
        plural(played.runs.len(), "replay"),
        events as f64 / playing.max(1e-6) / 1e6,
    ));
    if let Some(path) = &command.csv {
        files::write_text(path, &answer::csv(&played))?;
    }
    if command.output.json {
        say::json(&FleetsDocument::new(&played))?;
    } else if !has_output(command) {
        say::out(&answer::text(&played, say::style()))?;
    }
    let all_placed = played.runs.iter().all(|run| run.1.refused == 0);
    let is_strict_no = command.output.strict && say::has_problem(&played.trace.findings);
    Ok(Answer::yes_if(all_placed && !is_strict_no))
}

fn play(command: &SimulateCommand, mut fleet: Fleet) -> Result<Fleet, Failure> {
    let mut algorithms: Vec<Algorithm> = Vec::new();
    for fit in &command.fleet.fit {
        if !algorithms.contains(&fit.algorithm()) {
            algorithms.push(fit.algorithm());
        }
    }
    if algorithms.is_empty() {
        algorithms.extend(Algorithm::ALL);
    }
    for algorithm in algorithms {
        let outcome = fleet::replay(&fleet.trace, &fleet.hosts, algorithm)
            .map_err(|error| Failure::new(error.to_string()))?;
        fleet.runs.push((algorithm, outcome));
    }
    Ok(fleet)
}

/// What hosts have for VMs: a CPU for each thread, and all memory.
fn capacities(hosts: &[(Host, u32)], trace: &Trace) -> Result<Vec<HostKind>, Failure> {
    let needs_memory = trace.vms.iter().any(|vm| vm.memory_mib > 0);
    let mut kinds = Vec::with_capacity(hosts.len());
    for (host, count) in hosts {
        if host.memory_mib() == 0 && needs_memory {
            return Err(Failure::new(format!(
                "{} does not say how much memory it has, and the VMs of the trace need some",
                clean(&host.name, NAME)
            ))
            .help("give a host that does, e.g. a preset (`vtopo host --list`)"));
        }
        let cpus = u32::try_from(host.cpus.len()).unwrap_or(u32::MAX);
        kinds.push(HostKind {
            name: clean(&host.name, NAME),
            count: *count,
            milli_cpus: cpus.saturating_mul(1_000),
            memory_mib: u32::try_from(host.memory_mib()).unwrap_or(u32::MAX),
        });
    }
    Ok(kinds)
}

/// A trace has no workloads, no policies within a host and no randomness.
fn check(command: &SimulateCommand) -> Result<(), Failure> {
    let scenarios_only = [
        ("--policy", !command.policy.is_empty()),
        ("--rule", !command.rule.is_empty()),
        ("--seeds", command.seeds.is_some()),
        ("--seed", command.seed.is_some()),
        ("--set", !command.sets.is_empty()),
        ("--find-max", command.find_max.is_some()),
        ("--report", command.report.is_some()),
        ("--trace", command.trace.is_some()),
        ("--threads", command.threads != 0),
    ];
    match scenarios_only.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => Err(Failure::new(format!(
            "{option} is for scenarios, and this is a trace: its VMs come to hosts and go, and what a host does \
             inside is not simulated"
        ))
        .help("leave it out; for a trace there are --host, --fit, --format, --size, --interval, --csv and --json")),
    }
}

/// What only a trace has.
pub(super) fn check_scenario(command: &SimulateCommand) -> Result<(), Failure> {
    let fleet = &command.fleet;
    let traces_only = [
        ("--fit", !fleet.fit.is_empty()),
        ("--size", fleet.size.is_some()),
        ("--interval", fleet.interval.is_some()),
    ];
    match traces_only.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => Err(Failure::new(format!(
            "{option} is for traces, and this looks like none"
        ))
        .help("leave it out for a scenario; say which trace it is with --format (docs/traces.md)")),
    }
}
