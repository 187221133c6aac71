//! What can be typed after `vtopo simulate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use model::duration;
use sim::fleet::Algorithm;
use sim::traces::{Kind, Size};

use super::{FirmwareArgs, Memory, OutputArgs, RuleArg};

#[derive(Debug, Args)]
pub(crate) struct SimulateCommand {
    /// The scenario file (TOML): VMs, workloads, how long; or a trace of a fleet: files, or a folder of them; `-` is
    /// standard input
    #[arg(value_name = "SCENARIO|TRACE", required_unless_present = "example")]
    pub(crate) files: Vec<PathBuf>,
    /// Print an example of a scenario, to begin with
    #[arg(long, conflicts_with = "files")]
    pub(crate) example: bool,
    /// The host, instead of the scenario's; for a trace several as HOST*COUNT,HOST*COUNT
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Vec<String>,
    /// Who places, instead of the scenario's; all others are compared with the first
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) policy: Vec<String>,
    /// Who decides what guests see, `auto` when absent; several are compared
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) rule: Vec<RuleArg>,
    /// Runs of each policy, with seeds of their own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) seeds: Option<u32>,
    /// The first seed
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(0..=1 << 62))]
    pub(crate) seed: Option<u64>,
    /// Change a value of the scenario, e.g. run.duration=5s or vm.db.count=20
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = assignment)]
    pub(crate) sets: Vec<(String, String)>,
    /// The most of this key that still meets every [[qos]], e.g. tiles.count or vm.db.count
    #[arg(long, value_name = "KEY", conflicts_with_all = ["report", "trace", "csv"])]
    pub(crate) find_max: Option<String>,
    /// Where `--find-max` begins
    #[arg(long, value_name = "N", requires = "find_max", default_value_t = 1)]
    pub(crate) from: u64,
    /// Where `--find-max` ends
    #[arg(long, value_name = "N", requires = "find_max")]
    pub(crate) to: Option<u64>,
    /// Write a page with the answer, charts and what was simulated (HTML)
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write who ran where of the first run, for ui.perfetto.dev or Chrome's trace viewer (JSON)
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Write all figures as CSV; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Threads that simulate; 0 is one for each CPU of this machine
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=4096))]
    pub(crate) threads: u16,
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
    #[command(flatten)]
    pub(crate) firmware: FirmwareArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// How a trace is read and played.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Traces of a fleet")]
pub(crate) struct FleetArgs {
    /// How VMs of a trace find a host; all of them, side by side, when absent
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    pub(crate) fit: Vec<FitArg>,
    /// The format of the trace; recognised by its first lines when absent
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<TraceFormatArg>,
    /// What the trace has no sizes for, as `CPUSxMEMORY`: a whole machine (azure, 64x256G), a VM (planetlab, 1x1G)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) size: Option<Size>,
    /// Time between samples or dumps where the trace has no times, e.g. 60s (planetlab: 300s)
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub(crate) interval: Option<u64>,
}

/// How a host is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FitArg {
    /// The first host with room
    #[value(name = "first-fit")]
    First,
    /// The host with the least free CPU
    #[value(name = "best-fit")]
    Best,
    /// The first with room from the last one on
    #[value(name = "next-fit")]
    Next,
    /// The host with the most free CPU
    #[value(name = "worst-fit")]
    Worst,
}

impl FitArg {
    /// What is meant.
    pub(crate) fn algorithm(self) -> Algorithm {
        match self {
            Self::First => Algorithm::FirstFit,
            Self::Best => Algorithm::BestFit,
            Self::Next => Algorithm::NextFit,
            Self::Worst => Algorithm::WorstFit,
        }
    }
}

/// A format of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceFormatArg {
    /// Azure trace for packing, 2020, as CSV
    #[value(alias = "azure-packing")]
    Azure,
    /// Huawei-East-1, CSV
    Huawei,
    /// Standard Workload Format
    Swf,
    /// Outputs of `virsh domstats`
    Domstats,
    /// `PlanetLab` files as `CloudSim` has them
    #[value(help = "PlanetLab files as CloudSim has them")]
    Planetlab,
}

impl TraceFormatArg {
    /// What is meant.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Azure => Kind::AzurePacking,
            Self::Huawei => Kind::Huawei,
            Self::Swf => Kind::Swf,
            Self::Domstats => Kind::Domstats,
            Self::Planetlab => Kind::PlanetLab,
        }
    }
}

/// `CPUSxMEMORY`.
fn size(text: &str) -> Result<Size, String> {
    let wrong = || format!("{text:?} is no size; write CPUSxMEMORY, such as 64x256G");
    let (cpus, memory) = text.split_once(['x', 'X']).ok_or_else(wrong)?;
    let cpus: u32 = cpus.trim().parse().map_err(|_| wrong())?;
    let memory: Memory = memory.parse()?;
    let milli_cpus = cpus.checked_mul(1_000).filter(|milli| *milli > 0);
    Ok(Size {
        milli_cpus: milli_cpus.ok_or_else(wrong)?,
        memory_mib: u32::try_from(memory.0).map_err(|_| wrong())?,
    })
}

fn interval(text: &str) -> Result<u64, String> {
    match duration::read(text)? {
        0 => Err("samples are at least a nanosecond apart; give a time such as 60s".to_owned()),
        ns => Ok(ns),
    }
}

/// `KEY=VALUE`.
fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write KEY=VALUE, such as run.duration=5s".to_owned()),
    }
}
