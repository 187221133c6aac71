//! The init of the guests that `vtopo verify` boots: dumps what the kernel sees, runs the real tools, powers off.
//!
//! The report goes to the second serial port, which the kernel does not use as a console:
//!
//! ```text
//! VTOPO-INIT 1                          at once, so that the host knows that the kernel is up
//! VTOPO-REPORT 1 <bytes> <FNV-1a>       length and checksum of the body, in decimal and hexadecimal
//! @<bytes> <name>                       one section: a file of /sys or /proc, or a tool's output
//! ...
//! VTOPO-REPORT-END
//! ```
//!
//! The terminal layer writes `\r\n` for `\n`; the host takes every `\r` out again, and so does this program before it
//! counts. A file that does not exist has no section.
//!
//! One std-only file (and `sys.rs`), because `lab`'s build script compiles it with the bare compiler into a static
//! program. Speed under software emulation decides how it is written: one pass, one buffer, one write.

mod sys;

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// The report's channel.
const PORT: &str = "/dev/ttyS1";
/// Where the initramfs has the tools.
const TOOLS: &str = "/tools";
/// Where it has the shared libraries they need.
const LIBRARIES: &str = "/tools/lib";
/// Most bytes taken of one file or tool: `lscpu -J` on 4096 CPUs is far below.
const SECTION_BYTES_MAX: u64 = 4 << 20;

/// The tools whose words go into the report, with their arguments.
const COMMANDS: [(&str, &[&str]); 4] = [
    ("lscpu", &[]),
    ("lscpu", &["-J"]),
    ("lscpu", &["--extended=CPU,NODE,SOCKET,CORE,CACHE,ONLINE"]),
    ("numactl", &["--hardware"]),
];

fn main() {
    for (kind, target) in [("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys")] {
        // A mount that fails shows as sections that are missing; there is nobody here to tell.
        let _ = sys::mount_pseudo(kind, target);
    }
    if let Err(error) = send_report() {
        let mut console = io::stderr();
        let _ = writeln!(console, "init: cannot send the report to {PORT}: {error}");
    }
    sys::power_off();
}

/// Greets, gathers, and sends the framed report. The port is drained when it is closed, on return.
fn send_report() -> io::Result<()> {
    let mut port = OpenOptions::new().write(true).open(PORT)?;
    port.write_all(b"VTOPO-INIT 1\n")?;
    let mut report = Report::default();
    add_cpus(&mut report);
    add_nodes(&mut report);
    add_machine(&mut report);
    add_devices(&mut report);
    add_tools(&mut report);
    let mut frame = format!(
        "VTOPO-REPORT 1 {} {:016x}\n",
        report.body.len(),
        fnv1a(report.body.as_bytes())
    );
    frame.push_str(&report.body);
    frame.push_str("VTOPO-REPORT-END\n");
    port.write_all(frame.as_bytes())
}

/// The body of the report as it grows.
#[derive(Default)]
struct Report {
    body: String,
}

impl Report {
    /// Adds a section; blanks and carriage returns at its end carry nothing.
    fn add(&mut self, name: &str, text: &str) {
        let text = text.trim_end().replace('\r', "");
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "@{} {name}\n{text}", text.len());
    }

    /// Adds a file if it can be read.
    fn add_file(&mut self, name: &str, path: &str) {
        if let Some(text) = read(path) {
            self.add(name, &text);
        }
    }

    /// Adds those lines of a file that have one of the words in them.
    fn add_lines(&mut self, name: &str, path: &str, words: &[&str]) {
        let Some(text) = read(path) else { return };
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| words.iter().any(|word| line.contains(word)))
            .map(str::trim)
            .collect();
        self.add(name, &lines.join("\n"));
    }
}

fn add_cpus(report: &mut Report) {
    let root = "/sys/devices/system/cpu";
    for file in ["online", "present", "possible"] {
        report.add_file(&format!("cpu/{file}"), &format!("{root}/{file}"));
    }
    for cpu in numbered(root, "cpu") {
        let (name, path) = (format!("cpu{cpu}"), format!("{root}/cpu{cpu}"));
        report.add_file(&format!("{name}/online"), &format!("{path}/online"));
        for file in entries(&format!("{path}/topology")) {
            // The bit masks say the same as the lists, at greater length.
            if file.ends_with("_id") || file.ends_with("_list") {
                let file = format!("topology/{file}");
                report.add_file(&format!("{name}/{file}"), &format!("{path}/{file}"));
            }
        }
        for index in numbered(&format!("{path}/cache"), "index") {
            for file in ["level", "type", "size", "shared_cpu_list", "id"] {
                let file = format!("cache/index{index}/{file}");
                report.add_file(&format!("{name}/{file}"), &format!("{path}/{file}"));
            }
        }
    }
}

fn add_nodes(report: &mut Report) {
    let root = "/sys/devices/system/node";
    for node in numbered(root, "node") {
        let (name, path) = (format!("node{node}"), format!("{root}/node{node}"));
        for file in ["cpulist", "distance"] {
            report.add_file(&format!("{name}/{file}"), &format!("{path}/{file}"));
        }
        let name = format!("{name}/meminfo");
        report.add_lines(&name, &format!("{path}/meminfo"), &["MemTotal"]);
    }
    // Pages that are there, whether or not the kernel keeps them for itself: what the firmware handed over.
    report.add_lines("zoneinfo", "/proc/zoneinfo", &["zone ", "present "]);
}

fn add_machine(report: &mut Report) {
    report.add_file("kernel", "/proc/sys/kernel/osrelease");
    report.add_file("cmdline", "/proc/cmdline");
    report.add_lines("meminfo", "/proc/meminfo", &["MemTotal"]);
    if let Ok(table) = fs::read("/sys/firmware/acpi/tables/APIC") {
        report.add("slots", &count_slots(&table).to_string());
    }
    // The first CPU stands for all; the whole file takes long to make with many.
    let mut start = vec![0; 4096];
    if let Ok(read) = File::open("/proc/cpuinfo").and_then(|mut file| file.read(&mut start)) {
        let text = String::from_utf8_lossy(&start[..read]);
        report.add("cpuinfo", text.split("\n\n").next().unwrap_or_default());
    }
}

/// CPUs that the firmware's MADT describes, present or not: local APICs (type 0) and local x2APICs (type 9) (ACPI 6.5
/// section 5.2.12). Linux counts the absent ones as possible only under hypervisors that it knows, which QEMU's
/// translator is not.
fn count_slots(madt: &[u8]) -> usize {
    let mut rest = madt.get(44..).unwrap_or_default();
    let mut slots = 0;
    while let [kind, length, ..] = *rest {
        slots += usize::from(kind == 0 || kind == 9);
        if length == 0 {
            break;
        }
        rest = rest.get(usize::from(length)..).unwrap_or_default();
    }
    slots
}

fn add_devices(report: &mut Report) {
    let root = "/sys/bus/pci/devices";
    for device in entries(root) {
        for file in ["class", "vendor", "device", "numa_node"] {
            let name = format!("pci/{device}/{file}");
            report.add_file(&name, &format!("{root}/{device}/{file}"));
        }
    }
}

fn add_tools(report: &mut Report) {
    for (tool, arguments) in COMMANDS {
        let program = Path::new(TOOLS).join(tool);
        if !program.exists() {
            continue;
        }
        let output = Command::new(program)
            .args(arguments)
            .env_clear()
            .env("LC_ALL", "C")
            .env("LD_LIBRARY_PATH", LIBRARIES)
            .stdin(Stdio::null())
            .output();
        let words: Vec<&str> = std::iter::once(tool)
            .chain(arguments.iter().copied())
            .collect();
        let text = match output {
            Ok(output) if output.status.success() => {
                String::from_utf8_lossy(&output.stdout).into_owned()
            }
            Ok(output) => format!(
                "failed, {}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            ),
            Err(error) => format!("failed to start: {error}"),
        };
        report.add(&format!("tool/{}", words.join(" ")), &text);
    }
}

/// The text of a file, or `None` when it cannot be read.
fn read(path: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(SECTION_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Names in a folder, sorted; none when there is no such folder.
fn entries(folder: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names
}

/// The numbers N of all entries `<prefix>N` of a folder, ascending.
fn numbered(folder: &str, prefix: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> = entries(folder)
        .iter()
        .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// FNV-1a, 64 bits: enough to notice a byte that a kernel message or a full buffer took away.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_counted_and_broken_tables_end_the_count() {
        let table = |entries: &[u8]| [&[0; 44], entries].concat();
        let local_apic = [0, 8, 1, 1, 0, 0, 0, 0];
        let io_apic = [1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let x2apic = [9, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        for (entries, slots) in [
            (Vec::new(), 0),
            ([&local_apic[..], &io_apic, &x2apic].concat(), 2),
            (vec![0, 0, 0, 0], 1),
            (vec![0, 200, 0], 1),
            (vec![0], 0),
        ] {
            assert_eq!(count_slots(&table(&entries)), slots, "{entries:?}");
        }
        assert_eq!(count_slots(&[0; 10]), 0);
    }

    #[test]
    fn sections_are_counted_after_trimming() {
        let mut report = Report::default();
        report.add("name", "a\r\nb\n\n");
        assert_eq!(report.body, "@3 name\na\nb\n");
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}
