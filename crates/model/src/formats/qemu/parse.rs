//! A command line as data: what each option we know says, with the words it came from.

use std::collections::BTreeMap;

use super::super::ParseError;
use super::super::smp::{MAX_NODES, MAX_VCPUS, Sets, Smp, level_by_name};
use super::options::{Options, number, size_bytes};
use super::words::{Style, Word, split};
use crate::cpuset::CpuSet;
use crate::guest::Level;

/// QEMU's memory when `-m` is not given, in bytes (`default_ram_size` of the PC machines).
const DEFAULT_MEMORY_BYTES: u64 = 128 << 20;

const MIB: u64 = 1 << 20;

/// Options whose value we look at. Others are kept and not read, so it does not matter whether they take a value.
const KNOWN: [&str; 10] = [
    "name", "m", "smp", "machine", "M", "cpu", "object", "numa", "device", "mem-path",
];

/// A command line: its words, the options we know among them, and what they say together.
#[derive(Debug)]
pub(super) struct CommandLine {
    pub(super) style: Style,
    pub(super) words: Vec<Word>,
    pub(super) options: Vec<KnownOption>,
    pub(super) says: Statements,
}

/// An option we know: its name without dashes, the index of that word, and of its value's.
#[derive(Debug)]
pub(super) struct KnownOption {
    pub(super) name: &'static str,
    pub(super) word: usize,
    pub(super) value: usize,
}

/// What the options of a command line say, later ones over earlier ones where QEMU merges them.
#[derive(Debug, Default)]
pub(super) struct Statements {
    pub(super) name: String,
    /// `-m`, in bytes.
    pub(super) memory_bytes: Option<u64>,
    pub(super) machine: Machine,
    pub(super) cpu: Option<Options>,
    pub(super) backends: Vec<Backend>,
    pub(super) nodes: Vec<Node>,
    pub(super) assignments: Vec<Assignment>,
    /// `-numa dist`: source, destination, value.
    pub(super) distances: Vec<[u64; 3]>,
    pub(super) devices: Vec<Options>,
    pub(super) mem_path: Option<String>,
    sets: Sets,
}

/// What `-smp` and `-machine` say.
#[derive(Debug, Default)]
pub(in super::super) struct Machine {
    pub(in super::super) smp: Smp,
    /// Caches with the level that shares them, in QEMU's names.
    pub(in super::super) caches: Vec<(String, String)>,
    /// Whether omitted sockets are filled before cores: machine types before 6.2.
    pub(in super::super) prefer_sockets: bool,
    /// The backend of a guest without vNUMA nodes.
    memory_backend: Option<String>,
}

/// A memory backend object.
#[derive(Debug)]
pub(super) struct Backend {
    /// Index of its option.
    pub(super) option: usize,
    pub(super) id: String,
    pub(super) size_bytes: u64,
    pub(super) host_nodes: CpuSet,
    pub(super) hugepage_kib: Option<u64>,
    pub(super) options: Options,
}

/// A `-numa node`.
#[derive(Debug)]
pub(super) struct Node {
    /// Index of its option.
    pub(super) option: usize,
    pub(super) id: u64,
    pub(super) cpus: CpuSet,
    pub(super) memdev: Option<String>,
    /// The older `mem=`.
    pub(super) memory_bytes: Option<u64>,
}

/// A `-numa cpu`: the node, and the socket, die, module, core and thread it names.
#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) node: u64,
    pub(super) levels: [Option<u64>; 5],
}

impl CommandLine {
    /// Parses a command line.
    ///
    /// # Errors
    /// A quote is not closed, there is no option in it, or a number we need is none.
    pub(super) fn parse(text: &str) -> Result<Self, ParseError> {
        let (style, words) = split(text)?;
        if !words.iter().any(|word| option_name(&word.value).is_some()) {
            let message = "no option such as -smp or -m found; expected a QEMU command line";
            return Err(ParseError::new(message, 0..0));
        }
        let (options, mut says) = (known_options(&words), Statements::default());
        for (index, option) in options.iter().enumerate() {
            let value = &words[option.value];
            says.read_option(index, option.name, &value.value)
                .map_err(|problem| {
                    let shown: String = value.value.chars().take(80).collect();
                    let message = format!("-{} {shown}: {problem}", option.name);
                    ParseError::new(message, value.span.clone())
                })?;
        }
        Ok(Self {
            style,
            words,
            options,
            says,
        })
    }

    /// The text from the end of the word before an option to the end of the option's value.
    pub(super) fn span_with_separator(&self, option: &KnownOption) -> std::ops::Range<usize> {
        let start = match option.word.checked_sub(1) {
            Some(before) => self.words[before].span.end,
            None => self.words[option.word].span.start,
        };
        start..self.words[option.value].span.end
    }
}

impl Statements {
    /// The memory of the guest, in bytes.
    pub(super) fn total_memory_bytes(&self) -> u64 {
        let backend = || self.machine_backend().map(|backend| backend.size_bytes);
        self.memory_bytes
            .or_else(backend)
            .unwrap_or(DEFAULT_MEMORY_BYTES)
    }

    /// The backend of a guest without vNUMA nodes.
    pub(super) fn machine_backend(&self) -> Option<&Backend> {
        self.machine
            .memory_backend
            .as_deref()
            .and_then(|id| self.backend(id))
    }

    /// A memory backend by its id.
    pub(super) fn backend(&self, id: &str) -> Option<&Backend> {
        self.backends.iter().find(|backend| backend.id == id)
    }

    fn read_option(&mut self, index: usize, name: &str, value: &str) -> Result<(), String> {
        match name {
            "name" => {
                let options = Options::parse(value, "guest");
                options
                    .value("guest")
                    .unwrap_or_default()
                    .clone_into(&mut self.name);
            }
            "m" => {
                if let Some(size) = Options::parse(value, "size").value("size") {
                    self.memory_bytes = Some(size_of(size, MIB)?);
                }
            }
            "smp" => self.machine.read_smp(&Options::parse(value, "cpus"))?,
            "machine" | "M" => self.machine.read_machine(&Options::parse(value, "type"))?,
            "cpu" => self.cpu = Some(Options::parse(value, "model")),
            "object" => self.read_object(index, value)?,
            "numa" => self.read_numa(index, &Options::parse(value, "kind"))?,
            "device" => self.devices.push(Options::parse(value, "driver")),
            "mem-path" => self.mem_path = Some(value.to_owned()),
            _ => {}
        }
        Ok(())
    }

    fn read_object(&mut self, option: usize, value: &str) -> Result<(), String> {
        let options = Options::parse(value, "qom-type");
        if !options
            .value("qom-type")
            .is_some_and(|kind| kind.starts_with("memory-backend-"))
        {
            return Ok(());
        }
        let mut host_nodes = CpuSet::new();
        for nodes in options.values("host-nodes") {
            host_nodes = host_nodes.union(&self.set_of("host-nodes", nodes)?);
        }
        self.backends.push(Backend {
            option,
            id: options.value("id").unwrap_or_default().to_owned(),
            size_bytes: options
                .value("size")
                .map_or(Ok(0), |size| size_of(size, 1))?,
            host_nodes,
            hugepage_kib: backend_hugepage_kib(&options)?,
            options,
        });
        Ok(())
    }

    fn set_of(&mut self, key: &str, text: &str) -> Result<CpuSet, String> {
        self.sets
            .read(text)
            .map_err(|problem| format!("{key}: {problem}"))
    }

    fn read_numa(&mut self, option: usize, options: &Options) -> Result<(), String> {
        let value = |key: &str| {
            options
                .value(key)
                .map(|value| number_of(key, value))
                .transpose()
        };
        let id = |key: &str| value(key).map(|id| id.unwrap_or(0));
        match options.value("kind").or(options.value("type")) {
            Some("node") => {
                let next = self.nodes.iter().map(|node| node.id + 1).max().unwrap_or(0);
                let id = value("nodeid")?.unwrap_or(next);
                if id >= MAX_NODES as u64 || self.nodes.len() >= MAX_NODES {
                    return Err(format!("a guest has at most {MAX_NODES} NUMA nodes"));
                }
                let mut cpus = CpuSet::new();
                for part in options.values("cpus") {
                    cpus = cpus.union(&self.set_of("cpus", part)?);
                }
                let memdev = options.value("memdev").map(str::to_owned);
                let memory_bytes = options
                    .value("mem")
                    .map(|mem| size_of(mem, MIB))
                    .transpose()?;
                self.nodes.push(Node {
                    option,
                    id,
                    cpus,
                    memdev,
                    memory_bytes,
                });
            }
            Some("dist") => self.distances.push([id("src")?, id("dst")?, id("val")?]),
            Some("cpu") => {
                let keys = ["socket-id", "die-id", "module-id", "core-id", "thread-id"];
                let mut levels = [None; 5];
                for (level, key) in levels.iter_mut().zip(keys) {
                    *level = value(key)?;
                }
                self.assignments.push(Assignment {
                    node: id("node-id")?,
                    levels,
                });
                if self.assignments.len() > MAX_VCPUS as usize {
                    return Err(format!("more than {MAX_VCPUS} -numa cpu options"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Machine {
    /// Takes over the values of a `-smp`.
    pub(in super::super) fn read_smp(&mut self, options: &Options) -> Result<(), String> {
        for (key, value) in options.iter().filter(|(key, _)| Smp::KEYS.contains(key)) {
            self.set_smp(key, value)?;
        }
        Ok(())
    }

    /// Takes over the values of a `-machine`; cache lists of several add up, as in QEMU's `keyval_merge`.
    pub(in super::super) fn read_machine(&mut self, options: &Options) -> Result<(), String> {
        let mut caches: BTreeMap<&str, (String, String)> = BTreeMap::new();
        for (key, value) in options.iter() {
            if let Some(level) = key.strip_prefix("smp.") {
                if Smp::KEYS.contains(&level) {
                    self.set_smp(level, value)?;
                }
            } else if let Some(rest) = key.strip_prefix("smp-cache.") {
                match rest.split_once('.') {
                    Some((index, "cache")) => {
                        value.clone_into(&mut caches.entry(index).or_default().0);
                    }
                    Some((index, "topology")) => {
                        value.clone_into(&mut caches.entry(index).or_default().1);
                    }
                    _ => {}
                }
            } else if key == "type" {
                self.prefer_sockets = is_before_6_2(value);
            } else if key == "memory-backend" {
                self.memory_backend = Some(value.to_owned());
            }
        }
        self.caches.extend(caches.into_values());
        Ok(())
    }

    /// The level whose objects share an L3, where `smp-cache` states it.
    pub(in super::super) fn llc_level(&self) -> Option<Level> {
        let (_, level) = self.caches.iter().rev().find(|(cache, _)| cache == "l3")?;
        level_by_name(level)
    }

    fn set_smp(&mut self, key: &str, value: &str) -> Result<(), String> {
        number(value)
            .and_then(|value| self.smp.set(key, value))
            .ok_or_else(|| {
                format!("{key} is {value:?}; write a whole number from 1 to {MAX_VCPUS}")
            })
    }
}

/// The name of an option, if the word is one.
fn option_name(word: &str) -> Option<&str> {
    let name = word.strip_prefix('-')?;
    let name = name.strip_prefix('-').unwrap_or(name);
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        .then_some(name)
}

/// The known options that have a value.
fn known_options(words: &[Word]) -> Vec<KnownOption> {
    let (mut options, mut at) = (Vec::new(), 0);
    while at < words.len() {
        let name = option_name(&words[at].value);
        let known = KNOWN.into_iter().find(|known| name == Some(known));
        match known {
            Some(name) if at + 1 < words.len() => {
                options.push(KnownOption {
                    name,
                    word: at,
                    value: at + 1,
                });
                at += 2;
            }
            _ => at += 1,
        }
    }
    options
}

/// Size of the pages of a backend in KiB, when it asks for hugepages. A path says it by habit only:
/// `/dev/hugepages` has the default size, `/dev/hugepages1G` or `/dev/hugepages-1048576kB` the larger one.
fn backend_hugepage_kib(options: &Options) -> Result<Option<u64>, String> {
    if options.is_on("hugetlb") {
        let size = options
            .value("hugetlbsize")
            .map(|size| size_of(size, 1))
            .transpose()?;
        return Ok(Some(size.map_or(2048, |bytes| bytes >> 10)));
    }
    Ok(options.value("mem-path").and_then(path_hugepage_kib))
}

/// Size of the pages behind a `mem-path` in KiB, as far as its name tells.
pub(super) fn path_hugepage_kib(path: &str) -> Option<u64> {
    let large = ["1G", "1048576kB"].iter().any(|mark| path.contains(mark));
    path.contains("huge")
        .then_some(if large { 1 << 20 } else { 2048 })
}

/// Whether a versioned machine type is older than 6.2, where QEMU began to prefer cores over sockets.
fn is_before_6_2(machine: &str) -> bool {
    let version = machine.rsplit('-').next().unwrap_or_default();
    let parts = version
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)));
    machine.starts_with("pc-") && parts.is_some_and(|version| version < (6, 2))
}

fn size_of(text: &str, unit: u64) -> Result<u64, String> {
    size_bytes(text, unit).ok_or_else(|| format!("{text:?} is no size; write it as 4096M or 4G"))
}

fn number_of(key: &str, text: &str) -> Result<u64, String> {
    number(text).ok_or_else(|| format!("{key} is {text:?}, not a number"))
}
