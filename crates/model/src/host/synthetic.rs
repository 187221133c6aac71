//! Regular machines in one line, for presets, what-ifs and tests.

use super::{Cache, Core, Host, Node, Parts};
use crate::cpuset::{CpuId, CpuSet};

/// Most CPUs of a synthetic machine: what Linux is built for at most (`NR_CPUS` with `MAXSMP`).
const MAX_CPUS: u32 = 8192;

/// A machine whose parts are all alike. Levels are per parent, outermost first; 0 counts as 1, except in sizes, where it
/// means unknown. CPUs are numbered as Linux does on x86 servers: the first threads of all cores, then their siblings.
///
/// ```
/// use model::host::Synthetic;
/// let epyc_7763 = Synthetic { packages: 1, llcs_per_node: 8, cores_per_llc: 8, threads_per_core: 2, llc_mib: 32,
///     node_mib: 524_288, ..Synthetic::default() }.host("epyc-7763-1s");
/// assert_eq!((epyc_7763.cpus.len(), epyc_7763.llcs.len()), (128, 8));
/// assert_eq!(epyc_7763.cores[0].cpus.to_string(), "0,64");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Synthetic {
    /// Processor packages.
    pub packages: u32,
    /// NUMA nodes in a package.
    pub nodes_per_package: u32,
    /// Last-level caches in a node.
    pub llcs_per_node: u32,
    /// Cores under a last-level cache.
    pub cores_per_llc: u32,
    /// Threads of a core.
    pub threads_per_core: u32,
    /// Size of a last-level cache in MiB.
    pub llc_mib: u64,
    /// Memory of a node in MiB.
    pub node_mib: u64,
}

impl Synthetic {
    /// The machine, with a name. It has at most 8192 CPUs, Linux's own limit.
    #[expect(
        clippy::missing_panics_doc,
        reason = "blocks of one numbering make a host"
    )]
    pub fn host(self, name: &str) -> Host {
        let per_llc = self.cores_per_llc.max(1);
        let per_node = per_llc.saturating_mul(self.llcs_per_node.max(1));
        let per_package = per_node.saturating_mul(self.nodes_per_package.max(1));
        let n_cores = per_package
            .saturating_mul(self.packages.max(1))
            .min(MAX_CPUS);
        let threads = self.threads_per_core.clamp(1, MAX_CPUS / n_cores);
        let cpus_of = |cores: std::ops::Range<u32>| -> CpuSet {
            (0..threads)
                .flat_map(|thread| cores.clone().map(move |core| thread * n_cores + core))
                .map(CpuId)
                .collect()
        };
        let blocks = |size: u32| -> Vec<CpuSet> {
            (0..n_cores.div_ceil(size))
                .map(|block| cpus_of(block * size..n_cores.min(block.saturating_add(1) * size)))
                .collect()
        };
        let cache = |cpus| Cache {
            level: 3,
            kind: 'u',
            size_bytes: self.llc_mib.saturating_mul(1 << 20),
            cpus,
        };
        let node = |(id, cpus)| Node {
            id,
            cpus,
            memory_mib: self.node_mib,
            hugepages: Vec::new(),
        };
        let core = |cpus| Core {
            cpus,
            efficiency: 0,
        };
        Host::from_parts(Parts {
            name: name.to_owned(),
            cpus: cpus_of(0..n_cores),
            cores: blocks(1).into_iter().map(core).collect(),
            nodes: (0..).zip(blocks(per_node)).map(node).collect(),
            packages: blocks(per_package),
            caches: blocks(per_llc).into_iter().map(cache).collect(),
            ..Parts::default()
        })
        .expect("blocks of one numbering neither overlap nor are empty")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_first_threads_first_and_nests_the_levels() {
        let host = Synthetic {
            packages: 2,
            nodes_per_package: 2,
            llcs_per_node: 2,
            cores_per_llc: 3,
            threads_per_core: 2,
            llc_mib: 16,
            node_mib: 1024,
        }
        .host("small");
        let text = |set: &CpuSet| set.to_string();
        assert_eq!(text(&host.cpuset()), "0-47");
        assert_eq!(text(&host.cores[5].cpus), "5,29");
        assert_eq!(text(&host.llcs[1].cpus), "3-5,27-29");
        assert_eq!(host.llcs[1].size_bytes, 16 << 20);
        assert_eq!(text(&host.nodes[3].cpus), "18-23,42-47");
        assert_eq!((host.nodes[3].id, host.memory_mib()), (3, 4096));
        assert_eq!(text(&host.packages[1].cpus), "12-23,36-47");
    }

    #[test]
    fn zero_counts_as_one_and_hostile_numbers_stay_bounded() {
        assert_eq!(Synthetic::default().host("one").cpus.len(), 1);
        let many = Synthetic {
            packages: u32::MAX,
            nodes_per_package: u32::MAX,
            llcs_per_node: 1,
            cores_per_llc: u32::MAX,
            threads_per_core: u32::MAX,
            llc_mib: u64::MAX,
            node_mib: 1,
        };
        assert_eq!(many.host("many").cpus.len(), MAX_CPUS as usize);
        let odd = Synthetic {
            cores_per_llc: 3000,
            threads_per_core: 3,
            ..Synthetic::default()
        };
        assert_eq!(odd.host("odd").cpus.len(), 6000);
    }
}
