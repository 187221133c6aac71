//! What things are: hosts, VMs, guest topologies and the file formats that describe them.
//!
//! ```text
//!   Host                                   GuestTopology
//!   package 0 ─┬─ node 0 ─┬─ llc 0 ─ cores   socket ─ die ─ module ─ core ─ thread
//!              │          └─ llc 1 ─ cores   vNUMA node: vCPUs, memory, host nodes
//!              └─ node 1 ─── ...             llc: the vCPUs that share it
//! ```
//!
//! ```
//! use model::{CpuSet, GuestTopology};
//! let shape = GuestTopology::uniform(8, [1, 2, 1, 4, 1]);
//! assert_eq!(shape.maxcpus(), 8);
//! assert_eq!("0-3,8".parse::<CpuSet>().unwrap().len(), 5);
//! ```
//!
//! Vocabulary: *cpu* is a logical CPU (hwloc PU), *llc* the last-level cache, *node* a NUMA node, *package* a
//! physical socket; on the guest side QEMU's words *sockets, dies, modules, cores, threads*.
//!
//! Invariants: no I/O, no clock, no environment here; every table is indexed by a dense id; equal input gives equal
//! output, byte for byte; relations between parts of a host are inclusion of CPU sets, never nesting.

#![deny(clippy::disallowed_methods)]

pub mod cpuset;
pub mod duration;
pub mod finding;
pub mod firmware;
pub mod formats;
pub mod guest;
pub mod host;
pub mod host_file;
pub mod placement;
pub mod scenario;
pub mod tenant;
pub mod vm;

pub use cpuset::{CpuId, CpuSet};
pub use finding::{Finding, Reason, Severity};
pub use guest::{GuestLlc, GuestNode, GuestTopology, Level};
pub use host::Host;
pub use placement::{Group, Placement, VmId};
pub use tenant::Vm;
pub use vm::{EsxiKeys, GuestCpu, Spec};
