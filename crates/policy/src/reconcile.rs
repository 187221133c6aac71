//! The only loop: observe, plan, check, apply. The simulator, the live host and the `sched_ext` scheduler are machines to it.

use model::{Finding, Vm};

use crate::plan::{Plan, Snapshot};

/// Decides where VMs run. Pure and stateless: equal snapshots give equal plans.
pub trait Policy {
    /// The name people type, such as `best`.
    fn name(&self) -> &'static str;
    /// The plan for this moment.
    fn plan(&self, now: &Snapshot) -> Plan;
}

/// Something that runs VMs.
pub trait Machine {
    /// Why it could not be observed or changed.
    type Error;
    /// What is there now.
    ///
    /// # Errors
    /// The machine cannot be read.
    fn observe(&mut self) -> Result<Snapshot, Self::Error>;
    /// Makes the plan true. Applying the same plan again changes nothing.
    ///
    /// # Errors
    /// The machine refused a change.
    fn apply(&mut self, plan: &Plan) -> Result<(), Self::Error>;
}

/// Why a step did not happen.
#[derive(Debug)]
pub enum StepError<E> {
    /// The machine failed.
    Machine(E),
    /// The policy made a plan that must not be applied; nothing was.
    Unsound(Vec<Finding>),
}

impl<E: std::fmt::Display> std::fmt::Display for StepError<E> {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Machine(error) => {
                write!(out, "the machine could not be read or changed: {error}")
            }
            Self::Unsound(wrong) => {
                let first = wrong.first().map_or("", |finding| finding.text.as_str());
                write!(
                    out,
                    "the plan does not hold together and was not applied ({} findings): {first}",
                    wrong.len()
                )
            }
        }
    }
}

impl<E: std::error::Error> std::error::Error for StepError<E> {}

/// One round: observes, plans, checks the plan and applies it, if it changes anything.
///
/// # Errors
/// The machine cannot be observed or changed, or the plan does not hold together; then nothing is applied.
pub fn step<M: Machine>(machine: &mut M, policy: &dyn Policy) -> Result<Plan, StepError<M::Error>> {
    let now = machine.observe().map_err(StepError::Machine)?;
    let plan = policy.plan(&now);
    let vms: Vec<Vm> = now.vms.iter().map(|state| state.vm.clone()).collect();
    let wrong = plan.placement.check(&now.host, &vms, &now.reserve);
    if !wrong.is_empty() {
        return Err(StepError::Unsound(wrong));
    }
    if plan.placement != now.placement {
        machine.apply(&plan).map_err(StepError::Machine)?;
    }
    Ok(plan)
}
