//! What can be typed after `vtopo simulate`.

use std::path::PathBuf;

use clap::Args;

use super::{FirmwareArgs, OutputArgs, RuleArg};

#[derive(Debug, Args)]
pub(crate) struct SimulateCommand {
    /// The scenario file (TOML): VMs, workloads, how long; `-` is standard input
    #[arg(value_name = "SCENARIO", required_unless_present = "example")]
    pub(crate) scenario: Option<PathBuf>,
    /// Print an example of a scenario, to begin with
    #[arg(long, conflicts_with = "scenario")]
    pub(crate) example: bool,
    /// The host, instead of the scenario's
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// Who places, instead of the scenario's; all others are compared with the first
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) policy: Vec<String>,
    /// Who decides what guests see; several are compared
    #[arg(long, value_enum, value_delimiter = ',', default_value = "auto")]
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
    pub(crate) firmware: FirmwareArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
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
