//! Exact statements of the vSphere 8.0 Virtual Topology study (S0) and of the Cassandra study (S1), by their number in
//! the list of claims.

use super::super::Release::{V6_5, V6_7, V7_0, V8_0};
use super::*;
use crate::shape::limits;

#[test]
fn s0_01_four_vcpus_on_a_gold_6148() {
    let host = host("2x20");
    let (off, on) = (vm("4 hw=19").on(&host, V8_0), vm("4").on(&host, V8_0));
    assert_eq!(seen(&off), "4x1 | 4 | 4");
    assert_eq!(seen(&on), "1x4 | 4 | 4");
}

#[test]
fn s0_02_eight_vcpus_on_an_epyc_7763() {
    let host = host("epyc-7763-1s");
    let (off, on) = (vm("8 hw=19").on(&host, V8_0), vm("8").on(&host, V8_0));
    assert_eq!(
        (seen(&off), seen(&on)),
        ("8x1 | 8 | 8".into(), "1x8 | 8 | 8".into())
    );
    assert_eq!(
        (off.topology.llcs.len(), off.topology.llcs[0].size_bytes),
        (8, 262_144 << 10)
    );
    assert_eq!(
        (on.topology.llcs.len(), on.topology.llcs[0].size_bytes),
        (1, 32_768 << 10)
    );
}

#[test]
fn s0_03_four_vcpus_on_two_sockets_of_four() {
    assert_eq!(seen(&vm("4").on(&host("2x4"), V8_0)), "1x4 | 4 | 4");
}

#[test]
fn s0_04_sql_server_standard_uses_four_sockets() {
    let (sql, host) = (limits::find("sql-standard-2019").unwrap(), host("2x20"));
    for (vm, usable) in [(vm("8 hw=19"), 4), (vm("8"), 8)] {
        assert_eq!(
            limits::usable_vcpus(sql, &vm.on(&host, V8_0).topology),
            usable
        );
    }
}

#[test]
fn s0_05_cores_per_socket_do_not_change_vnuma_since_6_5() {
    let host = host("2x20");
    for release in [V6_5, V6_7, V7_0, V8_0] {
        for cores in [1, 2, 3, 4, 6, 12] {
            let shape = vm(&format!("24 cps={cores}")).on(&host, release);
            let nodes: Vec<_> = shape
                .topology
                .numa_nodes
                .iter()
                .map(|node| node.vcpus.to_string())
                .collect();
            assert_eq!(
                nodes,
                ["0-11", "12-23"],
                "{release:?}, {cores} cores per socket"
            );
        }
    }
}

#[test]
fn s0_06_the_first_power_on_fixes_the_topology() {
    let (first, second) = (host("2x14"), host("4x22"));
    let born = vm("16");
    let (shape, keys) = power_on(&born.request(&first, V8_0), V8_0).unwrap();
    assert_eq!(seen(&shape), "2x8 | 8+8 | 8+8");
    let mut moved = born.clone();
    moved.spec.esxi = keys;
    let after = moved.on(&second, V8_0);
    assert_eq!(
        seen(&after),
        "2x8 | 8+8 | 16",
        "the guest's view stays, the host's clients follow the host"
    );
    assert!(codes(&after.findings).contains(&"stale-autosize"));
    assert_eq!(
        seen(&born.on(&second, V8_0)),
        "1x16 | 16 | 16",
        "born there it would be one node"
    );
    let grown = Vm {
        spec: Spec {
            vcpus: 20,
            ..moved.spec
        },
        ..moved
    };
    assert_eq!(
        seen(&grown.on(&second, V8_0)),
        "1x20 | 20 | 20",
        "another vCPU count sizes again"
    );
}

#[test]
fn s1_01_eight_cassandra_vms_fill_the_threads() {
    let host = host("2x28");
    assert_eq!((8 * 14, host.cpus.len(), host.cores.len()), (112, 112, 56));
    let shape = vm("14 gib=60").on(&host, V8_0);
    assert_eq!(
        shape.topology.numa_nodes[0].vcpus.len() * 2,
        28,
        "a VM is half a socket"
    );
}

#[test]
fn s1_02_s1_03_sockets_follow_the_vms_version_not_the_hosts() {
    let host = host("2x28");
    for (release, hw, sockets) in [(V7_0, 19, 14), (V8_0, 19, 14), (V8_0, 21, 1)] {
        let shape = vm(&format!("14 gib=60 hw={hw}")).on(&host, release);
        assert_eq!(
            shape.topology.sockets, sockets,
            "{release:?}, hardware version {hw}"
        );
    }
}
