//! From what was typed to what is simulated: the scenario with its changes, the host, and a case for each policy and rule.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use clap::ValueEnum;
use model::placement::Reserve;
use model::{GuestTopology, Host, Spec};
use policy::policies;
use policy::shape::{self, Goal, Overrides, Rule};
use sim::hypervisor::Hypervisor;
use sim::replicate::Case;
use sim::scenario::{self, Library, Member, Nominal, ScenarioError, Simulation};
use sim::time::MS;

use crate::args::{RuleArg, SimulateCommand};
use crate::failure::Failure;
use crate::hosts;

/// A value of the scenario that is changed: key and value.
pub(super) type Assignment = (String, String);

/// Part of the run that is drawn where the scenario does not say: long enough for several slices of every hypervisor.
/// Ours.
const DRAWN_NS: u64 = 100 * MS;
/// The same for a trace, in which one can move about. Ours.
const TRACED_NS: u64 = 1_000 * MS;

/// The text of a scenario; scenes are made from it as often as values change.
pub(crate) struct Source<'a> {
    command: &'a SimulateCommand,
    shown: String,
    text: String,
    /// The workloads that vtopo brings.
    pub(crate) library: Library,
    /// The host that was read last, by its words.
    host: RefCell<Option<(String, Arc<Host>)>>,
}

/// A scenario with all its values settled.
pub(crate) struct Scene {
    /// The values of the sweeps here.
    pub(crate) point: Vec<Assignment>,
    /// What is simulated.
    pub(crate) simulation: Simulation,
    /// Where.
    pub(crate) host: Arc<Host>,
    /// A case for each policy and rule, in the order in which they were asked for.
    pub(crate) variants: Vec<Variant>,
}

/// A policy and a rule.
pub(crate) struct Variant {
    /// The policy's name.
    pub(crate) policy: &'static str,
    /// The rule's name.
    pub(crate) rule: String,
    /// What to run, or why the rule does not power a VM on.
    pub(crate) case: Result<Case, String>,
}

impl Variant {
    /// The name in tables: the policy, with the rule where there are several.
    pub(crate) fn name(&self, has_rules: bool) -> String {
        label(self.policy, &self.rule, has_rules)
    }
}

/// A policy and a rule in a word.
pub(super) fn label(policy: &str, rule: &str, has_rules: bool) -> String {
    if has_rules {
        format!("{policy} {rule}")
    } else {
        policy.to_owned()
    }
}

impl<'a> Source<'a> {
    /// Of the text of the file that was typed.
    pub(crate) fn new(command: &'a SimulateCommand, text: String) -> Self {
        let path = command.files.first();
        let path = path.expect("clap asks for it unless there is --example");
        Self {
            command,
            shown: path.display().to_string(),
            text,
            library: super::library::library(),
            host: RefCell::new(None),
        }
    }

    /// The rules that are compared.
    pub(crate) fn rules(&self) -> &'a [RuleArg] {
        match self.command.rule.as_slice() {
            [] => &[RuleArg::Auto],
            rules => rules,
        }
    }

    /// One scene for each point of the sweeps.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub(crate) fn scenes(&self) -> Result<Vec<Scene>, Failure> {
        let first = self.simulation(&[])?.1;
        let points = scenario::grid(&first.sweeps);
        points.iter().map(|point| self.load(point)).collect()
    }

    /// The scenario with what was set on the command line and with `more`.
    ///
    /// # Errors
    /// What is no scenario, host, policy or rule.
    pub(crate) fn load(&self, more: &[Assignment]) -> Result<Scene, Failure> {
        let (text, simulation) = self.simulation(more)?;
        let host = self.host(&simulation)?;
        let policies = self.policies(&simulation)?;
        let reserve = reserve(&simulation, &host)?;
        let mut variants = Vec::new();
        for policy in policies {
            for rule in self.rules() {
                let made = self.case(&simulation, (&host, &reserve), policy, *rule);
                let case = match made {
                    Ok(case) => Ok(case),
                    Err(No::Refused(why)) => Err(why),
                    Err(No::Scenario(error)) => return Err(self.failure(&text, &error)),
                };
                variants.push(Variant {
                    policy,
                    rule: rule.name(),
                    case,
                });
            }
        }
        Ok(Scene {
            point: more.to_vec(),
            simulation,
            host,
            variants,
        })
    }

    /// The seeds of all runs.
    pub(crate) fn seeds(&self, simulation: &Simulation) -> Vec<u64> {
        let count = self.command.seeds.unwrap_or(simulation.run.seeds);
        let first = self.command.seed.unwrap_or(simulation.run.seed);
        (0..u64::from(count)).map(|number| first + number).collect()
    }

    fn simulation(&self, more: &[Assignment]) -> Result<(String, Simulation), Failure> {
        let all: Vec<Assignment> = self.command.sets.iter().chain(more).cloned().collect();
        let text = if all.is_empty() {
            self.text.clone()
        } else {
            scenario::set(&self.text, &all).map_err(|error| self.failure(&self.text, &error))?
        };
        match scenario::read(&text, &self.library) {
            Ok(simulation) => Ok((text, simulation)),
            Err(error) => Err(self.failure(&text, &error)),
        }
    }

    fn failure(&self, text: &str, error: &ScenarioError) -> Failure {
        let help = match (error.nearest(), &error.unknown) {
            (Some(nearest), _) => {
                format!("did you mean `{nearest}`? docs/simulate.md explains every key")
            }
            (None, Some((_, known))) => format!("known: {}", known.join(", ")),
            (None, None) => "docs/simulate.md explains every key".to_owned(),
        };
        if error.key.is_some() {
            return Failure::new(format!(
                "{} cannot be changed: {}",
                self.shown, error.message
            ))
            .help(help);
        }
        Failure::new(format!("{} is no scenario: {}", self.shown, error.message))
            .help(help)
            .at(&self.shown, text, error.span.clone())
    }

    fn host(&self, simulation: &Simulation) -> Result<Arc<Host>, Failure> {
        let hosts = match self.command.host.as_slice() {
            [] => simulation.scenario.hosts.as_slice(),
            typed => typed,
        };
        let text = match hosts {
            [] => "live",
            [host] => host,
            several => {
                let text = format!("{} hosts are given; a simulation has one", several.len());
                return Err(Failure::new(text).help("give one with --host"));
            }
        };
        if let Some((known, host)) = &*self.host.borrow()
            && known == text
        {
            return Ok(Arc::clone(host));
        }
        let host = Arc::new(hosts::host(text, &self.command.firmware)?);
        *self.host.borrow_mut() = Some((text.to_owned(), Arc::clone(&host)));
        Ok(host)
    }

    fn policies(&self, simulation: &Simulation) -> Result<Vec<&'static str>, Failure> {
        let typed = &self.command.policy;
        let names = if typed.is_empty() {
            &simulation.scenario.policies
        } else {
            typed
        };
        let mut found = Vec::new();
        for name in names {
            let known = policies::NAMES
                .into_iter()
                .find(|known| known == &name.trim());
            let known = known.ok_or_else(|| super::super::place::unknown_policy(name))?;
            if !found.contains(&known) {
                found.push(known);
            }
        }
        if found.is_empty() {
            found.push("best");
        }
        Ok(found)
    }

    fn case(
        &self,
        simulation: &Simulation,
        (host, reserve): (&Arc<Host>, &Reserve),
        policy: &'static str,
        rule: RuleArg,
    ) -> Result<Case, No> {
        let guests = guests(simulation, host, rule)?;
        let mut spec =
            scenario::expand(simulation, &Nominal::of(host), &guests).map_err(No::Scenario)?;
        spec.timeline = self.timeline(simulation);
        Ok(Case {
            host: Arc::clone(host),
            reserve: reserve.clone(),
            hypervisor: Hypervisor::of_policy(policy).expect("every policy has a hypervisor"),
            policy,
            spec,
        })
    }

    fn timeline(&self, simulation: &Simulation) -> Option<(u64, u64)> {
        let run = &simulation.run;
        let length = match (&self.command.trace, &self.command.report) {
            (None, None) => return None,
            (Some(_), _) => TRACED_NS,
            (None, Some(_)) => DRAWN_NS,
        };
        let usual = (run.warmup_ns, run.duration_ns.min(run.warmup_ns + length));
        Some(run.timeline.unwrap_or(usual))
    }
}

/// Why there is no case.
enum No {
    Refused(String),
    Scenario(ScenarioError),
}

/// What each VM's guest sees; equal VMs are shaped once.
fn guests(simulation: &Simulation, host: &Host, rule: RuleArg) -> Result<Vec<GuestTopology>, No> {
    let mut known: BTreeMap<(u32, u64, String), GuestTopology> = BTreeMap::new();
    let mut guests = Vec::with_capacity(simulation.members.len());
    for member in &simulation.members {
        let rule = match &member.rule {
            Some(name) => RuleArg::from_str(name, false)
                .map_err(|_| No::Scenario(unknown_rule(simulation, member, name)))?,
            None => rule,
        };
        let key = (member.vm.vcpus, member.vm.memory_mib, rule.name());
        let guest = if let Some(guest) = known.get(&key) {
            guest.clone()
        } else {
            let vm = Spec {
                name: member.vm.name.clone(),
                vcpus: member.vm.vcpus,
                // VMs without memory are none to a rule.
                memory_mib: member.vm.memory_mib.max(1),
                ..Spec::default()
            };
            topology(&vm, host, rule.rule())?
        };
        known.insert(key, guest.clone());
        guests.push(guest);
    }
    Ok(guests)
}

fn unknown_rule(simulation: &Simulation, member: &Member, name: &str) -> ScenarioError {
    let known = RuleArg::value_variants().iter().map(|rule| rule.name());
    let shown: String = name.chars().take(60).collect();
    ScenarioError {
        message: format!("{}: there is no rule called {shown:?}", member.vm.name),
        span: simulation.places[member.batch].clone(),
        key: None,
        unknown: Some((name.to_owned(), known.collect())),
    }
}

fn topology(vm: &Spec, host: &Host, rule: Rule) -> Result<GuestTopology, No> {
    let request = shape::Request {
        vm,
        host,
        rule,
        goal: Goal::Throughput,
        overrides: Overrides::default(),
        limits: Vec::new(),
    };
    let shape = shape::shape(&request)
        .map_err(|refusal| No::Refused(format!("{}: {}", vm.name, refusal.text)))?;
    Ok(shape.topology)
}

fn reserve(simulation: &Simulation, host: &Host) -> Result<Reserve, Failure> {
    let cpus = simulation.scenario.reserve.clone().unwrap_or_default();
    let there = host.cpuset().union(&host.offline).union(&host.restricted);
    let missing = cpus.difference(&there);
    if !missing.is_empty() {
        return Err(Failure::new(format!(
            "CPUs {missing} cannot be reserved: {} has CPUs {}",
            host.name,
            host.cpuset()
        ))
        .help("give CPUs that the host has, e.g. reserve = \"0-3\""));
    }
    Ok(Reserve {
        cpus,
        ..Reserve::default()
    })
}
