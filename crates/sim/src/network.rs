//! The network path of a VM.

use crate::time::{Nanos, US};

/// A round trip from a VM to a client outside: 20 us of wire, adapters and stacks, 17.5 us of virtualisation
/// (reference model, section 2.4), and 0.25 ns for each byte copied.
pub(crate) fn round_trip_ns(packets: u32, bytes: u32) -> Nanos {
    let copied = Nanos::from(packets) * Nanos::from(bytes) / 2;
    37 * US + 500 + copied
}
