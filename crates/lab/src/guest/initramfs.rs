//! The archive a guest starts from: our init, and the host's real tools with the libraries they need.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use cpio::{NewcBuilder, write_cpio};

/// The static init, empty when it could not be built.
const INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/init.bin"));
/// Why there is no init, empty when there is one.
const INIT_MISSING: &str = include_str!(concat!(env!("OUT_DIR"), "/init.why"));

/// The tools a user would type in the guest.
const TOOLS: [&str; 2] = ["lscpu", "numactl"];
/// Where distributions install them.
const TOOL_FOLDERS: [&str; 4] = ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin"];

/// What goes into the archive.
#[derive(Debug, Clone, Default)]
pub(super) struct Initramfs {
    /// Entries by path without the leading slash; parents come before their children.
    entries: BTreeMap<String, Entry>,
    /// Tools that were left out, each with the reason.
    pub(super) skipped: Vec<String>,
}

#[derive(Debug, Clone)]
enum Entry {
    Folder,
    Program(Vec<u8>),
    /// A character device.
    Device {
        major: u32,
        minor: u32,
    },
}

/// Why there is nothing to start a guest from.
#[derive(Debug, thiserror::Error)]
pub enum InitramfsError {
    /// The program was built without its init.
    #[error("this vtopo was built without the guest's init, so it cannot boot guests: {0}")]
    NoInit(&'static str),
}

impl Initramfs {
    /// The init alone: enough for a report from sysfs.
    ///
    /// # Errors
    /// This program was built without an init.
    pub(super) fn minimal() -> Result<Self, InitramfsError> {
        if INIT.is_empty() {
            return Err(InitramfsError::NoInit(INIT_MISSING));
        }
        let mut archive = Self::default();
        for folder in ["dev", "proc", "sys", "tools/lib"] {
            archive.add_folder(folder);
        }
        // The kernel opens it for process 1 before /dev is mounted (Documentation/admin-guide/devices.txt: 5,1).
        let console = Entry::Device { major: 5, minor: 1 };
        archive.entries.insert("dev/console".to_owned(), console);
        archive.add_program("init", INIT.to_vec());
        Ok(archive)
    }

    /// The init and those of the host's `lscpu` and `numactl` that can be taken along.
    ///
    /// # Errors
    /// As [`minimal`](Self::minimal).
    pub(super) fn with_tools() -> Result<Self, InitramfsError> {
        let mut archive = Self::minimal()?;
        for tool in TOOLS {
            if let Err(reason) = archive.add_tool(tool) {
                archive.skipped.push(format!("{tool}: {reason}"));
            }
        }
        Ok(archive)
    }

    /// Writes the archive in the `newc` format, uncompressed: unpacking costs the guest more than loading.
    ///
    /// # Errors
    /// The writer's.
    pub(super) fn write(&self, output: impl Write) -> io::Result<()> {
        let entries = self.entries.iter().map(|(path, entry)| {
            let header = NewcBuilder::new(path);
            match entry {
                Entry::Folder => (header.mode(0o040_755).nlink(2), Cursor::new(&[][..])),
                Entry::Program(bytes) => (header.mode(0o100_755), Cursor::new(&bytes[..])),
                Entry::Device { major, minor } => {
                    let header = header.rdev_major(*major).rdev_minor(*minor);
                    (header.mode(0o020_600), Cursor::new(&[][..]))
                }
            }
        });
        write_cpio(entries, output)?.flush()
    }

    /// Adds a tool and its libraries, or nothing at all.
    fn add_tool(&mut self, tool: &str) -> Result<(), String> {
        let program = TOOL_FOLDERS
            .iter()
            .map(|folder| Path::new(folder).join(tool))
            .find(|path| path.is_file())
            .ok_or_else(|| format!("not installed on this host (looked in {TOOL_FOLDERS:?})"))?;
        let read = |path: &Path| {
            fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let mut files = vec![(format!("tools/{tool}"), read(&program)?)];
        for need in needs(&program)? {
            let path = match &need {
                Need::Loader(path) => path.to_string_lossy().trim_matches('/').to_owned(),
                Need::Library { name, .. } => format!("tools/lib/{name}"),
            };
            let (Need::Loader(file) | Need::Library { file, .. }) = need;
            files.push((path, read(&file)?));
        }
        for (path, bytes) in files {
            self.add_program(&path, bytes);
        }
        Ok(())
    }

    fn add_program(&mut self, path: &str, bytes: Vec<u8>) {
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.add_folder(folder);
        }
        self.entries.insert(path.to_owned(), Entry::Program(bytes));
    }

    fn add_folder(&mut self, path: &str) {
        for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
            self.entries.insert(path[..end].to_owned(), Entry::Folder);
        }
    }
}

/// A file that a program cannot start without.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Need {
    /// The dynamic loader, by the absolute path that stands in the program.
    Loader(PathBuf),
    /// A shared library by the name that stands in the program, and where the host has it.
    Library { name: String, file: PathBuf },
}

/// Asks the host's `ldd` what a program needs; a static program needs nothing.
fn needs(program: &Path) -> Result<Vec<Need>, String> {
    let output = Command::new("ldd")
        .arg(program)
        .env("LC_ALL", "C")
        .output()
        .map_err(|error| format!("ldd does not start: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("not a dynamic executable") || text.contains("statically linked") {
        return Ok(Vec::new());
    }
    if !output.status.success() {
        return Err(format!("ldd fails: {}", errors.trim()));
    }
    read_ldd(&text)
}

/// Reads lines such as `libc.so.6 => /lib/libc.so.6 (0x7f00)` and `/lib64/ld-linux-x86-64.so.2 (0x7f00)`; the kernel's
/// own `linux-vdso.so.1 (0x7f00)` needs no file.
fn read_ldd(text: &str) -> Result<Vec<Need>, String> {
    let mut needs = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some(name), Some("=>"), Some(file)) if file.starts_with('/') => {
                let (name, file) = (name.to_owned(), PathBuf::from(file));
                needs.push(Need::Library { name, file });
            }
            (Some(name), Some("=>"), _) => return Err(format!("its library {name} is missing")),
            (Some(path), ..) if path.starts_with('/') => needs.push(Need::Loader(path.into())),
            _ => {}
        }
    }
    Ok(needs)
}

#[cfg(test)]
mod tests {
    use cpio::NewcReader;

    use super::*;

    /// Names and modes of an archive's entries, in order.
    fn list(archive: &Initramfs) -> Vec<(String, u32)> {
        let mut bytes = Vec::new();
        archive.write(&mut bytes).unwrap();
        let mut rest = &bytes[..];
        let mut found = Vec::new();
        loop {
            let reader = NewcReader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                return found;
            }
            found.push((reader.entry().name().to_owned(), reader.entry().mode()));
            rest = reader.finish().unwrap();
        }
    }

    #[test]
    fn parents_come_before_children_once_each() {
        let mut archive = Initramfs::default();
        archive.add_program("lib64/deep/ld.so", vec![1]);
        archive.add_program("lib64/other", vec![2, 3]);
        let names: Vec<String> = list(&archive).into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            ["lib64", "lib64/deep", "lib64/deep/ld.so", "lib64/other"]
        );
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    fn the_minimal_archive_has_an_executable_init_and_a_console() {
        let entries = list(&Initramfs::minimal().unwrap());
        assert!(entries.contains(&("init".to_owned(), 0o100_755)));
        assert!(entries.contains(&("dev/console".to_owned(), 0o020_600)));
        assert!(INIT.starts_with(b"\x7fELF"));
        let has_interpreter = INIT.windows(7).any(|bytes| bytes == b"/ld-lin");
        assert!(!has_interpreter, "the init is not static");
    }

    #[test]
    fn a_tool_that_the_host_lacks_is_skipped_and_leaves_nothing() {
        let mut archive = Initramfs::default();
        let reason = archive.add_tool("no-such-tool").unwrap_err();
        assert!(reason.contains("not installed"), "{reason}");
        assert!(archive.entries.is_empty());
    }

    #[test]
    fn ldd_is_read_with_loader_and_libraries() {
        let text = "\tlinux-vdso.so.1 (0x00007f00)\n\
                    \tlibnuma.so.1 => /lib/x86_64-linux-gnu/libnuma.so.1 (0x00007f01)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f02)\n";
        let library = Need::Library {
            name: "libnuma.so.1".to_owned(),
            file: "/lib/x86_64-linux-gnu/libnuma.so.1".into(),
        };
        let loader = Need::Loader("/lib64/ld-linux-x86-64.so.2".into());
        assert_eq!(read_ldd(text), Ok(vec![library, loader]));
        let missing = read_ldd("\tlibx.so => not found\n").unwrap_err();
        assert_eq!(missing, "its library libx.so is missing");
    }
}
