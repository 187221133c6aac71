//! Who takes part: the workloads that VMs run, and the VMs of all tiles.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use model::scenario::{Batch, System, name_all};

use super::Member;
use super::fault::{Fault, shown};
use super::library::Known;
use super::tree::{Node, merge};
use super::workload::{self, Defined};
use crate::spec::{Clients, GuestSystem};

/// Most workloads, those with `with` counted each. Ours.
const MAX_WORKLOADS: usize = 1000;

/// The workloads that are run, and by whom.
#[derive(Debug)]
pub(super) struct Cast {
    pub(super) defined: Vec<Defined>,
    /// Where each is asked for.
    pub(super) places: Vec<Option<Range<usize>>>,
    /// For each `[[vm]]` the index of its workload.
    pub(super) by_batch: Vec<Option<usize>>,
}

impl Cast {
    /// The names of the workloads, each once.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for defined in &self.defined {
            if !names.contains(&defined.workload.name.as_str()) {
                names.push(&defined.workload.name);
            }
        }
        names
    }
}

/// Reads the workload of each `[[vm]]`. One that is used as it is named exists once.
pub(super) fn cast(
    scenario: &model::scenario::Scenario,
    vms: &[Node],
    known: &Known<'_>,
) -> Result<Cast, Fault> {
    if let Some(entry) = known.own.entries().get(MAX_WORKLOADS) {
        let message = format!("a simulation has at most {MAX_WORKLOADS} workloads");
        return Err(Fault::at(message, entry.key_span.clone()));
    }
    let mut cast = Cast {
        defined: Vec::new(),
        places: Vec::new(),
        by_batch: Vec::new(),
    };
    let mut shared: BTreeMap<&str, usize> = BTreeMap::new();
    for (batch, vm) in scenario.batches.iter().zip(vms) {
        let with = vm.find("with");
        let Some(name) = batch.work.workload.as_deref() else {
            if let Some(with) = with {
                let message = "`with` changes a workload; say which with `workload`";
                return Err(Fault::at(message, with.span.clone()));
            }
            cast.by_batch.push(None);
            continue;
        };
        let place = vm.find("workload").and_then(|node| node.span.clone());
        if let (None, Some(&index)) = (with, shared.get(name)) {
            cast.by_batch.push(Some(index));
            continue;
        }
        cast.by_batch.push(Some(cast.defined.len()));
        if with.is_none() {
            shared.insert(name, cast.defined.len());
        }
        if cast.defined.len() == MAX_WORKLOADS {
            let message = format!(
                "a simulation has at most {MAX_WORKLOADS} workloads, those with `with` counted"
            );
            return Err(Fault::at(message, place));
        }
        cast.defined.push(define(name, with, place.clone(), known)?);
        cast.places.push(place);
    }
    if cast.defined.is_empty() {
        let message = "no VM runs a workload, so that there is nothing to simulate; say workload = \"oltp\" in a [[vm]]";
        return Err(Fault::at(
            message,
            vms.first().and_then(|vm| vm.span.clone()),
        ));
    }
    let names = cast.names();
    let used: BTreeSet<String> = names.iter().flat_map(|name| known.chain(name)).collect();
    for entry in known.own.entries() {
        if !used.contains(&entry.key) {
            let message = format!(
                "no VM runs the workload {}; say workload = {} in a [[vm]], or leave it out",
                shown(&entry.key),
                shown(&entry.key)
            );
            return Err(Fault::at(message, entry.key_span.clone()));
        }
    }
    Ok(cast)
}

fn define(
    name: &str,
    with: Option<&Node>,
    place: Option<Range<usize>>,
    known: &Known<'_>,
) -> Result<Defined, Fault> {
    let mut node = known.resolve(name, place.clone())?;
    if let Some(with) = with {
        if let Some(like) = with.find("like") {
            let message =
                "`with` changes the workload that is named; use `workload` to name another";
            return Err(Fault::at(message, like.span.clone()));
        }
        node = merge(node, with)?;
    }
    workload::read(name, &node).map_err(|fault| Fault {
        span: fault.span.clone().or(place),
        ..fault
    })
}

/// All VMs with their final names.
pub(super) fn all(
    scenario: &model::scenario::Scenario,
    vms: &[Node],
    by_batch: &[Option<usize>],
    tiles: u32,
) -> Result<Vec<Member>, Fault> {
    let named = name_all(&scenario.batches).map_err(|error| Fault::at(error.to_string(), None))?;
    let counts = scenario
        .batches
        .iter()
        .map(|batch| batch.count.unwrap_or(1) as usize);
    let owners = counts
        .enumerate()
        .flat_map(|(batch, count)| std::iter::repeat_n(batch, count));
    let one: Vec<Member> = named
        .into_iter()
        .zip(owners)
        .map(|(vm, batch)| member(vm, batch, &scenario.batches[batch], by_batch[batch]))
        .collect();
    let in_tile = one
        .iter()
        .filter(|member| scenario.batches[member.batch].work.tile);
    let total = one.len() as u64 + in_tile.count() as u64 * u64::from(tiles - 1);
    if total > u64::from(super::MAX_VMS) {
        let message = format!(
            "{total} VMs in all tiles; a simulation has at most {}",
            super::MAX_VMS
        );
        return Err(Fault::at(
            message,
            vms.last().and_then(|vm| vm.span.clone()),
        ));
    }
    let (repeated, mut members): (Vec<Member>, Vec<Member>) = one
        .into_iter()
        .partition(|member| scenario.batches[member.batch].work.tile);
    for tile in 1..=tiles {
        members.extend(repeated.iter().map(|member| in_tile_of(member, tile)));
    }
    let mut taken = BTreeSet::new();
    for member in &members {
        if !taken.insert(member.vm.name.as_str()) {
            let message = format!("two VMs are called {}; rename one", shown(&member.vm.name));
            return Err(Fault::at(message, vms[member.batch].span.clone()));
        }
    }
    Ok(members)
}

fn member(vm: model::Vm, batch: usize, of: &Batch, workload: Option<usize>) -> Member {
    Member {
        vm,
        batch,
        workload,
        tile: 0,
        system: match of.work.system {
            System::Linux => GuestSystem::Linux,
            System::Windows => GuestSystem::Windows,
        },
        rule: of.work.rule.clone(),
        on_ns: of.work.on_ns,
        off_ns: of.work.off_ns,
    }
}

/// The VM in a tile. Labels are the tile's own: VMs of two tiles neither talk nor keep apart.
fn in_tile_of(member: &Member, tile: u32) -> Member {
    let mut member = member.clone();
    let own = |name: &str| format!("t{tile}-{name}");
    member.vm.name = own(&member.vm.name);
    member.vm.near = member.vm.near.as_deref().map(own);
    if let Some(apart) = &mut member.vm.apart {
        apart.label = own(&apart.label);
    }
    member.tile = tile;
    member
}

/// Every call finds somebody in its tile, every workload that is only called is called, and no operation waits for itself.
pub(super) fn check_calls(members: &[Member], cast: &Cast) -> Result<(), Fault> {
    let name = |index: usize| cast.defined[index].workload.name.as_str();
    // All tiles from 1 are equal.
    for tile in [0, 1] {
        let here: BTreeSet<usize> = members
            .iter()
            .filter(|member| member.tile == tile)
            .filter_map(|member| member.workload)
            .collect();
        let names: BTreeSet<&str> = here.iter().map(|&index| name(index)).collect();
        let mut called = BTreeSet::new();
        for &index in &here {
            for (to, place) in &cast.defined[index].calls {
                called.insert(to.as_str());
                if !names.contains(to.as_str()) {
                    let place = place.clone().or(cast.places[index].clone());
                    return Err(nobody(name(index), to, tile, &names, place));
                }
            }
        }
        for &index in &here {
            let is_called_only = cast.defined[index].workload.clients == Clients::Called;
            if is_called_only && !called.contains(name(index)) {
                let message = format!(
                    "{} only answers calls, and nobody here calls it; run a workload that does, in the same tile, or give it clients",
                    shown(name(index))
                );
                return Err(Fault::at(message, cast.places[index].clone()));
            }
        }
    }
    check_cycles(cast)
}

fn nobody(
    from: &str,
    to: &str,
    tile: u32,
    names: &BTreeSet<&str>,
    place: Option<Range<usize>>,
) -> Fault {
    let which = if tile == 0 {
        "outside the tiles"
    } else {
        "in its tile"
    };
    let message = format!(
        "{} calls {}, which no VM {which} runs; add one",
        shown(from),
        shown(to)
    );
    Fault {
        unknown: Some((
            to.to_owned(),
            names.iter().map(|&name| name.to_owned()).collect(),
        )),
        ..Fault::at(message, place)
    }
}

fn check_cycles(cast: &Cast) -> Result<(), Fault> {
    let mut graph: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for defined in &cast.defined {
        let to = defined.calls.iter().map(|(to, _)| to.as_str());
        graph.entry(&defined.workload.name).or_default().extend(to);
    }
    let mut done = BTreeSet::new();
    for (index, defined) in cast.defined.iter().enumerate() {
        let mut path = Vec::new();
        if let Some(circle) = circle(&graph, &defined.workload.name, &mut path, &mut done) {
            let message =
                format!("calls go in a circle, {circle}, so that an operation waits for itself");
            let place = defined.calls.iter().find_map(|(_, place)| place.clone());
            return Err(Fault::at(message, place.or(cast.places[index].clone())));
        }
    }
    Ok(())
}

/// A circle of calls that is reached from a workload. Their number is bounded, so that this does not go too deep.
fn circle<'a>(
    graph: &BTreeMap<&'a str, Vec<&'a str>>,
    name: &'a str,
    path: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
) -> Option<String> {
    if let Some(from) = path.iter().position(|known| *known == name) {
        path.push(name);
        return Some(path[from..].join(" calls "));
    }
    if done.contains(name) {
        return None;
    }
    path.push(name);
    let calls = graph.get(name).map_or(&[][..], Vec::as_slice);
    let found = calls.iter().find_map(|to| circle(graph, to, path, done));
    path.pop();
    done.insert(name);
    found
}
