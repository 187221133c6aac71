//! Worlds put together: groups of a VM, their cells under each LLC, and who exchanges lines with whom.

use super::trail::{Trails, WHOLE};
use super::{Fabric, Vector, WorldLoad};

/// A group under an LLC.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cell {
    pub(super) llc: u32,
    /// Index into the VMs of [`Groups`].
    pub(super) vm: u32,
    pub(super) vector: u32,
    /// Busy vCPUs.
    pub(super) busy: f64,
    /// Working sets, `(sum of s)^2 / sum of s^2`: the number of vCPUs if all are as often here.
    pub(super) sets: f64,
    /// Bytes held, in all.
    pub(super) bytes: f64,
    /// Misses of each vCPU for each us of own work.
    pub(super) misses_per_us: f64,
}

/// The worlds of a VM that exchange lines, under one LLC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Partner {
    pub(super) llc: u32,
    /// Sum of their shares of the time.
    pub(super) share: u64,
    /// Sum of the squares.
    pub(super) squares: u64,
}

/// A VM and its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VmTally {
    id: u32,
    partners: (u32, u32),
    groups: (u32, u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    vm: u32,
    vector: u32,
    /// Part of [`Groups::members`].
    members: (u32, u32),
    cells: (u32, u32),
    old_cells: (u32, u32),
}

/// All groups.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    /// VM, vector and group of each world.
    worlds: Vec<(u32, u32, u32)>,
    members: Vec<u32>,
    list: Vec<Group>,
    vms: Vec<VmTally>,
    cells: Vec<Cell>,
    old_cells: Vec<Cell>,
    partners: Vec<Partner>,
    /// Weights of memory by VM and node.
    memory: Vec<f64>,
    nodes: usize,
    /// Working sets by LLC, in thousandths.
    sets: Vec<u64>,
    of_group: Sums,
    of_vm: Sums,
}

/// Sums by LLC that are emptied in the time that filling them took.
#[derive(Debug, Clone)]
struct Sums {
    by_llc: Vec<(u64, u64)>,
    touched: Vec<u32>,
}

impl Groups {
    pub(super) fn new(fabric: &Fabric) -> Self {
        let llcs = fabric.llc_bytes.len();
        let sums = Sums {
            by_llc: vec![(0, 0); llcs],
            touched: Vec::new(),
        };
        Self {
            worlds: Vec::new(),
            members: Vec::new(),
            list: Vec::new(),
            vms: Vec::new(),
            cells: Vec::new(),
            old_cells: Vec::new(),
            partners: Vec::new(),
            memory: Vec::new(),
            nodes: fabric.node_package.len(),
            sets: vec![0; llcs],
            of_group: sums.clone(),
            of_vm: sums,
        }
    }

    /// Makes groups, where the worlds are not those of the last time.
    pub(super) fn arrange(&mut self, worlds: &[WorldLoad]) {
        let known = self.worlds.iter().map(|&(vm, vector, _)| (vm, vector));
        if known.eq(worlds.iter().map(|world| (world.vm, world.vector))) {
            return;
        }
        let key = |world: u32| {
            let load = &worlds[world as usize];
            (load.vm, load.vector, world)
        };
        self.members.clear();
        self.members.extend(0..worlds.len() as u32);
        self.members.sort_unstable_by_key(|&world| key(world));
        self.worlds.clear();
        self.worlds.resize(worlds.len(), (0, 0, 0));
        self.list.clear();
        self.vms.clear();
        self.cells.clear();
        for (position, &world) in (0..).zip(&self.members) {
            let (vm, vector, _) = key(world);
            let is_new_vm = self.vms.last().is_none_or(|last| last.id != vm);
            if is_new_vm {
                let group = self.list.len() as u32;
                self.vms.push(VmTally {
                    id: vm,
                    partners: (0, 0),
                    groups: (group, group),
                });
            }
            let at = self.vms.len() as u32 - 1;
            if is_new_vm || self.list.last().is_none_or(|last| last.vector != vector) {
                self.list.push(Group {
                    vm: at,
                    vector,
                    members: (position, position),
                    cells: (0, 0),
                    old_cells: (0, 0),
                });
                self.vms[at as usize].groups.1 += 1;
            }
            let group = self.list.len() - 1;
            self.list[group].members.1 += 1;
            self.worlds[world as usize] = (vm, vector, group as u32);
        }
    }

    /// Sums up where worlds were.
    pub(super) fn count(&mut self, worlds: &[WorldLoad], trails: &Trails, vectors: &[Vector]) {
        std::mem::swap(&mut self.cells, &mut self.old_cells);
        self.cells.clear();
        self.partners.clear();
        self.sets.fill(0);
        self.memory.clear();
        for vm in 0..self.vms.len() {
            let start = self.partners.len() as u32;
            let groups = self.vms[vm].groups;
            for group in groups.0..groups.1 {
                let shares_lines =
                    vectors[self.list[group as usize].vector as usize].shared_lines_per_us > 0.0;
                self.count_group(group as usize, trails, shares_lines);
            }
            let Self {
                of_vm, partners, ..
            } = self;
            of_vm.take(|llc, (share, squares)| {
                partners.push(Partner {
                    llc,
                    share,
                    squares,
                });
            });
            self.vms[vm].partners = (start, self.partners.len() as u32);
            let first = self.list[groups.0 as usize].members.0;
            let world = &worlds[self.members[first as usize] as usize];
            push_weights(&mut self.memory, world.memory, self.nodes);
        }
    }

    fn count_group(&mut self, index: usize, trails: &Trails, shares_lines: bool) {
        let group = &mut self.list[index];
        group.old_cells = group.cells;
        for &world in &self.members[group.members.0 as usize..group.members.1 as usize] {
            for entry in trails.of(world as usize) {
                let share = u64::from(entry.share);
                self.of_group.add(entry.llc, share, share * share);
                if shares_lines {
                    self.of_vm.add(entry.llc, share, share * share);
                }
            }
        }
        let old = &self.old_cells[group.old_cells.0 as usize..group.old_cells.1 as usize];
        let (mut next, start) = (0, self.cells.len() as u32);
        let (vm, vector) = (group.vm, group.vector);
        let Self {
            of_group,
            cells,
            sets: sets_by_llc,
            ..
        } = self;
        of_group.take(|llc, (share, squares)| {
            while old.get(next).is_some_and(|cell| cell.llc < llc) {
                next += 1;
            }
            let before = old.get(next).filter(|cell| cell.llc == llc);
            let sets = (share as f64 * share as f64 / squares as f64).max(1.0);
            sets_by_llc[llc as usize] += (sets * 1000.0) as u64;
            cells.push(Cell {
                llc,
                vm,
                vector,
                busy: share as f64 / WHOLE as f64,
                sets,
                bytes: before.map_or(0.0, |cell| cell.bytes),
                misses_per_us: 0.0,
            });
        });
        group.cells = (start, cells.len() as u32);
    }

    pub(super) fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// VM, LLC and bytes of every cell that holds anything.
    pub(super) fn occupancies(&self) -> impl Iterator<Item = (u32, u32, f64)> + '_ {
        let held = self.cells.iter().filter(|cell| cell.bytes > 0.0);
        held.map(|cell| (self.vms[cell.vm as usize].id, cell.llc, cell.bytes))
    }

    /// LLCs of a VM's cells; a VM whose worlds differ has several on one.
    pub(super) fn llcs_of(&self, vm: u32) -> usize {
        let mut last = None;
        let cells = self
            .cells_of_vm(vm)
            .filter(|cell| last.replace(cell.llc) != Some(cell.llc));
        cells.count()
    }

    pub(super) fn cells_mut(&mut self) -> &mut [Cell] {
        &mut self.cells
    }

    /// VMs with their index.
    pub(super) fn vms(&self) -> impl Iterator<Item = (usize, &[Partner])> {
        let partners =
            |vm: &VmTally| &self.partners[vm.partners.0 as usize..vm.partners.1 as usize];
        self.vms.iter().map(partners).enumerate()
    }

    /// Weights of a VM's memory by node.
    pub(super) fn memory(&self, vm: usize) -> &[f64] {
        &self.memory[vm * self.nodes..(vm + 1) * self.nodes]
    }

    pub(super) fn memory_of(&self, world: usize) -> &[f64] {
        self.memory(self.vm_of(world))
    }

    /// Part of a world's memory in the package of an LLC.
    pub(super) fn local_weight(&self, fabric: &Fabric, world: usize, llc: u32) -> f64 {
        let package = fabric.llc_package[llc as usize];
        let homes = fabric.node_package.iter().zip(self.memory_of(world));
        let local: f64 = homes
            .filter(|(home, _)| **home == package)
            .map(|(_, weight)| weight)
            .sum();
        local.min(1.0)
    }

    pub(super) fn partners_of(&self, world: usize) -> &[Partner] {
        let (start, end) = self.vms[self.vm_of(world)].partners;
        &self.partners[start as usize..end as usize]
    }

    pub(super) fn vector_of(&self, world: usize) -> usize {
        self.worlds[world].1 as usize
    }

    pub(super) fn cell_of(&self, world: usize, llc: u32) -> Option<&Cell> {
        let (start, end) = self.list[self.worlds[world].2 as usize].cells;
        let cells = &self.cells[start as usize..end as usize];
        let at = cells.binary_search_by_key(&llc, |cell| cell.llc).ok()?;
        Some(&cells[at])
    }

    pub(super) fn cells_of_vm(&self, vm: u32) -> impl Iterator<Item = &Cell> {
        let at = self.vms.binary_search_by_key(&vm, |other| other.id).ok();
        let groups = at.map_or((0, 0), |at| self.vms[at].groups);
        let groups = &self.list[groups.0 as usize..groups.1 as usize];
        groups
            .iter()
            .flat_map(|group| &self.cells[group.cells.0 as usize..group.cells.1 as usize])
    }

    /// Working sets under an LLC.
    pub(super) fn sets_under(&self, llc: u32) -> f64 {
        self.sets[llc as usize] as f64 / 1000.0
    }

    fn vm_of(&self, world: usize) -> usize {
        self.list[self.worlds[world].2 as usize].vm as usize
    }
}

impl Sums {
    fn add(&mut self, llc: u32, share: u64, squares: u64) {
        let sums = &mut self.by_llc[llc as usize];
        if *sums == (0, 0) {
            self.touched.push(llc);
        }
        sums.0 += share;
        sums.1 += squares;
    }

    /// Hands out the sums by ascending LLC and empties them.
    fn take(&mut self, mut each: impl FnMut(u32, (u64, u64))) {
        self.touched.sort_unstable();
        for llc in self.touched.drain(..) {
            each(llc, std::mem::take(&mut self.by_llc[llc as usize]));
        }
    }
}

/// Weights that add up to 1, whatever was given.
fn push_weights(memory: &mut Vec<f64>, given: &[f64], nodes: usize) {
    let weight = |node: usize| given.get(node).copied().filter(|weight| *weight > 0.0);
    let sum: f64 = (0..nodes).filter_map(weight).sum();
    let even = 1.0 / nodes.max(1) as f64;
    memory.extend((0..nodes).map(|node| {
        if sum > 0.0 && sum.is_finite() {
            weight(node).unwrap_or(0.0) / sum
        } else {
            even
        }
    }));
}
