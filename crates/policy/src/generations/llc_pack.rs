//! `llc-pack`: ESXi before 6.5 U3 and 6.7 U2.
//!
//! # Behaviour
//! A home node by load. There, the whole VM (or client, when it is wider than a node) in the LLC that is least loaded,
//! since vCPUs of a VM are related; what exceeds the threads of the LLC goes to the next one.
//!
//! # Defects, on purpose
//! * 8 vCPUs share 4 cores while 60 cores of the node are idle: threads are paired and runs queue (KB 67996; claim S3-06,
//!   up to 40 % lost).
//! * Action affinity knows no capacity: weight 130 is there since 6.0 (option `Numa.LocalityWeightActionAffinity`).
//! * An LLC that is over-packed stays so: the 20 ms balancer works between CPUs, not on homes.

use model::placement::VmId;
use model::{CpuSet, Reason};

use super::board::Board;
use super::ground::Seat;
use super::homes::{Allowance, Attraction, Zones};
use super::numa::{self, Release};
use super::{UNCHECKED, describe, groups, split};
use crate::plan::{Plan, Snapshot};
use crate::reconcile::Policy;

/// A whole VM in one LLC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LlcPack;

impl Policy for LlcPack {
    fn name(&self) -> &'static str {
        "llc-pack"
    }

    fn plan(&self, now: &Snapshot) -> Plan {
        numa::plan(self, now)
    }
}

impl Release for LlcPack {
    fn zones(&self) -> Zones {
        Zones::Nodes
    }

    fn attraction(&self) -> Attraction {
        UNCHECKED
    }

    fn keep(
        &self,
        board: &mut Board,
        client: usize,
        before: Vec<Seat>,
        allowance: &mut Allowance,
    ) -> CpuSet {
        let limits = threads(board, client);
        groups::keep(board, client, before, (&limits, allowance))
    }

    fn seat(&self, board: &mut Board, client: usize, vcpus: &CpuSet) {
        let limits = threads(board, client);
        let n = u32::try_from(vcpus.len()).unwrap_or(u32::MAX);
        let mut rest = vcpus.iter();
        let sizes = split::full_sizes(&groups::left(board, client, &limits), n);
        for size in sizes.unwrap_or_default() {
            let load = |domain: u32| {
                let threads = i64::from(board.ground().any_room(domain).threads);
                board.load(domain) / threads.max(1)
            };
            let roomy = groups::roomy(board, client, &limits, size).into_iter();
            let Some(domain) = roomy.min_by_key(|&domain| (load(domain), domain)) else {
                break;
            };
            board.sit(client, domain, rest.by_ref().take(size as usize).collect());
        }
    }

    fn relieve(&self, _: &mut Board, _: &mut Allowance) {}

    fn reason(&self, board: &Board, id: VmId) -> Reason {
        let text = format!(
            "{} is packed: {}, although other cores may be free",
            board.ground().vm(id).name,
            describe(board, id)
        );
        Reason::new("packed-llc", text)
    }

    fn keeps_system_near(&self) -> bool {
        true
    }
}

/// Threads for the client's VM on each domain of its home.
fn threads(board: &Board, client: usize) -> Vec<u32> {
    let room = |&domain: &u32| board.ground().room(board.vm_of(client), domain).threads;
    board.domains_of(client).iter().map(room).collect()
}
