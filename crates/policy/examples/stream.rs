//! Places a stream of arrivals and departures one VM at a time, as the peers benchmark asks (`bench/peers`): a document
//! on standard input, answers on standard output. VMs that sit are never moved.

#![expect(clippy::print_stdout, reason = "the answer goes to standard output")]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Read;
use std::sync::Arc;
use std::time::Instant;

use model::host::{Cache, Core, Node, Parts};
use model::placement::{Placement, Reserve, VmId};
use model::{CpuId, CpuSet, Host, Vm};
use policy::place::Best;
use policy::plan::{Budget, Snapshot, VmState};
use policy::reconcile::Policy;
use serde_json::{Value, json};

/// The document's tables are bounded by the host it describes; more is no host.
const MAX_ROWS: usize = 65_536;

fn main() -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let document: Value = serde_json::from_str(&text)?;
    let host = Arc::new(host(&document["table"])?);
    let mut now = Snapshot::empty(host, Vec::new(), Reserve::default());
    now.budget = Budget {
        vcpus: 0,
        memory_mib: 0,
        ..Budget::default()
    };
    let mut answers = Vec::new();
    for event in document["events"].as_array().ok_or("no events")? {
        if let Some(name) = event["remove"].as_str() {
            remove(&mut now, name);
        } else if let Some(name) = event["add"].as_str() {
            let vcpus = u32::try_from(event["vcpus"].as_u64().ok_or("no vcpus")?)?;
            answers.push(add(&mut now, name, vcpus));
        }
    }
    println!("{}", Value::Array(answers));
    Ok(())
}

/// The host of the table, which has one row per CPU: its core, LLC, node and package.
fn host(table: &Value) -> Result<Host, Box<dyn Error>> {
    let mut sets: [BTreeMap<u64, CpuSet>; 4] = Default::default();
    let rows = table
        .as_array()
        .filter(|rows| rows.len() <= MAX_ROWS)
        .ok_or("no table")?;
    for row in rows {
        let cpu = CpuId(u32::try_from(
            row["cpu"].as_u64().ok_or("a row without cpu")?,
        )?);
        for (set, key) in sets.iter_mut().zip(["core", "llc", "node", "package"]) {
            set.entry(row[key].as_u64().ok_or("a row without its place")?)
                .or_default()
                .insert(cpu);
        }
    }
    let [cores, llcs, nodes, packages] = sets;
    let cache = |cpus: CpuSet| Cache {
        level: 3,
        kind: 'u',
        size_bytes: 0,
        cpus,
    };
    let node = |(id, cpus): (u64, CpuSet)| -> Result<Node, Box<dyn Error>> {
        Ok(Node {
            id: u32::try_from(id)?,
            cpus,
            memory_mib: 0,
            hugepages: Vec::new(),
        })
    };
    let parts = Parts {
        name: "stream".to_owned(),
        cpus: cores
            .values()
            .fold(CpuSet::new(), |sum, cpus| sum.union(cpus)),
        cores: cores
            .into_values()
            .map(|cpus| Core {
                cpus,
                efficiency: 0,
            })
            .collect(),
        nodes: nodes.into_iter().map(node).collect::<Result<_, _>>()?,
        packages: packages.into_values().collect(),
        caches: llcs.into_values().map(cache).collect(),
        ..Parts::default()
    };
    Ok(Host::from_parts(parts)?)
}

/// Places one more VM; the time is that of the plan alone.
fn add(now: &mut Snapshot, name: &str, vcpus: u32) -> Value {
    let id = VmId(u32::try_from(now.vms.len()).unwrap_or(u32::MAX));
    now.vms.push(VmState {
        vm: Vm::new(name, vcpus, 0),
        moved_ns: None,
    });
    let start = Instant::now();
    let plan = Best.plan(now);
    let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    if let Some((_, reason)) = plan.refused.iter().find(|(vm, _)| *vm == id) {
        now.vms.pop();
        return json!({"vm": name, "refused": reason.text, "ns": ns});
    }
    now.placement = plan.placement;
    let groups = now.placement.groups_of(id).iter();
    let groups: Vec<Value> = groups
        .map(|group| json!({"vcpus": group.vcpus.to_string(), "llc": group.llc.0, "node": group.node.0, "cpus": group.cpus.to_string()}))
        .collect();
    json!({"vm": name, "groups": groups, "ns": ns})
}

/// Takes a VM away; the others keep their places, and those behind it get smaller ids.
fn remove(now: &mut Snapshot, name: &str) {
    let Some(index) = now.vms.iter().position(|state| state.vm.name == name) else {
        return;
    };
    now.vms.remove(index);
    let gone = VmId(u32::try_from(index).unwrap_or(u32::MAX));
    let old = std::mem::take(&mut now.placement);
    let shift = |vm: VmId| VmId(vm.0 - u32::from(vm > gone));
    let groups = old.groups.into_iter().filter(|group| group.vm != gone);
    let memory = old.memory.into_iter().filter(|home| home.vm != gone);
    now.placement = Placement {
        groups: groups
            .map(|group| model::Group {
                vm: shift(group.vm),
                ..group
            })
            .collect(),
        memory: memory
            .map(|home| model::placement::MemoryHome {
                vm: shift(home.vm),
                ..home
            })
            .collect(),
        system: Vec::new(),
    };
}
