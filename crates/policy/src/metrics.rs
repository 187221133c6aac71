//! How good a placement is, in figures that people compare: what `vtopo place` prints beside the cost.
//!
//! Means and ratios are in thousandths, so that equal plans give equal text on every machine.

use std::collections::BTreeMap;

use model::Host;
use model::host::{CoreId, LlcId};
use model::placement::{Group, VmId};

use crate::cost::problem::{Problem, Tenant};
use crate::cost::{Cost, Term};
use crate::plan::{Plan, Snapshot};

/// Figures of one plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metrics {
    /// VMs that have a place.
    pub placed: u32,
    /// VMs that have none.
    pub refused: u32,
    /// vCPUs that have a place.
    pub vcpus: u32,
    /// Their demand in milli-CPU, after limits: what the cost is a loss of.
    pub demand: u64,
    /// Mean over placed VMs of the LLCs a VM has groups on, in thousandths.
    pub llcs_spanned: u64,
    /// Mean over placed VMs of the nodes, in thousandths.
    pub nodes_spanned: u64,
    /// Mean over placed VMs of the packages, in thousandths.
    pub packages_spanned: u64,
    /// vCPUs that share a core with another busy vCPU: exact where vCPUs have a CPU each; elsewhere each vCPU above an
    /// LLC's cores makes two of them.
    pub smt_paired_vcpus: u32,
    /// Threads that VMs may use.
    pub threads: u64,
    /// vCPUs for each of these threads, in thousandths.
    pub overcommit: u64,
    /// Demand for each of these threads, in thousandths.
    pub load: u64,
    /// The LLC with the most vCPUs for each thread; `None` when nothing is placed.
    pub worst_llc: Option<Crowd>,
    /// Memory on nodes where none of the vCPUs it belongs to are at home, in MiB.
    pub remote_memory_mib: u64,
    /// All memory that is placed, in MiB.
    pub memory_mib: u64,
    /// Homes that changed.
    pub moves: u32,
    /// What the placement costs.
    pub cost: Cost,
}

/// How crowded an LLC is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crowd {
    /// The LLC.
    pub llc: LlcId,
    /// vCPUs at home there.
    pub vcpus: u32,
    /// Threads that VMs may use there.
    pub threads: u32,
    /// vCPUs for each thread, in thousandths.
    pub overcommit: u64,
    /// Demand for each thread, in thousandths.
    pub load: u64,
}

/// Who is at home on one LLC.
#[derive(Debug, Clone, Default)]
struct Seats {
    threads: u32,
    cores: u32,
    vcpus: u32,
    demand: u64,
    /// vCPUs with a CPU of their own, by core.
    pinned: BTreeMap<CoreId, u32>,
}

impl Metrics {
    /// Share of the memory that is remote, in thousandths; 0 without memory.
    pub fn remote_memory(&self) -> u64 {
        ratio(self.remote_memory_mib, self.memory_mib)
    }
}

/// The figures of a plan; `problem` is that of its snapshot.
pub fn measure(problem: &Problem, now: &Snapshot, plan: &Plan) -> Metrics {
    let mut metrics = Metrics {
        refused: count(plan.refused.len()),
        moves: count(plan.moves.len()),
        cost: plan.cost,
        ..Metrics::default()
    };
    let mut spans = [0_u64; 3];
    for (id, state) in (0..).map(VmId).zip(&now.vms) {
        let groups = plan.placement.groups_of(id);
        if groups.is_empty() {
            continue;
        }
        metrics.placed += 1;
        metrics.vcpus = metrics.vcpus.saturating_add(state.vm.vcpus);
        metrics.demand += u64::from(state.vm.effective_load()) * u64::from(state.vm.vcpus);
        for (sum, span) in spans.iter_mut().zip(spans_of(&now.host, groups)) {
            *sum += span;
        }
        add_memory(&mut metrics, problem, plan, id);
    }
    let means = spans.map(|sum| ratio(sum, u64::from(metrics.placed)));
    [
        metrics.llcs_spanned,
        metrics.nodes_spanned,
        metrics.packages_spanned,
    ] = means;
    add_crowding(&mut metrics, &seats(problem, now, plan));
    metrics
}

/// The figures of several hosts as those of one; the fullest LLC is the fullest of all.
pub fn combine(hosts: &[Metrics]) -> Metrics {
    let mut all = Metrics::default();
    let mut spans = [0_u64; 3];
    for host in hosts {
        all.placed += host.placed;
        all.refused += host.refused;
        all.vcpus = all.vcpus.saturating_add(host.vcpus);
        all.demand += host.demand;
        all.threads += host.threads;
        all.smt_paired_vcpus += host.smt_paired_vcpus;
        all.remote_memory_mib += host.remote_memory_mib;
        all.memory_mib += host.memory_mib;
        all.moves += host.moves;
        all.cost += host.cost;
        let means = [host.llcs_spanned, host.nodes_spanned, host.packages_spanned];
        for (sum, mean) in spans.iter_mut().zip(means) {
            *sum += mean * u64::from(host.placed);
        }
        let key = |crowd: Option<Crowd>| crowd.map(|crowd| (crowd.overcommit, crowd.load));
        if key(host.worst_llc) > key(all.worst_llc) {
            all.worst_llc = host.worst_llc;
        }
    }
    let means = spans.map(|sum| ratio(sum, u64::from(all.placed) * 1000));
    [all.llcs_spanned, all.nodes_spanned, all.packages_spanned] = means;
    all.overcommit = ratio(u64::from(all.vcpus), all.threads);
    all.load = ratio(all.demand, all.threads * 1000);
    all
}

/// What `other` loses more than `ours`, by term, the largest differences first; terms that are equal are left out.
pub fn difference(ours: &Cost, other: &Cost) -> Vec<(Term, i64)> {
    let mut terms: Vec<(Term, i64)> = (*other - *ours).terms().collect();
    terms.sort_by_key(|&(term, more)| (std::cmp::Reverse(more.abs()), term));
    terms
}

/// The indices of some plans, the best first: those that refuse least, then those that cost least.
pub fn ranking(metrics: &[Metrics]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..metrics.len()).collect();
    order.sort_by_key(|&index| (metrics[index].refused, metrics[index].cost.total()));
    order
}

/// LLCs, nodes and packages of a VM.
fn spans_of(host: &Host, groups: &[Group]) -> [u64; 3] {
    let distinct = |mut ids: Vec<u32>| {
        ids.sort_unstable();
        ids.dedup();
        ids.len() as u64
    };
    let package = |group: &Group| {
        let cpu = group.cpus.first().and_then(|id| host.cpu(id));
        host.package_of_node(group.node)
            .or(cpu.map(|cpu| cpu.package))
            .map_or(0, |package| package.0)
    };
    [
        distinct(groups.iter().map(|group| group.llc.0).collect()),
        distinct(groups.iter().map(|group| group.node.0).collect()),
        distinct(groups.iter().map(package).collect()),
    ]
}

fn add_memory(metrics: &mut Metrics, problem: &Problem, plan: &Plan, id: VmId) {
    let cells = problem
        .tenants
        .get(id.index())
        .map_or(&[][..], |tenant: &Tenant| &tenant.cells);
    let groups = plan.placement.groups_of(id);
    for home in plan.placement.memory_of(id) {
        let cell = cells.get(home.cell as usize).filter(|_| cells.len() > 1);
        let is_local = groups.iter().any(|group| {
            group.node == home.node && cell.is_none_or(|cell| cell.vcpus.intersects(&group.vcpus))
        });
        metrics.memory_mib += home.mib;
        metrics.remote_memory_mib += if is_local { 0 } else { home.mib };
    }
}

fn seats(problem: &Problem, now: &Snapshot, plan: &Plan) -> BTreeMap<LlcId, Seats> {
    let has_dedicated = now.vms.iter().any(|state| state.vm.dedicated);
    let mut all: BTreeMap<LlcId, Seats> = BTreeMap::new();
    let domains = problem.site.domains.iter();
    for domain in domains.filter(|domain| !domain.isolated || has_dedicated) {
        let seats = all.entry(domain.llc).or_default();
        seats.threads += domain.threads;
        seats.cores += domain.cores;
    }
    for group in &plan.placement.groups {
        let Some(state) = now.vms.get(group.vm.index()) else {
            continue;
        };
        let seats = all.entry(group.llc).or_default();
        let vcpus = count(group.vcpus.len());
        seats.vcpus += vcpus;
        seats.demand += u64::from(state.vm.effective_load()) * u64::from(vcpus);
        let cpus = group.cpus.iter().filter(|_| group.pinned);
        for cpu in cpus.filter_map(|id| now.host.cpu(id)) {
            *seats.pinned.entry(cpu.core).or_default() += 1;
        }
    }
    all
}

fn add_crowding(metrics: &mut Metrics, all: &BTreeMap<LlcId, Seats>) {
    let threads: u64 = all.values().map(|seats| u64::from(seats.threads)).sum();
    metrics.threads = threads;
    metrics.overcommit = ratio(u64::from(metrics.vcpus), threads);
    metrics.load = ratio(metrics.demand, threads * 1000);
    for (&llc, seats) in all {
        metrics.smt_paired_vcpus += paired(seats);
        let crowd = Crowd {
            llc,
            vcpus: seats.vcpus,
            threads: seats.threads,
            overcommit: ratio(u64::from(seats.vcpus), u64::from(seats.threads)),
            load: ratio(seats.demand, u64::from(seats.threads) * 1000),
        };
        let is_worse =
            |worst: Crowd| (crowd.overcommit, crowd.load) > (worst.overcommit, worst.load);
        if seats.vcpus > 0 && metrics.worst_llc.is_none_or(is_worse) {
            metrics.worst_llc = Some(crowd);
        }
    }
}

/// vCPUs on cores that another vCPU uses, too.
fn paired(seats: &Seats) -> u32 {
    let pinned: u32 = seats.pinned.values().sum();
    let beside: u32 = seats.pinned.values().filter(|&&vcpus| vcpus > 1).sum();
    let free = seats.cores.saturating_sub(count(seats.pinned.len()));
    let above = (seats.vcpus - pinned).saturating_sub(free);
    (beside + 2 * above).min(seats.vcpus)
}

/// Thousandths, rounded; 0 of nothing.
fn ratio(part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return 0;
    }
    let thousandths = (u128::from(part) * 1000 + u128::from(whole) / 2) / u128::from(whole);
    u64::try_from(thousandths).unwrap_or(u64::MAX)
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::host::{NodeId, Synthetic};
    use model::placement::{MemoryHome, Placement, Reserve};
    use model::{Reason, Vm};

    use super::*;

    /// Two packages with two LLCs of two cores with two threads each: CPUs 0-7 are first threads, 8-15 their siblings.
    fn snapshot(vms: Vec<Vm>) -> Snapshot {
        let host = Synthetic {
            packages: 2,
            nodes_per_package: 1,
            llcs_per_node: 2,
            cores_per_llc: 2,
            threads_per_core: 2,
            llc_mib: 16,
            node_mib: 4096,
        };
        Snapshot::empty(Arc::new(host.host("small")), vms, Reserve::default())
    }

    fn group(vm: u32, vcpus: &str, llc: u32, cpus: &str, pinned: bool) -> Group {
        Group {
            vm: VmId(vm),
            vcpus: vcpus.parse().unwrap(),
            llc: LlcId(llc),
            node: NodeId(llc / 2),
            cpus: cpus.parse().unwrap(),
            pinned,
        }
    }

    fn metrics(vms: Vec<Vm>, groups: Vec<Group>, memory: Vec<MemoryHome>) -> Metrics {
        let now = snapshot(vms);
        let plan = Plan {
            placement: Placement {
                groups,
                memory,
                system: vec![],
            },
            ..Plan::default()
        };
        measure(&Problem::new(&now), &now, &plan)
    }

    #[test]
    fn the_host_is_numbered_as_the_tests_say() {
        let host = snapshot(vec![]).host;
        let cores: Vec<String> = host
            .cores
            .iter()
            .map(|core| core.cpus.to_string())
            .collect();
        assert_eq!(cores[..4], ["0,8", "1,9", "2,10", "3,11"]);
    }

    #[test]
    fn pairs_are_counted_as_they_are() {
        let (floats, pinned) = (false, true);
        for (name, groups, expected) in [
            (
                "fits the cores",
                vec![group(0, "0-1", 0, "0-1,8-9", floats)],
                0,
            ),
            ("one above", vec![group(0, "0-2", 0, "0-1,8-9", floats)], 2),
            ("full", vec![group(0, "0-3", 0, "0-1,8-9", floats)], 4),
            (
                "beyond the threads",
                vec![group(0, "0-5", 0, "0-1,8-9", floats)],
                6,
            ),
            (
                "siblings by hand",
                vec![group(0, "0-1", 0, "0,8", pinned)],
                2,
            ),
            ("cores by hand", vec![group(0, "0-1", 0, "0-1", pinned)], 0),
            (
                "a floating one beside a pinned one",
                vec![
                    group(0, "0-1", 0, "0-1", pinned),
                    group(1, "0", 0, "0-1,8-9", floats),
                ],
                2,
            ),
            (
                "two LLCs",
                vec![
                    group(0, "0-1", 0, "0-1,8-9", floats),
                    group(0, "2-4", 1, "2-3,10-11", floats),
                ],
                2,
            ),
        ] {
            let vms = vec![Vm::new("a", 6, 0), Vm::new("b", 1, 0)];
            assert_eq!(
                metrics(vms, groups, vec![]).smt_paired_vcpus,
                expected,
                "{name}"
            );
        }
    }

    /// The wide VM is two cells of three vCPUs each, with their memory on both nodes.
    #[test]
    fn spans_crowding_and_memory() {
        let vms = vec![
            Vm::new("wide", 6, 2048),
            Vm {
                load: 500,
                ..Vm::new("small", 2, 1024)
            },
        ];
        let groups = vec![
            group(0, "0-3", 0, "0-1,8-9", false),
            group(0, "4-5", 2, "4-5,12-13", false),
            group(1, "0-1", 0, "0-1,8-9", false),
        ];
        let home = |vm, cell, node| MemoryHome {
            vm: VmId(vm),
            cell,
            node: NodeId(node),
            mib: 1024,
        };
        let found = metrics(
            vms,
            groups,
            vec![home(0, 0, 0), home(0, 1, 1), home(1, 0, 1)],
        );
        assert_eq!((found.placed, found.vcpus, found.demand), (2, 8, 7000));
        assert_eq!(
            (
                found.llcs_spanned,
                found.nodes_spanned,
                found.packages_spanned
            ),
            (1500, 1500, 1500)
        );
        assert_eq!((found.overcommit, found.load), (500, 438));
        let worst = found.worst_llc.unwrap();
        assert_eq!(
            (
                worst.llc,
                worst.vcpus,
                worst.threads,
                worst.overcommit,
                worst.load
            ),
            (LlcId(0), 6, 4, 1500, 1250)
        );
        assert_eq!(
            (found.remote_memory_mib, found.remote_memory()),
            (1024, 333)
        );
    }

    #[test]
    fn fewer_refusals_rank_before_less_cost() {
        let with = |refused, cost| {
            let mut metrics = Metrics {
                refused,
                ..Metrics::default()
            };
            metrics.cost[Term::Smt] = cost;
            metrics
        };
        assert_eq!(ranking(&[with(1, 0), with(0, 9), with(0, 3)]), [2, 1, 0]);
        let (mut ours, mut other) = (Cost::default(), Cost::default());
        (ours[Term::Memory], other[Term::Distance], other[Term::Smt]) = (5, 3, 9);
        assert_eq!(
            difference(&ours, &other),
            [(Term::Smt, 9), (Term::Memory, -5), (Term::Distance, 3)]
        );
        let refused = vec![(VmId(0), Reason::new("no-room", ""))];
        let now = snapshot(vec![Vm::new("a", 1, 0)]);
        let plan = Plan {
            refused,
            ..Plan::default()
        };
        let found = measure(&Problem::new(&now), &now, &plan);
        assert_eq!((found.placed, found.refused, found.worst_llc), (0, 1, None));
    }
}
