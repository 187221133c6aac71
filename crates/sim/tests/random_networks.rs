//! Whatever the network and whoever the VMs: runs end, repeat, and lose no time.

use std::sync::Arc;

use model::host::Synthetic;
use model::placement::Reserve;
use model::{GuestTopology, Vm};
use policy::policies;
use proptest::prelude::*;
use sim::engine::{Setting, run};
use sim::hypervisor::Hypervisor;
use sim::machine::vector::Vector;
use sim::network::{AdapterQueues, Coalescing, Network, PacketCosts};
use sim::outcome::{Outcome, Times};
use sim::rng::Law;
use sim::spec::{
    Arrivals, Clients, Exchange, GuestSystem, Packets, RunSpec, Scaled, Step, VmSpec, Workload,
};
use sim::time::{MS, Nanos, US};

const LENGTH: Nanos = 60 * MS;

fn networks() -> impl Strategy<Value = Network> {
    let coalescing = prop_oneof![
        Just(Coalescing::Off),
        (1..500 * US).prop_map(|period_ns| Coalescing::Fixed { period_ns }),
        (1..10 * MS, 1..4 * MS).prop_map(|(period_ns, bound_ns)| Coalescing::Adaptive {
            period_ns,
            bound_ns
        }),
    ];
    let free = PacketCosts {
        wake_ns: 0,
        receive_ns: 0,
        batched_ns: 0,
        transmit_ns: 0,
        switch_ns: 0,
        copy_ns_per_kb: 0,
        kick_ns: 0,
        stack_ns: 0,
        client_ns: 0,
        control_lines: 0,
        data_mlp: 0,
    };
    let costs = prop_oneof![3 => Just(PacketCosts::default()), 1 => Just(free)];
    let times = (1..20 * US, prop_oneof![Just(0), 1..200 * US]);
    let flags = (any::<bool>(), any::<bool>());
    (times, coalescing, flags, costs).prop_map(|(times, coalescing, flags, costs)| Network {
        wire_ns: times.0,
        moderation_ns: times.1,
        coalescing,
        queues: if flags.0 {
            AdapterQueues::Shared
        } else {
            AdapterQueues::PerVnic
        },
        direct: flags.1,
        costs,
    })
}

fn packets(least: u32) -> impl Strategy<Value = Packets> {
    (least..4, 0..9_000_u32).prop_map(|(count, bytes)| Packets { count, bytes })
}

/// A caller, what it calls, and packets that come anyway.
fn workloads() -> impl Strategy<Value = Vec<Workload>> {
    let exchange = || (packets(1), packets(0));
    let exchange = exchange().prop_map(|(request, answer)| Exchange { request, answer });
    let exchange = prop_oneof![1 => Just(None), 3 => exchange.prop_map(Some)];
    let networks = prop::collection::vec(exchange, 3);
    (networks, 1..6_u32, packets(1), 100..40_000_u32).prop_map(|(networks, users, step, per_s)| {
        let think = Law::Exponential { mean_ns: 50 * US };
        let count = |count| Scaled {
            count,
            per_vcpu: false,
        };
        let workload = |name: &str, clients, steps, network| Workload {
            name: name.to_owned(),
            vector: Vector::COMPUTE,
            clients,
            threads: count(2),
            steps,
            devices: Vec::new(),
            network,
        };
        let work = |mean_ns| Step::Cpu(Law::Exponential { mean_ns });
        let caller = Clients::Closed {
            users: count(users),
            think: Some(think),
        };
        let flood = Clients::Open {
            per_s: Some(per_s.into()),
            arrivals: Arrivals::Poisson,
        };
        let call = Step::Call {
            to: "callee".to_owned(),
        };
        let Packets { count, bytes } = step;
        let outside = Step::Network {
            packets: count,
            bytes,
        };
        vec![
            workload(
                "caller",
                caller,
                vec![work(10 * US), call, outside],
                networks[0],
            ),
            workload("callee", Clients::Called, vec![work(20 * US)], networks[1]),
            workload("flood", flood, vec![work(2 * US)], networks[2]),
        ]
    })
}

fn vms() -> impl Strategy<Value = Vec<VmSpec>> {
    let vm = (0..3_usize, 1..4_u32, any::<bool>(), 0..4_u64);
    prop::collection::vec(vm, 0..6).prop_map(|more| {
        // Somebody is there to be called.
        let all = [(0, 2, true, 0), (1, 1, true, 0)].into_iter().chain(more);
        let spec = |(number, (workload, vcpus, is_linux, quarter)): (usize, _)| VmSpec {
            vm: Vm::new(format!("vm{number}"), vcpus, 512),
            guest: GuestTopology::uniform(vcpus, [1, 1, 1, vcpus, 1]),
            system: if is_linux {
                GuestSystem::Linux
            } else {
                GuestSystem::Windows
            },
            workload: Some(workload),
            tile: 0,
            on_ns: 0,
            off_ns: (quarter > 0).then_some(quarter * LENGTH / 4),
        };
        all.enumerate().map(spec).collect()
    })
}

fn simulate(spec: &RunSpec, policy: &str) -> Outcome {
    let host = Synthetic {
        packages: 1,
        llcs_per_node: 2,
        cores_per_llc: 2,
        threads_per_core: 2,
        llc_mib: 16,
        node_mib: 65_536,
        ..Synthetic::default()
    };
    let host = Arc::new(host.host("test"));
    let hypervisor = Hypervisor::of_policy(policy).expect("the policy exists");
    let placer = policies::named(policy).expect("the policy exists");
    let reserve = Reserve::default();
    let setting = Setting {
        host: &host,
        reserve: &reserve,
        hypervisor: &hypervisor,
        policy: &*placer,
        spec,
    };
    run(setting, 1).expect("the VMs fit")
}

fn sum(time: &Times) -> Nanos {
    time.run_ns + time.ready_ns + time.costop_ns + time.halted_ns
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn time_is_conserved_and_runs_repeat(
        network in networks(),
        workloads in workloads(),
        vms in vms(),
        policy in prop::sample::select(vec!["spread", "llc", "linux-default", "best"]),
    ) {
        let spec = RunSpec {
            duration_ns: LENGTH,
            warmup_ns: LENGTH / 10,
            timeline: None,
            vms,
            workloads,
            network,
        };
        let outcome = simulate(&spec, policy);
        prop_assert_eq!(outcome.trace_hash, simulate(&spec, policy).trace_hash);
        let mut run_ns = outcome.host.system.run_ns;
        for (vm, spec) in outcome.vms.iter().zip(&spec.vms) {
            let on = spec.off_ns.unwrap_or(LENGTH).min(LENGTH) - LENGTH / 10;
            prop_assert_eq!(sum(&vm.time), on * Nanos::from(vm.vcpus), "{}", &vm.name);
            let threads = sum(&vm.system) / on;
            prop_assert_eq!(sum(&vm.system), on * threads, "{}", &vm.name);
            prop_assert!(threads <= 2 && (!network.direct || threads == 0), "{}", &vm.name);
            run_ns += vm.time.run_ns + vm.system.run_ns;
        }
        let shared = sum(&outcome.host.system);
        prop_assert!(shared == 0 || shared == outcome.window_ns);
        prop_assert_eq!(run_ns, outcome.host.busy_ns);
    }
}
