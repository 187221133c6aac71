//! A virtual machine as its file describes it: the common form between the file formats.

use crate::cpuset::CpuSet;
use crate::guest::GuestTopology;

/// What a VM file says, as far as topology and placement are concerned. Every reader fills what its format knows;
/// every writer writes what its format can say and reports the rest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spec {
    /// The VM's name; empty when the file has none.
    pub name: String,
    /// Present vCPUs; at least 1 in a valid file.
    pub vcpus: u32,
    /// vCPU slots for hot-plug, when the file reserves more than are present.
    pub max_vcpus: Option<u32>,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The guest operating system in the file's own words, e.g. `windows11-64`, `l26`, a libosinfo id.
    pub guest_os: Option<String>,
    /// The topology the file states; LLCs are empty when it says nothing about caches.
    pub topology: Option<GuestTopology>,
    /// The CPU model the guest gets.
    pub cpu: GuestCpu,
    /// Size of the pages that back the VM's memory, in KiB, when the file asks for hugepages.
    pub hugepage_kib: Option<u64>,
    /// Host devices passed through.
    pub devices: Vec<Device>,
    /// vCPUs bound to host CPUs by the file.
    pub pins: Vec<Pin>,
    /// VMware's shape keys; empty for other formats.
    pub esxi: EsxiKeys,
}

/// The CPU model of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum GuestCpu {
    /// Nothing is stated: an edit leaves the file's model alone, a new file gets the host's CPU.
    #[default]
    Unstated,
    /// The host's CPU passed through (`-cpu host`, `host-passthrough`).
    Host,
    /// A named model, e.g. `EPYC-Rome`.
    Named(String),
}

/// A host device passed through to the VM.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    /// The name the file gives it, e.g. `pciPassthru0`, `hostpci0`.
    pub name: String,
    /// Host PCI address, e.g. `0000:41:00.0`; empty when the file names the device in another way.
    pub address: String,
    /// The vNUMA node the guest sees it on.
    pub guest_node: Option<u32>,
}

/// A vCPU bound to host CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Index of the vCPU.
    pub vcpu: u32,
    /// Host CPUs it may use.
    pub cpus: CpuSet,
}

/// The keys of a `.vmx` that concern shape, each `None` when the file does not have it. Meaning, range and default of
/// each: docs/esxi-keys.md (source: reference sections 2-4 of the ESXi specification).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EsxiKeys {
    /// `virtualHW.version`: the VM's compatibility, 10 (5.5) to 22 (9.0).
    pub hw_version: Option<u32>,
    /// `cpuid.coresPerSocket`: cores per virtual socket; 0 means automatic.
    pub cores_per_socket: Option<u32>,
    /// `cpuid.coresPerSocket.cookie`: the last automatic value.
    pub cores_per_socket_cookie: Option<u32>,
    /// `cpuid.numSMT`: threads per core the guest sees, 1 or 2.
    pub num_smt: Option<u32>,
    /// `numa.vcpu.coresPerNode`: manual vNUMA node size; 0 means automatic.
    pub cores_per_node: Option<u32>,
    /// `numa.vcpu.maxPerVirtualNode`: manual vNUMA node size, the older key.
    pub max_per_virtual_node: Option<u32>,
    /// `numa.autosize.vcpu.maxPerVirtualNode`: the vNUMA node size that ESXi persisted.
    pub autosize_max_per_virtual_node: Option<u32>,
    /// `numa.autosize.cookie`: what the persisted size was made for.
    pub autosize_cookie: Option<u64>,
    /// `numa.autosize`: size again at every power-on.
    pub autosize: Option<bool>,
    /// `numa.autosize.once`: size only at the first power-on.
    pub autosize_once: Option<bool>,
    /// `numa.vcpu.min`: fewest vCPUs for which vNUMA is shown.
    pub vcpu_min: Option<u32>,
    /// `numa.vcpu.maxPerMachineNode`: most vCPUs of the VM on one host node.
    pub max_per_machine_node: Option<u32>,
    /// `numa.vcpu.maxPerClient`: most vCPUs in one NUMA client.
    pub max_per_client: Option<u32>,
    /// `numa.vcpu.preferHT`: count threads instead of cores.
    pub prefer_ht: Option<bool>,
    /// `numa.vcpu.followcorespersocket`: vNUMA node size = cores per socket, as before 6.5.
    pub follow_cores_per_socket: Option<bool>,
    /// `numa.consolidate`: use the fewest host nodes.
    pub consolidate: Option<bool>,
    /// `numa.allowHotadd`: keep vNUMA with CPU hot-add (8.0).
    pub allow_hotadd: Option<bool>,
    /// `numa.nodeAffinity`: host nodes the VM may use.
    pub node_affinity: Vec<u32>,
    /// `vcpu.hotadd`: CPU hot-add is on.
    pub vcpu_hotadd: Option<bool>,
}
