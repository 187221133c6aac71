//! Scenes for tests: a host, VMs on it, and a run, in a few words.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses a part of it"
)]
#![allow(
    clippy::cast_precision_loss,
    reason = "times and counts are far below 2^52"
)]

use std::sync::Arc;

use model::host::Synthetic;
use model::placement::Reserve;
use model::{GuestTopology, Host, Vm};
use policy::place::Best;
use policy::policies;
use policy::reconcile::Policy;
use sim::engine::{Setting, run};
use sim::hypervisor::{Costs, Hypervisor};
use sim::machine::vector::Vector;
use sim::network::Network;
use sim::outcome::Outcome;
use sim::rng::Law;
use sim::spec::{Arrivals, Clients, GuestSystem, RunSpec, Scaled, Step, VmSpec, Workload};
use sim::time::{MS, Nanos, S};

/// A host with VMs, before it runs.
#[derive(Clone)]
pub struct Scene {
    pub host: Arc<Host>,
    pub hypervisor: Hypervisor,
    pub policy: &'static str,
    pub spec: RunSpec,
}

/// LLCs, cores of each, threads of each, in one package.
pub fn host(llcs: u32, cores: u32, threads: u32) -> Arc<Host> {
    let machine = Synthetic {
        packages: 1,
        llcs_per_node: llcs,
        cores_per_llc: cores,
        threads_per_core: threads,
        llc_mib: 16,
        node_mib: 1 << 20,
        ..Synthetic::default()
    };
    Arc::new(machine.host("test"))
}

impl Scene {
    /// An empty host under a policy's hypervisor, for 10 s after 1 s of warm-up.
    pub fn new(host: Arc<Host>, policy: &'static str) -> Self {
        Self {
            host,
            hypervisor: Hypervisor::of_policy(policy).expect("the policy exists"),
            policy,
            spec: RunSpec {
                duration_ns: 11 * S,
                warmup_ns: S,
                timeline: None,
                vms: Vec::new(),
                workloads: Vec::new(),
                network: Network::default(),
            },
        }
    }

    /// The same with crossings that take no time, and nothing that moves a vCPU away from an idle CPU.
    pub fn free(mut self) -> Self {
        self.hypervisor.costs = Costs {
            switch_ns: 0,
            wake_ns: 0,
            polled_wake_ns: 0,
            ipi_ns: 0,
            interrupt_ns: 0,
            page_ns: 0,
        };
        self.hypervisor.poll = None;
        self.hypervisor.cosched = None;
        self.hypervisor.rebalance_ns = None;
        self
    }

    pub fn lasting(mut self, duration_ns: Nanos) -> Self {
        self.spec.duration_ns = duration_ns;
        self
    }

    /// Adds a workload; VMs name it by the number this scene gives them.
    pub fn workload(mut self, workload: Workload) -> Self {
        self.spec.workloads.push(workload);
        self
    }

    /// Adds equal VMs with the last workload.
    pub fn vms(mut self, count: u32, vcpus: u32, change: impl Fn(&mut VmSpec)) -> Self {
        for _ in 0..count {
            let mut vm = vm(self.spec.vms.len(), vcpus);
            vm.workload = self.spec.workloads.len().checked_sub(1);
            change(&mut vm);
            self.spec.vms.push(vm);
        }
        self
    }

    pub fn run(&self, seed: u64) -> Outcome {
        let named = policies::named(self.policy).expect("the policy exists");
        let policy: &dyn Policy = if self.policy == "best" {
            &Best
        } else {
            &*named
        };
        let reserve = Reserve::default();
        let setting = Setting {
            host: &self.host,
            reserve: &reserve,
            hypervisor: &self.hypervisor,
            policy,
            spec: &self.spec,
        };
        run(setting, seed).expect("the VMs fit")
    }

    /// Mean latency over some seeds, in milliseconds.
    pub fn mean_ms(&self, seeds: u64) -> f64 {
        let means = (1..=seeds).map(|seed| self.run(seed).workloads[0].latency.mean());
        means.sum::<f64>() / seeds as f64 / MS as f64
    }
}

fn vm(number: usize, vcpus: u32) -> VmSpec {
    VmSpec {
        vm: Vm::new(format!("vm{number}"), vcpus, 1024),
        guest: GuestTopology::uniform(vcpus, [1, 1, 1, vcpus, 1]),
        system: GuestSystem::Linux,
        workload: None,
        tile: 0,
        on_ns: 0,
        off_ns: None,
    }
}

/// Operations of one step of work.
pub fn work(clients: Clients, threads: u32, service: Law) -> Workload {
    Workload {
        name: "work".to_owned(),
        vector: Vector::COMPUTE,
        clients,
        threads: Scaled {
            count: threads,
            per_vcpu: false,
        },
        steps: vec![Step::Cpu(service)],
        devices: Vec::new(),
        network: None,
    }
}

/// Requests by chance.
pub fn poisson(per_s: f64) -> Clients {
    Clients::Open {
        per_s: Some(per_s),
        arrivals: Arrivals::Poisson,
    }
}

/// Users who think.
pub fn users(count: u32, think: Law) -> Clients {
    Clients::Closed {
        users: Scaled {
            count,
            per_vcpu: false,
        },
        think: Some(think),
    }
}

pub fn fixed(mean_ns: Nanos) -> Law {
    Law::Fixed { mean_ns }
}

pub fn exponential(mean_ns: Nanos) -> Law {
    Law::Exponential { mean_ns }
}

/// Asserts that two numbers are at most so many percent apart.
pub fn close(seen: f64, theory: f64, percent: f64) {
    let error = (seen / theory - 1.0).abs() * 100.0;
    assert!(
        error < percent,
        "seen {seen:.4}, theory {theory:.4}: {error:.1} % apart, {percent} % allowed"
    );
}
