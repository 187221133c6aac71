//! What `/sys` knows of this system and hwloc does not: hugepages in use, isolated and offline CPUs.

use std::fs;
use std::path::Path;

use model::CpuSet;
use model::host::{HugepagePool, Parts};

/// Completes the parts of this system. What cannot be read stays as hwloc gave it.
pub(super) fn complete(parts: &mut Parts) {
    complete_from(parts, Path::new("/sys/devices/system"));
}

fn complete_from(parts: &mut Parts, system: &Path) {
    let cpus =
        |file: &str| -> Option<CpuSet> { read(&system.join("cpu").join(file))?.parse().ok() };
    if let (Some(present), Some(online)) = (cpus("present"), cpus("online")) {
        parts.offline = present.difference(&online);
        parts.restricted = online.difference(&parts.cpus);
    }
    if let Some(isolated) = cpus("isolated") {
        parts.isolated = isolated;
    }
    for node in &mut parts.nodes {
        let pools = hugepage_pools(&system.join(format!("node/node{}/hugepages", node.id)));
        if !pools.is_empty() {
            node.hugepages = pools;
        }
    }
}

fn hugepage_pools(folder: &Path) -> Vec<HugepagePool> {
    let number = |path: &Path| read(path)?.parse::<u64>().ok();
    let pool = |entry: fs::DirEntry| {
        let size_kib = entry
            .file_name()
            .to_str()?
            .strip_prefix("hugepages-")?
            .strip_suffix("kB")?
            .parse()
            .ok()?;
        let total = number(&entry.path().join("nr_hugepages"))?;
        let free = number(&entry.path().join("free_hugepages"))?;
        Some(HugepagePool {
            size_kib,
            total,
            free,
        })
    };
    let mut pools: Vec<HugepagePool> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(pool)
        .filter(|pool| pool.total > 0)
        .collect();
    pools.sort_by_key(|pool| pool.size_kib);
    pools
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use model::host::Node;

    use super::*;

    #[test]
    fn reads_pools_offline_and_isolated_cpus_of_a_fake_system() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("cpu/present", "0-7\n");
        write("cpu/online", "0-5\n");
        write("cpu/isolated", "4-5\n");
        write(
            "node/node1/hugepages/hugepages-2048kB/nr_hugepages",
            "512\n",
        );
        write(
            "node/node1/hugepages/hugepages-2048kB/free_hugepages",
            "100\n",
        );
        write(
            "node/node1/hugepages/hugepages-1048576kB/nr_hugepages",
            "0\n",
        );
        write(
            "node/node1/hugepages/hugepages-1048576kB/free_hugepages",
            "0\n",
        );
        let cpus: CpuSet = "0-4".parse().unwrap();
        let node = Node {
            id: 1,
            cpus: cpus.clone(),
            memory_mib: 4096,
            hugepages: vec![],
        };
        let mut parts = Parts {
            cpus,
            nodes: vec![node],
            ..Parts::default()
        };
        complete_from(&mut parts, folder.path());
        let sets = [&parts.offline, &parts.restricted, &parts.isolated].map(CpuSet::to_string);
        assert_eq!(sets, ["6-7", "5", "4-5"]);
        assert_eq!(
            parts.nodes[0].hugepages,
            [HugepagePool {
                size_kib: 2048,
                total: 512,
                free: 100
            }]
        );
    }
}
