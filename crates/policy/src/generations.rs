//! The baselines: what schedulers before ours do with the same VMs, defects included. They are held to what the papers
//! say of them, and they are what `best` is compared with.
//!
//! | policy | stands for | module |
//! |---|---|---|
//! | `llc` | ESXi 7.0 U2 and later | [`llc`] |
//! | `spread` | ESXi 6.5 U3 and 6.7 U2 to 7.0 U1 | [`spread`] |
//! | `llc-pack` | ESXi before those | [`llc_pack`] |
//! | `ccx-as-numa` | ESXi under firmware that makes a node of each LLC | [`llc_as_node`] |
//! | `linux-default` | Linux/KVM without any affinity | [`linux_default`] |
//!
//! # How they work
//! The ESXi ones are one procedure (`numa`) with parts of their own: admission (`ground`), homes of NUMA clients
//! (`homes`), the 2 s rebalancer (`rebalance`), seats in the homes (each policy), memory (`memory`). Facts are those that
//! VMware documents; what it does not document says "ours".
//!
//! # All of them
//! respect hard affinity, reserved and isolated CPUs; refuse what cannot be and place the rest; give dedicated VMs whole
//! cores; are pure. None knows guest LLCs, soft affinity, devices, shares or VMs that keep apart: no scheduler of
//! theirs does this for last-level caches.

pub mod linux_default;
pub mod llc;
pub mod llc_as_node;
pub mod llc_pack;
pub mod spread;

mod board;
mod draw;
mod finish;
mod ground;
mod groups;
mod homes;
mod memory;
mod numa;
mod rebalance;
mod split;
#[cfg(test)]
mod tests;
mod whole_cores;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::placement::VmId;
use model::{CpuId, CpuSet};

pub use linux_default::LinuxDefault;
pub use llc::Llc;
pub use llc_as_node::LlcAsNode;
pub use llc_pack::LlcPack;
pub use spread::Spread;

use board::Board;
use homes::Attraction;

/// Action affinity before 7.0 U2: weight 130, however full the node is (claim S3-37).
const UNCHECKED: Attraction = Attraction {
    weight: 130,
    cap_percent: None,
};

/// Action affinity since 7.0 U2, up to 90 % of a node's cores (`Numa.CoreCapRatioPct`).
const CHECKED: Attraction = Attraction {
    weight: 130,
    cap_percent: Some(90),
};

/// The domains a VM sits on, ascending.
fn domains_of(board: &Board, id: VmId) -> Vec<u32> {
    let clients = board.homes.clients_of(id).iter();
    let seats = clients.flat_map(|&client| &board.seats[client]);
    let mut domains: Vec<u32> = seats.map(|seat| seat.domain).collect();
    domains.sort_unstable();
    domains.dedup();
    domains
}

/// How many vCPUs of a VM sit on which LLCs.
fn describe(board: &Board, id: VmId) -> String {
    let mut by_count: BTreeMap<Reverse<u32>, CpuSet> = BTreeMap::new();
    let client = board.homes.clients_of(id).first();
    for (client, domain) in client.into_iter().flat_map(|&client| {
        let domains = domains_of(board, id).into_iter();
        domains.map(move |domain| (client, domain))
    }) {
        let llc = board.ground().problem.site.domains[domain as usize].llc;
        let llcs = by_count
            .entry(Reverse(board.own(client, domain)))
            .or_default();
        // Written as ranges, as CPUs are.
        llcs.insert(CpuId(llc.0));
    }
    let part = |(Reverse(vcpus), llcs): (Reverse<u32>, CpuSet)| match llcs.len() {
        1 => format!("{vcpus} vCPUs on LLC {llcs}"),
        _ => format!("{vcpus} vCPUs on each of LLCs {llcs}"),
    };
    let parts: Vec<String> = by_count.into_iter().map(part).collect();
    parts.join(", ")
}
