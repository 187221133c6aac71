//! What a placement costs: the one function that [`best`](crate::place) minimises, `--explain` prints and the
//! distance to the optimum is measured with.
//!
//! # Unit
//! Billionths of a vCPU's work lost ("nano-vCPU"): 240 busy vCPUs at a cost of 24 do the work of 216. Integers, so that
//! a running sum never drifts and two machines agree to the last digit.
//!
//! # Terms
//! A *domain* is the CPUs that share an LLC and a node (on most machines the LLC itself), a *part* the vCPUs of one VM
//! on one domain, `e` a vCPU's effective demand ([`weights::effective_demand`]).
//!
//! | term | sum over | is |
//! |---|---|---|
//! | `distance` | pairs of parts of a VM | `e` x sharing x share of vCPU pairs across x extra ns ([`site::Site::extra_ns`]; it knows the memory's home) |
//! | `memory` | parts | `e` x stall share x extra latency of its memory's nodes |
//! | `smt` | domains | demand above the cores, up to the threads: a second thread yields 2 q - 1 of a core |
//! | `slow-cores` | domains | demand above the fast cores of a hybrid processor |
//! | `overcommit` | domains | demand above the threads |
//! | `fairness` | domains | demand weighted by shares above what the host has for each share |
//! | `cache` | domains | footprint above the size of the LLC |
//! | `bandwidth` | domains, nodes | memory traffic above what the link and the node carry |
//! | `crowding` | domains | demand above half the cores: room for bursts and boost clocks |
//! | `system` | VMs | demand of system threads x extra ns to the VM's vCPUs |
//! | `device` | parts | `e` x extra latency from the node of the VM's devices |
//! | `balance` | cells of a VM | vCPUs by which its largest part exceeds its smallest beyond one, squared: each as a pair [`weights::BALANCE_NS`] farther |
//! | `affinity` | parts | vCPUs outside the VM's soft affinity |
//! | `near` | VMs with one label | as `distance`, between VMs that talk |
//! | `migration` | moved parts and memory | caches to refill, pages to copy |
//!
//! Every term is linear in parts, a product of two parts, or a *hinge*: slope x max(0, load - threshold) of one domain or node.

pub mod evaluate;
pub mod problem;
pub mod site;
pub mod weights;

pub use evaluate::{Bill, evaluate};

use std::ops::{Add, AddAssign, Index, IndexMut, Sub, SubAssign};

/// A part of the cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    /// vCPUs of a VM on different LLCs.
    Distance,
    /// vCPUs away from their memory.
    Memory,
    /// Two busy threads on a core.
    Smt,
    /// Slow cores of a hybrid processor.
    SlowCores,
    /// More demand than threads.
    Overcommit,
    /// More shares than the host has room for at their price.
    Fairness,
    /// More footprint than cache.
    Cache,
    /// More memory traffic than a link or node carries.
    Bandwidth,
    /// Less than half of an LLC's cores free.
    Crowding,
    /// System threads away from the vCPUs they serve.
    System,
    /// vCPUs away from the VM's devices.
    Device,
    /// Parts of unequal size.
    Balance,
    /// Outside the soft affinity.
    Affinity,
    /// VMs that talk, apart.
    Near,
    /// Moves.
    Migration,
}

impl Term {
    /// All terms, in the order they are shown.
    pub const ALL: [Self; 15] = [
        Self::Distance,
        Self::Memory,
        Self::Smt,
        Self::SlowCores,
        Self::Overcommit,
        Self::Fairness,
        Self::Cache,
        Self::Bandwidth,
        Self::Crowding,
        Self::System,
        Self::Device,
        Self::Balance,
        Self::Affinity,
        Self::Near,
        Self::Migration,
    ];

    /// Its stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Distance => "distance",
            Self::Memory => "memory",
            Self::Smt => "smt",
            Self::SlowCores => "slow-cores",
            Self::Overcommit => "overcommit",
            Self::Fairness => "fairness",
            Self::Cache => "cache",
            Self::Bandwidth => "bandwidth",
            Self::Crowding => "crowding",
            Self::System => "system",
            Self::Device => "device",
            Self::Balance => "balance",
            Self::Affinity => "affinity",
            Self::Near => "near",
            Self::Migration => "migration",
        }
    }
}

/// A cost by term, in nano-vCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    terms: [i64; Term::ALL.len()],
}

impl Cost {
    /// The sum of all terms.
    pub fn total(&self) -> i64 {
        self.terms.iter().sum()
    }

    /// The terms that are not zero.
    pub fn terms(&self) -> impl Iterator<Item = (Term, i64)> + '_ {
        Term::ALL
            .into_iter()
            .map(|term| (term, self[term]))
            .filter(|(_, value)| *value != 0)
    }
}

impl Index<Term> for Cost {
    type Output = i64;
    fn index(&self, term: Term) -> &i64 {
        &self.terms[term as usize]
    }
}

impl IndexMut<Term> for Cost {
    fn index_mut(&mut self, term: Term) -> &mut i64 {
        &mut self.terms[term as usize]
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        for (mine, theirs) in self.terms.iter_mut().zip(other.terms) {
            *mine += theirs;
        }
    }
}

impl SubAssign for Cost {
    fn sub_assign(&mut self, other: Self) {
        for (mine, theirs) in self.terms.iter_mut().zip(other.terms) {
            *mine -= theirs;
        }
    }
}

impl Add for Cost {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl Sub for Cost {
    type Output = Self;
    fn sub(mut self, other: Self) -> Self {
        self -= other;
        self
    }
}
