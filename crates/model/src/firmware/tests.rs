use proptest::prelude::*;

use super::*;
use crate::host::{
    Bandwidth, Cache, HostDevice, HugepagePool, Latency, Node, Parts, Synthetic, findings,
};

const NONE: Firmware = Firmware {
    nps: None,
    ccx_as_numa: false,
    snc: None,
    smt_off: false,
    node_interleaving: false,
};

fn nps(n: u32) -> Firmware {
    Firmware {
        nps: Some(n),
        ..NONE
    }
}

fn snc(n: u32) -> Firmware {
    Firmware {
        snc: Some(n),
        ..NONE
    }
}

const CCX: Firmware = Firmware {
    ccx_as_numa: true,
    ..NONE
};
const INTERLEAVED: Firmware = Firmware {
    node_interleaving: true,
    ..NONE
};
const SMT_OFF: Firmware = Firmware {
    smt_off: true,
    ..NONE
};

/// Two packages of two cores per LLC, two threads per core, and 16 GiB each.
fn machine(vendor: Vendor, family: u32, model_number: u32, llcs: u32) -> Host {
    let mut parts = Synthetic {
        packages: 2,
        llcs_per_node: llcs,
        cores_per_llc: 8 / llcs,
        threads_per_core: 2,
        llc_mib: 16,
        node_mib: 16_384,
        ..Synthetic::default()
    }
    .host("box")
    .to_parts();
    parts.processor = Processor {
        vendor,
        model: "Model 1".into(),
        family: Some(family),
        model_number: Some(model_number),
    };
    let far = if vendor == Vendor::Amd { 32 } else { 21 };
    parts.distances = vec![vec![10, far], vec![far, 10]];
    Host::from_parts(parts).unwrap()
}

fn rome() -> Host {
    machine(Vendor::Amd, 0x17, 0x31, 4)
}

fn skylake() -> Host {
    machine(Vendor::Intel, 6, 0x55, 1)
}

fn broadwell() -> Host {
    machine(Vendor::Intel, 6, 0x4f, 1)
}

/// A line per node (number, CPUs, memory, distances), then the last-level caches.
fn drawn(host: &Host) -> String {
    let mut lines = vec![host.name.clone()];
    for (index, node) in host.nodes.iter().enumerate() {
        let distances: Vec<String> = host
            .distances
            .get(index)
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect();
        let (id, cpus, gib) = (node.id, node.cpus.to_string(), node.memory_mib / 1024);
        let line = format!(
            "node {id}: {cpus:<11} {gib:>2} GiB  {}",
            distances.join(" ")
        );
        lines.push(line.trim_end().to_owned());
    }
    let llcs: Vec<String> = host
        .llcs
        .iter()
        .map(|llc| format!("{} {}M", llc.cpus, llc.size_bytes >> 20))
        .collect();
    lines.push(format!("llcs {}", llcs.join(" | ")));
    lines.join("\n")
}

#[track_caller]
fn check(host: &Host, firmware: Firmware, expected: &str) {
    let expected: Vec<&str> = expected.trim().lines().map(str::trim).collect();
    assert_eq!(drawn(&apply(host, &firmware).unwrap()), expected.join("\n"));
}

#[test]
fn nodes_per_socket_take_whole_caches_in_order() {
    check(
        &rome(),
        NONE,
        "box
         node 0: 0-7,16-23   16 GiB  10 32
         node 1: 8-15,24-31  16 GiB  32 10
         llcs 0-1,16-17 16M | 2-3,18-19 16M | 4-5,20-21 16M | 6-7,22-23 16M | 8-9,24-25 16M | 10-11,26-27 16M | 12-13,28-29 16M | 14-15,30-31 16M",
    );
    check(
        &rome(),
        nps(2),
        "box+nps2
         node 0: 0-3,16-19    8 GiB  10 12 32 32
         node 1: 4-7,20-23    8 GiB  12 10 32 32
         node 2: 8-11,24-27   8 GiB  32 32 10 12
         node 3: 12-15,28-31  8 GiB  32 32 12 10
         llcs 0-1,16-17 16M | 2-3,18-19 16M | 4-5,20-21 16M | 6-7,22-23 16M | 8-9,24-25 16M | 10-11,26-27 16M | 12-13,28-29 16M | 14-15,30-31 16M",
    );
    let back = apply(&apply(&rome(), &nps(4)).unwrap(), &nps(1)).unwrap();
    assert_eq!(
        Host {
            name: "box".into(),
            ..back
        },
        rome()
    );
}

#[test]
fn ccx_as_numa_makes_a_node_of_each_cache() {
    let llcs = "llcs 0-1,16-17 16M | 2-3,18-19 16M | 4-5,20-21 16M | 6-7,22-23 16M | 8-9,24-25 16M | 10-11,26-27 16M | 12-13,28-29 16M | 14-15,30-31 16M";
    check(
        &rome(),
        CCX,
        &format!(
            "box+ccx-as-numa
             node 0: 0-1,16-17    4 GiB  10 11 11 11 32 32 32 32
             node 1: 2-3,18-19    4 GiB  11 10 11 11 32 32 32 32
             node 2: 4-5,20-21    4 GiB  11 11 10 11 32 32 32 32
             node 3: 6-7,22-23    4 GiB  11 11 11 10 32 32 32 32
             node 4: 8-9,24-25    4 GiB  32 32 32 32 10 11 11 11
             node 5: 10-11,26-27  4 GiB  32 32 32 32 11 10 11 11
             node 6: 12-13,28-29  4 GiB  32 32 32 32 11 11 10 11
             node 7: 14-15,30-31  4 GiB  32 32 32 32 11 11 11 10
             {llcs}"
        ),
    );
    let both = Firmware {
        nps: Some(2),
        ..CCX
    };
    let host = apply(&rome(), &both).unwrap();
    assert_eq!(host.name, "box+nps2+ccx-as-numa");
    assert_eq!(host.distances[0], [10, 11, 12, 12, 32, 32, 32, 32]);
    assert!(
        findings(&host)
            .iter()
            .any(|finding| finding.code == "ccx-as-numa")
    );
}

#[test]
fn sub_numa_clusters_share_one_cache() {
    check(
        &skylake(),
        snc(2),
        "box+snc2
         node 0: 0-3,16-19    8 GiB  10 11 21 21
         node 1: 4-7,20-23    8 GiB  11 10 21 21
         node 2: 8-11,24-27   8 GiB  21 21 10 11
         node 3: 12-15,28-31  8 GiB  21 21 11 10
         llcs 0-7,16-23 16M | 8-15,24-31 16M",
    );
}

#[test]
fn cluster_on_die_cuts_the_cache() {
    let mut host = broadwell();
    host.latency = Some(Latency {
        llc_ns: vec![vec![40.0, 120.0], vec![120.0, 40.0]],
        ..latency()
    });
    check(
        &host,
        snc(2),
        "box+snc2
         node 0: 0-3,16-19    8 GiB  10 11 21 21
         node 1: 4-7,20-23    8 GiB  11 10 21 21
         node 2: 8-11,24-27   8 GiB  21 21 10 11
         node 3: 12-15,28-31  8 GiB  21 21 11 10
         llcs 0-3,16-19 8M | 4-7,20-23 8M | 8-11,24-27 8M | 12-15,28-31 8M",
    );
    let cut = apply(&host, &snc(2)).unwrap();
    assert_eq!(
        cut.latency.as_ref().unwrap().llc_ns[0],
        [40.0, 40.0, 120.0, 120.0]
    );
    let whole = apply(&cut, &snc(1)).unwrap();
    assert_eq!((whole.llcs, whole.latency), (host.llcs, host.latency));
}

#[test]
fn uneven_clusters_put_the_larger_first() {
    let granite_rapids = {
        let mut parts = Synthetic {
            packages: 1,
            cores_per_llc: 128,
            node_mib: 1000,
            ..Synthetic::default()
        }
        .host("6980p")
        .to_parts();
        parts.processor.vendor = Vendor::Intel;
        Host::from_parts(parts).unwrap()
    };
    let host = apply(&granite_rapids, &snc(3)).unwrap();
    let nodes: Vec<(String, u64)> = host
        .nodes
        .iter()
        .map(|node| (node.cpus.to_string(), node.memory_mib))
        .collect();
    let expected = [("0-42", 334), ("43-85", 333), ("86-127", 333)];
    assert_eq!(nodes, expected.map(|(cpus, mib)| (cpus.to_owned(), mib)));
}

#[test]
fn smt_off_keeps_first_threads_and_interleaving_one_node() {
    check(
        &skylake(),
        SMT_OFF,
        "box+smt-off
         node 0: 0-7         16 GiB  10 21
         node 1: 8-15        16 GiB  21 10
         llcs 0-7 16M | 8-15 16M",
    );
    check(
        &skylake(),
        INTERLEAVED,
        "box+node-interleaving
         node 0: 0-31        32 GiB
         llcs 0-7,16-23 16M | 8-15,24-31 16M",
    );
}

#[test]
fn interleaved_memory_costs_the_mean_of_all_packages() {
    let mut host = rome();
    host.latency = Some(latency());
    let latency = apply(&host, &INTERLEAVED).unwrap().latency.unwrap();
    assert_eq!(
        (latency.dram_local_ns, latency.dram_remote_ns),
        (Some(150.0), None)
    );
    let off = apply(&host, &SMT_OFF).unwrap().latency.unwrap();
    assert_eq!((off.smt_ns, off.dram_local_ns), (None, Some(100.0)));
}

#[test]
fn devices_keep_their_node_where_it_stays_whole() {
    let mut host = apply(&rome(), &nps(2)).unwrap();
    host.devices = vec![device(Some(3)), device(None), device(Some(9))];
    for (firmware, nodes) in [
        (nps(1), [Some(1), None, None]),
        (nps(2), [Some(3), None, Some(9)]),
        (nps(4), [None, None, None]),
        (INTERLEAVED, [None, None, None]),
    ] {
        let host = apply(&host, &firmware).unwrap();
        let found: Vec<Option<u32>> = host.devices.iter().map(|device| device.node).collect();
        assert_eq!(found, nodes, "{}", host.name);
    }
}

#[test]
fn memory_only_nodes_follow() {
    let mut parts = rome().to_parts();
    parts.nodes.push(Node {
        id: 2,
        cpus: CpuSet::new(),
        memory_mib: 4096,
        hugepages: vec![],
    });
    parts.distances = vec![vec![10, 32, 20], vec![32, 10, 40], vec![20, 40, 10]];
    let host = apply(&Host::from_parts(parts).unwrap(), &nps(2)).unwrap();
    assert_eq!((host.nodes[4].id, host.nodes[4].memory_mib), (4, 4096));
    assert_eq!(host.distances[4], [20, 20, 40, 40, 10]);
    assert_eq!(host.distances[0], [10, 12, 32, 32, 20]);
}

#[track_caller]
fn check_refused(host: &Host, firmware: Firmware, message: &str) {
    let error = apply(host, &firmware).unwrap_err();
    assert_eq!(error.to_string(), message);
}

#[test]
fn refuses_settings_of_other_processors() {
    let opteron = machine(Vendor::Amd, 0x10, 0x09, 1);
    check_refused(
        &skylake(),
        nps(4),
        "NPS4 is not possible: Model 1 is not AMD's; sub-NUMA clusters (SNC) are Intel's setting of that kind",
    );
    check_refused(
        &skylake(),
        CCX,
        "CCX-as-NUMA is not possible: Model 1 is not AMD's; sub-NUMA clusters (SNC) are Intel's setting of that kind",
    );
    check_refused(
        &rome(),
        snc(2),
        "SNC2 is not possible: Model 1 is not Intel's; nodes per socket (NPS) are AMD's setting of that kind",
    );
    check_refused(
        &opteron,
        nps(1),
        "NPS1 is not possible: Model 1 has no such setting; its nodes are its dies; node interleaving is possible",
    );
    check_refused(
        &opteron,
        CCX,
        "CCX-as-NUMA is not possible: Model 1 has no such setting; its nodes are its dies; node interleaving is possible",
    );
}

#[test]
fn refuses_what_does_not_divide_with_what_does() {
    let amd = |family, model, llcs| machine(Vendor::Amd, family, model, llcs);
    let intel = |model| machine(Vendor::Intel, 6, model, 1);
    for (host, firmware, found, possible) in [
        (rome(), nps(3), "4 last-level caches", "NPS1, NPS2, NPS4"),
        (
            amd(0x19, 0x01, 2),
            nps(4),
            "2 last-level caches",
            "NPS1, NPS2",
        ),
        (amd(0x17, 0x01, 4), nps(4), "4 last-level caches", "NPS1"),
        (amd(0x19, 0x61, 2), nps(2), "2 last-level caches", "NPS1"),
        (
            intel(0x55),
            snc(4),
            "1 last-level cache and 8 cores",
            "SNC1, SNC2",
        ),
        (
            intel(0x1a),
            snc(2),
            "1 last-level cache and 8 cores",
            "SNC1",
        ),
        (
            intel(0xad),
            snc(9),
            "1 last-level cache and 8 cores",
            "SNC1, SNC2, SNC3",
        ),
    ] {
        let error = apply(&host, &firmware).unwrap_err();
        assert_eq!(error.found, format!("Model 1 with {found} per package"));
        assert_eq!(error.possible, format!("possible: {possible}"));
    }
}

#[test]
fn refuses_what_makes_no_sense() {
    let no_caches = Host::from_parts(Parts {
        cpus: CpuSet::from_range(0..4),
        ..Parts::default()
    });
    let (ccx_interleaved, nps_snc) = (
        Firmware {
            ccx_as_numa: true,
            ..INTERLEAVED
        },
        Firmware {
            nps: Some(1),
            ..snc(2)
        },
    );
    check_refused(
        &no_caches.unwrap(),
        CCX,
        "CCX-as-NUMA is not possible: the description has no caches; describe the last-level caches",
    );
    check_refused(
        &rome(),
        nps(0),
        "NPS0 is not possible: that is one node of all packages; ask for node interleaving",
    );
    check_refused(
        &rome(),
        ccx_interleaved,
        "node interleaving with CCX-as-NUMA is not possible: interleaving makes one node of the machine; ask for one of them",
    );
    check_refused(
        &rome(),
        nps_snc,
        "NPS with SNC is not possible: SNC is Intel's setting, NPS and CCX-as-NUMA are AMD's; ask for one of them",
    );
}

#[test]
fn names_say_what_was_set_once() {
    for (name, firmware, expected) in [
        ("a", NONE, "a"),
        ("a+nps4", nps(2), "a+nps2"),
        ("a+nps4+ccx-as-numa", nps(2), "a+nps2"),
        ("a+nps4", CCX, "a+nps4+ccx-as-numa"),
        ("a+smt-off", INTERLEAVED, "a+smt-off+node-interleaving"),
        ("a+b+smt-off", SMT_OFF, "a+b+smt-off"),
    ] {
        assert_eq!(renamed(name, &firmware), expected);
    }
}

fn latency() -> Latency {
    Latency {
        llc_ns: vec![],
        smt_ns: Some(10.0),
        home_remote_ns: None,
        dram_local_ns: Some(100.0),
        dram_remote_ns: Some(200.0),
        measured_here: false,
        source: "test".into(),
    }
}

fn bandwidth() -> Bandwidth {
    Bandwidth {
        package_mbs: 204_800,
        llc_link_mbs: 25_600,
        source: "a test".into(),
    }
}

fn device(node: Option<u32>) -> HostDevice {
    HostDevice {
        address: "0000:01:00.0".into(),
        class: "Ethernet".into(),
        os_names: vec![],
        node,
    }
}

/// Hosts of every vendor, with odd counts, memory that does not divide, hugepages, devices and latencies.
fn hosts() -> impl Strategy<Value = Host> {
    let processors = prop_oneof![
        Just((Vendor::Amd, 0x17, 0x31)),
        Just((Vendor::Amd, 0x10, 0x09)),
        Just((Vendor::Intel, 6, 0x55)),
        Just((Vendor::Intel, 6, 0x4f)),
        Just((Vendor::Intel, 6, 0xad)),
        Just((Vendor::Other, 0, 0)),
    ];
    let counts = (1..4u32, 1..3u32, 1..9u32, 1..6u32, 1..3u32);
    (processors, counts, 0..5000u64, 0..50u64).prop_map(
        |((vendor, family, model), counts, node_mib, pages)| {
            let (packages, nodes_per_package, llcs_per_node, cores_per_llc, threads_per_core) =
                counts;
            let mut parts = Synthetic {
                packages,
                nodes_per_package,
                llcs_per_node,
                cores_per_llc,
                threads_per_core,
                llc_mib: 12,
                node_mib,
            }
            .host("any")
            .to_parts();
            parts.processor = Processor {
                vendor,
                model: String::new(),
                family: Some(family),
                model_number: Some(model),
            };
            for node in &mut parts.nodes {
                node.hugepages = vec![HugepagePool {
                    size_kib: 2048,
                    total: pages,
                    free: pages / 2,
                }];
            }
            parts.devices = vec![device(Some(0))];
            let n_llcs = (packages * nodes_per_package * llcs_per_node) as usize;
            parts.latency = Some(Latency {
                llc_ns: vec![vec![50.0; n_llcs]; n_llcs],
                ..latency()
            });
            parts.bandwidth = Some(bandwidth());
            Host::from_parts(parts).unwrap()
        },
    )
}

fn settings() -> impl Strategy<Value = Firmware> {
    let n = || proptest::option::weighted(0.4, 0..6u32);
    (n(), any::<bool>(), n(), any::<bool>(), any::<bool>()).prop_map(
        |(nps, ccx_as_numa, snc, smt_off, node_interleaving)| Firmware {
            nps,
            ccx_as_numa,
            snc,
            smt_off,
            node_interleaving,
        },
    )
}

fn hugepages(host: &Host) -> (u64, u64) {
    let pools = host.nodes.iter().flat_map(|node| &node.hugepages);
    pools.fold((0, 0), |(total, free), pool| {
        (total + pool.total, free + pool.free)
    })
}

fn llc_bytes(host: &Host) -> u64 {
    let is_llc = |cache: &&Cache| cache.level == 3;
    host.caches
        .iter()
        .filter(is_llc)
        .map(|cache| cache.size_bytes)
        .sum()
}

proptest! {
    #[test]
    fn conserves_what_the_machine_has(host in hosts(), firmware in settings()) {
        let Ok(after) = apply(&host, &firmware) else { return Ok(()) };
        prop_assert_eq!(after.memory_mib(), host.memory_mib());
        prop_assert_eq!(hugepages(&after), hugepages(&host));
        prop_assert_eq!(llc_bytes(&after), llc_bytes(&host));
        prop_assert_eq!(&after.bandwidth, &host.bandwidth);
        let cpus = if firmware.smt_off { host.cores.len() } else { host.cpus.len() };
        prop_assert_eq!(after.cpus.len(), cpus);
        prop_assert_eq!(after.cores.len(), host.cores.len());
        let in_nodes: usize = after.nodes.iter().map(|node| node.cpus.len()).sum();
        prop_assert_eq!(in_nodes, cpus);
    }

    #[test]
    fn distances_are_symmetric_and_local_at_ten(host in hosts(), firmware in settings()) {
        let Ok(after) = apply(&host, &firmware) else { return Ok(()) };
        for (from, row) in after.distances.iter().enumerate() {
            for (to, &distance) in row.iter().enumerate() {
                prop_assert_eq!(distance, after.distances[to][from]);
                prop_assert_eq!(distance == 10, from == to);
            }
        }
    }

    #[test]
    fn twice_is_once(host in hosts(), firmware in settings()) {
        let Ok(once) = apply(&host, &firmware) else { return Ok(()) };
        prop_assert_eq!(apply(&once, &firmware).unwrap(), once);
    }
}
