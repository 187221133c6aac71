//! Reads any text as a batch of VMs in one line (`--vm`); what was read can be written as a file and read back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::scenario::{self, Scenario};

fuzz_target!(|text: &str| match scenario::read_batch(text) {
    Ok(batch) => {
        let scenario = Scenario {
            batches: vec![batch],
            ..Scenario::default()
        };
        assert_eq!(scenario::read(&scenario::write(&scenario)), Ok(scenario));
    }
    Err(error) => assert!(text.get(error.span).is_some(), "the place is in the text"),
});
