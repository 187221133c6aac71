//! What ESXi refuses to power on, and why.

use model::Host;

use super::setup::{CoresPerSocket, Setup};
use super::{Refusal, hardware};

/// Checks a VM in the order ESXi meets its keys: compatibility, sizes, sockets, threads, nodes, host.
///
/// Memory beyond the host's is no refusal: ESXi over-commits memory (it powers the VM on and balloons, compresses or
/// swaps); only a reservation could not be met, and a VM file read here does not say how much is reserved.
///
/// # Errors
/// The first thing that keeps the VM from powering on. Codes: `hardware-version-too-new`, `no-vcpus`,
/// `too-many-vcpus`, `memory-out-of-range`, `automatic-needs-hardware-20`, `cores-per-socket-limit`,
/// `cores-per-socket-indivisible`, `threads-per-core`, `numa-nodes-indivisible`, `numa-nodes-limit`,
/// `numa-nodes-need-cores-per-socket`, `cores-per-node-mismatch`, `more-vcpus-than-host`.
pub(super) fn check(setup: &Setup, host: &Host) -> Result<(), Refusal> {
    hardware_version(setup)?;
    sizes(setup)?;
    cores_per_socket(setup)?;
    threads(setup, host)?;
    numa_nodes(setup)?;
    host_cpus(setup, host)
}

fn refuse(code: &'static str, text: String) -> Result<(), Refusal> {
    Err(Refusal { code, text })
}

fn hardware_version(setup: &Setup) -> Result<(), Refusal> {
    let newest = hardware::newest(setup.release);
    if setup.hw > newest {
        let text = format!(
            "the VM has hardware version {}, this host runs up to {newest}: the VM was made by a newer product and \
             cannot be used here; use a newer host or make the VM with version {newest}",
            setup.hw
        );
        return refuse("hardware-version-too-new", text);
    }
    Ok(())
}

fn sizes(setup: &Setup) -> Result<(), Refusal> {
    let (vcpus, hw) = (setup.vcpus, setup.hw);
    let max = hardware::max_vcpus(hw);
    if vcpus == 0 {
        return refuse("no-vcpus", "the VM has 0 vCPUs; give at least 1".to_owned());
    }
    if vcpus > max {
        let text = format!(
            "the VM has {vcpus} vCPUs, hardware version {hw} allows {max}; upgrade the VM's compatibility or take fewer"
        );
        return refuse("too-many-vcpus", text);
    }
    let memory = hardware::MIN_MEMORY_MIB..=hardware::max_memory_mib(hw);
    if !memory.contains(&setup.memory_mib) {
        let text = format!(
            "the VM has {} MiB of memory, hardware version {hw} allows {} to {}",
            setup.memory_mib,
            memory.start(),
            memory.end()
        );
        return refuse("memory-out-of-range", text);
    }
    Ok(())
}

fn cores_per_socket(setup: &Setup) -> Result<(), Refusal> {
    let CoresPerSocket::Manual(cores) = setup.cores else {
        return Ok(());
    };
    let (vcpus, hw) = (setup.vcpus, setup.hw);
    if cores == 0 {
        let text = format!(
            "automatic cores per socket (0) needs hardware version {}, the VM has {hw}; give a number, 1 is the default",
            hardware::FIRST_AUTOMATIC
        );
        return refuse("automatic-needs-hardware-20", text);
    }
    let max = hardware::max_cores_per_socket(hw);
    if cores > max {
        let text = format!(
            "cpuid.coresPerSocket is {cores}, hardware version {hw} allows {max}; use more sockets"
        );
        return refuse("cores-per-socket-limit", text);
    }
    if !vcpus.is_multiple_of(setup.unit()) {
        let threads = match setup.threads {
            1 => String::new(),
            threads => format!(" of {threads} threads"),
        };
        let text = format!(
            "numvcpus is {vcpus}, not a multiple of cpuid.coresPerSocket {cores}{threads}: a socket would be \
             incomplete; give a number of cores that divides {vcpus}"
        );
        return refuse("cores-per-socket-indivisible", text);
    }
    Ok(())
}

fn threads(setup: &Setup, host: &Host) -> Result<(), Refusal> {
    let (threads, on_host) = (setup.threads, host.threads_per_core());
    let why = if threads == 0 || threads > hardware::MAX_THREADS {
        format!("a guest core has 1 to {} threads", hardware::MAX_THREADS)
    } else if !setup.vcpus.is_multiple_of(threads) {
        format!("it does not divide {} vCPUs", setup.vcpus)
    } else if threads > 1 && threads != on_host {
        format!("the cores of this host have {on_host}")
    } else {
        return Ok(());
    };
    refuse(
        "threads-per-core",
        format!("cpuid.numSMT is {threads}, but {why}; leave it at 1"),
    )
}

fn numa_nodes(setup: &Setup) -> Result<(), Refusal> {
    let vcpus = setup.vcpus;
    if let Some(nodes) = setup.nodes_asked
        && (nodes == 0 || !vcpus.is_multiple_of(nodes))
    {
        let text = format!("{vcpus} vCPUs do not divide evenly over {nodes} vNUMA nodes");
        return refuse("numa-nodes-indivisible", text);
    }
    let manual = setup.cores_per_node.or(setup.max_per_virtual_node);
    let nodes = manual.map_or(1, |size| vcpus.div_ceil(size.max(1)));
    if nodes > hardware::MAX_NUMA_NODES {
        let text = format!(
            "{nodes} vNUMA nodes were asked for; a guest is shown at most {}",
            hardware::MAX_NUMA_NODES
        );
        return refuse("numa-nodes-limit", text);
    }
    let Some(node) = setup.cores_per_node else {
        return Ok(());
    };
    let CoresPerSocket::Manual(cores) = setup.cores else {
        let text = "vNUMA nodes can be set by hand only together with cores per socket; give both"
            .to_owned();
        return refuse("numa-nodes-need-cores-per-socket", text);
    };
    let cores_per_node = node / setup.threads.max(1);
    if cores_per_node == 0 || !vcpus.is_multiple_of(node) || !node.is_multiple_of(setup.threads) {
        let text = format!(
            "numa.vcpu.coresPerNode {cores_per_node} does not divide the cores of {vcpus} vCPUs"
        );
        return refuse("numa-nodes-indivisible", text);
    }
    if !cores_per_node.is_multiple_of(cores) && !cores.is_multiple_of(cores_per_node) {
        let text = format!(
            "numa.vcpu.coresPerNode {cores_per_node} is neither a multiple nor a divisor of cpuid.coresPerSocket \
             {cores}: sockets and vNUMA nodes would cut through each other"
        );
        return refuse("cores-per-node-mismatch", text);
    }
    Ok(())
}

/// `Cpu.AllowWideVsmp` is 0 on every release: no VM has more vCPUs than the host has logical CPUs.
fn host_cpus(setup: &Setup, host: &Host) -> Result<(), Refusal> {
    if setup.vcpus as usize > host.cpus.len() {
        let text = format!(
            "the VM has {} vCPUs, the host {} logical CPUs, and Cpu.AllowWideVsmp is 0; take fewer vCPUs",
            setup.vcpus,
            host.cpus.len()
        );
        return refuse("more-vcpus-than-host", text);
    }
    Ok(())
}
