//! Traces people have: which VMs there were, how large, from when to when, and how busy where that is known. Readers take
//! text, line by line, and give one plain type; a file of millions of lines need not be in memory.
//!
//! [`read`] takes a whole text. [`Reading`] takes one line after the other, and several files one after the other.

use std::collections::BTreeMap;

use model::Finding;
use model::finding::Severity;
use thiserror::Error;

mod azure;
mod domstats;
mod huawei;
mod number;
mod planetlab;
mod recognise;
mod swf;
pub mod synthetic;
mod table;

pub use recognise::recognise;

use crate::time::{Nanos, S};

/// No trace is longer: a hundred years. Ours; it keeps every time far from overflow.
pub const LONGEST_TRACE_NS: i64 = 100 * 365 * 86_400 * S.cast_signed();
/// VMs of a trace; ours. The Azure trace of 2020, the largest of these formats, has about 5.5 million.
pub const MAX_VMS: usize = 8_000_000;
/// Samples of utilisation over all VMs; ours. 60,000 VMs for a day at the five minutes of `PlanetLab`.
pub const MAX_SAMPLES: usize = 20_000_000;
/// Bytes of a line; ours. Lines of these formats have some hundred.
pub const MAX_LINE_BYTES: usize = 65_536;

/// VMs that come and go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    /// By the time they come; those of one moment in the order of the text.
    pub vms: Vec<TraceVm>,
    /// What was left out or assumed.
    pub findings: Vec<Finding>,
}

/// A VM of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceVm {
    /// Its name or number in the text; a machine that comes back has the same name twice.
    pub name: String,
    /// When it comes, in nanoseconds; below 0 is before the trace began.
    pub on_ns: i64,
    /// When it goes, not before it comes; `None` is after the trace's end.
    pub off_ns: Option<i64>,
    /// Thousandths of a CPU.
    pub milli_cpus: u32,
    /// Memory in MiB; 0 is not known.
    pub memory_mib: u32,
    /// How busy it was, by time; empty is not known.
    pub utilisation: Vec<Sample>,
}

/// How busy a VM was from a moment on, until the next sample or its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// From when on.
    pub at_ns: i64,
    /// Share of its CPUs' time that it ran, 0 to 1000.
    pub busy_permille: u32,
    /// Share of its CPUs' time that it was ready and did not run, 0 to 1000; `None` is not known.
    pub ready_permille: Option<u32>,
}

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Both tables of the Azure packing trace of 2020 as CSV, one after the other, also in the columns that `DSLab` uses.
    AzurePacking,
    /// `vmid,cpu,memory,time,type` of Huawei-East-1.
    Huawei,
    /// Standard Workload Format of the Parallel Workloads Archive.
    Swf,
    /// Output of `virsh domstats`, several times.
    Domstats,
    /// `CloudSim`'s `PlanetLab` files: one percentage on a line.
    PlanetLab,
}

/// What a text does not say. The defaults that are sizes are ours, and where one is used a finding says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Name of the VM where a text holds one VM and no name ([`Kind::PlanetLab`]).
    pub name: String,
    /// What a whole machine is, where sizes are fractions of it ([`Kind::AzurePacking`]).
    pub machine: Size,
    /// `machineId` whose fractions count ([`Kind::AzurePacking`]); `None` is the one on which most types are defined.
    pub machine_id: Option<String>,
    /// Size of a VM where the text has none ([`Kind::PlanetLab`]).
    pub vm: Size,
    /// Time between samples where the text has no times: 300 s if `None` ([`Kind::PlanetLab`]), and needed for several dumps
    /// without `# at` lines ([`Kind::Domstats`]).
    pub interval_ns: Option<Nanos>,
}

/// A number of CPUs and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Thousandths of a CPU.
    pub milli_cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
}

/// Why a text is no trace.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {message}")]
pub struct TraceError {
    /// What was found, what was expected.
    pub message: String,
    /// From 1; the last line where something is missing at the end.
    pub line: u64,
}

/// A trace that is being read.
#[derive(Debug)]
pub struct Reading {
    reader: Reader,
    draft: Draft,
}

/// Reads a whole text.
///
/// # Errors
///
/// The first line that is not of this format, with what is wrong; or more VMs, samples or bytes in a line than allowed.
pub fn read(text: &str, kind: Kind, options: &Options) -> Result<Trace, TraceError> {
    let mut reading = Reading::new(kind, options);
    for line in text.lines() {
        reading.line(line)?;
    }
    reading.end()
}

impl Kind {
    /// All formats.
    pub const ALL: [Self; 5] = [
        Self::AzurePacking,
        Self::Huawei,
        Self::Swf,
        Self::Domstats,
        Self::PlanetLab,
    ];

    /// The name people type.
    pub fn name(self) -> &'static str {
        match self {
            Self::AzurePacking => "azure-packing",
            Self::Huawei => "huawei",
            Self::Swf => "swf",
            Self::Domstats => "domstats",
            Self::PlanetLab => "planetlab",
        }
    }

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl Default for Options {
    fn default() -> Self {
        // Both sizes are ours: a two-socket server of 2020, and the smallest VM clouds rent.
        Self {
            name: "vm1".to_owned(),
            machine: Size {
                milli_cpus: 64_000,
                memory_mib: 262_144,
            },
            machine_id: None,
            vm: Size {
                milli_cpus: 1_000,
                memory_mib: 1_024,
            },
            interval_ns: None,
        }
    }
}

impl Reading {
    /// Before the first line.
    pub fn new(kind: Kind, options: &Options) -> Self {
        let reader = match kind {
            Kind::AzurePacking => Reader::Azure(Box::new(azure::Reader::new(options))),
            Kind::Huawei => Reader::Huawei(Box::default()),
            Kind::Swf => Reader::Swf,
            Kind::Domstats => Reader::Domstats(Box::new(domstats::Reader::new(options))),
            Kind::PlanetLab => Reader::PlanetLab(Box::new(planetlab::Reader::new(options))),
        };
        Self {
            reader,
            draft: Draft::default(),
        }
    }

    /// From here on the lines are another file's: of the next VM ([`Kind::PlanetLab`]), the next dump ([`Kind::Domstats`]),
    /// or more of the same. Lines are counted from 1 again.
    pub fn file(&mut self, name: &str) -> Result<(), TraceError> {
        let done = match &mut self.reader {
            Reader::PlanetLab(reader) => reader.begin(name, &mut self.draft),
            Reader::Domstats(reader) => reader.begin_file(&mut self.draft),
            Reader::Azure(reader) => {
                reader.begin_file();
                Ok(())
            }
            Reader::Huawei(reader) => {
                reader.begin_file();
                Ok(())
            }
            Reader::Swf => Ok(()),
        };
        done.map_err(|message| self.draft.error(message))?;
        self.draft.line = 0;
        Ok(())
    }

    /// The next line, without its end.
    pub fn line(&mut self, line: &str) -> Result<(), TraceError> {
        self.draft.line += 1;
        let done = if line.len() > MAX_LINE_BYTES {
            Err(format!(
                "the line has {} bytes, at most {MAX_LINE_BYTES} are read",
                line.len()
            ))
        } else {
            // Some exports begin with a byte order mark.
            let line = line.trim_start_matches('\u{feff}');
            match &mut self.reader {
                Reader::Azure(reader) => reader.line(line, &mut self.draft),
                Reader::Huawei(reader) => reader.line(line, &mut self.draft),
                Reader::Swf => swf::line(line, &mut self.draft),
                Reader::Domstats(reader) => reader.line(line, &mut self.draft),
                Reader::PlanetLab(reader) => reader.line(line, &mut self.draft),
            }
        };
        done.map_err(|message| self.draft.error(message))
    }

    /// After the last line.
    pub fn end(mut self) -> Result<Trace, TraceError> {
        let draft = &mut self.draft;
        let done = match self.reader {
            Reader::Azure(reader) => reader.end(draft),
            Reader::Huawei(reader) => reader.end(draft),
            Reader::Swf => Ok(()),
            Reader::Domstats(reader) => reader.end(draft),
            Reader::PlanetLab(mut reader) => reader.end(draft),
        };
        done.map_err(|message| draft.error(message))?;
        if draft.vms.is_empty() {
            return Err(draft.error("no VM was found up to the last line".to_owned()));
        }
        Ok(self.draft.finish())
    }
}

#[derive(Debug)]
enum Reader {
    Azure(Box<azure::Reader>),
    Huawei(Box<huawei::Reader>),
    Swf,
    Domstats(Box<domstats::Reader>),
    PlanetLab(Box<planetlab::Reader>),
}

/// What a line is wrong about; [`Draft::error`] adds where.
type Done = Result<(), String>;

/// The trace so far: what the readers share.
#[derive(Debug, Default)]
struct Draft {
    /// The line that is read, from 1.
    line: u64,
    vms: Vec<TraceVm>,
    samples: usize,
    notes: BTreeMap<&'static str, Note>,
}

/// A finding that may be about many lines.
#[derive(Debug)]
struct Note {
    severity: Severity,
    text: String,
    count: u64,
    first_line: u64,
}

impl Draft {
    fn push(&mut self, vm: TraceVm) -> Result<usize, String> {
        if self.vms.len() == MAX_VMS {
            return Err(format!(
                "there are more than {MAX_VMS} VMs: cut the trace into parts"
            ));
        }
        self.vms.push(vm);
        Ok(self.vms.len() - 1)
    }

    fn sample(&mut self, vm: usize, sample: Sample) -> Done {
        if self.samples == MAX_SAMPLES {
            return Err(format!(
                "there are more than {MAX_SAMPLES} samples: cut the trace into parts"
            ));
        }
        self.samples += 1;
        self.vms[vm].utilisation.push(sample);
        Ok(())
    }

    /// The same is said once, with how many lines it is about.
    fn note(&mut self, code: &'static str, severity: Severity, text: impl FnOnce() -> String) {
        let note = self.notes.entry(code).or_insert_with(|| Note {
            severity,
            text: text(),
            count: 0,
            first_line: self.line,
        });
        note.count += 1;
    }

    fn error(&self, message: String) -> TraceError {
        TraceError {
            message,
            line: self.line.max(1),
        }
    }

    fn finish(mut self) -> Trace {
        self.vms.sort_by_key(|vm| vm.on_ns);
        let finding = |(code, note): (&'static str, Note)| Finding {
            code,
            severity: note.severity,
            text: match note.count {
                1 => format!("{} (line {})", note.text, note.first_line),
                count => format!(
                    "{} ({count} times, first in line {})",
                    note.text, note.first_line
                ),
            },
        };
        Trace {
            findings: self.notes.into_iter().map(finding).collect(),
            vms: self.vms,
        }
    }
}

#[cfg(test)]
mod tests;
