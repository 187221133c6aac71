//! The fewest nodes and LLCs of a host that hold a VM.

use std::cmp::Reverse;

use model::host::{Host, NodeId, PackageId};
use model::{CpuSet, cpuset};

/// What has to be fitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Want {
    /// vCPU slots, present or reserved for hot-add.
    pub(super) slots: u32,
    /// Memory in MiB.
    pub(super) memory_mib: u64,
    /// vCPUs per core: 1, or the host's threads when siblings are used and shown.
    pub(super) threads: u32,
    /// The VM has more vCPUs than the host has cores: all nodes share the burden, instead of the fewest.
    pub(super) whole_host: bool,
    /// Number of vNUMA nodes, when a person decided.
    pub(super) nodes: Option<u32>,
    /// Size of the pages that must back the memory, in KiB.
    pub(super) hugepage_kib: Option<u64>,
    /// Host nodes (the kernel's numbers) to prefer: those of the VM's devices.
    pub(super) near: Vec<u32>,
}

/// Where the VM fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fit {
    /// For each vNUMA node the host nodes (the kernel's numbers) that back it.
    pub(super) host_nodes: Vec<Vec<u32>>,
    /// Slots and memory (MiB) that were fitted.
    pub(super) slots: u32,
    /// See `slots`.
    pub(super) memory_mib: u64,
    /// Packages those nodes lie in.
    pub(super) packages: u32,
    /// LLCs per vNUMA node.
    pub(super) groups: u32,
    /// Cores per LLC.
    pub(super) cores: u32,
    /// Size of the LLCs in bytes; 0 means unknown.
    pub(super) llc_bytes: u64,
    /// Cores of the largest host LLC in the chosen nodes.
    pub(super) largest_llc: u32,
    /// Cores and memory (MiB) of the smallest chosen node, for the explanation.
    pub(super) node_cores: u32,
    /// See `node_cores`.
    pub(super) node_memory_mib: u64,
}

impl Fit {
    /// Number of vNUMA nodes.
    pub(super) fn nodes(&self) -> u32 {
        u32::try_from(self.host_nodes.len()).expect("a host has few nodes")
    }
}

/// What is missing in a fit; nothing is the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Missing {
    /// The host has fewer cores (threads) than vCPUs, or its LLCs cannot take them evenly.
    pub(super) cpus: bool,
    /// The host has less memory, or fewer hugepages, than the VM.
    pub(super) memory: bool,
    /// There is memory enough, but no host node has the share of a vNUMA node: several back it.
    pub(super) undivided_memory: bool,
}

/// One home node with what it can hold.
#[derive(Debug, Clone)]
struct Room {
    id: u32,
    package: PackageId,
    /// Cores of each LLC within the node and its size in bytes, most cores first.
    llcs: Vec<(u32, u64)>,
    cores: u32,
    /// MiB of memory, or of pool pages when hugepages are wanted; `None` is unknown and without limit.
    memory_mib: Option<u64>,
    /// Packages the node covers (several under node interleaving).
    packages: u32,
}

/// Fits a VM into a host. When it does not fit, the least bad split is given with what is missing.
pub(super) fn fit(host: &Host, want: &Want) -> (Fit, Missing) {
    let rooms = rooms(host, want);
    if let Some(fit) = complete(&rooms, want) {
        return (spread_nodes(fit, want), Missing::default());
    }
    let enough = has_memory(&rooms, want);
    let cpus_fit = complete(
        &rooms,
        &Want {
            memory_mib: 0,
            ..want.clone()
        },
    )
    .is_some();
    let missing = Missing {
        cpus: !cpus_fit,
        memory: !enough,
        undivided_memory: cpus_fit && enough,
    };
    (spread_nodes(least_bad(&rooms, want), want), missing)
}

/// The fewest nodes that hold vCPUs and memory; with more vCPUs than cores the most that all get some.
fn complete(rooms: &[Room], want: &Want) -> Option<Fit> {
    let n_rooms = u32::try_from(rooms.len()).unwrap_or(u32::MAX);
    let room: u64 = rooms
        .iter()
        .map(|room| u64::from(room.cores * want.threads))
        .sum();
    if u64::from(want.slots) > room {
        return None;
    }
    let most = n_rooms.min(want.slots);
    if let Some(nodes) = want.nodes {
        return with_nodes(rooms, want, nodes.min(n_rooms));
    }
    let mut fewest_first = 1..=most;
    if want.whole_host {
        let no_node_is_empty = |fit: &Fit| {
            let per_node = fit.groups * fit.cores * want.threads;
            (fit.nodes() - 1) * per_node < want.slots
        };
        let fits = (1..=most)
            .rev()
            .filter_map(|nodes| with_nodes(rooms, want, nodes));
        if let Some(fit) = fits.into_iter().find(no_node_is_empty) {
            return Some(fit);
        }
    }
    fewest_first.find_map(|nodes| with_nodes(rooms, want, nodes))
}

fn with_nodes(rooms: &[Room], want: &Want, nodes: u32) -> Option<Fit> {
    let cores = want.slots.div_ceil(nodes).div_ceil(want.threads);
    let memory = want.memory_mib.div_ceil(u64::from(nodes));
    let chosen = choose(rooms, want, nodes, (cores, memory))?;
    let llcs = groups(&chosen, want)?;
    Some(describe(&chosen, want, llcs))
}

fn has_memory(rooms: &[Room], want: &Want) -> bool {
    rooms
        .iter()
        .map(|room| room.memory_mib)
        .sum::<Option<u64>>()
        .is_none_or(|sum| sum >= want.memory_mib)
}

fn rooms(host: &Host, want: &Want) -> Vec<Room> {
    let unknown = host.memory_mib() == 0;
    // Isolated CPUs are for dedicated VMs; on a machine where everything is isolated they are all there is.
    let shared = host.cpuset().difference(&host.isolated);
    let usable = if shared.is_empty() {
        host.cpuset()
    } else {
        shared
    };
    let room = |(id, node): (NodeId, &model::host::Node)| {
        let cpus: CpuSet = node
            .cpus
            .iter()
            .filter(|&cpu| host.cpu(cpu).is_some_and(|cpu| cpu.node == id))
            .collect();
        let cpus = cpus.intersection(&usable);
        let mut llcs: Vec<(u32, u64)> = host
            .llcs_in(&cpus)
            .map(|llc| &host.llcs[llc.index()])
            .map(|llc| {
                (
                    whole_cores(host, &llc.cpus.intersection(&cpus), want.threads),
                    llc.size_bytes,
                )
            })
            .collect();
        llcs.sort_by(|a, b| b.cmp(a));
        let pool = |size_kib: u64| {
            let pools = node
                .hugepages
                .iter()
                .filter(|pool| pool.size_kib == size_kib);
            pools
                .map(|pool| (pool.free.saturating_mul(size_kib)) >> 10)
                .sum::<u64>()
        };
        let memory_mib = match want.hugepage_kib {
            Some(size_kib) if host.nodes.iter().any(|node| !node.hugepages.is_empty()) => {
                Some(pool(size_kib))
            }
            _ => (!unknown).then_some(node.memory_mib),
        };
        let packages = host
            .packages
            .iter()
            .filter(|package| package.cpus.intersects(&cpus))
            .count();
        Room {
            id: node.id,
            package: host.package_of_node(id).unwrap_or(PackageId(0)),
            cores: llcs.iter().map(|(cores, _)| cores).sum(),
            llcs,
            memory_mib,
            packages: u32::try_from(packages).unwrap_or(cpuset::MAX_CPUS),
        }
    };
    let (usable, bare): (Vec<Room>, Vec<Room>) =
        host.cpu_nodes().map(room).partition(|room| room.cores > 0);
    // Where no node can take the VM as asked, the nodes are still there to name.
    if usable.is_empty() { bare } else { usable }
}

/// `count` rooms that hold `(cores, memory)` each, in as few packages as possible, near the devices first.
fn choose<'a>(
    rooms: &'a [Room],
    want: &Want,
    count: u32,
    (cores, memory): (u32, u64),
) -> Option<Vec<&'a Room>> {
    let count = count as usize;
    let fits =
        |room: &&Room| room.cores >= cores && room.memory_mib.is_none_or(|has| has >= memory);
    let eligible: Vec<&Room> = rooms.iter().filter(fits).collect();
    if eligible.len() < count {
        return None;
    }
    let in_package = |package| {
        eligible
            .iter()
            .filter(|room| room.package == package)
            .count()
    };
    let far = |room: &Room| !want.near.contains(&room.id);
    let near_package = |package| {
        eligible
            .iter()
            .any(|room| room.package == package && !far(room))
    };
    let mut ordered = eligible.clone();
    // Packages that hold all come first, then those beside a device, then the fuller ones; nodes in kernel order.
    ordered.sort_by_key(|room| {
        let size = in_package(room.package).min(count);
        (
            count - size,
            !near_package(room.package),
            room.package,
            far(room),
            room.id,
        )
    });
    ordered.truncate(count);
    ordered.sort_by_key(|room| (room.package, room.id));
    Some(ordered)
}

/// LLCs per node and cores per LLC so that slots filled in order fit every node's LLCs: fewest LLCs, then most even;
/// where all nodes share the burden, most even, then most LLCs.
fn groups(chosen: &[&Room], want: &Want) -> Option<(u32, u32)> {
    let threads = want.threads;
    let per_node = want.slots.div_ceil(u32::try_from(chosen.len()).ok()?);
    let most_llcs = chosen.iter().map(|room| room.llcs.len()).min()?;
    let largest = chosen
        .iter()
        .filter_map(|room| room.llcs.first())
        .map(|&(cores, _)| cores)
        .max()?;
    let mut fits = (1..=u32::try_from(most_llcs).ok()?).filter_map(|groups| {
        let least = per_node.div_ceil(groups).div_ceil(threads);
        (least..=largest)
            .find(|&cores| filling_fits(chosen, want.slots, (groups, cores * threads), threads))
            .map(|cores| (groups, cores))
    });
    if want.whole_host {
        return fits
            .min_by_key(|&(groups, cores)| (groups * cores * threads - per_node, Reverse(groups)));
    }
    fits.next()
}

/// Cores that have at least `threads` CPUs in the set: on a hybrid processor not every core has siblings.
fn whole_cores(host: &Host, cpus: &CpuSet, threads: u32) -> u32 {
    let mut cores: Vec<_> = cpus
        .iter()
        .filter_map(|cpu| host.cpu(cpu))
        .map(|cpu| cpu.core)
        .collect();
    cores.sort_unstable();
    let whole = cores
        .chunk_by(|a, b| a == b)
        .filter(|core| core.len() >= threads as usize);
    u32::try_from(whole.count()).unwrap_or(cpuset::MAX_CPUS)
}

/// Whether `slots` filled in order into LLCs of `size` slots, `groups` to a node, fit the nodes' LLCs (largest first).
fn filling_fits(chosen: &[&Room], slots: u32, (groups, size): (u32, u32), threads: u32) -> bool {
    let mut left = slots;
    for room in chosen {
        for llc in 0..groups as usize {
            let filled = left.min(size);
            if filled > room.llcs.get(llc).map_or(0, |&(cores, _)| cores * threads) {
                return false;
            }
            left -= filled;
        }
    }
    left == 0
}

fn describe(chosen: &[&Room], want: &Want, (groups, cores): (u32, u32)) -> Fit {
    let mut packages: Vec<PackageId> = chosen.iter().map(|room| room.package).collect();
    packages.dedup();
    let spanned = chosen.iter().map(|room| room.packages).max().unwrap_or(1);
    let packages = u32::try_from(packages.len()).unwrap_or(1);
    // A node over several packages (node interleaving): one socket per package its groups need.
    let packages = if spanned > 1 {
        let llcs = chosen.iter().map(|room| room.llcs.len()).max().unwrap_or(1);
        groups.div_ceil(u32::try_from(llcs).unwrap_or(1).div_ceil(spanned))
    } else {
        packages
    };
    let llcs = || {
        chosen
            .iter()
            .flat_map(|room| room.llcs.iter().take(groups as usize))
    };
    Fit {
        host_nodes: chosen.iter().map(|room| vec![room.id]).collect(),
        slots: want.slots,
        memory_mib: want.memory_mib,
        packages,
        groups,
        cores,
        llc_bytes: llcs().map(|&(_, bytes)| bytes).min().unwrap_or(0),
        largest_llc: llcs().map(|&(cores, _)| cores).max().unwrap_or(1),
        node_cores: chosen.iter().map(|room| room.cores).min().unwrap_or(0),
        node_memory_mib: chosen
            .iter()
            .filter_map(|room| room.memory_mib)
            .min()
            .unwrap_or(0),
    }
}

/// The whole host, evenly, when the VM is larger; or as many nodes as it has vCPUs, or as a person asked for.
fn least_bad(rooms: &[Room], want: &Want) -> Fit {
    let threads = want.threads;
    let count = want
        .nodes
        .unwrap_or(want.slots)
        .min(u32::try_from(rooms.len()).unwrap_or(1))
        .max(1);
    let chosen: Vec<&Room> = rooms.iter().take(count as usize).collect();
    let per_node = want.slots.div_ceil(count);
    let llcs = chosen
        .iter()
        .map(|room| room.llcs.len())
        .min()
        .unwrap_or(1)
        .max(1);
    let llcs = u32::try_from(llcs).unwrap_or(1);
    // As few LLCs as their smallest member allows, all of them when even that is too little.
    let smallest = chosen
        .iter()
        .flat_map(|room| &room.llcs)
        .map(|&(cores, _)| cores)
        .min()
        .unwrap_or(1)
        .max(1);
    let groups = per_node.div_ceil(smallest * threads).min(llcs);
    let fit = describe(
        &chosen,
        want,
        (groups, per_node.div_ceil(groups).div_ceil(threads)),
    );
    let beyond = rooms.iter().skip(count as usize).map(|room| room.id);
    if want.nodes.is_some() {
        return fit;
    }
    // Fewer vCPUs than nodes whose memory is needed: the last vNUMA nodes are backed by several host nodes.
    let mut fit = fit;
    let n_nodes = fit.host_nodes.len();
    for (turn, id) in beyond.enumerate() {
        fit.host_nodes[turn % n_nodes].push(id);
    }
    fit
}

/// More vNUMA nodes than host nodes, when a person asked for them: several guest nodes on one host node.
fn spread_nodes(mut fit: Fit, want: &Want) -> Fit {
    let (have, asked) = (fit.nodes(), want.nodes.unwrap_or(0));
    if asked <= have {
        return fit;
    }
    let backing = fit.host_nodes.clone();
    fit.host_nodes = (0..asked as usize)
        .map(|node| backing[node * backing.len() / asked as usize].clone())
        .collect();
    let per_node = want.slots.div_ceil(asked);
    let largest = fit.largest_llc.max(1) * want.threads;
    fit.groups = per_node.div_ceil(largest);
    fit.cores = per_node.div_ceil(fit.groups).div_ceil(want.threads);
    fit
}
