//! The plan against what a guest saw, field by field.
//!
//! **Contract.** LLC sharing is compared always. `dies` is compared only where the guest's processor model shows that
//! level (Linux then numbers more than one die in a package); where it does not, the field says [`NOT_SHOWN`]. Modules
//! have no counterpart in Linux on x86, whose clusters follow the L2, so they are not compared: the LLC they make is.
//! L1 and L2 belong to one core each in every shape vtopo makes.
//!
//! Counts are of what is present: 13 vCPUs in 16 slots are 13 cores, in as many sockets as have one of them.

use model::guest::Level;
use model::host::Cache;
use model::{CpuSet, GuestTopology};
use serde::Serialize;
use serde_json::{Value, json};

use crate::guest::STAND_IN_ID;
use crate::report::{SeenGuest, SeenNode, Source};

/// Seen value of a level that the guest's processor model has no words for.
pub const NOT_SHOWN: &str = "not shown";
/// Seen value of what a report does not say.
pub const NOT_REPORTED: &str = "not reported";
/// Planned value of what the plan leaves open.
pub const NOT_STATED: &str = "not stated";

/// SLIT distance of a node to itself and to another where nothing else is asked for (ACPI 6.5 section 5.2.17; QEMU's
/// `NUMA_DISTANCE_MIN` and `NUMA_DISTANCE_DEFAULT`).
const DISTANCES: [u32; 2] = [10, 20];

/// Memory that may be missing from the present pages of a node. Measured with Linux 6.12 on q35: 1 MiB on node 0 (the
/// legacy hole below 1 MiB and the ACPI tables), none on others; 4 leaves room for larger tables. What the kernel takes for
/// itself does not count: `MemTotal` of a 256 MiB node 0 is 203 to 213 MiB, its present pages are 255 to 256.
const HOLES_MIB: u64 = 4;

/// One line of the comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Field {
    /// Stable name for scripts.
    pub name: String,
    /// A number, a text, or a list of CPU sets.
    pub planned: Value,
    /// As `planned`, or one of the texts above.
    pub seen: Value,
    /// Whether the guest does not contradict the plan.
    pub ok: bool,
}

/// Compares a plan with what was seen.
///
/// What the report of our own guest lacks is a mismatch; a tool's output is not complete, so that what it lacks is
/// [`NOT_REPORTED`] and no mismatch.
pub fn compare(plan: &GuestTopology, seen: &SeenGuest) -> Vec<Field> {
    let complete = seen.source == Source::Guest;
    let slots = seen.slots.or_else(|| count(seen.possible.as_ref()?));
    let mut fields = vec![
        field("vcpus", plan.vcpus, count(&seen.online), complete),
        field("maxcpus", plan.maxcpus(), slots, complete),
    ];
    fields.extend(levels(plan, seen, complete));
    fields.push(llc_sharing(plan, seen, complete));
    fields.push(llc_sizes(plan, seen, complete));
    fields.extend(inner_caches(plan, seen, complete));
    fields.extend(nodes(plan, seen, complete));
    fields
}

/// Compares the vNUMA nodes of passed-through devices with those of their stand-ins in the guest
/// ([`Plan::devices`](crate::guest::Plan::devices)).
pub fn compare_devices(planned: &[(String, u32)], seen: &SeenGuest) -> Vec<Field> {
    let stand_ins = seen
        .devices
        .iter()
        .filter(|device| (device.vendor, device.device) == STAND_IN_ID);
    let nodes = stand_ins.map(|device| device.node);
    planned
        .iter()
        .zip(nodes.chain(std::iter::repeat(None)))
        .map(|((name, node), seen)| field(format!("devices.{name}.node"), *node, seen, true))
        .collect()
}

/// A value for people: lists in a row, long ones cut in the middle.
pub fn show(value: &Value) -> String {
    const ITEMS_MAX: usize = 12;
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.len() > ITEMS_MAX => {
            let start: Vec<String> = items[..ITEMS_MAX / 2].iter().map(show).collect();
            let last = items.last().map(show).unwrap_or_default();
            format!("{} ... {last} ({} in all)", start.join(" "), items.len())
        }
        Value::Array(items) => items.iter().map(show).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

fn levels(plan: &GuestTopology, seen: &SeenGuest, complete: bool) -> Vec<Field> {
    let (sockets, cores) = (
        plan.blocks(plan.slots_in(Level::Socket)),
        plan.blocks(plan.threads),
    );
    let cores_per_socket = plan.cores_per_socket().min(length(&cores));
    let threads = plan.threads.min(plan.vcpus);
    let mut fields = vec![
        field("sockets", length(&sockets), seen.sockets(), complete),
        field(
            "cores_per_socket",
            cores_per_socket,
            seen.cores_per_socket(),
            complete,
        ),
        field(
            "threads_per_core",
            threads,
            seen.threads_per_core(),
            complete,
        ),
        dies(plan, seen, complete),
    ];
    // Counts can be right with the wrong CPUs in them.
    fields.push(field("sockets.vcpus", sockets, seen.packages(), complete));
    fields.push(field("cores.vcpus", cores, seen.cores(), complete));
    fields
}

fn dies(plan: &GuestTopology, seen: &SeenGuest, complete: bool) -> Field {
    let present = plan.vcpus.div_ceil(plan.slots_in(Level::Die).max(1));
    let planned = plan.dies.min(present);
    let most_in_package = seen.packages().zip(seen.dies()).map(|(packages, dies)| {
        let dies_of = |package: &CpuSet| dies.iter().filter(|die| die.is_subset(package)).count();
        packages.iter().map(dies_of).max().unwrap_or(0)
    });
    match most_in_package {
        Some(0 | 1) if planned > 1 => Field {
            name: "dies".to_owned(),
            planned: json!(planned),
            seen: json!(NOT_SHOWN),
            ok: true,
        },
        seen => field(
            "dies",
            planned,
            seen.and_then(|dies| u32::try_from(dies).ok()),
            complete,
        ),
    }
}

fn llc_sharing(plan: &GuestTopology, seen: &SeenGuest, complete: bool) -> Field {
    let mut planned: Vec<CpuSet> = plan.llcs.iter().map(|llc| llc.vcpus.clone()).collect();
    planned.sort_by_key(CpuSet::first);
    let found = seen.llcs().map(|llcs| spans(&llcs));
    match (planned.is_empty(), found) {
        (true, found) => unstated("llcs", found.map(|sets| json!(sets))),
        // A summary counts the caches without saying whose they are.
        (false, None) => field("llcs", length(&planned), llc_count(seen), complete),
        (false, found) => field("llcs", planned, found, complete),
    }
}

/// Sizes by LLC; one number where all are equal.
fn llc_sizes(plan: &GuestTopology, seen: &SeenGuest, complete: bool) -> Field {
    let one_for_equal = |mut sizes: Vec<u64>| {
        sizes.dedup();
        let known = !sizes.is_empty() && !sizes.contains(&0);
        known.then(|| match sizes[..] {
            [size] => json!(size),
            _ => json!(sizes),
        })
    };
    let planned = plan.llcs.iter().map(|llc| llc.guest_size_bytes).collect();
    let sizes = seen
        .llcs()
        .map(|llcs| llcs.iter().map(|llc| llc.size_bytes).collect())
        .or_else(|| Some(vec![llc_summary(seen)?.size_bytes]));
    let found = sizes.and_then(one_for_equal);
    match one_for_equal(planned) {
        Some(planned) => {
            let rounded = !complete && nearly(&planned, found.as_ref());
            let field = field("llc_size_bytes", planned, found, complete);
            Field {
                ok: field.ok || rounded,
                ..field
            }
        }
        None => unstated("llc_size_bytes", found),
    }
}

/// Whether two sizes are the same within a hundredth: tools print sizes with three digits.
fn nearly(planned: &Value, found: Option<&Value>) -> bool {
    let sizes = planned.as_u64().zip(found.and_then(Value::as_u64));
    sizes.is_some_and(|(planned, found)| planned.abs_diff(found) <= planned / 100)
}

/// The entry of a summary for the highest cache level.
fn llc_summary(seen: &SeenGuest) -> Option<&crate::report::CacheCount> {
    seen.summary.caches.iter().max_by_key(|cache| cache.level)
}

fn llc_count(seen: &SeenGuest) -> Option<u32> {
    llc_summary(seen)?.instances
}

/// L1 and L2, as far as they are not the last level: one for each core.
fn inner_caches(plan: &GuestTopology, seen: &SeenGuest, complete: bool) -> Vec<Field> {
    let cores = plan.blocks(plan.threads);
    let llc_level = seen
        .llcs()
        .and_then(|llcs| llcs.first().map(|llc| llc.level));
    [("l1d", 1, 'd'), ("l1i", 1, 'i'), ("l2", 2, 'u')]
        .into_iter()
        .filter(|&(_, level, _)| Some(level) != llc_level)
        .map(|(name, level, kind)| {
            let found = seen.caches_of(level, kind).map(|caches| spans(&caches));
            field(name, cores.clone(), found, complete)
        })
        .collect()
}

fn nodes(plan: &GuestTopology, seen: &SeenGuest, complete: bool) -> Vec<Field> {
    let found = seen.nodes.as_deref();
    // Linux has one node for all where nothing describes nodes.
    let planned = length(&plan.numa_nodes).max(1);
    let mut fields = vec![field("numa_nodes", planned, found.map(length), complete)];
    for (id, node) in (0..).zip(&plan.numa_nodes) {
        let seen: Option<&SeenNode> = found.and_then(|nodes| nodes.iter().find(|n| n.id == id));
        // A node that is missing from a list of nodes is a mismatch whoever made the list.
        let missing = found.is_some() && seen.is_none();
        let cpus = seen.map(|node| node.cpus.to_string());
        let name = format!("numa_nodes.{id}.vcpus");
        fields.push(field(
            name,
            node.vcpus.to_string(),
            cpus,
            complete || missing,
        ));
        fields.push(memory(id, node.memory_mib, seen, complete || missing));
    }
    if planned > 1 {
        let planned = distances(plan);
        let seen: Option<Vec<Vec<u32>>> = found.and_then(|nodes| {
            let rows = nodes.iter().map(|node| node.distances.clone());
            rows.collect()
        });
        fields.push(field("distances", planned, seen, complete));
    }
    fields
}

/// Distances as QEMU writes them: those stated, or the default where none are stated for these nodes.
fn distances(plan: &GuestTopology) -> Vec<Vec<u32>> {
    let nodes = plan.numa_nodes.len();
    if plan.distances.len() == nodes && plan.distances.iter().all(|row| row.len() == nodes) {
        return plan.distances.clone();
    }
    let row = |from| {
        (0..nodes)
            .map(|to| DISTANCES[usize::from(from != to)])
            .collect()
    };
    (0..nodes).map(row).collect()
}

/// Memory of a node: pages that are there, which no reservation of the kernel takes from, less holes.
fn memory(id: u32, planned: u64, seen: Option<&SeenNode>, complete: bool) -> Field {
    let found = seen.and_then(|node| node.present_mib);
    let fits = |mib| (planned.saturating_sub(HOLES_MIB)..=planned).contains(&mib);
    Field {
        name: format!("numa_nodes.{id}.memory_mib"),
        planned: json!(planned),
        seen: found.map_or(json!(NOT_REPORTED), |mib| json!(mib)),
        ok: found.map_or(!complete, fits),
    }
}

/// Compares by equality.
#[expect(
    clippy::needless_pass_by_value,
    reason = "callers hand over what they have just made"
)]
fn field<T: Serialize + PartialEq>(
    name: impl Into<String>,
    planned: T,
    seen: Option<T>,
    complete: bool,
) -> Field {
    let ok = seen.as_ref().map_or(!complete, |seen| *seen == planned);
    Field {
        name: name.into(),
        planned: json!(planned),
        seen: seen.map_or(json!(NOT_REPORTED), |seen| json!(seen)),
        ok,
    }
}

/// What the plan leaves open cannot be contradicted.
fn unstated(name: &str, seen: Option<Value>) -> Field {
    Field {
        name: name.to_owned(),
        planned: json!(NOT_STATED),
        seen: seen.unwrap_or(json!(NOT_REPORTED)),
        ok: true,
    }
}

fn spans(caches: &[&Cache]) -> Vec<CpuSet> {
    caches.iter().map(|cache| cache.cpus.clone()).collect()
}

fn count(set: &CpuSet) -> Option<u32> {
    u32::try_from(set.len()).ok()
}

fn length<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
