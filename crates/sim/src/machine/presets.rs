//! The presets of `machines/`, for tests.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read every preset there is"
)]

use std::path::{Path, PathBuf};

use model::{Host, host_file};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines")
}

/// A preset by name.
pub(crate) fn preset(name: &str) -> Host {
    let path = folder().join(format!("{name}.toml"));
    let text = std::fs::read_to_string(path).expect("a preset of this name");
    host_file::read(name, &text).expect("presets are sane")
}

/// All of them, by name.
pub(crate) fn presets() -> Vec<Host> {
    let files = std::fs::read_dir(folder()).expect("machines/ is part of the project");
    let paths = files.map(|file| file.expect("a readable folder").path());
    let mut names: Vec<String> = paths
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names.iter().map(|name| preset(name)).collect()
}
