//! Scenarios of simulations: VMs with workloads on a host, for how long, under which limits, over which values.
//!
//! ```
//! use sim::scenario::{self, Library};
//! let mut library = Library::default();
//! library.add("burn", "clients = { kind = \"closed\", users = \"1/vcpu\", think = \"0s\" }\n[[step]]\ncpu = \"1ms\"").unwrap();
//! let text = "run.duration = \"5s\"\n[[vm]]\nname = \"a\"\nvcpus = 4\ncount = 2\nworkload = \"burn\"\n";
//! let text = scenario::set(text, &[("vm.a.count".to_owned(), "3".to_owned())]).unwrap();
//! let simulation = scenario::read(&text, &library).unwrap();
//! assert_eq!((simulation.members.len(), simulation.members[2].vm.name.as_str()), (3, "a3"));
//! ```
//!
//! A scenario is a placement scenario ([`model::scenario`]) with more: `[run]`, `[workload.NAME]`, `[tiles]`, `[network]`,
//! `[[qos]]` and `[[sweep]]`. `schema` has every key, `docs/simulate.md` explains them. What `with` and `[workload.NAME]` change
//! of a known workload, and what `set` writes, passes the same reader. Unknown keys and numbers out of range are errors with
//! their place; sizes are bounded before memory is taken for them.

mod demand;
mod expand;
mod fault;
mod library;
mod limits;
mod members;
mod options;
mod schema;
mod set;
mod sweep;
#[cfg(test)]
mod tests;
mod tree;
mod value;
mod workload;

use std::ops::Range;

use model::Vm;

use crate::spec::{GuestSystem, Workload};
use crate::time::Nanos;
use fault::Fault;
use library::Known;
use tree::Node;

pub use demand::Nominal;
pub use expand::expand;
pub use fault::ScenarioError;
pub use library::{Figure, Library};
pub use limits::{MAX_THREADS, MAX_USERS, MAX_VCPUS, MAX_VMS};
pub use set::set;
pub use sweep::{MAX_POINTS, grid};

/// A scenario, ready to be given hosts, policies and virtual topologies.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulation {
    /// What a placement knows of it: hosts, policies, reserve, VMs.
    pub scenario: model::scenario::Scenario,
    /// How long and how often.
    pub run: Run,
    /// Tiles; 1 where the scenario has none.
    pub tiles: u32,
    /// The network path.
    pub network: Network,
    /// Workloads, each as some VMs run it: VMs with `with` have one of their own with the same name.
    pub workloads: Vec<Workload>,
    /// All VMs: those outside tiles, then tile after tile, so that one more tile changes no VM before it.
    pub members: Vec<Member>,
    /// What must hold.
    pub qos: Vec<Qos>,
    /// What is varied.
    pub sweeps: Vec<Sweep>,
    /// Place of each `[[vm]]` in the text, for messages.
    pub places: Vec<Range<usize>>,
}

/// How long a run is, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Length, with the warm-up.
    pub duration_ns: Nanos,
    /// What is left out of all figures at the start; below the length.
    pub warmup_ns: Nanos,
    /// Runs with seeds of their own, at least 1.
    pub seeds: u32,
    /// The first seed; the others follow.
    pub seed: u64,
    /// Which part of the run is drawn CPU by CPU: from, to.
    pub timeline: Option<(Nanos, Nanos)>,
}

/// The network path of all VMs; `None` leaves the choice to the model of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Network {
    /// Least time between two interrupts of the physical card; 0 is off.
    pub moderation_ns: Option<Nanos>,
    /// Whether all VMs share one receive queue of the card, instead of one each.
    pub shared_queue: Option<bool>,
    /// Longest time that a virtual interrupt waits for more packets; 0 is off.
    pub coalescing_ns: Option<Nanos>,
    /// Whether the card's functions are assigned to the VMs, without a virtual switch.
    pub direct: Option<bool>,
    /// Round trip of the wire and the client's own stack.
    pub wire_ns: Option<Nanos>,
}

/// A VM of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// What a scheduler knows of it, with its final name.
    pub vm: Vm,
    /// Index of its `[[vm]]`, into [`Simulation::places`].
    pub batch: usize,
    /// Index into [`Simulation::workloads`]; `None` is an idle VM.
    pub workload: Option<usize>,
    /// 0 is outside tiles, others count from 1. VMs call those of their own tile only.
    pub tile: u32,
    /// What schedules its threads.
    pub system: GuestSystem,
    /// Name of the rule for its virtual topology; `None` is the command line's.
    pub rule: Option<String>,
    /// When it is powered on.
    pub on_ns: Nanos,
    /// When it is powered off; `None` is never.
    pub off_ns: Option<Nanos>,
}

/// A limit that a workload must keep.
#[derive(Debug, Clone, PartialEq)]
pub struct Qos {
    /// Name of the workload, over all VMs that run it.
    pub workload: String,
    /// What is limited.
    pub metric: Metric,
    /// Nanoseconds of a latency, operations a second of the throughput, a share of time (0 to 1) of ready and co-stop.
    pub limit: f64,
}

/// What can be limited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metric {
    /// Mean latency.
    Mean,
    /// A quantile of the latency, 0 to 1.
    Quantile(f64),
    /// Largest latency.
    Max,
    /// Operations a second, all VMs in sum; the limit is the least.
    Throughput,
    /// Share of the vCPUs' time that they were ready without a CPU.
    Ready,
    /// Share of the vCPUs' time that they were stopped for their siblings.
    CoStop,
}

/// Values of a key to try one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    /// The key, as [`set`] takes it.
    pub key: String,
    /// The values, as [`set`] takes them; at least one.
    pub values: Vec<String>,
}

/// Reads a scenario file.
///
/// # Errors
/// What is no scenario, see the module's words; workloads that no VM runs or that nobody answers, loops that never advance,
/// more than the limits.
pub fn read(text: &str, library: &Library) -> Result<Simulation, ScenarioError> {
    let scenario = model::scenario::read(text)?;
    read_rest(text, library, scenario).map_err(|fault| fault.or_at(0..0))
}

fn read_rest(
    text: &str,
    library: &Library,
    scenario: model::scenario::Scenario,
) -> Result<Simulation, Fault> {
    let root = Node::parse(text)?;
    schema::check(&root, &schema::SCENARIO, "key of a scenario")?;
    let empty = Node::empty();
    let table = |key: &str| root.find(key).unwrap_or(&empty);
    let own = table("workload");
    for entry in own.entries() {
        workload::check_name(&entry.key, entry.key_span.clone())?;
    }
    let run = options::run(table("run"))?;
    let known = Known { library, own };
    let vms = table("vm").items();
    let cast = members::cast(&scenario, vms, &known)?;
    let tiles = options::tiles(&root, &scenario)?;
    let members = members::all(&scenario, vms, &cast.by_batch, tiles)?;
    limits::check(&members, &cast, vms, &run)?;
    members::check_calls(&members, &cast)?;
    let names: Vec<&str> = cast.names();
    let qos = options::qos(table("qos").items(), &names)?;
    Ok(Simulation {
        run,
        tiles,
        network: options::network(table("network"))?,
        qos,
        sweeps: sweep::read(text, table("sweep").items())?,
        workloads: cast
            .defined
            .into_iter()
            .map(|defined| defined.workload)
            .collect(),
        members,
        places: vms
            .iter()
            .map(|vm| vm.span.clone().unwrap_or(0..0))
            .collect(),
        scenario,
    })
}

impl Default for Run {
    /// 20 s of which 2 s are warm-up, 5 seeds: short enough to wait for, long enough for thousands of operations a VM. Ours.
    fn default() -> Self {
        Self {
            duration_ns: 20 * crate::time::S,
            warmup_ns: 2 * crate::time::S,
            seeds: 5,
            seed: 1,
            timeline: None,
        }
    }
}

impl Metric {
    /// Its name in a scenario.
    pub fn name(self) -> String {
        match self {
            Self::Mean => "mean".to_owned(),
            Self::Quantile(quantile) => {
                // Tenths of a per cent are the finest there are.
                let permille = (quantile * 1000.0).round() as u32;
                match permille % 10 {
                    0 => format!("p{}", permille / 10),
                    tenths => format!("p{}.{tenths}", permille / 10),
                }
            }
            Self::Max => "max".to_owned(),
            Self::Throughput => "throughput".to_owned(),
            Self::Ready => "ready".to_owned(),
            Self::CoStop => "costop".to_owned(),
        }
    }

    /// Whether the limit is the least that is allowed, and not the most.
    pub fn is_least(self) -> bool {
        self == Self::Throughput
    }
}
