//! A virtualised host made of events: the same policies as on a real one, on hosts that are not there.
//!
//! ```text
//!   scenario text ──▶ scenario ──▶ RunSpec ─┐                          ┌─▶ metrics, statistics
//!   Host, Policy, Hypervisor ──────────────┼─▶ engine::run ─▶ Outcome ┤
//!   seed ──────────────────────────────────┘                          └─▶ timeline
//! ```
//!
//! ```
//! use sim::scenario::{self, Library};
//! let text = "[workload.spin]\nclients = { kind = \"closed\", users = 4, think = \"1ms\" }\n\
//!     step = [{ name = \"work\", cpu = \"1ms\" }]\n[[vm]]\nvcpus = 4\nworkload = \"spin\"\n";
//! let simulation = scenario::read(text, &Library::default()).unwrap();
//! assert_eq!(simulation.members.len(), 1);
//! ```
//!
//! Vocabulary: `engine` explains *world*, *thread*, *request* and *user*; `machine::vector` *own work*.
//!
//! Invariants: no I/O, no clock, no global state; equal specs and seeds give equal runs, event by event; time is conserved to
//! the nanosecond; everything that a run gives is simulated, and said to be.

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
