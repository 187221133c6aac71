//! Where worlds were busy lately: for each world a short list of LLCs with exponentially smoothed shares of the time.

use super::WorldLoad;
use crate::time::{LONGEST_NS, MS, Nanos};

/// A world that runs all the time, in units of a share.
pub(super) const WHOLE: u64 = 1 << 20;
/// How long the past counts. Ours: four threads that miss 8 times a us (OLTP) fill 16 MiB in 8 ms, one in 33 ms.
const MEMORY_NS: Nanos = 20 * MS;
/// Shares below this are forgotten: 0.006 %. Ours.
const LEAST: u32 = 64;
/// Most LLCs of a world; of more, the least used are forgotten.
const MOST: usize = 32;
/// Fixed point of the smoothing factor.
const UNIT: u64 = 1 << 16;
/// Fixed point of a share for each ns.
const SCALE: u64 = 1 << 40;

/// A place of a world.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) llc: u32,
    /// Share of the time, [`WHOLE`] is all.
    pub(super) share: u32,
}

/// The lists, by ascending LLC, [`MOST`] entries apart.
#[derive(Debug, Clone, Default)]
pub(super) struct Trails {
    entries: Vec<Entry>,
    counts: Vec<usize>,
}

impl Trails {
    /// The list of a world.
    pub(super) fn of(&self, world: usize) -> &[Entry] {
        &self.entries[world * MOST..world * MOST + self.counts[world]]
    }

    /// Takes an epoch. A world that was nowhere takes it as it is.
    pub(super) fn smooth(&mut self, worlds: &[WorldLoad], dt_ns: Nanos) {
        self.entries.resize(worlds.len() * MOST, Entry::default());
        self.counts.resize(worlds.len(), 0);
        if dt_ns == 0 {
            return;
        }
        let dt_ns = dt_ns.min(LONGEST_NS);
        let keep = (-(dt_ns as f64) / MEMORY_NS as f64).exp();
        let keep = (keep * UNIT as f64).round() as u64;
        // One division for all; the product with an epoch is at most 2^60.
        let per_ns = WHOLE * SCALE / dt_ns;
        let lists = self.entries.chunks_exact_mut(MOST);
        for ((list, count), world) in lists.zip(&mut self.counts).zip(worlds) {
            let keep = if *count == 0 { 0 } else { keep };
            let gained = |ns: Nanos| {
                let share = (ns.min(dt_ns) * per_ns + SCALE / 2) / SCALE;
                (share * (UNIT - keep) / UNIT) as u32
            };
            let kept = |share: u32| (u64::from(share) * keep / UNIT) as u32;
            let old = list[..*count].iter_mut();
            // Most worlds were where they were before.
            if world
                .ran
                .iter()
                .map(|place| place.0)
                .eq(old.map(|entry| entry.llc))
            {
                for (entry, &(_, ns)) in list.iter_mut().zip(world.ran) {
                    entry.share = kept(entry.share) + gained(ns);
                }
            } else {
                for entry in &mut list[..*count] {
                    entry.share = kept(entry.share);
                }
                let mut from = 0;
                for &(llc, ns) in world.ran {
                    from = add(list, count, (llc, gained(ns)), from);
                }
            }
            forget(list, count);
        }
    }
}

/// Adds to a list, beginning to look at `from`; returns where it was added.
fn add(list: &mut [Entry], count: &mut usize, (llc, share): (u32, u32), from: usize) -> usize {
    let before = if from > 0 && list[from - 1].llc >= llc {
        0
    } else {
        from
    };
    let rest = &list[before..*count];
    let at = before
        + rest
            .iter()
            .position(|entry| entry.llc >= llc)
            .unwrap_or(rest.len());
    if at < *count && list[at].llc == llc {
        list[at].share = list[at].share.saturating_add(share).min(WHOLE as u32);
        return at;
    }
    if share < LEAST {
        return at;
    }
    if *count == MOST {
        let least = (0..MOST)
            .min_by_key(|&index| list[index].share)
            .unwrap_or(0);
        if list[least].share >= share {
            return at;
        }
        list.copy_within(least + 1.., least);
        *count -= 1;
        return add(list, count, (llc, share), 0);
    }
    list.copy_within(at..*count, at + 1);
    list[at] = Entry { llc, share };
    *count += 1;
    at
}

fn forget(list: &mut [Entry], count: &mut usize) {
    if list[..*count].iter().all(|entry| entry.share >= LEAST) {
        return;
    }
    let mut kept = 0;
    for index in 0..*count {
        if list[index].share >= LEAST {
            list[kept] = list[index];
            kept += 1;
        }
    }
    *count = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smoothed(epochs: &[&[(u32, Nanos)]]) -> Vec<(u32, u32)> {
        let mut trails = Trails::default();
        for ran in epochs {
            let world = WorldLoad {
                vm: 0,
                vector: 0,
                ran,
                memory: &[],
            };
            trails.smooth(&[world], MS);
        }
        trails
            .of(0)
            .iter()
            .map(|entry| (entry.llc, entry.share))
            .collect()
    }

    #[test]
    fn a_new_world_counts_at_once_and_an_old_one_is_forgotten() {
        let half = (WHOLE / 2) as u32;
        assert_eq!(smoothed(&[&[(3, MS / 2)]]), [(3, half)]);
        let mut epochs: Vec<&[(u32, Nanos)]> = vec![&[(3, MS)]];
        epochs.extend([&[(1_u32, MS)][..]; 400]);
        let after = smoothed(&epochs);
        assert_eq!(after.len(), 1, "{after:?}");
        assert!(after[0].0 == 1 && u64::from(after[0].1) > WHOLE * 999 / 1000);
    }

    #[test]
    fn shares_decay_with_their_time_constant() {
        let mut epochs: Vec<&[(u32, Nanos)]> = vec![&[(0, MS)]];
        epochs.extend([&[][..]; 20]);
        let share = f64::from(smoothed(&epochs)[0].1) / WHOLE as f64;
        assert!((share - (-1.0_f64).exp()).abs() < 1e-3, "{share}");
    }

    #[test]
    fn lists_stay_sorted_and_short() {
        let many: Vec<(u32, Nanos)> = (0..40)
            .rev()
            .map(|llc| (llc, 1000 + u64::from(llc)))
            .collect();
        let list = smoothed(&[&many, &many]);
        assert_eq!(list.len(), MOST);
        assert!(list.is_sorted_by_key(|entry| entry.0));
        assert_eq!(list.last().map(|entry| entry.0), Some(39));
    }
}
