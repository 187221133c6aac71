//! hwloc XML of 32 real and odd machines, with hwloc's own count of their parts as outside truth. The files lie beside
//! the project, not in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use live::discover;
use model::host::LlcSource;

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
