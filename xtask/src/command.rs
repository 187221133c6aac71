//! Programs that chores start.

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use crate::Result;

/// Makes the repository's root the current directory, wherever `cargo xtask` was typed.
pub(crate) fn enter_root() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    Ok(std::env::set_current_dir(
        root.expect("xtask lies in the root"),
    )?)
}

/// Runs a program that writes to our terminal.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status();
    expect_success(command, status)
}

/// Runs a program and passes on both its output streams, in their order, each line also to `see`.
pub(crate) fn run_watched(mut command: Command, see: impl FnMut(&str)) -> Result<()> {
    let status = watch(&mut command, see);
    expect_success(&command, status)
}

fn watch(command: &mut Command, mut see: impl FnMut(&str)) -> io::Result<ExitStatus> {
    let (reader, writer) = io::pipe()?;
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The reader sees the end only when the command lets go of its writers.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    for line in BufReader::new(reader).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        see(&line);
    }
    child.wait()
}

/// The standard output of a program.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let output = command.stderr(Stdio::inherit()).output();
    let status = output.map(|output| {
        text = output.stdout;
        output.status
    });
    expect_success(command, status)?;
    Ok(text)
}

/// Whether a program is there and answers to these arguments.
pub(crate) fn works(program: &str, args: &[&str]) -> bool {
    let output = Command::new(program).args(args).output();
    output.is_ok_and(|output| output.status.success())
}

/// An error names the command as it would be typed, and how it ended.
fn expect_success(command: &Command, status: io::Result<ExitStatus>) -> Result<()> {
    let words: Vec<_> = [command.get_program()]
        .into_iter()
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect();
    let typed = words.join(" ");
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("'{typed}' ended with {status}").into()),
        Err(error) => Err(format!("cannot start '{typed}': {error}").into()),
    }
}
