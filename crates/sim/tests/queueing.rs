//! What theory says of queues must come out of the whole simulator, guests, hypervisor and all, when crossings are free.

#![allow(
    clippy::cast_precision_loss,
    reason = "times and counts are far below 2^52"
)]

mod scene;

use scene::{Scene, close, exponential, fixed, host, poisson, users, work};
use sim::rng::Law;
use sim::time::{MS, Nanos, S};

const SERVICE: Nanos = 10 * MS;

/// A VM of as many vCPUs as the host has cores, a thread for each; requests for a share `rho` of them.
fn queue(servers: u32, rho: f64, service: Law, threads: u32) -> Scene {
    let per_s = rho * f64::from(servers) * 1e9 / service.mean_ns() as f64;
    Scene::new(host(1, servers, 1), "linux-default")
        .free()
        .lasting(400 * S)
        .workload(work(poisson(per_s), threads, service))
        .vms(1, servers, |_| {})
}

/// T = S / (1 - rho).
#[test]
fn one_server_with_random_work_is_m_m_1() {
    for rho in [0.3, 0.7] {
        let seen = queue(1, rho, exponential(SERVICE), 1).mean_ms(4);
        close(seen, 10.0 / (1.0 - rho), 4.0);
    }
}

/// T = S + rho S / (2 (1 - rho)).
#[test]
fn one_server_with_even_work_is_m_d_1() {
    let seen = queue(1, 0.7, fixed(SERVICE), 1).mean_ms(4);
    close(seen, 10.0 + 0.7 * 10.0 / (2.0 * 0.3), 3.0);
}

/// Erlang C: the probability of waiting, then an exponential wait.
#[test]
fn several_servers_are_m_m_k() {
    for servers in [2_u32, 8] {
        let load = 0.7 * f64::from(servers);
        let (mut term, mut sum) = (1.0, 0.0);
        for i in 0..servers {
            sum += term;
            term *= load / f64::from(i + 1);
        }
        let full = term * f64::from(servers) / (f64::from(servers) - load);
        let wait = full / (sum + full) * 10.0 / (f64::from(servers) - load);
        let seen = queue(servers, 0.7, exponential(SERVICE), servers).mean_ms(4);
        close(seen, 10.0 + wait, 4.0);
    }
}

/// Processor sharing is blind to the law of the work: T = S / (1 - rho) for all of them. A guest that gives its threads
/// slices of 3 ms comes close when the work is 300 ms.
#[test]
fn shared_processors_are_blind_to_the_law_of_work() {
    let service = 300 * MS;
    let laws = [
        fixed(service),
        exponential(service),
        Law::LogNormal {
            mean_ns: service,
            cv: 1.5,
        },
    ];
    for law in laws {
        let seen = queue(1, 0.5, law, 400).lasting(6_000 * S).mean_ms(4);
        close(seen, 600.0, 6.0);
    }
}

/// Two threads of a core are a queue whose speed is 1 with one customer and 2 q with two: P(n) is proportional to the
/// product of lambda / mu(min(n, 2)).
#[test]
fn threads_of_a_core_have_the_product_form() {
    let q = 0.65;
    let lambda = 0.9 / SERVICE as f64;
    let (alone, both) = (1.0 / SERVICE as f64, 2.0 * q / SERVICE as f64);
    let (mut p, mut sum, mut customers) = (1.0, 1.0, 0.0);
    for n in 1..2_000 {
        p *= lambda / if n == 1 { alone } else { both };
        sum += p;
        customers += f64::from(n) * p;
    }
    let theory_ms = customers / sum / lambda / MS as f64;
    let scene = Scene::new(host(1, 1, 2), "linux-default")
        .free()
        .lasting(400 * S)
        .workload(work(poisson(lambda * 1e9), 2, exponential(SERVICE)))
        .vms(1, 2, |_| {});
    close(scene.mean_ms(6), theory_ms, 5.0);
}

/// A job that waits for the slowest of n exponential parts takes H(n) times as long as one.
#[test]
fn the_slowest_of_many_takes_the_harmonic_number() {
    let parts = 16;
    let once = users(1, fixed(S));
    let mut scene = Scene::new(host(1, parts, 1), "linux-default")
        .free()
        .workload(work(once, 1, exponential(SERVICE)))
        .vms(parts, 1, |_| {});
    scene.spec.duration_ns = 1_900 * MS;
    scene.spec.warmup_ns = 1;
    let seeds = 200_u32;
    let slowest = (1..=seeds).map(|seed| {
        let outcome = scene.run(seed.into());
        assert!(outcome.workloads[0].operations >= 16);
        outcome
            .vms
            .iter()
            .map(|vm| vm.latency.max())
            .max()
            .unwrap_or(0) as f64
    });
    let seen = slowest.sum::<f64>() / f64::from(seeds) / MS as f64;
    let harmonic: f64 = (1..=parts).map(|n| 1.0 / f64::from(n)).sum();
    close(seen, 10.0 * harmonic, 7.0);
}

/// N = X T on every trajectory: users who never think are always in the system.
#[test]
fn littles_law_holds_on_trajectories() {
    for policy in ["best", "llc", "spread", "linux-default"] {
        let population = 40;
        let scene = Scene::new(host(2, 4, 2), policy)
            .workload(work(users(population, fixed(0)), 40, exponential(MS)))
            .vms(1, 8, |_| {});
        let outcome = scene.run(1);
        let workload = &outcome.workloads[0];
        let in_system =
            workload.latency.mean() * workload.operations as f64 / outcome.window_ns as f64;
        // Requests that are cut by the ends of the window, and a histogram of three digits.
        close(in_system, f64::from(population), 1.0);
    }
}

/// U = X D on every trajectory: with free crossings CPUs are busy for the work of the operations and nothing else.
#[test]
fn the_utilisation_law_holds_on_trajectories() {
    let scene = queue(4, 0.6, fixed(SERVICE), 4).lasting(50 * S);
    let outcome = scene.run(3);
    let work = outcome.workloads[0].operations * SERVICE;
    let cut = 4 * SERVICE;
    assert!(
        outcome.host.busy_ns.abs_diff(work) <= cut,
        "{} and {work}",
        outcome.host.busy_ns
    );
}
