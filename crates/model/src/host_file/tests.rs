use proptest::prelude::*;

use super::*;
use crate::cpuset::{CpuId, CpuSet};
use crate::host::{Bandwidth, Cache, Core, HostDevice, HugepagePool, Latency, Node};

const SMALL: &str =
    "[geometry]\npackages = 2\nllcs_per_package = 4\ncores_per_llc = 2\nllc_mib = 16\n";

fn small_with(more: &str) -> Result<Host, HostFileError> {
    read("small", &format!("{SMALL}{more}"))
}

fn texts(sets: impl IntoIterator<Item = CpuSet>) -> String {
    let texts: Vec<String> = sets.into_iter().map(|set| set.to_string()).collect();
    texts.join(" ")
}

#[test]
fn numbers_threads_as_asked() {
    for (threads, cores, llc) in [
        ("", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15", "2-3"),
        (
            "threads_per_core = 2",
            "0,16 1,17 2,18 3,19 4,20 5,21 6,22 7,23 8,24 9,25 10,26 11,27 12,28 13,29 14,30 15,31",
            "2-3,18-19",
        ),
        (
            "threads_per_core = 2\nthreads = \"adjacent\"",
            "0-1 2-3 4-5 6-7 8-9 10-11 12-13 14-15 16-17 18-19 20-21 22-23 24-25 26-27 28-29 30-31",
            "4-7",
        ),
    ] {
        let host = small_with(threads).unwrap();
        assert_eq!(
            texts(host.cores.iter().map(|core| core.cpus.clone())),
            cores
        );
        assert_eq!(host.llcs[1].cpus.to_string(), llc);
    }
}

#[test]
fn divides_packages_into_dies_and_nodes() {
    let host = small_with(
        "dies_per_package = 2\nnodes_per_package = 4\nmemory_mib_per_package = 10\n[distances]\nsame_package = 12\ncross_package = 32\n",
    )
    .unwrap();
    assert_eq!(texts(host.dies), "0-3 4-7 8-11 12-15");
    assert_eq!(
        texts(host.packages.into_iter().map(|package| package.cpus)),
        "0-7 8-15"
    );
    let memory: Vec<u64> = host.nodes.iter().map(|node| node.memory_mib).collect();
    assert_eq!(memory, [3, 3, 2, 2, 3, 3, 2, 2]);
    assert_eq!(
        texts(host.nodes.into_iter().map(|node| node.cpus)),
        "0-1 2-3 4-5 6-7 8-9 10-11 12-13 14-15"
    );
    assert_eq!(host.distances[1], [12, 10, 12, 12, 32, 32, 32, 32]);
}

#[test]
fn expands_latencies_by_relation() {
    let all = "[latency_ns]\nsame_llc = { ns = 25 }\nsame_quadrant = { ns = 100 }\nsame_package = { ns = 135 }\ncross_package = { ns = 233.5 }\n";
    let host = small_with(&format!("llcs_per_quadrant = 2\n{all}")).unwrap();
    let matrix = host.latency.unwrap().llc_ns;
    assert_eq!(
        matrix[0],
        [25.0, 100.0, 135.0, 135.0, 233.5, 233.5, 233.5, 233.5]
    );
    assert_eq!(
        matrix[7],
        [233.5, 233.5, 233.5, 233.5, 135.0, 135.0, 100.0, 25.0]
    );

    let no_quadrants = small_with(all).unwrap().latency.unwrap().llc_ns;
    assert_eq!(no_quadrants[0][..4], [25.0, 135.0, 135.0, 135.0]);

    let no_cross = small_with(
        "[latency_ns]\nsame_llc = { ns = 25 }\nsame_package = { ns = 99 }\nsmt = { ns = 8 }\n",
    );
    let latency = no_cross.unwrap().latency.unwrap();
    assert_eq!((latency.llc_ns.len(), latency.smt_ns), (0, Some(8.0)));
}

#[test]
fn keeps_evidence_and_says_each_source_once() {
    let text = format!(
        "{SMALL}memory_evidence = \"a guess\"\nnodes_per_package_options = [1, 2]\n\
         [latency_ns]\n\
         smt = {{ ns = 8, evidence = \"M\", source = \"probe\" }}\n\
         same_llc = {{ ns = 25, range = [20, 30], evidence = \"M\", source = \"probe\" }}\n\
         dram_local = {{ ns = 90, evidence = \"M-sibling\", source = \"page\" }}\n\
         [[source]]\nwhat = \"geometry\"\nwhere = \"data sheet\"\n"
    );
    let found = describe("small", &text).unwrap();
    let source = found.host.latency.unwrap().source;
    assert_eq!(
        source,
        "M: probe (smt, same_llc); M-sibling: page (dram_local)"
    );
    assert_eq!(found.node_options, [1, 2]);
    assert_eq!(found.memory_evidence, "a guess");
    let figure = &found.figures[1];
    assert_eq!(
        (figure.key, figure.range, figure.evidence),
        ("same_llc", Some([20.0, 30.0]), Some(Evidence::M))
    );
    assert_eq!(found.sources[0].r#where, "data sheet");
}

#[test]
fn sets_win_over_geometry() {
    let host = small_with(
        "[sets]\noffline = \"3\"\nisolated = \"4-5\"\n\
         [[node]]\nid = 4\ncpus = \"0-15\"\nmemory_mib = 7\n[[node]]\nid = 9\nmemory_mib = 1\n\
         [distances]\nmatrix = [[10, 17], [17, 10]]\n",
    )
    .unwrap();
    assert_eq!(host.cpuset().to_string(), "0-2,4-15");
    assert_eq!(
        (host.nodes[0].id, host.nodes[1].id, host.memory_mib()),
        (4, 9, 8)
    );
    assert_eq!(
        host.distance(crate::host::NodeId(0), crate::host::NodeId(1)),
        17
    );
    assert_eq!(
        (host.offline.to_string(), host.isolated.to_string()),
        ("3".into(), "4-5".into())
    );
}

#[test]
fn reads_hybrid_cores_and_devices() {
    let host = read(
        "hybrid",
        r#"
        [sets]
        cores = ["0-1", "2-3", "4", "5"]
        core_kinds = [{ cpus = "0-3", efficiency = 1 }]
        [[cache]]
        level = 3
        kind = "u"
        size_bytes = 25_165_824
        cpus = ["0-5"]
        [[device]]
        address = "0000:41:00.0"
        class = "Ethernet"
        os_names = ["eth0"]
        node = 0
        "#,
    )
    .unwrap();
    let ranks: Vec<u8> = host.cores.iter().map(|core| core.efficiency).collect();
    assert_eq!(ranks, [1, 1, 0, 0]);
    assert_eq!(
        (host.llcs.len(), host.devices[0].node, host.packages_known),
        (1, Some(0), false)
    );
}

/// The message holds a text, and the span starts at another.
#[track_caller]
fn check_error(text: &str, message: &str, at: &str) {
    let error = read("x", text).expect_err(text);
    assert!(error.message.contains(message), "{}", error.message);
    let found = &text[error.span];
    assert!(found.starts_with(at), "{message}: points at {found:?}");
}

#[test]
fn wrong_counts_are_shown_with_their_range() {
    for (cores, message) in [
        ("-1", "`cores_per_llc` is -1; give a number from 1 to 16384"),
        ("0", "`cores_per_llc` is 0; give a number from 1 to 16384"),
        ("1000000000", "`cores_per_llc` is 1000000000; give"),
        ("99999999999999999999", "`cores_per_llc`: invalid type"),
        ("\"two\"", "`cores_per_llc`: invalid type: string \"two\""),
        ("2.5", "`cores_per_llc`: invalid type"),
    ] {
        check_error(
            &SMALL.replace("llc = 2", &format!("llc = {cores}")),
            message,
            cores,
        );
    }
    for (from, to, message, at) in [
        (
            "llc = 2",
            "llc = 4096",
            "multiplies to 32768 CPUs; a host file has at most 16384",
            "[geometry]",
        ),
        (
            "package = 4",
            "package = 1000",
            "multiplies to 2000 last-level caches",
            "[geometry]",
        ),
        (
            "packages = 2",
            "",
            "[geometry] lacks `packages`; give a number",
            "[geometry]",
        ),
        (
            "cores_per",
            "core_per",
            "unknown field `core_per_llc`, expected one of `packages`",
            "core_per",
        ),
        (
            "geometry",
            "geometri",
            "unknown field `geometri`, expected one of `processor`",
            "geometri",
        ),
        (
            "mib = 16",
            "mib = -1",
            "`llc_mib` is -1; give a size in MiB above 0",
            "-1",
        ),
        ("mib = 16", "mib = nan", "`llc_mib` is NaN", "nan"),
        (
            "llc_mib = 16",
            "",
            "[geometry] needs either `llc_mib`",
            "[geometry]",
        ),
        (
            "mib = 16",
            "mib_each = [16, 8]",
            "`llc_mib_each` has 2 sizes for 4 last-level caches",
            "16",
        ),
    ] {
        check_error(&SMALL.replace(from, to), message, at);
    }
}

#[test]
fn wrong_tables_are_shown_with_what_would_be_right() {
    for (more, message, at) in [
        (
            "nodes_per_package = 3",
            "`nodes_per_package` is 3, which does not divide the 4 last-level caches",
            "3",
        ),
        (
            "nodes_per_package_options = [2, 4]",
            "`nodes_per_package_options` lacks 1",
            "2",
        ),
        (
            "memory_mib_per_package = -5",
            "`memory_mib_per_package` is -5; give",
            "-5",
        ),
        (
            "llc_level = 2\nl2_kib = 512",
            "`l2_kib` beside `llc_level` = 2",
            "512",
        ),
        (
            "[distances]\nsame_package = 12",
            "lacks `cross_package`; give it or `matrix`",
            "[distances]",
        ),
        (
            "[distances]\nmatrix = [[10]]",
            "`matrix` is not 2 x 2",
            "[distances]",
        ),
        (
            "[latency_ns]\nsmt = { ns = -4 }",
            "`smt` is -4; give nanoseconds",
            "-4",
        ),
        (
            "[latency_ns]\nsmt = { ns = 4, evidence = \"Q\" }",
            "`smt`: unknown variant `Q`, expected one of `M`",
            "\"Q\"",
        ),
        (
            "[latency_ns]\nllc_matrix = [[1.0]]",
            "`llc_matrix` is not 8 x 8",
            "[latency_ns]",
        ),
    ] {
        check_error(&format!("{SMALL}{more}"), message, at);
    }
}

#[test]
fn wrong_nodes_are_shown() {
    for (more, message, at) in [
        (
            "[[node]]\nid = 0\ncpus = \"0-9\"\n[[node]]\nid = 1\ncpus = \"9-15\"",
            "CPUs 9 are in node 1 and in node 0",
            "[[node]]",
        ),
        (
            "[[node]]\nid = 0\ncpus = \"0-7\"\n[[node]]\nid = 0\ncpus = \"8-15\"",
            "node 0 is described twice",
            "[[node]]",
        ),
        (
            "[[node]]\ncpus = \"0-7\"",
            "[[node]] lacks `id`",
            "[[node]]",
        ),
        (
            "[[node]]\nid = 0\ncpus = \"0-99999\"",
            "`cpus`: CPU set \"0-99999\"",
            "\"0-99999\"",
        ),
        (
            "[[node]]\nid = 0\ncpus = \"0-15\"\n[[node]]\nid = 1\n[distances]\ncross_package = 20",
            "node 1 has no CPUs",
            "[distances]",
        ),
    ] {
        check_error(&format!("{SMALL}{more}"), message, at);
    }
}

#[test]
fn contradicting_sets_are_shown_where_they_do() {
    for (text, message, at) in [
        (
            "[sets]\ncores = [\"0-1\", \"1-2\"]",
            "CPU 1 is in two",
            "\"1-2\"",
        ),
        (
            "[sets]\npackages = [\"0-1\", \"1-2\"]",
            "CPU 1 is in two",
            "\"1-2\"",
        ),
        (
            "[sets]\ncores = [\"0-1\", \"\"]",
            "`cores` has an empty set",
            "\"\"",
        ),
        (
            "[sets]\ncpus = \"0-1\"\ncores = [\"0-1\", \"2-3\"]",
            "`cpus` lacks 2-3",
            "\"0-1\"",
        ),
        ("[sets]\ncpus = \"\"", "`cpus` is empty", "\"\""),
        (
            "[sets]\ncpus = \"20000\"",
            "`cpus`: CPU 20000 is not below 16384",
            "\"20000\"",
        ),
        (
            "[[cache]]\nlevel = 3\nkind = \"x\"\nsize_bytes = 1\ncpus = [\"0\"]",
            "`kind` is 'x'; give \"d\"",
            "[[cache]]",
        ),
        (
            "[[cache]]\nlevel = 3\nkind = \"u\"\nsize_bytes = 1\ncpus = [\"0-1\", \"1\"]",
            "CPU 1 is in two",
            "\"1\"",
        ),
        ("", "the file describes no CPU; give [geometry]", ""),
        ("packages = [", "`packages`: unclosed array", ""),
    ] {
        check_error(text, message, at);
    }
}

#[test]
fn refuses_what_would_take_memory() {
    let sets = |count: usize, set: &str| vec![format!("{set:?}"); count].join(", ");
    let lone =
        |set: &str| format!("[[cache]]\nlevel = 1\nkind = \"d\"\nsize_bytes = 1\ncpus = [{set}]\n");
    let node = |id| format!("[[node]]\nid = {id}\ncpus = \"{id}\"\n");
    let many_nodes: Vec<String> = (0..1500).map(node).collect();
    for text in [
        " ".repeat(MAX_FILE_BYTES + 1),
        lone(&sets(20, "0-16383")),
        format!("[sets]\ncores = [{}]", sets(20_000, "5")),
        format!("[sets]\ncpus = {:?}", "0-16383,".repeat(20_000)),
        many_nodes.concat(),
        lone(
            &(0..2000)
                .map(|cpu| format!("\"{cpu}\""))
                .collect::<Vec<_>>()
                .join(", "),
        )
        .replace("level = 1", "level = 3"),
    ] {
        assert!(read("x", &text).is_err(), "{}", &text[..60]);
    }
}

#[test]
fn the_documented_example_is_a_host() {
    let document = include_str!("../../../../docs/host-file.md");
    let examples: Vec<&str> = document
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(examples.len() >= 2, "one regular, one by sets");
    for example in examples {
        let found =
            describe("example", example).unwrap_or_else(|error| panic!("{error}\n{example}"));
        assert!(found.figures.iter().all(|figure| figure.evidence.is_some()));
    }
}

fn sets_of(members: &[u8]) -> Vec<CpuSet> {
    let mut groups: Vec<CpuSet> = vec![CpuSet::new(); 256];
    for (cpu, &group) in (0..).zip(members) {
        // Every third number is missing, as after hot-unplugging.
        groups[usize::from(group)].insert(CpuId(cpu / 2 * 3 + cpu % 2));
    }
    groups.retain(|set| !set.is_empty());
    groups
}

prop_compose! {
    fn places()(n in 1usize..40)(
        cores in proptest::collection::vec(0u8..20, n),
        caches in proptest::collection::vec(0u8..6, n),
        nodes in proptest::collection::vec(0u8..5, n),
        packages in proptest::collection::vec(0u8..4, n),
        sizes in proptest::collection::vec(0u64..1 << 40, 6),
        level in 1u8..4,
        known in any::<[bool; 3]>(),
    ) -> Host {
        let mut llcs = sets_of(&caches);
        let sized = |(cpus, &size_bytes)| Cache { level, kind: 'u', size_bytes, cpus };
        let mut caches: Vec<Cache> = llcs.drain(..).zip(sizes.iter().cycle()).map(sized).collect();
        caches.extend(sets_of(&cores).into_iter().map(|cpus| Cache { level: 1, kind: 'd', size_bytes: 32_768, cpus }));
        let node = |(id, cpus): (u32, CpuSet)| Node { id: id * 7 + 3, cpus, memory_mib: sizes[0], hugepages: vec![] };
        let ranked = |(rank, cpus): (u8, CpuSet)| Core { cpus, efficiency: rank % 3 };
        let all = sets_of(&vec![0; cores.len()]).remove(0);
        Host::from_parts(Parts {
            name: "any".into(),
            cpus: all,
            cores: if known[0] { (0..).zip(sets_of(&cores)).map(ranked).collect() } else { vec![] },
            nodes: (0..).zip(sets_of(&nodes)).map(node).collect(),
            packages: if known[1] { sets_of(&packages) } else { vec![] },
            dies: if known[2] { sets_of(&packages) } else { vec![] },
            caches,
            ..Parts::default()
        }).unwrap()
    }
}

prop_compose! {
    fn hosts()(host in places())(
        distance in proptest::option::of(any::<u32>()),
        figures in proptest::option::of(any::<(bool, [Option<u16>; 4])>()),
        rates in proptest::option::of((1u64..=1_000_000_000, 0u64..=1_000_000_000)),
        ns in 0.0..1e6,
        texts in any::<[String; 3]>(),
        os_names in proptest::collection::vec(any::<String>(), 0..3),
        device_node in any::<Option<u32>>(),
        pool in proptest::option::of((1u64..1 << 30, 0u64..1 << 40, 0u64..1 << 40)),
        numbers in any::<[Option<u32>; 2]>(),
        vendor in prop_oneof![Just(Vendor::Amd), Just(Vendor::Intel), Just(Vendor::Other)],
        host in Just(host),
    ) -> Host {
        let mut parts = host.to_parts();
        let n_nodes = parts.nodes.len();
        parts.distances = distance.map_or(vec![], |distance| vec![vec![distance; n_nodes]; n_nodes]);
        parts.processor = Processor { vendor, model: texts[0].clone(), family: numbers[0], model_number: numbers[1] };
        parts.devices = vec![HostDevice { address: texts[1].clone(), class: texts[2].clone(), os_names, node: device_node }];
        parts.nodes[0].hugepages = pool.map(|(size_kib, total, free)| HugepagePool { size_kib, total, free }).into_iter().collect();
        parts.offline = [CpuId(900)].into_iter().collect();
        parts.restricted = [CpuId(901)].into_iter().collect();
        parts.isolated = parts.cpus.first().into_iter().collect();
        parts.bandwidth = rates.map(|(package_mbs, llc_link_mbs)| Bandwidth { package_mbs, llc_link_mbs, source: texts[1].clone() });
        parts.latency = figures.map(|(measured_here, figures)| {
            let [smt_ns, home_remote_ns, dram_local_ns, dram_remote_ns] = figures.map(|ns| ns.map(|ns| f64::from(ns) / 3.0));
            Latency {
                llc_ns: vec![vec![ns; host.llcs.len()]; host.llcs.len()],
                smt_ns, home_remote_ns, dram_local_ns, dram_remote_ns, measured_here,
                source: texts[2].clone(),
            }
        });
        Host::from_parts(parts).unwrap()
    }
}

proptest! {
    #[test]
    fn reading_what_was_written_gives_the_same_host(host in hosts()) {
        let text = write(&host);
        let again = read(&host.name, &text);
        prop_assert_eq!(again.as_ref(), Ok(&host), "{}", text);
    }

    #[test]
    fn reading_any_text_returns(text in ".{0,200}") {
        let _ = read("x", &text);
    }

    #[test]
    fn reading_any_geometry_returns(
        keys in proptest::collection::vec((0usize..12, prop_oneof![any::<i64>(), 0i64..20]), 0..8),
    ) {
        const KEYS: [&str; 12] = ["packages", "dies_per_package", "llcs_per_package", "cores_per_llc", "threads_per_core",
            "nodes_per_package", "llcs_per_quadrant", "llc_level", "l1d_kib", "l2_kib", "memory_mib_per_package", "llc_mib"];
        let mut lines: Vec<String> = keys.iter().map(|(key, value)| format!("{} = {value}\n", KEYS[*key])).collect();
        lines.sort();
        lines.dedup_by(|a, b| a.split(' ').next() == b.split(' ').next());
        let text = format!("[geometry]\n{}[latency_ns]\nsame_llc = {{ ns = 1 }}\nsame_package = {{ ns = 2 }}\ncross_package = {{ ns = 3 }}\n", lines.concat());
        if let Ok(host) = read("x", &text) {
            prop_assert!(host.cpus.len() <= MAX_HOST_CPUS as usize);
            prop_assert_eq!(read("x", &write(&host)), Ok(host));
        }
    }
}
