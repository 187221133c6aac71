//! Who gets how much: shares, limits, reservations, co-scheduling, and CPUs that must not idle while somebody waits.

#![allow(
    clippy::cast_precision_loss,
    reason = "times and counts are far below 2^52"
)]

mod scene;

use policy::policies::NAMES;
use scene::{Scene, close, fixed, host, users, work};
use sim::spec::{Clients, Step, Workload};
use sim::time::{MS, S};

/// A thread that never stops for each of `threads`.
fn spin(threads: u32) -> Workload {
    work(users(threads, fixed(0)), threads, fixed(5 * MS))
}

fn share(outcome: &sim::outcome::Outcome, vm: usize) -> f64 {
    outcome.vms[vm].time.run_ns as f64 / outcome.window_ns as f64
}

#[test]
fn shares_decide_when_cpus_are_short() {
    let cases = NAMES
        .iter()
        .flat_map(|policy| [(*policy, 2), (*policy, 4), (*policy, 10)]);
    for (policy, times) in cases {
        let scene = Scene::new(host(1, 1, 1), policy)
            .lasting(61 * S)
            .workload(spin(1))
            .vms(1, 1, |vm| vm.vm.shares = 500)
            .vms(1, 1, |vm| vm.vm.shares = 500 * times);
        let outcome = scene.run(1);
        let ratio = share(&outcome, 1) / share(&outcome, 0);
        close(ratio, f64::from(times), 12.0);
    }
}

#[test]
fn a_newcomer_takes_nothing_for_the_time_before_him() {
    for policy in NAMES {
        let scene = Scene::new(host(1, 1, 1), policy)
            .lasting(42 * S)
            .workload(spin(1))
            .vms(1, 1, |_| {})
            .vms(1, 1, |vm| vm.on_ns = 20 * S);
        let outcome = scene.run(1);
        // 41 s are measured; of the last 22 each should have a half.
        let newcomer = outcome.vms[1].time.run_ns as f64 / S as f64;
        close(newcomer, 11.0, 8.0);
    }
}

#[test]
fn a_reservation_comes_before_shares() {
    for policy in NAMES {
        let scene = Scene::new(host(1, 1, 1), policy)
            .lasting(31 * S)
            .workload(spin(1))
            .vms(1, 1, |vm| {
                vm.vm.shares = 500;
                vm.vm.reservation = 700;
            })
            .vms(1, 1, |vm| vm.vm.shares = 2000);
        let promised = share(&scene.run(1), 0);
        assert!((0.65..0.85).contains(&promised), "{policy}: {promised}");
    }
}

#[test]
fn a_limit_holds() {
    for policy in ["best", "llc", "linux-default"] {
        let scene = Scene::new(host(1, 4, 1), policy)
            .workload(spin(4))
            .vms(1, 4, |vm| vm.vm.limit = Some(1_500));
        let outcome = scene.run(1);
        close(share(&outcome, 0), 1.5, 1.0);
        assert!(outcome.vms[0].time.limited_ns > 0);
    }
}

#[test]
fn no_cpu_idles_while_somebody_may_run_on_it() {
    for policy in ["best", "llc", "spread", "linux-default"] {
        let scene = Scene::new(host(2, 4, 1), policy)
            .workload(spin(2))
            .vms(8, 2, |_| {});
        let outcome = scene.run(2);
        let busy = outcome.host.busy_ns as f64 / outcome.host.cpu_ns as f64;
        assert!(busy > 0.995, "{policy}: {busy}");
    }
}

#[test]
fn vcpus_that_run_ahead_are_stopped_on_esxi_only() {
    for (policy, is_esxi) in [
        ("llc", true),
        ("spread", true),
        ("best", false),
        ("linux-default", false),
    ] {
        let scene = Scene::new(host(1, 3, 1), policy)
            .workload(spin(2))
            .vms(1, 2, |_| {})
            .workload(spin(1))
            .vms(2, 1, |_| {});
        let outcome = scene.run(1);
        assert_eq!(outcome.vms[0].time.costop_ns > 0, is_esxi, "{policy}");
    }
}

/// A call to a VM that is off, or goes off, is answered: with an error, in no time.
#[test]
fn callers_of_a_vm_that_is_off_go_on() {
    let mut front = spin(1);
    front.steps.push(Step::Call {
        to: "back".to_owned(),
    });
    let back = Workload {
        name: "back".to_owned(),
        clients: Clients::Called,
        ..spin(1)
    };
    for (on, off) in [(20 * S, None), (0, Some(2 * S))] {
        let scene = Scene::new(host(1, 2, 1), "best")
            .workload(front.clone())
            .vms(1, 1, |_| {})
            .workload(back.clone())
            .vms(1, 1, |vm| (vm.on_ns, vm.off_ns) = (on, off));
        let operations = scene.run(1).vms[0].operations;
        assert!(operations > 1_000, "{operations} operations");
    }
}
