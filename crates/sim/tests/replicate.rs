//! Many runs side by side give what single runs give, on any number of threads; who stops keeps whole seeds.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use model::host::Synthetic;
use model::placement::Reserve;
use model::{GuestTopology, Vm};
use sim::engine::{Setting, run};
use sim::hypervisor::Hypervisor;
use sim::machine::vector::Vector;
use sim::replicate::{Case, Ran, Watch, policy_of, replicate};
use sim::rng::Law;
use sim::spec::{Clients, GuestSystem, RunSpec, Scaled, Step, VmSpec, Workload};
use sim::time::{MS, S};

fn case(policy: &'static str, memory_mib: u64) -> Case {
    let host = Synthetic {
        cores_per_llc: 2,
        llcs_per_node: 2,
        llc_mib: 16,
        node_mib: 16_384,
        ..Synthetic::default()
    };
    let vm = |number: u32| {
        let mut vm = Vm::new(format!("vm{number}"), 2, memory_mib);
        vm.load = 500;
        VmSpec {
            vm,
            guest: GuestTopology::uniform(2, [1, 1, 1, 2, 1]),
            system: GuestSystem::Linux,
            workload: Some(0),
            tile: 0,
            on_ns: 0,
            off_ns: None,
        }
    };
    let each = |count| Scaled {
        count,
        per_vcpu: true,
    };
    Case {
        host: Arc::new(host.host("small")),
        reserve: Reserve::default(),
        hypervisor: Hypervisor::of_policy(policy).unwrap(),
        policy,
        spec: RunSpec {
            duration_ns: S / 2,
            warmup_ns: 50 * MS,
            timeline: None,
            vms: (0..3).map(vm).collect(),
            workloads: vec![Workload {
                name: "work".to_owned(),
                vector: Vector::COMPUTE,
                clients: Clients::Closed {
                    users: each(3),
                    think: Some(Law::Exponential { mean_ns: MS }),
                },
                threads: each(2),
                steps: vec![Step::Cpu(Law::Exponential { mean_ns: MS })],
                devices: Vec::new(),
                network: None,
            }],
            network: sim::network::Network::default(),
        },
    }
}

#[derive(Default)]
struct Sum {
    ns: AtomicU64,
    runs: AtomicU64,
}

impl Watch for Sum {
    fn advanced(&self, ns: u64) {
        self.ns.fetch_add(ns, Ordering::Relaxed);
    }

    fn ended(&self, events: u64) {
        assert!(events > 0);
        self.runs.fetch_add(1, Ordering::Relaxed);
    }
}

fn hashes(ran: &[Vec<Ran<u64>>]) -> Vec<Vec<Option<u64>>> {
    let hash = |ran: &Ran<u64>| match ran {
        Ran::Done(hash) => Some(*hash),
        _ => None,
    };
    let of_case = |runs: &Vec<Ran<u64>>| runs.iter().map(hash).collect();
    ran.iter().map(of_case).collect()
}

#[test]
fn threads_change_nothing() {
    let cases = [case("best", 1024), case("spread", 1024)];
    let seeds = [1, 2, 3];
    let go = AtomicBool::new(false);
    let all = |threads, watch: &dyn Watch| {
        hashes(&replicate(
            (&cases, &seeds),
            threads,
            &go,
            watch,
            &|_, _, outcome| outcome.trace_hash,
        ))
    };
    let sum = Sum::default();
    let one = all(1, &sum);
    assert_eq!(one, all(4, &()));
    assert_eq!(one, all(0, &()));
    assert_eq!(sum.ns.into_inner(), 6 * S / 2);
    assert_eq!(sum.runs.into_inner(), 6);
    for (case, runs) in cases.iter().zip(&one) {
        for (&seed, &seen) in seeds.iter().zip(runs) {
            let policy = policy_of(case.policy).unwrap();
            let setting = Setting {
                host: &case.host,
                reserve: &case.reserve,
                hypervisor: &case.hypervisor,
                policy: &*policy,
                spec: &case.spec,
            };
            assert_eq!(seen, Some(run(setting, seed).unwrap().trace_hash));
        }
    }
    assert_ne!(one[0][0], one[0][1], "seeds differ");
}

/// Stops as soon as a number of runs has ended.
struct After(u64, AtomicU64, AtomicBool);

impl Watch for After {
    fn advanced(&self, _ns: u64) {}

    fn ended(&self, _events: u64) {
        if self.1.fetch_add(1, Ordering::Relaxed) + 1 == self.0 {
            self.2.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn who_stops_keeps_whole_seeds() {
    let cases = [case("best", 1024), case("llc", 1024)];
    let after = After(2, AtomicU64::new(0), AtomicBool::new(false));
    let ran = replicate(
        (&cases, &[1, 2, 3]),
        1,
        &after.2,
        &after,
        &|_, _, outcome| outcome.trace_hash,
    );
    let done: Vec<Vec<bool>> = hashes(&ran)
        .iter()
        .map(|runs| runs.iter().map(Option::is_some).collect())
        .collect();
    assert_eq!(done, [[true, false, false], [true, false, false]]);
    let stopped = AtomicBool::new(true);
    let ran = replicate((&cases, &[1]), 2, &stopped, &(), &|_, _, outcome| {
        outcome.trace_hash
    });
    assert!(ran.iter().flatten().all(|run| matches!(run, Ran::Stopped)));
}

#[test]
fn what_cannot_start_says_why() {
    let go = AtomicBool::new(false);
    let cases = [case("best", 1 << 20), case("best", 1024)];
    let ran = replicate((&cases, &[1]), 2, &go, &(), &|_, _, outcome| {
        outcome.trace_hash
    });
    assert!(matches!(ran[0][0], Ran::Failed(_)), "{:?}", ran[0][0]);
    assert!(matches!(ran[1][0], Ran::Done(_)));
}
