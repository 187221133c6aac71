//! Measure and compare: boots real guests and reads what their kernel sees.
//!
//! ```text
//!   shape ── Plan ── boot ──▶ QEMU: kernel + our init ── report ──▶ SeenGuest
//!              │                                                       │
//!              └────────────────────── compare ◀───────────────────────┘
//! ```
//!
//! ```no_run
//! use lab::compare::compare;
//! use lab::guest::{self, MemoryMode, Plan, Setup};
//! # fn verify(spec: &model::Spec) -> Result<(), Box<dyn std::error::Error>> {
//! let setup = Setup::new(guest::find_kernel(None)?);
//! let qemu_major = guest::emulator_major(&setup.emulator)?;
//! let mut target = model::formats::Target { qemu_major, ..Default::default() };
//! target.accelerator = guest::probe_accelerator(&setup, &spec.cpu, &target).accelerator;
//! let plan = Plan::new(spec, &target, MemoryMode::Scaled, &setup);
//! let report = guest::boot(&plan, &mut |progress| eprintln!("{progress:?}"))?;
//! assert!(compare(&plan.topology, &report.seen).iter().all(|field| field.ok));
//! # Ok(())
//! # }
//! ```
//!
//! Vocabulary: the *plan* is what the shape says, *seen* is what the guest's kernel says; a *field* is one comparison.
//!
//! Invariants: nothing is left behind by a guest, neither a process nor a file, however it ends; a report is taken whole
//! (length and checksum match) or not at all; readers of reports return on any text.

pub mod compare;
pub mod guest;
pub mod report;
mod sys;
