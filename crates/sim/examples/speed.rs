//! How fast the simulator is: 344 vCPUs in 43 VMs on 256 threads, as in the study's 8 tiles of VMmark.
//!
//! `cargo run --release -p sim --example speed -- [SECONDS] [POLICY] [MICROSECONDS OF CPU PER OPERATION]`

use std::sync::Arc;
use std::time::Instant;

use model::host::Synthetic;
use model::placement::Reserve;
use model::{GuestTopology, Vm};
use policy::policies;
use sim::engine::{Setting, run};
use sim::hypervisor::Hypervisor;
use sim::machine::vector::Vector;
use sim::network::Network;
use sim::rng::Law;
use sim::spec::{Clients, GuestSystem, RunSpec, Scaled, Step, VmSpec, Workload};
use sim::time::{S, US};

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds = args.next().and_then(|text| text.parse().ok()).unwrap_or(10);
    let policy = args.next().unwrap_or_else(|| "best".to_owned());
    let work_us: u64 = args
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1_000);
    let host = Synthetic {
        packages: 2,
        llcs_per_node: 16,
        cores_per_llc: 4,
        threads_per_core: 2,
        llc_mib: 16,
        node_mib: 1 << 20,
        ..Synthetic::default()
    };
    let host = Arc::new(host.host("two sockets of 16 LLCs"));
    let vms = (0..43).map(|number| {
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
    let spec = RunSpec {
        duration_ns: seconds * S,
        warmup_ns: S / 2,
        timeline: None,
        vms: vms.collect(),
        workloads: vec![Workload {
            name: "oltp".to_owned(),
            vector: Vector {
                smt: 0.6,
                ..Vector::COMPUTE
            },
            clients: Clients::Closed {
                users: Scaled {
                    count: 10,
                    per_vcpu: true,
                },
                think: None,
            },
            threads: Scaled {
                count: 10,
                per_vcpu: true,
            },
            steps: vec![Step::Cpu(Law::Exponential {
                mean_ns: work_us * US,
            })],
            devices: Vec::new(),
            network: None,
        }],
        network: Network::default(),
    };
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
    let latency = &outcome.workloads[0].latency;
    let ms = |ns: u64| ns as f64 / 1e6;
    println!(
        "{policy}: {seconds} s in {wall:.2} s: {:.1} simulated seconds a second, {:.2} M events a second",
        seconds as f64 / wall,
        outcome.events as f64 / wall / 1e6,
    );
    let busy = outcome.host.busy_ns as f64 / outcome.host.cpu_ns as f64;
    println!(
        "  {} operations, mean {:.3} ms, p99 {:.3} ms, busy {:.1} %, {} events an operation (10 times)",
        outcome.workloads[0].operations,
        latency.mean() / 1e6,
        ms(latency.value_at_quantile(0.99)),
        busy * 100.0,
        outcome.events * 10 / outcome.workloads[0].operations.max(1),
    );
    let sum =
        |of: &dyn Fn(&sim::outcome::VmOutcome) -> u64| outcome.vms.iter().map(of).sum::<u64>();
    let run_ns = sum(&|vm| vm.time.run_ns);
    println!(
        "  ready {:.2} %, co-stop {:.2} %, paired {:.1} %, home {:.1} %, LLC moves {:.2} a second and vCPU, rebalances {}",
        sum(&|vm| vm.time.ready_ns) as f64 / run_ns as f64 * 100.0,
        sum(&|vm| vm.time.costop_ns) as f64 / run_ns as f64 * 100.0,
        sum(&|vm| vm.time.paired_ns) as f64 / run_ns as f64 * 100.0,
        sum(&|vm| vm.time.home_ns) as f64 / run_ns as f64 * 100.0,
        sum(&|vm| vm.moves.llc) as f64 / 344.0 / (outcome.window_ns as f64 / 1e9),
        outcome.host.rebalances,
    );
}
