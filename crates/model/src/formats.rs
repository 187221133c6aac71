//! The four file formats of VMs: text in, text out.
//!
//! Each format is one module with the same four functions around the common [`Spec`], so that there are readers and
//! writers but no pairwise converters:
//!
//! - `read(text) -> Result<Spec, ParseError>`
//! - `write(&Spec, &Target) -> Written`: a new file
//! - `edit(text, &Spec, &Target) -> Result<Written, ParseError>`: change what we own, keep every other byte;
//!   editing with what was read gives the same bytes
//! - `lint(text) -> Result<Vec<Finding>, ParseError>`: what is wrong with the file by itself
//!
//! What a format (or the emulator version) cannot express is a [`Finding`] whose code starts with `lost-`.

pub mod cpu_model;
mod guest_os;
pub mod libvirt;
mod lines;
mod passthrough;
mod pci;
pub mod proxmox;
pub mod qemu;
mod smp;
mod splice;
pub mod vmx;

use std::ops::Range;

use crate::finding::Finding;
use crate::host::Vendor;
use crate::vm::Spec;

/// Largest file a reader looks at, in bytes; a domain XML has a few tens of KiB.
pub const MAX_FILE_BYTES: usize = 8 << 20;

/// A VM file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// libvirt domain XML.
    Libvirt,
    /// A QEMU command line.
    Qemu,
    /// VMware's `.vmx`.
    Vmx,
    /// Proxmox VE's `qemu-server/NNN.conf`.
    Proxmox,
}

/// Why a text is no VM file of its format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    /// What was expected, what was found, what to do.
    pub message: String,
    /// Where, in bytes of the text.
    pub span: Range<usize>,
}

/// A file as written, with what could not be said in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The whole file.
    pub text: String,
    /// What the format or version cannot express, or what the reader of the file should know.
    pub findings: Vec<Finding>,
}

/// What a file is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Hardware virtualisation or software emulation.
    pub accelerator: Accelerator,
    /// Vendor of the host's processor: decides how a guest learns about SMT and caches.
    pub vendor: Vendor,
    /// QEMU's major version; `smp-cache` and modules need 10.
    pub qemu_major: u32,
}

/// Who runs the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// The processor.
    Kvm,
    /// QEMU's translator.
    Tcg,
}

impl Default for Target {
    fn default() -> Self {
        Self {
            accelerator: Accelerator::Kvm,
            vendor: Vendor::Other,
            qemu_major: 10,
        }
    }
}

impl Format {
    /// All formats, in the order the command line lists them.
    pub const ALL: [Self; 4] = [Self::Libvirt, Self::Qemu, Self::Vmx, Self::Proxmox];

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Libvirt => "libvirt",
            Self::Qemu => "qemu",
            Self::Vmx => "vmx",
            Self::Proxmox => "proxmox",
        }
    }

    /// The format a text is in, by content: XML with a `<domain`, a command line that starts QEMU, `key = "value"`
    /// lines, or `key: value` lines. `None` when nothing fits.
    pub fn detect(text: &str) -> Option<Self> {
        let text = text.trim_start_matches('\u{feff}').trim_start();
        if text.starts_with('<') {
            return text.contains("<domain").then_some(Self::Libvirt);
        }
        let lines = || {
            text.lines()
                .map(str::trim)
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
        };
        let first = lines().next()?;
        let program = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
        let starts_qemu = first.split_whitespace().next().is_some_and(|word| {
            word.starts_with('-') || program(word).starts_with("qemu") || program(word) == "kvm"
        });
        // Behind `exec`, `sudo` or the columns of `ps`.
        let runs_qemu = || {
            first
                .split_whitespace()
                .any(|word| program(word).starts_with("qemu-system-"))
        };
        if starts_qemu || runs_qemu() {
            return Some(Self::Qemu);
        }
        if lines().take(50).any(|line| {
            line.split_once('=')
                .is_some_and(|(_, value)| value.trim().starts_with('"'))
        }) {
            return Some(Self::Vmx);
        }
        let is_conf = |line: &str| {
            line.split_once(':').is_some_and(|(key, _)| {
                !key.is_empty()
                    && key
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
            })
        };
        lines().take(50).any(is_conf).then_some(Self::Proxmox)
    }

    /// Reads a file of this format.
    ///
    /// # Errors
    /// The text is larger than [`MAX_FILE_BYTES`], holds a NUL byte, or is not of the format.
    pub fn read(self, text: &str) -> Result<Spec, ParseError> {
        check_text(text)?;
        match self {
            Self::Libvirt => libvirt::read(text),
            Self::Qemu => qemu::read(text),
            Self::Vmx => vmx::read(text),
            Self::Proxmox => proxmox::read(text),
        }
    }

    /// Writes a new file of this format.
    pub fn write(self, spec: &Spec, target: &Target) -> Written {
        match self {
            Self::Libvirt => libvirt::write(spec, target),
            Self::Qemu => qemu::write(spec, target),
            Self::Vmx => vmx::write(spec, target),
            Self::Proxmox => proxmox::write(spec, target),
        }
    }

    /// Changes what we own in a file of this format.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn edit(self, text: &str, spec: &Spec, target: &Target) -> Result<Written, ParseError> {
        check_text(text)?;
        match self {
            Self::Libvirt => libvirt::edit(text, spec, target),
            Self::Qemu => qemu::edit(text, spec, target),
            Self::Vmx => vmx::edit(text, spec, target),
            Self::Proxmox => proxmox::edit(text, spec, target),
        }
    }

    /// What is wrong with a file by itself, without a host.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn lint(self, text: &str) -> Result<Vec<Finding>, ParseError> {
        check_text(text)?;
        match self {
            Self::Libvirt => libvirt::lint(text),
            Self::Qemu => qemu::lint(text),
            Self::Vmx => vmx::lint(text),
            Self::Proxmox => proxmox::lint(text),
        }
    }
}

impl ParseError {
    /// An error at a place of the text.
    pub fn new(message: impl Into<String>, span: Range<usize>) -> Self {
        Self {
            message: message.into(),
            span,
        }
    }
}

fn check_text(text: &str) -> Result<(), ParseError> {
    if text.len() > MAX_FILE_BYTES {
        let message = format!(
            "the file has {} bytes; a VM file has at most {MAX_FILE_BYTES}",
            text.len()
        );
        return Err(ParseError::new(message, 0..0));
    }
    if let Some(at) = text.find('\0') {
        return Err(ParseError::new(
            "the file holds a NUL byte; it is no text file",
            at..at + 1,
        ));
    }
    Ok(())
}
