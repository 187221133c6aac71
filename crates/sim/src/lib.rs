//! A virtualised host made of events: the same policies as on a real one, on hosts that are not there.

#![deny(clippy::disallowed_methods)]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "times and counts are far below 2^52, indices below 2^32, and what is rounded is not negative"
)]

pub mod engine;
pub mod fleet;
pub mod hypervisor;
pub mod machine;
pub mod metrics;
pub mod network;
pub mod outcome;
pub mod queue;
mod reconcile;
pub mod replicate;
pub mod rng;
pub mod scenario;
pub mod spec;
pub mod statistics;
pub mod time;
pub mod traces;
