//! Time to read a large hwloc XML (300 kB), and to see this system. Target: 350 kB below 10 ms.

use criterion::{Criterion, criterion_group, criterion_main};
use hwlocality::Topology;
use hwlocality::topology::export::xml::XMLExportFlags;
use live::discover;

/// 512 CPUs under 32 LLCs, with every level of cache: some 300 kB of XML.
const SYNTHETIC: &str = "pack:2 numa:1 l3:16 l2:8 l1d:1 l1i:1 core:1 pu:2";

fn read(criterion: &mut Criterion) {
    let builder = Topology::builder()
        .from_synthetic(SYNTHETIC)
        .expect("the text is ours");
    let topology = builder.build().expect("the text is ours");
    let xml = topology
        .export_xml(XMLExportFlags::empty())
        .expect("hwloc writes what it made")
        .to_string();
    let kb = xml.len() / 1000;
    criterion.bench_function(&format!("from_xml/{kb}kB"), |bencher| {
        bencher.iter(|| discover::from_xml("bench", &xml).expect("hwloc wrote it"));
    });
    criterion.bench_function("from_synthetic", |bencher| {
        bencher.iter(|| discover::from_synthetic(SYNTHETIC).expect("the text is ours"));
    });
    criterion.bench_function("this_system", |bencher| {
        bencher.iter(|| discover::this_system().expect("this system is readable"));
    });
}

criterion_group!(benches, read);
criterion_main!(benches);
