//! Cells and groups: how a VM is cut before it is placed.
//!
//! # Problem
//! A VM wider than an LLC has to be split. VMware's 7.0 U2 cuts it into logical groups of at most one LLC's cores (4
//! vCPUs on Rome are one group, 8 are two groups of 4; claims S3-08, S3-14).
//!
//! # Terminology
//! A *cell* is what has its memory in one place: a vNUMA node of the VM, or the whole VM. A *block* is a guest LLC, which
//! stays whole. A *group* is the vCPUs of a cell on one domain.
//!
//! # Rules
//! vCPUs in index order; at most the cores of an LLC in a group (threads, for VMs that count threads or are wider than
//! the cores they may use); as few groups as possible; balanced, so that sizes differ by one at most.

use model::cpuset::MAX_CPUS;
use model::{CpuSet, Vm};

use crate::cost::site::Site;

/// A part of a VM that has its memory in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Its vCPUs.
    pub vcpus: CpuSet,
    /// Its memory in MiB.
    pub memory_mib: u64,
    /// The guest LLCs in it, by their vCPUs; empty when the VM leaves the split to the policy.
    pub blocks: Vec<CpuSet>,
}

/// The cells of a VM: its vNUMA nodes if it has any; otherwise as few equal parts as fit the cores and the memory of
/// the host's largest node, vCPUs in index order.
pub fn cells(vm: &Vm, site: &Site) -> Vec<Cell> {
    let guest = vm
        .guest
        .as_ref()
        .filter(|guest| guest.check().is_empty() && guest.vcpus == vm.vcpus);
    if let Some(guest) = guest.filter(|guest| !guest.numa_nodes.is_empty()) {
        let all_memory = guest.memory_mib();
        let memory_of = |own: u64| match all_memory {
            0 => vm.memory_mib / guest.numa_nodes.len() as u64,
            _ => own,
        };
        let present = guest
            .numa_nodes
            .iter()
            .filter(|node| !node.vcpus.is_empty());
        return present
            .map(|node| cell(vm, node.vcpus.clone(), memory_of(node.memory_mib)))
            .collect();
    }
    let n_cells = if guest.is_some() {
        1
    } else {
        cells_needed(vm, site)
    };
    let memory = split_evenly(vm.memory_mib, u64::from(n_cells));
    let mut next = 0;
    // A VM wider than any host is refused; until then it need not be told apart from one as wide as the widest.
    let sizes = balanced(vm.vcpus.min(MAX_CPUS), n_cells);
    sizes
        .zip(memory)
        .map(|(size, memory_mib)| {
            let vcpus = CpuSet::from_range(next..next + size);
            next += size;
            cell(vm, vcpus, memory_mib)
        })
        .collect()
}

/// `n` vCPUs in `groups` groups whose sizes differ by one at most, larger ones first.
pub fn balanced(n: u32, groups: u32) -> impl Iterator<Item = u32> + Clone {
    let groups = groups.clamp(1, n.max(1));
    (0..groups).map(move |index| n / groups + u32::from(index < n % groups))
}

/// Full groups of `cap` vCPUs and the remainder: where balanced groups do not fit.
pub fn full_and_rest(n: u32, cap: u32) -> impl Iterator<Item = u32> + Clone {
    let cap = cap.max(1);
    (0..n.div_ceil(cap)).map(move |index| cap.min(n - index * cap))
}

fn cell(vm: &Vm, vcpus: CpuSet, memory_mib: u64) -> Cell {
    let llcs = vm.guest.iter().flat_map(|guest| &guest.llcs);
    let blocks = llcs
        .map(|llc| llc.vcpus.intersection(&vcpus))
        .filter(|block| !block.is_empty());
    let blocks = blocks.collect();
    Cell {
        vcpus,
        memory_mib,
        blocks,
    }
}

fn cells_needed(vm: &Vm, site: &Site) -> u32 {
    let room_of = |node: &crate::cost::site::SiteNode| -> u32 {
        let own = node
            .domains
            .iter()
            .map(|&domain| &site.domains[domain as usize]);
        own.map(|domain| {
            if vm.prefer_ht {
                domain.threads
            } else {
                domain.cores
            }
        })
        .sum()
    };
    let widest = site.nodes.iter().map(room_of).max().unwrap_or(0).max(1);
    let homes = site.nodes.iter().filter(|node| !node.domains.is_empty());
    let n_homes = u32::try_from(homes.clone().count())
        .unwrap_or(u32::MAX)
        .max(1);
    let most_memory = homes.filter_map(|node| node.memory_mib).max();
    let by_memory = most_memory
        .filter(|&most| most > 0)
        .map_or(1, |most| vm.memory_mib.div_ceil(most));
    let by_memory = u32::try_from(by_memory).unwrap_or(u32::MAX);
    vm.vcpus
        .div_ceil(widest)
        .max(by_memory)
        .clamp(1, n_homes.min(vm.vcpus.max(1)))
}

fn split_evenly(total: u64, parts: u64) -> impl Iterator<Item = u64> {
    (0..parts).map(move |index| total / parts + u64::from(index < total % parts))
}
