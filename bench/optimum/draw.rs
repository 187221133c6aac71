//! Random hosts and VMs from a seed. All shares and ranges are ours: small enough that the optimum can be proven, and of
//! every kind that the cost function knows.

use std::sync::Arc;

use model::host::{Cache, Core, Latency, Node, Parts};
use model::placement::{Reserve, VmId};
use model::tenant::{Affinity, Apart, Intensity, Scope};
use model::{CpuId, CpuSet, Host, Placement, Vm};
use policy::cost::weights::effective_demand;
use policy::place::Best;
use policy::plan::{Budget, Snapshot};
use policy::reconcile::Policy;

/// Most LLCs of a host.
const LLCS: u64 = 24;
/// Most threads of a host: what a few VMs of at most [`VCPUS`] fill.
const THREADS: u64 = 96;
/// Most vCPUs of a VM.
const VCPUS: u64 = 16;
/// Most VMs whose places are asked for.
const FREE_VMS: usize = 10;
/// Fewest of them.
const FEWEST_VMS: usize = 3;
/// Fewest VMs of a half-full host, of which two or more sit already.
const FEWEST_HALF_FULL: usize = 5;

/// One instance.
#[derive(Debug)]
pub(crate) struct Instance {
    /// What `best` is asked. VMs with groups stay where they are.
    pub(crate) now: Snapshot,
    /// The host in words.
    pub(crate) text: String,
    /// What the report counts by.
    pub(crate) classes: Vec<&'static str>,
}

/// The instance with this number.
pub(crate) fn instance(seed: u64, index: u64) -> Instance {
    let mut draw =
        Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ index.wrapping_mul(0xD1B5_4A32_D192_ED03));
    let machine = Machine::drawn(&mut draw);
    let is_half_full = draw.chance(50);
    let host = Arc::new(machine.host(&mut draw));
    let fewest = if is_half_full {
        FEWEST_HALF_FULL
    } else {
        FEWEST_VMS
    };
    let vms = vms(&mut draw, &machine, &host, fewest);
    let now = if is_half_full {
        half_full(&mut draw, host, &vms)
    } else {
        let free = vms.into_iter().take(FREE_VMS).collect();
        Snapshot::empty(host, free, Reserve::default())
    };
    let either = |is: bool, yes, no| if is { yes } else { no };
    let classes = vec![
        either(machine.is_uneven(), "uneven", "even"),
        either(is_half_full, "half-full", "empty"),
        either(machine.threads > 1, "SMT on", "SMT off"),
        either(machine.has_matrix, "matrix", "no matrix"),
        either(machine.packages.len() > 1, "two packages", "one package"),
    ];
    Instance {
        now,
        text: machine.to_string(),
        classes,
    }
}

/// A VM in the words of the command line, more or less.
pub(crate) fn described(vm: &Vm) -> String {
    let mut text = format!("{}x{}M cpu={}%", vm.vcpus, vm.memory_mib, vm.load / 10);
    for (name, level) in [("bw", vm.bandwidth), ("sharing", vm.sharing)] {
        if level != Intensity::Mid {
            text += &format!(" {name}={level:?}").to_lowercase();
        }
    }
    let marks = [
        (vm.dedicated, "dedicated".to_owned()),
        (vm.prefer_ht, "prefer-ht".to_owned()),
        (vm.system > 0, format!("system={}", vm.system)),
        (vm.shares != 1000, format!("shares={}", vm.shares)),
        (
            vm.reservation > 0,
            format!("reservation={}", vm.reservation),
        ),
        (vm.near.is_some(), "near".to_owned()),
        (
            !vm.hard.is_empty(),
            format!("hard-nodes={:?}", vm.hard.nodes),
        ),
        (
            !vm.soft.is_empty(),
            format!("soft-nodes={:?}", vm.soft.nodes),
        ),
        (
            !vm.device_nodes.is_empty(),
            format!("device-nodes={:?}", vm.device_nodes),
        ),
    ];
    for (_, mark) in marks.iter().filter(|(is, _)| *is) {
        text += &format!(" {mark}");
    }
    if let Some(apart) = &vm.apart {
        text += &format!(" apart={:?}", apart.scope).to_lowercase();
    }
    text
}

/// A host before it is built: cores of each LLC, by package and node.
#[derive(Debug)]
struct Machine {
    packages: Vec<Vec<Vec<u32>>>,
    threads: u32,
    llc_mib: u64,
    node_mib: u64,
    has_matrix: bool,
    slow_cores: bool,
    isolated: bool,
}

impl std::fmt::Display for Machine {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        let nodes = |nodes: &Vec<Vec<u32>>| {
            let llcs = nodes.iter().map(|llcs| {
                let cores: Vec<String> = llcs.iter().map(u32::to_string).collect();
                cores.join(" ")
            });
            llcs.collect::<Vec<_>>().join(" | ")
        };
        let packages: Vec<String> = self.packages.iter().map(nodes).collect();
        write!(
            out,
            "LLCs of [{}] cores, {} threads each, {} MiB; nodes of {} MiB",
            packages.join(" || "),
            self.threads,
            self.llc_mib,
            self.node_mib
        )?;
        for (is, word) in [
            (self.has_matrix, "latency matrix"),
            (self.slow_cores, "slow cores"),
            (self.isolated, "isolated cores"),
        ] {
            if is {
                write!(out, "; {word}")?;
            }
        }
        Ok(())
    }
}

impl Machine {
    fn drawn(draw: &mut Draw) -> Self {
        loop {
            let (n_packages, n_nodes) = (draw.one_of(&[1, 1, 2]), draw.one_of(&[1, 1, 2]));
            let n_llcs = draw.one_of(&[1, 2, 2, 3, 4, 4, 6, 8, 12, 16]);
            let (cores, threads) = (draw.one_of(&[2, 3, 4, 4, 6, 8]), draw.one_of(&[1, 2]));
            let all_llcs = n_packages * n_nodes * n_llcs;
            if !(2..=LLCS).contains(&all_llcs) || all_llcs * cores * threads > THREADS {
                continue;
            }
            let uneven = draw.chance(40);
            let mut sizes = || -> Vec<u32> {
                let mut one = || {
                    let less = if uneven && draw.chance(35) {
                        draw.below(cores / 2) + 1
                    } else {
                        0
                    };
                    small(cores - less)
                };
                (0..n_llcs).map(|_| one()).collect()
            };
            let mut package = || (0..n_nodes).map(|_| sizes()).collect();
            let packages = (0..n_packages).map(|_| package()).collect();
            return Self {
                packages,
                threads: small(threads),
                llc_mib: draw.one_of(&[0, 8, 16, 16, 32]),
                node_mib: n_llcs * cores * threads * 2048,
                has_matrix: draw.chance(40),
                slow_cores: draw.chance(6),
                isolated: draw.chance(6) && cores > 2,
            };
        }
    }

    /// Cores of each LLC, with the LLC's node and package.
    fn llcs(&self) -> Vec<(u32, usize, usize)> {
        let mut llcs = Vec::new();
        let mut n_nodes = 0;
        for (package, nodes) in self.packages.iter().enumerate() {
            for sizes in nodes {
                llcs.extend(sizes.iter().map(|&cores| (cores, n_nodes, package)));
                n_nodes += 1;
            }
        }
        llcs
    }

    fn cores(&self) -> u32 {
        self.llcs().iter().map(|(cores, ..)| cores).sum()
    }

    fn is_uneven(&self) -> bool {
        let llcs = self.llcs();
        llcs.iter().any(|(cores, ..)| *cores != llcs[0].0)
    }

    fn host(&self, draw: &mut Draw) -> Host {
        let (llcs, n_cores) = (self.llcs(), self.cores());
        let cpus_of =
            |core: u32| (0..self.threads).map(move |thread| CpuId(thread * n_cores + core));
        let mut parts = Parts {
            name: "random".to_owned(),
            cpus: CpuSet::from_range(0..n_cores * self.threads),
            ..Parts::default()
        };
        let n_nodes = llcs.iter().map(|(_, node, _)| node + 1).max().unwrap_or(1);
        let mut nodes = vec![CpuSet::new(); n_nodes];
        parts.packages = vec![CpuSet::new(); self.packages.len()];
        let mut core = 0;
        for &(cores, node, package) in &llcs {
            let cpus: CpuSet = (core..core + cores).flat_map(cpus_of).collect();
            nodes[node] = nodes[node].union(&cpus);
            parts.packages[package] = parts.packages[package].union(&cpus);
            for index in 0..cores {
                let efficiency = u8::from(!self.slow_cores || 2 * index < cores);
                let cpus = cpus_of(core + index).collect();
                parts.cores.push(Core { cpus, efficiency });
            }
            parts.caches.push(Cache {
                level: 3,
                kind: 'u',
                size_bytes: self.llc_mib << 20,
                cpus,
            });
            core += cores;
        }
        if self.isolated {
            parts.isolated = parts.cores[0].cpus.clone();
        }
        let of_node = |(id, cpus)| Node {
            id,
            cpus,
            memory_mib: self.node_mib,
            hugepages: Vec::new(),
        };
        parts.nodes = (0..).zip(nodes).map(of_node).collect();
        parts.latency = self.has_matrix.then(|| Self::latency(draw, &llcs));
        Host::from_parts(parts).expect("drawn parts neither overlap nor are empty")
    }

    /// Latencies with quadrants of two or four LLCs, in the range of measured machines. Small hosts also get the noise
    /// of a measurement.
    fn latency(draw: &mut Draw, llcs: &[(u32, usize, usize)]) -> Latency {
        let quadrant = usize::try_from(draw.one_of(&[2, 4])).unwrap_or(2);
        let [near, node, package, remote] = [[60, 110], [110, 130], [130, 150], [200, 250]]
            .map(|[from, to]| from + draw.below(to - from));
        let noise = if llcs.len() <= 6 {
            draw.one_of(&[0, 0, 8])
        } else {
            0
        };
        let mut llc_ns = vec![vec![25.0; llcs.len()]; llcs.len()];
        for (a, &(_, node_a, package_a)) in llcs.iter().enumerate() {
            for (b, &(_, node_b, package_b)) in llcs.iter().enumerate().skip(a + 1) {
                let ns = match () {
                    () if package_a != package_b => remote,
                    () if node_a != node_b => package,
                    () if a / quadrant != b / quadrant => node,
                    () => near,
                };
                let ns = f64::from(small(ns + draw.below(noise + 1)));
                (llc_ns[a][b], llc_ns[b][a]) = (ns, ns);
            }
        }
        Latency {
            llc_ns,
            smt_ns: None,
            home_remote_ns: draw.chance(50).then_some(236.0),
            dram_local_ns: Some(122.0),
            dram_remote_ns: Some(205.0),
            measured_here: true,
            source: "drawn".to_owned(),
        }
    }
}

/// VMs until their demand reaches a share of the threads between 40 and 130 %.
fn vms(draw: &mut Draw, machine: &Machine, host: &Host, fewest: usize) -> Vec<Vm> {
    let threads = host.cpus.len() as u64;
    let wanted = threads * (400 + draw.below(901));
    let widest = VCPUS.min(threads - 2 * u64::from(machine.threads)).max(1);
    // Wide enough that a few VMs fill the host, drawn anew for each instance.
    let typical = (threads / (3 + draw.below(6))).clamp(1, widest);
    let fills_memory = draw.chance(15);
    let alike = draw.chance(25).then(|| vm(draw, 0, typical));
    let mut vms: Vec<Vm> = Vec::new();
    let mut demand = 0;
    while vms.len() < fewest || demand < wanted && vms.len() < 2 * FREE_VMS {
        let index = vms.len();
        let vcpus = if draw.chance(50) {
            1 + draw.below(widest)
        } else {
            typical
        };
        let mut vm = match &alike {
            Some(alike) => Vm {
                name: format!("vm{index}"),
                ..alike.clone()
            },
            None => vm(draw, index, vcpus),
        };
        let of_threads = u64::from(vm.vcpus) * host.memory_mib() / threads;
        vm.memory_mib = of_threads
            * if fills_memory {
                60 + draw.below(30)
            } else {
                20 + draw.below(30)
            }
            / 100;
        vm.memory_mib = vm.memory_mib.next_multiple_of(512);
        demand +=
            u64::from(vm.vcpus) * u64::try_from(effective_demand(vm.effective_load())).unwrap_or(0);
        vms.push(vm);
    }
    let used: u64 = vms.iter().map(|vm| vm.memory_mib).sum();
    // Half the host's memory stays free, unless memory is what the instance is about.
    let most = host.memory_mib() * if fills_memory { 90 } else { 60 } / 100;
    if used > most {
        for vm in &mut vms {
            vm.memory_mib = vm.memory_mib * most / used / 256 * 256;
        }
    }
    wishes(draw, host, &mut vms);
    vms
}

fn vm(draw: &mut Draw, index: usize, vcpus: u64) -> Vm {
    let mut vm = Vm::new(format!("vm{index}"), small(vcpus), 0);
    vm.load = small(300 + 100 * draw.below(8));
    vm.bandwidth = draw.one_of(&[
        Intensity::Low,
        Intensity::Mid,
        Intensity::Mid,
        Intensity::High,
    ]);
    vm.sharing = draw.one_of(&[
        Intensity::Low,
        Intensity::Mid,
        Intensity::Mid,
        Intensity::High,
    ]);
    vm.dedicated = vcpus <= 4 && draw.chance(8);
    vm.prefer_ht = draw.chance(8);
    vm.system = if draw.chance(12) {
        small(100 + 100 * draw.below(8))
    } else {
        0
    };
    vm.shares = draw.one_of(&[1000, 1000, 1000, 1000, 500, 2000]);
    vm.reservation = if draw.chance(8) {
        vm.vcpus * vm.load / 2
    } else {
        0
    };
    vm
}

/// What VMs ask for beside CPUs and memory.
fn wishes(draw: &mut Draw, host: &Host, vms: &mut [Vm]) {
    let n_nodes = host.nodes.len() as u64;
    for vm in vms.iter_mut() {
        let node = small(draw.below(n_nodes));
        let nodes = vec![node];
        match draw.below(100) {
            0..8 if n_nodes > 1 => vm.device_nodes = nodes,
            8..16 if n_nodes > 1 => vm.soft = Affinity { cpus: None, nodes },
            16..19 if n_nodes > 1 && vm.vcpus < small(host.cpus.len() as u64 / n_nodes / 2) => {
                vm.hard = Affinity { cpus: None, nodes };
            }
            _ => {}
        }
    }
    if draw.chance(25) {
        for _ in 0..2 + draw.below(2) {
            let index = draw.index(vms.len());
            vms[index].near = Some("near".to_owned());
        }
    }
    if draw.chance(25) && host.llcs.len() > 3 {
        let scope = if host.nodes.len() > 2 {
            draw.one_of(&[Scope::Llc, Scope::Node])
        } else {
            Scope::Llc
        };
        for _ in 0..2 {
            let index = draw.index(vms.len());
            let label = "apart".to_owned();
            vms[index].apart = Some(Apart { label, scope });
        }
    }
}

/// The host after some VMs have left that an earlier plan had placed, when others arrive.
fn half_full(draw: &mut Draw, host: Arc<Host>, vms: &[Vm]) -> Snapshot {
    let n_old = (vms.len() / 2)
        .min(vms.len() - FEWEST_VMS)
        .max(vms.len().saturating_sub(FREE_VMS));
    let leaving = vms[..n_old]
        .iter()
        .enumerate()
        .filter(|(index, _)| index % 3 == 2);
    let mut earlier: Vec<Vm> = vms[..n_old].to_vec();
    earlier.extend(leaving.map(|(index, vm)| Vm {
        name: format!("gone{index}"),
        near: None,
        apart: None,
        ..vm.clone()
    }));
    let before = Best.plan(&Snapshot::empty(host.clone(), earlier, Reserve::default()));
    let is_placed = |id: VmId| !before.placement.groups_of(id).is_empty();
    let mut kept: Vec<usize> = (0..n_old).filter(|&index| is_placed(id(index))).collect();
    if kept.len() > 2 && draw.chance(50) {
        let gone = draw.index(kept.len());
        kept.remove(gone);
    }
    let placement = renamed(&before.placement, &kept);
    let kept_vms = kept.iter().map(|&index| vms[index].clone());
    let all = kept_vms.chain(vms[n_old..].iter().cloned()).collect();
    let mut now = Snapshot::empty(host, all, Reserve::default());
    // Nothing that sits may move, so that the instance stays small.
    now.budget = Budget {
        vcpus: 0,
        memory_mib: 0,
        dwell_ns: u64::MAX,
    };
    for state in &mut now.vms[..kept.len()] {
        state.moved_ns = Some(0);
    }
    now.placement = placement;
    now
}

/// The places of the VMs that are kept, with their new ids.
fn renamed(placement: &Placement, kept: &[usize]) -> Placement {
    let new_id = |old: VmId| kept.iter().position(|&index| id(index) == old).map(id);
    let mut placement = placement.clone();
    placement.groups.retain(|group| new_id(group.vm).is_some());
    placement.memory.retain(|home| new_id(home.vm).is_some());
    placement.system.retain(|home| new_id(home.vm).is_some());
    let rename = |vm: &mut VmId| *vm = new_id(*vm).unwrap_or(*vm);
    placement
        .groups
        .iter_mut()
        .for_each(|group| rename(&mut group.vm));
    placement
        .memory
        .iter_mut()
        .for_each(|home| rename(&mut home.vm));
    placement
        .system
        .iter_mut()
        .for_each(|home| rename(&mut home.vm));
    placement.sort();
    placement
}

fn id(index: usize) -> VmId {
    VmId(u32::try_from(index).unwrap_or(u32::MAX))
}

fn small(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Numbers from a seed (`SplitMix64`, Steele, Lea and Flood 2014).
#[derive(Debug)]
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below `n`; 0 when there is nothing below.
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    fn index(&mut self, n: usize) -> usize {
        usize::try_from(self.below(n as u64)).unwrap_or(0)
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.index(items.len())]
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
