//! Who slows whom down: caches that are shared, lines that travel, memory that is far or loaded.
//!
//! A microsecond of own work takes
//! `1000 + misses x latency x load / mlp + lines x distance / sharing_mlp` nanoseconds (reference model, section 2.2).
//! Everything on the right changes slowly, so it is settled every few milliseconds: where worlds ran since the last time
//! gives the shares of caches ([`cache`]), these the misses, these the traffic, and traffic the load of memory, whose
//! latency the next settlement uses. The order of worlds does not matter but for the last digit of a sum.

use model::host::{LlcId, NodeId};

use super::cache::{self, Sharer, misses_per_us};
use super::fabric::{Fabric, LINE};
use super::memory;
use super::vector::Vector;
use crate::time::{FULL_SPEED, Nanos};

/// LLCs of which a world remembers that it ran there; it forgets the one where it was least.
const PLACES: usize = 4;
/// How much of its presence a world keeps from one settlement to the next: what it did in the last few counts.
const KEEP: f64 = 0.7;
/// Less presence than this is none.
const NOTHING: f64 = 1e-4;

/// What is to be settled: worlds, grouped by VM in one piece each.
#[derive(Debug, Clone)]
pub struct Contention {
    worlds: Vec<World>,
    vms: Vec<Vm>,
    /// Sharers by LLC, and whose they are; kept from one settlement to the next for their memory.
    sharers: Vec<Vec<Sharer>>,
    owners: Vec<Vec<(u32, u32)>>,
    /// Load of memory and of links, smoothed; demand of the present settlement in bytes for each nanosecond.
    node_load: Vec<f64>,
    node_demand: Vec<f64>,
    link_load: Vec<f64>,
    link_demand: Vec<f64>,
}

#[derive(Debug, Clone)]
struct World {
    vm: u32,
    places: [Place; PLACES],
}

/// A world on an LLC.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    llc: u32,
    /// Running time since the last settlement.
    ran: Nanos,
    /// Share of the time, smoothed.
    busy: f64,
    held: f64,
    speed: u32,
}

#[derive(Debug, Clone)]
struct Vm {
    vector: Vector,
    worlds: std::ops::Range<u32>,
    /// Share of its memory by node.
    memory: Vec<f64>,
    /// Presence by LLC, of all its worlds.
    presence: Vec<(u32, f64)>,
}

impl Contention {
    /// VMs by their vectors and numbers of worlds, all memory on the first node.
    pub fn new(fabric: &Fabric, vms: impl Iterator<Item = (Vector, u32)>) -> Self {
        let mut worlds = Vec::new();
        let vms = vms.enumerate().map(|(index, (vector, count))| {
            let first = worlds.len() as u32;
            let world = World {
                vm: index as u32,
                places: [Place::default(); PLACES],
            };
            worlds.resize(worlds.len() + count as usize, world);
            let mut memory = vec![0.0; fabric.nodes()];
            memory[0] = 1.0;
            let presence = Vec::with_capacity(fabric.llcs());
            Vm {
                vector,
                worlds: first..first + count,
                memory,
                presence,
            }
        });
        let vms = vms.collect();
        Self {
            worlds,
            vms,
            sharers: vec![Vec::new(); fabric.llcs()],
            owners: vec![Vec::new(); fabric.llcs()],
            node_load: vec![0.0; fabric.nodes()],
            node_demand: vec![0.0; fabric.nodes()],
            link_load: vec![0.0; fabric.llcs()],
            link_demand: vec![0.0; fabric.llcs()],
        }
    }

    /// A world ran on an LLC.
    pub fn ran(&mut self, world: u32, llc: u32, time: Nanos) {
        self.place(world, llc).ran += time;
    }

    /// The share of a VM's memory by node.
    pub fn memory(&self, vm: u32) -> &[f64] {
        &self.vms[vm as usize].memory
    }

    /// Moves a VM's memory.
    pub fn memory_mut(&mut self, vm: u32) -> &mut [f64] {
        &mut self.vms[vm as usize].memory
    }

    /// What a VM does.
    pub fn vector(&self, vm: u32) -> &Vector {
        &self.vms[vm as usize].vector
    }

    /// The place of a world on an LLC; the one where it was least makes room.
    fn place(&mut self, world: u32, llc: u32) -> &mut Place {
        let places = &mut self.worlds[world as usize].places;
        let is_here = |place: &Place| place.llc == llc && (place.ran > 0 || place.speed > 0);
        let index = places.iter().position(is_here).unwrap_or_else(|| {
            let weight = |place: &Place| (place.ran > 0, place.busy);
            let least = (0..PLACES).min_by(|&a, &b| {
                let (a, b) = (weight(&places[a]), weight(&places[b]));
                a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
            });
            let index = least.unwrap_or(0);
            places[index] = Place {
                llc,
                ..Place::default()
            };
            index
        });
        &mut places[index]
    }

    /// Settles everything after `time` since the last settlement.
    pub fn settle(&mut self, fabric: &Fabric, time: Nanos) {
        self.settle_presence(time);
        self.settle_caches(fabric);
        self.settle_speeds(fabric);
        for (llc, load) in self.link_load.iter_mut().enumerate() {
            *load = memory::settle(*load, self.link_demand[llc], fabric.link_bytes_per_ns);
        }
        for (node, load) in self.node_load.iter_mut().enumerate() {
            *load = memory::settle(
                *load,
                self.node_demand[node],
                fabric.node_bytes_per_ns[node],
            );
        }
    }

    fn settle_presence(&mut self, time: Nanos) {
        self.vms.iter_mut().for_each(|vm| vm.presence.clear());
        for world in &mut self.worlds {
            let presence = &mut self.vms[world.vm as usize].presence;
            for place in &mut world.places {
                let now = place.ran as f64 / time.max(1) as f64;
                place.busy = place.busy * KEEP + now * (1.0 - KEEP);
                place.ran = 0;
                if place.busy < NOTHING {
                    *place = Place {
                        busy: 0.0,
                        held: 0.0,
                        speed: 0,
                        ..*place
                    };
                    continue;
                }
                match presence.iter_mut().find(|(llc, _)| *llc == place.llc) {
                    Some((_, sum)) => *sum += place.busy,
                    None => presence.push((place.llc, place.busy)),
                }
            }
        }
    }

    fn settle_caches(&mut self, fabric: &Fabric) {
        self.sharers.iter_mut().for_each(Vec::clear);
        self.owners.iter_mut().for_each(Vec::clear);
        for (index, world) in (0_u32..).zip(&self.worlds) {
            let vector = self.vms[world.vm as usize].vector;
            if vector.misses_per_us <= 0.0 {
                continue;
            }
            for (slot, place) in (0_u32..).zip(&world.places) {
                if place.busy > 0.0 {
                    let sharer = Sharer {
                        vector,
                        busy: place.busy,
                        held: place.held,
                    };
                    self.sharers[place.llc as usize].push(sharer);
                    self.owners[place.llc as usize].push((index, slot));
                }
            }
        }
        for (llc, sharers) in self.sharers.iter_mut().enumerate() {
            let bytes = fabric.llc_bytes[llc];
            let capacity = if bytes > 0.0 { bytes } else { f64::INFINITY };
            cache::share(capacity, sharers);
            for (sharer, &(world, slot)) in sharers.iter().zip(&self.owners[llc]) {
                self.worlds[world as usize].places[slot as usize].held = sharer.held;
            }
        }
    }

    fn settle_speeds(&mut self, fabric: &Fabric) {
        self.node_demand.fill(0.0);
        self.link_demand.fill(0.0);
        for index in 0..self.worlds.len() {
            for slot in 0..PLACES {
                let place = self.worlds[index].places[slot];
                if place.busy <= 0.0 {
                    continue;
                }
                let speed = self.speed_with(fabric, index, place.llc, place.held);
                self.worlds[index].places[slot].speed = fixed(speed);
                let vm = &self.vms[self.worlds[index].vm as usize];
                let misses = misses_per_us(&vm.vector, place.held) / 1000.0;
                let traffic = place.busy * speed * misses * LINE;
                self.link_demand[place.llc as usize] += traffic;
                for (node, share) in vm.memory.iter().enumerate() {
                    self.node_demand[node] += traffic * share;
                }
            }
        }
    }

    /// Speed of a world alone on a core under an LLC, in units of [`FULL_SPEED`].
    pub fn speed(&mut self, fabric: &Fabric, world: u32, llc: u32) -> u32 {
        let known = self.worlds[world as usize]
            .places
            .iter()
            .find(|place| place.llc == llc && place.speed > 0);
        if let Some(place) = known {
            return place.speed;
        }
        // Where it has not been lately: as if it held what the others there hold on average.
        let sharers = &self.sharers[llc as usize];
        let share = fabric.llc_bytes[llc as usize] / (sharers.len() + 1) as f64;
        let speed = fixed(self.speed_with(fabric, world as usize, llc, share));
        let place = self.place(world, llc);
        place.speed = speed;
        speed
    }

    fn speed_with(&self, fabric: &Fabric, world: usize, llc: u32, held: f64) -> f64 {
        let vm = &self.vms[self.worlds[world].vm as usize];
        let vector = &vm.vector;
        let mut time = 1000.0;
        if vector.misses_per_us > 0.0 {
            let latency = self.latency(fabric, vm, llc);
            time += misses_per_us(vector, held) * latency / vector.mlp.max(1.0);
        }
        if vector.shared_lines_per_us > 0.0 {
            let way = self.coherence(fabric, world, llc);
            time += vector.shared_lines_per_us * way / vector.sharing_mlp.max(1.0);
        }
        1000.0 / time
    }

    /// Mean latency of a VM's memory from an LLC, under the present load.
    fn latency(&self, fabric: &Fabric, vm: &Vm, llc: u32) -> f64 {
        let link = memory::factor(self.link_load[llc as usize]);
        let parts = vm
            .memory
            .iter()
            .enumerate()
            .filter(|(_, share)| **share > 0.0);
        let part = |(node, share): (usize, &f64)| {
            let load = memory::factor(self.node_load[node]).max(link);
            share * load * fabric.dram_ns(LlcId(llc), NodeId(node as u32))
        };
        parts.map(part).sum()
    }

    /// Mean way of a line from another vCPU of the VM, weighted by where they run.
    fn coherence(&self, fabric: &Fabric, world: usize, llc: u32) -> f64 {
        let entry = &self.worlds[world];
        let vm = &self.vms[entry.vm as usize];
        if vm.worlds.len() <= 1 {
            return 0.0;
        }
        let own = |at: u32| {
            let here = entry.places.iter().find(|place| place.llc == at);
            here.map_or(0.0, |place| place.busy)
        };
        let (mut sum, mut weight) = (0.0, 0.0);
        for &(other, presence) in &vm.presence {
            let others = (presence - own(other)).max(0.0);
            if others <= 0.0 {
                continue;
            }
            let homes = vm
                .memory
                .iter()
                .enumerate()
                .filter(|(_, share)| **share > 0.0);
            let way: f64 = homes
                .map(|(node, share)| {
                    share * fabric.coherence_ns(LlcId(llc), LlcId(other), NodeId(node as u32))
                })
                .sum();
            sum += others * way;
            weight += others;
        }
        if weight > 0.0 {
            sum / weight
        } else {
            fabric.coherence_ns(LlcId(llc), LlcId(llc), NodeId(0))
        }
    }

    /// Cache that a VM holds, in bytes, and where.
    pub fn held(&self, vm: u32) -> impl Iterator<Item = (u32, f64)> + '_ {
        let worlds = self.vms[vm as usize].worlds.clone();
        let places = worlds.flat_map(|world| &self.worlds[world as usize].places);
        places
            .filter(|place| place.busy > 0.0 && place.held.is_finite())
            .map(|place| (place.llc, place.held))
    }

    /// What a world holds of an LLC, in bytes, and its misses for each microsecond there.
    pub fn resident(&self, world: u32, llc: u32) -> (f64, f64) {
        let entry = &self.worlds[world as usize];
        let vector = &self.vms[entry.vm as usize].vector;
        let place = entry
            .places
            .iter()
            .find(|place| place.llc == llc && place.busy > 0.0);
        let held = place.map_or(0.0, |place| place.held);
        (held, misses_per_us(vector, held))
    }

    /// LLCs on which worlds of a VM were lately.
    pub fn llcs_of(&self, vm: u32) -> usize {
        self.vms[vm as usize].presence.len()
    }

    /// Share of a VM's memory accesses that leave the node, by where its worlds were lately.
    pub fn remote_share(&self, fabric: &Fabric, vm: u32) -> f64 {
        let vm = &self.vms[vm as usize];
        let all: f64 = vm.presence.iter().map(|(_, busy)| busy).sum();
        let local =
            |(llc, busy): &(u32, f64)| busy * vm.memory[fabric.llc_node[*llc as usize] as usize];
        if all > 0.0 {
            1.0 - vm.presence.iter().map(local).sum::<f64>() / all
        } else {
            0.0
        }
    }

    /// Load of each node's memory, over what it carries.
    pub fn node_loads(&self) -> &[f64] {
        &self.node_load
    }
}

/// A share of full speed as an integer, never nothing.
fn fixed(speed: f64) -> u32 {
    (speed * f64::from(FULL_SPEED))
        .round()
        .clamp(64.0, f64::from(FULL_SPEED)) as u32
}
