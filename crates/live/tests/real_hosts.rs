//! hwloc XML of 32 real and odd machines, with hwloc's own count of their parts as outside truth. The files lie beside
//! the project, not in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use live::discover;
use model::host::LlcSource;

#[expect(clippy::print_stdout, reason = "a skipped test says so")]
fn folder() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/hosts");
    if folder.join("SUMMARY.csv").exists() {
        return Some(folder);
    }
    println!("skipped: the hwloc XML of real machines is not beside the project");
    None
}

/// `8x6,2x4` from the sizes of groups, as the summary writes them: count x size, by ascending size.
fn histogram(sizes: impl Iterator<Item = usize>) -> String {
    let mut counts = BTreeMap::new();
    for size in sizes {
        *counts.entry(size).or_insert(0) += 1;
    }
    counts
        .iter()
        .map(|(size, count)| format!("{count}x{size}"))
        .collect::<Vec<_>>()
        .join("+")
}

#[test]
fn every_real_host_counts_as_hwloc_says() {
    let Some(folder) = folder() else { return };
    let summary = fs::read_to_string(folder.join("SUMMARY.csv")).unwrap();
    let mut checked = 0;
    for row in summary.lines().skip(1) {
        let columns: Vec<&str> = row.split(',').collect();
        let [file, cpus, cores, llcs, nodes, packages, per_llc, per_node] = columns[..] else {
            panic!("{row}")
        };
        let text = fs::read_to_string(folder.join(file)).unwrap();
        let host =
            discover::from_xml(file, &text).unwrap_or_else(|error| panic!("{file}: {error}"));
        let ours =
            [host.cpus.len(), host.cores.len(), host.nodes.len()].map(|count| count.to_string());
        assert_eq!(ours, [cpus, cores, nodes], "{file}: CPUs, cores, nodes");
        if host.packages_known {
            assert_eq!(
                host.packages.len().to_string(),
                packages,
                "{file}: packages"
            );
        } else {
            assert_eq!(packages, "", "{file}: packages");
        }
        let of_l3 = host.llcs.iter().filter(|llc| llc.level == 3);
        assert_eq!(of_l3.clone().count().to_string(), llcs, "{file}: L3s");
        assert_eq!(
            histogram(of_l3.map(|llc| llc.cpus.len())),
            per_llc,
            "{file}: CPUs per L3"
        );
        assert_eq!(
            histogram(host.nodes.iter().map(|node| node.cpus.len())),
            per_node,
            "{file}: CPUs per node"
        );
        if llcs == "0" {
            assert_ne!(host.llc_source, LlcSource::L3, "{file}");
        }
        checked += 1;
    }
    assert_eq!(checked, 32);
}

#[test]
fn odd_machines_are_named_as_what_they_are() {
    let Some(folder) = folder() else { return };
    for (file, code) in [
        ("sysfs-20em64t-hybrid-1p6c2t+2ca4co1t.xml", "hybrid-cores"),
        ("cpuid-Intel-RaptorLake-Corei7-1370P.xml", "hybrid-cores"),
        ("sysfs-16em64t-4s2c2t-offlines.xml", "offline-cpus"),
        ("sysfs-16amd64-8n2c-cpusets.xml", "restricted-cpus"),
        ("sysfs-32amd64-4s2n4c-cgroup2.xml", "restricted-cpus"),
        ("mpibind-coral-butte-hwloc1.xml", "memory-only-nodes"),
        (
            "cpuid-AMD-1Ah-Zen5StrixPoint-RyzenAI9HX370.xml",
            "uneven-llcs",
        ),
        ("cpuid-AMD-19h-Zen3-2xEpyc-7763.xml", "smt-off"),
        ("cpuid-AMD-19h-Zen3-2xEpyc-7763.xml", "node-interleaving"),
        ("sysfs-2ps3-2t.xml", "no-package-information"),
        ("sysfs-2arm-2c.xml", "no-cache-information"),
        ("cpuid-Intel-Core-2xXeon-E5345.xml", "llc-is-l2"),
        ("sysfs-fakeheterocpunuma.xml", "cpus-without-node"),
    ] {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        let host = discover::from_xml(file, &text).unwrap();
        let codes: Vec<&str> = model::host::findings(&host)
            .iter()
            .map(|finding| finding.code)
            .collect();
        assert!(
            codes.contains(&code),
            "{file}: {code} is not among {codes:?}"
        );
    }
    let power = fs::read_to_string(folder.join("mpibind-coral-butte-hwloc1.xml")).unwrap();
    let power = discover::from_xml("power", &power).unwrap();
    assert!(
        power.nodes.iter().all(|node| node.hugepages.is_empty()),
        "base pages are no hugepages"
    );
}
