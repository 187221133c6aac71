//! What vtopo has to say about a decision (reasons) or a situation (findings). Data, so that the command line prints
//! it, scripts match its `code`, and tests assert it.

use serde::Serialize;

/// Why a decision came out as it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Stable kebab-case name for scripts, such as `fits-one-node`.
    pub code: &'static str,
    /// One sentence for a person, with the numbers that decided.
    pub text: String,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Costs performance or money; works.
    Warning,
    /// Does not work, or not as asked.
    Error,
}

/// Something a person should know about a host, a VM or a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable kebab-case name for scripts, such as `odd-vcpus-above-node`.
    pub code: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What was found and what to do about it.
    pub text: String,
}

impl Reason {
    /// A reason.
    pub fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }
}

impl Finding {
    /// Good to know.
    pub fn info(code: &'static str, text: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Info,
            text: text.into(),
        }
    }

    /// Costs performance or money.
    pub fn warning(code: &'static str, text: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Warning,
            text: text.into(),
        }
    }

    /// Does not work, or not as asked.
    pub fn error(code: &'static str, text: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            text: text.into(),
        }
    }
}
