//! The hardware under the worlds: how fast each of them is, and what a move costs.

use super::world::{Kind, State};
use super::{Event, NONE, Simulator};
use crate::machine::contention::{Contention, WorldLoad};
use crate::machine::fabric::Fabric;
use crate::machine::paging::Mover;
use crate::machine::refill::{self, Move};
use crate::machine::vector::Vector;
use crate::time::{MS, Nanos};

/// Between two settlements of caches, memory and speeds. Ours: caches of 16 MiB fill in 3.3 ms (reference model, section
/// 2.3), so that nothing changes much faster.
pub(super) const EPOCH_NS: Nanos = 10 * MS;
/// MiB in pages of 4 KiB.
const PAGES_IN_MIB: f64 = 256.0;

/// Caches and memory, and what was seen of them.
#[derive(Debug, Clone)]
pub(crate) struct Hardware {
    contention: Contention,
    /// Vector by guest, as an index and itself.
    vectors: Vec<(u32, Vector)>,
    /// Where each vCPU ran since the last settlement, by ascending LLC.
    ran: Vec<Vec<(u32, Nanos)>>,
    guest_of: Vec<u32>,
    /// Weights of memory by guest and node: as they are, and as they are to be.
    memory: Vec<Vec<f64>>,
    wanted_memory: Vec<Vec<f64>>,
    movers: Vec<Mover>,
    /// Keeps its room from one settlement to the next.
    loads: Vec<WorldLoad<'static>>,
    /// Sums over the settlements of the window.
    pub(crate) seen: Seen,
}

/// Sums over settlements.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) settlements: u64,
    pub(crate) held: Vec<f64>,
    pub(crate) held_by_llc: Vec<Vec<f64>>,
    pub(crate) remote: Vec<f64>,
    pub(crate) llcs: Vec<f64>,
    pub(crate) node_load: Vec<f64>,
}

impl Hardware {
    /// VMs by their vectors and numbers of vCPUs; their memory is everywhere until it is placed.
    pub(crate) fn new(
        fabric: &Fabric,
        vms: impl Iterator<Item = (Vector, u32)>,
        pages_per_s: u32,
    ) -> Self {
        let mut distinct: Vec<Vector> = Vec::new();
        let mut guest_of = Vec::new();
        let vectors = vms.enumerate().map(|(guest, (vector, vcpus))| {
            guest_of.resize(guest_of.len() + vcpus as usize, guest as u32);
            let known = distinct.iter().position(|other| *other == vector);
            let index = known.unwrap_or_else(|| {
                distinct.push(vector);
                distinct.len() - 1
            });
            (index as u32, vector)
        });
        let vectors: Vec<(u32, Vector)> = vectors.collect();
        let (guests, nodes) = (vectors.len(), fabric.node_package.len());
        let mut hardware = Self {
            contention: Contention::new(fabric, &distinct),
            ran: vec![Vec::new(); guest_of.len()],
            memory: vec![vec![1.0 / nodes as f64; nodes]; guests],
            wanted_memory: vec![Vec::new(); guests],
            movers: vec![Mover::new(pages_per_s.into()); guests],
            loads: Vec::with_capacity(guest_of.len()),
            seen: Seen {
                settlements: 0,
                held: vec![0.0; guests],
                held_by_llc: vec![vec![0.0; guests]; fabric.llc_bytes.len()],
                remote: vec![0.0; guests],
                llcs: vec![0.0; guests],
                node_load: vec![0.0; nodes],
            },
            vectors,
            guest_of,
        };
        hardware.settle(fabric, 1);
        hardware
    }

    /// A world did so much work on an LLC, in time at its speed alone.
    pub(crate) fn ran(&mut self, world: u32, llc: u32, time: Nanos) {
        let ran = &mut self.ran[world as usize];
        match ran.binary_search_by_key(&llc, |(llc, _)| *llc) {
            Ok(index) => ran[index].1 += time,
            Err(index) => ran.insert(index, (llc, time)),
        }
    }

    /// What a guest's vCPUs do to the hardware.
    pub(crate) fn vector(&self, guest: u32) -> &Vector {
        &self.vectors[guest as usize].1
    }

    /// Settles caches and memory after so long.
    fn settle(&mut self, fabric: &Fabric, time: Nanos) {
        let kept = std::mem::take(&mut self.loads);
        // An empty list of one lifetime becomes one of another, with its room.
        let mut loads: Vec<WorldLoad<'_>> =
            kept.into_iter().map(|load| load as WorldLoad<'_>).collect();
        for (ran, &guest) in self.ran.iter().zip(&self.guest_of) {
            loads.push(WorldLoad {
                vm: guest,
                vector: self.vectors[guest as usize].0,
                ran,
                memory: &self.memory[guest as usize],
            });
        }
        self.contention.update(fabric, &loads, time);
        loads.clear();
        self.loads = loads
            .into_iter()
            .map(|_| unreachable!("the list is empty"))
            .collect();
        for ran in &mut self.ran {
            ran.clear();
        }
    }

    /// Figures start from nothing.
    pub(crate) fn forget(&mut self) {
        let seen = &mut self.seen;
        seen.settlements = 0;
        for sums in [
            &mut seen.held,
            &mut seen.remote,
            &mut seen.llcs,
            &mut seen.node_load,
        ] {
            sums.fill(0.0);
        }
        for sums in &mut seen.held_by_llc {
            sums.fill(0.0);
        }
    }
}

impl Simulator<'_> {
    /// Settles caches, memory and speeds.
    pub(super) fn epoch(&mut self) {
        for cpu in 0..self.cpus.len() as u32 {
            self.settle(cpu);
        }
        self.machine.settle(&self.fabric, EPOCH_NS);
        self.move_pages();
        self.look();
        for cpu in 0..self.cpus.len() as u32 {
            let world = self.cpus[cpu as usize].world;
            if world != NONE && self.worlds[world as usize].kind == Kind::Vcpu {
                self.set_speed(world, cpu);
                self.update_speed(cpu);
            }
        }
        self.queue.push(self.now + EPOCH_NS, Event::Epoch);
    }

    /// A world comes to a CPU: a switch, and what it had in caches that it cannot reach from here.
    pub(super) fn charge_arrival(&mut self, world: u32, cpu: u32) {
        // Who comes back to a CPU on which nobody else was is switched to by nobody: the wake-up is all it costs.
        let mut cost = match self.cpus[cpu as usize].last {
            before if before == world => 0,
            _ => self.hypervisor.costs.switch_ns,
        };
        let last = self.worlds[world as usize].cpu;
        if last != cpu {
            cost += self.refill_ns(world, last, cpu);
            let entry = &mut self.worlds[world as usize];
            entry.moves.cpu += 1;
            entry.cpu = cpu;
            if self.layout.llc_of(last) != self.layout.llc_of(cpu) {
                entry.moves.llc += 1;
                entry.warm_ns = 0;
            }
            if self.layout.node_of(last) != self.layout.node_of(cpu) {
                entry.moves.node += 1;
            }
        }
        self.set_speed(world, cpu);
        self.add_debt(world, cost);
    }

    /// What a world waits for its data after a move.
    fn refill_ns(&self, world: u32, from: u32, to: u32) -> Nanos {
        let entry = &self.worlds[world as usize];
        let vector = self.machine.vector(entry.guest);
        let memory = &self.machine.memory[entry.guest as usize];
        let home =
            (0..memory.len()).max_by(|&a, &b| memory[a].total_cmp(&memory[b]).then(b.cmp(&a)));
        let step = Move {
            from: self.layout.of_host[from as usize],
            to: self.layout.of_host[to as usize],
            home: home.unwrap_or(0) as u32,
            bytes: refill::loaded(vector, entry.warm_ns as f64),
        };
        refill::refill_ns(&self.fabric, vector, &step).round() as Nanos
    }

    fn set_speed(&mut self, world: u32, cpu: u32) {
        let cpu = self.layout.of_host[cpu as usize];
        let Hardware {
            contention,
            vectors,
            ..
        } = &mut self.machine;
        let alone = contention.speed(&self.fabric, world as usize, cpu);
        let entry = &mut self.worlds[world as usize];
        let smt = vectors[entry.guest as usize].1.smt;
        entry.alone = alone;
        entry.paired = ((f64::from(alone) * smt).round() as u32).max(1);
    }

    /// Memory goes where the plan wants it: at once before power-on, page by page afterwards.
    pub(super) fn place_memory(&mut self) {
        let nodes = self.fabric.node_package.len();
        for guest in 0..self.guests.len() as u32 {
            let wanted = self.wanted_memory(guest, nodes);
            if wanted.iter().sum::<f64>() <= 0.0 {
                continue;
            }
            if !self.guests[guest as usize].is_on {
                self.machine.memory[guest as usize].clone_from(&wanted);
            }
            self.machine.wanted_memory[guest as usize] = wanted;
        }
    }

    /// Shares of a VM's memory by node: as the plan says, where its vCPUs are when the plan says nothing.
    fn wanted_memory(&self, guest: u32, nodes: usize) -> Vec<f64> {
        let mut shares = vec![0.0; nodes];
        let vm = model::placement::VmId(guest);
        for home in self.placement.memory_of(vm) {
            shares[home.node.index()] += home.mib as f64;
        }
        if shares.iter().sum::<f64>() <= 0.0 {
            for group in self.placement.groups_of(vm) {
                shares[group.node.index()] += group.vcpus.len() as f64;
            }
        }
        let sum: f64 = shares.iter().sum();
        if sum > 0.0 {
            for share in &mut shares {
                *share /= sum;
            }
        }
        shares
    }

    /// Copies as many pages of each VM as the rate allows.
    fn move_pages(&mut self) {
        for guest in 0..self.guests.len() as u32 {
            let Hardware {
                wanted_memory,
                memory,
                movers,
                ..
            } = &mut self.machine;
            let (wanted, now) = (&wanted_memory[guest as usize], &mut memory[guest as usize]);
            let missing = wanted
                .iter()
                .zip(&*now)
                .map(|(wanted, now)| (wanted - now).max(0.0));
            let missing: f64 = missing.sum();
            if missing < 1e-9 {
                continue;
            }
            let pages = self.vms[guest as usize].memory_mib.max(1) as f64 * PAGES_IN_MIB;
            let left = (missing * pages).ceil() as u64;
            let moved = movers[guest as usize].pages(left, EPOCH_NS);
            let part = moved as f64 / left as f64;
            for (now, wanted) in now.iter_mut().zip(wanted) {
                *now += (wanted - *now) * part;
            }
            self.charge_pages(guest, moved);
        }
    }

    /// The guest waits for pages that are copied under it, all vCPUs that run alike.
    fn charge_pages(&mut self, guest: u32, pages: u64) {
        let worlds = self.guests[guest as usize].worlds();
        self.worlds[worlds.start as usize].moves.pages += pages;
        let is_running = |world: &u32| self.worlds[*world as usize].state == State::Running;
        let running = worlds.clone().filter(is_running).count() as u64;
        let Some(cost) = (pages * self.hypervisor.costs.page_ns).checked_div(running) else {
            return;
        };
        for world in worlds {
            if self.worlds[world as usize].state == State::Running {
                self.add_debt(world, cost);
                self.arm(self.worlds[world as usize].cpu);
            }
        }
    }

    /// Notes what the figures need.
    fn look(&mut self) {
        let Hardware {
            contention,
            seen,
            memory,
            ..
        } = &mut self.machine;
        seen.settlements += 1;
        for (vm, llc, bytes) in contention.occupancies() {
            seen.held[vm as usize] += bytes;
            seen.held_by_llc[llc as usize][vm as usize] += bytes;
        }
        for (guest, entry) in self.guests.iter().enumerate() {
            let (mut all, mut local) = (0.0, 0.0);
            for world in entry.worlds() {
                for (llc, share) in contention.presence(world as usize) {
                    all += share;
                    local += share * memory[guest][self.fabric.llc_node[llc as usize] as usize];
                }
            }
            seen.remote[guest] += if all > 0.0 { 1.0 - local / all } else { 0.0 };
            seen.llcs[guest] += contention.llcs_of(guest as u32) as f64;
        }
        for (node, sum) in (0_u32..).zip(&mut seen.node_load) {
            let carries = self.fabric.node_bytes_per_ns[node as usize];
            *sum += contention.node_load(node).0 / carries;
        }
    }
}
