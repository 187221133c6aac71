//! XML that somebody broke, by accident or on purpose: an error or a host, but never a crash of hwloc's C code, a panic
//! or a hang. A crash ends this test by signal, which fails it.

use live::discover::from_xml;

const MACHINE: &str = include_str!("../../cli/tests/data/two-packages.xml");

/// What the machine of the fixture has not: a distance matrix, two kinds of core, devices.
const MORE: &str = r#"
  <distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os">
    <indexes length="4">0 1 </indexes>
    <u64values length="12">10 21 21 10 </u64values>
  </distances2>
  <cpukind cpuset="0x000000ff"><info name="CoreType" value="IntelAtom"/></cpukind>
  <cpukind cpuset="0x0000ff00"><info name="CoreType" value="IntelCore"/></cpukind>
</topology>
"#;
const DEVICES: &str = r#"
      <object type="Bridge" gp_index="900" bridge_type="0-1" depth="0" bridge_pci="0000:[40-4f]">
        <object type="PCIDev" gp_index="901" pci_busid="0000:41:00.0" pci_type="0200 [15b3:1017] [15b3:0001] 00" pci_link_speed="15.75">
          <object type="OSDev" gp_index="902" name="eth0" osdev_type="2"/>
        </object>
      </object>
    </object>
  </object>
"#;

/// Values that numbers and sets are replaced by.
const VALUES: [&str; 16] = [
    "-1",
    "0",
    "3",
    "64",
    "4294967295",
    "4294967296",
    "99999999999999999999",
    "",
    "x",
    "0xf...f",
    "0xf...f,0x00000001",
    "0xffffffff,0xffffffff",
    "0x00000000",
    "0x",
    "1e9",
    "NaN",
];

fn machine() -> String {
    let text = MACHINE.replace("</topology>", MORE);
    let end = text
        .rfind("</object>\n  </object>")
        .expect("a package ends before the machine");
    let rest = text[end..].trim_start_matches("</object>\n  </object>");
    format!("{}{DEVICES}{rest}", text[..end].trim_end())
}

/// Numbers that look random and are the same in every run (Steele, Lea, Flood: `SplitMix64`, 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end.max(1) as u64).expect("it is below a usize")
    }
}

/// Where attribute values are.
fn values(text: &str) -> Vec<std::ops::Range<usize>> {
    let starts = text.match_indices("=\"").map(|(at, _)| at + 2);
    starts
        .map(|start| start..start + text[start..].find('"').expect("a value ends"))
        .collect()
}

#[test]
fn the_machine_itself_is_read() {
    let host = from_xml("machine", &machine()).unwrap();
    assert_eq!(
        (host.cpus.len(), host.llcs.len(), host.nodes.len()),
        (16, 4, 2)
    );
    assert_eq!(host.distances, [[10, 21], [21, 10]]);
    assert_eq!(host.devices[0].node, Some(1));
    assert!(host.cores[0].efficiency < host.cores[7].efficiency);
}

#[test]
fn replaced_values_never_crash() {
    let text = machine();
    let places = values(&text);
    let mut dice = Dice(1);
    for _ in 0..1500 {
        let mut changed = text.clone();
        let place = places[dice.below(places.len())].clone();
        let other = &text[places[dice.below(places.len())].clone()];
        let value = if dice.below(4) == 0 {
            other
        } else {
            VALUES[dice.below(VALUES.len())]
        };
        changed.replace_range(place, value);
        let _ = from_xml("changed", &changed);
    }
}

#[test]
fn every_attribute_with_every_value_never_crashes() {
    let text = machine();
    let mut seen = std::collections::BTreeSet::new();
    for place in values(&text) {
        let head = &text[text[..place.start].rfind('<').unwrap()..place.start];
        let element = head
            .split_whitespace()
            .take(2)
            .collect::<Vec<_>>()
            .join(" ");
        let attribute = head.rsplit(' ').next().unwrap();
        if !seen.insert(format!("{element} {attribute}")) {
            continue;
        }
        for value in VALUES {
            let mut changed = text.clone();
            changed.replace_range(place.clone(), value);
            let _ = from_xml("changed", &changed);
        }
    }
    assert!(seen.len() > 40, "{}", seen.len());
}

#[test]
fn dropped_and_doubled_lines_never_crash() {
    let text = machine();
    let lines: Vec<&str> = text.lines().collect();
    for dropped in 0..lines.len() {
        let mut rest = lines.clone();
        let line = rest.remove(dropped);
        let _ = from_xml("dropped", &rest.join("\n"));
        rest.insert(dropped, line);
        rest.insert(dropped, line);
        let _ = from_xml("doubled", &rest.join("\n"));
        rest.truncate(dropped);
        let _ = from_xml("truncated", &rest.join("\n"));
    }
}

#[test]
fn flipped_bits_never_crash() {
    let text = machine();
    let mut dice = Dice(2);
    for _ in 0..1000 {
        let mut bytes = text.clone().into_bytes();
        for _ in 0..=dice.below(4) {
            let at = dice.below(bytes.len());
            bytes[at] ^= 1 << dice.below(8);
        }
        let _ = from_xml("flipped", &String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn what_contradicts_itself_is_refused_with_the_object() {
    let text = machine();
    for (from, to, problem) in [
        (
            "os_index=\"3\" cpuset=\"0x00000008\"",
            "os_index=\"3\" cpuset=\"0x00000004\"",
            "Core 1",
        ),
        ("type=\"L3Cache\"", "type=\"L9Cache\"", "L9Cache"),
        (
            "local_memory=\"1073741824\"",
            "local_memory=\"-1\"",
            "local_memory",
        ),
        ("10 21 21 10", "10 21 21", "distance matrix"),
        (
            "type=\"Core\" os_index=\"0\"",
            "type=\"Core\" os_index=\"4294967296\"",
            "4294967296",
        ),
        (
            "allowed_cpuset=\"0x0000ffff\"",
            "allowed_cpuset=\"0x000f0000\"",
            "allowed_cpuset",
        ),
        ("type=\"Machine\"", "type=\"Package\"", "not a Machine"),
    ] {
        assert!(text.contains(from), "{from}");
        let message = from_xml("x", &text.replacen(from, to, 1))
            .unwrap_err()
            .to_string();
        assert!(
            message.contains(problem) && message.contains("lstopo"),
            "{message}"
        );
    }
}

#[test]
fn a_machine_beyond_any_is_refused_soon() {
    let pu = "<object type=\"PU\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\"/>\n";
    let root = "<object type=\"Machine\" cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\">";
    for count in [10_000, 100_000] {
        let text = format!(
            "<topology version=\"2.0\">{root}{}</object></topology>",
            pu.repeat(count)
        );
        assert!(from_xml("wide", &text).is_err());
    }
}
