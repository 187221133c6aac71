//! Days of a fleet: VMs of a [`Trace`] come to hosts of given sizes, stay where they were put, and go. What a host does inside
//! is not looked at; this is the coarse side of the simulator, which says who is refused, how full hosts are, and what is lost
//! between them.
//!
//! Algorithms are the textbook's, and each finds its host without looking at all of them: `fit` searches a tree of the largest
//! free parts, `order` a tree by free CPU.
//!
//! ```
//! use sim::fleet::{self, Algorithm, HostKind};
//! use sim::traces::synthetic::{self, Parameters};
//!
//! let day = synthetic::trace(&Parameters::default());
//! let hosts = HostKind { name: "small".into(), count: 40, milli_cpus: 64_000, memory_mib: 131_072 };
//! let outcome = fleet::replay(&day, &[hosts], Algorithm::BestFit)?;
//! assert_eq!((outcome.placed, outcome.refused), (day.vms.len() as u32, 0));
//! # Ok::<(), fleet::FleetError>(())
//! ```

use thiserror::Error;

mod fit;
mod ledger;
mod order;

pub use ledger::FleetPoint;

use crate::traces::Trace;
use ledger::Ledger;

/// Hosts of a fleet; ours. Ten times the largest zones that publications speak of.
pub const MAX_HOSTS: u32 = 1 << 20;
/// In [`FleetOutcome::host_of`]: the VM was refused.
pub const NOWHERE: u32 = u32::MAX;

/// Hosts that are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostKind {
    /// What people call it.
    pub name: String,
    /// How many there are. Hosts are numbered through all kinds, in order.
    pub count: u32,
    /// Thousandths of a CPU that VMs may have; with over-commitment more than the machine has.
    pub milli_cpus: u32,
    /// Memory that VMs may have, in MiB.
    pub memory_mib: u32,
}

/// How a host is chosen among those on which a VM fits by CPU and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// The first by number.
    FirstFit,
    /// The first from the one on that was chosen last, around the end. It is what `CloudSim` Plus calls first-fit.
    NextFit,
    /// The one with the least free CPU, the first of equals.
    BestFit,
    /// The one with the most free CPU, the first of equals.
    WorstFit,
}

/// What came of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetOutcome {
    /// VMs that got a host.
    pub placed: u32,
    /// VMs that got none.
    pub refused: u32,
    /// Of them, those that would fit on no empty host either.
    pub too_large: u32,
    /// Hash over the hosts of all VMs in the order they came ([`hash_placements`]).
    pub placement_hash: u64,
    /// By VM of the trace: its host, or [`NOWHERE`].
    pub host_of: Vec<u32>,
    /// Hosts.
    pub hosts: u32,
    /// The most hosts with a VM on them at one moment.
    pub peak_hosts_used: u32,
    /// Arrivals and departures that changed something.
    pub events: u64,
    /// Mean share of all CPU that VMs had, 0 to 1000, over the trace's time.
    pub cpu_permille: u32,
    /// The same for memory.
    pub memory_permille: u32,
    /// The most of all CPU that VMs had at one moment, 0 to 1000.
    pub peak_cpu_permille: u32,
    /// The same for memory.
    pub peak_memory_permille: u32,
    /// The fleet at some hundred moments, evenly from the first to the last event.
    pub series: Vec<FleetPoint>,
}

/// Why a trace cannot be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FleetError {
    /// There are no hosts.
    #[error("there are no hosts: give at least one")]
    NoHosts,
    /// There are too many.
    #[error("there are {asked} hosts, at most {MAX_HOSTS} can be replayed")]
    TooManyHosts {
        /// How many.
        asked: u64,
    },
}

/// What a VM asks for, or a host has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Room {
    milli_cpus: u32,
    memory_mib: u32,
}

/// Plays a trace on hosts. At one moment, VMs that go make room before others come, in the trace's order; a VM that goes the
/// moment it comes holds its room until all others of that moment have come. A refused VM does not come back.
///
/// # Errors
///
/// No hosts, or more than [`MAX_HOSTS`].
pub fn replay(
    trace: &Trace,
    hosts: &[HostKind],
    algorithm: Algorithm,
) -> Result<FleetOutcome, FleetError> {
    let mut fleet = Fleet::new(&capacities(hosts)?, algorithm);
    let arrivals = arrivals(trace);
    let departures = departures(trace);
    let mut ledger = Ledger::new(trace, &fleet.free);
    let mut host_of = vec![NOWHERE; trace.vms.len()];
    let mut gone = departures.iter().peekable();
    for &vm in &arrivals {
        let it = &trace.vms[vm as usize];
        while let Some(leaving) = gone.next_if(|leaving| leaving.before(it.on_ns)) {
            depart(trace, leaving, &host_of, (&mut fleet, &mut ledger));
        }
        ledger.advance(it.on_ns);
        let need = room_of(trace, vm);
        match fleet.place(need) {
            Some(host) => {
                host_of[vm as usize] = host;
                ledger.placed(need, fleet.vms[host as usize], fleet.change(host, need));
            }
            None => ledger.refused(need),
        }
    }
    for leaving in gone {
        depart(trace, leaving, &host_of, (&mut fleet, &mut ledger));
    }
    let placement_hash = hash_placements(arrivals.iter().map(|vm| host_of[*vm as usize]));
    Ok(ledger.outcome(host_of, placement_hash))
}

/// Hash of a sequence of hosts, [`NOWHERE`] for a refusal: FNV-1a, 64 bits, over four bytes each, the lowest first. Others can
/// compute the same and see whether they placed the same.
pub fn hash_placements(hosts: impl IntoIterator<Item = u32>) -> u64 {
    // Offset basis and prime of FNV-1a with 64 bits.
    hosts
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Self; 4] = [Self::FirstFit, Self::NextFit, Self::BestFit, Self::WorstFit];

    /// The name people type.
    pub fn name(self) -> &'static str {
        match self {
            Self::FirstFit => "first-fit",
            Self::NextFit => "next-fit",
            Self::BestFit => "best-fit",
            Self::WorstFit => "worst-fit",
        }
    }

    /// The algorithm of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

impl Room {
    fn holds(self, need: Self) -> bool {
        self.milli_cpus >= need.milli_cpus && self.memory_mib >= need.memory_mib
    }

    fn minus(self, need: Self) -> Self {
        Self {
            milli_cpus: self.milli_cpus - need.milli_cpus,
            memory_mib: self.memory_mib - need.memory_mib,
        }
    }

    fn plus(self, back: Self) -> Self {
        Self {
            milli_cpus: self.milli_cpus + back.milli_cpus,
            memory_mib: self.memory_mib + back.memory_mib,
        }
    }
}

/// The hosts and how to find one of them.
#[derive(Debug)]
struct Fleet {
    free: Vec<Room>,
    /// By host: its VMs.
    vms: Vec<u32>,
    search: Search,
}

#[derive(Debug)]
enum Search {
    First(fit::Tree),
    Next { tree: fit::Tree, last: u32 },
    ByFree(order::Order),
}

impl Fleet {
    fn new(capacities: &[Room], algorithm: Algorithm) -> Self {
        let search = match algorithm {
            Algorithm::FirstFit => Search::First(fit::Tree::new(capacities)),
            Algorithm::NextFit => Search::Next {
                tree: fit::Tree::new(capacities),
                last: 0,
            },
            Algorithm::BestFit => Search::ByFree(order::Order::new(capacities, false)),
            Algorithm::WorstFit => Search::ByFree(order::Order::new(capacities, true)),
        };
        Self {
            free: capacities.to_vec(),
            vms: vec![0; capacities.len()],
            search,
        }
    }

    /// Takes room on the host that the algorithm chooses.
    fn place(&mut self, need: Room) -> Option<u32> {
        let host = match &mut self.search {
            Search::First(tree) => tree.first(0, need),
            Search::Next { tree, last } => {
                // Around the end: what is behind the last one is found from 0, for nothing after it fits.
                let found = tree.first(*last, need).or_else(|| tree.first(0, need));
                *last = found.unwrap_or(*last);
                found
            }
            Search::ByFree(order) => order.first(need),
        }?;
        let left = self.free[host as usize].minus(need);
        self.set(host, left);
        self.vms[host as usize] += 1;
        Some(host)
    }

    fn release(&mut self, host: u32, back: Room) {
        let left = self.free[host as usize].plus(back);
        self.set(host, left);
        self.vms[host as usize] -= 1;
    }

    fn set(&mut self, host: u32, left: Room) {
        match &mut self.search {
            Search::First(tree) | Search::Next { tree, .. } => tree.set(host, left),
            Search::ByFree(order) => order.set(host, left),
        }
        self.free[host as usize] = left;
    }

    /// Room of a host that holds a VM with this need: without it, and now.
    fn change(&self, host: u32, need: Room) -> (Room, Room) {
        let now = self.free[host as usize];
        (now.plus(need), now)
    }
}

/// A VM that goes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Leaving {
    at_ns: i64,
    /// Whether it goes the moment it comes.
    at_once: bool,
    vm: u32,
}

impl Leaving {
    /// Whether it goes before a VM comes at a moment.
    fn before(&self, on_ns: i64) -> bool {
        self.at_ns < on_ns || self.at_ns == on_ns && !self.at_once
    }
}

fn capacities(hosts: &[HostKind]) -> Result<Vec<Room>, FleetError> {
    let asked: u64 = hosts.iter().map(|kind| u64::from(kind.count)).sum();
    if asked == 0 {
        return Err(FleetError::NoHosts);
    }
    if asked > u64::from(MAX_HOSTS) {
        return Err(FleetError::TooManyHosts { asked });
    }
    let rooms = hosts.iter().flat_map(|kind| {
        let room = Room {
            milli_cpus: kind.milli_cpus,
            memory_mib: kind.memory_mib,
        };
        (0..kind.count).map(move |_| room)
    });
    Ok(rooms.collect())
}

fn arrivals(trace: &Trace) -> Vec<u32> {
    let mut arrivals: Vec<u32> = (0..trace.vms.len() as u32).collect();
    // Readers sort already; a trace that somebody put together may not be.
    arrivals.sort_by_key(|vm| trace.vms[*vm as usize].on_ns);
    arrivals
}

fn departures(trace: &Trace) -> Vec<Leaving> {
    let vms = trace.vms.iter().zip(0_u32..);
    let mut departures: Vec<Leaving> = vms
        .filter_map(|(it, vm)| {
            it.off_ns.map(|off_ns| Leaving {
                // A VM cannot go before it came.
                at_ns: off_ns.max(it.on_ns),
                at_once: off_ns <= it.on_ns,
                vm,
            })
        })
        .collect();
    departures.sort_unstable();
    departures
}

fn depart(
    trace: &Trace,
    leaving: &Leaving,
    host_of: &[u32],
    (fleet, ledger): (&mut Fleet, &mut Ledger),
) {
    let host = host_of[leaving.vm as usize];
    if host == NOWHERE {
        return;
    }
    ledger.advance(leaving.at_ns);
    let need = room_of(trace, leaving.vm);
    let (after, before) = fleet.change(host, need);
    fleet.release(host, need);
    ledger.left(need, fleet.vms[host as usize], (before, after));
}

fn room_of(trace: &Trace, vm: u32) -> Room {
    let it = &trace.vms[vm as usize];
    Room {
        milli_cpus: it.milli_cpus,
        memory_mib: it.memory_mib,
    }
}

#[cfg(test)]
mod tests;
