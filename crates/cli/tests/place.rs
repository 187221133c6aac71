//! `vtopo place` as a user gets it: golden answers, the JSON contract, what is refused, and what is no request at all.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::time::Duration;

use assert_cmd::Command;
use serde_json::Value;

const ROME: &str = "epyc-7702-2s";
const SMALL: &str = "pack:2 [numa(memory=8GiB)] l3:2(size=16MiB) core:2 pu:2";
const POLICIES: [&str; 6] = [
    "best",
    "llc",
    "spread",
    "llc-pack",
    "ccx-as-numa",
    "linux-default",
];

struct Run {
    code: i32,
    out: String,
    err: String,
}

fn place(arguments: &[&str]) -> Run {
    let output = Command::cargo_bin("vtopo")
        .unwrap()
        .arg("place")
        .args(arguments)
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

fn answer(arguments: &[&str]) -> String {
    let run = place(arguments);
    assert_eq!(run.code, 0, "{arguments:?}: {}", run.err);
    run.out
}

fn json(arguments: &[&str]) -> (i32, Value) {
    let run = place(&[arguments, &["--json"]].concat());
    let value = serde_json::from_str(&run.out)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {} {}", run.out, run.err));
    (run.code, value)
}

fn names(list: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["vm"].as_str().unwrap())
        .collect();
    names.dedup();
    names
}

#[test]
fn one_screen_tells_why_best_is_better() {
    let text = answer(&[
        "--host",
        ROME,
        "--vm",
        "8x64G*30",
        "--policy",
        "spread,llc,best",
    ]);
    assert!(text.lines().count() <= 50, "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    let sentence = text
        .lines()
        .find(|line| line.starts_with("best loses"))
        .unwrap_or_else(|| panic!("best is not first: {text}"));
    assert!(sentence.contains("less than llc"), "{sentence}");
    insta::assert_snapshot!("place-compared", text);
}

#[test]
fn answers_look_like_this() {
    for (name, arguments) in [
        (
            "place-mixed",
            vec![
                "--host",
                ROME,
                "--vm",
                "8x64G*3",
                "--vm",
                "db=16x128G@bw=high,dedicated",
                "--vm",
                "small=2x4G*20@cpu=30%,io=20%",
                "--reserve",
                "0-3",
                "--reserve-memory",
                "64G",
            ],
        ),
        (
            "place-explain",
            vec![
                "--host",
                SMALL,
                "--vm",
                "4x1G*3",
                "--vm",
                "web=2x1G@io=50%",
                "--explain",
            ],
        ),
        (
            "place-fleet",
            vec![
                "--host",
                "epyc-7702-2s*3,xeon-8380-2s*2",
                "--vm",
                "8x64G*40",
                "--room",
                "8x64G",
                "--failover",
            ],
        ),
    ] {
        insta::assert_snapshot!(name, answer(&arguments));
    }
}

#[test]
fn the_document_is_what_scripts_rely_on() {
    let (code, one) = json(&["--host", SMALL, "--vm", "db=4x1G@io=10%", "--vm", "2x1G*2"]);
    assert_eq!((code, &one["policy"]), (0, &Value::from("best")));
    let groups = one["groups"].as_array().unwrap();
    assert!(groups.iter().all(|group| {
        group["llc"].is_u64()
            && group["node"].is_u64()
            && group["vcpus"].is_string()
            && group["cpus"].is_string()
            && group.get("host").is_none()
    }));
    let mut vms = names(&one["groups"]);
    vms.sort_unstable();
    vms.dedup();
    assert_eq!(vms, ["db", "vm1", "vm2"]);
    assert_eq!(names(&one["memory"]).len(), 3);
    assert!(one["memory"][0]["nodes"][0]["memory_mib"].is_u64());
    assert_eq!(names(&one["system"]), ["db"]);
    for key in [
        "placed",
        "refused",
        "llcs_spanned_mean",
        "nodes_spanned_mean",
        "packages_spanned_mean",
        "smt_paired_vcpus",
        "overcommit",
        "remote_memory_mib",
        "remote_memory_percent",
        "moves",
        "cost",
    ] {
        assert!(one["metrics"][key].is_number(), "{key}");
    }
    let terms = one["cost_terms"].as_object().unwrap().values();
    let sum: f64 = terms.map(|value| value.as_f64().unwrap()).sum();
    let cost = one["metrics"]["cost"].as_f64().unwrap();
    assert!((sum - cost).abs() < 0.01, "{sum} is not {cost}");
    for key in ["refused", "moves", "reasons", "findings"] {
        assert!(one[key].is_array(), "{key}");
    }

    let (_, several) = json(&["--host", SMALL, "--vm", "4x1G", "--policy", "llc,best"]);
    let runs = several["runs"].as_array().unwrap();
    assert_eq!(
        (&runs[0]["policy"], &runs[1]["policy"]),
        (&"llc".into(), &"best".into())
    );

    let (_, fleet) = json(&[
        "--host",
        "epyc-7702-2s*2",
        "--vm",
        "8x64G*3",
        "--room",
        "4x4G",
        "--failover",
    ]);
    let hosts = fleet["groups"].as_array().unwrap();
    assert!(
        hosts
            .iter()
            .all(|group| group["host"].as_str().unwrap().starts_with("epyc-7702-2s#"))
    );
    assert_eq!(fleet["room"]["by_host"].as_array().unwrap().len(), 2);
    assert_eq!(fleet["failover"].as_array().unwrap().len(), 2);
}

#[test]
fn equal_runs_give_equal_bytes() {
    for policy in POLICIES {
        let arguments = [
            "--host", ROME, "--vm", "5x16G*17", "--vm", "2x1G*9", "--json", "--policy", policy,
        ];
        assert_eq!(answer(&arguments), answer(&arguments), "{policy}");
    }
}

/// What cannot be placed is refused as a value; the others are placed, the exit code is 1.
#[test]
fn what_cannot_be_is_refused_and_the_rest_is_placed() {
    for policy in POLICIES {
        for bad in [
            "bad=300x1G",
            "bad=70000x1G",
            "bad=1x3000T",
            "bad=129x1G@dedicated",
            "bad=2x1G@cpus=0-3,nodes=1",
            "bad=2x1G@cpus=9000",
            "bad=2x1G@nodes=7",
            "bad=2x1G@cpus=8-9",
            "bad=0x1G",
        ] {
            let arguments = ["--host", ROME, "--reserve", "8-9", "--policy", policy];
            let vms = ["--vm", "good=8x64G*2", "--vm", bad];
            let (code, document) = json(&[&arguments[..], &vms].concat());
            assert_eq!(code, 1, "{policy} {bad}");
            assert_eq!(names(&document["refused"]), ["bad"], "{policy} {bad}");
            let mut placed = names(&document["groups"]);
            placed.sort_unstable();
            placed.dedup();
            assert_eq!(placed, ["good1", "good2"], "{policy} {bad}");
            let text = document["refused"][0]["text"].as_str().unwrap();
            assert!(text.contains("bad"), "{text}");
        }
    }
    let (code, document) = json(&["--host", "epyc-7702-2s*0", "--vm", "8x64G*2"]);
    assert_eq!((code, names(&document["refused"]).len()), (1, 2));
    let run = place(&["--host", ROME, "--vm", "300x1G", "--vm", "8x64G"]);
    assert_eq!(run.code, 1);
    assert!(run.out.contains("Refused\n  - vm1 "), "{}", run.out);
}

/// The run ends with 2, prints nothing to standard output, and says the words.
fn no_request(arguments: &[&str], words: &str) {
    let run = place(arguments);
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{arguments:?}");
    let flat = run.err.replace('│', " ");
    let flat: Vec<&str> = flat.split_whitespace().collect();
    assert!(
        flat.join(" ").contains(words),
        "{arguments:?} says {flat:?}"
    );
}

#[test]
fn what_is_no_request_ends_with_2_and_says_what_to_do() {
    for (arguments, words) in [
        ("", "there is no VM to place"),
        ("--vm 8", "VCPUSxMEMORY"),
        ("--vm 8x64G@cpi=60%", "did you mean `cpu`?"),
        ("--vm 8x64G*1000000", "give 1 to 100000"),
        ("--vm 1000x1G*100000", "at most 1000000"),
        ("--vm a=1x1G --vm a=1x1G", "two VMs are called"),
        ("--vm 1x1G --policy lcc", "did you mean `llc`?"),
        ("--vm 1x1G --reserve 4-1", "--reserve"),
        ("--vm 1x1G --reserve 999", "cannot be reserved"),
        ("--vm 1x1G --reserve-memory 9T", "cannot be reserved"),
        ("--vm 1x1G --room 8", "VCPUSxMEMORY"),
        ("--vm 1x1G --room 8x1G*3", "no single VM"),
        ("--vm 1x1G --json --csv -", "the same place"),
        ("--vm 1x1G --svg - --csv -", "the same place"),
        ("no-such-file.xml", "no-such-file.xml"),
    ] {
        let all: Vec<&str> = ["--host", ROME]
            .into_iter()
            .chain(arguments.split_whitespace())
            .collect();
        no_request(&all, words);
    }
}

#[test]
fn hosts_and_scenarios_that_are_none_end_with_2() {
    for (host, more, words) in [
        ("nowhere*3", "", "no preset and no file"),
        ("", "", "no preset and no file"),
        (",", "", "no preset and no file"),
        ("epyc-7702-2s*x", "", "no number of hosts"),
        ("epyc-7702-2s*-1", "", "no number of hosts"),
        ("epyc-7702-2s*10000,epyc-7702-2s", "", "at most 10000"),
        ("epyc-7702-2s*2", "--policy=llc", "one host"),
        ("epyc-7702-2s*2", "--svg=x.svg", "one host"),
    ] {
        let arguments = ["--host", host, "--vm", "1x1G", more];
        let used = arguments.len() - usize::from(more.is_empty());
        no_request(&arguments[..used], words);
    }
    let folder = tempfile::tempdir().unwrap();
    for (text, words) in [
        ("[[vm]]\nvcpu = 8\n", "did you mean `vcpus`?"),
        ("[workloads]\nname = \"x\"\n", "did you mean `workload`?"),
        ("[[vm]\n", "is no scenario"),
    ] {
        let path = folder.path().join("bad.toml");
        fs::write(&path, text).unwrap();
        no_request(&["--scenario", path.to_str().unwrap()], words);
    }
    let words = folder.path().join("words");
    fs::write(&words, "these are only words\n").unwrap();
    no_request(
        &["--host", ROME, words.to_str().unwrap()],
        "no VM file that vtopo knows",
    );
}

#[test]
fn vms_come_from_files_and_scenarios() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [toml, xml, svg, csv] = ["vms.toml", "web.xml", "who.svg", "figures.csv"].map(path);
    fs::write(
        &toml,
        "host = \"epyc-7702-2s\"\npolicy = \"llc\"\nreserve = \"0-3\"\n[[vm]]\nvcpus = 8\nmemory = \"64G\"\ncount = 2\n",
    )
    .unwrap();
    let domain = "<domain type='kvm'><name>web</name><memory unit='GiB'>8</memory><vcpu>2</vcpu><cputune>\
                  <vcpupin vcpu='0' cpuset='16-19'/><vcpupin vcpu='1' cpuset='16-19'/></cputune></domain>";
    fs::write(&xml, domain).unwrap();
    let (code, document) = json(&[
        &xml,
        &xml,
        "--scenario",
        &toml,
        "--vm",
        "4x8G",
        "--svg",
        &svg,
        "--csv",
        &csv,
    ]);
    assert_eq!((code, &document["policy"]), (0, &Value::from("llc")));
    let groups = document["groups"].as_array().unwrap();
    let of = |name: &str| {
        let mut own = groups.iter().filter(|group| group["vm"] == name);
        own.next()
            .unwrap_or_else(|| panic!("{name} is not placed"))
            .clone()
    };
    for name in ["web", "web (2)"] {
        let cpus: model::CpuSet = of(name)["cpus"].as_str().unwrap().parse().unwrap();
        assert!(
            cpus.is_subset(&"16-19".parse().unwrap()),
            "{name} on {cpus}"
        );
    }
    for name in ["vm1", "vm2", "vm3"] {
        let cpus: model::CpuSet = of(name)["cpus"].as_str().unwrap().parse().unwrap();
        assert!(
            !cpus.intersects(&"0-3".parse().unwrap()),
            "{name} on {cpus}"
        );
    }
    let picture = fs::read_to_string(&svg).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("web (2)"));
    let table = fs::read_to_string(&csv).unwrap();
    let columns = |line: &str| line.split(',').count();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(columns(lines[0]), columns(lines[1]));
}
