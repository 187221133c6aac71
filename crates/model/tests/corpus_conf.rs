//! Replays the hostile files of the fuzz targets `vmx` and `proxmox`: read, lint, write, and edit without change.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::PathBuf;

use model::formats::{Format, Target};

/// Whether the file was accepted; any panic, any change by an empty edit, and any hang fails the test.
fn replay(format: Format, name: &str, bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let target = Target::default();
    let Ok(spec) = format.read(&text) else {
        assert!(format.lint(&text).is_err(), "{name}");
        return false;
    };
    format.lint(&text).unwrap();
    let same = format.edit(&text, &spec, &target).unwrap();
    assert_eq!(same.text, text, "{name}");
    let written = format.write(&spec, &target);
    assert!(!written.text.is_empty(), "{name}");
    true
}

fn replay_all(format: Format) -> (usize, usize) {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let folder = root.join(format.as_str());
    let mut names: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    let mut counts = (0, 0);
    for path in names {
        let name = path.display().to_string();
        if replay(format, &name, &fs::read(&path).unwrap()) {
            counts.0 += 1;
        } else {
            counts.1 += 1;
        }
    }
    counts
}

#[test]
fn hostile_vmx_files_are_survived() {
    let (read, refused) = replay_all(Format::Vmx);
    assert!(
        read >= 10 && refused >= 10,
        "{read} read, {refused} refused"
    );
}

#[test]
fn hostile_proxmox_files_are_survived() {
    let (read, refused) = replay_all(Format::Proxmox);
    assert!(
        read >= 10 && refused >= 10,
        "{read} read, {refused} refused"
    );
}

/// Work must grow with the size of the file only: this is seconds when it does and hours when it does not.
#[test]
fn long_files_are_no_hang() {
    let settings = |line: fn(usize) -> String| -> String { (0..10_000).map(line).collect() };
    for (format, text) in [
        (
            Format::Vmx,
            settings(|index| format!("pciPassthru{index}.present = \"TRUE\"\n")),
        ),
        (
            Format::Vmx,
            settings(|index| format!("sched.vcpu{index}.affinity = \"0-4095\"\n")),
        ),
        (
            Format::Vmx,
            settings(|_| "numvcpus = \"4096\"\n".to_owned()),
        ),
        (
            Format::Proxmox,
            settings(|index| format!("hostpci{index}: 01:00.0;02:00.0\n")),
        ),
        (
            Format::Proxmox,
            settings(|_| "numa1: cpus=0-4095,memory=9\n".to_owned()),
        ),
        (
            Format::Proxmox,
            format!(
                "cores: 4096\nargs: {}\n",
                "-numa dist,src=0,dst=1,val=9 ".repeat(10_000)
            ),
        ),
        (
            Format::Proxmox,
            format!(
                "cores: 1\nargs: {}\n",
                "-machine smp.dies=1 ".repeat(10_000)
            ),
        ),
    ] {
        assert!(replay(format, "generated", text.as_bytes()));
    }
}
