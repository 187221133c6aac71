//! The CPUs of a host in the simulator's own order, so that the CPUs of an LLC and the threads of a core are neighbours.

use std::ops::Range;

use model::host::NodeId;
use model::{CpuId, CpuSet, Host};

use super::bits::Bits;
use crate::machine::fabric::Fabric;

/// Levels over which work is taken from other CPUs, nearest first.
pub(crate) const LEVELS: usize = 4;

/// Dense tables by CPU index.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// Linux CPU number by index.
    pub(crate) ids: Vec<CpuId>,
    pub(crate) core: Vec<u32>,
    pub(crate) llc: Vec<u32>,
    pub(crate) node: Vec<u32>,
    pub(crate) package: Vec<u32>,
    /// CPUs of a core.
    pub(crate) cores: Vec<Range<u32>>,
    /// CPUs of an LLC.
    pub(crate) llcs: Vec<Range<u32>>,
    /// All LLCs by distance from each, itself first.
    pub(crate) near: Vec<Vec<u32>>,
    /// Distance class of two LLCs, by `from * llcs + to`: 0 the same, 1 the same quadrant, 2 the same package, 3 another.
    classes: Vec<u8>,
    index_of: Vec<u32>,
    /// Index among the host's CPUs by ours.
    pub(crate) of_host: Vec<u32>,
}

impl Layout {
    pub(crate) fn new(host: &Host, fabric: &Fabric) -> Self {
        let mut cpus: Vec<_> = host.cpus.iter().collect();
        cpus.sort_by_key(|cpu| (cpu.llc, cpu.core, cpu.id));
        let last = cpus.iter().map(|cpu| cpu.id.0).max().unwrap_or(0);
        let mut index_of = vec![u32::MAX; last as usize + 1];
        for (index, cpu) in (0..).zip(&cpus) {
            index_of[cpu.id.index()] = index;
        }
        let core: Vec<u32> = dense(cpus.iter().map(|cpu| cpu.core.0));
        let llc: Vec<u32> = cpus.iter().map(|cpu| cpu.llc.0).collect();
        let count = host.llcs.len();
        let class = |from: usize, to: usize| fabric.distance_class(from as u32, to as u32);
        let classes: Vec<u8> = (0..count * count)
            .map(|pair| class(pair / count, pair % count))
            .collect();
        let near = (0..count).map(|from| {
            let mut all: Vec<u32> = (0..count as u32).collect();
            // LLCs that are equally far come in a ring from the own one, so that not all spill to the first.
            let turn = |to: u32| (to as usize + count - from) % count;
            all.sort_by_key(|&to| (classes[from * count + to as usize], turn(to)));
            all
        });
        Self {
            of_host: cpus
                .iter()
                .map(|cpu| host.cpus.partition_point(|other| other.id < cpu.id) as u32)
                .collect(),
            ids: cpus.iter().map(|cpu| cpu.id).collect(),
            node: cpus.iter().map(|cpu| cpu.node.0).collect(),
            package: cpus.iter().map(|cpu| cpu.package.0).collect(),
            cores: ranges(&core, core.last().map_or(0, |last| last + 1)),
            llcs: ranges(&llc, count as u32),
            near: near.collect(),
            core,
            llc,
            classes,
            index_of,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The CPUs of a set that this host has.
    pub(crate) fn bits(&self, cpus: &CpuSet) -> Bits {
        let mut bits = Bits::new(self.len());
        for cpu in cpus.iter() {
            if let Some(&index) = self.index_of.get(cpu.index())
                && index != u32::MAX
            {
                bits.insert(index);
            }
        }
        bits
    }

    /// The index of a CPU that exists.
    pub(crate) fn index(&self, cpu: CpuId) -> Option<u32> {
        let index = *self.index_of.get(cpu.index())?;
        (index != u32::MAX).then_some(index)
    }

    pub(crate) fn llc_of(&self, cpu: u32) -> u32 {
        self.llc[cpu as usize]
    }

    pub(crate) fn node_of(&self, cpu: u32) -> NodeId {
        NodeId(self.node[cpu as usize])
    }

    /// The CPUs of the same core.
    pub(crate) fn core_of(&self, cpu: u32) -> Range<u32> {
        self.cores[self.core[cpu as usize] as usize].clone()
    }

    pub(crate) fn class(&self, from: u32, to: u32) -> u8 {
        self.classes[from as usize * self.llcs.len() + to as usize]
    }

    /// The level at which one CPU takes work from another: 0 core, 1 LLC, 2 package, 3 host.
    pub(crate) fn level(&self, a: u32, b: u32) -> usize {
        let (a, b) = (a as usize, b as usize);
        if self.core[a] == self.core[b] {
            0
        } else if self.llc[a] == self.llc[b] {
            1
        } else if self.package[a] == self.package[b] {
            2
        } else {
            3
        }
    }
}

/// Numbers from 0 without holes, for keys that come in runs.
fn dense(keys: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut last = None;
    let mut next = 0;
    keys.map(|key| {
        if last.is_some_and(|last| last != key) {
            next += 1;
        }
        last = Some(key);
        next
    })
    .collect()
}

/// Where each of `count` ascending keys starts and ends.
fn ranges(keys: &[u32], count: u32) -> Vec<Range<u32>> {
    let from = |key: u32| keys.partition_point(|&other| other < key) as u32;
    (0..count).map(|key| from(key)..from(key + 1)).collect()
}
