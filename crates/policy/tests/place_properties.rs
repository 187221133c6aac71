//! What must hold for every placement by `best`, on random hosts with random VMs.

use std::sync::Arc;

use model::host::Synthetic;
use model::placement::{Reserve, VmId};
use model::tenant::{Affinity, Apart, Intensity, Scope};
use model::{CpuSet, Host, Placement, Vm};
use policy::cost::evaluate;
use policy::cost::problem::Problem;
use policy::place::Best;
use policy::plan::{Budget, Plan, Snapshot};
use policy::reconcile::Policy;
use proptest::prelude::*;

/// So many cases, unless `PROPTEST_CASES` asks for others: a number in the code would hide it.
fn cases(usual: u32) -> ProptestConfig {
    if std::env::var_os("PROPTEST_CASES").is_some() {
        ProptestConfig::default()
    } else {
        ProptestConfig::with_cases(usual)
    }
}

fn hosts() -> impl Strategy<Value = Host> {
    let sizes = (
        1_u32..=2,
        1_u32..=2,
        1_u32..=4,
        1_u32..=6,
        1_u32..=2,
        0_u64..=1,
    );
    (sizes, any::<bool>()).prop_map(
        |((packages, nodes, llcs, cores, threads, memory), isolate)| {
            let machine = Synthetic {
                packages,
                nodes_per_package: nodes,
                llcs_per_node: llcs,
                cores_per_llc: cores,
                threads_per_core: threads,
                llc_mib: 16,
                node_mib: memory * 65_536,
            };
            let mut host = machine.host("random");
            if isolate && host.cpus.len() > 4 {
                host.isolated = host.cores[0].cpus.clone();
            }
            host
        },
    )
}

fn intensities() -> impl Strategy<Value = Intensity> {
    prop_oneof![
        Just(Intensity::Low),
        Just(Intensity::Mid),
        Just(Intensity::High)
    ]
}

/// vCPUs, GiB, load and system demand in milli-CPU.
type Sizes = (u32, u64, u32, u32);
/// Bandwidth, sharing, whether it counts threads, and three dice for what else it asks for.
type Habits = (Intensity, Intensity, bool, u32, u32, u32);

fn vms() -> impl Strategy<Value = Vec<Vm>> {
    let sizes = (1_u32..=12, 0_u64..=16, 0_u32..=1000, 0_u32..=500);
    let habits = (
        intensities(),
        intensities(),
        any::<bool>(),
        0_u32..=9,
        0_u32..=9,
        0_u32..=9,
    );
    let one = (sizes, habits);
    prop::collection::vec(one, 0..8).prop_map(|rows| {
        let row = |(index, (sizes, habits)): (usize, (Sizes, Habits))| {
            let ((vcpus, gib, load, system), (bandwidth, sharing, ht, dice, label, affinity)) =
                (sizes, habits);
            let mut vm = Vm::new(format!("vm{index}"), vcpus, gib * 1024);
            (vm.load, vm.bandwidth, vm.sharing, vm.prefer_ht) = (load, bandwidth, sharing, ht);
            vm.system = if system > 250 { system } else { 0 };
            vm.dedicated = dice == 0;
            vm.reservation = if dice == 1 { vcpus * 500 } else { 0 };
            vm.shares = if dice == 2 { 2000 } else { 1000 };
            vm.limit = (dice == 3).then_some(vcpus * 300);
            vm.apart = (label < 2).then(|| Apart {
                label: "a".to_owned(),
                scope: [Scope::Llc, Scope::Node][label as usize],
            });
            vm.near = (label == 3).then(|| "n".to_owned());
            let cpus = |set: &str| Affinity {
                cpus: Some(set.parse::<CpuSet>().expect("ours")),
                nodes: vec![],
            };
            match affinity {
                0 => vm.hard = cpus("0-3"),
                1 => vm.soft = cpus("2-9"),
                2 => vm.hard.nodes = vec![0],
                3 => vm.device_nodes = vec![0],
                _ => {}
            }
            vm
        };
        rows.into_iter().enumerate().map(row).collect()
    })
}

fn plan_of(host: &Host, vms: &[Vm]) -> (Snapshot, Plan) {
    let now = Snapshot::empty(Arc::new(host.clone()), vms.to_vec(), Reserve::default());
    let plan = Best.plan(&now);
    (now, plan)
}

/// The case as a person wants to see it.
fn drawn(host: &Host, vms: &[Vm], plan: &Plan) -> String {
    let mut text = format!(
        "{} LLCs of {}, isolated {}\n",
        host.llcs.len(),
        host.llcs[0].cpus,
        host.isolated
    );
    for (id, vm) in (0..).map(VmId).zip(vms) {
        let groups = plan
            .placement
            .groups_of(id)
            .iter()
            .map(|group| format!("{} on {}", group.vcpus, group.llc.0));
        let groups: Vec<String> = groups.collect();
        text += &format!(
            "{}: {} x {} {:?}/{:?} system {} dedicated {} shares {} reserved {} limit {:?} {:?} {:?} {:?} near {:?}: {groups:?}\n",
            vm.name,
            vm.vcpus,
            vm.load,
            vm.bandwidth,
            vm.sharing,
            vm.system,
            vm.dedicated,
            vm.shares,
            vm.reservation,
            vm.limit,
            vm.hard,
            vm.soft,
            vm.apart,
            vm.near
        );
    }
    text
}

fn with(now: &Snapshot, placement: &Placement) -> Snapshot {
    Snapshot {
        placement: placement.clone(),
        at_ns: now.at_ns + 3_600_000_000_000,
        ..now.clone()
    }
}

proptest! {
    #![proptest_config(cases(200))]

    /// The plan holds together, every VM is placed whole or refused with a reason, and the cost is what the definition says.
    #[test]
    fn a_plan_is_sound((host, vms) in (hosts(), vms())) {
        let (now, plan) = plan_of(&host, &vms);
        let wrong = plan.placement.check(&host, &vms, &now.reserve);
        prop_assert!(wrong.is_empty(), "{wrong:?}");
        for (index, vm) in vms.iter().enumerate() {
            let id = VmId(u32::try_from(index).expect("few"));
            let placed = !plan.placement.groups_of(id).is_empty();
            let refused = plan.refused.iter().any(|(refused, _)| *refused == id);
            prop_assert!(placed != refused, "{} placed {placed}, refused {refused}", vm.name);
            let total: u64 = plan.placement.memory_of(id).iter().map(|home| home.mib).sum();
            prop_assert!(!placed || total == vm.memory_mib, "{} has {total} MiB", vm.name);
        }
        let bill = evaluate(&Problem::new(&now), &host, &plan.placement, &now.placement);
        prop_assert_eq!(bill.total, plan.cost);
    }

    /// The order of the VMs does not matter.
    #[test]
    fn order_does_not_matter((host, vms) in (hosts(), vms())) {
        let (_, plan) = plan_of(&host, &vms);
        let reversed: Vec<Vm> = vms.iter().rev().cloned().collect();
        let (_, other) = plan_of(&host, &reversed);
        let last = u32::try_from(vms.len()).unwrap();
        let mut renamed = other.placement;
        renamed.groups.iter_mut().for_each(|group| group.vm = VmId(last - 1 - group.vm.0));
        renamed.memory.iter_mut().for_each(|home| home.vm = VmId(last - 1 - home.vm.0));
        renamed.system.iter_mut().for_each(|home| home.vm = VmId(last - 1 - home.vm.0));
        renamed.sort();
        prop_assert_eq!(&plan.placement, &renamed);
    }

    /// What `best` placed, `best` leaves alone.
    #[test]
    fn a_plan_is_left_alone((host, vms) in (hosts(), vms())) {
        let (now, plan) = plan_of(&host, &vms);
        let again = Best.plan(&with(&now, &plan.placement));
        prop_assert!(again.moves.is_empty(), "{:?}\n{}", again.moves, drawn(&host, &vms, &plan));
        prop_assert_eq!(&again.placement, &plan.placement, "{:?}\n{}", plan.refused, drawn(&host, &vms, &plan));
    }

    /// From any state a plan never raises the cost, moves no more than its budget, and plans come to rest.
    #[test]
    fn moves_end((host, vms, seed) in (hosts(), vms(), any::<u64>())) {
        let start = scattered(&host, &vms, seed);
        let mut now = Snapshot::empty(Arc::new(host.clone()), vms.clone(), Reserve::default());
        now.budget = Budget { vcpus: 8, memory_mib: 8192, dwell_ns: 0 };
        now.placement = start;
        let mut last = i64::MAX;
        let mut rest = false;
        for round in 0..60 {
            let plan = Best.plan(&now);
            let problem = Problem::new(&now);
            let settled = evaluate(&problem, &host, &plan.placement, &plan.placement).total.total();
            let placed = |placement: &Placement| (0..vms.len()).filter(|&vm| !placement.groups_of(VmId(u32::try_from(vm).unwrap())).is_empty()).count();
            let is_same = round > 0 && placed(&plan.placement) == placed(&now.placement);
            prop_assert!(!is_same || settled <= last, "round {round}: {settled} after {last}");
            last = settled;
            now = with(&now, &plan.placement);
            if plan.moves.is_empty() && round > 0 {
                rest = true;
                break;
            }
        }
        prop_assert!(rest, "still moving after 60 plans");
    }
}

proptest! {
    #![proptest_config(cases(60))]

    /// Ten minutes of loads that wander by 4 %, and jump for good to something else after five: no VM moves again before
    /// its dwell time is over, and with the same loads none comes back to a place it left.
    #[test]
    fn never_oscillates(
        (host, vms, noise, jumps) in
            (hosts(), vms(), prop::collection::vec(-40_i32..=40, 64), prop::collection::vec(0_u32..=1000, 8))
    ) {
        let mut now = Snapshot::empty(Arc::new(host.clone()), vms.clone(), Reserve::default());
        let mut left: Vec<Vec<Vec<model::Group>>> = vec![Vec::new(); vms.len()];
        let mut returns = 0;
        for round in 0..300_usize {
            now.at_ns = 2_000_000_000 * round as u64;
            if round == 150 {
                left.iter_mut().for_each(Vec::clear);
            }
            for (index, state) in now.vms.iter_mut().enumerate() {
                let swing = noise[(round * 7 + index * 13) % noise.len()];
                let mean = if round < 150 { vms[index].load } else { jumps[index % jumps.len()] };
                state.vm.load = u32::try_from(i64::from(mean) * i64::from(1000 + swing) / 1000).unwrap().min(1000);
            }
            let plan = Best.plan(&now);
            for (index, id) in (0..now.vms.len()).zip((0..).map(VmId)) {
                if !plan.moves.iter().any(|step| step.vm == id) {
                    continue;
                }
                let moved = now.vms[index].moved_ns;
                prop_assert!(moved.is_none_or(|moved| now.at_ns - moved >= now.budget.dwell_ns), "{} moves too soon", vms[index].name);
                returns += usize::from(left[index].contains(&plan.placement.groups_of(id).to_vec()));
                left[index].push(now.placement.groups_of(id).to_vec());
                now.vms[index].moved_ns = Some(now.at_ns);
            }
            now.placement = plan.placement;
        }
        prop_assert_eq!(returns, 0, "{}", drawn(&host, &vms, &Plan { placement: now.placement.clone(), ..Plan::default() }));
    }
}

/// The VMs' vCPUs on LLCs drawn by a seed, whole VMs at a time, as somebody else may have left them.
fn scattered(host: &Host, vms: &[Vm], seed: u64) -> Placement {
    let mut placement = Placement::default();
    let mut draw = seed | 1;
    for (id, vm) in (0..).map(VmId).zip(vms) {
        draw = draw
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let llc = &host.llcs[usize::try_from(draw >> 33).expect("31 bits") % host.llcs.len()];
        let index = host
            .llcs
            .iter()
            .position(|other| other == llc)
            .expect("one of them");
        if vm.dedicated || vm.system > 0 {
            continue;
        }
        placement.groups.push(model::Group {
            vm: id,
            vcpus: CpuSet::from_range(0..vm.vcpus),
            llc: model::host::LlcId(u32::try_from(index).expect("few")),
            node: llc.node,
            cpus: llc.cpus.difference(&host.isolated),
            pinned: false,
        });
        placement.memory.push(model::placement::MemoryHome {
            vm: id,
            cell: 0,
            node: llc.node,
            mib: vm.memory_mib,
        });
    }
    placement
}
