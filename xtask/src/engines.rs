//! Engines: our event queue and other simulators on the same hold model; `bench/engines/README.md` says what is compared.

use std::process::Command;

use crate::{Result, command};

const ENGINES: &str = "bench/engines";

/// Checks the comparison itself, and runs it with these arguments of `run.py`, which builds what is compared.
pub(crate) fn run(rest: &[String]) -> Result<()> {
    if !command::works("python3", &["--version"]) {
        return Err("python3 is not installed: type 'sudo apt-get install python3'".into());
    }
    // A comparison that measures wrongly is worth nothing, so its own tests come first.
    let tests = ["-B", "-m", "unittest", "discover", "-s", ENGINES];
    command::run(Command::new("python3").args(tests))?;
    let mut run = Command::new("python3");
    run.args(["-B", &format!("{ENGINES}/run.py")]);
    command::run(run.args(rest))
}
