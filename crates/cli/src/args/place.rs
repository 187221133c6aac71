//! What can be typed after `vtopo place`.

use std::path::PathBuf;

use clap::Args;

use super::{FirmwareArgs, Memory, OutputArgs};

#[derive(Debug, Args)]
pub(crate) struct PlaceCommand {
    /// VM files: .vmx, libvirt domain XML, Proxmox VE .conf or a QEMU command line
    #[arg(value_name = "VM")]
    pub(crate) files: Vec<PathBuf>,
    /// VMs in one line: `[NAME=]VCPUSxMEMORY[*COUNT][@KEY=VALUE,FLAG,…]`; keys: docs/scenario.md
    #[arg(long = "vm", value_name = "VMS")]
    pub(crate) vms: Vec<String>,
    /// A scenario file (TOML) with VMs; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) scenario: Option<PathBuf>,
    /// The host, or several as HOST*COUNT,HOST*COUNT
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// Who places; several are compared side by side
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) policy: Vec<String>,
    /// CPUs that are not for VMs, e.g. 0-3
    #[arg(long, value_name = "CPUS")]
    pub(crate) reserve: Option<String>,
    /// Memory of each host that is not for VMs, e.g. 4G; every node gives its part
    #[arg(long, value_name = "SIZE")]
    pub(crate) reserve_memory: Option<Memory>,
    /// Print why every VM is where it is, and what it costs
    #[arg(long)]
    pub(crate) explain: bool,
    /// Write a picture of who sits where
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Write the figures by policy and host as CSV; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// How many more VMs of this kind fit, e.g. 8x64G
    #[arg(long, value_name = "VM")]
    pub(crate) room: Option<String>,
    /// What happens when any one host fails
    #[arg(long)]
    pub(crate) failover: bool,
    #[command(flatten)]
    pub(crate) firmware: FirmwareArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
