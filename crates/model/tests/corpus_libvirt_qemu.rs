//! Replays the hostile files of the fuzz targets `libvirt` and `qemu`: read, lint, edit to the same, edit to another
//! shape, write as every format.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use model::formats::{Format, Target};
use model::{GuestLlc, GuestNode, GuestTopology, Spec};

/// A shape that most files do not have.
fn other_shape(vm: &Spec) -> Spec {
    let mut topology = GuestTopology::uniform(7, [2, 2, 1, 2, 1]);
    let llcs = topology.blocks(2).into_iter();
    topology.llcs = llcs
        .map(|vcpus| GuestLlc {
            vcpus,
            size_bytes: 0,
            guest_size_bytes: 0,
        })
        .collect();
    let node = |vcpus: &str, host| GuestNode {
        vcpus: vcpus.parse().unwrap(),
        memory_mib: 64,
        host_nodes: vec![host],
    };
    topology.numa_nodes = vec![node("0-3", 0), node("4-6", 1)];
    Spec {
        vcpus: 7,
        max_vcpus: Some(8),
        memory_mib: 128,
        topology: Some(topology),
        ..vm.clone()
    }
}

/// Replays all files of a format; how many were read and how many refused.
fn replay(format: Format) -> [usize; 2] {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let target = Target::default();
    let mut counts = [0, 0];
    for entry in fs::read_dir(corpus.join(format.as_str())).unwrap() {
        let path = entry.unwrap().path();
        let name = path.display();
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        let Ok(vm) = format.read(&text) else {
            assert!(format.lint(&text).is_err(), "{name}");
            counts[1] += 1;
            continue;
        };
        counts[0] += 1;
        format.lint(&text).unwrap();
        assert_eq!(
            format.edit(&text, &vm, &target).unwrap().text,
            text,
            "{name}"
        );
        let other = other_shape(&vm);
        let edited = format.edit(&text, &other, &target).unwrap().text;
        let read = format
            .read(&edited)
            .unwrap_or_else(|error| panic!("{name}: {error}\n{edited}"));
        assert_eq!(read.vcpus, 7, "{name}:\n{edited}");
        for format in Format::ALL {
            assert!(!format.write(&vm, &target).text.is_empty(), "{name}");
        }
    }
    counts
}

#[test]
fn hostile_domains_are_survived() {
    let [read, refused] = replay(Format::Libvirt);
    assert!(
        read >= 20 && refused >= 15,
        "{read} read, {refused} refused"
    );
}

#[test]
fn hostile_command_lines_are_survived() {
    let [read, refused] = replay(Format::Qemu);
    assert!(
        read >= 25 && refused >= 15,
        "{read} read, {refused} refused"
    );
}
