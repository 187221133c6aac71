//! Chores of this repository, as `cargo xtask CHORE`. What CI runs is `ci`; the others are for a developer's hand.
//!
//! Each chore is one file. A chore that cannot do a part says so in a line; nothing is skipped in silence.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a chore talks to who typed it"
)]

mod ci;
mod command;
mod dist;
mod engines;
mod fuzz;
mod golden;
mod optimum;
mod peers;
mod placement;
mod tidy;

use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};

/// The error of a chore: a text for the person who typed it.
pub(crate) type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about = "Chores of this repository")]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run all checks in order, stopping at the first that fails.
    Ci,
    /// Check what no compiler checks: dependency direction, sizes, words, links.
    Tidy,
    /// Run the snapshot tests, or rewrite their snapshots for `git diff` to show.
    Golden {
        /// Rewrite the snapshots that differ.
        #[arg(long)]
        update: bool,
        /// More arguments for `cargo test`, such as `-p model`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Run all benchmarks.
    Bench {
        /// More arguments for `cargo bench`, such as `-p policy`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Run each fuzz target for some seconds.
    Fuzz {
        /// How long each target runs.
        seconds: u32,
    },
    /// Run vtopo and its peers on the same placement requests; see bench/peers.
    Peers {
        /// Arguments for bench/peers/run.py, such as `--preset epyc-7702-2s`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Run our event queue and other simulators on the same hold model; see bench/engines.
    Engines {
        /// Arguments for bench/engines/run.py, such as `--entities 1000`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Run sim and its peers on VMs for thousands of hosts; see bench/placement.
    Placement {
        /// Arguments for bench/placement/run.py, such as `--case day`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Measure how far `best` is from the proven optimum; see bench/optimum.
    Optimum {
        /// Arguments for bench/optimum, such as `--count 20`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Build what is handed out: the binary, its man page and completions, in target/dist.
    Dist,
}

fn main() -> ExitCode {
    let done = command::enter_root().and_then(|()| match Args::parse().chore {
        Chore::Ci => ci::run(),
        Chore::Tidy => tidy::run(),
        Chore::Golden { update, rest } => golden::run(update, &rest),
        Chore::Bench { rest } => bench(&rest),
        Chore::Fuzz { seconds } => fuzz::run(seconds),
        Chore::Peers { rest } => peers::run(&rest),
        Chore::Engines { rest } => engines::run(&rest),
        Chore::Placement { rest } => placement::run(&rest),
        Chore::Optimum { rest } => optimum::run(&rest),
        Chore::Dist => dist::run(),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(rest: &[String]) -> Result<()> {
    command::run(
        Command::new("cargo")
            .args(["bench", "--workspace"])
            .args(rest),
    )
}
