//! VMs that do not power on.

use super::*;

const REFUSED: &str = "
ESXi | VM                             | host            | code
7.0  | 4 hw=20                        | 2x20            | hardware-version-too-new
5.5  | 4 hw=11                        | 2x20            | hardware-version-too-new
6.5  | 4 hw=14                        | 2x20            | hardware-version-too-new
6.7  | 4 hw=15                        | 2x20            | hardware-version-too-new
8.0  | 4 hw=22                        | 2x20            | hardware-version-too-new
8.0  | 0                              | 2x20            | no-vcpus
5.5  | 65                             | 8x64            | too-many-vcpus
6.0  | 129                            | 8x64            | too-many-vcpus
6.7  | 129                            | 8x64            | too-many-vcpus
8.0  | 129 hw=14                      | 8x64            | too-many-vcpus
7.0  | 769                            | 8x64            | too-many-vcpus
5.5  | 4 gib=1024                     | 2x20            | memory-out-of-range
6.0  | 4 gib=4096                     | 2x20            | memory-out-of-range
6.0  | 4 gib=0                        | 2x20            | memory-out-of-range
8.0  | 4 gib=32768                    | 2x20            | memory-out-of-range
8.0  | 8 cps=3                        | 2x20            | cores-per-socket-indivisible
6.5  | 8 cps=16                       | 2x20            | cores-per-socket-indivisible
7.0  | 8 coresPerSocket=5             | 2x20            | cores-per-socket-indivisible
8.0  | 8 cps=8 smt=2                  | 2x20            | cores-per-socket-indivisible
7.0  | 4 cps=129                      | 2x20            | cores-per-socket-limit
8.0  | 4 cps=257                      | 2x20            | cores-per-socket-limit
7.0  | 4 cps=0                        | 2x20            | automatic-needs-hardware-20
8.0  | 4 cps=0 hw=19                  | 2x20            | automatic-needs-hardware-20
8.0  | 5 smt=2                        | 2x20            | threads-per-core
8.0  | 4 smt=4                        | 2x20            | threads-per-core
8.0  | 4 smt=0                        | 2x20            | threads-per-core
8.0  | 4 smt=2                        | opteron-6174-4s | threads-per-core
8.0  | 12 cps=6 nodes=5               | 2x20            | numa-nodes-indivisible
8.0  | 12 cps=6 nodes=0               | 2x20            | numa-nodes-indivisible
7.0  | 12 nodes=5                     | 2x20            | numa-nodes-indivisible
8.0  | 12 cps=6 coresPerNode=5        | 2x20            | numa-nodes-indivisible
8.0  | 12 nodes=2                     | 2x20            | numa-nodes-need-cores-per-socket
8.0  | 12 coresPerNode=6              | 2x20            | numa-nodes-need-cores-per-socket
8.0  | 12 cps=4 nodes=2               | 2x20            | cores-per-node-mismatch
8.0  | 80 cps=1 nodes=80              | 2x20            | numa-nodes-limit
7.0  | 70 maxPerVirtualNode=1         | 2x20            | numa-nodes-limit
8.0  | 81                             | 2x20            | more-vcpus-than-host
";

#[test]
fn esxi_says_why_a_vm_does_not_power_on() {
    for row in rows(REFUSED) {
        let (vm, host, release) = (vm(row[1]), host(row[2]), release(row[0]));
        let code = match super::super::shape(&vm.request(&host, release), release) {
            Ok(shape) => seen(&shape),
            Err(refusal) => refusal.code.to_owned(),
        };
        assert_eq!(code, row[3], "{}", row.join(" | "));
    }
}

#[test]
fn the_largest_allowed_sizes_power_on() {
    for (of, vcpus) in [
        ("5.5", 64),
        ("6.0", 128),
        ("6.7", 128),
        ("7.0", 768),
        ("8.0", 768),
    ] {
        assert_eq!(
            plain(vcpus).on(&host("16x60"), release(of)).topology.vcpus,
            vcpus
        );
    }
}
