//! The hypervisors by the names of the placement policies.

use super::{
    Bind, Cosched, Costs, First, Hypervisor, PacketThreads, Poll, Queues, Wake, WholeCores,
};
use crate::time::{MS, Nanos, S, US};

/// Reference model, sections 2.3 and 2.4: vCPU switch with exit 3 to 6 us; halt and wake "a couple of us"; virtual IPI
/// 1 to 2 us; injection with exit 1 to 2 us; `tscdeadline` halt and wake 3,200 cycles, a quarter less when polling.
const COSTS: Costs = Costs {
    switch_ns: 3 * US,
    wake_ns: 3 * US,
    polled_wake_ns: 700,
    ipi_ns: 1_500,
    interrupt_ns: 1_500,
    page_ns: 1_500,
};

/// esxi.md, section 7.1: skew above 3 ms, below 2 ms, looked at every 1 ms.
const COSCHED: Cosched = Cosched {
    stop_ns: 3 * MS,
    start_ns: 2 * MS,
    period_ns: MS,
};

/// Linux, `virt/kvm/kvm_main.c`: `halt_poll_ns` 200 us, `halt_poll_ns_grow_start` 10 us, `halt_poll_ns_grow` 2, shrink to 0.
const POLL: Poll = Poll {
    max_ns: 200 * US,
    start_ns: 10 * US,
    grow: 2,
};

impl Hypervisor {
    /// The hypervisor that goes with a placement policy; `None` for a name that is none.
    pub fn of_policy(policy: &str) -> Option<Self> {
        Some(match policy {
            "llc-pack" => Self {
                bind: Bind::Group,
                wake: Wake {
                    first: First::Home,
                    candidates: 4,
                    whole_cores: WholeCores::UpTo(25),
                },
                ..esxi("esxi-6.5", 20 * MS, 100 * MS)
            },
            "spread" => esxi("esxi-7.0u1", 20 * MS, 100 * MS),
            "llc" => Self {
                bind: Bind::Node,
                wake: Wake {
                    first: First::Home,
                    candidates: 4,
                    whole_cores: WholeCores::Always,
                },
                ..esxi("esxi-7.0u2", 2 * S, 2 * S)
            },
            "ccx-as-numa" => Self {
                bind: Bind::Group,
                ..esxi("esxi-7.0u1", 20 * MS, 100 * MS)
            },
            "linux-default" => linux(),
            "best" => vtopo(),
            _ => return None,
        })
    }
}

/// ESXi: a queue for each CPU, quantum 200 ms (50 ms in 6.0), pulls in the core every 5 ms, in the LLC every 20 ms
/// (`Cpu.HTRebalancePeriod`, `Cpu.L3RebalancePeriod`), at most 4 CPUs searched (`Cpu.WakeupMigrateIdlePcpus`).
/// A thread of a busy core is charged 62.5 % (esxi.md, section 7.1). No polling.
fn esxi(name: &'static str, package_ns: Nanos, host_ns: Nanos) -> Hypervisor {
    Hypervisor {
        name,
        queues: Queues::PerCpu,
        bind: Bind::Node,
        wake: Wake {
            first: First::Last,
            candidates: 4,
            // Reference model, section 3: blind to threads above about a quarter of the load.
            whole_cores: WholeCores::UpTo(25),
        },
        slice_ns: 200 * MS,
        // Ours: VMware does not say when a woken vCPU takes another's place; a millisecond of debt is one look of the
        // co-scheduler.
        preempt_ns: MS,
        pull_ns: [Some(5 * MS), Some(20 * MS), Some(package_ns), Some(host_ns)],
        newly_idle: 0,
        cosched: Some(COSCHED),
        poll: None,
        paired_charge: 625,
        limit_period_ns: 200 * MS,
        rebalance_ns: Some(2 * S),
        costs: COSTS,
        page_rate: 8_000,
        packet_threads: PacketThreads::Two,
    }
}

/// Linux/KVM without affinity. Base slice 2.8 ms: 0.70 ms x (1 + log2 of 8 or more CPUs) (`kernel/sched/fair.c`). A CPU
/// that runs out of work looks in its core and LLC at once, in its package and the host as often as their domains have
/// CPUs in milliseconds (`sd->balance_interval`; 128 and 256 ms stand for all machines here). No co-scheduling.
fn linux() -> Hypervisor {
    Hypervisor {
        name: "linux",
        queues: Queues::PerCpu,
        bind: Bind::Host,
        wake: Wake {
            // Outside the LLC of the last CPU nothing is searched (`select_idle_sibling`).
            first: First::Last,
            candidates: u32::MAX,
            whole_cores: WholeCores::Always,
        },
        slice_ns: 2_800 * US,
        preempt_ns: 700 * US,
        pull_ns: [Some(MS), Some(8 * MS), Some(128 * MS), Some(256 * MS)],
        newly_idle: 3,
        cosched: None,
        poll: Some(POLL),
        paired_charge: 1_000,
        limit_period_ns: 100 * MS,
        rebalance_ns: None,
        costs: COSTS,
        // A thread that copies pages, 1 to 2 us each (reference model, section 2.3).
        page_rate: 600_000,
        packet_threads: PacketThreads::One,
    }
}

/// Ours: the plan of `best`, dispatched with a queue for each LLC as `policy/hot/dispatch.h` says.
fn vtopo() -> Hypervisor {
    Hypervisor {
        name: "vtopo",
        queues: Queues::PerLlc,
        bind: Bind::Host,
        wake: Wake {
            first: First::Home,
            candidates: u32::MAX,
            whole_cores: WholeCores::Always,
        },
        preempt_ns: 700 * US,
        pull_ns: [Some(MS), Some(MS), Some(MS), Some(MS)],
        newly_idle: 4,
        rebalance_ns: Some(2 * S),
        ..linux()
    }
}
