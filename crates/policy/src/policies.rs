//! The policies by the names people type.

use crate::generations::{LinuxDefault, Llc, LlcAsNode, LlcPack, Spread};
use crate::place::PatientBest;
use crate::reconcile::Policy;

/// All names: our own first, then the baselines from the newest to the oldest, then what is no generation.
pub const NAMES: [&str; 6] = [
    "best",
    "llc",
    "spread",
    "llc-pack",
    "ccx-as-numa",
    "linux-default",
];

/// The policy of a name, as planning wants it: `best` takes its time ([`PatientBest`]); an agent that plans every two
/// seconds takes [`Best`](crate::place::Best). `None` when there is none. Every call makes the same one.
pub fn named(name: &str) -> Option<Box<dyn Policy>> {
    Some(match name {
        "best" => Box::new(PatientBest),
        "llc" => Box::new(Llc),
        "spread" => Box::new(Spread::new()),
        "llc-pack" => Box::new(LlcPack),
        "ccx-as-numa" => Box::new(LlcAsNode),
        "linux-default" => Box::new(LinuxDefault),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_know_their_names() {
        for name in NAMES {
            let known = named(name).map(|policy| policy.name());
            assert_eq!(known, Some(name));
        }
        assert!(named("worst").is_none());
    }
}
