//! Fuzzing: each target for the seconds asked.

use std::process::Command;

use crate::{Result, command};

/// Runs every target of `fuzz/` for `seconds`.
pub(crate) fn run(seconds: u32) -> Result<()> {
    if !command::works("cargo", &["fuzz", "--version"]) {
        return Err("cargo-fuzz is not installed: type 'cargo install cargo-fuzz'".into());
    }
    // Sanitizers are unstable options; this lets a stable compiler take them.
    let fuzz = |args: &[&str]| {
        let mut command = Command::new("cargo");
        command.arg("fuzz").args(args).env("RUSTC_BOOTSTRAP", "1");
        command
    };
    let targets = String::from_utf8(command::output(&mut fuzz(&["list"]))?)?;
    for target in targets.lines() {
        println!("{target}: {seconds} s");
        let limit = format!("-max_total_time={seconds}");
        command::run(&mut fuzz(&["run", target, "--", &limit]))?;
    }
    Ok(())
}
