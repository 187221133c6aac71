//! The vtopo command line.
//!
//! ```text
//!   args ──▶ commands ──▶ hosts, vms, shaping (what is meant) ──▶ policy, lab ──▶ draw, json, say (what is shown)
//! ```
//!
//! Invariants: nothing is decided here; every command has `--json`; what goes to standard output is the answer, what
//! goes to standard error is about the run; exit code 0 done, 1 the answer is no, 2 wrong use or I/O error,
//! 130 stopped by Ctrl-C.

mod args;
mod commands;
pub mod draw;
mod failure;
mod files;
mod hosts;
mod json;
mod say;
mod shaping;
mod vms;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

pub use commands::Answer;
pub use failure::Failure;

/// Runs the command line and returns its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match run_checked(arguments) {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        // As a shell reports a process that SIGINT ended.
        Ok(Answer::Stopped) => ExitCode::from(130),
        // Whoever read our output has seen enough (`vtopo host | head`).
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(2)
        }
    }
}

/// The definition of the command line, for completions and manual pages.
pub fn definition() -> clap::Command {
    args::Cli::command()
}

fn run_checked(arguments: impl IntoIterator<Item = OsString>) -> Result<Answer, Failure> {
    match args::Cli::try_parse_from(arguments) {
        Ok(cli) => commands::run(cli),
        Err(error) => {
            let answer = if error.use_stderr() {
                Err(Failure::shown())
            } else {
                Ok(Answer::Yes)
            };
            error.print().map_err(Failure::output)?;
            answer
        }
    }
}
