//! The books of a run: nothing is lost, nothing happens twice, and equal runs are equal.

#![allow(
    clippy::cast_precision_loss,
    reason = "times and counts are far below 2^52"
)]

mod scene;

use policy::policies::NAMES;
use scene::{Scene, exponential, fixed, host, users, work};
use sim::outcome::Outcome;
use sim::spec::{Device, Step};
use sim::time::{MS, S, US};

/// 44 vCPUs on 32 threads with work, devices, locks and work that is handed over.
fn busy(policy: &'static str) -> Scene {
    let mut workload = work(users(6, exponential(2 * MS)), 6, exponential(800 * US));
    workload.devices.push(Device {
        name: "disk".to_owned(),
        latency: exponential(300 * US),
        parallel: 2,
    });
    workload.steps.extend([
        Step::Io { device: 0 },
        Step::Lock {
            lock: 0,
            hold: fixed(50 * US),
        },
        Step::Handoff(fixed(30 * US)),
        Step::Cpu(exponential(200 * US)),
    ]);
    Scene::new(host(4, 4, 2), policy)
        .lasting(3 * S)
        .workload(workload)
        .vms(7, 4, |_| {})
        .vms(8, 2, |vm| vm.vm.shares = 2000)
}

fn time_of_vcpus(outcome: &Outcome) -> u64 {
    let times = outcome.vms.iter().map(|vm| vm.time);
    times
        .map(|time| time.run_ns + time.ready_ns + time.costop_ns + time.halted_ns)
        .sum()
}

#[test]
fn time_is_conserved_to_the_nanosecond() {
    for policy in NAMES {
        let outcome = busy(policy).run(5);
        let vcpus: u64 = outcome.vms.iter().map(|vm| u64::from(vm.vcpus)).sum();
        assert_eq!(
            time_of_vcpus(&outcome),
            vcpus * outcome.window_ns,
            "{policy}: time of vCPUs"
        );
        let run: u64 = outcome.vms.iter().map(|vm| vm.time.run_ns).sum();
        assert_eq!(
            run, outcome.host.busy_ns,
            "{policy}: running time is busy time"
        );
        assert!(outcome.host.busy_ns <= outcome.host.cpu_ns);
        assert!(
            outcome.workloads[0].operations > 1_000,
            "{policy}: {:?}",
            outcome.workloads[0].operations
        );
        assert_eq!(outcome.host.unsound_plans, 0, "{policy}");
    }
}

#[test]
fn equal_seeds_give_equal_runs_and_others_differ() {
    for policy in NAMES {
        let scene = busy(policy);
        let (first, again, other) = (scene.run(5), scene.run(5), scene.run(6));
        assert_eq!(
            (first.trace_hash, first.events),
            (again.trace_hash, again.events),
            "{policy}"
        );
        assert_ne!(first.trace_hash, other.trace_hash, "{policy}");
    }
}

#[test]
fn names_of_vms_change_nothing() {
    let scene = busy("best");
    let mut renamed = scene.clone();
    for (number, vm) in renamed.spec.vms.iter_mut().enumerate() {
        // In the same alphabetical order: policies break ties by name.
        vm.vm.name = format!("another{number:03}");
    }
    let mut numbered = scene;
    for (number, vm) in numbered.spec.vms.iter_mut().enumerate() {
        vm.vm.name = format!("vm{number:03}");
    }
    assert_eq!(numbered.run(1).trace_hash, renamed.run(1).trace_hash);
}

#[test]
fn a_timeline_shows_every_cpu_once_at_a_time() {
    let mut scene = busy("llc");
    scene.spec.timeline = Some((S, S + 100 * MS));
    let outcome = scene.run(1);
    assert!(outcome.timeline.len() > 1_000);
    for pair in outcome.timeline.windows(2) {
        let follows = pair[0].cpu != pair[1].cpu || pair[0].to_ns <= pair[1].from_ns;
        assert!(follows, "{pair:?}");
    }
    for segment in &outcome.timeline {
        assert!(
            segment.from_ns < segment.to_ns
                && segment.from_ns >= S
                && segment.to_ns <= S + 100 * MS
        );
    }
}
