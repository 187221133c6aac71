//! What everybody who runs does to everybody else: the laws of [`super::cache`] and [`super::memory`] applied to a host.
//!
//! Once in an epoch, [`Contention::update`] takes where every world ran, smooths it, divides the LLCs, and settles the
//! memory. [`Contention::speed`] then says how fast a world runs on a CPU alone on the core, from the time that a
//! microsecond of its own work takes:
//!
//! `T = 1000 + misses * sum of w_n dram(cpu, n) load(n) / mlp + lines * mean coherence / sharing_mlp` ns.
//!
//! *World* is a thread of the host: a vCPU or a system thread. Worlds of one VM with one vector are a *group*; a group
//! under an LLC is a *cell*, and cells are what shares caches and memory. All sums over worlds and cells are of integers, so
//! that their order does not matter.

mod tally;
#[cfg(test)]
mod tests;
mod traffic;
mod trail;

use super::cache::{self, Curve, Sharer};
use super::fabric::Fabric;
use super::vector::Vector;
use crate::time::{FULL_SPEED, Nanos};

use tally::{Cell, Groups};
use traffic::Traffic;
use trail::Trails;

/// Places of a world whose speed is kept until the next update.
const RECENT: usize = 4;

/// A world in the last epoch.
#[derive(Debug, Clone, Copy)]
pub struct WorldLoad<'a> {
    /// Its VM.
    pub vm: u32,
    /// Index of its vector.
    pub vector: u32,
    /// LLCs under which it ran, ascending, and for how long. Time beside a busy thread of the core counts less where the
    /// caller says so: [`Vector::smt`] times, then caches and memory see the work that was done.
    pub ran: &'a [(u32, Nanos)],
    /// Weights of the VM's memory by node; of all worlds of a VM the same. Empty means evenly everywhere.
    pub memory: &'a [f64],
}

/// The state of caches and memory under the load of an epoch, smoothed.
#[derive(Debug, Clone)]
pub struct Contention {
    vectors: Vec<Vector>,
    curves: Vec<Curve>,
    trails: Trails,
    groups: Groups,
    traffic: Traffic,
    /// Cells by LLC, and the cell of each; scratch of an update.
    sharers: Vec<Sharer>,
    order: Vec<u32>,
    starts: Vec<u32>,
    /// Speeds that were asked for, by world.
    recent: Vec<[Recent; RECENT]>,
    epoch: u64,
    /// Places that differ for a world: pairs of LLC and node, by CPU.
    cpu_place: Vec<u32>,
}

/// A speed and what it holds for.
#[derive(Debug, Clone, Copy, Default)]
struct Recent {
    epoch: u64,
    place: u32,
    speed: u32,
}

impl Contention {
    /// Nothing runs yet. Vectors are referred to by index.
    pub fn new(fabric: &Fabric, vectors: &[Vector]) -> Self {
        let vectors: Vec<Vector> = vectors.iter().map(Vector::clamped).collect();
        let places: Vec<(u32, u32)> = fabric
            .cpu_llc
            .iter()
            .copied()
            .zip(fabric.cpu_node.iter().copied())
            .collect();
        let mut distinct = places.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let place = |pair| distinct.partition_point(|other| other < pair) as u32;
        Self {
            curves: vectors.iter().map(Curve::new).collect(),
            vectors,
            trails: Trails::default(),
            groups: Groups::new(fabric),
            traffic: Traffic::new(fabric),
            sharers: Vec::new(),
            order: Vec::new(),
            starts: Vec::new(),
            recent: Vec::new(),
            epoch: 1,
            cpu_place: places.iter().map(place).collect(),
        }
    }

    /// Takes the load of an epoch of `dt_ns`. A world keeps its index in `worlds`; one that is gone has run nowhere. Takes
    /// time in proportion to the LLCs that worlds ran under, and allocates only while there is more of anything than ever
    /// before.
    ///
    /// # Panics
    ///
    /// When a world names a vector that was not given to [`new`](Self::new).
    pub fn update(&mut self, fabric: &Fabric, worlds: &[WorldLoad], dt_ns: Nanos) {
        self.groups.arrange(worlds);
        self.trails.smooth(worlds, dt_ns);
        self.recent
            .resize(worlds.len(), [Recent::default(); RECENT]);
        self.groups.count(worlds, &self.trails, &self.vectors);
        self.share_caches(fabric);
        self.traffic.settle(fabric, &self.groups, &self.vectors);
        self.epoch += 1;
    }

    /// Speed of a world on a CPU whose core has nobody else, in units of [`FULL_SPEED`], from 1 to it. Kept for a few
    /// places until the next update, so that it costs little to ask at every dispatch.
    ///
    /// # Panics
    ///
    /// When the last update had no such world, or there was none.
    pub fn speed(&mut self, fabric: &Fabric, world: usize, cpu: u32) -> u32 {
        let place = self.cpu_place[cpu as usize];
        let recent = self.recent[world][place as usize % RECENT];
        if (recent.epoch, recent.place) == (self.epoch, place) {
            return recent.speed;
        }
        let time_ns = self.time_ns(fabric, world, cpu);
        let speed = ((f64::from(FULL_SPEED) * 1000.0 / time_ns).round() as u32).max(1);
        self.recent[world][place as usize % RECENT] = Recent {
            epoch: self.epoch,
            place,
            speed,
        };
        speed
    }

    /// As [`speed`](Self::speed), beside a busy thread of the core.
    pub fn paired_speed(&mut self, fabric: &Fabric, world: usize, cpu: u32) -> u32 {
        let smt = self.vectors[self.groups.vector_of(world)].smt;
        let alone = self.speed(fabric, world, cpu);
        ((f64::from(alone) * smt).round() as u32).max(1)
    }

    /// Time in ns that a microsecond of a world's own work takes on a CPU; at least 1000.
    pub fn time_ns(&self, fabric: &Fabric, world: usize, cpu: u32) -> f64 {
        let llc = fabric.cpu_llc[cpu as usize];
        let vector = &self.vectors[self.groups.vector_of(world)];
        let misses = self.misses_per_us(fabric, world, llc);
        let mut time_ns = 1000.0;
        if misses > 0.0 {
            let node = fabric.cpu_node[cpu as usize];
            let weights = self.groups.memory_of(world).iter();
            let wait: f64 = (0..)
                .zip(weights)
                .filter(|(_, weight)| **weight > 0.0)
                .map(|(home, weight)| {
                    let factor = self.traffic.factor(fabric, llc, home);
                    weight * fabric.node_dram_ns(node, home) * factor
                })
                .sum();
            time_ns += misses * wait / vector.mlp;
        }
        if vector.shared_lines_per_us > 0.0 {
            let coherence_ns = self.mean_coherence_ns(fabric, world, llc);
            time_ns += vector.shared_lines_per_us * coherence_ns / vector.sharing_mlp;
        }
        time_ns
    }

    /// Mean time in ns of an exchange of a world under an LLC with the other worlds of its VM, by where they were busy; 0
    /// when nobody else was.
    pub fn mean_coherence_ns(&self, fabric: &Fabric, world: usize, llc: u32) -> f64 {
        let shares = self.vectors[self.groups.vector_of(world)].shared_lines_per_us > 0.0;
        let own = if shares { self.trails.of(world) } else { &[] };
        let local = self.groups.local_weight(fabric, world, llc);
        let (mut sum, mut all, mut next) = (0.0, 0_u64, 0);
        for partner in self.groups.partners_of(world) {
            while own.get(next).is_some_and(|mine| mine.llc < partner.llc) {
                next += 1;
            }
            let mine = own.get(next).filter(|mine| mine.llc == partner.llc);
            let share = partner.share - mine.map_or(0, |mine| u64::from(mine.share));
            let [near, far] = fabric.coherence_by_home(llc, partner.llc);
            sum += share as f64 * (local * near + (1.0 - local) * far);
            all += share;
        }
        if all == 0 { 0.0 } else { sum / all as f64 }
    }

    /// Misses of a world for each us of own work under an LLC, where it has the cache of its group. A newcomer has an
    /// equal part.
    pub fn misses_per_us(&self, fabric: &Fabric, world: usize, llc: u32) -> f64 {
        if let Some(cell) = self.groups.cell_of(world, llc) {
            return cell.misses_per_us;
        }
        let curve = &self.curves[self.groups.vector_of(world)];
        let others = self.groups.sets_under(llc);
        curve.misses_per_us(fabric.llc_bytes[llc as usize] / (1.0 + others))
    }

    /// Bytes of an LLC that a VM's data holds.
    pub fn occupancy_bytes(&self, vm: u32, llc: u32) -> f64 {
        let cells = self.groups.cells_of_vm(vm);
        cells
            .filter(|cell| cell.llc == llc)
            .map(|cell| cell.bytes)
            .sum()
    }

    /// Smoothed share of the time that a world ran under an LLC, 0 to 1.
    pub fn busy_share(&self, world: usize, llc: u32) -> f64 {
        let mut trail = self.trails.of(world).iter();
        trail
            .find(|entry| entry.llc == llc)
            .map_or(0.0, |entry| f64::from(entry.share) / trail::WHOLE as f64)
    }

    /// What every VM holds of every LLC where it holds anything: VM, LLC and bytes.
    pub fn occupancies(&self) -> impl Iterator<Item = (u32, u32, f64)> + '_ {
        self.groups.occupancies()
    }

    /// LLCs under which a world ran lately, with its share of the time.
    pub fn presence(&self, world: usize) -> impl Iterator<Item = (u32, f64)> + '_ {
        let trail = self.trails.of(world).iter();
        trail.map(|entry| (entry.llc, f64::from(entry.share) / trail::WHOLE as f64))
    }

    /// LLCs under which a VM's worlds ran lately.
    pub fn llcs_of(&self, vm: u32) -> usize {
        self.groups.llcs_of(vm)
    }

    /// Load of a node's memory: bytes each ns, and latency against that of an idle node.
    pub fn node_load(&self, node: u32) -> (f64, f64) {
        self.traffic.node_load(node)
    }

    /// Load of an LLC's link to memory, as [`node_load`](Self::node_load); not counted where its capacity is not known.
    pub fn link_load(&self, llc: u32) -> (f64, f64) {
        self.traffic.link_load(llc)
    }

    fn share_caches(&mut self, fabric: &Fabric) {
        let cells = self.groups.cells_mut();
        self.starts.clear();
        self.starts.resize(fabric.llc_bytes.len() + 1, 0);
        for cell in &*cells {
            self.starts[cell.llc as usize + 1] += 1;
        }
        for llc in 1..self.starts.len() {
            self.starts[llc] += self.starts[llc - 1];
        }
        let idle = Sharer::new(Curve::new(&Vector::COMPUTE), 0.0, 1.0);
        self.sharers.resize(cells.len(), idle);
        self.order.resize(cells.len(), 0);
        for (cell, index) in cells.iter().zip(0..) {
            let next = &mut self.starts[cell.llc as usize];
            self.order[*next as usize] = index;
            self.sharers[*next as usize] = sharer(cell, &self.curves);
            *next += 1;
        }
        let mut start = 0;
        for (&end, &bytes) in self.starts.iter().zip(&fabric.llc_bytes) {
            cache::share(bytes, &mut self.sharers[start..end as usize]);
            start = end as usize;
        }
        for (&index, sharer) in self.order.iter().zip(&self.sharers) {
            let cell = &mut cells[index as usize];
            cell.bytes = sharer.bytes;
            cell.misses_per_us = sharer.misses_per_us();
        }
    }
}

fn sharer(cell: &Cell, curves: &[Curve]) -> Sharer {
    let mut sharer = Sharer::new(curves[cell.vector as usize], cell.busy, cell.sets);
    sharer.bytes = cell.bytes;
    sharer
}
