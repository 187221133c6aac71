use proptest::prelude::*;

use super::*;

const THREADS: &str = include_str!("../../tests/data/8-threads.report");
const DEVICES: &str = include_str!("../../tests/data/4-devices.report");

fn sets(texts: &[&str]) -> Vec<CpuSet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn spans(caches: &[&Cache]) -> Vec<CpuSet> {
    caches.iter().map(|cache| cache.cpus.clone()).collect()
}

/// Two packages of two cores with two threads each, a vNUMA node for each package: how a real kernel described it.
#[test]
fn a_recorded_report_is_read_in_full() {
    let seen = SeenGuest::from_text(THREADS).unwrap();
    assert_eq!(seen.source, Source::Guest);
    assert!(seen.kernel.as_ref().unwrap().starts_with("6.12."));
    assert_eq!(seen.cpu_model.as_deref(), Some("QEMU TCG CPU version 2.5+"));
    assert_eq!((seen.online.len(), seen.slots), (8, Some(8)));
    assert_eq!(seen.packages(), Some(sets(&["0-3", "4-7"])));
    assert_eq!(seen.dies(), Some(sets(&["0-3", "4-7"])));
    assert_eq!(seen.cores(), Some(sets(&["0-1", "2-3", "4-5", "6-7"])));
    assert_eq!(
        (seen.cores_per_socket(), seen.threads_per_core()),
        (Some(2), Some(2))
    );
    let llcs = seen.llcs().unwrap();
    assert_eq!(spans(&llcs), sets(&["0-3", "4-7"]));
    assert_eq!((llcs[0].level, llcs[0].size_bytes), (3, 16 << 20));
    assert_eq!(
        spans(&seen.caches_of(2, 'u').unwrap()),
        sets(&["0-1", "2-3", "4-5", "6-7"])
    );
    let nodes = seen.nodes.as_ref().unwrap();
    assert_eq!(nodes.len(), 2);
    assert_eq!(
        (nodes[1].id, nodes[1].cpus.to_string()),
        (1, "4-7".to_owned())
    );
    assert_eq!(
        (nodes[1].present_mib, nodes[1].distances.clone()),
        (Some(256), Some(vec![20, 10]))
    );
    let commands: Vec<&str> = seen
        .tools
        .iter()
        .map(|tool| tool.command.as_str())
        .collect();
    assert!(commands.contains(&"numactl --hardware"), "{commands:?}");
}

#[test]
fn devices_are_read_with_their_nodes() {
    let seen = SeenGuest::from_text(DEVICES).unwrap();
    let nodes: Vec<Option<u32>> = seen
        .devices
        .iter()
        .filter(|device| (device.vendor, device.device) == (0x1b36, 0x0005))
        .map(|device| device.node)
        .collect();
    assert_eq!(nodes, [Some(0), Some(1), Some(1)]);
    // The kernel writes -1 for the host bridge of the root bus.
    assert_eq!(seen.devices[0].node, None);
}

/// What the tools printed in a guest agrees with our reading of the same guest's sysfs.
#[test]
fn lscpu_in_all_its_forms_agrees_with_sysfs() {
    let seen = SeenGuest::from_text(THREADS).unwrap();
    for command in ["lscpu", "lscpu -J"] {
        let tool = seen
            .tools
            .iter()
            .find(|tool| tool.command == command)
            .unwrap();
        let summary = SeenGuest::from_text(&tool.text).unwrap();
        assert_eq!(summary.source, Source::Lscpu);
        assert_eq!(summary.online, seen.online);
        assert_eq!(summary.sockets(), Some(2));
        assert_eq!(summary.cores_per_socket(), Some(2));
        assert_eq!(summary.threads_per_core(), Some(2));
        assert_eq!(summary.packages(), None);
        let llc = summary
            .summary
            .caches
            .iter()
            .find(|cache| cache.level == 3)
            .unwrap();
        assert_eq!((llc.instances, llc.size_bytes), (Some(2), 16 << 20));
        let nodes: Vec<&CpuSet> = summary
            .nodes
            .iter()
            .flatten()
            .map(|node| &node.cpus)
            .collect();
        assert_eq!(nodes, sets(&["0-3", "4-7"]).iter().collect::<Vec<_>>());
    }
}

/// `lscpu -J -e` and `-J -B` of one guest in one file; util-linux before 2.38 writes numbers as texts.
#[test]
fn lscpu_tables_give_the_cpus_of_each_cache() {
    let modern = r#"
        {"cpus": [
            {"cpu":0, "node":0, "socket":0, "core":0, "l1d:l1i:l2:l3":"0:0:0:0", "online":true},
            {"cpu":1, "node":0, "socket":0, "core":0, "l1d:l1i:l2:l3":"0:0:0:0", "online":true},
            {"cpu":2, "node":1, "socket":1, "core":1, "l1d:l1i:l2:l3":"1:1:1:1", "online":true},
            {"cpu":3, "node":1, "socket":1, "core":1, "l1d:l1i:l2:l3":"-", "online":false}]}
        {"lscpu": [
            {"field":"CPU(s):", "data":"4", "children":[
                {"field":"On-line CPU(s) list:", "data":"0-2"},
                {"field":"Off-line CPU(s) list:", "data":"3"}]},
            {"field":"L3:", "data":"33554432 (2 instances)"}]}"#;
    let old = r#"{"cpus": [
        {"cpu":"0", "node":"0", "socket":"0", "core":"0", "L1d:L1i:L2:L3":"0:0:0:0", "online":"yes"},
        {"cpu":"1", "node":"0", "socket":"0", "core":"0", "L1d:L1i:L2:L3":"0:0:0:0", "online":"yes"},
        {"cpu":"2", "node":"1", "socket":"1", "core":"1", "L1d:L1i:L2:L3":"1:1:1:1", "online":"yes"},
        {"cpu":"3", "node":null, "socket":null, "core":null, "L1d:L1i:L2:L3":null, "online":"no"}]}"#;
    for (text, size_bytes, present) in [(modern, 16 << 20, Some("0-3")), (old, 0, None)] {
        let seen = SeenGuest::from_text(text).unwrap();
        assert_eq!(seen.online.to_string(), "0-2");
        assert_eq!(
            seen.present.as_ref().map(CpuSet::to_string).as_deref(),
            present
        );
        assert_eq!(seen.packages(), Some(sets(&["0-1", "2"])));
        assert_eq!(seen.cores(), Some(sets(&["0-1", "2"])));
        let llcs = seen.llcs().unwrap();
        assert_eq!(spans(&llcs), sets(&["0-1", "2"]));
        assert_eq!(llcs[0].size_bytes, size_bytes);
        assert_eq!(seen.nodes.as_ref().unwrap()[1].cpus.to_string(), "2");
    }
}

#[test]
fn coreinfo_is_read_with_cores_caches_and_nodes() {
    let text = "\r\nCoreinfo v3.53 - Dump information on system CPU and memory topology\r\n\
        HTT             *       Hyperthreading\r\n\r\n\
        Logical to Physical Processor Map:\r\n\
        **--  Physical Processor 0 (Hyperthreaded)\r\n\
        --**  Physical Processor 1 (Hyperthreaded)\r\n\r\n\
        Logical Processor to Socket Map:\r\n****  Socket 0\r\n\r\n\
        Logical Processor to NUMA Node Map:\r\n****  NUMA Node 0\r\n\r\nNo NUMA nodes.\r\n\r\n\
        Logical Processor to Cache Map:\r\n\
        **--  Data Cache          0, Level 1,   32 KB, Assoc   8, LineSize  64\r\n\
        **--  Instruction Cache   0, Level 1,   32 KB, Assoc   8, LineSize  64\r\n\
        **--  Unified Cache       0, Level 2,  512 KB, Assoc   8, LineSize  64\r\n\
        ****  Unified Cache       1, Level 3,   16 MB, Assoc  16, LineSize  64\r\n\
        --**  Data Cache          1, Level 1,   32 KB, Assoc   8, LineSize  64\r\n\
        --**  Instruction Cache   1, Level 1,   32 KB, Assoc   8, LineSize  64\r\n\
        --**  Unified Cache       2, Level 2,  512 KB, Assoc   8, LineSize  64\r\n\r\n\
        Logical Processor to Group Map:\r\n****  Group 0\r\n";
    let utf16: Vec<u8> = std::iter::once(0xfeff)
        .chain(text.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    for seen in [SeenGuest::from_text(text), SeenGuest::from_bytes(&utf16)] {
        let seen = seen.unwrap();
        assert_eq!(seen.source, Source::Coreinfo);
        assert_eq!(
            (
                seen.sockets(),
                seen.cores_per_socket(),
                seen.threads_per_core()
            ),
            (Some(1), Some(2), Some(2))
        );
        assert_eq!(seen.dies(), None);
        let llcs = seen.llcs().unwrap();
        assert_eq!(
            (spans(&llcs), llcs[0].size_bytes),
            (sets(&["0-3"]), 16 << 20)
        );
        assert_eq!(
            spans(&seen.caches_of(1, 'd').unwrap()),
            sets(&["0-1", "2-3"])
        );
        assert_eq!(seen.nodes.unwrap()[0].cpus.to_string(), "0-3");
    }
}

/// The form of Coreinfo on more than 64 CPUs: a title, then one line for each processor group.
#[test]
fn coreinfo_with_processor_groups_is_read() {
    let text = "Logical to Physical Processor Map:\n\
        Physical Processor 0 (Hyperthreaded):\n**\n--\n\
        Physical Processor 1 (Hyperthreaded):\n--\n**\n\n\
        Logical Processor to Socket Map:\nSocket 0:\n**\n**\n\n\
        Logical Processor to Group Map:\nGroup 0:\n**\n--\nGroup 1:\n--\n**\n";
    let seen = SeenGuest::from_text(text).unwrap();
    assert_eq!(seen.cores(), Some(sets(&["0-1", "2-3"])));
    assert_eq!(seen.packages(), Some(sets(&["0-3"])));
}

#[test]
fn the_map_looks_like_coreinfos() {
    let seen = SeenGuest::from_text(THREADS).unwrap();
    insta::assert_snapshot!(coreinfo_map(&seen), @r"
    Logical to Physical Processor Map:
    **------  Physical Processor 0 (Hyperthreaded)
    --**----  Physical Processor 1 (Hyperthreaded)
    ----**--  Physical Processor 2 (Hyperthreaded)
    ------**  Physical Processor 3 (Hyperthreaded)

    Logical Processor to Socket Map:
    ****----  Socket 0
    ----****  Socket 1

    Logical Processor to NUMA Node Map:
    ****----  NUMA Node 0
    ----****  NUMA Node 1

    Logical Processor to Cache Map:
    **------  Data Cache          0, Level 1,   32 KB
    **------  Instruction Cache   0, Level 1,   32 KB
    **------  Unified Cache       0, Level 2,    4 MB
    ****----  Unified Cache       1, Level 3,   16 MB
    --**----  Data Cache          1, Level 1,   32 KB
    --**----  Instruction Cache   1, Level 1,   32 KB
    --**----  Unified Cache       2, Level 2,    4 MB
    ----**--  Data Cache          2, Level 1,   32 KB
    ----**--  Instruction Cache   2, Level 1,   32 KB
    ----**--  Unified Cache       3, Level 2,    4 MB
    ----****  Unified Cache       4, Level 3,   16 MB
    ------**  Data Cache          3, Level 1,   32 KB
    ------**  Instruction Cache   3, Level 1,   32 KB
    ------**  Unified Cache       5, Level 2,    4 MB
    ");
}

/// The drawn map says the same as the report it was drawn from.
#[test]
fn the_map_reads_back() {
    for text in [
        THREADS,
        DEVICES,
        include_str!("../../tests/data/13-of-16.report"),
    ] {
        let seen = SeenGuest::from_text(text).unwrap();
        let again = SeenGuest::from_text(&coreinfo_map(&seen)).unwrap();
        assert_eq!(again.online, seen.online);
        assert_eq!(again.packages(), seen.packages());
        assert_eq!(again.cores(), seen.cores());
        assert_eq!(again.caches, seen.caches);
        let nodes = |seen: &SeenGuest| {
            let nodes = seen.nodes.iter().flatten();
            nodes.map(|node| node.cpus.clone()).collect::<Vec<_>>()
        };
        assert_eq!(nodes(&again), nodes(&seen));
    }
}

#[test]
fn a_report_that_was_cut_or_changed_is_refused() {
    let half = &THREADS[..THREADS.len() / 2];
    let error = SeenGuest::from_text(half).unwrap_err();
    assert!(
        matches!(error, ReportError::Truncated { received, total } if received < total),
        "{error}"
    );
    let changed = THREADS.replacen("0-3", "0-2", 1);
    assert_eq!(SeenGuest::from_text(&changed), Err(ReportError::Garbled));
    let without_end = THREADS.replace("VTOPO-REPORT-END", "kernel: a message");
    assert_eq!(
        SeenGuest::from_text(&without_end),
        Err(ReportError::Garbled)
    );
}

/// The report arrives in any pieces, with the terminal's line ends and whatever came before it.
#[test]
fn an_inbox_takes_pieces_of_any_size() {
    for size in [1, 7, 4096, usize::MAX] {
        let sent = format!("{}{}", dump::HELLO, THREADS.replace('\n', "\r\n"));
        let mut inbox = dump::Inbox::default();
        for piece in sent.as_bytes().chunks(size) {
            inbox.push(piece).unwrap();
        }
        assert!(inbox.greeted());
        assert_eq!(Some(inbox.received()), inbox.total());
        assert_eq!(inbox.frame(), THREADS);
        assert!(inbox.body().unwrap().is_some());
    }
}

#[test]
fn sizes_are_read_as_tools_write_them() {
    for (text, bytes) in [
        ("32K", Some(32 << 10)),
        ("16384K", Some(16 << 20)),
        ("1.5 MiB", Some(3 << 19)),
        ("16 MB", Some(16 << 20)),
        ("33554432", Some(32 << 20)),
        ("", None),
        ("4 furlongs", None),
        ("99999999999 GiB", None),
        ("1.99999999999999999999 GiB", None),
    ] {
        assert_eq!(read_size(text), bytes, "{text:?}");
    }
}

#[test]
fn what_is_no_report_is_refused_with_advice() {
    for (text, expected) in [
        ("", "lscpu -J"),
        ("hello", "lscpu -J"),
        ("{}", "lscpu -J"),
        ("{\"lscpu\": [", "starts like JSON"),
        (
            "{\"lscpu\": [{\"field\":\"Model:\",\"data\":\"1\"}]}",
            "no online CPU",
        ),
        ("CPU(s):  4\n", "no online CPU"),
        ("Logical Processor to Socket Map:\n", "no online CPU"),
        ("VTOPO-REPORT 1 zero 0\n", "length and checksum"),
        (
            "VTOPO-REPORT 1 18446744073709551615 0\n",
            "length and checksum",
        ),
    ] {
        let error = SeenGuest::from_text(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}

/// Numbers and lengths that would take memory or time if they were believed.
#[test]
fn hostile_texts_return_quickly() {
    let body = |body: &str| {
        let hash = body.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        format!(
            "VTOPO-REPORT 1 {} {hash:016x}\n{body}VTOPO-REPORT-END\n",
            body.len()
        )
    };
    let row = format!("{}  Socket 0\n", "*".repeat(1 << 20));
    for (text, cpus) in [
        (body("@5 cpu/online\n0-9999\n"), None),
        (body("@7 cpu/online\n0-65535\n"), None),
        (body("@99999999999999999999 x\n"), None),
        (body("@3 \u{e9}\n\u{e9}\u{e9}\n"), None),
        (
            body("@1 cpu/online\n0\n@10 node4294967295/cpulist\n0-8191,1-2\n"),
            Some(1),
        ),
        (
            format!("Logical Processor to Socket Map:\n{row}"),
            Some(8192),
        ),
        (
            format!(
                "Logical Processor to Socket Map:\nSocket 0:\n{}",
                "-*\n".repeat(1 << 18)
            ),
            Some(4096),
        ),
        (format!("{{\"cpus\":[{}]}}", "[".repeat(100_000)), None),
        (
            "{\"cpus\":[{\"cpu\":4294967295},{\"cpu\":1}]}".to_owned(),
            Some(1),
        ),
        (
            "CPU(s): 1\nOn-line CPU(s) list: 0\nNUMA node99999 CPU(s): 0\n".to_owned(),
            Some(1),
        ),
    ] {
        let seen = SeenGuest::from_text(&text);
        let found = seen.as_ref().ok().map(|seen| seen.online.len());
        assert_eq!(
            found,
            cpus,
            "{:?}",
            text.chars().take(60).collect::<String>()
        );
        let _ = seen.map(|seen| coreinfo_map(&seen));
    }
}

/// Texts close to what the readers know, so that they get past the first line.
fn nearly_reports() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[*-]{1,9}",
        "[0-9]{1,10}",
        "\\PC{0,6}",
        Just("Logical Processor to Cache Map:".to_owned()),
        Just("  Unified Cache 1, Level 3, 16 MB".to_owned()),
        Just("Socket 0:".to_owned()),
        Just("NUMA node0 CPU(s):".to_owned()),
        Just("CPU(s): 4\nOn-line CPU(s) list: 0-3".to_owned()),
        Just("L3: 32 MiB (0 instances)".to_owned()),
        Just("{\"lscpu\":[{\"field\":\"L3:\",\"data\":".to_owned()),
        Just("{\"cpus\":[{\"cpu\":0,\"l3\":\"0\"}]}".to_owned()),
        Just("VTOPO-REPORT 1 ".to_owned()),
        Just("@4 cpu/online".to_owned()),
        Just("\n".to_owned()),
    ];
    proptest::collection::vec(word, 0..30).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn reading_any_text_returns(text in nearly_reports()) {
        if let Ok(seen) = SeenGuest::from_text(&text) {
            prop_assert!(!seen.online.is_empty());
            let _ = (seen.cores_per_socket(), seen.threads_per_core(), coreinfo_map(&seen));
        }
    }

    #[test]
    fn reading_any_bytes_returns(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = SeenGuest::from_bytes(&bytes);
    }

    /// A changed byte anywhere in the body is noticed.
    #[test]
    fn a_flipped_bit_is_noticed(at in 50..THREADS.len() - 30, bit in 0..6) {
        let mut bytes = THREADS.as_bytes().to_vec();
        bytes[at] ^= 1_u8 << bit;
        prop_assert!(SeenGuest::from_bytes(&bytes).is_err());
    }
}
