//! Golden drawings, and what holds for every drawing.

use std::collections::BTreeSet;

use model::host::{Cache, Core, HostDevice, HugepagePool, Latency, Node, Parts};
use model::{CpuId, CpuSet, GuestTopology, Host};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use super::samples::{self, guest};
use super::{MIN_WIDTH, Style, guest_text, host_svg, host_text};

/// CPU numbers of random machines start here, so that no other number in a drawing looks like one.
const FIRST_CPU: u32 = 20_000;

fn style(width: usize) -> Style {
    Style {
        width,
        colour: false,
    }
}

/// The drawing without findings, which are the model's.
fn picture(host: &Host, width: usize) -> String {
    let text = host_text(host, style(width));
    let finding = |line: &&str| {
        ["info ", "warning ", "error "]
            .iter()
            .any(|label| line.starts_with(label))
    };
    let lines: Vec<&str> = text.lines().take_while(|line| !finding(line)).collect();
    lines.join("\n")
}

#[test]
fn hosts_look_like_this() {
    insta::assert_snapshot!("epyc-2s", picture(&samples::epyc_with_everything(), 100));
    insta::assert_snapshot!(
        "epyc-2s-narrow",
        picture(&samples::epyc_with_everything(), 80)
    );
    insta::assert_snapshot!("epyc-2s-nps4", picture(&samples::epyc_nps4(), 100));
    insta::assert_snapshot!(
        "epyc-2s-ccx-as-numa",
        picture(&samples::epyc_ccx_as_numa(), 100)
    );
    insta::assert_snapshot!("opteron-4s", picture(&samples::opteron(), 100));
    insta::assert_snapshot!(
        "desktop-uneven-llcs",
        picture(&samples::ryzen_9950x3d(), 80)
    );
    insta::assert_snapshot!("laptop-hybrid", picture(&samples::hybrid_laptop(), 80));
    insta::assert_snapshot!("vm-two-cpus", picture(&samples::small_vm(), 80));
    insta::assert_snapshot!(
        "xeon-round-robin",
        picture(&samples::xeon_round_robin(), 100)
    );
    insta::assert_snapshot!("interleaved", picture(&samples::interleaved(), 100));
    insta::assert_snapshot!("odd", picture(&samples::everything_odd(), 80));
    insta::assert_snapshot!("spare-memory", picture(&samples::spare_memory(), 80));
    insta::assert_snapshot!("packages-32", picture(&samples::many_packages(), 100));
}

#[test]
fn guests_look_like_this() {
    let text = |guest: &GuestTopology| guest_text(guest, style(100));
    insta::assert_snapshot!("guest-13-of-16", text(&guest(13, [1, 4, 1, 4, 1], 1)));
    insta::assert_snapshot!(
        "guest-flat-8",
        text(&GuestTopology::uniform(8, [8, 1, 1, 1, 1]))
    );
    insta::assert_snapshot!("guest-hot-add", text(&guest(16, [4, 2, 1, 4, 2], 1)));
    insta::assert_snapshot!("guest-250", text(&guest(250, [2, 16, 1, 8, 1], 2)));
    insta::assert_snapshot!("guest-4096", text(&guest(4096, [8, 16, 1, 16, 2], 8)));
}

#[test]
fn a_two_socket_epyc_fits_a_terminal() {
    for host in [
        samples::epyc_7702(1, [10, 12, 32]),
        samples::epyc_nps4(),
        samples::epyc_ccx_as_numa(),
    ] {
        for width in [80, 100] {
            let lines = host_text(&host, style(width)).lines().count();
            assert!(lines <= 42, "{lines} lines at {width} columns");
        }
    }
}

#[test]
fn colour_changes_no_character() {
    for host in [
        samples::epyc_with_everything(),
        samples::hybrid_laptop(),
        samples::everything_odd(),
    ] {
        let coloured = host_text(
            &host,
            Style {
                width: 100,
                colour: true,
            },
        );
        assert!(coloured.contains('\u{1b}'));
        assert_eq!(
            anstream::adapter::strip_str(&coloured).to_string(),
            host_text(&host, style(100))
        );
    }
}

#[test]
fn what_differs_is_never_drawn_as_one() {
    let mut parts = samples::many_packages().to_parts();
    parts.caches[7].size_bytes = 5 << 20;
    let text = host_text(&Host::from_parts(parts).unwrap(), style(100));
    let odd: Vec<&str> = text.lines().filter(|line| line.contains("5 MiB")).collect();
    assert!(odd.iter().any(|line| line.contains("LLC 7")), "{text}");
}

#[test]
fn a_hostile_guest_is_drawn_as_far_as_it_goes() {
    let huge = GuestTopology::uniform(u32::MAX, [u32::MAX; 5]);
    assert!(guest_text(&huge, style(80)).contains("only 8192 of 4294967295 vCPUs are drawn"));
    let nothing = GuestTopology::uniform(0, [0; 5]);
    assert!(guest_text(&nothing, style(80)).contains("a level has 0 members"));
}

#[test]
fn svg_shows_every_cpu_and_what_is_set_apart() {
    let svg = host_svg(&samples::everything_odd());
    let document = roxmltree::Document::parse(&svg).unwrap();
    let texts: BTreeSet<&str> = document
        .descendants()
        .filter_map(|node| node.text())
        .map(str::trim)
        .collect();
    for cpu in 0..16 {
        assert!(texts.contains(cpu.to_string().as_str()), "CPU {cpu}");
    }
    for text in [
        "offline",
        "not allowed",
        "isolated CPU",
        "memory only",
        "LLC 0 · 24 MiB: CPUs 0-9,12-15",
    ] {
        assert!(texts.contains(text), "{text}");
    }
}

/// All numbers and ranges of a text, as far as they are CPUs.
fn cpus_in(text: &str) -> CpuSet {
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '-');
    let ends = words.filter_map(|word| {
        let (start, end) = word.split_once('-').unwrap_or((word, word));
        Some((start.parse::<u32>().ok()?, end.parse::<u32>().ok()?))
    });
    ends.filter(|&(start, _)| start >= FIRST_CPU)
        .flat_map(|(start, end)| (start..=end).map(CpuId))
        .collect()
}

/// A number of groups, and for each CPU the one it is in: blocks or dealt out in turn.
fn groups(cpus: u32) -> impl Strategy<Value = Vec<u32>> {
    (1..=cpus, any::<bool>()).prop_map(move |(size, blocks)| {
        (0..cpus)
            .map(|cpu| {
                if blocks {
                    cpu / size
                } else {
                    cpu % size.min(12)
                }
            })
            .collect()
    })
}

fn sets(of: &[u32]) -> Vec<CpuSet> {
    let groups: BTreeSet<u32> = of.iter().copied().collect();
    let members = |group| {
        (FIRST_CPU..)
            .zip(of)
            .filter(move |(_, of)| **of == group)
            .map(|(cpu, _)| CpuId(cpu))
    };
    groups
        .into_iter()
        .map(|group| members(group).collect())
        .collect()
}

prop_compose! {
    fn captions()(
        name in ".{0,60}",
        address in ".{0,20}",
        node in prop::option::of(0u32..4),
        ns in prop::option::of(-1.0f64..1e9),
        pages in prop::option::of(any::<u64>()),
        distance in prop::option::of(any::<u32>()),
    ) -> Parts {
        let device = HostDevice { address, class: name.clone(), os_names: vec![name.clone()], node };
        Parts {
            devices: vec![device; 9],
            latency: ns.map(|ns| Latency {
                llc_ns: Vec::new(),
                smt_ns: Some(ns),
                home_remote_ns: None,
                dram_local_ns: Some(f64::NAN),
                dram_remote_ns: None,
                measured_here: true,
                source: name.clone(),
            }),
            nodes: vec![Node {
                id: 900,
                cpus: CpuSet::new(),
                memory_mib: 17,
                hugepages: pages.map(|total| HugepagePool { size_kib: total, total, free: 1 }).into_iter().collect(),
            }],
            distances: distance.map(|distance| vec![vec![distance]]).unwrap_or_default(),
            name,
            ..Parts::default()
        }
    }
}

prop_compose! {
    fn hosts()(n_cpus in 1u32..130)(
        cpus in Just(n_cpus),
        mut parts in captions(),
        [core, llc, die, node, package] in [groups(n_cpus), groups(n_cpus), groups(n_cpus), groups(n_cpus), groups(n_cpus)],
        known in prop::array::uniform4(any::<bool>()),
        speeds in 1u8..4,
        odd in prop::array::uniform2(0u32..200),
    ) -> Host {
        let of = |known: bool, groups: &[u32]| if known { sets(groups) } else { Vec::new() };
        parts.cpus = CpuSet::from_range(FIRST_CPU..FIRST_CPU + cpus);
        parts.cores = (0u8..).zip(sets(&core)).map(|(index, cpus)| Core { cpus, efficiency: index % speeds }).collect();
        parts.packages = of(known[0], &package);
        parts.dies = of(known[1], &die);
        let cache = |(index, cpus): (u64, CpuSet)| Cache { level: 3, kind: 'u', size_bytes: (1 + index / 3) << 20, cpus };
        parts.caches = (0..).zip(of(known[2], &llc)).map(cache).collect();
        let extra = std::mem::take(&mut parts.nodes);
        let nodes = of(known[3], &node);
        parts.distances = match parts.distances.first().and_then(|row| row.first()) {
            Some(&distance) => vec![vec![distance; nodes.len() + 1]; nodes.len() + 1],
            None => Vec::new(),
        };
        let memory = |index: u32| u64::from(index % 3) * 100;
        let nodes = (0u32..).zip(nodes).map(|(id, cpus)| Node { id, cpus, memory_mib: memory(id), hugepages: vec![] });
        parts.nodes = nodes.chain(extra).collect();
        parts.isolated = CpuSet::from_range(FIRST_CPU + odd[0]..FIRST_CPU + odd[1]);
        parts.offline = CpuSet::from_range(odd[0]..odd[1] * 2);
        let probe = Parts { distances: Vec::new(), latency: None, ..parts.clone() };
        let n_llcs = Host::from_parts(probe).unwrap().llcs.len();
        if let Some(latency) = &mut parts.latency {
            latency.llc_ns = vec![vec![12.5; n_llcs]; n_llcs];
        }
        Host::from_parts(parts).unwrap()
    }
}

#[test]
fn a_guest_of_empty_slots_is_drawn() {
    let guest = GuestTopology::uniform(0, [2, 1, 1, 4, 1]);
    assert!(!guest_text(&guest, style(80)).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_line_is_too_wide_and_no_cpu_is_missing(host in hosts(), width in 0usize..140) {
        let text = host_text(&host, style(width));
        for line in text.lines() {
            prop_assert!(line.width() <= width.max(MIN_WIDTH), "{} columns: {line:?}\n{text}", line.width());
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
        }
        let picture: String = text.lines().skip_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
        prop_assert!(host.cpuset().is_subset(&cpus_in(&picture)), "{text}");
    }

    #[test]
    fn svg_is_xml_with_every_rectangle_on_the_page(host in hosts()) {
        let svg = host_svg(&host);
        let document = roxmltree::Document::parse(&svg).unwrap();
        let number = |node: &roxmltree::Node, name| node.attribute(name).map_or(0, |text| text.parse::<u32>().unwrap());
        let page = document.root_element();
        let (width, height) = (number(&page, "width"), number(&page, "height"));
        let mut seen = CpuSet::new();
        for node in document.descendants() {
            match node.tag_name().name() {
                "rect" => {
                    prop_assert!(number(&node, "x") + number(&node, "width") <= width);
                    prop_assert!(number(&node, "y") + number(&node, "height") <= height);
                }
                "text" => prop_assert!(number(&node, "x") <= width && number(&node, "y") <= height),
                "title" => seen = seen.union(&cpus_in(node.text().unwrap_or(""))),
                _ => {}
            }
        }
        prop_assert!(host.cpuset().is_subset(&seen));
    }

    #[test]
    fn guests_fit_the_width(
        levels in prop::array::uniform5(1u32..6),
        share in 1u32..=100,
        nodes in 0u32..5,
        width in 0usize..140,
    ) {
        let slots: u32 = levels.iter().product();
        let text = guest_text(&guest((slots * share / 100).clamp(1, 4096), levels, nodes), style(width));
        for line in text.lines() {
            prop_assert!(line.width() <= width.max(MIN_WIDTH), "{line:?}\n{text}");
        }
    }

    #[test]
    fn any_guest_is_drawn_without_panic(vcpus in 0u32..5000, levels in prop::array::uniform5(any::<u32>())) {
        prop_assert!(!guest_text(&GuestTopology::uniform(vcpus, levels), style(80)).is_empty());
    }
}
