//! Finding a Linux kernel to boot.

use std::cmp::Reverse;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Why there is no kernel to boot.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// Nothing was found.
    #[error(
        "no Linux kernel found in {looked_in}{unreadable}; give one, or install one: on Debian \
         `apt install linux-image-cloud-amd64`, or without installing `apt-get download` the \
         package that it depends on and unpack it with `dpkg -x FILE.deb FOLDER`"
    )]
    NotFound {
        /// The places that were searched.
        looked_in: String,
        /// Kernels that are there but may not be read, as the end of a sentence; usually empty.
        unreadable: String,
    },
    /// The named file cannot be read.
    #[error("cannot read the kernel {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The named file is something else.
    #[error(
        "{} is no x86 Linux kernel image (bzImage): {found}; a kernel file is usually called vmlinuz-VERSION",
        path.display()
    )]
    NotKernel {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        found: &'static str,
    },
}

/// Finds a kernel: the explicit file, the newest kernel in the explicit folder, or the host's own (running, then newest in
/// `/boot`, then newest under `/usr/lib/modules`), as far as it can be read without more rights.
///
/// # Errors
/// [`KernelError`] says where was searched and what to install.
pub fn find_kernel(explicit: Option<&Path>) -> Result<PathBuf, KernelError> {
    match explicit {
        Some(path) if path.is_dir() => find_in(candidates_under(path), &path.display().to_string()),
        Some(path) => check_image(path).map(|()| path.to_owned()),
        None => find_in(host_candidates(), "/boot and /usr/lib/modules"),
    }
}

/// The first candidate that is a readable kernel.
fn find_in(candidates: Vec<PathBuf>, looked_in: &str) -> Result<PathBuf, KernelError> {
    let mut unreadable = String::new();
    for path in candidates {
        match check_image(&path) {
            Ok(()) => return Ok(path),
            Err(KernelError::Unreadable { source, .. })
                if source.kind() == io::ErrorKind::PermissionDenied && unreadable.is_empty() =>
            {
                unreadable = format!(
                    " ({} is there but only root may read it: copy it to where you may)",
                    path.display()
                );
            }
            Err(_) => {}
        }
    }
    let looked_in = looked_in.to_owned();
    Err(KernelError::NotFound {
        looked_in,
        unreadable,
    })
}

fn host_candidates() -> Vec<PathBuf> {
    let running = fs::read_to_string("/proc/sys/kernel/osrelease")
        .map(|release| PathBuf::from(format!("/boot/vmlinuz-{}", release.trim())));
    let mut found: Vec<PathBuf> = running.into_iter().collect();
    found.extend(images_in(Path::new("/boot")));
    found.extend(module_images(Path::new("/usr/lib/modules")));
    found
}

/// Where an unpacked kernel package has its image, for any of the layouts of Debian and Fedora.
fn candidates_under(folder: &Path) -> Vec<PathBuf> {
    let mut found = images_in(folder);
    found.extend(images_in(&folder.join("boot")));
    found.extend(module_images(&folder.join("usr/lib/modules")));
    found.extend(module_images(&folder.join("lib/modules")));
    found
}

/// Files `vmlinuz*` of a folder, newest version first.
fn images_in(folder: &Path) -> Vec<PathBuf> {
    newest_first(folder, |name| name.starts_with("vmlinuz"))
}

/// The images `VERSION/vmlinuz` of a folder of modules, newest version first.
fn module_images(folder: &Path) -> Vec<PathBuf> {
    let versions = newest_first(folder, |_| true);
    versions
        .iter()
        .map(|version| version.join("vmlinuz"))
        .collect()
}

fn newest_first(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| wanted(name))
        .collect();
    names.sort_by_cached_key(|name| Reverse((version_key(name), name.clone())));
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// The numbers of a file name in order, so that 6.12 comes after 6.9.
fn version_key(name: &str) -> Vec<u64> {
    name.split(|character: char| !character.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

/// Checks the boot sector's signature and the header magic (0xAA55 at 0x1fe, `HdrS` at 0x202; source:
/// `Documentation/arch/x86/boot.rst` of Linux).
fn check_image(path: &Path) -> Result<(), KernelError> {
    let unreadable = |source| KernelError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let mut start = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(0x206)
        .read_to_end(&mut start)
        .map_err(unreadable)?;
    if start.get(0x1fe..0x200) == Some(&[0x55, 0xaa]) && start.get(0x202..0x206) == Some(b"HdrS") {
        return Ok(());
    }
    let found = match &start[..] {
        [] => "it is empty",
        [0x7f, b'E', b'L', b'F', ..] => {
            "it is an ELF file, perhaps an uncompressed vmlinux or a module"
        }
        [0x1f, 0x8b, ..] => "it is a gzip file, perhaps an initramfs",
        [b'!', b'<', b'a', b'r', ..] => "it is a package; unpack it with `dpkg -x FILE.deb FOLDER`",
        _ => "it has no boot header",
    };
    Err(KernelError::NotKernel {
        path: path.to_owned(),
        found,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest file that passes for a kernel.
    fn image() -> Vec<u8> {
        let mut bytes = vec![0; 0x300];
        bytes[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes
    }

    #[test]
    fn a_wrong_file_is_named_for_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        for (bytes, expected) in [
            (&b""[..], "it is empty"),
            (b"\x7fELF\x02", "ELF"),
            (b"\x1f\x8b\x08", "gzip"),
            (b"!<arch>\n", "dpkg -x"),
            (&[0; 2000], "no boot header"),
            (&image()[..0x203], "no boot header"),
        ] {
            let path = folder.path().join("file");
            fs::write(&path, bytes).unwrap();
            let error = find_kernel(Some(&path)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_folder_gives_its_newest_kernel_and_an_empty_one_says_what_to_install() {
        let folder = tempfile::tempdir().unwrap();
        let error = find_kernel(Some(folder.path())).unwrap_err().to_string();
        assert!(error.contains("linux-image-cloud-amd64"), "{error}");
        fs::create_dir(folder.path().join("boot")).unwrap();
        for name in ["vmlinuz-6.9.1-amd64", "vmlinuz-6.12.4-amd64"] {
            fs::write(folder.path().join("boot").join(name), image()).unwrap();
        }
        fs::write(folder.path().join("boot/vmlinuz-7.0-broken"), "no kernel").unwrap();
        let found = find_kernel(Some(folder.path())).unwrap();
        assert!(found.ends_with("boot/vmlinuz-6.12.4-amd64"), "{found:?}");
    }

    #[test]
    fn a_file_that_is_not_there_is_an_error_with_its_name() {
        let error = find_kernel(Some(Path::new("/no/such/vmlinuz"))).unwrap_err();
        assert!(error.to_string().contains("/no/such/vmlinuz"), "{error}");
    }
}
