use std::collections::BTreeSet;

use proptest::collection;
use proptest::prelude::*;

use super::*;
use crate::guest::GuestNode;
use crate::vm::GuestCpu;

/// Sets values given as `cpus=8,sockets=2`.
fn smp(text: &str) -> Smp {
    let mut smp = Smp::default();
    for (key, value) in text.split(',').filter_map(|part| part.split_once('=')) {
        smp.set(key, value.parse().unwrap()).unwrap();
    }
    smp
}

fn levels(topology: &GuestTopology) -> [u32; 5] {
    let GuestTopology {
        sockets,
        dies,
        modules,
        cores,
        threads,
        ..
    } = *topology;
    [sockets, dies, modules, cores, threads]
}

/// A topology whose LLCs are the objects of a level.
fn shape(vcpus: u32, levels: [u32; 5], llc: Level) -> GuestTopology {
    let mut topology = GuestTopology::uniform(vcpus, levels);
    topology.llcs = llcs_at(&topology, llc, 0);
    topology
}

#[test]
fn omitted_levels_are_filled_as_qemu_does() {
    // All rows but the last, which QEMU refuses, are what qemu-system-x86_64 10.0.2 says about itself with the machine
    // types pc-q35-10.0 and pc-q35-6.1.
    for (text, since_6_2, before) in [
        ("cpus=8", [1, 1, 1, 8, 1], [8, 1, 1, 1, 1]),
        ("cpus=8,sockets=2", [2, 1, 1, 4, 1], [2, 1, 1, 4, 1]),
        ("cpus=8,threads=2", [1, 1, 1, 4, 2], [4, 1, 1, 1, 2]),
        ("cpus=8,cores=2", [4, 1, 1, 2, 1], [4, 1, 1, 2, 1]),
        ("cpus=8,cores=2,threads=2", [2, 1, 1, 2, 2], [2, 1, 1, 2, 2]),
        ("cpus=8,sockets=1,cores=4", [1, 1, 1, 4, 2], [1, 1, 1, 4, 2]),
        ("cpus=8,dies=2", [1, 2, 1, 4, 1], [4, 2, 1, 1, 1]),
        ("cpus=6,maxcpus=8", [1, 1, 1, 8, 1], [8, 1, 1, 1, 1]),
        ("sockets=2,cores=4", [2, 1, 1, 4, 1], [2, 1, 1, 4, 1]),
        ("cpus=8,modules=2", [1, 1, 2, 4, 1], [4, 1, 2, 1, 1]),
        ("cpus=10,sockets=4", [4, 1, 1, 2, 1], [4, 1, 1, 2, 1]),
    ] {
        assert_eq!(levels(&smp(text).resolve(false)), since_6_2, "{text}");
        assert_eq!(levels(&smp(text).resolve(true)), before, "{text}");
    }
    assert_eq!(smp("sockets=2,cores=4").resolve(false).vcpus, 8);
    assert_eq!(smp("cpus=6,maxcpus=8").resolve(false).vcpus, 6);
    assert_eq!(smp("cpus=6,maxcpus=8").max_vcpus(), Some(8));
    for value in [0, 4097, u64::MAX] {
        assert_eq!(Smp::default().set("cpus", value), None);
    }
}

#[test]
fn before_qemu_10_dies_stand_for_the_llcs() {
    for (vcpus, from, llc, to, code) in [
        (16, [1, 4, 1, 4, 1], Level::Die, [1, 4, 1, 4, 1], ""),
        (
            16,
            [1, 1, 4, 4, 1],
            Level::Module,
            [1, 4, 1, 4, 1],
            "lost-modules",
        ),
        (
            16,
            [1, 2, 2, 4, 1],
            Level::Module,
            [1, 4, 1, 4, 1],
            "lost-modules",
        ),
        (
            16,
            [1, 2, 2, 4, 1],
            Level::Die,
            [1, 2, 1, 8, 1],
            "lost-modules",
        ),
        (
            16,
            [2, 2, 1, 4, 1],
            Level::Socket,
            [2, 1, 1, 8, 1],
            "lost-smp-cache",
        ),
        (
            8,
            [1, 1, 1, 4, 2],
            Level::Core,
            [1, 4, 1, 1, 2],
            "lost-smp-cache",
        ),
    ] {
        let topology = shape(vcpus, from, llc);
        let old = Spelling::new(&topology, 9);
        assert_eq!(old.levels, to);
        let codes: Vec<&str> = old.findings.iter().map(|finding| finding.code).collect();
        assert_eq!(codes.concat(), code, "{from:?}");
        // The dies that are written are the LLCs that were wanted.
        let mut written = GuestTopology::uniform(vcpus, to);
        written.llcs = llcs_at(&written, Level::Die, 0);
        assert!(same_llcs(&written, &topology), "{from:?}");
        let new = Spelling::new(&topology, 10);
        assert_eq!((new.levels, new.findings.len()), (from, 0));
    }
}

#[test]
fn llcs_that_no_level_has_are_reported() {
    let mut topology = shape(8, [1, 2, 1, 4, 1], Level::Die);
    topology.llcs[0].vcpus = "0-2".parse().unwrap();
    topology.llcs[1].vcpus = "3-7".parse().unwrap();
    for version in [9, 10] {
        let spelled = Spelling::new(&topology, version);
        assert_eq!((spelled.llc, spelled.findings[0].code), (None, "lost-llc"));
    }
}

#[test]
fn every_slot_belongs_to_a_node() {
    for (vcpus, cores, nodes, slots) in [
        (16, 16, &["0-7", "8-15"][..], &["0-7", "8-15"][..]),
        (13, 16, &["0-7", "8-12"], &["0-7", "8-15"]),
        (8, 16, &["0-7", ""], &["0-7", "8-15"]),
        (
            6,
            16,
            &["0-3", "4-5", "", ""],
            &["0-3", "4-7", "8-11", "12-15"],
        ),
        (12, 16, &["0-5", "6-11"], &["0-5", "6-15"]),
        (4, 8, &["0,2", "1,3"], &["0,2", "1,3-7"]),
        (4, 4, &[], &[]),
    ] {
        let mut topology = GuestTopology::uniform(vcpus, [1, 1, 1, cores, 1]);
        let nodes = nodes.iter().map(|vcpus| GuestNode {
            vcpus: vcpus.parse().unwrap(),
            memory_mib: 1,
            host_nodes: vec![],
        });
        topology.numa_nodes = nodes.collect();
        let seen: Vec<String> = slots_by_node(&topology)
            .iter()
            .map(CpuSet::to_string)
            .collect();
        assert_eq!(seen, slots);
    }
}

#[test]
fn apic_ids_take_whole_bits_of_each_level() {
    for (levels, extended) in [
        ([1, 1, 1, 128, 2], true),
        ([1, 1, 1, 128, 1], false),
        ([2, 1, 1, 127, 1], false),
        ([2, 1, 1, 128, 1], true),
        ([4, 3, 1, 16, 1], false),
        ([4, 3, 1, 17, 1], true),
        ([255, 1, 1, 1, 1], false),
    ] {
        let topology = GuestTopology::uniform(1, levels);
        assert_eq!(
            Spelling::new(&topology, 10).needs_extended_apic_ids(),
            extended,
            "{levels:?}"
        );
    }
}

#[test]
fn sets_are_bounded_by_their_members() {
    for (text, set) in [
        ("0-3,8", Some("0-3,8")),
        ("0-7,^3", Some("0-2,4-7")),
        (" 1 , 2 ", Some("1-2")),
        ("", Some("")),
        ("^1,1", Some("1")),
        ("3-1", None),
        ("-1", None),
        ("0-65536", None),
        ("a", None),
    ] {
        let read = Sets::default().read(text).ok().map(|set| set.to_string());
        assert_eq!(read.as_deref(), set, "{text:?}");
    }
    let hostile = "0-65535,".repeat(1000) + "0";
    assert!(Sets::default().read(&hostile).is_err());
}

#[test]
fn other_caches_stay_unless_they_are_wider_than_the_llc() {
    let others = [("l2", "module"), ("l1d", "core"), ("l3", "socket")]
        .map(|(cache, level)| (cache.to_owned(), level.to_owned()));
    let text = |llc, stated| {
        let keys = smp_cache(&others, llc, stated);
        keys.iter()
            .map(|(_, value)| value.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        text(Some(Level::Die), Some(Level::Die)),
        "l2 module l1d core l3 die"
    );
    assert_eq!(
        text(Some(Level::Core), Some(Level::Core)),
        "l1d core l3 core"
    );
    assert_eq!(text(None, None), "l2 module l1d core");
}

/// VMs whose shape QEMU and libvirt can say exactly.
pub(in super::super) fn vms() -> impl Strategy<Value = Spec> {
    let levels = [1u32..=3, 1..=3, 1..=3, 1..=4, 1..=2];
    let node = (1u64..=64, collection::btree_set(0u32..8, 0..=2));
    let parts = (
        (levels, 0u32..1000, 0usize..5),
        (collection::vec(node, 0..=4), any::<bool>(), 11u32..=254),
        prop_oneof![
            Just(GuestCpu::Host),
            Just(GuestCpu::Named("EPYC-Rome".to_owned())),
            Just(GuestCpu::Named("Skylake-Server-v4".to_owned())),
        ],
        prop_oneof![Just(None), Just(Some(2048)), Just(Some(1 << 20))],
        "[a-z][a-z0-9 ,'\"&<>\\\\$-]{0,12}[a-z]",
    );
    parts.prop_map(
        |((levels, vcpus, llc), (nodes, stated, distance), cpu, hugepage_kib, name)| {
            let slots: u32 = levels.iter().product();
            let mut topology = GuestTopology::uniform(1 + vcpus % slots, levels);
            let all = [Level::Socket, Level::Die, Level::Module, Level::Core];
            if let Some(level) = all.get(llc) {
                topology.llcs = llcs_at(&topology, *level, 0);
            }
            topology.numa_nodes = cut(&topology, &nodes);
            let count = topology.numa_nodes.len();
            if stated && count > 1 {
                let row = |from| (0..count).map(move |to| if from == to { 10 } else { distance });
                topology.distances = (0..count).map(|from| row(from).collect()).collect();
            }
            let memory_mib = if count > 0 {
                topology.memory_mib()
            } else {
                512
            };
            let vcpus = topology.vcpus;
            let max_vcpus = Some(slots).filter(|&slots| slots > vcpus);
            let topology = Some(topology);
            Spec {
                name,
                vcpus,
                max_vcpus,
                memory_mib,
                topology,
                cpu,
                hugepage_kib,
                ..Spec::default()
            }
        },
    )
}

/// vNUMA nodes of given memory and host nodes over the present vCPUs, in order.
fn cut(topology: &GuestTopology, nodes: &[(u64, BTreeSet<u32>)]) -> Vec<GuestNode> {
    let count = u32::try_from(nodes.len()).unwrap();
    let share = topology.maxcpus().div_ceil(count.max(1));
    let vcpus = topology.vcpus;
    let nodes = (0..)
        .zip(nodes)
        .map(|(index, (memory_mib, host_nodes))| GuestNode {
            vcpus: CpuSet::from_range((index * share).min(vcpus)..((index + 1) * share).min(vcpus)),
            memory_mib: *memory_mib,
            host_nodes: host_nodes.iter().copied().collect(),
        });
    nodes.collect()
}

/// What a topology says, in a line: vCPUs, levels, nodes with memory and host nodes, LLCs.
pub(in super::super) fn line(topology: &GuestTopology) -> String {
    let levels = levels(topology).map(|level| level.to_string()).join("x");
    let nodes = topology.numa_nodes.iter().map(|node| {
        let (vcpus, memory) = (&node.vcpus, node.memory_mib);
        format!(" | {vcpus} {memory}M {:?}", node.host_nodes)
    });
    let llcs = topology.llcs.iter().map(|llc| format!(" L{}", llc.vcpus));
    let parts: Vec<String> = nodes.chain(llcs).collect();
    format!("{} = {levels}{}", topology.vcpus, parts.concat())
}

/// Lines that differ, before and after.
pub(in super::super) fn difference(before: &str, after: &str) -> String {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (before, after) = (lines(before), lines(after));
    let gone = before.iter().filter(|line| !after.contains(line));
    let new = after.iter().filter(|line| !before.contains(line));
    let all: Vec<String> = gone
        .map(|line| format!("- {line}\n"))
        .chain(new.map(|line| format!("+ {line}\n")))
        .collect();
    all.concat()
}

/// What a format can carry of a VM: sizes of caches are the model's own.
pub(in super::super) fn carried(vm: &Spec) -> Spec {
    let mut vm = vm.clone();
    for llc in vm
        .topology
        .iter_mut()
        .flat_map(|topology| &mut topology.llcs)
    {
        (llc.size_bytes, llc.guest_size_bytes) = (0, 0);
    }
    vm
}

/// A text with some of its parts cut out, doubled, swapped or overwritten.
pub(in super::super) fn mangled(texts: &'static [&'static str]) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(String::new()),
        "[<>/='\",&;!\\[\\]-]{1,3}",
        "[0-9]{1,20}",
        Just("-1".to_owned()),
        Just("\u{fffd}\u{e4}".to_owned()),
        any::<String>(),
    ];
    let change = (
        any::<prop::sample::Index>(),
        0usize..40,
        piece,
        any::<bool>(),
    );
    let changes = collection::vec(change, 1..6);
    (prop::sample::select(texts), changes).prop_map(|(text, changes)| {
        let mut text = text.to_owned();
        for (at, length, piece, doubled) in changes {
            let boundary = |mut at: usize| {
                while !text.is_char_boundary(at) {
                    at -= 1;
                }
                at
            };
            let start = boundary(at.index(text.len() + 1));
            let end = boundary((start + length).min(text.len()));
            let old = text[start..end].to_owned();
            text.replace_range(
                start..end,
                &if doubled {
                    old.clone() + &piece + &old
                } else {
                    piece
                },
            );
        }
        text
    })
}
