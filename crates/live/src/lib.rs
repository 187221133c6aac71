//! A machine made of Linux: discovers the real host.
//!
//! ```text
//!   hwloc (this system, XML, synthetic text) ──▶ discover ──▶ model::Host
//!   /sys (hugepages, isolation)              ──▶
//! ```
//!
//! Invariants: the only crate that may hold root's powers; it decides nothing (that is `policy`), it observes and applies.

pub mod discover;
