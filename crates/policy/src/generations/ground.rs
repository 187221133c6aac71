//! What every policy starts from: who is admitted, which cores dedicated VMs take, and what is left for whom.
//!
//! # Order
//! VMs that are placed already come before arrivals, dedicated before shared among arrivals, then shorter names before
//! longer ones, so that `vm2` comes before `vm10`. The order of the snapshot does not matter.
//!
//! # Refusals
//! More vCPUs than CPUs (`Cpu.AllowWideVsmp` is 0 in all releases), hard affinity to too few CPUs or to none that is
//! there, more memory than is left, dedicated VMs without whole cores. Everything else is still placed. A newcomer never
//! takes what a placed VM cannot do without.

use std::collections::BTreeMap;

use model::host::NodeId;
use model::placement::{Group, VmId};
use model::{CpuId, CpuSet, Reason, Vm};

use super::whole_cores;
use crate::cost::evaluate::domain_of;
use crate::cost::problem::{Problem, Tenant};
use crate::plan::Snapshot;

/// The ground a plan is made on.
#[derive(Debug)]
pub(super) struct Ground<'a> {
    pub(super) now: &'a Snapshot,
    pub(super) problem: Problem,
    /// Admitted VMs that are not dedicated, in order.
    pub(super) shared: Vec<VmId>,
    /// Admitted dedicated VMs and their seats, in order.
    pub(super) dedicated: Vec<(VmId, Vec<Seat>)>,
    /// VMs that cannot be placed, by VM.
    pub(super) refused: Vec<(VmId, Reason)>,
    anywhere: Rooms,
    own: BTreeMap<VmId, Rooms>,
}

/// vCPUs on a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) vcpus: CpuSet,
    pub(super) domain: u32,
    pub(super) cpus: CpuSet,
    pub(super) pinned: bool,
}

/// What a VM that is not dedicated may use of a domain.
#[derive(Debug, Clone, Default)]
pub(super) struct Room {
    pub(super) cpus: CpuSet,
    pub(super) cores: u32,
    pub(super) threads: u32,
}

/// The rooms of all domains.
#[derive(Debug, Default)]
struct Rooms {
    rooms: Vec<Room>,
    cores: u32,
}

/// What is left while VMs are admitted.
struct Admission<'a> {
    now: &'a Snapshot,
    problem: &'a Problem,
    /// CPUs for VMs: those of all domains.
    usable: CpuSet,
    isolated: CpuSet,
    /// CPUs of the cores of dedicated VMs.
    taken: CpuSet,
    memory_left: Option<u64>,
    widest: u32,
    narrow: Vec<(VmId, CpuSet)>,
}

impl<'a> Ground<'a> {
    /// Admits and refuses.
    pub(super) fn new(now: &'a Snapshot) -> Self {
        let problem = Problem::new(now);
        let mut admission = Admission::new(now, &problem);
        let (mut shared, mut dedicated, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for id in order(now) {
            match admission.admit(id) {
                Ok(None) => shared.push(id),
                Ok(Some(seats)) => dedicated.push((id, seats)),
                Err(reason) => refused.push((id, reason)),
            }
        }
        let taken = admission.taken;
        refused.sort_by_key(|(id, _)| *id);
        let anywhere = Rooms::new(now, &problem, &taken, None);
        let own = shared
            .iter()
            .filter(|id| !now.vms[id.index()].vm.hard.is_empty());
        let own = own.map(|&id| {
            let allowed = now.vms[id.index()].vm.hard.cpus_on(&now.host);
            (id, Rooms::new(now, &problem, &taken, Some(&allowed)))
        });
        let own = own.collect();
        Self {
            now,
            problem,
            shared,
            dedicated,
            refused,
            anywhere,
            own,
        }
    }

    /// The VM.
    pub(super) fn vm(&self, id: VmId) -> &'a Vm {
        &self.now.vms[id.index()].vm
    }

    /// The VM, prepared.
    pub(super) fn tenant(&self, id: VmId) -> &Tenant {
        &self.problem.tenants[id.index()]
    }

    /// What one vCPU asks for, in milli-CPU; idle ones count a little, so that they do not all go to one place.
    pub(super) fn demand(&self, id: VmId) -> i64 {
        i64::from(self.vm(id).effective_load().max(1))
    }

    /// What the VM may use of a domain.
    pub(super) fn room(&self, id: VmId, domain: u32) -> &Room {
        &self.own.get(&id).unwrap_or(&self.anywhere).rooms[domain as usize]
    }

    /// What a VM without affinity may use of a domain.
    pub(super) fn any_room(&self, domain: u32) -> &Room {
        &self.anywhere.rooms[domain as usize]
    }

    /// How many vCPUs of the VM a domain holds: its cores, or its threads for VMs that count those or are wider than all
    /// the cores they may use.
    pub(super) fn cap(&self, id: VmId, domain: u32) -> u32 {
        let rooms = self.own.get(&id).unwrap_or(&self.anywhere);
        let room = &rooms.rooms[domain as usize];
        let vm = self.vm(id);
        if vm.prefer_ht || vm.vcpus > rooms.cores {
            room.threads
        } else {
            room.cores
        }
    }

    /// Indices of all domains.
    pub(super) fn domains(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.problem.site.domains.len()).unwrap_or(u32::MAX)
    }

    /// The node of a domain.
    pub(super) fn node_of(&self, domain: u32) -> NodeId {
        self.problem.site.domains[domain as usize].node
    }

    /// Where a shared VM is now, one seat for each group; `None` when it is not placed, or not as a VM of its size, or
    /// where it cannot stay.
    pub(super) fn seats_now(&self, id: VmId) -> Option<Vec<Seat>> {
        let groups = self.now.placement.groups_of(id);
        covers(groups, self.vm(id).vcpus).then_some(())?;
        let seat = |group: &Group| {
            let domain = domain_of(&self.problem, self.tenant(id), group)?;
            let stays = !self.room(id, domain).cpus.is_empty();
            let pinned = group.pinned && group.cpus.len() == group.vcpus.len();
            let (vcpus, cpus) = (group.vcpus.clone(), group.cpus.clone());
            stays.then_some(Seat {
                vcpus,
                domain,
                cpus,
                pinned,
            })
        };
        groups.iter().map(seat).collect()
    }

    /// Whether the VM was placed before and may be moved again.
    pub(super) fn has_dwelt(&self, id: VmId) -> bool {
        let moved = self.now.vms[id.index()].moved_ns;
        moved.is_none_or(|moved| self.now.at_ns.saturating_sub(moved) >= self.now.budget.dwell_ns)
    }
}

/// Whether groups hold each of `vcpus` vCPUs once.
pub(super) fn covers(groups: &[Group], vcpus: u32) -> bool {
    let total: usize = groups.iter().map(|group| group.vcpus.len()).sum();
    let all = groups
        .iter()
        .fold(CpuSet::new(), |sum, group| sum.union(&group.vcpus));
    total == vcpus as usize && all.len() == total && all.last().is_some_and(|last| last.0 < vcpus)
}

/// All VMs in the order they are served.
fn order(now: &Snapshot) -> Vec<VmId> {
    let mut order: Vec<VmId> = (0..).map(VmId).take(now.vms.len()).collect();
    order.sort_by_key(|&id| {
        let vm = &now.vms[id.index()].vm;
        let arrives = now.placement.groups_of(id).is_empty();
        (arrives, !vm.dedicated, vm.name.len(), &vm.name, id)
    });
    order
}

impl Rooms {
    fn new(now: &Snapshot, problem: &Problem, taken: &CpuSet, allowed: Option<&CpuSet>) -> Self {
        let room = |domain: &crate::cost::site::Domain| {
            if domain.isolated {
                return Room::default();
            }
            let free = domain.cpus.difference(taken);
            let cpus = allowed.map_or_else(|| free.clone(), |allowed| free.intersection(allowed));
            let threads = u32::try_from(cpus.len()).unwrap_or(u32::MAX);
            Room {
                cores: now.host.cores_in(&cpus),
                threads,
                cpus,
            }
        };
        let rooms: Vec<Room> = problem.site.domains.iter().map(room).collect();
        let cores = rooms.iter().map(|room| room.cores).sum();
        Self { rooms, cores }
    }
}

impl<'a> Admission<'a> {
    fn new(now: &'a Snapshot, problem: &'a Problem) -> Self {
        let sum = |isolated: bool| {
            let domains = problem.site.domains.iter();
            domains
                .filter(|domain| domain.isolated == isolated)
                .fold(CpuSet::new(), |sum, domain| sum.union(&domain.cpus))
        };
        let mut memory = problem.site.nodes.iter().map(|node| node.memory_mib);
        let add = |sum: u64, mib: Option<u64>| Some(sum.saturating_add(mib?));
        let memory_left = memory.try_fold(0, add);
        Self {
            now,
            problem,
            usable: sum(false),
            isolated: sum(true),
            taken: CpuSet::new(),
            memory_left,
            widest: 0,
            narrow: Vec::new(),
        }
    }

    /// Seats for a dedicated VM, nothing for a shared one, or why it cannot be.
    fn admit(&mut self, id: VmId) -> Result<Option<Vec<Seat>>, Reason> {
        let vm = &self.now.vms[id.index()].vm;
        let allowed = self.allowed(vm)?;
        let cells = &self.problem.tenants[id.index()].cells;
        let memory = cells
            .iter()
            .fold(0_u64, |sum, cell| sum.saturating_add(cell.memory_mib));
        if let Some(left) = self.memory_left.filter(|&left| memory > left) {
            let text = format!("{} needs {memory} MiB, and {left} MiB are left", vm.name);
            return Err(Reason::new("no-memory", text));
        }
        let seats = if vm.dedicated {
            Some(self.whole_cores(id, &allowed)?)
        } else {
            Self::check_width(vm, &allowed.difference(&self.taken))?;
            if vm.hard.is_empty() {
                self.widest = self.widest.max(vm.vcpus);
            } else {
                self.narrow.push((id, allowed));
            }
            None
        };
        self.memory_left = self.memory_left.map(|left| left - memory);
        Ok(seats)
    }

    /// The CPUs a VM may use, whoever has them now.
    fn allowed(&self, vm: &Vm) -> Result<CpuSet, Reason> {
        let name = &vm.name;
        if vm.vcpus == 0 {
            return Err(Reason::new(
                "no-vcpus",
                format!("{name} has no vCPUs; give it one"),
            ));
        }
        let all = if vm.dedicated {
            self.usable.union(&self.isolated)
        } else {
            self.usable.clone()
        };
        if vm.hard.is_empty() {
            return Ok(all);
        }
        let allowed = all.intersection(&vm.hard.cpus_on(&self.now.host));
        if allowed.is_empty() {
            let text = format!(
                "{name} must stay on CPUs that this host does not have for it; CPUs {all} are there"
            );
            return Err(Reason::new("affinity-no-cpus", text));
        }
        Ok(allowed)
    }

    fn check_width(vm: &Vm, free: &CpuSet) -> Result<(), Reason> {
        let (name, vcpus, have) = (&vm.name, vm.vcpus, free.len());
        if have >= vcpus as usize {
            return Ok(());
        }
        Err(if vm.hard.is_empty() {
            let text = format!("{name} has {vcpus} vCPUs, and {have} CPUs are left for it");
            Reason::new("more-vcpus-than-cpus", text)
        } else {
            let text = format!(
                "{name} has {vcpus} vCPUs and must stay on CPUs {free}, which are {have}; allow as many as it has vCPUs"
            );
            Reason::new("affinity-too-narrow", text)
        })
    }

    fn whole_cores(&mut self, id: VmId, allowed: &CpuSet) -> Result<Vec<Seat>, Reason> {
        let vm = &self.now.vms[id.index()].vm;
        let free = whole_cores::free(self.now, self.problem, allowed, &self.taken);
        let seats = whole_cores::kept(self.now, self.problem, id, (allowed, &free))
            .or_else(|| whole_cores::chosen(self.problem, id, &free));
        let Some(seats) = seats else {
            let text = format!(
                "{} is dedicated and needs {} whole cores; {} are free",
                vm.name,
                vm.vcpus,
                free.len()
            );
            return Err(Reason::new("dedicated-too-few-cores", text));
        };
        let cpus = seats.iter().flat_map(|seat| seat.cpus.iter());
        let taken = whole_cores::with_siblings(&self.now.host, cpus).union(&self.taken);
        if let Some(name) = self.squeezed(&taken) {
            let text = format!(
                "{} is dedicated; its {} cores would leave {name} fewer CPUs than it has vCPUs",
                vm.name, vm.vcpus
            );
            return Err(Reason::new("dedicated-too-few-cores", text));
        }
        self.taken = taken;
        Ok(seats)
    }

    /// An admitted VM that would have fewer CPUs than vCPUs.
    fn squeezed(&self, taken: &CpuSet) -> Option<String> {
        if self.usable.difference(taken).len() < self.widest as usize {
            return Some(format!("a VM of {} vCPUs", self.widest));
        }
        let vm = |id: &VmId| &self.now.vms[id.index()].vm;
        let squeezed = |(id, allowed): &&(VmId, CpuSet)| {
            allowed.difference(taken).len() < vm(id).vcpus as usize
        };
        let found = self.narrow.iter().find(squeezed);
        found.map(|(id, _)| vm(id).name.clone())
    }
}

/// The CPU of each vCPU of a pinned seat.
pub(super) fn pairs(seat: &Seat) -> impl Iterator<Item = (CpuId, CpuId)> + '_ {
    seat.vcpus.iter().zip(seat.cpus.iter())
}
