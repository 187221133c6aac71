//! What is to be simulated, as plain data: VMs with workloads on a host, under policies, for a time.

use model::{GuestTopology, Vm};

use crate::machine::vector::Vector;
use crate::network::Network;
use crate::rng::Law;
use crate::time::Nanos;

/// One run: everything that decides its outcome, besides the host, the policy and the seed.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSpec {
    /// Length of the run, with the warm-up.
    pub duration_ns: Nanos,
    /// What is left out of all figures at the start.
    pub warmup_ns: Nanos,
    /// Whether the timeline of the CPUs is recorded, and from when to when.
    pub timeline: Option<(Nanos, Nanos)>,
    /// The VMs.
    pub vms: Vec<VmSpec>,
    /// Their workloads.
    pub workloads: Vec<Workload>,
    /// The path of packets to and from VMs whose workloads use it.
    pub network: Network,
}

/// A VM that runs a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct VmSpec {
    /// What a scheduler knows of it.
    pub vm: Vm,
    /// What its guest sees; flat or as a rule computed it.
    pub guest: GuestTopology,
    /// What decides on which vCPU a thread of the guest runs.
    pub system: GuestSystem,
    /// Index into [`RunSpec::workloads`]; `None` is an idle VM.
    pub workload: Option<usize>,
    /// VMs of one tile call each other.
    pub tile: u32,
    /// When it is powered on and off; `None` is never off.
    pub on_ns: Nanos,
    /// See [`on_ns`](Self::on_ns).
    pub off_ns: Option<Nanos>,
}

/// The scheduler of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GuestSystem {
    /// Wake-ups search an idle vCPU in the virtual last-level cache.
    #[default]
    Linux,
    /// Threads have an ideal processor and take the next idle one of its socket.
    Windows,
}

/// What the threads of a VM do.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Name, such as `oltp`.
    pub name: String,
    /// What it asks of the hardware.
    pub vector: Vector,
    /// Who asks for its work.
    pub clients: Clients,
    /// Threads of the guest that serve; each is at one step at a time.
    pub threads: Scaled,
    /// What one operation is, step by step.
    pub steps: Vec<Step>,
    /// Devices and their speeds, by index.
    pub devices: Vec<Device>,
    /// What requests and calls of this workload are on the network; `None` lets them arrive without one, as if from a
    /// client that costs nothing and is infinitely near.
    pub network: Option<Exchange>,
}

/// Packets of a request and of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// To the server.
    pub request: Packets,
    /// Back; a count of 0 sends no answer to a client, and the operation ends in the server.
    pub answer: Packets,
}

/// Packets that travel together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packets {
    /// How many.
    pub count: u32,
    /// Size of each in bytes.
    pub bytes: u32,
}

/// A number that may grow with the VM: `10` or `10/vcpu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scaled {
    /// The number.
    pub count: u32,
    /// Whether it is meant for each vCPU.
    pub per_vcpu: bool,
}

/// Where operations come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Clients {
    /// Users who ask, wait for the answer, think, and ask again.
    Closed {
        /// How many.
        users: Scaled,
        /// How long they think; `None` so long that the VM's nominal load (`cpu` of the scenario) comes out,
        /// which `scenario::expand` computes: no run starts with it.
        think: Option<Law>,
    },
    /// Requests that arrive whether or not the last one is answered.
    Open {
        /// Requests per second; `None` as many as the VM's nominal load needs, as above.
        per_s: Option<f64>,
        /// How they are spaced.
        arrivals: Arrivals,
    },
    /// Operations come from other VMs only, by [`Step::Call`].
    Called,
}

/// How the requests of an open loop are spaced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// Independent of each other.
    Poisson,
    /// At equal distances.
    Even,
    /// A Poisson stream that is `factor` times as dense for `on_ns`, then thinner for `off_ns`, with the same mean.
    Bursts {
        /// Density in a burst over the mean, at least 1.
        factor: f64,
        /// Length of a burst.
        on_ns: Nanos,
        /// Length between two.
        off_ns: Nanos,
    },
}

/// A step of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Own work on a vCPU.
    Cpu(Law),
    /// Waiting for a device.
    Io {
        /// Index into [`Workload::devices`].
        device: usize,
    },
    /// Waiting without a device: a timer, a peer that is not simulated.
    Sleep(Law),
    /// A section under one of the VM's locks, with own work inside.
    Lock {
        /// Which lock.
        lock: u32,
        /// Work inside.
        hold: Law,
    },
    /// Wakes another thread of the VM that does this work (a log writer, a listener) and waits for it.
    Handoff(Law),
    /// Calls a workload of another VM of the tile and waits for the answer. With [`Workload::network`] of the caller it goes
    /// over the virtual switch, otherwise it takes a fixed time.
    Call {
        /// Name of the workload called.
        to: String,
    },
    /// Packets go to a client outside and as many come back: the VM's network path both ways and the wire.
    Network {
        /// Packets in each direction, above 0.
        packets: u32,
        /// Size of each in bytes.
        bytes: u32,
    },
}

/// A device behind the VM.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// Name, such as `log`.
    pub name: String,
    /// Time of a request.
    pub latency: Law,
    /// Requests at a time; 0 means any number.
    pub parallel: u32,
}

impl Scaled {
    /// The number for a VM, at least 1.
    pub fn of(self, vcpus: u32) -> u32 {
        let times = if self.per_vcpu { vcpus } else { 1 };
        self.count.saturating_mul(times).max(1)
    }
}
