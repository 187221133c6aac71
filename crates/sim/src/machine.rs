//! The hardware: what makes a thread slower than it would be alone with all its data in caches.

pub mod fabric;
pub mod vector;
