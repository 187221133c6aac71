//! A snapshot in dense tables: what the cost function and the search read, made once per plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::host::{Host, NodeId};
use model::placement::VmId;
use model::tenant::Scope;
use model::{CpuSet, Vm};

use super::site::{Hinges, Site};
use super::weights::{self, Load, PER_MILLI};
use crate::group::{self, Cell};
use crate::plan::Snapshot;

/// Two VMs are related when they wake each other more often than this each second (ESXi: `Cpu.CommRateThreshold`).
const RELATED_PER_S: u32 = 500;

/// VMs of one label after it that a VM is drawn to, in the order they are given: with more, each is drawn to its
/// neighbours only, so that a label of thousands does not become millions of pairs.
const NEAR_MOST: usize = 32;

/// A snapshot prepared for placing.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The host.
    pub site: Site,
    /// The VMs, by [`VmId`].
    pub tenants: Vec<Tenant>,
    /// Where load costs, by domain.
    pub hinges: Vec<Hinges>,
}

/// A VM prepared for placing.
#[derive(Debug, Clone, PartialEq)]
pub struct Tenant {
    /// vCPUs.
    pub vcpus: u32,
    /// Its cells.
    pub cells: Vec<Cell>,
    /// What one vCPU asks of its domain.
    pub load: Load,
    /// What its system threads ask of theirs; `None` when it has none.
    pub system: Option<Load>,
    /// Nano-vCPU for one pair of vCPUs and one ns.
    pub per_pair_ns: i64,
    /// Nano-vCPU for one vCPU and one ns to the system threads.
    pub per_system_ns: i64,
    /// Nano-vCPU for one vCPU and one thousandth of extra memory latency.
    pub per_extra_dram: i64,
    /// Nano-vCPU for one vCPU and one thousandth of extra latency to its devices.
    pub per_extra_device: i64,
    /// Nodes of its devices, by index.
    pub device_nodes: Vec<NodeId>,
    /// vCPUs it may have on each domain: the cores it may use there, or the threads where cores do not go round (see
    /// [`counts_threads`]); 0 where it must not be.
    pub caps: Arc<[u32]>,
    /// The sum of `caps`: a wider VM fits nowhere.
    pub room: u32,
    /// vCPUs that may stay on each domain if they are there already: the threads it may use (for dedicated VMs the cores).
    pub stays: Arc<[u32]>,
    /// Cost of one vCPU outside the soft affinity, by domain; empty without one.
    pub soft: Vec<i64>,
    /// VMs it talks to, with nano-vCPU for one ns of mean distance.
    pub partners: Vec<(VmId, i64)>,
    /// Its label among VMs that keep apart, and what they may not share.
    pub apart: Option<(u32, Scope)>,
    /// Whole cores of its own.
    pub dedicated: bool,
    /// Guaranteed milli-CPU of one vCPU.
    pub reservation: i64,
}

impl Problem {
    /// Prepares a snapshot.
    pub fn new(now: &Snapshot) -> Self {
        let site = Site::new(&now.host, &now.reserve);
        let vms: Vec<&Vm> = now.vms.iter().map(|state| &state.vm).collect();
        let mut partners = partners_by_label(&vms);
        for talk in now
            .talks
            .iter()
            .filter(|talk| talk.per_s > RELATED_PER_S && talk.a != talk.b)
        {
            if talk.a.index() < vms.len() && talk.b.index() < vms.len() {
                relate(&mut partners, &vms, talk.a, talk.b, 1);
            }
        }
        let labels = labels(
            vms.iter()
                .filter_map(|vm| Some(vm.apart.as_ref()?.label.as_str())),
        );
        let is_crowded = is_crowded(&vms, &site);
        let rooms = Rooms::new(&site);
        let tenants: Vec<Tenant> = vms
            .iter()
            .zip(partners)
            .map(|(vm, partners)| {
                let apart = vm
                    .apart
                    .as_ref()
                    .map(|apart| (labels[apart.label.as_str()], apart.scope));
                Tenant {
                    partners,
                    apart,
                    ..tenant(
                        vm,
                        &now.host,
                        &site,
                        rooms.of_vm(vm, &now.host, &site),
                        is_crowded,
                    )
                }
            })
            .collect();
        let shares_per_thread = shares_per_thread(&site, &tenants);
        let domains = 0..u32::try_from(site.domains.len()).unwrap_or(u32::MAX);
        let hinges = domains
            .map(|domain| site.hinges(domain, shares_per_thread))
            .collect();
        Self {
            site,
            tenants,
            hinges,
        }
    }

    /// What a load costs on a domain.
    pub fn hinge_cost(&self, domain: u32, load: &Load) -> i64 {
        self.hinges[domain as usize].cost(load)
    }
}

impl Tenant {
    /// What one vCPU costs on a domain by itself: devices and soft affinity.
    pub fn alone(&self, site: &Site, domain: u32) -> i64 {
        self.device_cost(site, domain) + self.soft_cost(domain)
    }

    /// What one vCPU costs for being away from the VM's devices.
    pub fn device_cost(&self, site: &Site, domain: u32) -> i64 {
        if self.device_nodes.is_empty() {
            return 0;
        }
        let node = site.domains[domain as usize].node;
        let extra: i64 = self
            .device_nodes
            .iter()
            .map(|&device| site.extra_dram(node, device))
            .sum();
        self.per_extra_device * extra / i64::try_from(self.device_nodes.len()).unwrap_or(1)
    }

    /// What one vCPU costs for being outside the soft affinity.
    pub fn soft_cost(&self, domain: u32) -> i64 {
        self.soft.get(domain as usize).copied().unwrap_or(0)
    }
}

fn tenant(
    vm: &Vm,
    host: &Host,
    site: &Site,
    [cores, threads]: [Arc<[u32]>; 2],
    is_crowded: bool,
) -> Tenant {
    let demand = weights::effective_demand(vm.effective_load());
    let others = i64::from(vm.vcpus.max(2) - 1);
    let by_threads = counts_threads(vm, cores.iter().sum(), is_crowded);
    let caps = if by_threads {
        threads.clone()
    } else {
        cores.clone()
    };
    let nodes = (0..).map(NodeId).zip(&host.nodes);
    let device_nodes = nodes
        .filter(|(_, node)| vm.device_nodes.contains(&node.id))
        .map(|(id, _)| id);
    Tenant {
        vcpus: vm.vcpus,
        cells: group::cells(vm, site),
        load: Load::of_vcpu(vm, site.threads_per_core),
        system: (vm.system > 0).then(|| Load::of_system(vm)),
        per_pair_ns: 2 * demand * weights::sharing_per_ns(vm.sharing) / 1000 / others,
        per_system_ns: i64::from(vm.system) * weights::SYSTEM_PER_NS
            / 1000
            / i64::from(vm.vcpus.max(1)),
        per_extra_dram: demand * weights::stall_permille(vm.bandwidth) * PER_MILLI / 1_000_000,
        per_extra_device: demand * weights::DEVICE_PERMILLE * PER_MILLI / 1_000_000,
        device_nodes: device_nodes.collect(),
        room: if contradicts_itself(vm) {
            0
        } else {
            caps.iter().sum()
        },
        caps,
        stays: if vm.dedicated { cores } else { threads },
        soft: soft(vm, host, site),
        partners: Vec::new(),
        apart: None,
        dedicated: vm.dedicated,
        reservation: i64::from(vm.reservation / vm.vcpus.max(1)),
    }
}

/// Whether no place can satisfy a VM: more guaranteed than allowed.
fn contradicts_itself(vm: &Vm) -> bool {
    vm.limit.is_some_and(|limit| limit < vm.reservation)
}

/// Whether a VM's groups may be as wide as an LLC has threads, not only cores: it asks for that, it is wider than the
/// cores it may use, or all VMs together want more cores than there are. Then threads are paired whatever is done, and a
/// VM in one LLC is better off than two that share two.
pub fn counts_threads(vm: &Vm, cores: u32, is_crowded: bool) -> bool {
    !vm.dedicated && (vm.prefer_ht || vm.vcpus > cores || is_crowded)
}

/// Cores and threads of each domain, by who may use them. VMs without a hard affinity share the tables.
#[derive(Debug)]
struct Rooms {
    shared: [Arc<[u32]>; 2],
    dedicated: [Arc<[u32]>; 2],
}

impl Rooms {
    fn new(site: &Site) -> Self {
        type Count = fn(&super::site::Domain) -> u32;
        let table = |count: Count| -> Arc<[u32]> { site.domains.iter().map(count).collect() };
        let unless_isolated: [Count; 2] = [
            |domain| if domain.isolated { 0 } else { domain.cores },
            |domain| if domain.isolated { 0 } else { domain.threads },
        ];
        Self {
            shared: unless_isolated.map(table),
            dedicated: [
                table(|domain| domain.whole_cores),
                table(|domain| domain.threads),
            ],
        }
    }

    /// Cores and threads of each domain that a VM may use.
    fn of_vm(&self, vm: &Vm, host: &Host, site: &Site) -> [Arc<[u32]>; 2] {
        let all = if vm.dedicated {
            &self.dedicated
        } else {
            &self.shared
        };
        if vm.hard.is_empty() {
            return all.clone();
        }
        let allowed = vm.hard.cpus_on(host);
        let own: Vec<CpuSet> = site
            .domains
            .iter()
            .map(|domain| domain.cpus.intersection(&allowed))
            .collect();
        let within = |most: &[u32], count: &dyn Fn(&CpuSet) -> u32| -> Arc<[u32]> {
            own.iter()
                .zip(most)
                .map(|(own, most)| count(own).min(*most))
                .collect()
        };
        let threads = |own: &CpuSet| u32::try_from(own.len()).unwrap_or(u32::MAX);
        [
            within(&all[0], &|own| host.cores_in(own)),
            within(&all[1], &threads),
        ]
    }
}

/// Whether all VMs together want more cores than the host has for them.
fn is_crowded(vms: &[&Vm], site: &Site) -> bool {
    let wanted = |vm: &&Vm| {
        let load = Load::of_vcpu(vm, site.threads_per_core);
        load.of(weights::Resource::Cores) * i64::from(vm.vcpus) + i64::from(vm.system)
    };
    let cores: i64 = site
        .domains
        .iter()
        .map(|domain| 1000 * i64::from(domain.cores))
        .sum();
    vms.iter().map(wanted).sum::<i64>() > cores
}

fn soft(vm: &Vm, host: &Host, site: &Site) -> Vec<i64> {
    if vm.soft.is_empty() {
        return Vec::new();
    }
    let wanted = vm.soft.cpus_on(host);
    let cost = |domain: &super::site::Domain| {
        let inside = domain.cpus.intersection(&wanted).len();
        let [inside, all] = [inside, domain.cpus.len()].map(|n| i64::try_from(n).unwrap_or(1));
        weights::SOFT_AFFINITY * (all - inside) / all.max(1)
    };
    site.domains.iter().map(cost).collect()
}

fn partners_by_label(vms: &[&Vm]) -> Vec<Vec<(VmId, i64)>> {
    let mut members: BTreeMap<&str, Vec<VmId>> = BTreeMap::new();
    for (id, vm) in (0..).map(VmId).zip(vms) {
        if let Some(label) = &vm.near {
            members.entry(label).or_default().push(id);
        }
    }
    let mut partners = vec![Vec::new(); vms.len()];
    for group in members.values() {
        let others = i64::try_from(group.len().min(2 * NEAR_MOST + 1)).unwrap_or(i64::MAX) - 1;
        for (index, &a) in group.iter().enumerate() {
            for &b in group[index + 1..].iter().take(NEAR_MOST) {
                relate(&mut partners, vms, a, b, others);
            }
        }
    }
    partners
}

fn relate(partners: &mut [Vec<(VmId, i64)>], vms: &[&Vm], a: VmId, b: VmId, others: i64) {
    let busy = |id: VmId| {
        let vm = vms[id.index()];
        weights::effective_demand(vm.effective_load()) * i64::from(vm.vcpus)
    };
    let per_ns = (busy(a) + busy(b)) * weights::NEAR_PER_NS / 1000 / others.max(1);
    partners[a.index()].push((b, per_ns));
    partners[b.index()].push((a, per_ns));
}

fn labels<'a>(all: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, u32> {
    let mut labels: BTreeMap<&str, u32> = all.map(|label| (label, 0)).collect();
    for (index, (_, id)) in (0..).zip(labels.iter_mut()) {
        *id = index;
    }
    labels
}

/// What the host has to give each thread, in thousandths of a normal vCPU.
fn shares_per_thread(site: &Site, tenants: &[Tenant]) -> i64 {
    let shares =
        |tenant: &Tenant| tenant.load.of(weights::Resource::Shares) * i64::from(tenant.vcpus);
    let wanted: i64 = tenants.iter().map(shares).sum();
    let threads: i64 = site
        .domains
        .iter()
        .map(|domain| i64::from(domain.threads))
        .sum();
    wanted / threads.max(1)
}
