//! The crates: who may depend on whom, who is pure, and whether ARCHITECTURE.md knows them.

use std::collections::BTreeSet;

use cargo_metadata::{DependencyKind, MetadataCommand};

use super::Tree;
use crate::Result;

/// `model <- policy <- {sim, live, scx} <- lab <- cli`: a crate may depend on those of earlier layers only.
const LAYERS: [&[&str]; 5] = [
    &["model"],
    &["policy"],
    &["sim", "live", "scx"],
    &["lab"],
    &["cli"],
];

/// These depend on no crate of ours, and none depends on them: the guest's init is a program of its own.
const ALONE: [&str; 2] = ["guest-init", "xtask"];

/// Crates that do no I/O and know no clock; clippy.toml lists what that forbids.
const PURE: [&str; 3] = ["model", "policy", "sim"];

const MAP: &str = "ARCHITECTURE.md";

/// `from` depends on `to`, both ours, when it is built (tests may depend on anything).
pub(super) struct Edge {
    from: String,
    to: String,
}

/// The edges between crates of this workspace. A crate without any is there too, as an edge to itself.
pub(super) fn read_edges() -> Result<Vec<Edge>> {
    let packages = MetadataCommand::new().no_deps().exec()?.packages;
    let ours: BTreeSet<String> = packages
        .iter()
        .map(|package| package.name.to_string())
        .collect();
    let mut edges = Vec::new();
    for package in &packages {
        let from = package.name.to_string();
        let built = package
            .dependencies
            .iter()
            .filter(|it| it.kind != DependencyKind::Development);
        let to = built
            .map(|dependency| &dependency.name)
            .filter(|name| ours.contains(*name));
        edges.extend(to.map(|to| Edge {
            from: from.clone(),
            to: to.clone(),
        }));
        edges.push(Edge {
            from: from.clone(),
            to: from,
        });
    }
    Ok(edges)
}

/// Every edge must lead to an earlier layer.
pub(super) fn check_direction(edges: &[Edge]) -> Vec<String> {
    let layer = |name: &str| LAYERS.iter().position(|layer| layer.contains(&name));
    let mut found = Vec::new();
    for Edge { from, to } in edges {
        if from == to {
            if layer(from).is_none() && !ALONE.contains(&from.as_str()) {
                found.push(format!(
                    "crate {from} has no layer: add it in xtask/src/tidy/crates.rs"
                ));
            }
            continue;
        }
        if layer(to).is_none() || layer(from) <= layer(to) {
            found.push(format!("{from} must not depend on {to}: {}", direction()));
        }
    }
    found
}

fn direction() -> String {
    LAYERS.map(|layer| layer.join(", ")).join(" <- ")
}

/// Pure crates deny the methods that clippy.toml disallows.
pub(super) fn check_purity(tree: &Tree) -> Vec<String> {
    let denies = |file: &super::File| {
        syn::parse_file(&file.text).is_ok_and(|syntax| {
            syntax.attrs.iter().any(|attribute| {
                let syn::Meta::List(list) = &attribute.meta else {
                    return false;
                };
                list.path.is_ident("deny")
                    && list
                        .tokens
                        .to_string()
                        .replace(' ', "")
                        .contains("clippy::disallowed_methods")
            })
        })
    };
    PURE.iter()
        .filter_map(|name| tree.file(&format!("crates/{name}/src/lib.rs")))
        .filter(|file| !denies(file))
        .map(|file| {
            format!(
                "{}: a pure crate needs #![deny(clippy::disallowed_methods)]",
                file.path
            )
        })
        .collect()
}

/// ARCHITECTURE.md names every crate, and no crate that is not there.
pub(super) fn check_map(tree: &Tree) -> Vec<String> {
    let Some(map) = tree.file(MAP) else {
        return vec![format!("{MAP} is missing")];
    };
    let named = named_crates(&map.text);
    let there: BTreeSet<&str> = tree
        .paths
        .iter()
        .filter_map(|path| path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
        .collect();
    let unknown = there
        .difference(&named)
        .map(|name| format!("{MAP} does not name crates/{name}"));
    let gone = named
        .difference(&there)
        .map(|name| format!("{MAP} names crates/{name}, which is not there"));
    unknown.chain(gone).collect()
}

/// Names in `crates/NAME`, and the first level of a drawn tree below a line that starts with `crates/`.
fn named_crates(text: &str) -> BTreeSet<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let mut named = BTreeSet::new();
    let mut depth = None;
    for line in text.lines() {
        for (at, _) in line.match_indices("crates/") {
            let rest = &line[at + "crates/".len()..];
            named.insert(&rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())]);
        }
        let entry = line.trim_start_matches([' ', '│', '├', '└', '─']);
        let indent = line.len() - entry.len();
        if entry.starts_with("crates/") {
            depth = Some(None);
        } else if indent == 0 {
            depth = None;
        } else if let Some(first) = &mut depth
            && *first.get_or_insert(indent) == indent
            && let Some((name, _)) = entry.split_once('/')
            && name.chars().all(is_name)
        {
            named.insert(name);
        }
    }
    named.remove("");
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(edges: &[(&str, &str)]) -> Vec<String> {
        let edge = |(from, to): &(&str, &str)| Edge {
            from: (*from).into(),
            to: (*to).into(),
        };
        check_direction(&edges.iter().map(edge).collect::<Vec<_>>())
    }

    #[test]
    fn edges_lead_to_earlier_layers() {
        let good = [
            ("policy", "model"),
            ("cli", "model"),
            ("lab", "live"),
            ("xtask", "xtask"),
        ];
        assert_eq!(complaints(&good), [""; 0]);
        for bad in [
            ("model", "policy"),
            ("live", "sim"),
            ("lab", "guest-init"),
            ("xtask", "model"),
        ] {
            let expect = format!("{} must not depend on {}: ", bad.0, bad.1);
            assert!(complaints(&[bad])[0].starts_with(&expect), "{bad:?}");
        }
        assert!(complaints(&[("extra", "extra")])[0].starts_with("crate extra has no layer"));
    }

    #[test]
    fn pure_crates_deny_impure_methods() {
        let path = "crates/model/src/lib.rs";
        let good = Tree::of(&[(path, "#![deny(clippy::disallowed_methods)]\n")]);
        assert_eq!(check_purity(&good), [""; 0]);
        let bad = Tree::of(&[(
            path,
            "// #![deny(clippy::disallowed_methods)]\n#![deny(unused)]\n",
        )]);
        assert_eq!(check_purity(&bad).len(), 1);
    }

    #[test]
    fn map_and_crates_agree() {
        let map = "Of all, `crates/model` is first.\n\n```\ncrates/\n  policy/   where/when\n    shape/  how\n  \
                   sim/      events\nxtask/   chores\n```\n";
        let crates = [
            "crates/model/Cargo.toml",
            "crates/policy/Cargo.toml",
            "crates/live/Cargo.toml",
        ];
        let mut tree = Tree::of(&crates.map(|path| (path, "")));
        assert_eq!(check_map(&tree), ["ARCHITECTURE.md is missing"]);
        tree.files.push(super::super::File {
            path: MAP.into(),
            text: map.into(),
        });
        assert_eq!(
            check_map(&tree),
            [
                "ARCHITECTURE.md does not name crates/live",
                "ARCHITECTURE.md names crates/sim, which is not there"
            ]
        );
    }
}
