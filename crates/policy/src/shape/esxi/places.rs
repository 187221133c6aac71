//! The host nodes a VM may use, as the NUMA scheduler counts them.

use std::ops::Range;

use model::{CpuSet, Finding, Host};

use super::setup::Setup;

/// Host nodes with CPUs, in order of the kernel's number, cut down to `numa.nodeAffinity`.
///
/// Sizes are those of the smallest node: ESXi's way with unequal nodes is not documented, and a client that fits the
/// smallest fits all.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) nodes: Vec<Place>,
    /// Cores of the smallest node.
    pub(super) cores: u32,
    /// Threads of the smallest node.
    pub(super) threads: u32,
    /// Memory of the smallest node in MiB; 0 means unknown.
    pub(super) memory_mib: u64,
    /// Cores and bytes of the smallest last-level cache.
    pub(super) llc: (u32, u64),
    /// Bytes of all last-level caches of the first package.
    pub(super) package_llc_bytes: u64,
    /// Nodes do not have the same number of cores.
    pub(super) uneven: bool,
    /// Some package has several nodes (SNC, NPS, two dies).
    pub(super) splits_packages: bool,
}

/// One host node.
#[derive(Debug)]
pub(super) struct Place {
    /// The kernel's number.
    pub(super) id: u32,
    pub(super) cores: u32,
    pub(super) memory_mib: u64,
}

impl Places {
    /// Counts the nodes of a host that an affinity allows; an affinity without a node of this host is no affinity.
    pub(super) fn new(host: &Host, affinity: &[u32]) -> Self {
        let (cores_of_node, cores_of_llc) = count_cores(host);
        let with_cpus: Vec<_> = host.cpu_nodes().collect();
        let mut allowed: Vec<_> = with_cpus
            .iter()
            .filter(|(_, node)| affinity.contains(&node.id))
            .collect();
        if allowed.is_empty() {
            allowed = with_cpus.iter().collect();
        }
        let cpus = allowed
            .iter()
            .fold(CpuSet::new(), |all, (_, node)| all.union(&node.cpus));
        let threads = allowed.iter().map(|(_, node)| node.cpus.len()).min();
        let nodes: Vec<Place> = allowed
            .iter()
            .map(|(id, node)| Place {
                id: node.id,
                cores: cores_of_node[id.index()].max(1),
                memory_mib: node.memory_mib,
            })
            .collect();
        let cores = nodes.iter().map(|node| node.cores);
        let llcs = host.llcs.iter().zip(cores_of_llc);
        Self {
            cores: cores.clone().min().unwrap_or(1),
            threads: u32::try_from(threads.unwrap_or(1)).unwrap_or(u32::MAX),
            memory_mib: nodes.iter().map(|node| node.memory_mib).min().unwrap_or(0),
            llc: llcs
                .filter(|(llc, _)| llc.cpus.intersects(&cpus))
                .map(|(llc, cores)| (cores.max(1), llc.size_bytes))
                .min()
                .unwrap_or((1, 0)),
            package_llc_bytes: package_llc_bytes(host),
            uneven: cores.clone().min() != cores.max(),
            splits_packages: with_cpus.len() > host.packages.len(),
            nodes,
        }
    }

    /// vCPUs that a node takes: cores, or threads where the VM prefers them or shows them to its guest.
    pub(super) fn capacity(&self, setup: &Setup) -> u32 {
        let counted = if setup.prefer_ht || setup.threads > 1 {
            self.threads
        } else {
            self.cores
        };
        counted
            .min(setup.max_per_machine_node.unwrap_or(u32::MAX))
            .max(1)
    }

    /// The host node of each of `n_clients` clients, by index: in order, neighbours together, over as many nodes as
    /// there are clients. A guess: ESXi places clients by load, close together by measured latency.
    pub(super) fn homes(&self, n_clients: usize) -> Vec<usize> {
        let used = self.nodes.len().min(n_clients);
        (0..n_clients)
            .map(|client| client * used / n_clients)
            .collect()
    }

    /// Kernel's numbers of the nodes that back a range of vCPUs.
    pub(super) fn backing(&self, vcpus: &Range<u32>, clients: &[Range<u32>]) -> Vec<u32> {
        let homes = self.homes(clients.len());
        let touched = clients
            .iter()
            .zip(homes)
            .filter(|(client, _)| client.start < vcpus.end && vcpus.start < client.end);
        let mut ids: Vec<u32> = touched.map(|(_, home)| self.nodes[home].id).collect();
        ids.dedup();
        ids
    }
}

/// Says which nodes of `numa.nodeAffinity` the host lacks.
pub(super) fn affinity_findings(host: &Host, affinity: &[u32]) -> Option<Finding> {
    let known = |id: &&u32| host.cpu_nodes().any(|(_, node)| node.id == **id);
    let missing: Vec<String> = affinity
        .iter()
        .filter(|id| !known(id))
        .map(u32::to_string)
        .collect();
    let effect = if missing.len() == affinity.len() {
        "the VM is placed as if it had no affinity"
    } else {
        "the others are used"
    };
    (!missing.is_empty()).then(|| {
        let text = format!(
            "numa.nodeAffinity names nodes {} that this host does not have; {effect}",
            missing.join(", ")
        );
        Finding::warning("node-affinity-unknown", text)
    })
}

/// Cores by node and by last-level cache; a core counts where its first thread is.
fn count_cores(host: &Host) -> (Vec<u32>, Vec<u32>) {
    let mut of_node = vec![0; host.nodes.len()];
    let mut of_llc = vec![0; host.llcs.len()];
    let firsts = host.cores.iter().filter_map(|core| core.cpus.first());
    for cpu in firsts.filter_map(|first| host.cpu(first)) {
        of_node[cpu.node.index()] += 1;
        of_llc[cpu.llc.index()] += 1;
    }
    (of_node, of_llc)
}

fn package_llc_bytes(host: &Host) -> u64 {
    let Some(package) = host.packages.first() else {
        return 0;
    };
    host.llcs
        .iter()
        .filter(|llc| llc.cpus.intersects(&package.cpus))
        .fold(0, |sum, llc| sum.saturating_add(llc.size_bytes))
}
