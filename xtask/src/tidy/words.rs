//! Words that must not stay in the tree: unfinished code, promises without an issue, paths of somebody's machine.

use proc_macro2::{Spacing, TokenStream, TokenTree};

use super::{Tree, has_extension};

const UNFINISHED: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Spelt in two parts, for this file is checked too.
const PROMISES: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// Folders that only exist on a developer's machine.
const MACHINE_PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ho", "me/")];

/// No macro that marks unfinished code, however deep in other macros.
pub(super) fn check_macros(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for file in tree.rust() {
        // What does not parse is a complaint of the size rule.
        let Ok(tokens) = file.text.parse::<TokenStream>() else {
            continue;
        };
        let mut calls = Vec::new();
        collect_calls(tokens, &mut calls);
        found.extend(
            calls
                .iter()
                .map(|(line, name)| format!("{}:{line}: {name}! must go", file.path)),
        );
    }
    found
}

fn collect_calls(tokens: TokenStream, calls: &mut Vec<(usize, String)>) {
    let mut before = None;
    for token in tokens {
        match &token {
            TokenTree::Group(group) => collect_calls(group.stream(), calls),
            // `todo != 1` is no macro: its `!` is joined with what follows.
            TokenTree::Punct(punct)
                if punct.as_char() == '!' && punct.spacing() == Spacing::Alone =>
            {
                if let Some(TokenTree::Ident(name)) = &before
                    && UNFINISHED.iter().any(|it| name == it)
                {
                    calls.push((name.span().start().line, name.to_string()));
                }
            }
            _ => {}
        }
        before = Some(token);
    }
}

/// A promise in a comment or document names its issue, as in `(#12)`.
pub(super) fn check_promises(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let extensions = ["rs", "c", "h", "toml", "md", "sh"];
    let spoken = |path: &str| has_extension(path, &extensions) || path.ends_with("Makefile");
    for file in tree.files.iter().filter(|file| spoken(&file.path)) {
        for (number, line) in (1..).zip(file.text.lines()) {
            for word in PROMISES.iter().filter(|word| promises(line, word)) {
                found.push(format!(
                    "{}:{number}: {word} without an issue number (#…)",
                    file.path
                ));
            }
        }
    }
    found
}

/// Whether `word` is in the line and no `#12` comes after it.
fn promises(line: &str, word: &str) -> bool {
    let Some((_, rest)) = line.split_once(word) else {
        return false;
    };
    let issue = |(at, _)| rest[at + 1..].starts_with(|c: char| c.is_ascii_digit());
    !rest.match_indices('#').any(issue)
}

/// No absolute path of a developer's machine, nor of this checkout.
pub(super) fn check_paths(tree: &Tree, root: &str) -> Vec<String> {
    let mut found = Vec::new();
    for file in &tree.files {
        for (number, line) in (1..).zip(file.text.lines()) {
            let own = line.contains(root).then_some(root);
            let paths = MACHINE_PATHS
                .into_iter()
                .filter(|path| names_path(line, path));
            if let Some(path) = paths.chain(own).next() {
                found.push(format!(
                    "{}:{number}: {path} is a path of one machine",
                    file.path
                ));
            }
        }
    }
    found
}

/// Whether an absolute path starts with `folder`: `docs/x` and `https://host/x` hold it too, but do not start with it.
fn names_path(line: &str, folder: &str) -> bool {
    let starts = |at| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-~/})".contains(c));
    let mut places = line.match_indices(folder);
    places.any(|(at, _)| starts(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_macros_are_found_even_inside_others() {
        let text = "// todo!()\nfn a() {\n    let todo = \"dbg!(x)\";\n    if todo != b { vec![1, todo!()] }\n}\n";
        let tree = Tree::of(&[("crates/a/src/lib.rs", text)]);
        assert_eq!(
            check_macros(&tree),
            ["crates/a/src/lib.rs:4: todo! must go"]
        );
    }

    #[test]
    fn promises_need_an_issue() {
        for (line, bad) in [
            ("// TO-DO: later", true),
            ("# TO-DO(#12): later", false),
            ("none", false),
        ] {
            let tree = Tree::of(&[("a.toml", &line.replace('-', ""))]);
            assert_eq!(!check_promises(&tree).is_empty(), bad, "{line}");
        }
        assert_eq!(
            check_promises(&Tree::of(&[("a.xml", PROMISES[0])])),
            [""; 0]
        );
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        let cases = [
            ("see /ho-me/you/x", true),
            ("\"/wo-rk/x\"", true),
            ("https://example.org/wo-rk/x", false),
            ("docs/wo-rk/x", false),
            ("/srv/checkout/x", true),
            ("/srv/other", false),
        ];
        for (line, bad) in cases {
            let tree = Tree::of(&[("a.md", &line.replace('-', ""))]);
            assert_eq!(
                !check_paths(&tree, "/srv/checkout").is_empty(),
                bad,
                "{line}"
            );
        }
    }
}
