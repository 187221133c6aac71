//! VMs over hosts: who goes where, what still fits, what a failure leaves.

use std::sync::Arc;

use model::host::Synthetic;
use model::placement::Reserve;
use model::tenant::{Apart, Scope};
use model::{Host, Vm};

use super::{FleetPlan, Member, losses, place, room};

/// Hosts of 8 cores in two LLCs and two nodes of 32 GiB.
fn members(n: usize) -> Vec<Member> {
    let machine = Synthetic {
        nodes_per_package: 2,
        cores_per_llc: 4,
        node_mib: 32_768,
        ..Synthetic::default()
    };
    let host: Arc<Host> = Arc::new(machine.host("test"));
    (0..n)
        .map(|_| Member {
            host: host.clone(),
            reserve: Reserve::default(),
        })
        .collect()
}

fn vms(sizes: &[(u32, u64)]) -> Vec<Vm> {
    let named = |(index, &(vcpus, gib)): (usize, &(u32, u64))| {
        Vm::new(format!("vm{index}"), vcpus, gib * 1024)
    };
    sizes.iter().enumerate().map(named).collect()
}

/// The names on each host: `vm0 vm2|vm1`.
fn drawn(fleet: &FleetPlan, vms: &[Vm]) -> String {
    let names = |vm: &model::VmId| vms[vm.index()].name.clone();
    let hosts: Vec<String> = fleet
        .hosts
        .iter()
        .map(|host| host.vms.iter().map(names).collect::<Vec<_>>().join(" "))
        .collect();
    hosts.join("|")
}

#[test]
fn vms_go_where_they_add_least() {
    let label = |scope| {
        Some(Apart {
            label: "x".to_owned(),
            scope,
        })
    };
    let mut apart = vms(&[(1, 1), (1, 1)]);
    for vm in &mut apart {
        vm.apart = label(Scope::Host);
    }
    let mut near = vms(&[(4, 1), (4, 1)]);
    for vm in &mut near {
        vm.near = Some("x".to_owned());
    }
    for (what, vms, expected) in [
        (
            "full hosts are left alone",
            vms(&[(4, 1), (4, 1), (4, 1), (4, 1)]),
            "vm0 vm1|vm2 vm3",
        ),
        ("apart", apart, "vm0|vm1"),
        ("near", near, "vm0 vm1|"),
        (
            "more memory than a node has",
            vms(&[(1, 48), (1, 48)]),
            "vm0|vm1",
        ),
        ("wider than a node", vms(&[(8, 40)]), "vm0|"),
    ] {
        let fleet = place(&members(2), &vms);
        assert_eq!(fleet.refused, [], "{what}");
        assert_eq!(drawn(&fleet, &vms), expected, "{what}");
    }
}

#[test]
fn what_fits_nowhere_is_refused_and_the_rest_is_placed() {
    let vms = vms(&[(1, 1), (9, 1), (1, 100)]);
    let fleet = place(&members(2), &vms);
    let codes: Vec<(u32, &str)> = fleet
        .refused
        .iter()
        .map(|(vm, reason)| (vm.0, reason.code))
        .collect();
    assert_eq!(codes, [(1, "more-vcpus-than-cpus"), (2, "no-room")]);
    assert_eq!(fleet.host_of(3), [Some(0), None, None]);
    let nowhere = place(&[], &vms);
    assert!(
        nowhere
            .refused
            .iter()
            .all(|(_, reason)| reason.code == "no-hosts")
            && nowhere.refused.len() == 3
    );
}

/// By hand: a host has 8 threads; beside 4 busy vCPUs there is room for 4, or for two VMs of 2.
#[test]
fn room_is_what_fits_without_waiting() {
    let (members, vms) = (members(2), vms(&[(4, 1)]));
    let fleet = place(&members, &vms);
    assert_eq!(
        room(&members, &vms, &fleet, &Vm::new("more", 2, 1024)).by_host,
        [2, 4]
    );
    let idle = Vm {
        load: 100,
        ..Vm::new("more", 1, 1024)
    };
    let many = room(&members, &vms, &fleet, &idle).by_host;
    assert!(many[1] > 8 && many[1] > many[0], "{many:?}");
    // 63 and 64 GiB are left, whatever the CPUs say.
    assert_eq!(
        room(
            &members,
            &vms,
            &fleet,
            &Vm {
                memory_mib: 20 * 1024,
                ..idle
            }
        )
        .by_host,
        [3, 3]
    );
}

#[test]
fn a_failure_leaves_those_without_room() {
    let members = members(2);
    let vms = vms(&[(1, 40), (1, 40), (1, 10)]);
    let fleet = place(&members, &vms);
    let lost: Vec<usize> = losses(&members, &vms, &fleet)
        .iter()
        .map(|loss| loss.homeless.len())
        .collect();
    assert_eq!(lost, [1, 1]);
}

/// Twins share a plan, not the names in its reasons.
#[test]
fn reasons_name_the_own_vms() {
    let vms = vms(&[(8, 8), (8, 8), (8, 8)]);
    let fleet = place(&members(3), &vms);
    for host in &fleet.hosts {
        let name = &vms[host.vms[0].index()].name;
        assert!(
            host.plan
                .reasons
                .iter()
                .all(|(_, reason)| reason.text.starts_with(name.as_str())),
            "{:?}",
            host.plan.reasons
        );
    }
}
