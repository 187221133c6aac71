//! `linux-default`: Linux/KVM without any affinity, for comparison.
//!
//! # Behaviour
//! Every vCPU may run on every CPU its VM may use, and wanders. Homes only say where the kernel starts the threads one
//! after the other: the node with most idle CPUs, there the LLC with most idle CPUs (`sched_balance_find_dst_group`,
//! `kernel/sched/fair.c`). The first vCPU's node keeps the next ones while it has at most 2 idle CPUs less than the other
//! (`NUMA_IMBALANCE_MIN`) and as few threads as `imb_numa_nr`, which is its number of LLCs, or an eighth of its CPUs
//! when it is one LLC (`kernel/sched/topology.c`). Memory is where it is touched first: with the vCPUs.
//!
//! # Defects, on purpose
//! * A VM is on as many LLCs and nodes as it can be, and its memory follows no plan.
//! * Nothing keeps two busy threads off one core for long: wake-ups look for an idle core in their own LLC only.
//!
//! NUMA balancing, which copies pages and prefers nodes later, is not modelled: without knowing which pages are touched
//! nothing can be said.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::host::NodeId;
use model::placement::{SystemHome, VmId};
use model::{CpuId, CpuSet, Reason};

use super::finish::{self, Finished};
use super::ground::{Ground, Seat};
use super::memory::{self, Wish};
use crate::plan::{Plan, Snapshot};
use crate::reconcile::Policy;

/// Difference in idle CPUs that does not drive a thread from its node (`NUMA_IMBALANCE_MIN`).
const IMBALANCE_MIN: i64 = 2;

/// No constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinuxDefault;

impl Policy for LinuxDefault {
    fn name(&self) -> &'static str {
        "linux-default"
    }

    fn plan(&self, now: &Snapshot) -> Plan {
        let ground = Ground::new(now);
        let mut kernel = Kernel::new(&ground);
        let mut seats: BTreeMap<VmId, Vec<Seat>> = BTreeMap::new();
        for &id in &ground.shared {
            if let Some(own) = ground.seats_now(id) {
                seats.insert(id, kernel.stay(id, own));
            }
        }
        for &id in &ground.shared {
            seats.entry(id).or_insert_with(|| kernel.start(id));
        }
        let memory = memory::place(&ground, &wishes(&ground, &seats), 0);
        let system = system(&ground, &mut kernel);
        let reasons = ground
            .shared
            .iter()
            .map(|&id| (Some(id), reason(&ground, id, &seats[&id])));
        let reasons = reasons.collect();
        finish::plan(
            &ground,
            Finished {
                seats,
                memory,
                system,
                reasons,
                moved: Vec::new(),
            },
        )
    }
}

/// What the kernel's search sees: how many threads run where.
struct Kernel<'g> {
    ground: &'g Ground<'g>,
    /// By domain.
    running: Vec<i64>,
    load: Vec<i64>,
}

impl<'g> Kernel<'g> {
    fn new(ground: &'g Ground<'g>) -> Self {
        let n = ground.problem.site.domains.len();
        Self {
            ground,
            running: vec![0; n],
            load: vec![0; n],
        }
    }

    /// Threads that are there already.
    fn stay(&mut self, id: VmId, seats: Vec<Seat>) -> Vec<Seat> {
        let cpus = self.everywhere(id);
        let mut stay = Vec::new();
        for seat in seats {
            let threads = i64::try_from(seat.vcpus.len()).unwrap_or(i64::MAX);
            self.run(id, seat.domain, threads);
            let cpus = cpus.clone();
            stay.push(Seat {
                cpus,
                pinned: false,
                ..seat
            });
        }
        stay
    }

    /// Starts the vCPUs of a VM one after the other.
    fn start(&mut self, id: VmId) -> Vec<Seat> {
        let cpus = self.everywhere(id);
        let mut vcpus: BTreeMap<u32, CpuSet> = BTreeMap::new();
        let mut local = None;
        for vcpu in 0..self.ground.vm(id).vcpus {
            let Some(domain) = self.idlest(id, local) else {
                break;
            };
            local = local.or(Some(self.ground.node_of(domain)));
            self.run(id, domain, 1);
            vcpus.entry(domain).or_default().insert(CpuId(vcpu));
        }
        let seat = |(domain, vcpus)| Seat {
            vcpus,
            domain,
            cpus: cpus.clone(),
            pinned: false,
        };
        vcpus.into_iter().map(seat).collect()
    }

    fn run(&mut self, id: VmId, domain: u32, threads: i64) {
        self.running[domain as usize] += threads;
        self.load[domain as usize] += threads * self.ground.demand(id);
    }

    /// All CPUs a VM may use.
    fn everywhere(&self, id: VmId) -> CpuSet {
        let rooms = self
            .ground
            .domains()
            .map(|domain| &self.ground.room(id, domain).cpus);
        rooms.fold(CpuSet::new(), |sum, cpus| sum.union(cpus))
    }

    /// The domain of the next thread: node first, then LLC.
    fn idlest(&self, id: VmId, local: Option<NodeId>) -> Option<u32> {
        let open = |domain: &u32| !self.ground.room(id, *domain).cpus.is_empty();
        let domains: Vec<u32> = self.ground.domains().filter(open).collect();
        let mut by_node: BTreeMap<NodeId, Vec<u32>> = BTreeMap::new();
        for domain in domains {
            by_node
                .entry(self.ground.node_of(domain))
                .or_default()
                .push(domain);
        }
        let key = |(node, domains): (&NodeId, &Vec<u32>)| {
            (
                Reverse(self.idle(domains)),
                self.load_permille(domains),
                Some(*node) != local,
                *node,
            )
        };
        let (Reverse(most), .., idlest) = by_node.iter().map(key).min()?;
        let stays = local.filter(|local| {
            by_node.get(local).is_some_and(|domains| {
                let running: i64 = domains
                    .iter()
                    .map(|&domain| self.running[domain as usize])
                    .sum();
                let few = running < self.tolerated(domains);
                self.idle(domains) > 0 && few && most - self.idle(domains) <= IMBALANCE_MIN
            })
        });
        let domains = &by_node[&stays.unwrap_or(idlest)];
        let key = |&domain: &u32| {
            (
                Reverse(self.idle(&[domain])),
                self.load_permille(&[domain]),
                domain,
            )
        };
        domains.iter().copied().min_by_key(key)
    }

    /// CPUs on which nothing runs.
    fn idle(&self, domains: &[u32]) -> i64 {
        let idle = |domain: u32| self.threads(domain) - self.running[domain as usize];
        domains.iter().map(|&domain| idle(domain).max(0)).sum()
    }

    fn load_permille(&self, domains: &[u32]) -> i64 {
        let load: i64 = domains
            .iter()
            .map(|&domain| self.load[domain as usize])
            .sum();
        let threads: i64 = domains.iter().map(|&domain| self.threads(domain)).sum();
        load / threads.max(1)
    }

    fn threads(&self, domain: u32) -> i64 {
        i64::from(self.ground.any_room(domain).threads)
    }

    /// `imb_numa_nr`: threads a node may run before it cares for others.
    fn tolerated(&self, domains: &[u32]) -> i64 {
        match domains {
            [domain] => (self.threads(*domain) / 8).max(1),
            _ => i64::try_from(domains.len()).unwrap_or(i64::MAX),
        }
    }
}

fn wishes(ground: &Ground, seats: &BTreeMap<VmId, Vec<Seat>>) -> Vec<Wish> {
    let mut wishes = Vec::new();
    for (&vm, seats) in seats {
        for (cell, own) in (0..).zip(&ground.tenant(vm).cells) {
            let mut nodes: BTreeMap<NodeId, u64> = BTreeMap::new();
            for seat in seats {
                let vcpus = seat.vcpus.intersection(&own.vcpus).len();
                if vcpus > 0 {
                    *nodes.entry(ground.node_of(seat.domain)).or_default() += vcpus as u64;
                }
            }
            wishes.push(Wish {
                vm,
                cell,
                nodes: nodes.into_iter().collect(),
            });
        }
    }
    wishes
}

/// System threads start where most is idle, too.
fn system(ground: &Ground, kernel: &mut Kernel) -> Vec<SystemHome> {
    let dedicated = ground.dedicated.iter().map(|(id, _)| *id);
    let ids = ground.shared.iter().copied().chain(dedicated);
    let mut homes = Vec::new();
    for id in ids.filter(|&id| ground.vm(id).system > 0) {
        let before = finish::system_before(ground, id);
        let before = before.filter(|&domain| !finish::system_cpus(ground, id, domain).is_empty());
        let Some(domain) = before.or_else(|| kernel.idlest(id, None)) else {
            continue;
        };
        kernel.run(id, domain, 1);
        let cpus = kernel.everywhere(id);
        homes.push(SystemHome {
            cpus,
            ..finish::system_home(ground, id, domain)
        });
    }
    homes
}

fn reason(ground: &Ground, id: VmId, seats: &[Seat]) -> Reason {
    let name = &ground.vm(id).name;
    let mut nodes: Vec<NodeId> = seats
        .iter()
        .map(|seat| ground.node_of(seat.domain))
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    let cpus = seats.first().map_or(0, |seat| seat.cpus.len());
    let text = format!(
        "{name} may run on {cpus} CPUs and wanders: it starts on {} LLCs of {} nodes",
        seats.len(),
        nodes.len()
    );
    Reason::new("wanders", text)
}
