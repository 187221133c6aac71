//! What to boot: the shape as it will be compared, and QEMU's arguments for it.

use std::path::PathBuf;
use std::time::Duration;

use model::formats::{Accelerator, Target, qemu};
use model::vm::Device;
use model::{Finding, GuestTopology, Spec};

/// Memory of the largest vNUMA node of a scaled guest, in MiB.
const NODE_MIB_MAX: u64 = 256;
/// Memory that a scaled vNUMA node has at least, in MiB.
const NODE_MIB_MIN: u64 = 64;
/// Memory that a scaled guest has at least, in MiB.
const GUEST_MIB_MIN: u64 = 128;
/// Memory that a scaled guest has at least for each vCPU slot, in MiB.
const SLOT_MIB: u64 = 4;

/// Vendor and device id of what stands in for a passed-through device: QEMU's `pci-testdev`, which does nothing.
pub const STAND_IN_ID: (u32, u32) = (0x1b36, 0x0005);

/// The programs that every guest needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// QEMU for x86-64, by path or name.
    pub emulator: PathBuf,
    /// The kernel, from [`find_kernel`](super::find_kernel).
    pub kernel: PathBuf,
}

/// How much memory a guest gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryMode {
    /// As little as shows the proportions: the kernel comes up sooner, and large shapes fit small hosts.
    #[default]
    Scaled,
    /// As planned. The host need not have all of it: a guest takes what it touches, which is 16 MiB for each GiB that
    /// its kernel describes, and little more.
    Full,
}

/// A guest to boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The shape to compare with, memory as the guest will have it.
    pub topology: GuestTopology,
    /// Passed-through devices that are shown on a vNUMA node, with it, in the order of their addresses in the guest. The
    /// guest has a stand-in for each ([`STAND_IN_ID`]).
    pub devices: Vec<(String, u32)>,
    /// QEMU's arguments for the shape.
    pub arguments: Vec<String>,
    /// Who runs the guest.
    pub accelerator: Accelerator,
    /// The programs.
    pub setup: Setup,
    /// When to give up.
    pub timeout: Duration,
    /// What these arguments cannot express.
    pub findings: Vec<Finding>,
}

impl Setup {
    /// The usual emulator with a kernel.
    pub fn new(kernel: PathBuf) -> Self {
        Self {
            emulator: PathBuf::from("qemu-system-x86_64"),
            kernel,
        }
    }
}

impl Plan {
    /// Plans a guest for the topology of a VM; a VM without one is one socket. Host nodes, hugepages and pins
    /// are left out, and stand-ins take the place of passed-through devices: the guest is to look right, not to run fast.
    pub fn new(spec: &Spec, target: &Target, memory: MemoryMode, setup: &Setup) -> Self {
        let stated = spec.topology.clone();
        let stated =
            stated.unwrap_or_else(|| GuestTopology::uniform(spec.vcpus, [1, 1, 1, spec.vcpus, 1]));
        let topology = scaled_plan(&stated, memory);
        let memory_mib = match topology.memory_mib() {
            0 if memory == MemoryMode::Full => spec.memory_mib,
            0 => spec.memory_mib.min(NODE_MIB_MAX).max(least_mib(&topology)),
            sum => sum,
        };
        let spec = Spec {
            vcpus: topology.vcpus,
            memory_mib,
            topology: Some(topology.clone()),
            hugepage_kib: None,
            devices: placed_devices(&spec.devices),
            pins: Vec::new(),
            ..spec.clone()
        };
        let (mut arguments, findings) = qemu::arguments(&spec, target);
        arguments.iter_mut().for_each(adapt);
        Self {
            timeout: timeout(&topology, target.accelerator, memory_mib),
            topology,
            devices: spec
                .devices
                .into_iter()
                .filter_map(|device| Some((device.name, device.guest_node?)))
                .collect(),
            arguments,
            accelerator: target.accelerator,
            setup: setup.clone(),
            findings,
        }
    }
}

/// The topology with as little memory as shows its proportions: the largest vNUMA node has 256 MiB at most and the others
/// their ratio to it, but the guest has at least 128 MiB and 4 MiB for each vCPU slot, in equal minimum parts of 64 MiB or
/// more, so that the kernel and its per-CPU data fit. A node without memory keeps none. No node is bound to a host node.
pub fn scaled_plan(topology: &GuestTopology, memory: MemoryMode) -> GuestTopology {
    let mut scaled = topology.clone();
    for node in &mut scaled.numa_nodes {
        node.host_nodes.clear();
    }
    let sizes = topology.numa_nodes.iter().map(|node| node.memory_mib);
    let largest = sizes.clone().max().unwrap_or(0);
    if memory == MemoryMode::Full || largest == 0 {
        return scaled;
    }
    let count: u64 = sizes.map(|size| u64::from(size > 0)).sum();
    let least = least_mib(topology).div_ceil(count).max(NODE_MIB_MIN);
    let top = NODE_MIB_MAX.max(least).min(largest);
    for size in scaled
        .numa_nodes
        .iter_mut()
        .map(|node| &mut node.memory_mib)
    {
        if *size > 0 {
            let share = u128::from(*size) * u128::from(top) / u128::from(largest);
            // A share of a u64 is one.
            *size = u64::try_from(share).unwrap_or(u64::MAX).max(least);
        }
    }
    scaled
}

/// Memory with which the kernel comes up, in MiB: Linux 6.12 does with 96 MiB for 2 vCPUs and 128 MiB for 32.
fn least_mib(topology: &GuestTopology) -> u64 {
    GUEST_MIB_MIN.max(SLOT_MIB * u64::from(topology.maxcpus()))
}

/// The devices that are shown on a vNUMA node, by node: the order in which the arguments give them bus numbers.
fn placed_devices(devices: &[Device]) -> Vec<Device> {
    let mut placed: Vec<Device> = devices
        .iter()
        .filter(|device| device.guest_node.is_some())
        .cloned()
        .collect();
    placed.sort_by_key(|device| device.guest_node);
    for device in &mut placed {
        // Only the place in the guest counts, so a device that the file names without an address is shown as well.
        "0000:00:00.0".clone_into(&mut device.address);
    }
    placed
}

/// Puts the stand-in in the place of a passed-through device, and lets memory be larger than the host's.
fn adapt(argument: &mut String) {
    if argument.starts_with("vfio-pci,") {
        let bus = argument.split(',').find(|part| part.starts_with("bus="));
        *argument = format!("pci-testdev,{}", bus.unwrap_or("bus=pcie.0"));
    }
    if argument.starts_with("memory-backend-ram,") && !argument.contains("reserve=") {
        argument.push_str(",reserve=off");
    }
}

/// Generous: a guest of 32 vCPUs boots in 20 to 60 s under emulation on two slow shared cores, one of 128 in three
/// minutes. Full memory is touched by the kernel, page by page, to describe it.
fn timeout(topology: &GuestTopology, accelerator: Accelerator, memory_mib: u64) -> Duration {
    let slots = u64::from(topology.maxcpus());
    Duration::from_secs(match accelerator {
        Accelerator::Tcg => 120 + 10 * slots + memory_mib / 1024,
        Accelerator::Kvm => 60 + slots + memory_mib / 16_384,
    })
}

#[cfg(test)]
mod tests {
    use model::GuestNode;

    use super::*;

    fn with_memory(vcpus: u32, memory: &[u64]) -> GuestTopology {
        let mut topology = GuestTopology::uniform(vcpus, [1, 1, 1, vcpus, 1]);
        let node = |&memory_mib: &u64| GuestNode {
            vcpus: model::CpuSet::new(),
            memory_mib,
            host_nodes: vec![3],
        };
        topology.numa_nodes = memory.iter().map(node).collect();
        topology
    }

    #[test]
    fn memory_is_scaled_in_proportion_and_never_below_what_boots() {
        for (vcpus, memory, expected) in [
            (4, &[65_536, 65_536][..], &[256, 256][..]),
            (4, &[65_536, 32_768], &[256, 128]),
            (4, &[1 << 20, 1024], &[256, 64]),
            (4, &[128, 128], &[128, 128]),
            (4, &[8], &[128]),
            (4, &[4096, 0], &[256, 0]),
            (256, &[1 << 20], &[1024]),
            (4, &[u64::MAX, u64::MAX / 2], &[256, 127]),
            (4, &[], &[]),
        ] {
            let scaled = scaled_plan(&with_memory(vcpus, memory), MemoryMode::Scaled);
            let nodes = scaled.numa_nodes.iter();
            let found: Vec<u64> = nodes.map(|node| node.memory_mib).collect();
            assert_eq!(found, expected, "{memory:?}");
        }
    }

    #[test]
    fn full_memory_is_as_planned_but_bound_to_no_host_node() {
        let full = scaled_plan(&with_memory(4, &[65_536]), MemoryMode::Full);
        assert_eq!(full.memory_mib(), 65_536);
        assert!(full.numa_nodes[0].host_nodes.is_empty());
    }

    #[test]
    fn what_ties_a_guest_to_its_host_is_left_out_and_devices_have_stand_ins() {
        let mut topology = with_memory(4, &[4096, 4096]);
        topology.numa_nodes[0].vcpus = "0-1".parse().unwrap();
        topology.numa_nodes[1].vcpus = "2-3".parse().unwrap();
        let device = |name: &str, guest_node| Device {
            name: name.to_owned(),
            address: String::new(),
            guest_node,
        };
        let spec = Spec {
            vcpus: 4,
            memory_mib: 8192,
            topology: Some(topology),
            hugepage_kib: Some(2048),
            devices: vec![
                device("far", Some(1)),
                device("any", None),
                device("near", Some(0)),
            ],
            ..Spec::default()
        };
        let setup = Setup::new("/kernel".into());
        for accelerator in [Accelerator::Kvm, Accelerator::Tcg] {
            let target = Target {
                accelerator,
                ..Target::default()
            };
            let plan = Plan::new(&spec, &target, MemoryMode::Full, &setup);
            let all = plan.arguments.join(" ");
            assert!(!all.contains("host-nodes"), "{all}");
            assert!(!all.contains("hugetlb"), "{all}");
            assert!(!all.contains("vfio"), "{all}");
            assert_eq!(all.matches("pci-testdev,bus=").count(), 2, "{all}");
            assert_eq!(all.matches("reserve=off").count(), 2, "{all}");
            let expected = [("near", 0), ("far", 1)].map(|(name, node)| (name.to_owned(), node));
            assert_eq!(plan.devices, expected);
        }
    }
}
