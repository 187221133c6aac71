//! Findings and lists below a drawing, wrapped with a hanging indent.

use model::{Finding, Severity};

use super::palette::Role;
use super::text::{Block, LABEL, hanging, print, wrap};
use super::{MIN_WIDTH, Style};

/// A finding behind its severity, with its code for scripts and manuals; ends with a line feed.
pub fn finding(finding: &Finding, style: Style) -> String {
    print(
        &finding_lines(finding, style.width.max(MIN_WIDTH)),
        style.colour,
    )
}

/// A list item behind a dash; ends with a line feed.
pub fn item(text: &str, style: Style) -> String {
    let dash = "  - ";
    let lines = wrap(text, style.width.max(MIN_WIDTH) - dash.len());
    print(&hanging(Role::Muted, dash, dash.len(), lines), style.colour)
}

/// A sentence of its own; ends with a line feed.
pub fn paragraph(text: &str, style: Style) -> String {
    let lines = wrap(text, style.width.max(MIN_WIDTH));
    print(&hanging(Role::Plain, "", 0, lines), style.colour)
}

/// A finding in at most `width` columns.
pub(super) fn finding_lines(finding: &Finding, width: usize) -> Block {
    let (role, label) = (
        Role::of_severity(finding.severity),
        severity(finding.severity),
    );
    hanging(role, label, LABEL, wrap(&sentence(finding), width - LABEL))
}

/// What a finding says.
pub(super) fn sentence(finding: &Finding) -> String {
    format!("{} [{}]", finding.text, finding.code)
}

/// The word for a severity, shorter than [`LABEL`].
pub(super) fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}
