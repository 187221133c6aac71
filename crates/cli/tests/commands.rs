//! The answers of every command, as a user gets them: golden texts, and the JSON contract by parsing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

const XML: &str = "tests/data/two-packages.xml";
const SYNTHETIC: &str = "pack:2 numa:1 l3:2 core:2 pu:2";
const SHAPE: [&str; 7] = [
    "shape",
    "--vcpus",
    "16",
    "--memory",
    "64G",
    "--host",
    "epyc-7702-2s",
];
const VM_FILES: [(&str, &str); 4] = [
    ("vmx", "../model/tests/data/vmx/database.vmx"),
    ("libvirt", "../model/tests/data/libvirt/flat.xml"),
    ("proxmox", "../model/tests/data/proxmox/100.conf"),
    ("qemu", "../model/tests/data/qemu/hand-written.sh"),
];

fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::cargo_bin("vtopo")
        .unwrap()
        .args(arguments)
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Standard output of a run that ends with 0.
fn answer(arguments: &[&str]) -> String {
    let (code, out, err) = run(arguments);
    assert_eq!(code, 0, "{arguments:?}: {err}");
    out
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&answer(&[arguments, &["--json"]].concat())).unwrap()
}

/// Exit code, standard output and standard error as one golden text.
fn whole(arguments: &[&str]) -> String {
    let (code, out, err) = run(arguments);
    format!(
        "$ vtopo {}\nexit {code}\n--- out\n{out}--- err\n{err}",
        arguments.join(" ")
    )
}

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

fn number(value: &Value, key: &str) -> u64 {
    value[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key} in {value}"))
}

#[test]
fn host() {
    for (name, arguments) in [
        ("host-preset", vec!["host", "epyc-7702-2s"]),
        ("host-synthetic", vec!["host", SYNTHETIC]),
        ("host-synthetic-json", vec!["host", SYNTHETIC, "--json"]),
        ("host-xml", vec!["host", XML]),
        ("host-xml-json", vec!["host", XML, "--json"]),
        ("host-hybrid", vec!["host", "ryzen-9950x3d-1s"]),
        ("host-list", vec!["host", "--list"]),
        ("host-nps4", vec!["host", "epyc-7702-2s", "--nps", "4"]),
        (
            "host-ccx-as-numa",
            vec!["host", "epyc-7702-2s", "--ccx-as-numa"],
        ),
        ("host-snc2", vec!["host", "xeon-8380-2s", "--snc", "2"]),
        ("host-smt-off", vec!["host", "epyc-7702-2s", "--smt", "off"]),
        (
            "host-interleaved",
            vec!["host", "epyc-7702-2s", "--node-interleaving"],
        ),
        ("host-toml", vec!["host", SYNTHETIC, "--toml", "-"]),
        (
            "host-strict",
            vec![
                "host",
                "epyc-7702-2s",
                "--node-interleaving",
                "--strict",
                "--json",
            ],
        ),
    ] {
        let text = whole(&arguments);
        let wanted = i32::from(name == "host-strict");
        assert!(text.contains(&format!("\nexit {wanted}\n")), "{text}");
        if name != "host-strict" {
            insta::assert_snapshot!(name, text);
        }
    }
}

#[test]
fn a_picture_is_written_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.svg");
    answer(&["host", "epyc-7702-2s", "--svg", path.to_str().unwrap()]);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(
        roxmltree::Document::parse(&text)
            .unwrap()
            .root_element()
            .tag_name()
            .name(),
        "svg"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_host_file_describes_the_same_host() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("epyc-7702-2s.toml");
    answer(&["host", "epyc-7702-2s", "--toml", path.to_str().unwrap()]);
    assert_eq!(
        json(&["host", path.to_str().unwrap()]),
        json(&["host", "epyc-7702-2s"])
    );
}

#[test]
fn shape() {
    let rule = |rule: &'static str| [&SHAPE[..], &["--rule", rule]].concat();
    for (name, arguments) in [
        ("shape-auto", SHAPE.to_vec()),
        ("shape-auto-json", [&SHAPE[..], &["--json"]].concat()),
        ("shape-auto-explain", [&SHAPE[..], &["--explain"]].concat()),
        ("shape-flat", rule("flat")),
        (
            "shape-flat-explain",
            [&rule("flat")[..], &["--explain"]].concat(),
        ),
        ("shape-esxi-5.5", rule("esxi-5.5")),
        ("shape-esxi-6.7", rule("esxi-6.7")),
        (
            "shape-esxi-8.0-json",
            [&rule("esxi-8.0")[..], &["--json"]].concat(),
        ),
        (
            "shape-esxi-8.0-explain",
            [&rule("esxi-8.0")[..], &["--explain"]].concat(),
        ),
        (
            "shape-13-vcpus",
            vec![
                "shape",
                "--vcpus",
                "13",
                "--memory",
                "32G",
                "--host",
                "epyc-7702-2s",
            ],
        ),
        (
            "shape-ccx-as-numa",
            [&SHAPE[..], &["--ccx-as-numa"]].concat(),
        ),
        (
            "shape-single-flow",
            [&SHAPE[..], &["--goal", "single-flow"]].concat(),
        ),
        (
            "shape-latency",
            [&SHAPE[..], &["--goal", "latency", "--explain"]].concat(),
        ),
    ] {
        insta::assert_snapshot!(name, whole(&arguments));
    }
}

#[test]
fn a_refused_power_on_is_an_answer() {
    let arguments = [
        "shape",
        "--vcpus",
        "24",
        "--memory",
        "64G",
        "--host",
        "opteron-6174-4s",
        "--rule",
        "esxi-5.5",
        "--cores-per-socket",
        "5",
    ];
    let (code, out, err) = run(&arguments);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("refused"), "{err}");
    let (code, out, _) = run(&[&arguments[..], &["--json"]].concat());
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, keys(&document)), (1, vec!["refused"]));
    assert_eq!(keys(&document["refused"]), ["code", "text"]);
}

#[test]
fn every_format_is_emitted() {
    for (format, _) in VM_FILES {
        insta::assert_snapshot!(
            format!("emit-{format}"),
            whole(&[&SHAPE[..], &["--emit", format]].concat())
        );
        let document = json(&[&SHAPE[..], &["--emit", format]].concat());
        assert_eq!(document["emitted"]["format"], format);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vm");
        answer(
            &[
                &SHAPE[..],
                &["--emit", format, "--output", path.to_str().unwrap()],
            ]
            .concat(),
        );
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            document["emitted"]["text"],
            "{format}"
        );
        let shape = json(&["check", path.to_str().unwrap(), "--host", "epyc-7702-2s"]);
        assert_eq!(shape["format"], format);
    }
}

#[test]
fn a_vm_is_converted_between_all_formats() {
    let folder = tempfile::tempdir().unwrap();
    for (from, file) in VM_FILES {
        let vm = json(&["shape", file, "--host", "epyc-7702-2s"])["vm"].clone();
        for (to, _) in VM_FILES {
            let path = folder.path().join(format!("{from}-{to}"));
            answer(&[
                "convert",
                file,
                "--to",
                to,
                "--output",
                path.to_str().unwrap(),
            ]);
            let converted =
                json(&["shape", path.to_str().unwrap(), "--host", "epyc-7702-2s"])["vm"].clone();
            for key in ["vcpus", "memory_mib"] {
                assert_eq!(converted[key], vm[key], "{key} from {from} to {to}");
            }
        }
    }
    let file = VM_FILES[0].1;
    insta::assert_snapshot!(
        "convert-vmx-libvirt",
        whole(&["convert", file, "--to", "libvirt"])
    );
    insta::assert_snapshot!(
        "convert-vmx-libvirt-json",
        whole(&["convert", file, "--to", "libvirt", "--json"])
    );
}

#[test]
fn check() {
    for (format, file) in VM_FILES {
        let (code, out, err) = run(&["check", file, "--host", "epyc-7702-2s"]);
        assert!(code < 2, "{err}");
        insta::assert_snapshot!(format!("check-{format}"), format!("exit {code}\n{out}"));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("good.xml");
    let path = path.to_str().unwrap();
    answer(&[&SHAPE[..], &["--emit", "libvirt", "--output", path]].concat());
    let good = json(&["check", path, "--host", "epyc-7702-2s", "--strict"]);
    assert_eq!(keys(&good), ["findings", "format", "host", "ok", "vm"]);
    let errors = good["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["severity"] == "error");
    assert_eq!((good["ok"].as_bool(), errors.count()), (Some(true), 0));
    let contradicts = folder.path().join("bad.vmx");
    fs::write(
        &contradicts,
        "virtualHW.version = \"10\"\nnumvcpus = \"256\"\nmemSize = \"1024\"\n",
    )
    .unwrap();
    let (code, out, _) = run(&[
        "check",
        contradicts.to_str().unwrap(),
        "--host",
        "epyc-7702-2s",
        "--json",
    ]);
    let bad: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, bad["ok"].as_bool()), (1, Some(false)));
}

#[test]
fn the_shape_document_keeps_its_contract() {
    for vcpus in ["1", "7", "13", "16", "40", "128"] {
        for rule in ["auto", "flat", "esxi-6.5", "esxi-8.0"] {
            for host in ["epyc-7702-2s", "xeon-8380-2s"] {
                let shape = json(&[
                    "shape", "--vcpus", vcpus, "--memory", "64G", "--host", host, "--rule", rule,
                ]);
                let wanted = [
                    "vm",
                    "host",
                    "rule",
                    "sockets",
                    "dies",
                    "modules",
                    "cores",
                    "threads",
                    "maxcpus",
                    "cores_per_socket",
                    "numa_nodes",
                    "llcs",
                    "reasons",
                    "findings",
                ];
                let found = keys(&shape);
                assert!(wanted.iter().all(|key| found.contains(key)), "{found:?}");
                let number = |key| number(&shape, key);
                let per_socket = number("dies") * number("modules") * number("cores");
                assert_eq!(
                    number("sockets") * per_socket * number("threads"),
                    number("maxcpus"),
                    "{shape}"
                );
                assert_eq!(per_socket, number("cores_per_socket"), "{shape}");
                assert!(number("maxcpus") >= vcpus.parse().unwrap());
                assert_eq!(
                    (&shape["rule"], &shape["host"]),
                    (&rule.into(), &host.into())
                );
                for (table, keys_wanted) in [
                    ("numa_nodes", vec!["host_nodes", "memory_mib", "vcpus"]),
                    ("llcs", vec!["guest_size_bytes", "size_bytes", "vcpus"]),
                    ("reasons", vec!["code", "text"]),
                    ("findings", vec!["code", "severity", "text"]),
                ] {
                    for row in shape[table].as_array().unwrap() {
                        let mut found = keys(row);
                        found.sort_unstable();
                        assert_eq!(found, keys_wanted, "{table}");
                    }
                }
                covers(&shape["llcs"], vcpus.parse().unwrap());
            }
        }
    }
}

/// CPU sets of the rows hold every vCPU once.
fn covers(rows: &Value, vcpus: usize) {
    let sets = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["vcpus"].as_str().unwrap());
    let mut all: Vec<u32> = sets
        .flat_map(|set| set.split(','))
        .flat_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            first.parse().unwrap()..=last.parse().unwrap()
        })
        .collect();
    all.sort_unstable();
    assert!(
        all.iter().copied().eq(0..u32::try_from(vcpus).unwrap()),
        "{rows}"
    );
}

#[test]
fn an_esxi_shape_names_what_the_host_schedules() {
    let shape = json(&[
        "shape",
        "--vcpus",
        "24",
        "--memory",
        "64G",
        "--host",
        "opteron-6174-4s",
        "--rule",
        "esxi-5.5",
    ]);
    let clients = shape["numa_clients"].as_array().unwrap();
    assert_eq!(keys(&clients[0]), ["memory_mib", "vcpus"]);
    let memory: u64 = clients
        .iter()
        .map(|client| number(client, "memory_mib"))
        .sum();
    assert_eq!(memory, 65536);
}

#[test]
fn the_host_document_keeps_its_contract() {
    for host in ["epyc-7702-2s", "xeon-8380-2s", SYNTHETIC, XML] {
        let document = json(&["host", host]);
        let found = keys(&document);
        for key in [
            "name",
            "cpus",
            "packages",
            "nodes",
            "llcs",
            "cores",
            "distances",
            "findings",
        ] {
            assert!(found.contains(&key), "{key} of {host}");
        }
        let nodes = document["nodes"].as_array().unwrap();
        assert!(
            nodes
                .iter()
                .all(|node| node["id"].is_u64() && node["memory_mib"].is_u64())
        );
        let llcs = document["llcs"].as_array().unwrap();
        assert!(
            llcs.iter()
                .all(|llc| number(llc, "node") < nodes.len() as u64 && llc["size_bytes"].is_u64())
        );
        let matrix = document["distances"].as_array().unwrap();
        assert!(matrix.is_empty() || matrix.len() == nodes.len());
        assert!(
            document["cores"][0]["cpus"].is_string() && document["packages"][0]["cpus"].is_string()
        );
    }
}

#[test]
fn a_running_guest_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let report = |name: &str, sockets: u32, cores: u32, llcs: u32, nodes: &str| {
        let path = folder.path().join(name);
        let fields = [
            ("CPU(s):", "8".to_owned()),
            ("On-line CPU(s) list:", "0-7".into()),
            ("Thread(s) per core:", "1".into()),
            ("Core(s) per socket:", cores.to_string()),
            ("Socket(s):", sockets.to_string()),
            ("L3:", format!("{} MiB ({llcs} instances)", 16 * llcs)),
            ("NUMA node(s):", "1".into()),
            ("NUMA node0 CPU(s):", nodes.into()),
        ];
        let rows = fields
            .map(|(field, data)| serde_json::json!({"field": field, "data": data, "children": []}));
        fs::write(&path, serde_json::json!({ "lscpu": rows }).to_string()).unwrap();
        path
    };
    let verify = |path: &Path| {
        let (code, out, err) = run(&[
            "verify",
            "--vcpus",
            "8",
            "--memory",
            "16G",
            "--host",
            "epyc-7702-2s",
            "--json",
            "--guest-report",
            path.to_str().unwrap(),
        ]);
        let document: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{err}"));
        (code, document)
    };
    let (code, same) = verify(&report("same", 1, 8, 2, "0-7"));
    assert_eq!((code, same["ok"].as_bool()), (0, Some(true)), "{same}");
    assert_eq!(keys(&same), ["accelerator", "guests", "ok"]);
    for (path, field) in [
        (report("flat", 8, 1, 2, "0-7"), "sockets"),
        (report("one-llc", 1, 8, 1, "0-7"), "llcs"),
        (report("half-a-node", 1, 8, 2, "0-3"), "numa_nodes.0.vcpus"),
    ] {
        let (code, document) = verify(&path);
        assert_eq!(
            (code, document["ok"].as_bool()),
            (1, Some(false)),
            "{field}"
        );
        let guest = &document["guests"][0];
        assert_eq!(
            (guest["ok"].as_bool(), &guest["rule"]),
            (Some(false), &"auto".into())
        );
        let fields = guest["fields"].as_array().unwrap();
        let wrong = fields.iter().find(|row| row["name"] == field).unwrap();
        assert_eq!(wrong["ok"], false, "{wrong}");
        assert!(keys(wrong).len() >= 4 && !wrong["planned"].is_null() && !wrong["seen"].is_null());
    }
}

#[test]
fn several_rules_are_compared_with_one_report() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lscpu");
    fs::write(&path, "CPU(s): 4\nOn-line CPU(s) list: 0-3\nThread(s) per core: 1\nCore(s) per socket: 1\nSocket(s): 4\n").unwrap();
    let (code, out, _) = run(&[
        "verify",
        "--vcpus",
        "4",
        "--memory",
        "4G",
        "--host",
        "epyc-7702-2s",
        "--rule",
        "flat,auto",
        "--json",
        "--guest-report",
        path.to_str().unwrap(),
    ]);
    let document: Value = serde_json::from_str(&out).unwrap();
    let guests = document["guests"].as_array().unwrap();
    let answers: Vec<_> = guests
        .iter()
        .map(|guest| (guest["rule"].as_str(), guest["ok"].as_bool()))
        .collect();
    assert_eq!(
        answers,
        [(Some("flat"), Some(true)), (Some("auto"), Some(false))]
    );
    assert_eq!(code, 1);
}

#[test]
fn equal_runs_give_equal_bytes_without_paths() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("two-packages.xml");
    fs::copy(XML, &copy).unwrap();
    let here = fs::canonicalize(".").unwrap();
    for arguments in [
        vec!["host", XML, "--json"],
        vec!["host", "epyc-7702-2s", "--json"],
        vec!["shape", VM_FILES[0].1, "--host", XML, "--json"],
        vec!["check", VM_FILES[1].1, "--host", XML, "--json"],
        vec!["convert", VM_FILES[2].1, "--to", "qemu", "--json"],
        [&SHAPE[..], &["--emit", "proxmox", "--json"]].concat(),
    ] {
        let (code, first, err) = run(&arguments);
        assert!(code < 2, "{err}");
        assert_eq!(first, run(&arguments).1);
        assert!(
            !first.contains("tests/data") && !first.contains(here.to_str().unwrap()),
            "{first}"
        );
        let elsewhere: Vec<&str> = arguments
            .iter()
            .map(|&word| {
                if word == XML {
                    copy.to_str().unwrap()
                } else {
                    word
                }
            })
            .collect();
        assert_eq!(first, run(&elsewhere).1);
    }
}

#[test]
fn every_help_has_an_example() {
    let help = answer(&["--help"]);
    assert!(help.contains("epyc-7702-2s") && help.contains("Exit code"));
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(commands.len() >= 7, "{commands:?}");
    for command in commands {
        let help = answer(&[command, "--help"]);
        assert!(
            help.contains("Example") && help.contains(&format!("vtopo {command}")),
            "{command}"
        );
        let page = answer(&["man", command]);
        assert!(page.contains(".TH") && page.contains("xample"), "{command}");
    }
}

#[test]
fn completions_and_manual_pages() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = answer(&["completions", shell]);
        assert!(
            script.contains("vtopo") && script.contains("cores-per-socket"),
            "{shell}"
        );
        assert_eq!(json(&["completions", shell])["text"], script);
    }
    assert!(answer(&["man"]).contains("VTOPO"));
    assert_eq!(json(&["man", "shape"])["name"], "vtopo-shape");
    assert!(answer(&["--version"]).starts_with("vtopo "));
}
