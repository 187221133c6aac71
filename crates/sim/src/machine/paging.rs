//! Where the memory of VMs lies, how it moves, and what happens when there is not enough. Amounts are in MiB.

use crate::time::{Nanos, S};

/// Pages of 4 KiB in a MiB.
pub const PAGES_PER_MIB: u64 = 256;
/// Pages a second that ESXi moves between nodes at most (`Numa.PageMigRateMax` since 6.5; 16,000 in 6.0, 32,000 in 9.0).
pub const ESXI_PAGES_PER_S: u64 = 8_000;
/// CPU time for one page moved, with the invalidations on other CPUs: 1 to 2 us (reference model, section 2.3; general
/// knowledge).
pub const PAGE_MOVE_NS: Nanos = 1_500;
/// Part of a VM's memory that is equal in other VMs of its kind: 29 % on nine alike Linux VMs, 10 to 43 % in all
/// (Waldspurger, Memory Resource Management in VMware ESX Server, 2002; quoted from memory, not verified).
pub const EQUAL_PERMILLE: u64 = 290;
/// Speed that a VM loses to a balloon that takes idle memory only, in thousandths: 1.4 to 4.4 % (same paper, same doubt).
pub const BALLOON_PERMILLE: u64 = 30;
/// Time against normal of work whose memory is all taken: it is paged by the guest. Ours, to be felt, not to be exact.
pub const PAGING_FACTOR: f64 = 10.0;

/// Memory of a VM on a node that runs short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// What kind of guest it is: VMs of one kind have pages in common.
    pub kind: u32,
    /// Its memory on the node.
    pub mib: u64,
    /// Part of it that it uses, in thousandths.
    pub active_permille: u32,
}

/// What a shortage costs a VM.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Squeezed {
    /// Memory that it shares with VMs of its kind, and so does not take.
    pub shared_mib: u64,
    /// Memory that a balloon took.
    pub ballooned_mib: u64,
    /// Its speed against normal, above 0.
    pub speed: f64,
}

/// Pages on their way from node to node. Only so many move in a second; what is left of a second's fraction is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mover {
    /// Pages a second.
    pub pages_per_s: u64,
    /// Page-nanoseconds not yet spent, below a second's.
    credit: u64,
}

/// Takes `wanted` from the nodes in `order`, each as long as it has something free, as first touch does when it finds the
/// local node full: remote memory before none (claim S4-09). Adds to `taken` by node and returns what found no place.
pub fn place_memory(free: &mut [u64], wanted: u64, order: &[u32], taken: &mut [u64]) -> u64 {
    let mut left = wanted;
    for &node in order {
        let part = left.min(free[node as usize]);
        free[node as usize] -= part;
        taken[node as usize] += part;
        left -= part;
    }
    left
}

/// Takes `wanted` in equal parts from all of `nodes`; what one lacks comes from the others. As [`place_memory`].
pub fn interleave(free: &mut [u64], wanted: u64, nodes: &[u32], taken: &mut [u64]) -> u64 {
    let mut left = wanted;
    while left > 0 {
        let open = nodes.iter().filter(|&&node| free[node as usize] > 0);
        let count = open.count() as u64;
        if count == 0 {
            break;
        }
        let mut extra = left % count;
        let part = left / count;
        for &node in nodes {
            let room = free[node as usize];
            if room == 0 {
                continue;
            }
            let mine = (part + u64::from(extra > 0)).min(room).min(left);
            extra = extra.saturating_sub(1);
            free[node as usize] -= mine;
            taken[node as usize] += mine;
            left -= mine;
        }
    }
    left
}

/// Weights of a VM's memory by node from what it has there; even weights when it has none.
pub fn weights(taken: &[u64], weights: &mut [f64]) {
    let sum: u64 = taken.iter().sum();
    for (weight, &mib) in weights.iter_mut().zip(taken) {
        *weight = if sum == 0 {
            1.0 / taken.len() as f64
        } else {
            mib as f64 / sum as f64
        };
    }
}

impl Mover {
    /// Nothing is under way.
    pub fn new(pages_per_s: u64) -> Self {
        Self {
            pages_per_s,
            credit: 0,
        }
    }

    /// Pages that may move after a further `dt_ns`, at most `wanted`. What is not wanted is not saved up.
    pub fn pages(&mut self, wanted: u64, dt_ns: Nanos) -> u64 {
        let gained = self.pages_per_s.saturating_mul(dt_ns.min(3_600 * S));
        let credit = self.credit.saturating_add(gained);
        let pages = (credit / S).min(wanted);
        self.credit = if pages == wanted {
            0
        } else {
            credit - pages * S
        };
        pages
    }
}

/// Makes room on a node that is short of memory: first pages that VMs of a kind have in common are held once, then
/// balloons take the rest from all in proportion to their idle memory, then from what they use. Until memory runs short,
/// nothing is shared: hosts back VMs with large pages and break them only then. Writes one answer for each VM and returns
/// what is still missing, which has to be swapped or refused.
pub fn squeeze(residents: &[Resident], short_mib: u64, answers: &mut [Squeezed]) -> u64 {
    let mut left = short_mib;
    for answer in &mut *answers {
        *answer = Squeezed {
            speed: 1.0,
            ..Squeezed::default()
        };
    }
    if short_mib == 0 {
        return 0;
    }
    for (index, answer) in answers.iter_mut().enumerate().take(residents.len()) {
        answer.shared_mib = shared_mib(residents, index).min(left);
        left -= answer.shared_mib;
    }
    let room = |resident: &Resident, answer: &Squeezed| resident.mib - answer.shared_mib;
    let idle_of = |resident: &Resident, answer: &Squeezed| {
        let idle = resident.mib * u64::from(1000 - resident.active_permille.min(1000)) / 1000;
        idle.min(room(resident, answer))
    };
    left = balloon(residents, left, answers, idle_of);
    left = balloon(residents, left, answers, |resident, answer| {
        room(resident, answer) - answer.ballooned_mib
    });
    for (resident, answer) in residents.iter().zip(answers) {
        answer.speed = speed(resident, answer);
    }
    left
}

/// Memory of a VM that it need not have: it is equal to that of an earlier VM of its kind.
fn shared_mib(residents: &[Resident], index: usize) -> u64 {
    let mine = residents[index];
    let others = residents[..index]
        .iter()
        .filter(|other| other.kind == mine.kind);
    let largest = others.map(|other| other.mib).max().unwrap_or(0);
    largest.min(mine.mib) * EQUAL_PERMILLE / 1000
}

/// Takes memory from all in proportion to what each has to give, rounding up so that nothing is left over needlessly.
fn balloon(
    residents: &[Resident],
    mut left: u64,
    answers: &mut [Squeezed],
    has: impl Fn(&Resident, &Squeezed) -> u64,
) -> u64 {
    let of = |(resident, answer): (&Resident, &Squeezed)| has(resident, answer);
    let mut all: u64 = residents.iter().zip(&*answers).map(of).sum();
    for (resident, answer) in residents.iter().zip(answers) {
        let mine = has(resident, answer);
        if left == 0 || all == 0 {
            break;
        }
        let part = (u128::from(left) * u128::from(mine)).div_ceil(u128::from(all)) as u64;
        let part = part.min(mine).min(left);
        answer.ballooned_mib += part;
        left -= part;
        all -= mine;
    }
    left
}

fn speed(resident: &Resident, answer: &Squeezed) -> f64 {
    if answer.ballooned_mib == 0 || resident.mib == 0 {
        return 1.0;
    }
    let active = resident.mib * u64::from(resident.active_permille.min(1000)) / 1000;
    let idle = resident.mib - active;
    // Shared pages lie in the idle part first: zeroes and code that seldom runs.
    let used =
        (answer.ballooned_mib + answer.shared_mib).saturating_sub(idle.max(answer.shared_mib));
    let paged = used as f64 / active.max(1) as f64;
    let ballooned = answer.ballooned_mib as f64 / resident.mib as f64;
    let light = 1.0 - BALLOON_PERMILLE as f64 / 1000.0 * ballooned;
    light / (1.0 + (PAGING_FACTOR - 1.0) * paged.min(1.0))
}

#[cfg(test)]
mod tests;
