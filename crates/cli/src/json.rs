//! The JSON documents that scripts rely on. They hold no wall-clock figures and no paths, so that two equal runs give
//! equal bytes.

mod fleet;
mod place;
mod simulate;

use model::host::{self, Host};
use model::{CpuSet, Finding, GuestLlc, GuestNode, GuestTopology, Reason, Spec};
use policy::shape::{Refusal, Shape};
use serde::Serialize;

pub(crate) use fleet::FleetsDocument;
pub(crate) use place::{LossDocument, Part, PlaceDocument, PlacesDocument, RoomDocument, Whole};
pub(crate) use simulate::{ExampleDocument, SimulateDocument};

#[derive(Serialize)]
pub(crate) struct HostDocument {
    name: String,
    processor: String,
    cpus: CpuSet,
    packages: Vec<Span>,
    nodes: Vec<NodeDocument>,
    dies: Vec<Span>,
    llcs: Vec<LlcDocument>,
    cores: Vec<CoreDocument>,
    caches: Vec<CacheDocument>,
    distances: Vec<Vec<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ns: Option<LatencyDocument>,
    devices: Vec<DeviceDocument>,
    offline: CpuSet,
    restricted: CpuSet,
    isolated: CpuSet,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct Span {
    cpus: CpuSet,
}

#[derive(Serialize)]
struct NodeDocument {
    id: u32,
    cpus: CpuSet,
    memory_mib: u64,
    hugepages: Vec<HugepagesDocument>,
}

#[derive(Serialize)]
struct HugepagesDocument {
    size_kib: u64,
    total: u64,
    free: u64,
}

#[derive(Serialize)]
struct LlcDocument {
    cpus: CpuSet,
    size_bytes: u64,
    node: u32,
    level: u8,
}

#[derive(Serialize)]
struct CoreDocument {
    cpus: CpuSet,
    efficiency: u8,
}

#[derive(Serialize)]
struct CacheDocument {
    level: u8,
    kind: char,
    size_bytes: u64,
    cpus: CpuSet,
}

#[derive(Serialize)]
struct LatencyDocument {
    llc: Vec<Vec<f64>>,
    smt: Option<f64>,
    home_remote: Option<f64>,
    dram_local: Option<f64>,
    dram_remote: Option<f64>,
    measured_here: bool,
    source: String,
}

#[derive(Serialize)]
struct DeviceDocument {
    address: String,
    class: String,
    os_names: Vec<String>,
    node: Option<u32>,
}

impl HostDocument {
    pub(crate) fn new(host: &Host) -> Self {
        let span = |cpus: &CpuSet| Span { cpus: cpus.clone() };
        Self {
            name: host.name.clone(),
            processor: host.processor.model.clone(),
            cpus: host.cpuset(),
            packages: host
                .packages
                .iter()
                .map(|package| span(&package.cpus))
                .collect(),
            nodes: host.nodes.iter().map(node).collect(),
            dies: host.dies.iter().map(span).collect(),
            llcs: host.llcs.iter().map(llc).collect(),
            cores: host
                .cores
                .iter()
                .map(|core| CoreDocument {
                    cpus: core.cpus.clone(),
                    efficiency: core.efficiency,
                })
                .collect(),
            caches: host.caches.iter().map(cache).collect(),
            distances: host.distances.clone(),
            latency_ns: host.latency.as_ref().map(latency),
            devices: host.devices.iter().map(device).collect(),
            offline: host.offline.clone(),
            restricted: host.restricted.clone(),
            isolated: host.isolated.clone(),
            findings: host::findings(host),
        }
    }
}

fn node(node: &host::Node) -> NodeDocument {
    let pools = node.hugepages.iter();
    NodeDocument {
        id: node.id,
        cpus: node.cpus.clone(),
        memory_mib: node.memory_mib,
        hugepages: pools
            .map(|pool| HugepagesDocument {
                size_kib: pool.size_kib,
                total: pool.total,
                free: pool.free,
            })
            .collect(),
    }
}

fn llc(llc: &host::Llc) -> LlcDocument {
    LlcDocument {
        cpus: llc.cpus.clone(),
        size_bytes: llc.size_bytes,
        node: llc.node.0,
        level: llc.level,
    }
}

fn cache(cache: &host::Cache) -> CacheDocument {
    CacheDocument {
        level: cache.level,
        kind: cache.kind,
        size_bytes: cache.size_bytes,
        cpus: cache.cpus.clone(),
    }
}

fn latency(latency: &host::Latency) -> LatencyDocument {
    LatencyDocument {
        llc: latency.llc_ns.clone(),
        smt: latency.smt_ns,
        home_remote: latency.home_remote_ns,
        dram_local: latency.dram_local_ns,
        dram_remote: latency.dram_remote_ns,
        measured_here: latency.measured_here,
        source: latency.source.clone(),
    }
}

fn device(device: &host::HostDevice) -> DeviceDocument {
    DeviceDocument {
        address: device.address.clone(),
        class: device.class.clone(),
        os_names: device.os_names.clone(),
        node: device.node,
    }
}

#[derive(Serialize)]
pub(crate) struct ShapeDocument {
    vm: VmDocument,
    host: String,
    rule: String,
    sockets: u32,
    dies: u32,
    modules: u32,
    cores: u32,
    threads: u32,
    maxcpus: u32,
    cores_per_socket: u32,
    numa_nodes: Vec<GuestNode>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    distances: Vec<Vec<u32>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    numa_clients: Vec<ClientDocument>,
    llcs: Vec<GuestLlc>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    devices: Vec<GuestDeviceDocument>,
    reasons: Vec<Reason>,
    rejected: Vec<Reason>,
    findings: Vec<Finding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    emitted: Option<EmittedDocument>,
}

#[derive(Serialize)]
struct VmDocument {
    name: String,
    vcpus: u32,
    memory_mib: u64,
}

#[derive(Serialize)]
struct ClientDocument {
    vcpus: CpuSet,
    memory_mib: u64,
}

#[derive(Serialize)]
struct GuestDeviceDocument {
    name: String,
    numa_node: u32,
}

#[derive(Serialize)]
pub(crate) struct EmittedDocument {
    pub(crate) format: &'static str,
    pub(crate) text: String,
}

impl ShapeDocument {
    pub(crate) fn new(spec: &Spec, host: &Host, rule: String, shape: &Shape) -> Self {
        let topology: &GuestTopology = &shape.topology;
        let client = |client: &policy::shape::NumaClient| ClientDocument {
            vcpus: client.vcpus.clone(),
            memory_mib: client.memory_mib,
        };
        let device = |(name, numa_node): &(String, u32)| GuestDeviceDocument {
            name: name.clone(),
            numa_node: *numa_node,
        };
        Self {
            vm: VmDocument {
                name: spec.name.clone(),
                vcpus: spec.vcpus,
                memory_mib: spec.memory_mib,
            },
            host: host.name.clone(),
            rule,
            sockets: topology.sockets,
            dies: topology.dies,
            modules: topology.modules,
            cores: topology.cores,
            threads: topology.threads,
            maxcpus: topology.maxcpus(),
            cores_per_socket: topology.cores_per_socket(),
            numa_nodes: topology.numa_nodes.clone(),
            distances: topology.distances.clone(),
            numa_clients: shape.numa_clients.iter().map(client).collect(),
            llcs: topology.llcs.clone(),
            devices: shape.device_nodes.iter().map(device).collect(),
            reasons: shape.reasons.clone(),
            rejected: shape.rejected.clone(),
            findings: shape.findings.clone(),
            emitted: None,
        }
    }

    /// The document with a file that was written and what could not be said in it.
    pub(crate) fn with_emitted(mut self, emitted: EmittedDocument, findings: &[Finding]) -> Self {
        self.findings.extend(findings.iter().cloned());
        self.emitted = Some(emitted);
        self
    }
}

#[derive(Serialize)]
pub(crate) struct RefusedDocument {
    refused: RefusalDocument,
}

#[derive(Serialize)]
struct RefusalDocument {
    code: &'static str,
    text: String,
}

impl RefusedDocument {
    pub(crate) fn new(refusal: &Refusal) -> Self {
        Self {
            refused: RefusalDocument {
                code: refusal.code,
                text: refusal.text.clone(),
            },
        }
    }
}
