//! Golden drawings of placements made by hand, and what holds for every drawing.

use model::host::{LlcId, NodeId, Synthetic};
use model::placement::{Group, MemoryHome, Placement, Reserve, VmId};
use model::{Host, Vm};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use super::{Detail, MIN_WIDTH, PlaceView, Style, place_legend, place_svg, place_text, samples};

fn style(width: usize, colour: bool) -> Style {
    Style { width, colour }
}

/// Two packages with two LLCs of four cores with two threads each.
fn host() -> Host {
    let machine = Synthetic {
        packages: 2,
        nodes_per_package: 1,
        llcs_per_node: 2,
        cores_per_llc: 4,
        threads_per_core: 2,
        llc_mib: 16,
        node_mib: 65_536,
    };
    machine.host("small")
}

/// A group that floats over the CPUs, or has one for each vCPU.
fn group(vm: u32, vcpus: u32, llc: u32, cpus: &str, pinned: bool) -> Group {
    Group {
        vm: VmId(vm),
        vcpus: model::CpuSet::from_range(0..vcpus),
        llc: LlcId(llc),
        node: NodeId(llc / 2),
        cpus: cpus.parse().unwrap(),
        pinned,
    }
}

/// Whole LLCs of [`host`].
fn floating(vm: u32, vcpus: u32, llc: u32) -> Group {
    let cpus = format!(
        "{}-{},{}-{}",
        4 * llc,
        4 * llc + 3,
        4 * llc + 16,
        4 * llc + 19
    );
    group(vm, vcpus, llc, &cpus, false)
}

fn placement(groups: Vec<Group>) -> Placement {
    let mut placement = Placement {
        groups,
        memory: vec![MemoryHome {
            vm: VmId(0),
            cell: 0,
            node: NodeId(1),
            mib: 8192,
        }],
        system: Vec::new(),
    };
    placement.sort();
    placement
}

fn vms(sizes: &[u32]) -> Vec<Vm> {
    let vms = sizes.iter().enumerate();
    vms.map(|(index, &vcpus)| Vm::new(format!("vm{}", index + 1), vcpus, 8192))
        .collect()
}

fn drawn(view: &PlaceView, detail: Detail, width: usize) -> String {
    let text = place_text(view, detail, style(width, false));
    text + "\n" + &place_legend(&[*view], style(width, false))
}

#[test]
fn placements_look_like_this() {
    let (host, mut vms) = (host(), vms(&[8, 6, 3, 2, 9]));
    (vms[3].name, vms[3].dedicated) = ("web".to_owned(), true);
    let placement = placement(vec![
        group(0, 4, 0, "1-3,17-19", false),
        floating(0, 4, 1),
        floating(1, 6, 1),
        group(2, 3, 3, "12,28,13", true),
        group(3, 2, 2, "8-9", true),
        floating(4, 9, 3),
    ]);
    let reserve = Reserve {
        cpus: "0,16".parse().unwrap(),
        memory_mib: vec![],
    };
    let view = PlaceView {
        host: &host,
        vms: &vms,
        placement: &placement,
        reserve: &reserve,
    };
    insta::assert_snapshot!("place-full", drawn(&view, Detail::Full, 100));
    insta::assert_snapshot!("place-compact", drawn(&view, Detail::Compact, 100));
}

#[test]
fn odd_machines_and_many_vms_are_drawn() {
    let reserve = Reserve::default();
    let many = vms(&[1; 60]);
    let host = host();
    let groups = (0..60).map(|vm| floating(vm, 1, vm % 3)).collect();
    let crowded = placement(groups);
    let view = PlaceView {
        host: &host,
        vms: &many,
        placement: &crowded,
        reserve: &reserve,
    };
    insta::assert_snapshot!("place-numbers", drawn(&view, Detail::Full, 80));
    let large = Synthetic {
        llcs_per_node: 120,
        cores_per_llc: 4,
        ..Synthetic::default()
    };
    let large = large.host("large");
    let some = placement(vec![group(0, 3, 50, "200-203", false)]);
    let some = Placement {
        groups: some
            .groups
            .into_iter()
            .map(|group| Group {
                node: NodeId(0),
                ..group
            })
            .collect(),
        ..Placement::default()
    };
    let view = PlaceView {
        host: &large,
        vms: &vms(&[3]),
        placement: &some,
        reserve: &reserve,
    };
    insta::assert_snapshot!("place-large", drawn(&view, Detail::Full, 80));
    let empty = Placement::default();
    for (name, host) in [
        ("place-hybrid", samples::hybrid_laptop()),
        ("place-uneven-llcs", samples::ryzen_9950x3d()),
        ("place-odd", samples::everything_odd()),
        ("place-interleaved", samples::interleaved()),
    ] {
        let view = PlaceView {
            host: &host,
            vms: &[],
            placement: &empty,
            reserve: &reserve,
        };
        insta::assert_snapshot!(name, drawn(&view, Detail::Full, 60));
    }
}

/// VMs that stay inside the machine, on LLCs with room or without.
fn placements() -> impl Strategy<Value = (Vec<Vm>, Placement)> {
    prop::collection::vec((1..20_u32, 0..4_u32, any::<bool>()), 0..70).prop_map(|all| {
        let sizes: Vec<u32> = all.iter().map(|(size, ..)| *size).collect();
        let groups = (0..).zip(&all).map(|(vm, &(size, llc, pinned))| Group {
            pinned: pinned && size <= 8,
            ..floating(vm, size, llc)
        });
        (vms(&sizes), placement(groups.collect()))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn no_line_is_too_wide_and_every_vm_is_there((vms, placement) in placements(), width in 20..140_usize) {
        let (host, reserve) = (host(), Reserve::default());
        let view = PlaceView { host: &host, vms: &vms, placement: &placement, reserve: &reserve };
        for detail in [Detail::Full, Detail::Compact] {
            let text = drawn(&view, detail, width);
            for line in text.lines() {
                prop_assert!(line.width() <= width.max(MIN_WIDTH), "{line}");
            }
            let coloured = place_text(&view, detail, style(width, true));
            let plain = place_text(&view, detail, style(width, false));
            prop_assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain);
        }
        let svg = place_svg(&view, &["figures".to_owned()]);
        for vm in &vms {
            let tooltip = |end: char| svg.contains(&format!(": {}{end}", vm.name)) || svg.contains(&format!(", {}{end}", vm.name));
            prop_assert!(tooltip('<') || tooltip(','), "{} is not in the picture", vm.name);
        }
        roxmltree::Document::parse(&svg).unwrap();
    }
}
