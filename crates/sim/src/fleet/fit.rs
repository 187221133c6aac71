//! The first host on which a VM fits.
//!
//! *Problem.* Hosts have free CPU and free memory; asked is the lowest number from which on a host has enough of both.
//!
//! *Approach.* A binary tree whose leaves are the hosts; every node has the most CPU and the most memory that any host below it
//! has free. Walking from left to right, a subtree is left out where either is too little.
//!
//! *Properties.* An update is at most one step per level. A search is O(log n) where the most CPU and the most memory of a
//! subtree are on one host, as when one of both runs short; where they are on different ones it may look below in vain, and in
//! the worst case at every host.

use super::Room;

#[derive(Debug)]
pub(super) struct Tree {
    /// Node 1 is the root, the children of `i` are `2 i` and `2 i + 1`, the leaves begin at `leaves`.
    nodes: Vec<Room>,
    leaves: usize,
}

impl Tree {
    pub(super) fn new(hosts: &[Room]) -> Self {
        let leaves = hosts.len().next_power_of_two();
        let mut nodes = vec![Room::default(); 2 * leaves];
        nodes[leaves..leaves + hosts.len()].copy_from_slice(hosts);
        for node in (1..leaves).rev() {
            nodes[node] = most(nodes[2 * node], nodes[2 * node + 1]);
        }
        Self { nodes, leaves }
    }

    pub(super) fn set(&mut self, host: u32, room: Room) {
        let mut node = self.leaves + host as usize;
        self.nodes[node] = room;
        while node > 1 {
            node /= 2;
            let now = most(self.nodes[2 * node], self.nodes[2 * node + 1]);
            if self.nodes[node] == now {
                return;
            }
            self.nodes[node] = now;
        }
    }

    /// The first host from `from` on with room for a need. A need of nothing fits on `from` itself, so that leaves beyond the
    /// last host are never an answer.
    pub(super) fn first(&self, from: u32, need: Room) -> Option<u32> {
        let mut node = match from {
            0 => 1,
            from => self.leaves + from as usize,
        };
        loop {
            if self.nodes[node].holds(need) {
                if node >= self.leaves {
                    return Some((node - self.leaves) as u32);
                }
                node *= 2;
                continue;
            }
            // The next subtree to the right: up while this is a right child, then over.
            while node % 2 == 1 {
                node /= 2;
            }
            if node == 0 {
                return None;
            }
            node += 1;
        }
    }
}

fn most(a: Room, b: Room) -> Room {
    Room {
        milli_cpus: a.milli_cpus.max(b.milli_cpus),
        memory_mib: a.memory_mib.max(b.memory_mib),
    }
}
