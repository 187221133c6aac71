//! libvirt domain XML, as `virsh dumpxml` shows it or a person writes it.
//!
//! libvirt 11.3 has no XML for `smp-cache` and modules; both go through `<qemu:commandline>`, whose arguments QEMU
//! merges over libvirt's own. Behaviour is that of libvirt 11.3 with QEMU 10.0.2; for older QEMU
//! [`Target::qemu_major`] decides what can be said.

mod document;
mod edit;
mod lint;
mod read;
mod write;
mod xml;

use super::{ParseError, Target, Written};
use crate::finding::Finding;
use crate::vm::Spec;

/// Reads a domain: the root of the file, or the first one in it. The topology is `None` when the file has neither
/// `<topology>` nor `<numa>` nor caches; LLCs are empty unless `smp-cache` or `<cache mode='emulate'/>` states them.
///
/// # Errors
/// It is no XML or has no `<domain>`, it has a document type (entities are not expanded), or a number we need is none
/// or beyond QEMU's limits.
pub fn read(text: &str) -> Result<Spec, ParseError> {
    read::read(text)
}

/// Writes a domain that `virsh define` takes and that starts once a disk is added.
pub fn write(spec: &Spec, target: &Target) -> Written {
    write::write(spec, *target)
}

/// Changes what concerns topology, memory and pinning (`<vcpu>`, `<topology>`, `<cache>`, `<numa>`, `<memory>`,
/// `<memnode>`, hugepages, `<vcpupin>`, the CPU model and our arguments in `<qemu:commandline>`) where `spec` differs
/// from what the file says, and keeps every other byte. Name, metadata and devices are left alone.
///
/// # Errors
/// As [`read`].
pub fn edit(text: &str, spec: &Spec, target: &Target) -> Result<Written, ParseError> {
    edit::edit(text, spec, *target)
}

/// What is wrong with a domain by itself.
///
/// # Errors
/// As [`read`].
pub fn lint(text: &str) -> Result<Vec<Finding>, ParseError> {
    lint::lint(text)
}

#[cfg(test)]
mod tests;
