//! What can happen. A closed set: who adds a kind of event finds every place that must know it.

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// What a CPU does comes to an end: work, a slice, a poll. Only the latest generation counts.
    Due { cpu: u32, generation: u32 },
    /// A user of a closed loop asks.
    Ask { guest: u32, user: u32 },
    /// A request of an open loop arrives; the next one is scheduled.
    Arrive { guest: u32 },
    /// What a thread slept for is over: a timer, the answer of a peer that is not simulated.
    Answered { thread: u32 },
    /// A device ended the request of a thread.
    DeviceDone { thread: u32 },
    /// The call of a thread reaches another VM.
    Called { thread: u32, guest: u32 },
    /// Packets come out of the host's adapter.
    Packet { message: u32 },
    /// Packets come to the client outside.
    Client { message: u32 },
    /// The timer of a virtual adapter lets an interrupt through.
    Interrupt { message: u32 },
    /// A virtual adapter has held packets back for as long as it may.
    Coalesced { guest: u32, generation: u32 },
    /// Idle CPUs look for work.
    Balance,
    /// Idle vCPUs of a guest look for threads.
    GuestBalance { guest: u32 },
    /// A look at the skew of a VM's vCPUs.
    Cosched { guest: u32 },
    /// A VM's limit is good for another period.
    Refill { guest: u32 },
    /// Caches, memory and speeds are settled.
    Epoch,
    /// The policy plans.
    Rebalance,
    /// Figures count from now on.
    WarmedUp,
    /// A VM is powered on.
    PowerOn { guest: u32 },
    /// A VM is powered off.
    PowerOff { guest: u32 },
}

impl Event {
    /// The event as two numbers, for the hash of the run.
    pub(crate) fn code(self) -> (u64, u64) {
        let pair = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
        match self {
            Self::Due { cpu, generation } => (0, pair(cpu, generation)),
            Self::Ask { guest, user } => (1, pair(guest, user)),
            Self::Arrive { guest } => (2, guest.into()),
            Self::Answered { thread } => (3, thread.into()),
            Self::DeviceDone { thread } => (4, thread.into()),
            Self::Called { thread, guest } => (5, pair(thread, guest)),
            Self::Balance => (6, 0),
            Self::GuestBalance { guest } => (7, guest.into()),
            Self::Cosched { guest } => (8, guest.into()),
            Self::Refill { guest } => (9, guest.into()),
            Self::Epoch => (10, 0),
            Self::Rebalance => (11, 0),
            Self::WarmedUp => (12, 0),
            Self::PowerOn { guest } => (13, guest.into()),
            Self::PowerOff { guest } => (14, guest.into()),
            Self::Packet { message } => (15, message.into()),
            Self::Client { message } => (16, message.into()),
            Self::Interrupt { message } => (17, message.into()),
            Self::Coalesced { guest, generation } => (18, pair(guest, generation)),
        }
    }
}
