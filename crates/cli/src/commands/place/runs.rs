//! One host, placed on by every policy that was asked for.

use std::sync::Arc;

use model::{Host, Vm};
use policy::cost::problem::Problem;
use policy::cost::{Bill, evaluate};
use policy::metrics::{self, Metrics};
use policy::plan::{Plan, Snapshot};
use policy::reconcile::Policy;

use super::request::Request;
use crate::failure::Failure;

/// What one policy made of the request.
pub(crate) struct Run {
    pub(crate) policy: &'static str,
    pub(crate) plan: Plan,
    pub(crate) metrics: Metrics,
    pub(crate) bill: Bill,
}

/// All runs on one host.
pub(crate) struct Runs {
    pub(crate) host: Arc<Host>,
    pub(crate) now: Snapshot,
    /// In the order they were asked for.
    pub(crate) all: Vec<Run>,
    /// Indices of `all`, the best first.
    pub(crate) ranking: Vec<usize>,
}

impl Runs {
    /// The VMs.
    pub(crate) fn vms(&self) -> impl Iterator<Item = &Vm> {
        self.now.vms.iter().map(|state| &state.vm)
    }

    /// The run that comes out best.
    pub(crate) fn first(&self) -> &Run {
        &self.all[self.ranking[0]]
    }
}

/// Places the VMs by every policy.
///
/// # Errors
/// A policy made a plan that does not hold together: a mistake of ours, which must not be shown as an answer.
pub(super) fn place(request: &Request, host: &Host) -> Result<Runs, Failure> {
    let host = Arc::new(host.clone());
    let now = Snapshot::empty(host.clone(), request.vms.clone(), request.reserve(&host));
    let problem = Problem::new(&now);
    let runs = request
        .policies
        .iter()
        .map(|policy| run(policy.as_ref(), &problem, &now, &request.vms))
        .collect::<Result<Vec<Run>, Failure>>()?;
    let all: Vec<Metrics> = runs.iter().map(|run| run.metrics.clone()).collect();
    Ok(Runs {
        ranking: metrics::ranking(&all),
        host,
        now,
        all: runs,
    })
}

fn run(policy: &dyn Policy, problem: &Problem, now: &Snapshot, vms: &[Vm]) -> Result<Run, Failure> {
    let plan = policy.plan(now);
    check(policy.name(), &plan, now, vms)?;
    Ok(Run {
        policy: policy.name(),
        metrics: metrics::measure(problem, now, &plan),
        bill: evaluate(problem, &now.host, &plan.placement, &now.placement),
        plan,
    })
}

/// No plan is shown that could not be applied.
///
/// # Errors
/// The plan does not hold together.
pub(super) fn check(name: &str, plan: &Plan, now: &Snapshot, vms: &[Vm]) -> Result<(), Failure> {
    let wrong = plan.placement.check(&now.host, vms, &now.reserve);
    let Some(first) = wrong.first() else {
        return Ok(());
    };
    let what = format!(
        "the plan of {name} does not hold together: {} [{}]",
        first.text, first.code
    );
    Err(Failure::new(what)
        .help("this is a mistake in vtopo; please report it with this command line"))
}
