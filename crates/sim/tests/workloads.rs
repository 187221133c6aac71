//! Every file in `workloads/` is a workload whose numbers have evidence and a source; every file in `scenarios/` is a scenario
//! that can be run; hostile texts are survived.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use model::GuestTopology;
use sim::scenario::{self, Figure, Library, Nominal, Simulation};
use sim::spec::{Clients, RunSpec};

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names and texts of the TOML files of a folder, by name.
fn texts(folder: &str) -> Vec<(String, String)> {
    let files = fs::read_dir(project().join(folder)).unwrap();
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (stem, fs::read_to_string(path).unwrap())
    };
    paths.iter().map(read).collect()
}

fn library() -> Library {
    let mut library = Library::default();
    for (name, text) in texts("workloads") {
        let added = library.add(&name, &text);
        added.unwrap_or_else(|error| panic!("{name}: {error}: {:?}", text.get(error.span.clone())));
    }
    library
}

fn expanded(simulation: &Simulation) -> RunSpec {
    let flat = |vcpus| GuestTopology::uniform(vcpus, [vcpus, 1, 1, 1, 1]);
    let members = simulation.members.iter();
    let guests: Vec<GuestTopology> = members.map(|member| flat(member.vm.vcpus)).collect();
    scenario::expand(simulation, &Nominal::REFERENCE, &guests).unwrap()
}

#[test]
fn every_number_of_a_workload_has_evidence_and_a_source() {
    let library = library();
    let names: Vec<&str> = library.names().collect();
    for promised in [
        "coremark",
        "oltp",
        "oracle-dvdstore",
        "redis",
        "specjbb",
        "cassandra",
        "web",
        "db",
        "mail",
        "vdi",
        "fio",
        "iometer",
        "netperf-rr",
        "netperf-stream",
        "ping",
    ] {
        assert!(names.contains(&promised), "{promised}");
    }
    for name in names {
        assert!(!library.summary(name).is_empty(), "{name}");
        let figures = library.figures(name);
        assert!(figures.len() >= 11, "{name}: {} figures", figures.len());
        for figure in figures {
            let what = format!("{name}: {} = {}", figure.key, figure.value);
            if figure.value == "load" {
                continue;
            }
            assert!(
                !figure.evidence.is_empty() && figure.source.len() >= 5,
                "{what}"
            );
            // A prior says what it is, and where it starts from.
            let says = [
                "prior",
                "start value",
                "reference model",
                "as ",
                "oltp",
                "S0",
                "S1",
                "S2",
                "S3",
                "G",
            ];
            let is_marked = says.iter().any(|word| figure.source.contains(word));
            assert!(
                !figure.is_prior() || is_marked || figure.evidence == "G",
                "{what}: {}",
                figure.source
            );
        }
    }
}

#[test]
fn the_document_has_every_workload_and_no_prior_as_a_fact() {
    let library = library();
    let document = fs::read_to_string(project().join("docs/workloads.md")).unwrap();
    for name in library.names() {
        assert!(
            document.contains(&format!("\n| `{name}` | ")),
            "{name} has no row"
        );
        let head = format!("\n| [`{name}`](../workloads/{name}.toml) | ");
        let (_, row) = document
            .split_once(&head)
            .unwrap_or_else(|| panic!("{name} has no row of numbers"));
        let cells: Vec<&str> = row
            .lines()
            .next()
            .unwrap()
            .trim_end_matches(" |")
            .split(" | ")
            .collect();
        let figures = library.figures(name);
        let value = |key: &str| {
            figures
                .iter()
                .find(|figure| figure.key == key)
                .map(|figure| figure.value.clone())
        };
        let number = |text: &str| text.parse::<f64>().unwrap();
        for (cell, key) in [
            (2, "vector.llc_mpki"),
            (3, "vector.shared_lines_per_us"),
            (4, "vector.smt"),
        ] {
            assert!(
                (number(cells[cell]) - number(&value(key).unwrap())).abs() < 1e-9,
                "{name}: {key}"
            );
        }
        let mut facts: Vec<&str> = cells[5].split('`').skip(1).step_by(2).collect();
        let is_fact = |figure: &&Figure| !figure.is_prior();
        let mut expected: Vec<&str> = figures
            .iter()
            .filter(is_fact)
            .map(|figure| figure.key.as_str())
            .collect();
        facts.sort_unstable();
        expected.sort_unstable();
        assert_eq!(facts, expected, "{name}");
    }
}

#[test]
fn misses_are_those_of_the_stated_instructions() {
    let vector = library().workload("oltp").unwrap().vector;
    // 5 misses in 1,000 instructions, 2,000 instructions in a microsecond.
    assert!((vector.misses_per_us - 10.0).abs() < 1e-9);
    let nominal = Nominal::REFERENCE;
    // What the head of the file says: 1.6 times by misses, 4.8 times on eight vCPUs in two caches.
    let alone = nominal.stretch(&vector, 1);
    assert!((alone - 1.61).abs() < 0.01, "{alone}");
    let eight = nominal.stretch(&vector, 8);
    assert!((eight - 4.76).abs() < 0.01, "{eight}");
    // The reading of S3-09: eight caches make it about 1.5 times as slow as two.
    let spread = Nominal {
        llc_cores: 1,
        other_llc_ns: 132.0,
        ..nominal
    };
    let ratio = spread.stretch(&vector, 8) / eight;
    assert!((1.4..1.6).contains(&ratio), "{ratio}");
}

#[test]
fn every_scenario_can_be_run() {
    let library = library();
    for (name, text) in texts("scenarios") {
        let read = scenario::read(&text, &library);
        let simulation = read
            .unwrap_or_else(|error| panic!("{name}: {error}: {:?}", text.get(error.span.clone())));
        let run = expanded(&simulation);
        for workload in &run.workloads {
            let is_open_end = matches!(
                workload.clients,
                Clients::Closed { think: None, .. } | Clients::Open { per_s: None, .. }
            );
            assert!(!is_open_end, "{name}: {}", workload.name);
        }
        for point in scenario::grid(&simulation.sweeps) {
            let text = scenario::set(&text, &point).unwrap();
            expanded(&scenario::read(&text, &library).unwrap());
        }
        // The same file is a placement scenario.
        assert!(model::scenario::read(&text).is_ok(), "{name}");
    }
}

#[test]
fn the_example_is_what_it_says() {
    let text = fs::read_to_string(project().join("scenarios/example.toml")).unwrap();
    let simulation = scenario::read(&text, &library()).unwrap();
    let vcpus: u32 = simulation
        .members
        .iter()
        .map(|member| member.vm.vcpus)
        .sum();
    assert_eq!((simulation.members.len(), vcpus), (28, 160));
    let run = expanded(&simulation);
    assert_eq!(run.workloads.len(), 3, "one for each size and load");
    assert!(run.workloads.iter().all(|workload| workload.name == "oltp"));
    assert!(
        simulation
            .members
            .iter()
            .all(|member| (500..=700).contains(&member.vm.load))
    );
}

#[test]
fn hostile_texts_are_survived() {
    let library = library();
    let mut counts = [0, 0];
    for (name, text) in hostile() {
        match scenario::read(&text, &library) {
            Ok(simulation) => {
                counts[0] += 1;
                for point in scenario::grid(&simulation.sweeps) {
                    assert!(scenario::set(&text, &point).is_ok(), "{name}");
                }
            }
            Err(error) => {
                counts[1] += 1;
                assert!(text.get(error.span).is_some(), "{name}");
            }
        }
        for (key, value) in [
            ("vm.*.count", "2"),
            ("workload.oltp.clients.users", "3"),
            ("run.duration", "5s"),
        ] {
            let assignment = [(key.to_owned(), value.to_owned())];
            match scenario::set(&text, &assignment) {
                // What could be read before it was changed is TOML after it.
                Ok(changed) => assert!(scenario::set(&changed, &[]).is_ok(), "{name}:\n{changed}"),
                Err(error) => assert!(
                    error.key.is_some() || text.get(error.span).is_some(),
                    "{name}"
                ),
            }
        }
    }
    assert!(counts[0] >= 10 && counts[1] >= 30, "{counts:?}");
}

fn hostile() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for target in ["simulation", "scenario"] {
        let mut paths: Vec<PathBuf> = fs::read_dir(project().join("fuzz/corpus").join(target))
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
        paths.sort();
        for path in paths {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            found.push((path.display().to_string(), text));
        }
    }
    found
}
