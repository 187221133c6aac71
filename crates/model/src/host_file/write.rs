//! Writes any host as a host file, by sets.

use toml::Spanned;

use super::bandwidth;
use super::schema::{
    CacheTable, CoreKind, DeviceTable, DistancesTable, FigureTable, File, LatencyTable, NodeTable,
    Number, PoolTable, ProcessorTable, SetsTable, VendorName,
};
use crate::cpuset::CpuSet;
use crate::host::{Cache, Host, Latency, Node, Processor, Vendor};

/// The host as a file; [`read`](super::read) with the host's name gives the same host back, if it is within the limits
/// of host files.
#[expect(
    clippy::missing_panics_doc,
    reason = "only maps without string keys and i64 overflow fail"
)]
pub fn write(host: &Host) -> String {
    let file = File {
        processor: Some(processor(&host.processor)),
        sets: Some(plain(sets(host))),
        node: Some(host.nodes.iter().map(|table| plain(node(table))).collect()),
        cache: some(caches(&host.caches)),
        device: some(devices(host)),
        distances: (!host.distances.is_empty()).then(|| {
            plain(DistancesTable {
                matrix: Some(host.distances.clone()),
                ..DistancesTable::default()
            })
        }),
        latency_ns: host.latency.as_ref().map(|table| plain(latency(table))),
        bandwidth_gbs: host
            .bandwidth
            .as_ref()
            .map(|table| plain(bandwidth::table(table))),
        ..File::default()
    };
    toml::to_string(&file).expect("tables of strings and numbers below 2^63 are TOML")
}

fn processor(processor: &Processor) -> ProcessorTable {
    ProcessorTable {
        vendor: Some(match processor.vendor {
            Vendor::Amd => VendorName::Amd,
            Vendor::Intel => VendorName::Intel,
            Vendor::Other => VendorName::Other,
        }),
        model: Some(processor.model.clone()),
        family: processor.family,
        model_number: processor.model_number,
    }
}

fn sets(host: &Host) -> SetsTable {
    let texts = |sets: &mut dyn Iterator<Item = &CpuSet>| some(sets.map(text).collect());
    let optional = |set: &CpuSet| (!set.is_empty()).then(|| text(set));
    let packages = host.packages.iter().filter(|_| host.packages_known);
    SetsTable {
        cpus: Some(text(&host.cpuset())),
        cores: texts(&mut host.cores.iter().map(|core| &core.cpus)),
        core_kinds: some(core_kinds(host)),
        dies: texts(&mut host.dies.iter()),
        packages: texts(&mut packages.map(|package| &package.cpus)),
        offline: optional(&host.offline),
        restricted: optional(&host.restricted),
        isolated: optional(&host.isolated),
    }
}

/// The CPUs of the cores of each kind above the slowest.
fn core_kinds(host: &Host) -> Vec<CoreKind> {
    let mut ranks: Vec<u8> = host
        .cores
        .iter()
        .map(|core| core.efficiency)
        .filter(|&rank| rank > 0)
        .collect();
    ranks.sort_unstable();
    ranks.dedup();
    let kind = |efficiency| {
        let cores = host
            .cores
            .iter()
            .filter(|core| core.efficiency == efficiency);
        let cpus = cores.fold(CpuSet::new(), |all, core| all.union(&core.cpus));
        CoreKind {
            cpus: text(&cpus),
            efficiency,
        }
    };
    ranks.into_iter().map(kind).collect()
}

fn node(node: &Node) -> NodeTable {
    let pools = node.hugepages.iter().map(|pool| PoolTable {
        size_kib: number(pool.size_kib),
        total: number(pool.total),
        free: number(pool.free),
    });
    NodeTable {
        id: Some(plain(i64::from(node.id))),
        cpus: Some(text(&node.cpus)),
        memory_mib: Some(number(node.memory_mib)),
        hugepages: some(pools.collect()),
    }
}

/// One table for each run of equal caches, so that their order is kept.
fn caches(caches: &[Cache]) -> Vec<Spanned<CacheTable>> {
    let alike =
        |a: &Cache, b: &Cache| (a.level, a.kind, a.size_bytes) == (b.level, b.kind, b.size_bytes);
    let table = |run: &[Cache]| {
        plain(CacheTable {
            level: run[0].level,
            kind: run[0].kind,
            size_bytes: number(run[0].size_bytes),
            cpus: run.iter().map(|cache| text(&cache.cpus)).collect(),
        })
    };
    caches.chunk_by(alike).map(table).collect()
}

fn devices(host: &Host) -> Vec<DeviceTable> {
    let devices = host.devices.iter().map(|device| DeviceTable {
        address: device.address.clone(),
        class: device.class.clone(),
        os_names: device.os_names.clone(),
        node: device.node,
    });
    devices.collect()
}

fn latency(latency: &Latency) -> LatencyTable {
    let figure = |ns: Option<f64>| {
        ns.map(|ns| FigureTable {
            ns: plain(ns),
            range: None,
            evidence: None,
            source: None,
        })
    };
    LatencyTable {
        smt: figure(latency.smt_ns),
        home_remote: figure(latency.home_remote_ns),
        dram_local: figure(latency.dram_local_ns),
        dram_remote: figure(latency.dram_remote_ns),
        llc_matrix: some(latency.llc_ns.clone()),
        measured_here: Some(latency.measured_here),
        source: Some(latency.source.clone()),
        ..LatencyTable::default()
    }
}

fn plain<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

/// TOML has signed 64-bit numbers; no machine has 2^63 of anything.
fn number(value: u64) -> Number {
    plain(i64::try_from(value).unwrap_or(i64::MAX))
}

fn text(set: &CpuSet) -> Spanned<String> {
    plain(set.to_string())
}

fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}
