//! One core per socket: what libvirt, Nova and KubeVirt do when nobody says otherwise, and ESXi before 8.0.

use model::{Finding, GuestCpu, GuestLlc, GuestTopology, Reason};

use super::{Request, Shape};

/// The flat shape: every vCPU is a socket with a cache of its own, and there is no vNUMA.
///
/// It is right for one busy flow (a thread stays glued to its interrupt, vSphere 8.0 study tables 4 and 5), and wrong
/// for most else: a guest scheduler that sees no shared cache never looks for an idle neighbour.
pub fn shape(request: &Request) -> Shape {
    let vm = request.vm;
    let max = request
        .overrides
        .max_vcpus
        .or(vm.max_vcpus)
        .unwrap_or(vm.vcpus)
        .max(vm.vcpus);
    let mut topology = GuestTopology::uniform(vm.vcpus, [max, 1, 1, 1, 1]);
    let size_bytes = request.host.llcs.first().map_or(0, |llc| llc.size_bytes);
    topology.llcs = topology
        .blocks(1)
        .into_iter()
        .map(|vcpus| GuestLlc {
            vcpus,
            size_bytes,
            guest_size_bytes: size_bytes,
        })
        .collect();
    topology.numa_nodes = vec![super::whole_vm_node(vm, Vec::new())];
    let text = "one core per socket: each vCPU is a processor of its own, with its own cache";
    let mut findings = Vec::new();
    let decided = &request.overrides;
    if decided.cores_per_socket.is_some_and(|cores| cores > 1)
        || decided.numa_nodes.is_some_and(|nodes| nodes > 1)
        || decided.threads_per_core.is_some_and(|threads| threads > 1)
        || decided.prefer_ht == Some(true)
    {
        findings.push(Finding::warning(
            "flat-ignores-decisions",
            "the flat rule is one core per socket and one node: cores per socket, vNUMA nodes and threads that were \
             asked for are not used; `--rule auto` takes them",
        ));
    }
    if vm.vcpus > 1 {
        findings.push(Finding::info(
            "flat-hides-caches",
            "the guest sees no shared cache, so its wake-ups never look for an idle neighbour; `--rule auto` shows the real ones",
        ));
    }
    Shape {
        topology,
        numa_clients: Vec::new(),
        device_nodes: Vec::new(),
        cpu: GuestCpu::Unstated,
        hugepage_kib: vm.hugepage_kib,
        reasons: vec![Reason::new("one-core-per-socket", text)],
        rejected: Vec::new(),
        findings,
    }
}
