//! Distances between LLCs, and from nodes to memory: what the host states, and what has to stand in for it.

use model::Host;
use model::host::{Latency, NodeId};

use super::Typical;

/// LLCs of a package whose latency is at most this part of the package's largest are clearly nearer. Ours: the quadrants
/// of a 7702 (119 of 135 ns) are, the dies of a 9754 (107 of 110 ns) would not be.
const NEARER: f64 = 0.92;
/// Memory of another node of the package against local memory, where no distances are known: 74.2 and 81.5 ns with
/// SNC2 on a Platinum 8180 (reference model, section 1).
const SIBLING_NODE: f64 = 1.1;
/// Latencies that a description may hold, in ns.
const RANGE_NS: [f64; 2] = [0.1, 1e9];
/// Farthest extrapolation along SLIT distances, in trips to the nearest package. Ours; four sockets need 2.
const MOST_TRIPS: f64 = 4.0;

/// Latencies by pair.
#[derive(Debug, Clone)]
pub(super) struct Distances {
    llcs: usize,
    llc_ns: Vec<f64>,
    classes: Vec<u8>,
    nodes: usize,
    dram_ns: Vec<f64>,
    /// Between LLCs of a package, for a line homed on another.
    pub(super) home_remote_ns: f64,
}

impl Distances {
    pub(super) fn new(
        host: &Host,
        (typical, node_package): (&Typical, &[u32]),
        doubts: &mut Vec<&'static str>,
    ) -> Self {
        let (llcs, nodes) = (host.llcs.len(), host.nodes.len());
        let known = host.latency.as_ref();
        let trips = Trips::new(host, node_package, typical);
        let measured = known.filter(|known| is_square(&known.llc_ns, llcs));
        let llc_ns: Vec<f64> = cells(llcs)
            .map(|(a, b)| match measured {
                Some(known) => sane(known.llc_ns[a][b], typical.package_ns),
                None => typical_ns(host, &trips, (a, b)),
            })
            .collect();
        if measured.is_none() && host.cpus.len() > 1 {
            doubts.push("latencies between caches are not known; those of similar machines stand in, in the order of the firmware's distances");
        }
        let several = host.packages.len() > 1;
        let home_remote = known.and_then(|known| known.home_remote_ns);
        if home_remote.is_none() && several && llcs > host.packages.len() {
            doubts.push(
                "what a line homed on another package costs is not known; a trip there stands in",
            );
        }
        let farthest = llc_ns.iter().copied().fold(0.0, f64::max);
        let home_remote_ns = match home_remote {
            Some(ns) => sane(ns, typical.home_remote_ns),
            None if measured.is_some() => farthest,
            None => typical.home_remote_ns,
        };
        Self {
            llcs,
            classes: classes(host, &llc_ns, measured.is_some()),
            llc_ns,
            nodes,
            dram_ns: dram(known, (typical, &trips), nodes, doubts),
            home_remote_ns,
        }
    }

    pub(super) fn llc_ns(&self, requester: u32, owner: u32) -> f64 {
        self.llc_ns[requester as usize * self.llcs + owner as usize]
    }

    pub(super) fn dram_ns(&self, from: u32, node: u32) -> f64 {
        self.dram_ns[from as usize * self.nodes + node as usize]
    }

    pub(super) fn class(&self, a: u32, b: u32) -> u8 {
        self.classes[a as usize * self.llcs + b as usize]
    }
}

/// Memory latency by (node of the CPU, node of the memory). SLIT is an order, not a measurement (two-socket machines
/// have 21 to 32 for about the same latency), so that it only interpolates between what local and remote memory take.
fn dram(
    known: Option<&Latency>,
    (typical, trips): (&Typical, &Trips),
    nodes: usize,
    doubts: &mut Vec<&'static str>,
) -> Vec<f64> {
    let local = known.and_then(|known| known.dram_local_ns);
    let remote = known.and_then(|known| known.dram_remote_ns);
    let local_ns = sane(
        local.unwrap_or(typical.dram_local_ns),
        typical.dram_local_ns,
    );
    let ratio = typical.dram_remote_ns / typical.dram_local_ns;
    let remote_ns = sane(remote.unwrap_or(ratio * local_ns), ratio * local_ns).max(local_ns);
    if local.is_none() {
        doubts.push("the latency of memory is not known; that of similar machines stands in");
    }
    if remote.is_none() && trips.are_many() {
        doubts.push(
            "the latency of remote memory is not known; the ratio of similar machines stands in",
        );
    }
    if trips.interpolate() {
        doubts.push("the latency of memory between near and far is interpolated by the firmware's distances, which are no measurement");
    }
    let ns = |(from, node)| match trips.between(from, node) {
        None => local_ns * SIBLING_NODE,
        Some(trips) => local_ns + (remote_ns - local_ns) * trips,
    };
    cells(nodes)
        .map(|(from, node)| {
            if from == node {
                local_ns
            } else {
                ns((from, node))
            }
        })
        .collect()
}

/// Distances of nodes as parts or multiples of the trip to the nearest other package.
struct Trips<'a> {
    host: &'a Host,
    packages: &'a [u32],
    /// Distance beyond 10 of the nearest node of another package, by node.
    nearest: Vec<f64>,
}

impl<'a> Trips<'a> {
    fn new(host: &'a Host, packages: &'a [u32], typical: &Typical) -> Self {
        let nodes = host.nodes.len();
        let nearest_of = |from: usize| {
            let others = (0..nodes).filter(|&node| packages[node] != packages[from]);
            let nearest = others
                .map(|node| beyond(host, from, node))
                .filter(|&distance| distance > 0.0)
                .fold(f64::INFINITY, f64::min);
            if nearest.is_finite() {
                nearest
            } else {
                typical.slit - 10.0
            }
        };
        Self {
            host,
            packages,
            nearest: (0..nodes).map(nearest_of).collect(),
        }
    }

    /// `None` within a package whose distances are not known.
    fn between(&self, from: usize, node: usize) -> Option<f64> {
        let is_inside = self.packages[from] == self.packages[node];
        if is_inside && self.host.distances.is_empty() {
            return None;
        }
        let trips = beyond(self.host, from, node) / self.nearest[from];
        let least = if is_inside { 0.0 } else { 1.0 };
        Some(trips.clamp(least, MOST_TRIPS))
    }

    fn are_many(&self) -> bool {
        self.packages.windows(2).any(|pair| pair[0] != pair[1])
    }

    /// Whether some latency of memory is neither local nor that of the nearest package.
    fn interpolate(&self) -> bool {
        cells(self.packages.len()).any(|(from, node)| {
            from != node
                && self
                    .between(from, node)
                    .is_none_or(|trips| (trips - 1.0).abs() > 1e-9)
        })
    }
}

fn typical_ns(host: &Host, trips: &Trips, (a, b): (usize, usize)) -> f64 {
    let typical = super::typical(host);
    let [from, to] = [a, b].map(|llc| host.llcs[llc].node.index());
    if a == b {
        typical.same_ns
    } else if trips.packages[from] != trips.packages[to] {
        let far = trips.between(from, to).unwrap_or(1.0);
        typical.same_ns + (typical.cross_ns - typical.same_ns) * far
    } else if from == to {
        typical.node_ns
    } else {
        typical.package_ns
    }
}

/// [`super::Fabric::distance_class`] by pair: by latency where it is measured, otherwise by dies.
fn classes(host: &Host, llc_ns: &[f64], is_measured: bool) -> Vec<u8> {
    let llcs = host.llcs.len();
    let package = |llc: usize| {
        let first = host.llcs[llc].cpus.first().and_then(|id| host.cpu(id));
        first.map(|cpu| cpu.package)
    };
    let packages: Vec<_> = (0..llcs).map(package).collect();
    let die = |llc: usize| {
        let cpus = &host.llcs[llc].cpus;
        host.dies.iter().position(|die| die.intersects(cpus))
    };
    let dies: Vec<_> = (0..llcs).map(die).collect();
    let farthest = |a: usize| {
        let others = (0..llcs).filter(|&b| b != a && packages[b] == packages[a]);
        others.map(|b| llc_ns[a * llcs + b]).fold(0.0, f64::max)
    };
    let farthest: Vec<f64> = (0..llcs).map(farthest).collect();
    let is_near = |a: usize, b: usize| {
        if is_measured {
            llc_ns[a * llcs + b] <= NEARER * farthest[a]
        } else {
            dies[a].is_some() && dies[a] == dies[b]
        }
    };
    let class = |(a, b)| match (a == b, packages[a] == packages[b]) {
        (true, _) => 0,
        (_, false) => 3,
        _ if is_near(a, b) => 1,
        _ => 2,
    };
    cells(llcs).map(class).collect()
}

fn beyond(host: &Host, from: usize, node: usize) -> f64 {
    let distance = host.distance(NodeId(from as u32), NodeId(node as u32));
    (f64::from(distance) - 10.0).max(0.0)
}

fn is_square(matrix: &[Vec<f64>], size: usize) -> bool {
    matrix.len() == size && matrix.iter().all(|row| row.len() == size)
}

/// A latency in its range; `other` where it is not a number.
fn sane(ns: f64, other: f64) -> f64 {
    let ns = if ns.is_nan() { other } else { ns };
    ns.clamp(RANGE_NS[0], RANGE_NS[1])
}

fn cells(size: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..size * size).map(move |cell| (cell / size, cell % size))
}
