//! Where `best` puts VMs, drawn: `A4 B2|C4|.` is four vCPUs of VM A and two of B on the first LLC, four of C on the
//! second, none on the third. `||` is the border of a node.

mod left_alone;

use std::sync::Arc;

use model::host::{Cache, Core, Latency, Node, Parts, Synthetic};
use model::placement::{Placement, Reserve, VmId};
use model::tenant::{Affinity, Apart, Intensity, Scope};
use model::{CpuSet, GuestLlc, GuestTopology, Host, Vm};

use super::PatientBest;
use crate::plan::{Moved, Plan, Snapshot};
use crate::reconcile::Policy;

/// A socket of Rome with two threads a core, as many of them as wanted.
fn rome(packages: u32) -> Host {
    machine(packages, 1, 16, 4, 2)
}

fn machine(packages: u32, nodes: u32, llcs: u32, cores: u32, threads: u32) -> Host {
    let machine = Synthetic {
        packages,
        nodes_per_package: nodes,
        llcs_per_node: llcs,
        cores_per_llc: cores,
        threads_per_core: threads,
        llc_mib: 16,
        node_mib: 262_144,
    };
    machine.host("test")
}

/// Hosts whose LLCs have these many cores of one thread, on one node.
fn uneven(llcs: &[(u32, u8)]) -> Host {
    let mut parts = Parts::default();
    let mut next = 0;
    for &(cores, efficiency) in llcs {
        let cpus = CpuSet::from_range(next..next + cores);
        parts.cpus = parts.cpus.union(&cpus);
        parts.cores.extend(cpus.iter().map(|cpu| Core {
            cpus: [cpu].into_iter().collect(),
            efficiency,
        }));
        parts.caches.push(Cache {
            level: 3,
            kind: 'u',
            size_bytes: 16 << 20,
            cpus,
        });
        next += cores;
    }
    parts.nodes = vec![Node {
        id: 0,
        cpus: parts.cpus.clone(),
        memory_mib: 65_536,
        hugepages: vec![],
    }];
    Host::from_parts(parts).unwrap()
}

fn vms(sizes: &[u32]) -> Vec<Vm> {
    let named = |(index, &vcpus): (u8, &u32)| {
        Vm::new(
            char::from(b'A' + index).to_string(),
            vcpus,
            1024 * u64::from(vcpus),
        )
    };
    (0..).zip(sizes).map(named).collect()
}

fn plan(host: &Host, vms: &[Vm]) -> Plan {
    let now = Snapshot::empty(Arc::new(host.clone()), vms.to_vec(), Reserve::default());
    let plan = PatientBest.plan(&now);
    assert_eq!(plan.placement.check(host, vms, &Reserve::default()), []);
    plan
}

fn draw(host: &Host, vms: &[Vm], placement: &Placement) -> String {
    let mut text = String::new();
    for (index, llc) in (0..).zip(&host.llcs) {
        let previous = usize::try_from(index)
            .unwrap()
            .checked_sub(1)
            .map(|index| host.llcs[index].node);
        text += previous.map_or("", |node| if node == llc.node { "|" } else { "||" });
        let own = placement.groups.iter().filter(|group| group.llc.0 == index);
        let mut names: Vec<(String, usize)> = own
            .map(|group| (vms[group.vm.index()].name.clone(), group.vcpus.len()))
            .collect();
        names.sort();
        let shown: Vec<String> = names.iter().map(|(name, n)| format!("{name}{n}")).collect();
        text += &if shown.is_empty() {
            ".".to_owned()
        } else {
            shown.join(" ")
        };
    }
    text.trim_end_matches(['|', '.']).to_owned()
}

/// What it is about, where, who, and who sits where.
type Row = (&'static str, Host, Vec<Vm>, &'static str);

/// What makes a VM another one.
type Change = fn(&mut Vm);

fn changed(sizes: &[u32], change: Change) -> Vec<Vm> {
    let mut all = vms(sizes);
    for vm in &mut all {
        change(vm);
    }
    all
}

fn check(rows: Vec<Row>) {
    for (what, host, vms, expected) in rows {
        let plan = plan(&host, &vms);
        let drawn = draw(&host, &vms, &plan.placement);
        assert_eq!(drawn, expected, "{what}: {:?}", plan.refused);
    }
}

#[test]
fn vms_are_split_as_the_papers_say() {
    let figure_4 = "figure 4 of the EPYC paper: 4 vCPUs are one group, 8 are two";
    let rest = "balanced, or full LLCs and a rest, as the room allows";
    let paired = "one LLC each, not both on both, when threads are shared anyway";
    check(vec![
        (figure_4, rome(1), vms(&[4, 4, 8, 8]), "C4|C4|D4|D4|A4|B4"),
        (
            "whole cores before siblings",
            machine(1, 1, 2, 4, 2),
            vms(&[4, 4]),
            "A4|B4",
        ),
        (
            "balanced groups",
            machine(1, 1, 4, 4, 1),
            vms(&[6, 5]),
            "A3|A3|B3|B2",
        ),
        (rest, machine(1, 1, 3, 3, 1), vms(&[4, 4]), "A2 B1|A2|B3"),
        (paired, machine(1, 1, 2, 4, 2), vms(&[8, 8]), "A8|B8"),
        (
            "uneven LLCs",
            uneven(&[(4, 0), (8, 0), (4, 0)]),
            vms(&[8, 4, 4]),
            "B4|A8|C4",
        ),
        (
            "fast cores first",
            uneven(&[(4, 0), (4, 1)]),
            vms(&[4]),
            ".|A4",
        ),
        (
            "wider than the cores",
            machine(2, 1, 2, 4, 2),
            vms(&[32]),
            "A8|A8||A8|A8",
        ),
        (
            "wider than a node",
            machine(4, 1, 2, 4, 1),
            vms(&[12]),
            "A3|A3||A3|A3",
        ),
    ]);
}

#[test]
fn what_a_vm_does_and_wants_counts() {
    let hungry = changed(&[4], |vm| {
        (vm.bandwidth, vm.sharing) = (Intensity::High, Intensity::Low);
    });
    let idle = changed(&[4, 4, 2, 2], |vm| vm.load = 300);
    let near = changed(&[4, 4], |vm| vm.near = Some("x".to_owned()));
    let device = changed(&[4], |vm| vm.device_nodes = vec![1]);
    let soft = changed(&[4], |vm| vm.soft.nodes = vec![1]);
    let hard = changed(&[4, 4], |vm| vm.hard.nodes = vec![1]);
    let apart = changed(&[2, 2], |vm| {
        let label = "x".to_owned();
        vm.apart = Some(Apart {
            label,
            scope: Scope::Node,
        });
    });
    let two = || machine(2, 1, 2, 4, 1);
    check(vec![
        (
            "bandwidth-hungry VMs spread",
            machine(1, 1, 4, 4, 1),
            hungry,
            "A1|A1|A1|A1",
        ),
        (
            "quiet VMs share cores",
            machine(1, 1, 2, 4, 1),
            idle,
            "A4 C2|B4 D2",
        ),
        ("apart by node", two(), apart, "A2|.||B2"),
        ("near VMs share a package", two(), near, "A4|B4"),
        ("devices draw", two(), device, ".|.||A4"),
        ("soft affinity draws", two(), soft, ".|.||A4"),
        (
            "hard affinity binds",
            machine(2, 1, 1, 4, 2),
            hard,
            ".||A4 B4",
        ),
    ]);
}

#[test]
fn vcpus_go_in_index_order() {
    let host = rome(1);
    let plan = plan(&host, &vms(&[8]));
    let groups: Vec<String> = plan
        .placement
        .groups
        .iter()
        .map(|group| format!("{} {}", group.vcpus, group.cpus))
        .collect();
    assert_eq!(groups, ["0-3 0-3,64-67", "4-7 4-7,68-71"]);
}

/// Four LLCs in two quadrants: 0 and 2 are near, 1 and 3 are near.
#[test]
fn near_llcs_are_found_in_the_latency_matrix() {
    let mut host = machine(1, 1, 4, 4, 1);
    let ns = |a: u32, b: u32| {
        if a == b {
            25.0
        } else if a % 2 == b % 2 {
            100.0
        } else {
            140.0
        }
    };
    host.latency = Some(Latency {
        llc_ns: (0..4).map(|a| (0..4).map(|b| ns(a, b)).collect()).collect(),
        smt_ns: None,
        home_remote_ns: None,
        dram_local_ns: None,
        dram_remote_ns: None,
        measured_here: false,
        source: "made for the test".to_owned(),
    });
    let vms = vms(&[8, 8]);
    assert_eq!(
        draw(&host, &vms, &plan(&host, &vms).placement),
        "A4|B4|A4|B4"
    );
}

#[test]
fn vcpus_follow_their_memory() {
    let host = machine(2, 1, 2, 4, 1);
    let vms = vms(&[4]);
    let mut now = Snapshot::empty(Arc::new(host.clone()), vms.clone(), Reserve::default());
    now.at_ns = 60_000_000_000;
    now.placement = plan(&host, &vms).placement;
    now.placement.memory[0].node = model::host::NodeId(1);
    // Moving 4 vCPUs to the memory costs 0.12, copying 4 GiB 0.02: the memory comes, the vCPUs stay.
    let moved = PatientBest.plan(&now);
    assert_eq!(moved.moves.len(), 1);
    assert!(
        matches!(moved.moves[0].what, Moved::Memory { mib: 4096, .. }),
        "{:?}",
        moved.moves
    );
    // 64 GiB are dearer than the move of the vCPUs.
    now.vms[0].vm.memory_mib = 65_536;
    now.placement.memory[0].mib = 65_536;
    let moved = PatientBest.plan(&now);
    assert_eq!(draw(&host, &vms, &moved.placement), ".|.||A4");
    assert!(
        moved
            .moves
            .iter()
            .all(|step| matches!(step.what, Moved::Vcpus { .. })),
        "{:?}",
        moved.moves
    );
}

#[test]
fn dedicated_vms_have_cores_of_their_own_and_system_threads_do_not_run_there() {
    let host = machine(1, 1, 2, 4, 2);
    let mut vms = vms(&[3, 4]);
    (vms[0].dedicated, vms[0].system) = (true, 500);
    let plan = plan(&host, &vms);
    assert_eq!(draw(&host, &vms, &plan.placement), "A3|B4");
    let group = &plan.placement.groups_of(VmId(0))[0];
    assert_eq!(
        (group.cpus.to_string(), group.pinned),
        ("0-2".to_owned(), true)
    );
    // The one core that is left beside its vCPUs, with both threads.
    assert_eq!(plan.placement.system[0].cpus.to_string(), "3,11");
}

#[test]
fn a_core_with_a_reserved_sibling_is_no_whole_core() {
    let host = machine(1, 1, 2, 2, 2);
    let vms = changed(&[2, 1, 1], |vm| vm.dedicated = vm.name != "C");
    let reserve = Reserve {
        cpus: "0".parse().unwrap(),
        memory_mib: vec![],
    };
    let plan = PatientBest.plan(&Snapshot::empty(
        Arc::new(host.clone()),
        vms.clone(),
        reserve.clone(),
    ));
    assert_eq!(plan.placement.check(&host, &vms, &reserve), []);
    assert_eq!(draw(&host, &vms, &plan.placement), "B1 C1|A2");
    assert_eq!(
        plan.placement.groups_of(VmId(2))[0].cpus.to_string(),
        "4",
        "all that is left beside CPU 0"
    );
}

/// The memory of all cells of a VM has to fit, also when it is tried elsewhere.
#[test]
fn memory_of_two_cells_fits_its_nodes() {
    let host = machine(2, 1, 2, 4, 1);
    let mut vms = vms(&[12, 3]);
    (vms[0].memory_mib, vms[1].memory_mib) = (400_000, 100_000);
    assert_eq!(plan(&host, &vms).refused, []);
}

/// A VM that has grown is placed anew, and its memory is all there.
#[test]
fn what_has_grown_gets_its_room() {
    let host = machine(2, 1, 2, 4, 1);
    let vms = vms(&[4]);
    let placement = plan(&host, &vms).placement;
    let mut now = Snapshot {
        placement,
        ..Snapshot::empty(Arc::new(host), vms, Reserve::default())
    };
    (now.vms[0].vm.vcpus, now.vms[0].vm.memory_mib) = (6, 8192);
    let grown = PatientBest.plan(&now).placement;
    let vcpus: usize = grown.groups.iter().map(|group| group.vcpus.len()).sum();
    assert_eq!(
        (vcpus, grown.memory.iter().map(|home| home.mib).sum::<u64>()),
        (6, 8192)
    );
}

/// Spread over all LLCs, the first would leave nothing to the second.
#[test]
fn vms_that_keep_apart_leave_room_for_each_other() {
    let host = machine(1, 1, 4, 4, 1);
    let vms = changed(&[8, 4], |vm| {
        (vm.bandwidth, vm.sharing) = (Intensity::High, Intensity::Low);
        vm.apart = Some(Apart {
            label: "x".to_owned(),
            scope: Scope::Llc,
        });
    });
    let plan = plan(&host, &vms);
    assert_eq!(plan.refused, []);
}

/// Reservations of all pieces of a VM count, also when small changes are tried.
#[test]
fn reservations_are_kept() {
    let host = machine(1, 1, 4, 4, 1);
    let vms = changed(&[8, 4, 4], |vm| vm.reservation = vm.vcpus * 1000);
    let plan = plan(&host, &vms);
    assert_eq!(plan.refused, []);
    let on = |llc: u32| {
        plan.placement
            .groups
            .iter()
            .filter(|group| group.llc.0 == llc)
            .map(|group| group.vcpus.len())
            .sum::<usize>()
    };
    assert_eq!((0..4).map(on).collect::<Vec<_>>(), [4; 4]);
}

#[test]
fn isolated_cpus_are_for_dedicated_vms_only() {
    let mut host = machine(1, 1, 2, 4, 1);
    host.isolated = "0-1".parse().unwrap();
    let mut vms = vms(&[2, 6, 1]);
    vms[0].dedicated = true;
    let plan = plan(&host, &vms);
    assert_eq!(plan.placement.groups_of(VmId(0))[0].cpus.to_string(), "0-1");
    let others = plan
        .placement
        .groups
        .iter()
        .filter(|group| group.vm != VmId(0));
    assert!(
        others.clone().count() > 1
            && others
                .clone()
                .all(|group| !group.cpus.intersects(&host.isolated))
    );
}

#[test]
fn guest_llcs_stay_whole() {
    let host = machine(1, 1, 4, 4, 1);
    let mut vms = vms(&[6]);
    let llc = |vcpus: &str| GuestLlc {
        vcpus: vcpus.parse().unwrap(),
        size_bytes: 0,
        guest_size_bytes: 0,
    };
    vms[0].guest = Some(GuestTopology {
        llcs: vec![llc("0-1"), llc("2-5")],
        ..GuestTopology::uniform(6, [1, 1, 1, 6, 1])
    });
    let plan = plan(&host, &vms);
    let groups: Vec<String> = plan
        .placement
        .groups
        .iter()
        .map(|group| group.vcpus.to_string())
        .collect();
    assert_eq!(groups, ["0-1", "2-5"]);
}

/// Four busy VMs of 4 on 8 threads that can be had: shares decide who gets an LLC with less company.
#[test]
fn shares_buy_room() {
    let host = machine(1, 1, 2, 4, 1);
    let mut vms = vms(&[4, 4, 2, 2]);
    vms[0].shares = 2000;
    vms[1].shares = 500;
    let plan = plan(&host, &vms);
    assert_eq!(draw(&host, &vms, &plan.placement), "B4 C2 D2|A4");
}

#[test]
fn what_cannot_be_is_refused_and_all_others_are_placed() {
    let node = |id: u32| Affinity {
        cpus: None,
        nodes: vec![id],
    };
    let rows: [(&str, Change); 9] = [
        ("reservation-above-limit", |vm| {
            (vm.reservation, vm.limit) = (3000, Some(2000));
        }),
        ("more-vcpus-than-cpus", |vm| vm.vcpus = 17),
        ("more-vcpus-than-cpus", |vm| vm.vcpus = u32::from(u16::MAX)),
        ("more-vcpus-than-cpus", |vm| vm.vcpus = u32::MAX),
        ("no-memory", |vm| vm.memory_mib = 1 << 40),
        ("affinity-no-cpus", |vm| {
            vm.hard.cpus = Some("900".parse().unwrap());
        }),
        ("no-whole-cores", |vm| (vm.dedicated, vm.vcpus) = (true, 9)),
        ("reservation", |vm| vm.reservation = 1_000_000),
        ("no-vcpus", |vm| vm.vcpus = 0),
    ];
    let host = machine(1, 2, 1, 4, 2);
    for (code, change) in rows {
        let mut vms = vms(&[4, 4]);
        change(&mut vms[0]);
        let plan = plan(&host, &vms);
        let refused: Vec<(u32, &str)> = plan
            .refused
            .iter()
            .map(|(vm, reason)| (vm.0, reason.code))
            .collect();
        assert_eq!(refused, [(0, code)]);
        assert_eq!(
            plan.placement
                .groups
                .iter()
                .map(|group| group.vcpus.len())
                .sum::<usize>(),
            4
        );
    }
    let mut vms = vms(&[4, 4]);
    vms[0].hard = Affinity {
        cpus: Some("0-3".parse().unwrap()),
        ..node(1)
    };
    assert_eq!(
        plan(&host, &vms).refused[0].1.code,
        "affinity-no-cpus",
        "a contradiction"
    );
}

#[test]
fn an_empty_snapshot_is_an_empty_plan() {
    let plan = plan(&rome(1), &[]);
    assert_eq!(
        plan,
        Plan {
            generation: 1,
            ..Plan::default()
        }
    );
}

/// A CPU goes offline: who was there moves, with a reason; nobody else does.
#[test]
fn an_offline_llc_is_left() {
    let host = machine(1, 1, 3, 4, 1);
    let vms = vms(&[4, 4]);
    let before = plan(&host, &vms).placement;
    let parts = Parts {
        cpus: "4-11".parse().unwrap(),
        offline: "0-3".parse().unwrap(),
        ..host.to_parts()
    };
    let now = Snapshot {
        placement: renumbered(&before),
        ..Snapshot::empty(
            Arc::new(Host::from_parts(parts).unwrap()),
            vms,
            Reserve::default(),
        )
    };
    let plan = PatientBest.plan(&now);
    let moved: Vec<(u32, &str)> = plan
        .moves
        .iter()
        .map(|step| (step.vm.0, step.reason.code))
        .collect();
    assert_eq!(plan.refused, []);
    assert!(moved.iter().all(|(vm, _)| *vm == 0), "{moved:?}");
    assert_eq!(
        plan.placement.groups_of(VmId(1)),
        now.placement.groups_of(VmId(1))
    );
}

/// What the host looks like to a placement made before LLC 0 went away: LLCs are one less, and A's is none of them.
fn renumbered(placement: &Placement) -> Placement {
    let mut placement = placement.clone();
    for group in &mut placement.groups {
        group.llc.0 = group.llc.0.checked_sub(1).unwrap_or(u32::MAX);
    }
    placement
}
