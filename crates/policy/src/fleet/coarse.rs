//! A fleet with every node as one domain: enough to choose a host, cheap enough to look at all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::tenant::Scope;
use model::{Host, Reason, Vm};

use super::Member;
use crate::cost::site::{Hinges, Site};
use crate::cost::weights::{self, Load};
use crate::group;

/// What a vCPU loses by memory on another node: the stall share of [`Intensity::Mid`](model::tenant::Intensity) at a
/// typical remote latency.
const REMOTE_MEMORY: i64 = weights::VCPU / 1000 * 136;
/// What a VM loses by a partner on another host: a round trip of 20 us (reference model 2.4: 15 to 20 us for a VM) at the
/// price of [`weights::NEAR_PER_NS`], but never more than all its work.
const PARTNER_AWAY: i64 = weights::VCPU;

/// All hosts, and what is left of them.
#[derive(Debug)]
pub(super) struct Coarse<'a> {
    vms: &'a [Vm],
    kinds: Vec<Kind>,
    hosts: Vec<CoarseHost>,
    /// Labels of VMs that keep apart by host, by VM.
    apart: Vec<Option<usize>>,
    /// Labels of VMs that belong together, by VM.
    near: Vec<Option<usize>>,
    held: Held,
}

/// How many VMs of each label a host has: by label, then by host.
#[derive(Debug, Clone, Default)]
struct Held {
    apart: Vec<BTreeMap<usize, u32>>,
    near: Vec<BTreeMap<usize, u32>>,
}

/// Hosts that are alike, with what each VM is to them.
#[derive(Debug)]
struct Kind {
    nodes: Vec<CoarseNode>,
    needs: Vec<Need>,
}

/// What [`Coarse::restore`] brings back.
#[derive(Debug)]
pub(super) struct Saved {
    hosts: Vec<CoarseHost>,
    held: Held,
}

#[derive(Debug, Clone)]
struct CoarseHost {
    kind: usize,
    nodes: Vec<CoarseNode>,
}

#[derive(Debug, Clone)]
struct CoarseNode {
    load: Load,
    hinges: Hinges,
    cores: u32,
    dedicated: u32,
    free_mib: Option<u64>,
}

/// What a VM asks of a kind of host.
#[derive(Debug, Clone)]
struct Need {
    load: Load,
    cells: Vec<(u32, u64)>,
    /// vCPUs that each node takes at most.
    caps: Vec<u32>,
}

impl<'a> Coarse<'a> {
    pub(super) fn new(members: &[Member], vms: &'a [Vm]) -> Self {
        let mut kinds: Vec<(&Member, Kind)> = Vec::new();
        let mut hosts = Vec::with_capacity(members.len());
        for member in members {
            let same = |(other, _): &(&Member, Kind)| {
                Arc::ptr_eq(&other.host, &member.host) && other.reserve == member.reserve
            };
            let kind = kinds.iter().position(same).unwrap_or_else(|| {
                kinds.push((member, kind(member, vms)));
                kinds.len() - 1
            });
            hosts.push(CoarseHost {
                kind,
                nodes: kinds[kind].1.nodes.clone(),
            });
        }
        let scoped = |vm: &'a Vm| {
            vm.apart
                .as_ref()
                .filter(|apart| apart.scope == Scope::Host)
                .map(|apart| apart.label.as_str())
        };
        let (apart, n_apart) = labelled(vms, scoped);
        let (near, n_near) = labelled(vms, |vm| vm.near.as_deref());
        Self {
            kinds: kinds.into_iter().map(|(_, kind)| kind).collect(),
            hosts,
            held: Held {
                apart: vec![BTreeMap::new(); n_apart],
                near: vec![BTreeMap::new(); n_near],
            },
            apart,
            near,
            vms,
        }
    }

    /// The host where a VM adds least to the cost, of those that `may`; the first of equals. `None` when it fits nowhere.
    pub(super) fn best_host(&self, vm: usize, may: impl Fn(usize) -> bool) -> Option<usize> {
        let mut best: Option<(i64, usize)> = None;
        // Hosts of one kind that hold nothing are all alike: one of them stands for them.
        let mut seen_empty = vec![false; self.kinds.len()];
        for host in (0..self.hosts.len()).filter(|&host| may(host)) {
            let is_empty = self.hosts[host]
                .nodes
                .iter()
                .all(|node| node.load == Load::default());
            if is_empty && std::mem::replace(&mut seen_empty[self.hosts[host].kind], true) {
                continue;
            }
            if let Some(cost) = self
                .cost(vm, host)
                .filter(|cost| best.is_none_or(|(least, _)| *cost < least))
            {
                best = Some((cost, host));
            }
        }
        best.map(|(_, host)| host)
    }

    /// What a VM adds on a host; `None` when it does not fit.
    pub(super) fn cost(&self, vm: usize, host: usize) -> Option<i64> {
        if self.apart[vm].is_some_and(|label| self.held.apart[label].contains_key(&host)) {
            return None;
        }
        let away = self.near[vm].map_or(0, |label| {
            let others = self.held.near[label]
                .iter()
                .filter(|(theirs, _)| **theirs != host);
            others.map(|(_, n)| i64::from(*n)).sum()
        });
        let (_, cost) = self.seat(vm, host)?;
        Some(cost + away * PARTNER_AWAY)
    }

    /// Puts a VM on a host that takes it.
    pub(super) fn put(&mut self, vm: usize, host: usize) {
        let labels = [
            (self.apart[vm], &mut self.held.apart),
            (self.near[vm], &mut self.held.near),
        ];
        for (label, held) in labels {
            if let Some(label) = label {
                *held[label].entry(host).or_default() += 1;
            }
        }
        let Some((choice, _)) = self.seat(vm, host) else {
            return;
        };
        let need = &self.kinds[self.hosts[host].kind].needs[vm];
        let is_dedicated = self.vms[vm].dedicated;
        let mut drain: Vec<(usize, u64)> = Vec::with_capacity(need.cells.len());
        for (&(vcpus, mib), node_index) in need.cells.iter().zip(choice) {
            let node = &mut self.hosts[host].nodes[node_index];
            node.load.add(&need.load, i64::from(vcpus));
            node.dedicated += if is_dedicated { vcpus } else { 0 };
            drain.push((node_index, mib));
        }
        for (first, mib) in drain {
            drain_memory(&mut self.hosts[host].nodes, first, mib);
        }
    }

    /// What may be restored later: what hosts hold, and who is where.
    pub(super) fn save(&self) -> Saved {
        Saved {
            hosts: self.hosts.clone(),
            held: self.held.clone(),
        }
    }

    /// Undoes everything since.
    pub(super) fn restore(&mut self, saved: Saved) {
        (self.hosts, self.held) = (saved.hosts, saved.held);
    }

    /// Takes a host's VMs out of the books of labels, as when it fails.
    pub(super) fn forget_host(&mut self, host: usize) {
        for held in self.held.apart.iter_mut().chain(&mut self.held.near) {
            held.remove(&host);
        }
    }

    /// Why no host takes a VM.
    pub(super) fn refusal(&self, vm: usize) -> Reason {
        let wanted = &self.vms[vm];
        let (name, n, mib) = (&wanted.name, wanted.vcpus, wanted.memory_mib);
        if self.hosts.is_empty() {
            return Reason::new(
                "no-hosts",
                format!("{name}: there is no host to place it on"),
            );
        }
        let widest = self
            .kinds
            .iter()
            .map(|kind| kind.needs[vm].caps.iter().sum::<u32>())
            .max()
            .unwrap_or(0);
        if widest < n {
            return Reason::new(
                "more-vcpus-than-cpus",
                format!("{name} has {n} vCPUs; no host has more than {widest} CPUs for it"),
            );
        }
        Reason::new(
            "no-room",
            format!("{name}: no host has room for its {n} vCPUs with {mib} MiB of memory"),
        )
    }

    /// A node for each cell, and what they add. Memory that a cell's node lacks comes from the others.
    fn seat(&self, vm: usize, host: usize) -> Option<(Vec<usize>, i64)> {
        let CoarseHost { kind, nodes } = &self.hosts[host];
        let need = &self.kinds[*kind].needs[vm];
        let wanted: u64 = need.cells.iter().map(|(_, mib)| mib).sum();
        let free: Option<u64> = nodes.iter().map(|node| node.free_mib).sum();
        let whole: u32 = nodes
            .iter()
            .map(|node| node.cores.saturating_sub(node.dedicated))
            .sum();
        let is_narrow = need.caps.iter().sum::<u32>() < self.vms[vm].vcpus;
        let lacks_cores = self.vms[vm].dedicated && whole < self.vms[vm].vcpus;
        if is_narrow || lacks_cores || free.is_some_and(|free| free < wanted) {
            return None;
        }
        let mut choice: Vec<usize> = Vec::with_capacity(need.cells.len());
        let mut total = 0;
        for &(vcpus, mib) in &need.cells {
            let mine = |index: usize| {
                choice
                    .iter()
                    .zip(&need.cells)
                    .filter(move |(chosen, _)| **chosen == index)
            };
            let price = |index: usize| {
                let node = &nodes[index];
                let before: u32 = mine(index).map(|(_, (vcpus, _))| vcpus).sum();
                let (mut without, mut with) = (node.load, node.load);
                without.add(&need.load, i64::from(before));
                with.add(&need.load, i64::from(before + vcpus));
                let taken: u64 = mine(index).map(|(_, (_, mib))| mib).sum();
                let is_short = node.free_mib.is_some_and(|free| free < mib + taken);
                (
                    is_short,
                    node.hinges.cost(&with) - node.hinges.cost(&without),
                    index,
                )
            };
            let usable = (0..nodes.len()).filter(|&index| need.caps[index] > 0);
            let (is_short, cost, index) = usable.map(price).min()?;
            choice.push(index);
            total += cost
                + if is_short {
                    REMOTE_MEMORY * i64::from(vcpus)
                } else {
                    0
                };
        }
        Some((choice, total))
    }
}

/// Takes memory from a node, and what it lacks from the others.
fn drain_memory(nodes: &mut [CoarseNode], first: usize, mib: u64) {
    let mut rest = mib;
    for index in std::iter::once(first).chain((0..nodes.len()).filter(|&index| index != first)) {
        if let Some(free) = &mut nodes[index].free_mib {
            let taken = rest.min(*free);
            (*free, rest) = (*free - taken, rest - taken);
        }
    }
}

fn kind(member: &Member, vms: &[Vm]) -> Kind {
    let site = Site::new(&member.host, &member.reserve);
    let nodes = site
        .nodes
        .iter()
        .map(|node| coarse_node(&site, &node.domains, node.memory_mib))
        .collect();
    Kind {
        nodes,
        needs: vms.iter().map(|vm| need(vm, &member.host, &site)).collect(),
    }
}

fn coarse_node(site: &Site, domains: &[u32], free_mib: Option<u64>) -> CoarseNode {
    let mut hinges = domains
        .first()
        .map_or(Hinges::NONE, |&first| site.hinges(first, 1000));
    for &domain in domains.iter().skip(1) {
        let more = site.hinges(domain, 1000).thresholds;
        hinges
            .thresholds
            .iter_mut()
            .zip(more)
            .for_each(|(sum, more)| *sum += more);
    }
    let cores = domains
        .iter()
        .map(|&domain| site.domains[domain as usize].cores)
        .sum();
    CoarseNode {
        load: Load::default(),
        hinges,
        cores,
        dedicated: 0,
        free_mib,
    }
}

fn need(vm: &Vm, host: &Host, site: &Site) -> Need {
    let allowed = (!vm.hard.is_empty()).then(|| vm.hard.cpus_on(host));
    let cap = |domains: &Vec<u32>| -> u32 {
        let own = domains
            .iter()
            .map(|&domain| &site.domains[domain as usize].cpus);
        let usable = own.map(|cpus| {
            allowed
                .as_ref()
                .map_or(cpus.len(), |allowed| cpus.intersection(allowed).len())
        });
        u32::try_from(usable.sum::<usize>()).unwrap_or(u32::MAX)
    };
    let cells = group::cells(vm, site).into_iter().map(|cell| {
        (
            u32::try_from(cell.vcpus.len()).unwrap_or(u32::MAX),
            cell.memory_mib,
        )
    });
    Need {
        load: Load::of_vcpu(vm, site.threads_per_core),
        cells: cells.collect(),
        caps: site.nodes.iter().map(|node| cap(&node.domains)).collect(),
    }
}

/// The label of each VM as a number, and how many there are.
fn labelled<'a>(
    vms: &'a [Vm],
    label: impl Fn(&'a Vm) -> Option<&'a str>,
) -> (Vec<Option<usize>>, usize) {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let numbered = vms.iter().map(|vm| {
        let next = known.len();
        label(vm).map(|label| *known.entry(label).or_insert(next))
    });
    let numbers = numbered.collect();
    (numbers, known.len())
}
