//! The network path of VMs: where round trips come from, what theory says of waits, and who pays.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "times and counts are far below 2^52"
)]

use std::sync::{Arc, Mutex};

use model::host::{LlcId, Synthetic};
use model::placement::{Reserve, SystemHome, VmId};
use model::{GuestTopology, Host, Vm};
use policy::generations::LinuxDefault;
use policy::plan::{Plan, Snapshot};
use policy::reconcile::Policy;
use sim::engine::{Setting, run};
use sim::hypervisor::{Bind, Costs, Hypervisor};
use sim::machine::fabric::Fabric;
use sim::machine::vector::Vector;
use sim::network::{AdapterQueues, Coalescing, Network, PacketCosts};
use sim::outcome::Outcome;
use sim::rng::Law;
use sim::spec::{
    Arrivals, Clients, Exchange, GuestSystem, Packets, RunSpec, Scaled, Step, VmSpec, Workload,
};
use sim::time::{MS, Nanos, S, US};

const SMALL: Packets = Packets {
    count: 1,
    bytes: 64,
};
const NONE: Packets = Packets { count: 0, bytes: 0 };
const ONE: Scaled = Scaled {
    count: 1,
    per_vcpu: false,
};

/// The hypervisor of the latency study's time, without the chance of a balancer's move in a measurement.
fn esxi() -> Hypervisor {
    Hypervisor {
        rebalance_ns: None,
        ..Hypervisor::of_policy("spread").expect("the policy exists")
    }
}

/// Crossings between guest and host take no time.
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
        cosched: None,
        ..esxi()
    }
}

/// A path on which nothing but the wire takes time.
fn bare() -> Network {
    Network {
        wire_ns: US,
        costs: PacketCosts {
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
            data_mlp: 1,
        },
        ..Network::default()
    }
}

fn host(cores: u32) -> Arc<Host> {
    let host = Synthetic {
        packages: 1,
        cores_per_llc: cores,
        llc_mib: 32,
        node_mib: 65_536,
        ..Synthetic::default()
    };
    Arc::new(host.host("test"))
}

fn vm(name: &str, vcpus: u32, workload: usize) -> VmSpec {
    VmSpec {
        vm: Vm::new(name, vcpus, 512),
        guest: GuestTopology::uniform(vcpus, [1, 1, 1, vcpus, 1]),
        system: GuestSystem::Linux,
        workload: Some(workload),
        tile: 0,
        on_ns: 0,
        off_ns: None,
    }
}

/// `users` who ask with a packet as soon as the last answer is there, after they have thought.
fn echo(users: u32, think: Law, work: Nanos) -> Workload {
    Workload {
        name: "echo".to_owned(),
        vector: Vector::COMPUTE,
        clients: Clients::Closed {
            users: Scaled {
                count: users,
                per_vcpu: false,
            },
            think: Some(think),
        },
        threads: ONE,
        steps: vec![Step::Cpu(Law::Fixed { mean_ns: work })],
        devices: Vec::new(),
        network: Some(Exchange {
            request: SMALL,
            answer: SMALL,
        }),
    }
}

/// Packets that come whether or not the last one is done, without an answer.
fn flood(per_s: f64, arrivals: Arrivals, bytes: u32) -> Workload {
    Workload {
        name: "flood".to_owned(),
        clients: Clients::Open {
            per_s: Some(per_s),
            arrivals,
        },
        network: Some(Exchange {
            request: Packets { count: 1, bytes },
            answer: NONE,
        }),
        ..echo(1, FAST, 1)
    }
}

const FAST: Law = Law::Fixed { mean_ns: 0 };
/// Thinks that share no factor with any timer.
const SPARSE: Law = Law::Exponential { mean_ns: 5 * MS };

fn spec(vms: Vec<VmSpec>, workloads: Vec<Workload>, network: Network) -> RunSpec {
    RunSpec {
        duration_ns: 4 * S,
        warmup_ns: S / 2,
        timeline: None,
        vms,
        workloads,
        network,
    }
}

fn simulate(spec: &RunSpec, hypervisor: &Hypervisor, cores: u32, seed: u64) -> Outcome {
    let (host, reserve) = (host(cores), Reserve::default());
    let setting = Setting {
        host: &host,
        reserve: &reserve,
        hypervisor,
        policy: &LinuxDefault,
        spec,
    };
    run(setting, seed).expect("the VMs fit")
}

/// Mean latency of a workload in microseconds over seeds, with the half width of a 95 % interval.
fn mean_us(spec: &RunSpec, hypervisor: &Hypervisor, cores: u32, workload: usize) -> (f64, f64) {
    let runs: Vec<f64> = (1..=4)
        .map(|seed| simulate(spec, hypervisor, cores, seed))
        .map(|outcome| outcome.workloads[workload].latency.mean() / US as f64)
        .collect();
    let count = runs.len() as f64;
    let mean = runs.iter().sum::<f64>() / count;
    let variance = runs.iter().map(|run| (run - mean).powi(2)).sum::<f64>() / (count - 1.0);
    // Student's t for 3 degrees of freedom.
    (mean, 3.182 * (variance / count).sqrt())
}

#[track_caller]
fn between(name: &str, (mean, half): (f64, f64), from: f64, to: f64) {
    assert!(
        mean - half >= from && mean + half <= to,
        "{name}: {mean:.2} +- {half:.2} us, not in {from:.2} to {to:.2}"
    );
}

fn ping(network: Network) -> (f64, f64) {
    let spec = spec(vec![vm("a", 2, 0)], vec![echo(1, SPARSE, 1)], network);
    mean_us(&spec, &esxi(), 8, 0)
}

/// Claim S2-01 (calibrates the total): a VM adds 15 to 20 us to a round trip of 20 us. Claim S2-14 predicts: without the
/// switch and the system threads about 10 us of it are saved.
#[test]
fn a_vm_adds_what_the_reference_says_and_direct_assignment_saves_most_of_it() {
    let native = Network::default().native_ns() as f64 / US as f64;
    assert!((native - 20.0).abs() < 1e-9, "native {native} us");
    let emulated = ping(Network::default());
    between(
        "VM above native",
        (emulated.0 - native, emulated.1),
        15.0,
        20.0,
    );
    let direct = ping(Network {
        direct: true,
        ..Network::default()
    });
    between(
        "saved",
        (emulated.0 - direct.0, emulated.1 + direct.1),
        8.0,
        12.0,
    );
    assert!(direct.0 > native, "direct {direct:?} us");
}

fn called(users: u32) -> RunSpec {
    let caller = Workload {
        name: "caller".to_owned(),
        steps: vec![Step::Call {
            to: "server".to_owned(),
        }],
        clients: Clients::Closed {
            users: Scaled {
                count: users,
                per_vcpu: false,
            },
            think: Some(SPARSE),
        },
        ..echo(1, SPARSE, 1)
    };
    let server = Workload {
        name: "server".to_owned(),
        clients: Clients::Called,
        network: None,
        ..echo(1, SPARSE, 1)
    };
    let mut vms = vec![vm("a", 2, 0), vm("b", 2, 1)];
    // Two VMs that take turns on one CPU would pay for switches between them.
    for (vm, cpus) in vms.iter_mut().zip(["0-3", "4-7"]) {
        vm.vm.hard.cpus = Some(cpus.parse().expect("a list of CPUs"));
    }
    spec(vms, vec![caller, server], Network::default())
}

/// Claim S2-12: native < VM to VM, slightly < VM to native. The caller's own client is taken off.
#[test]
fn two_vms_on_one_switch_are_between_native_and_a_client_outside() {
    let native = Network::default().native_ns() as f64 / US as f64;
    let outside = ping(Network::default());
    let both = mean_us(&called(1), &esxi(), 8, 0);
    // The client's round trip to the caller is in it; the client's own thread is not part of a call.
    let inside = (both.0 - outside.0, both.1 + outside.1);
    between("VM to VM", inside, native, outside.0);
}

/// Claim S0-30: N = X T, exactly, but for operations that are under way at the ends of the window.
#[test]
fn outstanding_requests_are_rate_times_round_trip() {
    for users in [1_u32, 3, 5] {
        let network = Network {
            coalescing: Coalescing::ADAPTIVE,
            ..Network::default()
        };
        let mut spec = spec(
            vec![vm("a", 4, 0)],
            vec![echo(users, FAST, 5 * US)],
            network,
        );
        (spec.duration_ns, spec.warmup_ns) = (200 * MS, 20 * MS);
        for seed in 1..=3 {
            let outcome = simulate(&spec, &esxi(), 8, seed);
            let workload = &outcome.workloads[0];
            let rate = workload.operations as f64 / outcome.window_ns as f64;
            let product = rate * workload.latency.mean();
            let edges = f64::from(users) / workload.operations as f64 + 1e-3;
            assert!(
                (product / f64::from(users) - 1.0).abs() < edges,
                "N = {users}, seed {seed}: X T = {product:.5} with {} operations of {:.2} us",
                workload.operations,
                workload.latency.mean() / US as f64,
            );
        }
    }
}

/// Waits for a timer are even from nothing to its period.
#[test]
fn sparse_packets_wait_half_a_period() {
    let period_ns = 200 * US;
    let plain = bare();
    let timers = [
        (
            "pNIC",
            Network {
                moderation_ns: period_ns,
                ..plain
            },
        ),
        (
            "vNIC",
            Network {
                coalescing: Coalescing::Fixed { period_ns },
                ..plain
            },
        ),
    ];
    let workload = echo(4, SPARSE, 1);
    for (name, network) in timers {
        let spec = spec(vec![vm("a", 4, 0)], vec![workload.clone()], network);
        let (mean, half) = mean_us(&spec, &free(), 8, 0);
        let wait = mean - 2.0;
        assert!(
            (wait - 100.0).abs() < half.max(3.0),
            "{name}: waits {wait:.2} +- {half:.2} us, 100 expected"
        );
        let latency = &simulate(&spec, &free(), 8, 9).workloads[0].latency;
        for tenth in 1..10_u32 {
            let share = f64::from(tenth) / 10.0;
            let seen = latency.value_at_quantile(share) as f64 / US as f64 - 2.0;
            assert!(
                (seen - 200.0 * share).abs() < 15.0,
                "{name}: quantile {share} is {seen:.1} us"
            );
        }
    }
}

/// A packet in a batch goes on when the whole batch is done: lambda T s for a packet among others of a shared queue, nothing
/// with queues of their own.
#[test]
fn a_shared_queue_makes_packets_wait_for_the_batch() {
    let (period, cost) = (400 * US, 4 * US);
    let trip = |per_s: f64, queues: AdapterQueues| {
        let network = Network {
            moderation_ns: period,
            queues,
            costs: PacketCosts {
                batched_ns: cost,
                ..bare().costs
            },
            ..bare()
        };
        let probe = flood(2_000.0, Arrivals::Poisson, 64);
        let workloads = vec![probe, flood(per_s, Arrivals::Even, 256)];
        let vms = vec![vm("a", 1, 0), vm("b", 1, 1)];
        let mut spec = spec(vms, workloads, network);
        spec.duration_ns = 800 * MS;
        simulate(&spec, &free(), 8, 1).workloads[0].latency.mean() / US as f64
    };
    for (queues, rates) in [
        (AdapterQueues::Shared, &[10_000.0, 40_000.0][..]),
        (AdapterQueues::PerVnic, &[40_000.0]),
    ] {
        // A packet a second is no flood.
        let alone = trip(1.0, queues);
        for &per_s in rates {
            let among = trip(per_s, queues);
            let theory = match queues {
                AdapterQueues::Shared => per_s * (period as f64 / 1e9) * cost as f64 / US as f64,
                AdapterQueues::PerVnic => 0.0,
            };
            // Both runs see the probes at the same times.
            let more = among - alone;
            assert!(
                (more - theory).abs() < theory * 0.01 + 0.1,
                "{queues:?}, {per_s} packets a second: {more:.2} us more, theory {theory:.2}"
            );
        }
    }
}

/// Claim S2-29: 4 ms is the longest wait, however long the period is, and dense streams do share interrupts.
#[test]
fn adaptive_coalescing_waits_no_longer_than_its_bound() {
    let network = Network {
        coalescing: Coalescing::Adaptive {
            period_ns: 20 * MS,
            bound_ns: 4 * MS,
        },
        ..bare()
    };
    let arrivals = Arrivals::Bursts {
        factor: 8.0,
        on_ns: 20 * MS,
        off_ns: 180 * MS,
    };
    let spec = spec(
        vec![vm("a", 2, 0)],
        vec![flood(2_000.0, arrivals, 64)],
        network,
    );
    let latency = simulate(&spec, &free(), 4, 1).workloads[0].latency.clone();
    let most = latency.max() as f64 / MS as f64;
    assert!(most <= 4.01, "a packet waited {most:.3} ms");
    assert!(
        most >= 3.9,
        "nobody waited for long: {most:.3} ms, so nothing was coalesced"
    );
}

/// Sparse packets are interrupted for at once.
#[test]
fn adaptive_coalescing_leaves_sparse_packets_alone() {
    let plain = ping(Network::default());
    let adaptive = ping(Network {
        coalescing: Coalescing::ADAPTIVE,
        ..Network::default()
    });
    between("adaptive", adaptive, plain.0 * 0.9, plain.0 * 1.15);
}

/// A busy host answers later, and a busier one later still: system threads and vCPUs wait for CPUs.
#[test]
fn round_trips_grow_with_contention() {
    let trip = |busy: u32| {
        let mut work = echo(2, Law::Exponential { mean_ns: 4 * MS }, 2 * MS);
        work.network = None;
        work.name = "work".to_owned();
        let mut vms = vec![vm("a", 1, 0)];
        vms.extend((0..busy).map(|number| vm(&format!("w{number}"), 1, 1)));
        let spec = spec(vms, vec![echo(1, SPARSE, 1), work], Network::default());
        mean_us(&spec, &esxi(), 4, 0)
    };
    let trips = [trip(0), trip(4), trip(8)];
    for pair in trips.windows(2) {
        assert!(
            pair[0].0 + pair[0].1 < pair[1].0 - pair[1].1,
            "round trips with 0, 4 and 8 busy VMs on 4 CPUs: {trips:.2?} us (mean, half width)"
        );
    }
}

/// The CPU of packets is in the books: one receive, one transmission and two wake-ups for each round trip.
#[test]
fn system_threads_are_charged_for_their_packets() {
    for (name, hypervisor) in [
        ("two threads", esxi()),
        (
            "one thread",
            Hypervisor {
                rebalance_ns: None,
                ..Hypervisor::of_policy("linux-default").expect("the policy exists")
            },
        ),
    ] {
        let spec = spec(
            vec![vm("a", 1, 0)],
            vec![echo(1, SPARSE, 1)],
            Network::default(),
        );
        let outcome = simulate(&spec, &hypervisor, 8, 3);
        let costs = spec.network.costs;
        let each =
            costs.receive_ns + costs.transmit_ns + 2 * (costs.switch_ns + costs.wake_ns + 64 / 4);
        let vm = &outcome.vms[0];
        let expected = (each * vm.operations) as f64;
        let error = vm.system.run_ns as f64 / expected - 1.0;
        assert!(
            error.abs() < 0.01,
            "{name}: {} ns for {} operations, {expected} expected",
            vm.system.run_ns,
            vm.operations
        );
        let system = vm.system;
        let all = system.run_ns + system.ready_ns + system.costop_ns + system.halted_ns;
        let worlds = if name == "two threads" { 2 } else { 1 };
        assert_eq!(all, worlds * outcome.window_ns, "{name}: time is conserved");
    }
}

/// The plan of Linux, with system threads on one LLC.
struct Home(LlcId);

impl Policy for Home {
    fn name(&self) -> &'static str {
        "home"
    }

    fn plan(&self, now: &Snapshot) -> Plan {
        let mut plan = LinuxDefault.plan(now);
        let llc = &now.host.llcs[self.0.index()];
        plan.placement.system = (0..now.vms.len() as u32)
            .map(|vm| SystemHome {
                vm: VmId(vm),
                llc: self.0,
                node: llc.node,
                cpus: llc.cpus.clone(),
            })
            .collect();
        plan
    }
}

/// System threads on another LLC than their VM's vCPUs fetch every packet from there, and vCPUs theirs: 10 lines and a
/// quarter of the data's, both ways.
#[test]
fn system_threads_near_their_vm_are_faster() {
    let host = Synthetic {
        packages: 1,
        llcs_per_node: 2,
        cores_per_llc: 4,
        llc_mib: 32,
        node_mib: 65_536,
        ..Synthetic::default()
    };
    let (host, reserve) = (Arc::new(host.host("test")), Reserve::default());
    let hypervisor = Hypervisor {
        bind: Bind::Group,
        ..esxi()
    };
    let mut workload = echo(1, SPARSE, 1);
    let packets = Packets {
        count: 1,
        bytes: 4096,
    };
    workload.network = Some(Exchange {
        request: packets,
        answer: packets,
    });
    let mut spec = spec(vec![vm("a", 1, 0)], vec![workload], Network::default());
    spec.vms[0].vm.hard.cpus = Some("0-3".parse().expect("a list of CPUs"));
    spec.timeline = Some((S, 2 * S));
    let trip = |llc: u32| {
        let setting = Setting {
            host: &host,
            reserve: &reserve,
            hypervisor: &hypervisor,
            policy: &Home(LlcId(llc)),
            spec: &spec,
        };
        let outcome = run(setting, 1).expect("the VM fits");
        let mut system = outcome.timeline.iter().filter(|span| span.vcpu.is_none());
        assert!(system.all(|span| span.vm == 0 && span.cpu / 4 == llc));
        assert_eq!(outcome.vms[0].system.home_ns, outcome.vms[0].system.run_ns);
        outcome.workloads[0].latency.mean()
    };
    let (near, far) = (trip(0), trip(1));
    let fabric = Fabric::new(&host);
    let line_ns = fabric.coherence_ns(0, 1, 0) - fabric.coherence_ns(0, 0, 0);
    let theory = f64::from(2 * (10 + 4096 / 64 / 4)) * line_ns;
    assert!(
        (far - near - theory).abs() < 200.0,
        "near {near:.0} ns, far {far:.0} ns, theory {theory} ns apart"
    );
}

/// What packets cost is seen by policies, as the load of the VM's system threads.
#[test]
fn policies_see_the_load_of_system_threads() {
    struct Look(Mutex<u32>);
    impl Policy for Look {
        fn name(&self) -> &'static str {
            "look"
        }
        fn plan(&self, now: &Snapshot) -> Plan {
            *self.0.lock().expect("one thread") = now.vms[0].vm.system;
            LinuxDefault.plan(now)
        }
    }
    let hypervisor = Hypervisor {
        rebalance_ns: Some(100 * MS),
        ..esxi()
    };
    let flood = flood(40_000.0, Arrivals::Even, 0);
    let spec = spec(vec![vm("a", 1, 0)], vec![flood], Network::default());
    let (host, reserve, look) = (host(4), Reserve::default(), Look(Mutex::new(0)));
    let setting = Setting {
        host: &host,
        reserve: &reserve,
        hypervisor: &hypervisor,
        policy: &look,
        spec: &spec,
    };
    run(setting, 1).expect("the VM fits");
    let seen = *look.0.lock().expect("one thread");
    // 40,000 times a wake-up, a packet and the switch: 4.75 us.
    assert!(seen.abs_diff(190) <= 2, "{seen} thousandths of a CPU");
}

/// A thread that waits for a client outside gets its packets back.
#[test]
fn a_step_makes_the_round_trip() {
    let inside = Workload {
        steps: vec![Step::Network {
            packets: 1,
            bytes: 64,
        }],
        network: None,
        ..echo(1, SPARSE, 1)
    };
    let spec = spec(vec![vm("a", 2, 0)], vec![inside], Network::default());
    let seen = mean_us(&spec, &esxi(), 8, 0);
    let outside = ping(Network::default());
    // The request itself comes without a path: one more wake-up of a vCPU.
    between("step", seen, outside.0, outside.0 + 10.0);
}

#[test]
fn equal_seeds_give_equal_runs() {
    let network = Network {
        moderation_ns: 50 * US,
        queues: AdapterQueues::Shared,
        coalescing: Coalescing::ADAPTIVE,
        ..Network::default()
    };
    let mut spec = called(3);
    spec.network = network;
    let hash = |seed| simulate(&spec, &esxi(), 8, seed).trace_hash;
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}

/// VMs come and go with packets under way, and nothing is left of them.
#[test]
fn packets_of_a_vm_that_is_gone_are_lost() {
    let network = Network {
        coalescing: Coalescing::ADAPTIVE,
        moderation_ns: 20 * US,
        ..Network::default()
    };
    let mut spec = called(8);
    spec.network = network;
    spec.workloads.push(flood(10_000.0, Arrivals::Poisson, 512));
    spec.vms.push(vm("c", 1, 2));
    spec.vms[1].off_ns = Some(2 * S);
    spec.vms[2].off_ns = Some(S);
    spec.vms.push(VmSpec {
        on_ns: S,
        ..vm("d", 1, 2)
    });
    for queues in [AdapterQueues::Shared, AdapterQueues::PerVnic] {
        spec.network.queues = queues;
        let outcome = simulate(&spec, &esxi(), 8, 1);
        let late = &outcome.vms[3];
        let rate = late.operations as f64 / 3.0;
        assert!(
            (rate / 10_000.0 - 1.0).abs() < 0.03,
            "{rate} packets a second"
        );
    }
}

#[test]
fn networks_that_make_no_sense_are_refused() {
    let good = Network::default();
    let bad = [
        (Network { wire_ns: 0, ..good }, "wire takes no time"),
        (
            Network {
                coalescing: Coalescing::Fixed { period_ns: 0 },
                ..good
            },
            "period of interrupt coalescing is 0",
        ),
        (
            Network {
                moderation_ns: u64::MAX,
                ..good
            },
            "an hour is the longest",
        ),
    ];
    let refusal = |spec: &RunSpec| {
        let (host, reserve, hypervisor) = (host(4), Reserve::default(), esxi());
        let setting = Setting {
            host: &host,
            reserve: &reserve,
            hypervisor: &hypervisor,
            policy: &LinuxDefault,
            spec,
        };
        run(setting, 1).expect_err("it is refused").to_string()
    };
    for (network, text) in bad {
        let spec = spec(vec![vm("a", 1, 0)], vec![echo(1, SPARSE, 1)], network);
        let seen = refusal(&spec);
        assert!(seen.contains(text), "{seen}");
    }
    let mut nothing = spec(vec![vm("a", 1, 0)], vec![echo(1, SPARSE, 1)], good);
    nothing.workloads[0].network = Some(Exchange {
        request: NONE,
        answer: SMALL,
    });
    let seen = refusal(&nothing);
    assert!(seen.contains("0 packets"), "{seen}");
}
