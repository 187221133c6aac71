//! Fleets of thousands of hosts, ours and others, on the same VMs: makes what bench/placement needs, and runs it.

use std::process::Command;

use crate::{Result, command};

const BENCH: &str = "bench/placement";
const PROGRAM: &str = "target/release/examples/placement";

/// Builds our side, checks the comparison itself, and runs it with these arguments of `run.py`.
pub(crate) fn run(rest: &[String]) -> Result<()> {
    if !command::works("python3", &["--version"]) {
        return Err("python3 is not installed: type 'sudo apt-get install python3'".into());
    }
    let build = ["build", "--release", "--target-dir", "target"];
    let example = ["--package", "sim", "--example", "placement"];
    command::run(Command::new("cargo").args(build).args(example))?;
    // A comparison that measures wrongly is worth nothing, so its own tests come first.
    let tests = ["-B", "-m", "unittest", "discover", "-s", BENCH];
    command::run(Command::new("python3").args(tests))?;
    let mut run = Command::new("python3");
    run.args(["-B", &format!("{BENCH}/run.py"), "--program", PROGRAM]);
    command::run(run.args(rest))
}
