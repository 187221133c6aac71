//! Machines to draw in tests: common ones and odd ones.

use model::host::{
    Cache, Core, HostDevice, HugepagePool, Latency, Node, Parts, Processor, Synthetic, Vendor,
};
use model::{CpuId, CpuSet, GuestLlc, GuestNode, GuestTopology, Host};

pub(crate) const GIB: u64 = 1024;

pub(crate) fn set(text: &str) -> CpuSet {
    text.parse().unwrap()
}

fn changed(host: &Host, change: impl FnOnce(&mut Parts)) -> Host {
    let mut parts = host.to_parts();
    change(&mut parts);
    Host::from_parts(parts).unwrap()
}

fn processor(vendor: Vendor, model: &str, family: u32) -> Processor {
    Processor {
        vendor,
        model: model.to_owned(),
        family: Some(family),
        model_number: None,
    }
}

fn node(id: u32, cpus: &str, memory_mib: u64) -> Node {
    Node {
        id,
        cpus: set(cpus),
        memory_mib,
        hugepages: vec![],
    }
}

fn llc(cpus: &str, size_mib: u64) -> Cache {
    Cache {
        level: 3,
        kind: 'u',
        size_bytes: size_mib << 20,
        cpus: set(cpus),
    }
}

/// SLIT of nodes of which each package has `per_package`.
fn slit(nodes: u32, per_package: u32, [local, near, far]: [u32; 3]) -> Vec<Vec<u32>> {
    let distance = |a: u32, b: u32| match (a, b) {
        _ if a == b => local,
        _ if a / per_package == b / per_package => near,
        _ => far,
    };
    (0..nodes)
        .map(|a| (0..nodes).map(|b| distance(a, b)).collect())
        .collect()
}

/// Private caches of every core, as Linux lists them.
fn private_caches(parts: &mut Parts, l1_kib: u64, l2_kib: u64) {
    for core in &parts.cores {
        for (level, kind, size) in [(1, 'd', l1_kib), (1, 'i', l1_kib), (2, 'u', l2_kib)] {
            parts.caches.push(Cache {
                level,
                kind,
                size_bytes: size << 10,
                cpus: core.cpus.clone(),
            });
        }
    }
}

/// Two packages of eight dies of two LLCs of four cores, with the firmware's choice of nodes per package.
pub(crate) fn epyc_7702(nodes_per_package: u32, [local, near, far]: [u32; 3]) -> Host {
    let plain = Synthetic {
        packages: 2,
        nodes_per_package,
        llcs_per_node: 16 / nodes_per_package,
        cores_per_llc: 4,
        threads_per_core: 2,
        llc_mib: 16,
        node_mib: 512 * GIB / u64::from(nodes_per_package),
    }
    .host("epyc-7702-2s");
    changed(&plain, |parts| {
        parts.processor = processor(Vendor::Amd, "AMD EPYC 7702 64-Core Processor", 0x17);
        parts.dies = (0..16)
            .map(|die| {
                set(&format!(
                    "{}-{},{}-{}",
                    die * 8,
                    die * 8 + 7,
                    die * 8 + 128,
                    die * 8 + 135
                ))
            })
            .collect();
        parts.distances = slit(2 * nodes_per_package, nodes_per_package, [local, near, far]);
        private_caches(parts, 32, 512);
    })
}

/// As the published figures describe it; numbers invented within their ranges.
pub(crate) fn epyc_with_everything() -> Host {
    let plain = epyc_7702(1, [10, 12, 32]);
    changed(&plain, |parts| {
        let ns = |a: u32, b: u32| match (a, b) {
            _ if a == b => 25.0,
            _ if a / 16 == b / 16 => 100.0 + f64::from((a * 7 + b * 5) % 40),
            _ => 215.0 + f64::from((a + b) % 18),
        };
        parts.latency = Some(Latency {
            llc_ns: (0..32)
                .map(|a| (0..32).map(|b| ns(a, b)).collect())
                .collect(),
            smt_ns: Some(8.0),
            home_remote_ns: Some(236.0),
            dram_local_ns: Some(122.0),
            dram_remote_ns: Some(205.0),
            measured_here: false,
            source: "core-to-core-latency-plus, Dual 7702; AnandTech 14694".to_owned(),
        });
        let device = |address: &str, class: &str, name: &str, node| HostDevice {
            address: address.to_owned(),
            class: class.to_owned(),
            os_names: vec![name.to_owned()],
            node,
        };
        parts.devices = vec![
            device("0000:41:00.0", "Ethernet", "eth0", Some(0)),
            device("0000:41:00.1", "Ethernet", "eth1", Some(0)),
            device("0000:c1:00.0", "NVMe", "nvme0n1", Some(1)),
            device("0000:00:1f.2", "SATA", "sda", None),
        ];
        for node in &mut parts.nodes {
            node.hugepages = vec![
                HugepagePool {
                    size_kib: 2048,
                    total: 1024,
                    free: 1000,
                },
                HugepagePool {
                    size_kib: 1 << 20,
                    total: 256,
                    free: 256,
                },
            ];
        }
    })
}

pub(crate) fn epyc_nps4() -> Host {
    epyc_7702(4, [10, 12, 32])
}

pub(crate) fn epyc_ccx_as_numa() -> Host {
    epyc_7702(16, [10, 11, 32])
}

/// Four packages of two dies, each a node with one LLC.
pub(crate) fn opteron() -> Host {
    let plain = Synthetic {
        packages: 4,
        nodes_per_package: 2,
        llcs_per_node: 1,
        cores_per_llc: 6,
        threads_per_core: 1,
        llc_mib: 5,
        node_mib: 32 * GIB,
    }
    .host("opteron-6174-4s");
    changed(&plain, |parts| {
        parts.processor = processor(Vendor::Amd, "AMD Opteron(tm) Processor 6174", 0x10);
        let distance = |a: u32, b: u32| match (a, b) {
            _ if a == b => 10,
            _ if a / 2 == b / 2 || a % 2 == b % 2 => 16,
            _ => 22,
        };
        parts.distances = (0..8)
            .map(|a| (0..8).map(|b| distance(a, b)).collect())
            .collect();
        parts.dies = parts.nodes.iter().map(|node| node.cpus.clone()).collect();
        private_caches(parts, 64, 512);
    })
}

/// A desktop whose LLCs differ in size.
pub(crate) fn ryzen_9950x3d() -> Host {
    let plain = Synthetic {
        packages: 1,
        llcs_per_node: 2,
        cores_per_llc: 8,
        threads_per_core: 2,
        llc_mib: 32,
        node_mib: 64 * GIB,
        ..Synthetic::default()
    }
    .host("ryzen-9950x3d-1s");
    changed(&plain, |parts| {
        parts.processor = processor(Vendor::Amd, "AMD Ryzen 9 9950X3D 16-Core Processor", 0x1a);
        parts.caches[0].size_bytes = 96 << 20;
        private_caches(parts, 48, 1024);
    })
}

/// Six fast cores with two threads, eight slow ones, and two slower ones outside the L3.
pub(crate) fn hybrid_laptop() -> Host {
    let fast = (0..6).map(|core| (format!("{}-{}", 2 * core, 2 * core + 1), 2));
    let slow = (12..20).map(|cpu| (cpu.to_string(), 1));
    let slowest = (20..22).map(|cpu| (cpu.to_string(), 0));
    let cores = fast.chain(slow).chain(slowest);
    let l2 = |cpus: &str| Cache {
        level: 2,
        kind: 'u',
        size_bytes: 2 << 20,
        cpus: set(cpus),
    };
    let modules = ["12-15", "16-19", "20-21"].map(l2);
    Host::from_parts(Parts {
        name: "laptop".to_owned(),
        processor: processor(Vendor::Intel, "Intel(R) Core(TM) Ultra 7 155H", 6),
        cpus: set("0-21"),
        cores: cores
            .map(|(cpus, efficiency)| Core {
                cpus: set(&cpus),
                efficiency,
            })
            .collect(),
        nodes: vec![node(0, "0-21", 32 * GIB)],
        packages: vec![set("0-21")],
        caches: modules.into_iter().chain([llc("0-19", 24)]).collect(),
        ..Parts::default()
    })
    .unwrap()
}

/// A small VM that sees two CPUs and little else.
pub(crate) fn small_vm() -> Host {
    Host::from_parts(Parts {
        name: "live".to_owned(),
        processor: processor(Vendor::Intel, "QEMU Virtual CPU version 2.5+", 6),
        cpus: set("0-1"),
        nodes: vec![node(0, "0-1", 4 * GIB)],
        packages: vec![set("0-1")],
        caches: vec![llc("0-1", 16)],
        ..Parts::default()
    })
    .unwrap()
}

/// Two packages of 28 cores with CPUs dealt out in turn.
pub(crate) fn xeon_round_robin() -> Host {
    let pick = |package: u32| -> CpuSet {
        (0..112)
            .filter(|cpu| cpu % 2 == package)
            .map(CpuId)
            .collect()
    };
    let core = |core: u32| Core {
        cpus: [CpuId(core), CpuId(core + 56)].into_iter().collect(),
        efficiency: 0,
    };
    let text = |package: u32| pick(package).to_string();
    let mut parts = Parts {
        name: "xeon-6330-2s".to_owned(),
        processor: processor(Vendor::Intel, "Intel(R) Xeon(R) Gold 6330 CPU @ 2.00GHz", 6),
        cpus: set("0-111"),
        cores: (0..56).map(core).collect(),
        nodes: vec![node(0, &text(0), 256 * GIB), node(1, &text(1), 256 * GIB)],
        packages: vec![pick(0), pick(1)],
        caches: vec![llc(&text(0), 42), llc(&text(1), 42)],
        distances: slit(2, 1, [10, 20, 20]),
        ..Parts::default()
    };
    private_caches(&mut parts, 48, 1280);
    Host::from_parts(parts).unwrap()
}

/// One node over two packages.
pub(crate) fn interleaved() -> Host {
    let plain = Synthetic {
        packages: 2,
        llcs_per_node: 4,
        cores_per_llc: 8,
        threads_per_core: 1,
        llc_mib: 32,
        ..Synthetic::default()
    }
    .host("interleaved");
    changed(&plain, |parts| {
        parts.nodes = vec![node(0, "0-63", 256 * GIB)];
    })
}

/// Offline, forbidden and isolated CPUs, a memory-only node and an LLC over two nodes.
pub(crate) fn everything_odd() -> Host {
    let core = |cpus: &str| Core {
        cpus: set(cpus),
        efficiency: 0,
    };
    Host::from_parts(Parts {
        name: "odd".to_owned(),
        cpus: set("0-9,12-15"),
        cores: ["0,8", "1,9", "2", "3", "4,12", "5,13", "6,14", "7,15"]
            .map(core)
            .to_vec(),
        nodes: vec![
            node(0, "0-3,8-11", 8 * GIB),
            node(2, "4-7,12-15", 8 * GIB),
            node(5, "", 32 * GIB),
        ],
        packages: vec![set("0-15")],
        caches: vec![llc("0-15", 24)],
        distances: vec![vec![10, 20, 30], vec![20, 10, 30], vec![30, 30, 10]],
        offline: set("10"),
        restricted: set("11"),
        isolated: set("6-7,14-15"),
        ..Parts::default()
    })
    .unwrap()
}

/// A node of spare memory around two others, and CPUs that no node holds.
pub(crate) fn spare_memory() -> Host {
    Host::from_parts(Parts {
        name: "spare".to_owned(),
        cpus: set("0-9"),
        nodes: vec![
            node(0, "0-3", 8 * GIB),
            node(1, "4-7", 8 * GIB),
            node(2, "0-7", 64 * GIB),
        ],
        packages: vec![set("0-9")],
        caches: vec![llc("0-3", 8), llc("4-7", 8), llc("8-9", 8)],
        distances: vec![vec![10, 21, 15], vec![21, 10, 15], vec![15, 15, 10]],
        ..Parts::default()
    })
    .unwrap()
}

/// More packages than lines.
pub(crate) fn many_packages() -> Host {
    Synthetic {
        packages: 32,
        nodes_per_package: 1,
        llcs_per_node: 4,
        cores_per_llc: 15,
        threads_per_core: 2,
        llc_mib: 60,
        node_mib: 1024 * GIB,
    }
    .host("many-packages")
}

/// A guest of `levels` (sockets, dies, modules, cores, threads), each die an LLC, with `nodes` equal vNUMA nodes.
pub(crate) fn guest(vcpus: u32, levels: [u32; 5], nodes: u32) -> GuestTopology {
    let mut guest = GuestTopology::uniform(vcpus, levels);
    let dies = guest.blocks(guest.slots_in(model::Level::Die));
    guest.llcs = dies
        .into_iter()
        .map(|vcpus| GuestLlc {
            vcpus,
            size_bytes: 16 << 20,
            guest_size_bytes: 16 << 20,
        })
        .collect();
    let per_node = guest.maxcpus() / nodes.max(1);
    let blocks = if nodes == 0 {
        Vec::new()
    } else {
        guest.blocks(per_node)
    };
    guest.numa_nodes = (0..)
        .zip(blocks)
        .map(|(index, vcpus)| GuestNode {
            vcpus,
            memory_mib: 32 * GIB,
            host_nodes: vec![index],
        })
        .collect();
    guest
}
