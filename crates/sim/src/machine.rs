//! The hardware: what makes a thread slower than it would be alone with all its data in caches. Formulas are those of the
//! reference model, section 2; every constant says where it is from. `docs/simulator.md` has them for people.

pub mod cache;
pub mod contention;
pub mod fabric;
pub mod memory;
pub mod refill;
pub mod vector;
