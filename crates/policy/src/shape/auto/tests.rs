//! `auto` on machines in one line: what a guest gets, drawn as `[llc|llc] [llc|llc]` with a bracket per vNUMA node.

use model::host::{Host, Synthetic};
use model::{CpuSet, GuestTopology, Level, Spec};
use proptest::prelude::*;

use super::*;
use crate::shape::{Overrides, Rule, limits, shape as any_shape};

/// Packages x nodes x LLCs x cores x threads, with memory per node in MiB.
fn host(
    [
        packages,
        nodes_per_package,
        llcs_per_node,
        cores_per_llc,
        threads_per_core,
    ]: [u32; 5],
    node_mib: u64,
) -> Host {
    let machine = Synthetic {
        packages,
        nodes_per_package,
        llcs_per_node,
        cores_per_llc,
        threads_per_core,
        llc_mib: 16,
        node_mib,
    };
    machine.host("machine")
}

fn vm(vcpus: u32, memory_mib: u64) -> Spec {
    Spec {
        name: "vm".into(),
        vcpus,
        memory_mib,
        ..Spec::default()
    }
}

fn request<'a>(vm: &'a Spec, host: &'a Host, overrides: Overrides) -> Request<'a> {
    Request {
        vm,
        host,
        rule: Rule::Auto,
        goal: Goal::Throughput,
        overrides,
        limits: Vec::new(),
    }
}

/// `2x(2x4x1) [4|4] [4|4]`: sockets x (dies x cores x threads), then nodes with the present vCPUs of each LLC.
fn draw(topology: &GuestTopology) -> String {
    let shape = format!(
        "{}x({}x{}x{})",
        topology.sockets, topology.dies, topology.cores, topology.threads
    );
    let node = |vcpus: &CpuSet| {
        let llcs = topology
            .llcs
            .iter()
            .filter(|llc| llc.vcpus.intersects(vcpus));
        let sizes: Vec<String> = llcs
            .map(|llc| llc.vcpus.intersection(vcpus).len().to_string())
            .collect();
        format!(" [{}]", sizes.join("|"))
    };
    shape
        + &topology
            .numa_nodes
            .iter()
            .map(|guest| node(&guest.vcpus))
            .collect::<String>()
}

fn drawn(vm: &Spec, host: &Host, overrides: Overrides) -> String {
    draw(
        &any_shape(&request(vm, host, overrides))
            .expect("no row is refused")
            .topology,
    )
}

const ROME: [u32; 5] = [2, 1, 16, 4, 2];
const ROME_NPS4: [u32; 5] = [2, 4, 4, 4, 2];
const ROME_CCX_AS_NUMA: [u32; 5] = [2, 16, 1, 4, 2];
const MILAN: [u32; 5] = [2, 1, 8, 8, 2];
const NAPLES: [u32; 5] = [2, 4, 2, 4, 2];
const GOLD_5120: [u32; 5] = [2, 1, 1, 14, 2];
const OPTERON: [u32; 5] = [4, 2, 1, 6, 1];
const GIB: u64 = 1024;

#[test]
fn the_guest_sees_the_caches_and_nodes_it_runs_on() {
    for (machine, vcpus, memory_gib, expected) in [
        (ROME, 1, 4, "1x(1x1x1) [1]"),
        (ROME, 4, 16, "1x(1x4x1) [4]"),
        (ROME, 8, 64, "1x(2x4x1) [4|4]"),
        (ROME, 16, 64, "1x(4x4x1) [4|4|4|4]"),
        // Odd and prime counts: nearly even where it can be, a short last cache where not.
        (ROME, 5, 16, "1x(2x3x1) [3|2]"),
        (ROME, 6, 16, "1x(2x3x1) [3|3]"),
        (ROME, 13, 64, "1x(4x4x1) [4|4|4|1]"),
        (MILAN, 11, 64, "1x(2x6x1) [6|5]"),
        (MILAN, 8, 64, "1x(1x8x1) [8]"),
        (GOLD_5120, 14, 64, "1x(1x14x1) [14]"),
        (GOLD_5120, 16, 64, "2x(1x8x1) [8] [8]"),
        (GOLD_5120, 21, 64, "2x(1x11x1) [11] [10]"),
        // Memory larger than a node splits the VM though its vCPUs fit.
        (ROME, 8, 700, "2x(1x4x1) [4] [4]"),
        (GOLD_5120, 12, 700, "2x(1x6x1) [6] [6]"),
        // A node is a node, whatever the firmware calls it.
        (ROME_NPS4, 16, 64, "1x(4x4x1) [4|4|4|4]"),
        (ROME_NPS4, 32, 64, "1x(8x4x1) [4|4|4|4] [4|4|4|4]"),
        (ROME_CCX_AS_NUMA, 8, 64, "1x(2x4x1) [4] [4]"),
        (OPTERON, 24, 64, "2x(2x6x1) [6] [6] [6] [6]"),
        // Larger than a package, than the host's cores, than the host.
        (
            ROME,
            128,
            64,
            &format!(
                "2x(16x4x1){}",
                " [4|4|4|4|4|4|4|4|4|4|4|4|4|4|4|4]".repeat(2)
            ),
        ),
        (GOLD_5120, 40, 64, "2x(1x10x2) [20] [20]"),
        (GOLD_5120, 80, 64, "2x(1x40x1) [40] [40]"),
        (
            NAPLES,
            96,
            64,
            "2x(8x3x2) [6|6] [6|6] [6|6] [6|6] [6|6] [6|6] [6|6] [6|6]",
        ),
        (
            NAPLES,
            65,
            64,
            "2x(6x3x2) [6|6] [6|6] [6|6] [6|6] [6|6] [5]",
        ),
        (
            ROME,
            129,
            64,
            "2x(11x3x2) [6|6|6|6|6|6|6|6|6|6|6] [6|6|6|6|6|6|6|6|6|6|3]",
        ),
    ] {
        let host = host(machine, 512 * GIB);
        assert_eq!(
            drawn(&vm(vcpus, memory_gib * GIB), &host, Overrides::default()),
            expected,
            "{vcpus} vCPUs, {machine:?}"
        );
    }
}

/// The decisions that a row makes.
fn decided(decide: fn(&mut Overrides)) -> Overrides {
    let mut overrides = Overrides::default();
    decide(&mut overrides);
    overrides
}

#[test]
fn a_person_may_decide_otherwise() {
    type Row = ([u32; 5], u32, fn(&mut Overrides), &'static str);
    let rows: [Row; 8] = [
        (ROME, 8, |o| o.cores_per_socket = Some(4), "2x(1x4x1) [4|4]"),
        (
            ROME,
            12,
            |o| o.cores_per_socket = Some(6),
            "2x(2x3x1) [3|3|3|3]",
        ),
        (
            ROME,
            16,
            |o| o.numa_nodes = Some(2),
            "2x(2x4x1) [4|4] [4|4]",
        ),
        (
            ROME_NPS4,
            16,
            |o| o.numa_nodes = Some(4),
            "1x(4x4x1) [4] [4] [4] [4]",
        ),
        (ROME, 8, |o| o.threads_per_core = Some(2), "1x(1x4x2) [8]"),
        (
            GOLD_5120,
            20,
            |o| o.prefer_ht = Some(true),
            "1x(1x10x2) [20]",
        ),
        (ROME, 4, |o| o.max_vcpus = Some(16), "1x(4x4x1) [4]"),
        (ROME, 4, |o| o.hot_add = Some(true), "1x(2x4x1) [4]"),
    ];
    for (machine, vcpus, decide, expected) in rows {
        let (host, overrides) = (host(machine, 512 * GIB), decided(decide));
        let drawn = drawn(&vm(vcpus, 64 * GIB), &host, overrides);
        assert_eq!(drawn, expected, "{vcpus} vCPUs, {overrides:?}");
    }
}

#[test]
fn refuses_only_what_no_guest_can_have() {
    type Row = (u32, fn(&mut Overrides), &'static str);
    let rows: [Row; 7] = [
        (
            8,
            |o| o.cores_per_socket = Some(3),
            "cores-per-socket-indivisible",
        ),
        (8, |o| o.numa_nodes = Some(9), "numa-nodes-out-of-range"),
        (8, |o| o.numa_nodes = Some(0), "numa-nodes-out-of-range"),
        (7, |o| o.threads_per_core = Some(2), "threads-indivisible"),
        (0, |_| {}, "no-vcpus"),
        (1_000_000_000, |_| {}, "too-many-vcpus"),
        (8, |o| o.max_vcpus = Some(u32::MAX), "too-many-vcpus"),
    ];
    let host = host(ROME, 512 * GIB);
    for (vcpus, decide, code) in rows {
        let overrides = decided(decide);
        let refusal = any_shape(&request(&vm(vcpus, 1024), &host, overrides)).unwrap_err();
        assert_eq!(refusal.code, code, "{vcpus} vCPUs, {overrides:?}");
    }
    let no_memory = any_shape(&request(&vm(8, 0), &host, Overrides::default()));
    assert_eq!(no_memory.unwrap_err().code, "no-memory");
}

#[test]
fn what_does_not_fit_is_said() {
    for (machine, node_gib, vcpus, memory_gib, code) in [
        (ROME, 512, 13, 64, "uneven-vcpus"),
        (ROME, 512, 300, 64, "more-vcpus-than-cpus"),
        (ROME, 512, 8, 2000, "memory-exceeds-host"),
    ] {
        let host = host(machine, node_gib * GIB);
        let shape = any_shape(&request(
            &vm(vcpus, memory_gib * GIB),
            &host,
            Overrides::default(),
        ))
        .unwrap();
        assert!(
            shape.findings.iter().any(|finding| finding.code == code),
            "{code}: {:?}",
            shape.findings
        );
    }
    let rome = host(ROME, 512 * GIB);
    let shape = any_shape(&request(&vm(13, 1024), &rome, Overrides::default())).unwrap();
    let uneven = shape
        .findings
        .iter()
        .find(|finding| finding.code == "uneven-vcpus")
        .unwrap();
    assert!(uneven.text.contains("12 or 16 would"), "{}", uneven.text);
}

#[test]
fn licences_shape_the_sockets() {
    let opteron = host(OPTERON, 64 * GIB);
    let vm = vm(36, 64 * GIB);
    let mut request = request(&vm, &opteron, Overrides::default());
    assert_eq!(
        draw(&any_shape(&request).unwrap().topology),
        "3x(2x6x1) [6] [6] [6] [6] [6] [6]"
    );
    request.limits = vec![limits::find("windows-7").unwrap()];
    assert_eq!(
        draw(&any_shape(&request).unwrap().topology),
        "2x(3x6x1) [6] [6] [6] [6] [6] [6]"
    );
}

#[test]
fn a_node_over_two_packages_gives_two_sockets_and_one_node() {
    let machine = host([2, 1, 4, 4, 1], 64 * GIB);
    let mut parts = machine.to_parts();
    parts.nodes.truncate(1);
    parts.nodes[0].cpus = machine.cpuset();
    let interleaved = Host::from_parts(parts).unwrap();
    assert_eq!(
        drawn(&vm(16, GIB), &interleaved, Overrides::default()),
        "1x(4x4x1) [4|4|4|4]"
    );
    assert_eq!(
        drawn(&vm(32, GIB), &interleaved, Overrides::default()),
        "2x(4x4x1) [4|4|4|4|4|4|4|4]"
    );
}

#[test]
fn hugepages_of_the_right_size_and_node_decide() {
    use model::host::HugepagePool;
    let machine = host([2, 1, 1, 8, 1], 64 * GIB);
    let mut parts = machine.to_parts();
    parts.nodes[1].hugepages = vec![HugepagePool {
        size_kib: 2048,
        total: 8192,
        free: 8192,
    }];
    let host = Host::from_parts(parts).unwrap();
    let vm = Spec {
        hugepage_kib: Some(2048),
        ..vm(4, 8 * GIB)
    };
    let shape = any_shape(&request(&vm, &host, Overrides::default())).unwrap();
    assert_eq!(
        shape.topology.numa_nodes[0].host_nodes,
        [1],
        "the pool is on node 1"
    );
    let vm = Spec {
        memory_mib: 32 * GIB,
        ..vm
    };
    let shape = any_shape(&request(&vm, &host, Overrides::default())).unwrap();
    assert!(
        shape
            .findings
            .iter()
            .any(|finding| finding.code == "memory-exceeds-host"),
        "{:?}",
        shape.findings
    );
}

#[test]
fn devices_decide_between_equal_nodes() {
    use model::host::HostDevice;
    use model::vm::Device;
    let mut parts = host([2, 1, 1, 8, 1], 64 * GIB).to_parts();
    let address = "0000:81:00.0".to_owned();
    let class = "Ethernet".to_owned();
    parts.devices = vec![HostDevice {
        address: address.clone(),
        class,
        os_names: vec![],
        node: Some(1),
    }];
    let host = Host::from_parts(parts).unwrap();
    let device = Device {
        name: "hostdev0".into(),
        address,
        guest_node: None,
    };
    let small = Spec {
        devices: vec![device.clone()],
        ..vm(4, GIB)
    };
    let shape = any_shape(&request(&small, &host, Overrides::default())).unwrap();
    assert_eq!(shape.topology.numa_nodes[0].host_nodes, [1]);
    let large = Spec {
        devices: vec![device],
        ..vm(16, GIB)
    };
    let shape = any_shape(&request(&large, &host, Overrides::default())).unwrap();
    assert_eq!(shape.device_nodes, [("hostdev0".to_owned(), 1)]);
}

#[test]
fn vnuma_nodes_are_as_far_apart_as_the_host_nodes_behind_them() {
    let mut parts = host([2, 2, 1, 8, 1], 64 * GIB).to_parts();
    parts.distances = vec![
        vec![10, 12, 32, 32],
        vec![12, 10, 32, 32],
        vec![32, 32, 10, 12],
        vec![32, 32, 12, 10],
    ];
    let host = Host::from_parts(parts).unwrap();
    let shape = |vcpus| {
        any_shape(&request(&vm(vcpus, GIB), &host, Overrides::default()))
            .unwrap()
            .topology
    };
    assert!(shape(8).distances.is_empty());
    assert_eq!(shape(16).distances, [[10, 12], [12, 10]]);
    assert_eq!(shape(32).distances, host.distances);
}

#[test]
fn a_host_whose_cores_with_siblings_are_all_isolated_still_gets_an_answer() {
    let mut parts = host([1, 1, 1, 4, 2], 64 * GIB).to_parts();
    // Cores 2 and 3 lose their siblings, cores 0 and 1 are set apart.
    parts.cpus = "0-5".parse().unwrap();
    parts.isolated = "0-1,4-5".parse().unwrap();
    let host = Host::from_parts(parts).unwrap();
    let threads = decided(|o| o.threads_per_core = Some(2));
    for vcpus in [2, 4, 6, 16] {
        let shape = any_shape(&request(&vm(vcpus, GIB), &host, threads)).unwrap();
        assert!(
            shape.topology.check().is_empty(),
            "{vcpus} vCPUs: {:?}",
            shape.topology
        );
        assert!(
            !shape.findings.is_empty(),
            "{vcpus} vCPUs do not fit, which is said"
        );
    }
}

#[test]
fn a_single_flow_gets_the_flat_shape_on_purpose() {
    let rome = host(ROME, 512 * GIB);
    let vm = vm(8, GIB);
    let request = Request {
        goal: Goal::SingleFlow,
        ..request(&vm, &rome, Overrides::default())
    };
    let shape = any_shape(&request).unwrap();
    assert_eq!((shape.topology.sockets, shape.topology.cores), (8, 1));
    assert_eq!(shape.reasons[0].code, "single-flow");
}

prop_compose! {
    fn machines()(
        levels in [1u32..5, 1u32..5, 1u32..5, 1u32..9, 1u32..3],
        gib in prop_oneof![Just(0u64), 1u64..512],
        lost in proptest::collection::vec(0u32..64, 0..4),
        apart in proptest::collection::vec(0usize..16, 0..6),
    ) -> Host {
        // Cores go offline here and there, so that LLCs and nodes become uneven.
        let whole = host(levels, gib * GIB);
        let mut parts = whole.to_parts();
        for core in lost {
            if let Some(core) = whole.cores.get(core as usize).filter(|_| whole.cores.len() > 8) {
                parts.cpus = parts.cpus.difference(&core.cpus);
            }
        }
        let apart = apart.iter().filter_map(|&core| whole.cores.get(core));
        parts.isolated = apart.flat_map(|core| core.cpus.iter()).collect();
        Host::from_parts(parts).expect("a machine stays one without some cores")
    }
}

prop_compose! {
    fn decisions()(
        cores_per_socket in proptest::option::of(0u32..9),
        numa_nodes in proptest::option::of(1u32..6),
        threads_per_core in proptest::option::of(1u32..3),
        prefer_ht in proptest::option::of(any::<bool>()),
        hot_add in proptest::option::of(any::<bool>()),
    ) -> Overrides {
        Overrides { cores_per_socket, numa_nodes, threads_per_core, prefer_ht, hot_add, ..Overrides::default() }
    }
}

proptest! {
    #[test]
    fn every_shape_holds_together(host in machines(), vcpus in 1u32..300, gib in 1u64..2000, decided in decisions()) {
        let vm = vm(vcpus, gib * GIB);
        if let Ok(shape) = any_shape(&request(&vm, &host, decided)) {
            let topology = &shape.topology;
            prop_assert_eq!(topology.check(), Vec::<String>::new(), "{:?}", topology);
            prop_assert_eq!(topology.memory_mib(), vm.memory_mib);
            prop_assert!(topology.llc_level().is_some_and(|level| level <= Level::Core), "QEMU can say it");
            prop_assert_eq!(any_shape(&request(&vm, &host, decided)), Ok(shape.clone()), "same answer again");
            let says = |code: &str| shape.findings.iter().any(|finding| finding.code == code);
            let crowded = says("more-vcpus-than-cores") || says("more-vcpus-than-cpus");
            prop_assert!(crowded || vcpus as usize <= host.cores.len(), "more vCPUs than cores is said");
            let empty = topology.numa_nodes.iter().any(|node| node.vcpus.is_empty());
            prop_assert!(!empty || says("vnode-without-vcpus") || says("hot-add-slots"), "{:?}", topology);
        }
    }

    #[test]
    fn no_virtual_cache_spans_nodes_or_outgrows_its_host_cache(host in machines(), vcpus in 1u32..128) {
        let vm = vm(vcpus, 1);
        let shape = any_shape(&request(&vm, &host, Overrides::default())).unwrap();
        let topology = &shape.topology;
        for llc in &topology.llcs {
            prop_assert!(topology.numa_nodes.iter().any(|node| llc.vcpus.is_subset(&node.vcpus)), "{:?}", topology);
        }
        let fits = !shape.findings.iter().any(|finding| ["more-vcpus-than-cpus", "no-even-fit"].contains(&finding.code));
        let largest = host.llcs.iter().map(|llc| host.cores_in(&llc.cpus)).max().unwrap_or(0) * topology.threads;
        if fits {
            prop_assert!(topology.llcs.iter().all(|llc| llc.vcpus.len() <= largest as usize), "{:?}", topology);
        }
    }

    #[test]
    fn more_memory_in_the_nodes_never_gives_more_vnuma_nodes(vcpus in 1u32..64, gib in 1u64..400, node_gib in 8u64..200) {
        let nodes = |node_gib: u64| {
            let machine = host([2, 2, 2, 4, 2], node_gib * GIB);
            let vm = vm(vcpus, gib * GIB);
            any_shape(&request(&vm, &machine, Overrides::default())).unwrap().topology.numa_nodes.len()
        };
        prop_assert!(nodes(node_gib * 2) <= nodes(node_gib));
    }
}
