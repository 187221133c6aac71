//! What ESXi was seen to do, what it documents, and what always holds.

mod claims;
mod keys;
mod properties;
mod refusals;
mod rules_of_thumb;
mod worked_examples;

use model::host::Synthetic;
use model::{Host, Spec};

use super::*;
use crate::shape::{Goal, Overrides, Rule};

/// A VM and its overrides.
#[derive(Debug, Clone, Default)]
struct Vm {
    spec: Spec,
    asked: Overrides,
}

/// A VM with 8 GiB and nothing set.
fn plain(vcpus: u32) -> Vm {
    let spec = Spec {
        vcpus,
        memory_mib: 8 << 10,
        ..Spec::default()
    };
    Vm {
        spec,
        asked: Overrides::default(),
    }
}

/// Reads `24 cps=12 nodes=2 gib=384 hw=19 hotadd preferHT`: vCPUs, then what was set. Words in lower case are
/// overrides, keys of the VM file have VMware's names without `numa.` and `vcpu.`; `kept=18/360022` is a size with its
/// cookie.
fn vm(text: &str) -> Vm {
    let mut words = text.split_whitespace();
    let number = |text: &str| text.parse::<u32>().unwrap();
    let mut vm = plain(number(words.next().unwrap()));
    let (asked, keys) = (&mut vm.asked, &mut vm.spec.esxi);
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, "1"));
        let (size, flag) = (value.parse().ok(), Some(value == "TRUE"));
        match key {
            "cps" => asked.cores_per_socket = size,
            "nodes" => asked.numa_nodes = size,
            "hw" => asked.hw_version = size,
            "smt" => asked.threads_per_core = size,
            "slots" => asked.max_vcpus = size,
            "hotadd" => asked.hot_add = Some(true),
            "preferHT" => asked.prefer_ht = Some(true),
            "gib" => vm.spec.memory_mib = u64::from(number(value)) << 10,
            "coresPerSocket" => keys.cores_per_socket = size,
            "numSMT" => keys.num_smt = size,
            "coresPerNode" => keys.cores_per_node = size,
            "maxPerVirtualNode" => keys.max_per_virtual_node = size,
            "maxPerMachineNode" => keys.max_per_machine_node = size,
            "maxPerClient" => keys.max_per_client = size,
            "min" => keys.vcpu_min = size,
            "autosize" => keys.autosize = flag,
            "autosize.once" => keys.autosize_once = flag,
            "consolidate" => keys.consolidate = flag,
            "allowHotadd" => keys.allow_hotadd = flag,
            "followcorespersocket" => keys.follow_cores_per_socket = Some(size == Some(1)),
            "nodeAffinity" => keys.node_affinity = value.split(',').map(number).collect(),
            "guestOS" => vm.spec.guest_os = Some(value.to_owned()),
            "coresPerSocket.cookie" => keys.cores_per_socket_cookie = size,
            "kept" => {
                let (size, cookie) = value.split_once('/').unwrap();
                keys.autosize_max_per_virtual_node = size.parse().ok();
                keys.autosize_cookie = cookie.parse().ok();
            }
            _ => panic!("{word:?}"),
        }
    }
    vm
}

impl Vm {
    fn request<'a>(&'a self, host: &'a Host, release: Release) -> Request<'a> {
        Request {
            vm: &self.spec,
            host,
            rule: Rule::Esxi(release),
            goal: Goal::default(),
            overrides: self.asked,
            limits: Vec::new(),
        }
    }

    fn on(&self, host: &Host, release: Release) -> Shape {
        super::shape(&self.request(host, release), release).unwrap()
    }
}

/// Rows of a table: cells between bars, the first line being the heading.
fn rows(table: &str) -> Vec<Vec<&str>> {
    let lines = table.lines().filter(|line| !line.trim().is_empty()).skip(1);
    let rows: Vec<Vec<&str>> = lines
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    assert!(!rows.is_empty());
    rows
}

fn release(text: &str) -> Release {
    let all = [
        Release::V5_5,
        Release::V6_0,
        Release::V6_5,
        Release::V6_7,
        Release::V7_0,
        Release::V8_0,
    ];
    all.into_iter()
        .find(|&release| version(release) == text)
        .unwrap()
}

/// A machine by name, or `2x20`: packages of so many cores, `2x12/64`: with so many GiB per node.
fn host(text: &str) -> Host {
    match text {
        "opteron-6174-4s" => magny_cours(),
        "epyc-7401-1s" => epyc(1, 4, 2, 3),
        "epyc-7601-2s" => epyc(2, 4, 2, 4),
        "epyc-7763-1s" => epyc(1, 1, 8, 8),
        "epyc-7763-2s" => epyc(2, 1, 8, 8),
        _ => {
            let (size, gib) = text.split_once('/').unwrap_or((text, "256"));
            let (n_packages, cores) = size.split_once('x').unwrap();
            machine(
                n_packages.parse().unwrap(),
                cores.parse().unwrap(),
                gib.parse().unwrap(),
            )
        }
    }
}

/// Packages of so many cores, one node and one cache each, two threads per core.
fn machine(packages: u32, cores: u32, node_gib: u64) -> Host {
    Synthetic {
        packages,
        cores_per_llc: cores,
        threads_per_core: 2,
        llc_mib: 28,
        node_mib: node_gib << 10,
        ..Synthetic::default()
    }
    .host("test")
}

/// Packages, nodes per package, 32 MiB caches per node, cores per cache.
fn epyc(packages: u32, nodes_per_package: u32, llcs_per_node: u32, cores_per_llc: u32) -> Host {
    Synthetic {
        packages,
        nodes_per_package,
        llcs_per_node,
        cores_per_llc,
        threads_per_core: 2,
        llc_mib: 32,
        node_mib: 64 << 10,
    }
    .host("epyc")
}

/// Four Opteron 6174: eight nodes of six cores, no SMT.
fn magny_cours() -> Host {
    Synthetic {
        packages: 4,
        nodes_per_package: 2,
        cores_per_llc: 6,
        threads_per_core: 1,
        llc_mib: 6,
        node_mib: 16 << 10,
        ..Synthetic::default()
    }
    .host("opteron-6174-4s")
}

/// Sockets x cores, vNUMA nodes, NUMA clients: `2x12 | 12+12 | 12+12`.
fn seen(shape: &Shape) -> String {
    let sizes = |sets: Vec<usize>| {
        let sizes: Vec<String> = sets.iter().map(ToString::to_string).collect();
        sizes.join("+")
    };
    let topology = &shape.topology;
    let nodes = topology.numa_nodes.iter().map(|node| node.vcpus.len());
    let clients = shape.numa_clients.iter().map(|client| client.vcpus.len());
    format!(
        "{}x{} | {} | {}",
        topology.sockets,
        topology.cores_per_socket(),
        sizes(nodes.collect()),
        sizes(clients.collect())
    )
}

fn codes(findings: &[model::Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.code).collect()
}

fn log(shape: &Shape) -> Vec<&str> {
    let lines = shape
        .reasons
        .iter()
        .filter(|reason| reason.code == "vmware-log");
    lines.map(|reason| reason.text.as_str()).collect()
}
