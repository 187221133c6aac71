//! The loop of observing, planning, checking and applying, on a machine in memory.

use std::convert::Infallible;
use std::sync::Arc;

use model::Vm;
use model::host::Synthetic;
use model::placement::Reserve;
use policy::place::Best;
use policy::plan::{Plan, Snapshot};
use policy::reconcile::{Machine, Policy, StepError, step};

struct Memory {
    now: Snapshot,
    applied: usize,
}

impl Machine for Memory {
    type Error = Infallible;

    fn observe(&mut self) -> Result<Snapshot, Infallible> {
        Ok(self.now.clone())
    }

    fn apply(&mut self, plan: &Plan) -> Result<(), Infallible> {
        self.now.placement = plan.placement.clone();
        self.now.generation = plan.generation;
        self.applied += 1;
        Ok(())
    }
}

fn machine() -> Memory {
    let host = Synthetic {
        llcs_per_node: 2,
        cores_per_llc: 4,
        ..Synthetic::default()
    }
    .host("test");
    let vms = vec![Vm::new("a", 4, 0), Vm::new("b", 2, 0)];
    Memory {
        now: Snapshot::empty(Arc::new(host), vms, Reserve::default()),
        applied: 0,
    }
}

#[test]
fn a_step_applies_what_changes_and_nothing_else() {
    let mut machine = machine();
    let plan = step(&mut machine, &Best).unwrap();
    assert_eq!(
        (machine.applied, plan.generation, machine.now.generation),
        (1, 1, 1)
    );
    step(&mut machine, &Best).unwrap();
    assert_eq!(machine.applied, 1, "the second plan is the state already");
    machine.now.vms.push(policy::plan::VmState {
        vm: Vm::new("c", 2, 0),
        moved_ns: None,
    });
    let plan = step(&mut machine, &Best).unwrap();
    assert_eq!(
        (machine.applied, plan.moves.len()),
        (2, 0),
        "an arrival moves nobody"
    );
}

/// Puts every vCPU on a CPU that is not there.
struct Broken;

impl Policy for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn plan(&self, now: &Snapshot) -> Plan {
        let mut plan = Best.plan(now);
        plan.placement.groups[0].cpus = "900".parse().expect("a set");
        plan
    }
}

#[test]
fn an_unsound_plan_is_not_applied() {
    let mut machine = machine();
    let error = step(&mut machine, &Broken).unwrap_err();
    assert_eq!(machine.applied, 0);
    assert!(
        matches!(&error, StepError::Unsound(wrong) if wrong[0].code == "placement-no-such-cpu"),
        "{error}"
    );
}
