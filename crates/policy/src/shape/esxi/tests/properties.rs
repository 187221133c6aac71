//! What holds for every VM, host and set of keys.

use proptest::prelude::*;

use super::super::Release::{V5_5, V6_0, V6_5, V6_7, V7_0, V8_0};
use super::*;

/// The codes a refusal may have.
const CODES: [&str; 13] = [
    "hardware-version-too-new",
    "no-vcpus",
    "too-many-vcpus",
    "memory-out-of-range",
    "automatic-needs-hardware-20",
    "cores-per-socket-limit",
    "cores-per-socket-indivisible",
    "threads-per-core",
    "numa-nodes-indivisible",
    "numa-nodes-limit",
    "numa-nodes-need-cores-per-socket",
    "cores-per-node-mismatch",
    "more-vcpus-than-host",
];

fn hosts() -> impl Strategy<Value = Host> {
    (1..5u32, 1..4u32, 1..5u32, 1..13u32, 1..3u32, 0..65u64).prop_map(
        |(
            packages,
            nodes_per_package,
            llcs_per_node,
            cores_per_llc,
            threads_per_core,
            node_gib,
        )| {
            Synthetic {
                packages,
                nodes_per_package,
                llcs_per_node,
                cores_per_llc,
                threads_per_core,
                llc_mib: 16,
                node_mib: node_gib << 10,
            }
            .host("random")
        },
    )
}

fn releases() -> impl Strategy<Value = Release> {
    prop::sample::select(vec![V5_5, V6_0, V6_5, V6_7, V7_0, V8_0])
}

/// A count that is often absent, often small, sometimes absurd.
fn sizes() -> impl Strategy<Value = Option<u32>> {
    prop_oneof![8 => Just(None), 8 => (0..33u32).prop_map(Some), 1 => any::<u32>().prop_map(Some)]
}

/// A count that mostly divides the vCPUs.
fn parts(vcpus: u32) -> impl Strategy<Value = Option<u32>> {
    let divisors: Vec<u32> = (1..=vcpus)
        .filter(|part| vcpus.is_multiple_of(*part))
        .collect();
    prop_oneof![10 => Just(None), 9 => prop::sample::select(divisors).prop_map(Some), 1 => sizes()]
}

fn flags() -> impl Strategy<Value = Option<bool>> {
    prop_oneof![3 => Just(None), 1 => any::<bool>().prop_map(Some)]
}

fn keys(vcpus: u32) -> BoxedStrategy<EsxiKeys> {
    let sockets = (parts(vcpus), parts(vcpus), parts(vcpus), sizes(), sizes());
    let clients = (
        sizes(),
        sizes(),
        sizes(),
        prop::collection::vec(0..9u32, 0..3),
    );
    let valid = u64::from(vcpus) * 10_000 + 12;
    let cookies = prop_oneof![Just(None), Just(Some(valid)), any::<u64>().prop_map(Some)];
    let switches = (
        flags(),
        flags(),
        flags(),
        flags(),
        flags(),
        flags(),
        flags(),
    );
    (sockets, clients, cookies, switches)
        .prop_map(|(sockets, clients, cookie, switches)| EsxiKeys {
            cores_per_socket: sockets.0,
            cores_per_socket_cookie: sockets.1,
            cores_per_node: sockets.2,
            max_per_virtual_node: sockets.3,
            autosize_max_per_virtual_node: sockets.4,
            autosize_cookie: cookie,
            vcpu_min: clients.0,
            max_per_machine_node: clients.1,
            max_per_client: clients.2,
            node_affinity: clients.3,
            autosize: switches.0,
            autosize_once: switches.1,
            prefer_ht: switches.2,
            follow_cores_per_socket: switches.3,
            consolidate: switches.4,
            allow_hotadd: switches.5,
            vcpu_hotadd: switches.6,
            ..EsxiKeys::default()
        })
        .boxed()
}

fn overrides(vcpus: u32) -> BoxedStrategy<Overrides> {
    let versions = prop_oneof![6 => Just(None), 1 => (0..30u32).prop_map(Some)];
    let threads = prop_oneof![6 => Just(None), 1 => (0..4u32).prop_map(Some)];
    (
        parts(vcpus),
        parts(vcpus),
        threads,
        sizes(),
        versions,
        flags(),
        flags(),
    )
        .prop_map(|asked| Overrides {
            cores_per_socket: asked.0,
            numa_nodes: asked.1,
            threads_per_core: asked.2,
            max_vcpus: asked.3,
            hw_version: asked.4,
            prefer_ht: asked.5,
            hot_add: asked.6,
        })
        .boxed()
}

fn vms() -> impl Strategy<Value = Vm> {
    let vcpus = prop_oneof![2 => 1..65u32, 1 => 1..257u32];
    vcpus.prop_flat_map(|vcpus| {
        let spec = (4..(512u64 << 10), keys(vcpus)).prop_map(move |(memory_mib, esxi)| Spec {
            vcpus,
            memory_mib,
            esxi,
            ..Spec::default()
        });
        (spec, overrides(vcpus)).prop_map(|(spec, asked)| Vm { spec, asked })
    })
}

/// Blocks in index order that cover every vCPU once.
fn is_partition<'a>(vcpus: u32, blocks: impl Iterator<Item = &'a model::CpuSet>) -> bool {
    let in_order: Vec<u32> = blocks
        .flat_map(|block| block.iter().map(|vcpu| vcpu.0).collect::<Vec<_>>())
        .collect();
    in_order == (0..vcpus).collect::<Vec<_>>()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_vm_on_any_host_is_shaped_or_refused(vm in vms(), host in hosts(), release in releases()) {
        let request = vm.request(&host, release);
        match power_on(&request, release) {
            Err(refusal) => prop_assert!(CODES.contains(&refusal.code), "{}", refusal.code),
            Ok((shape, _)) => {
                let (vcpus, topology) = (vm.spec.vcpus, &shape.topology);
                prop_assert_eq!(topology.check(), Vec::<String>::new());
                prop_assert!(is_partition(vcpus, topology.numa_nodes.iter().map(|node| &node.vcpus)));
                prop_assert!(is_partition(vcpus, topology.llcs.iter().map(|llc| &llc.vcpus)));
                prop_assert!(is_partition(vcpus, shape.numa_clients.iter().map(|client| &client.vcpus)));
                prop_assert!(topology.numa_nodes.len() <= hardware::MAX_NUMA_NODES as usize);
                prop_assert!(topology.numa_nodes.iter().all(|node| !node.host_nodes.is_empty()));
                prop_assert!(shape.numa_clients.iter().all(|client| !client.vcpus.is_empty()));
                let of_clients: u64 = shape.numa_clients.iter().map(|client| client.memory_mib).sum();
                prop_assert_eq!((topology.memory_mib(), of_clients), (vm.spec.memory_mib, vm.spec.memory_mib));
                prop_assert_eq!(super::super::shape(&request, release).unwrap(), shape);
            }
        }
    }

    #[test]
    fn a_plain_vm_within_the_host_powers_on_everywhere(vcpus in 1..65u32, host in hosts(), release in releases()) {
        prop_assume!(vcpus as usize <= host.cpus.len());
        let shape = plain(vcpus).on(&host, release);
        let threads = shape.topology.threads;
        prop_assert_eq!(shape.topology.sockets * shape.topology.cores_per_socket() * threads, vcpus);
        let cores = Places::new(&host, &[]).cores;
        prop_assert!(shape.numa_clients.iter().all(|client| client.vcpus.len() <= cores as usize) || release <= V6_0);
    }

    /// What the first power-on wrote down gives the same topology on any later host.
    #[test]
    fn a_guests_topology_survives_a_move(
        vcpus in 1..65u32, born in hosts(), later in hosts(),
        release in prop::sample::select(vec![V6_5, V6_7, V7_0, V8_0])
    ) {
        prop_assume!(vcpus as usize <= born.cpus.len().min(later.cpus.len()));
        let mut vm = plain(vcpus);
        let (before, keys) = power_on(&vm.request(&born, release), release).unwrap();
        vm.spec.esxi = keys;
        let after = vm.on(&later, release);
        let guest = |shape: &Shape| {
            let nodes: Vec<_> = shape.topology.numa_nodes.iter().map(|node| node.vcpus.clone()).collect();
            (shape.topology.sockets, shape.topology.cores_per_socket(), nodes)
        };
        prop_assert_eq!(guest(&before), guest(&after));
    }

    #[test]
    fn advice_ends_for_any_vm(vcpus in 0..5000u32, memory_mib in any::<u64>(), host in hosts()) {
        let mut vm = plain(vcpus);
        vm.spec.memory_mib = memory_mib;
        if let Advice::Fits { sockets, cores_per_socket } = advise(&vm.request(&host, V8_0)) {
            prop_assert_eq!(sockets * cores_per_socket, vcpus);
        }
    }
}
