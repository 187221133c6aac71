//! Where things should run: pure decisions on a [`model::Host`], each with its reasons.
//!
//! ```text
//!   Spec + Host + Rule ──▶ shape::shape ──▶ Shape { topology, reasons, findings } or Refusal
//! ```
//!
//! Invariants: no I/O, no clock, no randomness, no state; the same request gives the same answer, byte for byte; what
//! was decided and why is data ([`model::Reason`], [`model::Finding`]), never a log line.

#![deny(clippy::disallowed_methods)]

pub mod check;
pub mod cost;
pub mod fleet;
pub mod generations;
pub mod group;
pub mod hot;
pub mod metrics;
pub mod place;
pub mod plan;
pub mod policies;
pub mod reconcile;
pub mod shape;
