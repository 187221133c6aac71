//! Reads, lints and edits any text as a vmx file; an edit with what was read changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::formats::{Format, Target};

fuzz_target!(|text: &str| {
    if let Ok(spec) = Format::Vmx.read(text) {
        Format::Vmx.lint(text).expect("what can be read can be checked");
        let edited = Format::Vmx.edit(text, &spec, &Target::default());
        assert_eq!(edited.expect("what can be read can be edited").text, text);
    }
});
