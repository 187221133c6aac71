//! The network path of a VM, as numbers: what lies between a client and a guest's thread, and what each part of it costs.
//!
//! All defaults are those of the reference model, section 2.4, the middle where it gives a range. They are not fitted to a
//! round trip: what a round trip takes comes out of the run.

use crate::time::{MS, Nanos, US};

/// The path between the VMs of a host and their clients; the same for all VMs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// One way between the client's stack and the host: the wire and both adapters. "pNIC leg 3-5 us".
    pub wire_ns: Nanos,
    /// Period of the adapter's interrupt timer: what arrives waits for its next tick. 0 is off, an interrupt at once, as in
    /// the latency study.
    pub moderation_ns: Nanos,
    /// What holds interrupts of the virtual adapter back.
    pub coalescing: Coalescing,
    /// Receive queues of the adapter.
    pub queues: AdapterQueues,
    /// Whether VMs have adapters of their own: no virtual switch, no system threads, interrupts straight to the guest.
    pub direct: bool,
    /// What a packet costs on its way.
    pub costs: PacketCosts,
}

/// Virtual interrupt coalescing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coalescing {
    /// An interrupt as soon as a packet is in the guest's memory.
    Off,
    /// Interrupts at the ticks of a timer only.
    Fixed {
        /// Its period, above 0.
        period_ns: Nanos,
    },
    /// As many packets for one interrupt as are expected in a period; whoever waits, waits no longer than that, and never
    /// longer than a bound.
    Adaptive {
        /// The period that interrupts are to have in a dense stream.
        period_ns: Nanos,
        /// The longest wait; VMware's is 4 ms (reference, claim S2-29).
        bound_ns: Nanos,
    },
}

/// Receive queues of the adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdapterQueues {
    /// A queue, and a thread that serves it, for each virtual adapter.
    PerVnic,
    /// One for all VMs: packets wait for those of others in the same batch.
    Shared,
}

/// What a packet costs, in nanoseconds of a thread at full speed where nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketCosts {
    /// From an interrupt or a kick to the first instruction of a system thread.
    pub wake_ns: Nanos,
    /// The first packet of a batch that is received.
    pub receive_ns: Nanos,
    /// Every other packet of the batch, through the switch.
    pub batched_ns: Nanos,
    /// A packet that is sent.
    pub transmit_ns: Nanos,
    /// A packet through the virtual switch.
    pub switch_ns: Nanos,
    /// Copying 1,000 bytes between guest and host.
    pub copy_ns_per_kb: Nanos,
    /// Leaving the guest to have a packet sent, on the sending vCPU.
    pub kick_ns: Nanos,
    /// The guest's stack for a packet that it receives or sends, on a vCPU.
    pub stack_ns: Nanos,
    /// The client's stack and its thread's wake-up for an answer, as a mere delay.
    pub client_ns: Nanos,
    /// Cache lines besides the data that a packet takes along when it goes from a CPU to one on another LLC.
    pub control_lines: u32,
    /// Lines of data that travel at a time then, at least 1.
    pub data_mlp: u32,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            wire_ns: 4 * US,
            moderation_ns: 0,
            coalescing: Coalescing::Off,
            queues: AdapterQueues::PerVnic,
            direct: false,
            costs: PacketCosts::default(),
        }
    }
}

impl Default for PacketCosts {
    fn default() -> Self {
        Self {
            // "irq->world wake 2".
            wake_ns: 2 * US,
            // "vhost/vSwitch per packet CPU 1-2 us small packet".
            receive_ns: 1_500,
            // "T_itr x s_pkt = 100 us x 1.0 us": calibrated by claim S2-25.
            batched_ns: US,
            // "TX world 1.5-2".
            transmit_ns: 1_750,
            // "vSwitch 1-1.5".
            switch_ns: 1_250,
            // "+0.25 ns/B copy".
            copy_ns_per_kb: 250,
            // "kick exit 1".
            kick_ns: US,
            // "guest stack 3-6 us", half of it each way.
            stack_ns: 2_250,
            // "guest stack 3-6 us; user wake 2-4 us": the client's.
            client_ns: 7_500,
            // Section 2.6: "64 payload lines (MLP 4) + ~20 control lines" for a request with its answer.
            control_lines: 10,
            data_mlp: 4,
        }
    }
}

impl Coalescing {
    /// [`Adaptive`](Self::Adaptive) with VMware's bound and a period of 50 us. The period is ours: a stream of 80,000 packets
    /// a second, the densest of the latency study without contention, has 4 packets for an interrupt then.
    pub const ADAPTIVE: Self = Self::Adaptive {
        period_ns: 50 * US,
        bound_ns: 4 * MS,
    };
}

impl Network {
    /// The round trip of a small packet between a client and a server that is no VM: wire and stacks, and nothing waits.
    pub fn native_ns(&self) -> Nanos {
        2 * self.wire_ns + 2 * self.costs.stack_ns + self.costs.client_ns
    }
}

impl PacketCosts {
    /// Copying packets between guest and host.
    pub(crate) fn copy_ns(&self, packets: u32, bytes: u32) -> Nanos {
        (Nanos::from(packets) * Nanos::from(bytes)).saturating_mul(self.copy_ns_per_kb) / 1_000
    }

    /// Lines that travel one after the other when packets go to a CPU on another LLC.
    pub(crate) fn lines(&self, packets: u32, bytes: u32) -> Nanos {
        /// Bytes of a cache line on all machines of the library.
        const LINE: Nanos = 64;
        let data = Nanos::from(bytes).div_ceil(LINE) / Nanos::from(self.data_mlp.max(1));
        Nanos::from(packets) * (Nanos::from(self.control_lines) + data)
    }
}

/// The next tick of a timer at or after a time; a period of 0 ticks always.
pub(crate) fn tick_after(at: Nanos, period: Nanos, phase: Nanos) -> Nanos {
    if period == 0 {
        return at;
    }
    let into = (at + period - phase % period) % period;
    if into == 0 { at } else { at + period - into }
}
