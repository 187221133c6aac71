//! Reads, lints and edits any text as a command line; an edit with what was read changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::formats::{Format, Target};

fuzz_target!(|text: &str| {
    if let Ok(spec) = Format::Qemu.read(text) {
        Format::Qemu
            .lint(text)
            .expect("what can be read can be checked");
        let edited = Format::Qemu.edit(text, &spec, &Target::default());
        assert_eq!(edited.expect("what can be read can be edited").text, text);
    }
});
