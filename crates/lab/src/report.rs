//! What a guest's kernel (or a tool in the guest) says about its topology.
//!
//! Three kinds of text are understood, by content: the report of our own init, `lscpu` (JSON or plain, of any Linux
//! guest), and Sysinternals' Coreinfo (of a Windows guest). What a text does not say is `None`.
//!
//! ```
//! use lab::report::SeenGuest;
//! let text = "Logical to Physical Processor Map:\n*-  Physical Processor 0\n-*  Physical Processor 1\n\n\
//!             Logical Processor to Socket Map:\n**  Socket 0\n";
//! let seen = SeenGuest::from_text(text).unwrap();
//! assert_eq!((seen.sockets(), seen.cores_per_socket()), (Some(1), Some(2)));
//! ```

mod coreinfo;
pub mod dump;
mod lscpu;

use std::collections::BTreeMap;

use model::host::Cache;
use model::{CpuId, CpuSet};

pub use coreinfo::coreinfo_map;

/// Largest text a reader looks at, in bytes: 4096 CPUs with all their files make about 8 MiB.
pub const MAX_TEXT_BYTES: usize = 32 << 20;
/// CPU numbers a guest may have, exclusive: the largest `NR_CPUS` of Linux on x86.
pub const MAX_GUEST_CPUS: u32 = 8192;
/// Node numbers a guest may have, exclusive: the largest `MAX_NUMNODES` of Linux.
const MAX_GUEST_NODES: u32 = 1024;

/// What was seen in a guest.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenGuest {
    /// Who said it.
    pub source: Source,
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: Option<String>,
    /// The kernel's command line.
    pub command_line: Option<String>,
    /// The processor's name for itself.
    pub cpu_model: Option<String>,
    /// CPUs in use; never empty.
    pub online: CpuSet,
    /// CPUs that are there, in use or not.
    pub present: Option<CpuSet>,
    /// CPUs that the kernel is ready for: slots for hot-plug included, where it believes in them.
    pub possible: Option<CpuSet>,
    /// CPUs that the firmware describes, present or not. `possible` is no more than `present` under software emulation,
    /// which Linux takes for bare metal, where slots are not believed.
    pub slots: Option<u32>,
    /// The online CPUs with their place, ascending; empty when only a summary was given.
    pub cpus: Vec<SeenCpu>,
    /// What a summary says in place of `cpus`.
    pub summary: Summary,
    /// Every cache once, by level, kind and first CPU.
    pub caches: Option<Vec<Cache>>,
    /// NUMA nodes by number.
    pub nodes: Option<Vec<SeenNode>>,
    /// Memory that the kernel manages, in MiB.
    pub usable_mib: Option<u64>,
    /// PCI devices by address.
    pub devices: Vec<Device>,
    /// What the tools printed in the guest.
    pub tools: Vec<ToolOutput>,
}

/// Who describes the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Our init: complete, so what is missing is wrong.
    Guest,
    /// `lscpu`.
    Lscpu,
    /// Coreinfo.
    Coreinfo,
}

/// An online CPU of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenCpu {
    /// Its number.
    pub id: CpuId,
    /// Its package (socket).
    pub package: Option<u32>,
    /// Its die; Linux numbers dies through all packages.
    pub die: Option<u32>,
    /// Its cluster; on x86 Linux takes that for the CPUs of one L2.
    pub cluster: Option<u32>,
    /// Its core; unique within a package at least.
    pub core: Option<u32>,
    /// CPUs that are threads of its core, itself included.
    pub siblings: Option<CpuSet>,
}

/// Counts that a summary gives without saying which CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Packages.
    pub sockets: Option<u32>,
    /// Cores in each.
    pub cores_per_socket: Option<u32>,
    /// Threads in each core.
    pub threads_per_core: Option<u32>,
    /// Caches by level and kind.
    pub caches: Vec<CacheCount>,
}

/// How many caches of a kind there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheCount {
    /// 1, 2, 3 ...
    pub level: u8,
    /// `d`, `i` or `u`.
    pub kind: char,
    /// How many; `None` in the words of old tools.
    pub instances: Option<u32>,
    /// Size of one in bytes; 0 means unknown.
    pub size_bytes: u64,
}

/// A NUMA node of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenNode {
    /// The kernel's number.
    pub id: u32,
    /// Its online CPUs.
    pub cpus: CpuSet,
    /// Memory that is there, in MiB: present pages of all zones. This is what the firmware handed over, less holes.
    pub present_mib: Option<u64>,
    /// Memory that the kernel manages, in MiB: without its own image and tables.
    pub usable_mib: Option<u64>,
    /// Distance to every node in order.
    pub distances: Option<Vec<u32>>,
}

/// A PCI device of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Address, e.g. `0000:00:02.0`.
    pub address: String,
    /// Class code, e.g. 0x020000 for Ethernet.
    pub class: u32,
    /// Vendor id.
    pub vendor: u32,
    /// Device id.
    pub device: u32,
    /// NUMA node it hangs on.
    pub node: Option<u32>,
}

/// What a tool printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// The command with its arguments.
    pub command: String,
    /// Its output.
    pub text: String,
}

/// Why a text is no report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// None of the known kinds.
    #[error(
        "the text is no report that vtopo knows; give the output of `lscpu -J` (Linux guest) or of `coreinfo` (Windows guest)"
    )]
    Unknown,
    /// Larger than [`MAX_TEXT_BYTES`].
    #[error("the report has {bytes} bytes; at most {MAX_TEXT_BYTES} are read")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The guest's own report ends early.
    #[error("the guest's report is cut off after {received} of {total} bytes")]
    Truncated {
        /// Bytes that are there.
        received: usize,
        /// Bytes that were announced.
        total: usize,
    },
    /// The guest's own report was changed on the way.
    #[error("the guest's report does not match its length and checksum")]
    Garbled,
    /// No CPUs in it.
    #[error("the report names no online CPU; give the whole output, with the list of CPUs")]
    NoCpus,
    /// The JSON does not parse.
    #[error("the text starts like JSON but is none: {0}")]
    Json(String),
}

impl SeenGuest {
    /// Reads a report of any known kind.
    ///
    /// # Errors
    /// [`ReportError`] says what is wrong and what would be understood.
    pub fn from_text(text: &str) -> Result<Self, ReportError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(ReportError::TooLarge { bytes: text.len() });
        }
        let text = text.trim_start_matches('\u{feff}').trim_start();
        if text.contains(dump::HEADER) {
            return dump::read(text);
        }
        if text.starts_with('{') {
            return lscpu::read_json(text);
        }
        if text.contains("Logical to Physical Processor Map")
            || text.contains("Logical Processor to ")
        {
            return coreinfo::read(text);
        }
        lscpu::read_plain(text)
    }

    /// As [`from_text`](Self::from_text), of a file's bytes: PowerShell's `>` writes UTF-16.
    ///
    /// # Errors
    /// As [`from_text`](Self::from_text).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ReportError> {
        if bytes.len() > MAX_TEXT_BYTES {
            return Err(ReportError::TooLarge { bytes: bytes.len() });
        }
        if let Some(wide) = bytes.strip_prefix(&[0xff, 0xfe]) {
            let units: Vec<u16> = wide
                .chunks_exact(2)
                .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
                .collect();
            return Self::from_text(&String::from_utf16_lossy(&units));
        }
        Self::from_text(&String::from_utf8_lossy(bytes))
    }

    /// A guest of which nothing is known but its CPUs.
    fn new(source: Source, online: CpuSet) -> Self {
        Self {
            source,
            kernel: None,
            command_line: None,
            cpu_model: None,
            online,
            present: None,
            possible: None,
            slots: None,
            cpus: Vec::new(),
            summary: Summary::default(),
            caches: None,
            nodes: None,
            usable_mib: None,
            devices: Vec::new(),
            tools: Vec::new(),
        }
    }

    /// The CPUs of each package, by first CPU.
    pub fn packages(&self) -> Option<Vec<CpuSet>> {
        self.groups(|cpu| cpu.package)
    }

    /// The CPUs of each die, by first CPU.
    pub fn dies(&self) -> Option<Vec<CpuSet>> {
        self.groups(|cpu| Some((cpu.package?, cpu.die?)))
    }

    /// The CPUs of each core, by first CPU.
    pub fn cores(&self) -> Option<Vec<CpuSet>> {
        self.groups(|cpu| cpu.siblings.clone())
            .or_else(|| self.groups(|cpu| Some((cpu.package, cpu.core?))))
    }

    /// Number of packages with online CPUs.
    pub fn sockets(&self) -> Option<u32> {
        self.packages().map_or(self.summary.sockets, |packages| {
            u32::try_from(packages.len()).ok()
        })
    }

    /// Most cores in a package.
    pub fn cores_per_socket(&self) -> Option<u32> {
        let Some(cores) = self.cores() else {
            return self.summary.cores_per_socket;
        };
        let packages: BTreeMap<CpuId, Option<u32>> =
            self.cpus.iter().map(|cpu| (cpu.id, cpu.package)).collect();
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        for first in cores.iter().filter_map(CpuSet::first) {
            let package = packages.get(&first).copied().flatten();
            *counts.entry(package?).or_default() += 1;
        }
        counts.into_values().max()
    }

    /// Most threads in a core.
    pub fn threads_per_core(&self) -> Option<u32> {
        self.cores().map_or(self.summary.threads_per_core, |cores| {
            let threads = cores.iter().map(CpuSet::len).max();
            threads.and_then(|threads| u32::try_from(threads).ok())
        })
    }

    /// The caches of a level and kind, by first CPU; `None` when caches are not known.
    pub fn caches_of(&self, level: u8, kind: char) -> Option<Vec<&Cache>> {
        let caches = self.caches.as_ref()?.iter();
        Some(
            caches
                .filter(|cache| (cache.level, cache.kind) == (level, kind))
                .collect(),
        )
    }

    /// The last-level caches: those of the highest level, by first CPU.
    pub fn llcs(&self) -> Option<Vec<&Cache>> {
        let caches = self.caches.as_ref()?;
        let level = caches.iter().map(|cache| cache.level).max()?;
        Some(caches.iter().filter(|cache| cache.level == level).collect())
    }

    /// The CPUs with equal key, each group once by first CPU; `None` unless every CPU has the key.
    fn groups<K: Ord>(&self, key: impl Fn(&SeenCpu) -> Option<K>) -> Option<Vec<CpuSet>> {
        let mut groups: BTreeMap<K, CpuSet> = BTreeMap::new();
        for cpu in &self.cpus {
            groups.entry(key(cpu)?).or_default().insert(cpu.id);
        }
        let mut groups: Vec<CpuSet> = groups.into_values().collect();
        groups.sort_by_key(CpuSet::first);
        (!groups.is_empty()).then_some(groups)
    }
}

/// A CPU list, unless it names CPUs that no guest has.
fn read_set(text: &str) -> Option<CpuSet> {
    let set: CpuSet = text.parse().ok()?;
    set.last()
        .is_none_or(|cpu| cpu.0 < MAX_GUEST_CPUS)
        .then_some(set)
}

/// A size such as `32K` (sysfs), `32 KiB`, `1.5 MiB`, `16 MB` or plain bytes; tools mean 1024 by all of these.
fn read_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start().bytes().next() {
        None | Some(b'B') => 0,
        Some(b'K') => 10,
        Some(b'M') => 20,
        Some(b'G') => 30,
        Some(_) => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.parse().ok()?;
    let bytes = whole.checked_mul(1 << shift)?;
    if fraction.is_empty() {
        return Some(bytes);
    }
    // Tools print at most a few decimals; more than nine would overflow below.
    let scale = 10_u64.checked_pow(u32::try_from(fraction.len()).ok().filter(|&n| n <= 9)?)?;
    let fraction: u64 = fraction.parse().ok()?;
    bytes.checked_add(fraction.checked_mul(1 << shift)? / scale)
}

/// Puts caches in order and takes out those that were named by several CPUs.
fn sort_caches(caches: &mut Vec<Cache>) {
    caches.sort_by(|a, b| {
        let key = |cache: &Cache| (cache.level, cache.kind, cache.cpus.first());
        (key(a), &a.cpus, a.size_bytes).cmp(&(key(b), &b.cpus, b.size_bytes))
    });
    caches.dedup();
}

#[cfg(test)]
mod tests;
