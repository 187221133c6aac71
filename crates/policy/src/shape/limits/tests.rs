use model::{CpuSet, GuestNode, Severity};

use super::*;

fn shape(sockets: u32, cores: u32) -> GuestTopology {
    GuestTopology::uniform(sockets * cores, [sockets, 1, 1, cores, 1])
}

#[test]
fn usable_vcpus_are_those_of_the_first_sockets() {
    for (limit, sockets, cores, usable, source) in [
        ("sql-standard-2022", 8, 1, 4, "S0-04"),
        ("sql-standard-2022", 1, 8, 8, "S0-04"),
        (
            "sql-standard-2019",
            2,
            16,
            24,
            "lesser of 4 sockets or 24 cores",
        ),
        (
            "sql-standard-2025",
            2,
            16,
            32,
            "lesser of 4 sockets or 32 cores",
        ),
        (
            "sql-standard-2012",
            1,
            24,
            16,
            "lesser of 4 sockets or 16 cores",
        ),
        ("sql-web", 8, 2, 8, "lesser of 4 sockets or 16 cores"),
        ("sql-express", 4, 1, 1, "lesser of 1 socket or 4 cores"),
        ("sql-express", 1, 8, 4, "lesser of 1 socket or 4 cores"),
        ("oracle-se2", 1, 24, 16, "16 threads"),
        ("oracle-se2", 8, 1, 8, "the socket limit is the server's"),
        ("windows-7", 8, 1, 2, "2 sockets"),
        ("windows-11", 8, 1, 4, "4 sockets"),
        ("Windows-11", 1, 8, 8, "4 sockets"),
        ("windows-server", 128, 1, 64, "64 sockets"),
        ("linux", 128, 1, 128, "128 sockets"),
    ] {
        let limit = find(limit).unwrap();
        assert_eq!(
            usable_vcpus(limit, &shape(sockets, cores)),
            usable,
            "{} {sockets}x{cores} ({source})",
            limit.name
        );
    }
}

#[test]
fn findings_say_what_is_lost_and_what_would_use_all() {
    let text = |limit: &str, topology: &GuestTopology| {
        findings(&[find(limit).unwrap()], topology)
            .into_iter()
            .map(|finding| (finding.code, finding.severity, finding.text))
            .collect::<Vec<_>>()
    };
    assert!(text("sql-standard-2022", &shape(1, 8)).is_empty());
    let lost = text("sql-standard-2022", &shape(8, 1));
    assert_eq!(
        (lost.len(), lost[0].0, lost[0].1),
        (1, "licence-limit", Severity::Warning)
    );
    assert!(lost[0].2.contains("uses 4 of 8 vCPUs"), "{}", lost[0].2);
    assert!(
        lost[0]
            .2
            .contains("give it 2 or more cores per socket to use all"),
        "{}",
        lost[0].2
    );
    let capped = text("sql-standard-2022", &shape(2, 16));
    assert!(
        capped[0].2.contains("uses 24 of 32 vCPUs"),
        "{}",
        capped[0].2
    );
    assert!(capped[0].2.contains("give the VM 24"), "{}", capped[0].2);
    let both = text("sql-standard-2022", &shape(32, 1));
    assert!(
        both[0]
            .2
            .contains("give it 8 or more cores per socket, and then 24 are used"),
        "{}",
        both[0].2
    );
}

#[test]
fn memory_beyond_the_buffer_pool_is_said() {
    let mut topology = shape(1, 8);
    topology.numa_nodes = vec![GuestNode {
        vcpus: CpuSet::from_range(0..8),
        memory_mib: 192 << 10,
        host_nodes: vec![],
    }];
    let found = findings(&[find("sql-standard-2022").unwrap()], &topology);
    assert_eq!(
        found.iter().map(|finding| finding.code).collect::<Vec<_>>(),
        ["licence-memory"]
    );
    assert!(findings(&[find("sql-standard-2025").unwrap()], &topology).is_empty());
}

#[test]
fn names_and_aliases_are_unique_and_found_in_any_case() {
    let mut names: Vec<&str> = all().iter().map(|limit| limit.name).collect();
    names.extend(all().iter().flat_map(|limit| limit.aliases));
    let count = names.len();
    for name in &names {
        assert!(find(&name.to_uppercase()).is_some(), "{name}");
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert_eq!(find("sql-standard-2030"), None);
}

#[test]
fn a_guest_name_leads_to_its_limit() {
    for (guest, name) in [
        ("windows9-64", Some("windows-10")),
        ("windows11-64", Some("windows-11")),
        ("win11", Some("windows-11")),
        ("http://microsoft.com/win/11", Some("windows-11")),
        ("windows2019srv-64", Some("windows-server")),
        ("l26", Some("linux")),
        ("darwin21-64", Some("macos")),
        ("freebsd14-64", None),
    ] {
        assert_eq!(for_guest_os(guest).map(|limit| limit.name), name, "{guest}");
    }
}

#[test]
fn the_smallest_socket_limit_of_a_set() {
    let set = |names: &[&str]| {
        names
            .iter()
            .map(|name| find(name).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        max_sockets(&set(&["windows-server", "sql-standard-2022"])),
        Some(4)
    );
    assert_eq!(max_sockets(&set(&["oracle-se2"])), None);
    assert_eq!(max_sockets(&[]), None);
}
