use proptest::prelude::*;

use super::*;
use crate::finding::Severity;
use crate::formats::lines::table::{codes, difference, graded, rows, shape};
use crate::guest::{GuestNode, GuestTopology};
use crate::vm::{Device, EsxiKeys, GuestCpu};

const DATABASE: &str = include_str!("../../../tests/data/vmx/database.vmx");
const AUTOMATIC: &str = include_str!("../../../tests/data/vmx/automatic.vmx");
const WINDOWS: &str = include_str!("../../../tests/data/vmx/windows-crlf.vmx");

fn node(vcpus: &str, memory_mib: u64) -> GuestNode {
    GuestNode {
        vcpus: vcpus.parse().unwrap(),
        memory_mib,
        host_nodes: Vec::new(),
    }
}

fn edited(text: &str, change: impl Fn(&mut Spec)) -> Written {
    let mut spec = read(text).unwrap();
    change(&mut spec);
    edit(text, &spec, &Target::default()).unwrap()
}

#[test]
fn reads_a_hand_tuned_database() {
    let spec = read(DATABASE).unwrap();
    let mut shape = GuestTopology::uniform(24, [2, 1, 1, 12, 1]);
    shape.numa_nodes = vec![node("0-11", 98304), node("12-23", 98304)];
    assert_eq!(spec.topology, Some(shape));
    assert_eq!(
        (spec.name.as_str(), spec.vcpus, spec.memory_mib),
        ("db1", 24, 196_608)
    );
    assert_eq!(spec.guest_os.as_deref(), Some("ubuntu-64"));
    assert_eq!(
        spec.devices,
        [Device {
            name: "pciPassthru0".into(),
            address: "0000:1a:00.1".into(),
            guest_node: Some(1)
        }]
    );
    let keys = EsxiKeys {
        hw_version: Some(20),
        cores_per_socket: Some(12),
        cores_per_node: Some(12),
        autosize_max_per_virtual_node: Some(12),
        autosize_cookie: Some(240_122),
        node_affinity: vec![0, 1],
        vcpu_hotadd: Some(false),
        ..EsxiKeys::default()
    };
    assert_eq!(spec.esxi, keys);
    assert_eq!(codes(&lint(DATABASE).unwrap(), ""), Vec::<&str>::new());
}

#[test]
fn an_automatic_shape_is_not_stated() {
    let spec = read(AUTOMATIC).unwrap();
    assert_eq!(
        (spec.topology, spec.esxi.cores_per_socket_cookie),
        (None, Some(16))
    );
    assert_eq!(codes(&lint(AUTOMATIC).unwrap(), ""), Vec::<&str>::new());
}

#[test]
fn reads_escapes_and_crlf() {
    let spec = read(WINDOWS).unwrap();
    assert_eq!(spec.name, "Buchhaltung \"alt\" – Köln");
    // Hot-add hides the vNUMA nodes, and 8 vCPUs are below numa.vcpu.min anyway.
    assert_eq!(
        spec.topology,
        Some(GuestTopology::uniform(8, [4, 1, 1, 2, 1]))
    );
    assert!(spec.pins.is_empty());
    assert_eq!(codes(&lint(WINDOWS).unwrap(), ""), Vec::<&str>::new());
}

#[test]
fn defaults_are_vmwares() {
    let spec = read("displayName = small").unwrap();
    assert_eq!((spec.vcpus, spec.memory_mib, spec.topology), (1, 256, None));
}

/// Sixteen vCPUs: sockets x cores x threads, and the vNUMA nodes.
const STATED: &str = "
    cpuid.coresPerSocket=4                                                              => 4x4x1
    cpuid.coresPerSocket=16                                                             => 1x16x1
    cpuid.coresPerSocket=8 | cpuid.numSMT=2                                             => 2x4x2
    cpuid.coresPerSocket=8 | numa.vcpu.coresPerNode=8                                   => 2x8x1, 0-7, 8-15
    cpuid.coresPerSocket=4 | numa.vcpu.maxPerVirtualNode=12                             => 4x4x1, 0-11, 12-15
    cpuid.coresPerSocket=8 | numa.vcpu.followcorespersocket=1                           => 2x8x1, 0-7, 8-15
    cpuid.coresPerSocket=8 | numa.autosize.vcpu.maxPerVirtualNode=8 | numa.autosize.cookie=160082 => 2x8x1, 0-7, 8-15
    cpuid.coresPerSocket=8 | numa.autosize.vcpu.maxPerVirtualNode=8 | numa.autosize.cookie=80082  => 2x8x1
    cpuid.coresPerSocket=8 | numa.autosize.vcpu.maxPerVirtualNode=8 | numa.autosize.once=FALSE    => 2x8x1
    cpuid.coresPerSocket=8 | numa.vcpu.coresPerNode=8 | vcpu.hotadd=TRUE                => 2x8x1
    cpuid.coresPerSocket=8 | numa.vcpu.coresPerNode=8 | vcpu.hotadd=TRUE | numa.allowHotadd=TRUE  => 2x8x1, 0-7, 8-15
    cpuid.coresPerSocket=8 | numa.vcpu.coresPerNode=8 | numa.vcpu.min=17                => 2x8x1
    cpuid.coresPerSocket=0                                                              =>
    cpuid.coresPerSocket=5                                                              =>
    cpuid.coresPerSocket=1 | cpuid.numSMT=2                                             =>
    memSize=4096                                                                        =>
";

#[test]
fn topology_is_what_the_keys_state() {
    for (text, expected) in rows(STATED) {
        let spec = read(&format!("numvcpus=16\n{text}")).unwrap();
        let mut found = Vec::new();
        if let Some(shape) = spec.topology {
            assert!(shape.check().is_empty(), "{text}");
            found.push(format!(
                "{}x{}x{}",
                shape.sockets, shape.cores, shape.threads
            ));
            found.extend(shape.numa_nodes.iter().map(|node| node.vcpus.to_string()));
        }
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn bad_values_are_errors_at_their_place() {
    for (line, value) in [
        ("numvcpus = \"-4\"", "-4"),
        ("numvcpus = \"0\"", "0"),
        ("numvcpus = \"4097\"", "4097"),
        (
            "numvcpus = \"99999999999999999999\"",
            "99999999999999999999",
        ),
        ("NumVcpus = four", "four"),
        ("memSize = \"1.5\"", "1.5"),
        ("memSize = \"18446744073709551615\"", "18446744073709551615"),
        ("cpuid.coresPerSocket = \"0x4\"", "0x4"),
        ("virtualHW.version = \"4294967296\"", "4294967296"),
        ("numa.autosize.cookie = \"-1\"", "-1"),
        ("numa.consolidate = \"maybe\"", "maybe"),
        ("numa.nodeAffinity = \"0,x\"", "0,x"),
        ("sched.vcpu0.affinity = \"0,99999999\"", "0,99999999"),
        ("displayName = \"a|00b\"", "a|00b"),
        (
            "pciPassthru0.present = \"TRUE\"\npciPassthru0.pxm = \"one\"",
            "one",
        ),
    ] {
        let text = format!("\u{feff}# comment\r\n{line}\r\n");
        let error = read(&text).unwrap_err();
        assert_eq!(&text[error.span.clone()], value, "{line}: {error}");
        assert_eq!(
            edit(&text, &Spec::default(), &Target::default()),
            Err(error.clone())
        );
        assert_eq!(lint(&text), Err(error));
    }
    for text in ["", "\n\n", "# only a comment", "not a vmx at all"] {
        assert!(
            read(text).unwrap_err().message.contains("no setting found"),
            "{text:?}"
        );
    }
}

#[test]
fn pins_come_from_the_vcpu_or_the_vm() {
    let text = "numvcpus = 4\nsched.cpu.affinity = \"8-9\"\nsched.vcpu1.affinity = \"1,3\"\nsched.vcpu2.affinity = \"all\"\nsched.vcpu9.affinity = \"0\"";
    let spec = read(text).unwrap();
    let pins: Vec<String> = spec
        .pins
        .iter()
        .map(|pin| format!("{}:{}", pin.vcpu, pin.cpus))
        .collect();
    assert_eq!(pins, ["0:8-9", "1:1,3", "3:8-9"]);
    let written = edited(text, |spec| {
        spec.pins.remove(0);
        spec.pins[0].cpus = "5-6".parse().unwrap();
    });
    assert_eq!(
        difference(text, &written.text),
        [
            "-sched.vcpu1.affinity = \"1,3\"",
            "+sched.vcpu1.affinity = \"5,6\"",
            "+sched.vcpu0.affinity = \"all\""
        ]
    );
}

/// Where a row states no hardware version it is 19, which has no opinion on shape.
const LINTS: &str = "
    numvcpus=16 | cpuid.coresPerSocket=5                             => Error cores-per-socket-indivisible
    numvcpus=1 | cpuid.coresPerSocket=4                              =>
    cpuid.coresPerSocket=0                                           => Error cores-per-socket-zero
    virtualHW.version=21 | cpuid.coresPerSocket=0                    =>
    virtualHW.version=20 | numvcpus=4 | cpuid.coresPerSocket=1       => Info flat-on-purpose
    virtualHW.version=10 | numvcpus=65                               => Error vcpus-above-limit
    virtualHW.version=11 | numvcpus=128                              =>
    virtualHW.version=14 | numvcpus=129                              => Error vcpus-above-limit
    virtualHW.version=15 | numvcpus=257                              => Error vcpus-above-limit
    virtualHW.version=21 | numvcpus=769                              => Error vcpus-above-limit
    virtualHW.version=22 | numvcpus=960                              =>
    virtualHW.version=17 | numvcpus=256 | cpuid.coresPerSocket=256   => Error cores-per-socket-above-limit
    virtualHW.version=10 | memSize=1035268                           => Error memory-above-limit
    virtualHW.version=12 | memSize=4177924                           => Error memory-above-limit
    virtualHW.version=16 | memSize=6275076                           => Error memory-above-limit
    memSize=25149440                                                 =>
    memSize=255                                                      => Error memory-not-multiple-of-4
    memSize=0                                                        => Error memory-not-multiple-of-4
    virtualHW.version=7                                              => Info hw-version-unknown
    numvcpus=4 | NUMVCPUS=8                                          => Error duplicate-key
    numvcpus=4 | numvcpus = \"8                                      => Error unreadable-line
    .encoding=windows-1252 | displayName=Köln                        => Warning encoding-not-utf8
    virtualHW.version=20 | numvcpus=8 | cpuid.coresPerSocket=8 | cpuid.numSMT=2 => Info threads-need-reservation
    virtualHW.version=20 | numvcpus=9 | cpuid.coresPerSocket=9 | cpuid.numSMT=2 => Error threads-indivisible, Info threads-need-reservation
    numvcpus=8 | cpuid.coresPerSocket=8 | cpuid.numSMT=2             => Error threads-need-hw-20
    cpuid.numSMT=3                                                   => Error threads-out-of-range
    virtualHW.version=20 | numvcpus=16 | cpuid.coresPerSocket=8 | numa.vcpu.coresPerNode=12 => Error cores-per-node-indivisible, Warning odd-vcpus-above-node
    virtualHW.version=20 | numvcpus=24 | cpuid.coresPerSocket=12 | numa.vcpu.coresPerNode=8 => Error cores-per-node-indivisible
    numvcpus=16 | cpuid.coresPerSocket=8 | numa.vcpu.coresPerNode=8 | numa.vcpu.maxPerVirtualNode=4 => Warning cores-per-node-ignored, Warning two-node-sizes
    numa.vcpu.maxPerVirtualNode=0                                    => Error max-per-virtual-node-zero
    numvcpus=18 | cpuid.coresPerSocket=6 | numa.autosize.vcpu.maxPerVirtualNode=9 => Warning sockets-split-by-nodes
    numvcpus=16 | numa.autosize.vcpu.maxPerVirtualNode=8 | numa.autosize.cookie=80012 => Warning stale-autosize
    numvcpus=12 | vcpu.hotadd=TRUE                                   => Warning hot-add-hides-vnuma
    numvcpus=8 | vcpu.hotadd=TRUE                                    =>
    numvcpus=21 | numa.vcpu.maxPerVirtualNode=11                     => Warning odd-vcpus-above-node
    numvcpus=2 | sched.vcpu1.affinity=3 | sched.vcpu2.affinity=4     => Warning pin-of-missing-vcpu, Warning pinned-vcpus
";

#[test]
fn lint_finds_what_esxi_refuses_and_what_costs() {
    for (text, expected) in rows(LINTS) {
        let version = if text.contains("virtualHW") {
            ""
        } else {
            "virtualHW.version=19\n"
        };
        let found = lint(&format!("{version}{text}")).unwrap();
        assert_eq!(graded(&found), expected, "{text}");
    }
}

#[test]
fn lint_knows_what_a_device_needs_to_be_seen_on_its_node() {
    let device = "pciPassthru0.present=TRUE\npciPassthru0.pxm=1\nnumvcpus=2";
    assert_eq!(codes(&lint(device).unwrap(), ""), ["device-nodes-ignored"]);
    let text = DATABASE.replace("pciPassthru0.pxm = \"1\"", "pciPassthru0.pxm = \"2\"");
    assert_eq!(codes(&lint(&text).unwrap(), ""), ["device-node-missing"]);
    let text = DATABASE.replace("pciPassthru0.pxm = \"1\"", "pciPassthru0.pxm = \"-1\"");
    assert_eq!(read(&text).unwrap().devices[0].guest_node, None);
}

#[test]
fn writes_a_whole_file() {
    let mut shape = GuestTopology::uniform(24, [2, 1, 1, 12, 1]);
    shape.numa_nodes = vec![node("0-11", 49152), node("12-23", 49152)];
    let device = Device {
        name: "hostpci0".into(),
        address: "0000:41:00.0".into(),
        guest_node: Some(1),
    };
    let spec = Spec {
        name: "db \"one\"".into(),
        vcpus: 24,
        memory_mib: 98304,
        guest_os: Some("l26".into()),
        topology: Some(shape),
        hugepage_kib: Some(1 << 20),
        devices: vec![device],
        ..Spec::default()
    };
    let written = write(&spec, &Target::default());
    insta::assert_snapshot!(written.text, @r#"
    .encoding = "UTF-8"
    config.version = "8"
    virtualHW.version = "20"
    displayName = "db |22one|22"
    guestOS = "other6xlinux-64"
    memSize = "98304"
    numvcpus = "24"
    cpuid.coresPerSocket = "12"
    numa.vcpu.coresPerNode = "12"
    sched.mem.lpage.enable1GPage = "TRUE"
    sched.mem.pin = "TRUE"
    sched.mem.min = "98304"
    pciPassthru0.present = "TRUE"
    pciPassthru0.id = "00000:065:00.0"
    pciPassthru0.pxm = "1"
    chipset.motherboardLayout = "acpi"
    firmware = "efi"
    "#);
    assert_eq!(written.findings, []);
}

/// What a shape loses, and the cores per socket that are written for it.
const LOSSES: &str = "
    16 of 2x1x1x8x1 socket                  => 8
    8 of 1x1x1x4x2                          => 8
    16 of 1x4x1x4x1 die                     => 16, lost-llc
    16 of 1x4x1x4x1                         => 16, lost-dies
    13 of 1x4x1x4x1 die                     => 13, lost-slots, lost-llc
    21 of 2x1x1x11x1                        => 7, lost-slots
    8 of 1x1x1x2x4                          => 8, lost-threads
    12 of 1x1x1x12x1; 0-7 512; 8-11 512     => 12, lost-numa-nodes
    12 of 1x1x1x12x1; 0-3,8-9 512; 4-7,10-11 512 => 12, lost-numa-nodes
    12 of 3x1x1x4x1; 0-5 512; 6-11 512      => 4, lost-numa-nodes
    12 of 1x1x1x12x1; 0-5 1000; 6-11 24     => 12, lost-node-memory
    8 of 1x1x1x8x1; 0-7 1024 on 1           => 8, lost-host-nodes
";

#[test]
fn what_a_vmx_cannot_say_is_found() {
    for (text, expected) in rows(LOSSES) {
        let shape = shape(&text);
        let spec = Spec {
            vcpus: shape.vcpus,
            memory_mib: 1024,
            topology: Some(shape),
            ..Spec::default()
        };
        let written = write(&spec, &Target::default());
        let cores = read(&written.text)
            .unwrap()
            .esxi
            .cores_per_socket
            .unwrap()
            .to_string();
        let found = [vec![cores.as_str()], codes(&written.findings, "lost-")].concat();
        assert_eq!(found, expected, "{text}");
        let refused = |finding: &Finding| finding.severity == Severity::Error;
        assert!(!written.findings.iter().any(refused), "{text}");
    }
    let mut far = shape("8 of 1x1x1x8x1; 0-3 512; 4-7 512");
    far.distances = vec![vec![10, 21], vec![21, 10]];
    let spec = Spec {
        vcpus: 8,
        memory_mib: 1024,
        topology: Some(far),
        ..Spec::default()
    };
    assert_eq!(
        codes(&write(&spec, &Target::default()).findings, "lost-"),
        ["lost-distances"]
    );
}

#[test]
fn what_else_a_vmx_cannot_say_is_found() {
    let spec = Spec {
        vcpus: 4,
        max_vcpus: Some(8),
        memory_mib: 1023,
        guest_os: Some("http://haiku-os.org/haiku/r1".into()),
        cpu: GuestCpu::Named("EPYC".into()),
        hugepage_kib: Some(2048),
        devices: vec![Device {
            name: "gpu".into(),
            ..Device::default()
        }],
        ..Spec::default()
    };
    assert_eq!(
        codes(&write(&spec, &Target::default()).findings, ""),
        [
            "lost-guest-os",
            "lost-hugepages",
            "lost-device",
            "lost-max-vcpus",
            "lost-cpu-model",
            "memory-not-multiple-of-4"
        ]
    );
}

#[test]
fn small_vms_and_old_hardware_get_their_nodes_too() {
    let mut shape = GuestTopology::uniform(4, [2, 1, 1, 2, 1]);
    shape.numa_nodes = vec![node("0-1", 512), node("2-3", 512)];
    let mut spec = Spec {
        vcpus: 4,
        memory_mib: 1024,
        topology: Some(shape),
        ..Spec::default()
    };
    let keys = |spec: &Spec| read(&write(spec, &Target::default()).text).unwrap();
    let new = keys(&spec);
    assert_eq!(
        (new.esxi.vcpu_min, new.esxi.cores_per_node),
        (Some(4), Some(2))
    );
    assert_eq!(new.topology, spec.topology);
    spec.esxi.hw_version = Some(14);
    let old = keys(&spec);
    assert_eq!(
        (old.esxi.max_per_virtual_node, old.esxi.cores_per_node),
        (Some(2), None)
    );
    assert_eq!(old.topology, spec.topology);
    spec.esxi.vcpu_hotadd = Some(true);
    assert_eq!(
        codes(&write(&spec, &Target::default()).findings, ""),
        ["lost-numa-nodes"]
    );
    spec.esxi.hw_version = Some(20);
    assert_eq!(keys(&spec).esxi.allow_hotadd, Some(true));
}

#[test]
fn an_edit_touches_only_what_changes() {
    let written = edited(WINDOWS, |spec| {
        spec.topology = Some(GuestTopology::uniform(8, [1, 1, 1, 8, 1]));
    });
    assert_eq!(
        difference(WINDOWS, &written.text),
        [
            "-cpuid.coresPerSocket = \"2\"",
            "-numa.autosize.vcpu.maxPerVirtualNode = \"8\"",
            "-numa.autosize.cookie = \"80022\"",
            "+cpuid.coresPerSocket = \"8\"",
        ]
    );
    assert_eq!(codes(&written.findings, ""), ["persisted-shape-dropped"]);
    assert!(written.text.lines().count() == written.text.matches("\r\n").count());

    let written = edited(AUTOMATIC, |spec| {
        let mut shape = GuestTopology::uniform(16, [2, 1, 1, 8, 1]);
        shape.numa_nodes = vec![node("0-7", 32768), node("8-15", 32768)];
        spec.topology = Some(shape);
    });
    assert!(written.text.ends_with(
        "memSize = \"65536\"\nmonitor.phys_bits_used = \"45\"\ncpuid.coresPerSocket = \"8\"\nnuma.vcpu.coresPerNode = \"8\"\n"
    ));

    let written = edited(DATABASE, |spec| {
        spec.memory_mib = 262_144;
        spec.topology = None;
    });
    assert_eq!(
        difference(DATABASE, &written.text),
        [
            "-memSize = \"196608\"",
            "-sched.mem.min = \"196608\"",
            "+memSize = \"262144\"",
            "+sched.mem.min = \"262144\"",
        ]
    );

    let written = edited(DATABASE, |spec| spec.name = "db2".into());
    assert_eq!(
        difference(DATABASE, &written.text),
        ["-displayName = \"db1\"", "+displayName = \"db2\""]
    );

    let written = edited(DATABASE, |spec| {
        spec.vcpus = 32;
        spec.topology = Some(GuestTopology::uniform(32, [2, 1, 1, 16, 1]));
        spec.devices[0].guest_node = None;
    });
    assert_eq!(
        difference(DATABASE, &written.text),
        [
            "-numvcpus = \"24\"",
            "-cpuid.coresPerSocket = \"12\"",
            "-numa.vcpu.coresPerNode = \"12\"",
            "-numa.autosize.vcpu.maxPerVirtualNode = \"12\"",
            "-numa.autosize.cookie = \"240122\"",
            "-pciPassthru0.pxm = \"1\"",
            "+numvcpus = \"32\"",
            "+cpuid.coresPerSocket = \"16\"",
        ]
    );
}

#[test]
fn an_edit_keeps_quoting_and_the_last_of_repeated_keys() {
    let text = "numvcpus = 4 # four\nNUMVCPUS=8\ndisplayName = bare";
    let written = edited(text, |spec| {
        spec.vcpus = 16;
        spec.name = "two words".into();
    });
    assert_eq!(
        written.text,
        "numvcpus = 4 # four\nNUMVCPUS=16\ndisplayName = \"two words\""
    );
}

#[test]
fn an_edit_never_changes_the_firmware() {
    let text = "numvcpus = \"2\"\nvirtualHW.version = \"21\"\npciPassthru3.present = \"TRUE\"\npciPassthru3.id = \"00000:013:00.0\"\n";
    let on_node = |spec: &mut Spec| spec.devices[0].guest_node = Some(0);
    let written = edited(text, on_node);
    assert_eq!(
        (written.text.as_str(), codes(&written.findings, "")),
        (text, vec!["lost-device-nodes"])
    );
    let efi = format!("{text}firmware = \"efi\"\n");
    let written = edited(&efi, on_node);
    assert_eq!(
        difference(&efi, &written.text),
        [
            "+pciPassthru3.pxm = \"0\"",
            "+chipset.motherboardLayout = \"acpi\""
        ]
    );
    let written = edited(&efi, |spec| {
        spec.devices[0].address = "0000:0e:00".into();
        spec.devices.push(Device {
            name: "nic".into(),
            address: "0000:0f:00.0".into(),
            guest_node: None,
        });
    });
    assert_eq!(
        difference(&efi, &written.text),
        [
            "-pciPassthru3.id = \"00000:013:00.0\"",
            "+pciPassthru3.id = \"00000:014:00.0\"",
            "+pciPassthru0.present = \"TRUE\"",
            "+pciPassthru0.id = \"00000:015:00.0\"",
        ]
    );
    let written = edited(&efi, |spec| spec.devices.clear());
    assert_eq!(
        difference(&efi, &written.text),
        [
            "-pciPassthru3.present = \"TRUE\"",
            "+pciPassthru3.present = \"FALSE\""
        ]
    );
}

#[test]
fn keys_a_caller_sets_are_written_as_they_are() {
    let written = edited(AUTOMATIC, |spec| {
        spec.esxi.prefer_ht = Some(true);
        spec.esxi.follow_cores_per_socket = Some(true);
        spec.esxi.node_affinity = vec![0, 2];
        spec.esxi.autosize_cookie = None;
    });
    assert_eq!(
        difference(AUTOMATIC, &written.text),
        [
            "-numa.autosize.cookie = \"160012\"",
            "+numa.vcpu.preferHT = \"TRUE\"",
            "+numa.vcpu.followcorespersocket = \"1\"",
            "+numa.nodeAffinity = \"0,2\"",
        ]
    );
}

/// Shapes a `.vmx` can state: sockets x cores x threads, cut into equal nodes.
fn shapes() -> impl Strategy<Value = (GuestTopology, u64)> {
    (
        1u32..=8,
        1u32..=16,
        1u32..=2,
        any::<prop::sample::Index>(),
        1u64..4096,
    )
        .prop_map(|(sockets, cores, threads, size, memory)| {
            let vcpus = sockets * cores * threads;
            let memory_mib = memory * 4;
            let mut shape = GuestTopology::uniform(vcpus, [sockets, 1, 1, cores, threads]);
            let per_socket = cores * threads;
            let sizes: Vec<u32> = (1..=vcpus)
                .filter(|size| vcpus % size == 0 && vcpus / size <= 64)
                .filter(|size| size % per_socket == 0 || per_socket % size == 0)
                .collect();
            let size = *size.get(&sizes);
            let count = u64::from(vcpus / size);
            if count > 1 {
                let memory =
                    |index: u64| memory_mib / count + u64::from(index < memory_mib % count);
                shape.numa_nodes = (0..count)
                    .zip(shape.blocks(size))
                    .map(|(index, vcpus)| GuestNode {
                        vcpus,
                        memory_mib: memory(index),
                        host_nodes: vec![],
                    })
                    .collect();
            }
            (shape, memory_mib)
        })
}

fn specs() -> impl Strategy<Value = Spec> {
    let devices = prop::collection::vec((0u32..256, prop::option::of(0u32..4)), 0..4);
    let flag = || prop::option::of(any::<bool>());
    let name = "[ -~äß–]{1,20}";
    (
        shapes(),
        name,
        devices,
        flag(),
        flag(),
        prop::option::of(11u32..=22),
        any::<bool>(),
    )
        .prop_map(
            |((shape, memory_mib), name, devices, prefer_ht, consolidate, hw_version, huge)| Spec {
                name,
                vcpus: shape.vcpus,
                memory_mib,
                guest_os: Some("rhel9-64".into()),
                topology: Some(shape),
                hugepage_kib: huge.then_some(1 << 20),
                devices: devices
                    .into_iter()
                    .enumerate()
                    .map(|(index, (bus, node))| Device {
                        name: format!("pciPassthru{index}"),
                        address: format!("0000:{bus:02x}:00.0"),
                        guest_node: node.filter(|_| hw_version.is_none_or(|version| version >= 20)),
                    })
                    .collect(),
                esxi: EsxiKeys {
                    hw_version,
                    prefer_ht,
                    consolidate,
                    ..EsxiKeys::default()
                },
                ..Spec::default()
            },
        )
}

/// A file with a few bytes changed.
fn mutated() -> impl Strategy<Value = String> {
    let file = prop::sample::select(vec![DATABASE, AUTOMATIC, WINDOWS]);
    let byte = prop::sample::select(b"\"=#|-0129 \n\r\t.,x".to_vec());
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
        lines in prop::collection::vec(("(numvcpus|memsize|cpuid.(coresPerSocket|numSMT)|numa.(vcpu.(coresPerNode|min)|autosize(.cookie)?)|vcpu.hotadd|sched.vcpu1.affinity|pciPassthru[01].(present|id|pxm))", "( = | ?= ?\")", "(-?[0-9]{1,5}|TRUE|false|)\"?"), 0..20),
    ) {
        let lines: Vec<String> = lines.into_iter().map(|(key, equals, value)| key + &equals + &value).collect();
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
        prop_assert!(written.findings.iter().all(|finding| !finding.code.starts_with("lost-")), "{:?}", written.findings);
        prop_assert_eq!(
            (&again.name, again.vcpus, again.memory_mib, &again.guest_os, &again.topology, again.hugepage_kib, &again.devices),
            (&spec.name, spec.vcpus, spec.memory_mib, &spec.guest_os, &spec.topology, spec.hugepage_kib, &spec.devices)
        );
        prop_assert_eq!((again.esxi.prefer_ht, again.esxi.consolidate), (spec.esxi.prefer_ht, spec.esxi.consolidate));
        let second = write(&again, &Target::default());
        prop_assert_eq!(read(&second.text).unwrap(), again);
    }

    #[test]
    fn an_edit_to_another_shape_gives_that_shape_and_keeps_the_other_lines(
        (shape, memory_mib) in shapes(),
        file in prop::sample::select(vec![DATABASE, AUTOMATIC, WINDOWS]),
    ) {
        // Before hardware version 20 a file with hot-add cannot state vNUMA nodes.
        let file = if file == WINDOWS && !shape.numa_nodes.is_empty() { AUTOMATIC } else { file };
        let mut spec = read(file).unwrap();
        (spec.vcpus, spec.memory_mib, spec.topology) = (shape.vcpus, memory_mib, Some(shape));
        let written = edit(file, &spec, &Target::default()).unwrap();
        let again = read(&written.text).unwrap();
        prop_assert_eq!((again.vcpus, again.memory_mib, again.topology), (spec.vcpus, spec.memory_mib, spec.topology));
        prop_assert_eq!((again.name, again.devices), (spec.name, spec.devices));
        let ours = ["numvcpus", "memSize", "sched.mem.min", "cpuid.", "numa.vcpu", "numa.autosize", "numa.allowHotadd"];
        let others = |text: &str| -> Vec<String> {
            text.split_inclusive('\n').filter(|line| !ours.iter().any(|key| line.starts_with(key))).map(str::to_owned).collect()
        };
        prop_assert_eq!(others(&written.text), others(file));
    }
}
