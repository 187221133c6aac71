//! What theory says of queues must come out of the whole simulator: guests, hypervisor and all, with free crossings.

use std::sync::Arc;

use model::host::Synthetic;
use model::placement::Reserve;
use model::{GuestTopology, Vm};
use policy::generations::LinuxDefault;
use sim::engine::{Setting, run};
use sim::hypervisor::{Costs, Hypervisor};
use sim::machine::vector::Vector;
use sim::network::Network;
use sim::outcome::Outcome;
use sim::rng::Law;
use sim::spec::{Arrivals, Clients, GuestSystem, RunSpec, Scaled, Step, VmSpec, Workload};
use sim::time::{MS, Nanos, S};

/// A hypervisor that takes no time for anything and keeps vCPUs where they are.
fn free() -> Hypervisor {
    Hypervisor {
        costs: Costs {
            switch_ns: 0,
            wake_ns: 0,
            polled_wake_ns: 0,
            ipi_ns: 0,
            interrupt_ns: 0,
            page_ns: 0,
        },
        poll: None,
        cosched: None,
        rebalance_ns: None,
        ..Hypervisor::of_policy("linux-default").expect("the policy exists")
    }
}

/// A VM of `vcpus` on as many cores, a thread for each vCPU, requests at `rho` of what they can serve.
fn queue(vcpus: u32, rho: f64, service: Law, threads: u32) -> RunSpec {
    let per_s = rho * f64::from(vcpus) * 1e9 / service.mean_ns() as f64;
    RunSpec {
        duration_ns: 400 * S,
        warmup_ns: 10 * S,
        timeline: None,
        vms: vec![VmSpec {
            vm: Vm::new("queue", vcpus, 1024),
            guest: GuestTopology::uniform(vcpus, [1, 1, 1, vcpus, 1]),
            system: GuestSystem::Linux,
            workload: Some(0),
            tile: 0,
            on_ns: 0,
            off_ns: None,
        }],
        workloads: vec![Workload {
            name: "service".to_owned(),
            vector: Vector::COMPUTE,
            clients: Clients::Open {
                per_s: Some(per_s),
                arrivals: Arrivals::Poisson,
            },
            threads: Scaled {
                count: threads,
                per_vcpu: false,
            },
            steps: vec![Step::Cpu(service)],
            devices: Vec::new(),
            network: None,
        }],
        network: Network::default(),
    }
}

fn simulate(spec: &RunSpec, cores: u32, seed: u64) -> Outcome {
    let host = Arc::new(
        Synthetic {
            packages: 1,
            cores_per_llc: cores,
            llc_mib: 32,
            node_mib: 65_536,
            ..Synthetic::default()
        }
        .host("test"),
    );
    let (hypervisor, reserve) = (free(), Reserve::default());
    let setting = Setting {
        host: &host,
        reserve: &reserve,
        hypervisor: &hypervisor,
        policy: &LinuxDefault,
        spec,
    };
    run(setting, seed).expect("the VM fits")
}

fn mean_ms(spec: &RunSpec, cores: u32) -> f64 {
    let runs = (1..=4).map(|seed| simulate(spec, cores, seed).workloads[0].latency.mean());
    runs.sum::<f64>() / 4.0 / MS as f64
}

fn close(seen: f64, theory: f64, percent: f64) {
    let error = (seen / theory - 1.0).abs() * 100.0;
    assert!(
        error < percent,
        "seen {seen:.4}, theory {theory:.4}: {error:.1} % apart"
    );
}

const SERVICE: Nanos = 10 * MS;

/// T = S / (1 - rho).
#[test]
fn one_server_with_random_work_is_m_m_1() {
    for rho in [0.3, 0.7] {
        let spec = queue(1, rho, Law::Exponential { mean_ns: SERVICE }, 1);
        close(mean_ms(&spec, 1), 10.0 / (1.0 - rho), 4.0);
    }
}

/// W = rho S / (2 (1 - rho)).
#[test]
fn one_server_with_even_work_is_m_d_1() {
    let spec = queue(1, 0.7, Law::Fixed { mean_ns: SERVICE }, 1);
    close(mean_ms(&spec, 1), 10.0 + 0.7 * 10.0 / (2.0 * 0.3), 3.0);
}

/// Erlang C.
#[test]
fn several_servers_are_m_m_k() {
    for k in [2_u32, 8] {
        let spec = queue(k, 0.7, Law::Exponential { mean_ns: SERVICE }, k);
        let load = 0.7 * f64::from(k);
        let mut term = 1.0;
        let mut sum = 0.0;
        for i in 0..k {
            sum += term;
            term *= load / f64::from(i + 1);
        }
        let last = term * f64::from(k) / (f64::from(k) - load);
        let waits = last / (sum + last);
        let theory = 10.0 + waits * 10.0 / (f64::from(k) - load);
        close(mean_ms(&spec, k), theory, 4.0);
    }
}
