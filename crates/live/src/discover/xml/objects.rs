//! The rules that the objects of a topology keep, as `hwloc_topology_check` of hwloc asserts them.

use model::{CpuId, CpuSet};
use roxmltree::Node;

use super::Edition;

/// Most children of an object. Linux on x86 has at most 8192 CPUs (`NR_CPUS` with `MAXSMP`); hwloc takes quadratic
/// time in this number.
const MAX_CHILDREN: usize = 8192;

/// Most objects of a machine: a CPU, a core and six caches for each CPU of the largest machine.
const MAX_OBJECTS: usize = 8 * 8192;

/// What an object may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Machine,
    /// Packages, dies, groups, caches, cores; NUMA nodes in version 1.
    Normal,
    Pu,
    NumaNode,
    MemoryCache,
    /// Bridges, PCI and operating system devices.
    Io,
    Misc,
}

struct Object {
    /// Type and number, for messages.
    name: String,
    kind: Kind,
    os_index: Option<u32>,
    cpus: CpuSet,
    complete_cpus: CpuSet,
    nodes: CpuSet,
    complete_nodes: CpuSet,
    children: Vec<Object>,
}

/// Checks the tree below the machine.
///
/// # Errors
/// What contradicts what.
pub(super) fn check(root: Node<'_, '_>, edition: Edition) -> Result<(), String> {
    if root
        .descendants()
        .filter(|node| node.has_tag_name("object"))
        .nth(MAX_OBJECTS)
        .is_some()
    {
        return Err(format!("it has more than {MAX_OBJECTS} objects"));
    }
    let machine = read(root, edition)?;
    if machine.kind != Kind::Machine {
        return Err(format!(
            "its first object is a {}, not a Machine",
            machine.name
        ));
    }
    check_allowed(root, "allowed_cpuset", &machine.cpus)?;
    if edition == Edition::V2 {
        check_allowed(root, "allowed_nodeset", &machine.nodes)?;
        check_nodes(&machine, &CpuSet::new())?;
    }
    check_object(&machine)
}

/// A list of CPUs or nodes as hwloc writes it: words of 32 bits in hexadecimal, highest first.
///
/// # Errors
/// The text is not such a list, or is infinite, or names a number that is not below [`MAX_CPUS`](model::cpuset::MAX_CPUS).
pub(super) fn set(text: &str) -> Result<CpuSet, String> {
    let wrong = || {
        format!(
            "{:?} is no set of CPUs or nodes",
            text.chars().take(60).collect::<String>()
        )
    };
    let mut words = Vec::new();
    for (place, digits) in text.rsplit(',').enumerate() {
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let bits = match digits {
            "" => 0,
            digits => u64::from_str_radix(digits, 16).map_err(|_| wrong())?,
        };
        match words.last_mut() {
            Some(word) if place % 2 == 1 => *word |= bits << 32,
            _ => words.push(bits),
        }
    }
    CpuSet::from_words(words).ok_or_else(wrong)
}

fn read(node: Node<'_, '_>, edition: Edition) -> Result<Object, String> {
    let type_name = node.attribute("type").unwrap_or_default();
    let kind = kind(type_name, edition)?;
    let os_index = node.attribute("os_index").map(|index| {
        index
            .parse::<u32>()
            .map_err(|_| format!("{type_name} has the number {index:?}"))
    });
    let os_index = os_index.transpose()?;
    let name = os_index.map_or_else(
        || type_name.to_owned(),
        |index| format!("{type_name} {index}"),
    );
    let placed = !matches!(kind, Kind::Io | Kind::Misc);
    let set_of = |key: &str, stand_in: Option<&CpuSet>| match (node.attribute(key), stand_in) {
        (Some(text), _) if placed => {
            set(text).map_err(|problem| format!("{key} of {name}: {problem}"))
        }
        (Some(_), _) => Err(format!("{name} has a {key}")),
        (None, Some(stand_in)) => Ok(stand_in.clone()),
        (None, None) if placed => Err(format!("{name} has no {key}")),
        (None, None) => Ok(CpuSet::new()),
    };
    let cpus = set_of("cpuset", None)?;
    // Version 1 may leave the others out, and its node sets may be infinite where there is no NUMA.
    let (nodes, complete_nodes, complete_cpus) = if edition == Edition::V2 {
        (
            set_of("nodeset", None)?,
            set_of("complete_nodeset", None)?,
            set_of("complete_cpuset", None)?,
        )
    } else {
        (
            CpuSet::new(),
            CpuSet::new(),
            set_of("complete_cpuset", Some(&cpus))?,
        )
    };
    let children = node.children().filter(|child| child.has_tag_name("object"));
    let children = children
        .map(|child| read(child, edition))
        .collect::<Result<Vec<_>, _>>()?;
    if children.len() > MAX_CHILDREN {
        return Err(format!("{name} has more than {MAX_CHILDREN} children"));
    }
    Ok(Object {
        name,
        kind,
        os_index,
        cpus,
        complete_cpus,
        nodes,
        complete_nodes,
        children,
    })
}

fn kind(type_name: &str, edition: Edition) -> Result<Kind, String> {
    Ok(match type_name {
        "Machine" => Kind::Machine,
        "Package" | "Socket" | "Die" | "Group" | "Core" | "Cache" | "L1Cache" | "L2Cache"
        | "L3Cache" | "L4Cache" | "L5Cache" | "L1iCache" | "L2iCache" | "L3iCache" => Kind::Normal,
        "NUMANode" if edition == Edition::V1 => Kind::Normal,
        "NUMANode" => Kind::NumaNode,
        "MemCache" => Kind::MemoryCache,
        "PU" => Kind::Pu,
        "Bridge" | "PCIDev" | "OSDev" => Kind::Io,
        "Misc" => Kind::Misc,
        other => return Err(format!("it has an object of unknown type {other:?}")),
    })
}

impl Kind {
    fn is_normal(self) -> bool {
        matches!(self, Self::Machine | Self::Normal | Self::Pu)
    }

    fn is_memory(self) -> bool {
        matches!(self, Self::NumaNode | Self::MemoryCache)
    }

    fn may_hold(self, child: Self) -> bool {
        match self {
            Self::Machine | Self::Normal => child != Self::Machine,
            Self::MemoryCache => child.is_memory() || child == Self::Misc,
            Self::Io => matches!(child, Self::Io | Self::Misc),
            Self::Pu | Self::NumaNode | Self::Misc => child == Self::Misc,
        }
    }
}

impl Object {
    fn normal_children(&self) -> impl Iterator<Item = &Self> {
        self.children.iter().filter(|child| child.kind.is_normal())
    }

    fn memory_children(&self) -> impl Iterator<Item = &Self> {
        self.children.iter().filter(|child| child.kind.is_memory())
    }
}

/// What may be used must be there, and be something.
fn check_allowed(root: Node<'_, '_>, key: &str, present: &CpuSet) -> Result<(), String> {
    let Some(text) = root.attribute(key) else {
        return Ok(());
    };
    let allowed = set(text)?;
    if allowed.is_empty() || !allowed.is_subset(present) {
        return Err(format!(
            "{key} {allowed} of the machine is not a part of {present}"
        ));
    }
    Ok(())
}

fn check_object(object: &Object) -> Result<(), String> {
    let name = &object.name;
    if !object.cpus.is_subset(&object.complete_cpus)
        || !object.nodes.is_subset(&object.complete_nodes)
    {
        return Err(format!("{name} has CPUs or nodes outside its complete set"));
    }
    if let Some(child) = object
        .children
        .iter()
        .find(|child| !object.kind.may_hold(child.kind))
    {
        return Err(format!("{name} holds {}", child.name));
    }
    if object.kind == Kind::Pu {
        let own = object
            .os_index
            .map(|index| [CpuId(index)].into_iter().collect::<CpuSet>());
        if own.is_none_or(|own| own.is_empty() || object.cpus != own || object.complete_cpus != own)
        {
            return Err(format!("{name} has the CPUs {}", object.cpus));
        }
    } else if object.kind.is_normal() {
        check_spans(object)?;
    }
    object.children.iter().try_for_each(check_object)
}

/// CPUs of an object are those of its children, each in one, in ascending order; memory is local to all of them.
fn check_spans(object: &Object) -> Result<(), String> {
    let name = &object.name;
    let mut covered = 0;
    let mut last: Option<CpuId> = None;
    let mut ended = false;
    let mut union = CpuSet::new();
    for child in object.normal_children() {
        let first = child.complete_cpus.first();
        let in_order = if first.is_some() {
            !ended && first > last
        } else {
            true
        };
        ended |= first.is_none();
        if !in_order {
            return Err(format!(
                "{} is not in order of CPUs within {name}",
                child.name
            ));
        }
        last = first;
        covered += child.cpus.len();
        union.extend(child.cpus.iter());
    }
    if union.len() != covered || union != object.cpus {
        return Err(format!(
            "{name} has the CPUs {}, the objects in it have {union}, or share some",
            object.cpus
        ));
    }
    match object
        .memory_children()
        .find(|child| child.cpus != object.cpus)
    {
        Some(child) => Err(format!(
            "{} is local to {}, not to the {} of {name}",
            child.name, child.cpus, object.cpus
        )),
        None => Ok(()),
    }
}

/// The nodes that an object adds to those of its parent. The nodes of an object are its parent's, its own memory's and
/// its children's, each once.
fn check_nodes(object: &Object, above: &CpuSet) -> Result<CpuSet, String> {
    let name = &object.name;
    let twice = |nodes: &CpuSet| format!("nodes {nodes} are in {name} twice");
    let mut own = CpuSet::new();
    let mut last: Option<CpuId> = None;
    for child in object.memory_children() {
        check_memory(child)?;
        if child.nodes.intersects(&own)
            || child.nodes.intersects(above)
            || child.complete_nodes.first() <= last
        {
            return Err(twice(&child.nodes));
        }
        last = child.complete_nodes.first();
        own = own.union(&child.nodes);
    }
    let here = above.union(&own);
    for child in object.normal_children() {
        let added = check_nodes(child, &here)?;
        if added.intersects(&own) {
            return Err(twice(&added));
        }
        own = own.union(&added);
    }
    let all = above.union(&own);
    if all != object.nodes {
        return Err(format!(
            "{name} has the nodes {}, the objects in and around it have {all}",
            object.nodes
        ));
    }
    Ok(own)
}

fn check_memory(memory: &Object) -> Result<(), String> {
    let mut own: CpuSet = memory
        .os_index
        .map(CpuId)
        .into_iter()
        .filter(|_| memory.kind == Kind::NumaNode)
        .collect();
    for child in memory.memory_children() {
        check_memory(child)?;
        if child.cpus != memory.cpus {
            return Err(format!(
                "{} and {} are local to different CPUs",
                child.name, memory.name
            ));
        }
        own = own.union(&child.nodes);
    }
    if own.is_empty() || memory.nodes != own || memory.complete_nodes != own {
        return Err(format!(
            "{} has the nodes {}, not {own}",
            memory.name, memory.nodes
        ));
    }
    Ok(())
}
