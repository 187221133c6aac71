//! The virtual topology of one VM on one host.
//!
//! **Problem.** A guest schedules by what it sees. Sockets, dies, LLCs and vNUMA nodes that do not match where its
//! vCPUs run make it search for idle CPUs in the wrong place and allocate memory on the wrong node.
//!
//! **Approach.** A rule turns a VM and a host into a [`Shape`] or a [`Refusal`]: [`auto`] is vtopo's own, [`esxi`]
//! reproduces each ESXi release, [`flat`] is one core per socket, what libvirt, Nova and KubeVirt do by default.
//!
//! **Terminology.** QEMU's words for the guest (sockets, dies, modules, cores, threads); VMware's VPD is our vNUMA node,
//! VMware's PPD our [`NumaClient`].
//!
//! **Properties.** Every vCPU is in exactly one vNUMA node and one LLC ([`GuestTopology::check`] is empty); under
//! `auto` an LLC never spans vNUMA nodes and none is larger than the host's; the same request gives the same shape.

pub mod auto;
mod cpu;
pub mod esxi;
pub mod flat;
pub mod limits;

use model::{CpuSet, Finding, GuestCpu, GuestNode, GuestTopology, Host, Reason, Spec};

pub use limits::Limit;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The VM: vCPUs, memory, devices, and for ESXi rules its keys.
    pub vm: &'a Spec,
    /// The host it will run on.
    pub host: &'a Host,
    /// Who decides.
    pub rule: Rule,
    /// What the VM is for.
    pub goal: Goal,
    /// What a person decided.
    pub overrides: Overrides,
    /// Licence and guest limits to respect, from [`limits::find`].
    pub limits: Vec<&'static Limit>,
}

/// Who decides about the shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rule {
    /// vtopo's own rule.
    #[default]
    Auto,
    /// One core per socket.
    Flat,
    /// An ESXi release.
    Esxi(Release),
}

/// An ESXi release of the host. 6.5 and 6.7 mean before U3 and U2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// 5.5, hardware version 10.
    V5_5,
    /// 6.0, hardware version 11.
    V6_0,
    /// 6.5, hardware version 13.
    V6_5,
    /// 6.7, hardware version 14.
    V6_7,
    /// 7.0, hardware version 19 (with U2).
    V7_0,
    /// 8.0, hardware version 21 (with U2).
    V8_0,
}

/// What the VM is for, as far as it changes its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Goal {
    /// The usual: as much work as possible.
    #[default]
    Throughput,
    /// Short and even response times: whole cores of its own, and what that costs.
    Latency,
    /// One busy network flow or I/O stream: the flat shape keeps a thread beside its interrupt.
    SingleFlow,
}

/// What a person decided; `None` leaves it to the rule. Under an ESXi rule these stand for the VM's keys and win over
/// what the VM file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overrides {
    /// `cpuid.coresPerSocket`; 0 asks for the automatic value.
    pub cores_per_socket: Option<u32>,
    /// Number of vNUMA nodes.
    pub numa_nodes: Option<u32>,
    /// Threads per core shown to the guest; `cpuid.numSMT`.
    pub threads_per_core: Option<u32>,
    /// Count threads instead of cores when fitting a node.
    pub prefer_ht: Option<bool>,
    /// vCPUs can be added while the VM runs.
    pub hot_add: Option<bool>,
    /// vCPU slots to reserve for hot-add.
    pub max_vcpus: Option<u32>,
    /// The VM's virtual hardware version; the release's newest when absent.
    pub hw_version: Option<u32>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// What the guest sees.
    pub topology: GuestTopology,
    /// What the host schedules as one (VMware: PPDs), under ESXi rules; empty under others.
    pub numa_clients: Vec<NumaClient>,
    /// Where passed-through devices are shown: device name and vNUMA node.
    pub device_nodes: Vec<(String, u32)>,
    /// The CPU model to give the guest; [`GuestCpu::Unstated`] leaves it to the host or to the VM's file.
    pub cpu: GuestCpu,
    /// Size of the pages to back the VM with, in KiB, when hugepages are asked for.
    pub hugepage_kib: Option<u64>,
    /// Why.
    pub reasons: Vec<Reason>,
    /// What lost, each with what it would have cost.
    pub rejected: Vec<Reason>,
    /// What a person should know.
    pub findings: Vec<Finding>,
}

/// vCPUs and memory that an ESXi host places and migrates as one (PPD).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumaClient {
    /// Its vCPUs.
    pub vcpus: CpuSet,
    /// Its share of the memory in MiB.
    pub memory_mib: u64,
}

/// Why the VM may not power on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Stable name, e.g. `cores-per-socket-indivisible`.
    pub code: &'static str,
    /// What was asked, what the rule allows, what to do.
    pub text: String,
}

/// Most vCPUs a shape is made for: QEMU's `q35` machine has 4096 (`vcpu max` of libvirt's domain capabilities).
pub const MAX_VCPUS: u32 = 4096;

/// Shapes a VM for a host.
///
/// # Errors
/// [`Refusal`] when the rule would not power the VM on, or when there are no vCPUs, more than [`MAX_VCPUS`], or no
/// memory.
pub fn shape(request: &Request) -> Result<Shape, Refusal> {
    check_request(request)?;
    let mut shape = match request.rule {
        Rule::Auto => auto::shape(request)?,
        Rule::Flat => flat::shape(request),
        Rule::Esxi(release) => esxi::shape(request, release)?,
    };
    if !matches!(request.rule, Rule::Esxi(_)) {
        cpu::choose(request, &mut shape);
    }
    shape
        .findings
        .extend(limits::findings(&request.limits, &shape.topology));
    Ok(shape)
}

fn check_request(request: &Request) -> Result<(), Refusal> {
    let (vcpus, max) = (
        request.vm.vcpus,
        request.overrides.max_vcpus.or(request.vm.max_vcpus),
    );
    if vcpus == 0 {
        return Err(Refusal {
            code: "no-vcpus",
            text: "the VM has 0 vCPUs; give at least 1".into(),
        });
    }
    if vcpus.max(max.unwrap_or(0)) > MAX_VCPUS {
        let text =
            format!("{vcpus} vCPUs were asked for; QEMU's q35 machine has at most {MAX_VCPUS}");
        return Err(Refusal {
            code: "too-many-vcpus",
            text,
        });
    }
    if request.vm.memory_mib == 0 {
        return Err(Refusal {
            code: "no-memory",
            text: "the VM has 0 MiB of memory; give at least 1".into(),
        });
    }
    Ok(())
}

/// The single vNUMA node of a VM that is not split.
fn whole_vm_node(vm: &Spec, host_nodes: Vec<u32>) -> GuestNode {
    GuestNode {
        vcpus: CpuSet::from_range(0..vm.vcpus),
        memory_mib: vm.memory_mib,
        host_nodes,
    }
}
