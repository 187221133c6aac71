//! Tables of good and bad texts, and what holds for every scenario.

use model::GuestTopology;
use proptest::prelude::*;

use super::*;
use crate::rng::Law;
use crate::spec::{Arrivals, Clients, RunSpec, Scaled, Step};
use crate::time::{MS, S, US};

/// A closed loop with all its numbers easy to divide: 1 ms of CPU, 1 ms of disk.
const PLAIN: &str = r#"
    threads = "10/vcpu"
    clients = { kind = "closed", users = "10/vcpu", think = "load" }
    [device.disk]
    latency = { value = "1ms", law = "fixed", evidence = "E", source = "ours" }
    parallel = 8
    [[step]]
    name = "work"
    cpu = { value = "1ms", cv = 0.5, evidence = "E", source = "ours" }
    [[step]]
    io = "disk"
"#;
const CALLED: &str = "clients.kind = \"called\"\n[[step]]\nname = \"work\"\ncpu = \"2ms\"\n";
const CALLER: &str = "clients = { kind = \"open\", rate = \"100/s\" }\n[[step]]\ncpu = \"1ms\"\n[[step]]\ncall = \"called\"\ntimes = 2\n";

fn library() -> Library {
    let mut library = Library::default();
    for (name, text) in [("plain", PLAIN), ("called", CALLED), ("caller", CALLER)] {
        library
            .add(name, text)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    library
}

fn simulation(text: &str) -> Simulation {
    read(text, &library())
        .unwrap_or_else(|error| panic!("{text}\n{error} at {:?}", text.get(error.span.clone())))
}

/// A VM that runs `plain`, and more text.
fn with_vm(more: &str) -> String {
    format!("{more}\n[[vm]]\nname = \"a\"\nvcpus = 4\ncpu = \"50%\"\nworkload = \"plain\"\n")
}

fn expanded(simulation: &Simulation) -> Result<RunSpec, ScenarioError> {
    let flat = |vcpus| GuestTopology::uniform(vcpus, [vcpus, 1, 1, 1, 1]);
    let members = simulation.members.iter();
    let guests: Vec<GuestTopology> = members.map(|member| flat(member.vm.vcpus)).collect();
    expand(simulation, &Nominal::REFERENCE, &guests)
}

fn assigned(text: &str, key: &str, value: &str) -> String {
    set(text, &[(key.to_owned(), value.to_owned())])
        .unwrap_or_else(|error| panic!("{key}: {error}"))
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn a_scenario_says_everything() {
    let text = r#"
        host = "epyc-7702-2s"
        [run]
        duration = "10s"
        warmup = "1s"
        seeds = 7
        seed = 42
        timeline = "50ms"
        [tiles]
        count = 2
        [network]
        moderation = "100us"
        queues = "shared"
        coalescing = "0s"
        path = "direct"
        wire = "20us"
        [workload.mine]
        like = "plain"
        step.work.cpu = "3ms"
        step.2 = { io = "disk", times = 2 }
        clients = { users = 5, think = { from = "1ms", to = "3ms" } }
        [workload.own]
        vector = { smt = 0.7, llc_mpki = 4, instructions_per_us = 2_000, working_set = "2M", mlp = 2 }
        clients = { kind = "open", rate = 50, arrivals = "bursts", burst_factor = 2, burst_on = "1s", burst_off = "3s" }
        threads = 3
        [[workload.own.step]]
        hold = "2us"
        lock = 3
        [[workload.own.step]]
        packets = 2
        bytes = 1500
        [[workload.own.step]]
        sleep = "1ms"
        [[vm]]
        name = "db"
        count = 2
        vcpus = 4
        workload = "mine"
        near = "x"
        tile = true
        [[vm]]
        name = "other"
        vcpus = 2
        workload = "own"
        system = "windows"
        rule = "auto"
        on = "1s"
        off = "9s"
        with = { threads = 4 }
        [[vm]]
        vcpus = 1
        [[qos]]
        workload = "mine"
        metric = "p99.9"
        limit = "20ms"
        [[qos]]
        workload = "own"
        metric = "throughput"
        limit = "1000/s"
        [[qos]]
        workload = "own"
        metric = "ready"
        limit = "5%"
        [[sweep]]
        key = "vm.db.cpu"
        from = "50%"
        to = "70%"
        step = "10%"
    "#;
    let found = simulation(text);
    assert_eq!(
        found.run,
        Run {
            duration_ns: 10 * S,
            warmup_ns: S,
            seeds: 7,
            seed: 42,
            timeline: Some((S, S + 50 * MS)),
        }
    );
    let names: Vec<(&str, u32)> = found
        .members
        .iter()
        .map(|m| (m.vm.name.as_str(), m.tile))
        .collect();
    assert_eq!(
        names,
        [
            ("other", 0),
            ("vm1", 0),
            ("t1-db1", 1),
            ("t1-db2", 1),
            ("t2-db1", 2),
            ("t2-db2", 2)
        ]
    );
    let near: Vec<Option<&str>> = found.members.iter().map(|m| m.vm.near.as_deref()).collect();
    assert_eq!(
        near[2..],
        [Some("t1-x"), Some("t1-x"), Some("t2-x"), Some("t2-x")]
    );
    let other = &found.members[0];
    assert_eq!(
        (other.rule.as_deref(), other.on_ns, other.off_ns),
        (Some("auto"), S, Some(9 * S))
    );
    assert_eq!(other.system, GuestSystem::Windows);
    let network = Network {
        moderation_ns: Some(100 * US),
        shared_queue: Some(true),
        coalescing_ns: Some(0),
        direct: Some(true),
        wire_ns: Some(20 * US),
    };
    assert_eq!(found.network, network);

    let [mine, own] = found.workloads.as_slice() else {
        panic!("{:?}", found.workloads)
    };
    let work = Law::LogNormal {
        mean_ns: 3 * MS,
        cv: 0.5,
    };
    let disk = Step::Io { device: 0 };
    assert_eq!(mine.steps, [Step::Cpu(work), disk.clone(), disk]);
    let clients = Clients::Closed {
        users: Scaled {
            count: 5,
            per_vcpu: false,
        },
        think: Some(Law::Uniform {
            from_ns: MS,
            to_ns: 3 * MS,
        }),
    };
    assert_eq!(mine.clients, clients);
    let steps = [
        Step::Lock {
            lock: 3,
            hold: Law::Exponential { mean_ns: 2 * US },
        },
        Step::Network {
            packets: 2,
            bytes: 1500,
        },
        Step::Sleep(Law::Exponential { mean_ns: MS }),
    ];
    assert_eq!(own.steps, steps);
    assert_eq!(
        (own.threads.count, own.vector.smt.to_bits()),
        (4, 0.7_f64.to_bits())
    );
    assert!((own.vector.misses_per_us - 8.0).abs() < 1e-9);
    let arrivals = Arrivals::Bursts {
        factor: 2.0,
        on_ns: S,
        off_ns: 3 * S,
    };
    assert_eq!(
        own.clients,
        Clients::Open {
            per_s: Some(50.0),
            arrivals
        }
    );

    let metrics: Vec<(String, f64)> = found
        .qos
        .iter()
        .map(|q| (q.metric.name(), q.limit))
        .collect();
    assert_eq!(metrics[0], ("p99.9".to_owned(), 20e6));
    assert_eq!(metrics[1], ("throughput".to_owned(), 1000.0));
    assert_eq!(metrics[2], ("ready".to_owned(), 0.05));
    assert_eq!(found.sweeps[0].values, ["50%", "60%", "70%"]);
    assert_eq!(grid(&found.sweeps).len(), 3);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn what_is_wrong_is_shown_where_it_is() {
    let mut cases = vec![
        (with_vm("runn = 1"), "runn", "no key of a scenario"),
        (with_vm("run.length = \"5s\""), "length", "no key of `run`"),
        (with_vm("run = 5"), "5", "is a table"),
        (with_vm("run.duration = \"0s\""), "\"0s\"", "duration of 0"),
        (with_vm("run.duration = \"-5s\""), "\"-5s\"", "negative"),
        (with_vm("run.duration = 5"), "5", "no duration"),
        (
            with_vm("run.duration = \"400d\""),
            "\"400d\"",
            "longer than a year",
        ),
        (
            with_vm("run.duration = \"99999999999999h\""),
            "\"99999999999999h\"",
            "longer than a year",
        ),
        (
            with_vm("run = { duration = \"5s\", warmup = \"5s\" }"),
            "\"5s\"",
            "leaves nothing",
        ),
        (with_vm("run.seeds = 0"), "0", "not possible"),
        (
            with_vm("run.timeline = \"30s\""),
            "\"30s\"",
            "the timeline goes from 2s to 32s",
        ),
        (with_vm("run.timeline = [\"1s\"]"), "[\"1s\"]", "two times"),
        (
            with_vm("workload.mine.threads = 1"),
            "mine",
            "no VM runs the workload",
        ),
        (with_vm("tiles.count = 3"), "tiles", "no VM is in the tiles"),
        (
            with_vm("network.path = \"x\""),
            "\"x\"",
            "none of switch, direct",
        ),
        (with_vm("qos = 5"), "5", "double brackets"),
        (
            with_vm("[[qos]]\nworkload = \"plian\"\nmetric = \"p99\"\nlimit = \"1s\""),
            "\"plian\"",
            "did you mean `plain`",
        ),
        (
            with_vm("[[qos]]\nworkload = \"plain\"\nmetric = \"p98\"\nlimit = \"1s\""),
            "\"p98\"",
            "none of mean, p50",
        ),
        (
            with_vm("[[qos]]\nworkload = \"plain\"\nmetric = \"p99\"\nlimit = \"0s\""),
            "\"0s\"",
            "duration of 0",
        ),
        (
            with_vm("[[qos]]\nworkload = \"plain\"\nmetric = \"ready\"\nlimit = \"101%\""),
            "\"101%\"",
            "no share",
        ),
        (
            with_vm("[[qos]]\nworkload = \"plain\""),
            "[[qos]]",
            "needs workload, metric and limit",
        ),
        (
            with_vm("[[sweep]]\nkey = \"vm.b.count\"\nvalues = [1]"),
            "\"vm.b.count\"",
            "no vm",
        ),
        (
            with_vm("[[sweep]]\nkey = \"run.lenth\"\nvalues = [1]"),
            "\"run.lenth\"",
            "no key here",
        ),
        (
            with_vm("[[sweep]]\nkey = \"run.seed\"\nvalues = []"),
            "[]",
            "no value to try",
        ),
        (
            with_vm("[[sweep]]\nkey = \"run.seed\"\nfrom = 1\nto = 9"),
            "[[sweep]]",
            "from, to and step",
        ),
        (
            with_vm("[[sweep]]\nkey = \"run.seed\"\nfrom = 1\nto = 9\nstep = 0"),
            "0",
            "above 0",
        ),
        (
            with_vm("[[sweep]]\nkey = \"run.seed\"\nfrom = 1\nto = 9999\nstep = 1"),
            "1",
            "at most 1000",
        ),
        (
            with_vm("[[sweep]]\nkey = \"run.seed\"\nfrom = \"1s\"\nto = \"9s\"\nstep = 1"),
            "\"9s\"",
            "same unit",
        ),
        (
            "[[vm]]\nvcpus = 4\n".to_owned(),
            "[[vm]]",
            "no VM runs a workload",
        ),
        (
            "[[vm]]\nvcpus = 4\nwith = { threads = 1 }\n".to_owned(),
            "{ threads = 1 }",
            "say which with",
        ),
        (
            "[[vm]]\nvcpus = 4\nworkload = \"plan\"\n".to_owned(),
            "\"plan\"",
            "did you mean `plain`",
        ),
        (
            "[[vm]]\nvcpus = 0\nworkload = \"plain\"\n".to_owned(),
            "0",
            "without vCPUs",
        ),
        (
            "[[vm]]\nvcpus = 1\nworkload = \"plain\"\non = \"20s\"\n".to_owned(),
            "\"20s\"",
            "the run of 20s is over",
        ),
        (
            "[[vm]]\nvcpus = 1\nworkload = \"plain\"\non = \"2s\"\noff = \"1s\"\n".to_owned(),
            "\"1s\"",
            "on at 2s only",
        ),
        (
            "[[vm]]\nvcpus = 1\nworkload = \"plain\"\ncount = 10001\n".to_owned(),
            "[[vm]]",
            "at most 10000",
        ),
        (
            "[[vm]]\nvcpus = 20\nworkload = \"plain\"\ncount = 10000\n".to_owned(),
            "[[vm]]",
            "more than 100000 vCPUs",
        ),
        (
            "[[vm]]\nvcpus = 20\nworkload = \"plain\"\ncount = 5000\nwith.threads = \"11/vcpu\""
                .to_owned(),
            "[[vm]]",
            "threads",
        ),
        (
            "[[vm]]\nvcpus = 1\nworkload = \"called\"\n".to_owned(),
            "\"called\"",
            "nobody here calls it",
        ),
        (
            "[[vm]]\nvcpus = 1\nworkload = \"caller\"\n".to_owned(),
            "\"caller\"",
            "\"caller\" calls \"called\"",
        ),
    ];
    // What cannot be true of a workload, as an override of one VM.
    for (with, piece, words) in [
        ("vectr.smt = 1", "vectr", "did you mean `vector`"),
        ("vector.smt = 0.4", "0.4", "give 0.5 to 1"),
        ("vector.smt = 1.1", "1.1", "give 0.5 to 1"),
        ("vector.alpha = 2.5", "2.5", "give 0 to 2"),
        ("vector.alpha = nan", "nan", "give 0 to 2"),
        ("vector.floor = -0.1", "-0.1", "give 0 to 1"),
        ("vector.mlp = 0.5", "0.5", "give 1 to"),
        ("vector.sharing_mlp = 0", "0", "give 1 to"),
        ("vector.llc_mpki = 5", "5", "needs instructions_per_us"),
        (
            "vector.working_set = \"4 parsecs\"",
            "\"4 parsecs\"",
            "no size",
        ),
        ("step.work.cpu = \"0s\"", "\"0s\"", "time of 0"),
        ("step.work.cpu = \"2h\"", "\"2h\"", "at most an hour"),
        ("step.work.cpu.cv = 0", "0", "give 0.001 to 20"),
        ("step.work.cpu.cv = -1", "-1", "give 0.001 to 20"),
        (
            "step.work.cpu.law = \"normal\"",
            "\"normal\"",
            "none of fixed",
        ),
        ("step.work.cpu.mean = \"1s\"", "mean", "no key of a number"),
        (
            "step.work.cpu = { from = \"2s\", to = \"1s\" }",
            "\"2s\"",
            "above `to`",
        ),
        ("step.work.io = \"disk\"", "io", "only one"),
        (
            "step.work.lock = 1",
            "lock",
            "belongs to a step with `hold`",
        ),
        ("step.wokr.cpu = \"1s\"", "wokr", "none of them"),
        ("step.3.cpu = \"1s\"", "3", "from 1 to 2"),
        (
            "step = [{ io = \"disc\" }]",
            "\"disc\"",
            "did you mean `disk`",
        ),
        ("step = []", "", "never ends"),
        ("step = [{ packets = 0 }]", "0", "whole number from 1"),
        (
            "step = [{ cpu = \"1ms\", times = 1001 }]",
            "1001",
            "whole number from 1 to 1000",
        ),
        ("device.disk.parallel = -1", "-1", "whole number"),
        ("clients.users = 0", "0", "give 1 to"),
        ("clients.users = \"x/vcpu\"", "\"x/vcpu\"", "as in 10/vcpu"),
        ("clients.rate = 5", "rate", "says nothing about clients"),
        ("clients.kind = \"opened\"", "\"opened\"", "none of closed"),
        ("clients = { kind = \"open\", rate = 0 }", "0", "no rate"),
        (
            "clients = { kind = \"open\", burst_on = \"1s\" }",
            "burst_on",
            "needs arrivals",
        ),
        (
            "clients = { kind = \"open\", arrivals = \"bursts\", burst_factor = 5, burst_on = \"1s\", burst_off = \"1s\" }",
            "5",
            "give 1 to 2",
        ),
        ("like = \"called\"", "\"called\"", "use `workload`"),
        (
            "clients.think = \"0s\", step = [{ cpu = \"10ns\" }]",
            "\"plain\"",
            "hardly advances",
        ),
        (
            "threads = { value = 5, unit = \"x\" }",
            "unit",
            "no key of a number",
        ),
        (
            "clients = { kind = \"closed\", users = 5, think = [\"1s\"] }",
            "[\"1s\"]",
            "a number, or its value",
        ),
    ] {
        cases.push((
            format!("[[vm]]\nvcpus = 4\nworkload = \"plain\"\nwith = {{ {with} }}\n"),
            piece,
            words,
        ));
    }
    for (text, piece, words) in cases {
        let error = read(&text, &library()).expect_err(&text);
        assert!(error.message.contains(words), "{text}\n{error}");
        let found = text.get(error.span.clone()).expect("a place in the text");
        if !piece.is_empty() {
            assert_eq!(found, piece, "{text}\n{error}");
        }
    }
}

#[test]
fn workloads_start_from_others() {
    let users = |text: &str| match simulation(text).workloads[0].clients {
        Clients::Closed { users, .. } => users.count,
        other => panic!("{other:?}"),
    };
    let vm = |name: &str| format!("[[vm]]\nvcpus = 1\nworkload = \"{name}\"\n");
    // A table of a known name changes it; chains end at the library.
    assert_eq!(
        users(&format!(
            "workload.plain.clients.users = 3\n{}",
            vm("plain")
        )),
        3
    );
    assert_eq!(
        users(&format!(
            "workload.plain = {{ like = \"plain\", clients.users = 4 }}\n{}",
            vm("plain")
        )),
        4
    );
    let chain = "workload.a = { like = \"b\", threads = 9 }\nworkload.b = { like = \"plain\", clients.users = 5 }\n";
    assert_eq!(users(&format!("{chain}{}", vm("a"))), 5);
    for (text, words) in [
        (
            "workload.a.like = \"b\"\nworkload.b.like = \"a\"\n",
            "starts from itself",
        ),
        ("workload.a.like = \"a\"\n", "starts from itself"),
        ("workload.a.like = \"plian\"\n", "did you mean `plain`"),
        (
            "workload.a.step = [{ cpu = \"1s\" }]\n",
            "nobody asks for work",
        ),
        (
            "workload.a = { clients.kind = \"called\" }\n",
            "without steps",
        ),
        (
            "workload.a = { clients.kind = \"called\", step.work.cpu = \"1s\" }\n",
            "no steps to change",
        ),
    ] {
        let error = read(&format!("{text}{}", vm("a")), &library()).expect_err(text);
        let nearest = error.nearest().map(str::to_owned);
        assert!(error.message.contains(words), "{text}: {error}");
        assert_eq!(nearest.is_some(), words.contains("plain"), "{text}");
    }
    let long: String = (0..30)
        .map(|n| format!("workload.w{n}.like = \"w{}\"\n", n + 1))
        .collect();
    let error = read(&format!("{long}{}", vm("w0")), &library()).unwrap_err();
    assert!(error.message.contains("more than 20"), "{error}");
}

#[test]
fn calls_stay_in_their_tile_and_go_in_no_circle() {
    let vm = |name: &str, tile: bool| {
        format!("[[vm]]\nname = \"{name}\"\nvcpus = 1\nworkload = \"{name}\"\ntile = {tile}\n")
    };
    assert!(read(&(vm("caller", true) + &vm("called", true)), &library()).is_ok());
    let error = read(&(vm("caller", true) + &vm("called", false)), &library()).unwrap_err();
    assert!(
        error.message.contains("no VM in its tile runs") || error.message.contains("nobody here"),
        "{error}"
    );
    let circle =
        "workload.called = { clients.kind = \"called\", step = [{ call = \"caller\" }] }\n";
    let error = read(
        &(circle.to_owned() + &vm("caller", false) + &vm("called", false)),
        &library(),
    )
    .unwrap_err();
    assert!(error.message.contains("calls go in a circle"), "{error}");
    let twice = "[[vm]]\nname = \"t1-called\"\nvcpus = 1\n".to_owned()
        + &vm("caller", true)
        + &vm("called", true);
    assert!(
        read(&twice, &library())
            .unwrap_err()
            .message
            .contains("two VMs are called")
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn values_are_set_by_their_keys() {
    let text = "# mine\nhosts = [\"x\"]\n[run]\nduration = \"1s\" # short\n[[vm]]\nname = \"db\"\nvcpus = 4\nbw = \"low\"\nworkload = \"plain\"\n[[vm]]\nvcpus = 2\n";
    for (key, value, there) in [
        ("run.duration", "5s", "duration = \"5s\" # short"),
        ("run.seeds", "7", "seeds = 7"),
        ("tiles.count", "8", "[tiles]\ncount = 8"),
        ("host", "epyc-7713-2s", "hosts = \"epyc-7713-2s\""),
        (
            "policy",
            "[\"best\", \"llc\"]",
            "policy = [\"best\", \"llc\"]",
        ),
        ("vm.db.count", "12", "count = 12"),
        ("vm.2.vcpus", "3", "vcpus = 3"),
        ("vm.db.bandwidth", "high", "bw = \"high\""),
        ("vm.db.prefer-ht", "true", "prefer_ht = true"),
        ("vm.\"db\".name", "true story", "name = \"true story\""),
        (
            "workload.plain.clients.users",
            "80",
            "[workload.plain]\nclients = { users = 80 }",
        ),
        (
            "workload.plain.step.work.cpu",
            "2ms",
            "step = { work = { cpu = \"2ms\" } }",
        ),
        (
            "workload.plain.step.work.cpu.cv",
            "2",
            "step = { work = { cpu = { cv = 2 } } }",
        ),
        ("vm.db.with.threads", "5", "with = { threads = 5 }"),
        ("network.queues", "shared", "[network]\nqueues = \"shared\""),
    ] {
        let changed = assigned(text, key, value);
        assert!(changed.contains(there), "{key}:\n{changed}");
        assert!(changed.starts_with("# mine"), "{key}:\n{changed}");
        assert!(set(&changed, &[]).is_ok(), "{key}");
        // Once more changes nothing; only a new name is no longer found by the old one.
        if key.ends_with("name") {
            continue;
        }
        assert_eq!(assigned(&changed, key, value), changed, "{key}");
    }
    assert_eq!(
        assigned("host = \"x\"\n", "hosts", "[\"y\", \"z\"]"),
        "hosts = [\"y\", \"z\"]\n"
    );
    let all = assigned(text, "vm.*.cpu", "30%");
    assert_eq!(all.matches("cpu = \"30%\"").count(), 2, "{all}");
    for (key, words, nearest) in [
        ("run.lenth", "no key here", None),
        ("run.durations", "no key here", Some("duration")),
        ("rnu.duration", "no key here", Some("run")),
        ("vm.bd.count", "no vm", Some("db")),
        ("vm.3.count", "2 of them", None),
        ("vm.db.cuont", "no key of a VM", Some("count")),
        ("vm.db.count.x", "no keys of its own", None),
        ("vm.db", "say which key of the VM", None),
        ("vm", "say which vm", None),
        ("run", "say which of its keys: duration, warmup", None),
        ("workload.plain.clients.user", "no key here", Some("users")),
        ("qos.1.limit", "no [[qos]]", None),
        ("", "write a key as", None),
        ("run..x", "write a key as", None),
        ("run.\"x", "quote", None),
    ] {
        let error = set(text, &[(key.to_owned(), "1".to_owned())]).expect_err(key);
        assert!(error.message.contains(words), "{key}: {error}");
        assert_eq!(error.nearest(), nearest, "{key}");
        assert_eq!(
            (error.key.as_deref(), error.span),
            (Some(key), 0..key.len())
        );
    }
    assert_eq!(set("[run", &[]).unwrap_err().key, None);
}

#[test]
fn what_is_set_is_read() {
    let text = with_vm("");
    let assignments = [
        ("vm.a.count", "3"),
        ("vm.a.with.step.work.cpu.cv", "2"),
        ("workload.plain.clients.users", "7"),
        ("workload.plain.device.disk.parallel", "2"),
        ("run.duration", "2s"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let found = simulation(&set(&text, &assignments).unwrap());
    let workload = &found.workloads[0];
    assert_eq!(
        (
            found.members.len(),
            found.run.duration_ns,
            found.run.warmup_ns
        ),
        (3, 2 * S, S / 5)
    );
    assert_eq!(
        workload.steps[0],
        Step::Cpu(Law::LogNormal {
            mean_ns: MS,
            cv: 2.0
        })
    );
    assert_eq!(workload.devices[0].parallel, 2);
    assert!(matches!(
        workload.clients,
        Clients::Closed {
            users: Scaled { count: 7, .. },
            ..
        }
    ));
}

#[test]
fn think_times_make_the_load() {
    // 4 vCPUs at 50% need 2 operations of 1 ms at a time: 2,000 a second. 40 users think 40 / 2,000 s less 2 ms.
    let plain = expanded(&simulation(&with_vm(""))).unwrap();
    let think = |run: &RunSpec| match run.workloads[0].clients {
        Clients::Closed {
            think: Some(think), ..
        } => think.mean_ns(),
        other => panic!("{other:?}"),
    };
    assert_eq!(think(&plain), 18 * MS);
    // Misses of 10 in a microsecond, 2 at a time, 122 ns each make the work 1.61 times as long.
    let missing = "with.vector = { llc_mpki = 5, instructions_per_us = 2000, mlp = 2 }";
    let slow = expanded(&simulation(&(with_vm("") + missing))).unwrap();
    assert_eq!(think(&slow), 32_200_000 - 2_610_000);
    // All vCPUs busy by as many users: no time to think.
    let busy = with_vm("").replace("50%", "100%")
        + "with = { clients.users = 4, step = [{ cpu = \"1ms\" }] }";
    assert_eq!(think(&expanded(&simulation(&busy)).unwrap()), 0);

    let open = with_vm("") + "with = { clients.kind = \"open\" }";
    let run = expanded(&simulation(&open)).unwrap();
    let Clients::Open {
        per_s: Some(per_s), ..
    } = run.workloads[0].clients
    else {
        panic!("{run:?}")
    };
    assert!((per_s - 2000.0).abs() < 1e-6);

    for (text, words) in [
        (
            with_vm("") + "with.clients.users = 3",
            "need 4 operations at a time (1000 us of CPU and 1000 us of waits each), but there are 3 users",
        ),
        (with_vm("") + "with.threads = 3", "there are 3 threads"),
        (with_vm("").replace("50%", "0%"), "load of 0%"),
        (
            with_vm("").replace("50%", "100%") + "with.clients.kind = \"open\"",
            "queue up without end",
        ),
        (
            with_vm("").replace("50%", "0.1%") + "with.clients.users = 1000000",
            "more than an hour",
        ),
        (
            with_vm("") + "with.step = [{ io = \"disk\" }]",
            "without work of its own",
        ),
    ] {
        let found = simulation(&text);
        let error = expanded(&found).expect_err(&text);
        assert!(error.message.contains(words), "{text}\n{error}");
        assert_eq!(error.span, found.places[0]);
    }
}

#[test]
fn callers_wait_for_whoever_they_call() {
    let text = "workload.caller = { clients = { kind = \"closed\", users = 100, think = \"load\" }, threads = 100 }\n\
                [[vm]]\nvcpus = 4\ncpu = \"50%\"\nworkload = \"caller\"\n[[vm]]\nvcpus = 4\nworkload = \"called\"\n";
    let run = expanded(&simulation(text)).unwrap();
    let Clients::Closed {
        think: Some(think), ..
    } = run.workloads[0].clients
    else {
        panic!("{run:?}")
    };
    // 2,000 operations a second of 1 ms and two calls of 2 ms: 50 ms from one to the next, less 5.
    assert_eq!(think.mean_ns(), 45 * MS);
    assert_eq!(run.workloads[1].clients, Clients::Called);
    assert_eq!(
        run.vms.iter().map(|vm| vm.workload).collect::<Vec<_>>(),
        [Some(0), Some(1)]
    );
}

#[test]
fn other_loads_are_other_workloads_of_one_name() {
    let text = with_vm("")
        + "[[vm]]\nvcpus = 4\ncpu = \"50%\"\nworkload = \"plain\"\n[[vm]]\nvcpus = 4\ncpu = \"60%\"\nworkload = \"plain\"\n";
    let run = expanded(&simulation(&text)).unwrap();
    assert_eq!(
        run.vms.iter().map(|vm| vm.workload).collect::<Vec<_>>(),
        [Some(0), Some(0), Some(1)]
    );
    assert!(
        run.workloads
            .iter()
            .all(|workload| workload.name == "plain")
    );
    let found = simulation(&text);
    let guests = vec![GuestTopology::uniform(4, [4, 1, 1, 1, 1]); 2];
    assert!(
        expand(&found, &Nominal::REFERENCE, &guests)
            .unwrap_err()
            .message
            .contains("not 2")
    );
}

#[test]
fn the_grid_has_every_combination() {
    let sweep = |key: &str, values: &[&str]| Sweep {
        key: key.to_owned(),
        values: values.iter().map(|&value| value.to_owned()).collect(),
    };
    assert_eq!(grid(&[]), [vec![]]);
    let points = grid(&[sweep("a", &["1", "2"]), sweep("b", &["x", "y", "z"])]);
    assert_eq!(points.len(), 6);
    assert_eq!(points[1][1], ("b".to_owned(), "y".to_owned()));
    assert_eq!(points[3][0], ("a".to_owned(), "2".to_owned()));
}

#[test]
fn figures_say_what_they_stand_on() {
    let library = library();
    let figures = library.figures("plain");
    let keys: Vec<&str> = figures.iter().map(|figure| figure.key.as_str()).collect();
    let expected = [
        "threads",
        "clients.users",
        "clients.think",
        "device.disk.latency",
        "device.disk.parallel",
        "step.work.cpu",
    ];
    assert_eq!(keys, expected);
    assert_eq!(
        (figures[3].value.as_str(), figures[3].source.as_str()),
        ("1ms", "ours")
    );
    assert!(figures[3].is_prior() && figures[0].evidence.is_empty());
    let mut library = Library::default();
    let error = library
        .add("x", &PLAIN.replace("\"E\"", "\"X\""))
        .unwrap_err();
    assert!(error.message.contains("none of M"), "{error}");
    let error = library.add("x", "like = \"plain\"").unwrap_err();
    assert!(error.message.contains("stands for itself"), "{error}");
}

fn keys() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "run", "duration", "vm", "a", "1", "*", "with", "workload", "plain", "clients", "users",
        "step", "work", "cpu", "cv", "tiles", "count", "host", "hosts", "qos", "sweep", "vector",
        "smt", "device", "disk", "latency", "\"x.y\"", "",
    ]);
    prop::collection::vec(words, 1..6).prop_map(|words| words.join("."))
}

fn assignments() -> impl Strategy<Value = (String, String)> {
    let values = prop_oneof![
        "[0-9]{1,3}",
        "[0-9]{1,3}(ms|s|%|/vcpu)",
        "\\PC{0,8}",
        Just("[1, \"x\"]".to_owned())
    ];
    (keys(), values)
}

proptest! {
    #[test]
    fn hostile_text_never_panics(text in "\\PC{0,60}", line in "[a-z0-9={}\\[\\]\"., %/]{0,40}") {
        let library = library();
        for text in [text.clone(), with_vm(&text), with_vm(&line), with_vm("") + &line, with_vm("") + "with = { " + &line + " }"] {
            if let Err(error) = read(&text, &library) {
                prop_assert!(text.get(error.span).is_some(), "{}", text);
            }
        }
        let _ = Library::default().add("x", &text);
        let _ = Library::default().add("x", &format!("{PLAIN}\n{line}"));
    }

    #[test]
    fn any_assignment_leaves_toml_and_what_is_read_is_in_bounds(
        first in assignments(), second in assignments(), third in assignments(),
    ) {
        let text = with_vm("[workload.plain]\nthreads = 50");
        let mut known = text;
        for (key, value) in [first, second, third] {
            match set(&known, &[(key.clone(), value)]) {
                Ok(changed) => known = changed,
                Err(error) => prop_assert_eq!(error.key, Some(key)),
            }
        }
        prop_assert!(set(&known, &[]).is_ok(), "{}", known);
        if let Ok(found) = read(&known, &library()) {
            prop_assert!(found.members.len() <= MAX_VMS as usize);
            prop_assert!(found.run.warmup_ns < found.run.duration_ns);
            for workload in &found.workloads {
                prop_assert!((0.5..=1.0).contains(&workload.vector.smt) && !workload.steps.is_empty());
            }
            let _ = expanded(&found);
        }
    }

    #[test]
    fn a_load_is_what_users_make(vcpus in 1..64_u32, load in 1..=1000_u32, cpu_us in 1..5000_u64, users in 1..5000_u32) {
        let text = format!(
            "[[vm]]\nvcpus = {vcpus}\ncpu = \"{}.{}%\"\nworkload = \"plain\"\nwith = {{ threads = 100000, clients.users = {users}, step.work.cpu = \"{cpu_us}us\" }}\n",
            load / 10, load % 10
        );
        let found = simulation(&text);
        if let Ok(run) = expanded(&found) {
            let Clients::Closed { think: Some(think), .. } = run.workloads[0].clients else { panic!("closed") };
            // The bound of a closed loop: users over think time and operation, times CPU time, is the load.
            let cpu = cpu_us as f64 * 1e3;
            let busy = f64::from(users) * cpu / (think.mean_ns() as f64 + cpu + 1e6);
            let asked = f64::from(vcpus * load) / 1000.0;
            prop_assert!((busy / asked - 1.0).abs() < 1e-3, "{} {}", busy, asked);
        }
    }
}
