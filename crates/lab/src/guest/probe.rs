//! Who can run guests here: the processor, or only QEMU's translator.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use model::formats::{Accelerator, Target};
use model::{GuestCpu, GuestTopology, Spec};

use super::boot::{BootError, boot_archive};
use super::initramfs::Initramfs;
use super::plan::{MemoryMode, Plan, Setup};

/// A guest of one vCPU is up in 1 to 2 s where KVM works.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Memory of the probe guest in MiB.
const PROBE_MIB: u64 = 128;
const KVM_DEVICE: &str = "/dev/kvm";

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Who runs the guests.
    pub accelerator: Accelerator,
    /// What was tried and how it went, for a person.
    pub reason: String,
}

/// Tries KVM by booting a guest of one vCPU with the processor model that the real guests will have: a `/dev/kvm` may
/// open, make VMs and vCPUs, and still not run a kernel (nested virtualisation is often like that). The target's
/// accelerator does not matter; nothing is remembered between calls. Takes 10 s at most.
pub fn probe_accelerator(setup: &Setup, cpu: &GuestCpu, target: &Target) -> Probe {
    match try_kvm(setup, cpu, *target) {
        Ok(elapsed) => Probe {
            accelerator: Accelerator::Kvm,
            reason: format!(
                "a probe guest booted under KVM in {:.1} s",
                elapsed.as_secs_f64()
            ),
        },
        Err(reason) => Probe {
            accelerator: Accelerator::Tcg,
            reason: format!("KVM is not used: {reason}"),
        },
    }
}

/// QEMU's major version.
///
/// # Errors
/// QEMU is missing, does not run, or prints no version.
pub fn emulator_major(emulator: &Path) -> Result<u32, BootError> {
    let output = Command::new(emulator).arg("--version").output();
    let output = output.map_err(|source| BootError::start(emulator, source))?;
    let text = String::from_utf8_lossy(&output.stdout);
    read_major(&text).ok_or_else(|| BootError::Io {
        action: "read QEMU's version",
        source: io::Error::other(format!(
            "`{} --version` prints {:?}",
            emulator.display(),
            text
        )),
    })
}

/// The first number after the word `version`.
fn read_major(text: &str) -> Option<u32> {
    let (_, version) = text.split_once("version ")?;
    version.split(['.', ' ']).next()?.parse().ok()
}

fn try_kvm(setup: &Setup, cpu: &GuestCpu, mut target: Target) -> Result<Duration, String> {
    target.accelerator = Accelerator::Kvm;
    let device = OpenOptions::new().read(true).write(true).open(KVM_DEVICE);
    device.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!(
            "there is no {KVM_DEVICE}; load kvm_intel or kvm_amd, and turn virtualisation on in the firmware"
        ),
        io::ErrorKind::PermissionDenied => {
            format!("{KVM_DEVICE} may not be opened; add the user to its group (usually kvm)")
        }
        _ => format!("{KVM_DEVICE} does not open: {error}"),
    })?;
    let spec = Spec {
        name: "probe".to_owned(),
        vcpus: 1,
        memory_mib: PROBE_MIB,
        topology: Some(GuestTopology::uniform(1, [1; 5])),
        cpu: cpu.clone(),
        ..Spec::default()
    };
    let mut plan = Plan::new(&spec, &target, MemoryMode::Full, setup);
    plan.timeout = PROBE_TIMEOUT;
    let archive = Initramfs::minimal().map_err(|error| error.to_string())?;
    boot_archive(&plan, &archive, &mut |_| {})
        .map(|report| report.elapsed)
        .map_err(|error| explain(&error))
}

/// One line of an error whose console would fill a screen: QEMU's first complaint says most.
fn explain(error: &BootError) -> String {
    let (summary, console) = match error {
        BootError::Ended {
            status,
            reached,
            console,
        } => {
            let when = reached.when();
            (format!("the probe guest ended ({status}) {when}"), console)
        }
        BootError::Timeout {
            after,
            reached,
            console,
        } => {
            let (seconds, when) = (after.as_secs(), reached.when());
            (
                format!("the probe guest hung {when} (waited {seconds} s)"),
                console,
            )
        }
        other => return other.to_string(),
    };
    let mut lines = console.lines();
    match lines.find(|line| line.contains("KVM") || line.contains("kvm") || line.contains("rror")) {
        Some(line) => format!("{summary}: {}", line.trim()),
        None => summary,
    }
}

#[cfg(test)]
mod tests {
    use super::super::boot::Progress;
    use super::*;

    #[test]
    fn the_version_is_read_as_distributions_print_it() {
        for (text, expected) in [
            (
                "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright",
                Some(10),
            ),
            ("QEMU emulator version 7.2.17\n", Some(7)),
            ("something else", None),
            ("version \n", None),
        ] {
            assert_eq!(read_major(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_missing_emulator_says_what_to_install() {
        let error = emulator_major(Path::new("/no/such/qemu"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("apt install qemu-system-x86"), "{error}");
    }

    #[test]
    fn a_failed_probe_is_told_in_one_line() {
        let error = BootError::Ended {
            status: "signal 6".to_owned(),
            reached: Progress::Started,
            console: "qemu: warning: x\nqemu: error: failed to set MSR 0x10a\nmore\n".to_owned(),
        };
        let text = explain(&error);
        assert_eq!(
            text,
            "the probe guest ended (signal 6) before its kernel printed anything: qemu: error: failed to set MSR 0x10a"
        );
    }
}
