//! The parts of a machine as nested boxes, whatever way its tables relate.
//!
//! **Problem.** Packages, nodes, dies and LLCs nest in another order on every machine, and on some they cross.
//!
//! **Approach.** Divide and name: among the CPUs at hand, each belongs to the largest object that holds it; CPUs with
//! the same largest object form a part; objects that hold exactly the same CPUs give it their names too. Then divide each
//! part by the objects that are left. An object that crosses another is cut, and its pieces say so.

use std::collections::BTreeMap;

use model::host::LlcSource;
use model::{CpuId, CpuSet, GuestTopology, Host, Level};

use super::palette::Role;

/// Most vCPU slots of a guest that are drawn; QEMU has at most 4096.
pub(super) const MAX_SLOTS: u32 = 8192;

/// A kind of object, outermost first where sets are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A processor package; a guest's socket.
    Package,
    /// A NUMA node of spare memory around others: no CPU is at home there.
    SpareNode,
    /// A NUMA node.
    Node,
    /// A die.
    Die,
    /// A module of a guest's die.
    Module,
    /// A last-level cache.
    Llc,
}

const KINDS: [Kind; 6] = [
    Kind::Package,
    Kind::SpareNode,
    Kind::Node,
    Kind::Die,
    Kind::Module,
    Kind::Llc,
];

/// What is drawn: a host or a guest as one table of CPUs.
#[derive(Debug, Clone, Default)]
pub(super) struct Machine {
    /// Whether it is a guest: sockets and vCPUs instead of packages and CPUs.
    pub(super) guest: bool,
    /// CPUs, or vCPU slots, by ascending number.
    members: Vec<Member>,
    /// Its nodes.
    nodes: Vec<NodeView>,
    /// Size and level of each last-level cache.
    llcs: Vec<Cache>,
    /// Speed of each core.
    speeds: Vec<Speed>,
    /// Whether CPUs are missing that may be threads of the cores shown.
    incomplete: bool,
}

/// A CPU and the object of each kind that holds it, by index.
#[derive(Debug, Clone, Copy)]
struct Member {
    cpu: CpuId,
    state: ThreadState,
    core: u32,
    of: [Option<u32>; KINDS.len()],
}

#[derive(Debug, Clone)]
struct NodeView {
    /// The number shown.
    id: u32,
    memory_mib: u64,
    /// What else is to say of it.
    note: String,
}

/// Size of a last-level cache in bytes, as wanted and as shown to a guest, and its level; 0 where unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cache {
    pub(super) size_bytes: u64,
    pub(super) shown_bytes: u64,
    pub(super) level: u8,
}

/// A box of the picture.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Part {
    /// What it is: all objects with exactly these CPUs, outermost first. Empty for CPUs that lie in no object.
    pub(super) names: Vec<Name>,
    /// Usable CPUs.
    pub(super) cpus: CpuSet,
    /// Its cores, in order; also those of its children.
    pub(super) tiles: Vec<Tile>,
    /// Boxes inside.
    pub(super) children: Vec<Part>,
    /// Number of equal parts it stands for; see [`super::collapse`].
    pub(super) count: usize,
    /// What is inside, in words, where it is not drawn; see [`super::collapse`].
    pub(super) summary: String,
}

/// One of the names of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) kind: Kind,
    /// Numbers shown, ascending: one, or several for equal parts drawn as one.
    pub(super) ids: Vec<u32>,
    /// Whether the part holds only some of the object's CPUs.
    pub(super) cut: bool,
    /// Memory in MiB of a node; 0 where unknown and for other objects.
    pub(super) memory_mib: u64,
    /// The cache, if it is one.
    pub(super) cache: Option<Cache>,
    /// What else is to say of it.
    pub(super) note: String,
}

/// A core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tile {
    /// Its threads.
    pub(super) threads: Vec<(CpuId, ThreadState)>,
    /// Threads that the machine's other cores of this speed have and it lacks.
    pub(super) fewer: usize,
    /// Whether the lacking threads are likely to be there but offline or not allowed.
    pub(super) hidden: bool,
    pub(super) speed: Speed,
}

impl Tile {
    /// Whether it has a thread that can be used.
    pub(super) fn is_present(&self) -> bool {
        self.threads
            .iter()
            .any(|(_, state)| *state != ThreadState::Absent)
    }
}

/// State of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThreadState {
    /// Usable.
    Usable,
    /// Usable, but taken out of load balancing.
    Isolated,
    /// A guest's slot without a vCPU.
    Absent,
}

/// Rank of a core among the machine's kinds of core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Speed {
    /// The only kind, or the fastest.
    Fast,
    /// Between.
    Middle,
    /// The slowest.
    Slow,
}

impl Speed {
    pub(super) fn role(self) -> Role {
        match self {
            Self::Fast => Role::Core,
            Self::Middle => Role::MiddleCore,
            Self::Slow => Role::SlowCore,
        }
    }
}

impl Machine {
    /// A host. A made-up package is left out, and a cache that nobody described has no size.
    pub(super) fn of_host(host: &Host) -> Self {
        let dies = membership(host, (0..).zip(&host.dies));
        let mut spare: Vec<(u32, &CpuSet)> = (0..)
            .zip(host.nodes.iter().map(|node| &node.cpus))
            .collect();
        spare.retain(|(index, cpus)| {
            let mut homes = cpus.iter().filter_map(|cpu| host.cpu(cpu));
            !cpus.is_empty() && !homes.any(|cpu| cpu.node.0 == *index)
        });
        spare.sort_by_key(|(_, cpus)| cpus.len());
        let spare = membership(host, spare.into_iter());
        let members = host
            .cpus
            .iter()
            .zip(dies)
            .zip(spare)
            .map(|((cpu, die), spare)| Member {
                cpu: cpu.id,
                state: if host.isolated.contains(cpu.id) {
                    ThreadState::Isolated
                } else {
                    ThreadState::Usable
                },
                core: cpu.core.0,
                of: [
                    host.packages_known.then_some(cpu.package.0),
                    spare,
                    // A CPU of a node that is not usable is related to another node, but does not lie in it.
                    host.nodes[cpu.node.index()]
                        .cpus
                        .contains(cpu.id)
                        .then_some(cpu.node.0),
                    die,
                    None,
                    (host.llc_source != LlcSource::Nodes).then_some(cpu.llc.0),
                ],
            });
        let fastest = host.cores.iter().map(|core| core.efficiency).max();
        let speeds = host.cores.iter().map(|core| match core.efficiency {
            rank if Some(rank) == fastest => Speed::Fast,
            0 => Speed::Slow,
            _ => Speed::Middle,
        });
        Self {
            guest: false,
            members: members.collect(),
            nodes: host
                .nodes
                .iter()
                .map(|node| NodeView {
                    id: node.id,
                    memory_mib: node.memory_mib,
                    note: String::new(),
                })
                .collect(),
            llcs: host
                .llcs
                .iter()
                .map(|llc| Cache {
                    size_bytes: llc.size_bytes,
                    shown_bytes: llc.size_bytes,
                    level: llc.level,
                })
                .collect(),
            speeds: speeds.collect(),
            incomplete: !(host.offline.is_empty() && host.restricted.is_empty()),
        }
    }

    /// A guest, with its absent slots. A slot lies in the LLC and the vNUMA node of the vCPUs whose block it fills up.
    pub(super) fn of_guest(guest: &GuestTopology) -> Self {
        let vcpus = guest.vcpus.min(MAX_SLOTS);
        let slots = guest.maxcpus().clamp(vcpus, MAX_SLOTS);
        let per = |level| guest.slots_in(level).max(1);
        let llc_level = if guest.vcpus <= MAX_SLOTS {
            guest.llc_level()
        } else {
            None
        };
        let llc_slots = llc_level.map(per);
        let llc_of = index((0..).zip(guest.llcs.iter().map(|llc| &llc.vcpus)), vcpus);
        let node_of = index(
            (0..).zip(guest.numa_nodes.iter().map(|node| &node.vcpus)),
            vcpus,
        );
        let block = |slot: u32, size: u32| slot / size;
        let members = (0..slots).map(|slot| {
            // vCPUs fill slots in order: an absent slot can share a block with the last vCPU only.
            let last = vcpus.saturating_sub(1);
            let neighbour = |size: u32| {
                let is_near = slot < vcpus || block(slot, size) == block(last, size);
                (vcpus > 0 && is_near).then(|| slot.min(last))
            };
            let llc_peer = neighbour(llc_slots.unwrap_or(1));
            let node_peer = llc_peer.or_else(|| neighbour(per(Level::Socket)));
            Member {
                cpu: CpuId(slot),
                state: if slot < vcpus {
                    ThreadState::Usable
                } else {
                    ThreadState::Absent
                },
                core: block(slot, per(Level::Core)),
                of: [
                    Some(block(slot, per(Level::Socket))),
                    None,
                    node_peer.and_then(|peer| node_of[peer as usize]),
                    (guest.dies > 1).then(|| block(slot, per(Level::Die))),
                    (guest.modules > 1).then(|| block(slot, per(Level::Module))),
                    llc_peer.and_then(|peer| llc_of[peer as usize]),
                ],
            }
        });
        Self {
            guest: true,
            members: members.collect(),
            nodes: (0u32..)
                .zip(&guest.numa_nodes)
                .map(|(id, node)| NodeView {
                    id,
                    memory_mib: node.memory_mib,
                    note: backing(&node.host_nodes),
                })
                .collect(),
            llcs: guest
                .llcs
                .iter()
                .map(|llc| Cache {
                    size_bytes: llc.size_bytes,
                    shown_bytes: llc.guest_size_bytes,
                    level: 3,
                })
                .collect(),
            speeds: vec![Speed::Fast; slots as usize],
            incomplete: false,
        }
    }

    /// The boxes, outermost first; nodes that hold none of the CPUs come last.
    pub(super) fn parts(&self) -> Vec<Part> {
        let members: Vec<&Member> = self.members.iter().collect();
        let totals = KINDS.map(|kind| tally(&members, kind));
        let held = |index: &u32| {
            [Kind::Node, Kind::SpareNode]
                .iter()
                .any(|&kind| totals[kind as usize].contains_key(index))
        };
        let empty: Vec<u32> = (0..)
            .zip(&self.nodes)
            .map(|(index, _)| index)
            .filter(|index| !held(index))
            .collect();
        let divider = Divider {
            machine: self,
            totals,
            threads: self.largest_cores(),
        };
        let mut parts = divider.divide(&members, &KINDS);
        if parts.is_empty() {
            parts.push(divider.part(None, &members, &KINDS));
        }
        parts.extend(empty.into_iter().map(|index| Part {
            names: vec![self.name(Kind::Node, index, false)],
            count: 1,
            ..Part::default()
        }));
        parts
    }

    /// What a person knows an object by.
    fn name(&self, kind: Kind, index: u32, cut: bool) -> Name {
        let node = self.nodes.get(index as usize);
        let node = node.filter(|_| matches!(kind, Kind::Node | Kind::SpareNode));
        Name {
            kind,
            ids: vec![node.map_or(index, |node| node.id)],
            cut,
            memory_mib: node.map_or(0, |node| node.memory_mib),
            cache: if kind == Kind::Llc {
                self.llcs.get(index as usize).copied()
            } else {
                None
            },
            note: node.map(|node| node.note.clone()).unwrap_or_default(),
        }
    }

    /// Threads of the largest core of each speed.
    fn largest_cores(&self) -> BTreeMap<Speed, usize> {
        let mut threads: BTreeMap<u32, usize> = BTreeMap::new();
        for member in &self.members {
            *threads.entry(member.core).or_default() += 1;
        }
        let mut largest = BTreeMap::new();
        for (core, count) in threads {
            let most = largest.entry(self.speeds[core as usize]).or_insert(count);
            *most = count.max(*most);
        }
        largest
    }
}

/// What stays the same while a machine is divided.
struct Divider<'a> {
    machine: &'a Machine,
    totals: [BTreeMap<u32, usize>; KINDS.len()],
    threads: BTreeMap<Speed, usize>,
}

impl Divider<'_> {
    fn divide(&self, members: &[&Member], kinds: &[Kind]) -> Vec<Part> {
        let tallies: Vec<(Kind, BTreeMap<u32, usize>)> = kinds
            .iter()
            .map(|&kind| (kind, tally(members, kind)))
            .collect();
        if tallies.iter().all(|(_, tally)| tally.is_empty()) {
            return Vec::new();
        }
        let largest = |member: &Member| {
            let held = tallies.iter().filter_map(|(kind, tally)| {
                member.of[*kind as usize].map(|index| (tally[&index], *kind, index))
            });
            // The first of the largest: of equal sets the outermost kind.
            held.reduce(|best, next| if next.0 > best.0 { next } else { best })
                .map(|(_, kind, index)| (kind, index))
        };
        let mut groups: BTreeMap<Option<(Kind, u32)>, Vec<&Member>> = BTreeMap::new();
        for &member in members {
            groups.entry(largest(member)).or_default().push(member);
        }
        let mut parts: Vec<(u32, Part)> = groups
            .into_iter()
            .map(|(key, members)| {
                let order = match key {
                    Some((Kind::Node, index)) => index,
                    _ => members[0].cpu.0,
                };
                (order, self.part(key, &members, kinds))
            })
            .collect();
        // Nodes among themselves come by number, everything else by its first CPU.
        let is_node = |part: &Part| {
            part.names
                .first()
                .is_some_and(|name| name.kind == Kind::Node)
        };
        if !parts.iter().all(|(_, part)| is_node(part)) {
            for (order, part) in &mut parts {
                *order = first_slot(part);
            }
        }
        parts.sort_by_key(|(order, _)| *order);
        parts.into_iter().map(|(_, part)| part).collect()
    }

    fn part(&self, key: Option<(Kind, u32)>, members: &[&Member], kinds: &[Kind]) -> Part {
        let Some((outer, _)) = key else {
            return Part {
                cpus: usable(members),
                tiles: self.tiles(members),
                count: 1,
                ..Part::default()
            };
        };
        let names: Vec<(Kind, u32)> = kinds
            .iter()
            .filter_map(|&kind| Some((kind, members[0].of[kind as usize]?)))
            .filter(|&(kind, index)| {
                let holds_all = members
                    .iter()
                    .all(|member| member.of[kind as usize] == Some(index));
                // A larger object that was cut here is named by its own pieces; the one that gave the key always is.
                holds_all
                    && (Some((kind, index)) == key
                        || self.totals[kind as usize][&index] == members.len())
            })
            .collect();
        let rest: Vec<Kind> = kinds
            .iter()
            .copied()
            .filter(|&kind| kind != outer && !names.iter().any(|&(named, _)| named == kind))
            .collect();
        let children = self.divide(members, &rest);
        Part {
            names: self.named(&names, members.len()),
            cpus: usable(members),
            tiles: self.tiles(members),
            children,
            count: 1,
            summary: String::new(),
        }
    }

    /// Dies and modules that coincide with something better known are not worth a name.
    fn named(&self, names: &[(Kind, u32)], size: usize) -> Vec<Name> {
        let minor = |kind| matches!(kind, Kind::Die | Kind::Module);
        let only_minor = names.iter().all(|&(kind, _)| minor(kind));
        let keep = names
            .iter()
            .filter(|&&(kind, _)| only_minor || !minor(kind));
        keep.map(|&(kind, index)| {
            let cut = self.totals[kind as usize][&index] != size;
            self.machine.name(kind, index, cut)
        })
        .collect()
    }

    fn tiles(&self, members: &[&Member]) -> Vec<Tile> {
        let mut cores: BTreeMap<u32, Vec<(CpuId, ThreadState)>> = BTreeMap::new();
        for member in members {
            cores
                .entry(member.core)
                .or_default()
                .push((member.cpu, member.state));
        }
        let tile = |(core, threads): (u32, Vec<_>)| {
            let speed = self.machine.speeds[core as usize];
            Tile {
                fewer: self.threads[&speed] - threads.len(),
                hidden: self.machine.incomplete && self.threads[&speed] > threads.len(),
                threads,
                speed,
            }
        };
        cores.into_iter().map(tile).collect()
    }
}

fn usable(members: &[&Member]) -> CpuSet {
    let present = members
        .iter()
        .filter(|member| member.state != ThreadState::Absent);
    present.map(|member| member.cpu).collect()
}

fn first_slot(part: &Part) -> u32 {
    part.tiles
        .iter()
        .flat_map(|tile| &tile.threads)
        .map(|(cpu, _)| cpu.0)
        .min()
        .unwrap_or(0)
}

/// How many of the members each object of a kind holds.
fn tally(members: &[&Member], kind: Kind) -> BTreeMap<u32, usize> {
    let mut tally = BTreeMap::new();
    for index in members.iter().filter_map(|member| member.of[kind as usize]) {
        *tally.entry(index).or_default() += 1;
    }
    tally
}

/// For each CPU of a host the number of the first set that holds it.
fn membership<'a>(host: &Host, sets: impl Iterator<Item = (u32, &'a CpuSet)>) -> Vec<Option<u32>> {
    let end = host.cpus.last().map_or(0, |cpu| cpu.id.0 + 1);
    let all = index(sets, end);
    host.cpus.iter().map(|cpu| all[cpu.id.index()]).collect()
}

/// For each CPU below `end` the number of the first set that holds it.
fn index<'a>(sets: impl Iterator<Item = (u32, &'a CpuSet)>, end: u32) -> Vec<Option<u32>> {
    let mut of = vec![None; end as usize];
    for (object, set) in sets {
        for cpu in set.iter().take_while(|cpu| cpu.0 < end) {
            of[cpu.index()].get_or_insert(object);
        }
    }
    of
}

fn backing(host_nodes: &[u32]) -> String {
    match host_nodes {
        [] => String::new(),
        [one] => format!("on host node {one}"),
        many => format!("on host nodes {}", super::units::ranges(many)),
    }
}
