//! What each key of a VM file does.

use model::vm::Device;

use super::super::Release::{V5_5, V6_5, V6_7, V7_0, V8_0};
use super::*;
use crate::shape::limits;

/// All on two packages of 20 cores.
const KEYS: &str = "
ESXi | VM                                           | sockets | vNUMA nodes | clients
7.0  | 16 maxPerMachineNode=8                       | 16x1 | 8+8     | 8+8
7.0  | 16 maxPerClient=8                            | 16x1 | 16      | 8+8
7.0  | 24 maxPerVirtualNode=8                       | 24x1 | 8+8+8   | 8+8+8
7.0  | 20 maxPerVirtualNode=8                       | 20x1 | 7+7+6   | 7+7+6
7.0  | 8 maxPerVirtualNode=4                        | 8x1  | 8       | 8
7.0  | 8 maxPerVirtualNode=4 min=8                  | 8x1  | 4+4     | 4+4
7.0  | 60 maxPerVirtualNode=30                      | 60x1 | 30+30   | 15+15+15+15
7.0  | 24 min=25                                    | 24x1 | 24      | 12+12
7.0  | 24 nodes=4                                   | 24x1 | 6+6+6+6 | 6+6+6+6
6.5  | 16 coresPerSocket=4 followcorespersocket=1   | 4x4  | 4+4+4+4 | 4+4+4+4
6.0  | 24 autosize=TRUE                             | 24x1 | 20+4    | 20+4
7.0  | 40 consolidate=FALSE                         | 40x1 | 20+20   | 20+20
7.0  | 24 nodeAffinity=1                            | 24x1 | 12+12   | 12+12
8.0  | 24 preferHT                                  | 1x24 | 24      | 24
8.0  | 24 maxPerVirtualNode=8                       | 3x8  | 8+8+8   | 8+8+8
8.0  | 8 coresPerSocket=4 coresPerNode=4            | 2x4  | 4+4     | 4+4
8.0  | 24 coresPerNode=0                            | 2x12 | 12+12   | 12+12
8.0  | 24 numSMT=2                                  | 1x12 | 24      | 24
8.0  | 60 numSMT=2                                  | 2x15 | 30+30   | 30+30
8.0  | 24 coresPerSocket=0                          | 2x12 | 12+12   | 12+12
8.0  | 24 cps=6 nodes=2                             | 4x6  | 12+12   | 12+12
8.0  | 24 cps=24 nodes=2                            | 1x24 | 12+12   | 12+12
8.0  | 24 cps=1 nodes=3                             | 24x1 | 8+8+8   | 8+8+8
8.0  | 24 kept=8/240012 coresPerSocket.cookie=4     | 6x4  | 8+8+8   | 12+12
8.0  | 24 kept=8/240012 coresPerSocket.cookie=5     | 3x8  | 8+8+8   | 12+12
8.0  | 24 kept=8/230012 coresPerSocket.cookie=4     | 2x12 | 12+12   | 12+12
8.0  | 24 coresPerSocket=2 cps=0                    | 2x12 | 12+12   | 12+12
8.0  | 24 coresPerSocket=2 cps=4                    | 6x4  | 12+12   | 12+12
";

#[test]
fn keys_decide_and_overrides_win() {
    for row in rows(KEYS) {
        let shape = vm(row[1]).on(&host("2x20"), release(row[0]));
        assert_eq!(seen(&shape), row[2..].join(" | "), "{}", row.join(" | "));
    }
    let file = |mut vm: Vm| {
        let keys = &mut vm.spec.esxi;
        (keys.hw_version, keys.prefer_ht, keys.vcpu_hotadd) = (Some(19), Some(true), Some(true));
        vm
    };
    assert_eq!(
        seen(&file(vm("24")).on(&host("2x20"), V8_0)),
        "24x1 | 24 | 24"
    );
    let mut overruled = file(vm("24 hw=21"));
    (overruled.asked.prefer_ht, overruled.asked.hot_add) = (Some(false), Some(false));
    assert_eq!(
        seen(&overruled.on(&host("2x20"), V8_0)),
        "2x12 | 12+12 | 12+12"
    );
}

#[test]
fn a_guests_recommended_cores_per_socket_before_hardware_version_20() {
    for (text, cores) in [
        ("4 hw=13 guestOS=windows9-64", 2),
        ("4 hw=11 guestOS=windows9-64", 1),
        ("5 hw=13 guestOS=windows9-64", 1),
        ("4 hw=14 guestOS=windows8srv-64", 1),
        ("4 hw=15 guestOS=windows8srv-64", 2),
        ("4 hw=13 guestOS=windows2019srv-64", 2),
        ("4 hw=19 guestOS=darwin20-64", 2),
        ("4 hw=19 guestOS=ubuntu-64", 1),
        ("4 hw=20 guestOS=windows9-64", 4),
    ] {
        let shape = vm(text).on(&host("2x20"), V8_0);
        assert_eq!(shape.topology.cores_per_socket(), cores, "{text}");
    }
}

#[test]
fn a_kept_size_counts_only_with_its_cookie() {
    for (text, nodes, sized_again) in [
        ("36 kept=18/360022", 2, false),
        ("36 kept=18/360001", 2, false),
        ("36 kept=18/360022 autosize.once=TRUE", 2, false),
        ("36 kept=18/320022", 3, true),
        ("36 kept=18/400022", 3, true),
        ("36 kept=18/", 3, true),
        ("36 kept=18/360007", 3, true),
        ("36 kept=18/18446744073709551615", 3, true),
        ("36 kept=18/360022 autosize.once=FALSE", 3, true),
        ("36 kept=18/360022 autosize=TRUE", 3, true),
        ("36 kept=0/360022", 3, false),
    ] {
        let shape = vm(text).on(&host("4x14"), V7_0);
        let again = shape
            .reasons
            .iter()
            .any(|reason| reason.code == "sized-again");
        let seen = (shape.topology.numa_nodes.len(), again);
        assert_eq!(seen, (nodes, sized_again), "{text}");
    }
}

#[test]
fn power_on_writes_what_esxi_writes() {
    for (text, of, size, cookie, cores) in [
        ("36 cps=2", "7.0", Some(18), Some(360_022), None),
        ("16", "6.0", Some(8), Some(160_001), None),
        ("12 cps=6", "8.0", Some(12), Some(120_062), None),
        ("2", "8.0", Some(2), Some(20_012), Some(2)),
        ("24 hotadd", "8.0", None, None, None),
        ("24 cps=12 nodes=2", "8.0", None, None, None),
    ] {
        let host = host(if of == "6.0" { "2x10" } else { "2x20" });
        let release = release(of);
        let (_, keys) = power_on(&vm(text).request(&host, release), release).unwrap();
        let written = (
            keys.autosize_max_per_virtual_node,
            keys.autosize_cookie,
            keys.cores_per_socket_cookie,
        );
        assert_eq!(written, (size, cookie, cores), "{text}, {of}");
    }
}

#[test]
fn hot_add_forces_one_node_unless_allowed() {
    let on = |text| vm(text).on(&host("2x20"), V8_0);
    let shape = on("24 cps=12 hotadd");
    assert_eq!(seen(&shape), "2x12 | 24 | 12+12");
    assert!(codes(&shape.findings).contains(&"hot-add-hides-vnuma"));
    let shape = on("24 cps=12 hotadd allowHotadd=TRUE");
    assert_eq!(seen(&shape), "2x12 | 12+12 | 12+12");
    let shape = on("24 cps=12 hotadd hw=19 allowHotadd=TRUE");
    assert_eq!(
        seen(&shape),
        "2x12 | 24 | 12+12",
        "the key needs hardware version 20"
    );
    assert!(codes(&shape.findings).contains(&"key-ignored"));
}

#[test]
fn hot_add_slots_are_whole_sockets() {
    for (text, sockets, cores, lost) in [
        ("8 slots=16", 2, 8, false),
        ("8 slots=12", 3, 4, false), // Automatic sockets fit the slots.
        ("8 cps=8 slots=12", 1, 8, true),
        ("8 cps=2 slots=12", 6, 2, false),
    ] {
        let shape = vm(text).on(&host("2x20"), V8_0);
        let seen = (shape.topology.sockets, shape.topology.cores_per_socket());
        let told = codes(&shape.findings).contains(&"hot-add-slots");
        assert_eq!((seen, told), ((sockets, cores), lost), "{text}");
    }
}

#[test]
fn memory_beyond_a_node_is_told_with_its_remote_share() {
    // Measured: 31 of 96 GB remote (Denneman 2017-10-05), 155 of 381 GB (2022-11-03).
    for (text, machine, of, told) in [
        ("8 gib=96", "2x12/64", V6_5, Some("about 33 %")),
        ("12 gib=384", "2x20/256", V8_0, Some("about 33 %")),
        ("12 gib=256", "2x20/256", V8_0, None),
        ("24 gib=384", "2x20/256", V8_0, None), // 192 GiB on each node.
        ("12 gib=384", "2x20/0", V8_0, None),   // Unknown memory sets no limit.
    ] {
        let shape = vm(text).on(&host(machine), of);
        let found = shape
            .findings
            .iter()
            .find(|finding| finding.code == "memory-exceeds-node");
        assert_eq!(found.is_some(), told.is_some(), "{text} on {machine}");
        if let (Some(found), Some(told)) = (found, told) {
            assert!(found.text.contains(told), "{}", found.text);
        }
    }
    let shape = vm("1 gib=900").on(&host("1x4"), V5_5);
    assert_eq!(
        codes(&shape.findings),
        ["memory-exceeds-host"],
        "over-committed, not refused"
    );
}

#[test]
fn findings_follow_vmwares_advice() {
    for (text, of, code) in [
        ("44", V7_0, "more-vcpus-than-cores"),
        ("8 cps=1", V8_0, "flat-on-purpose"),
        ("36 cps=12", V7_0, "cores-per-socket-misfit"),
        ("24 cps=24", V7_0, "cores-per-socket-misfit"),
        ("30 cps=2", V7_0, "uneven-numa-clients"),
        ("21", V7_0, "odd-vcpus-above-node"),
        ("8 nodes=2", V7_0, "numa-nodes-not-shown"),
        ("24 cps=12 nodes=2 hotadd", V8_0, "numa-nodes-not-shown"),
        ("36 kept=9/360022", V7_0, "stale-autosize"),
        ("8 nodeAffinity=0,7", V8_0, "node-affinity-unknown"),
        ("24 nodeAffinity=0", V7_0, "affinity-too-narrow"),
        ("24 nodeAffinity=0", V8_0, "affinity-too-narrow"),
        ("8 hw=19 numSMT=2", V8_0, "key-ignored"),
    ] {
        let found = codes(&vm(text).on(&host("2x20"), of).findings);
        assert!(found.contains(&code), "{text}: {found:?}");
    }
    for text in ["8", "20", "24", "24 cps=12", "16 cps=4", "24 hw=19"] {
        let found = codes(&vm(text).on(&host("2x20"), V8_0).findings);
        assert!(found.is_empty(), "{text} needs no finding: {found:?}");
    }
}

#[test]
fn a_change_of_sockets_is_told_where_they_are_counted() {
    let (vm, host) = (vm("8 coresPerSocket=8 cps=1"), host("2x20"));
    let limits = vec![limits::find("sql-standard-2022").unwrap()];
    let request = Request {
        limits,
        ..vm.request(&host, V8_0)
    };
    let found = codes(&crate::shape::shape(&request).unwrap().findings);
    assert_eq!(found, ["flat-on-purpose", "licence-view", "licence-limit"]);
}

#[test]
fn a_single_flow_is_told_how_to_become_flat() {
    let (vm, host) = (vm("8"), host("2x20"));
    let goal = Goal::SingleFlow;
    let request = Request {
        goal,
        ..vm.request(&host, V8_0)
    };
    let shape = super::super::shape(&request, V8_0).unwrap();
    assert_eq!(
        (seen(&shape).as_str(), codes(&shape.findings)),
        ("1x8 | 8 | 8", vec!["single-flow"])
    );
}

#[test]
fn devices_are_shown_where_the_file_says() {
    let device = |name: &str, node| Device {
        name: name.to_owned(),
        guest_node: node,
        ..Device::default()
    };
    let mut vm = vm("24");
    vm.spec.devices = vec![
        device("pciPassthru0", Some(1)),
        device("pciPassthru1", Some(2)),
    ];
    vm.spec.devices.push(device("pciPassthru2", None));
    let shape = vm.on(&host("2x20"), V8_0);
    assert_eq!(shape.device_nodes, [("pciPassthru0".to_owned(), 1)]);
    assert_eq!(codes(&shape.findings), ["device-node"]);
    assert!(vm.on(&host("2x20"), V7_0).device_nodes.is_empty());
}

#[test]
fn nodes_know_their_hosts() {
    for (text, machine, of, homes) in [
        ("24", "2x20", V8_0, vec![vec![0], vec![1]]),
        ("24 hotadd", "2x20", V8_0, vec![vec![0, 1]]),
        ("12 cps=12", "opteron-6174-4s", V5_5, vec![vec![0, 1]]),
        ("8 nodeAffinity=1", "2x20", V6_7, vec![vec![1]]),
        ("40", "2x10", V7_0, vec![vec![0], vec![0], vec![1], vec![1]]),
    ] {
        let shape = vm(text).on(&host(machine), of);
        let nodes = shape.topology.numa_nodes.iter();
        let found: Vec<_> = nodes.map(|node| node.host_nodes.clone()).collect();
        assert_eq!(found, homes, "{text} on {machine}");
    }
}

#[test]
fn memory_is_split_equally_with_the_remainder_first() {
    let mut vm = vm("36 cps=2 kept=18/360022");
    vm.spec.memory_mib = 1001;
    let shape = vm.on(&host("4x14"), V7_0);
    let nodes: Vec<_> = shape
        .topology
        .numa_nodes
        .iter()
        .map(|node| node.memory_mib)
        .collect();
    let clients: Vec<_> = shape
        .numa_clients
        .iter()
        .map(|client| client.memory_mib)
        .collect();
    assert_eq!(nodes, [501, 500]);
    // Nodes of 18 + 18 vCPUs on clients of 12: each client backs 12 of 36.
    assert_eq!(clients, [334, 334, 333]);
}

#[test]
fn unequal_nodes_are_sized_by_the_smallest() {
    let mut parts = host("2x10").to_parts();
    parts.cpus = parts.cpus.difference(&"18-19,38-39".parse().unwrap());
    let shape = vm("9").on(&Host::from_parts(parts).unwrap(), V7_0);
    assert_eq!(seen(&shape), "9x1 | 5+4 | 5+4", "nodes of 10 and 8 cores");
    assert!(
        shape
            .reasons
            .iter()
            .any(|reason| reason.code == "uncertain")
    );
}

#[test]
fn small_nodes_make_sockets_of_a_node() {
    assert_eq!(
        seen(&vm("20").on(&epyc(2, 2, 1, 10), V8_0)),
        "2x10 | 10+10 | 10+10",
        "SNC2"
    );
    let caches_as_nodes = epyc(2, 16, 1, 4);
    assert_eq!(
        seen(&vm("16").on(&caches_as_nodes, V8_0)),
        "4x4 | 4+4+4+4 | 4+4+4+4"
    );
}
