//! vNUMA nodes and the memory behind them: what differs is rewritten in place, what is no more is taken out, what is
//! new follows the last node.

use super::super::super::Target;
use super::super::super::smp::{memory_mib, same_slots, slit, slots_by_node};
use super::super::options::Options;
use super::super::parse::{Backend, CommandLine, Node};
use super::super::write;
use super::Edit;
use crate::guest::GuestTopology;
use crate::vm::Spec;

/// Properties of a backend that stay when another kind of memory is asked for.
const KEPT: [&str; 3] = ["share", "merge", "dump"];

/// Changes nodes, distances and backends where `spec` differs from `old`.
pub(super) fn edit(edit: &mut Edit, spec: &Spec, old: &Spec, target: Target) {
    let memory = Memory {
        line: edit.line,
        spec,
        old,
        target,
    };
    let none = GuestTopology::uniform(1, [1; 5]);
    let was = old.topology.as_ref().unwrap_or(&none);
    let topology = spec.topology.as_ref().unwrap_or(was);
    let mut nodes: Vec<&Node> = edit.line.says.nodes.iter().collect();
    nodes.sort_by_key(|node| node.id);
    let count = topology.numa_nodes.len();
    let after = edit.last("numa").or(edit.last("smp")).or(edit.anchor());
    if moved(topology, was, &nodes) {
        remove_numa(edit, "cpu");
    }
    for index in 0..count {
        node(edit, &memory, index, (topology, was, &nodes), after);
    }
    for node in nodes.iter().skip(count) {
        edit.removed.insert(node.option);
        edit.removed
            .extend(memory.of_node(node).map(|backend| backend.option));
    }
    distances(edit, topology, was, after);
    let first_nodes = count > 0 && was.numa_nodes.is_empty();
    if first_nodes || spec.hugepage_kib != old.hugepage_kib {
        // What it says is said by the backends now.
        edit.removed
            .extend(edit.indices("mem-path").collect::<Vec<_>>());
    }
    if first_nodes {
        drop_machine_backend(edit, &memory);
    } else if count == 0 {
        machine_backend(edit, &memory);
    }
}

/// Where memory comes from, in the text and as wanted.
struct Memory<'a> {
    line: &'a CommandLine,
    spec: &'a Spec,
    old: &'a Spec,
    target: Target,
}

impl<'a> Memory<'a> {
    fn of_node(&self, node: &Node) -> Option<&'a Backend> {
        self.line.says.backend(node.memdev.as_deref()?)
    }

    /// The backend that new ones are made like: the first in use.
    fn template(&self) -> Option<&'a Backend> {
        let says = &self.line.says;
        says.nodes
            .iter()
            .find_map(|node| self.of_node(node))
            .or(says.machine_backend())
    }

    /// The id of a node's backend: its own, or one that nothing in the text has.
    fn id(&self, index: usize, own: Option<&Backend>) -> String {
        let taken = |id: &String| {
            self.line
                .words
                .iter()
                .any(|word| word.value.contains(id.as_str()))
        };
        own.map(|backend| backend.id.clone())
            .into_iter()
            .chain(
                (0..)
                    .map(|round| format!("mem{}{index}", "x".repeat(round)))
                    .filter(|id| !taken(id)),
            )
            .next()
            .unwrap_or_default()
    }

    /// A backend as wanted: like the one in the text as far as size, host nodes and pages allow.
    fn object(
        &self,
        id: &str,
        own: Option<&Backend>,
        memory_mib: u64,
        host_nodes: &[u32],
    ) -> String {
        let fresh = || write::backend(id, self.spec, memory_mib, host_nodes, self.target);
        let Some(model) = own.or(self.template()) else {
            return fresh().to_text();
        };
        if self.spec.hugepage_kib != self.old.hugepage_kib {
            let mut object = fresh();
            for (key, value) in model.options.iter().filter(|(key, _)| KEPT.contains(key)) {
                object.set(key, value);
            }
            return object.to_text();
        }
        let mut object = model.options.clone();
        object.set("id", id);
        if own.is_none_or(|own| own.size_bytes != memory_mib << 20) {
            object.set("size", &format!("{memory_mib}M"));
        }
        let hosts = model.host_nodes.iter().map(|node| node.0);
        if own.is_none() || !hosts.eq(host_nodes.iter().copied()) {
            // Memory that is bound stays bound: the text asks for it.
            let policy = own
                .and_then(|own| own.options.value("policy"))
                .map(str::to_owned);
            object.retain(|key| key != "host-nodes" && key != "policy");
            write::push_host_nodes(&mut object, host_nodes);
            if let Some(policy) =
                policy.filter(|policy| policy != "preferred" && !host_nodes.is_empty())
            {
                object.set("policy", &policy);
            }
        }
        object.to_text()
    }
}

/// Whether vCPUs change nodes, by what the options say or by QEMU's default for what they leave out.
fn moved(topology: &GuestTopology, was: &GuestTopology, nodes: &[&Node]) -> bool {
    let same_slots = same_slots(topology, was);
    let slots = slots_by_node(topology);
    topology.numa_nodes.iter().enumerate().any(|(index, node)| {
        let as_was = was
            .numa_nodes
            .get(index)
            .is_some_and(|was| was.vcpus == node.vcpus);
        let as_stated = nodes
            .get(index)
            .is_some_and(|node| node.cpus == slots[index]);
        !(as_stated || as_was && same_slots)
    })
}

/// One node with its backend.
fn node(
    edit: &mut Edit,
    memory: &Memory,
    index: usize,
    (topology, was, nodes): (&GuestTopology, &GuestTopology, &[&Node]),
    after: Option<usize>,
) {
    let (node, known) = (&topology.numa_nodes[index], nodes.get(index));
    let own = known.and_then(|known| memory.of_node(known));
    let mut memdev = known.and_then(|known| known.memdev.clone());
    let same_memory = was
        .numa_nodes
        .get(index)
        .is_some_and(|was| was.memory_mib == node.memory_mib && was.host_nodes == node.host_nodes);
    if !same_memory || memory.spec.hugepage_kib != memory.old.hugepage_kib {
        memdev = (node.memory_mib > 0).then(|| memory.id(index, own));
        let object = memdev
            .as_ref()
            .map(|id| memory.object(id, own, node.memory_mib, &node.host_nodes));
        match (own, object) {
            (Some(own), Some(object)) => {
                edit.values.insert(own.option, object);
            }
            (Some(own), None) => {
                edit.removed.insert(own.option);
            }
            (None, Some(object)) => edit.add(after, "object", object),
            (None, None) => {}
        }
    }
    let value = write::numa_node(index, &slots_by_node(topology)[index], memdev.as_deref());
    match known {
        Some(known) if known.memdev == memdev && !moved(topology, was, nodes) => {}
        Some(known) => {
            edit.values.insert(known.option, value);
        }
        None => edit.add(after, "numa", value),
    }
}

fn distances(edit: &mut Edit, topology: &GuestTopology, was: &GuestTopology, after: Option<usize>) {
    let count = topology.numa_nodes.len();
    let pairs = || (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
    let same = was.numa_nodes.len() == count
        && pairs().all(|(from, to)| slit(topology, from, to) == slit(was, from, to));
    if same {
        return;
    }
    remove_numa(edit, "dist");
    for distance in write::numa_distances(topology) {
        edit.add(after, "numa", distance);
    }
}

/// Takes out the backend of a guest without nodes: QEMU takes either.
fn drop_machine_backend(edit: &mut Edit, memory: &Memory) {
    let Some(own) = memory.line.says.machine_backend() else {
        return;
    };
    edit.removed.insert(own.option);
    edit.change_machines(|_, options| options.retain(|key| key != "memory-backend"));
}

/// The backend of a guest without nodes, where it has or had one.
fn machine_backend(edit: &mut Edit, memory: &Memory) {
    let (spec, old, says) = (memory.spec, memory.old, &memory.line.says);
    let own = says.machine_backend();
    let had_nodes = !says.nodes.is_empty();
    let same_pages = spec.hugepage_kib == old.hugepage_kib;
    let same = same_pages && memory_mib(spec) == memory_mib(old);
    let by_path = says.mem_path.is_some() && same_pages && own.is_none();
    let needed = memory.template().is_some() || spec.hugepage_kib.is_some() && !by_path;
    if same && !had_nodes || !needed {
        return;
    }
    let id = memory.id(0, own);
    let object = memory.object(&id, own, memory_mib(spec), &[]);
    if let Some(own) = own {
        edit.values.insert(own.option, object);
        return;
    }
    let after = edit.anchor();
    edit.add(after, "object", object);
    edit.set_machine(edit.first_machine(), "memory-backend", &id);
}

/// Takes out all `-numa` of a kind.
fn remove_numa(edit: &mut Edit, kind: &str) {
    let of_kind =
        |&option: &usize| Options::parse(edit.value(option), "kind").value("kind") == Some(kind);
    let options: Vec<usize> = edit.indices("numa").filter(of_kind).collect();
    edit.removed.extend(options);
}
