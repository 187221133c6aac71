//! `vtopo simulate` as a user gets it: golden answers, the JSON contract, equal bytes on any number of threads, the files it
//! writes, what is refused, and what is no request at all.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use assert_cmd::Command;
use serde_json::Value;

/// Two kinds of VMs on a machine of two LLCs, for a quarter of a second.
const SMALL: &str = r#"
host = "pack:1 [numa(memory=16GiB)] l3:2(size=16MiB) core:2 pu:2"
policy = ["spread", "best"]
[run]
duration = "250ms"
warmup = "50ms"
seeds = 2
timeline = "20ms"
[[vm]]
name = "db"
count = 2
vcpus = 2
memory = "2G"
cpu = "50%"
workload = "work"
[workload.work]
clients = { kind = "closed", users = "4/vcpu", think = "load" }
[[workload.work.step]]
cpu = "500us"
[[qos]]
workload = "work"
metric = "p99"
limit = "1s"
"#;

struct Run {
    code: i32,
    out: String,
    err: String,
}

fn run(scenario: &str, arguments: &[&str]) -> Run {
    let output = Command::cargo_bin("vtopo")
        .unwrap()
        .args(["simulate", "-"])
        .args(arguments)
        .write_stdin(scenario)
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .timeout(Duration::from_mins(2))
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let run = Run {
        code: output
            .status
            .code()
            .unwrap_or_else(|| panic!("{arguments:?} died: {}", output.status)),
        out: text(output.stdout),
        err: text(output.stderr),
    };
    assert!(!run.err.contains("panicked"), "{arguments:?}: {}", run.err);
    run
}

fn json(scenario: &str, arguments: &[&str]) -> (i32, Value) {
    let run = run(scenario, &[arguments, &["--json"]].concat());
    let value = serde_json::from_str(&run.out)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {} {}", run.out, run.err));
    (run.code, value)
}

/// Figures change whenever the machine model becomes better: what is checked is how the answer is told.
fn without_figures(text: &str) -> String {
    let mut plain = String::new();
    let mut was_digit = false;
    for letter in text.chars() {
        let is_digit = letter.is_ascii_digit() || was_digit && letter == '.';
        match (is_digit, was_digit) {
            (true, false) => plain.push('#'),
            (true, true) => {}
            (false, _) => plain.push(letter),
        }
        was_digit = is_digit;
    }
    let lines = plain
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn the_answer_is_a_table_with_intervals() {
    let answer = run(SMALL, &[]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    assert!(
        answer
            .out
            .starts_with("Simulated, not measured: 2 VMs with 4 vCPUs"),
        "{}",
        answer.out
    );
    assert!(
        answer.out.lines().all(|line| line.chars().count() <= 100),
        "{}",
        answer.out
    );
    assert!(answer.err.contains("simulated seconds"), "{}", answer.err);
    assert!(
        !answer.out.contains("events"),
        "speed is no part of the answer"
    );
    let plain = without_figures(&answer.out);
    for line in [
        "spread best to spread",
        "throughput ops/s # ±# # ±# ",
        "Limits",
        "- spread: work p# at most # s: ",
    ] {
        assert!(plain.contains(line), "{line:?} is not in {plain}");
    }
}

#[test]
fn documents_keep_the_contract() {
    let (code, document) = json(SMALL, &["--rule", "flat,auto"]);
    assert_eq!(code, 0);
    assert_eq!(
        (&document["simulated"], &document["incomplete"]),
        (&true.into(), &false.into())
    );
    let runs = document["runs"].as_array().unwrap();
    let names: Vec<(&str, &str)> = runs
        .iter()
        .map(|run| {
            (
                run["policy"].as_str().unwrap(),
                run["rule"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        names,
        [
            ("spread", "flat"),
            ("spread", "auto"),
            ("best", "flat"),
            ("best", "auto")
        ]
    );
    for (index, run) in runs.iter().enumerate() {
        assert_eq!(run["seed_count"], 2);
        let throughput = &run["metrics"]["throughput"];
        let mean = throughput["mean"].as_f64().unwrap();
        let [low, high] = [0, 1].map(|end| throughput["ci95"][end].as_f64().unwrap());
        assert!(low <= mean && mean <= high && mean > 0.0, "{throughput}");
        assert_eq!(throughput["unit"], "ops/s");
        assert_eq!(throughput.get("difference_percent").is_some(), index > 0);
        assert_eq!(run["workloads"][0]["name"], "work");
        assert_eq!(run["vms"][1]["name"], "db2");
        assert_eq!(run["vms"][1]["workload"], "work");
        assert_eq!(
            (&run["qos"][0]["ok"], &run["qos"][0]["unit"]),
            (&true.into(), &"us".into())
        );
        // Two VMs of equal size: what is true of all is true of their mean.
        let of_vm = |vm: usize| {
            run["vms"][vm]["metrics"]["throughput"]["mean"]
                .as_f64()
                .unwrap()
        };
        assert!((of_vm(0) + of_vm(1) - mean).abs() < 1e-6 * mean);
    }
    let (_, single) = json(SMALL, &["--seeds", "1", "--policy", "llc"]);
    assert_eq!(
        single["runs"][0]["metrics"]["throughput"]["ci95"],
        Value::Null
    );
}

#[test]
fn equal_runs_give_equal_bytes_on_any_number_of_threads() {
    let of = |threads: &str| run(SMALL, &["--json", "--threads", threads]).out;
    let one = of("1");
    assert!(one.len() > 1000);
    for threads in ["1", "3", "0"] {
        assert_eq!(one, of(threads), "{threads} threads");
    }
    let other = run(SMALL, &["--json", "--seed", "77"]).out;
    assert_ne!(one, other, "seeds differ");
}

#[test]
fn values_are_set_and_swept() {
    let (_, document) = json(
        SMALL,
        &["--policy", "best", "--seeds", "1", "--set", "vm.db.count=3"],
    );
    assert_eq!(document["runs"][0]["vms"].as_array().unwrap().len(), 3);
    let swept = format!("{SMALL}[[sweep]]\nkey = \"vm.db.count\"\nvalues = [1, 2]\n");
    let (_, document) = json(&swept, &["--policy", "best", "--seeds", "1"]);
    let counts: Vec<(&str, usize)> = document["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| {
            (
                run["point"]["vm.db.count"].as_str().unwrap(),
                run["vms"].as_array().unwrap().len(),
            )
        })
        .collect();
    assert_eq!(counts, [("1", 1), ("2", 2)]);
}

#[test]
fn the_answer_is_no_when_a_limit_fails_or_a_vm_has_no_place() {
    let (code, document) = json(SMALL, &["--seeds", "1", "--set", "qos.work.limit=1us"]);
    assert_eq!(
        (code, &document["runs"][0]["qos"][0]["ok"]),
        (1, &false.into())
    );
    let (code, document) = json(SMALL, &["--seeds", "1", "--set", "vm.db.memory=12G"]);
    assert_eq!(code, 1);
    let why = document["runs"][0]["refused"].as_str().unwrap();
    assert!(why.contains("cannot place"), "{why}");
    let answer = run(SMALL, &["--seeds", "1", "--set", "vm.db.memory=12G"]);
    assert!(answer.out.contains("Not simulated"), "{}", answer.out);
    let late =
        format!("{SMALL}\n[[vm]]\nname = \"late\"\nvcpus = 2\nmemory = \"20G\"\non = \"100ms\"\n");
    let answer = run(&late, &["--seeds", "1"]);
    assert_eq!(answer.code, 1, "{}", answer.out);
    assert!(
        answer.out.contains("late was not powered on"),
        "{}",
        answer.out
    );
}

#[test]
fn the_most_is_found() {
    let arguments = [
        "--policy",
        "best",
        "--seeds",
        "1",
        "--find-max",
        "vm.db.count",
    ];
    let (code, document) = json(SMALL, &arguments);
    assert_eq!(code, 0);
    let found = &document["find_max"][0];
    // 16 GiB hold eight VMs of 2 GiB at most.
    let most = found["most"].as_u64().unwrap();
    assert!((1..=8).contains(&most), "{found}");
    assert_eq!(found["bounded"], true);
    let tried: BTreeMap<u64, bool> = found["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| {
            (
                step["value"].as_u64().unwrap(),
                step["ok"].as_bool().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        (tried.get(&most), tried.get(&(most + 1))),
        (Some(&true), Some(&false))
    );
    let answer = run(SMALL, &[&arguments[..], &["--to", "2"]].concat());
    assert!(
        answer.out.contains("At least vm.db.count = 2"),
        "{}",
        answer.out
    );
    let (code, document) = json(
        SMALL,
        &[&arguments[..], &["--set", "qos.work.limit=1us"]].concat(),
    );
    assert_eq!((code, &document["find_max"][0]["most"]), (1, &Value::Null));
}

#[test]
fn a_report_holds_everything_in_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [page, csv] = ["a.html", "a.csv"].map(path);
    let nasty = SMALL.replace("name = \"db\"", "name = \"a<b>&c\"");
    let answer = run(&nasty, &["--report", &page, "--csv", &csv]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    let page = fs::read_to_string(&page).unwrap();
    for word in [
        "simulated, not measured",
        "best",
        "spread",
        "<svg",
        "prefers-color-scheme",
        "How to read it",
    ] {
        assert!(page.contains(word), "{word}");
    }
    for load in ["src=", "href=", "url(", "@import", "<script"] {
        assert!(!page.contains(load), "the page asks for more: {load}");
    }
    assert!(!page.contains("a<b>"), "names are text");
    let start = page.find("<body>").unwrap();
    let end = page.find("</body>").unwrap();
    let body = page[start..end + 7]
        .replace("<br>", "")
        .replace("&quot;", "'");
    roxmltree::Document::parse(&body)
        .unwrap_or_else(|error| panic!("the page is not well-formed: {error}"));
    let table = fs::read_to_string(&csv).unwrap();
    let columns = |line: &str| line.split(',').count();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines.len() > 40);
    assert!(lines.iter().all(|line| columns(line) == columns(lines[0])));
}

/// Slices of a CPU follow each other, last longer than nothing, and lie in the time that was asked for.
#[test]
fn a_trace_is_one_that_viewers_understand() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    let answer = run(SMALL, &["--seeds", "1", "--trace", path.to_str().unwrap()]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    let trace: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |kind: &'static str| events.iter().filter(move |event| event["ph"] == kind);
    let number = |event: &Value, key: &str| event[key].as_f64().unwrap();
    let mut ends: BTreeMap<u64, f64> = BTreeMap::new();
    for slice in of("X") {
        let (at, length) = (number(slice, "ts"), number(slice, "dur"));
        assert!(length > 0.0, "{slice}");
        assert!(at >= 50_000.0 && at + length <= 70_000.001, "{slice}");
        let end = ends.entry(slice["tid"].as_u64().unwrap()).or_default();
        assert!(*end <= at + 1e-6, "two at once: {slice}");
        *end = at + length;
        assert!(slice["name"].as_str().unwrap().contains(" vcpu "));
    }
    assert!(!ends.is_empty());
    assert_eq!(
        of("M")
            .filter(|event| event["name"] == "process_name")
            .count(),
        2
    );
    assert_eq!(
        of("M")
            .filter(|event| event["name"] == "thread_name")
            .count(),
        8
    );
    let mut last: BTreeMap<u64, f64> = BTreeMap::new();
    for counter in of("C") {
        let busy = counter["args"]["busy"].as_u64().unwrap();
        assert!(busy <= 4, "an LLC has four CPUs: {counter}");
        let before = last.insert(counter["pid"].as_u64().unwrap(), number(counter, "ts"));
        assert!(before.is_none_or(|before| before < number(counter, "ts")));
    }
    assert!(!last.is_empty());
}

#[test]
fn the_example_can_be_simulated() {
    let output = Command::cargo_bin("vtopo")
        .unwrap()
        .args(["simulate", "--example"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("epyc-7702-2s"));
    let short = [
        "--set",
        "run.duration=30ms",
        "--set",
        "run.warmup=5ms",
        "--set",
        "run.timeline=5ms",
    ];
    let answer = run(&text, &[&short[..], &["--seeds", "1"]].concat());
    assert!(answer.code < 2, "{}", answer.err);
}

#[test]
fn what_is_no_request_ends_with_2_and_says_what_to_do() {
    for (arguments, words) in [
        ("--policy lcc", "did you mean `llc`?"),
        ("--host nowhere", "no preset and no file"),
        ("--set vm.db.cont=3", "did you mean `count`?"),
        ("--set run.duration=0s", "duration"),
        ("--set nothing", "KEY=VALUE"),
        ("--seeds 0", "--seeds"),
        ("--rule square", "--rule"),
        ("--json --csv -", "the same place"),
        ("--csv x --report x", "the same place"),
        ("--find-max vm.db.cont", "did you mean `count`?"),
        ("--find-max vm.db.count --from 5 --to 2", "no range"),
        (
            "--find-max vm.db.count --report x.html",
            "cannot be used with",
        ),
        ("--to 5", "--find-max"),
    ] {
        let all: Vec<&str> = arguments.split_whitespace().collect();
        let answer = run(SMALL, &all);
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{arguments}");
        let flat = answer.err.replace('│', " ");
        let flat: Vec<&str> = flat.split_whitespace().collect();
        assert!(
            flat.join(" ").contains(words),
            "{arguments} says {}",
            answer.err
        );
    }
    for (wrong, words) in [
        (
            SMALL.replace("vcpus = 2", "vcpu = 2"),
            "did you mean `vcpus`?",
        ),
        (
            SMALL.replace("workload = \"work\"\n[workload", "[workload"),
            "no VM runs a workload",
        ),
        (SMALL.replace("[[qos]]", "[[qos"), "is no scenario"),
        (
            SMALL.replace("cpu = \"50%\"", "cpu = \"50%\"\nrule = \"fla\""),
            "did you mean `flat`?",
        ),
        (
            SMALL.replace("warmup = \"50ms\"", "warmup = \"9s\""),
            "warm-up",
        ),
    ] {
        let answer = run(&wrong, &[]);
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{wrong}");
        assert!(answer.err.contains(words), "{}", answer.err);
        assert!(
            answer.err.contains("-:"),
            "no file and line: {}",
            answer.err
        );
    }
    let no_limit = SMALL.split("[[qos]]").next().unwrap();
    let answer = run(no_limit, &["--find-max", "vm.db.count"]);
    assert_eq!(answer.code, 2);
    assert!(answer.err.contains("needs limits"), "{}", answer.err);
}

/// Ctrl-C: what is finished is printed, marked as incomplete, with the exit code of an interrupted process.
#[test]
fn an_interrupt_keeps_what_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.toml");
    fs::write(&path, SMALL.replace("seeds = 2", "seeds = 9000")).unwrap();
    let child = std::process::Command::new(assert_cmd::cargo::cargo_bin("vtopo"))
        .args([
            "simulate",
            path.to_str().unwrap(),
            "--json",
            "--policy",
            "llc",
        ])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let pid = child.id().to_string();
    let killed = std::process::Command::new("kill")
        .args(["-INT", &pid])
        .status()
        .unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["incomplete"], true);
    let seeds = document["runs"][0]["seed_count"].as_u64().unwrap();
    assert!(seeds < 9000, "{seeds}");
}
