//! What is wrong, broken or hostile: one message that says what to do, exit code 2, nothing on standard output, no file
//! half written. A panic or a signal fails every test here.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use assert_cmd::Command;

const MACHINE: &str = "tests/data/two-packages.xml";
const HOST: &str = "epyc-7702-2s";

struct Run {
    code: i32,
    out: String,
    err: String,
}

fn vtopo(arguments: &[&str]) -> Run {
    let mut command = Command::cargo_bin("vtopo").unwrap();
    let output = command
        .args(arguments)
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .timeout(Duration::from_mins(1))
        .output()
        .unwrap();
    let code = output
        .status
        .code()
        .unwrap_or_else(|| panic!("{arguments:?} died: {}", output.status));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let run = Run {
        code,
        out: text(output.stdout),
        err: text(output.stderr),
    };
    assert!(!run.err.contains("panicked"), "{arguments:?}: {}", run.err);
    run
}

/// The run must end with 2, and say the words.
fn refused(arguments: &[&str], words: &str) {
    let run = vtopo(arguments);
    assert_eq!(
        (run.code, run.out.as_str()),
        (2, ""),
        "{arguments:?}: {}",
        run.err
    );
    // The message is wrapped and framed.
    let flat: String = run
        .err
        .replace('│', " ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(
        flat.contains(words),
        "{arguments:?} says {flat:?}, not {words:?}"
    );
}

fn shape(arguments: &[&str], words: &str) {
    let all = [&["shape", "--host", HOST], arguments].concat();
    refused(&all, words);
}

#[test]
fn numbers_that_make_no_vm() {
    for (vcpus, memory, words) in [
        ("0", "1G", "at least 1 vCPU"),
        ("-1", "1G", "no number of vCPUs"),
        ("1000000000", "1G", "at most 4096"),
        ("99999999999999999999", "1G", "no number of vCPUs"),
        ("many", "1G", "no number of vCPUs"),
        ("8", "0", "less than 1 MiB"),
        ("8", "-5", "64G or 512M"),
        ("8", "64X", "64G or 512M"),
        ("8", "NaN", "64G or 512M"),
        ("8", "18446744073709551616", "64G or 512M"),
        ("8", "18446744073709551615T", "4 PiB"),
    ] {
        shape(
            &[&format!("--vcpus={vcpus}"), &format!("--memory={memory}")],
            words,
        );
    }
    shape(&["--vcpus", "8"], "--memory");
    for option in [
        "--threads-per-core=0",
        "--threads-per-core=4294967296",
        "--hw-version=0",
        "--max-vcpus=0",
    ] {
        shape(&["--vcpus", "8", "--memory", "1G", option], "invalid value");
    }
}

#[test]
fn overrides_that_do_not_fit_are_answered() {
    for option in ["--cores-per-socket", "--numa-nodes", "--max-vcpus"] {
        for value in ["0", "1", "3", "7", "4096", "4294967295"] {
            for rule in ["auto", "flat", "esxi-6.5", "esxi-8.0"] {
                let run = vtopo(&[
                    "shape", "--host", HOST, "--vcpus", "12", "--memory", "1G", "--rule", rule,
                    option, value,
                ]);
                assert!(
                    matches!(run.code, 0..=2),
                    "{option} {value} by {rule}: {}",
                    run.err
                );
                assert!(
                    run.code == 0 || !run.err.is_empty(),
                    "{option} {value} by {rule} says nothing"
                );
            }
        }
    }
}

#[test]
fn hosts_that_are_none() {
    for (host, words) in [
        ("epyc-7702-3s", "did you mean `epyc-7702-1s`"),
        ("EPYC-9654-2s", "did you mean `epyc-9654-2s`"),
        ("xeon-8380", "did you mean `xeon-8380-2s`"),
        ("no-such-machine-anywhere", "host --list"),
        ("", "host --list"),
        ("/nonexistent/host.xml", "no preset and no file"),
        ("pack:0", "no members"),
        ("pack:-1", "no usable count"),
        ("pack:99999999999999999999", "no usable count"),
        ("pack:1000 core:1000 pu:1000", "at most"),
        ("foo:2 bar:3", "does not accept"),
        ("/", "is a folder"),
    ] {
        refused(&["host", host], words);
        refused(&["host", host, "--json"], words);
        refused(
            &["shape", "--vcpus", "2", "--memory", "1G", "--host", host],
            words,
        );
    }
}

#[test]
fn what_ifs_that_do_not_go_with_the_host() {
    for option in [
        "--nps=0",
        "--nps=5",
        "--nps=4294967296",
        "--snc=-1",
        "--smt=maybe",
    ] {
        refused(&["host", HOST, option], "invalid value");
    }
    refused(&["host", "xeon-8380-2s", "--ccx-as-numa", "--nps", "4"], "");
}

#[test]
fn host_files_that_are_broken() {
    let folder = tempfile::tempdir().unwrap();
    let machine = fs::read_to_string(MACHINE).unwrap();
    let deep = format!("<topology>{}", "<object>".repeat(100_000));
    let bomb = "<?xml version=\"1.0\"?><!DOCTYPE t [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><topology>&b;</topology>";
    let utf16: Vec<u8> = machine.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let nested = format!("a = {}1{}", "[".repeat(50_000), "]".repeat(50_000));
    let rows: [(&str, &[u8], &str); 14] = [
        ("empty.xml", b"", "host file"),
        ("nul.xml", b"<topology>\0</topology>", "NUL byte"),
        ("nul.toml", b"name = \"\0\"", "NUL byte"),
        ("utf16.xml", &utf16, "iconv"),
        ("latin1.toml", b"# caf\xe9", "UTF-8"),
        (
            "truncated.xml",
            &machine.as_bytes()[..machine.len() / 2],
            "lstopo",
        ),
        ("deep.xml", deep.as_bytes(), "nested"),
        ("bomb.xml", bomb.as_bytes(), "entities"),
        ("vm.xml", b"<domain type='kvm'/>", "as VM"),
        ("html.xml", b"<html/>", "<html>"),
        ("deep.toml", nested.as_bytes(), "host file"),
        ("wrong.toml", b"packages = -1", "host file"),
        ("huge.toml", b"packages = 99999999999999999999", "host file"),
        ("binary", &[0x7f, b'E', b'L', b'F', 2, 1, 1, 0], "NUL byte"),
    ];
    for (name, content, words) in rows {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        refused(&["host", path.to_str().unwrap()], words);
    }
}

#[test]
fn a_gigantic_file_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gigantic.xml");
    // Sparse: no disk is filled.
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    for command in ["host", "check"] {
        refused(&[command, path.to_str().unwrap()], "MiB");
    }
    refused(&["host", "/dev/zero"], "MiB");
}

#[test]
fn vm_files_that_are_broken() {
    let folder = tempfile::tempdir().unwrap();
    let bomb = "<!DOCTYPE d [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;\">]><domain><name>&b;</name></domain>";
    let deep = format!("<domain>{}", "<a>".repeat(100_000));
    let vmx = ".encoding = \"UTF-8\"\nvirtualHW.version = \"20\"\nmemSize = \"1024\"\n";
    let rows: Vec<(&str, String, &str)> = vec![
        ("empty", String::new(), "VM file"),
        ("words.txt", "hello world".into(), "VM file"),
        ("nul.vmx", format!("{vmx}numvcpus = \"\0\"\n"), "vmx"),
        ("zero.vmx", format!("{vmx}numvcpus = \"0\"\n"), "1 to 4096"),
        ("minus.vmx", format!("{vmx}numvcpus = \"-1\"\n"), "numvcpus"),
        (
            "many.vmx",
            format!("{vmx}numvcpus = \"1000000000\"\n"),
            "numvcpus",
        ),
        (
            "overflow.vmx",
            format!("{vmx}numvcpus = \"99999999999999999999\"\n"),
            "numvcpus",
        ),
        ("bomb.xml", bomb.into(), "libvirt"),
        ("deep.xml", deep, "libvirt"),
        (
            "cut.xml",
            "<domain type='kvm'><name>x</name><vcpu>4".into(),
            "libvirt",
        ),
        (
            "zero.xml",
            "<domain type='kvm'><name>x</name><vcpu>0</vcpu><memory>1024</memory></domain>".into(),
            "libvirt",
        ),
        (
            "minus.xml",
            "<domain type='kvm'><name>x</name><vcpu>-4</vcpu><memory>1</memory></domain>".into(),
            "libvirt",
        ),
        (
            "zero.conf",
            "cores: 0\nmemory: 1024\nname: x\nscsihw: virtio-scsi-pci\n".into(),
            "proxmox",
        ),
        (
            "huge.conf",
            "cores: 4294967296\nmemory: 1024\nname: x\nscsihw: virtio-scsi-pci\n".into(),
            "proxmox",
        ),
        (
            "zero.sh",
            "qemu-system-x86_64 -smp 0 -m 1G\n".into(),
            "qemu",
        ),
        (
            "huge.sh",
            "qemu-system-x86_64 -smp 1000000000 -m 1G\n".into(),
            "qemu",
        ),
    ];
    for (name, content, words) in rows {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        let path = path.to_str().unwrap();
        refused(&["shape", path, "--host", HOST], words);
        refused(&["check", path, "--host", HOST], words);
        refused(&["convert", path, "--to", "libvirt"], words);
    }
    refused(&["check", "/nonexistent.vmx"], "check the path");
    refused(&["check", folder.path().to_str().unwrap()], "is a folder");
}

#[test]
fn every_truncation_of_vm_files_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    for file in [
        "vmx/database.vmx",
        "libvirt/pinned.xml",
        "proxmox/100.conf",
        "qemu/hand-written.sh",
    ] {
        let text = fs::read(Path::new("../model/tests/data").join(file)).unwrap();
        for part in 1..8 {
            let path = folder.path().join("cut");
            fs::write(&path, &text[..text.len() * part / 8]).unwrap();
            let run = vtopo(&["check", path.to_str().unwrap(), "--host", HOST]);
            assert!(matches!(run.code, 0..=2), "{file}: {}", run.err);
            assert!(
                run.code != 2 || (run.out.is_empty() && !run.err.is_empty()),
                "{file}: {}",
                run.err
            );
        }
    }
}

/// Mutations by the thousand are in `live/tests/hostile.rs`; here some go through the whole program.
#[test]
fn mutated_machines_never_kill_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let machine = fs::read_to_string(MACHINE).unwrap();
    let places: Vec<usize> = machine.match_indices("=\"").map(|(at, _)| at + 2).collect();
    let path = folder.path().join("mutated.xml");
    let values = ["-1", "4294967296", "99999999999999999999", ""];
    for (place, value) in places
        .iter()
        .skip(5)
        .step_by(7)
        .take(80)
        .zip(values.iter().cycle())
    {
        let end = place + machine[*place..].find('"').unwrap();
        fs::write(
            &path,
            format!("{}{value}{}", &machine[..*place], &machine[end..]),
        )
        .unwrap();
        let run = vtopo(&["host", path.to_str().unwrap(), "--json"]);
        assert!(
            run.code == 0 || (run.code == 2 && run.out.is_empty() && run.err.contains("lstopo")),
            "{}",
            run.err
        );
    }
}

#[test]
fn outputs_that_cannot_be_written_leave_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let vm = [
        "shape", "--vcpus", "8", "--memory", "8G", "--host", HOST, "--emit", "libvirt", "--output",
    ];
    let missing = folder.path().join("no/such/folder/vm.xml");
    refused(
        &[&vm[..], &[missing.to_str().unwrap()]].concat(),
        "folder that exists",
    );
    refused(
        &["host", HOST, "--svg", missing.to_str().unwrap()],
        "folder that exists",
    );
    refused(&[&vm[..], &["/proc/vm.xml"]].concat(), "cannot write");
    refused(
        &[&vm[..], &[folder.path().to_str().unwrap()]].concat(),
        "is a folder",
    );
    let kept = folder.path().join("kept.xml");
    fs::write(&kept, "mine").unwrap();
    let mut permissions = fs::metadata(&kept).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&kept, permissions).unwrap();
    refused(&[&vm[..], &[kept.to_str().unwrap()]].concat(), "read-only");
    assert_eq!(fs::read_to_string(&kept).unwrap(), "mine");
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "a temporary file was left"
    );
}

#[test]
fn a_full_device_is_an_error() {
    use std::os::unix::fs::FileTypeExt;
    // Some containers have a plain file in its place.
    if !fs::metadata("/dev/full").is_ok_and(|full| full.file_type().is_char_device()) {
        return;
    }
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let status = std::process::Command::new(assert_cmd::cargo::cargo_bin("vtopo"))
        .args(["host", HOST, "--json"])
        .stdout(full)
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(2));
}

#[test]
fn names_that_are_not_known() {
    shape(
        &["--vcpus", "8", "--memory", "1G", "--rule", "esxi-9.0"],
        "esxi-8.0",
    );
    shape(
        &["--vcpus", "8", "--memory", "1G", "--licence", "beer"],
        "known: ",
    );
    shape(
        &["--vcpus", "8", "--memory", "1G", "--emit", "hyperv"],
        "proxmox",
    );
    shape(
        &["--vcpus", "8", "--memory", "1G", "--device", "eth0"],
        "lspci",
    );
    shape(
        &["--vcpus", "8", "--memory", "1G", "--hugepages", "3M"],
        "2M or 1G",
    );
    shape(
        &["--vcpus", "8", "--memory", "1G", "--set", "numvcpus"],
        "numa.vcpu.preferHT=TRUE",
    );
    refused(&["man", "nothing"], "commands: ");
    refused(&["frobnicate"], "unrecognized subcommand");
    refused(&["completions", "tcsh"], "bash");
}

#[test]
fn verify_without_what_it_needs() {
    let vm = ["verify", "--vcpus", "4", "--memory", "2G", "--host", HOST];
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    refused(
        &[&vm[..], &["--kernel", "/nonexistent/vmlinuz"]].concat(),
        "--kernel",
    );
    refused(
        &[&vm[..], &["--guest-report", "/nonexistent"]].concat(),
        "check the path",
    );
    for content in [
        "",
        "{}",
        "[1,2",
        "{\"lscpu\":[]}",
        "{\"lscpu\":[{\"field\":\"CPU(s):\",\"data\":\"-1\"}]}",
    ] {
        fs::write(&report, content).unwrap();
        refused(
            &[&vm[..], &["--guest-report", report.to_str().unwrap()]].concat(),
            "report",
        );
    }
    let kernel = folder.path().join("vmlinuz");
    fs::write(&kernel, "not a kernel").unwrap();
    let output = Command::cargo_bin("vtopo")
        .unwrap()
        .args(vm)
        .arg("--kernel")
        .arg(&kernel)
        .env("PATH", folder.path())
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("install") || err.contains("kernel"), "{err}");
}
