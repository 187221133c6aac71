//! Checks what no compiler checks. Each rule is a function from the tree (or a part of it) to the lines it complains
//! with, and has a test that makes it complain.

mod crates;
mod dependencies;
mod links;
mod sizes;
mod words;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use crate::{Result, command};

/// What is in the repository, or would be with the next `git add .`.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Every file, relative to the root, with `/`.
    pub(crate) paths: BTreeSet<String>,
    /// Those that are text.
    pub(crate) files: Vec<File>,
}

/// A text file.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Tree {
    /// Reads the files that git tracks or would track.
    pub(crate) fn read() -> Result<Self> {
        let list = [
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ];
        let names = String::from_utf8(command::output(Command::new("git").args(list))?)?;
        let mut tree = Self::default();
        for path in names.split_terminator('\0') {
            // Deleted but not yet committed.
            if !Path::new(path).is_file() {
                continue;
            }
            if let Ok(text) = String::from_utf8(fs::read(path)?) {
                tree.files.push(File {
                    path: path.to_owned(),
                    text,
                });
            }
            tree.paths.insert(path.to_owned());
        }
        Ok(tree)
    }

    fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Our own Rust: crates and chores.
    fn rust(&self) -> impl Iterator<Item = &File> {
        let ours = |path: &str| path.starts_with("crates/") || path.starts_with("xtask/");
        self.files
            .iter()
            .filter(move |file| ours(&file.path) && has_extension(&file.path, &["rs"]))
    }

    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Self {
        Self {
            paths: files.iter().map(|(path, _)| (*path).to_owned()).collect(),
            files: files
                .iter()
                .map(|(path, text)| File {
                    path: (*path).to_owned(),
                    text: (*text).to_owned(),
                })
                .collect(),
        }
    }
}

/// Runs every rule, so that one run shows all complaints.
pub(crate) fn run() -> Result<()> {
    let tree = Tree::read()?;
    let root = env::current_dir()?;
    let mut found = crates::check_direction(&crates::read_edges()?);
    found.extend(crates::check_purity(&tree));
    found.extend(crates::check_map(&tree));
    found.extend(dependencies::check_reasons(&tree));
    found.extend(sizes::check_sizes(&tree));
    found.extend(words::check_macros(&tree));
    found.extend(words::check_promises(&tree));
    found.extend(words::check_paths(&tree, &root.to_string_lossy()));
    found.extend(links::check_links(&tree));
    report(&found)
}

/// Prints complaints; no complaint is success.
pub(crate) fn report(found: &[String]) -> Result<()> {
    for line in found {
        println!("{line}");
    }
    match found.len() {
        0 => Ok(()),
        1 => Err("1 complaint".into()),
        n => Err(format!("{n} complaints").into()),
    }
}

/// Whether a path ends with a dot and one of these.
pub(crate) fn has_extension(path: &str, extensions: &[&str]) -> bool {
    let extension = Path::new(path)
        .extension()
        .and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| extensions.contains(&extension))
}
