//! What guests make of the topology they are shown.

#![allow(
    clippy::cast_precision_loss,
    reason = "times and counts are far below 2^52"
)]

mod scene;

use std::collections::BTreeSet;

use model::GuestTopology;
use scene::{Scene, exponential, host, users, work};
use sim::outcome::Outcome;
use sim::spec::{Device, GuestSystem, Step, VmSpec};
use sim::time::{MS, S, US};

/// Every vCPU a socket of its own, as before vSphere 8.
fn flat(vm: &mut VmSpec) {
    vm.guest = GuestTopology::uniform(vm.vm.vcpus, [vm.vm.vcpus, 1, 1, 1, 1]);
}

/// One VM of 14 vCPUs on 14 cores; many threads that work a little and wait for a disk.
fn storage(system: GuestSystem, is_flat: bool, threads: u32) -> Scene {
    let mut workload = work(
        users(threads, exponential(MS)),
        threads,
        exponential(100 * US),
    );
    workload.devices.push(Device {
        name: "disk".to_owned(),
        latency: exponential(200 * US),
        parallel: 0,
    });
    workload
        .steps
        .extend([Step::Io { device: 0 }, Step::Cpu(exponential(100 * US))]);
    let shape = move |vm: &mut VmSpec| {
        vm.system = system;
        if is_flat {
            flat(vm);
        }
    };
    Scene::new(host(1, 14, 1), "linux-default")
        .lasting(3 * S)
        .workload(workload)
        .vms(1, 14, shape)
}

fn p99_us(outcome: &Outcome) -> f64 {
    outcome.workloads[0].latency.value_at_quantile(0.99) as f64 / US as f64
}

/// Without a shared cache the kernel looks at the last vCPU and the waker's only: threads queue while vCPUs idle.
#[test]
fn a_flat_linux_guest_queues_where_another_finds_an_idle_vcpu() {
    for threads in [40, 60] {
        let flat = storage(GuestSystem::Linux, true, threads).run(1);
        let shared = storage(GuestSystem::Linux, false, threads).run(1);
        assert!(
            p99_us(&flat) > 1.05 * p99_us(&shared),
            "{} and {}",
            p99_us(&flat),
            p99_us(&shared)
        );
        assert!(flat.workloads[0].operations <= shared.workloads[0].operations * 101 / 100);
    }
}

/// Claim S0-26: with a shared cache all completions are on one vCPU and wake threads elsewhere.
#[test]
fn completions_gather_and_wake_across_vcpus_when_a_cache_is_shared() {
    let ipis = |is_flat| {
        let outcome = storage(GuestSystem::Linux, is_flat, 8).run(1);
        outcome.vms[0].moves.ipis as f64 / outcome.workloads[0].operations as f64
    };
    let (flat, shared) = (ipis(true), ipis(false));
    assert!(
        shared > 1.5 * flat,
        "IPIs for each operation: flat {flat:.2}, shared {shared:.2}"
    );
}

fn vcpus_used(outcome: &Outcome) -> usize {
    let used: BTreeSet<_> = outcome
        .timeline
        .iter()
        .map(|segment| segment.vcpu)
        .collect();
    used.len()
}

/// Claims S0-20 and S0-21: two threads stay on few vCPUs while each is a socket, and go round over all of one socket.
#[test]
fn windows_threads_stay_on_sockets_of_one_and_wander_over_one_socket() {
    let used = |is_flat| {
        let mut scene = storage(GuestSystem::Windows, is_flat, 2);
        scene.spec.timeline = Some((S, S + 200 * MS));
        vcpus_used(&scene.run(1))
    };
    let (flat, shared) = (used(true), used(false));
    assert!(flat <= 4, "{flat} vCPUs used");
    assert_eq!(shared, 14);
}
