//! `spread`: ESXi from 6.5 U3 and 6.7 U2 to 7.0 U1.
//!
//! # Behaviour
//! A home node by load; there, each vCPU on the CPU that is used least. Which LLC that is in, and whether the other
//! thread of the core is busy, does not count; among CPUs that are used alike chance decides. While a node's demand is at
//! most a quarter of its threads, whole cores come first (reference model 3; claim S3-49: one VM of 16 on 64 cores loses
//! nothing). The plan is a state that this scheduler may be in at one moment: it moved a vCPU between LLCs 2.3 times a
//! second (claim S3-26), which is the dispatcher's affair, not the plan's. A vCPU leaves its CPU when another CPU of the
//! node would still be used less with it.
//!
//! # Defects, on purpose
//! * No locality: 4 vCPUs on 4 LLCs, 8 on 5 (claim S3-07), noisy neighbours in each.
//! * Threads are paired while cores are free: 8 VMs of 16 on 256 threads pair a share f = 127/255 (claim S3-51).
//! * VMs that talk gather on one node however full it is (claims S3-37, S3-48): action affinity of weight 130 without a
//!   look at the capacity. `Numa.LocalityWeightActionAffinity` = 0 is the cure VMware gave (KB 2097369;
//!   [`Spread::without_action_affinity`]).

use model::placement::VmId;
use model::{CpuId, CpuSet, Reason};

use super::board::Board;
use super::draw::{draw, pick};
use super::ground::{Seat, pairs};
use super::homes::{Allowance, Attraction, Zones};
use super::numa::{self, Release};
use super::{UNCHECKED, describe, domains_of};
use crate::plan::{Plan, Snapshot};
use crate::reconcile::Policy;

/// Share of a node's threads, in percent, up to which whole cores come first (reference model 3).
const CALM_PERCENT: i64 = 25;
/// Rounds of evening out in one plan. Ours: two are enough for nearly all states.
const ROUNDS: usize = 8;

/// Every vCPU on the CPU that is used least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    attraction: Attraction,
}

impl Default for Spread {
    fn default() -> Self {
        Self::new()
    }
}

impl Spread {
    /// As it came.
    pub fn new() -> Self {
        Self {
            attraction: UNCHECKED,
        }
    }

    /// With `Numa.LocalityWeightActionAffinity` = 0.
    pub fn without_action_affinity() -> Self {
        Self {
            attraction: Attraction {
                weight: 0,
                ..UNCHECKED
            },
        }
    }
}

impl Policy for Spread {
    fn name(&self) -> &'static str {
        "spread"
    }

    fn plan(&self, now: &Snapshot) -> Plan {
        numa::plan(self, now)
    }
}

impl Release for Spread {
    fn zones(&self) -> Zones {
        Zones::Nodes
    }

    fn attraction(&self) -> Attraction {
        self.attraction
    }

    /// Pinned vCPUs stay on CPUs that the VM may still use; all others are drawn.
    fn keep(
        &self,
        board: &mut Board,
        client: usize,
        before: Vec<Seat>,
        _: &mut Allowance,
    ) -> CpuSet {
        let mut unseated = board.homes.clients[client].vcpus.clone();
        let mut used = board.own_cpus(client);
        for seat in before.iter().filter(|seat| seat.pinned) {
            let room = board.ground().room(board.vm_of(client), seat.domain);
            for (vcpu, cpu) in pairs(seat) {
                if room.cpus.contains(cpu) && used.insert(cpu) {
                    board.pin(client, seat.domain, (vcpu, cpu));
                    unseated.remove(vcpu);
                }
            }
        }
        unseated
    }

    fn seat(&self, board: &mut Board, client: usize, vcpus: &CpuSet) {
        let is_calm = is_calm(board, client);
        for vcpu in vcpus.iter() {
            let cpus = candidates(board, client);
            let key = |cpu: CpuId| {
                let siblings = if is_calm { load_of_core(board, cpu) } else { 0 };
                (board.load_of_cpu(cpu), siblings)
            };
            let Some(least) = cpus.iter().map(|(cpu, _)| key(*cpu)).min() else {
                break;
            };
            let least: Vec<(CpuId, u32)> = cpus
                .into_iter()
                .filter(|(cpu, _)| key(*cpu) == least)
                .collect();
            let ground = board.ground();
            let name = &ground.vm(board.vm_of(client)).name;
            let chance = draw(name, vcpu.0, ground.now.generation);
            let Some((cpu, domain)) = pick(&least, chance) else {
                break;
            };
            board.pin(client, domain, (vcpu, cpu));
        }
    }

    /// Evens out the CPUs of a node.
    fn relieve(&self, board: &mut Board, allowance: &mut Allowance) {
        for _ in 0..ROUNDS {
            let mut moved = false;
            for client in 0..board.seats.len() {
                for index in 0..board.seats[client].len() {
                    moved |= even_out(board, (client, index), allowance);
                }
            }
            if !moved {
                break;
            }
        }
    }

    fn reason(&self, board: &Board, id: VmId) -> Reason {
        let (vm, n_llcs) = (board.ground().vm(id), domains_of(board, id).len());
        let text = format!(
            "{} has its {} vCPUs on the CPUs used least, on {n_llcs} LLCs by chance: {}",
            vm.name,
            vm.vcpus,
            describe(board, id)
        );
        Reason::new("spread-by-use", text)
    }

    fn keeps_system_near(&self) -> bool {
        false
    }
}

/// CPUs of the client's home that no vCPU of its VM is on, with their domains.
fn candidates(board: &Board, client: usize) -> Vec<(CpuId, u32)> {
    let (ground, id) = (board.ground(), board.vm_of(client));
    let own = board.own_cpus(client);
    let cpus = board.domains_of(client).iter().flat_map(|&domain| {
        let cpus = ground.room(id, domain).cpus.iter();
        cpus.map(move |cpu| (cpu, domain))
    });
    cpus.filter(|(cpu, _)| !own.contains(*cpu)).collect()
}

/// Whether so little is asked of the node that whole cores come first.
fn is_calm(board: &Board, client: usize) -> bool {
    let zone = &board.homes.zones[board.homes.clients[client].zone];
    let threads = zone
        .domains
        .iter()
        .map(|&domain| i64::from(board.ground().any_room(domain).threads));
    100 * zone.load <= CALM_PERCENT * 1000 * threads.sum::<i64>()
}

fn load_of_core(board: &Board, cpu: CpuId) -> i64 {
    let host = &board.ground().now.host;
    let core = host.cpu(cpu).map(|cpu| &host.cores[cpu.core.index()].cpus);
    core.into_iter()
        .flat_map(CpuSet::iter)
        .map(|cpu| board.load_of_cpu(cpu))
        .sum()
}

/// Moves a vCPU to the CPU used least, if that one is still used less with it.
fn even_out(board: &mut Board, (client, index): (usize, usize), allowance: &mut Allowance) -> bool {
    let seat = board.seats[client][index].clone();
    let (Some(vcpu), Some(cpu)) = (seat.vcpus.first(), seat.cpus.first()) else {
        return false;
    };
    let demand = board.demand(client, 1);
    let was_there = !board.before(client).is_empty();
    if board.load_of_cpu(cpu) <= demand
        || was_there && !board.ground().has_dwelt(board.vm_of(client))
    {
        return false;
    }
    let candidates = candidates(board, client);
    let least = candidates
        .into_iter()
        .min_by_key(|&(cpu, _)| (board.load_of_cpu(cpu), cpu));
    let Some((to, domain)) =
        least.filter(|&(to, _)| board.load_of_cpu(to) + demand < board.load_of_cpu(cpu))
    else {
        return false;
    };
    if was_there && !allowance.spend(1) {
        return false;
    }
    let name = &board.ground().vm(board.vm_of(client)).name;
    let text = format!(
        "{name}: vCPU {vcpu} leaves CPU {cpu} with {} milli-CPU for CPU {to} with {}",
        board.load_of_cpu(cpu),
        board.load_of_cpu(to)
    );
    board
        .moved
        .push((board.vm_of(client), Reason::new("cpu-use", text)));
    board.take(client, index);
    board.pin(client, domain, (vcpu, to));
    true
}
