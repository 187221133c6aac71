//! Random small instances of the placement problem with every coefficient of the cost function, and where `best` puts
//! the VMs: one JSON object a line. `bench/optimum` solves them to the proven optimum.
//!
//! `cargo run --release -p policy --example instances -- --count 240 --seed 1`; with `--patient` as planning places.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to who started it"
)]

#[path = "../../../bench/optimum/draw.rs"]
mod draw;

use std::process::ExitCode;

use model::host::PackageId;
use model::placement::{MemoryHome, Placement, VmId};
use policy::cost::evaluate::{extra_memory, home_of, parts_of};
use policy::cost::problem::{Problem, Tenant};
use policy::cost::site::HINGES;
use policy::cost::weights::{self, Load, Resource};
use policy::cost::{Term, evaluate};
use policy::place::{Best, PatientBest};
use policy::plan::{Plan, Snapshot};
use policy::reconcile::Policy;

use draw::Instance;

const RESOURCES: [Resource; 5] = [
    Resource::Cores,
    Resource::Threads,
    Resource::Shares,
    Resource::Footprint,
    Resource::Traffic,
];

fn main() -> ExitCode {
    let [mut count, mut seed, mut first] = [240_u64, 1, 0];
    let mut policy: &dyn Policy = &Best;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--patient" {
            policy = &PatientBest;
            continue;
        }
        let option = match word.as_str() {
            "--count" => &mut count,
            "--seed" => &mut seed,
            "--first" => &mut first,
            _ => return refuse(&format!("there is no option {word}")),
        };
        match words.next().and_then(|number| number.parse().ok()) {
            Some(number) => *option = number,
            None => return refuse(&format!("{word} needs a number")),
        }
    }
    for index in first..first.saturating_add(count) {
        println!(
            "{}",
            document(&draw::instance(seed, index), policy, [seed, index])
        );
    }
    ExitCode::SUCCESS
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("instances: {why}; options are --count N, --seed S, --first INDEX and --patient");
    ExitCode::from(2)
}

fn document(instance: &Instance, policy: &dyn Policy, [seed, index]: [u64; 2]) -> String {
    let now = &instance.now;
    let problem = Problem::new(now);
    let plan = policy.plan(now);
    let bill = evaluate(&problem, &now.host, &plan.placement, &now.placement);
    let terms = Term::ALL.map(|term| format!("\"{}\":{}", term.as_str(), bill.total[term]));
    let names = plan
        .refused
        .iter()
        .map(|(id, _)| quoted(&now.vms[id.index()].vm.name));
    let vms = (0..)
        .map(VmId)
        .zip(&problem.tenants)
        .map(|(id, _)| vm(instance, &problem, &plan, id));
    object(&[
        ("seed", seed.to_string()),
        ("index", index.to_string()),
        ("host", quoted(&instance.text)),
        ("classes", list(instance.classes.iter().map(quoted))),
        (
            "domains",
            list((0..).zip(&problem.hinges).map(|(d, _)| domain(&problem, d))),
        ),
        (
            "node_mib",
            list(problem.site.nodes.iter().map(|node| {
                node.memory_mib
                    .map_or("null".to_owned(), |mib| mib.to_string())
            })),
        ),
        ("extra_ns", distances(&problem)),
        ("vms", list(vms)),
        ("cost", format!("{{{}}}", terms.join(","))),
        ("total", plan.cost.total().to_string()),
        ("refused", list(names)),
    ])
}

fn domain(problem: &Problem, index: u32) -> String {
    let domain = &problem.site.domains[index as usize];
    let hinges = &problem.hinges[index as usize];
    let hinge = |(at, (term, resource)): (usize, &(Term, Resource))| {
        object(&[
            ("term", quoted(term.as_str())),
            ("resource", (*resource as usize).to_string()),
            ("threshold", hinges.thresholds[at].to_string()),
            ("slope", hinges.slopes[at].to_string()),
        ])
    };
    object(&[
        ("llc", domain.llc.0.to_string()),
        ("node", domain.node.0.to_string()),
        ("package", domain.package.0.to_string()),
        ("cores", domain.cores.to_string()),
        ("threads", domain.threads.to_string()),
        ("isolated", domain.isolated.to_string()),
        (
            "capacity",
            capacity(domain.cores, domain.threads).to_string(),
        ),
        ("hinges", list(HINGES.iter().enumerate().map(hinge))),
    ])
}

/// What reservations may take of a domain, in milli-CPU: cores yield less than twice with both threads busy.
fn capacity(cores: u32, threads: u32) -> i64 {
    let (cores, threads) = (i64::from(cores), i64::from(threads));
    let paired = (threads - cores).clamp(0, cores);
    (cores - paired) * 1000 + paired * 2 * weights::SMT_THREAD_PERMILLE
}

/// Extra ns between domains, without a home and for each package that memory may be on.
fn distances(problem: &Problem) -> String {
    let mut packages: Vec<PackageId> = problem
        .site
        .nodes
        .iter()
        .filter_map(|node| node.package)
        .collect();
    packages.sort_unstable();
    packages.dedup();
    let n = u32::try_from(problem.site.domains.len()).unwrap_or(u32::MAX);
    let table = |home: Option<PackageId>| {
        list((0..n).map(|a| list((0..n).map(|b| problem.site.extra_ns(a, b, home)))))
    };
    let homes = packages
        .iter()
        .map(|&home| format!("\"{}\":{}", home.0, table(Some(home))));
    let all: Vec<String> = std::iter::once(format!("\"none\":{}", table(None)))
        .chain(homes)
        .collect();
    format!("{{{}}}", all.join(","))
}

fn vm(instance: &Instance, problem: &Problem, plan: &Plan, id: VmId) -> String {
    let (now, tenant) = (&instance.now, &problem.tenants[id.index()]);
    let is_fixed = !now.placement.groups_of(id).is_empty();
    let domains = || 0..u32::try_from(problem.site.domains.len()).unwrap_or(u32::MAX);
    let partners = tenant
        .partners
        .iter()
        .filter(|(partner, _)| *partner > id)
        .map(|(partner, per_ns)| format!("[{},{per_ns}]", partner.0));
    let apart = tenant.apart.map_or("null".to_owned(), |(label, scope)| {
        format!("[{label},{}]", scope as u32)
    });
    let system = plan
        .placement
        .system
        .iter()
        .find(|home| home.vm == id)
        .and_then(|home| problem.site.domain_of(home.llc, home.node, false));
    let cells = (0..tenant.cells.len()).map(|at| cell(problem, now, (plan, id, tenant), at));
    object(&[
        ("name", quoted(&now.vms[id.index()].vm.name)),
        ("text", quoted(draw::described(&now.vms[id.index()].vm))),
        ("vcpus", tenant.vcpus.to_string()),
        ("fixed", is_fixed.to_string()),
        ("load", load(&tenant.load)),
        (
            "system",
            tenant.system.as_ref().map_or("null".to_owned(), load),
        ),
        ("per_pair_ns", tenant.per_pair_ns.to_string()),
        ("per_system_ns", tenant.per_system_ns.to_string()),
        ("per_extra_dram", tenant.per_extra_dram.to_string()),
        (
            "balance",
            (tenant.per_pair_ns * weights::BALANCE_NS).to_string(),
        ),
        ("caps", list(tenant.caps.iter())),
        ("stays", list(tenant.stays.iter())),
        (
            "device",
            list(domains().map(|d| tenant.device_cost(&problem.site, d))),
        ),
        ("soft", list(domains().map(|d| tenant.soft_cost(d)))),
        ("dedicated", tenant.dedicated.to_string()),
        ("reservation", tenant.reservation.to_string()),
        ("apart", apart),
        ("partners", list(partners)),
        (
            "our_system",
            system.map_or("null".to_owned(), |domain| domain.to_string()),
        ),
        ("cells", list(cells)),
    ])
}

/// A cell, the ways to give it memory (all of it on one node, and ours where that is another), and our parts.
fn cell(
    problem: &Problem,
    now: &Snapshot,
    (plan, id, tenant): (&Plan, VmId, &Tenant),
    at: usize,
) -> String {
    let cell = &tenant.cells[at];
    let of_cell = |placement: &Placement| -> Vec<MemoryHome> {
        let own = placement.memory_of(id).iter();
        own.filter(|home| home.cell as usize == at)
            .copied()
            .collect()
    };
    let ours = of_cell(&plan.placement);
    let mut ways = if now.placement.groups_of(id).is_empty() {
        ways(problem, tenant, (id, at))
    } else {
        vec![ours.clone()]
    };
    if !ways.contains(&ours) && !plan.placement.groups_of(id).is_empty() {
        ways.push(ours.clone());
    }
    let our_way = ways.iter().position(|way| *way == ours);
    let parts = parts_of(problem, &plan.placement, id);
    let own = parts.iter().filter(|part| part.cell == at);
    object(&[
        ("vcpus", cell.vcpus.len().to_string()),
        ("balanced", cell.blocks.is_empty().to_string()),
        (
            "ways",
            list(ways.iter().map(|way| memory(problem, way, at))),
        ),
        (
            "our_way",
            our_way.map_or("null".to_owned(), |way| way.to_string()),
        ),
        (
            "our_parts",
            list(own.map(|part| format!("[{},{}]", part.domain, part.count))),
        ),
    ])
}

/// Each node that may be the cell's home, with all of its memory.
fn ways(problem: &Problem, tenant: &Tenant, (vm, cell): (VmId, usize)) -> Vec<Vec<MemoryHome>> {
    let mib = tenant.cells[cell].memory_mib;
    if mib == 0 {
        return vec![Vec::new()];
    }
    let may = |node: &policy::cost::site::SiteNode| {
        let mut own = node.domains.iter();
        own.any(|&domain| tenant.caps[domain as usize] > 0)
            && node.memory_mib.is_none_or(|most| most >= mib)
    };
    (0..)
        .map(model::host::NodeId)
        .zip(&problem.site.nodes)
        .filter(|(_, node)| may(node))
        .map(|(node, _)| {
            vec![MemoryHome {
                vm,
                cell: u32::try_from(cell).unwrap_or(u32::MAX),
                node,
                mib,
            }]
        })
        .collect()
}

fn memory(problem: &Problem, way: &[MemoryHome], cell: usize) -> String {
    let home = home_of(problem, way, cell);
    let domains = 0..u32::try_from(problem.site.domains.len()).unwrap_or(u32::MAX);
    object(&[
        (
            "mib",
            list(way.iter().map(|on| format!("[{},{}]", on.node.0, on.mib))),
        ),
        (
            "home",
            home.map_or("null".to_owned(), |home| home.0.to_string()),
        ),
        (
            "extra",
            list(domains.map(|domain| extra_memory(problem, way, cell, domain))),
        ),
    ])
}

fn load(load: &Load) -> String {
    list(RESOURCES.iter().map(|&resource| load.of(resource)))
}

fn object(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", fields.join(","))
}

fn list<T: ToString>(items: impl Iterator<Item = T>) -> String {
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    format!("[{}]", items.join(","))
}

/// Our own words only: nothing in them needs an escape.
fn quoted(text: impl AsRef<str>) -> String {
    format!("\"{}\"", text.as_ref())
}
