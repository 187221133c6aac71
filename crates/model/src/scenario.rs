//! Scenarios: the VMs to place, as a person types them in one line or writes them in a TOML file.
//!
//! ```
//! use model::scenario;
//! let batch = scenario::read_batch("db=4x16G*2@cpu=60%,bw=high,dedicated").unwrap();
//! let vms = scenario::name_all(&[batch]).unwrap();
//! assert_eq!((vms[1].name.as_str(), vms[1].vcpus, vms[1].load), ("db2", 4, 600));
//!
//! let file = scenario::read("host = \"epyc-7702-2s\"\n[[vm]]\nvcpus = 8\nmemory = \"64G\"\ncount = 30\n").unwrap();
//! assert_eq!(scenario::name_all(&file.batches).unwrap().len(), 30);
//! ```
//!
//! Both forms have the same keys with the same values, from one table (`keys`). Sizes are bounded before memory is
//! taken for them; unknown keys are errors. `docs/scenario.md` explains every key to the person who writes one.

mod file;
mod inline;
mod keys;
mod line;
mod spec;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ops::Range;

use crate::cpuset::CpuSet;
use crate::tenant::Vm;

pub use file::{SIMULATION_TABLES, read, write};
pub use line::read_batch;
pub use spec::from_spec;

/// Largest scenario file, in bytes: 10,000 VMs with a dozen lines each, and room.
pub const MAX_FILE_BYTES: usize = 4 << 20;
/// Most VMs of a scenario: ten times the planning case of 10,000 VMs on 1,000 hosts.
pub const MAX_VMS: u32 = 100_000;
/// Most vCPUs of a scenario in sum.
pub const MAX_VCPUS: u32 = 1_000_000;

/// What is to be placed, and where by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scenario {
    /// Hosts in the words of the command line, such as `epyc-7702-2s` or `epyc-7702-2s*500`; empty leaves them open.
    pub hosts: Vec<String>,
    /// CPUs that are not for VMs; `None` leaves them open.
    pub reserve: Option<CpuSet>,
    /// Policies by name; empty leaves them open.
    pub policies: Vec<String>,
    /// The VMs.
    pub batches: Vec<Batch>,
}

/// Equal VMs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// How many, at least 1; `None` is one whose name gets no number.
    pub count: Option<u32>,
    /// Each of them. An empty name means that [`name_all`] gives them names.
    pub vm: Vm,
    /// What each of them does in a simulation.
    pub work: Work,
}

/// What a VM does in a simulation; no policy sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Work {
    /// Name of its workload; `None` is an idle VM.
    pub workload: Option<String>,
    /// What differs from the named workload, as a TOML inline table.
    pub with: Option<String>,
    /// What schedules threads inside it.
    pub system: System,
    /// Name of the rule that makes its virtual topology; `None` leaves it open.
    pub rule: Option<String>,
    /// When it is powered on, in nanoseconds after the start.
    pub on_ns: u64,
    /// When it is powered off; `None` is never.
    pub off_ns: Option<u64>,
    /// Whether each tile has it, instead of the host once.
    pub tile: bool,
}

/// The system of a guest, as far as it decides where its threads run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum System {
    /// Linux.
    #[default]
    Linux,
    /// Windows.
    Windows,
}

/// Why a text is no scenario or no VM.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ScenarioError {
    /// What was found, and what is allowed.
    pub message: String,
    /// Where, in bytes of the text.
    pub span: Range<usize>,
    /// The word that is not known and those that are, where that is what is wrong.
    pub unknown: Option<(String, Vec<&'static str>)>,
}

/// Why batches make no list of VMs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// More VMs than [`MAX_VMS`].
    #[error("{found} VMs are asked for; vtopo places at most {MAX_VMS} at once")]
    TooManyVms {
        /// How many.
        found: u64,
    },
    /// More vCPUs than [`MAX_VCPUS`].
    #[error("{found} vCPUs are asked for in sum; vtopo places at most {MAX_VCPUS} at once")]
    TooManyVcpus {
        /// How many.
        found: u64,
    },
    /// A name twice.
    #[error("two VMs are called {name:?}; give each VM, or each batch of VMs, a name of its own")]
    Twice {
        /// The name.
        name: String,
    },
}

/// Names of all keys of a `[[vm]]`.
pub fn vm_keys() -> impl Iterator<Item = &'static str> {
    let others = keys::KEYS.iter().map(|key| key.name);
    file::SIZE.into_iter().chain(others)
}

/// The name under which a key of a `[[vm]]` is in [`vm_keys`]; it may be typed with `-` or in short.
pub fn vm_key(typed: &str) -> Option<&'static str> {
    vm_keys()
        .find(|name| *name == typed)
        .or_else(|| keys::find(typed).map(|key| key.name))
}

/// The VMs of all batches. A name with a count becomes NAME1, NAME2 and so on; VMs without a name are vm1, vm2 and so on
/// over all batches, without the names that somebody else has.
///
/// # Errors
/// More VMs or vCPUs than the limits, two VMs with the same given name.
pub fn name_all(batches: &[Batch]) -> Result<Vec<Vm>, NameError> {
    let count = |batch: &Batch| u64::from(batch.count.unwrap_or(1));
    let found = batches.iter().map(count).sum();
    if found > u64::from(MAX_VMS) {
        return Err(NameError::TooManyVms { found });
    }
    let vcpus = |batch: &Batch| count(batch) * u64::from(batch.vm.vcpus);
    let found = batches.iter().map(vcpus).sum();
    if found > u64::from(MAX_VCPUS) {
        return Err(NameError::TooManyVcpus { found });
    }
    let mut given = BTreeSet::new();
    for name in batches.iter().flat_map(given_names) {
        if given.contains(&name) {
            return Err(NameError::Twice { name });
        }
        given.insert(name);
    }
    let mut free = (1_u32..)
        .map(|number| format!("vm{number}"))
        .filter(|name| !given.contains(name));
    let mut vms = Vec::new();
    for batch in batches {
        let names: Vec<String> = if batch.vm.name.is_empty() {
            free.by_ref()
                .take(batch.count.unwrap_or(1) as usize)
                .collect()
        } else {
            given_names(batch).collect()
        };
        vms.extend(names.into_iter().map(|name| Vm {
            name,
            ..batch.vm.clone()
        }));
    }
    Ok(vms)
}

fn given_names(batch: &Batch) -> impl Iterator<Item = String> + '_ {
    let name = &batch.vm.name;
    let last = if name.is_empty() {
        0
    } else {
        batch.count.unwrap_or(1)
    };
    (1..=last).map(move |number| match batch.count {
        None => name.clone(),
        Some(_) => format!("{name}{number}"),
    })
}

impl ScenarioError {
    fn new(message: impl Into<String>, span: Range<usize>) -> Self {
        Self {
            message: message.into(),
            span,
            unknown: None,
        }
    }

    fn unknown(what: &str, word: &str, known: Vec<&'static str>, span: Range<usize>) -> Self {
        let shown: String = word.chars().take(60).collect();
        Self {
            unknown: Some((word.to_owned(), known)),
            ..Self::new(format!("{shown:?} is no {what}"), span)
        }
    }
}
