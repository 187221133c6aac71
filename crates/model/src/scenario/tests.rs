//! Tables of good and bad texts, and what holds for every scenario.

use proptest::prelude::*;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::*;
use crate::formats::Format;
use crate::tenant::{Affinity, Apart, Intensity, Scope};

fn batch(text: &str) -> Batch {
    read_batch(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn a_line_says_all_that_can_be_said_of_a_vm() {
    let plain = batch("8x64G*30");
    assert_eq!(
        (plain.count, &plain.vm),
        (Some(30), &Vm::new("", 8, 65_536))
    );
    let text = "db=4x1.5G@cpu=62.5%,bw=high,share=low,io=150%,dedicated,ht,shares=high,reservation=2.5,limit=4,\
                cpus=0-31+64-95,nodes=1+0,prefer-cpus=0-3,prefer_nodes=1,apart=db:node,near=web,device-node=1";
    let expected = Vm {
        load: 625,
        bandwidth: Intensity::High,
        sharing: Intensity::Low,
        system: 1500,
        dedicated: true,
        prefer_ht: true,
        shares: 2000,
        reservation: 2500,
        limit: Some(4000),
        hard: Affinity {
            cpus: Some("0-31,64-95".parse().unwrap()),
            nodes: vec![0, 1],
        },
        soft: Affinity {
            cpus: Some("0-3".parse().unwrap()),
            nodes: vec![1],
        },
        apart: Some(Apart {
            label: "db".to_owned(),
            scope: Scope::Node,
        }),
        near: Some("web".to_owned()),
        device_nodes: vec![1],
        ..Vm::new("db", 4, 1536)
    };
    assert_eq!((batch(text).count, batch(text).vm), (None, expected));
}

#[test]
fn a_bad_line_is_shown_where_it_is_bad() {
    for (text, piece, words) in [
        ("", "", "VCPUSxMEMORY"),
        ("8", "8", "VCPUSxMEMORY"),
        ("x64G", "", "no number of vCPUs"),
        ("-1x64G", "-1", "no number of vCPUs"),
        ("+8x64G", "+8", "no number of vCPUs"),
        ("9999999x64G", "9999999", "give 0 to 1000000"),
        ("8x64X", "64X", "64G or 512M"),
        ("8x1e3G", "1e3G", "64G or 512M"),
        ("8x0.0001M", "0.0001M", "64G or 512M"),
        ("8x9999999T", "9999999T", "4 PiB"),
        ("8x64G*0", "0", "no number of VMs"),
        ("8x64G*100001", "100001", "give 1 to 100000"),
        ("8x64G*99999999999999999999", "99999999999999999999", "VMs"),
        ("=8x64G", "", "no name"),
        ("8x64G@", "", "no key"),
        ("8x64G@cpus", "cpus", "needs a value"),
        ("8x64G@spu=5", "spu", "no key of a VM"),
        ("8x64G@cpu=60%,cpu=70%", "cpu", "twice"),
        ("8x64G@bw=low,bandwidth=high", "bandwidth", "twice"),
        ("8x64G@cpu=101%", "101%", "0% to 100%"),
        ("8x64G@cpu=1.23%", "1.23%", "steps of 0.1"),
        ("8x64G@bw=much", "much", "low, mid, high"),
        ("8x64G@dedicated=maybe", "maybe", "true, false"),
        ("8x64G@shares=0", "0", "low, normal or high"),
        ("8x64G@limit=0", "0", "never runs"),
        ("8x64G@limit=1e9", "1e9", "4 or 2.5"),
        ("8x64G@reservation=99999999", "99999999", "more than 65536"),
        ("8x64G@cpus=", "", "empty"),
        ("8x64G@cpus=3-1", "3-1", "backwards"),
        ("8x64G@nodes=0-99999999", "0-99999999", "nodes"),
        ("8x64G@apart=db:rack", "db:rack", "llc, node, package, host"),
        ("8x64G@near=", "", "no name"),
    ] {
        let error = read_batch(text).expect_err(text);
        assert!(error.message.contains(words), "{text}: {error}");
        assert_eq!(&text[error.span], piece, "{text}");
    }
    let (word, known) = read_batch("8x64G@spu=5").unwrap_err().unknown.unwrap();
    assert!(word == "spu" && known.contains(&"cpu"));
}

#[test]
fn names_are_given_over_the_whole_line() {
    let names = |texts: &[&str]| -> Result<String, NameError> {
        let batches: Vec<Batch> = texts.iter().map(|text| batch(text)).collect();
        let vms = name_all(&batches)?;
        let names: Vec<String> = vms.into_iter().map(|vm| vm.name).collect();
        Ok(names.join(" "))
    };
    for (texts, expected) in [
        (&["8x1G*2", "4x1G"][..], "vm1 vm2 vm3"),
        (&["db=8x1G*2", "4x1G", "web=1x1G"], "db1 db2 vm1 web"),
        (&["vm2=8x1G", "4x1G*3"], "vm2 vm1 vm3 vm4"),
        (&["a=1x1G*1"], "a1"),
    ] {
        assert_eq!(names(texts).as_deref(), Ok(expected));
    }
    let twice = NameError::Twice {
        name: "db1".to_owned(),
    };
    assert_eq!(names(&["db=8x1G*2", "db1=8x1G"]), Err(twice));
    assert_eq!(
        names(&["1x1G*60000", "1x1G*60000"]),
        Err(NameError::TooManyVms { found: 120_000 })
    );
    assert_eq!(
        names(&["1000x1G*1001"]),
        Err(NameError::TooManyVcpus { found: 1_001_000 })
    );
}

#[test]
fn a_file_says_the_same_in_long_words() {
    let text = r#"
        host = "epyc-7702-2s"
        policy = ["best", "llc"]
        reserve = "0-3"

        [[vm]]
        name = "db"
        count = 0x8
        vcpus = 4
        memory = "16G"
        cpu = 60
        bandwidth = "high"
        dedicated = true
        limit = 2.5
        nodes = [0, 1]
        cpus = ["0-3", 8]
        apart = "db:host"

        [[vm]]
        vcpus = 2
    "#;
    let scenario = read(text).unwrap();
    let short = "db=4x16G*8@cpu=60%,bw=high,dedicated,limit=2.5,nodes=0+1,cpus=0-3+8,apart=db:host";
    assert_eq!(scenario.batches, [batch(short), batch("2x0")]);
    assert_eq!(scenario.hosts, ["epyc-7702-2s"]);
    assert_eq!(scenario.policies, ["best", "llc"]);
    assert_eq!(scenario.reserve, Some("0-3".parse().unwrap()));
}

#[test]
fn a_simulation_is_a_scenario_too() {
    let text = r#"
        host = "epyc-7702-2s"
        [run]
        duration = "20s"
        [workload.mine]
        like = "oltp"
        [[sweep]]
        key = "vm.db.count"
        [[qos]]
        [tiles]
        count = 7
        [network]

        [[vm]]
        name = "db"
        vcpus = 4
        workload = "mine"
        system = "windows"
        rule = "flat"
        on = "2h"
        off = "10h"
        tile = true
        [vm.with]
        clients.users = 80
        "odd key" = ["a\tb", 1.5, { c = true }]
    "#;
    let scenario = read(text).unwrap();
    let expected = Work {
        workload: Some("mine".to_owned()),
        with: Some(
            r#"{ clients = { users = 80 }, "odd key" = ["a\u0009b", 1.5, { c = true }] }"#
                .to_owned(),
        ),
        system: System::Windows,
        rule: Some("flat".to_owned()),
        on_ns: 7_200_000_000_000,
        off_ns: Some(36_000_000_000_000),
        tile: true,
    };
    assert_eq!(scenario.batches[0].work, expected);
    assert_eq!(scenario.batches[0].vm, Vm::new("db", 4, 0));
    assert_eq!(read(&write(&scenario)), Ok(scenario));
    let line = batch("2x1G@workload=web,tile,system=windows");
    assert_eq!(
        (line.work.workload.as_deref(), line.work.tile),
        (Some("web"), true)
    );
    let names: Vec<_> = ["device-node", "bw", "vcpus", "with", "nope"]
        .map(vm_key)
        .into();
    assert_eq!(
        names,
        [
            Some("device_nodes"),
            Some("bandwidth"),
            Some("vcpus"),
            Some("with"),
            None
        ]
    );
}

#[test]
fn a_bad_file_is_shown_where_it_is_bad() {
    for (text, piece, words) in [
        ("[[vm]]\nvcpus = \"8", "", ""),
        ("hots = 1", "hots", "no key of a scenario"),
        ("host = {a = 1}", "{a = 1}", "text, number or flag"),
        ("reserve = \"x\"", "\"x\"", "no number"),
        ("vm = 5", "5", "[[vm]]"),
        ("vm = [5]", "5", "[[vm]]"),
        ("[[vm]]\nname = \"a\"", "[[vm]]", "needs vcpus"),
        ("[[vm]]\nvcpu = 8", "vcpu", "no key of a VM"),
        ("[[vm]]\nvcpus = -1", "-1", "no number of vCPUs"),
        ("[[vm]]\nvcpus = 8\ncpu = \"200%\"", "\"200%\"", "100%"),
        (
            "[[vm]]\nvcpus = 8\nbw = \"low\"\nbandwidth = \"low\"",
            "bandwidth",
            "leave one",
        ),
        (
            "[[vm]]\nvcpus = 8\nname = \"a\\nb\"",
            "\"a\\nb\"",
            "no name",
        ),
        ("[workloads]\na = 1", "workloads", "no key of a scenario"),
        (
            "[[vm]]\nvcpus = 8\nwith = \"x\"",
            "\"x\"",
            "a table is needed",
        ),
        (
            "[[vm]]\nvcpus = 8\nwith = { a = 2020-01-01 }",
            "2020-01-01",
            "not a datetime",
        ),
        (
            "[[vm]]\nvcpus = 8\nsystem = \"dos\"",
            "\"dos\"",
            "linux, windows",
        ),
        ("[[vm]]\nvcpus = 8\non = \"2\"", "\"2\"", "no duration"),
        ("[[vm]]\nvcpus = 8\noff = \"0s\"", "\"0s\"", "never runs"),
        ("[[vm]]\nvcpus = 8\ntile = 3", "3", "true, false"),
        ("[[vm]]\nvcpus = 8\nworkload = \"\"", "\"\"", "no name"),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.message.contains(words), "{text}: {error}");
        if !piece.is_empty() {
            assert_eq!(&text[error.span], piece, "{text}");
        }
    }
}

#[test]
fn what_vm_files_say_is_kept() {
    let xml = r"<domain type='kvm'><name>db</name><memory unit='GiB'>8</memory><vcpu>4</vcpu>
        <cputune><vcpupin vcpu='0' cpuset='0-1'/><vcpupin vcpu='1' cpuset='0-1'/><vcpupin vcpu='2' cpuset='8'/>
        <vcpupin vcpu='3' cpuset='9'/></cputune>
        <cpu><numa><cell id='0' cpus='0-1' memory='4' unit='GiB'/><cell id='1' cpus='2-3' memory='4' unit='GiB'/></numa></cpu>
        </domain>";
    let spec = Format::Libvirt.read(xml).unwrap();
    let (vm, findings) = from_spec(&spec, None);
    assert_eq!((vm.name.as_str(), vm.vcpus, vm.memory_mib), ("db", 4, 8192));
    assert_eq!(vm.hard.cpus, Some("0-1,8-9".parse().unwrap()));
    assert_eq!(vm.guest.map(|guest| guest.numa_nodes.len()), Some(2));
    assert!(findings.is_empty());

    let some = xml.replace("<vcpupin vcpu='3' cpuset='9'/>", "");
    let (vm, findings) = from_spec(&Format::Libvirt.read(&some).unwrap(), None);
    assert_eq!(
        (vm.hard.cpus, findings[0].code),
        (None, "pins-of-some-vcpus")
    );

    let vmx = "numvcpus = \"4\"\nmemSize = \"4096\"\nnuma.nodeAffinity = \"1,0\"\nnuma.vcpu.preferHT = \"TRUE\"\n\
               pciPassthru0.present = \"TRUE\"\npciPassthru0.id = \"00000:065:00.0\"\n";
    let mut host = crate::host::Synthetic::default().host("host");
    let spec = Format::Vmx.read(vmx).unwrap();
    host.devices = vec![crate::host::HostDevice {
        address: spec
            .devices
            .first()
            .map(|device| device.address.clone())
            .unwrap_or_default(),
        class: "GPU".to_owned(),
        os_names: vec![],
        node: Some(0),
    }];
    let (vm, _) = from_spec(&spec, Some(&host));
    assert_eq!(
        (vm.hard.nodes, vm.prefer_ht, vm.device_nodes),
        (vec![0, 1], true, vec![0])
    );
    host.devices.clear();
    let (_, findings) = from_spec(&spec, Some(&host));
    assert_eq!(findings[0].code, "device-not-on-host");
}

fn sets() -> impl Strategy<Value = CpuSet> {
    prop::collection::btree_set(0..300_u32, 1..6)
        .prop_map(|cpus| cpus.into_iter().map(crate::CpuId).collect())
}

fn node_lists() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::btree_set(0..16_u32, 0..4).prop_map(|nodes| nodes.into_iter().collect())
}

fn affinities() -> impl Strategy<Value = Affinity> {
    (prop::option::of(sets()), node_lists()).prop_map(|(cpus, nodes)| Affinity { cpus, nodes })
}

fn labels() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9]{1,6}",
        "[a-z\"'#=\\\\ü:@+]{1,8}",
        Just("true".to_owned())
    ]
}

fn intensities() -> impl Strategy<Value = Intensity> {
    prop_oneof![
        Just(Intensity::Low),
        Just(Intensity::Mid),
        Just(Intensity::High)
    ]
}

fn scopes() -> impl Strategy<Value = Scope> {
    prop_oneof![
        Just(Scope::Llc),
        Just(Scope::Node),
        Just(Scope::Package),
        Just(Scope::Host)
    ]
}

prop_compose! {
    fn works()(
        (workload, rule) in (prop::option::of(labels()), prop::option::of(labels())),
        (is_windows, tile, has_with) in (any::<bool>(), any::<bool>(), any::<bool>()),
        on_ns in 0..crate::duration::LONGEST_NS,
        off_ns in prop::option::of(1..crate::duration::LONGEST_NS),
        (key, value) in ("[a-zü .\"\\\\]{0,4}", "\\PC{0,6}"),
    ) -> Work {
        // As `read` gives it: one line, its strings quoted in one way.
        let value = DeValue::String(value.into());
        let table = DeTable::from_iter([(Spanned::new(0..0, key.into()), Spanned::new(0..0, value))]);
        let with = inline::table(&Spanned::new(0..0, DeValue::Table(table))).unwrap();
        let system = if is_windows { System::Windows } else { System::Linux };
        Work { workload, with: has_with.then_some(with), system, rule, on_ns, off_ns, tile }
    }
}

prop_compose! {
    fn batches()(
        count in prop::option::of(1..50_u32),
        name in prop_oneof![Just(String::new()), labels()],
        (vcpus, memory_mib, load, system) in (0..5000_u32, 0..1_u64 << 32, 0..=1000_u32, 0..9999_u32),
        (bandwidth, sharing, dedicated, prefer_ht) in (intensities(), intensities(), any::<bool>(), any::<bool>()),
        (shares, reservation, limit) in (1..=1_000_000_u32, 0..100_000_u32, prop::option::of(1..100_000_u32)),
        (hard, soft, device_nodes) in (affinities(), affinities(), node_lists()),
        (label, scope, is_apart) in (labels(), scopes(), any::<bool>()),
        near in prop::option::of(labels()),
        work in works(),
    ) -> Batch {
        let apart = is_apart.then_some(Apart { label, scope });
        let vm = Vm {
            name, vcpus, memory_mib, guest: None, load, bandwidth, sharing, system, dedicated, prefer_ht, shares,
            reservation, limit, hard, soft, apart, near, device_nodes,
        };
        Batch { count, vm, work }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        hosts in prop::collection::vec(labels(), 0..3),
        policies in prop::collection::vec(labels(), 0..3),
        reserve in prop::option::of(sets()),
        batches in prop::collection::vec(batches(), 0..4),
    ) {
        let scenario = Scenario { hosts, reserve, policies, batches };
        let text = write(&scenario);
        prop_assert_eq!(read(&text).map_err(|error| format!("{error}\n{text}")), Ok(scenario));
    }

    #[test]
    fn hostile_text_never_panics(text in "\\PC{0,60}", line in "[a-z0-9=x*@,.:%+ -]{0,40}") {
        let _ = (read(&text), read_batch(&text), read_batch(&line));
        let _ = read(&format!("[[vm]]\nvcpus = 1\n{line}"));
        let _ = read_batch(&format!("8x64G@{line}"));
        for key in ["cpu", "io", "cpus", "nodes", "shares", "limit", "apart", "near", "memory", "vcpus", "count"] {
            let _ = read(&format!("[[vm]]\n{key} = {line}\nvcpus = 1"));
            let _ = read_batch(&format!("8x64G@{key}={line}"));
        }
    }
}
