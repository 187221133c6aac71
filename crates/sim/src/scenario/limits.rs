//! What is too much for one simulation, or can never happen in it.

use super::fault::Fault;
use super::members::Cast;
use super::tree::Node;
use super::{Member, Run};
use crate::spec::{Clients, Step};

/// Most VMs of a simulation: forty on each of the 256 threads of a large host. Ours.
pub const MAX_VMS: u32 = 10_000;
/// Most vCPUs in sum. Ours.
pub const MAX_VCPUS: u64 = 100_000;
/// Most guest threads in sum. Ours.
pub const MAX_THREADS: u64 = 1_000_000;
/// Most users of closed loops in sum: each waits in the queue of events. Ours.
pub const MAX_USERS: u64 = 1_000_000;

/// Least time from one operation of a user to the next: less is no event, and a loop without any never advances. Ours.
const LEAST_LOOP_NS: u64 = 100;

pub(super) fn check(members: &[Member], cast: &Cast, vms: &[Node], run: &Run) -> Result<(), Fault> {
    let (mut vcpus, mut threads, mut users) = (0_u64, 0_u64, 0_u64);
    for member in members {
        let place = || vms[member.batch].span.clone();
        check_member(member, run, &vms[member.batch])?;
        vcpus += u64::from(member.vm.vcpus);
        if let Some(workload) = member.workload {
            let workload = &cast.defined[workload].workload;
            threads += u64::from(workload.threads.of(member.vm.vcpus));
            if let Clients::Closed { users: each, .. } = workload.clients {
                users += u64::from(each.of(member.vm.vcpus));
            }
        }
        for (found, most, what) in [
            (vcpus, MAX_VCPUS, "vCPUs"),
            (threads, MAX_THREADS, "threads"),
            (users, MAX_USERS, "users"),
        ] {
            if found > most {
                let message =
                    format!("more than {most} {what} in sum with this VM; that is the most");
                return Err(Fault::at(message, place()));
            }
        }
    }
    for (defined, place) in cast.defined.iter().zip(&cast.places) {
        let workload = &defined.workload;
        let Clients::Closed {
            think: Some(think), ..
        } = workload.clients
        else {
            continue;
        };
        let step_ns = |step: &Step| match step {
            Step::Cpu(law) | Step::Sleep(law) | Step::Handoff(law) => law.mean_ns(),
            Step::Lock { hold, .. } => hold.mean_ns(),
            Step::Io { device } => workload.devices[*device].latency.mean_ns(),
            // What is called advances by itself; a packet takes its way.
            Step::Call { .. } | Step::Network { .. } => LEAST_LOOP_NS,
        };
        let steps: u64 = workload.steps.iter().map(step_ns).sum();
        if think.mean_ns() + steps < LEAST_LOOP_NS {
            let message = format!(
                "a closed loop that does not think and whose operations take {steps} ns hardly advances; it needs {LEAST_LOOP_NS} ns of work, waits and think time"
            );
            return Err(Fault::at(message, place.clone()));
        }
    }
    Ok(())
}

fn check_member(member: &Member, run: &Run, node: &Node) -> Result<(), Fault> {
    let at = |key: &str| node.find(key).unwrap_or(node).span.clone();
    let text = model::duration::text;
    if member.vm.vcpus == 0 {
        return Err(Fault::at("a VM without vCPUs runs nothing", at("vcpus")));
    }
    if member.on_ns >= run.duration_ns {
        let message = format!(
            "switched on at {}, when the run of {} is over",
            text(member.on_ns),
            text(run.duration_ns)
        );
        return Err(Fault::at(message, at("on")));
    }
    if let Some(off_ns) = member.off_ns.filter(|&off_ns| off_ns <= member.on_ns) {
        let message = format!(
            "switched off at {}, but on at {} only",
            text(off_ns),
            text(member.on_ns)
        );
        return Err(Fault::at(message, at("off")));
    }
    Ok(())
}
