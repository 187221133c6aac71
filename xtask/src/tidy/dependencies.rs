//! Every dependency says what it is used for.

use super::Tree;

const MANIFEST: &str = "Cargo.toml";

/// In the workspace's list of dependencies, a comment `# Used …` stands above each, or above its group.
pub(super) fn check_reasons(tree: &Tree) -> Vec<String> {
    let Some(manifest) = tree.file(MANIFEST) else {
        return vec![format!("{MANIFEST} is missing")];
    };
    let mut found = Vec::new();
    let mut inside = false;
    let mut reason = false;
    let mut after_comment = false;
    for (number, line) in (1..).zip(manifest.text.lines()) {
        let comment = line.starts_with('#');
        if line.starts_with('[') {
            inside = line == "[workspace.dependencies]";
            reason = false;
        } else if comment {
            // The lines of one comment count together; a new comment starts a new group.
            reason = line.starts_with("# Used ") || (reason && after_comment);
        } else if line.is_empty() {
            reason = false;
        } else if inside && is_dependency(line) && !reason && !line.contains("path = ") {
            let name = line.split([' ', '=', '.']).next().unwrap_or(line);
            found.push(format!(
                "{MANIFEST}:{number}: say above {name} what it is used for (# Used …)"
            ));
        }
        after_comment = comment;
    }
    found
}

/// Not the inner lines of a value that spans several.
fn is_dependency(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_alphabetic()) && line.contains('=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_without_reason_is_found() {
        let manifest = "\
[workspace.dependencies]
# Ours.
model = { path = \"crates/model\" }
bare = \"1\"

# Used to test,
# and to show.
one = \"1\"
two = { version = \"2\", features = [
  \"x\",
] }

lone = \"3\"
# Tests only.
named = \"4\"

[profile.release]
debug = 1
";
        let found = check_reasons(&Tree::of(&[(MANIFEST, manifest)]));
        let names = [
            "4: say above bare",
            "13: say above lone",
            "15: say above named",
        ];
        assert_eq!(found.len(), names.len(), "{found:?}");
        for (line, name) in found.iter().zip(names) {
            assert!(line.contains(name), "{line}");
        }
    }
}
