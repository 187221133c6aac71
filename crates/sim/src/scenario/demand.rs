//! From a nominal load to think times and rates.
//!
//! *Problem.* A scenario says "8 vCPUs, 60 % busy, 80 users"; the event loop needs the time that users think. *Terms.* `C` is
//! the CPU time of an operation in the VM: its own work (`cpu`, `hold`, `handoff`) and its packets. `W` is what it waits
//! without a CPU: devices, sleeps, the network, and the whole operation of whoever it calls. `R = C + W` is how long it takes
//! when nothing is in its way. *Formula.* A load `u` of each of `v` vCPUs needs `X = u v / C` operations a second. An open loop
//! has that rate. `U` users who think `Z` make `X = U / (Z + R)` (Little's law), so that `Z = U C / (u v) - R`.
//!
//! *Nominal* means: as a VM that sits well and alone. `C` is not the time with all data in caches, for no machine gives it
//! that; it is stretched by what the VM's misses and shared lines cost when its vCPUs fill as few last-level caches as they can,
//! whole cores, memory near by. What comes on top in a run (neighbours, other threads of a core, vCPUs that are spread, queues)
//! is what a simulation is there to show, so that a simulated load is above the nominal one.

use std::collections::BTreeMap;

use model::Host;

use super::fault::Fault;
use super::{Member, Simulation};
use crate::machine::vector::Vector;
use crate::rng::Law;
use crate::spec::{Clients, Step, Workload};
use crate::time::{LONGEST_NS, Nanos, S};

/// What a VM that sits well meets on a host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nominal {
    /// Cores of a last-level cache.
    pub llc_cores: u32,
    /// A line from a core of the same last-level cache, in nanoseconds.
    pub same_llc_ns: f64,
    /// A line from the nearest other one.
    pub other_llc_ns: f64,
    /// Memory of the own node.
    pub dram_ns: f64,
    /// CPU time of a packet in the guest, in one direction.
    pub packet_ns: f64,
    /// Time of a packet's way to the client and back, without the guest's CPU time.
    pub network_ns: f64,
}

/// CPU time and waits of an operation, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Demand {
    cpu_ns: f64,
    wait_ns: f64,
}

impl Nominal {
    /// An EPYC 7702 (its preset has the sources). A packet takes 4.5 us of the guest's CPU, the middle of the 3-6 us of a guest's
    /// network stack (reference model, section 2.4), and its way to the client and back 55 us, the middle of the 35-75 us of
    /// VM to native (S2-02).
    pub const REFERENCE: Self = Self {
        llc_cores: 4,
        same_llc_ns: 25.0,
        other_llc_ns: 119.0,
        dram_ns: 122.0,
        packet_ns: 4_500.0,
        network_ns: 55_000.0,
    };

    /// A host; where it has no latencies, those of [`REFERENCE`](Self::REFERENCE).
    pub fn of(host: &Host) -> Self {
        let reference = Self::REFERENCE;
        let llc_cores = (host.cores.len() / host.llcs.len().max(1)).max(1) as u32;
        let Some(latency) = &host.latency else {
            return Self {
                llc_cores,
                ..reference
            };
        };
        let least = |of_same: bool| {
            let rows = latency.llc_ns.iter().enumerate();
            let values = rows.flat_map(|(row, values)| {
                let values = values.iter().enumerate();
                values.filter(move |(column, _)| (*column == row) == of_same)
            });
            let known = values
                .map(|(_, ns)| *ns)
                .filter(|ns| ns.is_finite() && *ns > 0.0);
            known.min_by(f64::total_cmp)
        };
        let same_llc_ns = least(true).unwrap_or(reference.same_llc_ns);
        Self {
            llc_cores,
            same_llc_ns,
            other_llc_ns: least(false).unwrap_or(same_llc_ns),
            dram_ns: latency.dram_local_ns.unwrap_or(reference.dram_ns),
            ..reference
        }
    }

    /// How much longer work takes than with all data in caches and nothing shared, for a VM of so many vCPUs that sits well.
    pub fn stretch(&self, vector: &Vector, vcpus: u32) -> f64 {
        let n = f64::from(vcpus.max(1));
        // Pairs of vCPUs within one cache, of all pairs: g(g - 1) / n(n - 1) over the caches (reference model, section 2.2).
        let groups = vcpus.div_ceil(self.llc_cores).max(1);
        let (each, larger) = (f64::from(vcpus / groups), f64::from(vcpus % groups));
        let pairs =
            (f64::from(groups) - larger) * each * (each - 1.0) + larger * (each + 1.0) * each;
        let near = if vcpus > 1 {
            pairs / (n * (n - 1.0))
        } else {
            1.0
        };
        let line_ns = near * self.same_llc_ns + (1.0 - near) * self.other_llc_ns;
        let lines = if vcpus > 1 {
            vector.shared_lines_per_us
        } else {
            0.0
        };
        let misses_ns = vector.misses_per_us * self.dram_ns / vector.mlp;
        let sharing_ns = lines * line_ns / vector.sharing_mlp;
        1.0 + (misses_ns + sharing_ns) / 1000.0
    }
}

/// Fills in what the load of VMs says about their clients.
pub(super) struct Loads<'a> {
    simulation: &'a Simulation,
    nominal: &'a Nominal,
    /// Response times of called workloads, by whether it is in a tile and name.
    known: BTreeMap<(bool, &'a str), f64>,
}

impl<'a> Loads<'a> {
    pub(super) fn new(simulation: &'a Simulation, nominal: &'a Nominal) -> Self {
        Self {
            simulation,
            nominal,
            known: BTreeMap::new(),
        }
    }

    /// The clients of a VM, with a think time or rate.
    pub(super) fn clients(
        &mut self,
        member: &Member,
        workload: &'a Workload,
    ) -> Result<Clients, Fault> {
        match workload.clients {
            Clients::Closed { users, think: None } => {
                let demand = self.demand(workload, member.vm.vcpus, member.tile);
                let users_now = users.of(member.vm.vcpus);
                let think_ns = think_ns(member, workload, demand, users_now)?;
                let mean_ns = think_ns.round() as Nanos;
                let think = match mean_ns {
                    0 => Law::Fixed { mean_ns },
                    _ => Law::Exponential { mean_ns },
                };
                Ok(Clients::Closed {
                    users,
                    think: Some(think),
                })
            }
            Clients::Open {
                per_s: None,
                arrivals,
            } => {
                if member.vm.load >= 1000 {
                    let message = format!(
                        "{}: requests that keep vCPUs 100% busy and arrive whatever happens queue up without end; give cpu, below 100%, or a rate",
                        workload.name
                    );
                    return Err(Fault::at(message, None));
                }
                let demand = self.demand(workload, member.vm.vcpus, member.tile);
                need_cpu(workload, demand)?;
                let per_s = operations_per_ns(member, workload, demand)? * S as f64;
                Ok(Clients::Open {
                    per_s: Some(per_s),
                    arrivals,
                })
            }
            known => Ok(known),
        }
    }

    fn demand(&mut self, workload: &'a Workload, vcpus: u32, tile: u32) -> Demand {
        let (mut own_ns, mut packets, mut wait_ns) = (0.0, 0.0, 0.0);
        for step in &workload.steps {
            match step {
                Step::Cpu(law) | Step::Handoff(law) | Step::Lock { hold: law, .. } => {
                    own_ns += law.mean_ns() as f64;
                }
                Step::Io { device } => {
                    wait_ns += workload.devices[*device].latency.mean_ns() as f64;
                }
                Step::Sleep(law) => wait_ns += law.mean_ns() as f64,
                Step::Network { packets: each, .. } => {
                    packets += 2.0 * f64::from(*each);
                    wait_ns += self.nominal.network_ns;
                }
                Step::Call { to } => wait_ns += self.response_ns(to, tile),
            }
        }
        let stretch = self.nominal.stretch(&workload.vector, vcpus);
        Demand {
            cpu_ns: own_ns * stretch + packets * self.nominal.packet_ns,
            wait_ns,
        }
    }

    /// How long the first VM of the tile that runs the workload takes for it. Calls go in no circle.
    fn response_ns(&mut self, name: &'a str, tile: u32) -> f64 {
        let key = (tile > 0, name);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let simulation = self.simulation;
        let runs = |member: &&Member| {
            member.tile == tile
                && member
                    .workload
                    .is_some_and(|index| simulation.workloads[index].name == name)
        };
        let found = simulation.members.iter().find(runs);
        let response_ns = match found.and_then(|member| Some((member, member.workload?))) {
            Some((member, index)) => {
                let workload = &simulation.workloads[index];
                let demand = self.demand(workload, member.vm.vcpus, tile);
                demand.cpu_ns + demand.wait_ns
            }
            None => 0.0,
        };
        self.known.insert(key, response_ns);
        response_ns
    }
}

fn need_cpu(workload: &Workload, demand: Demand) -> Result<(), Fault> {
    if demand.cpu_ns > 0.0 {
        return Ok(());
    }
    let message = format!(
        "{}: an operation without work of its own makes no load; give a think time or a rate",
        workload.name
    );
    Err(Fault::at(message, None))
}

/// Operations in a nanosecond that make the load.
fn operations_per_ns(member: &Member, workload: &Workload, demand: Demand) -> Result<f64, Fault> {
    if member.vm.load == 0 {
        let message = format!(
            "{}: a load of 0% leaves nothing to do; leave the workload out for an idle VM",
            workload.name
        );
        return Err(Fault::at(message, None));
    }
    let load = f64::from(member.vm.load) / 1000.0;
    Ok(load * f64::from(member.vm.vcpus) / demand.cpu_ns)
}

fn think_ns(
    member: &Member,
    workload: &Workload,
    demand: Demand,
    users: u32,
) -> Result<f64, Fault> {
    need_cpu(workload, demand)?;
    let per_ns = operations_per_ns(member, workload, demand)?;
    let response_ns = demand.cpu_ns + demand.wait_ns;
    let (vcpus, percent) = (member.vm.vcpus, f64::from(member.vm.load) / 10.0);
    // A rounding error below a nanosecond is no lack of users.
    let needed = per_ns * response_ns * (1.0 - 1e-9);
    let threads = workload.threads.of(vcpus);
    for (there, what) in [(users, "users"), (threads, "threads")] {
        if needed > f64::from(there) {
            let message = format!(
                "{}: {vcpus} vCPUs at {percent}% need {} operations at a time ({:.0} us of CPU and {:.0} us of waits each), but there are {there} {what}; give more of them, or a lower cpu",
                workload.name,
                needed.ceil(),
                demand.cpu_ns / 1000.0,
                demand.wait_ns / 1000.0
            );
            return Err(Fault::at(message, None));
        }
    }
    let think_ns = (f64::from(users) / per_ns - response_ns).max(0.0);
    if think_ns > LONGEST_NS as f64 {
        let message = format!(
            "{}: {users} users would think for more than an hour to keep {vcpus} vCPUs only {percent}% busy; give fewer users or a think time",
            workload.name
        );
        return Err(Fault::at(message, None));
    }
    Ok(think_ns)
}
