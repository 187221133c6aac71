//! The cost of a placement from scratch, by definition: what the search must agree with, and what baselines are held to.

use model::Host;
use model::host::{CoreId, PackageId};
use model::placement::{Group, MemoryHome, Placement, VmId};

use super::problem::{Problem, Tenant};
use super::site::HINGES;
use super::weights::{self, Load};
use super::{Cost, Term};

/// A cost and whose it is.
#[derive(Debug, Clone, Default)]
pub struct Bill {
    /// All of it.
    pub total: Cost,
    /// What each VM costs by itself: distances, memory, devices, moves.
    pub by_vm: Vec<Cost>,
    /// What each domain costs: the loads that VMs share it for.
    pub by_domain: Vec<Cost>,
}

/// vCPUs of one cell on one domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Index of the cell in its VM.
    pub cell: usize,
    /// The domain.
    pub domain: u32,
    /// How many vCPUs.
    pub count: u32,
}

/// The cost of `placement`, of which `before` was there already. Groups and memory whose homes the host does not have
/// are left out; [`Placement::check`] reports them.
pub fn evaluate(problem: &Problem, host: &Host, placement: &Placement, before: &Placement) -> Bill {
    let parts: Vec<Vec<Part>> = ids(problem)
        .map(|id| parts_of(problem, placement, id))
        .collect();
    let mut bill = Bill::default();
    for id in ids(problem) {
        bill.by_vm
            .push(cost_of_vm(problem, placement, before, &parts, id));
    }
    bill.by_domain = cost_of_domains(problem, host, placement, &parts);
    bill.total = bill
        .by_vm
        .iter()
        .chain(&bill.by_domain)
        .fold(Cost::default(), |sum, &cost| sum + cost);
    bill
}

/// The parts of a VM, one for each cell and domain, in that order.
pub fn parts_of(problem: &Problem, placement: &Placement, id: VmId) -> Vec<Part> {
    let tenant = &problem.tenants[id.index()];
    let mut parts: Vec<Part> = Vec::new();
    for group in placement.groups_of(id) {
        let Some(domain) = domain_of(problem, tenant, group) else {
            continue;
        };
        for (index, cell) in tenant.cells.iter().enumerate() {
            let count = if tenant.cells.len() == 1 {
                group.vcpus.len()
            } else {
                group.vcpus.intersection(&cell.vcpus).len()
            };
            if count > 0 {
                parts.push(Part {
                    cell: index,
                    domain,
                    count: u32::try_from(count).unwrap_or(u32::MAX),
                });
            }
        }
    }
    parts.sort_by_key(|part| (part.cell, part.domain));
    parts.dedup_by(|later, kept| {
        let same = (later.cell, later.domain) == (kept.cell, kept.domain);
        kept.count += if same { later.count } else { 0 };
        same
    });
    parts
}

/// The package that holds most of a cell's memory; `None` when nothing is known of it.
pub fn home_of(problem: &Problem, memory: &[MemoryHome], cell: usize) -> Option<PackageId> {
    let own = memory.iter().filter(|home| home.cell as usize == cell);
    let most = own.max_by_key(|home| (home.mib, std::cmp::Reverse(home.node)))?;
    problem.site.nodes.get(most.node.index())?.package
}

/// Extra latency of a cell's memory from a domain, in thousandths.
pub fn extra_memory(problem: &Problem, memory: &[MemoryHome], cell: usize, domain: u32) -> i64 {
    let node = problem.site.domains[domain as usize].node;
    let own = memory
        .iter()
        .filter(|home| home.cell as usize == cell && home.node.index() < problem.site.nodes.len());
    let (mut weighted, mut total) = (0, 0);
    for home in own {
        let mib = i64::try_from(home.mib.max(1)).unwrap_or(i64::MAX / 1_000_000);
        weighted += mib * problem.site.extra_dram(node, home.node);
        total += mib;
    }
    if total == 0 { 0 } else { weighted / total }
}

/// How far the parts of a cell differ beyond one, in vCPUs. Guest LLCs are what they are.
pub fn imbalance(tenant: &Tenant, cell: usize, parts: impl Iterator<Item = u32>) -> i64 {
    if !tenant.cells[cell].blocks.is_empty() {
        return 0;
    }
    let (least, most) = parts.fold((u32::MAX, 0), |(least, most), count| {
        (least.min(count), most.max(count))
    });
    i64::from(most.saturating_sub(least).saturating_sub(1))
}

fn ids(problem: &Problem) -> impl Iterator<Item = VmId> + use<> {
    (0..u32::try_from(problem.tenants.len()).unwrap_or(u32::MAX)).map(VmId)
}

/// The domain of a group; dedicated groups may be on isolated CPUs.
pub fn domain_of(problem: &Problem, tenant: &Tenant, group: &Group) -> Option<u32> {
    let shared = problem.site.domain_of(group.llc, group.node, false);
    let isolated = problem.site.domain_of(group.llc, group.node, true);
    let is_in = |domain: &u32| {
        group
            .cpus
            .intersects(&problem.site.domains[*domain as usize].cpus)
    };
    isolated
        .filter(|domain| tenant.dedicated && is_in(domain))
        .or(shared)
        .or(isolated)
}

fn cost_of_vm(
    problem: &Problem,
    placement: &Placement,
    before: &Placement,
    all: &[Vec<Part>],
    id: VmId,
) -> Cost {
    let (tenant, parts, site) = (
        &problem.tenants[id.index()],
        &all[id.index()],
        &problem.site,
    );
    let memory = placement.memory_of(id);
    let homes: Vec<_> = (0..tenant.cells.len())
        .map(|cell| home_of(problem, memory, cell))
        .collect();
    let mut cost = Cost::default();
    for (index, part) in parts.iter().enumerate() {
        let count = i64::from(part.count);
        cost[Term::Memory] +=
            count * tenant.per_extra_dram * extra_memory(problem, memory, part.cell, part.domain);
        cost[Term::Device] += count * tenant.device_cost(site, part.domain);
        cost[Term::Affinity] += count * tenant.soft_cost(part.domain);
        for other in &parts[index + 1..] {
            let home = homes[part.cell].filter(|_| part.cell == other.cell);
            let pairs = count * i64::from(other.count);
            cost[Term::Distance] +=
                pairs * tenant.per_pair_ns * site.extra_ns(part.domain, other.domain, home);
        }
    }
    for cell in 0..tenant.cells.len() {
        let counts = parts
            .iter()
            .filter(|part| part.cell == cell)
            .map(|part| part.count);
        let beyond = imbalance(tenant, cell, counts);
        cost[Term::Balance] += tenant.per_pair_ns * weights::BALANCE_NS * beyond * beyond;
    }
    if let Some(system) = system_domain(problem, placement, id) {
        let farther = parts
            .iter()
            .map(|part| i64::from(part.count) * site.extra_ns(part.domain, system, None));
        cost[Term::System] += tenant.per_system_ns * farther.sum::<i64>();
    }
    for &(partner, per_ns) in tenant.partners.iter().filter(|(partner, _)| *partner > id) {
        cost[Term::Near] += near(problem, per_ns, parts, &all[partner.index()]);
    }
    cost[Term::Migration] += migration(problem, placement, before, id);
    cost
}

/// What two VMs that talk lose by the mean distance of their vCPUs.
fn near(problem: &Problem, per_ns: i64, a: &[Part], b: &[Part]) -> i64 {
    let total = |parts: &[Part]| {
        parts
            .iter()
            .map(|part| i64::from(part.count))
            .sum::<i64>()
            .max(1)
    };
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a, b)));
    let ns = pairs.map(|(a, b)| {
        i64::from(a.count) * i64::from(b.count) * problem.site.extra_ns(a.domain, b.domain, None)
    });
    per_ns * ns.sum::<i64>() / (total(a) * total(b))
}

fn system_domain(problem: &Problem, placement: &Placement, id: VmId) -> Option<u32> {
    let home = placement.system_of(id)?;
    problem.site.domain_of(home.llc, home.node, false)
}

/// What it takes to get from `before` to here: vCPUs that change their domain or node, memory that changes its node.
fn migration(problem: &Problem, placement: &Placement, before: &Placement, id: VmId) -> i64 {
    let (old, new) = (
        parts_of(problem, before, id),
        parts_of(problem, placement, id),
    );
    if old.is_empty() || new.is_empty() {
        return 0;
    }
    let arrived = |key: &dyn Fn(&Part) -> u64| -> i64 {
        let mut change: std::collections::BTreeMap<(usize, u64), i64> =
            std::collections::BTreeMap::new();
        for part in &new {
            *change.entry((part.cell, key(part))).or_default() += i64::from(part.count);
        }
        for part in &old {
            *change.entry((part.cell, key(part))).or_default() -= i64::from(part.count);
        }
        change.into_values().filter(|&more| more > 0).sum()
    };
    let to_llc = arrived(&|part| u64::from(part.domain));
    let to_node = arrived(&|part| u64::from(problem.site.domains[part.domain as usize].node.0));
    let was = |home: &MemoryHome| {
        let same = |old: &&MemoryHome| (old.cell, old.node) == (home.cell, home.node);
        before
            .memory_of(id)
            .iter()
            .find(same)
            .map_or(0, |old| old.mib)
    };
    let copied: u64 = placement
        .memory_of(id)
        .iter()
        .map(|home| home.mib.saturating_sub(was(home)))
        .sum();
    let gib = i64::try_from(copied.div_ceil(1024)).unwrap_or(i64::MAX / weights::MOVE_GIB);
    (to_llc - to_node).max(0) * weights::MOVE_LLC
        + to_node * weights::MOVE_NODE
        + gib * weights::MOVE_GIB
}

fn cost_of_domains(
    problem: &Problem,
    host: &Host,
    placement: &Placement,
    parts: &[Vec<Part>],
) -> Vec<Cost> {
    let mut loads = vec![Load::default(); problem.site.domains.len()];
    for (tenant, parts) in problem.tenants.iter().zip(parts) {
        for part in parts {
            loads[part.domain as usize].add(&tenant.load, i64::from(part.count));
        }
    }
    for home in &placement.system {
        let tenant = problem.tenants.get(home.vm.index());
        let system = tenant.and_then(|tenant| tenant.system.as_ref());
        if let (Some(load), Some(domain)) = (system, system_domain(problem, placement, home.vm)) {
            loads[domain as usize].add(load, 1);
        }
    }
    let mut costs: Vec<Cost> = Vec::with_capacity(loads.len());
    for (hinges, load) in problem.hinges.iter().zip(&loads) {
        let mut cost = Cost::default();
        for (index, (term, _)) in HINGES.iter().enumerate() {
            cost[*term] += hinges.cost_of(index, load);
        }
        costs.push(cost);
    }
    add_pinned_pairs(problem, host, placement, &mut costs);
    costs
}

/// Groups whose vCPUs have a CPU each may pair threads although cores are free, which hinges cannot see: the pairs that
/// are there count, where they are more than the load makes necessary.
fn add_pinned_pairs(problem: &Problem, host: &Host, placement: &Placement, costs: &mut [Cost]) {
    let mut on_core: Vec<[i64; 2]> = vec![[0; 2]; host.cores.len()];
    let mut any = false;
    for group in placement.groups.iter().filter(|group| group.pinned) {
        let Some(tenant) = problem
            .tenants
            .get(group.vm.index())
            .filter(|tenant| !tenant.dedicated)
        else {
            continue;
        };
        any = true;
        for cpu in group.cpus.iter().filter_map(|id| host.cpu(id)) {
            let [sum, most] = &mut on_core[cpu.core.index()];
            let load = tenant.load.of(weights::Resource::Cores);
            *sum += load;
            *most = (*most).max(load);
        }
    }
    if !any {
        return;
    }
    for (domain, cost) in problem.site.domains.iter().zip(costs) {
        let mut cores: Vec<CoreId> = domain
            .cpus
            .iter()
            .filter_map(|id| host.cpu(id))
            .map(|cpu| cpu.core)
            .collect();
        cores.sort_unstable();
        cores.dedup();
        let paired: i64 = cores
            .iter()
            .map(|core| on_core[core.index()])
            .map(|[sum, most]| sum - most)
            .sum();
        let per_milli = 2 * (1000 - weights::SMT_THREAD_PERMILLE) * weights::PER_MILLI / 1000;
        cost[Term::Smt] = cost[Term::Smt].max(paired * per_milli);
    }
}
