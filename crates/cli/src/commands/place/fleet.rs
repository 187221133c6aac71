//! Several hosts, and what still fits on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::placement::VmId;
use model::scenario;
use model::{Reason, Vm};
use policy::cost::problem::Problem;
use policy::fleet::{self, FleetPlan, Loss, Member, Room};
use policy::metrics::{self, Metrics};
use policy::plan::Snapshot;

use super::request::{Request, scenario_failure};
use super::runs::check;
use crate::draw::clean;
use crate::failure::Failure;

/// A fleet with its VMs placed.
pub(crate) struct Placed {
    pub(crate) members: Vec<Member>,
    /// A name for each host: its own, with a number where there are several.
    pub(crate) labels: Vec<String>,
    /// The VMs of each host.
    pub(crate) vms: Vec<Vec<Vm>>,
    pub(crate) plan: FleetPlan,
    /// Figures by host.
    pub(crate) by_host: Vec<Metrics>,
    /// Figures of all hosts.
    pub(crate) metrics: Metrics,
    /// How many more VMs of which kind fit, where that is asked.
    pub(crate) room: Option<(String, Room)>,
    /// What each host's failure means, where that is asked.
    pub(crate) losses: Option<Vec<Loss>>,
}

impl Placed {
    /// VMs that no host takes.
    pub(crate) fn refused<'a>(
        &'a self,
        request: &'a Request,
    ) -> impl Iterator<Item = (&'a str, &'a Reason)> {
        let name = |vm: &VmId| request.vms.get(vm.index()).map_or("", |vm| &vm.name);
        self.plan
            .refused
            .iter()
            .map(move |(vm, reason)| (name(vm), reason))
    }
}

/// Places the VMs over all hosts.
///
/// # Errors
/// Another policy than `best` is asked for; a plan does not hold together; the text of `room` is no VM.
pub(super) fn place(
    request: &Request,
    room: Option<&str>,
    failover: bool,
) -> Result<Placed, Failure> {
    if let Some(other) = request
        .policies
        .iter()
        .find(|policy| policy.name() != "best")
    {
        return Err(Failure::new(format!(
            "{} places on one host only; several hosts, --room and --failover are planned by best",
            other.name()
        ))
        .help("leave --policy out, or give one host"));
    }
    let wanted = room.map(read_wanted).transpose()?;
    let (members, labels) = members(request);
    let plan = fleet::place(&members, &request.vms);
    let (mut vms, mut by_host) = (Vec::new(), Vec::new());
    for (member, held) in members.iter().zip(&plan.hosts) {
        let own = held.vms.iter().filter_map(|vm| request.vms.get(vm.index()));
        let own: Vec<Vm> = own.cloned().collect();
        let now = Snapshot::empty(member.host.clone(), own.clone(), member.reserve.clone());
        check("best", &held.plan, &now, &own)?;
        by_host.push(metrics::measure(&Problem::new(&now), &now, &held.plan));
        vms.push(own);
    }
    let mut metrics = metrics::combine(&by_host);
    metrics.refused = u32::try_from(plan.refused.len()).unwrap_or(u32::MAX);
    Ok(Placed {
        room: wanted.map(|(text, vm)| (text, fleet::room(&members, &request.vms, &plan, &vm))),
        losses: failover.then(|| fleet::losses(&members, &request.vms, &plan)),
        members,
        labels,
        vms,
        plan,
        by_host,
        metrics,
    })
}

fn read_wanted(text: &str) -> Result<(String, Vm), Failure> {
    let batch = scenario::read_batch(text)
        .map_err(|error| scenario_failure("--room", "--room", text, &error))?;
    if batch.vm.vcpus == 0 || batch.count.is_some() {
        return Err(Failure::new(format!("--room: {text:?} is no single VM"))
            .help("give one VM with vCPUs, e.g. `--room 8x64G`"));
    }
    Ok((text.to_owned(), batch.vm))
}

fn members(request: &Request) -> (Vec<Member>, Vec<String>) {
    let mut totals: BTreeMap<&str, u32> = BTreeMap::new();
    for (host, count) in &request.hosts {
        *totals.entry(&host.name).or_default() += count;
    }
    let mut used: BTreeMap<&str, u32> = BTreeMap::new();
    let (mut members, mut labels) = (Vec::new(), Vec::new());
    for (host, count) in &request.hosts {
        let member = Member {
            host: Arc::new(host.clone()),
            reserve: request.reserve(host),
        };
        for _ in 0..*count {
            let number = used.entry(&host.name).or_default();
            *number += 1;
            labels.push(match totals.get(host.name.as_str()) {
                Some(1) => clean(&host.name, 80),
                _ => format!("{}#{number}", clean(&host.name, 80)),
            });
            members.push(member.clone());
        }
    }
    (members, labels)
}
