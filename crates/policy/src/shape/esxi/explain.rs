//! Why the shape came out as it did, and what lost.

use std::ops::Range;

use model::{Level, Reason};

use super::advise::{Advice, advise};
use super::setup::{CoresPerSocket, Kept, Setup};
use super::vnuma::{self, SizedBy};
use super::{Decided, build, version};

/// The decisions, in the order they were taken.
pub(super) fn reasons(decided: &Decided) -> Vec<Reason> {
    let mut reasons = vec![
        hardware_version(decided),
        numa(decided),
        cores_per_socket(decided),
        caches(decided),
    ];
    reasons.extend(sized_again(decided.setup));
    reasons.extend(clients(decided));
    reasons
}

/// Shapes that lost, each with what it would have cost or gained.
pub(super) fn rejected(decided: &Decided) -> Vec<Reason> {
    let rejected = [
        one_core_per_socket(decided),
        automatic(decided),
        prefer_ht(decided),
        rightsizing(decided),
    ];
    rejected.into_iter().flatten().collect()
}

/// `2 x 12`, or `11 + 10` where blocks are unequal; long lists are shortened.
pub(super) fn blocks(ranges: &[Range<u32>]) -> String {
    let sizes: Vec<u32> = ranges.iter().map(|range| range.end - range.start).collect();
    let (first, last) = (sizes.first().copied(), sizes.last().copied());
    match (first, last) {
        (Some(first), Some(_)) if sizes.iter().all(|&size| size == first) => {
            format!("{} x {first}", sizes.len())
        }
        (Some(first), Some(last)) if sizes.len() > 4 => {
            format!("{first} + ... + {last} ({} in all)", sizes.len())
        }
        _ => sizes
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(" + "),
    }
}

/// `1 vCPU`, `2 vCPUs`.
pub(super) fn count(number: u32, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Length of a table as a count; tables here hold at most one entry per vCPU.
pub(super) fn length<T>(table: &[T]) -> u32 {
    u32::try_from(table.len()).unwrap_or(u32::MAX)
}

/// What a node is measured by: `cores` or `threads`.
pub(super) fn measure(setup: &Setup) -> &'static str {
    if setup.prefer_ht || setup.threads > 1 {
        "thread"
    } else {
        "core"
    }
}

fn hardware_version(decided: &Decided) -> Reason {
    let (setup, hw) = (decided.setup, decided.setup.hw);
    let rules = if setup.automatic() {
        "cores per socket and virtual caches fit the host unless somebody set them"
    } else {
        "the rules before 8.0 apply, each socket has one core unless somebody set more"
    };
    let text = format!(
        "hardware version {hw} on ESXi {}: {rules}",
        version(setup.release)
    );
    Reason::new("hardware-version", text)
}

fn numa(decided: &Decided) -> Reason {
    let (setup, sizing) = (decided.setup, decided.sizing);
    let vcpus = count(setup.vcpus, "vCPU");
    let room = count(decided.capacity, measure(setup));
    let split = blocks(&sizing.nodes);
    let (code, text) = match sizing.by {
        SizedBy::HotAdd => (
            "hot-add-one-node",
            "CPU hot-add is on: the guest sees one NUMA node".to_owned(),
        ),
        SizedBy::CoresPerNode(_) => (
            "cores-per-node",
            format!("vNUMA nodes were set by hand: {split}"),
        ),
        SizedBy::MaxPerVirtualNode(_) => (
            "max-per-virtual-node",
            format!("numa.vcpu.maxPerVirtualNode was set by hand: {split}"),
        ),
        SizedBy::Sockets => (
            "nodes-follow-sockets",
            format!("the size of a socket is the size of a vNUMA node: {split}"),
        ),
        SizedBy::Kept(_) => (
            "kept-node-size",
            format!(
                "an earlier power-on sized the vNUMA nodes of {vcpus}, and that is kept: {split}"
            ),
        ),
        SizedBy::FullNodes => (
            "full-nodes",
            format!("numa.autosize fills vNUMA nodes up to the {room} of a host node: {split}"),
        ),
        SizedBy::TooSmall if sizing.clients.len() > 1 => (
            "numa-hidden",
            format!(
                "{vcpus} take more than one host node, but the guest sees one: {}",
                setup.hides_numa_because()
            ),
        ),
        SizedBy::Host if sizing.nodes.len() > 1 && setup.vcpus <= decided.capacity => (
            "spread-on-request",
            format!("{vcpus} would fit one host node, but are spread: vNUMA nodes {split}"),
        ),
        SizedBy::Host if sizing.nodes.len() > 1 => (
            "spans-nodes",
            format!("{vcpus} exceed the {room} of one NUMA node: vNUMA nodes {split}"),
        ),
        SizedBy::TooSmall | SizedBy::Host => (
            "fits-one-node",
            format!("{vcpus} fit the {room} of one NUMA node"),
        ),
    };
    Reason::new(code, text)
}

fn cores_per_socket(decided: &Decided) -> Reason {
    let (setup, topology) = (decided.setup, decided.topology);
    let cores = topology.cores_per_socket();
    let is_a_node = topology.slots_in(Level::Socket) == decided.sizing.node_vcpus;
    let (code, why) = match setup.cores {
        CoresPerSocket::Auto if setup.kept_cores == Some(cores) => {
            ("cores-per-socket-kept", "as an earlier power-on chose")
        }
        CoresPerSocket::Auto if is_a_node => {
            ("cores-per-socket-auto", "a socket is one vNUMA node")
        }
        CoresPerSocket::Auto => (
            "cores-per-socket-auto",
            "the largest that are equal and lie within one vNUMA node",
        ),
        CoresPerSocket::Default(1) => ("cores-per-socket-default", "the default"),
        CoresPerSocket::Default(_) => (
            "cores-per-socket-default",
            "what VMware recommends for this guest",
        ),
        CoresPerSocket::Manual(_) => ("cores-per-socket-manual", "as set"),
    };
    let (sockets, cores) = (count(topology.sockets, "socket"), count(cores, "core"));
    Reason::new(code, format!("{sockets} of {cores}: {why}"))
}

fn caches(decided: &Decided) -> Reason {
    let (setup, topology) = (decided.setup, decided.topology);
    let largest = topology.llcs.iter().max_by_key(|llc| llc.vcpus.len());
    let (sharing, bytes) = largest.map_or((0, 0), |llc| (llc.vcpus.len(), llc.size_bytes));
    let size = mib(bytes);
    let text = if setup.automatic() {
        format!(
            "{} of {size} with at most {sharing} of the vCPUs on each: the size of one physical last-level cache, \
             which has {}",
            count(length(&topology.llcs), "virtual cache"),
            count(decided.places.llc.0, "core")
        )
    } else {
        format!("each virtual socket shows a cache of {size}, the total of a host package")
    };
    Reason::new("virtual-llc", text)
}

fn sized_again(setup: &Setup) -> Option<Reason> {
    let why = match setup.kept_node {
        Kept::NotAsked => {
            "numa.autosize or numa.autosize.once asks for a new size at every power-on"
        }
        Kept::NoCookie => "it has no cookie",
        Kept::Stale => "its cookie is not of this number of vCPUs",
        Kept::Absent | Kept::Valid(_) => return None,
    };
    let text =
        format!("numa.autosize.vcpu.maxPerVirtualNode is not used: {why}; the VM is sized again");
    Some(Reason::new("sized-again", text))
}

fn clients(decided: &Decided) -> Option<Reason> {
    let sizing = decided.sizing;
    (sizing.clients != sizing.nodes).then(|| {
        let text = format!(
            "the host schedules {} NUMA clients: {}",
            sizing.clients.len(),
            blocks(&sizing.clients)
        );
        Reason::new("numa-clients", text)
    })
}

fn one_core_per_socket(decided: &Decided) -> Option<Reason> {
    let (setup, cores) = (decided.setup, decided.topology.cores_per_socket());
    (setup.automatic() && cores > 1).then(|| {
        let text = format!(
            "{} x 1, as before hardware version 20: every vCPU would have a cache of its own and the guest would never \
             look for an idle neighbour; it helps only where one busy flow must stay beside its interrupt",
            setup.vcpus / setup.threads
        );
        Reason::new("one-core-per-socket", text)
    })
}

/// What 8.0 would choose, where it did not get to choose.
fn automatic(decided: &Decided) -> Option<Reason> {
    let setup = decided.setup;
    if setup.cores == CoresPerSocket::Auto || setup.release < super::Release::V8_0 {
        return None;
    }
    let free = Setup {
        cores: CoresPerSocket::Auto,
        hw: setup.hw.max(super::hardware::FIRST_AUTOMATIC),
        cores_per_node: None,
        ..setup.clone()
    };
    let sizing = vnuma::size(
        &free,
        decided.places.capacity(&free),
        decided.places.nodes.len(),
    );
    let cores = build::cores_per_socket(&free, &sizing);
    (cores != decided.topology.cores_per_socket()).then(|| {
        let how = if setup.automatic() {
            "left to ESXi".to_owned()
        } else {
            format!("with hardware version {}", super::hardware::FIRST_AUTOMATIC)
        };
        let text = format!(
            "{how}, cores per socket would be {cores}: a socket would be one vNUMA node and share its cache"
        );
        Reason::new("automatic-cores-per-socket", text)
    })
}

fn prefer_ht(decided: &Decided) -> Option<Reason> {
    let (setup, places) = (decided.setup, decided.places);
    let by_host = matches!(decided.sizing.by, SizedBy::Host | SizedBy::TooSmall);
    let helps = by_host
        && decided.sizing.clients.len() > 1
        && measure(setup) == "core"
        && setup.vcpus <= places.threads
        && setup.max_per_machine_node.is_none();
    helps.then(|| {
        let text = format!(
            "numa.vcpu.preferHT would keep {} on the {} of one node: local memory and one cache, but two vCPUs to a core",
            count(setup.vcpus, "vCPU"),
            count(places.threads, "thread")
        );
        Reason::new("prefer-ht", text)
    })
}

/// The rules of thumb, where they differ from what came out.
fn rightsizing(decided: &Decided) -> Option<Reason> {
    let Advice::Fits {
        sockets,
        cores_per_socket,
    } = advise(decided.request)
    else {
        return None;
    };
    let topology = decided.topology;
    let same = topology.cores_per_socket() == cores_per_socket
        && topology.numa_nodes.len() == sockets as usize;
    (!same && decided.setup.threads == 1).then(|| {
        let text = format!(
            "VMware's rules of thumb (2017) suggest {sockets} x {cores_per_socket} with {}: one socket per host node, \
             counting memory",
            count(sockets, "vNUMA node")
        );
        Reason::new("rightsizing", text)
    })
}

/// Bytes as MiB, with the remainder where there is one.
fn mib(bytes: u64) -> String {
    match (bytes >> 20, bytes % (1 << 20)) {
        (0, 0) => "unknown size".to_owned(),
        (whole, 0) => format!("{whole} MiB"),
        _ => format!("{} KiB", bytes >> 10),
    }
}
