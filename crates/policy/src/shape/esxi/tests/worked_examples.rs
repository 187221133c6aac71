//! Shapes that were seen on real hosts, one row each.

use super::super::Release::{V6_0, V6_5, V7_0, V8_0};
use super::*;

/// Row numbers are those of the collected examples; rows without one come from the source itself. "S0" is the vSphere
/// 8.0 Virtual Topology study (2025), "S1" vTopology and Cassandra (2024), "S4" corespersocket (Achtemichuk 2013),
/// "MA" his Rules of Thumb (2017), dates are posts of Denneman's. Rows 42 to 44 are about placement, not shape.
const SEEN: &str = "
 #  | ESXi | VM                                       | host            | sockets | vNUMA nodes | clients | source
 1  | 8.0  | 4                                        | 2x4             | 1x4   | 4       | 4       | S0
 2  | 8.0  | 4                                        | 2x20            | 1x4   | 4       | 4       | S0
 3  | 8.0  | 8                                        | epyc-7763-1s    | 1x8   | 8       | 8       | S0
 4  | 8.0  | 2                                        | 2x40            | 1x2   | 2       | 2       | S0
 5  | 8.0  | 14                                       | 4x22            | 1x14  | 14      | 14      | S0
 6  | 8.0  | 4                                        | 4x22            | 1x4   | 4       | 4       | S0
 7  | 8.0  | 14 hw=21                                 | 2x28            | 1x14  | 14      | 14      | S1
 8  | 8.0  | 24                                       | 4x24            | 1x24  | 24      | 24      | S0
 9  | 8.0  | 16                                       | 2x14            | 2x8   | 8+8     | 8+8     | S0, predicted
10  | 8.0  | 20                                       | 2x20            | 1x20  | 20      | 20      | 2022-11-03
11  | 8.0  | 12 gib=384                               | 2x20            | 1x12  | 12      | 12      | 2022-11-03
    | 8.0  | 12 gib=384 cps=6 nodes=2                 | 2x20            | 2x6   | 6+6     | 6+6     | 2022-11-03
13  | 8.0  | 24 cps=12                                | 2x20            | 2x12  | 12+12   | 12+12   | 2022-10-25
    | 8.0  | 20 cps=10                                | 2x20            | 2x10  | 20      | 20      | 2023-03-02
    | 8.0  | 20 cps=10 consolidate=FALSE              | 2x20            | 2x10  | 10+10   | 10+10   | 2023-03-02
    | 8.0  | 20 cps=10 consolidate=FALSE kept=20/200102 | 2x20          | 2x10  | 20      | 10+10   | 2023-03-02
20  | 7.0  | 36                                       | 2x20            | 36x1  | 18+18   | 18+18   | 2022-03-11
    | 7.0  | 36 cps=2 kept=18/360022                  | 4x14            | 18x2  | 18+18   | 12+12+12 | 2022-03-11
22  | 7.0  | 12                                       | 2x10            | 12x1  | 6+6     | 6+6     | 2021-12-02
22  | 7.0  | 20                                       | 2x10            | 20x1  | 10+10   | 10+10   | 2021-12-02
    | 7.0  | 30 cps=2                                 | 2x20            | 15x2  | 16+14   | 16+14   | 2021-12-02
    | 7.0  | 30 cps=6                                 | 2x20            | 5x6   | 18+12   | 18+12   | 2021-12-02
    | 7.0  | 30 cps=15                                | 2x20            | 2x15  | 15+15   | 15+15   | 2021-12-02
23  | 6.5  | 16 cps=2                                 | 2x10            | 8x2   | 8+8     | 8+8     | 2016-12-12
24  | 6.0  | 16 cps=2                                 | 2x10            | 8x2   | 2+2+2+2+2+2+2+2 | 2+2+2+2+2+2+2+2 | 2016-12-12
25  | 6.0  | 16 cps=1                                 | 2x10            | 16x1  | 8+8     | 8+8     | 2016-12-12
26  | 6.0  | 10 cps=1                                 | 2x10            | 10x1  | 10      | 10      | 2016-08-22
27  | 6.0  | 12                                       | 2x10            | 12x1  | 6+6     | 6+6     | 2016-08-22
28  | 6.0  | 10 cps=5                                 | 2x10            | 2x5   | 5+5     | 5+5     | 2016-08-22
29  | 6.0  | 12 cps=12 preferHT                       | 2x10            | 1x12  | 12      | 12      | 2016-08-22
31  | 6.0  | 12 hotadd                                | 2x10            | 12x1  | 12      | 6+6     | 2016-08-22
31  | 6.5  | 12 hotadd                                | 2x10            | 12x1  | 12      | 6+6     | 2017-04-14
32  | 6.5  | 8 hotadd                                 | 2x10            | 8x1   | 8       | 8       | 2017-04-14
33  | 6.5  | 8 gib=96                                 | 2x12/64         | 8x1   | 8       | 8       | 2017-10-05
34  | 6.5  | 8 gib=96 consolidate=FALSE               | 2x12/64         | 8x1   | 8       | 4+4     | 2017-10-05
36  | 6.7  | 8 preferHT                               | epyc-7401-1s    | 8x1   | 8       | 8       | 2019-02-19
    | 6.7  | 8                                        | epyc-7401-1s    | 8x1   | 8       | 4+4     | 2019-02-19
    | 6.7  | 8 min=6                                  | epyc-7401-1s    | 8x1   | 4+4     | 4+4     | 2019-02-19
    | 6.7  | 6 consolidate=FALSE                      | epyc-7601-2s    | 6x1   | 6       | 3+3     | 2019-02-19
38  | 5.5  | 24 cps=1                                 | opteron-6174-4s | 24x1  | 6+6+6+6 | 6+6+6+6 | S4
39  | 5.5  | 24 cps=12                                | opteron-6174-4s | 2x12  | 12+12   | 6+6+6+6 | S4
40  | 5.5  | 24 cps=24                                | opteron-6174-4s | 1x24  | 24      | 6+6+6+6 | S4
41  | 6.5  | 8 cps=8 gib=128                          | 2x10/128        | 1x8   | 8       | 8       | MA
41  | 6.5  | 8 cps=8 gib=192                          | 2x10/128        | 1x8   | 8       | 8       | MA
45  | 8.0  | 12 cps=12 kept=8/120122                  | 1x16            | 1x12  | 8+4     | 12      | log of a Workstation VM
";

#[test]
fn shapes_are_those_that_were_seen() {
    for row in rows(SEEN) {
        let shape = vm(row[2]).on(&host(row[3]), release(row[1]));
        assert_eq!(
            seen(&shape),
            row[4..7].join(" | "),
            "row {}: {}",
            row[0],
            row.join(" | ")
        );
    }
}

#[test]
fn one_vcpu_more_than_a_node_splits_the_vm() {
    let shape = vm("21").on(&host("2x20"), V8_0);
    let nodes = (shape.topology.numa_nodes.len(), shape.numa_clients.len());
    assert_eq!(nodes, (2, 2), "row 10, Denneman 2022-11-03");
    assert!(codes(&shape.findings).contains(&"odd-vcpus-above-node"));
    assert!(
        shape
            .reasons
            .iter()
            .any(|reason| reason.code == "uncertain")
    );
    for vcpus in 11..=20 {
        let shape = plain(vcpus).on(&host("2x10"), V7_0);
        assert_eq!(shape.topology.numa_nodes.len(), 2, "{vcpus} vCPUs, row 22");
    }
}

#[test]
fn virtual_caches_are_physical_ones_from_hardware_version_20() {
    let shape = vm("24 cps=12").on(&host("2x20"), V8_0);
    let llcs: Vec<_> = shape
        .topology
        .llcs
        .iter()
        .map(|llc| (llc.vcpus.to_string(), llc.size_bytes))
        .collect();
    let expected = [
        ("0-11".to_owned(), 28 << 20),
        ("12-23".to_owned(), 28 << 20),
    ];
    assert_eq!(llcs, expected, "row 13, Denneman 2022-10-25");
    let shape = vm("16").on(&host("epyc-7763-2s"), V8_0);
    assert_eq!(
        (
            shape.topology.sockets,
            shape.topology.dies,
            shape.topology.cores
        ),
        (1, 2, 8)
    );
    assert_eq!(shape.topology.llc_level(), Some(model::Level::Die));
    // 13 cores make no equal groups of at most 8: the groups are listed, no level has their size.
    let shape = vm("13").on(&host("epyc-7763-2s"), V8_0);
    let spans: Vec<_> = shape
        .topology
        .llcs
        .iter()
        .map(|llc| llc.vcpus.to_string())
        .collect();
    assert_eq!(
        (spans, shape.topology.llc_level()),
        (vec!["0-6".to_owned(), "7-12".to_owned()], None)
    );
}

#[test]
fn logs_read_as_vmwares() {
    assert_eq!(
        log(&vm("16").on(&host("2x10"), V6_0)),
        [
            "numa: Exposing multicore topology with cpuid.coresPerSocket = 8 is suggested for best performance",
            "numaHost: 2 virtual nodes, 16 virtual sockets, 2 physical domains",
        ]
    );
    assert_eq!(
        log(&vm("16 cps=2").on(&host("2x10"), V6_0)),
        [
            "numa: Setting.vcpu.maxPerVirtualNode=2 to match cpuid.coresPerSocket",
            "numaHost: 8 virtual nodes, 8 virtual sockets, 8 physical domains",
        ]
    );
    assert_eq!(
        log(&vm("12 hotadd").on(&host("2x10"), V6_5)),
        [
            "NUMA and VCPU hot add are incompatible.  Forcing UMA.",
            "numaHost: NUMA config: consolidation= 1 preferHT= 0",
            "numaHost: 12 VCPUs 1 VPDs 2 PPDs",
            "numaHost: 1 mem slices",
        ]
    );
    assert_eq!(
        log(&vm("12 cps=6 nodes=2").on(&host("2x20"), V8_0)),
        [
            "numa: Not autosizing due to either numa.vcpu.maxPerVirtualNode manual setting or manual Cores per Node user override.",
            "numa: coresPerSocket = 6 maxVcpusPerVPD = 6",
            "numaHost: NUMA config: consolidation= 1 preferHT= 0 partitionByMemory = 0",
            "numaHost: 12 VCPUs 2 VPDs 2 PPDs",
            "numaHost: 2 mem slices",
        ]
    );
}
