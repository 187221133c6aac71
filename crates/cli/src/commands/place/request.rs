//! From what was typed to what is asked: VMs, hosts, policies, and what is reserved.

use std::path::Path;

use model::placement::Reserve;
use model::scenario::{self, Batch, Scenario, ScenarioError, Work};
use model::{CpuSet, Finding, Host, Vm};
use policy::policies;
use policy::reconcile::Policy;

use crate::args::PlaceCommand;
use crate::draw::clean;
use crate::failure::Failure;
use crate::{files, hosts, vms};

/// Most hosts of one run: ten times the planning case of 1,000.
const MAX_HOSTS: u32 = 10_000;

/// Longest name that is taken from a file.
const NAME: usize = 200;

/// What is asked.
pub(super) struct Request {
    /// The VMs, each with a name of its own.
    pub(super) vms: Vec<Vm>,
    /// Hosts and how many of each.
    pub(super) hosts: Vec<(Host, u32)>,
    /// Who places, at least one.
    pub(super) policies: Vec<Box<dyn Policy>>,
    /// CPUs that are not for VMs.
    reserve: CpuSet,
    /// Memory of each host that is not for VMs, in MiB.
    reserve_mib: u64,
    /// What is to say about files and hosts.
    pub(super) findings: Vec<Finding>,
}

impl Request {
    /// What of a host is not for VMs. Every node gives memory by its part of the whole.
    pub(super) fn reserve(&self, host: &Host) -> Reserve {
        let whole = u128::from(host.memory_mib().max(1));
        let part = |node: &model::host::Node| {
            let part = u128::from(self.reserve_mib) * u128::from(node.memory_mib);
            u64::try_from(part.div_ceil(whole)).unwrap_or(u64::MAX)
        };
        Reserve {
            cpus: self.reserve.clone(),
            memory_mib: host.nodes.iter().map(part).collect(),
        }
    }
}

/// Reads all that the command names.
///
/// # Errors
/// Files that cannot be read, texts that are no VM, host, policy or CPU set, nothing to place.
pub(super) fn read(command: &PlaceCommand) -> Result<Request, Failure> {
    let scenario = match &command.scenario {
        Some(path) => read_scenario(path)?,
        None => Scenario::default(),
    };
    let typed = command.host.iter().cloned();
    let texts: Vec<String> = if command.host.is_some() {
        typed.collect()
    } else {
        scenario.hosts.clone()
    };
    let hosts = hosts::fleet(&texts, MAX_HOSTS, &command.firmware)?;
    // Addresses of devices are those of one machine.
    let only = match hosts.as_slice() {
        [(host, 1)] => Some(host),
        _ => None,
    };
    let (mut batches, mut findings) = read_files(command, only)?;
    batches.extend(scenario.batches);
    for text in &command.vms {
        let batch = scenario::read_batch(text)
            .map_err(|error| scenario_failure("--vm", "--vm", text, &error))?;
        batches.push(batch);
    }
    if batches.is_empty() {
        return Err(Failure::new("there is no VM to place").help(
            "give VM files, VMs such as `--vm 8x64G*30`, or a scenario file with [[vm]] tables (docs/scenario.md)",
        ));
    }
    let vms = scenario::name_all(&batches).map_err(|error| Failure::new(error.to_string()))?;
    let mut request = Request {
        vms,
        policies: read_policies(&command.policy, &scenario.policies)?,
        reserve: match &command.reserve {
            Some(text) => text.parse().map_err(|error: model::cpuset::CpuSetError| {
                Failure::new(format!("--reserve: {error}"))
            })?,
            None => scenario.reserve.unwrap_or_default(),
        },
        reserve_mib: command.reserve_memory.map_or(0, |memory| memory.0),
        hosts,
        findings: Vec::new(),
    };
    check_reserve(&request)?;
    for (host, _) in &request.hosts {
        let unknown = |finding: &Finding| finding.code == "memory-unknown";
        findings.extend(model::host::findings(host).into_iter().filter(unknown));
    }
    findings.dedup();
    request.findings = findings;
    Ok(request)
}

fn read_scenario(path: &Path) -> Result<Scenario, Failure> {
    let text = files::read_text(path, scenario::MAX_FILE_BYTES)?;
    let shown = path.display().to_string();
    scenario::read(&text).map_err(|error| {
        scenario_failure(&format!("{shown} is no scenario"), &shown, &text, &error)
    })
}

pub(super) fn scenario_failure(
    what: &str,
    file: &str,
    text: &str,
    error: &ScenarioError,
) -> Failure {
    let failure = Failure::new(format!("{what}: {}", error.message));
    let nearest = error.unknown.as_ref().and_then(|(word, known)| {
        let distance = |name: &&&str| {
            strsim::damerau_levenshtein(&word.to_lowercase().replace('-', "_"), name)
        };
        known
            .iter()
            .min_by_key(distance)
            .filter(|name| distance(name) <= word.len().max(4) / 2)
    });
    let help = match (nearest, &error.unknown) {
        (Some(nearest), _) => {
            format!("did you mean `{nearest}`? docs/scenario.md explains every key")
        }
        (None, Some((_, known))) => format!("known: {}", known.join(", ")),
        (None, None) => "docs/scenario.md explains every key".to_owned(),
    };
    failure.help(help).at(file, text, error.span.clone())
}

/// The VMs of the files. Of VMs with one name the later ones get a number.
fn read_files(
    command: &PlaceCommand,
    host: Option<&Host>,
) -> Result<(Vec<Batch>, Vec<Finding>), Failure> {
    let (mut batches, mut findings) = (Vec::<Batch>::new(), Vec::new());
    for path in &command.files {
        let spec = vms::read(path)?.spec;
        let (mut vm, found) = scenario::from_spec(&spec, host);
        findings.extend(found);
        // Names are printed, and a file may hold anything.
        vm.name = clean(&vm.name, NAME);
        let is_taken =
            |name: &str| batches.iter().any(|batch| batch.vm.name == name) && !name.is_empty();
        if is_taken(&vm.name) {
            let free = (2..=batches.len() + 2)
                .map(|number| format!("{} ({number})", vm.name))
                .find(|name| !is_taken(name));
            vm.name = free.unwrap_or_default();
        }
        batches.push(Batch {
            count: None,
            vm,
            work: Work::default(),
        });
    }
    Ok((batches, findings))
}

fn read_policies(typed: &[String], stated: &[String]) -> Result<Vec<Box<dyn Policy>>, Failure> {
    let names = if typed.is_empty() { stated } else { typed };
    if names.is_empty() {
        return Ok(vec![Box::new(policy::place::PatientBest)]);
    }
    let mut found: Vec<Box<dyn Policy>> = Vec::new();
    for name in names {
        let policy = policies::named(name.trim()).ok_or_else(|| unknown_policy(name))?;
        if !found.iter().any(|known| known.name() == policy.name()) {
            found.push(policy);
        }
    }
    Ok(found)
}

pub(in crate::commands) fn unknown_policy(name: &str) -> Failure {
    let shown: String = name.chars().take(60).collect();
    let distance = |known: &&str| strsim::damerau_levenshtein(&shown.to_lowercase(), known);
    let nearest = policies::NAMES
        .into_iter()
        .min_by_key(distance)
        .filter(|known| distance(known) <= shown.len().max(4) / 2);
    let all = policies::NAMES.join(", ");
    let help = nearest.map_or_else(
        || format!("known: {all}"),
        |nearest| format!("did you mean `{nearest}`? Known: {all}"),
    );
    Failure::new(format!("there is no policy called {shown:?}")).help(help)
}

fn check_reserve(request: &Request) -> Result<(), Failure> {
    for (host, _) in &request.hosts {
        let there = host.cpuset().union(&host.offline).union(&host.restricted);
        let missing = request.reserve.difference(&there);
        if !missing.is_empty() {
            return Err(Failure::new(format!(
                "CPUs {missing} cannot be reserved: {} has CPUs {}",
                host.name,
                host.cpuset()
            ))
            .help("give CPUs that the host has, e.g. `--reserve 0-3`"));
        }
        let most = host.memory_mib();
        if most > 0 && request.reserve_mib > most {
            return Err(Failure::new(format!(
                "{} MiB cannot be reserved: {} has {most} MiB",
                request.reserve_mib, host.name
            )));
        }
        if most == 0 && request.reserve_mib > 0 {
            return Err(Failure::new(format!(
                "--reserve-memory: {} does not say how much memory it has",
                host.name
            ))
            .help("give a host that does, or leave --reserve-memory out"));
        }
    }
    Ok(())
}
