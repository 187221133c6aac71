//! What is handed out: `target/dist/vtopo`, its man pages, and completions for three shells.

use std::fs;
use std::process::Command;

use crate::{Result, command};

/// Where cargo puts the binary of `--profile dist`, and we the rest.
const DIST: &str = "target/dist";

/// The shell and the name under which it looks for a completion of `vtopo`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "vtopo.bash"),
    ("zsh", "_vtopo"),
    ("fish", "vtopo.fish"),
];

/// Builds the binary and lets it write its own papers.
pub(crate) fn run() -> Result<()> {
    let build = [
        "build",
        "--profile",
        "dist",
        "--package",
        "cli",
        "--target-dir",
        "target",
    ];
    command::run(Command::new("cargo").args(build))?;
    println!("{DIST}/vtopo");
    for (shell, file) in COMPLETIONS {
        generate(&["completions", shell], file)?;
    }
    let page = generate(&["man"], "vtopo.1")?;
    for name in commands_of(&page) {
        generate(&["man", name], &format!("vtopo-{name}.1"))?;
    }
    Ok(())
}

/// Lets vtopo print `file`, and gives its text.
fn generate(args: &[&str], file: &str) -> Result<String> {
    let text = command::output(Command::new(format!("{DIST}/vtopo")).args(args))?;
    fs::write(format!("{DIST}/{file}"), &text)?;
    println!("{DIST}/{file}");
    Ok(String::from_utf8(text)?)
}

/// The commands to whose pages the first page refers, as lines `vtopo\-NAME(1)`.
fn commands_of(page: &str) -> impl Iterator<Item = &str> {
    page.lines()
        .filter_map(|line| line.strip_prefix(r"vtopo\-")?.strip_suffix("(1)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let page = ".SH SUBCOMMANDS\n.TP\nvtopo\\-host(1)\nDraw a host\n.TP\nvtopo\\-help(1)\n";
        assert_eq!(commands_of(page).collect::<Vec<_>>(), ["host", "help"]);
    }
}
