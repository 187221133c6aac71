//! The hardware: what makes a thread slower than it would be alone with all its data in caches.
//!
//! [`fabric`] has what a host is made of as dense tables; [`cache`], [`memory`] and [`refill`] are the laws, as functions
//! of plain numbers; [`contention`] applies them to everything that runs, once in an epoch.

pub mod cache;
pub mod contention;
pub mod fabric;
pub mod memory;
pub mod paging;
#[cfg(test)]
mod presets;
pub mod refill;
pub mod vector;
