//! Boots a guest with a computed shape under QEMU and takes the report of its init.
//!
//! **Problem.** That a shape is right is known only when a real kernel has seen it: emulator, firmware, ACPI tables and
//! the kernel's own ideas stand between the plan and the scheduler domains of the guest.
//!
//! **Approach.** QEMU starts a stock Linux kernel with an initramfs of our own making: a static init, and the host's
//! `lscpu` and `numactl`. The archive is QEMU's standard input, the report its standard output, console and error
//! messages its standard error, so there are no files to leave behind and no terminal to garble. The kernel kills the
//! emulator when the thread that boots it goes away.

mod boot;
mod initramfs;
mod kernel;
mod plan;
mod probe;

pub use boot::{BootError, GuestReport, Progress, boot};
pub use initramfs::InitramfsError;
pub use kernel::{KernelError, find_kernel};
pub use plan::{MemoryMode, Plan, STAND_IN_ID, Setup, scaled_plan};
pub use probe::{Probe, emulator_major, probe_accelerator};
