//! Sets of CPUs by index, for searches in a few instructions.

use std::ops::Range;

/// A set of CPU indices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bits {
    words: Box<[u64]>,
}

impl Bits {
    /// An empty set with room for indices below `len`.
    pub(crate) fn new(len: usize) -> Self {
        Self {
            words: vec![0; len.div_ceil(64).max(1)].into(),
        }
    }

    pub(crate) fn insert(&mut self, index: u32) {
        self.words[index as usize / 64] |= 1 << (index % 64);
    }

    pub(crate) fn remove(&mut self, index: u32) {
        self.words[index as usize / 64] &= !(1 << (index % 64));
    }

    pub(crate) fn contains(&self, index: u32) -> bool {
        self.words[index as usize / 64] & (1 << (index % 64)) != 0
    }

    /// The first index in a range that is in both sets.
    pub(crate) fn first_common(&self, other: &Self, range: Range<u32>) -> Option<u32> {
        let mut at = range.start;
        while at < range.end {
            let word = at as usize / 64;
            let from_here = self.words[word] & other.words[word] & (u64::MAX << (at % 64));
            if from_here != 0 {
                let found = (at / 64) * 64 + from_here.trailing_zeros();
                return (found < range.end).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// As [`first_common`](Self::first_common), but from `start` on and then from the beginning of the range.
    pub(crate) fn next_common(&self, other: &Self, range: Range<u32>, start: u32) -> Option<u32> {
        let middle = start.clamp(range.start, range.end);
        self.first_common(other, middle..range.end)
            .or_else(|| self.first_common(other, range.start..middle))
    }

    pub(crate) fn len(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(indices: &[u32]) -> Bits {
        let mut bits = Bits::new(200);
        for &index in indices {
            bits.insert(index);
        }
        bits
    }

    #[test]
    fn searches_stay_in_their_range() {
        let (a, b) = (set(&[3, 64, 70, 130, 199]), set(&[3, 70, 131, 199]));
        assert_eq!(a.first_common(&b, 0..200), Some(3));
        assert_eq!(a.first_common(&b, 4..70), None);
        assert_eq!(a.first_common(&b, 4..71), Some(70));
        assert_eq!(a.first_common(&b, 71..199), None);
        assert_eq!(a.next_common(&b, 0..200, 71), Some(199));
        assert_eq!(a.next_common(&b, 0..100, 71), Some(3));
        assert_eq!(a.len(), 5);
    }
}
