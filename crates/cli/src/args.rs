//! What can be typed.

mod place;
mod simulate;
mod values;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use model::formats::Format;
use policy::shape::{Goal, Release, Rule};

pub(crate) use place::PlaceCommand;
pub(crate) use simulate::{SimulateCommand, TraceFormatArg};
pub(crate) use values::{EsxiKey, HugepageSize, Memory, OnOff};

const AFTER: &str = "HOST is `live` (this machine), an hwloc XML file (`lstopo host.xml`), a vtopo host file (TOML), \
a preset such as `epyc-7702-2s` (list them with `vtopo host --list`), or an hwloc synthetic text such as \
\"pack:2 numa:2 l3:4 core:4 pu:2\".\n\nExit code: 0 done, 1 the answer is no, 2 wrong use or I/O error.";

/// The right virtual topology for every VM: sockets, NUMA nodes and caches that fit the host.
#[derive(Debug, Parser)]
#[command(name = "vtopo", version, after_help = AFTER, max_term_width = 100, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Draw a host: packages, NUMA nodes, caches, cores, distances, and what is odd about it
    #[command(
        after_help = "Examples:\n  vtopo host\n  vtopo host epyc-7702-2s --nps 4 --svg rome.svg\n  vtopo host host.xml --json\n  vtopo host \"pack:2 l3:8 core:4 pu:2\""
    )]
    Host(HostCommand),
    /// Compute the virtual topology that fits a VM on a host
    #[command(
        after_help = "Examples:\n  vtopo shape --vcpus 16 --memory 64G\n  vtopo shape --vcpus 13 --memory 32G --host epyc-7702-2s --explain\n  vtopo shape db1.xml --emit libvirt --output db1.new.xml\n  vtopo shape --vcpus 24 --memory 64G --host opteron-6174-4s --rule esxi-5.5 --cores-per-socket 12"
    )]
    Shape(ShapeCommand),
    /// Boot a real guest with that topology and compare what its kernel sees
    #[command(
        after_help = "Examples:\n  vtopo verify --vcpus 8 --memory 4G --rule flat,auto\n  vtopo verify db1.xml --host epyc-7763-2s\n  vtopo verify --vcpus 8 --memory 16G --guest-report lscpu.json"
    )]
    Verify(VerifyCommand),
    /// Place VMs on a host: which caches and nodes, why, and how good that is
    #[command(
        after_help = "Examples:\n  vtopo place --vm 8x64G*30 --host epyc-7702-2s --policy spread,llc,best\n  vtopo place db1.xml web1.vmx --reserve 0-3 --explain\n  vtopo place --vm db=4x16G*8@cpu=60%,bw=high,dedicated --vm 8x32G*4 --svg who.svg\n  vtopo place --scenario vms.toml --json"
    )]
    Place(PlaceCommand),
    /// Simulate VMs with workloads on a host, or play a trace on many: who is better
    #[command(
        after_help = "Examples:\n  vtopo simulate --example > a.toml\n  vtopo simulate a.toml --policy spread,llc,best --report a.html\n  vtopo simulate a.toml --rule flat,auto --set run.duration=5s --seeds 10\n  vtopo simulate a.toml --policy llc,best --find-max vm.db.count\n  vtopo simulate huawei.csv --host \"epyc-7702-2s*300\"\n\nExit code: 0 done, 1 a limit of [[qos]] is not met or a VM cannot be placed, 2 wrong use or I/O error, 130 stopped by Ctrl-C (what is finished is printed)."
    )]
    Simulate(SimulateCommand),
    /// Convert a VM file between libvirt, QEMU, VMware and Proxmox VE
    #[command(
        after_help = "Examples:\n  vtopo convert db1.vmx --to libvirt\n  vtopo convert 100.conf --to qemu --output run.sh\n  vtopo convert db1.vmx --to libvirt --shape auto --host epyc-7702-2s"
    )]
    Convert(ConvertCommand),
    /// Lint a VM file: misfits with the host, licence and guest limits, contradictions
    #[command(
        after_help = "Examples:\n  vtopo check db1.vmx --host epyc-7702-2s\n  vtopo check 100.conf --licence sql-standard-2022 --strict"
    )]
    Check(CheckCommand),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  vtopo completions bash > /etc/bash_completion.d/vtopo")]
    Completions(CompletionsCommand),
    /// Print the manual page of vtopo or of one command
    #[command(after_help = "Example:\n  vtopo man shape | man -l -")]
    Man(ManCommand),
}

/// How an answer is given.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OutputArgs {
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit with 1 when there is a warning or an error among the findings
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Firmware settings to try on the host.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Firmware what-ifs")]
pub(crate) struct FirmwareArgs {
    /// NUMA nodes per socket (AMD)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4))]
    pub(crate) nps: Option<u32>,
    /// One NUMA node per last-level cache (AMD)
    #[arg(long)]
    pub(crate) ccx_as_numa: bool,
    /// Sub-NUMA clusters per package (Intel)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4))]
    pub(crate) snc: Option<u32>,
    /// Simultaneous multithreading; only `off` changes anything
    #[arg(long, value_name = "on|off")]
    pub(crate) smt: Option<OnOff>,
    /// Interleave memory over all packages: one NUMA node
    #[arg(long)]
    pub(crate) node_interleaving: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HostCommand {
    /// The host
    #[arg(value_name = "HOST", default_value = "live", conflicts_with = "list")]
    pub(crate) host: String,
    /// List the presets
    #[arg(long)]
    pub(crate) list: bool,
    /// Write a picture
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Write the host as a vtopo host file (TOML); `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) toml: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) firmware: FirmwareArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The VM.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "The VM")]
pub(crate) struct VmArgs {
    /// A VM file: .vmx, libvirt domain XML, Proxmox VE .conf or a QEMU command line; `-` is standard input
    #[arg(value_name = "VM")]
    pub(crate) file: Option<PathBuf>,
    /// Number of vCPUs
    #[arg(long, value_name = "N", value_parser = values::vcpus, required_unless_present = "file")]
    pub(crate) vcpus: Option<u32>,
    /// Memory, e.g. 64G or 512M; a plain number is MiB
    #[arg(long, value_name = "SIZE", required_unless_present = "file")]
    pub(crate) memory: Option<Memory>,
    /// Name of the VM
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Guest operating system, e.g. windows-11, linux
    #[arg(long, value_name = "OS")]
    pub(crate) guest_os: Option<String>,
    /// Licences whose limits count, e.g. sql-standard-2022; see docs/licences.md
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) licence: Vec<String>,
    /// Back the memory with hugepages of this size
    #[arg(long, value_name = "2M|1G")]
    pub(crate) hugepages: Option<HugepageSize>,
    /// Pass a host PCI device through, e.g. 0000:41:00.0
    #[arg(long = "device", value_name = "ADDRESS", value_parser = values::pci_address)]
    pub(crate) devices: Vec<String>,
    /// Set a key of a .vmx, e.g. numa.vcpu.preferHT=TRUE (ESXi rules)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) keys: Vec<EsxiKey>,
}

/// Who decides about the shape, and what a person decided already.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "The shape")]
pub(crate) struct RuleArgs {
    /// The VM's virtual hardware version under an ESXi rule; the release's newest when absent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) hw_version: Option<u32>,
    /// What the VM is for
    #[arg(long, value_enum, default_value_t = GoalArg::Throughput)]
    pub(crate) goal: GoalArg,
    /// Cores per virtual socket; 0 is automatic
    #[arg(long, value_name = "N")]
    pub(crate) cores_per_socket: Option<u32>,
    /// Number of vNUMA nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) numa_nodes: Option<u32>,
    /// Threads per core shown to the guest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8))]
    pub(crate) threads_per_core: Option<u32>,
    /// Count threads instead of cores when fitting a node
    #[arg(long)]
    pub(crate) prefer_ht: bool,
    /// vCPUs can be added while the VM runs
    #[arg(long)]
    pub(crate) hot_add: bool,
    /// vCPU slots to reserve for hot-add
    #[arg(long, value_name = "N", value_parser = values::vcpus)]
    pub(crate) max_vcpus: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct ShapeCommand {
    #[command(flatten)]
    pub(crate) vm: VmArgs,
    /// The host it will run on
    #[arg(long, value_name = "HOST", default_value = "live")]
    pub(crate) host: String,
    /// Who decides
    #[arg(long, value_enum, default_value_t = RuleArg::Auto)]
    pub(crate) rule: RuleArg,
    #[command(flatten)]
    pub(crate) decisions: RuleArgs,
    /// Print the reasoning, with the alternatives that lost
    #[arg(long)]
    pub(crate) explain: bool,
    /// Write the VM in this format; a VM file of the same format is edited, other bytes stay
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) emit: Option<FormatArg>,
    /// Where `--emit` writes; standard output when absent
    #[arg(long = "output", short, value_name = "FILE", requires = "emit")]
    pub(crate) output_file: Option<PathBuf>,
    /// Major version of the QEMU that `--emit` writes for
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) qemu: u32,
    #[command(flatten)]
    pub(crate) firmware: FirmwareArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyCommand {
    #[command(flatten)]
    pub(crate) vm: VmArgs,
    /// The host it will run on
    #[arg(long, value_name = "HOST", default_value = "live")]
    pub(crate) host: String,
    /// Who decides; several boot one guest each
    #[arg(long, value_enum, value_delimiter = ',', default_value = "auto")]
    pub(crate) rule: Vec<RuleArg>,
    #[command(flatten)]
    pub(crate) decisions: RuleArgs,
    /// Guest kernel (bzImage); the one of `make setup`, else the host's own, when absent
    #[arg(long, value_name = "FILE", env = "VTOPO_KERNEL")]
    pub(crate) kernel: Option<PathBuf>,
    /// Who runs the guest: KVM if a probe guest boots under it, or one of them without asking
    #[arg(long, value_enum, default_value_t = AcceleratorArg::Auto)]
    pub(crate) accelerator: AcceleratorArg,
    /// Give the guest its whole memory instead of at most 256 MiB per vNUMA node
    #[arg(long)]
    pub(crate) full_memory: bool,
    /// Compare a running guest's `lscpu -J` or Coreinfo output instead of booting one
    #[arg(long, value_name = "FILE", conflicts_with = "full_memory")]
    pub(crate) guest_report: Option<PathBuf>,
    /// Print what the guest's own tools say: lscpu, numactl, a CoreInfo-style map
    #[arg(long)]
    pub(crate) tools: bool,
    #[command(flatten)]
    pub(crate) firmware: FirmwareArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ConvertCommand {
    /// The VM file; `-` is standard input
    #[arg(value_name = "VM")]
    pub(crate) file: PathBuf,
    /// The format to write
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) to: FormatArg,
    /// Where to write; standard output when absent
    #[arg(long = "output", short, value_name = "FILE")]
    pub(crate) output_file: Option<PathBuf>,
    /// Shape the VM by this rule first, instead of keeping the topology it has
    #[arg(long, value_enum, value_name = "RULE")]
    pub(crate) shape: Option<RuleArg>,
    /// The host for `--shape`
    #[arg(long, value_name = "HOST", default_value = "live")]
    pub(crate) host: String,
    /// Major version of the QEMU that is written for
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) qemu: u32,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CheckCommand {
    /// The VM file; `-` is standard input
    #[arg(value_name = "VM")]
    pub(crate) file: PathBuf,
    /// The host it will run on
    #[arg(long, value_name = "HOST", default_value = "live")]
    pub(crate) host: String,
    /// Licences whose limits count, e.g. sql-standard-2022
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) licence: Vec<String>,
    #[command(flatten)]
    pub(crate) firmware: FirmwareArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsCommand {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
    /// Print the script inside a JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ManCommand {
    /// The command; vtopo itself when absent
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Option<String>,
    /// Print the page inside a JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// A rule's name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuleArg {
    /// vtopo's own: the caches and nodes the VM will run on
    Auto,
    /// One core per socket: what libvirt, Nova and KubeVirt do by default
    Flat,
    /// ESXi 5.5
    #[value(name = "esxi-5.5")]
    Esxi5_5,
    /// ESXi 6.0
    #[value(name = "esxi-6.0")]
    Esxi6_0,
    /// ESXi 6.5 before U3
    #[value(name = "esxi-6.5")]
    Esxi6_5,
    /// ESXi 6.7 before U2
    #[value(name = "esxi-6.7")]
    Esxi6_7,
    /// ESXi 7.0
    #[value(name = "esxi-7.0")]
    Esxi7_0,
    /// ESXi 8.0
    #[value(name = "esxi-8.0")]
    Esxi8_0,
}

impl RuleArg {
    pub(crate) fn rule(self) -> Rule {
        match self {
            Self::Auto => Rule::Auto,
            Self::Flat => Rule::Flat,
            Self::Esxi5_5 => Rule::Esxi(Release::V5_5),
            Self::Esxi6_0 => Rule::Esxi(Release::V6_0),
            Self::Esxi6_5 => Rule::Esxi(Release::V6_5),
            Self::Esxi6_7 => Rule::Esxi(Release::V6_7),
            Self::Esxi7_0 => Rule::Esxi(Release::V7_0),
            Self::Esxi8_0 => Rule::Esxi(Release::V8_0),
        }
    }

    /// The name as typed.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value().expect("no rule is hidden");
        value.get_name().to_owned()
    }
}

/// An accelerator's name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcceleratorArg {
    /// KVM where it works, software emulation elsewhere
    Auto,
    /// The processor
    Kvm,
    /// Software emulation
    Tcg,
}

/// A goal's name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GoalArg {
    /// As much work as possible
    Throughput,
    /// Short and even response times
    Latency,
    /// One busy network flow or I/O stream
    SingleFlow,
}

impl From<GoalArg> for Goal {
    fn from(goal: GoalArg) -> Self {
        match goal {
            GoalArg::Throughput => Self::Throughput,
            GoalArg::Latency => Self::Latency,
            GoalArg::SingleFlow => Self::SingleFlow,
        }
    }
}

/// A format's name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    /// libvirt domain XML
    Libvirt,
    /// A QEMU command line
    Qemu,
    /// VMware .vmx
    Vmx,
    /// Proxmox VE .conf
    Proxmox,
}

impl From<FormatArg> for Format {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Libvirt => Self::Libvirt,
            FormatArg::Qemu => Self::Qemu,
            FormatArg::Vmx => Self::Vmx,
            FormatArg::Proxmox => Self::Proxmox,
        }
    }
}
