//! Reads any text as a simulation; an error is at a place in the text, and values can be set in whatever is TOML.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sim::scenario::{self, Library};

const WORKLOADS: [(&str, &str); 3] = [
    ("oltp", include_str!("../../workloads/oltp.toml")),
    ("web", include_str!("../../workloads/web.toml")),
    ("db", include_str!("../../workloads/db.toml")),
];

fuzz_target!(|text: &str| {
    let mut library = Library::default();
    for (name, text) in WORKLOADS {
        library.add(name, text).expect("a file of the project");
    }
    match scenario::read(text, &library) {
        Ok(read) => {
            for point in scenario::grid(&read.sweeps) {
                assert!(scenario::set(text, &point).is_ok());
            }
        }
        Err(error) => assert!(text.get(error.span).is_some(), "the place is in the text"),
    }
    for (key, value) in [("vm.*.count", "2"), ("workload.oltp.clients.users", "3"), ("host", "x")] {
        let assignment = [(key.to_owned(), value.to_owned())];
        if let Ok(changed) = scenario::set(text, &assignment) {
            assert!(scenario::set(&changed, &[]).is_ok(), "what was changed is TOML");
        }
    }
});
