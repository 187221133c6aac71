//! Time to place: whole hosts of growing size, one more VM beside many that sit, and a fleet. Figures and how they were
//! taken are in docs/performance.md.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use model::host::{Cache, Core, Node, Parts};
use model::placement::Reserve;
use model::{CpuId, CpuSet, Host, Vm, host_file};
use policy::fleet::{self, Member};
use policy::place::{Best, PatientBest};
use policy::plan::Snapshot;
use policy::reconcile::Policy;

/// The main host of the EPYC study: 256 threads under 32 LLCs.
const ROME: &str = include_str!("../../../machines/epyc-7702-2s.toml");
/// vCPUs of the VMs, over and over: the mix of a `VMmark` tile, small VMs mostly.
const SIZES: [u32; 8] = [2, 4, 8, 4, 2, 8, 4, 2];

fn rome() -> Arc<Host> {
    Arc::new(host_file::read("epyc-7702-2s", ROME).expect("the preset is ours"))
}

/// A machine of so many threads: packages of two nodes, nodes of 8 LLCs, LLCs of 8 cores with 2 threads each.
fn machine(threads: u32) -> Arc<Host> {
    let n_cores = threads / 2;
    let block = |size: u32, index: u32| -> CpuSet {
        let cores = index * size..((index + 1) * size).min(n_cores);
        cores
            .flat_map(|core| [core, core + n_cores])
            .map(CpuId)
            .collect()
    };
    let blocks = |size: u32| (0..n_cores.div_ceil(size)).map(move |index| block(size, index));
    let node = |(id, cpus): (u32, CpuSet)| Node {
        id,
        cpus,
        memory_mib: 1 << 20,
        hugepages: Vec::new(),
    };
    let parts = Parts {
        name: format!("{threads} threads"),
        cpus: CpuSet::from_range(0..threads),
        cores: blocks(1)
            .map(|cpus| Core {
                cpus,
                efficiency: 0,
            })
            .collect(),
        caches: blocks(8)
            .map(|cpus| Cache {
                level: 3,
                kind: 'u',
                size_bytes: 32 << 20,
                cpus,
            })
            .collect(),
        nodes: (0..).zip(blocks(64)).map(node).collect(),
        packages: blocks(128).collect(),
        ..Parts::default()
    };
    Arc::new(Host::from_parts(parts).expect("a regular machine"))
}

/// VMs with so many vCPUs in all, with 1 GiB for each.
fn vms(vcpus: u32) -> Vec<Vm> {
    let mut left = vcpus;
    let mut vms = Vec::new();
    for size in SIZES.into_iter().cycle() {
        if left == 0 {
            break;
        }
        let size = size.min(left);
        vms.push(Vm::new(
            format!("vm{}", vms.len()),
            size,
            1024 * u64::from(size),
        ));
        left -= size;
    }
    vms
}

fn snapshot(host: &Arc<Host>, vcpus: u32) -> Snapshot {
    Snapshot::empty(host.clone(), vms(vcpus), Reserve::default())
}

/// Everything on an empty host. 344 vCPUs on 256 threads are the eight tiles of the EPYC study (claim S3-20).
fn whole_hosts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("place/all");
    let rows = [
        (16, machine(16)),
        (256, rome()),
        (344, rome()),
        (4096, machine(4096)),
        (65_536, machine(65_536)),
    ];
    for (vcpus, host) in rows {
        if vcpus > 4096 {
            group.sample_size(10);
        }
        let now = snapshot(&host, vcpus);
        group.bench_function(BenchmarkId::new("best", vcpus), |bencher| {
            bencher.iter(|| Best.plan(black_box(&now)));
        });
    }
    let now = snapshot(&rome(), 344);
    group.sample_size(10);
    group.bench_function(BenchmarkId::new("patient", 344), |bencher| {
        bencher.iter(|| PatientBest.plan(black_box(&now)));
    });
    group.finish();
}

/// One more VM of 8 vCPUs beside so many that sit and may not move, on a host of 8,192 threads.
fn one_more(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("place/one more beside");
    let host = machine(8192);
    for vcpus in [0, 512, 2048, 7168] {
        let mut now = snapshot(&host, vcpus);
        now.placement = Best.plan(&now).placement;
        (now.budget.vcpus, now.budget.memory_mib) = (0, 0);
        now.vms.push(policy::plan::VmState {
            vm: Vm::new("more", 8, 8192),
            moved_ns: None,
        });
        let n = now.vms.len() - 1;
        group.bench_function(BenchmarkId::from_parameter(n), |bencher| {
            bencher.iter(|| Best.plan(black_box(&now)));
        });
    }
    group.finish();
}

/// 10,000 VMs of 2 to 32 vCPUs on 1,000 hosts.
fn fleets(criterion: &mut Criterion) {
    let host = rome();
    let members: Vec<Member> = (0..1000)
        .map(|_| Member {
            host: host.clone(),
            reserve: Reserve::default(),
        })
        .collect();
    let sizes = [2, 4, 8, 8, 16, 4, 2, 32];
    let vms: Vec<Vm> = (0..10_000)
        .map(|index| Vm::new(format!("vm{index}"), sizes[index % 8], 65_536))
        .collect();
    let mut group = criterion.benchmark_group("place/fleet");
    group.sample_size(10);
    group.bench_function("10000 VMs on 1000 hosts", |bencher| {
        bencher.iter(|| fleet::place(black_box(&members), &vms));
    });
    group.finish();
}

criterion_group!(benches, whole_hosts, one_more, fleets);
criterion_main!(benches);
