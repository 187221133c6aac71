//! Words for the terminal: findings and reasons, wrapped and coloured.

use std::io::{IsTerminal, Write};

use model::{Finding, Reason, Severity};
use serde::Serialize;

use crate::draw::{Style, notes};
use crate::failure::Failure;

/// Columns that drawings and texts fit when the terminal does not say less.
const WIDTH: usize = 100;

/// Writes to standard output; colour codes are dropped when it is no terminal.
///
/// # Errors
/// Standard output is closed or full.
pub(crate) fn out(text: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(Failure::output)
}

/// Writes to standard error, where progress and remarks about the run go.
pub(crate) fn remark(text: &str) {
    // A closed standard error is no reason to fail: the answer is on standard output.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Writes a document as indented JSON.
///
/// # Errors
/// Standard output is closed or full.
pub(crate) fn json(document: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document)
        .expect("our documents have string keys and finite numbers");
    out(&(text + "\n"))
}

/// How to draw on this terminal.
pub(crate) fn style() -> Style {
    let columns = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    let colour = std::io::stdout().is_terminal()
        && anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
    Style {
        width: columns.unwrap_or(WIDTH).clamp(60, WIDTH),
        colour,
    }
}

/// Findings, most severe first, each behind its severity.
pub(crate) fn findings(findings: &[Finding], style: Style) -> String {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    sorted
        .into_iter()
        .map(|finding| notes::finding(finding, style))
        .collect()
}

/// Reasons as a list under a title.
pub(crate) fn reasons(title: &str, reasons: &[Reason], style: Style) -> String {
    let lines = reasons
        .iter()
        .map(|reason| notes::item(&reason.text, style));
    if reasons.is_empty() {
        String::new()
    } else {
        format!("{title}\n{}", lines.collect::<String>())
    }
}

/// Whether findings turn the answer into "no" under `--strict`.
pub(crate) fn has_problem(findings: &[Finding]) -> bool {
    findings
        .iter()
        .any(|finding| finding.severity > Severity::Info)
}
