//! How far `best` is from the proven optimum: makes what bench/optimum needs, and runs it.

use std::path::Path;
use std::process::Command;

use crate::{Result, command};

const VENV: &str = "target/optimum/venv";
const PROGRAM: &str = "target/release/examples/instances";
const REQUIREMENTS: &str = "bench/optimum/requirements.txt";

/// Builds the program that draws instances and places them, installs the solver below `target`, and runs
/// bench/optimum/run.py with these arguments. An error is a missed target, or a run that did not end.
pub(crate) fn run(rest: &[String]) -> Result<()> {
    let build = ["build", "--release", "-p", "policy", "--example"];
    command::run(Command::new("cargo").args(build).arg("instances"))?;
    let python = solver()?;
    let script = Command::new(python)
        .args(["bench/optimum/run.py", "--program", PROGRAM])
        .args(rest)
        .status()?;
    match script.code() {
        Some(0) => Ok(()),
        Some(1) => Err("a target is missed: see target/optimum/optimum.md".into()),
        _ => Err(format!("bench/optimum/run.py ended with {script}").into()),
    }
}

/// The Python that has the solver in the version the requirements name.
fn solver() -> Result<String> {
    let python = format!("{VENV}/bin/python");
    if !Path::new(&python).is_file() {
        if !command::works("python3", &["-m", "venv", "--help"]) {
            return Err(
                "python3 with its venv module is not installed: type 'apt install python3-venv'"
                    .into(),
            );
        }
        command::run(Command::new("python3").args(["-m", "venv", VENV]))?;
    }
    let install = ["-m", "pip", "install", "--quiet", "--requirement"];
    command::run(Command::new(&python).args(install).arg(REQUIREMENTS))?;
    Ok(python)
}
