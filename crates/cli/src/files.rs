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
    text_of(path, open(path)?, limit)
}

/// Opens a file; `-` is standard input.
///
/// # Errors
/// The file cannot be opened, or is a folder.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    let failed = |error| Failure::file("read", path, &error);
    let file = fs::File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(Failure::new(format!(
            "{} is a folder, not a file",
            path.display()
        )));
    }
    Ok(Box::new(file))
}

/// What an open file holds, as [`read_text`] takes it.
///
/// # Errors
/// The file cannot be read, is larger than the limit, or is not UTF-8.
pub(crate) fn text_of(path: &Path, file: impl Read, limit: usize) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::file("read", path, &error))?;
    if bytes.len() > limit {
        let text = format!("{} has more than {} MiB", path.display(), limit >> 20);
        return Err(Failure::new(text).help("give a VM or host description; those are small"));
    }
    if let Some(at) = bytes.iter().position(|&byte| byte == 0) {
        return Err(Failure::new(format!(
            "{} holds a NUL byte (byte {at}): it is no text file",
            path.display()
        ))
        .help("convert UTF-16 first, e.g. with `iconv -f utf16 -t utf8`"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(format!("{} is not UTF-8 text (byte {at})", path.display()))
            .help("convert it first, e.g. with `iconv -f latin1 -t utf8`")
    })
}

/// Writes a file through a temporary neighbour and a rename, so that a reader sees the old or the new file and a
/// failure leaves the old one; owner and permissions of an existing file are kept. What is no regular file (a pipe, a
/// device) is written in place, `-` is standard output.
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
    let old = fs::metadata(&target).ok();
    if old.as_ref().is_some_and(fs::Metadata::is_dir) {
        return Err(Failure::new(format!(
            "{} is a folder, not a file",
            path.display()
        )));
    }
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .open(&target)
            .map_err(failed)?;
        return file.write_all(text.as_bytes()).map_err(failed);
    }
    if old.as_ref().is_some_and(|old| old.permissions().readonly()) {
        return Err(Failure::new(format!("{} is read-only", path.display()))
            .help("give another --output, or make it writable"));
    }
    replace(&target, text, old.as_ref()).map_err(failed)
}

fn replace(target: &Path, text: &str, old: Option<&fs::Metadata>) -> std::io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // As readable as any new file: the process's umask takes away what it should.
    let usual = fs::Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new()
        .prefix(".vtopo-")
        .permissions(usual)
        .tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    if let Some(old) = old {
        // Only root may give a file away; for others it is theirs already, or the rename made it so.
        let _ = fchown(file.as_file(), Some(old.uid()), Some(old.gid()));
        file.as_file().set_permissions(old.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(target)?;
    Ok(())
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
    fn what_is_no_regular_file_is_written_in_place() {
        use std::os::unix::fs::FileTypeExt;
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).unwrap()
        });
        write_text(&pipe, "through").unwrap();
        assert_eq!(reader.join().unwrap(), "through");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
        assert!(write_text(folder.path(), "x").is_err());
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
