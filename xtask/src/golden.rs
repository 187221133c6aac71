//! Golden files: snapshots that tests compare their output with, written by `insta`, read by people.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::tidy::{Tree, has_extension};
use crate::{Result, command};

/// Where tests note the snapshot files they compared with.
const REFERENCES: &str = "target/snapshots-used.txt";

/// Runs the tests of every crate that has snapshots; `update` rewrites those that differ.
pub(crate) fn run(update: bool, rest: &[String]) -> Result<()> {
    let mut tests = Command::new("cargo");
    tests
        .arg("test")
        .env("INSTA_UPDATE", if update { "always" } else { "no" });
    if rest.is_empty() {
        for package in packages_with_snapshots()? {
            tests.args(["--package", &package]);
        }
    }
    command::run(tests.args(rest))?;
    if update {
        println!("read the change before you commit it: git diff -- '*.snap'");
    }
    Ok(())
}

fn packages_with_snapshots() -> Result<Vec<String>> {
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec()?;
    let uses_insta = |package: &&cargo_metadata::Package| {
        package
            .dependencies
            .iter()
            .any(|dependency| dependency.name == "insta")
    };
    Ok(metadata
        .packages
        .iter()
        .filter(uses_insta)
        .map(|package| package.name.to_string())
        .collect())
}

/// An empty file for `INSTA_SNAPSHOT_REFERENCES_FILE`, in which insta then notes each snapshot it compares with.
pub(crate) fn start_references() -> Result<PathBuf> {
    fs::create_dir_all("target")?;
    fs::write(REFERENCES, "")?;
    Ok(fs::canonicalize(REFERENCES)?)
}

/// Snapshots that no test compared with since [`start_references`], and leftovers of an unfinished review.
/// Those of test binaries in `skipped` are not missed: a test that skipped itself compared with nothing.
pub(crate) fn check_drift(tree: &Tree, skipped: &[&str]) -> Result<Vec<String>> {
    let used = fs::read_to_string(REFERENCES)?;
    let used: BTreeSet<PathBuf> = used
        .lines()
        .filter_map(|path| fs::canonicalize(path).ok())
        .collect();
    let is_used = |path: &str| fs::canonicalize(path).is_ok_and(|path| used.contains(&path));
    Ok(drift(&tree.paths, skipped, is_used))
}

fn drift(
    paths: &BTreeSet<String>,
    skipped: &[&str],
    is_used: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut found = Vec::new();
    for path in paths {
        // insta names a file after the binary and the module: `model__cpuset__tests__ranges.snap`.
        let binary = path
            .rsplit('/')
            .next()
            .and_then(|name| name.split("__").next());
        let may_be_used = || is_used(path) || binary.is_some_and(|name| skipped.contains(&name));
        if has_extension(path, &["new", "pending-snap"]) {
            found.push(format!(
                "{path}: left from an unfinished review, accept or delete it"
            ));
        } else if has_extension(path, &["snap"]) && !may_be_used() {
            found.push(format!("{path}: no test compares with it, delete it"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_snapshots_and_leftovers_are_found() {
        let paths = [
            "a/x__one.snap",
            "a/x__two.snap",
            "a/y__three.snap",
            "a/x__four.snap.new",
            "d.rs",
        ];
        let found = drift(&paths.map(String::from).into(), &["y"], |path| {
            path.ends_with("one.snap")
        });
        assert_eq!(
            found,
            [
                "a/x__four.snap.new: left from an unfinished review, accept or delete it",
                "a/x__two.snap: no test compares with it, delete it",
            ]
        );
    }
}
