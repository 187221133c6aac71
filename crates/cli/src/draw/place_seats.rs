//! Who sits on which thread, for drawing. A group that floats over its LLC is shown on whole cores first, then on their
//! siblings, then on threads that are taken; a group with a CPU for each vCPU is shown where it is.

use std::collections::BTreeMap;

use model::host::{CoreId, Host};
use model::placement::{Group, Placement, Reserve, VmId};
use model::{CpuId, CpuSet, Vm};

/// A placement with everything that is needed to draw it.
#[derive(Debug, Clone, Copy)]
pub struct PlaceView<'a> {
    /// The machine.
    pub host: &'a Host,
    /// The VMs that the placement speaks of.
    pub vms: &'a [Vm],
    /// Where they are.
    pub placement: &'a Placement,
    /// What of the machine is not for VMs.
    pub reserve: &'a Reserve,
}

/// What is shown on a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Seat {
    /// Nobody.
    Free,
    /// A vCPU of this VM.
    Vm(VmId),
    /// Nobody may sit here.
    Reserved,
    /// Only dedicated VMs may.
    Isolated,
    /// The sibling of a dedicated vCPU.
    KeptFree,
}

/// The threads of a host with who sits there.
#[derive(Debug, Clone, Default)]
pub(super) struct Seats {
    /// First occupants and others, by CPU.
    occupants: BTreeMap<CpuId, Vec<VmId>>,
    /// What empty threads are.
    empty: BTreeMap<CpuId, Seat>,
}

impl Seats {
    pub(super) fn new(view: &PlaceView) -> Self {
        let mut seats = Self::default();
        for cpu in &view.host.cpus {
            let empty = if view.reserve.cpus.contains(cpu.id) {
                Seat::Reserved
            } else if view.host.isolated.contains(cpu.id) {
                Seat::Isolated
            } else {
                Seat::Free
            };
            seats.empty.insert(cpu.id, empty);
        }
        let mut on_core: BTreeMap<CoreId, usize> = BTreeMap::new();
        let (pinned, mut floating): (Vec<&Group>, Vec<&Group>) =
            view.placement.groups.iter().partition(|group| group.pinned);
        for group in pinned {
            for cpu in group.cpus.iter().take(group.vcpus.len()) {
                seats.sit(view.host, &mut on_core, cpu, group.vm);
            }
        }
        // Who has least choice sits first.
        floating.sort_by_key(|group| (group.cpus.len(), group.vm, group.vcpus.first()));
        for group in floating {
            let home = view.host.llcs.get(group.llc.index());
            let inside = home.map_or_else(CpuSet::new, |llc| llc.cpus.intersection(&group.cpus));
            let choice = if inside.is_empty() {
                &group.cpus
            } else {
                &inside
            };
            for _ in group.vcpus.iter() {
                let key = |cpu: &CpuId| {
                    let core = view.host.cpu(*cpu).map(|cpu| cpu.core);
                    let neighbours = core.and_then(|core| on_core.get(&core)).copied();
                    (seats.on(*cpu).len(), neighbours.unwrap_or(0), *cpu)
                };
                let Some(cpu) = choice.iter().min_by_key(key) else {
                    break;
                };
                seats.sit(view.host, &mut on_core, cpu, group.vm);
            }
        }
        seats.keep_free(view);
        seats
    }

    /// The VMs on a thread.
    pub(super) fn on(&self, cpu: CpuId) -> &[VmId] {
        self.occupants.get(&cpu).map_or(&[], Vec::as_slice)
    }

    /// What is on a thread first.
    pub(super) fn first(&self, cpu: CpuId) -> Seat {
        let empty = || self.empty.get(&cpu).copied().unwrap_or(Seat::Free);
        self.on(cpu).first().map_or_else(empty, |&vm| Seat::Vm(vm))
    }

    /// vCPUs on the threads of a core beyond one each, those that came first first.
    pub(super) fn waiting(&self, cpus: &CpuSet) -> Vec<VmId> {
        let turns = cpus.iter().map(|cpu| self.on(cpu).len()).max().unwrap_or(0);
        let of_turn = |turn| {
            let here = cpus.iter().filter_map(move |cpu| self.on(cpu).get(turn));
            here.copied()
        };
        (1..turns).flat_map(of_turn).collect()
    }

    fn sit(&mut self, host: &Host, on_core: &mut BTreeMap<CoreId, usize>, cpu: CpuId, vm: VmId) {
        self.occupants.entry(cpu).or_default().push(vm);
        if let Some(cpu) = host.cpu(cpu) {
            *on_core.entry(cpu.core).or_default() += 1;
        }
    }

    fn keep_free(&mut self, view: &PlaceView) {
        let is_dedicated = |vm: &VmId| view.vms.get(vm.index()).is_some_and(|vm| vm.dedicated);
        for core in &view.host.cores {
            let taken = core
                .cpus
                .iter()
                .any(|cpu| self.on(cpu).iter().any(is_dedicated));
            for cpu in core.cpus.iter().filter(|_| taken) {
                self.empty.insert(cpu, Seat::KeptFree);
            }
        }
    }
}
