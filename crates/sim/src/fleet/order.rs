//! The host with the least or the most free CPU on which a VM fits.
//!
//! *Problem.* Among hosts with enough free CPU and memory, asked is the one with the least free CPU (best-fit) or the most
//! (worst-fit), and of equals the one with the lowest number.
//!
//! *Approach.* A search tree by (free CPU, number) or (most free CPU first, number), balanced by a fixed pseudo-random priority
//! of each host (a treap). Every node has the most memory that any host below it has free, so that a subtree is left out where
//! memory is short.
//!
//! *Properties.* Searches and updates are O(log n) expected. A host is its own node: nothing is allocated after the start. The
//! shape depends on the contents only, not on how they came about.

use super::Room;

/// No node.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Order {
    nodes: Vec<Node>,
    root: u32,
    most_first: bool,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    room: Room,
    priority: u32,
    left: u32,
    right: u32,
    /// The most free memory here and below.
    most_memory_mib: u32,
}

impl Order {
    pub(super) fn new(hosts: &[Room], most_first: bool) -> Self {
        let node = |(&room, host): (&Room, u32)| Node {
            room,
            priority: priority(host),
            left: NONE,
            right: NONE,
            most_memory_mib: room.memory_mib,
        };
        let mut order = Self {
            nodes: hosts.iter().zip(0..).map(node).collect(),
            root: NONE,
            most_first,
        };
        for host in 0..hosts.len() as u32 {
            order.insert(host);
        }
        order
    }

    pub(super) fn set(&mut self, host: u32, room: Room) {
        self.remove(host);
        let node = &mut self.nodes[host as usize];
        node.room = room;
        node.most_memory_mib = room.memory_mib;
        self.insert(host);
    }

    /// The first host in this order with room for a need.
    pub(super) fn first(&self, need: Room) -> Option<u32> {
        // With the most CPU first, whoever is first by memory has the most CPU of those: if it has too little, all have.
        let least = if self.most_first { 0 } else { need.milli_cpus };
        let wanted = Room {
            milli_cpus: least,
            ..need
        };
        let found = self.first_below(self.root, wanted);
        found.filter(|host| self.nodes[*host as usize].room.holds(need))
    }

    fn first_below(&self, at: u32, need: Room) -> Option<u32> {
        if at == NONE {
            return None;
        }
        let node = &self.nodes[at as usize];
        if node.most_memory_mib < need.memory_mib {
            return None;
        }
        if node.room.milli_cpus < need.milli_cpus {
            return self.first_below(node.right, need);
        }
        let left = self.first_below(node.left, need);
        if left.is_some() {
            return left;
        }
        if node.room.memory_mib >= need.memory_mib {
            return Some(at);
        }
        self.first_below(node.right, need)
    }

    fn key(&self, host: u32) -> (u32, u32) {
        let cpus = self.nodes[host as usize].room.milli_cpus;
        (if self.most_first { !cpus } else { cpus }, host)
    }

    fn insert(&mut self, host: u32) {
        let (left, right) = self.split(self.root, self.key(host));
        let left = self.merge(left, host);
        self.root = self.merge(left, right);
    }

    fn remove(&mut self, host: u32) {
        self.root = self.without(self.root, host);
        let node = &mut self.nodes[host as usize];
        (node.left, node.right) = (NONE, NONE);
    }

    fn without(&mut self, at: u32, host: u32) -> u32 {
        let node = self.nodes[at as usize];
        if at == host {
            return self.merge(node.left, node.right);
        }
        if self.key(host) < self.key(at) {
            self.nodes[at as usize].left = self.without(node.left, host);
        } else {
            self.nodes[at as usize].right = self.without(node.right, host);
        }
        self.refresh(at);
        at
    }

    /// What is before the key, and the rest.
    fn split(&mut self, at: u32, key: (u32, u32)) -> (u32, u32) {
        if at == NONE {
            return (NONE, NONE);
        }
        let node = self.nodes[at as usize];
        if self.key(at) < key {
            let (middle, after) = self.split(node.right, key);
            self.nodes[at as usize].right = middle;
            self.refresh(at);
            (at, after)
        } else {
            let (before, middle) = self.split(node.left, key);
            self.nodes[at as usize].left = middle;
            self.refresh(at);
            (before, at)
        }
    }

    /// Two trees, all of the first before all of the second.
    fn merge(&mut self, first: u32, second: u32) -> u32 {
        if first == NONE {
            return second;
        }
        if second == NONE {
            return first;
        }
        let (a, b) = (self.nodes[first as usize], self.nodes[second as usize]);
        let root = if (a.priority, first) > (b.priority, second) {
            self.nodes[first as usize].right = self.merge(a.right, second);
            first
        } else {
            self.nodes[second as usize].left = self.merge(first, b.left);
            second
        };
        self.refresh(root);
        root
    }

    fn refresh(&mut self, at: u32) {
        let node = self.nodes[at as usize];
        let below = |child: u32| match child {
            NONE => 0,
            child => self.nodes[child as usize].most_memory_mib,
        };
        let most = node
            .room
            .memory_mib
            .max(below(node.left))
            .max(below(node.right));
        self.nodes[at as usize].most_memory_mib = most;
    }
}

/// A fixed pseudo-random number of a host: the finaliser of `SplitMix64`, so that trees are balanced whatever the hosts are.
fn priority(host: u32) -> u32 {
    let mut bits = (u64::from(host) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits >> 32) as u32
}
