//! Memory traffic: what flows through nodes, the links of LLCs and the links between packages.
//!
//! Each pipe is settled as if it were the only one that makes anybody wait, and a load takes the factor of the worst pipe on
//! its way. So more bandwidth in one place never makes another place busier, which it may in a real machine; in return
//! nobody ever loses by it, and every pipe's demand fits. Memory that lies on several nodes is taken to wait for all of them
//! as for the one that is settled: exact where nodes are alike.

use super::super::memory::{Flow, Settled, settle};
use super::super::vector::LINE;
use super::tally::{Groups, Partner};
use super::trail::WHOLE;
use super::{Fabric, Vector};

/// Something that bytes flow through.
#[derive(Debug, Clone)]
struct Pipe {
    capacity: f64,
    flows: Vec<Flow>,
    settled: Settled,
}

/// The pipes of a host.
#[derive(Debug, Clone)]
pub(super) struct Traffic {
    nodes: Vec<Pipe>,
    links: Vec<Pipe>,
    /// Out of each package.
    remote: Vec<Pipe>,
    /// Memory latency by LLC and node.
    dram_ns: Vec<f64>,
    /// Mean latency of an LLC to the others of its package, and to those of others.
    means: Vec<[f64; 2]>,
    /// By package: shares of the VM at hand.
    shares: Vec<u64>,
    /// By VM: time in ns of a mean exchange.
    coherence_ns: Vec<f64>,
}

impl Pipe {
    fn new(capacity: f64) -> Self {
        Self {
            capacity,
            flows: Vec::new(),
            settled: Settled {
                factor: 1.0,
                bytes_per_ns: 0.0,
            },
        }
    }

    fn push(&mut self, flow: Flow) {
        if flow.bytes > 0.0 {
            self.flows.push(flow);
        }
    }
}

impl Traffic {
    pub(super) fn new(fabric: &Fabric) -> Self {
        let [llcs, nodes] = [fabric.llc_bytes.len(), fabric.node_package.len()].map(|n| n as u32);
        let pairs = (0..llcs).flat_map(|llc| (0..nodes).map(move |node| (llc, node)));
        Self {
            nodes: fabric
                .node_bytes_per_ns
                .iter()
                .map(|&c| Pipe::new(c))
                .collect(),
            links: vec![Pipe::new(fabric.llc_link_bytes_per_ns); llcs as usize],
            remote: vec![Pipe::new(fabric.remote_bytes_per_ns); fabric.packages],
            dram_ns: pairs.map(|(llc, node)| fabric.dram_ns(llc, node)).collect(),
            means: (0..llcs).map(|llc| means(fabric, llc)).collect(),
            shares: vec![0; fabric.packages],
            coherence_ns: Vec::new(),
        }
    }

    /// Settles all pipes under the cells of an epoch.
    pub(super) fn settle(&mut self, fabric: &Fabric, groups: &Groups, vectors: &[Vector]) {
        self.coherence_ns.clear();
        for (vm, partners) in groups.vms() {
            debug_assert_eq!(vm, self.coherence_ns.len());
            let ns = self.mean_coherence_ns(fabric, partners);
            self.coherence_ns.push(ns);
        }
        let has_links = fabric.llc_link_bytes_per_ns.is_finite();
        let has_remote = fabric.remote_bytes_per_ns.is_finite();
        for cell in groups.cells() {
            let vector = &vectors[cell.vector as usize];
            let memory = groups.memory(cell.vm as usize);
            let row = &self.dram_ns[cell.llc as usize * memory.len()..];
            let dram_ns: f64 = memory.iter().zip(row).map(|(weight, ns)| weight * ns).sum();
            let lines = vector.shared_lines_per_us / vector.sharing_mlp;
            let flow = Flow {
                bytes: cell.busy * cell.misses_per_us * LINE,
                work_ns: 1000.0 + lines * self.coherence_ns[cell.vm as usize],
                wait_ns: cell.misses_per_us * dram_ns / vector.mlp,
            };
            if has_links {
                self.links[cell.llc as usize].push(flow);
            }
            for (node, &weight) in memory.iter().enumerate() {
                let part = Flow {
                    bytes: flow.bytes * weight,
                    ..flow
                };
                self.nodes[node].push(part);
                let package = fabric.node_package[node];
                if has_remote && package != fabric.llc_package[cell.llc as usize] {
                    self.remote[package as usize].push(part);
                }
            }
        }
        let pipes = self.nodes.iter_mut().chain(&mut self.links);
        for pipe in pipes.chain(&mut self.remote) {
            pipe.settled = settle(pipe.capacity, &pipe.flows);
            pipe.flows.clear();
        }
    }

    /// Latency of a node's memory under an LLC against that of an idle machine.
    pub(super) fn factor(&self, fabric: &Fabric, llc: u32, node: u32) -> f64 {
        let pipe = |pipes: &[Pipe], index: u32| pipes[index as usize].settled.factor;
        let factor = pipe(&self.nodes, node).max(pipe(&self.links, llc));
        let package = fabric.node_package[node as usize];
        if package == fabric.llc_package[llc as usize] {
            factor
        } else {
            factor.max(pipe(&self.remote, package))
        }
    }

    pub(super) fn node_load(&self, node: u32) -> (f64, f64) {
        let settled = self.nodes[node as usize].settled;
        (settled.bytes_per_ns, settled.factor)
    }

    pub(super) fn link_load(&self, llc: u32) -> (f64, f64) {
        let settled = self.links[llc as usize].settled;
        (settled.bytes_per_ns, settled.factor)
    }

    /// Mean over all pairs of a VM, with the mean latencies of each LLC instead of those of each pair. Only used for what
    /// the VM asks of memory, since it takes the time of LLCs, not of pairs of them.
    fn mean_coherence_ns(&mut self, fabric: &Fabric, partners: &[Partner]) -> f64 {
        let unit = |share: u64| share as f64 / WHOLE as f64;
        self.shares.fill(0);
        for partner in partners {
            self.shares[fabric.llc_package[partner.llc as usize] as usize] += partner.share;
        }
        let all: u64 = self.shares.iter().sum();
        let (mut sum, mut pairs) = (0.0, 0.0);
        for partner in partners {
            let llc = partner.llc;
            let mine = unit(partner.share);
            let own = unit(partner.squares) / WHOLE as f64;
            let inside = unit(self.shares[fabric.llc_package[llc as usize] as usize]);
            let [same_package, other_package] = self.means[llc as usize];
            let same = (mine * mine - own).max(0.0);
            let near = mine * (inside - mine).max(0.0);
            let far = mine * (unit(all) - inside).max(0.0);
            let [same_ns, _] = fabric.coherence_by_home(llc, llc);
            sum += same * same_ns + near * same_package + far * other_package;
            pairs += same + near + far;
        }
        if pairs > 0.0 { sum / pairs } else { 0.0 }
    }
}

fn means(fabric: &Fabric, llc: u32) -> [f64; 2] {
    let package = |llc: u32| fabric.llc_package[llc as usize];
    let mean = |is_inside: bool| {
        let others = 0..fabric.llc_package.len() as u32;
        let others =
            others.filter(|&other| other != llc && (package(other) == package(llc)) == is_inside);
        let (count, sum) = others.fold((0.0, 0.0), |(count, sum), other| {
            (count + 1.0, sum + fabric.coherence_by_home(llc, other)[0])
        });
        if count > 0.0 { sum / count } else { 0.0 }
    };
    [mean(true), mean(false)]
}
