//! Written domain XML is valid for libvirt's schema, a real libvirt defines it, and what libvirt will pass to QEMU is
//! what we would pass ourselves. libvirt runs inside virsh (`qemu:///embed`) with all its files in a temporary folder:
//! no daemon, and nothing of the machine's own libvirt is touched. Skipped where virsh 11 or its QEMU driver is missing.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]
#![expect(clippy::print_stdout, reason = "why a test is skipped")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use model::formats::{Accelerator, Target, libvirt, qemu};
use model::host::Vendor;
use model::vm::{Device, GuestCpu, Pin};
use model::{GuestTopology, Spec};

#[path = "data/shapes.rs"]
mod shapes;

const TCG: Target = Target {
    accelerator: Accelerator::Tcg,
    vendor: Vendor::Other,
    qemu_major: 10,
};
const KVM_AMD: Target = Target {
    accelerator: Accelerator::Kvm,
    vendor: Vendor::Amd,
    qemu_major: 10,
};

#[test]
fn libvirt_passes_every_shape_to_qemu_as_we_would() {
    let Some(libvirt) = Libvirt::new() else {
        return;
    };
    let domains: Vec<Domain> = shapes::all()
        .into_iter()
        .map(|(name, vm)| Domain::new(name, &vm, libvirt::write(&vm, &TCG).text))
        .collect();
    for (domain, argv) in domains.iter().zip(libvirt.define(&domains)) {
        check(domain, &argv);
    }
}

#[test]
fn an_edited_dumpxml_has_the_new_shape() {
    let Some(libvirt) = Libvirt::new() else {
        return;
    };
    let shapes = shapes::all();
    let written: Vec<Domain> = shapes
        .iter()
        .map(|(name, vm)| Domain::new(name, vm, libvirt::write(vm, &TCG).text))
        .collect();
    libvirt.define(&written);
    let mut edited = Vec::new();
    for ((from, old), (to, new)) in shapes.iter().zip(shapes.iter().skip(4)) {
        let dumped = libvirt.dump(from);
        assert_eq!(
            libvirt::edit(&dumped, &libvirt::read(&dumped).unwrap(), &TCG)
                .unwrap()
                .text,
            dumped
        );
        let new = Spec {
            name: old.name.clone(),
            ..new.clone()
        };
        let text = libvirt::edit(&dumped, &new, &TCG).unwrap().text;
        edited.push(Domain {
            what: format!("{from} edited to {to}"),
            ..Domain::new(from, &new, text)
        });
    }
    for (domain, argv) in edited.iter().zip(libvirt.define(&edited)) {
        check(domain, &argv);
    }
}

#[test]
fn models_and_hugepages_are_passed_on() {
    let Some(libvirt) = Libvirt::new() else {
        return;
    };
    let vms = [
        two_nodes("hugepages", |vm| vm.hugepage_kib = Some(2048)),
        two_nodes("amd-model", |vm| {
            vm.cpu = GuestCpu::Named("EPYC-Rome".into());
        }),
        two_nodes("intel-model", |vm| {
            vm.cpu = GuestCpu::Named("Skylake-Server".into());
        }),
        two_nodes("odd name <&'\">", |vm| {
            vm.guest_os = Some("http://debian.org/debian/12".into());
        }),
    ];
    let domains: Vec<Domain> = vms
        .iter()
        .map(|vm| Domain::new(&vm.name, vm, libvirt::write(vm, &TCG).text))
        .collect();
    for (domain, argv) in domains.iter().zip(libvirt.define(&domains)) {
        check(domain, &argv);
    }
}

/// libvirt defines these on any machine, but translates them only where KVM and VFIO work.
#[test]
fn devices_and_the_hosts_cpu_are_kept() {
    let Some(libvirt) = Libvirt::new() else {
        return;
    };
    let device = |address: &str, guest_node: Option<u32>| Device {
        name: "hostdev".to_owned() + if guest_node.is_some() { "1" } else { "0" },
        address: address.to_owned(),
        guest_node,
    };
    let devices = two_nodes("devices", |vm| {
        vm.devices = vec![
            device("0000:42:00.1", None),
            device("0000:41:00.0", Some(1)),
        ];
        vm.pins = vec![Pin {
            vcpu: 0,
            cpus: "0-3".parse().unwrap(),
        }];
    });
    let host = two_nodes("host-cpu", |vm| vm.cpu = GuestCpu::Host);
    for (vm, target) in [(devices, TCG), (host, KVM_AMD)] {
        let domain = Domain::new(&vm.name, &vm, libvirt::write(&vm, &target).text);
        libvirt.validate(std::slice::from_ref(&domain));
        libvirt.run(&format!("define --validate {}", domain.file()));
        let seen = libvirt::read(&libvirt.dump(&domain.name)).unwrap();
        assert_eq!(
            seen,
            libvirt::read(&domain.text).unwrap(),
            "{}",
            domain.what
        );
        assert_eq!(
            (seen.devices, seen.pins),
            (vm.devices, vm.pins),
            "{}",
            domain.what
        );
    }
}

/// A VM of two nodes, dies and threads, with a change.
fn two_nodes(name: &str, change: impl Fn(&mut Spec)) -> Spec {
    let (_, mut vm) = shapes::all()
        .into_iter()
        .find(|(name, _)| *name == "threads")
        .unwrap();
    name.clone_into(&mut vm.name);
    change(&mut vm);
    vm
}

/// Compares what libvirt passes to QEMU with the shape, word by word and as we read it.
fn check(domain: &Domain, argv: &str) {
    let what = &domain.what;
    let topology = domain.vm.topology.as_ref().unwrap();
    let smp = smp_of_libvirt(topology);
    assert!(
        argv.contains(&format!(" -smp {smp} ")),
        "{what}: no -smp {smp} in\n{argv}"
    );
    let read = qemu::read(argv).unwrap();
    let (arguments, _) = qemu::arguments(&domain.vm, &TCG);
    let ours = qemu::read(&arguments.join("\n")).unwrap();
    let without_sizes = |spec: &Spec| {
        let mut topology = spec.topology.clone().unwrap();
        topology
            .llcs
            .iter_mut()
            .for_each(|llc| (llc.size_bytes, llc.guest_size_bytes) = (0, 0));
        topology
    };
    assert_eq!(without_sizes(&read), without_sizes(&ours), "{what}");
    assert_eq!(read.memory_mib, ours.memory_mib, "{what}");
    assert_eq!(read.hugepage_kib, ours.hugepage_kib, "{what}");
    assert_eq!(read.name, domain.vm.name, "{what}");
}

/// libvirt's `-smp`: it has clusters, which are 1, and takes modules for cores.
fn smp_of_libvirt(topology: &GuestTopology) -> String {
    let (vcpus, slots) = (topology.vcpus, topology.maxcpus());
    let max = if vcpus < slots {
        format!(",maxcpus={slots}")
    } else {
        String::new()
    };
    format!(
        "{vcpus}{max},sockets={},dies={},clusters=1,cores={},threads={}",
        topology.sockets,
        topology.dies,
        topology.modules * topology.cores,
        topology.threads
    )
}

/// A domain to define.
struct Domain {
    what: String,
    name: String,
    vm: Spec,
    text: String,
}

impl Domain {
    fn new(name: &str, vm: &Spec, text: String) -> Self {
        Self {
            what: name.to_owned(),
            name: name.to_owned(),
            vm: vm.clone(),
            text,
        }
    }

    /// Its file, relative to the folder.
    fn file(&self) -> String {
        let name: String = self
            .name
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        format!("{name}.xml")
    }
}

/// A private libvirt.
struct Libvirt {
    folder: tempfile::TempDir,
}

impl Libvirt {
    fn new() -> Option<Self> {
        let version = Command::new("virsh").arg("--version").output().ok();
        let version = version.and_then(|output| String::from_utf8(output.stdout).ok());
        let major = version.and_then(|text| text.split('.').next()?.trim().parse::<u32>().ok());
        let tools = ["virt-xml-validate", "xmllint", "qemu-system-x86_64"];
        let tools = tools
            .iter()
            .all(|tool| Command::new(tool).arg("--version").output().is_ok());
        if major.is_none_or(|major| major < 11) || !tools {
            println!(
                "skipped: virsh 11 or later, virt-xml-validate, xmllint or QEMU is not installed"
            );
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("root/etc")).unwrap();
        // As the user we are: changing it would make libvirt probe QEMU again for every command.
        let is_root = Command::new("id")
            .arg("-u")
            .output()
            .is_ok_and(|id| id.stdout == b"0\n");
        let user = if is_root {
            "user = \"root\"\ngroup = \"root\"\n"
        } else {
            ""
        };
        let conf = format!("{user}security_driver = \"none\"\n");
        fs::write(folder.path().join("root/etc/qemu.conf"), conf).unwrap();
        let libvirt = Self { folder };
        if !libvirt.virsh("version").status.success() {
            println!(
                "skipped: libvirt's QEMU driver is not installed (libvirt-daemon-driver-qemu)"
            );
            return None;
        }
        Some(libvirt)
    }

    /// Validates and defines domains; what libvirt would pass to QEMU for each.
    fn define(&self, domains: &[Domain]) -> Vec<String> {
        self.validate(domains);
        let mut commands = String::new();
        for domain in domains {
            let name = domain.name.replace('\'', "'\\''");
            write!(
                commands,
                "define --validate {}; echo '==='; ",
                domain.file()
            )
            .unwrap();
            write!(
                commands,
                "domxml-to-native qemu-argv --domain '{name}'; echo '==='; "
            )
            .unwrap();
        }
        let output = self.run(&commands);
        let parts: Vec<&str> = output.split("===").collect();
        parts
            .chunks_exact(2)
            .map(|pair| pair[1].replace('\n', " "))
            .collect()
    }

    fn validate(&self, domains: &[Domain]) {
        for domain in domains {
            let file = self.folder.path().join(domain.file());
            fs::write(&file, &domain.text).unwrap();
            let output = Command::new("virt-xml-validate")
                .arg(&file)
                .arg("domain")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success(),
                "{}: {said}\n{}",
                domain.what,
                domain.text
            );
        }
    }

    fn dump(&self, name: &str) -> String {
        let text = self.run(&format!("dumpxml --inactive '{name}'"));
        text.trim_start().to_owned()
    }

    /// Runs commands of virsh, which must succeed.
    fn run(&self, commands: &str) -> String {
        let output = self.virsh(commands);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && !said.contains("error:"),
            "{commands}\n{said}"
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn virsh(&self, commands: &str) -> Output {
        let folder: &Path = self.folder.path();
        let uri = format!("qemu:///embed?root={}", folder.join("root").display());
        // libvirt waits until its QEMU probes are reaped, which takes init seconds on some machines; tini does it at once.
        let has_tini = Command::new("tini").arg("--version").output().is_ok();
        let mut command = if has_tini {
            Command::new("tini")
        } else {
            Command::new("virsh")
        };
        if has_tini {
            command.args(["-s", "--", "virsh"]);
        }
        command
            .args(["-q", "-c", &uri, commands])
            .current_dir(folder)
            .output()
            .unwrap()
    }
}
