//! The rules of each policy, in tables with drawings.

use model::guest::{GuestNode, GuestTopology};
use model::tenant::Affinity;

use super::*;
use crate::plan::Moved;

/// One row: what is asked, and the drawing.
struct Case {
    name: &'static str,
    policy: &'static str,
    vms: Vec<Vm>,
    /// CPUs that are not there for VMs.
    reserved: &'static str,
    drawing: &'static str,
}

fn with(mut vm: Vm, change: impl Fn(&mut Vm)) -> Vm {
    change(&mut vm);
    vm
}

fn case(name: &'static str, policy: &'static str, vms: Vec<Vm>, drawing: &'static str) -> Case {
    Case {
        name,
        policy,
        vms,
        reserved: "",
        drawing,
    }
}

fn on_cpus(vm: Vm, cpus: &str) -> Vm {
    with(vm, |vm| vm.hard.cpus = Some(cpus.parse().unwrap()))
}

fn vm(name: &str, vcpus: u32) -> Vm {
    Vm::new(name, vcpus, u64::from(vcpus) << 10)
}

fn dedicated(name: &str, vcpus: u32) -> Vm {
    with(vm(name, vcpus), |vm| vm.dedicated = true)
}

fn cells(name: &str, sizes: &[u32]) -> Vm {
    let mut next = 0;
    let nodes = sizes.iter().map(|&size| {
        let vcpus = CpuSet::from_range(next..next + size);
        next += size;
        GuestNode {
            vcpus,
            memory_mib: 1024,
            host_nodes: Vec::new(),
        }
    });
    let numa_nodes: Vec<GuestNode> = nodes.collect();
    let guest = GuestTopology {
        numa_nodes,
        ..GuestTopology::uniform(next, [1, 1, 1, next, 1])
    };
    with(vm(name, next), |vm| vm.guest = Some(guest.clone()))
}

#[test]
fn every_policy_has_its_own_way() {
    for case in cases() {
        let mut now = arrivals(&small(), case.vms);
        now.reserve.cpus = case.reserved.parse().unwrap();
        let plan = plan(case.policy, &now);
        assert_eq!(plan.refused, [], "{}, {}", case.name, case.policy);
        assert_eq!(
            draw(&now, &plan.placement),
            case.drawing,
            "{}, {}",
            case.name,
            case.policy
        );
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<Case> {
    let mixed = || vms(&[4, 8, 2, 6]);
    let idle = |name: &str| with(vm(name, 4), |vm| vm.load = 0);
    vec![
        case(
            "mixed",
            "llc",
            mixed(),
            "N0 |DDD.|DDD.|....|AAAA|\nN1 |BBBB|....|BBBB|CC..|\n",
        ),
        case(
            "mixed",
            "spread",
            mixed(),
            "N0 |DD..|ADD.|AAD.|AD..|\nN1 |BBBBC|....|BBBC|B...|\n",
        ),
        case(
            "mixed",
            "llc-pack",
            mixed(),
            "N0 |AAAA|DDDDDD|....|....|\nN1 |BBBBBBBB|CC..|....|....|\n",
        ),
        case(
            "mixed",
            "ccx-as-numa",
            mixed(),
            "N0 |AAAA|BBBB|DDD.|....|\nN1 |BBBB|CC..|DDD.|....|\n",
        ),
        case(
            "mixed",
            "linux-default",
            mixed(),
            "N0 |ABD.|ABD.|AC..|BD..|\nN1 |ABD.|BBD.|BC..|BD..|\n",
        ),
        case(
            "wider than a node",
            "llc",
            vms(&[20]),
            "N0 |AAA.|AAA.|....|AAAA|\nN1 |AAAA|AAA.|AAA.|....|\n",
        ),
        case(
            "wider than a node",
            "llc-pack",
            vms(&[20]),
            "N0 |AAAAAAAA|AA..|....|....|\nN1 |AAAAAAAA|AA..|....|....|\n",
        ),
        case(
            "wider than all cores",
            "llc",
            vms(&[40]),
            "N0 |AAAAA|AAAAA|AAAAA|AAAAA|\nN1 |AAAAA|AAAAA|AAAAA|AAAAA|\n",
        ),
        case(
            "all threads",
            "spread",
            vms(&[64]),
            "N0 |AAAAAAAA|AAAAAAAA|AAAAAAAA|AAAAAAAA|\nN1 |AAAAAAAA|AAAAAAAA|AAAAAAAA|AAAAAAAA|\n",
        ),
        case(
            "one at a time",
            "llc-pack",
            vms(&[9]),
            "N0 |AAAAAAAA|A...|....|....|\nN1 |....|....|....|....|\n",
        ),
        case(
            "threads count",
            "llc",
            vec![with(vm("ht", 8), |vm| vm.prefer_ht = true)],
            "N0 |AAAAAAAA|....|....|....|\nN1 |....|....|....|....|\n",
        ),
        case(
            "guest nodes stay apart",
            "llc",
            vec![cells("a", &[10, 10])],
            "N0 |AAAA|....|AAA.|AAA.|\nN1 |AAAA|AAA.|....|AAA.|\n",
        ),
        case(
            "the balancer knows no distance",
            "llc",
            vec![cells("a", &[4, 4])],
            "N0 |....|....|....|AAAA|\nN1 |AAAA|....|....|....|\n",
        ),
        case(
            "guest node wider than a node",
            "llc",
            vec![cells("a", &[20, 4])],
            "N0 |AAAA|AAAA|AAA.|AAA.|\nN1 |AAAA|AAA.|....|AAA.|\n",
        ),
        Case {
            reserved: "0-2,32-34",
            ..case(
                "uneven LLCs",
                "llc",
                vms(&[16, 13]),
                "N0 |B...|BBBB|BBBB|BBBB|\nN1 |AAAA|AAAA|AAAA|AAAA|\n",
            )
        },
        Case {
            reserved: "0-15,32-47",
            ..case(
                "a node is reserved",
                "spread",
                vms(&[8]),
                "N0 |....|....|....|....|\nN1 |A...|AAAA|A...|AA..|\n",
            )
        },
        case(
            "dedicated",
            "llc",
            vec![dedicated("a", 6), vm("b", 4), vm("c", 8)],
            "N0 |AAAA|AA..|BBBB|....|\nN1 |....|CCCC|CCCC|....|\n",
        ),
        case(
            "dedicated",
            "spread",
            vec![dedicated("a", 6), vm("b", 4)],
            "N0 |AAAA|AA..|....|....|\nN1 |B...|BB..|....|B...|\n",
        ),
        case(
            "dedicated",
            "llc-pack",
            vec![dedicated("a", 6), vm("b", 8)],
            "N0 |AAAA|AA..|....|....|\nN1 |BBBBBBBB|....|....|....|\n",
        ),
        case(
            "bound",
            "llc",
            vec![
                on_cpus(vm("a", 4), "16-19"),
                on_cpus(vm("b", 4), "16,48,17,49"),
                vm("c", 4),
            ],
            "N0 |....|....|CCCC|....|\nN1 |AAAABBBB|....|....|....|\n",
        ),
        case(
            "bound",
            "spread",
            vec![on_cpus(vm("a", 4), "16-19"), vm("c", 4)],
            "N0 |....|BB..|BB..|....|\nN1 |AAAA|....|....|....|\n",
        ),
        case(
            "idle ones do not pile up",
            "llc",
            vec![idle("a"), idle("b"), idle("c"), idle("d")],
            "N0 |AAAA|....|CCCC|....|\nN1 |....|....|BBBB|DDDD|\n",
        ),
        case(
            "over-committed",
            "llc",
            vms(&[8; 5]),
            "N0 |CCCC|AAAAEEEE|CCCCEEEE|AAAA|\nN1 |BBBB|DDDD|BBBB|DDDD|\n",
        ),
    ]
}

#[test]
fn what_cannot_be_is_refused_and_the_rest_is_placed() {
    let huge = Vm::new("huge", 4, 1 << 40);
    let nowhere = with(vm("nowhere", 2), |vm| vm.hard.nodes = vec![7]);
    let both = with(on_cpus(vm("both", 2), "0-3"), |vm| vm.hard.nodes = vec![1]);
    let fine = || vm("fine", 4);
    let cases: [(&str, Vm, &str, &str); 9] = [
        (
            "too wide",
            vm("wide", 65),
            "more-vcpus-than-cpus",
            "65 vCPUs, and 64 CPUs",
        ),
        ("no vCPUs", vm("none", 0), "no-vcpus", "give it one"),
        (
            "absurd",
            Vm::new("absurd", 1_000_000, 0),
            "more-vcpus-than-cpus",
            "1000000",
        ),
        ("memory", huge, "no-memory", "126976 MiB are left"),
        (
            "CPUs that are not there",
            on_cpus(vm("far", 2), "100-103"),
            "affinity-no-cpus",
            "0-63",
        ),
        (
            "a node that is not there",
            nowhere,
            "affinity-no-cpus",
            "0-63",
        ),
        ("contradiction", both, "affinity-no-cpus", "0-63"),
        (
            "too narrow",
            on_cpus(vm("thin", 3), "4-5"),
            "affinity-too-narrow",
            "CPUs 4-5, which are 2",
        ),
        (
            "dedicated",
            dedicated("own", 33),
            "dedicated-too-few-cores",
            "33 whole cores; 32 are free",
        ),
    ];
    for (name, bad, code, text) in cases {
        for policy in ["llc", "spread", "llc-pack", "ccx-as-numa", "linux-default"] {
            let plan = plan(policy, &arrivals(&small(), vec![bad.clone(), fine()]));
            let [(id, reason)] = &plan.refused[..] else {
                panic!("{name}, {policy}: {:?}", plan.refused)
            };
            assert_eq!((id.0, reason.code), (0, code), "{name}, {policy}");
            assert!(reason.text.contains(text), "{name}: {}", reason.text);
            assert_eq!(
                plan.placement
                    .groups_of(VmId(1))
                    .iter()
                    .map(|group| group.vcpus.len())
                    .sum::<usize>(),
                4
            );
        }
    }
}

#[test]
fn nobody_takes_the_cores_a_placed_vm_needs() {
    let mut now = arrivals(&small(), vec![vm("old", 60)]);
    now = after(&now, &plan("llc", &now));
    let [old, own] = [now.vms[0].clone(), now.vms[0].clone()];
    now.vms = vec![old, own];
    now.vms[1].vm = dedicated("own", 3);
    let refused = plan("llc", &now).refused;
    assert_eq!(refused[0].1.code, "dedicated-too-few-cores");
    now.vms[1].vm = dedicated("own", 2);
    assert_eq!(plan("llc", &now).refused, []);
}

#[test]
fn memory_is_at_home_or_at_least_somewhere() {
    let gib = |name: &str, n: u64| Vm::new(name, 4, n << 10);
    let now = arrivals(&small(), vec![gib("a", 50), gib("b", 51), gib("c", 20)]);
    let memory = |placement: &Placement, id: u32| -> Vec<(u32, u64)> {
        placement
            .memory_of(VmId(id))
            .iter()
            .map(|home| (home.node.0, home.mib >> 10))
            .collect()
    };
    let placed = plan("llc", &now);
    assert_eq!(memory(&placed.placement, 0), [(0, 50)]);
    assert_eq!(memory(&placed.placement, 1), [(1, 51)]);
    assert_eq!(
        memory(&placed.placement, 2),
        [(0, 14), (1, 6)],
        "14 + 13 GiB are left"
    );
    assert!(codes(&placed, 2).contains(&"remote-memory"));
    let unlimited = Synthetic {
        llcs_per_node: 2,
        ..Synthetic::default()
    }
    .host("unknown memory");
    let now = arrivals(&unlimited, vec![Vm::new("vm1", 1, u64::MAX)]);
    assert_eq!(
        plan("llc", &now).placement.memory_of(VmId(0))[0].mib,
        u64::MAX
    );
}

#[test]
fn memory_follows_in_small_pages() {
    let mut now = arrivals(
        &small(),
        vec![vm("a", 8), vm("b", 8), vm("c", 8), vm("d", 8)],
    );
    now = after(&now, &plan("llc", &now));
    // Two VMs of one node go idle; the other node is then the loaded one.
    for id in 0..4 {
        now.vms[id].vm.load = if nodes_of(&now.placement, u32::try_from(id).unwrap()) == [0] {
            10
        } else {
            1000
        };
    }
    let step = plan("llc", &now);
    let moved = |code: &str, plan: &Plan| {
        plan.moves
            .iter()
            .filter(|step| step.reason.code == code)
            .count()
    };
    assert_eq!(moved("numa-balance", &step), 2, "two groups of one VM");
    let pages = step.moves.iter().filter_map(|step| match step.what {
        Moved::Memory { mib, .. } => Some(mib),
        Moved::Vcpus { .. } => None,
    });
    assert_eq!(
        pages.collect::<Vec<_>>(),
        [62],
        "8,000 pages of 4 KiB a second, 2 s"
    );
    let mut later = after(&now, &step);
    let next = plan("llc", &later);
    assert_eq!(
        (moved("numa-balance", &next), moved("page-migration", &next)),
        (0, 1)
    );
    later.vms.clear();
    later.placement = Placement::default();
    assert_eq!(
        plan("llc", &later).placement,
        Placement::default(),
        "nothing to do on an empty host"
    );
}

/// Thresholds of the rebalancer: two VMs of 8 on one node (100 % of its cores), what is on the other decides.
#[test]
fn the_balancer_has_thresholds() {
    let cases: [(&str, u32, u32, Option<&str>); 5] = [
        ("92 % and 100 % differ by less than 10", 920, 0, None),
        (
            "70 % and 100 %: one move is worse, a swap is even",
            700,
            0,
            Some("numa-swap"),
        ),
        ("50 % and 100 %: a swap is even", 500, 0, Some("numa-swap")),
        (
            "nothing and 100 %: even afterwards",
            0,
            0,
            Some("numa-balance"),
        ),
        ("the same, but it moved just now", 0, 1, None),
    ];
    for (name, other_load, moved, expected) in cases {
        let four = ["a", "b", "c", "d"].map(|name| on_cpus(vm(name, 8), "0-15"));
        let mut now = arrivals(&small(), four.to_vec());
        for id in [2, 3] {
            now.vms[id].vm = on_cpus(now.vms[id].vm.clone(), "16-31");
        }
        now = after(&now, &plan("llc", &now));
        for state in &mut now.vms {
            state.vm.hard = Affinity::default();
        }
        for id in [2, 3] {
            now.vms[id].vm.load = other_load;
        }
        now.at_ns = 1_000_000_000_000;
        if moved > 0 {
            now.vms
                .iter_mut()
                .for_each(|state| state.moved_ns = Some(now.at_ns - 4_000_000_000));
        }
        let moves = plan("llc", &now).moves;
        let codes: Vec<&str> = moves.iter().map(|step| step.reason.code).collect();
        assert_eq!(codes.first().copied(), expected, "{name}: {codes:?}");
    }
}

/// No single move helps, but two VMs of unequal demand can change places.
#[test]
fn the_balancer_swaps() {
    let loads = [1000, 1000, 600, 600];
    let bound = |name: &str, cpus: &str| on_cpus(vm(name, 8), cpus);
    let vms = vec![
        bound("a", "0-15"),
        bound("b", "0-15"),
        bound("c", "16-31"),
        bound("d", "16-31"),
    ];
    let mut now = arrivals(&small(), vms);
    now = after(&now, &plan("llc", &now));
    for (state, load) in now.vms.iter_mut().zip(loads) {
        state.vm.hard = Affinity::default();
        state.vm.load = load;
    }
    let moves = plan("llc", &now).moves;
    let what: Vec<(u32, &str)> = moves
        .iter()
        .map(|step| (step.vm.0, step.reason.code))
        .collect();
    assert_eq!(
        what.iter().filter(|(_, code)| *code == "numa-swap").count(),
        4,
        "{what:?}"
    );
}

#[test]
fn a_group_leaves_an_over_packed_llc_when_another_has_room() {
    let mut now = arrivals(&small(), vms(&[4, 4, 4, 4]));
    for state in &mut now.vms {
        state.vm.hard.nodes = vec![0];
    }
    now = after(&now, &plan("llc", &now));
    // All sit in LLCs of their own; one of them is pushed onto another's.
    let crowd = now.placement.groups[1].clone();
    let group = &mut now.placement.groups[0];
    (group.llc, group.cpus) = (crowd.llc, crowd.cpus);
    assert!(draw(&now, &now.placement).contains("|AAAABBBB|"));
    let step = plan("llc", &now);
    assert_eq!(step.moves.len(), 1);
    assert_eq!(step.moves[0].reason.code, "llc-over-packed");
    assert_eq!(
        plan("llc", &after(&now, &step)).moves,
        [],
        "and stays there"
    );
    let mut stuck = now.clone();
    stuck.budget.vcpus = 3;
    assert_eq!(plan("llc", &stuck).moves, [], "half a group does not move");
    now.vms.remove(3);
    now.placement.groups.retain(|group| group.vm != VmId(3));
    now.placement.memory.retain(|home| home.vm != VmId(3));
    assert_eq!(
        plan("llc-pack", &now).moves,
        [],
        "the old scheduler does not mind"
    );
}

#[test]
fn a_cpu_that_goes_away_takes_nobody_with_it() {
    for policy in ["llc", "spread", "llc-pack", "ccx-as-numa", "linux-default"] {
        let mut now = arrivals(&small(), vms(&[4, 8, 2]));
        now = after(&now, &plan(policy, &now));
        let gone = now.placement.groups[0].llc;
        now.reserve.cpus = now.host.llcs[gone.index()].cpus.clone();
        let next = plan(policy, &now);
        assert_eq!(next.refused, [], "{policy}");
        assert!(next.moves.iter().any(|step| step.vm == VmId(0)), "{policy}");
    }
}

/// Placements that no policy of ours made: vCPUs missing, LLCs that are not there. They are placed anew.
#[test]
fn a_broken_placement_is_no_reason_to_panic() {
    for policy in ["llc", "spread", "llc-pack", "ccx-as-numa", "linux-default"] {
        let mut now = arrivals(&small(), vec![vm("a", 4), dedicated("b", 2), vm("c", 4)]);
        let first = plan(policy, &now);
        now = after(&now, &first);
        now.placement.groups[0].llc = model::host::LlcId(99);
        now.placement.groups[1].node = model::host::NodeId(99);
        now.placement.groups.last_mut().unwrap().vcpus = CpuSet::from_range(7..90);
        now.placement.memory[0].node = model::host::NodeId(99);
        let next = plan(policy, &now);
        assert_eq!(next.refused, [], "{policy}");
    }
}

#[test]
fn system_threads_are_beside_their_vcpus_where_there_is_room() {
    let busy = |name: &str, vcpus| with(vm(name, vcpus), |vm| vm.system = 1000);
    let now = arrivals(&small(), vec![busy("a", 3), busy("b", 8)]);
    let placement = plan("llc", &now).placement;
    let llcs: Vec<u32> = placement
        .groups_of(VmId(0))
        .iter()
        .map(|group| group.llc.0)
        .collect();
    assert!(
        llcs.contains(&placement.system[0].llc.0),
        "one core is left"
    );
    let llcs: Vec<u32> = placement
        .groups_of(VmId(1))
        .iter()
        .map(|group| group.llc.0)
        .collect();
    assert!(
        !llcs.contains(&placement.system[1].llc.0),
        "S3-62: no core is left"
    );
    let own = arrivals(
        &small(),
        vec![with(dedicated("a", 4), |vm| vm.system = 500)],
    );
    let placement = plan("spread", &own).placement;
    assert!(
        !placement.system[0]
            .cpus
            .intersects(&placement.groups[0].cpus)
    );
}

#[test]
fn spread_evens_out_cpus_when_others_leave() {
    let mut now = arrivals(&small(), vms(&[64, 32]));
    now = after(&now, &plan("spread", &now));
    let shared = |placement: &Placement| {
        let mut on: Vec<u32> = placement
            .groups
            .iter()
            .flat_map(|group| group.cpus.iter())
            .map(|cpu| cpu.0)
            .collect();
        let all = on.len();
        on.sort_unstable();
        on.dedup();
        all - on.len()
    };
    assert_eq!(shared(&now.placement), 32);
    // A smaller one takes the place of the first, where the second left a CPU to itself.
    now.vms[0].vm = vm("vm1", 8);
    now.placement.groups.retain(|group| group.vm == VmId(1));
    now.placement.memory.retain(|home| home.vm == VmId(1));
    let next = plan("spread", &now);
    assert_eq!(shared(&next.placement), 0);
    assert_eq!(next.moves, [], "the second stays");
}
