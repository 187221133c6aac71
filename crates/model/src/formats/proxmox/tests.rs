use proptest::prelude::*;

use super::*;
use crate::finding::Severity;
use crate::formats::lines::table::{codes, difference, graded, rows, shape};
use crate::guest::{GuestLlc, GuestNode, Level};
use crate::host::Vendor;
use crate::vm::Device;

const DATABASE: &str = include_str!("../../../tests/data/proxmox/100.conf");
const BUILD: &str = include_str!("../../../tests/data/proxmox/101.conf");
const OLD: &str = include_str!("../../../tests/data/proxmox/102.conf");

fn node(vcpus: &str, memory_mib: u64, host_nodes: &[u32]) -> GuestNode {
    GuestNode {
        vcpus: vcpus.parse().unwrap(),
        memory_mib,
        host_nodes: host_nodes.to_vec(),
    }
}

fn device(name: &str, address: &str) -> Device {
    Device {
        name: name.into(),
        address: address.into(),
        guest_node: None,
    }
}

fn edited(text: &str, change: impl Fn(&mut Spec)) -> Written {
    let mut spec = read(text).unwrap();
    change(&mut spec);
    edit(text, &spec, &Target::default()).unwrap()
}

/// A topology with one LLC per object of a level.
fn with_llcs(vcpus: u32, levels: [u32; 5], level: Level) -> GuestTopology {
    let mut shape = GuestTopology::uniform(vcpus, levels);
    shape.llcs = llcs_at(&shape, level, 0);
    shape
}

fn spec_of(shape: GuestTopology) -> Spec {
    Spec {
        vcpus: shape.vcpus,
        max_vcpus: (shape.maxcpus() > shape.vcpus).then_some(shape.maxcpus()),
        memory_mib: 4096,
        cpu: GuestCpu::Named("EPYC-Milan".into()),
        topology: Some(shape),
        ..Spec::default()
    }
}

/// The difference between the main parts of two files.
fn main_difference(old: &str, new: &str) -> Vec<String> {
    let [old, new] = [old, new].map(|text| text.split("\n[").next().unwrap());
    difference(old, new)
}

#[test]
fn reads_the_current_part_only() {
    let spec = read(DATABASE).unwrap();
    let mut shape = GuestTopology::uniform(16, [2, 1, 1, 8, 1]);
    shape.numa_nodes = vec![node("0-7", 32768, &[0]), node("8-15", 32768, &[1])];
    let expected = Spec {
        name: "db1.example.org".into(),
        vcpus: 16,
        memory_mib: 65536,
        guest_os: Some("l26".into()),
        topology: Some(shape),
        cpu: GuestCpu::Named("EPYC-Milan".into()),
        hugepage_kib: Some(1 << 20),
        devices: vec![device("hostpci0", "0000:41:00.0")],
        ..Spec::default()
    };
    assert_eq!(spec, expected);
    assert_eq!(
        codes(&lint(DATABASE).unwrap(), ""),
        ["numa-strict", "numa-strict"]
    );
}

#[test]
fn reads_what_args_make_of_the_topology() {
    let spec = read(BUILD).unwrap();
    assert_eq!(
        spec.topology,
        Some(with_llcs(13, [1, 4, 1, 4, 1], Level::Die))
    );
    assert_eq!(
        (spec.vcpus, spec.max_vcpus, spec.memory_mib),
        (13, Some(16), 32768)
    );
    assert_eq!(spec.cpu, GuestCpu::Host);
    assert_eq!(spec.pins.len(), 13);
    assert_eq!(spec.pins[12].cpus.to_string(), "0-7,64-71");
    assert_eq!(codes(&lint(BUILD).unwrap(), ""), ["affinity-one-set"]);
}

#[test]
fn reads_a_file_of_long_ago() {
    let spec = read(OLD).unwrap();
    assert_eq!(
        spec.topology,
        Some(GuestTopology::uniform(4, [2, 1, 1, 2, 1]))
    );
    assert_eq!((spec.name.as_str(), spec.cpu), ("old", GuestCpu::Unstated));
    assert_eq!(codes(&lint(OLD).unwrap(), ""), ["cpu-hides-cache"]);
}

#[test]
fn defaults_are_proxmoxs() {
    let spec = read("name: small\n").unwrap();
    assert_eq!(
        (spec.vcpus, spec.max_vcpus, spec.memory_mib),
        (1, None, 512)
    );
    assert_eq!(spec.topology, Some(GuestTopology::uniform(1, [1; 5])));
}

/// vCPUs of sockets x dies x modules x cores x threads, and the level of the LLCs.
const COUNTS: &str = "
    cores: 4                                                       => 4 of 1x1x1x4x1
    sockets: 2 | cores: 4 | vcpus: 6                               => 6 of 2x1x1x4x1
    sockets: 2 | cores: 4 | vcpus: 9                               =>
    cores: 8 | args: -machine smp.dies=2,smp.cores=4               => 8 of 1x2x1x4x1 die
    cores: 8 | args: -smp dies=2,cores=4                           => 8 of 1x2x1x4x1 die
    cores: 8 | args: -smp 6,cores=4,threads=2                      => 6 of 1x1x1x4x2
    cores: 8 | args: -M smp.modules=2,smp.cores=4,smp-cache.0.topology=module,smp-cache.0.cache=l3 => 8 of 1x1x2x4x1 module
    cores: 8 | args: -machine smp-cache.1.cache=l3,smp-cache.1.topology=core => 8 of 1x1x1x8x1 core
    cores: 8 | args: -machine smp.dies=2                           =>
    cores: 8 | args: -machine 'smp.dies=2                          => 8 of 1x1x1x8x1
    cores: 4 | args: -machine smp.maxcpus=8,smp.sockets=2          => 4 of 2x1x1x4x1
    cores: 4 | args: -device x,smp.dies=2                          => 4 of 1x1x1x4x1
    smp: 3 | cores: 2                                              => 6 of 3x1x1x2x1
";

#[test]
fn topology_follows_counts_and_args() {
    for (text, expected) in rows(COUNTS) {
        let expected = expected.first().map(|text| shape(text));
        assert_eq!(read(&text).unwrap().topology, expected, "{text}");
    }
}

/// Two sockets of two cores with 1024 MiB: vCPUs, memory and host nodes of each vNUMA node.
const NODES: &str = "
    numa0: cpus=0-3,memory=1024                              =>
    numa: 0 | numa0: cpus=0-3,memory=1024                    =>
    numa: 1                                                  => 0-1 512 [], 2-3 512 []
    numa: 1 | numa0: cpus=0-1;3,memory=24 | numa1: cpus=2,memory=1000,hostnodes=0-1;4,policy=interleave => 0-1,3 24 [], 2 1000 [0,1,4]
    numa: 1 | vcpus: 3 | numa0: cpus=0-1,memory=512 | numa1: cpus=2-3,memory=512 => 0-1 512 [], 2 512 []
    numa: 1 | numa0: cpus=0-3,memory=1024 | [snap] | numa1: cpus=0,memory=1 => 0-3 1024 []
";

#[test]
fn vnuma_nodes_follow_numa_lines_or_sockets() {
    for (text, expected) in rows(NODES) {
        let spec = read(&format!("sockets: 2\ncores: 2\nmemory: 1024\n{text}")).unwrap();
        let show = |node: &GuestNode| {
            let host = format!("{:?}", node.host_nodes).replace(' ', "");
            format!("{} {} {host}", node.vcpus, node.memory_mib)
        };
        let nodes = spec.topology.unwrap().numa_nodes;
        assert_eq!(
            nodes.iter().map(show).collect::<Vec<_>>(),
            expected,
            "{text}"
        );
    }
    let text =
        "sockets: 3\nnuma: 1\nargs: -numa dist,src=0,dst=1,val=12 -numa dist,src=2,dst=0,val=32";
    let distances = read(text).unwrap().topology.unwrap().distances;
    assert_eq!(distances, [[10, 12, 32], [12, 10, 20], [32, 20, 10]]);
}

#[test]
fn devices_hugepages_and_models_are_read() {
    let text = "cores: 1\nmemory: 3072\nhostpci1: 01:00\nhostpci10: mapping=gpu,pcie=1\nhostpci2: pcie=1,host=0001:0a:1f.7;02:00.1\nhugepages: any\ncpu: flags=+aes,cputype=custom-zen";
    let spec = read(text).unwrap();
    assert_eq!(
        spec.devices,
        [
            device("hostpci1", "0000:01:00"),
            device("hostpci2", "0001:0a:1f.7"),
            device("hostpci2", "0000:02:00.1"),
            device("hostpci10", ""),
        ]
    );
    assert_eq!(spec.cpu, GuestCpu::Named("custom-zen".into()));
    assert_eq!(spec.hugepage_kib, Some(1 << 20));
    assert_eq!(
        read("memory: 3073\nhugepages: any").unwrap().hugepage_kib,
        Some(2048)
    );
}

#[test]
fn bad_values_are_errors_at_their_place() {
    for (line, value) in [
        ("cores: 0", "0"),
        ("cores: -4", "-4"),
        ("cores: 4.5", "4.5"),
        ("sockets: 99999999999999999999", "99999999999999999999"),
        ("sockets: 64\ncores: 65", "65"),
        ("vcpus: many", "many"),
        ("memory: lots", "lots"),
        ("memory: current=-1", "current=-1"),
        ("memory: 99999999999999", "99999999999999"),
        ("numa0: cpus=0-", "cpus=0-"),
        ("numa0: cpus=3-1,memory=1", "cpus=3-1,memory=1"),
        (
            "numa0: cpus=0-99999999,memory=1",
            "cpus=0-99999999,memory=1",
        ),
        ("numa3: cpus=0,memory=x", "cpus=0,memory=x"),
        (
            "numa3: cpus=0,hostnodes=a,memory=1",
            "cpus=0,hostnodes=a,memory=1",
        ),
        ("affinity: 0,,1", "0,,1"),
        ("hugepages: 4", "4"),
        ("args: -smp dies=0", "-smp dies=0"),
    ] {
        let text = format!("#note\r\n{line}\r\n\r\n[snap]\r\ncores: 1\r\n");
        let error = read(&text).unwrap_err();
        assert_eq!(&text[error.span.clone()], value, "{line}: {error}");
        assert_eq!(
            edit(&text, &Spec::default(), &Target::default()),
            Err(error.clone())
        );
        assert_eq!(lint(&text), Err(error));
    }
    for text in ["", "#only a note", "[snap]\ncores: 4", "numvcpus = \"4\""] {
        assert!(
            read(text).unwrap_err().message.contains("no setting found"),
            "{text:?}"
        );
    }
}

/// Four cores, 1024 MiB, the host's CPU, and:
const LINTS: &str = "
    vcpus: 5                                               => Error vcpus-above-slots
    cores: 4                                               => Warning duplicate-key
    Cores = 4                                              => Warning unreadable-line
    name: a_b                                              => Warning name-not-dns
    args: -a 'b                                            => Warning args-unreadable
    args: -smp dies=3                                      => Error args-mismatch
    args: -smp dies=2,cores=2 | hotplug: disk,cpu          => Error args-with-cpu-hotplug
    args: -smp dies=2,cores=2 | hotplug: 1                 =>
    args: -smp sockets=4,cores=1                           => Warning flat-topology
    balloon: 2048                                          => Warning balloon-above-memory
    numa0: cpus=0-3,memory=1024                            => Warning numa-lines-ignored
    numa: 1 | numa0: cpus=0-3,memory=1024                  =>
    numa: 1 | hotplug: memory | numa0: cpus=0-3,memory=1024 => Error numa-with-memory-hotplug
    numa: 1 | numa1: cpus=0-3,memory=1024                  => Error numa-gap
    numa: 1 | numa0: cpus=0-3,memory=1024,hostnodes=0      => Error numa-without-policy
    numa: 1 | numa0: cpus=0-3,memory=1024,hostnodes=0,policy=bind => Info numa-strict
    numa: 1 | numa0: cpus=0-3                              => Error numa-incomplete, Error numa-memory-sum
    numa: 1 | numa0: memory=1024                           => Error numa-incomplete, Warning numa-cpus-missing
    numa: 1 | numa0: cpus=0-2,memory=512 | numa1: cpus=2-3,memory=512 => Error numa-cpus-twice
    numa: 1 | numa0: cpus=0-4,memory=1024                  => Error numa-cpus-beyond
    numa: 1 | numa0: cpus=0-2,memory=1000                  => Warning numa-cpus-missing, Error numa-memory-sum
    hugepages: 2                                           => Error hugepages-without-numa
    hugepages: 2 | numa: 1                                 =>
    hugepages: 2 | numa: 1 | numa0: cpus=0-3,memory=1024   => Error hugepages-host-node
    hugepages: 2 | numa: 1 | numa0: cpus=0-3,memory=1024,hostnodes=10,policy=preferred => Error hugepages-host-node
    hugepages: 1024 | numa: 1 | numa0: cpus=0-3,memory=1023,hostnodes=1,policy=preferred => Error numa-memory-sum, Error hugepages-unaligned
    hugepages: 2 | numa: 1 | balloon: 512                  => Warning balloon-with-hugepages
    affinity: 0-3                                          => Warning affinity-one-set
";

#[test]
fn lint_finds_what_is_refused_and_what_costs() {
    for (text, expected) in rows(LINTS) {
        let found = lint(&format!("cores: 4\nmemory: 1024\ncpu: host\n{text}\n")).unwrap();
        assert_eq!(graded(&found), expected, "{text}");
    }
    assert_eq!(
        codes(&lint("memory: 15").unwrap(), ""),
        ["memory-too-small"]
    );
    let many = lint("sockets: 129\ncores: 2\ncpu: host\nnuma: 1").unwrap();
    assert_eq!(codes(&many, ""), ["numa-above-limit"]);
    for (cpu, hides) in [
        ("x86-64-v2-AES", true),
        ("kvm64,flags=+aes", true),
        ("EPYC", false),
        ("max", false),
    ] {
        assert_eq!(
            !lint(&format!("cores: 2\ncpu: {cpu}")).unwrap().is_empty(),
            hides,
            "{cpu}"
        );
    }
}

#[test]
fn writes_a_whole_file() {
    let mut shape = with_llcs(13, [1, 4, 1, 4, 1], Level::Die);
    shape.numa_nodes = vec![node("0-12", 16384, &[1])];
    let spec = Spec {
        name: "db1".into(),
        vcpus: 13,
        max_vcpus: Some(16),
        memory_mib: 16384,
        guest_os: Some("windows2019srv-64".into()),
        topology: Some(shape),
        hugepage_kib: Some(2048),
        devices: vec![device("pciPassthru0", "0000:41:00.0")],
        ..Spec::default()
    };
    let target = Target {
        vendor: Vendor::Amd,
        ..Target::default()
    };
    let written = write(&spec, &target);
    insta::assert_snapshot!(written.text, @r"
    args: -machine smp.dies=4,smp.cores=4,smp-cache.0.cache=l3,smp-cache.0.topology=die -global host-x86_64-cpu.topoext=on
    cores: 16
    cpu: host
    hostpci0: 0000:41:00.0,pcie=1
    hugepages: 2
    machine: q35
    memory: 16384
    name: db1
    numa: 1
    numa0: cpus=0-15,hostnodes=1,memory=16384,policy=preferred
    ostype: win10
    sockets: 1
    vcpus: 13
    ");
    assert_eq!(codes(&written.findings, ""), ["topology-in-args"]);
    assert!(written.findings[0].text.contains("QEMU 10 (Proxmox VE 9)"));
}

/// A shape and QEMU's version; what follows `args: -machine`, and the findings.
const SPELLINGS: &str = "
    8 of 2x1x1x4x1 | 10          =>
    8 of 2x1x1x4x1 socket | 10   =>
    8 of 1x1x1x8x1 socket | 9    =>
    8 of 1x2x1x4x1 die | 10      => smp.dies=2,smp.cores=4,smp-cache.0.cache=l3,smp-cache.0.topology=die, topology-in-args
    8 of 1x2x1x4x1 die | 9       => smp.dies=2,smp.cores=4, topology-in-args
    8 of 1x2x1x4x1 die | 5       => lost-llc
    8 of 1x2x1x4x1 socket | 10   => smp.dies=2,smp.cores=4,smp-cache.0.cache=l3,smp-cache.0.topology=socket, topology-in-args
    8 of 1x1x1x8x1 core | 10     => smp-cache.0.cache=l3,smp-cache.0.topology=core, topology-in-args
    16 of 1x2x2x4x1 module | 10  => smp.dies=2,smp.modules=2,smp.cores=4,smp-cache.0.cache=l3,smp-cache.0.topology=module, topology-in-args
    16 of 1x2x2x4x1 module | 9   => smp.dies=4,smp.cores=4, lost-modules, topology-in-args
    8 of 1x1x1x4x2 | 5           => lost-threads
    8 of 1x1x1x4x2 socket | 8    => smp.cores=4,smp.threads=2, topology-in-args
";

#[test]
fn args_say_what_the_version_can_say() {
    for (text, expected) in rows(SPELLINGS) {
        let (text, qemu_major) = text.split_once('\n').unwrap();
        let (shape, qemu_major) = (shape(text), qemu_major.parse().unwrap());
        let written = write(
            &spec_of(shape.clone()),
            &Target {
                qemu_major,
                ..Target::default()
            },
        );
        let args = written
            .text
            .lines()
            .find_map(|line| line.strip_prefix("args: -machine "));
        let found: Vec<&str> = args
            .into_iter()
            .chain(codes(&written.findings, ""))
            .collect();
        assert_eq!(found, expected, "{text} for QEMU {qemu_major}");
        let cores = format!("cores: {}\n", shape.slots_in(Level::Socket));
        assert!(written.text.contains(&cores), "{text}");
    }
    let mut uneven = shape("8 of 1x1x1x8x1 socket");
    let llc = |vcpus: &str| GuestLlc {
        vcpus: vcpus.parse().unwrap(),
        ..uneven.llcs[0].clone()
    };
    uneven.llcs = vec![llc("0-2"), llc("3-7")];
    assert_eq!(
        codes(&write(&spec_of(uneven), &Target::default()).findings, ""),
        ["lost-llc"]
    );
}

#[test]
fn what_proxmox_cannot_say_is_found() {
    let lost = |change: fn(&mut Spec)| {
        let mut spec = spec_of(shape("2 of 1x1x1x2x1"));
        change(&mut spec);
        let written = write(&spec, &Target::default());
        (codes(&written.findings, "lost-").join(" "), written.text)
    };
    let nodes = |count: u32| {
        let node = |vcpu| node(&format!("{vcpu}"), 4096 / u64::from(count), &[]);
        let mut shape = GuestTopology::uniform(count, [count, 1, 1, 1, 1]);
        shape.numa_nodes = (0..count).map(node).collect();
        codes(
            &write(&spec_of(shape), &Target::default()).findings,
            "lost-",
        )
    };
    assert!(nodes(8).is_empty());
    assert_eq!(nodes(16), ["lost-numa-nodes"]);
    let named = lost(|spec| spec.name = "my VM (1)".into());
    assert_eq!(named.0, "lost-name");
    assert!(named.1.contains("name: my-VM--1\n"));
    for (code, change) in [
        (
            "lost-hugepages",
            (|spec| spec.hugepage_kib = Some(4)) as fn(&mut Spec),
        ),
        ("lost-guest-os", |spec| {
            spec.guest_os = Some("darwin21-64".into());
        }),
        ("lost-cpu-model", |spec| {
            spec.cpu = GuestCpu::Named("a b\n".into());
        }),
        ("lost-device", |spec| spec.devices = vec![device("gpu", "")]),
        ("lost-device-nodes", |spec| {
            spec.devices = vec![Device {
                guest_node: Some(0),
                ..device("gpu", "41:00.0")
            }];
        }),
        ("lost-pins", |spec| {
            spec.pins = vec![Pin {
                vcpu: 0,
                cpus: "1-2".parse().unwrap(),
            }];
        }),
        ("lost-numa-nodes", |spec| {
            let empty = vec![node("0-1", 1024, &[]), node("", 3072, &[])];
            spec.topology.as_mut().unwrap().numa_nodes = empty;
        }),
    ] {
        assert_eq!(lost(change).0, code);
    }
}

#[test]
fn guests_learn_the_true_size_or_are_told() {
    let mut shape = with_llcs(8, [1, 2, 1, 4, 1], Level::Die);
    shape
        .llcs
        .iter_mut()
        .for_each(|llc| llc.size_bytes = 16 << 20);
    for (model, vendor, expected) in [
        (
            "EPYC-Milan",
            Vendor::Amd,
            vec!["llc-size-differs", "topology-in-args"],
        ),
        ("EPYC-Rome", Vendor::Amd, vec!["topology-in-args"]),
        (
            "x86-64-v3",
            Vendor::Other,
            vec!["topoext-needed", "topology-in-args", "cpu-hides-cache"],
        ),
        (
            "custom-zen",
            Vendor::Amd,
            vec!["topoext-needed", "topology-in-args"],
        ),
        ("Icelake-Server", Vendor::Other, vec!["topology-in-args"]),
        ("Opteron_G5", Vendor::Amd, vec!["topology-in-args"]),
    ] {
        let spec = Spec {
            cpu: GuestCpu::Named(model.into()),
            ..spec_of(shape.clone())
        };
        let written = write(
            &spec,
            &Target {
                vendor,
                ..Target::default()
            },
        );
        assert_eq!(codes(&written.findings, ""), expected, "{model}");
    }
}

#[test]
fn an_edit_touches_only_what_changes() {
    let written = edited(DATABASE, |spec| {
        let mut shape = with_llcs(16, [2, 2, 1, 4, 1], Level::Die);
        shape.numa_nodes = spec.topology.clone().unwrap().numa_nodes;
        spec.topology = Some(shape);
    });
    assert_eq!(
        main_difference(DATABASE, &written.text),
        ["+args: -machine smp.dies=2,smp.cores=4,smp-cache.0.cache=l3,smp-cache.0.topology=die"]
    );
    let at = written.text.find("args: ").unwrap();
    assert!(
        written.text[at..].contains("topology=die\n\n[PENDING]\n"),
        "before the sections"
    );

    let written = edited(DATABASE, |spec| {
        let mut shape = GuestTopology::uniform(12, [1, 1, 1, 12, 1]);
        shape.numa_nodes = vec![node("0-11", 65536, &[1])];
        (spec.vcpus, spec.topology) = (12, Some(shape));
    });
    assert_eq!(
        main_difference(DATABASE, &written.text),
        [
            "-cores: 8",
            "-numa0: cpus=0-7,hostnodes=0,memory=32768,policy=bind",
            "-numa1: cpus=8-15,hostnodes=1,memory=32768,policy=bind",
            "-sockets: 2",
            "+cores: 12",
            "+numa0: cpus=0-11,hostnodes=1,memory=65536,policy=bind",
            "+sockets: 1",
        ]
    );
}

#[test]
fn an_edit_merges_with_the_users_args() {
    let written = edited(BUILD, |spec| {
        spec.vcpus = 16;
        spec.max_vcpus = None;
        spec.topology = Some(with_llcs(16, [1, 2, 1, 8, 1], Level::Die));
    });
    assert_eq!(
        difference(BUILD, &written.text),
        [
            "-args: -no-reboot -smbios 'type=11,value=a b' -machine smp.dies=4,smp.cores=4,smp-cache.0.cache=l3,smp-cache.0.topology=die",
            "-vcpus: 13",
            "+args: -no-reboot -smbios 'type=11,value=a b' -machine smp.dies=2,smp.cores=8,smp-cache.0.cache=l3,smp-cache.0.topology=die",
        ]
    );
    let written = edited(BUILD, |spec| {
        spec.topology = Some(GuestTopology::uniform(13, [1, 1, 1, 16, 1]));
    });
    assert!(
        written
            .text
            .contains("args: -no-reboot -smbios 'type=11,value=a b'\n")
    );

    let text = "cores: 8\nargs: -smp threads=2,cores=4";
    let written = edited(text, |spec| {
        spec.topology = Some(with_llcs(8, [1, 2, 1, 4, 1], Level::Die));
    });
    assert_eq!(
        written.text,
        "cores: 8\nargs: -smp threads=2,cores=4 -machine smp.dies=2,smp.threads=1,smp-cache.0.cache=l3,smp-cache.0.topology=die"
    );
    assert_eq!(
        read(&written.text).unwrap().topology,
        Some(with_llcs(8, [1, 2, 1, 4, 1], Level::Die))
    );

    let text = "cores: 8\nargs: -machine smp-cache.0.cache=l2,smp-cache.0.topology=core\n";
    let written = edited(text, |spec| {
        spec.topology = Some(with_llcs(8, [1, 2, 1, 4, 1], Level::Die));
    });
    assert_eq!(
        written.text,
        "cores: 8\nargs: -machine smp.dies=2,smp.cores=4,smp-cache.0.cache=l2,smp-cache.0.topology=core,\
         smp-cache.1.cache=l3,smp-cache.1.topology=die\n"
    );

    for (text, code) in [
        ("cores: 8\nargs: -a 'b\n", "lost-llc"),
        ("cores: 8\nhotplug: cpu\n", "lost-llc"),
    ] {
        let written = edited(text, |spec| {
            spec.topology = Some(with_llcs(8, [1, 2, 1, 4, 1], Level::Die));
        });
        assert_eq!(written.text, text);
        assert_eq!(written.findings[0].code, code, "{text}");
    }
}

#[test]
fn distances_go_to_args_and_come_back() {
    let mut shape = GuestTopology::uniform(4, [2, 1, 1, 2, 1]);
    shape.numa_nodes = vec![node("0-1", 2048, &[0]), node("2-3", 2048, &[1])];
    shape.distances = vec![vec![10, 32], vec![32, 10]];
    let spec = spec_of(shape);
    let written = write(&spec, &Target::default());
    assert!(
        written
            .text
            .starts_with("args: -numa dist,src=0,dst=1,val=32 -numa dist,src=1,dst=0,val=32\n"),
        "{}",
        written.text
    );
    assert_eq!(read(&written.text).unwrap().topology, spec.topology);
    let written = edited(&written.text, |spec| {
        spec.topology = Some(GuestTopology::uniform(4, [1, 1, 1, 4, 1]));
    });
    assert_eq!(
        difference("", &written.text),
        [
            "+cores: 4",
            "+cpu: EPYC-Milan",
            "+machine: q35",
            "+memory: 4096",
            "+sockets: 1"
        ]
    );
}

#[test]
fn other_settings_are_edited_in_place() {
    let written = edited(DATABASE, |spec| {
        spec.cpu = GuestCpu::Host;
        spec.devices[0].address = "0000:42:00.0".into();
        spec.devices.push(device("nic", "0000:43:00.1"));
        spec.hugepage_kib = Some(2048);
        spec.name = "db2".into();
        spec.pins = (0..16)
            .map(|vcpu| Pin {
                vcpu,
                cpus: "0-15".parse().unwrap(),
            })
            .collect();
    });
    assert_eq!(
        main_difference(DATABASE, &written.text),
        [
            "-cpu: EPYC-Milan,flags=+aes;+pdpe1gb",
            "-hostpci0: 0000:41:00.0,pcie=1,rombar=0",
            "-hugepages: 1024",
            "-name: db1.example.org",
            "+cpu: host,flags=+aes;+pdpe1gb",
            "+hostpci0: 0000:42:00.0,pcie=1,rombar=0",
            "+hugepages: 2",
            "+name: db2",
            "+hostpci1: 0000:43:00.1,pcie=1",
            "+affinity: 0-15",
        ]
    );
    let written = edited(OLD, |spec| {
        spec.topology = Some(GuestTopology::uniform(4, [1, 1, 1, 4, 1]));
        spec.devices.push(device("nic", "43:00.1"));
    });
    let end = "virtio0: local:vm-102-disk-1,size=32G\r\nsockets: 1\r\nhostpci0: 0000:43:00.1\r\n";
    assert!(written.text.ends_with(end), "{:?}", written.text);
    let written = edited(DATABASE, |spec| spec.devices.clear());
    assert_eq!(
        main_difference(DATABASE, &written.text),
        ["-hostpci0: 0000:41:00.0,pcie=1,rombar=0"]
    );
    let pages = edited("sockets: 2\nmemory: 1024\n", |spec| {
        spec.hugepage_kib = Some(2048);
    });
    assert_eq!(
        pages.text,
        "sockets: 2\nmemory: 1024\nnuma: 1\nhugepages: 2\n"
    );
    assert_eq!(codes(&pages.findings, "numa"), ["numa-for-hugepages"]);
    let mapped = "cores: 1\nhostpci0: mapping=gpu\n";
    assert_eq!(
        edited(mapped, |spec| spec.devices[0].guest_node = Some(0)).text,
        mapped
    );
}

/// Shapes Proxmox VE can state with QEMU 10: any levels, LLCs at any of them, up to 8 vNUMA nodes of whole sockets.
fn shapes() -> impl Strategy<Value = GuestTopology> {
    let level = prop::option::of(prop::sample::select(vec![
        Level::Socket,
        Level::Die,
        Level::Module,
        Level::Core,
    ]));
    let levels = (1u32..=8, 1u32..=3, 1u32..=2, 1u32..=4, 1u32..=2);
    (
        levels,
        level,
        any::<prop::sample::Index>(),
        0u8..4,
        any::<bool>(),
    )
        .prop_map(|(levels, level, present, numa, bound)| {
            let (sockets, dies, modules, cores, threads) = levels;
            let mut shape = GuestTopology::uniform(1, [sockets, dies, modules, cores, threads]);
            shape.vcpus = u32::try_from(present.index(shape.maxcpus() as usize)).unwrap() + 1;
            if let Some(level) = level {
                shape.llcs = llcs_at(&shape, level, 0);
            }
            let slots = shape.maxcpus();
            let count = match numa {
                0 => 0,
                1 => 1,
                _ => sockets,
            };
            let size = slots.checked_div(count).unwrap_or(0);
            let present = crate::CpuSet::from_range(0..shape.vcpus);
            shape.numa_nodes = (0..count)
                .map(|index| GuestNode {
                    vcpus: crate::CpuSet::from_range(index * size..(index + 1) * size)
                        .intersection(&present),
                    memory_mib: 1024 * u64::from(index + 1),
                    host_nodes: if bound { vec![index] } else { vec![] },
                })
                .collect();
            shape
        })
}

/// What a file says of a topology: where LLCs are whole sockets it says nothing about them.
fn stated(mut shape: GuestTopology) -> GuestTopology {
    let plain = shape.dies.max(shape.modules) == 1;
    if plain && shape.llc_level() == Some(Level::Socket) {
        shape.llcs = Vec::new();
    } else if shape.llcs.is_empty() && !plain {
        // Where dies or modules are stated, L3 is where QEMU puts it.
        shape.llcs = llcs_at(&shape, Level::Die, 0);
    }
    shape
}

fn memory(shape: &GuestTopology) -> u64 {
    if shape.numa_nodes.is_empty() {
        8192
    } else {
        shape.memory_mib()
    }
}

fn specs() -> impl Strategy<Value = Spec> {
    let devices = prop::collection::vec(0u32..256, 0..4);
    (
        shapes(),
        "[a-z]{1,8}(\\.[a-z0-9]{1,5})?",
        devices,
        any::<bool>(),
        prop::option::of(0u32..200),
    )
        .prop_map(|(shape, name, devices, host, pin)| Spec {
            name,
            vcpus: shape.vcpus,
            max_vcpus: (shape.maxcpus() > shape.vcpus).then_some(shape.maxcpus()),
            memory_mib: memory(&shape),
            guest_os: Some("l26".into()),
            cpu: if host {
                GuestCpu::Host
            } else {
                GuestCpu::Named("EPYC-Genoa".into())
            },
            devices: (0..)
                .zip(devices)
                .map(|(index, bus): (u32, u32)| {
                    device(&format!("hostpci{index}"), &format!("0000:{bus:02x}:00.0"))
                })
                .collect(),
            pins: pin.map_or_else(Vec::new, |cpu| {
                let cpus = crate::CpuSet::from_range(cpu..cpu + 4);
                (0..shape.vcpus)
                    .map(|vcpu| Pin {
                        vcpu,
                        cpus: cpus.clone(),
                    })
                    .collect()
            }),
            topology: Some(shape),
            ..Spec::default()
        })
}

fn mutated() -> impl Strategy<Value = String> {
    let file = prop::sample::select(vec![DATABASE, BUILD, OLD]);
    let byte = prop::sample::select(b":=;,[]#-0129 \n\r.x'".to_vec());
    (
        file,
        prop::collection::vec((any::<prop::sample::Index>(), byte), 1..12),
    )
        .prop_map(|(file, changes)| {
            let mut bytes = file.as_bytes().to_vec();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })
}

fn check_any(text: &str) {
    let target = Target::default();
    let Ok(spec) = read(text) else {
        assert!(lint(text).is_err());
        return;
    };
    lint(text).unwrap();
    assert_eq!(edit(text, &spec, &target).unwrap().text, text);
    write(&spec, &target);
}

proptest! {
    #[test]
    fn any_text_is_read_without_panic(text in any::<String>()) {
        check_any(&text);
    }

    #[test]
    fn any_settings_are_read_and_edited_to_themselves(
        lines in prop::collection::vec(("(cores|sockets|vcpus|memory|numa[0-3]?|hugepages|affinity|hostpci[01]|args|hotplug)", "[0-9]{0,2}|cpus=[0-9];[0-9],memory=[0-9]{1,4}|-smp dies=[0-9]|-numa dist,src=[01],dst=[01],val=[0-9]|any|cpu|41:00.[0-9]"), 0..16),
    ) {
        let lines: Vec<String> = lines.into_iter().map(|(key, value)| key + ": " + &value).collect();
        let text = lines.join("\n");
        check_any(&text);
    }

    #[test]
    fn mutated_files_are_read_and_edited_to_themselves(text in mutated()) {
        check_any(&text);
    }

    #[test]
    fn what_is_written_is_read(spec in specs()) {
        let written = write(&spec, &Target::default());
        let again = read(&written.text).unwrap();
        let severe: Vec<_> = written.findings.iter().filter(|finding| finding.code.starts_with("lost-") || finding.severity == Severity::Error).collect();
        prop_assert!(severe.is_empty(), "{severe:?}\n{}", written.text);
        let expected = Spec { topology: spec.topology.clone().map(stated), ..spec };
        prop_assert_eq!(&again, &expected, "{}", written.text);
        prop_assert_eq!(read(&write(&again, &Target::default()).text).unwrap(), again);
    }

    #[test]
    fn an_edit_to_another_shape_gives_that_shape_and_keeps_the_other_lines(
        shape in shapes(),
        file in prop::sample::select(vec![DATABASE, BUILD, OLD]),
    ) {
        let mut spec = read(file).unwrap();
        (spec.vcpus, spec.memory_mib) = (shape.vcpus, memory(&shape));
        spec.max_vcpus = (shape.maxcpus() > shape.vcpus).then_some(shape.maxcpus());
        spec.topology = Some(shape);
        let written = edit(file, &spec, &Target::default()).unwrap();
        let again = read(&written.text).unwrap();
        let numa_of_hugepages = spec.hugepage_kib.is_some() && spec.topology.as_ref().is_some_and(|shape| shape.numa_nodes.is_empty());
        if !numa_of_hugepages {
            prop_assert_eq!((again.vcpus, again.max_vcpus, again.memory_mib, again.topology), (spec.vcpus, spec.max_vcpus, spec.memory_mib, spec.topology.map(stated)), "{}", written.text);
        }
        prop_assert_eq!((again.name, again.devices, again.cpu), (spec.name, spec.devices, spec.cpu));
        let ours = ["args:", "cores:", "memory:", "numa", "sockets:", "vcpus:"];
        let (main, sections) = file.split_at(file.find("\n[").unwrap_or(file.len()));
        let others = |text: &str| -> Vec<String> {
            text.lines().filter(|line| !ours.iter().any(|key| line.starts_with(key))).map(str::to_owned).collect()
        };
        let (new_main, new_sections) = written.text.split_at(written.text.len() - sections.len());
        prop_assert_eq!(new_sections, sections);
        prop_assert_eq!(others(new_main), others(main));
    }
}
