//! The report that our own init sends over the guest's second serial port (format: `guest-init`).

use model::CpuSet;
use model::host::Cache;

use super::{
    Device, MAX_GUEST_NODES, MAX_TEXT_BYTES, ReportError, SeenCpu, SeenGuest, SeenNode, Source,
    ToolOutput, read_set,
};

/// First words of the line that the init sends when it starts.
pub const HELLO: &str = "VTOPO-INIT 1\n";
/// First words of the line before the body.
pub(super) const HEADER: &str = "VTOPO-REPORT 1 ";
const TRAILER: &str = "VTOPO-REPORT-END\n";
/// Most bytes before the header line: the greeting is all that is expected there.
const START_BYTES_MAX: usize = 1 << 20;
/// Caches looked at per CPU; x86 has four.
const CACHES_MAX: usize = 16;

/// Bytes of a report as they arrive, from the greeting to the last line.
#[derive(Debug, Default)]
pub struct Inbox {
    text: Vec<u8>,
    /// Body length and checksum, and where the body starts, once the header line is there.
    header: Option<Header>,
}

#[derive(Debug, Clone, Copy)]
struct Header {
    bytes: usize,
    checksum: u64,
    start: usize,
}

impl Inbox {
    /// Takes what came; the terminal layer's `\r` is dropped.
    ///
    /// # Errors
    /// The header is not understood, or announces more than can be right.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), ReportError> {
        self.text
            .extend(bytes.iter().copied().filter(|&byte| byte != b'\r'));
        if self.header.is_none() {
            self.header = read_header(&self.text)?;
            if self.header.is_none() && self.text.len() > START_BYTES_MAX {
                return Err(ReportError::Garbled);
            }
        }
        Ok(())
    }

    /// Whether the init has greeted.
    pub fn greeted(&self) -> bool {
        self.text.starts_with(HELLO.as_bytes()) || self.header.is_some()
    }

    /// Bytes of the body that are there.
    pub fn received(&self) -> usize {
        let total = self.total().unwrap_or(0);
        self.header
            .map_or(0, |header| self.text.len() - header.start)
            .min(total)
    }

    /// Bytes that the body has, once that is known.
    pub fn total(&self) -> Option<usize> {
        self.header.map(|header| header.bytes)
    }

    /// The report from its header line on, as far as it is there.
    pub fn frame(&self) -> String {
        let start = find(&self.text, HEADER.as_bytes()).unwrap_or(self.text.len());
        String::from_utf8_lossy(&self.text[start..]).into_owned()
    }

    /// The body, once all of it is there.
    ///
    /// # Errors
    /// The body does not match its checksum, or the last line is another one.
    pub fn body(&self) -> Result<Option<&str>, ReportError> {
        let Some(Header {
            bytes,
            checksum,
            start,
        }) = self.header
        else {
            return Ok(None);
        };
        let end = start + bytes;
        if self.text.len() < end + TRAILER.len() {
            return Ok(None);
        }
        let body = &self.text[start..end];
        if fnv1a(body) != checksum || !self.text[end..].starts_with(TRAILER.as_bytes()) {
            return Err(ReportError::Garbled);
        }
        std::str::from_utf8(body)
            .map(Some)
            .map_err(|_| ReportError::Garbled)
    }
}

/// Finds the header line; `None` while it is not there in full.
fn read_header(text: &[u8]) -> Result<Option<Header>, ReportError> {
    let Some(at) = find(text, HEADER.as_bytes()) else {
        return Ok(None);
    };
    let line_start = at + HEADER.len();
    let Some(length) = text[line_start..].iter().position(|&byte| byte == b'\n') else {
        return Ok(None);
    };
    let line = String::from_utf8_lossy(&text[line_start..line_start + length]);
    let (bytes, checksum) = line.split_once(' ').ok_or(ReportError::Garbled)?;
    let bytes: usize = bytes.parse().map_err(|_| ReportError::Garbled)?;
    let checksum = u64::from_str_radix(checksum, 16).map_err(|_| ReportError::Garbled)?;
    if bytes > MAX_TEXT_BYTES {
        return Err(ReportError::Garbled);
    }
    let start = line_start + length + 1;
    Ok(Some(Header {
        bytes,
        checksum,
        start,
    }))
}

fn find(text: &[u8], words: &[u8]) -> Option<usize> {
    text.windows(words.len()).position(|window| window == words)
}

/// FNV-1a, 64 bits, as in the init.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Reads a whole report, frame and all.
pub(super) fn read(text: &str) -> Result<SeenGuest, ReportError> {
    let mut inbox = Inbox::default();
    inbox.push(text.as_bytes())?;
    let body = inbox.body()?.ok_or(ReportError::Truncated {
        received: inbox.received(),
        total: inbox.total().unwrap_or(0),
    })?;
    read_body(body)
}

/// Reads the sections of a report.
///
/// # Errors
/// A section runs past the end, or there is no list of online CPUs.
pub fn read_body(body: &str) -> Result<SeenGuest, ReportError> {
    let sections = Sections::read(body)?;
    let online = sections
        .set("cpu/online")
        .filter(|online| !online.is_empty());
    let online = online.ok_or(ReportError::NoCpus)?;
    let mut seen = SeenGuest::new(Source::Guest, online);
    seen.present = sections.set("cpu/present");
    seen.possible = sections.set("cpu/possible");
    seen.slots = sections.number("slots");
    seen.kernel = sections.text("kernel").map(str::to_owned);
    seen.command_line = sections.text("cmdline").map(str::to_owned);
    seen.cpu_model = sections
        .text("cpuinfo")
        .and_then(|text| value_after(text, "model name"))
        .map(str::to_owned);
    seen.usable_mib = sections.text("meminfo").and_then(kib_after_total);
    seen.cpus = read_cpus(&sections, &seen.online);
    seen.caches = read_caches(&sections, &seen.online);
    seen.nodes = read_nodes(&sections);
    seen.devices = read_devices(&sections);
    seen.tools = sections.tools();
    Ok(seen)
}

/// The sections of a body, sorted by name for look-ups.
struct Sections<'a> {
    by_name: Vec<(&'a str, &'a str)>,
}

impl<'a> Sections<'a> {
    fn read(mut body: &'a str) -> Result<Self, ReportError> {
        let mut by_name = Vec::new();
        while !body.is_empty() {
            let (line, rest) = body.split_once('\n').ok_or(ReportError::Garbled)?;
            let (length, name) = line
                .strip_prefix('@')
                .and_then(|line| line.split_once(' '))
                .ok_or(ReportError::Garbled)?;
            let length: usize = length.parse().map_err(|_| ReportError::Garbled)?;
            let text = rest.get(..length).ok_or(ReportError::Garbled)?;
            body = rest[length..]
                .strip_prefix('\n')
                .ok_or(ReportError::Garbled)?;
            by_name.push((name, text));
        }
        by_name.sort_unstable();
        Ok(Self { by_name })
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        let at = self
            .by_name
            .binary_search_by_key(&name, |&(name, _)| name)
            .ok()?;
        Some(self.by_name[at].1)
    }

    fn set(&self, name: &str) -> Option<CpuSet> {
        read_set(self.text(name)?)
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.trim().parse().ok()
    }

    /// Sections whose name starts with a prefix: the rest of the name, and the text.
    fn under<'s>(&'s self, prefix: &'s str) -> impl Iterator<Item = (&'a str, &'a str)> + 's {
        let first = self.by_name.partition_point(|&(name, _)| name < prefix);
        self.by_name[first..]
            .iter()
            .map_while(move |&(name, text)| Some((name.strip_prefix(prefix)?, text)))
    }

    /// Tool outputs, by name.
    fn tools(&self) -> Vec<ToolOutput> {
        self.under("tool/")
            .map(|(command, text)| ToolOutput {
                command: command.to_owned(),
                text: text.to_owned(),
            })
            .collect()
    }
}

fn read_cpus(sections: &Sections, online: &CpuSet) -> Vec<SeenCpu> {
    let read = |id| {
        let topology = |file| format!("cpu{id}/topology/{file}");
        SeenCpu {
            id,
            package: sections.number(&topology("physical_package_id")),
            die: sections.number(&topology("die_id")),
            cluster: sections.number(&topology("cluster_id")),
            core: sections.number(&topology("core_id")),
            siblings: sections.set(&topology("thread_siblings_list")),
        }
    };
    online.iter().map(read).collect()
}

/// Each cache once, by level, kind and first CPU. Whether two CPUs share one is said by `shared_cpu_list` alone: `id` is
/// wrong on AMD models under emulation.
fn read_caches(sections: &Sections, online: &CpuSet) -> Option<Vec<Cache>> {
    let mut caches: Vec<Cache> = Vec::new();
    for cpu in online.iter() {
        let prefix = format!("cpu{cpu}/cache/");
        let levels = sections
            .under(&prefix)
            .filter_map(|(name, level)| Some((name.strip_suffix("/level")?, level)));
        for (index, level) in levels.take(CACHES_MAX) {
            let text = |file: &str| sections.text(&format!("{prefix}{index}/{file}"));
            let Ok(level) = level.parse() else { continue };
            let kind = text("type").unwrap_or_default();
            let cpus = text("shared_cpu_list").and_then(read_set);
            caches.push(Cache {
                level,
                kind: kind.chars().next().unwrap_or('u').to_ascii_lowercase(),
                size_bytes: text("size").and_then(super::read_size).unwrap_or(0),
                cpus: cpus.unwrap_or_else(|| CpuSet::from_iter([cpu])),
            });
        }
    }
    super::sort_caches(&mut caches);
    (!caches.is_empty()).then_some(caches)
}

fn read_nodes(sections: &Sections) -> Option<Vec<SeenNode>> {
    let mut nodes: Vec<SeenNode> = sections
        .under("node")
        .filter_map(|(name, cpus)| {
            let id: u32 = name.strip_suffix("/cpulist")?.parse().ok()?;
            if id >= MAX_GUEST_NODES {
                return None;
            }
            let distances = sections.text(&format!("node{id}/distance"));
            let distances = distances.and_then(|text| {
                let numbers = text.split_whitespace().map(|word| word.parse().ok());
                numbers.collect::<Option<Vec<u32>>>()
            });
            Some(SeenNode {
                id,
                cpus: read_set(cpus)?,
                present_mib: sections
                    .text("zoneinfo")
                    .and_then(|text| present_mib(text, id)),
                usable_mib: sections
                    .text(&format!("node{id}/meminfo"))
                    .and_then(kib_after_total),
                distances,
            })
        })
        .collect();
    nodes.sort_by_key(|node| node.id);
    (!nodes.is_empty()).then_some(nodes)
}

/// Sum of a node's present pages (4 KiB on x86) in MiB, rounded to the nearest. Zones come as `Node 0, zone DMA` with a
/// `present 3998` line after it.
fn present_mib(zoneinfo: &str, node: u32) -> Option<u64> {
    let mut pages: Option<u64> = None;
    let mut in_node = false;
    for line in zoneinfo.lines() {
        if let Some(rest) = line.strip_prefix("Node ") {
            in_node = rest
                .split(',')
                .next()
                .is_some_and(|id| id.parse() == Ok(node));
        } else if let Some(count) = line.strip_prefix("present").filter(|_| in_node) {
            let count: u64 = count.trim().parse().ok()?;
            pages = Some(pages.unwrap_or(0).saturating_add(count));
        }
    }
    pages.map(|pages| pages.saturating_add(128) / 256)
}

fn read_devices(sections: &Sections) -> Vec<Device> {
    sections
        .under("pci/")
        .filter_map(|(name, class)| {
            let address = name.strip_suffix("/class")?;
            let hex = |file: &str| {
                let text = sections.text(&format!("pci/{address}/{file}"))?;
                u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
            };
            Some(Device {
                address: address.to_owned(),
                class: u32::from_str_radix(class.strip_prefix("0x")?, 16).ok()?,
                vendor: hex("vendor").unwrap_or(0),
                device: hex("device").unwrap_or(0),
                // The kernel writes -1 for "not known", which no u32 is.
                node: sections.number(&format!("pci/{address}/numa_node")),
            })
        })
        .collect()
}

/// The value of a `name : value` line.
fn value_after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// MiB of a `MemTotal: 12345 kB` line, with or without `Node 0` before it.
fn kib_after_total(text: &str) -> Option<u64> {
    let (_, value) = text.split_once("MemTotal:")?;
    let kib: u64 = value.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024)
}
