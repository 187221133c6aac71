//! Replacing parts of a text without touching the rest.

use std::ops::Range;

/// Replacements of byte ranges of one text, made in any order and applied at once.
#[derive(Debug, Default)]
pub(super) struct Splices {
    parts: Vec<(Range<usize>, String)>,
}

impl Splices {
    /// Replaces a range.
    pub(super) fn replace(&mut self, range: Range<usize>, with: impl Into<String>) {
        self.parts.push((range, with.into()));
    }

    /// Inserts before a byte. Insertions at the same place come out in the order they were made.
    pub(super) fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(at..at, text);
    }

    /// Takes a range out.
    pub(super) fn remove(&mut self, range: Range<usize>) {
        self.replace(range, "");
    }

    /// The text with all replacements. Where two overlap, the one that starts first (or, at the same start, the shorter)
    /// wins and the other is cut to what is left of its range.
    pub(super) fn apply(mut self, text: &str) -> String {
        self.parts
            .sort_by_key(|(range, _)| (range.start, range.end));
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for (range, with) in &self.parts {
            out.push_str(text.get(at..range.start).unwrap_or_default());
            out.push_str(with);
            at = at.max(range.end);
        }
        out.push_str(text.get(at..).unwrap_or_default());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_everything_else() {
        let mut splices = Splices::default();
        splices.insert(5, "!");
        splices.replace(0..2, "HE");
        splices.insert(5, "?");
        splices.remove(6..8);
        assert_eq!(splices.apply("hello world"), "HEllo!? rld");
        assert_eq!(Splices::default().apply("as it is"), "as it is");
    }

    #[test]
    fn a_part_of_what_is_removed_stays_removed() {
        let mut splices = Splices::default();
        splices.remove(2..8);
        splices.replace(4..6, "x");
        assert_eq!(splices.apply("0123456789"), "01x89");
    }
}
