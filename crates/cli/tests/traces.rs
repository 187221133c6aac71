//! `vtopo simulate` with a trace as a user gets it: every format, one file, several, a folder or standard input; what is
//! refused, what is no trace, and what a trace has no use for.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use assert_cmd::Command;
use serde_json::Value;
use sim::traces::synthetic::{self, Parameters};

/// 4 threads and 16 GiB.
const SMALL_HOST: &str = "numa:1(memory=16GiB) l3:1 core:4 pu:1";

const HUAWEI: &str = "vmid,cpu,memory,time,type\n\
    1,2,4,0,0\n\
    2,2,4,10,0\n\
    3,2,4,20,0\n\
    1,2,4,30,1\n\
    4,2,4,40,0\n";

const AZURE: &str = "vmTypeId,machineId,core,memory\n7,1,0.5,0.25\n\
    vmId,vmTypeId,starttime,endtime\n1,7,0,1\n2,7,0.5,\n";

const SWF: &str = "; Version: 2.2\n\
    1 0 5 100 2 -1 -1 2 -1 1048576 1 1 1 1 1 1 -1 -1\n\
    2 50 5 100 4 -1 -1 4 -1 1048576 1 1 1 1 1 1 -1 -1\n";

const DOMSTATS: &str = "# at 1000\nDomain: 'db'\n  state.state=1\n  vcpu.current=2\n  balloon.maximum=2097152\n\
    # at 1060\nDomain: 'db'\n  state.state=1\n  vcpu.current=2\n  balloon.maximum=2097152\n";

struct Run {
    code: i32,
    out: String,
    err: String,
}

fn run(arguments: &[&str], input: &str) -> Run {
    let output = Command::cargo_bin("vtopo")
        .unwrap()
        .arg("simulate")
        .args(arguments)
        .write_stdin(input)
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .timeout(Duration::from_mins(1))
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

/// A trace on standard input and small hosts.
fn on_small(input: &str, count: u32, more: &[&str]) -> Run {
    let hosts = format!("{SMALL_HOST}*{count}");
    run(&[&["-", "--host", &hosts], more].concat(), input)
}

fn document(run: &Run) -> Value {
    serde_json::from_str(&run.out)
        .unwrap_or_else(|error| panic!("{error}: {} {}", run.out, run.err))
}

/// Words of an error without its line breaks.
fn words(text: &str) -> String {
    let plain: Vec<&str> = text
        .split_whitespace()
        .filter(|word| !matches!(*word, "│" | "×"))
        .collect();
    plain.join(" ")
}

#[track_caller]
fn refused(arguments: &[&str], input: &str, expected: &str) {
    let run = run(arguments, input);
    assert_eq!(run.code, 2, "{arguments:?}: {} {}", run.out, run.err);
    assert_eq!(run.out, "", "{arguments:?}");
    let said = words(&run.err);
    assert!(
        said.contains(expected),
        "{arguments:?}: {expected:?} is not in {said}"
    );
}

#[test]
fn a_day_is_played_with_every_algorithm_and_twice_alike() {
    let day = synthetic::trace(&Parameters::default());
    let text = synthetic::to_huawei_csv(&day);
    let arguments = ["-", "--host", "epyc-7702-2s*12"];
    let first = run(&arguments, &text);
    assert_eq!(first.code, 0, "{}{}", first.out, first.err);
    assert!(
        first.out.starts_with("Replayed, not measured: "),
        "{}",
        first.out
    );
    let rows: Vec<Vec<&str>> = first
        .out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let algorithms = vec!["first-fit", "next-fit", "best-fit", "worst-fit"];
    assert!(rows.contains(&algorithms), "{}", first.out);
    let count = day.vms.len().to_string();
    assert!(
        rows.contains(&vec!["VMs", "placed", &count, &count, &count, &count]),
        "{}",
        first.out
    );
    assert!(
        first.out.lines().all(|line| line.chars().count() <= 100),
        "{}",
        first.out
    );
    assert!(first.err.contains("million a second"), "{}", first.err);
    assert!(
        !first.out.contains("a second"),
        "speed is no part of the answer"
    );
    let second = run(&arguments, &text);
    assert_eq!(first.out, second.out);
    let json = |_| run(&["-", "--host", "epyc-7702-2s*12", "--json"], &text).out;
    assert_eq!(json(1), json(2));
}

#[test]
fn documents_keep_the_contract() {
    // Both hosts have 4 CPUs: VMs 1 and 2 fill one, 3 is on the other.
    let run = on_small(HUAWEI, 2, &["--fit", "best-fit,first-fit", "--json"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let document = document(&run);
    assert_eq!(document["simulated"], true);
    assert_eq!(
        document["trace"],
        serde_json::json!({"format": "huawei", "vms": 4, "span_s": 40.0})
    );
    let host = &document["hosts"][0];
    assert_eq!(
        (&host["count"], &host["cpus"], &host["memory_mib"]),
        (&2.into(), &4.into(), &16384.into())
    );
    let fleets = document["fleets"].as_array().unwrap();
    let names: Vec<&str> = fleets
        .iter()
        .map(|it| it["algorithm"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["best-fit", "first-fit"]);
    let first = &fleets[1];
    assert_eq!(
        (&first["placed"], &first["refused"], &first["too_large"]),
        (&4.into(), &0.into(), &0.into())
    );
    assert_eq!(first["peak_hosts_used"], 2);
    // 2 CPUs for 10 s, 4 for 10 s, 6 for 10 s, 4 for 10 s, of 8: 160 of 320. The most is 6 of 8.
    assert_eq!(
        first["cpu_percent"],
        serde_json::json!({"mean": 50.0, "peak": 75.0})
    );
    assert_eq!(
        first["memory_percent"],
        serde_json::json!({"mean": 25.0, "peak": 37.5})
    );
    assert_eq!(
        first["end"],
        serde_json::json!({"vms": 3, "hosts_used": 2, "room": 1, "fragmentation_percent": 0.0})
    );
    assert!(first.get("first_refused").is_none());
    assert_eq!(first["placement_hash"].as_str().unwrap().len(), 16);
}

#[test]
fn who_is_refused_is_told_and_the_code_is_one() {
    let crowded = HUAWEI.replace("4,2,4,40,0", "4,5,4,40,0");
    let run = on_small(&crowded, 1, &["--fit", "first-fit"]);
    assert_eq!(run.code, 1, "{}{}", run.out, run.err);
    assert!(
        run.out
            .contains("first-fit: the first that is refused is \"3\" after 20.0 seconds"),
        "{}",
        run.out
    );
    let run = on_small(&crowded, 1, &["--fit", "first-fit", "--json"]);
    assert_eq!(run.code, 1);
    let fleet = &document(&run)["fleets"][0];
    assert_eq!(
        (&fleet["placed"], &fleet["refused"], &fleet["too_large"]),
        (&2.into(), &2.into(), &1.into())
    );
    assert_eq!(
        fleet["first_refused"],
        serde_json::json!({"name": "3", "at_s": 20.0, "cpus": 2.0, "memory_mib": 4096})
    );
}

#[test]
fn every_format_is_recognised_or_named() {
    for (format, name, text, vms) in [
        ("azure", "azure-packing", AZURE, 2),
        ("azure-packing", "azure-packing", AZURE, 2),
        ("huawei", "huawei", HUAWEI, 4),
        ("swf", "swf", SWF, 2),
        ("domstats", "domstats", DOMSTATS, 1),
        ("planetlab", "planetlab", "10\n20\n30\n", 1),
    ] {
        let hosts = "epyc-7702-2s*2";
        let base = ["-", "--host", hosts, "--json"];
        let recognised = run(&base, text);
        assert_eq!(
            recognised.code, 0,
            "{format}: {}{}",
            recognised.out, recognised.err
        );
        let named = run(&[&base[..], &["--format", format]].concat(), text);
        assert_eq!(recognised.out, named.out, "{format}");
        let document = document(&named);
        assert_eq!(document["trace"]["format"], name);
        assert_eq!(document["trace"]["vms"], vms, "{format}");
        assert_eq!(document["fleets"].as_array().unwrap().len(), 4);
    }
}

#[test]
fn a_folder_and_several_files_are_one_trace() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("b", "10\n20\n"),
        ("a", "30\n"),
        (".hidden", "not a number\n"),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    fs::create_dir(folder.path().join("within")).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let whole = run(&[&path(""), "--host", SMALL_HOST, "--json"], "");
    assert_eq!(whole.code, 0, "{}", whole.err);
    assert_eq!(document(&whole)["trace"]["vms"], 2);
    assert_eq!(document(&whole)["trace"]["span_s"], 600.0);
    let files = run(
        &[&path("a"), &path("b"), "--host", SMALL_HOST, "--json"],
        "",
    );
    assert_eq!(whole.out, files.out);
    // Two such VMs on a host of four CPUs: each half of it.
    let sized = run(
        &[
            &path("a"),
            &path("b"),
            "--host",
            SMALL_HOST,
            "--json",
            "--size",
            "2x4G",
            "--interval",
            "10min",
        ],
        "",
    );
    let sized = document(&sized);
    assert_eq!(sized["fleets"][0]["cpu_percent"]["peak"], 100.0);
    assert_eq!(sized["trace"]["span_s"], 1200.0);
    refused(&[&path("within")], "", "folder without files");
}

#[test]
fn several_kinds_of_hosts_and_firmware_count() {
    let hosts = |more: &[&str]| {
        let run = run(
            &[&["-", "--fit", "first-fit", "--json"], more].concat(),
            HUAWEI,
        );
        document(&run)["hosts"].clone()
    };
    let both = hosts(&["--host", "epyc-7702-2s*3,xeon-6330-2s*2"]);
    let apart = hosts(&["--host", "epyc-7702-2s*3", "--host", "xeon-6330-2s*2"]);
    assert_eq!(both, apart);
    assert_eq!(
        (&both[0]["count"], &both[1]["count"]),
        (&3.into(), &2.into())
    );
    assert_eq!(both[0]["cpus"], 256);
    assert_eq!(
        hosts(&["--host", "epyc-7702-2s", "--smt", "off"])[0]["cpus"],
        128
    );
}

#[test]
fn the_fleet_over_time_is_a_table() {
    let run = on_small(HUAWEI, 2, &["--fit", "first-fit,worst-fit", "--csv", "-"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let lines: Vec<Vec<&str>> = run
        .out
        .lines()
        .map(|line| line.split(',').collect())
        .collect();
    let columns = lines[0].len();
    assert_eq!(lines[0][..3], ["algorithm", "at_s", "vms"]);
    assert!(lines.iter().all(|line| line.len() == columns));
    assert_eq!(
        lines.last().unwrap()[..5],
        ["worst-fit", "40", "3", "0", "2"]
    );
    let of = |name: &str| lines.iter().filter(|line| line[0] == name).count();
    assert!(of("first-fit") > 100 && of("first-fit") == of("worst-fit"));
}

#[test]
fn a_wrong_line_is_named_with_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.csv");
    let path = path.to_str().unwrap();
    for (text, expected) in [
        (
            HUAWEI.replace("3,2,4,20,0", "3,2,4,20"),
            "bad.csv: line 4: ",
        ),
        (
            HUAWEI.replace("3,2,4,20,0", "3,many,4,20,0"),
            "bad.csv: line 4: ",
        ),
        (
            HUAWEI.replace("1,2,4,0,0", &"1".repeat(70_000)),
            "bad.csv: line 2: the line has",
        ),
        (
            "vmid,cpu,memory,time,type\n".to_owned(),
            "bad.csv: line 1: no VM was found",
        ),
    ] {
        fs::write(path, text).unwrap();
        refused(&[path, "--host", "epyc-7702-2s"], "", expected);
    }
    fs::write(path, [HUAWEI.as_bytes(), b"\xff\xfe\n"].concat()).unwrap();
    refused(
        &[path, "--host", "epyc-7702-2s"],
        "",
        "bad.csv: line 7: this is not UTF-8",
    );
    // The second file's lines count from 1.
    let good = folder.path().join("a.txt");
    fs::write(&good, "10\n20\n").unwrap();
    fs::write(path, "10\n101\n").unwrap();
    refused(
        &[good.to_str().unwrap(), path, "--host", "live"],
        "",
        "bad.csv: line 2: '101'",
    );
    refused(
        &[good.to_str().unwrap(), "/no/such"],
        "",
        "cannot read /no/such",
    );
    assert!(Path::new(path).exists());
}

#[test]
fn what_a_trace_has_no_use_for_is_an_error() {
    for option in [
        &["--policy", "best"][..],
        &["--rule", "flat"],
        &["--seeds", "3"],
        &["--seed", "3"],
        &["--set", "run.duration=5s"],
        &["--find-max", "tiles.count"],
        &["--report", "x.html"],
        &["--trace", "x.json"],
        &["--threads", "2"],
    ] {
        let arguments = [&["-", "--host", "epyc-7702-2s"][..], option].concat();
        refused(
            &arguments,
            HUAWEI,
            &format!("{} is for scenarios, and this is a trace", option[0]),
        );
    }
    let scenario = "[[vm]]\nname = \"a\"\nvcpus = 1\nmemory = \"1G\"\n";
    for option in [
        &["--fit", "best-fit"][..],
        &["--size", "1x1G"],
        &["--interval", "1s"],
    ] {
        let arguments = [&["-"][..], option].concat();
        refused(
            &arguments,
            scenario,
            &format!("{} is for traces", option[0]),
        );
    }
}

#[test]
fn what_is_no_request_is_explained() {
    let host = ["-", "--host", "epyc-7702-2s"];
    for (more, expected) in [
        (&["--fit", "tightest"][..], "invalid value 'tightest'"),
        (&["--format", "vmware"], "invalid value 'vmware'"),
        (&["--size", "0x1G"], "is no size"),
        (&["--size", "4G"], "is no size"),
        (&["--interval", "0s"], "at least a nanosecond"),
        (&["--json", "--csv", "-"], "same place"),
        (&["--host", "epyc-7702-2s*2000000"], "no number of hosts"),
        (&["--host", "epyc-7702-2s*1048576"], "hosts are asked for"),
        (&["--format", "swf"], "line 1"),
    ] {
        refused(&[&host[..], more].concat(), HUAWEI, expected);
    }
    refused(
        &["-", "--host", "epyc-7702-2s*0"],
        HUAWEI,
        "there are no hosts",
    );
    refused(
        &["-", "--host", "pu:4"],
        HUAWEI,
        "does not say how much memory",
    );
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join("x.csv");
    fs::write(&odd, "a,b\n1,2\n").unwrap();
    refused(
        &[odd.to_str().unwrap()],
        "",
        "looks like no trace that is known",
    );
    fs::remove_file(&odd).unwrap();
    fs::write(folder.path().join("x.toml"), "[run]\n").unwrap();
    refused(
        &[folder.path().to_str().unwrap()],
        "",
        "looks like no trace",
    );
}

#[test]
fn findings_of_the_reader_are_shown() {
    let odd = format!("{HUAWEI}9,1,1,50,1\n");
    let run = on_small(&odd, 2, &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("line 7"), "{}", run.out);
    let run = on_small(&odd, 2, &["--json"]);
    let findings = document(&run)["findings"].clone();
    assert_eq!(findings.as_array().unwrap().len(), 1, "{findings}");
    let is_warning = findings[0]["severity"] != "info";
    let run = on_small(&odd, 2, &["--strict"]);
    assert_eq!(run.code, i32::from(is_warning));
}
