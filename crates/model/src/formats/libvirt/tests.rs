use proptest::prelude::*;

use super::super::smp::llcs_at;
use super::super::smp::tests::{carried, difference, line, mangled, vms};
use super::super::{Accelerator, Target};
use super::*;
use crate::host::Vendor;
use crate::vm::{Device, GuestCpu, Pin};
use crate::{GuestTopology, Level};

const VIRT_MANAGER: &str = include_str!("../../../tests/data/libvirt/virt-manager.xml");
const PINNED: &str = include_str!("../../../tests/data/libvirt/pinned.xml");
const ONE_LINE: &str = include_str!("../../../tests/data/libvirt/one-line.xml");
const FLAT: &str = include_str!("../../../tests/data/libvirt/flat.xml");
const SAMPLES: [&str; 4] = [VIRT_MANAGER, PINNED, ONE_LINE, FLAT];

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

fn codes(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.code).collect()
}

#[test]
fn reads_what_virt_manager_made() {
    let vm = read(VIRT_MANAGER).unwrap();
    assert_eq!(
        (vm.name.as_str(), vm.vcpus, vm.max_vcpus, vm.memory_mib),
        ("win11", 8, None, 16384)
    );
    assert_eq!(vm.guest_os.as_deref(), Some("http://microsoft.com/win/11"));
    assert_eq!(
        (vm.cpu, vm.topology, vm.hugepage_kib),
        (GuestCpu::Host, None, None)
    );
    let gpu = Device {
        name: "ua-gpu".into(),
        address: "0000:41:00.0".into(),
        guest_node: None,
    };
    assert_eq!(vm.devices, [gpu]);
}

#[test]
fn reads_a_pinned_domain_with_nodes() {
    let vm = read(PINNED).unwrap();
    assert_eq!(
        (vm.vcpus, vm.max_vcpus, vm.memory_mib),
        (14, Some(16), 32768)
    );
    assert_eq!(vm.hugepage_kib, Some(1 << 20));
    assert_eq!(vm.pins.len(), 14);
    assert_eq!(
        vm.pins[1],
        Pin {
            vcpu: 1,
            cpus: "1,65".parse().unwrap()
        }
    );
    assert_eq!(
        vm.pins[2],
        Pin {
            vcpu: 2,
            cpus: "0-4,6-31".parse().unwrap()
        }
    );
    let nic = Device {
        name: "hostdev0".into(),
        address: "0000:82:00.2".into(),
        guest_node: Some(1),
    };
    assert_eq!(vm.devices, [nic]);
    let topology = vm.topology.unwrap();
    assert_eq!(topology.distances, [[10, 32], [32, 10]]);
    assert_eq!(topology.llcs[0].size_bytes, 16 << 20);
    let expected = "14 = 2x2x1x4x1 | 0-7 16384M [0] | 8-13 16384M [1] L0-3 L4-7 L8-11 L12-13";
    assert_eq!(line(&topology), expected);
}

#[test]
fn reads_what_libvirt_would_start() {
    assert_eq!(read(ONE_LINE).unwrap().memory_mib, 256);
    let cpu = |inner: &str| {
        format!("<domain><memory>1024</memory><vcpu>8</vcpu><cpu>{inner}</cpu></domain>")
    };
    let qemu = |inner: &str, argument: &str| {
        format!(
            "<domain xmlns:x='http://libvirt.org/schemas/domain/qemu/1.0'><vcpu>8</vcpu><cpu>{inner}</cpu>\
             <x:commandline><x:arg value='-machine'/><x:arg value='{argument}'/></x:commandline></domain>"
        )
    };
    let topology = "<topology sockets='1' dies='2' cores='4' threads='1'/>";
    for (text, expected) in [
        (cpu(topology), "8 = 1x2x1x4x1"),
        (cpu(&format!("{topology}<cache level='3' mode='emulate'/>")), "8 = 1x2x1x4x1 L0-3 L4-7"),
        (cpu(&format!("{topology}<cache mode='passthrough'/>")), "8 = 1x2x1x4x1"),
        (cpu("<numa><cell cpus='0-3' memory='1' unit='GiB'/></numa>"), "8 = 8x1x1x1x1 | 0-7 1024M []"),
        (
            cpu("<numa><cell id='1' cpus='0-3' memory='1048576'/><cell id='0' memory='4096'/></numa>"),
            "8 = 8x1x1x1x1 | 4-7 4M [] | 0-3 1024M []",
        ),
        (qemu(topology, "smp-cache.0.cache=l3,smp-cache.0.topology=socket"), "8 = 1x2x1x4x1 L0-7"),
        (
            qemu(topology, "smp.modules=2,smp.cores=2,smp-cache.0.cache=l3,smp-cache.0.topology=module"),
            "8 = 1x2x2x2x1 L0-1 L2-3 L4-5 L6-7",
        ),
        (qemu("", "hpet=off"), "8 = 8x1x1x1x1"),
        ("<domain><memory>1</memory><vcpu>3</vcpu></domain>".to_owned(), ""),
        ("<domainsnapshot><domain><vcpu>3</vcpu><cpu><numa/><cache/></cpu></domain></domainsnapshot>".to_owned(), "3 = 3x1x1x1x1"),
    ] {
        assert_eq!(shape(&text), expected, "{text}");
    }
    assert_eq!(shape(FLAT), "2 = 16x1x1x1x1 | 0-1 4096M [] |  4096M []");
}

#[test]
fn memory_has_all_of_libvirts_units() {
    for (attributes, number, mib) in [
        ("", "1048576", 1024),
        (" unit='b'", "1073741824", 1024),
        (" unit='bytes'", "1073741824", 1024),
        (" unit='KB'", "1048576", 1000),
        (" unit='k'", "1048576", 1024),
        (" unit='MB'", "1024", 976),
        (" unit='m'", "1024", 1024),
        (" unit='GiB'", " 1 ", 1024),
        (" unit='G'", "1", 1024),
        (" unit='TiB'", "2", 2 << 20),
        (" unit='E'", "1", 1 << 40),
    ] {
        let text = format!("<domain><memory{attributes}>{number}</memory></domain>");
        assert_eq!(read(&text).unwrap().memory_mib, mib, "{text}");
    }
}

#[test]
fn errors_say_where_and_what() {
    for (text, part, message) in [
        (
            "<domain><vcpu>many</vcpu></domain>",
            "many",
            "<vcpu>: not a number",
        ),
        (
            "<domain><vcpu>0</vcpu></domain>",
            "<vcpu>0</vcpu>",
            "maxcpus is 0; QEMU takes 1 to 4096",
        ),
        (
            "<domain><vcpu>4097</vcpu></domain>",
            "<vcpu>4097</vcpu>",
            "1 to 4096",
        ),
        (
            "<domain><vcpu current='-1'>4</vcpu></domain>",
            "-1",
            "current of <vcpu> is \"-1\"",
        ),
        (
            "<domain><memory unit='QiB'>4</memory></domain>",
            "4",
            "\"4\" \"QiB\" is no memory size",
        ),
        (
            "<domain><memory unit='EiB'>99999999999</memory></domain>",
            "99999999999",
            "no memory size",
        ),
        (
            "<domain><vcpu cpuset='0-x'>4</vcpu></domain>",
            "0-x",
            "\"x\" is no number below 65536",
        ),
        (
            "<domain><cpu><topology sockets='1' cores='9999999999999999999999'/></cpu></domain>",
            "9999999999999999999999",
            "cores of <topology>",
        ),
        (
            "<network/>",
            "<",
            "<network> found; expected a libvirt <domain>",
        ),
        (
            "<domain><name></domain>",
            "",
            "not a domain XML: expected 'name' tag",
        ),
        (
            "<!DOCTYPE d [<!ENTITY a 'b'>]><domain>&a;</domain>",
            "",
            "DTD",
        ),
        ("", "", "not a domain XML"),
    ] {
        let error = read(text).unwrap_err();
        assert_eq!(&text[error.span.clone()], part, "{text}: {}", error.message);
        assert!(error.message.contains(message), "{text}: {}", error.message);
    }
}

#[test]
fn writes_a_domain_to_be_completed() {
    let mut vm = read(PINNED).unwrap();
    vm.pins.truncate(2);
    let written = write(&vm, &KVM);
    assert_eq!(written.findings, []);
    insta::assert_snapshot!(written.text, @r"
    <domain type='kvm'>
      <name>db</name>
      <memory unit='KiB'>33554432</memory>
      <memoryBacking>
        <hugepages>
          <page size='1048576' unit='KiB' nodeset='0-1'/>
        </hugepages>
        <source type='memfd'/>
      </memoryBacking>
      <vcpu placement='static' current='14'>16</vcpu>
      <cputune>
        <vcpupin vcpu='0' cpuset='0,64'/>
        <vcpupin vcpu='1' cpuset='1,65'/>
      </cputune>
      <numatune>
        <memnode cellid='0' mode='preferred' nodeset='0'/>
        <memnode cellid='1' mode='preferred' nodeset='1'/>
      </numatune>
      <os>
        <type arch='x86_64' machine='q35'>hvm</type>
      </os>
      <features>
        <acpi/>
        <apic/>
      </features>
      <cpu mode='custom' match='exact' check='partial'>
        <model fallback='forbid'>EPYC-Rome</model>
        <topology sockets='2' dies='2' clusters='1' cores='4' threads='1'/>
        <cache level='3' mode='emulate'/>
        <numa>
          <cell id='0' cpus='0-7' memory='16777216' unit='KiB'>
            <distances>
              <sibling id='0' value='10'/>
              <sibling id='1' value='32'/>
            </distances>
          </cell>
          <cell id='1' cpus='8-15' memory='16777216' unit='KiB'>
            <distances>
              <sibling id='0' value='32'/>
              <sibling id='1' value='10'/>
            </distances>
          </cell>
        </numa>
      </cpu>
      <devices>
        <controller type='pci' index='0' model='pcie-root'/>
        <controller type='pci' index='1' model='pcie-expander-bus'>
          <target busNr='254'>
            <node>1</node>
          </target>
        </controller>
        <controller type='pci' index='2' model='pcie-root-port'>
          <address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/>
        </controller>
        <hostdev mode='subsystem' type='pci' managed='yes'>
          <source>
            <address domain='0x0000' bus='0x82' slot='0x00' function='0x2'/>
          </source>
          <address type='pci' domain='0x0000' bus='0x02' slot='0x00' function='0x0'/>
        </hostdev>
      </devices>
    </domain>
    ");
}

#[test]
fn the_guest_system_is_a_libosinfo_id() {
    for (os, findings) in [
        ("http://debian.org/debian/12", ""),
        ("windows11-64", "lost-guest-os"),
    ] {
        let vm = Spec {
            guest_os: Some(os.to_owned()),
            ..read(ONE_LINE).unwrap()
        };
        let written = write(&vm, &KVM);
        assert_eq!(codes(&written.findings).join(" "), findings);
        let read = read(&written.text).unwrap().guest_os;
        assert_eq!(read, vm.guest_os.filter(|_| findings.is_empty()));
    }
}

#[test]
fn what_libvirt_has_no_xml_for_goes_to_qemu() {
    let mut shape = GuestTopology::uniform(8, [1, 1, 2, 2, 2]);
    shape.llcs = llcs_at(&shape, Level::Module, 0);
    let vm = Spec {
        name: "a<b".into(),
        vcpus: 8,
        memory_mib: 1024,
        topology: Some(shape),
        ..Spec::default()
    };
    let amd = Target {
        vendor: Vendor::Amd,
        ..KVM
    };
    let written = write(&vm, &amd);
    assert_eq!(codes(&written.findings), ["custom-argv"]);
    insta::assert_snapshot!(written.text, @r"
    <domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
      <name>a&lt;b</name>
      <memory unit='KiB'>1048576</memory>
      <vcpu placement='static'>8</vcpu>
      <os>
        <type arch='x86_64' machine='q35'>hvm</type>
      </os>
      <features>
        <acpi/>
        <apic/>
      </features>
      <cpu mode='host-passthrough' check='none' migratable='on'>
        <topology sockets='1' dies='1' clusters='1' cores='4' threads='2'/>
        <cache level='3' mode='emulate'/>
        <feature policy='require' name='topoext'/>
      </cpu>
      <devices/>
      <qemu:commandline>
        <qemu:arg value='-machine'/>
        <qemu:arg value='smp.modules=2,smp.cores=2,smp-cache.0.cache=l3,smp-cache.0.topology=module'/>
      </qemu:commandline>
    </domain>
    ");
    let nameless = Spec {
        name: String::new(),
        cpu: GuestCpu::Host,
        ..vm
    };
    let tcg = Target {
        accelerator: Accelerator::Tcg,
        qemu_major: 9,
        ..amd
    };
    let written = write(&nameless, &tcg);
    let expected = "lost-modules cpu-host-needs-kvm no-name custom-argv";
    assert_eq!(codes(&written.findings).join(" "), expected);
    insta::assert_snapshot!(written.text.lines().skip(8).collect::<Vec<_>>().join("\n"), @r"
        <acpi/>
        <apic/>
      </features>
      <cpu mode='maximum' check='none'>
        <topology sockets='1' dies='2' clusters='1' cores='2' threads='2'/>
        <cache level='3' mode='emulate'/>
      </cpu>
      <devices/>
      <qemu:commandline>
        <qemu:arg value='-global'/>
        <qemu:arg value='max-x86_64-cpu.vendor=GenuineIntel'/>
        <qemu:arg value='-global'/>
        <qemu:arg value='max-x86_64-cpu.min-level=0x20'/>
      </qemu:commandline>
    </domain>
    ");
}

#[test]
fn an_edit_touches_only_what_changes() {
    let mut vm = read(PINNED).unwrap();
    let topology = vm.topology.as_mut().unwrap();
    (topology.dies, topology.cores, topology.threads) = (4, 1, 2);
    topology.llcs = llcs_at(topology, Level::Socket, 0);
    topology.numa_nodes[1].host_nodes = vec![2, 3];
    vm.pins[0].cpus = "2,66".parse().unwrap();
    vm.pins.remove(1);
    let edited = edit(PINNED, &vm, &KVM).unwrap();
    assert_eq!(codes(&edited.findings), ["custom-argv"]);
    insta::assert_snapshot!(difference(PINNED, &edited.text), @r#"
    - 		<vcpupin vcpu='0' cpuset='0,64'/>
    - 		<vcpupin vcpu="1" cpuset="1,65"/>
    - 		<memnode cellid="1" mode='strict' nodeset="1"/>
    - 		<topology   sockets='2' dies='2'   cores='4' threads='1' />
    - 		<q:arg value='smp-cache.0.cache=l2,smp-cache.0.topology=module,smp-cache.1.cache=l3,smp-cache.1.topology=die,hpet=off'/>
    + 		<vcpupin vcpu='0' cpuset='2,66'/>
    + 		<memnode cellid="1" mode='strict' nodeset="2-3"/>
    + 		<topology   sockets='2' dies='4'   cores='1' threads='2' />
    + 		<q:arg value='smp-cache.0.cache=l2,smp-cache.0.topology=module,smp-cache.1.cache=l3,smp-cache.1.topology=socket,hpet=off'/>
    "#);
}

#[test]
fn what_is_missing_is_put_where_it_belongs() {
    let mut topology = GuestTopology::uniform(8, [1, 2, 1, 4, 1]);
    topology.llcs = llcs_at(&topology, Level::Die, 0);
    topology.numa_nodes = read(PINNED).unwrap().topology.unwrap().numa_nodes;
    topology.numa_nodes[0].vcpus = "0-3".parse().unwrap();
    topology.numa_nodes[1].vcpus = "4-7".parse().unwrap();
    let mut vm = Spec {
        topology: Some(topology),
        hugepage_kib: Some(2048),
        ..read(VIRT_MANAGER).unwrap()
    };
    vm.memory_mib = 32768;
    vm.pins = vec![Pin {
        vcpu: 0,
        cpus: "4-7".parse().unwrap(),
    }];
    let edited = edit(VIRT_MANAGER, &vm, &KVM).unwrap();
    insta::assert_snapshot!(difference(VIRT_MANAGER, &edited.text), @r#"
    -   <memory unit="GiB">16</memory>
    -   <currentMemory unit='KiB'>16777216</currentMemory>
    -   <cpu mode='host-passthrough' check='none' migratable='on'/>
    +   <memory unit="KiB">33554432</memory>
    +   <currentMemory unit='KiB'>33554432</currentMemory>
    +   <memoryBacking>
    +     <hugepages>
    +       <page size='2048' unit='KiB' nodeset='0-1'/>
    +     </hugepages>
    +     <source type='memfd'/>
    +   </memoryBacking>
    +   <cputune>
    +     <vcpupin vcpu='0' cpuset='4-7'/>
    +   </cputune>
    +   <numatune>
    +     <memnode cellid='0' mode='preferred' nodeset='0'/>
    +     <memnode cellid='1' mode='preferred' nodeset='1'/>
    +   </numatune>
    +   <cpu mode='host-passthrough' check='none' migratable='on'>
    +     <topology sockets='1' dies='2' clusters='1' cores='4' threads='1'/>
    +     <cache level='3' mode='emulate'/>
    +     <numa>
    +       <cell id='0' cpus='0-3' memory='16777216' unit='KiB'/>
    +       <cell id='1' cpus='4-7' memory='16777216' unit='KiB'/>
    +     </numa>
    +   </cpu>
    "#);
    vm.topology.as_mut().unwrap().llcs = llcs_at(vm.topology.as_ref().unwrap(), Level::Core, 0);
    let edited = edit(&edited.text, &vm, &KVM).unwrap();
    insta::assert_snapshot!(difference(VIRT_MANAGER, &edited.text).lines().rev().take(6).collect::<Vec<_>>().join("\n"), @r"
    +   </qemu:commandline>
    +     <qemu:arg value='smp-cache.0.cache=l3,smp-cache.0.topology=core'/>
    +     <qemu:arg value='-machine'/>
    +   <qemu:commandline>
    +   </cpu>
    +     </numa>
    ");
    let tiny = Spec {
        topology: vm.topology,
        ..read(ONE_LINE).unwrap()
    };
    insta::assert_snapshot!(edit(ONE_LINE, &tiny, &KVM).unwrap().text, @r"
    <domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><name>tiny</name><memory>33554432</memory><vcpu>8</vcpu><numatune><memnode cellid='0' mode='preferred' nodeset='0'/><memnode cellid='1' mode='preferred' nodeset='1'/></numatune><os><type arch='x86_64'>hvm</type></os><cpu><topology sockets='1' dies='2' clusters='1' cores='4' threads='1'/><numa><cell id='0' cpus='0-3' memory='16777216' unit='KiB'/><cell id='1' cpus='4-7' memory='16777216' unit='KiB'/></numa></cpu><qemu:commandline><qemu:arg value='-machine'/><qemu:arg value='smp-cache.0.cache=l3,smp-cache.0.topology=core'/></qemu:commandline></domain>
    ");
}

#[test]
fn what_stands_beside_a_change_is_kept() {
    let qemu = "http://libvirt.org/schemas/domain/qemu/1.0";
    let text = format!(
        "<domain xmlns:q='{qemu}'><vcpu>8</vcpu><numatune><memory mode='preferred' nodeset='3'/></numatune>\
         <cpu><numa><cell id='5' cpus='0-3' memory='1024'/><cell id='6' cpus='4-7' memory='1024'/></numa></cpu>\
         <q:commandline><q:arg value='-machine'/><q:arg value='x=a&amp;b&apos;'/></q:commandline></domain>"
    );
    let mut vm = read(&text).unwrap();
    assert_eq!(shape(&text), "8 = 8x1x1x1x1 | 0-3 1M [3] | 4-7 1M [3]");
    let topology = vm.topology.as_mut().unwrap();
    (topology.sockets, topology.dies, topology.cores) = (2, 2, 2);
    topology.llcs = llcs_at(topology, Level::Socket, 0);
    let edited = edit(&text, &vm, &KVM).unwrap().text;
    for part in [
        "<cell id='0' cpus='0-3' memory='1024'/><cell id='1' cpus='4-7' memory='1024'/>",
        "value='x=a&amp;b&apos;,smp-cache.0.cache=l3,smp-cache.0.topology=socket'",
        "<numatune><memory mode='preferred' nodeset='3'/></numatune>",
    ] {
        assert!(edited.contains(part), "{edited}");
    }
}

#[test]
fn what_cannot_be_done_in_place_is_said() {
    let mut vm = read(PINNED).unwrap();
    vm.devices[0].guest_node = Some(0);
    let edited = edit(PINNED, &vm, &KVM).unwrap();
    assert_eq!(
        (edited.text.as_str(), codes(&edited.findings)),
        (PINNED, vec!["lost-device-node"])
    );
    let auto = PINNED.replace(
        "mode='strict' nodeset='0-1'",
        "mode='strict' placement='auto'",
    );
    let auto = auto.replace(
        "\t\t<memnode cellid=\"1\" mode='strict' nodeset=\"1\"/>\n",
        "",
    );
    let mut vm = read(&auto).unwrap();
    vm.topology.as_mut().unwrap().numa_nodes[1].host_nodes = vec![5];
    let edited = edit(&auto, &vm, &KVM).unwrap();
    assert_eq!(
        (edited.text, codes(&edited.findings)),
        (auto, vec!["lost-host-nodes"])
    );
    let smt = GuestTopology::uniform(2, [1, 1, 1, 1, 2]);
    let vm = Spec {
        topology: Some(smt),
        ..read(ONE_LINE).unwrap()
    };
    let edited = edit(
        ONE_LINE,
        &vm,
        &Target {
            vendor: Vendor::Amd,
            ..KVM
        },
    )
    .unwrap();
    assert_eq!(codes(&edited.findings), ["no-cpu-model"]);
}

/// Codes of the findings about a domain of 8 vCPUs and 2 GiB with this in it.
fn lint_of(inner: &str) -> String {
    let text = format!("<domain><memory unit='GiB'>2</memory><vcpu>8</vcpu>{inner}</domain>");
    codes(&lint(&text).unwrap()).join(" ")
}

#[test]
fn lints_topologies_and_models() {
    let topology = "<topology sockets='1' cores='8' threads='1'/>";
    let smt = "<topology sockets='1' cores='4' threads='2'/>";
    for (cpu, expected) in [
        (topology, ""),
        ("", "flat-topology"),
        (
            "<topology sockets='1' cores='4' threads='1'/>",
            "topology-mismatch",
        ),
        (
            "<topology sockets='8' cores='1' threads='1'/>",
            "flat-topology",
        ),
        (smt, ""),
        ("SMT<model>EPYC</model>", ""),
        ("SMT<model>Skylake-Server</model>", ""),
        ("SMT<model>Opteron_G5</model>", "missing-topoext"),
        (
            "SMT<model>EPYC</model><feature policy='disable' name='topoext'/>",
            "missing-topoext",
        ),
        ("PLAIN<cache mode='passthrough'/>", "host-cache-passthrough"),
    ] {
        let cpu = cpu.replace("SMT", smt).replace("PLAIN", topology);
        assert_eq!(lint_of(&format!("<cpu>{cpu}</cpu>")), expected, "{cpu}");
    }
    let host = |more: &str| lint_of(&format!("<cpu mode='host-passthrough'>{smt}{more}</cpu>"));
    assert_eq!(host(""), "missing-topoext");
    assert_eq!(host("<feature policy='require' name='topoext'/>"), "");
    assert_eq!(lint_of(""), "flat-topology");
}

#[test]
fn lints_cells_and_tuning() {
    let topology = "<topology sockets='1' cores='8' threads='1'/>";
    let gib = "memory='1' unit='GiB'";
    for (cells, expected) in [
        ("<cell cpus='0-3' GIB/><cell cpus='4-7' GIB/>", ""),
        ("<cell cpus='0-7' GIB/>", "memory-mismatch"),
        (
            "<cell cpus='0-3' GIB/><cell cpus='3-6' GIB/>",
            "numa-overlap numa-not-covering",
        ),
        (
            "<cell cpus='0-3' GIB/><cell cpus='4-8' GIB/>",
            "numa-beyond-vcpus",
        ),
        (
            "<cell id='1' cpus='0-3' GIB/><cell id='1' cpus='4-7' GIB/>",
            "numa-cell-ids",
        ),
    ] {
        let cells = cells.replace("GIB", gib);
        let inner = format!("<cpu>{topology}<numa>{cells}</numa></cpu>");
        assert_eq!(lint_of(&inner), expected, "{cells}");
    }
    let nodes = format!("<numa><cell cpus='0-3' {gib}/><cell cpus='4-7' {gib}/></numa>");
    let cpu = format!("<cpu>{topology}{nodes}</cpu>");
    let emulated = format!("<cpu>{topology}<cache level='3' mode='emulate'/>{nodes}</cpu>");
    assert_eq!(lint_of(&emulated), "llc-spans-nodes");
    let memnode = "<numatune><memnode cellid='2' mode='preferred' nodeset='0'/></numatune>";
    assert_eq!(lint_of(&format!("{cpu}{memnode}")), "memnode-without-cell");
    let pin = "<cputune><vcpupin vcpu='9' cpuset='1'/></cputune>";
    assert_eq!(
        lint_of(&format!("{cpu}{pin}")),
        "pin-without-vcpu emulator-not-pinned"
    );
    let of_file = |text: &str| codes(&lint(text).unwrap()).join(" ");
    assert_eq!(of_file(PINNED), "memory-strict memory-strict memory-strict");
    assert_eq!(of_file(VIRT_MANAGER), "flat-topology");
    let flat = "flat-topology numa-not-covering host-cache-passthrough placement-auto";
    assert_eq!(of_file(FLAT), flat);
}

#[test]
fn hostile_sizes_do_not_take_time_or_memory() {
    let domain = |inner: &str| format!("<domain><vcpu>4096</vcpu>{inner}</domain>");
    let attributes = |name: &str, count: usize| {
        let all: Vec<String> = (0..count).map(|at| format!(" {name}{at}='x'")).collect();
        all.concat()
    };
    for text in [
        "<domain>".repeat(100_000),
        format!("{}{}", "<domain>".repeat(100_000), "</domain>".repeat(100_000)),
        domain(&"<cputune><vcpupin vcpu='1' cpuset='0-65535'/></cputune>".repeat(10_000)),
        domain(&format!("<cputune>{}</cputune>", "<vcpupin vcpu='1' cpuset='65535'/>".repeat(20_000))),
        domain(&format!("<cpu><numa>{}</numa></cpu>", "<cell cpus='0-4095' memory='1'/>".repeat(20_000))),
        domain(&format!("<devices>{}</devices>", "<hostdev type='pci'><address bus='1'/></hostdev><controller type='pci' index='1'><address bus='1'/></controller>".repeat(20_000))),
        format!("<domain{}/>", attributes("a", 100_000)),
        format!("<domain{}/>", attributes("xmlns:a", 100_000)),
        domain(&"<a xmlns:b='c'/>".repeat(20_000)),
        domain(&"&amp;".repeat(100_000)),
        domain(&"<!-- -->".repeat(100_000)),
    ] {
        if let Ok(vm) = read(&text) {
            assert!(edit(&text, &vm, &KVM).unwrap().text == text);
        }
        let _ = lint(&text);
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(vm in vms()) {
        let written = write(&vm, &KVM);
        prop_assert!(codes(&written.findings).iter().all(|code| *code == "custom-argv"));
        prop_assert_eq!(carried(&read(&written.text).unwrap()), vm);
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
    fn a_real_domain_takes_any_shape(sample in prop::sample::select(&SAMPLES[..]), to in vms()) {
        let old = read(sample).unwrap();
        let to = Spec { pins: old.pins.clone(), ..to };
        let edited = edit(sample, &to, &KVM).unwrap().text;
        let new = carried(&read(&edited).unwrap());
        // Host nodes of <numatune><memory> stand for cells without an entry, so a cell cannot have none.
        let inherited = sample == PINNED;
        let bound = |spec: &Spec| spec.topology.iter().flat_map(|shape| &shape.numa_nodes).all(|node| !node.host_nodes.is_empty());
        if !inherited || bound(&to) {
            prop_assert_eq!(&new.topology, &to.topology);
        }
        prop_assert_eq!((new.memory_mib, new.hugepage_kib, new.cpu), (to.memory_mib, to.hugepage_kib, to.cpu));
        prop_assert_eq!((new.name, new.devices, new.guest_os), (old.name, old.devices, old.guest_os));
        for kept in ["<my:note xmlns:my=\"https://example.org/notes\"><vcpu>99</vcpu> &amp; <![CDATA[<cpu>]]></my:note>", "  virsh edit win11\n",
            "<!-- two nodes -->", "<!-- one die for each CCX -->", "<nosharepages/>", "name=opt/note,string=-smp 4", "hpet=off", "QEMU_AUDIO_DRV",
            "<emulatorpin cpuset='30-31'/>", "\t\t<controller type='pci' index='1' model='pcie-expander-bus'>", "type=\"kvm\" id=\"7\"",
            "<name>tiny</name>", "smp-cache.0.cache=l2,smp-cache.0.topology=module"] {
            // A cache that would be shared wider than the LLC has to go.
            if !kept.starts_with("smp-cache") {
                prop_assert_eq!(edited.contains(kept), sample.contains(kept), "{}", kept);
            }
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
