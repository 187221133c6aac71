//! Sets of CPUs (or vCPUs), written as Linux does: `"0-3,8"`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Largest CPU number a set may hold, exclusive. Linux allows 8192 (`NR_CPUS` with `MAXSMP`); eight times that is
/// room to spare and keeps a hostile `"0-4294967295"` from taking memory.
pub const MAX_CPUS: u32 = 65_536;

/// A Linux CPU number, or the index of a vCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u32);

impl CpuId {
    /// The number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of CPU numbers below [`MAX_CPUS`]. Equal sets compare equal whatever way they were made.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuSet {
    /// Bit `i % 64` of word `i / 64` is CPU `i`; the last word is never zero.
    words: Vec<u64>,
}

/// Why a text is no CPU set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("CPU set {text:?}: {problem}; write CPUs as \"0-3,8\"")]
pub struct CpuSetError {
    /// The text as given, shortened to 60 characters.
    pub text: String,
    /// What is wrong with it.
    pub problem: String,
}

impl CpuSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// The CPUs `start..end`. Numbers from [`MAX_CPUS`] on are left out.
    pub fn from_range(range: std::ops::Range<u32>) -> Self {
        range.map(CpuId).collect()
    }

    /// The set whose bit `i % 64` of word `i / 64` stands for CPU `i`, as the kernel keeps its masks; `None` if it holds
    /// a number that is not below [`MAX_CPUS`].
    pub fn from_words(words: Vec<u64>) -> Option<Self> {
        let mut set = Self { words };
        set.trim();
        let most = MAX_CPUS as usize / 64;
        (set.words.len() <= most).then_some(set)
    }

    /// Adds a CPU; `false` if it was there already or is not below [`MAX_CPUS`].
    pub fn insert(&mut self, cpu: CpuId) -> bool {
        if cpu.0 >= MAX_CPUS {
            return false;
        }
        let word = cpu.index() / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let bit = 1 << (cpu.0 % 64);
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Takes a CPU out; `false` if it was not there.
    pub fn remove(&mut self, cpu: CpuId) -> bool {
        let was = self.contains(cpu);
        if was {
            self.words[cpu.index() / 64] &= !(1 << (cpu.0 % 64));
            self.trim();
        }
        was
    }

    /// Whether the CPU is in the set.
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.words
            .get(cpu.index() / 64)
            .is_some_and(|word| word & (1 << (cpu.0 % 64)) != 0)
    }

    /// Number of CPUs in the set.
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Whether the set has no CPU.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The smallest CPU. The kernel names a cache domain by it (`kernel/sched/topology.c`).
    pub fn first(&self) -> Option<CpuId> {
        self.iter().next()
    }

    /// The largest CPU.
    pub fn last(&self) -> Option<CpuId> {
        let word = self.words.len().checked_sub(1)?;
        let high = self.words[word].ilog2();
        u32::try_from(word).ok().map(|word| CpuId(word * 64 + high))
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        (0u32..).zip(&self.words).flat_map(|(word, &bits)| {
            // Each step clears the lowest bit that is set, so that empty words cost nothing.
            let steps = std::iter::successors(Some(bits), |bits| Some(bits & bits.wrapping_sub(1)));
            let left = steps.take_while(|&bits| bits != 0);
            left.map(move |bits| CpuId(word * 64 + bits.trailing_zeros()))
        })
    }

    /// CPUs in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (long, short) = if self.words.len() >= other.words.len() {
            (self, other)
        } else {
            (other, self)
        };
        let mut words = long.words.clone();
        for (word, bits) in words.iter_mut().zip(&short.words) {
            *word |= bits;
        }
        Self { words }
    }

    /// CPUs in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let words = self
            .words
            .iter()
            .zip(&other.words)
            .map(|(a, b)| a & b)
            .collect();
        let mut set = Self { words };
        set.trim();
        set
    }

    /// CPUs of this set that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let others = other.words.iter().copied().chain(std::iter::repeat(0));
        let mut set = Self {
            words: self.words.iter().zip(others).map(|(a, b)| a & !b).collect(),
        };
        set.trim();
        set
    }

    /// Whether every CPU of this set is in the other.
    pub fn is_subset(&self, other: &Self) -> bool {
        let others = other.words.iter().copied().chain(std::iter::repeat(0));
        self.words.iter().zip(others).all(|(a, b)| a & !b == 0)
    }

    /// Whether the sets share a CPU.
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Adds the CPUs from `start` to `end`, both below [`MAX_CPUS`], a word at a time: hostile lists repeat long ranges.
    fn insert_range(&mut self, start: u32, end: u32) {
        let (first, last) = (start / 64, end / 64);
        if self.words.len() <= last as usize {
            self.words.resize(last as usize + 1, 0);
        }
        for word in first..=last {
            let from = if word == first { start % 64 } else { 0 };
            let to = if word == last { end % 64 } else { 63 };
            self.words[word as usize] |= (u64::MAX >> (63 - to)) & (u64::MAX << from);
        }
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        let mut set = Self::new();
        set.extend(cpus);
        set
    }
}

impl Extend<CpuId> for CpuSet {
    fn extend<I: IntoIterator<Item = CpuId>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().map(|cpu| cpu.0).peekable();
        let mut separator = "";
        while let Some(start) = cpus.next() {
            let mut end = start;
            while let Some(next) = cpus.next_if(|&next| next == end + 1) {
                end = next;
            }
            write!(f, "{separator}{start}")?;
            if end > start {
                write!(f, "-{end}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    /// Reads `"0-3,8"`; blanks around parts are allowed, the empty text is the empty set.
    fn from_str(text: &str) -> Result<Self, CpuSetError> {
        let fail = |problem: String| CpuSetError {
            text: text.chars().take(60).collect(),
            problem,
        };
        let number = |digits: &str| {
            let digits = digits.trim();
            let value = digits
                .parse::<u32>()
                .map_err(|_| fail(format!("{digits:?} is no number")))?;
            if value >= MAX_CPUS {
                return Err(fail(format!("{value} is not below {MAX_CPUS}")));
            }
            Ok(value)
        };
        let mut set = Self::new();
        if text.trim().is_empty() {
            return Ok(set);
        }
        for part in text.split(',') {
            let (start, end) = match part.split_once('-') {
                Some((start, end)) => (number(start)?, number(end)?),
                None => (number(part)?, number(part)?),
            };
            if end < start {
                return Err(fail(format!("{start}-{end} runs backwards")));
            }
            set.insert_range(start, end);
        }
        Ok(set)
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_and_writes_the_kernels_notation() {
        for (text, canonical, len) in [
            ("", "", 0),
            ("0", "0", 1),
            ("0-3,8", "0-3,8", 5),
            (" 3 , 1-2 ", "1-3", 3),
            ("64-127,0", "0,64-127", 65),
            ("5,5,5", "5", 1),
        ] {
            let set: CpuSet = text.parse().unwrap();
            assert_eq!(
                (set.to_string().as_str(), set.len()),
                (canonical, len),
                "{text:?}"
            );
        }
    }

    #[test]
    fn words_are_masks() {
        let set = |words: Vec<u64>| CpuSet::from_words(words);
        assert_eq!(set(vec![0b1011, 1, 0]), "0-1,3,64".parse().ok());
        assert_eq!(set(vec![0; 3000]), Some(CpuSet::new()));
        assert_eq!(set(vec![1; 1025]), None);
    }

    #[test]
    fn refuses_what_is_no_set_without_taking_memory() {
        for text in [
            "a",
            "-1",
            "3-1",
            "1-",
            "0-4294967295",
            "99999999999",
            "1,,2",
            "0x3",
            "1;2",
        ] {
            assert!(text.parse::<CpuSet>().is_err(), "{text:?}");
        }
    }

    fn sets() -> impl Strategy<Value = BTreeSet<u32>> {
        proptest::collection::btree_set(0u32..300, 0..40)
    }

    fn cpuset(of: &BTreeSet<u32>) -> CpuSet {
        of.iter().copied().map(CpuId).collect()
    }

    proptest! {
        #[test]
        fn agrees_with_the_standard_set(a in sets(), b in sets()) {
            let (left, right) = (cpuset(&a), cpuset(&b));
            prop_assert_eq!(left.union(&right), cpuset(&(&a | &b)));
            prop_assert_eq!(left.intersection(&right), cpuset(&(&a & &b)));
            prop_assert_eq!(left.difference(&right), cpuset(&(&a - &b)));
            prop_assert_eq!(left.is_subset(&right), a.is_subset(&b));
            prop_assert_eq!(left.intersects(&right), !a.is_disjoint(&b));
            prop_assert_eq!(left.first().map(|cpu| cpu.0), a.first().copied());
            prop_assert_eq!(left.last().map(|cpu| cpu.0), a.last().copied());
            prop_assert_eq!(left.to_string().parse::<CpuSet>().unwrap(), left);
        }

        #[test]
        fn reading_any_text_returns(text in ".{0,40}") {
            let _ = text.parse::<CpuSet>();
        }
    }
}
