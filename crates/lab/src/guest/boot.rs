//! One boot: start, listen, stop.

use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::initramfs::{Initramfs, InitramfsError};
use super::plan::Plan;
use crate::report::dump::{self, Inbox};
use crate::report::{ReportError, SeenGuest};
use crate::sys;

/// What the kernel is told. Nothing here changes the topology: a console from the first message on, so that a panic has
/// words, but notices only, since a byte costs much under emulation; the end after a panic; and no measuring of clocks,
/// no self-tests and no mitigations, which take a fifth of an emulated boot (32 vCPUs, Linux 6.12).
const COMMAND_LINE: &str = "console=ttyS0 earlyprintk=serial,ttyS0 loglevel=6 panic=-1 \
    mitigations=off nokaslr tsc=reliable no_timer_check lpj=10000000 cryptomgr.notests";
/// Console output kept for error messages, in bytes and lines.
const CONSOLE_BYTES_MAX: usize = 16 << 10;
const CONSOLE_LINES_SHOWN: usize = 25;

/// How far a guest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// QEMU runs.
    Started,
    /// The kernel has printed its first line.
    Kernel,
    /// The kernel is up and our init runs.
    Init,
    /// The report comes in.
    Report {
        /// Bytes that are there.
        received: usize,
        /// Bytes that it has.
        total: usize,
    },
}

impl Progress {
    /// The stage in which a guest is that has got so far, for the middle of a sentence.
    pub(super) fn when(self) -> &'static str {
        match self {
            Self::Started => "before its kernel printed anything",
            Self::Kernel => "while its kernel started",
            Self::Init => "while its init gathered the report",
            Self::Report { .. } => "while it sent the report",
        }
    }
}

/// What a guest said.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestReport {
    /// What its kernel sees.
    pub seen: SeenGuest,
    /// The report as it was sent: [`SeenGuest::from_text`] reads it again.
    pub text: String,
    /// Tools that the host lacks, each with the reason; their output is missing from the report.
    pub skipped_tools: Vec<String>,
    /// From the start of the emulator to the end of the report.
    pub elapsed: Duration,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// No init to boot.
    #[error(transparent)]
    Initramfs(#[from] InitramfsError),
    /// QEMU is not there.
    #[error(
        "{emulator} is not installed; on Debian and Ubuntu `apt install qemu-system-x86`, on Fedora \
         `dnf install qemu-system-x86-core`"
    )]
    EmulatorMissing {
        /// The program that was tried.
        emulator: String,
    },
    /// A system call failed.
    #[error("cannot {action}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// QEMU or the guest ended early.
    #[error("the guest ended ({status}) {}; its last words:\n{console}", .reached.when())]
    Ended {
        /// How QEMU ended.
        status: String,
        /// How far the guest was.
        reached: Progress,
        /// Last lines of QEMU's messages and the guest's console.
        console: String,
    },
    /// The guest took too long.
    #[error(
        "no report after {} s: the guest hangs or is starved {}; its last words:\n{console}",
        after.as_secs(), .reached.when()
    )]
    Timeout {
        /// How long was waited.
        after: Duration,
        /// How far the guest was.
        reached: Progress,
        /// Last lines of QEMU's messages and the guest's console.
        console: String,
    },
    /// The report does not hold together.
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl BootError {
    /// The error for an emulator that does not start.
    pub(super) fn start(emulator: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Self::EmulatorMissing {
                emulator: emulator.display().to_string(),
            },
            _ => io_error("start the emulator")(source),
        }
    }
}

/// Boots a guest and takes its report. The guest is gone when this returns, and when the calling thread ends.
///
/// # Errors
/// [`BootError`] has the last lines of the guest's console.
pub fn boot(plan: &Plan, progress: &mut dyn FnMut(Progress)) -> Result<GuestReport, BootError> {
    boot_archive(plan, &Initramfs::with_tools()?, progress)
}

/// As [`boot`], with an archive of the caller's.
pub(super) fn boot_archive(
    plan: &Plan,
    archive: &Initramfs,
    progress: &mut dyn FnMut(Progress),
) -> Result<GuestReport, BootError> {
    let start = Instant::now();
    let mut guest = Guest::start(plan, archive)?;
    progress(Progress::Started);
    while let Some(event) = guest.wait(start, plan.timeout)? {
        let before = guest.reached;
        guest.take(event)?;
        if guest.reached != before {
            progress(guest.reached);
        }
        if let Some(body) = guest.inbox.body()? {
            return Ok(GuestReport {
                seen: dump::read_body(body)?,
                text: guest.inbox.frame(),
                skipped_tools: archive.skipped.clone(),
                elapsed: start.elapsed(),
            });
        }
    }
    let status = guest
        .child
        .wait()
        .map_err(io_error("wait for the emulator"))?;
    Err(BootError::Ended {
        status: describe_status(status),
        reached: guest.reached,
        console: guest.console.last_lines(),
    })
}

/// A running guest; dropping it kills and reaps the emulator.
struct Guest {
    child: Child,
    events: Receiver<Event>,
    inbox: Inbox,
    console: Console,
    reached: Progress,
}

enum Event {
    /// Bytes of the report's channel.
    Report(Vec<u8>),
    /// Bytes of the console or of QEMU's messages.
    Console(Vec<u8>),
}

impl Guest {
    fn start(plan: &Plan, archive: &Initramfs) -> Result<Self, BootError> {
        // QEMU opens its standard input again by name, from the start; the file itself has none.
        let file = tempfile::tempfile().map_err(io_error("make a temporary file"))?;
        let written = archive.write(io::BufWriter::new(&file));
        written.map_err(io_error("write the guest's initramfs"))?;
        let mut command = Command::new(&plan.setup.emulator);
        command
            .args(&plan.arguments)
            .args(["-nodefaults", "-no-user-config", "-no-reboot"])
            .args(["-display", "none", "-monitor", "none"])
            .args(["-chardev", "file,id=console,path=/dev/stderr"])
            .args(["-chardev", "file,id=report,path=/dev/stdout"])
            .args(["-serial", "chardev:console", "-serial", "chardev:report"])
            .arg("-kernel")
            .arg(&plan.setup.kernel)
            .args(["-initrd", "/dev/stdin", "-append", COMMAND_LINE])
            .stdin(file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        sys::die_with_parent(&mut command);
        let child = command.spawn();
        let mut child = child.map_err(|source| BootError::start(&plan.setup.emulator, source))?;
        let (sender, events) = mpsc::channel();
        let stdout = child.stdout.take().expect("it is piped");
        let stderr = child.stderr.take().expect("it is piped");
        forward(stdout, sender.clone(), Event::Report);
        forward(stderr, sender, Event::Console);
        Ok(Self {
            child,
            events,
            inbox: Inbox::default(),
            console: Console::default(),
            reached: Progress::Started,
        })
    }

    /// The next event, or `None` when the emulator has closed both channels.
    fn wait(&self, start: Instant, timeout: Duration) -> Result<Option<Event>, BootError> {
        let left = timeout.saturating_sub(start.elapsed());
        match self.events.recv_timeout(left) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(BootError::Timeout {
                after: timeout,
                reached: self.reached,
                console: self.console.last_lines(),
            }),
        }
    }

    /// Takes an event and notes how far the guest is.
    fn take(&mut self, event: Event) -> Result<(), ReportError> {
        match event {
            Event::Report(bytes) => {
                self.inbox.push(&bytes)?;
                if let Some(total) = self.inbox.total() {
                    let received = self.inbox.received();
                    // QEMU passes single bytes on; a step of progress is a hundredth.
                    let step = (total / 100).max(1);
                    let received = if received < total {
                        received - received % step
                    } else {
                        total
                    };
                    self.reached = Progress::Report { received, total };
                } else if self.inbox.greeted() {
                    self.reached = Progress::Init;
                }
            }
            Event::Console(bytes) => {
                self.console.push(&bytes);
                let first_line = "] Linux version ";
                if self.reached == Progress::Started && self.console.got(first_line, bytes.len()) {
                    self.reached = Progress::Kernel;
                }
            }
        }
        Ok(())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Both fail only when the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends what can be read to the channel, until either end closes.
fn forward(
    mut from: impl Read + Send + 'static,
    to: mpsc::Sender<Event>,
    event: fn(Vec<u8>) -> Event,
) {
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) if to.send(event(buffer[..length].to_vec())).is_err() => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    });
}

/// The end of the console's output.
#[derive(Default)]
struct Console {
    tail: Vec<u8>,
}

impl Console {
    fn push(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        let excess = self.tail.len().saturating_sub(CONSOLE_BYTES_MAX);
        self.tail.drain(..excess);
    }

    /// Whether the words are there, with at least one byte of them among the last `new` bytes.
    fn got(&self, words: &str, new: usize) -> bool {
        let words = words.as_bytes();
        let start = self.tail.len().saturating_sub(new + words.len());
        let mut windows = self.tail[start..].windows(words.len());
        windows.any(|window| window == words)
    }

    fn last_lines(&self) -> String {
        let text = String::from_utf8_lossy(&self.tail);
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty())
            .collect();
        match lines.len().saturating_sub(CONSOLE_LINES_SHOWN) {
            0 if lines.is_empty() => "(nothing)".to_owned(),
            first => lines[first..].join("\n"),
        }
    }
}

fn describe_status(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no status".to_owned(),
    }
}

fn io_error(action: &'static str) -> impl FnOnce(io::Error) -> BootError {
    move |source| BootError::Io { action, source }
}
