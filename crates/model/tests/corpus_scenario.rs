//! Replays the hostile texts of the fuzz targets `vm` and `scenario`: what is read comes back from what is written, what
//! is refused is refused at a place that exists.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use model::scenario::{self, Batch, Scenario, ScenarioError};

/// Replays all texts of a target; how many were read and how many refused.
fn replay(target: &str, read: impl Fn(&str) -> Result<Scenario, ScenarioError>) -> [usize; 2] {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut counts = [0, 0];
    for entry in fs::read_dir(corpus.join(target)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.display();
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        match read(&text) {
            Ok(found) => {
                counts[0] += 1;
                // Too many VMs and names that are given twice are errors, not panics.
                let _ = scenario::name_all(&found.batches);
                let written = scenario::write(&found);
                assert_eq!(scenario::read(&written), Ok(found), "{name}:\n{written}");
            }
            Err(error) => {
                counts[1] += 1;
                assert!(!error.message.is_empty(), "{name}");
                assert!(text.get(error.span).is_some(), "{name}");
            }
        }
    }
    counts
}

#[test]
fn hostile_lines_are_survived() {
    let of_one = |batch: Batch| Scenario {
        batches: vec![batch],
        ..Scenario::default()
    };
    let [read, refused] = replay("vm", |text| scenario::read_batch(text).map(of_one));
    assert!(
        read >= 30 && refused >= 40,
        "{read} read, {refused} refused"
    );
}

#[test]
fn hostile_scenarios_are_survived() {
    let [read, refused] = replay("scenario", scenario::read);
    assert!(
        read >= 30 && refused >= 40,
        "{read} read, {refused} refused"
    );
}
