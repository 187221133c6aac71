//! Time from the shell to the answer, target below 20 ms for the largest file: start, read, decide, print.

use std::process::{Command, Stdio};

use criterion::{Criterion, criterion_group, criterion_main};
use hwlocality::Topology;
use hwlocality::topology::export::xml::XMLExportFlags;

/// 512 CPUs under 32 LLCs, with every level of cache: some 300 kB of XML.
const SYNTHETIC: &str = "pack:2 numa:1 l3:16 l2:8 l1d:1 l1i:1 core:1 pu:2";

fn vtopo(arguments: &[&str]) {
    let status = Command::new(env!("CARGO_BIN_EXE_vtopo"))
        .args(arguments)
        .stdout(Stdio::null())
        .status()
        .expect("cargo built it");
    assert!(status.success(), "{arguments:?}");
}

fn processes(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("host.xml");
    let builder = Topology::builder()
        .from_synthetic(SYNTHETIC)
        .expect("the text is ours");
    let topology = builder.build().expect("the text is ours");
    let xml = topology
        .export_xml(XMLExportFlags::empty())
        .expect("hwloc writes what it made")
        .to_string();
    std::fs::write(&path, xml).expect("the folder is ours");
    let file = path.to_str().expect("temporary paths are plain");
    let vm = ["shape", "--vcpus", "16", "--memory", "64G", "--host"];
    for (name, arguments) in [
        ("vtopo --version", vec!["--version"]),
        ("vtopo host PRESET", vec!["host", "epyc-7702-2s"]),
        ("vtopo host FILE", vec!["host", file]),
        ("vtopo host FILE --json", vec!["host", file, "--json"]),
        (
            "vtopo shape --host PRESET",
            [&vm[..], &["epyc-7702-2s"]].concat(),
        ),
        ("vtopo shape --host FILE", [&vm[..], &[file]].concat()),
    ] {
        criterion.bench_function(name, |bencher| bencher.iter(|| vtopo(&arguments)));
    }
}

criterion_group!(benches, processes);
criterion_main!(benches);
