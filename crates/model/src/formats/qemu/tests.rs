use proptest::prelude::*;

use super::super::smp::tests::{carried, difference, line, mangled, vms};
use super::super::{Accelerator, Target};
use super::*;
use crate::GuestTopology;
use crate::host::Vendor;
use crate::vm::{Device, GuestCpu};

const HAND_WRITTEN: &str = include_str!("../../../tests/data/qemu/hand-written.sh");
const PROXMOX: &str = include_str!("../../../tests/data/qemu/proxmox-showcmd.txt");
const LIBVIRT: &str = include_str!("../../../tests/data/qemu/libvirt-ps.txt");
const LINES: &str = include_str!("../../../tests/data/qemu/one-word-per-line.txt");
const SAMPLES: [&str; 4] = [HAND_WRITTEN, PROXMOX, LIBVIRT, LINES];

const KVM: Target = Target {
    accelerator: Accelerator::Kvm,
    vendor: Vendor::Intel,
    qemu_major: 10,
};

fn shape(text: &str) -> String {
    read(text)
        .unwrap()
        .topology
        .as_ref()
        .map(line)
        .unwrap_or_default()
}

#[test]
fn reads_what_a_person_wrote() {
    let vm = read(HAND_WRITTEN).unwrap();
    assert_eq!(
        (vm.name.as_str(), vm.vcpus, vm.memory_mib),
        ("db one", 12, 8192)
    );
    assert_eq!(vm.cpu, GuestCpu::Named("EPYC-Milan".into()));
    assert_eq!(vm.hugepage_kib, Some(2048));
    let nic = Device {
        name: "nic0".into(),
        address: "0000:41:00.1".into(),
        guest_node: Some(1),
    };
    assert_eq!(vm.devices, [nic]);
    let topology = vm.topology.unwrap();
    assert_eq!(
        line(&topology),
        "12 = 2x1x1x6x1 | 0-5 4096M [0] | 6-11 4096M [1]"
    );
    assert_eq!(topology.distances, [[10, 32], [32, 10]]);
}

#[test]
fn reads_what_proxmox_and_libvirt_start() {
    let vm = read(PROXMOX).unwrap();
    assert_eq!(
        (vm.name.as_str(), vm.max_vcpus, &vm.cpu),
        ("web", None, &GuestCpu::Host)
    );
    assert_eq!(
        shape(PROXMOX),
        "8 = 2x1x1x4x1 | 0-3 4096M [] | 4-7 4096M []"
    );
    let vm = read(LIBVIRT).unwrap();
    assert_eq!(
        (vm.vcpus, vm.max_vcpus, vm.memory_mib),
        (13, Some(16), 1024)
    );
    assert_eq!(vm.devices[0].address, "0000:82:00.0");
    assert_eq!(vm.topology.as_ref().unwrap().llcs[0].size_bytes, 16 << 20);
    assert_eq!(
        shape(LIBVIRT),
        "13 = 2x2x1x4x1 | 0-7 512M [0] | 8-12 512M [1] L0 L1 L2 L3 L4 L5 L6 L7 L8 L9 L10 L11 L12"
    );
    let vm = read(LINES).unwrap();
    assert_eq!(
        (vm.name.as_str(), vm.memory_mib, vm.hugepage_kib),
        ("it's me", 4096, Some(1 << 20))
    );
    assert_eq!(
        shape(LINES),
        "8 = 8x1x1x1x1",
        "machine types before 6.2 prefer sockets"
    );
}

#[test]
fn options_merge_as_in_qemu() {
    for (text, expected) in [
        ("qemu -m 1G", ""),
        ("-smp 8", "8 = 1x1x1x8x1"),
        ("qemu -smp 8 -smp sockets=2", "8 = 2x1x1x4x1"),
        (
            "qemu --smp 4,cores=4 -M q35,smp.modules=2,smp.cores=2",
            "4 = 1x1x2x2x1",
        ),
        (
            "qemu -smp 4 -machine q35,smp-cache.0.cache=l3,smp-cache.0.topology=core",
            "4 = 1x1x1x4x1 L0 L1 L2 L3",
        ),
        (
            "qemu -smp 4,dies=2 -cpu max,l3-cache=on",
            "4 = 1x2x1x2x1 L0-1 L2-3",
        ),
        (
            "qemu -smp 4,dies=2 -cpu host,host-cache-info=on -machine smp-cache.0.cache=l3,smp-cache.0.topology=die",
            "4 = 1x2x1x2x1",
        ),
        (
            "qemu -smp 4,sockets=2 -numa node -numa node,mem=2G",
            "4 = 2x1x1x2x1 | 0-1 0M [] | 2-3 2048M []",
        ),
        (
            "qemu -smp 4,sockets=2 -numa node -numa node -numa cpu,node-id=1,socket-id=0 \
             -numa cpu,node-id=0,socket-id=1,core-id=0",
            "4 = 2x1x1x2x1 | 2 0M [] | 0-1,3 0M []",
        ),
        (
            "qemu -smp 2 -numa node,nodeid=1,cpus=0 -numa node,nodeid=0,cpus=1",
            "2 = 1x1x1x2x1 | 1 0M [] | 0 0M []",
        ),
        ("qemu -append '-smp 4' -S -smp 2", "2 = 1x1x1x2x1"),
    ] {
        assert_eq!(shape(text), expected, "{text}");
    }
    for (text, mib) in [
        ("qemu -smp 1", 128),
        ("qemu -m 1.5G", 1536),
        ("qemu -m 64 -m size=2G,slots=2,maxmem=4G", 2048),
        (
            "qemu -machine q35,memory-backend=x -object memory-backend-ram,id=x,size=3G",
            3072,
        ),
    ] {
        assert_eq!(read(text).unwrap().memory_mib, mib, "{text}");
    }
}

#[test]
fn errors_say_where_and_what() {
    for (text, part, message) in [
        (
            "qemu -smp 0",
            "0",
            "cpus is \"0\"; write a whole number from 1 to 4096",
        ),
        ("qemu -smp 8,cores=-1", "8,cores=-1", "cores is \"-1\""),
        (
            "qemu -smp 99999999999999999999",
            "99999999999999999999",
            "whole number",
        ),
        ("qemu -smp 5000", "5000", "from 1 to 4096"),
        ("qemu -m lots", "lots", "\"lots\" is no size"),
        (
            "qemu -numa node,cpus=9-",
            "node,cpus=9-",
            "is no number below",
        ),
        (
            "qemu -numa node,nodeid=128",
            "node,nodeid=128",
            "at most 128 NUMA nodes",
        ),
        ("qemu -name 'x", "'", "not closed"),
        ("hello world", "", "expected a QEMU command line"),
        ("", "", "expected a QEMU command line"),
    ] {
        let error = read(text).unwrap_err();
        assert_eq!(&text[error.span.clone()], part, "{text}");
        assert!(error.message.contains(message), "{text}: {}", error.message);
    }
}

#[test]
fn writes_a_command_line_to_be_completed() {
    let mut vm = read(LIBVIRT).unwrap();
    vm.cpu = GuestCpu::Named("EPYC-Rome".into());
    vm.devices[0].guest_node = Some(1);
    insta::assert_snapshot!(write(&vm, &KVM).text, @r"
    qemu-system-x86_64 \
      -name guest=app,debug-threads=on \
      -machine q35,accel=kvm,smp-cache.0.cache=l3,smp-cache.0.topology=core \
      -cpu EPYC-Rome \
      -m 1024M \
      -smp 13,maxcpus=16,sockets=2,dies=2,modules=1,cores=4,threads=1 \
      -object memory-backend-ram,id=mem0,size=512M,host-nodes=0,policy=preferred \
      -numa node,nodeid=0,cpus=0-7,memdev=mem0 \
      -object memory-backend-ram,id=mem1,size=512M,host-nodes=1,policy=preferred \
      -numa node,nodeid=1,cpus=8-15,memdev=mem1 \
      -numa dist,src=0,dst=1,val=32 \
      -numa dist,src=1,dst=0,val=32 \
      -device pxb-pcie,id=pxb1,bus=pcie.0,bus_nr=254,numa_node=1 \
      -device pcie-root-port,id=port1,bus=pxb1,chassis=1 \
      -device vfio-pci,host=0000:82:00.0,bus=port1,id=hostdev0
    ");
    let tcg = Target {
        accelerator: Accelerator::Tcg,
        qemu_major: 9,
        ..KVM
    };
    vm.hugepage_kib = Some(2048);
    let written = write(&vm, &tcg);
    insta::assert_snapshot!(written.text, @r"
    qemu-system-x86_64 \
      -name guest=app,debug-threads=on \
      -machine q35,accel=tcg \
      -cpu EPYC-Rome,vendor=GenuineIntel,min-level=0x20,l3-cache=on \
      -m 1024M \
      -smp 13,maxcpus=16,sockets=2,dies=8,cores=1,threads=1 \
      -object memory-backend-memfd,hugetlb=on,hugetlbsize=2048k,prealloc=on,id=mem0,size=512M,host-nodes=0,policy=preferred \
      -numa node,nodeid=0,cpus=0-7,memdev=mem0 \
      -object memory-backend-memfd,hugetlb=on,hugetlbsize=2048k,prealloc=on,id=mem1,size=512M,host-nodes=1,policy=preferred \
      -numa node,nodeid=1,cpus=8-15,memdev=mem1 \
      -numa dist,src=0,dst=1,val=32 \
      -numa dist,src=1,dst=0,val=32 \
      -device pxb-pcie,id=pxb1,bus=pcie.0,bus_nr=254,numa_node=1 \
      -device pcie-root-port,id=port1,bus=pxb1,chassis=1 \
      -device vfio-pci,host=0000:82:00.0,bus=port1,id=hostdev0
    ");
    let findings: Vec<&str> = written
        .findings
        .iter()
        .map(|finding| finding.code)
        .collect();
    assert_eq!(findings, ["lost-smp-cache", "tcg-shows-intel"]);
}

#[test]
fn an_edit_touches_only_what_changes() {
    let mut vm = read(HAND_WRITTEN).unwrap();
    let mut topology = GuestTopology::uniform(12, [2, 2, 1, 3, 1]);
    topology.llcs = super::super::smp::llcs_at(&topology, crate::Level::Die, 0);
    topology.numa_nodes = vm.topology.as_ref().unwrap().numa_nodes.clone();
    topology.numa_nodes[1].host_nodes = vec![2];
    topology.distances = vm.topology.as_ref().unwrap().distances.clone();
    vm.topology = Some(topology);
    let edited = edit(HAND_WRITTEN, &vm, &KVM).unwrap();
    assert_eq!(edited.findings, []);
    insta::assert_snapshot!(difference(HAND_WRITTEN, &edited.text), @r"
    -     -machine q35,usb=off,smm=off \
    -     -smp 12,sockets=2,cores=6 \
    -     -object memory-backend-file,id=m1,size=4G,mem-path=/dev/hugepages,share=on,prealloc=on,host-nodes=1,policy=bind \
    +     -machine q35,usb=off,smm=off,smp-cache.0.cache=l3,smp-cache.0.topology=die \
    +     -smp 12,maxcpus=12,sockets=2,dies=2,modules=1,cores=3,threads=1 \
    +     -object memory-backend-file,id=m1,size=4G,mem-path=/dev/hugepages,share=on,prealloc=on,host-nodes=2,policy=bind \
    ");
    let text = "qemu-system-x86_64 -smp 8 -nodefaults # for tests";
    let vm = Spec {
        topology: Some(GuestTopology::uniform(8, [1, 1, 1, 4, 2])),
        ..read(text).unwrap()
    };
    insta::assert_snapshot!(edit(text, &vm, &KVM).unwrap().text, @r"
    qemu-system-x86_64 -smp 8,maxcpus=8,sockets=1,dies=1,modules=1,cores=4,threads=2 -nodefaults # for tests
    ");
}

#[test]
fn many_vcpus_get_an_interrupt_controller_that_reaches_them() {
    let vm = |vcpus| Spec {
        vcpus,
        memory_mib: 64,
        topology: Some(GuestTopology::uniform(vcpus, [1, 1, 1, vcpus, 1])),
        ..Spec::default()
    };
    for (vcpus, extended) in [(255, false), (256, true)] {
        let text = write(&vm(vcpus), &KVM).text;
        let both = [
            "kernel-irqchip=split",
            "-device intel-iommu,intremap=on,eim=on",
        ];
        assert_eq!(
            both.map(|part| text.contains(part)),
            [extended; 2],
            "{vcpus}"
        );
    }
}

#[test]
fn an_edit_turns_off_what_would_hide_the_llcs() {
    let mut topology = GuestTopology::uniform(4, [1, 2, 1, 2, 1]);
    topology.llcs = super::super::smp::llcs_at(&topology, crate::Level::Die, 0);
    for (text, expected) in [
        (
            "qemu -smp 4 -cpu host,host-cache-info=on,+x2apic",
            "-cpu host,host-cache-info=off,+x2apic ",
        ),
        (
            "qemu -smp 4 -cpu EPYC,l3-cache=off",
            "-cpu EPYC,l3-cache=on ",
        ),
    ] {
        let vm = Spec {
            topology: Some(topology.clone()),
            ..read(text).unwrap()
        };
        let edited = edit(text, &vm, &KVM).unwrap().text + " ";
        assert!(edited.contains(expected), "{edited}");
        assert_eq!(shape(&edited), "4 = 1x2x1x2x1 L0-1 L2-3");
    }
}

#[test]
fn nodes_come_and_go_with_their_backends() {
    let shapes = [
        ("flat", GuestTopology::uniform(12, [1, 1, 1, 12, 1])),
        ("four", read("-smp 12,sockets=4 -numa node,mem=2G -numa node,mem=2G -numa node,mem=2G -numa node,mem=2G").unwrap().topology.unwrap()),
    ];
    for (what, topology) in shapes {
        let vm = Spec {
            topology: Some(topology.clone()),
            ..read(HAND_WRITTEN).unwrap()
        };
        let edited = edit(HAND_WRITTEN, &vm, &KVM).unwrap().text;
        let again = read(&edited).unwrap();
        assert_eq!(
            line(again.topology.as_ref().unwrap()),
            line(&topology),
            "{what}"
        );
        assert_eq!(
            (again.memory_mib, again.hugepage_kib),
            (8192, Some(2048)),
            "{what}"
        );
        assert_eq!(
            edited.matches("share=on").count(),
            topology.numa_nodes.len().max(1),
            "{what}"
        );
        assert_eq!(
            edited.contains("memory-backend=mem0"),
            topology.numa_nodes.is_empty(),
            "{what}"
        );
    }
}

#[test]
fn lints_name_what_is_wrong() {
    for (text, codes) in [
        ("qemu -smp 8,sockets=2 -m 1G", &[][..]),
        ("qemu -smp 10,sockets=4", &["topology-mismatch"]),
        ("qemu -smp 8,sockets=8", &["flat-topology"]),
        ("qemu -smp 2,sockets=2", &[]),
        (
            "qemu -smp 4 -numa node,cpus=0-2 -numa node,cpus=2-3",
            &["numa-overlap", "memory-mismatch"],
        ),
        (
            "qemu -smp 4 -m 1G -numa node,nodeid=1,mem=1G",
            &["numa-node-ids"],
        ),
        (
            "qemu -smp 4 -m 0 -numa node,memdev=x",
            &["numa-memdev-missing"],
        ),
        (
            "qemu -smp 4 -m 2G -cpu max,l3-cache=on -numa node,cpus=0-1,mem=1G -numa node,cpus=2-3,mem=1G",
            &["llc-spans-nodes"],
        ),
        (
            "qemu -smp 4,threads=2 -cpu Opteron_G5",
            &["missing-topoext"],
        ),
        (
            "qemu -smp 4,threads=2 -cpu EPYC,topoext=off",
            &["missing-topoext"],
        ),
        ("qemu -smp 4,threads=2 -cpu EPYC", &[]),
        (
            "qemu -smp 4 -cpu host,host-cache-info=on",
            &["host-cache-passthrough"],
        ),
        (HAND_WRITTEN, &["memory-strict"]),
        (LIBVIRT, &[]),
    ] {
        let found: Vec<&str> = lint(text)
            .unwrap()
            .iter()
            .map(|finding| finding.code)
            .collect();
        assert_eq!(found, codes, "{text}");
    }
}

#[test]
fn hostile_sizes_do_not_take_time_or_memory() {
    let many = |part: &str| format!("qemu -smp 4096 {}", part.repeat(20_000));
    for text in [
        many("-device vfio-pci,bus=a,id=a "),
        many("-numa dist,src=0,dst=1,val=20 "),
        many("-object memory-backend-ram,id=m,host-nodes=0-65535 "),
        many("-numa node,cpus=0-4095 "),
        many("-machine smp-cache.0.cache=l3,smp-cache.0.topology=core "),
        format!("qemu -smp {}", "8,".repeat(100_000)),
        format!("qemu -object {}", "{\"a\":".repeat(100_000)),
        format!("qemu -name {}", "'a'".repeat(100_000)),
        "\\\n".repeat(100_000) + "-smp 1",
    ] {
        if let Ok(vm) = read(&text) {
            assert_eq!(edit(&text, &vm, &KVM).unwrap().text, text);
        }
        let _ = lint(&text);
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(vm in vms()) {
        let (_, findings) = arguments(&vm, &KVM);
        prop_assert!(findings.is_empty(), "{:?}", findings);
        let text = write(&vm, &KVM).text;
        prop_assert_eq!(carried(&read(&text).unwrap()), vm);
    }

    #[test]
    fn an_edited_file_has_the_new_shape(from in vms(), to in vms()) {
        let text = write(&from, &KVM).text;
        let edited = edit(&text, &to, &KVM).unwrap().text;
        let expected = Spec { name: from.name, ..to };
        prop_assert_eq!(&carried(&read(&edited).unwrap()), &expected);
        prop_assert_eq!(edit(&edited, &expected, &KVM).unwrap().text, edited);
    }

    #[test]
    fn a_real_command_line_takes_any_shape(sample in prop::sample::select(&SAMPLES[..]), to in vms()) {
        let old = read(sample).unwrap();
        let edited = edit(sample, &to, &KVM).unwrap().text;
        let new = carried(&read(&edited).unwrap());
        prop_assert_eq!(new.topology, to.topology);
        prop_assert_eq!((new.memory_mib, new.hugepage_kib, new.cpu), (to.memory_mib, to.hugepage_kib, to.cpu));
        prop_assert_eq!((new.name, new.devices), (old.name, old.devices));
        for kept in ["-drive 'file=/srv/vm/db one.qcow2,if=virtio,cache=none'", "-append \"root=/dev/vda -smp 99\"",
            "pxb-pcie,id=pxb1", ",+svm,-xsaves", "# Database VM", "smm=off", "-uuid 2add06cb", "-no-shutdown", "\n/boot/vmlinuz with blank\n",
            "maxmem=32G", "+kvm_pv_eoi", "type=pc+pve0"] {
            prop_assert_eq!(edited.contains(kept), sample.contains(kept), "{}", kept);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,200}") {
        let _ = read(&text);
    }

    #[test]
    fn mangled_files_do_no_harm(text in mangled(&SAMPLES)) {
        let _ = lint(&text);
        if let Ok(vm) = read(&text) {
            prop_assert_eq!(edit(&text, &vm, &KVM).unwrap().text, text);
        }
    }
}
