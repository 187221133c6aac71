//! A placement in the making: loads by domain, seats by VM, and the running cost. Everything is indexed; a change costs
//! what it touches.

use model::host::{NodeId, PackageId};
use model::tenant::Scope;

use crate::cost::problem::{Problem, Tenant};
use crate::cost::site::{HINGES, Hinges};
use crate::cost::weights::{self, Load};

/// vCPUs of one cell on one domain. A block of a guest LLC is a piece of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Piece {
    pub(super) cell: u32,
    pub(super) domain: u32,
    pub(super) size: u32,
    /// The cell's block it is; `FREE` for vCPUs that belong to none.
    pub(super) block: u32,
}

/// Not a block of the guest.
pub(super) const FREE: u32 = u32::MAX;

/// Memory of one cell on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Memory {
    pub(super) cell: u32,
    pub(super) node: NodeId,
    pub(super) mib: u64,
}

/// Where a VM is; without pieces it is nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Seat {
    pub(super) pieces: Vec<Piece>,
    pub(super) memory: Vec<Memory>,
    pub(super) system: Option<u32>,
}

/// All seats and what they add up to.
#[derive(Debug)]
pub(super) struct State<'a> {
    pub(super) problem: &'a Problem,
    /// Where load costs, by domain: the problem's hinges, or what the search makes of them for a while.
    hinges: Vec<Hinges>,
    pub(super) seats: Vec<Seat>,
    /// Where VMs were before; empty seats for those that arrive.
    pub(super) before: Vec<Seat>,
    /// Cores wanted of each node, in thousandths.
    pub(super) node_demand: Vec<i64>,
    /// Memory that is still free, by node; `None` means unknown.
    pub(super) free_mib: Vec<Option<u64>>,
    /// Cost of everything that sits, in nano-vCPU.
    pub(super) cost: i64,
    /// Evaluations so far: the search's measure of work.
    pub(super) evaluations: u64,
    domains: Vec<Use>,
    /// Whether no VM asks for whole cores or a reservation: room is all that counts then.
    is_plain: bool,
    /// VMs that sit and keep apart, by label.
    labelled: Vec<Vec<usize>>,
}

/// What is used of a domain.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    load: Load,
    cost: i64,
    dedicated: u32,
    shared: u32,
    reserved: i64,
}

impl<'a> State<'a> {
    /// Nobody sits.
    pub(super) fn new(problem: &'a Problem) -> Self {
        Self {
            seats: vec![Seat::default(); problem.tenants.len()],
            before: vec![Seat::default(); problem.tenants.len()],
            free_mib: problem
                .site
                .nodes
                .iter()
                .map(|node| node.memory_mib)
                .collect(),
            node_demand: vec![0; problem.site.nodes.len()],
            domains: vec![Use::default(); problem.site.domains.len()],
            is_plain: problem
                .tenants
                .iter()
                .all(|tenant| !tenant.dedicated && tenant.reservation == 0),
            labelled: labelled(problem),
            cost: 0,
            evaluations: 0,
            hinges: problem.hinges.clone(),
            problem,
        }
    }

    /// The VM, prepared.
    pub(super) fn tenant(&self, vm: usize) -> &'a Tenant {
        &self.problem.tenants[vm]
    }

    /// Puts other hinges in place; what sits is priced anew.
    pub(super) fn set_hinges(&mut self, hinges: Vec<Hinges>) {
        self.hinges = hinges;
        for (used, hinges) in self.domains.iter_mut().zip(&self.hinges) {
            let cost = hinges.cost(&used.load);
            self.cost += cost - used.cost;
            used.cost = cost;
        }
    }

    /// Whether the VM sits.
    pub(super) fn is_seated(&self, vm: usize) -> bool {
        !self.seats[vm].pieces.is_empty()
    }

    /// Seats a VM that does not sit.
    pub(super) fn put(&mut self, vm: usize, seat: Seat) {
        self.cost += self.own_cost(vm, &seat);
        for piece in &seat.pieces {
            self.load(vm, piece.domain, i64::from(piece.size));
        }
        self.load_system(vm, seat.system, 1);
        for memory in &seat.memory {
            self.hold(*memory);
        }
        if let Some((label, _)) = self.tenant(vm).apart {
            self.labelled[label as usize].push(vm);
        }
        self.seats[vm] = seat;
    }

    /// Takes a VM out and gives its seat back.
    pub(super) fn take(&mut self, vm: usize) -> Seat {
        let seat = std::mem::take(&mut self.seats[vm]);
        if let Some((label, _)) = self.tenant(vm).apart {
            self.labelled[label as usize].retain(|other| *other != vm);
        }
        for piece in &seat.pieces {
            self.load(vm, piece.domain, -i64::from(piece.size));
        }
        self.load_system(vm, seat.system, -1);
        for memory in &seat.memory {
            self.release(*memory);
        }
        self.cost -= self.own_cost(vm, &seat);
        seat
    }

    /// What a seat of a VM that does not sit would add to the cost.
    pub(super) fn quote(&self, vm: usize, seat: &Seat) -> i64 {
        let mut cost = self.own_cost(vm, seat);
        for piece in first_on_domain(seat) {
            let on_domain = seat
                .pieces
                .iter()
                .filter(|other| other.domain == piece.domain);
            let vcpus: u32 = on_domain.map(|other| other.size).sum();
            let load = &self.tenant(vm).load;
            let system = self
                .tenant(vm)
                .system
                .filter(|_| seat.system == Some(piece.domain));
            let mut more = Load::default();
            more.add(load, i64::from(vcpus));
            more.add(&system.unwrap_or_default(), 1);
            cost += self.more_cost(piece.domain, &more, 1);
        }
        let elsewhere = seat
            .system
            .filter(|domain| !seat.pieces.iter().any(|piece| piece.domain == *domain));
        if let (Some(domain), Some(load)) = (elsewhere, &self.tenant(vm).system) {
            cost += self.more_cost(domain, load, 1);
        }
        cost
    }

    /// Adds vCPUs of a VM to a domain, or takes them away, with what the domain then costs.
    pub(super) fn load(&mut self, vm: usize, domain: u32, vcpus: i64) {
        let tenant = self.tenant(vm);
        self.add_load(domain, &tenant.load, vcpus);
        let used = &mut self.domains[domain as usize];
        let count = if tenant.dedicated {
            &mut used.dedicated
        } else {
            &mut used.shared
        };
        *count = u32::try_from(i64::from(*count) + vcpus).unwrap_or(0);
        used.reserved += tenant.reservation * vcpus;
    }

    /// Whether system threads may run on a domain.
    pub(super) fn fits_system(&self, vm: usize, domain: u32) -> bool {
        let place = &self.problem.site.domains[domain as usize];
        !place.isolated
            && self.tenant(vm).caps[domain as usize] > 0
            && self.domains[domain as usize].dedicated < place.cores
    }

    /// Takes memory of a node.
    pub(super) fn hold(&mut self, memory: Memory) {
        if let Some(free) = &mut self.free_mib[memory.node.index()] {
            *free = free.saturating_sub(memory.mib);
        }
    }

    /// Gives memory of a node back.
    pub(super) fn release(&mut self, memory: Memory) {
        if let Some(free) = &mut self.free_mib[memory.node.index()] {
            *free += memory.mib;
        }
    }

    /// What a domain costs more with so many vCPUs of the VM.
    pub(super) fn more_load_cost(&self, vm: usize, domain: u32, vcpus: u32) -> i64 {
        self.more_cost(domain, &self.tenant(vm).load, i64::from(vcpus))
    }

    /// What a domain costs more with a load so many times.
    pub(super) fn more_cost(&self, domain: u32, load: &Load, times: i64) -> i64 {
        let used = &self.domains[domain as usize];
        let mut more = used.load;
        more.add(load, times);
        self.hinges[domain as usize].cost(&more) - used.cost
    }

    /// Whether nothing but cost speaks against so many more vCPUs of the VM on a domain, where it has `own` already.
    pub(super) fn fits(&self, vm: usize, domain: u32, own: u32, vcpus: u32) -> bool {
        own + vcpus <= self.tenant(vm).caps[domain as usize] && self.is_free_for(vm, domain, vcpus)
    }

    /// Whether a VM that does not sit may have a seat: all its pieces together, and its system threads.
    pub(super) fn seat_fits(&self, vm: usize, seat: &Seat) -> bool {
        first_on_domain(seat).all(|piece| {
            let on_domain = seat
                .pieces
                .iter()
                .filter(|other| other.domain == piece.domain);
            let vcpus = on_domain.map(|other| other.size).sum();
            let fits = self.fits(vm, piece.domain, 0, vcpus);
            let used = self.domains[piece.domain as usize].dedicated + vcpus;
            let crowds_out = self.tenant(vm).dedicated && seat.system == Some(piece.domain);
            fits && !(crowds_out && used >= self.problem.site.domains[piece.domain as usize].cores)
        })
    }

    /// Whether the nodes have the memory of a seat, of all its cells together.
    pub(super) fn memory_fits(&self, seat: &Seat) -> bool {
        seat.memory.iter().all(|home| {
            let own = seat.memory.iter().filter(|other| other.node == home.node);
            let mib: u64 = own.map(|other| other.mib).sum();
            self.free_mib[home.node.index()].is_none_or(|free| free >= mib)
        })
    }

    /// The same for vCPUs that are there already, which may stay where they would not be put.
    pub(super) fn may_stay(&self, vm: usize, domain: u32, own: u32, vcpus: u32) -> bool {
        own + vcpus <= self.tenant(vm).stays[domain as usize] && self.is_free_for(vm, domain, vcpus)
    }

    fn is_free_for(&self, vm: usize, domain: u32, vcpus: u32) -> bool {
        let tenant = self.tenant(vm);
        if self.is_plain && tenant.apart.is_none() {
            return true;
        }
        let used = &self.domains[domain as usize];
        let place = &self.problem.site.domains[domain as usize];
        let dedicated = used.dedicated + if tenant.dedicated { vcpus } else { 0 };
        let shared = used.shared > 0 || !tenant.dedicated;
        let reserved = used.reserved + tenant.reservation * i64::from(vcpus);
        dedicated <= place.whole_cores.max(used.dedicated)
            && dedicated + u32::from(shared && dedicated > 0) <= place.cores
            && (reserved == 0 || reserved <= capacity(place.cores, place.threads))
            && self.keeps_apart(vm, domain)
    }

    /// How many vCPUs of the VM a domain takes without pairing threads.
    pub(super) fn free_cores(&self, vm: usize, domain: u32) -> u32 {
        let (used, tenant) = (&self.domains[domain as usize], self.tenant(vm));
        let cores = i64::from(self.problem.site.domains[domain as usize].cores) * 1000;
        let free = cores - used.load.of(weights::Resource::Cores);
        let vcpus = free.max(0) / tenant.load.of(weights::Resource::Cores).max(1);
        u32::try_from(vcpus)
            .unwrap_or(u32::MAX)
            .min(tenant.caps[domain as usize])
    }

    /// What all load would cost on one domain with the room of all of them, at the lowest price any of them asks.
    pub(super) fn whole_host_cost(&self) -> i64 {
        let mut whole = Hinges {
            thresholds: [0; HINGES.len()],
            slopes: [i64::MAX; HINGES.len()],
        };
        let mut load = Load::default();
        for (hinges, used) in self.hinges.iter().zip(&self.domains) {
            load.add(&used.load, 1);
            whole
                .thresholds
                .iter_mut()
                .zip(hinges.thresholds)
                .for_each(|(sum, more)| *sum += more);
            whole
                .slopes
                .iter_mut()
                .zip(hinges.slopes)
                .for_each(|(least, slope)| *least = slope.min(*least));
        }
        if self.domains.is_empty() {
            0
        } else {
            whole.cost(&load)
        }
    }

    /// What all load of the domains a VM sits on would cost at the price of their last unit: how much their cost swings
    /// when loads do.
    pub(super) fn swing(&self, vm: usize) -> i64 {
        let firsts = first_on_domain(&self.seats[vm]);
        firsts
            .map(|piece| {
                self.hinges[piece.domain as usize].swing(&self.domains[piece.domain as usize].load)
            })
            .sum()
    }

    /// What a seated VM costs by itself, and the domains it is on: what it could gain at most.
    pub(super) fn burden(&self, vm: usize) -> i64 {
        let seat = &self.seats[vm];
        let shared: i64 = first_on_domain(seat)
            .map(|piece| self.domains[piece.domain as usize].cost)
            .sum();
        self.own_cost(vm, seat) + shared
    }

    fn load_system(&mut self, vm: usize, domain: Option<u32>, times: i64) {
        if let (Some(domain), Some(load)) = (domain, &self.tenant(vm).system) {
            self.add_load(domain, load, times);
            let shared = &mut self.domains[domain as usize].shared;
            *shared = u32::try_from(i64::from(*shared) + times).unwrap_or(0);
        }
    }

    fn add_load(&mut self, domain: u32, load: &Load, times: i64) {
        let used = &mut self.domains[domain as usize];
        used.load.add(load, times);
        let node = self.problem.site.domains[domain as usize].node;
        self.node_demand[node.index()] += load.of(weights::Resource::Cores) * times;
        let cost = self.hinges[domain as usize].cost(&used.load);
        self.cost += cost - used.cost;
        used.cost = cost;
    }

    /// Cost of a VM by itself, and of its distance to partners that sit.
    pub(super) fn own_cost(&self, vm: usize, seat: &Seat) -> i64 {
        let tenant = self.tenant(vm);
        let site = &self.problem.site;
        let mut cost = 0;
        for (index, piece) in seat.pieces.iter().enumerate() {
            let n = i64::from(piece.size);
            let memory = self.extra_memory(&seat.memory, piece.cell, piece.domain);
            cost += n * (tenant.alone(site, piece.domain) + tenant.per_extra_dram * memory);
            let home = self.home(&seat.memory, piece.cell);
            for other in &seat.pieces[index + 1..] {
                let home = home.filter(|_| piece.cell == other.cell);
                let ns = site.extra_ns(piece.domain, other.domain, home);
                cost += n * i64::from(other.size) * tenant.per_pair_ns * ns;
            }
            if let Some(system) = seat.system {
                cost += n * tenant.per_system_ns * site.extra_ns(piece.domain, system, None);
            }
        }
        let near = tenant
            .partners
            .iter()
            .map(|&(partner, per_ns)| self.near(per_ns, seat, &self.seats[partner.index()]));
        cost + near.sum::<i64>() + self.balance(vm, &seat.pieces) + self.migration(vm, seat)
    }

    /// What two VMs that talk lose by the mean distance of their vCPUs.
    fn near(&self, per_ns: i64, a: &Seat, b: &Seat) -> i64 {
        let total = |seat: &Seat| {
            seat.pieces
                .iter()
                .map(|piece| i64::from(piece.size))
                .sum::<i64>()
        };
        let mut ns = 0;
        for a in &a.pieces {
            for b in &b.pieces {
                ns += i64::from(a.size)
                    * i64::from(b.size)
                    * self.problem.site.extra_ns(a.domain, b.domain, None);
            }
        }
        per_ns * ns / (total(a) * total(b)).max(1)
    }

    /// What unequal parts of free cells cost.
    pub(super) fn balance(&self, vm: usize, pieces: &[Piece]) -> i64 {
        let mut cost = 0;
        for (cell, parts) in (0..).zip(&self.tenant(vm).cells) {
            if !parts.blocks.is_empty() {
                continue;
            }
            let own = || pieces.iter().filter(|piece| piece.cell == cell);
            let on = |domain| {
                own()
                    .filter(|other| other.domain == domain)
                    .map(|other| other.size)
                    .sum::<u32>()
            };
            let (mut least, mut most) = (u32::MAX, 0);
            for piece in own() {
                let count = on(piece.domain);
                (least, most) = (least.min(count), most.max(count));
            }
            let beyond = i64::from(most.saturating_sub(least).saturating_sub(1));
            cost += self.tenant(vm).per_pair_ns * weights::BALANCE_NS * beyond * beyond;
        }
        cost
    }

    fn migration(&self, vm: usize, seat: &Seat) -> i64 {
        let before = &self.before[vm];
        if before.pieces.is_empty() {
            return 0;
        }
        let node = |piece: &Piece| self.problem.site.domains[piece.domain as usize].node.0;
        let to_llc = arrived(&before.pieces, &seat.pieces, |piece| piece.domain);
        let to_node = arrived(&before.pieces, &seat.pieces, node);
        let copied = copied(before, &seat.memory);
        let gib = i64::try_from(copied.div_ceil(1024)).unwrap_or(i64::MAX / weights::MOVE_GIB);
        (to_llc - to_node).max(0) * weights::MOVE_LLC
            + to_node * weights::MOVE_NODE
            + gib * weights::MOVE_GIB
    }

    /// The package that holds most of a cell's memory.
    pub(super) fn home(&self, memory: &[Memory], cell: u32) -> Option<PackageId> {
        let own = memory.iter().filter(|home| home.cell == cell);
        let most = own.max_by_key(|home| (home.mib, std::cmp::Reverse(home.node)))?;
        self.problem.site.nodes[most.node.index()].package
    }

    /// Extra latency of a cell's memory from a domain, in thousandths.
    pub(super) fn extra_memory(&self, memory: &[Memory], cell: u32, domain: u32) -> i64 {
        let node = self.problem.site.domains[domain as usize].node;
        let (mut weighted, mut total) = (0, 0);
        for home in memory.iter().filter(|home| home.cell == cell) {
            let mib = i64::try_from(home.mib.max(1)).unwrap_or(i64::MAX / 1_000_000);
            weighted += mib * self.problem.site.extra_dram(node, home.node);
            total += mib;
        }
        if total == 0 { 0 } else { weighted / total }
    }

    fn keeps_apart(&self, vm: usize, domain: u32) -> bool {
        let Some((label, scope)) = self.tenant(vm).apart else {
            return true;
        };
        let site = &self.problem.site;
        let mine = &site.domains[domain as usize];
        let clash = |scope: Scope, piece: &Piece| {
            let theirs = &site.domains[piece.domain as usize];
            match scope {
                Scope::Llc => mine.llc == theirs.llc,
                Scope::Node => mine.node == theirs.node,
                Scope::Package => mine.package == theirs.package,
                Scope::Host => true,
            }
        };
        let others = self.labelled[label as usize]
            .iter()
            .filter(|other| **other != vm);
        !others.copied().any(|other| {
            let wider = self
                .tenant(other)
                .apart
                .map_or(scope, |(_, theirs)| scope.max(theirs));
            self.seats[other]
                .pieces
                .iter()
                .any(|piece| clash(wider, piece))
        })
    }
}

fn labelled(problem: &Problem) -> Vec<Vec<usize>> {
    let labels = problem.tenants.iter().filter_map(|tenant| tenant.apart);
    let n = labels
        .map(|(label, _)| label as usize + 1)
        .max()
        .unwrap_or(0);
    vec![Vec::new(); n]
}

/// One piece of a seat for each domain it is on.
fn first_on_domain(seat: &Seat) -> impl Iterator<Item = &Piece> {
    let is_first = |(index, piece): &(usize, &Piece)| {
        !seat.pieces[..*index]
            .iter()
            .any(|earlier| earlier.domain == piece.domain)
    };
    seat.pieces
        .iter()
        .enumerate()
        .filter(is_first)
        .map(|(_, piece)| piece)
}

/// vCPUs that are in another place than before.
fn arrived(before: &[Piece], after: &[Piece], place: impl Fn(&Piece) -> u32) -> i64 {
    let count = |pieces: &[Piece], cell: u32, at: u32| -> i64 {
        let own = pieces
            .iter()
            .filter(|piece| piece.cell == cell && place(piece) == at);
        own.map(|piece| i64::from(piece.size)).sum()
    };
    let mut total = 0;
    for (index, piece) in after.iter().enumerate() {
        let (cell, at) = (piece.cell, place(piece));
        let is_first = !after[..index]
            .iter()
            .any(|earlier| earlier.cell == cell && place(earlier) == at);
        if is_first {
            total += (count(after, cell, at) - count(before, cell, at)).max(0);
        }
    }
    total
}

/// MiB of memory that are on another node than before.
pub(super) fn copied(before: &Seat, memory: &[Memory]) -> u64 {
    let was = |home: &Memory| {
        let same = |old: &&Memory| (old.cell, old.node) == (home.cell, home.node);
        before.memory.iter().find(same).map_or(0, |old| old.mib)
    };
    memory
        .iter()
        .map(|home| home.mib.saturating_sub(was(home)))
        .sum()
}

/// What cores yield with all their threads busy, in milli-CPU of work.
fn capacity(cores: u32, threads: u32) -> i64 {
    let (cores, threads) = (i64::from(cores), i64::from(threads));
    let paired = (threads - cores).clamp(0, cores);
    (cores - paired) * 1000 + paired * 2 * weights::SMT_THREAD_PERMILLE
}
