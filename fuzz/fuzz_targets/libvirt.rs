//! Reads, lints and edits any text as a domain XML; an edit with what was read changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::formats::{Format, Target};

fuzz_target!(|text: &str| {
    if let Ok(spec) = Format::Libvirt.read(text) {
        Format::Libvirt
            .lint(text)
            .expect("what can be read can be checked");
        let edited = Format::Libvirt.edit(text, &spec, &Target::default());
        assert_eq!(edited.expect("what can be read can be edited").text, text);
    }
});
