//! Time of an epoch of the hardware model, target below 100 µs: 344 vCPUs on two EPYC 7702 (256 threads, 32 LLCs).

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use model::host_file;
use sim::machine::contention::{Contention, WorldLoad};
use sim::machine::fabric::Fabric;
use sim::machine::vector::Vector;
use sim::time::MS;

const HOST: &str = include_str!("../../../machines/epyc-7702-2s.toml");
const WORLDS: usize = 344;
const LLCS: usize = 32;

/// OLTP and something that streams, both from the reference's start values.
const VECTORS: [Vector; 2] = [
    Vector {
        misses_per_us: 8.0,
        working_set: 16e6,
        shared_lines_per_us: 30.0,
        ..Vector::COMPUTE
    },
    Vector {
        misses_per_us: 12.0,
        alpha: 0.4,
        floor: 0.3,
        working_set: 64e6,
        ..Vector::COMPUTE
    },
];

/// Each world ran under `spread` LLCs, `vcpus` worlds are a VM; the phase moves load a little from epoch to epoch.
fn places(spread: usize, phase: u64) -> Vec<Vec<(u32, u64)>> {
    let of_world = |world: usize| {
        let mut ran: Vec<(u32, u64)> = (0..spread)
            .map(|step| {
                let llc = (world / 4 + step * LLCS / spread) % LLCS;
                let ns = MS / spread as u64 * (60 + (world as u64 + phase) % 17) / 100;
                (u32::try_from(llc).expect("few LLCs"), ns)
            })
            .collect();
        ran.sort_unstable();
        ran
    };
    (0..WORLDS).map(of_world).collect()
}

fn loads(ran: &[Vec<(u32, u64)>], vcpus: usize) -> Vec<WorldLoad<'_>> {
    let load = |(world, ran)| {
        let vm = u32::try_from(world / vcpus).expect("few VMs");
        WorldLoad {
            vm,
            vector: vm % 2,
            ran,
            memory: if vm % 3 == 0 {
                &[0.5, 0.5]
            } else {
                &[1.0, 0.0]
            },
        }
    };
    ran.iter()
        .map(Vec::as_slice)
        .enumerate()
        .map(load)
        .collect()
}

fn update(criterion: &mut Criterion) {
    let host = host_file::read("epyc-7702-2s", HOST).expect("the preset is ours");
    let fabric = Fabric::new(&host);
    let mut group = criterion.benchmark_group("machine/update");
    for (vcpus, spread) in [(8, 1), (8, 4), (8, 32), (1, 2)] {
        let epochs: Vec<_> = (0..8).map(|phase| places(spread, phase)).collect();
        let epochs: Vec<_> = epochs.iter().map(|ran| loads(ran, vcpus)).collect();
        let mut contention = Contention::new(&fabric, &VECTORS);
        let mut epoch = 0;
        let name = format!("{vcpus} vCPUs a VM");
        group.bench_function(
            BenchmarkId::new(name, format!("{spread} LLCs a world")),
            |bencher| {
                bencher.iter(|| {
                    epoch = (epoch + 1) % epochs.len();
                    contention.update(&fabric, black_box(&epochs[epoch]), MS);
                });
            },
        );
    }
    group.finish();
}

/// A dispatch: the speed of every world on some CPU, the first time after an update and once more.
fn speed(criterion: &mut Criterion) {
    let host = host_file::read("epyc-7702-2s", HOST).expect("the preset is ours");
    let fabric = Fabric::new(&host);
    let mut group = criterion.benchmark_group("machine/speed of 344 worlds");
    for spread in [1, 4, 32] {
        let ran = places(spread, 0);
        let loads = loads(&ran, 8);
        let mut contention = Contention::new(&fabric, &VECTORS);
        contention.update(&fabric, &loads, MS);
        group.bench_function(format!("{spread} LLCs a world, not kept"), |bencher| {
            bencher.iter(|| {
                let times = (0..WORLDS).map(|world| contention.time_ns(&fabric, world, 0));
                times.sum::<f64>()
            });
        });
        group.bench_function(format!("{spread} LLCs a world, kept"), |bencher| {
            bencher.iter(|| {
                let speeds = (0..WORLDS).map(|world| contention.speed(&fabric, world, 0));
                speeds.sum::<u32>()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, update, speed);
criterion_main!(benches);
