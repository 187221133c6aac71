//! What vtopo brings: workloads, and an example of a scenario.

use include_dir::{Dir, include_dir};
use sim::scenario::Library;

static WORKLOADS: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../workloads");

/// A scenario to begin with.
pub(super) const EXAMPLE: &str = include_str!("../../../../../scenarios/example.toml");

/// The workloads by name, sorted.
pub(super) fn library() -> Library {
    let mut texts: Vec<(&str, &str)> = WORKLOADS
        .files()
        .filter(|file| file.path().extension().is_some_and(|end| end == "toml"))
        .filter_map(|file| Some((file.path().file_stem()?.to_str()?, file.contents_utf8()?)))
        .collect();
    texts.sort_unstable();
    let mut library = Library::default();
    for (name, text) in texts {
        library
            .add(name, text)
            .expect("a test reads every workload that is embedded");
    }
    library
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_workload_and_the_example_can_be_read() {
        let library = library();
        assert!(library.names().next().is_some());
        let example = sim::scenario::read(EXAMPLE, &library);
        assert!(example.is_ok(), "{example:?}");
    }
}
