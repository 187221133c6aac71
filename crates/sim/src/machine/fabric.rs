//! Dense tables of a host: how far caches and memories are from each other, and what links carry.

use model::Host;
use model::host::{LlcId, NodeId};

/// Bytes of a cache line.
pub const LINE: f64 = 64.0;

/// Core to core inside an LLC where nothing is known: 25 ns where a package has several (Rome, Milan), 48 where it has
/// one (Skylake to Ice Lake); medians of the reference model, section 1.
const SAME_LLC_NS: [f64; 2] = [25.0, 48.0];
/// The same between LLCs of a package (99 to 135 on EPYC) and between packages (134 to 233); section 1.
const SAME_PACKAGE_NS: f64 = 120.0;
const OTHER_PACKAGE_NS: f64 = 200.0;
/// Memory of the own node (78 to 125 ns), and how much further another package's is (1.5 to 1.9 times); sections 1, 2.5.
const DRAM_NS: f64 = 105.0;
const DRAM_REMOTE: f64 = 1.7;
/// L2 of a core where nothing is known: 512 KiB (Zen 2 to 4; 1 to 2 MiB on newer Xeons).
const L2_BYTES: f64 = 512.0 * 1024.0;

/// Tables of one host, by index of LLC and node.
#[derive(Debug, Clone)]
pub struct Fabric {
    /// Size of each LLC in bytes.
    pub llc_bytes: Vec<f64>,
    /// L2 of a core in bytes.
    pub l2_bytes: f64,
    /// What memory of each node carries, in bytes per nanosecond; infinite when not known.
    pub node_bytes_per_ns: Vec<f64>,
    /// What the link of an LLC carries, in bytes per nanosecond; infinite when not known.
    pub link_bytes_per_ns: f64,
    /// Node of each LLC.
    pub llc_node: Vec<u32>,
    llc_package: Vec<u32>,
    node_package: Vec<u32>,
    /// By requesting and owning LLC, with the line at home in their package.
    coherence_ns: Vec<f64>,
    home_remote_ns: f64,
    /// By LLC and node.
    dram_ns: Vec<f64>,
    farthest_in_package_ns: f64,
    doubts: Vec<String>,
}

impl Fabric {
    /// The tables of a host. What it does not say is taken from machines of its kind; [`doubts`](Self::doubts) says so.
    pub fn new(host: &Host) -> Self {
        let llcs = host.llcs.len();
        let package = |llc: usize| {
            let first = host.llcs[llc].cpus.first();
            first
                .and_then(|cpu| host.cpu(cpu))
                .map_or(0, |cpu| cpu.package.0)
        };
        let llc_package: Vec<u32> = (0..llcs).map(package).collect();
        let several = host.llcs.len() > host.packages.len();
        let known = host.latency.as_ref();
        let coherence = |pair: usize| {
            let (from, to) = (pair / llcs, pair % llcs);
            let measured = known.and_then(|it| it.llc_ns.get(from)?.get(to).copied());
            measured.unwrap_or_else(|| {
                if from == to {
                    SAME_LLC_NS[usize::from(!several)]
                } else if llc_package[from] == llc_package[to] {
                    SAME_PACKAGE_NS
                } else {
                    OTHER_PACKAGE_NS
                }
            })
        };
        let coherence_ns: Vec<f64> = (0..llcs * llcs).map(coherence).collect();
        let pairs = (0..llcs * llcs).filter(|pair| pair / llcs != pair % llcs);
        let inside = pairs
            .clone()
            .filter(|pair| llc_package[pair / llcs] == llc_package[pair % llcs]);
        let most = |pairs: &mut dyn Iterator<Item = usize>| {
            pairs.map(|pair| coherence_ns[pair]).fold(0.0_f64, f64::max)
        };
        let farthest_in_package_ns = most(&mut inside.clone());
        let farthest = most(&mut pairs.clone());
        let mut doubts = Vec::new();
        if known.is_none() {
            doubts.push("latencies between caches are typical values, not this host's".to_owned());
        }
        let mut fabric = Self {
            llc_bytes: host.llcs.iter().map(|llc| llc.size_bytes as f64).collect(),
            l2_bytes: l2_bytes(host),
            node_bytes_per_ns: Vec::new(),
            link_bytes_per_ns: f64::INFINITY,
            llc_node: host.llcs.iter().map(|llc| llc.node.0).collect(),
            node_package: node_packages(host),
            home_remote_ns: known.and_then(|it| it.home_remote_ns).unwrap_or(farthest),
            dram_ns: Vec::new(),
            llc_package,
            coherence_ns,
            farthest_in_package_ns,
            doubts,
        };
        fabric.fill_memory(host);
        fabric
    }

    fn fill_memory(&mut self, host: &Host) {
        let known = host.latency.as_ref();
        let local = known.and_then(|it| it.dram_local_ns);
        let remote = known.and_then(|it| it.dram_remote_ns);
        if local.is_none() {
            self.doubts
                .push("latencies of memory are typical values, not this host's".to_owned());
        }
        let local = local.unwrap_or(DRAM_NS);
        let remote = remote.unwrap_or(local * DRAM_REMOTE);
        let nodes = host.nodes.len();
        let ids = |count: usize| (0..count as u32).map(NodeId);
        let far = ids(nodes).flat_map(|a| ids(nodes).map(move |b| (a, b)));
        let far = far.map(|(a, b)| host.distance(a, b)).max().unwrap_or(10);
        for llc in &host.llcs {
            for node in ids(nodes) {
                // SLIT says what lies between near and far, not how far that is (reference model, section 1).
                let distance = host.distance(llc.node, node).max(10);
                let way = f64::from(distance - 10) / f64::from((far - 10).max(1));
                self.dram_ns.push(local + (remote - local) * way);
            }
        }
        let Some(bandwidth) = &host.bandwidth else {
            self.doubts
                .push("bandwidth of memory is not known: none is missing".to_owned());
            self.node_bytes_per_ns = vec![f64::INFINITY; nodes];
            return;
        };
        let bytes_per_ns = |mbs: u64| mbs as f64 / 1000.0;
        for node in 0..nodes {
            let package = self.node_package[node];
            let sharers = self
                .node_package
                .iter()
                .filter(|&&other| other == package)
                .count();
            let whole = bytes_per_ns(bandwidth.package_mbs);
            self.node_bytes_per_ns.push(whole / sharers.max(1) as f64);
        }
        if bandwidth.llc_link_mbs > 0 {
            self.link_bytes_per_ns = bytes_per_ns(bandwidth.llc_link_mbs);
        }
    }

    /// One way of a cache line from the LLC that owns it to the one that asks, when its memory is on a node. Other LLCs
    /// of a package are as far as another package if the line is at home there (reference model, section 0, finding 1).
    pub fn coherence_ns(&self, requester: LlcId, owner: LlcId, home: NodeId) -> f64 {
        let (from, to) = (requester.index(), owner.index());
        let near = self.coherence_ns[from * self.llc_package.len() + to];
        let package = self.llc_package[from];
        let is_home_remote = from != to
            && package == self.llc_package[to]
            && self.node_package[home.index()] != package;
        if is_home_remote {
            near.max(self.home_remote_ns)
        } else {
            near
        }
    }

    /// Memory of a node, read from an LLC, without load.
    pub fn dram_ns(&self, llc: LlcId, node: NodeId) -> f64 {
        self.dram_ns[llc.index() * self.node_package.len() + node.index()]
    }

    /// How far two LLCs are: 0 the same, 1 clearly nearer than a package is wide, 2 one package, 3 two packages.
    pub fn distance_class(&self, a: LlcId, b: LlcId) -> u8 {
        // The step at the quadrant of a Rome is 119 to 135 ns; less than a tenth is noise between machines.
        const CLEARLY: f64 = 0.92;
        if a == b {
            0
        } else if self.llc_package[a.index()] != self.llc_package[b.index()] {
            3
        } else {
            let ns = self.coherence_ns[a.index() * self.llc_package.len() + b.index()];
            if ns < CLEARLY * self.farthest_in_package_ns {
                1
            } else {
                2
            }
        }
    }

    /// LLCs.
    pub fn llcs(&self) -> usize {
        self.llc_bytes.len()
    }

    /// Nodes.
    pub fn nodes(&self) -> usize {
        self.node_package.len()
    }

    /// What of these tables is not known of this host.
    pub fn doubts(&self) -> &[String] {
        &self.doubts
    }
}

fn l2_bytes(host: &Host) -> f64 {
    let sizes = host
        .caches
        .iter()
        .filter(|cache| cache.level == 2 && cache.size_bytes > 0);
    sizes
        .map(|cache| cache.size_bytes as f64)
        .next()
        .unwrap_or(L2_BYTES)
}

/// The package of each node; nodes without CPUs are counted to the first.
fn node_packages(host: &Host) -> Vec<u32> {
    let nodes = (0..host.nodes.len() as u32).map(NodeId);
    nodes
        .map(|node| host.package_of_node(node).map_or(0, |package| package.0))
        .collect()
}
