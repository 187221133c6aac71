//! What holds for every host, set of VMs and state.

use proptest::prelude::*;

use super::*;
use crate::policies::NAMES;

const BASELINES: &[&str] = NAMES.split_at(1).1;

fn hosts() -> impl Strategy<Value = Host> {
    (1..3u32, 1..3u32, 1..5u32, 1..5u32, 1..3u32, 0..3u64).prop_map(
        |(
            packages,
            nodes_per_package,
            llcs_per_node,
            cores_per_llc,
            threads_per_core,
            node_gib,
        )| {
            Synthetic {
                packages,
                nodes_per_package,
                llcs_per_node,
                cores_per_llc,
                threads_per_core,
                llc_mib: 16,
                node_mib: node_gib << 13,
            }
            .host("random")
        },
    )
}

fn machines() -> impl Strategy<Value = (Host, Vec<Vm>)> {
    let vm = (1..13u32, 0..9u64, 0..1001u32, 0..24u32, 0..6u32);
    (hosts(), prop::collection::vec(vm, 0..10)).prop_map(|(mut host, sizes)| {
        let n_cpus = u32::try_from(host.cpus.len()).unwrap();
        let vm = |(index, (vcpus, gib, load, special, system))| {
            let mut vm = Vm::new(format!("vm{index}"), vcpus, gib << 10);
            vm.load = load;
            vm.dedicated = special < 3;
            vm.prefer_ht = special == 3;
            vm.system = if system == 0 { 500 } else { 0 };
            if special == 4 {
                vm.hard.cpus = Some(CpuSet::from_range(0..n_cpus / 2));
            }
            if special == 5 {
                vm.hard.nodes = vec![0];
            }
            if special == 6 && vcpus > 1 {
                vm.guest = Some(two_nodes(vcpus));
            }
            if special > 20 {
                vm.near = Some("friends".to_owned());
            }
            vm
        };
        if sizes.len() == 7 {
            host.isolated = host.cores[0].cpus.clone();
        }
        let vms = (0..).zip(sizes).map(vm).collect();
        (host, vms)
    })
}

/// A guest with two vNUMA nodes, the first as small as can be.
fn two_nodes(vcpus: u32) -> model::GuestTopology {
    let node = |range| model::GuestNode {
        vcpus: CpuSet::from_range(range),
        memory_mib: 700,
        host_nodes: Vec::new(),
    };
    let uniform = model::GuestTopology::uniform(vcpus, [1, 1, 1, vcpus, 1]);
    let numa_nodes = vec![node(0..1), node(1..vcpus)];
    model::GuestTopology {
        numa_nodes,
        ..uniform
    }
}

/// A budget that never is the reason why something stays.
fn boundless(now: &mut Snapshot) {
    now.budget.vcpus = u32::MAX;
    now.budget.memory_mib = u64::MAX;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn plans_hold_together_and_are_repeatable((host, vms) in machines(), reserve in 0..3u32) {
        let mut now = arrivals(&host, vms);
        now.reserve.cpus = CpuSet::from_range(0..reserve);
        for policy in BASELINES {
            let first = plan(policy, &now);
            prop_assert_eq!(&first, &plan(policy, &now));
            prop_assert!(first.moves.is_empty(), "arrivals are no moves");
        }
    }

    #[test]
    fn a_second_plan_changes_nothing((host, vms) in machines(), reserve in 0..4u32) {
        let mut now = arrivals(&host, vms);
        now.reserve.cpus = CpuSet::from_range(0..reserve);
        boundless(&mut now);
        for policy in BASELINES {
            let first = plan(policy, &now);
            let second = plan(policy, &after(&now, &first));
            prop_assert_eq!(&second.moves, &[], "{}", policy);
            prop_assert_eq!(&second.placement, &first.placement, "{}", policy);
            // The texts may differ in what was left when each VM was asked.
            let ids = |plan: &Plan| plan.refused.iter().map(|(id, _)| *id).collect::<Vec<_>>();
            prop_assert_eq!(ids(&second), ids(&first));
        }
    }

    #[test]
    fn the_order_of_vms_does_not_matter((host, vms) in machines(), turn in 0..10usize) {
        let now = arrivals(&host, vms.clone());
        let mut turned = vms;
        let n = turned.len();
        turned.rotate_left(turn.min(n));
        let again = arrivals(&host, turned);
        let named = |now: &Snapshot, placement: &Placement| {
            let mut all: Vec<_> = placement.groups.iter().map(|group| {
                let name = now.vms[group.vm.index()].vm.name.clone();
                (name, group.vcpus.clone(), group.llc, group.node, group.cpus.clone())
            }).collect();
            all.sort();
            let mut memory: Vec<_> = placement.memory.iter().map(|home| {
                (now.vms[home.vm.index()].vm.name.clone(), home.cell, home.node, home.mib)
            }).collect();
            memory.sort();
            let mut system: Vec<_> = placement.system.iter().map(|home| {
                (now.vms[home.vm.index()].vm.name.clone(), home.llc)
            }).collect();
            system.sort();
            (all, memory, system)
        };
        for policy in BASELINES {
            let (one, other) = (plan(policy, &now), plan(policy, &again));
            prop_assert_eq!(named(&now, &one.placement), named(&again, &other.placement), "{}", policy);
        }
    }

    /// Any policy takes over from any other, VMs come and go, CPUs go away: every plan holds together, and it settles.
    #[test]
    fn any_state_is_a_start((host, vms) in machines(), from in 0..5usize, to in 0..5usize, gone in 0..3u32) {
        let n = vms.len();
        let mut now = arrivals(&host, vms);
        boundless(&mut now);
        now.budget.dwell_ns = 0;
        let first = plan(BASELINES[from], &now);
        now = after(&now, &first);
        // One VM leaves and comes again, and some CPUs are taken out of use.
        now.placement.groups.retain(|group| group.vm.index() + 1 != n);
        now.placement.memory.retain(|home| home.vm.index() + 1 != n);
        now.reserve.cpus = CpuSet::from_range(0..gone);
        let mut last = plan(BASELINES[to], &now);
        for _ in 0..200 {
            now = after(&now, &last);
            let next = plan(BASELINES[to], &now);
            let settled = next.placement == now.placement;
            last = next;
            if settled {
                break;
            }
        }
        prop_assert_eq!(&last.placement.groups, &now.placement.groups, "still moving: {} to {}", BASELINES[from], BASELINES[to]);
    }

    #[test]
    fn moves_stay_within_the_budget((host, vms) in machines(), loads in prop::collection::vec(0..1001u32, 10), most in 0..9u32) {
        let now = arrivals(&host, vms);
        for policy in BASELINES {
            let first = plan(policy, &now);
            let mut later = after(&now, &first);
            for (state, load) in later.vms.iter_mut().zip(&loads) {
                state.vm.load = *load;
            }
            later.budget.vcpus = most;
            later.budget.memory_mib = 5;
            let next = plan(policy, &later);
            let (mut vcpus, mut mib) = (0, 0);
            for step in &next.moves {
                match &step.what {
                    crate::plan::Moved::Vcpus { vcpus: set, .. } => vcpus += set.len(),
                    crate::plan::Moved::Memory { mib: some, .. } => mib += some,
                }
            }
            prop_assert!(vcpus <= most as usize, "{policy}: {vcpus} vCPUs moved");
            prop_assert!(mib <= 5, "{policy}: {mib} MiB moved");
        }
    }
}
