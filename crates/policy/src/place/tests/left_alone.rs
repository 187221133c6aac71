//! What a first plan makes is where a second one, which pays for its moves, has nothing to move and nobody to seat.

use super::*;
use crate::place::Best;

/// Where nothing crowds, the search is content with a VM in even parts; the device is worth a vCPU more in its node.
fn drawn_to_a_device() -> Vec<Vm> {
    changed(&[5], |vm| {
        (vm.load, vm.system, vm.memory_mib) = (774, 262, 0);
        (vm.bandwidth, vm.sharing) = (Intensity::High, Intensity::High);
        vm.device_nodes = vec![0];
    })
}

/// C finds room on its node only when the search has moved A, which is seated first.
fn room_that_is_found_late() -> Vec<Vm> {
    let mut all = changed(&[10, 1, 4, 1], |vm| {
        (vm.load, vm.memory_mib, vm.bandwidth, vm.sharing) = (0, 0, Intensity::Low, Intensity::Low);
        match vm.name.as_str() {
            "A" | "D" => {
                (vm.dedicated, vm.soft.cpus) = (true, Some("2-9".parse().unwrap()));
            }
            _ => vm.hard.nodes = vec![0],
        }
        if vm.name == "B" || vm.name == "D" {
            vm.apart = Some(Apart {
                label: "a".to_owned(),
                scope: Scope::Llc,
            });
        }
    });
    all[1].reservation = 500;
    (all[2].load, all[2].system) = (353, 325);
    all
}

#[test]
fn a_plan_is_left_alone() {
    let rows: [Row; 2] = [
        (
            "a cell leaves one LLC for a device",
            machine(2, 1, 1, 4, 1),
            drawn_to_a_device(),
            "A1 A3||A1",
        ),
        (
            "a VM that fits in the end is not refused",
            machine(2, 1, 3, 2, 2),
            room_that_is_found_late(),
            "A1 B1 C4|A2|A2||A1 A1|A2|A1 D1",
        ),
    ];
    let policies: [&dyn Policy; 2] = [&Best, &PatientBest];
    for (what, host, vms, expected) in rows {
        for policy in policies {
            let mut now = Snapshot::empty(Arc::new(host.clone()), vms.clone(), Reserve::default());
            now.placement = policy.plan(&now).placement;
            assert_eq!(draw(&host, &vms, &now.placement), expected, "{what}");
            now.at_ns += 60_000_000_000;
            let again = policy.plan(&now);
            assert_eq!(again.moves, [], "{what}");
            assert_eq!(again.placement, now.placement, "{what}");
        }
    }
}
