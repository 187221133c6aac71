use model::firmware::{self, Firmware};
use model::host::Synthetic;

use super::*;
use crate::machine::presets::preset;

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6 * b.abs().max(1.0)
}

#[test]
fn coherence_is_by_requester_owner_and_home() {
    // Preset, requester, owner, home, ns: the rows of the reference's machine table.
    let rows = [
        // Within an LLC, whatever the home.
        ("epyc-7702-2s", 0, 0, 0, 25.0),
        ("epyc-7702-2s", 0, 0, 1, 25.0),
        // The quadrant, and the two CCX of a die are no nearer than that.
        ("epyc-7702-2s", 0, 1, 0, 119.0),
        ("epyc-7702-2s", 0, 3, 0, 119.0),
        // The rest of the package, and with a home elsewhere as much as a trip there.
        ("epyc-7702-2s", 0, 4, 0, 135.0),
        ("epyc-7702-2s", 0, 1, 1, 236.0),
        ("epyc-7702-2s", 0, 4, 1, 236.0),
        ("epyc-7702-2s", 18, 17, 0, 236.0),
        ("epyc-7702-2s", 18, 17, 1, 119.0),
        // The other package.
        ("epyc-7702-2s", 0, 16, 0, 233.0),
        ("epyc-7702-2s", 0, 16, 1, 233.0),
        ("epyc-7702-2s", 31, 2, 1, 233.0),
        ("xeon-6148-2s", 0, 0, 1, 48.0),
        ("opteron-6174-4s", 0, 1, 0, 100.0),
        ("opteron-6174-4s", 0, 2, 0, 135.0),
        // One node over both packages: no home is elsewhere.
        ("xeon-e5355-2s", 0, 1, 0, 95.0),
    ];
    for (name, requester, owner, home, ns) in rows {
        let fabric = Fabric::new(&preset(name));
        let found = fabric.coherence_ns(requester, owner, home);
        assert!(
            near(found, ns),
            "{name} {requester} {owner} {home}: {found}, not {ns}"
        );
    }
}

#[test]
fn memory_latency_is_stated_or_interpolated() {
    let rows = [
        ("epyc-7702-2s", 0, 0, 122.0),
        ("epyc-7702-2s", 0, 1, 205.0),
        ("epyc-7702-2s", 16, 0, 205.0),
        // SLIT 16 is the nearest other package: the stated figure; 22 is twice the way: 98 + 2 x 59.
        ("opteron-6174-4s", 0, 2, 157.0),
        ("opteron-6174-4s", 0, 3, 216.0),
        // The other die of the package is as far as the nearest package by SLIT.
        ("opteron-6174-4s", 0, 1, 157.0),
        // Naples, SLIT 16 inside and 32 outside the package: 90 + 110 x 6 / 22.
        ("epyc-7601-2s", 0, 2, 120.0),
        ("epyc-7601-2s", 0, 15, 200.0),
    ];
    for (name, llc, node, ns) in rows {
        let fabric = Fabric::new(&preset(name));
        let found = fabric.dram_ns(llc, node);
        assert!(near(found, ns), "{name} {llc} {node}: {found}, not {ns}");
    }
}

#[test]
fn an_llc_over_several_nodes_has_their_mean() {
    let fabric = Fabric::new(&preset("xeon-6980p-2s"));
    let [local, sibling] = [137.5, 137.5 + 137.5 * 2.0 / 11.0];
    // Nodes of 43, 43 and 42 cores.
    let mean = (43.0 * local + 85.0 * sibling) / 128.0;
    assert!(near(fabric.dram_ns(0, 0), mean), "{}", fabric.dram_ns(0, 0));
    assert!(near(fabric.node_dram_ns(1, 1), local));
    assert!(near(fabric.node_dram_ns(0, 1), sibling));
    assert!(near(fabric.node_dram_ns(0, 4), 275.0));
}

#[test]
fn distances_have_four_classes() {
    let rows: [(&str, &[(u32, u8)]); 4] = [
        (
            "epyc-7702-2s",
            &[(0, 0), (1, 1), (3, 1), (4, 2), (15, 2), (16, 3)],
        ),
        ("epyc-9754-2s", &[(0, 0), (1, 2), (16, 3)]),
        ("xeon-6148-2s", &[(0, 0), (1, 3)]),
        ("xeon-e5355-2s", &[(0, 0), (1, 2), (2, 3)]),
    ];
    for (name, classes) in rows {
        let fabric = Fabric::new(&preset(name));
        for &(llc, class) in classes {
            assert_eq!(fabric.distance_class(0, llc), class, "{name} {llc}");
            assert_eq!(fabric.distance_class(llc, 0), class, "{name} {llc}");
        }
    }
}

#[test]
fn bandwidth_is_divided_over_the_nodes() {
    let host = preset("epyc-7702-2s");
    let fabric = Fabric::new(&host);
    assert!(near(fabric.node_bytes_per_ns[1], 204.8));
    assert!(near(fabric.llc_link_bytes_per_ns, 25.6));
    let nps4 = Firmware {
        nps: Some(4),
        ..Firmware::default()
    };
    let nps4 = firmware::apply(&host, &nps4).expect("the host offers it");
    let fabric = Fabric::new(&nps4);
    assert_eq!(fabric.node_bytes_per_ns.len(), 8);
    assert!(
        fabric
            .node_bytes_per_ns
            .iter()
            .all(|&part| near(part, 51.2))
    );
    // Two packages, one node.
    let fabric = Fabric::new(&preset("xeon-e5355-2s"));
    assert!(near(fabric.node_bytes_per_ns[0], 21.4));
}

#[test]
fn tables_agree_with_the_host() {
    let host = preset("epyc-7702-2s");
    let fabric = Fabric::new(&host);
    assert_eq!(fabric.siblings(5), [5, 133]);
    assert_eq!(fabric.siblings(133), [5, 133]);
    assert_eq!(
        fabric.llc_cpus.of_index(1),
        [4, 5, 6, 7, 132, 133, 134, 135]
    );
    assert_eq!((fabric.llc_node[31], fabric.llc_package[31]), (1, 1));
    assert_eq!(fabric.nodes_near.of_index(1), [1, 0]);
    assert!(near(fabric.llc_bytes[7], 16.0 * 1024.0 * 1024.0));
    assert!(near(fabric.core_bytes[7], 512.0 * 1024.0));
    assert!(near(fabric.smt_ns, 8.0));
}

#[test]
fn what_is_not_known_is_filled_in_and_said() {
    let stranger = Synthetic {
        packages: 2,
        llcs_per_node: 4,
        cores_per_llc: 4,
        threads_per_core: 2,
        ..Synthetic::default()
    };
    let fabric = Fabric::new(&stranger.host("stranger"));
    let all = fabric.doubts().join("\n");
    for word in [
        "latencies between caches",
        "latency of memory",
        "remote memory",
        "bandwidth is not known",
        "size of a last-level cache",
        "homed on another package",
        "links of the last-level caches",
    ] {
        assert!(all.contains(word), "no `{word}` in:\n{all}");
    }
    let order =
        [(0, 0, 0), (0, 1, 0), (0, 4, 0)].map(|(a, b, home)| fabric.coherence_ns(a, b, home));
    assert!(order.is_sorted(), "{order:?}");
    assert!(fabric.dram_ns(0, 0) < fabric.dram_ns(0, 1));
    let known = Fabric::new(&preset("epyc-7702-2s"));
    assert_eq!(known.doubts().len(), 1, "{:?}", known.doubts());
    assert!(known.doubts()[0].contains("packages send each other"));
}

#[test]
fn nothing_is_a_host_too() {
    let empty = Synthetic::default().host("one");
    let fabric = Fabric::new(&empty);
    assert_eq!(fabric.cpu_core, [0]);
    assert!(fabric.coherence_ns(0, 0, 0) > 0.0);
}

#[test]
fn a_measured_matrix_that_is_no_number_stands_for_a_typical_one() {
    let mut host = preset("epyc-7702-2s");
    if let Some(latency) = &mut host.latency {
        latency.llc_ns[0][1] = f64::NAN;
        latency.llc_ns[0][2] = f64::INFINITY;
        latency.dram_local_ns = Some(-3.0);
    }
    let fabric = Fabric::new(&host);
    for owner in 0..3 {
        assert!(fabric.coherence_ns(0, owner, 0).is_finite());
    }
    assert!(fabric.dram_ns(0, 0) > 0.0);
}
