//! What hardware does to VMs: more of it never hurts, fewer neighbours never hurt, and what is apart is apart.

#![allow(
    clippy::cast_precision_loss,
    reason = "times and counts are far below 2^52"
)]

mod scene;

use std::sync::Arc;

use model::Host;
use model::host::Synthetic;
use scene::{Scene, close, exponential, fixed, host, users, work};
use sim::machine::vector::Vector;
use sim::outcome::Outcome;
use sim::spec::Workload;
use sim::time::{S, US};

const MIB: f64 = 1024.0 * 1024.0;

/// Threads that never stop, miss caches and exchange lines.
fn hungry(threads: u32, working_set_mib: f64) -> Workload {
    let vector = Vector {
        misses_per_us: 5.0,
        working_set: working_set_mib * MIB,
        shared_lines_per_us: 2.0,
        ..Vector::COMPUTE
    };
    Workload {
        vector,
        ..work(users(threads, fixed(0)), threads, exponential(500 * US))
    }
}

fn machine(packages: u32, llc_mib: u64) -> Arc<Host> {
    let machine = Synthetic {
        packages,
        llcs_per_node: 2,
        cores_per_llc: 4,
        threads_per_core: 2,
        llc_mib,
        node_mib: 65_536,
        ..Synthetic::default()
    };
    Arc::new(machine.host("test"))
}

/// Operations a second.
fn rate(outcome: &Outcome, vm: usize) -> f64 {
    outcome.vms[vm].operations as f64 / (outcome.window_ns as f64 / 1e9)
}

#[test]
fn a_larger_cache_never_hurts() {
    for policy in ["best", "llc", "linux-default"] {
        let mut last = 0.0;
        for llc_mib in [4, 8, 16, 32, 64] {
            let scene = Scene::new(machine(1, llc_mib), policy)
                .lasting(3 * S)
                .workload(hungry(4, 8.0))
                .vms(3, 4, |_| {});
            let outcome = scene.run(1);
            let sum = (0..3).map(|vm| rate(&outcome, vm)).sum::<f64>();
            assert!(
                sum >= last * 0.995,
                "{policy}: {llc_mib} MiB: {sum} after {last}"
            );
            last = sum;
        }
    }
}

#[test]
fn fewer_neighbours_never_hurt() {
    for policy in ["best", "llc", "linux-default"] {
        let mut last = 0.0;
        for neighbours in [5, 3, 1, 0] {
            let scene = Scene::new(machine(1, 16), policy)
                .lasting(3 * S)
                .workload(hungry(4, 8.0))
                .vms(1 + neighbours, 4, |_| {});
            let now = rate(&scene.run(1), 0);
            assert!(
                now >= last * 0.98,
                "{policy}: {neighbours} neighbours: {now} after {last}"
            );
            last = now;
        }
    }
}

#[test]
fn a_host_of_two_independent_halves_is_two_hosts() {
    let whole = Scene::new(machine(2, 16), "best")
        .lasting(4 * S)
        .workload(hungry(4, 8.0))
        .vms(2, 4, |vm| vm.vm.hard.nodes = vec![0])
        .vms(2, 4, |vm| vm.vm.hard.nodes = vec![1]);
    let half = Scene::new(machine(1, 16), "best")
        .lasting(4 * S)
        .workload(hungry(4, 8.0))
        .vms(2, 4, |_| {});
    let (whole, half) = (whole.run(1), half.run(1));
    for vm in 0..4 {
        // Ties are drawn from one stream, so that the halves do not see the same numbers.
        close(rate(&whole, vm), rate(&half, vm % 2), 2.0);
    }
}

/// The study's point: a VM whose vCPUs exchange data is faster on one LLC than spread over many.
#[test]
fn vcpus_that_share_are_faster_together() {
    let at = |policy| {
        let vector = Vector {
            shared_lines_per_us: 5.0,
            ..Vector::COMPUTE
        };
        let workload = Workload {
            vector,
            ..work(users(4, fixed(0)), 4, exponential(500 * US))
        };
        let scene = Scene::new(host(8, 4, 1), policy)
            .lasting(3 * S)
            .workload(workload)
            .vms(2, 4, |_| {});
        let outcome = scene.run(1);
        (rate(&outcome, 0), outcome.vms[0].llcs_mean)
    };
    let (spread, spread_llcs) = at("spread");
    let (llc, llc_llcs) = at("llc");
    assert!(
        llc_llcs < 1.5 && spread_llcs > 2.5,
        "{llc_llcs} and {spread_llcs} LLCs"
    );
    assert!(llc > 1.2 * spread, "{llc} and {spread} operations a second");
}
