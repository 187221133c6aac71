//! What `boot` does when the emulator misbehaves. A shell plays the emulator, so that these tests need no QEMU.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lab::guest::{self, BootError, GuestReport, Plan, Progress, Setup};
use model::GuestTopology;
use model::formats::Accelerator;

const REPORT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/8-threads.report");

/// A plan with a script for the emulator, which gets QEMU's arguments too and ignores them.
fn plan(emulator: &str, script: &str) -> Plan {
    Plan {
        topology: GuestTopology::uniform(8, [2, 1, 1, 2, 2]),
        devices: Vec::new(),
        arguments: vec!["-c".to_owned(), script.to_owned()],
        accelerator: Accelerator::Tcg,
        setup: Setup {
            emulator: PathBuf::from(emulator),
            kernel: PathBuf::from("/no/kernel"),
        },
        timeout: Duration::from_secs(20),
        findings: Vec::new(),
    }
}

fn boot(script: &str, progress: &mut dyn FnMut(Progress)) -> Result<GuestReport, BootError> {
    guest::boot(&plan("/bin/sh", script), progress)
}

#[test]
fn a_report_is_taken_whole_and_progress_is_told_in_order() {
    let script = format!(
        "echo '[    0.0] Linux version 6.12' >&2; sleep 0.2; echo VTOPO-INIT 1; sleep 0.2; cat {REPORT}; sleep 100"
    );
    let mut stages = Vec::new();
    let report = boot(&script, &mut |progress| stages.push(progress)).unwrap();
    assert_eq!(report.text, std::fs::read_to_string(REPORT).unwrap());
    assert_eq!(report.seen.online.len(), 8);
    assert_eq!(
        stages[..3],
        [Progress::Started, Progress::Kernel, Progress::Init]
    );
    let last = stages.last();
    assert!(
        matches!(last, Some(Progress::Report { received, total }) if received == total),
        "{stages:?}"
    );
    // The emulator would have slept for long: it was ended as soon as the report was there.
    assert!(report.elapsed < Duration::from_secs(15));
}

#[test]
fn an_emulator_that_ends_early_is_quoted() {
    let error = boot("echo qemu: no such machine >&2; exit 3", &mut |_| {})
        .unwrap_err()
        .to_string();
    assert!(error.contains("exit code 3"), "{error}");
    assert!(error.contains("before its kernel"), "{error}");
    assert!(error.contains("qemu: no such machine"), "{error}");
    let panic = "echo '[ 0.0] Linux version 6.12' >&2; echo '[ 1.0] Kernel panic' >&2; kill -9 $$";
    let error = boot(panic, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("signal 9"), "{error}");
    assert!(error.contains("while its kernel started"), "{error}");
    assert!(error.contains("Kernel panic"), "{error}");
}

#[test]
fn a_report_that_breaks_off_is_none() {
    let error = boot(&format!("head -c 5000 {REPORT}"), &mut |_| {}).unwrap_err();
    assert!(
        matches!(
            error,
            BootError::Ended {
                reached: Progress::Report { .. },
                ..
            }
        ),
        "{error}"
    );
    let changed = format!("sed 's/0-3/0-2/' {REPORT}");
    assert!(matches!(
        boot(&changed, &mut |_| {}),
        Err(BootError::Report(_))
    ));
}

/// Flooding the console takes no memory, and what is quoted is its end.
#[test]
fn a_noisy_console_is_cut_to_its_end() {
    let script = "i=0; while [ $i -lt 20000 ]; do echo line $i of a long console >&2; i=$((i+1)); done; exit 1";
    let error = boot(script, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("line 19999"), "{error}");
    assert!(error.len() < 4000, "{}", error.len());
}

#[test]
fn a_guest_that_hangs_is_killed_and_reaped() {
    let mut plan = plan("/bin/sh", "echo pid $$ >&2; exec sleep 100");
    plan.timeout = Duration::from_secs(1);
    let start = Instant::now();
    let error = guest::boot(&plan, &mut |_| {}).unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(15));
    let BootError::Timeout { after, console, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(after, plan.timeout);
    let pid = console.strip_prefix("pid ").unwrap();
    assert!(
        !Path::new("/proc").join(pid).exists(),
        "process {pid} is still there"
    );
}

/// A vtopo that is killed has no time to tidy up: the kernel ends the emulator for it. This test starts itself as the
/// process that is killed.
#[test]
fn the_emulator_dies_with_its_parent() {
    const PID_FILE: &str = "VTOPO_TEST_PID_FILE";
    if let Some(file) = std::env::var_os(PID_FILE) {
        let script = format!("echo $$ > '{}'; exec sleep 100", Path::new(&file).display());
        let _ = boot(&script, &mut |_| {});
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_emulator_dies_with_its_parent"])
        .env(PID_FILE, &file)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = wait_for(|| {
        std::fs::read_to_string(&file)
            .ok()
            .filter(|text| text.ends_with('\n'))
    });
    let stat = Path::new("/proc").join(pid.trim()).join("stat");
    assert!(stat.exists());
    parent.kill().unwrap();
    parent.wait().unwrap();
    // A zombie waits for whoever adopts orphans here; it runs no more.
    wait_for(|| match std::fs::read_to_string(&stat) {
        Ok(stat) => stat.contains(") Z ").then_some(()),
        Err(_) => Some(()),
    });
}

/// Polls for at most 10 s.
fn wait_for<T>(mut what: impl FnMut() -> Option<T>) -> T {
    for _ in 0..1000 {
        if let Some(found) = what() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("nothing after 10 s");
}

#[test]
fn a_missing_emulator_says_what_to_install() {
    let plan = plan("/no/such/qemu", "");
    let error = guest::boot(&plan, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("apt install qemu-system-x86"), "{error}");
}
