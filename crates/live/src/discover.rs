//! Host discovery through hwloc: this system, an XML file (`lstopo host.xml`) or a synthetic text.
//!
//! hwloc knows every machine's quirks; what is left to us is to flatten its tree into [`model::Host`] tables and to add
//! what it does not know (hugepages in use, isolated CPUs).

mod convert;
mod sysfs;
mod xml;

use std::panic::{AssertUnwindSafe, catch_unwind};

use hwlocality::topology::builder::{TopologyBuilder, TypeFilter};
use model::Host;
use model::host::{HostError, Parts};

/// Largest XML text that is read, in bytes. The largest of hwloc's own test machines (1536 CPUs) has 3 MiB.
pub const MAX_XML_BYTES: usize = 64 << 20;

/// Most CPUs a synthetic text may describe: four times the largest machine Linux supports on x86 (`NR_CPUS` 8192
/// with `MAXSMP`), and little enough that hwloc answers in a second.
pub const MAX_SYNTHETIC_CPUS: u64 = 32_768;

/// Why no host could be made.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// The XML is larger than [`MAX_XML_BYTES`].
    #[error("the XML has {bytes} bytes; at most {MAX_XML_BYTES} are read")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The text is no XML, or not hwloc's.
    #[error("this is no hwloc XML: {problem}; write one with `lstopo host.xml` on the machine")]
    Xml {
        /// What is wrong.
        problem: String,
    },
    /// hwloc refuses the synthetic text.
    #[error(
        "hwloc does not accept {text:?} as a synthetic machine: {problem}; write one as \"pack:2 numa:1 l3:4 core:4 pu:2\""
    )]
    Synthetic {
        /// The text.
        text: String,
        /// What is wrong.
        problem: String,
    },
    /// hwloc failed on this system.
    #[error("hwloc cannot read this system: {problem}")]
    System {
        /// What hwloc says.
        problem: String,
    },
    /// The parts contradict each other.
    #[error("the description contradicts itself: {0}")]
    Host(#[from] HostError),
}

/// The machine we run on, as far as this process may see it.
///
/// # Errors
/// hwloc cannot read `/sys`, or what it reads contradicts itself.
pub fn this_system() -> Result<Host, DiscoverError> {
    let system = |problem: String| DiscoverError::System { problem };
    let mut parts = load("live", Ok).map_err(system)?;
    sysfs::complete(&mut parts);
    Ok(Host::from_parts(parts)?)
}

/// The machine an hwloc XML text describes.
///
/// # Errors
/// The text is too large, is no hwloc XML, or contradicts itself.
pub fn from_xml(name: &str, text: &str) -> Result<Host, DiscoverError> {
    let text = xml::checked(text)?;
    let refuse = |problem: String| DiscoverError::Xml { problem };
    let parts = load(name, |builder| {
        builder.from_xml(&text).map_err(|error| error.to_string())
    })
    .map_err(refuse)?;
    Ok(Host::from_parts(parts)?)
}

/// The machine an hwloc synthetic text describes, e.g. `pack:2 numa:2 l3:4 core:4 pu:2`. Memory is unknown (0) unless
/// the text says `memory=`: hwloc would make up 1 GiB per node.
///
/// # Errors
/// hwloc does not accept the text, or it describes more than [`MAX_SYNTHETIC_CPUS`] CPUs.
pub fn from_synthetic(text: &str) -> Result<Host, DiscoverError> {
    let refuse = |problem: String| DiscoverError::Synthetic {
        text: text.chars().take(200).collect(),
        problem,
    };
    check_synthetic(text).map_err(refuse)?;
    let mut parts = load(text, |builder| {
        builder
            .from_synthetic(text)
            .map_err(|error| error.to_string())
    })
    .map_err(refuse)?;
    if !text.contains("memory=") {
        for node in &mut parts.nodes {
            node.memory_mib = 0;
            node.hugepages.clear();
        }
    }
    Ok(Host::from_parts(parts)?)
}

/// The parts of a machine with every cache and the important devices. The bindings assert what they expect of hwloc; a
/// description odd enough to break such an assertion is an error, not the end of the program.
fn load(
    name: &str,
    source: impl FnOnce(TopologyBuilder) -> Result<TopologyBuilder, String>,
) -> Result<Parts, String> {
    let build = || {
        let builder = source(TopologyBuilder::new())?;
        let builder = builder
            .with_cpu_icache_type_filter(TypeFilter::KeepAll)
            .map_err(|error| error.to_string())?
            .with_io_type_filter(TypeFilter::KeepImportant)
            .map_err(|error| error.to_string())?;
        let topology = builder.build().map_err(|error| error.to_string())?;
        Ok(convert::parts(name, &topology))
    };
    catch_unwind(AssertUnwindSafe(build))
        .unwrap_or_else(|_| Err("hwloc gave an answer its bindings refuse".into()))
}

/// Refuses what would take hwloc minutes or gigabytes: counts whose product is beyond any machine.
fn check_synthetic(text: &str) -> Result<(), String> {
    let mut cpus = 1u64;
    for (level, count) in text
        .split_whitespace()
        .filter_map(|level| level.split_once(':'))
    {
        let digits: String = count.chars().take_while(char::is_ascii_digit).collect();
        let count = digits
            .parse::<u64>()
            .map_err(|_| format!("{level}:{count} has no usable count"))?;
        if count == 0 {
            return Err(format!("{level}:0 has no members"));
        }
        cpus = cpus.saturating_mul(count);
    }
    if cpus > MAX_SYNTHETIC_CPUS {
        return Err(format!(
            "it describes {cpus} CPUs, at most {MAX_SYNTHETIC_CPUS} are read"
        ));
    }
    Ok(())
}
