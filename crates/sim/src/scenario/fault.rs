//! What is wrong with a scenario.

use std::ops::Range;

/// Longest word that is held against the known ones, in bytes: longer than any of them. Ours.
const LONGEST_WORD: usize = 200;

/// Why a text is no simulation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ScenarioError {
    /// What was found, and what is allowed.
    pub message: String,
    /// Where, in bytes of the text; of the key where [`key`](Self::key) is set.
    pub span: Range<usize>,
    /// The key that was to be set, if it is what is wrong, and not the text.
    pub key: Option<String>,
    /// The word that is not known and those that are, where that is what is wrong.
    pub unknown: Option<(String, Vec<String>)>,
}

impl ScenarioError {
    /// The known word that looks most like the unknown one, if one is near.
    pub fn nearest(&self) -> Option<&str> {
        let (word, known) = self.unknown.as_ref()?;
        // The comparison takes room for each pair of letters.
        if word.len() > LONGEST_WORD {
            return None;
        }
        let word = word.to_lowercase().replace('-', "_");
        let distance = |name: &&String| {
            strsim::damerau_levenshtein(&word, &name.to_lowercase().replace('-', "_"))
        };
        let nearest = known.iter().min_by_key(distance)?;
        // As the command line judges other words: half of it may be wrong.
        (distance(&nearest) <= word.len().max(4) / 2).then_some(nearest)
    }
}

impl From<model::scenario::ScenarioError> for ScenarioError {
    fn from(error: model::scenario::ScenarioError) -> Self {
        let owned = |(word, known): (String, Vec<&'static str>)| {
            (word, known.into_iter().map(str::to_owned).collect())
        };
        Self {
            message: error.message,
            span: error.span,
            key: None,
            unknown: error.unknown.map(owned),
        }
    }
}

/// A [`ScenarioError`] whose place may still be open: what the library says has no place in the scenario.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) message: String,
    pub(super) span: Option<Range<usize>>,
    pub(super) unknown: Option<(String, Vec<String>)>,
}

impl Fault {
    pub(super) fn at(message: impl Into<String>, span: Option<Range<usize>>) -> Self {
        Self {
            message: message.into(),
            span,
            unknown: None,
        }
    }

    /// A word that is not among the known ones.
    pub(super) fn unknown(
        what: &str,
        word: &str,
        known: impl IntoIterator<Item = impl Into<String>>,
        span: Option<Range<usize>>,
    ) -> Self {
        let known: Vec<String> = known.into_iter().map(Into::into).collect();
        let mut fault = Self {
            unknown: Some((word.to_owned(), known)),
            ..Self::at(format!("{} is no {what}", shown(word)), span)
        };
        let error = fault.clone().or_at(0..0);
        if let Some(nearest) = error.nearest() {
            fault.message += &format!("; did you mean `{nearest}`?");
        }
        fault
    }

    /// The error, at `home` if nothing nearer is known.
    pub(super) fn or_at(self, home: Range<usize>) -> ScenarioError {
        ScenarioError {
            message: self.message,
            span: self.span.unwrap_or(home),
            key: None,
            unknown: self.unknown,
        }
    }
}

/// A text from outside for a message.
pub(super) fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(60).collect::<String>())
}
