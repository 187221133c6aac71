//! Which files are meant, whether they are a scenario or a trace, and the lines of a trace one after the other: a trace may
//! be larger than memory.

use std::fs;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use sim::traces::{self, Kind, MAX_LINE_BYTES, Options, Reading, Trace};

use crate::args::SimulateCommand;
use crate::failure::Failure;
use crate::files;

/// What is looked at to recognise a format. Ours: the comments before an archive's first line have some ten KiB.
const HEAD_BYTES: u64 = 1 << 20;
/// Bytes of all files of a trace. Ours: 8 million VMs with a hundred bytes for each of two lines are 1.6 GB.
const MAX_BYTES: u64 = 16 << 30;

/// What the command is about.
pub(in crate::commands::simulate) enum Input {
    /// The text of a file that is no trace.
    Scenario(String),
    /// A trace.
    Trace(Opened),
}

/// A trace of which the first file is open.
pub(in crate::commands::simulate) struct Opened {
    pub(super) kind: Kind,
    files: Vec<PathBuf>,
    first: Box<dyn Read>,
}

/// Looks at what was typed: a trace is what looks like one, a folder, several files, or what has `--format`.
///
/// # Errors
/// Files that cannot be read, or several that look like no trace.
pub(in crate::commands::simulate) fn open(command: &SimulateCommand) -> Result<Input, Failure> {
    let files = expand(&command.files)?;
    let (path, others) = files
        .split_first()
        .expect("clap asks for a file unless there is --example");
    let mut file = files::open(path)?;
    let mut head = Vec::new();
    file.by_ref()
        .take(HEAD_BYTES)
        .read_to_end(&mut head)
        .map_err(|error| Failure::file("read", path, &error))?;
    let format = command.fleet.format.map(crate::args::TraceFormatArg::kind);
    let kind = format.or_else(|| traces::recognise(&String::from_utf8_lossy(&head)));
    let whole = Cursor::new(head).chain(file);
    match kind {
        Some(kind) => Ok(Input::Trace(Opened {
            kind,
            first: Box::new(whole),
            files,
        })),
        None if is_named_trace(path) => Err(Failure::new(format!(
            "{} looks like no trace that is known",
            path.display()
        ))
        .help("--format says which trace it is; docs/traces.md says what each format has")),
        None if others.is_empty() && command.files == files => {
            let limit = model::scenario::MAX_FILE_BYTES;
            Ok(Input::Scenario(files::text_of(path, whole, limit)?))
        }
        None => Err(Failure::new(format!(
            "{} looks like no trace that is known, and several files or a folder are no scenario",
            path.display()
        ))
        .help("give one scenario, or the files of a trace; --format says which trace it is (docs/traces.md)")),
    }
}

impl Opened {
    /// Reads all files.
    ///
    /// # Errors
    /// A file that cannot be read; a line that is not of the format.
    pub(super) fn read(self, command: &SimulateCommand) -> Result<Trace, Failure> {
        let mut options = Options {
            interval_ns: command.fleet.interval,
            ..Options::default()
        };
        if let Some(size) = command.fleet.size {
            (options.machine, options.vm) = (size, size);
        }
        let mut reading = Reading::new(self.kind, &options);
        let mut first = Some(self.first);
        let mut room = MAX_BYTES;
        for path in &self.files {
            let shown = path.display().to_string();
            if path != Path::new("-") {
                // The name of the last file's VM is that of the file it is in; its end may be what is wrong.
                reading.file(&shown).map_err(|error| wrong(path, &error))?;
            }
            let file = first.take().map_or_else(|| files::open(path), Ok)?;
            lines(&mut reading, path, file, &mut room)?;
        }
        let last = self.files.last().expect("there is a first file");
        reading.end().map_err(|error| wrong(last, &error))
    }
}

/// The files, with those of folders in the order of their names. Hidden files and folders within are left out.
fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let failed = |error| Failure::file("read", path, &error);
        let mut inside = Vec::new();
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if !is_hidden && entry.path().is_file() {
                inside.push(entry.path());
            }
        }
        if inside.is_empty() {
            return Err(
                Failure::new(format!("{} is a folder without files", path.display())).help(
                    "give a scenario, a trace, or the folder that holds the files of a trace",
                ),
            );
        }
        inside.sort_unstable();
        all.extend(inside);
    }
    Ok(all)
}

/// Whether the name says that the file is no scenario.
fn is_named_trace(path: &Path) -> bool {
    let suffix = path.extension().and_then(|suffix| suffix.to_str());
    suffix.is_some_and(|suffix| ["csv", "swf"].contains(&suffix.to_lowercase().as_str()))
}

fn lines(
    reading: &mut Reading,
    path: &Path,
    file: Box<dyn Read>,
    room: &mut u64,
) -> Result<(), Failure> {
    let mut file = BufReader::new(file);
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        // The end of a line, and a byte more, so that a line that is too long is seen to be.
        let count = file
            .by_ref()
            .take(MAX_LINE_BYTES as u64 + 3)
            .read_until(b'\n', &mut line)
            .map_err(|error| Failure::file("read", path, &error))?;
        if count == 0 {
            return Ok(());
        }
        *room = room.checked_sub(count as u64).ok_or_else(|| {
            Failure::new(format!(
                "{}: the trace has more than {} GiB",
                path.display(),
                MAX_BYTES >> 30
            ))
            .help("cut it into parts")
        })?;
        let bytes = line.strip_suffix(b"\n").unwrap_or(&line);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let is_too_long = bytes.len() > MAX_LINE_BYTES;
        let text = match String::from_utf8_lossy(bytes) {
            std::borrow::Cow::Owned(_) if !is_too_long => {
                return Err(Failure::new(format!(
                    "{}: line {number}: this is not UTF-8 text",
                    path.display()
                ))
                .help("convert it first, e.g. with `iconv -f latin1 -t utf8`"));
            }
            text => text,
        };
        reading.line(&text).map_err(|error| wrong(path, &error))?;
    }
    Ok(())
}

fn wrong(path: &Path, error: &traces::TraceError) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
        .help("docs/traces.md says what each format has; --format names another one")
}
