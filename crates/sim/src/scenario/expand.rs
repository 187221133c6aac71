//! From a scenario to what one run needs.

use std::collections::BTreeMap;

use model::GuestTopology;

use super::demand::{Loads, Nominal};
use super::fault::{Fault, ScenarioError};
use super::{Member, Simulation};
use crate::spec::{RunSpec, VmSpec, Workload};

/// What a run is made of: each VM of [`Simulation::members`] with what its guest sees, in the same order, and the workloads with
/// think times and rates. VMs of other sizes or loads have other think times, so that several workloads have one name: whoever
/// counts by workload counts by name.
///
/// # Errors
/// Loads that the workload cannot make with its users and threads; guests that are not those of the VMs.
pub fn expand(
    simulation: &Simulation,
    nominal: &Nominal,
    guests: &[GuestTopology],
) -> Result<RunSpec, ScenarioError> {
    let mut loads = Loads::new(simulation, nominal);
    let mut workloads: Vec<Workload> = Vec::new();
    let mut known: BTreeMap<(usize, u32, u32, bool), usize> = BTreeMap::new();
    let mut vms = Vec::with_capacity(simulation.members.len());
    check_guests(simulation, guests)?;
    for (member, guest) in simulation.members.iter().zip(guests) {
        let workload = match member.workload {
            None => None,
            Some(index) => {
                let key = (index, member.vm.vcpus, member.vm.load, member.tile > 0);
                let variant = if let Some(&variant) = known.get(&key) {
                    variant
                } else {
                    let plain = &simulation.workloads[index];
                    let clients = loads
                        .clients(member, plain)
                        .map_err(|fault| at_vm(fault, simulation, member))?;
                    let variant = Workload {
                        clients,
                        ..plain.clone()
                    };
                    add(&mut workloads, variant)
                };
                known.insert(key, variant);
                Some(variant)
            }
        };
        vms.push(VmSpec {
            vm: member.vm.clone(),
            guest: guest.clone(),
            system: member.system,
            workload,
            tile: member.tile,
            on_ns: member.on_ns,
            off_ns: member.off_ns,
        });
    }
    Ok(RunSpec {
        duration_ns: simulation.run.duration_ns,
        warmup_ns: simulation.run.warmup_ns,
        timeline: simulation.run.timeline,
        vms,
        workloads,
    })
}

/// The index of a workload, which is added if none is equal.
fn add(workloads: &mut Vec<Workload>, workload: Workload) -> usize {
    let there = workloads.iter().position(|known| *known == workload);
    there.unwrap_or_else(|| {
        workloads.push(workload);
        workloads.len() - 1
    })
}

fn check_guests(simulation: &Simulation, guests: &[GuestTopology]) -> Result<(), ScenarioError> {
    if guests.len() != simulation.members.len() {
        let message = format!(
            "{} VMs need as many guest topologies, not {}",
            simulation.members.len(),
            guests.len()
        );
        return Err(Fault::at(message, None).or_at(0..0));
    }
    let odd = |(member, guest): &(&Member, &GuestTopology)| member.vm.vcpus != guest.vcpus;
    if let Some((member, guest)) = simulation.members.iter().zip(guests).find(odd) {
        let message = format!(
            "{} has {} vCPUs, its guest topology {}",
            member.vm.name, member.vm.vcpus, guest.vcpus
        );
        return Err(at_vm(Fault::at(message, None), simulation, member));
    }
    Ok(())
}

fn at_vm(fault: Fault, simulation: &Simulation, member: &Member) -> ScenarioError {
    let place = simulation.places.get(member.batch).cloned();
    fault.or_at(place.unwrap_or(0..0))
}
