//! What a virtual hardware version allows.
//!
//! Source of every number: the VM option dumps of ESXi for hardware versions 10 to 22 (`config-option-vmx-*.xml` in
//! vmware-tanzu/vm-operator). Versions before 10 are older than those dumps; the limits of 10 stand in for them.

use super::Release;

/// Oldest version whose limits are known.
pub(super) const OLDEST_KNOWN: u32 = 10;
/// First version whose guests can be shown NUMA nodes (virtual NUMA came with ESXi 5.0).
pub(super) const FIRST_VNUMA: u32 = 8;
/// First version with automatic cores per socket, virtual caches, manual NUMA nodes and guest SMT (ESXi 8.0).
pub(super) const FIRST_AUTOMATIC: u32 = 20;
/// Least memory of a VM in MiB.
pub(super) const MIN_MEMORY_MIB: u64 = 4;
/// Most NUMA nodes that a guest is shown.
pub(super) const MAX_NUMA_NODES: u32 = 64;
/// Most threads per core that a guest is shown.
pub(super) const MAX_THREADS: u32 = 2;
/// Most sockets of a VM (vSphere VM administration, virtual CPU limitations).
pub(super) const MAX_SOCKETS: u32 = 128;

/// The newest version a release runs, and the default of a VM made on it.
pub(super) fn newest(release: Release) -> u32 {
    match release {
        Release::V5_5 => 10,
        Release::V6_0 => 11,
        Release::V6_5 => 13,
        Release::V6_7 => 14,
        Release::V7_0 => 19,
        Release::V8_0 => 21,
    }
}

/// Most vCPUs.
pub(super) fn max_vcpus(version: u32) -> u32 {
    match version {
        0..=10 => 64,
        11..=14 => 128,
        15..=16 => 256,
        17..=21 => 768,
        _ => 960,
    }
}

/// Most memory in MiB.
pub(super) fn max_memory_mib(version: u32) -> u64 {
    match version {
        0..=10 => 1_035_264,
        11..=12 => 4_177_920,
        13..=16 => 6_275_072,
        _ => 25_149_440,
    }
}

/// Most cores per socket.
pub(super) fn max_cores_per_socket(version: u32) -> u32 {
    match version {
        0..=10 => 64,
        11..=19 => 128,
        20..=21 => 256,
        _ => 960,
    }
}
