//! The document of `vtopo place`.

use model::placement::VmId;
use model::{CpuSet, Finding, Host, Reason, Vm};
use policy::cost::Cost;
use policy::metrics::{Crowd, Metrics};
use policy::plan::{Moved, Plan};
use serde::{Serialize, Serializer};

/// Several policies side by side, in the order they were asked for.
#[derive(Serialize)]
pub(crate) struct PlacesDocument {
    pub(crate) runs: Vec<PlaceDocument>,
}

/// What one policy decided.
#[derive(Serialize)]
pub(crate) struct PlaceDocument {
    policy: &'static str,
    hosts: Vec<String>,
    groups: Vec<GroupDocument>,
    memory: Vec<MemoryDocument>,
    system: Vec<SystemDocument>,
    moves: Vec<MoveDocument>,
    refused: Vec<VmReasonDocument>,
    metrics: MetricsDocument,
    cost_terms: Terms,
    reasons: Vec<VmReasonDocument>,
    findings: Vec<Finding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    room: Option<RoomDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failover: Option<Vec<LossDocument>>,
}

/// How many more VMs fit.
#[derive(Serialize)]
pub(crate) struct RoomDocument {
    pub(crate) vm: String,
    pub(crate) total: u64,
    pub(crate) by_host: Vec<u32>,
}

/// What a host's failure means.
#[derive(Serialize)]
pub(crate) struct LossDocument {
    pub(crate) host: String,
    pub(crate) vms: u32,
    pub(crate) homeless: Vec<String>,
}

/// The placement on one host, and the VMs it speaks of.
pub(crate) struct Part<'a> {
    /// The host's name among several; `None` where there is one host.
    pub(crate) label: Option<String>,
    pub(crate) host: &'a Host,
    pub(crate) vms: &'a [Vm],
    pub(crate) plan: &'a Plan,
}

#[derive(Serialize)]
struct GroupDocument {
    vm: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    vcpus: CpuSet,
    llc: u32,
    node: u32,
    cpus: CpuSet,
    pinned: bool,
}

#[derive(Serialize)]
struct MemoryDocument {
    vm: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    nodes: Vec<NodeMemoryDocument>,
}

#[derive(Serialize)]
struct NodeMemoryDocument {
    node: u32,
    cell: u32,
    memory_mib: u64,
}

#[derive(Serialize)]
struct SystemDocument {
    vm: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    llc: u32,
    node: u32,
    cpus: CpuSet,
}

#[derive(Serialize)]
#[serde(tag = "what", rename_all = "lowercase")]
enum WhatDocument {
    Vcpus { vcpus: CpuSet, from: u32, to: u32 },
    Memory { memory_mib: u64, from: u32, to: u32 },
}

#[derive(Serialize)]
struct MoveDocument {
    vm: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(flatten)]
    what: WhatDocument,
    code: &'static str,
    text: String,
}

#[derive(Serialize)]
struct VmReasonDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    vm: Option<String>,
    code: &'static str,
    text: String,
}

/// Thousandths and nano-vCPU become numbers with three decimals.
#[derive(Serialize)]
struct MetricsDocument {
    placed: u32,
    refused: u32,
    vcpus: u32,
    demand: f64,
    llcs_spanned_mean: f64,
    nodes_spanned_mean: f64,
    packages_spanned_mean: f64,
    smt_paired_vcpus: u32,
    overcommit: f64,
    load: f64,
    worst_llc: Option<CrowdDocument>,
    remote_memory_mib: u64,
    remote_memory_percent: f64,
    moves: u32,
    cost: f64,
}

#[derive(Serialize)]
struct CrowdDocument {
    llc: u32,
    vcpus: u32,
    threads: u32,
    overcommit: f64,
    load: f64,
}

struct Terms(Cost);

impl Serialize for Terms {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            self.0
                .terms()
                .map(|(term, value)| (term.as_str(), nano(value))),
        )
    }
}

/// What is said of a run as a whole.
pub(crate) struct Whole<'a> {
    pub(crate) policy: &'static str,
    pub(crate) metrics: &'a Metrics,
    pub(crate) findings: &'a [Finding],
}

impl PlaceDocument {
    pub(crate) fn new(whole: &Whole, parts: &[Part]) -> Self {
        let mut document = Self {
            policy: whole.policy,
            hosts: parts.iter().map(Part::name).collect(),
            groups: Vec::new(),
            memory: Vec::new(),
            system: Vec::new(),
            moves: Vec::new(),
            refused: Vec::new(),
            metrics: MetricsDocument::new(whole.metrics),
            cost_terms: Terms(whole.metrics.cost),
            reasons: Vec::new(),
            findings: whole.findings.to_vec(),
            room: None,
            failover: None,
        };
        for part in parts {
            document.add(part);
        }
        document
    }

    /// The document with VMs that no host takes.
    pub(crate) fn with_refused<'a>(
        mut self,
        refused: impl Iterator<Item = (&'a str, &'a Reason)>,
    ) -> Self {
        self.refused
            .extend(refused.map(|(vm, reason)| VmReasonDocument::new(Some(vm.to_owned()), reason)));
        self
    }

    /// The document with what still fits and what may fail.
    pub(crate) fn with_headroom(
        mut self,
        room: Option<RoomDocument>,
        failover: Option<Vec<LossDocument>>,
    ) -> Self {
        (self.room, self.failover) = (room, failover);
        self
    }

    fn add(&mut self, part: &Part) {
        let plan = part.plan;
        let placement = &plan.placement;
        self.groups
            .extend(placement.groups.iter().map(|group| GroupDocument {
                vm: part.vm(group.vm),
                host: part.label.clone(),
                vcpus: group.vcpus.clone(),
                llc: group.llc.0,
                node: group.node.0,
                cpus: group.cpus.clone(),
                pinned: group.pinned,
            }));
        let by_vm = placement.memory.chunk_by(|a, b| a.vm == b.vm);
        self.memory.extend(by_vm.map(|homes| {
            MemoryDocument {
                vm: part.vm(homes[0].vm),
                host: part.label.clone(),
                nodes: homes
                    .iter()
                    .map(|home| NodeMemoryDocument {
                        node: home.node.0,
                        cell: home.cell,
                        memory_mib: home.mib,
                    })
                    .collect(),
            }
        }));
        self.system
            .extend(placement.system.iter().map(|home| SystemDocument {
                vm: part.vm(home.vm),
                host: part.label.clone(),
                llc: home.llc.0,
                node: home.node.0,
                cpus: home.cpus.clone(),
            }));
        self.moves
            .extend(plan.moves.iter().map(|step| MoveDocument {
                vm: part.vm(step.vm),
                host: part.label.clone(),
                what: what(&step.what),
                code: step.reason.code,
                text: step.reason.text.clone(),
            }));
        let refused = plan.refused.iter();
        self.refused
            .extend(refused.map(|(vm, reason)| VmReasonDocument::new(Some(part.vm(*vm)), reason)));
        let reasons = plan.reasons.iter();
        self.reasons.extend(
            reasons.map(|(vm, reason)| VmReasonDocument::new(vm.map(|vm| part.vm(vm)), reason)),
        );
    }
}

impl Part<'_> {
    fn name(&self) -> String {
        self.label.clone().unwrap_or_else(|| self.host.name.clone())
    }

    fn vm(&self, id: VmId) -> String {
        self.vms
            .get(id.index())
            .map_or_else(String::new, |vm| vm.name.clone())
    }
}

impl VmReasonDocument {
    fn new(vm: Option<String>, reason: &Reason) -> Self {
        Self {
            vm,
            code: reason.code,
            text: reason.text.clone(),
        }
    }
}

impl MetricsDocument {
    fn new(metrics: &Metrics) -> Self {
        Self {
            placed: metrics.placed,
            refused: metrics.refused,
            vcpus: metrics.vcpus,
            demand: unsigned(metrics.demand),
            llcs_spanned_mean: unsigned(metrics.llcs_spanned),
            nodes_spanned_mean: unsigned(metrics.nodes_spanned),
            packages_spanned_mean: unsigned(metrics.packages_spanned),
            smt_paired_vcpus: metrics.smt_paired_vcpus,
            overcommit: unsigned(metrics.overcommit),
            load: unsigned(metrics.load),
            worst_llc: metrics.worst_llc.map(CrowdDocument::new),
            remote_memory_mib: metrics.remote_memory_mib,
            remote_memory_percent: unsigned(metrics.remote_memory() * 100),
            moves: metrics.moves,
            cost: nano(metrics.cost.total()),
        }
    }
}

impl CrowdDocument {
    fn new(crowd: Crowd) -> Self {
        Self {
            llc: crowd.llc.0,
            vcpus: crowd.vcpus,
            threads: crowd.threads,
            overcommit: unsigned(crowd.overcommit),
            load: unsigned(crowd.load),
        }
    }
}

fn what(moved: &Moved) -> WhatDocument {
    match moved {
        Moved::Vcpus { vcpus, from, to } => WhatDocument::Vcpus {
            vcpus: vcpus.clone(),
            from: from.0,
            to: to.0,
        },
        Moved::Memory { mib, from, to } => WhatDocument::Memory {
            memory_mib: *mib,
            from: from.0,
            to: to.0,
        },
    }
}

/// Nano-vCPU as vCPUs with three decimals.
fn nano(nano: i64) -> f64 {
    let half = if nano < 0 { -500_000 } else { 500_000 };
    thousandths((nano + half) / 1_000_000)
}

fn unsigned(milli: u64) -> f64 {
    thousandths(i64::try_from(milli).unwrap_or(i64::MAX))
}

/// The shortest decimal of a quotient by 1000 has three digits after the point at most.
#[expect(
    clippy::cast_precision_loss,
    reason = "figures are far below 2^53 thousandths; beyond, the last digits do not matter"
)]
fn thousandths(milli: i64) -> f64 {
    milli as f64 / 1000.0
}
