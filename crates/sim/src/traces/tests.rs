use proptest::prelude::*;

use super::*;

const SEC: i64 = S.cast_signed();
const DAY: i64 = 86_400 * SEC;

fn ok(text: &str, kind: Kind) -> Trace {
    read(text, kind, &Options::default()).unwrap()
}

fn refused(text: &str, kind: Kind) -> String {
    read(text, kind, &Options::default())
        .unwrap_err()
        .to_string()
}

/// `name on..off milli-cpus/MiB`, times in seconds.
fn lines(trace: &Trace) -> Vec<String> {
    let time = |ns: i64| format!("{}", ns as f64 / S as f64);
    let line = |vm: &TraceVm| {
        let off = vm.off_ns.map(time).unwrap_or_default();
        format!(
            "{} {}..{off} {}/{}",
            vm.name,
            time(vm.on_ns),
            vm.milli_cpus,
            vm.memory_mib
        )
    };
    trace.vms.iter().map(line).collect()
}

fn codes(trace: &Trace) -> Vec<&'static str> {
    trace.findings.iter().map(|it| it.code).collect()
}

/// Busy and ready of a VM's samples: `at:busy/ready`.
fn samples(vm: &TraceVm) -> String {
    let sample = |it: &Sample| {
        let ready = it
            .ready_permille
            .map_or(String::new(), |ready| format!("/{ready}"));
        format!("{}:{}{ready}", it.at_ns / SEC, it.busy_permille)
    };
    vm.utilisation
        .iter()
        .map(sample)
        .collect::<Vec<_>>()
        .join(" ")
}

const HUAWEI: &str = "\
vmid,cpu,memory,time,type
0,1,2,0,0
1,4,8,10,0
7,2,4,10,1
0,1,2,15,1
1,4,8,15,1
1,2,4,20,0
";

#[test]
fn huawei_creates_and_deletes() {
    let trace = ok(HUAWEI, Kind::Huawei);
    let expected = [
        "0 0..15 1000/2048",
        "1 10..15 4000/8192",
        "1 20.. 2000/4096",
    ];
    assert_eq!(lines(&trace), expected);
    assert_eq!(codes(&trace), ["deleted-unknown"]);
    assert!(
        trace.findings[0].text.ends_with("(line 4)"),
        "{}",
        trace.findings[0].text
    );
    // Columns may come in any order, quoted, with the line ends of Windows.
    let text = "\u{feff}\"type\",time,vmid,memory,cpu\r\n0,5,3,1,\"2\"\r\n \r\n";
    assert_eq!(lines(&ok(text, Kind::Huawei)), ["3 5.. 2000/1024"]);
}

const AZURE_TYPES: &str = "\
id,vmTypeId,machineId,core,memory,hdd,ssd,nic
1,10,0,0.5,0.25,,0.1,0.1
2,10,1,0.25,0.125,,0.1,0.1
3,11,1,1.0e-02,0.01,0.1,0.1,0.1
4,12,2,1,1,0.1,0.1,0.1
";
const AZURE_VMS: &str = "\
vmId,tenantId,vmTypeId,priority,starttime,endtime
5,1,11,0,-2.5,0.5
6,1,10,1,0.25,
7,1,12,1,0.25,NULL
8,1,12,1,0.25,0.125
";

#[test]
fn azure_tables_in_any_order() {
    let expected = [
        "5 -216000..43200 640/2621",
        "6 21600.. 16000/32768",
        "7 21600.. 64000/262144",
    ];
    for text in [
        format!("{AZURE_TYPES}{AZURE_VMS}"),
        format!("{AZURE_VMS}{AZURE_TYPES}"),
    ] {
        let trace = ok(&text, Kind::AzurePacking);
        assert_eq!(lines(&trace), expected);
        let codes = codes(&trace);
        assert_eq!(
            codes,
            [
                "ends-before-start",
                "machine-assumed",
                "type-of-other-machine"
            ]
        );
        // Most types are defined on machine 1.
        assert!(trace.findings[1].text.contains("machineId 1"));
    }
}

#[test]
fn azure_sizes_are_of_the_machine_that_is_asked_for() {
    let text = format!("{AZURE_TYPES}{AZURE_VMS}");
    let mut options = Options {
        machine: Size {
            milli_cpus: 100_000,
            memory_mib: 1_000,
        },
        machine_id: Some("0".to_owned()),
        ..Options::default()
    };
    let trace = read(&text, Kind::AzurePacking, &options).unwrap();
    assert_eq!(trace.vms[1].milli_cpus, 50_000);
    assert_eq!(trace.vms[1].memory_mib, 250);
    options.machine_id = Some("9".to_owned());
    let error = read(&text, Kind::AzurePacking, &options).unwrap_err();
    assert!(error.message.contains("machineId '9'"), "{error}");
    // Of machines with as many types, the first by name.
    let text = "vmTypeId,machineId,core,memory\n1,8,0.5,0\n1,7,0.25,0\nvmId,vmTypeId,starttime,endtime\n1,1,0,\n";
    assert_eq!(ok(text, Kind::AzurePacking).vms[0].milli_cpus, 16_000);
    // Thirds of a machine fit three times, whatever their decimals.
    let third = "vmTypeId,core,memory\n1,0.333333333333,0.333333333333\n";
    let text = format!("{third}vmId,vmTypeId,starttime,endtime\n1,1,0,1\n");
    let vm = &ok(&text, Kind::AzurePacking).vms[0];
    assert!(3 * vm.milli_cpus <= 64_000 && 3 * vm.milli_cpus > 63_990);
}

#[test]
fn azure_as_dslab_exports_it() {
    let text = "vmId,vmTypeId,starttime,endtime\n3,a,1,2\nid,vmTypeId,core,memory\n1,a,0.5,0.5\n2,a,0.25,0.5\n";
    let trace = ok(text, Kind::AzurePacking);
    // A later row of a type stands for an earlier one, as there.
    assert_eq!(lines(&trace), ["3 86400..172800 16000/131072"]);
    assert_eq!(trace.vms[0].off_ns, Some(2 * DAY));
}

const SWF: &str = "\
; Version: 2.2
; MaxNodes: 128

  1 0 5 100 4 50 4096 8 -1 2048 1 1 1 -1 1 -1 -1 -1
  2 10 0 60 -1 -1 512 2 -1 -1 1 1 1 -1 1 -1 -1 -1
  3 20 0 -1 4 -1 -1 -1 -1 -1 5 1 1 -1 1 -1 -1 -1
  4 30 0 60 -1 -1 -1 -1 -1 -1 5 1 1 -1 1 -1 -1 -1
  5 7 0 0 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1 -1 -1
";

#[test]
fn swf_jobs_become_vms() {
    let trace = ok(SWF, Kind::Swf);
    assert_eq!(
        lines(&trace),
        ["1 0..100 4000/8", "5 7..7 1000/0", "2 10..70 2000/1"]
    );
    assert_eq!(samples(&trace.vms[0]), "0:500");
    let expected = [
        "job-without-processors",
        "job-without-run",
        "memory-unknown",
    ];
    assert_eq!(codes(&trace), expected);
}

fn dump(name: &str, fields: &str) -> String {
    let fields: Vec<_> = fields
        .split(' ')
        .map(|field| format!("  {field}\n"))
        .collect();
    format!("Domain: '{name}'\n{}\n", fields.concat())
}

fn domstats() -> String {
    let db = |time: u64, delay: u64| {
        let fields = format!(
            "state.state=1 balloon.current=2097152 vcpu.current=2 vcpu.0.state=1 vcpu.0.time={time} vcpu.0.wait=1 \
             vcpu.0.halted=no vcpu.0.delay={delay} vcpu.0.exits.sum=5 vcpu.1.time={time} vcpu.1.delay=0 net.count=0"
        );
        dump("db server", &fields)
    };
    let web = dump(
        "web",
        "state.state=1 balloon.maximum=1048576 vcpu.current=1 vcpu.0.time=0",
    );
    let off = dump("web", "state.state=5 vcpu.current=1");
    let at = |s: u64| format!("# at {s}\n");
    let sec = S;
    [
        at(1_700_000_000),
        db(100 * sec, 0),
        at(1_700_000_010),
        // 5 of 10 seconds on each of two vCPUs; one of them was ready for 4.
        db(105 * sec, 4 * sec),
        web.clone(),
        at(1_700_000_020),
        // Started again: its times are smaller.
        db(sec, 0),
        off,
        at(1_700_000_040),
        db(21 * sec, 2 * sec),
        web,
        at(1_700_000_050),
        dump(
            "web",
            "state.state=1 vcpu.current=1 balloon.current=1048576 vcpu.0.time=2500000000",
        ),
    ]
    .concat()
}

#[test]
fn domstats_dumps_give_times_and_utilisation() {
    let trace = ok(&domstats(), Kind::Domstats);
    let expected = [
        "db server 0..50 2000/2048",
        "web 10..20 1000/1024",
        "web 40.. 1000/1024",
    ];
    assert_eq!(lines(&trace), expected);
    assert_eq!(samples(&trace.vms[0]), "0:500/200 20:1000/50");
    assert_eq!(samples(&trace.vms[1]), "");
    assert_eq!(samples(&trace.vms[2]), "40:250");
    assert_eq!(codes(&trace), ["restarted"]);
}

#[test]
fn domstats_without_times_need_an_interval() {
    let off = dump("old", "state.state=5");
    let one = dump("a", "vcpu.current=1 vcpu.0.time=0 vcpu.0.wait=0");
    let two = dump(
        "a",
        "vcpu.current=1 vcpu.0.time=3000000000 vcpu.0.wait=6000000000",
    );
    let trace = ok(&one, Kind::Domstats);
    assert_eq!(lines(&trace), ["a 0.. 1000/0"]);
    assert_eq!(codes(&trace), ["memory-unknown", "one-dump"]);
    // The second dump begins with a VM that is off.
    let text = format!("{off}{one}{off}{two}");
    let error = refused(&text, Kind::Domstats);
    assert!(
        error.starts_with("line 9: ") && error.contains("# at SECONDS"),
        "{error}"
    );
    let options = Options {
        interval_ns: Some(60 * S),
        ..Options::default()
    };
    let trace = read(&text, Kind::Domstats, &options).unwrap();
    assert_eq!(samples(&trace.vms[0]), "0:50/100");
    // The same in two files.
    let mut reading = Reading::new(Kind::Domstats, &options);
    for text in [&one, &two] {
        reading.file("dump").unwrap();
        text.lines().for_each(|line| reading.line(line).unwrap());
    }
    assert_eq!(samples(&reading.end().unwrap().vms[0]), "0:50/100");
}

#[test]
fn planetlab_in_one_file_and_in_many() {
    let trace = ok("0\n10\n100\n", Kind::PlanetLab);
    assert_eq!(lines(&trace), ["vm1 0..900 1000/1024"]);
    assert_eq!(samples(&trace.vms[0]), "0:0 300:100 600:1000");
    assert_eq!(codes(&trace), ["size-assumed"]);
    let text = "==> 20110303/a_b <==\n5\n6\n\n==> 20110303/c <==\n7\n";
    assert_eq!(
        lines(&ok(text, Kind::PlanetLab)),
        ["a_b 0..600 1000/1024", "c 0..300 1000/1024"]
    );
    let options = Options {
        interval_ns: Some(S),
        vm: Size {
            milli_cpus: 2_000,
            memory_mib: 613,
        },
        ..Options::default()
    };
    let mut reading = Reading::new(Kind::PlanetLab, &options);
    for (name, text) in [("x/one", "1\n2"), ("x/none", ""), ("x/two", "3")] {
        reading.file(name).unwrap();
        text.lines().for_each(|line| reading.line(line).unwrap());
    }
    let trace = reading.end().unwrap();
    assert_eq!(lines(&trace), ["one 0..2 2000/613", "two 0..1 2000/613"]);
}

/// Format, text, and how the error begins.
const WRONG: &[(Kind, &str, &str)] = &[
    (Kind::Huawei, "", "line 1: there is no header vmid,"),
    (Kind::Huawei, "vmid,cpu,memory,time,type\n", "line 1: no VM"),
    (
        Kind::Huawei,
        "vmid,cpu,memory,time\n",
        "line 1: there is no column 'type'",
    ),
    (
        Kind::Huawei,
        "vmid,cpu,memory,time,type,price\n",
        "line 1: unknown column 'price'",
    ),
    (
        Kind::Huawei,
        "vmid,cpu,memory,time,type,cpu\n",
        "line 1: the column 'cpu' is there twice",
    ),
    (
        Kind::Huawei,
        "vmid,cpu,memory,time,type\n1,1,1,1\n",
        "line 2: the row has 4 fields",
    ),
    (
        Kind::Huawei,
        "vmid,cpu,memory,time,type\n1,1,1,1,2\n",
        "line 2: type is '2'",
    ),
    (
        Kind::Huawei,
        "vmid,cpu,memory,time,type\n-1,1,1,1,0\n",
        "line 2: vmid is '-1'",
    ),
    (
        Kind::Huawei,
        "vmid,cpu,memory,time,type\n1,0,1,1,0\n",
        "line 2: cpu is 0",
    ),
    (
        Kind::Huawei,
        "vmid,cpu,memory,time,type\n1,1,1e12,1,0\n",
        "line 2: memory comes to",
    ),
    (
        Kind::Huawei,
        "vmid,cpu,memory,time,type\n1,1,1,inf,0\n",
        "line 2: time is 'inf'",
    ),
    (
        Kind::Huawei,
        "vmid,cpu,memory,time,type\n1,1,1,1e10,0\n",
        "line 2: time is '1e10', more than",
    ),
    (
        Kind::Huawei,
        "vmid,cpu,memory,time,type\n1,1,1,9,0\n1,1,1,9,0\n",
        "line 3: VM 1 is created again",
    ),
    (
        Kind::Huawei,
        "vmid,cpu,memory,time,type\n1,1,1,9,0\n1,1,1,8,1\n",
        "line 3: VM 1 is deleted at 8000000000 ns",
    ),
    (
        Kind::AzurePacking,
        "1,2,3\n",
        "line 1: '1,2,3' is no header",
    ),
    (
        Kind::AzurePacking,
        "vmId,vmTypeId,starttime\n",
        "line 1: there is no column 'endtime'",
    ),
    (
        Kind::AzurePacking,
        "vmTypeId,core,memory\n1,2,0\n",
        "line 2: core is 2; it is a fraction",
    ),
    (
        Kind::AzurePacking,
        "vmTypeId,core,memory\n1,1,0\n",
        "line 2: there is no VM",
    ),
    (
        Kind::AzurePacking,
        "vmId,vmTypeId,starttime,endtime\n1,9,0,\n",
        "line 2: no row of vmType has vmTypeId '9', which line 2 uses",
    ),
    (
        Kind::AzurePacking,
        "vmId,vmTypeId,starttime,endtime\n1,9,x,\n",
        "line 2: starttime is 'x'",
    ),
    (
        Kind::Swf,
        "1 2 3\n",
        "line 1: a job has 18 columns, this line has 3",
    ),
    (
        Kind::Swf,
        "1 x 5 100 4 50 -1 -1 -1 2048 1 1 1 -1 1 -1 -1 -1",
        "line 1: column 2 is 'x'",
    ),
    (
        Kind::Domstats,
        "Domain: 'a'\n  state.state\n",
        "line 2: 'state.state' is neither",
    ),
    (
        Kind::Domstats,
        "state.state=1\n",
        "line 1: 'state.state=1' stands before any",
    ),
    (
        Kind::Domstats,
        "Domain: 'a'\n  vcpu.0.time=-1\n",
        "line 2: vcpu.0.time is '-1'",
    ),
    (
        Kind::Domstats,
        "Domain: 'a'\n  state.state=1\n",
        "line 2: 'a' has no vcpu.current",
    ),
    (
        Kind::Domstats,
        "# at 5\nDomain: 'a'\nvcpu.current=1\n# at 5\nDomain: 'a'\n",
        "line 4: this dump is not later",
    ),
    (
        Kind::Domstats,
        "# at 5\nDomain: 'a'\nvcpu.current=1\nDomain: 'a'\n",
        "line 4: 'a' is there twice",
    ),
    (
        Kind::Domstats,
        "Domain: 'a'\nvcpu.current=1\n# at 5\n",
        "line 3: '# at' is missing before the first",
    ),
    (
        Kind::PlanetLab,
        "5\n101\n",
        "line 2: '101' is no whole percentage",
    ),
    (
        Kind::PlanetLab,
        "5\n\u{1b}[2J\n",
        "line 2: '\\u{1b}[2J' is no whole percentage",
    ),
];

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (kind, text, expected) in WRONG {
        let error = refused(text, *kind);
        assert!(
            error.starts_with(expected),
            "{kind:?} {text:?}\n  {error}\n  {expected}"
        );
    }
    let long = format!("5\n{}", "1".repeat(MAX_LINE_BYTES + 1));
    assert!(refused(&long, Kind::PlanetLab).starts_with("line 2: the line has 65537 bytes"));
}

#[test]
fn formats_are_recognised_by_their_content() {
    let cases = [
        (HUAWEI, Some(Kind::Huawei)),
        ("type,vmid,time,memory,cpu\n", Some(Kind::Huawei)),
        (AZURE_TYPES, Some(Kind::AzurePacking)),
        (AZURE_VMS, Some(Kind::AzurePacking)),
        (SWF, Some(Kind::Swf)),
        ("; only\n; comments\n", Some(Kind::Swf)),
        ("# at 5\n\nDomain: 'x'\n", Some(Kind::Domstats)),
        ("==> a <==\n5\n", Some(Kind::PlanetLab)),
        ("\n  7\n8\n", Some(Kind::PlanetLab)),
        ("", None),
        ("vmTypeId\n", None),
        ("1,2\n", None),
        ("<domain type='kvm'>", None),
        ("[vm]\n", None),
    ];
    for (text, expected) in cases {
        assert_eq!(recognise(text), expected, "{text:?}");
    }
    assert_eq!(recognise(&domstats()), Some(Kind::Domstats));
    for kind in Kind::ALL {
        assert_eq!(Kind::from_name(kind.name()), Some(kind));
    }
}

#[test]
fn synthetic_traces_are_what_was_asked_for() {
    let month = synthetic::Parameters {
        span_s: 30 * 86_400,
        ..synthetic::Parameters::default()
    };
    let trace = synthetic::trace(&month);
    assert_eq!(trace, synthetic::trace(&month));
    // 4,200 a day with Poisson's deviation: 355 in a month.
    let count = trace.vms.len() as f64;
    assert!((count - 126_000.0).abs() < 4.0 * 355.0, "{count}");
    let ones = trace.vms.iter().filter(|vm| vm.milli_cpus == 1_000).count() as f64;
    assert!((ones / count - 0.68).abs() < 0.01, "{}", ones / count);
    // Noon's six hours against midnight's, with a swing of 0.4: means 1.3 and 0.7 of the rate.
    let hours = |from: i64| {
        let within = |vm: &&TraceVm| (from..from + 6).contains(&(vm.on_ns / SEC / 3_600 % 24));
        trace.vms.iter().filter(within).count() as f64
    };
    let night = hours(0) / 2.0 + hours(18) / 2.0;
    let day = hours(6) / 2.0 + hours(12) / 2.0;
    assert!((day / night - 1.2 / 0.8).abs() < 0.03, "{}", day / night);
    // Every fifth for ten days: 840 a day * 10 days * (1 - e^-3), and a few short ones.
    let alive = trace.vms.iter().filter(|vm| vm.off_ns.is_none()).count() as f64;
    assert!((alive - 8_050.0).abs() < 400.0, "{alive}");
    let other = synthetic::Parameters { seed: 2, ..month };
    assert_ne!(trace, synthetic::trace(&other));
}

#[test]
fn a_synthetic_trace_is_read_back() {
    let trace = synthetic::trace(&synthetic::Parameters::default());
    let text = synthetic::to_huawei_csv(&trace);
    assert_eq!(recognise(&text), Some(Kind::Huawei));
    assert_eq!(ok(&text, Kind::Huawei), trace);
    let none = synthetic::Parameters {
        vms_per_day: 0,
        ..synthetic::Parameters::default()
    };
    assert_eq!(synthetic::trace(&none).vms, []);
    let no_sizes = synthetic::Parameters {
        sizes: Vec::new(),
        ..synthetic::Parameters::default()
    };
    assert_eq!(synthetic::trace(&no_sizes).vms, []);
}

/// Pieces of which some text may look like a trace.
const PIECES: [&str; 34] = [
    "\n",
    "\n",
    "\n",
    ",",
    " ",
    "\"",
    "'",
    ";",
    "=",
    "-",
    "1",
    "0",
    "99999999999999999999",
    "1e308",
    "-1e308",
    "nan",
    "Domain: 'a'\n",
    "Domain: 'b'\n",
    "# at 5\n",
    "# at 9\n",
    "vcpu.current=1\n",
    "vcpu.0.time=18446744073709551615\n",
    "vcpu.0.time=1\n",
    "state.state=5\n",
    "==> a <==\n",
    "vmid,cpu,memory,time,type\n",
    "1,1,1,1,0\n",
    "1,1,1,1,1\n",
    "vmId,vmTypeId,starttime,endtime\n",
    "vmTypeId,core,memory\n",
    "1,1,1,\n",
    "1,1,1\n",
    "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n",
    "1 1e9 1 3e9 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n",
];

proptest! {
    #[test]
    fn hostile_text_never_panics(
        noise in ".{0,200}",
        pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..40),
        interval in proptest::option::of(any::<u64>()),
    ) {
        let options = Options { interval_ns: interval, ..Options::default() };
        for text in [noise, pieces.concat()] {
            let _ = recognise(&text);
            for kind in Kind::ALL {
                let Ok(trace) = read(&text, kind, &options) else { continue };
                prop_assert!(!trace.vms.is_empty());
                for vm in &trace.vms {
                    prop_assert!(vm.off_ns.is_none_or(|off| off >= vm.on_ns));
                    prop_assert!(vm.on_ns.abs() <= LONGEST_TRACE_NS && vm.milli_cpus > 0);
                    prop_assert!(vm.utilisation.iter().all(|it| it.busy_permille <= 1_000));
                    prop_assert!(vm.utilisation.is_sorted_by_key(|it| it.at_ns));
                }
            }
        }
    }
}
