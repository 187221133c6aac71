//! What no seat of a VM can undercut: sound bounds, without a search. Nothing that these call worthless is looked at
//! closer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::state::State;
use crate::cost::weights::BALANCE_NS;

/// Hosts with more domains are not asked for their nearest pair: up to here the site has a table of all pairs. Ours.
const PAIRS_OF: usize = 256;

/// Least extra ns between two domains of the host; 0 where it has too many to ask.
pub(super) fn nearest_ns(state: &State) -> i64 {
    let site = &state.problem.site;
    if site.domains.len() > PAIRS_OF {
        return 0;
    }
    let domains = 0..u32::try_from(site.domains.len()).unwrap_or(u32::MAX);
    let pairs = domains
        .flat_map(|a| (0..a).map(move |b| (a, b)))
        .map(|(a, b)| site.extra_ns(a, b, None));
    pairs.min().unwrap_or(0)
}

/// The least a VM costs by itself on any seat its capacities allow: its vCPUs on the domains it likes best, as near to
/// each other as [`nearest_ns`] allows, beside their memory and their partners.
pub(super) fn own(state: &State, vm: usize, nearest_ns: i64) -> i64 {
    let tenant = state.tenant(vm);
    let widest = tenant.caps.iter().copied().max().unwrap_or(0);
    let pairs = tenant.cells.iter().map(|cell| {
        let n = u32::try_from(cell.vcpus.len()).unwrap_or(u32::MAX);
        let balance_ns = if cell.blocks.is_empty() {
            BALANCE_NS
        } else {
            0
        };
        apart_ns(n, widest, nearest_ns, balance_ns)
    });
    let across_cells = apart_ns(tenant.vcpus, widest, nearest_ns, 0);
    alone(state, vm) + tenant.per_pair_ns * across_cells.max(pairs.sum())
}

/// The least sum of the ns between `n` vCPUs in parts of at most `widest`, with what unequal parts cost. With parts of
/// `a` to `b`, a square is at most its chord: `s^2 <= (a + b) s - a b`. That bounds the pairs within parts.
fn apart_ns(n: u32, widest: u32, nearest_ns: i64, balance_ns: i64) -> i64 {
    if n <= widest || widest == 0 || nearest_ns == 0 {
        return 0;
    }
    let of_sizes = |a: u32, b: u32| {
        let parts = i64::from(n.div_ceil(b));
        let [n, a, b] = [n, a, b].map(i64::from);
        let twice = (n * n - (a + b) * n + parts * a * b).max(0);
        let beyond = (b - a - 1).max(0);
        nearest_ns * twice / 2 + balance_ns * beyond * beyond
    };
    let sizes = (1..=widest).flat_map(|b| (1..=b).map(move |a| (a, b)));
    sizes.map(|(a, b)| of_sizes(a, b)).min().unwrap_or(0)
}

/// Devices and soft affinity of vCPUs on the domains that please them most, as far as these have room.
fn alone(state: &State, vm: usize) -> i64 {
    let (tenant, site) = (state.tenant(vm), &state.problem.site);
    if tenant.device_nodes.is_empty() && tenant.soft.is_empty() {
        return 0;
    }
    let rooms = (0..).zip(tenant.caps.iter()).filter(|(_, cap)| **cap > 0);
    let mut rooms: Vec<(i64, u32)> = rooms
        .map(|(domain, &cap)| (tenant.alone(site, domain), cap))
        .collect();
    rooms.sort_unstable();
    let (mut rest, mut cost) = (tenant.vcpus, 0);
    for (each, cap) in rooms {
        let n = cap.min(rest);
        cost += i64::from(n) * each;
        rest -= n;
    }
    cost
}

/// The least that the loads of a VM that does not sit add to the domains: one vCPU after the other where it adds least,
/// which is the optimum of convex costs. `None` when there is no room.
pub(super) fn load(state: &State, vm: usize) -> Option<i64> {
    let tenant = state.tenant(vm);
    let more = |domain: u32, vcpus: u32| state.more_load_cost(vm, domain, vcpus);
    let mut next: BinaryHeap<Reverse<(i64, u32, u32)>> = (0..)
        .zip(tenant.caps.iter())
        .filter(|(_, cap)| **cap > 0)
        .map(|(domain, _)| Reverse((more(domain, 1), domain, 1)))
        .collect();
    let mut cost = 0;
    for _ in 0..tenant.vcpus {
        let Reverse((price, domain, vcpus)) = next.pop()?;
        cost += price;
        if vcpus < tenant.caps[domain as usize] {
            let price = more(domain, vcpus + 1) - more(domain, vcpus);
            next.push(Reverse((price, domain, vcpus + 1)));
        }
    }
    let domains = || 0..u32::try_from(tenant.caps.len()).unwrap_or(u32::MAX);
    let system = tenant.system.as_ref().and_then(|load| {
        domains()
            .map(|domain| state.more_cost(domain, load, 1))
            .min()
    });
    Some(cost + system.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least over all ways to cut `n` into parts, by trying them.
    fn tried(n: u32, widest: u32, nearest_ns: i64, balance_ns: i64) -> i64 {
        fn cut(left: u32, most: u32, parts: &mut Vec<u32>, each: &mut dyn FnMut(&[u32])) {
            if left == 0 {
                each(parts);
            }
            for part in 1..=most.min(left) {
                parts.push(part);
                cut(left - part, part, parts, each);
                parts.pop();
            }
        }
        let mut least = i64::MAX;
        cut(n, widest, &mut Vec::new(), &mut |parts| {
            let squares: u32 = parts.iter().map(|part| part * part).sum();
            let [a, b] =
                [parts.iter().min(), parts.iter().max()].map(|part| i64::from(*part.unwrap()));
            let beyond = (b - a - 1).max(0);
            let pairs = i64::from((n * n - squares) / 2);
            least = least.min(nearest_ns * pairs + balance_ns * beyond * beyond);
        });
        least
    }

    #[test]
    fn no_cut_is_nearer_than_the_bound() {
        for (nearest_ns, balance_ns) in [(85, 106), (190, 106), (20, 106), (190, 0)] {
            for (n, widest) in (1..=16).flat_map(|n| (1..=9).map(move |widest| (n, widest))) {
                let (bound, least) = (
                    apart_ns(n, widest, nearest_ns, balance_ns),
                    tried(n, widest, nearest_ns, balance_ns),
                );
                let what = format!("{n} by {widest}, {nearest_ns} ns");
                assert!(bound <= least, "{what}: {bound} is above {least}");
                let is_even = n % widest == 0 || n <= widest;
                assert!(!is_even || bound == least, "{what}: {bound}, not {least}");
            }
        }
    }
}
