//! All checks in order, stopping at the first that fails. What was skipped is in the summary, with its reason.

mod test_output;

use std::env;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use test_output::TestOutput;

use crate::tidy::{self, Tree};
use crate::{Result, command, golden};

/// How a step ended, when it did not fail.
enum Done {
    Ok,
    Skipped(String),
}

type Step = fn(&mut TestOutput) -> Result<Done>;

/// Cheap checks first: a typo should not wait for the guests.
const STEPS: [(&str, Step); 9] = [
    ("fmt", |_| cargo(&["fmt", "--all", "--check"])),
    ("tidy", |_| tidy::run().map(|()| Done::Ok)),
    ("scripts", |_| check_scripts()),
    ("clippy", |_| {
        cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ])
    }),
    ("test", test),
    ("doc tests", doc_tests),
    ("doc", |_| document()),
    ("golden drift", golden_drift),
    ("deny", |_| deny()),
];

/// Runs the steps and prints the summary, whose last line but the error is `N passed, N failed`.
pub(crate) fn run() -> Result<()> {
    let mut tests = TestOutput::default();
    let mut table = String::new();
    let start = Instant::now();
    let mut done = Ok(());
    for (name, step) in STEPS {
        println!("\n== {name}");
        let before = Instant::now();
        let outcome = step(&mut tests);
        add_row(&mut table, name, before.elapsed(), &outcome);
        if let Err(error) = outcome {
            done = Err(format!("{name} failed: {error}").into());
            break;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "\n== summary\n{table}{:<14} {seconds:>7.1} s\n\n{tests}",
        "all"
    );
    done
}

fn add_row(table: &mut String, name: &str, took: Duration, outcome: &Result<Done>) {
    let how = match outcome {
        Ok(Done::Ok) => "ok".to_owned(),
        Ok(Done::Skipped(reason)) => format!("skipped: {reason}"),
        Err(_) => "FAILED".to_owned(),
    };
    writeln!(table, "{name:<14} {:>7.1} s  {how}", took.as_secs_f64()).expect("strings take all");
}

fn cargo(args: &[&str]) -> Result<Done> {
    command::run(Command::new("cargo").args(args)).map(|()| Done::Ok)
}

fn check_scripts() -> Result<Done> {
    if !command::works("shellcheck", &["--version"]) {
        return Ok(Done::Skipped("shellcheck is not installed".into()));
    }
    let tree = Tree::read()?;
    let scripts = tree.files.iter().map(|file| file.path.as_str());
    let scripts =
        scripts.filter(|path| tidy::has_extension(path, &["sh"]) || path.starts_with(".ci/"));
    command::run(
        Command::new("shellcheck")
            .arg("--external-sources")
            .args(scripts),
    )?;
    Ok(Done::Ok)
}

/// Unit, integration and real-guest tests. All run even when some fail, so that one run shows every failure.
fn test(output: &mut TestOutput) -> Result<Done> {
    let mut tests = cargo_test();
    tests.args([
        "--lib",
        "--bins",
        "--tests",
        "--examples",
        "--",
        "--show-output",
    ]);
    let references = golden::start_references()?;
    tests
        .env("INSTA_UPDATE", "no")
        .env("INSTA_SNAPSHOT_REFERENCES_FILE", references);
    let kernel = Path::new("target/guest-kernel/vmlinuz");
    if env::var_os("VTOPO_KERNEL").is_none() && kernel.exists() {
        tests.env("VTOPO_KERNEL", kernel.canonicalize()?);
    }
    command::run_watched(tests, |line| output.see(line)).map(|()| Done::Ok)
}

fn doc_tests(output: &mut TestOutput) -> Result<Done> {
    let mut tests = cargo_test();
    tests.arg("--doc");
    command::run_watched(tests, |line| output.see(line)).map(|()| Done::Ok)
}

fn cargo_test() -> Command {
    let mut tests = Command::new("cargo");
    tests.args(["test", "--workspace", "--no-fail-fast"]);
    tests
}

fn document() -> Result<Done> {
    let mut doc = Command::new("cargo");
    doc.args(["doc", "--workspace", "--no-deps"])
        .env("RUSTDOCFLAGS", "-Dwarnings");
    command::run(&mut doc).map(|()| Done::Ok)
}

/// The tests have compared with every snapshot; what is left are snapshots of tests that are gone.
fn golden_drift(output: &mut TestOutput) -> Result<Done> {
    let skipped: Vec<&str> = output
        .skipped
        .iter()
        .map(|skip| skip.binary.as_str())
        .collect();
    tidy::report(&golden::check_drift(&Tree::read()?, &skipped)?).map(|()| Done::Ok)
}

/// Licences and sources of what we depend on. Advisories need the network and change by the day: not a test.
fn deny() -> Result<Done> {
    if !command::works("cargo", &["deny", "--version"]) {
        let reason = "cargo-deny is not installed (cargo install cargo-deny)";
        return Ok(Done::Skipped(reason.into()));
    }
    cargo(&["deny", "--offline", "check", "bans", "licenses", "sources"])
}
