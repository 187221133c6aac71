//! Host files: a machine described in TOML, as a person, a preset (`machines/*.toml`) or a probe writes it.
//!
//! ```
//! let host = model::host_file::read("small", "
//!     [geometry]
//!     packages = 2
//!     llcs_per_package = 2
//!     cores_per_llc = 4
//!     llc_mib = 16
//! ").unwrap();
//! assert_eq!((host.cpus.len(), host.llcs.len(), host.nodes.len()), (16, 4, 2));
//! let again = model::host_file::read("small", &model::host_file::write(&host)).unwrap();
//! assert_eq!(again, host);
//! ```
//!
//! A regular machine is stated in numbers (`[geometry]`, `[distances]`, `[latency_ns]`), any machine in CPU sets
//! (`[sets]`, `[[node]]`, `[[cache]]`, matrices). Where a file has both, the sets win. `[bandwidth_gbs]` is the same in
//! both. `docs/host-file.md` explains every key to the person who writes one.
//!
//! Unknown keys and numbers out of range are errors, found before memory is taken for what they describe.

mod bandwidth;
mod explicit;
mod figures;
mod regular;
mod schema;
mod write;

use std::ops::Range;

use crate::host::{Host, Parts, Processor, Vendor};
use schema::{File, ProcessorTable, VendorName};

pub use schema::{Evidence, Source};
pub use write::write;

/// Largest host file, in bytes: a matrix of [`MAX_LLCS`] x [`MAX_LLCS`] with six characters an entry, and room.
pub const MAX_FILE_BYTES: usize = 8 << 20;
/// Most CPUs a host file may describe, and their highest number plus one: twice what Linux supports (`NR_CPUS`, 8,192).
pub const MAX_HOST_CPUS: u32 = 16_384;
/// Most last-level caches: 16 CPUs each on the largest machine.
pub const MAX_LLCS: u32 = 1024;
/// Most NUMA nodes: Linux' limit.
pub const MAX_NODES: u32 = 1024;

/// Why a text is no host file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HostFileError {
    /// The key, what was found, what to do.
    pub message: String,
    /// Where, in bytes of the text.
    pub span: Range<usize>,
}

/// A host with what its file says about the figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// The host.
    pub host: Host,
    /// Nodes per package that the firmware offers, where the file lists them.
    pub node_options: Vec<u32>,
    /// Where the memory size comes from; empty where the file does not say.
    pub memory_evidence: String,
    /// The latencies as stated.
    pub figures: Vec<Figure>,
    /// Where the rest comes from.
    pub sources: Vec<Source>,
}

/// A latency as a file states it.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its key, such as `same_llc`.
    pub key: &'static str,
    /// Nanoseconds.
    pub ns: f64,
    /// Lowest and highest, where known.
    pub range: Option<[f64; 2]>,
    /// How well it is known.
    pub evidence: Option<Evidence>,
    /// Where it was found; empty where the file does not say.
    pub source: String,
}

/// Reads a host file. The host gets the name; messages about a file's place are the caller's.
///
/// # Errors
/// No TOML, unknown keys, numbers out of range, CPU sets that contradict each other, matrices of the wrong size.
pub fn read(name: &str, text: &str) -> Result<Host, HostFileError> {
    describe(name, text).map(|description| description.host)
}

/// Reads a host file with the evidence for its figures.
///
/// # Errors
/// As [`read`].
pub fn describe(name: &str, text: &str) -> Result<Description, HostFileError> {
    if text.len() > MAX_FILE_BYTES {
        let message = format!(
            "the file has {} bytes; a host file has at most {MAX_FILE_BYTES}",
            text.len()
        );
        return Err(HostFileError::new(message, 0..0));
    }
    let file: File = toml::from_str(text).map_err(|error| syntax_error(text, &error))?;
    let mut parts = match &file.geometry {
        Some(geometry) => regular::parts(geometry)?,
        None => Parts::default(),
    };
    name.clone_into(&mut parts.name);
    parts.processor = file.processor.as_ref().map(processor).unwrap_or_default();
    explicit::apply(&mut parts, &file)?;
    let mut host = Host::from_parts(parts).map_err(|error| {
        let span = explicit::span(&file, &error).unwrap_or(0..0);
        HostFileError::new(error.to_string(), span)
    })?;
    limit(&file, &host)?;
    host.distances = figures::distances(&file, &host)?;
    host.latency = figures::latency(&file, &host)?;
    host.bandwidth = bandwidth::read(&file)?;
    Ok(Description {
        host,
        node_options: regular::node_options(file.geometry.as_ref())?,
        memory_evidence: file
            .geometry
            .and_then(|geometry| geometry.into_inner().memory_evidence)
            .unwrap_or_default(),
        figures: file
            .latency_ns
            .as_ref()
            .map(|table| figures::stated(table.get_ref()))
            .unwrap_or_default(),
        sources: file.source.unwrap_or_default(),
    })
}

impl HostFileError {
    fn new(message: impl Into<String>, span: Range<usize>) -> Self {
        Self {
            message: message.into(),
            span,
        }
    }
}

/// An error of the TOML reader, with the key of its line where it does not name one.
fn syntax_error(text: &str, error: &toml::de::Error) -> HostFileError {
    let span = error.span().unwrap_or(0..0);
    let start = text
        .get(..span.start)
        .and_then(|before| before.rfind('\n'))
        .map_or(0, |at| at + 1);
    let line = text
        .get(start..)
        .and_then(|rest| rest.lines().next())
        .unwrap_or_default();
    let key = line
        .split_once('=')
        .map(|(key, _)| key.trim())
        .unwrap_or_default();
    let message = error.message();
    let message = if key.is_empty() || message.contains(&format!("`{key}`")) {
        format!("{message}; docs/host-file.md explains every key")
    } else {
        format!("`{key}`: {message}; docs/host-file.md explains every key")
    };
    HostFileError::new(message, span)
}

fn processor(table: &ProcessorTable) -> Processor {
    Processor {
        vendor: match table.vendor {
            Some(VendorName::Amd) => Vendor::Amd,
            Some(VendorName::Intel) => Vendor::Intel,
            Some(VendorName::Other) | None => Vendor::Other,
        },
        model: table.model.clone().unwrap_or_default(),
        family: table.family,
        model_number: table.model_number,
    }
}

/// What a matrix needs memory for, by the square.
fn limit(file: &File, host: &Host) -> Result<(), HostFileError> {
    let limits = [
        ("last-level caches", host.llcs.len(), MAX_LLCS),
        ("nodes", host.nodes.len(), MAX_NODES),
    ];
    for (what, found, most) in limits {
        if found > most as usize {
            let message = format!("{found} {what}; a host file has at most {most}");
            let first_cache = file.cache.iter().flatten().map(toml::Spanned::span).next();
            return Err(HostFileError::new(message, first_cache.unwrap_or(0..0)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
