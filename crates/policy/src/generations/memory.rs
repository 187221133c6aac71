//! Memory goes home. What does not fit goes to the nearest node with room: remote memory is always faster than swapping.
//! Memory of VMs that changed their home follows in small pages (`Numa.PageMigRateMax`).

use std::collections::BTreeMap;

use model::host::NodeId;
use model::placement::{MemoryHome, VmId};

use super::ground::Ground;

/// Memory that follows in one rebalance period of 2 s, in MiB: 8,000 pages of 4 KiB a second (`Numa.PageMigRateMax` from
/// 6.5 to 8.0). Whether the rate is for a VM or the host is not documented; here it is for the host.
pub(super) const PERIOD_MIB: u64 = 8000 * 4 * 2 / 1024;

/// Where the memory of a cell should be.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) vm: VmId,
    pub(super) cell: u32,
    /// Home nodes, each with its part of the cell's vCPUs.
    pub(super) nodes: Vec<(NodeId, u64)>,
}

/// Memory of one cell, by node.
type Held = BTreeMap<NodeId, u64>;

/// Memory of all admitted VMs. `migrate_mib` may follow its VMs home.
pub(super) fn place(ground: &Ground, wishes: &[Wish], migrate_mib: u64) -> Vec<MemoryHome> {
    let sites = ground.problem.site.nodes.iter();
    let mut free: Vec<u64> = sites
        .map(|node| node.memory_mib.unwrap_or(u64::MAX))
        .collect();
    let mut all = in_order(ground, wishes);
    all.extend(dedicated_wishes(ground));
    // Who is there already holds what it has before anybody comes.
    let mut held: Vec<Option<Held>> = Vec::new();
    for wish in &all {
        held.push(hold(ground, wish, &mut free));
    }
    let mut left = migrate_mib.min(ground.now.budget.memory_mib);
    for (wish, held) in all.iter().zip(&mut held) {
        if let Some(held) = held {
            follow(wish, held, &mut free, &mut left);
        }
    }
    let mut homes = Vec::new();
    for (wish, held) in all.iter().zip(held) {
        let held = held.unwrap_or_else(|| arrive(ground, wish, &mut free));
        let home = |(node, mib)| MemoryHome {
            vm: wish.vm,
            cell: wish.cell,
            node,
            mib,
        };
        homes.extend(held.into_iter().map(home));
    }
    homes
}

/// The wishes of VMs that are not dedicated, in the order VMs are served.
fn in_order(ground: &Ground, wishes: &[Wish]) -> Vec<Wish> {
    let mut sorted: BTreeMap<VmId, Vec<&Wish>> = BTreeMap::new();
    for wish in wishes {
        sorted.entry(wish.vm).or_default().push(wish);
    }
    let of = |id: &VmId| sorted.get(id).into_iter().flatten();
    let ordered = ground.shared.iter().flat_map(of);
    ordered
        .map(|wish| Wish {
            nodes: wish.nodes.clone(),
            ..**wish
        })
        .collect()
}

/// The wishes of dedicated VMs: where their cores are.
fn dedicated_wishes(ground: &Ground) -> Vec<Wish> {
    let mut wishes = Vec::new();
    for (id, seats) in &ground.dedicated {
        for (cell, own) in (0..).zip(&ground.tenant(*id).cells) {
            let nodes = seats.iter().filter_map(|seat| {
                let vcpus = seat.vcpus.intersection(&own.vcpus).len();
                let vcpus = u64::try_from(vcpus).unwrap_or(u64::MAX);
                (vcpus > 0).then(|| (ground.node_of(seat.domain), vcpus))
            });
            wishes.push(Wish {
                vm: *id,
                cell,
                nodes: nodes.collect(),
            });
        }
    }
    wishes
}

/// What the cell holds now, if that is all of its memory and there.
fn hold(ground: &Ground, wish: &Wish, free: &mut [u64]) -> Option<Held> {
    let wanted = ground.tenant(wish.vm).cells[wish.cell as usize].memory_mib;
    let own = ground
        .now
        .placement
        .memory_of(wish.vm)
        .iter()
        .filter(|home| home.cell == wish.cell);
    let mut held = Held::new();
    for home in own {
        let sum = held.entry(home.node).or_default();
        *sum = sum.saturating_add(home.mib);
    }
    let all = held
        .values()
        .fold(0_u64, |sum, &mib| sum.saturating_add(mib));
    let fits = held
        .iter()
        .all(|(node, &mib)| free.get(node.index()).is_some_and(|&free| free >= mib));
    (wanted > 0 && all == wanted && fits).then_some(())?;
    for (node, mib) in &held {
        free[node.index()] -= mib;
    }
    Some(held)
}

/// Moves what is not at home to where there is room at home.
fn follow(wish: &Wish, held: &mut Held, free: &mut [u64], left: &mut u64) {
    let is_home = |node: &NodeId| wish.nodes.iter().any(|(home, _)| home == node);
    let away: Vec<NodeId> = held.keys().copied().filter(|node| !is_home(node)).collect();
    for from in away {
        for (home, _) in &wish.nodes {
            let there = held.get(&from).copied().unwrap_or(0);
            let mib = there.min(free[home.index()]).min(*left);
            if mib > 0 {
                *left -= mib;
                free[home.index()] -= mib;
                free[from.index()] = free[from.index()].saturating_add(mib);
                held.insert(from, there - mib);
                *held.entry(*home).or_default() += mib;
            }
        }
    }
    held.retain(|_, mib| *mib > 0);
}

/// Memory of a cell that arrives: at home by vCPUs, then wherever there is room, nearest first.
fn arrive(ground: &Ground, wish: &Wish, free: &mut [u64]) -> Held {
    let wanted = ground.tenant(wish.vm).cells[wish.cell as usize].memory_mib;
    let vcpus = wish
        .nodes
        .iter()
        .map(|(_, vcpus)| vcpus)
        .sum::<u64>()
        .max(1);
    let mut held = Held::new();
    let mut left = wanted;
    let mut take = |node: NodeId, most: u64, left: &mut u64| {
        let mib = most.min(free[node.index()]).min(*left);
        free[node.index()] -= mib;
        *left -= mib;
        if mib > 0 || wanted == 0 {
            *held.entry(node).or_default() += mib;
        }
    };
    for &(node, part) in &wish.nodes {
        let part = u128::from(wanted) * u128::from(part) / u128::from(vcpus);
        take(node, u64::try_from(part).unwrap_or(u64::MAX), &mut left);
    }
    for (node, _) in &wish.nodes {
        take(*node, u64::MAX, &mut left);
    }
    if left > 0 {
        let host = &ground.now.host;
        let home = wish.nodes.first().map(|(node, _)| *node);
        let mut others: Vec<NodeId> = (0..).map(NodeId).take(host.nodes.len()).collect();
        others.sort_by_key(|&node| (home.map(|home| host.distance(home, node)), node));
        for node in others {
            take(node, u64::MAX, &mut left);
        }
    }
    held
}
