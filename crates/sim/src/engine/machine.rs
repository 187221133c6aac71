//! The hardware under the worlds: how fast each of them is, and what a move costs.

use super::world::{Kind, State};
use super::{Event, NONE, Simulator};
use crate::machine::contention::Contention;
use crate::machine::fabric::Fabric;
use crate::machine::refill;
use crate::machine::vector::Vector;
use crate::time::{MS, Nanos};
use model::host::LlcId;

/// Between two settlements of caches, memory and speeds. Ours: caches of 16 MiB fill in 3.3 ms (reference model, section
/// 2.3), so that nothing changes much faster.
pub(super) const EPOCH_NS: Nanos = 10 * MS;
/// MiB in pages of 4 KiB.
const PAGES_IN_MIB: f64 = 256.0;

/// Caches and memory, and what was seen of them.
#[derive(Debug, Clone)]
pub(crate) struct Hardware {
    pub(crate) contention: Contention,
    /// Where memory is to be, by guest and node; what is not there yet is moved page by page.
    wanted_memory: Vec<Vec<f64>>,
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
    pub(crate) fn new(fabric: &Fabric, vms: impl Iterator<Item = (Vector, u32)>) -> Self {
        let contention = Contention::new(fabric, vms);
        Self {
            contention,
            wanted_memory: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// A world ran on an LLC.
    pub(crate) fn ran(&mut self, world: u32, llc: u32, time: Nanos) {
        self.contention.ran(world, llc, time);
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
        seen.held_by_llc.iter_mut().for_each(|sums| sums.fill(0.0));
    }
}

impl Simulator<'_> {
    /// Settles caches, memory and speeds.
    pub(super) fn epoch(&mut self) {
        for cpu in 0..self.cpus.len() as u32 {
            self.settle(cpu);
        }
        self.machine.contention.settle(&self.fabric, EPOCH_NS);
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
        let last = self.worlds[world as usize].cpu;
        let (old_llc, llc) = (self.layout.llc_of(last), self.layout.llc_of(cpu));
        let guest = self.worlds[world as usize].guest;
        let contention = &self.machine.contention;
        let vector = *contention.vector(guest);
        // Who comes back to a CPU on which nobody else was is switched to by nobody: the wake-up is all it costs.
        let mut cost = match self.cpus[cpu as usize].last {
            before if before == world => 0,
            _ => self.hypervisor.costs.switch_ns,
        };
        let entry = &mut self.worlds[world as usize];
        if last != cpu {
            entry.moves.cpu += 1;
            entry.cpu = cpu;
            if self.layout.core[last as usize] != self.layout.core[cpu as usize] {
                cost += refill::within_llc_ns(&vector, self.fabric.l2_bytes, entry.burst_ns);
            }
        }
        if llc != old_llc {
            entry.moves.llc += 1;
            let (held, misses) = contention.resident(world, old_llc);
            let bytes = refill::loaded_llc(&vector, held, misses, entry.warm_ns);
            let node = self.layout.node_of(cpu);
            let way = self.fabric.coherence_ns(LlcId(llc), LlcId(old_llc), node);
            cost += refill::time_ns(bytes, way);
            entry.warm_ns = 0;
            if self.layout.node_of(last) != node {
                entry.moves.node += 1;
            }
        }
        self.set_speed(world, cpu);
        self.add_debt(world, cost);
    }

    fn set_speed(&mut self, world: u32, cpu: u32) {
        let llc = self.layout.llc_of(cpu);
        let alone = self.machine.contention.speed(&self.fabric, world, llc);
        let entry = &mut self.worlds[world as usize];
        let smt = self.machine.contention.vector(entry.guest).smt;
        entry.alone = alone;
        entry.paired = ((f64::from(alone) * smt).round() as u32).max(1);
    }

    /// Memory goes where the plan wants it: at once before power-on, page by page afterwards.
    pub(super) fn place_memory(&mut self) {
        let nodes = self.fabric.nodes();
        self.machine
            .wanted_memory
            .resize(self.guests.len(), Vec::new());
        for guest in 0..self.guests.len() as u32 {
            let wanted = self.wanted_memory(guest, nodes);
            if wanted.iter().sum::<f64>() <= 0.0 {
                continue;
            }
            if !self.guests[guest as usize].is_on {
                self.machine
                    .contention
                    .memory_mut(guest)
                    .copy_from_slice(&wanted);
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
        let rate = f64::from(self.hypervisor.page_rate) * EPOCH_NS as f64 / 1e9;
        for guest in 0..self.machine.wanted_memory.len() as u32 {
            let wanted = &self.machine.wanted_memory[guest as usize];
            let now = self.machine.contention.memory_mut(guest);
            let missing: f64 = wanted
                .iter()
                .zip(&*now)
                .map(|(wanted, now)| (wanted - now).max(0.0))
                .sum();
            if missing < 1e-9 {
                continue;
            }
            let pages = self.vms[guest as usize].memory_mib.max(1) as f64 * PAGES_IN_MIB;
            let part = (rate / (missing * pages)).min(1.0);
            for (now, wanted) in now.iter_mut().zip(wanted) {
                *now += (wanted - *now) * part;
            }
            let moved = (missing * pages * part).round() as u64;
            self.charge_pages(guest, moved);
        }
    }

    /// The guest waits for pages that are copied under it, on a vCPU that runs.
    fn charge_pages(&mut self, guest: u32, pages: u64) {
        let mut worlds = self.guests[guest as usize].worlds();
        let first = worlds.start;
        self.worlds[first as usize].moves.pages += pages;
        let cost = pages * self.hypervisor.costs.page_ns;
        let running = worlds.find(|&world| self.worlds[world as usize].state == State::Running);
        if let Some(world) = running {
            self.add_debt(world, cost);
            self.arm(self.worlds[world as usize].cpu);
        }
    }

    /// Notes what the figures need.
    fn look(&mut self) {
        let guests = self.guests.len();
        let Hardware {
            contention, seen, ..
        } = &mut self.machine;
        if seen.held.len() < guests {
            seen.held = vec![0.0; guests];
            seen.remote = vec![0.0; guests];
            seen.llcs = vec![0.0; guests];
            seen.held_by_llc = vec![vec![0.0; guests]; self.fabric.llcs()];
            seen.node_load = vec![0.0; self.fabric.nodes()];
        }
        seen.settlements += 1;
        for guest in 0..guests as u32 {
            let index = guest as usize;
            for (llc, bytes) in contention.held(guest) {
                seen.held[index] += bytes;
                seen.held_by_llc[llc as usize][index] += bytes;
            }
            seen.remote[index] += contention.remote_share(&self.fabric, guest);
            seen.llcs[index] += contention.llcs_of(guest) as f64;
        }
        for (sum, load) in seen.node_load.iter_mut().zip(contention.node_loads()) {
            *sum += load;
        }
    }
}
