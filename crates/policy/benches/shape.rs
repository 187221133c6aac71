//! Time to shape one VM, target below 50 µs: whoever places many VMs asks this for each.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use model::{Host, Spec, host_file};
use policy::shape::{Goal, Overrides, Request, Rule, shape};

/// Two packages with 16 LLCs of 4 cores each, and two with 12 of 8.
const HOSTS: [(&str, &str); 2] = [
    (
        "epyc-7702-2s",
        include_str!("../../../machines/epyc-7702-2s.toml"),
    ),
    (
        "epyc-9654-2s",
        include_str!("../../../machines/epyc-9654-2s.toml"),
    ),
];

fn auto(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("shape/auto");
    for (name, text) in HOSTS {
        let host: Host = host_file::read(name, text).expect("the preset is ours");
        for vcpus in [16, 128] {
            let vm = Spec {
                name: "vm1".into(),
                vcpus,
                memory_mib: 4096 * u64::from(vcpus),
                ..Spec::default()
            };
            let request = Request {
                vm: &vm,
                host: &host,
                rule: Rule::Auto,
                goal: Goal::Throughput,
                overrides: Overrides::default(),
                limits: Vec::new(),
            };
            group.bench_function(BenchmarkId::new(name, vcpus), |bencher| {
                bencher.iter(|| shape(black_box(&request)));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, auto);
criterion_main!(benches);
