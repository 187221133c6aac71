//! The shape each ESXi release gives.
//!
//! **Problem.** A VM file says little; ESXi settles sockets, vNUMA nodes and caches at power-on, by rules that changed
//! with releases and with the VM's hardware version, and writes some of the results back into the file.
//!
//! **Approach.** The release is the host's, the hardware version the VM's (its compatibility); an old VM on a new host
//! keeps its old shape. Three generations:
//!
//! | host, hardware version | cores per socket | vNUMA node | cache of a guest |
//! |---|---|---|---|
//! | 5.5, 6.0 | 1 unless set | cores per socket if above 1, else the host's nodes | per socket, size of a package |
//! | 6.5 to 8.0, below 20 | 1 unless set (2 for some guests) | the host's nodes; a socket stays together | same |
//! | 8.0, from 20 | automatic: one vNUMA node | same | one physical last-level cache |
//!
//! **Terminology.** A *vNUMA node* is VMware's VPD, a *client* its PPD ([`NumaClient`]).
//!
//! **Algorithm.** `setup` settles every key, `legality` refuses what would not power on, `vnuma` cuts nodes and
//! clients, `build` chooses sockets and fills in caches and memory. What VMware does not document was chosen once, is
//! commented where it is done, and comes with a reason `uncertain` where it matters.
//!
//! **Properties.** Nodes and clients are contiguous blocks that cover every vCPU once; the memory of nodes, and of
//! clients, adds up to the VM's. Other machines' decisions count: a size kept in the VM file wins.
//!
//! Sources are named at each rule; documents are VMware's, posts Frank Denneman's at frankdenneman.nl by date.

mod advise;
mod build;
mod doubts;
mod explain;
mod findings;
mod hardware;
mod legality;
mod log;
mod places;
mod setup;
mod vnuma;

use model::{EsxiKeys, GuestCpu, GuestTopology};

use super::{NumaClient, Refusal, Release, Request, Shape};
use places::Places;
use setup::{CoresPerSocket, Kept, Setup};
use vnuma::{SizedBy, Sizing};

pub use advise::{Advice, advise};

/// Everything that was decided, for those who explain it.
struct Decided<'a> {
    request: &'a Request<'a>,
    setup: &'a Setup,
    places: &'a Places,
    /// vCPUs that a host node takes.
    capacity: u32,
    sizing: &'a Sizing,
    topology: &'a GuestTopology,
    clients: &'a [NumaClient],
}

/// Shapes a VM as the release does at power-on. Overrides stand for the VM's keys and win over its file.
///
/// # Errors
/// The codes listed at the legality checks: a hardware version newer than the release, more vCPUs or memory than the
/// version allows, more vCPUs than the host has CPUs, cores per socket, threads or nodes that do not divide.
pub fn shape(request: &Request, release: Release) -> Result<Shape, Refusal> {
    power_on(request, release).map(|(shape, _)| shape)
}

/// Shapes a VM, and gives its keys as they stand after the power-on: ESXi keeps automatic sizes in the VM file, so that
/// the guest sees the same topology on every later host until its number of vCPUs changes.
///
/// # Errors
/// As [`shape`].
pub fn power_on(request: &Request, release: Release) -> Result<(Shape, EsxiKeys), Refusal> {
    let setup = Setup::new(request, release);
    legality::check(&setup, request.host)?;
    let places = Places::new(request.host, &request.vm.esxi.node_affinity);
    let capacity = places.capacity(&setup);
    let sizing = vnuma::size(&setup, capacity, places.nodes.len());
    let cores = build::cores_per_socket(&setup, &sizing);
    let topology = build::topology(&setup, &places, &sizing, cores);
    let clients = build::clients(&sizing, &topology);
    let decided = Decided {
        request,
        setup: &setup,
        places: &places,
        capacity,
        sizing: &sizing,
        topology: &topology,
        clients: &clients,
    };
    let keys = kept_keys(&decided);
    let mut reasons = explain::reasons(&decided);
    reasons.extend(doubts::doubts(&decided));
    reasons.extend(log::lines(&decided));
    let device_nodes = request.vm.devices.iter().filter_map(|device| {
        let node = findings::device_node(&decided, device)?;
        Some((device.name.clone(), node))
    });
    let shape = Shape {
        device_nodes: device_nodes.collect(),
        cpu: GuestCpu::Unstated,
        hugepage_kib: request.vm.hugepage_kib,
        reasons,
        rejected: explain::rejected(&decided),
        findings: findings::findings(&decided),
        numa_clients: clients,
        topology,
    };
    Ok((shape, keys))
}

/// The VM's keys with what ESXi adds at power-on. Nothing is added where a person decided, or hot-add prevents sizing.
fn kept_keys(decided: &Decided) -> EsxiKeys {
    let (setup, mut keys) = (decided.setup, decided.request.vm.esxi.clone());
    let kept = matches!(setup.kept_node, Kept::Valid(_));
    if kept
        || !matches!(
            decided.sizing.by,
            SizedBy::Host | SizedBy::TooSmall | SizedBy::FullNodes
        )
    {
        return keys;
    }
    keys.autosize_max_per_virtual_node = Some(decided.sizing.node_vcpus);
    // The cookie's form changed between 6.5 and 7.0; 6.7 is taken with 7.0.
    let tag = if setup.release <= Release::V6_5 {
        1
    } else {
        u64::from(setup.cores_kept_together()) * 10 + 2
    };
    keys.autosize_cookie = Some(u64::from(setup.vcpus) * 10_000 + tag);
    if setup.cores == CoresPerSocket::Auto {
        keys.cores_per_socket_cookie = Some(decided.topology.cores_per_socket());
    }
    keys
}

/// The release as VMware writes it.
fn version(release: Release) -> &'static str {
    match release {
        Release::V5_5 => "5.5",
        Release::V6_0 => "6.0",
        Release::V6_5 => "6.5",
        Release::V6_7 => "6.7",
        Release::V7_0 => "7.0",
        Release::V8_0 => "8.0",
    }
}

#[cfg(test)]
mod tests;
