//! Every preset in `machines/` is a sane host, agrees with the firmware what-ifs, and with the table of machines that it
//! was made from where that table lies beside the project.

use std::path::{Path, PathBuf};

use model::firmware::{self, Firmware};
use model::host::{Vendor, findings};
use model::host_file::{self, Description, Evidence};
use model::{Host, Severity};

/// Name of a preset, its text and what it describes.
struct Preset {
    name: String,
    text: String,
    described: Description,
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn presets() -> Vec<Preset> {
    let files =
        std::fs::read_dir(project().join("machines")).expect("machines/ is part of the project");
    let mut paths: Vec<PathBuf> = files
        .map(|file| file.expect("a readable folder").path())
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let name = stem.expect("preset names are ASCII").to_owned();
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let described = host_file::describe(&name, &text).unwrap_or_else(|error| {
            let line = text[..error.span.start].lines().count();
            panic!("{name}, line {line}: {error}")
        });
        Preset {
            name,
            text,
            described,
        }
    };
    paths.into_iter().map(read).collect()
}

fn counts(host: &Host) -> String {
    let (nodes, llcs, cores) = (host.nodes.len(), host.llcs.len(), host.cores.len());
    let gib = host.memory_mib() / 1024;
    format!(
        "{nodes} nodes, {llcs} LLCs, {cores} cores, {} CPUs, {gib} GiB",
        host.cpus.len()
    )
}

/// The presets that users were promised.
const DOCUMENTED: &[(&str, &str)] = &[
    (
        "epyc-7702-1s",
        "1 nodes, 16 LLCs, 64 cores, 128 CPUs, 1024 GiB",
    ),
    (
        "epyc-7702-2s",
        "2 nodes, 32 LLCs, 128 cores, 256 CPUs, 2048 GiB",
    ),
    (
        "epyc-7742-2s",
        "2 nodes, 32 LLCs, 128 cores, 256 CPUs, 2048 GiB",
    ),
    (
        "epyc-7713-2s",
        "2 nodes, 16 LLCs, 128 cores, 256 CPUs, 1024 GiB",
    ),
    (
        "epyc-7763-2s",
        "2 nodes, 16 LLCs, 128 cores, 256 CPUs, 2048 GiB",
    ),
    (
        "epyc-9654-2s",
        "2 nodes, 24 LLCs, 192 cores, 384 CPUs, 3072 GiB",
    ),
    (
        "epyc-9755-2s",
        "2 nodes, 32 LLCs, 256 cores, 512 CPUs, 3072 GiB",
    ),
    (
        "opteron-6174-4s",
        "8 nodes, 8 LLCs, 48 cores, 48 CPUs, 256 GiB",
    ),
    (
        "xeon-5120-2s",
        "2 nodes, 2 LLCs, 28 cores, 56 CPUs, 1536 GiB",
    ),
    (
        "xeon-6148-2s",
        "2 nodes, 2 LLCs, 40 cores, 80 CPUs, 1536 GiB",
    ),
    (
        "xeon-6330-2s",
        "2 nodes, 2 LLCs, 56 cores, 112 CPUs, 2048 GiB",
    ),
    (
        "xeon-8260c-2s",
        "2 nodes, 2 LLCs, 48 cores, 96 CPUs, 768 GiB",
    ),
    (
        "xeon-8380-2s",
        "2 nodes, 2 LLCs, 80 cores, 160 CPUs, 2048 GiB",
    ),
    (
        "xeon-8480-2s",
        "2 nodes, 2 LLCs, 112 cores, 224 CPUs, 2048 GiB",
    ),
    (
        "xeon-e7-8880v4-4s",
        "4 nodes, 4 LLCs, 88 cores, 176 CPUs, 1024 GiB",
    ),
    (
        "xeon-e7-8890v4-4s",
        "4 nodes, 4 LLCs, 96 cores, 192 CPUs, 2048 GiB",
    ),
    ("xeon-x5570-2s", "2 nodes, 2 LLCs, 8 cores, 16 CPUs, 96 GiB"),
    (
        "ryzen-7950x-1s",
        "1 nodes, 2 LLCs, 16 cores, 32 CPUs, 64 GiB",
    ),
    (
        "ryzen-9950x3d-1s",
        "1 nodes, 2 LLCs, 16 cores, 32 CPUs, 64 GiB",
    ),
    (
        "xeon-6980p-2s",
        "6 nodes, 2 LLCs, 256 cores, 512 CPUs, 3072 GiB",
    ),
    ("xeon-e5355-2s", "1 nodes, 4 LLCs, 8 cores, 8 CPUs, 32 GiB"),
    (
        "epyc-7601-2s",
        "8 nodes, 16 LLCs, 64 cores, 128 CPUs, 2048 GiB",
    ),
];

#[test]
fn the_documented_presets_are_there() {
    let found: Vec<(String, String)> = presets()
        .into_iter()
        .map(|preset| (preset.name, counts(&preset.described.host)))
        .collect();
    for (name, expected) in DOCUMENTED {
        let counts = found
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, counts)| counts.as_str());
        assert_eq!(counts, Some(*expected), "{name}");
    }
}

#[test]
fn every_figure_has_evidence_and_source() {
    for Preset {
        name, described, ..
    } in presets()
    {
        let host = &described.host;
        assert_eq!(host.name, name);
        assert!(
            name.ends_with(&format!("-{}s", host.packages.len())),
            "{name}"
        );
        assert!(
            !described.memory_evidence.is_empty() && host.memory_mib() > 0,
            "{name}"
        );
        assert!(
            !described.sources.is_empty() && !described.node_options.is_empty(),
            "{name}"
        );
        assert!(described.figures.len() > 1, "{name}");
        for figure in &described.figures {
            let at = format!("{name}: {}", figure.key);
            assert!(
                figure.evidence.is_some() && !figure.source.is_empty(),
                "{at}"
            );
            let [low, high] = figure.range.unwrap_or([figure.ns, figure.ns]);
            assert!(low <= figure.ns && figure.ns <= high, "{at}");
        }
        let latency = host.latency.as_ref().expect("figures make latencies");
        assert_eq!(latency.llc_ns.len(), host.llcs.len(), "{name}");
        assert!(!latency.measured_here, "{name}");
    }
}

#[test]
fn nothing_is_odd_but_what_the_machine_is() {
    for Preset {
        name,
        described,
        text,
    } in presets()
    {
        let expected: &[&str] = match name.as_str() {
            "xeon-6980p-2s" => &["nodes-per-package", "uneven-nodes"],
            "xeon-e5355-2s" => &["node-interleaving", "llc-is-l2"],
            "ryzen-9950x3d-1s" => &["uneven-llcs"],
            name if name.starts_with("epyc-7601") || name.starts_with("opteron") => {
                &["nodes-per-package"]
            }
            _ => &[],
        };
        let found = findings(&described.host);
        let codes: Vec<&str> = found.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, expected, "{name}");
        assert!(
            found
                .iter()
                .all(|finding| finding.severity < Severity::Error)
        );
        let no_smt = ["opteron", "xeon-e5355", "altra", "graviton"];
        let threads = if no_smt.iter().any(|stem| name.starts_with(stem)) {
            1
        } else {
            2
        };
        assert_eq!(described.host.threads_per_core(), threads, "{name}");
        let again = host_file::read(&name, &host_file::write(&described.host));
        assert_eq!(again, Ok(described.host), "{text}");
    }
}

/// What a preset lists as options is what the what-ifs allow, for the settings that exist on that processor.
#[test]
fn firmware_offers_the_listed_nodes() {
    for Preset {
        name, described, ..
    } in presets()
    {
        let host = &described.host;
        // The Opteron's nodes are its dies, the E5355 has none: neither has a setting.
        if name.starts_with("opteron") || name.starts_with("xeon-e5355") {
            continue;
        }
        let possible: Vec<u32> = (1..=4)
            .filter(|&n| {
                let is_amd = host.processor.vendor == Vendor::Amd;
                let (nps, snc) = if is_amd {
                    (Some(n), None)
                } else {
                    (None, Some(n))
                };
                let setting = Firmware {
                    nps,
                    snc,
                    ..Firmware::default()
                };
                let after = firmware::apply(host, &setting);
                after.is_ok_and(|after| after.nodes.len() == n as usize * host.packages.len())
            })
            .collect();
        // Where the processor is not known to the what-ifs, they allow more than the preset lists.
        let listed = &described.node_options;
        assert!(
            listed.iter().all(|n| possible.contains(n)),
            "{name}: {listed:?} of {possible:?}"
        );
        if host.processor.vendor != Vendor::Other && !name.starts_with("xeon-6980p") {
            assert_eq!(listed, &possible, "{name}");
        }
    }
}

/// A row of the table: column by name.
struct Row<'a>(Vec<(&'a str, String)>);

impl Row<'_> {
    fn cell(&self, column: &str) -> &str {
        let found = self.0.iter().find(|(name, _)| *name == column);
        found
            .map(|(_, cell)| cell.as_str())
            .expect("a column of the table")
    }

    /// The number a cell begins with; the middle where it begins with a range (`G: 110-125`).
    fn figure(&self, column: &str) -> Option<f64> {
        let text = self
            .cell(column)
            .trim_start_matches("G: ")
            .trim_start_matches('~');
        let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let (low, rest) = text.split_at(end.unwrap_or(text.len()));
        let low: f64 = low.parse().ok()?;
        let high = rest.strip_prefix('-').map_or("", |rest| {
            let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
            &rest[..end.unwrap_or(rest.len())]
        });
        Some(
            high.parse()
                .map_or(low, |high: f64| f64::midpoint(low, high)),
        )
    }
}

/// Fields of a line, where quoted ones may hold commas.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            _ => fields.last_mut().expect("never empty").push(letter),
        }
    }
    fields
}

/// The preset's name as the table writes it.
fn id_of(name: &str) -> String {
    match name {
        "xeon-8480-2s" => return "xeon8480p".into(),
        "altra-q80-1s" => return "altra_q80".into(),
        "ryzen-7950x-1s" => return "r7950x".into(),
        "ryzen-9950x3d-1s" => return "r9950x3d".into(),
        _ => {}
    }
    let model = name.rsplit_once('-').map_or(name, |(model, _)| model);
    match model.strip_prefix("xeon-") {
        Some(e7) if e7.starts_with("e7-") => e7.replace('-', "_"),
        Some(old) if old.starts_with(['e', 'x']) => old.to_owned(),
        _ => model.replace('-', ""),
    }
}

fn check_row(preset: &Preset, row: &Row) {
    let (name, host) = (&preset.name, &preset.described.host);
    let packages = host.packages.len();
    let is = |column: &str, found: usize| {
        let found = f64::from(u32::try_from(found).expect("small"));
        assert_eq!(row.figure(column), Some(found), "{name}: {column}");
    };
    is("cores_per_socket", host.cores.len() / packages);
    is("threads_per_core", host.threads_per_core() as usize);
    is(
        "ccd_or_dies_per_socket",
        (host.dies.len() / packages).max(1),
    );
    is("llc_per_socket", host.llcs.len() / packages);
    is("cores_per_llc", host.cores_in(&host.llcs[0].cpus) as usize);
    let kib = |level| {
        let cache = host
            .caches
            .iter()
            .find(|cache| cache.level == level && cache.kind != 'i');
        usize::try_from(cache.map_or(0, |cache| cache.size_bytes >> 10)).expect("small")
    };
    is("l2_kib_per_core", kib(2));
    let llc_kib = f64::from(u32::try_from(host.llcs[0].size_bytes >> 10).expect("small"));
    assert_eq!(
        row.figure("l3_mib_per_llc"),
        Some(llc_kib / 1024.0),
        "{name}"
    );
    for figure in &preset.described.figures {
        let column = match figure.key {
            "smt" => "c2c_smt_ns",
            "same_llc" => "c2c_same_llc_ns",
            "same_package" => "c2c_same_socket_other_llc_home_local_ns",
            "home_remote" => "c2c_same_socket_other_llc_home_remote_ns",
            "cross_package" => "c2c_cross_socket_ns",
            "dram_local" => "dram_local_ns",
            "dram_remote" => "dram_remote_ns",
            _ => continue,
        };
        // Rows that give figures for two and four sockets, or two sources that disagree.
        let is_chosen = (name.starts_with("xeon-e7") && figure.key == "cross_package")
            || (name.starts_with("xeon-x5570") && figure.key == "dram_local")
            || (name.starts_with("opteron") && figure.key == "dram_remote");
        if !is_chosen {
            let at = format!("{name}: {}", figure.key);
            assert_eq!(row.figure(column), Some(figure.ns), "{at}");
            let is_guess = row.cell(column).starts_with("G:");
            assert!(
                !is_guess || figure.evidence == Some(Evidence::G),
                "{at}: the table says G"
            );
        }
    }
}

#[test]
fn presets_are_the_table_of_machines() {
    let path = project().join("../shared/reference/machines.csv");
    let Ok(table) = std::fs::read_to_string(&path) else {
        eprintln!(
            "skipped: no table of machines beside the project ({})",
            path.display()
        );
        return;
    };
    let mut lines = table.lines();
    let header = fields(lines.next().expect("a header"));
    let rows: Vec<Row> = lines
        .map(|line| {
            Row(header
                .iter()
                .map(String::as_str)
                .zip(fields(line))
                .collect())
        })
        .collect();
    let presets = presets();
    for row in &rows {
        let id = row.cell("id");
        assert!(
            presets.iter().any(|preset| id_of(&preset.name) == id),
            "no preset for {id}"
        );
    }
    for preset in &presets {
        let found = rows
            .iter()
            .find(|row| row.cell("id") == id_of(&preset.name));
        // A 9454 is in the notes of the 9654's row only.
        assert!(
            found.is_some() || preset.name.starts_with("epyc-9454"),
            "{}",
            preset.name
        );
        if let Some(row) = found {
            check_row(preset, row);
        }
    }
}
