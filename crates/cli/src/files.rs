//! Files in, files out: bounded when read, whole or not at all when written.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use crate::failure::Failure;

/// Reads a text file of at most `limit` bytes; `-` is standard input.
///
/// # Errors
/// The file cannot be read, is larger, or is not UTF-8.
pub(crate) fn read_text(path: &Path, limit: usize) -> Result<String, Failure> {
    let failed = |error| Failure::file("read", path, &error);
    let mut bytes = Vec::new();
    let most = limit as u64 + 1;
    if path == Path::new("-") {
        std::io::stdin()
            .lock()
            .take(most)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
    } else {
        let file = fs::File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(Failure::new(format!(
                "{} is a folder, not a file",
                path.display()
            )));
        }
        file.take(most).read_to_end(&mut bytes).map_err(failed)?;
    }
    if bytes.len() > limit {
        let text = format!("{} has more than {} MiB", path.display(), limit >> 20);
        return Err(Failure::new(text).help("give a VM or host description; those are small"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(format!("{} is not UTF-8 text (byte {at})", path.display()))
            .help("convert it first, e.g. with `iconv -f latin1 -t utf8`")
    })
}

/// Writes a file through a temporary neighbour and a rename, so that a reader sees the old or the new file and a
/// failure leaves the old one; permissions of an existing file are kept. `-` is standard output.
///
/// # Errors
/// The folder or the file cannot be written.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        return crate::say::out(text);
    }
    let failed = |error| Failure::file("write", path, &error);
    // A link stays a link: the file it names is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let permissions = match fs::metadata(&target) {
        Ok(metadata) if metadata.permissions().readonly() => {
            return Err(Failure::new(format!("{} is read-only", path.display()))
                .help("give another --output, or make it writable"));
        }
        Ok(metadata) => Some(metadata.permissions()),
        Err(_) => None,
    };
    let mut file = tempfile::Builder::new()
        .prefix(".vtopo-")
        .tempfile_in(folder)
        .map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    let permissions = permissions.unwrap_or_else(new_file_permissions);
    file.as_file()
        .set_permissions(permissions)
        .map_err(failed)?;
    file.persist(&target).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Temporary files are private; a file the user asked for is readable as usual.
fn new_file_permissions() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    fs::Permissions::from_mode(0o644)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_whole_keeps_mode_and_leaves_nothing_behind() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vm.conf");
        write_text(&path, "one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write_text(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o640
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_read_only_file_is_not_replaced() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vm.conf");
        fs::write(&path, "mine").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        assert!(write_text(&path, "yours").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }

    #[test]
    fn reading_is_bounded_and_explains() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, [b'a'; 100]).unwrap();
        assert!(
            read_text(&path, 10)
                .unwrap_err()
                .to_string()
                .contains("more than")
        );
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(
            read_text(&path, 10)
                .unwrap_err()
                .to_string()
                .contains("UTF-8")
        );
        assert!(read_text(folder.path(), 10).is_err());
    }
}
