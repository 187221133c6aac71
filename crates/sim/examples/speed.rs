//! How fast the simulator is: 344 vCPUs in 43 VMs on 256 threads, as many as in the study's eight tiles.
//!
//! `cargo run --release -p sim --example speed -- [SECONDS] [POLICY] [MICROSECONDS OF WORK] [TIMES]`
//!
//! TIMES makes host and VMs so many times as large.

#![allow(
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "an example that prints"
)]

use std::sync::Arc;
use std::time::Instant;

use model::host::Synthetic;
use model::placement::Reserve;
use model::{GuestTopology, Host, Vm};
use policy::policies;
use sim::engine::{Setting, run};
use sim::hypervisor::Hypervisor;
use sim::machine::vector::Vector;
use sim::network::Network;
use sim::outcome::{Outcome, VmOutcome};
use sim::rng::Law;
use sim::spec::{Clients, GuestSystem, RunSpec, Scaled, Step, VmSpec, Workload};
use sim::time::{S, US};

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds = args.next().and_then(|text| text.parse().ok()).unwrap_or(10);
    let policy = args.next().unwrap_or_else(|| "best".to_owned());
    let work_us = args
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1_000);
    let times: u32 = args.next().and_then(|text| text.parse().ok()).unwrap_or(1);
    let (host, spec) = (Arc::new(host(times)), spec(seconds, work_us, times));
    let hypervisor = Hypervisor::of_policy(&policy).expect("a policy's name");
    let placer = policies::named(&policy).expect("a policy's name");
    let reserve = Reserve::default();
    let setting = Setting {
        host: &host,
        reserve: &reserve,
        hypervisor: &hypervisor,
        policy: &*placer,
        spec: &spec,
    };
    let start = Instant::now();
    let outcome = run(setting, 1).expect("the VMs fit");
    let wall = start.elapsed().as_secs_f64();
    println!(
        "{policy}: {seconds} s in {wall:.2} s: {:.1} simulated seconds a second, {:.2} M events a second",
        seconds as f64 / wall,
        outcome.events as f64 / wall / 1e6,
    );
    show(&outcome);
}

/// Two packages of 16 LLCs of 4 cores of 2 threads, as two EPYC 7702 are.
fn host(times: u32) -> Host {
    let machine = Synthetic {
        packages: 2 * times,
        llcs_per_node: 16,
        cores_per_llc: 4,
        threads_per_core: 2,
        llc_mib: 16,
        node_mib: 1 << 20,
        ..Synthetic::default()
    };
    machine.host("two packages of 16 LLCs")
}

fn spec(seconds: u64, work_us: u64, times: u32) -> RunSpec {
    let vms = (0..43 * times).map(|number| {
        let mut vm = Vm::new(format!("vm{number}"), 8, 32_768);
        vm.load = 600;
        VmSpec {
            guest: GuestTopology::uniform(8, [1, 1, 1, 8, 1]),
            system: GuestSystem::Linux,
            workload: Some(0),
            tile: 0,
            on_ns: 0,
            off_ns: None,
            vm,
        }
    });
    let ten = Scaled {
        count: 10,
        per_vcpu: true,
    };
    let vector = Vector {
        smt: 0.6,
        misses_per_us: 5.0,
        working_set: 8e6,
        shared_lines_per_us: 2.0,
        ..Vector::COMPUTE
    };
    RunSpec {
        duration_ns: seconds * S,
        warmup_ns: S / 2,
        timeline: None,
        vms: vms.collect(),
        workloads: vec![Workload {
            name: "work".to_owned(),
            vector,
            clients: Clients::Closed {
                users: ten,
                // 10 users on each vCPU keep it busy for 60 %: a cycle of 16.7 times the work.
                think: Some(Law::Exponential {
                    mean_ns: work_us * US * 157 / 10,
                }),
            },
            threads: ten,
            steps: vec![Step::Cpu(Law::Exponential {
                mean_ns: work_us * US,
            })],
            devices: Vec::new(),
            network: None,
        }],
        network: Network::default(),
    }
}

fn show(outcome: &Outcome) {
    let workload = &outcome.workloads[0];
    let busy = outcome.host.busy_ns as f64 / outcome.host.cpu_ns as f64;
    println!(
        "  {} operations, mean {:.3} ms, p99 {:.3} ms, CPUs busy {:.1} %, {:.1} events an operation",
        workload.operations,
        workload.latency.mean() / 1e6,
        workload.latency.value_at_quantile(0.99) as f64 / 1e6,
        busy * 100.0,
        outcome.events as f64 / workload.operations.max(1) as f64,
    );
    let sum = |of: &dyn Fn(&VmOutcome) -> u64| outcome.vms.iter().map(of).sum::<u64>() as f64;
    let percent = |part: f64| part / sum(&|vm| vm.time.run_ns) * 100.0;
    println!(
        "  of running time: ready {:.2} %, co-stop {:.2} %, paired {:.1} %, home {:.1} %; {:.2} LLC moves a second and vCPU",
        percent(sum(&|vm| vm.time.ready_ns)),
        percent(sum(&|vm| vm.time.costop_ns)),
        percent(sum(&|vm| vm.time.paired_ns)),
        percent(sum(&|vm| vm.time.home_ns)),
        sum(&|vm| vm.moves.llc)
            / (outcome.vms.len() as f64 * 8.0)
            / (outcome.window_ns as f64 / 1e9),
    );
}
