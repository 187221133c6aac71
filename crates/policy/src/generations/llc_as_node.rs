//! `ccx-as-numa`: the firmware setting that makes a node of each LLC, under the NUMA rebalancer of ESXi. It works on any
//! host here; the host itself keeps its nodes.
//!
//! # Behaviour
//! Every LLC is a node. A VM wider than the cores of an LLC becomes several clients, each with an LLC as its home, by
//! load. Every 2 s the rebalancer may give a client another one, and memory follows. Action affinity is checked against
//! 90 % of the cores (ours: without a check, VMs that talk would all end on the cores of one LLC).
//!
//! # Defects, on purpose
//! * Which LLCs share a package is not known: clients of a VM land on both (claim S3-29: `VMmark` fails its quality of
//!   service with 7 tiles; 32 nodes instead of 2, claim S3-05).
//! * Rebalancing between LLCs of two packages copies memory for nothing (claim S3-65). Copies between LLCs of one package,
//!   which the real firmware causes as well, do not show: the host's nodes hold the memory.

use model::placement::VmId;
use model::{CpuSet, Reason};

use super::board::Board;
use super::ground::Seat;
use super::homes::{Allowance, Attraction, Zones};
use super::numa::{self, Release};
use super::{CHECKED, describe};
use crate::plan::{Plan, Snapshot};
use crate::reconcile::Policy;

/// Every LLC is a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LlcAsNode;

impl Policy for LlcAsNode {
    fn name(&self) -> &'static str {
        "ccx-as-numa"
    }

    fn plan(&self, now: &Snapshot) -> Plan {
        numa::plan(self, now)
    }
}

impl Release for LlcAsNode {
    fn zones(&self) -> Zones {
        Zones::Llcs
    }

    fn attraction(&self) -> Attraction {
        CHECKED
    }

    fn keep(
        &self,
        board: &mut Board,
        client: usize,
        before: Vec<Seat>,
        _: &mut Allowance,
    ) -> CpuSet {
        for seat in before {
            board.sit(client, seat.domain, seat.vcpus);
        }
        CpuSet::new()
    }

    fn seat(&self, board: &mut Board, client: usize, vcpus: &CpuSet) {
        if let [domain] = *board.domains_of(client) {
            board.sit(client, domain, vcpus.clone());
        }
    }

    fn relieve(&self, _: &mut Board, _: &mut Allowance) {}

    fn reason(&self, board: &Board, id: VmId) -> Reason {
        let name = &board.ground().vm(id).name;
        let text = format!(
            "{name} sees each LLC as a node, whatever package it is in: {}",
            describe(board, id)
        );
        Reason::new("llc-as-node", text)
    }

    fn keeps_system_near(&self) -> bool {
        true
    }
}
