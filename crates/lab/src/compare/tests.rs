use model::{GuestLlc, GuestNode};

use super::*;

const LLC_BYTES: u64 = 16 << 20;

/// The shape that `tests/data/8-threads.report` was recorded with: two packages of two cores with two threads each.
fn plan() -> GuestTopology {
    let mut plan = GuestTopology::uniform(8, [2, 1, 1, 2, 2]);
    plan.llcs = llcs(&["0-3", "4-7"]);
    plan.numa_nodes = ["0-3", "4-7"].map(|vcpus| node(vcpus, 256)).to_vec();
    plan
}

fn llcs(vcpus: &[&str]) -> Vec<GuestLlc> {
    let llc = |vcpus: &&str| GuestLlc {
        vcpus: vcpus.parse().unwrap(),
        size_bytes: LLC_BYTES,
        guest_size_bytes: LLC_BYTES,
    };
    vcpus.iter().map(llc).collect()
}

fn node(vcpus: &str, memory_mib: u64) -> GuestNode {
    GuestNode {
        vcpus: vcpus.parse().unwrap(),
        memory_mib,
        host_nodes: Vec::new(),
    }
}

fn seen() -> SeenGuest {
    SeenGuest::from_text(include_str!("../../tests/data/8-threads.report")).unwrap()
}

fn wrong(plan: &GuestTopology, seen: &SeenGuest) -> Vec<String> {
    let fields = compare(plan, seen).into_iter();
    fields
        .filter(|field| !field.ok)
        .map(|field| field.name)
        .collect()
}

#[test]
fn the_guest_saw_the_plan() {
    assert_eq!(wrong(&plan(), &seen()), [""; 0]);
}

type Change = fn(&mut GuestTopology);

/// Ways for a plan to be wrong, with the fields that show it.
#[rustfmt::skip]
const CHANGES: [(&str, Change, &[&str]); 11] = [
    ("one LLC more", |plan| plan.llcs = llcs(&["0-3", "4-5", "6-7"]), &["llcs"]),
    ("one LLC for all", |plan| plan.llcs = llcs(&["0-7"]), &["llcs"]),
    ("LLCs of another size", |plan| plan.llcs[1].guest_size_bytes *= 2, &["llc_size_bytes"]),
    ("cores for threads", |plan| (plan.cores, plan.threads) = (4, 1),
        &["cores_per_socket", "threads_per_core", "cores.vcpus", "l1d", "l1i", "l2"]),
    ("one socket", |plan| (plan.sockets, plan.cores) = (1, 4),
        &["sockets", "cores_per_socket", "sockets.vcpus"]),
    ("nodes swapped", |plan| plan.numa_nodes.swap(0, 1),
        &["numa_nodes.0.vcpus", "numa_nodes.1.vcpus"]),
    ("a node more", |plan| plan.numa_nodes.push(node("", 64)),
        &["numa_nodes", "numa_nodes.2.vcpus", "numa_nodes.2.memory_mib", "distances"]),
    ("more memory", |plan| plan.numa_nodes[0].memory_mib = 261, &["numa_nodes.0.memory_mib"]),
    ("less memory", |plan| plan.numa_nodes[1].memory_mib = 255, &["numa_nodes.1.memory_mib"]),
    ("other distances", |plan| plan.distances = vec![vec![10, 32], vec![32, 10]], &["distances"]),
    ("a vCPU less", |plan| plan.vcpus = 7,
        &["vcpus", "sockets.vcpus", "cores.vcpus", "l1d", "l1i", "l2"]),
];

#[test]
fn a_wrong_plan_does_not_pass() {
    for (name, change, expected) in CHANGES {
        let mut plan = plan();
        change(&mut plan);
        assert_eq!(wrong(&plan, &seen()), expected, "{name}");
    }
}

#[test]
fn slots_without_vcpus_are_compared_with_what_the_firmware_describes() {
    let seen = SeenGuest::from_text(include_str!("../../tests/data/13-of-16.report")).unwrap();
    let mut plan = GuestTopology::uniform(13, [1, 4, 1, 4, 1]);
    plan.llcs = llcs(&["0-3", "4-7", "8-11", "12"]);
    plan.numa_nodes = vec![node("0-7", 256), node("8-12", 160)];
    assert_eq!(wrong(&plan, &seen), [""; 0]);
    let maxcpus = compare(&plan, &seen)
        .into_iter()
        .find(|field| field.name == "maxcpus");
    assert_eq!(maxcpus.unwrap().seen, json!(16));
    plan.dies = 5;
    assert_eq!(wrong(&plan, &seen), ["maxcpus"]);
}

/// A processor model without a die level (AMD under KVM) shows one die in a package, which is no mismatch; the LLCs are
/// compared all the same.
#[test]
fn dies_that_the_model_cannot_show_are_no_mismatch() {
    let mut plan = plan();
    (plan.dies, plan.cores) = (2, 1);
    plan.llcs = llcs(&["0-1", "2-3", "4-5", "6-7"]);
    let fields = compare(&plan, &seen());
    let dies = fields.iter().find(|field| field.name == "dies").unwrap();
    assert_eq!(
        (dies.ok, &dies.planned, &dies.seen),
        (true, &json!(2), &json!(NOT_SHOWN))
    );
    assert_eq!(wrong(&plan, &seen()), ["llcs"]);
}

#[test]
fn more_dies_than_planned_are_a_mismatch() {
    let mut seen = seen();
    for cpu in &mut seen.cpus {
        cpu.die = Some(cpu.id.0 / 2);
    }
    assert_eq!(wrong(&plan(), &seen), ["dies"]);
}

#[test]
fn what_the_plan_leaves_open_cannot_be_wrong() {
    let mut plan = plan();
    plan.llcs.clear();
    let fields = compare(&plan, &seen());
    let llcs = fields.iter().find(|field| field.name == "llcs").unwrap();
    assert_eq!((llcs.ok, &llcs.planned), (true, &json!(NOT_STATED)));
    assert_eq!(llcs.seen, json!(["0-3", "4-7"]));
}

/// Our own report is complete, so that what it lacks is wrong; a tool's output is not.
#[test]
fn missing_caches_are_a_mismatch_in_our_own_report_only() {
    let mut seen = seen();
    seen.caches = None;
    assert_eq!(
        wrong(&plan(), &seen),
        ["llcs", "llc_size_bytes", "l1d", "l1i", "l2"]
    );
    seen.source = Source::Coreinfo;
    assert_eq!(wrong(&plan(), &seen), [""; 0]);
}

#[test]
fn a_summary_is_compared_by_its_counts() {
    let tools = seen().tools;
    let summary = tools
        .iter()
        .find(|tool| tool.command == "lscpu -J")
        .unwrap();
    let summary = SeenGuest::from_text(&summary.text).unwrap();
    assert_eq!(wrong(&plan(), &summary), [""; 0]);
    let mut other = plan();
    other.llcs = llcs(&["0-7"]);
    (other.sockets, other.cores) = (1, 4);
    other.numa_nodes.truncate(1);
    let expected = ["sockets", "cores_per_socket", "llcs", "numa_nodes"];
    assert_eq!(wrong(&other, &summary), expected);
}

#[test]
fn fields_are_the_json_that_scripts_read() {
    let fields = compare(&plan(), &seen());
    let text: Vec<String> = fields
        .iter()
        .filter(|field| ["sockets", "llcs", "llc_size_bytes"].contains(&field.name.as_str()))
        .map(|field| serde_json::to_string(field).unwrap())
        .collect();
    assert_eq!(
        text,
        [
            r#"{"name":"sockets","planned":2,"seen":2,"ok":true}"#,
            r#"{"name":"llcs","planned":["0-3","4-7"],"seen":["0-3","4-7"],"ok":true}"#,
            r#"{"name":"llc_size_bytes","planned":16777216,"seen":16777216,"ok":true}"#,
        ]
    );
}

#[test]
fn devices_are_compared_by_their_node() {
    let seen = SeenGuest::from_text(include_str!("../../tests/data/4-devices.report")).unwrap();
    let planned = |nodes: [u32; 4]| nodes.map(|node| (format!("nic{node}"), node));
    let fields = compare_devices(&planned([0, 1, 0, 1]), &seen);
    let ok: Vec<bool> = fields.iter().map(|field| field.ok).collect();
    // The third is on node 1, and there is no fourth.
    assert_eq!(ok, [true, true, false, false]);
}

#[test]
fn long_lists_are_shown_short() {
    let sets: Vec<String> = (0..64).map(|cpu| cpu.to_string()).collect();
    assert_eq!(show(&json!(sets)), "0 1 2 3 4 5 ... 63 (64 in all)");
    assert_eq!(show(&json!(["0-3", "4-7"])), "0-3 4-7");
    assert_eq!(show(&json!([[10, 20], [20, 10]])), "10 20 20 10");
}
