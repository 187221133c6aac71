//! What a hypervisor's scheduler does, as numbers: one procedure with these parameters plays ESXi of several releases,
//! Linux's own scheduler, and a scheduler with a queue for each last-level cache.

mod presets;

use crate::time::Nanos;

/// The parameters of a dispatcher.
#[derive(Debug, Clone, PartialEq)]
pub struct Hypervisor {
    /// Name for reports.
    pub name: &'static str,
    /// Where ready vCPUs wait.
    pub queues: Queues,
    /// How far a vCPU may go from what the placement says.
    pub bind: Bind,
    /// What is searched when a vCPU wakes up.
    pub wake: Wake,
    /// How long a vCPU runs before another that waits has its turn.
    pub slice_ns: Nanos,
    /// A woken vCPU that is behind a running one by more than this in virtual time takes its place.
    pub preempt_ns: Nanos,
    /// Least time between two looks of a CPU for work: in its core, its LLC, its package, the host. `None` is never.
    pub pull_ns: [Option<Nanos>; 4],
    /// Levels at which a CPU that runs out of work looks for some at once, however short ago it did.
    pub newly_idle: usize,
    /// Keeping vCPUs of a VM together in time.
    pub cosched: Option<Cosched>,
    /// Polling before a halt.
    pub poll: Option<Poll>,
    /// Virtual time charged for real time while the core's other thread is busy, in thousandths.
    pub paired_charge: u32,
    /// Period of limits.
    pub limit_period_ns: Nanos,
    /// Between two plans of the policy; `None` is one plan at the start only.
    pub rebalance_ns: Option<Nanos>,
    /// What crossing between guest and host costs.
    pub costs: Costs,
    /// Page copies between nodes a second.
    pub page_rate: u32,
    /// System threads that move a VM's packets.
    pub packet_threads: PacketThreads,
}

/// System threads of a VM's virtual adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketThreads {
    /// One that receives and one that transmits.
    Two,
    /// One for both (KVM: `vhost`).
    One,
}

/// Where ready vCPUs wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queues {
    /// A queue for each CPU, by virtual time.
    PerCpu,
    /// A queue for each LLC, with the rules of `policy/hot/dispatch.h`.
    PerLlc,
}

/// How far a vCPU may go from what the placement says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bind {
    /// The CPUs of its group.
    Group,
    /// The CPUs of its group's node.
    Node,
    /// Any CPU the VM may use.
    Host,
}

/// What is searched when a vCPU wakes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    /// The LLC that is searched.
    pub first: First,
    /// Idle CPUs looked at there.
    pub candidates: u32,
    /// Whether whole cores come before second threads.
    pub whole_cores: WholeCores,
}

/// The LLC that is searched for a woken vCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// That of its group.
    Home,
    /// That of the CPU where it ran last.
    Last,
}

/// When whole cores come before second threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WholeCores {
    /// Always.
    Always,
    /// While at most so many percent of the threads are busy.
    UpTo(u32),
}

/// Relaxed co-scheduling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cosched {
    /// A vCPU further ahead of its slowest sibling than this is stopped.
    pub stop_ns: Nanos,
    /// It goes on when it is less ahead than this.
    pub start_ns: Nanos,
    /// Between two looks.
    pub period_ns: Nanos,
}

/// Halt-polling, as KVM does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Poll {
    /// Longest.
    pub max_ns: Nanos,
    /// First.
    pub start_ns: Nanos,
    /// Factor.
    pub grow: u32,
}

/// What crossing between guest and host costs, as time of a thread at full speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// A switch from one vCPU to another.
    pub switch_ns: Nanos,
    /// From the wake-up of a halted vCPU to its first instruction.
    pub wake_ns: Nanos,
    /// The same while it polls.
    pub polled_wake_ns: Nanos,
    /// Sending an interrupt to another vCPU.
    pub ipi_ns: Nanos,
    /// Taking an interrupt of a device.
    pub interrupt_ns: Nanos,
    /// Copying a page to another node.
    pub page_ns: Nanos,
}
