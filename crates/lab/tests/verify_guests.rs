//! Real guests under QEMU see what was planned, and a wrong shape is noticed.
//!
//! Needs `qemu-system-x86_64` and a kernel (`VTOPO_KERNEL`, or the host's own); says so and passes where there is none.
//! One guest runs at a time. With `VTOPO_RECORD=FOLDER` every report is written there: that is where `tests/data` comes
//! from.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]
#![expect(
    clippy::print_stdout,
    reason = "why a test is skipped, and how long guests take"
)]

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use lab::compare::{Field, compare, compare_devices, show};
use lab::guest::{self, GuestReport, MemoryMode, Plan, Setup};
use lab::report::SeenGuest;
use model::formats::{Accelerator, Target};
use model::guest::Level;
use model::vm::Device;
use model::{GuestCpu, GuestLlc, GuestNode, GuestTopology, Spec};

/// L3 of QEMU's `max` model (its legacy caches).
const LLC_BYTES: u64 = 16 << 20;

/// Guests run one at a time: two slow cores are usual.
static ONE_GUEST: Mutex<()> = Mutex::new(());

/// Says why there is no guest. Under CI that is a failure: both QEMU and a kernel can be installed everywhere.
fn cannot(error: &dyn std::fmt::Display) {
    assert!(
        std::env::var_os("CI").is_none(),
        "no guest can boot: {error}"
    );
    println!("skipped: {error}");
}

/// What it takes to boot guests here, or `None` with the reason printed.
fn setup() -> Option<(Setup, Target)> {
    let explicit = std::env::var_os("VTOPO_KERNEL");
    let kernel = guest::find_kernel(explicit.as_deref().map(Path::new));
    let kernel = kernel.map_err(|error| cannot(&error)).ok()?;
    let setup = Setup::new(kernel);
    let qemu_major = guest::emulator_major(&setup.emulator);
    let qemu_major = qemu_major.map_err(|error| cannot(&error)).ok()?;
    let target = Target {
        accelerator: Accelerator::Tcg,
        qemu_major,
        ..Target::default()
    };
    Some((setup, target))
}

/// A shape with LLCs at a level, and vNUMA nodes given by their vCPUs and memory in MiB.
fn shape(levels: [u32; 5], llc: Level, nodes: &[(&str, u64)]) -> Spec {
    let mut topology = GuestTopology::uniform(0, levels);
    let node = |&(vcpus, memory_mib): &(&str, u64)| GuestNode {
        vcpus: vcpus.parse().unwrap(),
        memory_mib,
        host_nodes: vec![0],
    };
    topology.numa_nodes = nodes.iter().map(node).collect();
    let last = nodes
        .last()
        .and_then(|_| topology.numa_nodes.last()?.vcpus.last());
    topology.vcpus = last.map_or(topology.maxcpus(), |last| last.0 + 1);
    let llcs = topology.blocks(topology.slots_in(llc)).into_iter();
    topology.llcs = llcs
        .map(|vcpus| GuestLlc {
            vcpus,
            size_bytes: LLC_BYTES,
            guest_size_bytes: LLC_BYTES,
        })
        .collect();
    Spec {
        vcpus: topology.vcpus,
        memory_mib: topology.memory_mib().max(1024),
        topology: Some(topology),
        ..Spec::default()
    }
}

/// Boots one guest after the other.
fn boot(name: &str, plan: &Plan) -> GuestReport {
    let _alone = ONE_GUEST.lock().unwrap_or_else(PoisonError::into_inner);
    let report = guest::boot(plan, &mut |_| {}).unwrap_or_else(|error| panic!("{name}: {error}"));
    println!(
        "{name}: {} vCPUs, report after {:.1} s",
        plan.topology.vcpus,
        report.elapsed.as_secs_f64()
    );
    if let Some(folder) = std::env::var_os("VTOPO_RECORD") {
        let path = Path::new(&folder).join(format!("{name}.report"));
        std::fs::write(path, &report.text).unwrap();
    }
    report
}

fn wrong(fields: &[Field]) -> Vec<String> {
    let wrong = fields.iter().filter(|field| !field.ok);
    wrong
        .map(|field| {
            let (planned, seen) = (show(&field.planned), show(&field.seen));
            format!("{}: planned {planned}, seen {seen}", field.name)
        })
        .collect()
}

/// What `lscpu` says in the guest agrees with our own reading of sysfs.
fn check_lscpu(name: &str, report: &GuestReport) {
    for command in ["lscpu", "lscpu -J"] {
        let Some(output) = report
            .seen
            .tools
            .iter()
            .find(|tool| tool.command == command)
        else {
            println!("{name}: {command} not compared: {:?}", report.skipped_tools);
            continue;
        };
        let seen = SeenGuest::from_text(&output.text).unwrap();
        let nodes = |seen: &SeenGuest| {
            let nodes = seen.nodes.iter().flatten();
            nodes
                .map(|node| (node.id, node.cpus.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(seen.online, report.seen.online, "{name}: {command}");
        assert_eq!(seen.sockets(), report.seen.sockets(), "{name}: {command}");
        assert_eq!(
            seen.threads_per_core(),
            report.seen.threads_per_core(),
            "{name}: {command}"
        );
        assert_eq!(nodes(&seen), nodes(&report.seen), "{name}: {command}");
    }
}

#[test]
fn guests_see_what_was_planned() {
    let Some((setup, target)) = setup() else {
        return;
    };
    let gib = 1024;
    let quarters = ["0-7", "8-15", "16-23", "24-31"].map(|vcpus| (vcpus, 4 * gib));
    for (name, levels, llc, nodes) in [
        (
            "4-one-socket",
            [1, 1, 1, 4, 1],
            Level::Socket,
            &[("0-3", 4 * gib)][..],
        ),
        ("4-flat", [4, 1, 1, 1, 1], Level::Socket, &[]),
        (
            "8-two-llcs",
            [1, 2, 1, 4, 1],
            Level::Die,
            &[("0-7", 16 * gib)],
        ),
        (
            "8-two-modules",
            [1, 1, 2, 4, 1],
            Level::Module,
            &[("0-7", 16 * gib)],
        ),
        (
            "8-threads",
            [2, 1, 1, 2, 2],
            Level::Socket,
            &[("0-3", 8 * gib), ("4-7", 8 * gib)],
        ),
        (
            "13-of-16",
            [1, 4, 1, 4, 1],
            Level::Die,
            &[("0-7", 8 * gib), ("8-12", 5 * gib)],
        ),
        (
            "16-two-nodes",
            [2, 2, 1, 4, 1],
            Level::Die,
            &[("0-7", 8 * gib), ("8-15", 4 * gib)],
        ),
        ("32-four-nodes", [2, 4, 1, 4, 1], Level::Die, &quarters[..]),
    ] {
        let plan = Plan::new(
            &shape(levels, llc, nodes),
            &target,
            MemoryMode::Scaled,
            &setup,
        );
        let report = boot(name, &plan);
        let fields = compare(&plan.topology, &report.seen);
        assert_eq!(wrong(&fields), [""; 0], "{name}");
        check_lscpu(name, &report);
    }
}

/// A named model brings the size of its L3, also where emulation makes an AMD model say Intel.
#[test]
fn a_named_model_shows_its_own_cache_size() {
    let Some((setup, target)) = setup() else {
        return;
    };
    let mut spec = shape([1, 2, 1, 2, 2], Level::Die, &[("0-7", 256)]);
    spec.cpu = GuestCpu::Named("EPYC-Milan".to_owned());
    for llc in &mut spec.topology.as_mut().unwrap().llcs {
        llc.guest_size_bytes = 32 << 20;
    }
    let plan = Plan::new(&spec, &target, MemoryMode::Scaled, &setup);
    let report = boot("8-milan", &plan);
    assert_eq!(wrong(&compare(&plan.topology, &report.seen)), [""; 0]);
}

#[test]
fn distances_and_device_nodes_reach_the_guest() {
    let Some((setup, target)) = setup() else {
        return;
    };
    let mut spec = shape(
        [2, 1, 1, 2, 1],
        Level::Socket,
        &[("0-1", 256), ("2-3", 256)],
    );
    spec.topology.as_mut().unwrap().distances = vec![vec![10, 32], vec![32, 10]];
    let device = |name: &str, guest_node| Device {
        name: name.to_owned(),
        address: "0000:41:00.0".to_owned(),
        guest_node,
    };
    spec.devices = vec![
        device("far", Some(1)),
        device("near", Some(0)),
        device("anywhere", None),
        device("far2", Some(1)),
    ];
    let plan = Plan::new(&spec, &target, MemoryMode::Scaled, &setup);
    let report = boot("4-devices", &plan);
    let mut fields = compare(&plan.topology, &report.seen);
    fields.extend(compare_devices(&plan.devices, &report.seen));
    assert_eq!(wrong(&fields), [""; 0]);
    let seen: Vec<(&str, String)> = fields
        .iter()
        .filter(|field| field.name == "distances" || field.name.starts_with("devices"))
        .map(|field| (field.name.as_str(), field.seen.to_string()))
        .collect();
    let expected = [
        ("distances", "[[10,32],[32,10]]"),
        ("devices.near.node", "0"),
        ("devices.far.node", "1"),
        ("devices.far2.node", "1"),
    ];
    assert_eq!(seen, expected.map(|(name, text)| (name, text.to_owned())));
}

#[test]
fn a_guest_of_another_shape_than_planned_is_noticed() {
    let Some((setup, target)) = setup() else {
        return;
    };
    let planned = shape([1, 2, 1, 2, 1], Level::Die, &[("0-1", 256), ("2-3", 256)]);
    let other = shape([1, 1, 1, 2, 2], Level::Socket, &[("0-3", 512)]);
    let plan = Plan::new(&planned, &target, MemoryMode::Scaled, &setup);
    let booted = Plan::new(&other, &target, MemoryMode::Scaled, &setup);
    let report = boot("4-other", &booted);
    assert_eq!(wrong(&compare(&booted.topology, &report.seen)), [""; 0]);
    let fields = compare(&plan.topology, &report.seen);
    let names: Vec<&str> = fields
        .iter()
        .filter(|field| !field.ok)
        .map(|field| field.name.as_str())
        .collect();
    for name in [
        "threads_per_core",
        "llcs",
        "l2",
        "numa_nodes",
        "numa_nodes.0.vcpus",
        "distances",
    ] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
}

#[test]
fn what_qemu_refuses_is_told_in_its_own_words() {
    let Some((setup, target)) = setup() else {
        return;
    };
    let mut plan = Plan::new(
        &shape([1, 1, 1, 2, 1], Level::Socket, &[]),
        &target,
        MemoryMode::Scaled,
        &setup,
    );
    plan.arguments
        .extend(["-device".to_owned(), "no-such-device".to_owned()]);
    let error = guest::boot(&plan, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("no-such-device"), "{error}");
    assert!(error.contains("before its kernel"), "{error}");
}

#[test]
fn the_probe_says_why() {
    let Some((setup, target)) = setup() else {
        return;
    };
    let _alone = ONE_GUEST.lock().unwrap_or_else(PoisonError::into_inner);
    let start = std::time::Instant::now();
    let probe = guest::probe_accelerator(&setup, &GuestCpu::Unstated, &target);
    println!(
        "{:?}: {} ({:?})",
        probe.accelerator,
        probe.reason,
        start.elapsed()
    );
    assert!(probe.reason.contains("KVM"), "{}", probe.reason);
}
