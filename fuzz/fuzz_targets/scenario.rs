//! Reads any text as a scenario file; what was read can be written and read back, and its VMs get names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::scenario;

fuzz_target!(|text: &str| match scenario::read(text) {
    Ok(read) => {
        // Too many VMs and names that are given twice are errors, not panics.
        let _ = scenario::name_all(&read.batches);
        assert_eq!(scenario::read(&scenario::write(&read)), Ok(read));
    }
    Err(error) => assert!(text.get(error.span).is_some(), "the place is in the text"),
});
