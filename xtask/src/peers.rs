//! Peers: vtopo and other placers on the same requests; `bench/peers/README.md` says what is compared.

use std::io;
use std::path::Path;
use std::process::Command;

use crate::{Result, command};

const PEERS: &str = "bench/peers";
const VTOPO: &str = "target/release/vtopo";
/// Replays events through vtopo, VM by VM.
const STREAM: &str = "target/release/examples/stream";
const STREAM_SOURCE: &str = "crates/policy/examples/stream.rs";

/// Builds what is compared, checks the comparison itself, and runs it with these arguments of `run.py`.
pub(crate) fn run(rest: &[String]) -> Result<()> {
    if !command::works("python3", &["--version"]) {
        return Err("python3 is not installed: type 'sudo apt-get install python3'".into());
    }
    build(&["--package", "cli", "--bin", "vtopo"])?;
    let mut run = Command::new("python3");
    run.args(["-B", &format!("{PEERS}/run.py"), "--vtopo", VTOPO]);
    if Path::new(STREAM_SOURCE).is_file() {
        build(&["--package", "policy", "--example", "stream"])?;
        run.args(["--vtopo-stream", STREAM]);
    }
    check()?;
    command::run(run.args(rest))
}

fn build(what: &[&str]) -> Result<()> {
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--target-dir", "target"]);
    command::run(build.args(what))
}

/// A comparison that measures wrongly is worth nothing, so its own tests come first.
fn check() -> Result<()> {
    let tests = ["-B", "-m", "unittest", "discover", "-s", PEERS];
    command::run(Command::new("python3").args(tests))?;
    if !command::works("go", &["version"]) {
        // The run itself says that it leaves these peers out.
        return Ok(());
    }
    // The first time this fetches and builds Kubernetes, which takes minutes. Standard output is the report's.
    let mut test = Command::new("go");
    test.args(["test", "."]).current_dir(format!("{PEERS}/k8s"));
    command::run(test.stdout(io::stderr()))
}
