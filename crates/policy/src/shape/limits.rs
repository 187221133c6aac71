//! Licence and guest limits: how many of a VM's vCPUs its software will use, given the sockets it sees.
//!
//! A limit of "the lesser of 4 sockets or 24 cores" means that a VM of eight one-core sockets runs its database on four
//! vCPUs, and the same VM as one eight-core socket on all eight (vSphere 8.0 Virtual Topology study, 2025).

mod guest_os;

use model::{Finding, GuestTopology, Level};

pub(crate) use guest_os::GuestOs;

/// What an edition or a guest operating system uses at most. `None` means no limit, or none known.
#[derive(Debug, PartialEq, Eq)]
pub struct Limit {
    /// Name on the command line.
    pub name: &'static str,
    /// Other names for the same limit.
    pub aliases: &'static [&'static str],
    /// The product, for a person.
    pub title: &'static str,
    /// Processor sockets.
    pub max_sockets: Option<u32>,
    /// Cores; in a VM each logical processor counts as one (SQL Server, compute capacity limits by edition).
    pub max_cores: Option<u32>,
    /// Logical processors, counted per database or system.
    pub max_threads: Option<u32>,
    /// Memory that the product uses, in MiB.
    pub memory_mib: Option<u64>,
    /// Where the figures come from.
    pub source: &'static str,
}

const SQL: &str = "Microsoft, compute capacity limits by edition of SQL Server";
const VMWARE: &str =
    "guest descriptors in the VM option dumps of ESXi (hardware versions 10 to 22)";
const MICROSOFT: &str = "Microsoft's licence terms, as commonly reported";

const NO_LIMIT: Limit = Limit {
    name: "",
    aliases: &[],
    title: "",
    max_sockets: None,
    max_cores: None,
    max_threads: None,
    memory_mib: None,
    source: VMWARE,
};

/// An edition of SQL Server.
const fn sql(name: &'static str, title: &'static str, sockets: u32, cores: u32) -> Limit {
    Limit {
        name,
        title,
        max_sockets: Some(sockets),
        max_cores: Some(cores),
        source: SQL,
        ..NO_LIMIT
    }
}

/// A guest operating system that uses so many sockets.
const fn guest(name: &'static str, title: &'static str, sockets: u32) -> Limit {
    Limit {
        name,
        title,
        max_sockets: Some(sockets),
        ..NO_LIMIT
    }
}

static LIMITS: [Limit; 17] = [
    Limit {
        aliases: &[
            "sql-standard",
            "sql-standard-2016",
            "sql-standard-2017",
            "sql-standard-2019",
        ],
        memory_mib: Some(128 << 10),
        ..sql(
            "sql-standard-2022",
            "SQL Server Standard 2016 to 2022",
            4,
            24,
        )
    },
    Limit {
        memory_mib: Some(256 << 10),
        ..sql("sql-standard-2025", "SQL Server Standard 2025", 4, 32)
    },
    Limit {
        aliases: &["sql-standard-2012"],
        ..sql(
            "sql-standard-2014",
            "SQL Server Standard 2012 and 2014",
            4,
            16,
        )
    },
    sql("sql-web", "SQL Server Web", 4, 16),
    sql("sql-express", "SQL Server Express", 1, 4),
    Limit {
        name: "sql-enterprise-cal",
        title: "SQL Server Enterprise with Server/CAL licences",
        max_cores: Some(20),
        source: SQL,
        ..NO_LIMIT
    },
    // The edition's socket limit is about the physical server, not about what the VM shows.
    Limit {
        name: "oracle-se2",
        title: "Oracle Database Standard Edition 2",
        max_threads: Some(16),
        source: "AWS, licensing of Oracle SE2: at most 16 CPU threads per database",
        ..NO_LIMIT
    },
    guest("windows-7", "Windows 7", 2),
    Limit {
        aliases: &["windows-8.1"],
        ..guest("windows-8", "Windows 8 and 8.1", 2)
    },
    guest("windows-10", "Windows 10", 4),
    guest("windows-11", "Windows 11", 4),
    Limit {
        source: MICROSOFT,
        ..guest("windows-pro", "Windows 10 or 11 Pro", 2)
    },
    Limit {
        source: MICROSOFT,
        ..guest("windows-home", "Windows 10 or 11 Home", 1)
    },
    guest("windows-server", "Windows Server", 64),
    guest(
        "windows-server-2008-standard",
        "Windows Server 2008 Standard",
        4,
    ),
    guest("macos", "macOS", 2),
    guest("linux", "Linux", 128),
];

/// All limits, editions first.
pub fn all() -> &'static [Limit] {
    &LIMITS
}

/// The limit of a name or alias, whatever its case.
pub fn find(name: &str) -> Option<&'static Limit> {
    let is = |known: &&str| known.eq_ignore_ascii_case(name.trim());
    LIMITS
        .iter()
        .find(|limit| is(&limit.name) || limit.aliases.iter().any(is))
}

/// The limit of the guest that a VM file names: VMware's `guestOS`, Proxmox VE's `ostype`, a libosinfo id.
pub fn for_guest_os(name: &str) -> Option<&'static Limit> {
    find(match GuestOs::parse(name)? {
        GuestOs::WindowsClient(7) => "windows-7",
        GuestOs::WindowsClient(8) => "windows-8",
        GuestOs::WindowsClient(10) => "windows-10",
        GuestOs::WindowsClient(_) => "windows-11",
        GuestOs::WindowsServer(_) => "windows-server",
        GuestOs::MacOs(_) => "macos",
        GuestOs::Linux => "linux",
    })
}

/// The smallest socket limit of a set; `None` when none has one.
pub fn max_sockets(limits: &[&Limit]) -> Option<u32> {
    limits.iter().filter_map(|limit| limit.max_sockets).min()
}

/// Present vCPUs that the product will use: those of the first sockets, and no more than it may in all.
pub fn usable_vcpus(limit: &Limit, topology: &GuestTopology) -> u32 {
    let in_sockets = limit.max_sockets.map_or(u32::MAX, |sockets| {
        sockets.saturating_mul(topology.slots_in(Level::Socket))
    });
    topology.vcpus.min(in_sockets).min(max_vcpus(limit))
}

/// What is lost to each limit: vCPUs that stay idle, memory that is not used. Silent where nothing is lost.
pub fn findings(limits: &[&'static Limit], topology: &GuestTopology) -> Vec<Finding> {
    let idle = limits
        .iter()
        .filter_map(|limit| idle_vcpus(limit, topology));
    let memory = limits
        .iter()
        .filter_map(|limit| idle_memory(limit, topology));
    idle.chain(memory).collect()
}

/// vCPUs that the product uses whatever the sockets.
fn max_vcpus(limit: &Limit) -> u32 {
    let [cores, threads] = [limit.max_cores, limit.max_threads].map(|max| max.unwrap_or(u32::MAX));
    cores.min(threads)
}

fn idle_vcpus(limit: &Limit, topology: &GuestTopology) -> Option<Finding> {
    let (vcpus, usable) = (topology.vcpus, usable_vcpus(limit, topology));
    if usable >= vcpus {
        return None;
    }
    let reachable = vcpus.min(max_vcpus(limit));
    let advice = if usable < reachable {
        let sockets = limit.max_sockets.unwrap_or(1).max(1);
        let cores = cores_per_socket_for(vcpus, sockets);
        let rest = if reachable < vcpus {
            format!(", and then {reachable} are used")
        } else {
            " to use all".to_owned()
        };
        format!(
            "it sees {} sockets and uses {sockets}; give it {cores} or more cores per socket{rest}",
            topology.sockets
        )
    } else {
        format!("it uses at most {reachable} whatever the shape; give the VM {reachable}")
    };
    let text = format!(
        "{} uses {usable} of {vcpus} vCPUs: {advice} ({})",
        limit.title, limit.source
    );
    Some(Finding::warning("licence-limit", text))
}

/// The fewest cores per socket that divide the vCPUs and keep within the sockets.
fn cores_per_socket_for(vcpus: u32, sockets: u32) -> u32 {
    (vcpus.div_ceil(sockets)..=vcpus)
        .find(|&cores| cores > 0 && vcpus.is_multiple_of(cores))
        .unwrap_or(vcpus)
}

fn idle_memory(limit: &Limit, topology: &GuestTopology) -> Option<Finding> {
    let (max, memory) = (limit.memory_mib?, topology.memory_mib());
    (memory > max).then(|| {
        let text = format!(
            "{} keeps at most {} GiB in its buffer pool; the VM has {} GiB ({})",
            limit.title,
            max >> 10,
            memory >> 10,
            limit.source
        );
        Finding::info("licence-memory", text)
    })
}

#[cfg(test)]
mod tests;
