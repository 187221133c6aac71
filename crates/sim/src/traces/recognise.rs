//! Which format a text has, by its first lines.

use super::planetlab::heading;
use super::table::Splitter;
use super::{Kind, MAX_LINE_BYTES, azure, huawei, swf};

/// Lines that are looked at; ours. Archives of jobs begin with some dozens of comments.
const LINES: usize = 200;

/// The format of a text, or of its beginning; nothing if it looks like none.
pub fn recognise(text: &str) -> Option<Kind> {
    let text = text.trim_start_matches('\u{feff}');
    let mut first_swf_comment = false;
    for line in text.lines().take(LINES).map(str::trim) {
        if line.is_empty() || line.len() > MAX_LINE_BYTES {
            continue;
        }
        if line.starts_with(';') {
            first_swf_comment = true;
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        return kind_of(line);
    }
    first_swf_comment.then_some(Kind::Swf)
}

/// The format of which this may be the first line.
fn kind_of(line: &str) -> Option<Kind> {
    if line.starts_with("Domain: ") {
        return Some(Kind::Domstats);
    }
    if heading(line).is_some() || line.parse::<u32>().is_ok_and(|percent| percent <= 100) {
        return Some(Kind::PlanetLab);
    }
    let words = line.split_ascii_whitespace();
    if words.clone().count() == swf::COLUMNS && words.clone().all(|it| it.parse::<f64>().is_ok()) {
        return Some(Kind::Swf);
    }
    let mut splitter = Splitter::default();
    if !splitter.split(line).unwrap_or(false) {
        return None;
    }
    let has = |name: &&str| (0..splitter.len()).any(|column| splitter.field(column) == *name);
    if huawei::COLUMNS.iter().all(has) {
        return Some(Kind::Huawei);
    }
    // Any of their columns beside the one they share, which is in both lists: what is missing is for the reader to say.
    let columns = azure::VM.iter().chain(&azure::VM_TYPE);
    let azure = has(&"vmTypeId") && columns.filter(|it| has(it)).count() > 2;
    azure.then_some(Kind::AzurePacking)
}
