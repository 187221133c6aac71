//! Tables that the tests of line formats read: `settings | settings => expected, expected`.

use crate::finding::Finding;
use crate::formats::smp::{level_by_name, llcs_at};
use crate::guest::{GuestNode, GuestTopology};

/// The rows of a table: settings, one a line, and what is expected.
pub(in crate::formats) fn rows(table: &str) -> impl Iterator<Item = (String, Vec<&str>)> {
    table.trim().lines().map(|row| {
        let (settings, expected) = row.split_once("=>").unwrap();
        let settings = settings.trim().replace(" | ", "\n");
        let expected = expected.split(", ").map(str::trim);
        (settings, expected.filter(|it| !it.is_empty()).collect())
    })
}

/// A topology such as `13 of 1x4x1x4x1 die; 0-7 512; 8-12 512 on 1`: vCPUs, levels, the level of the LLCs if they are
/// stated, and vNUMA nodes with memory and host node.
pub(in crate::formats) fn shape(text: &str) -> GuestTopology {
    let mut parts = text.trim().split("; ");
    let words: Vec<&str> = parts.next().unwrap().split(' ').collect();
    let levels: Vec<u32> = words[2]
        .split('x')
        .map(|level| level.parse().unwrap())
        .collect();
    let mut shape = GuestTopology::uniform(words[0].parse().unwrap(), levels.try_into().unwrap());
    if let Some(level) = words.get(3) {
        shape.llcs = llcs_at(&shape, level_by_name(level).unwrap(), 0);
    }
    shape.numa_nodes = parts.map(node).collect();
    shape
}

/// The findings as a table has them.
pub(in crate::formats) fn graded(findings: &[Finding]) -> Vec<String> {
    let grade = |finding: &Finding| format!("{:?} {}", finding.severity, finding.code);
    findings.iter().map(grade).collect()
}

/// The codes of findings that begin with a prefix.
pub(in crate::formats) fn codes<'a>(findings: &[Finding], prefix: &'a str) -> Vec<&'a str> {
    let codes = findings.iter().map(|finding| finding.code);
    codes.filter(|code| code.starts_with(prefix)).collect()
}

/// Lines of `new` that are not in `old` and, with a minus, the other way round.
pub(in crate::formats) fn difference(old: &str, new: &str) -> Vec<String> {
    let gone = old
        .lines()
        .filter(|line| !new.lines().any(|it| it == *line));
    let added = new
        .lines()
        .filter(|line| !old.lines().any(|it| it == *line));
    gone.map(|line| format!("-{line}"))
        .chain(added.map(|line| format!("+{line}")))
        .collect()
}

fn node(text: &str) -> GuestNode {
    let words: Vec<&str> = text.split(' ').collect();
    GuestNode {
        vcpus: words[0].parse().unwrap(),
        memory_mib: words[1].parse().unwrap(),
        host_nodes: words
            .get(3)
            .map_or_else(Vec::new, |node| vec![node.parse().unwrap()]),
    }
}
