//! Written QEMU arguments start a real QEMU, and it says exactly the topology. Nothing runs in the guest: QEMU stops
//! before the first instruction. Skipped where qemu-system-x86_64 10 or later is missing.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]
#![expect(clippy::print_stdout, reason = "why a test is skipped")]

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use model::formats::{Accelerator, Target, qemu};
use model::guest::{GuestTopology, Level};
use model::host::Vendor;
use model::vm::GuestCpu;
use model::{CpuId, Spec};
use serde_json::{Value, json};

#[path = "data/shapes.rs"]
mod shapes;

const TARGET: Target = Target {
    accelerator: Accelerator::Tcg,
    vendor: Vendor::Other,
    qemu_major: 10,
};

#[test]
fn every_shape_starts_and_is_what_was_asked_for() {
    if !has_qemu() {
        return;
    }
    for (what, vm) in shapes::all() {
        let (arguments, _) = qemu::arguments(&vm, &TARGET);
        let answers = ask(&arguments, &QUESTIONS);
        check(what, &vm, &answers);
    }
}

#[test]
fn the_written_text_starts_like_the_arguments() {
    if !has_qemu() {
        return;
    }
    for (what, vm) in shapes::all() {
        let written = qemu::write(&vm, &TARGET).text;
        let read = qemu::read(&written).unwrap();
        let (again, _) = qemu::arguments(
            &Spec {
                cpu: vm.cpu.clone(),
                ..read
            },
            &TARGET,
        );
        assert_eq!(again, qemu::arguments(&vm, &TARGET).0, "{what}");
    }
}

#[test]
fn an_edited_command_line_starts_with_the_new_shape() {
    if !has_qemu() {
        return;
    }
    let shapes = shapes::all();
    for ((from, old), (to, new)) in shapes.iter().zip(shapes.iter().skip(3)) {
        let text = qemu::write(old, &TARGET).text;
        let edited = qemu::edit(&text, new, &TARGET).unwrap().text;
        let words = shell_words(&edited);
        check(
            &format!("{from} edited to {to}"),
            new,
            &ask(&words[1..], &QUESTIONS),
        );
    }
}

#[test]
fn dies_only_start_too() {
    if !has_qemu() {
        return;
    }
    // QEMU 10 understands what is written for 9; the LLCs must be the same.
    for (what, vm) in shapes::all() {
        let (arguments, _) = qemu::arguments(
            &vm,
            &Target {
                qemu_major: 9,
                ..TARGET
            },
        );
        let answers = ask(&arguments, &QUESTIONS);
        let topology = vm.topology.unwrap();
        let slots = answers[0].as_array().unwrap().len();
        assert_eq!(slots, topology.maxcpus() as usize, "{what}");
        let mut by_die: BTreeMap<(u64, u64), u32> = BTreeMap::new();
        for cpu in answers[1].as_array().unwrap() {
            let id = |key: &str| cpu["props"][key].as_u64().unwrap_or(0);
            *by_die.entry((id("socket-id"), id("die-id"))).or_default() += 1;
        }
        let llcs: Vec<u32> = topology
            .llcs
            .iter()
            .map(|llc| u32::try_from(llc.vcpus.len()).unwrap())
            .collect();
        assert_eq!(by_die.into_values().collect::<Vec<_>>(), llcs, "{what}");
    }
}

/// QEMU 10.0 aborts in firmware on some models with dies or modules, so the firmware must run, not only QEMU start.
#[test]
fn the_firmware_gets_through() {
    if !has_qemu() {
        return;
    }
    for (what, vm) in shapes::all()
        .into_iter()
        .filter(|(what, _)| *what != "wide")
    {
        for model in ["", "EPYC-Rome", "Skylake-Server", "qemu64"] {
            let named = || GuestCpu::Named(model.to_owned());
            let cpu = if model.is_empty() {
                GuestCpu::Unstated
            } else {
                named()
            };
            let (arguments, _) = qemu::arguments(&Spec { cpu, ..vm.clone() }, &TARGET);
            // Without a disk the firmware reboots at once, and -no-reboot makes that an exit.
            let output = Command::new("qemu-system-x86_64")
                .args(&arguments)
                .args(["-nodefaults", "-display", "none"])
                .args(["-boot", "reboot-timeout=0", "-no-reboot"])
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success(),
                "{what}, {model}: {}\n{said}",
                output.status
            );
        }
    }
}

/// What QEMU is asked: all slots, present vCPUs, the cache list of the machine, memory backends.
const QUESTIONS: [&str; 4] = [
    r#"{"execute":"query-hotpluggable-cpus"}"#,
    r#"{"execute":"query-cpus-fast"}"#,
    r#"{"execute":"qom-get","arguments":{"path":"/machine","property":"smp-cache"}}"#,
    r#"{"execute":"query-memdev"}"#,
];

fn check(what: &str, vm: &Spec, answers: &[Value]) {
    let topology = vm.topology.as_ref().unwrap();
    let all = answers[0].as_array().unwrap();
    assert_eq!(all.len(), topology.maxcpus() as usize, "{what}: slots");
    let present = answers[1].as_array().unwrap();
    assert_eq!(present.len(), topology.vcpus as usize, "{what}: vCPUs");
    for cpu in present {
        let index = u32::try_from(cpu["cpu-index"].as_u64().unwrap()).unwrap();
        for (key, expected) in ids(topology, index) {
            let seen = cpu["props"].get(key).map_or(Some(0), Value::as_u64);
            assert_eq!(
                seen,
                Some(u64::from(expected)),
                "{what}: {key} of vCPU {index}"
            );
        }
    }
    let l3 = answers[2]
        .as_array()
        .unwrap()
        .iter()
        .find(|cache| cache["cache"] == "l3");
    let level = topology.llc_level().map(Level::as_str);
    assert_eq!(
        l3.map(|cache| &cache["topology"]),
        level.map(|level| json!(level)).as_ref(),
        "{what}: L3"
    );
    let backends = answers[3].as_array().unwrap();
    let nodes: BTreeMap<_, _> = backends
        .iter()
        .map(|backend| (backend["id"].to_string(), backend))
        .collect();
    for (node, backend) in topology.numa_nodes.iter().zip(nodes.values()) {
        assert_eq!(
            backend["size"],
            json!(node.memory_mib << 20),
            "{what}: memory"
        );
        assert_eq!(
            backend["host-nodes"],
            json!(node.host_nodes),
            "{what}: host nodes"
        );
        assert_eq!(backend["policy"], json!("preferred"), "{what}: policy");
    }
}

/// QEMU's ids of the slot of a vCPU: slots are numbered from the innermost level out.
fn ids(topology: &GuestTopology, vcpu: u32) -> Vec<(&'static str, u32)> {
    let mut rest = vcpu;
    let mut ids = Vec::new();
    for (key, count) in [
        ("thread-id", topology.threads),
        ("core-id", topology.cores),
        ("module-id", topology.modules),
        ("die-id", topology.dies),
    ] {
        ids.push((key, rest % count));
        rest /= count;
    }
    ids.push(("socket-id", rest));
    let node = topology
        .node_of(CpuId(vcpu))
        .map(|node| u32::try_from(node).unwrap());
    ids.extend(node.map(|node| ("node-id", node)));
    ids
}

/// Starts QEMU stopped, with a monitor on its standard streams, and returns the answers.
fn ask(arguments: &[String], questions: &[&str]) -> Vec<Value> {
    let mut qemu = Command::new("qemu-system-x86_64")
        .args(arguments)
        .args(["-S", "-nodefaults", "-display", "none", "-qmp", "stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = qemu.stdin.take().unwrap();
    writeln!(stdin, r#"{{"execute":"qmp_capabilities"}}"#).unwrap();
    for question in questions.iter().chain(&[r#"{"execute":"quit"}"#]) {
        // A QEMU that refuses its arguments is gone by now; its message says more than a broken pipe.
        let _ = writeln!(stdin, "{question}");
    }
    drop(stdin);
    let output = qemu.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}\n{said}");
    let answers = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let returned: Vec<Value> = answers
        .filter(|answer| answer.get("QMP").is_none() && answer.get("event").is_none())
        .map(|mut answer| {
            assert!(answer.get("error").is_none(), "{arguments:?}\n{answer}");
            answer["return"].take()
        })
        .collect();
    returned[1..].to_vec()
}

/// Splits a text with a real shell.
fn shell_words(text: &str) -> Vec<String> {
    let script = format!("printf '%s\\n' {text}");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

fn has_qemu() -> bool {
    let version = Command::new("qemu-system-x86_64").arg("--version").output();
    let major = version.ok().and_then(|output| {
        let text = String::from_utf8(output.stdout).ok()?;
        text.split("version ")
            .nth(1)?
            .split('.')
            .next()?
            .parse::<u32>()
            .ok()
    });
    if major.is_none_or(|major| major < 10) {
        println!("skipped: qemu-system-x86_64 10 or later is not installed");
        return false;
    }
    true
}
