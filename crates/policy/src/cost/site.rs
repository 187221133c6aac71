//! A host prepared for placing: domains, their capacities and their distances in dense tables, made once per host.

use std::collections::BTreeMap;

use model::host::{CoreId, LlcId, NodeId, PackageId};
use model::placement::Reserve;
use model::{CpuSet, Host};

use super::Term;
use super::weights::{self, Load, PER_MILLI, Resource};

/// Extra latency of an LLC of the same node, in ns, where the host does not say. The four figures are medians over the
/// measured machines of the reference (machines.csv): 25 within an LLC, 110, 130 and 200 to 235 beyond.
const TYPICAL_NODE_NS: i64 = 85;
/// The same for an LLC of another node of the package.
const TYPICAL_PACKAGE_NS: i64 = 105;
/// The same for another package, one hop away.
const TYPICAL_REMOTE_NS: i64 = 190;
/// Memory behind another package against local memory, in thousandths more; 122 and 205 ns on Rome.
const TYPICAL_REMOTE_DRAM: i64 = 680;
/// Memory of another node of the package, in thousandths more: SNC2 measures 74 and 82 ns (reference model 1).
const SIBLING_DRAM: i64 = 100;

/// Hosts with at most so many domains get a table of all pairs.
const DENSE: usize = 256;

/// A host as the cost function sees it.
#[derive(Debug, Clone)]
pub struct Site {
    /// Domains by LLC, then node, then isolated last.
    pub domains: Vec<Domain>,
    /// Nodes, by the host's index.
    pub nodes: Vec<SiteNode>,
    /// Those of them that have domains of shared CPUs.
    pub home_nodes: Vec<NodeId>,
    /// Most threads of a core.
    pub threads_per_core: u32,
    extra_ns: Distances,
    extra_dram: Matrix,
    home_remote_ns: Option<i64>,
    /// Extra ns by (domain, domain) without regard to memory; empty on hosts with more than [`DENSE`] domains.
    pairs: Vec<i64>,
}

/// CPUs that share an LLC and a home node, and are all isolated or all not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// Its LLC.
    pub llc: LlcId,
    /// Its node.
    pub node: NodeId,
    /// Its package.
    pub package: PackageId,
    /// Usable CPUs.
    pub cpus: CpuSet,
    /// Cores with a usable CPU.
    pub cores: u32,
    /// Those of them that have all their CPUs here: none is reserved for the host, or in another domain.
    pub whole_cores: u32,
    /// Those of them of the fastest kind.
    pub fast_cores: u32,
    /// Usable threads.
    pub threads: u32,
    /// Size of the LLC's part, in MiB; 0 means unknown.
    pub cache_mib: u64,
    /// What the LLC's link to memory carries, its part of it, in MB/s; 0 means unknown.
    pub link_mbs: i64,
    /// For dedicated VMs only.
    pub isolated: bool,
}

/// A node as the cost function sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteNode {
    /// Memory for VMs in MiB; `None` means unknown, and no limit.
    pub memory_mib: Option<u64>,
    /// Its package; `None` for a memory-only node.
    pub package: Option<PackageId>,
    /// Its domains that are not isolated, by index.
    pub domains: Vec<u32>,
    /// The cores of those.
    pub cores: u32,
}

/// Where load on a domain begins to cost, and how fast: one hinge for each of [`HINGES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hinges {
    /// The load that is still free.
    pub thresholds: [i64; HINGES.len()],
    /// Nano-vCPU for each unit of load above.
    pub slopes: [i64; HINGES.len()],
}

/// The hinges of a domain: the term each belongs to, and the load it looks at.
pub const HINGES: [(Term, Resource); 7] = [
    (Term::Crowding, Resource::Cores),
    (Term::SlowCores, Resource::Cores),
    (Term::Smt, Resource::Cores),
    (Term::Overcommit, Resource::Threads),
    (Term::Fairness, Resource::Shares),
    (Term::Cache, Resource::Footprint),
    (Term::Bandwidth, Resource::Traffic),
];

/// Extra latencies between LLCs: by LLC where the host knows them, otherwise by node.
#[derive(Debug, Clone)]
enum Distances {
    Llcs(Matrix),
    Nodes(Matrix),
}

#[derive(Debug, Clone)]
struct Matrix {
    n: usize,
    values: Vec<i64>,
}

impl Matrix {
    fn from_fn(n: usize, value: impl Fn(usize, usize) -> i64) -> Self {
        let values = (0..n * n).map(|cell| value(cell / n, cell % n)).collect();
        Self { n, values }
    }

    fn at(&self, row: usize, column: usize) -> i64 {
        self.values[row * self.n + column]
    }
}

impl Site {
    /// Prepares a host.
    pub fn new(host: &Host, reserve: &Reserve) -> Self {
        let domains = domains(host, reserve);
        let remoteness = Remoteness::new(host);
        let measured = host
            .latency
            .as_ref()
            .filter(|known| known.llc_ns.len() == host.llcs.len());
        let extra_ns = measured.map_or_else(
            || {
                Distances::Nodes(Matrix::from_fn(host.nodes.len(), |a, b| {
                    remoteness.typical_ns(a, b)
                }))
            },
            |known| {
                let ns = &known.llc_ns;
                Distances::Llcs(Matrix::from_fn(ns.len(), |a, b| extra_ns(ns, a, b)))
            },
        );
        let home_remote_ns = host.latency.as_ref().and_then(|known| {
            let same = known.llc_ns.first()?.first()?;
            Some(rounded(known.home_remote_ns? - same).max(0))
        });
        let nodes = nodes(host, reserve, &domains);
        let home_nodes = (0..)
            .map(NodeId)
            .zip(&nodes)
            .filter(|(_, node)| !node.domains.is_empty());
        let mut site = Self {
            home_nodes: home_nodes.map(|(id, _)| id).collect(),
            nodes,
            threads_per_core: host.threads_per_core(),
            extra_dram: Matrix::from_fn(host.nodes.len(), |cpu, memory| {
                remoteness.extra_dram(cpu, memory)
            }),
            domains,
            extra_ns,
            home_remote_ns,
            pairs: Vec::new(),
        };
        let n = site.domains.len();
        if n <= DENSE {
            let all = || 0..small(n);
            site.pairs = all()
                .flat_map(|a| all().map(move |b| (a, b)))
                .map(|(a, b)| site.between(a, b))
                .collect();
        }
        site
    }

    /// How much farther two domains are than one LLC, in ns, for a line whose memory is homed on a node of `home`.
    /// Inside a package, a line homed on another package costs as much as a trip there (reference model, finding 1).
    pub fn extra_ns(&self, a: u32, b: u32, home: Option<PackageId>) -> i64 {
        let near = match self.pairs.get(a as usize * self.domains.len() + b as usize) {
            Some(&ns) => ns,
            None => self.between(a, b),
        };
        match home {
            Some(home) if near > 0 => self.with_home(a, b, home, near),
            _ => near,
        }
    }

    /// Adds `weight` times the extra ns from a domain to each of `to`, to the entries of `costs`, which are by domain.
    pub fn add_extra_ns(
        &self,
        from: u32,
        home: Option<PackageId>,
        weight: i64,
        (to, costs): (&[u32], &mut [i64]),
    ) {
        let n = self.domains.len();
        let is_local = home.is_none_or(|home| home == self.domains[from as usize].package);
        match self.pairs.get(from as usize * n..(from as usize + 1) * n) {
            Some(row) if is_local => {
                for (cost, ns) in costs.iter_mut().zip(row) {
                    *cost += weight * ns;
                }
            }
            _ => {
                for &other in to {
                    costs[other as usize] += weight * self.extra_ns(from, other, home);
                }
            }
        }
    }

    fn between(&self, a: u32, b: u32) -> i64 {
        let (a, b) = (&self.domains[a as usize], &self.domains[b as usize]);
        match &self.extra_ns {
            _ if a.llc == b.llc => 0,
            Distances::Llcs(matrix) => matrix.at(a.llc.index(), b.llc.index()),
            Distances::Nodes(matrix) => matrix.at(a.node.index(), b.node.index()),
        }
    }

    fn with_home(&self, a: u32, b: u32, home: PackageId, near: i64) -> i64 {
        let [a, b] = [a, b].map(|domain| self.domains[domain as usize].package);
        if a == b && home != a {
            near.max(self.home_remote_ns.unwrap_or(TYPICAL_REMOTE_NS))
        } else {
            near
        }
    }

    /// How much longer memory of `memory` takes than local memory from the CPUs of `cpu`, in thousandths.
    pub fn extra_dram(&self, cpu: NodeId, memory: NodeId) -> i64 {
        self.extra_dram.at(cpu.index(), memory.index())
    }

    /// The domain of a group's home; `dedicated` groups may be on isolated CPUs.
    pub fn domain_of(&self, llc: LlcId, node: NodeId, isolated: bool) -> Option<u32> {
        let key = (llc, node, isolated);
        let found = self
            .domains
            .binary_search_by_key(&key, |domain| (domain.llc, domain.node, domain.isolated));
        found.ok().map(small)
    }

    /// Where load on a domain costs. `shares_per_thread` is what the host has to give each thread, in thousandths of a
    /// normal vCPU: 1000, or more on an over-committed host.
    pub fn hinges(&self, domain: u32, shares_per_thread: i64) -> Hinges {
        let domain = &self.domains[domain as usize];
        let [cores, fast, threads] =
            [domain.cores, domain.fast_cores, domain.threads].map(|n| 1000 * i64::from(n));
        let slow = (1000 - weights::SLOW_CORE_PERMILLE) * i64::from(fast < cores);
        let paired = if threads > cores {
            2 * (1000 - weights::SMT_THREAD_PERMILLE)
        } else {
            slow
        };
        let cache = i64::try_from(domain.cache_mib).unwrap_or(i64::MAX / 1000);
        let permille = |permille: i64| permille * PER_MILLI / 1000;
        Hinges {
            thresholds: [
                cores / 2,
                fast,
                cores,
                threads,
                threads / 1000 * shares_per_thread.max(1000),
                1000 * cache,
                1000 * domain.link_mbs,
            ],
            slopes: [
                permille(weights::CROWDING_PERMILLE),
                permille(slow),
                permille((paired - slow).max(0)),
                permille(weights::WAITING_PERMILLE - paired),
                permille(weights::FAIRNESS_PERMILLE),
                if cache > 0 {
                    weights::CACHE_PER_MIB / 1000
                } else {
                    0
                },
                if domain.link_mbs > 0 {
                    weights::BANDWIDTH_PER_MBS / 1000
                } else {
                    0
                },
            ],
        }
    }
}

impl Hinges {
    /// Of something that takes no load for free, and none for money: nothing costs.
    pub const NONE: Self = Self {
        thresholds: [0; HINGES.len()],
        slopes: [0; HINGES.len()],
    };

    /// What a load costs, in nano-vCPU.
    pub fn cost(&self, load: &Load) -> i64 {
        let loads = HINGES.map(|(_, resource)| load.of(resource));
        let hinges = self.slopes.iter().zip(self.thresholds).zip(loads);
        hinges
            .map(|((slope, threshold), load)| slope * (load - threshold).max(0))
            .sum()
    }

    /// What all of a load would cost at the price of its last unit.
    pub fn swing(&self, load: &Load) -> i64 {
        let loaded =
            (0..HINGES.len()).filter(|&index| load.of(HINGES[index].1) > self.thresholds[index]);
        loaded
            .map(|index| self.slopes[index] * load.of(HINGES[index].1))
            .sum()
    }

    /// What one hinge costs, by index into [`HINGES`].
    pub fn cost_of(&self, index: usize, load: &Load) -> i64 {
        self.slopes[index] * (load.of(HINGES[index].1) - self.thresholds[index]).max(0)
    }
}

/// What a trip between two LLCs costs more than one within them, in ns; the same both ways, as a pair of vCPUs takes both.
fn extra_ns(ns: &[Vec<f64>], a: usize, b: usize) -> i64 {
    rounded((ns[a][b] + ns[b][a] - ns[a][a] - ns[b][b]) / 2.0).max(0)
}

fn domains(host: &Host, reserve: &Reserve) -> Vec<Domain> {
    let mut sets: BTreeMap<(LlcId, NodeId, bool), (PackageId, CpuSet)> = BTreeMap::new();
    for cpu in host
        .cpus
        .iter()
        .filter(|cpu| !reserve.cpus.contains(cpu.id))
    {
        let isolated = host.isolated.contains(cpu.id);
        let (_, cpus) = sets
            .entry((cpu.llc, cpu.node, isolated))
            .or_insert_with(|| (cpu.package, CpuSet::new()));
        cpus.insert(cpu.id);
    }
    let best_kind = host
        .cores
        .iter()
        .map(|core| core.efficiency)
        .max()
        .unwrap_or(0);
    let of_set =
        |((llc, node, isolated), (package, cpus)): ((LlcId, NodeId, bool), (PackageId, CpuSet))| {
            let mut cores: Vec<CoreId> = cpus
                .iter()
                .filter_map(|id| host.cpu(id))
                .map(|cpu| cpu.core)
                .collect();
            cores.sort_unstable();
            cores.dedup();
            let fast = cores
                .iter()
                .filter(|core| host.cores[core.index()].efficiency == best_kind);
            let is_whole = |core: &&CoreId| host.cores[core.index()].cpus.is_subset(&cpus);
            let whole_cores = small(cores.iter().filter(is_whole).count());
            let cache = &host.llcs[llc.index()];
            let link_mbs = link_mbs(host, llc, node, &cpus);
            let part = cache.size_bytes * cpus.len() as u64 / cache.cpus.len().max(1) as u64;
            let (fast_cores, cores, threads) =
                (small(fast.count()), small(cores.len()), small(cpus.len()));
            let cache_mib = part / (1 << 20);
            Domain {
                llc,
                node,
                package,
                cpus,
                cores,
                whole_cores,
                fast_cores,
                threads,
                cache_mib,
                link_mbs,
                isolated,
            }
        };
    sets.into_iter().map(of_set).collect()
}

/// What a domain's memory traffic may reach: its part of the LLC's link; where that is not known but a node has one LLC
/// only, its part of the package's bandwidth. 0 means unknown.
fn link_mbs(host: &Host, llc: LlcId, node: NodeId, cpus: &CpuSet) -> i64 {
    let part = |mbs: u64, of: &CpuSet| {
        let mbs = u128::from(mbs) * cpus.len() as u128 / of.len().max(1) as u128;
        i64::try_from(mbs)
            .unwrap_or(i64::MAX / 1000)
            .min(i64::MAX / 1_000_000)
    };
    let Some(bandwidth) = &host.bandwidth else {
        return 0;
    };
    let cache = &host.llcs[llc.index()].cpus;
    if bandwidth.llc_link_mbs > 0 {
        return part(bandwidth.llc_link_mbs, cache);
    }
    let package = cpus
        .first()
        .and_then(|cpu| host.cpu(cpu))
        .map(|cpu| &host.packages[cpu.package.index()].cpus);
    match package.filter(|_| host.nodes[node.index()].cpus.is_subset(cache)) {
        Some(package) => part(bandwidth.package_mbs, package),
        None => 0,
    }
}

fn nodes(host: &Host, reserve: &Reserve, domains: &[Domain]) -> Vec<SiteNode> {
    let of_node = |index: usize| {
        let id = NodeId(small(index));
        let own = (0..)
            .zip(domains)
            .filter(|(_, domain)| domain.node == id && !domain.isolated);
        SiteNode {
            cores: own.clone().map(|(_, domain)| domain.cores).sum(),
            memory_mib: reserve.usable_mib(host, id),
            package: host.package_of_node(id),
            domains: own.map(|(index, _)| index).collect(),
        }
    };
    (0..host.nodes.len()).map(of_node).collect()
}

/// How far nodes are from each other by what the firmware says, which is an order, not a measurement: SLIT gives
/// two-socket machines 21 to 32 for about the same latency. Hops beyond the nearest package add in proportion.
struct Remoteness<'a> {
    host: &'a Host,
    packages: Vec<Option<PackageId>>,
    /// Distance beyond 10 of the nearest node of another package, by node.
    nearest: Vec<i64>,
}

impl<'a> Remoteness<'a> {
    fn new(host: &'a Host) -> Self {
        let ids = || (0..host.nodes.len()).map(|index| NodeId(small(index)));
        let packages: Vec<Option<PackageId>> =
            ids().map(|node| host.package_of_node(node)).collect();
        let nearest_of = |a: NodeId| {
            let others = ids().filter(|other| packages[other.index()] != packages[a.index()]);
            others
                .map(|other| beyond(host, a, other))
                .filter(|&distance| distance > 0)
                .min()
                .unwrap_or(10)
        };
        let nearest = ids().map(nearest_of).collect();
        Self {
            host,
            packages,
            nearest,
        }
    }

    /// `None` within a package; otherwise the distance against that of the nearest other package, in thousandths.
    fn between(&self, a: NodeId, b: NodeId) -> Option<i64> {
        let [mine, theirs] = [a, b].map(|node| self.packages[node.index()]);
        if a == b || mine.is_some() && mine == theirs {
            return None;
        }
        Some((1000 * beyond(self.host, a, b) / self.nearest[a.index()]).clamp(1000, 4000))
    }

    /// Extra latency between LLCs of two nodes, in ns.
    fn typical_ns(&self, a: usize, b: usize) -> i64 {
        let [a, b] = [a, b].map(|index| NodeId(small(index)));
        match self.between(a, b) {
            None if a == b => TYPICAL_NODE_NS,
            None => TYPICAL_PACKAGE_NS,
            Some(hops_permille) => TYPICAL_REMOTE_NS * hops_permille / 1000,
        }
    }

    /// Extra latency of memory against local memory, in thousandths.
    fn extra_dram(&self, cpu: usize, memory: usize) -> i64 {
        let [cpu, memory] = [cpu, memory].map(|index| NodeId(small(index)));
        let known = self.host.latency.as_ref();
        let ratio = known.and_then(|known| Some(known.dram_remote_ns? / known.dram_local_ns?));
        let remote = ratio.map_or(TYPICAL_REMOTE_DRAM, |ratio| {
            rounded((ratio - 1.0) * 1000.0).max(0)
        });
        match self.between(cpu, memory) {
            None if cpu == memory => 0,
            None => SIBLING_DRAM.min(remote),
            Some(hops_permille) => remote * hops_permille / 1000,
        }
    }
}

fn beyond(host: &Host, a: NodeId, b: NodeId) -> i64 {
    i64::from(host.distance(a, b)) - 10
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "latencies in ns are small, and a cast of a float saturates"
)]
fn rounded(value: f64) -> i64 {
    value.round() as i64
}

fn small(index: usize) -> u32 {
    u32::try_from(index).expect("tables are bounded by MAX_CPUS")
}
