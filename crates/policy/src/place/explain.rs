//! Why: reasons, moves and refusals as data. And the way back, from a placement to seats.

use std::collections::BTreeMap;

use model::host::LlcId;
use model::placement::{Placement, VmId};
use model::{CpuSet, Reason, Vm};

use super::id;
use super::state::{FREE, Memory, Piece, Seat, State};
use crate::cost::evaluate::domain_of;
use crate::cost::weights::{PER_MILLI, VCPU};
use crate::plan::{Move, Moved, Snapshot};

/// Seats the VMs where the snapshot says they are. Returns those whose place no longer fits (CPUs or memory gone, affinity
/// or size changed): they have to be seated anew.
pub(super) fn seat_placed(state: &mut State, now: &Snapshot) -> Vec<usize> {
    let mut displaced = Vec::new();
    for vm in 0..now.vms.len() {
        let Some((seat, is_whole)) = seat_of(state, now, vm) else {
            continue;
        };
        state.before[vm] = seat.clone();
        let mut own: BTreeMap<u32, u32> = BTreeMap::new();
        let mut fits = |piece: &Piece| {
            let count = own.entry(piece.domain).or_default();
            let fits = state.may_stay(vm, piece.domain, *count, piece.size);
            *count += piece.size;
            fits
        };
        if is_whole && seat.pieces.iter().all(&mut fits) {
            state.put(vm, seat);
        } else {
            displaced.push(vm);
        }
    }
    displaced
}

/// The seat of a VM that was placed, and whether all of it is still there.
fn seat_of(state: &State, now: &Snapshot, vm: usize) -> Option<(Seat, bool)> {
    let groups = now.placement.groups_of(id(vm));
    if groups.is_empty() {
        return None;
    }
    let tenant = state.tenant(vm);
    let mut seat = Seat::default();
    for group in groups {
        let Some(domain) = domain_of(state.problem, tenant, group) else {
            continue;
        };
        for (cell, parts) in (0..).zip(&tenant.cells) {
            let vcpus = group.vcpus.intersection(&parts.vcpus);
            if parts.blocks.is_empty() {
                add(
                    &mut seat,
                    Piece {
                        cell,
                        domain,
                        size: count(&vcpus),
                        block: FREE,
                    },
                );
            }
            for (block, own) in (0..).zip(&parts.blocks) {
                add(
                    &mut seat,
                    Piece {
                        cell,
                        domain,
                        size: count(&vcpus.intersection(own)),
                        block,
                    },
                );
            }
        }
    }
    let nodes = state.problem.site.nodes.len();
    let memory = now
        .placement
        .memory_of(id(vm))
        .iter()
        .filter(|home| home.node.index() < nodes);
    seat.memory = memory
        .map(|home| Memory {
            cell: home.cell,
            node: home.node,
            mib: home.mib,
        })
        .collect();
    let system = now.placement.system_of(id(vm));
    seat.system = system.and_then(|home| state.problem.site.domain_of(home.llc, home.node, false));
    let placed: u32 = seat.pieces.iter().map(|piece| piece.size).sum();
    let mib: u64 = seat.memory.iter().map(|home| home.mib).sum();
    let wanted: u64 = tenant.cells.iter().map(|cell| cell.memory_mib).sum();
    let is_whole = placed == tenant.vcpus
        && mib == wanted
        && state.memory_fits(&seat)
        && (tenant.system.is_none() || seat.system.is_some());
    Some((seat, is_whole))
}

fn add(seat: &mut Seat, piece: Piece) {
    let key = |piece: &Piece| (piece.cell, piece.domain, piece.block);
    match seat
        .pieces
        .iter_mut()
        .find(|other| key(other) == key(&piece))
    {
        Some(same) => same.size += piece.size,
        None if piece.size > 0 => seat.pieces.push(piece),
        None => {}
    }
}

fn count(vcpus: &CpuSet) -> u32 {
    u32::try_from(vcpus.len()).unwrap_or(u32::MAX)
}

/// Why each seated VM is where it is.
pub(super) fn reasons(state: &State, now: &Snapshot) -> Vec<(Option<VmId>, Reason)> {
    let mut reasons = Vec::with_capacity(now.vms.len() * 2);
    for (vm, seat) in state.seats.iter().enumerate() {
        if seat.pieces.is_empty() {
            continue;
        }
        reasons.push((Some(id(vm)), groups_reason(state, now, vm, seat)));
        if let Some(reason) = memory_reason(state, now, seat) {
            reasons.push((Some(id(vm)), reason));
        }
    }
    reasons
}

fn groups_reason(state: &State, now: &Snapshot, vm: usize, seat: &Seat) -> Reason {
    let (site, tenant) = (&state.problem.site, state.tenant(vm));
    let mut sizes: BTreeMap<u32, u32> = BTreeMap::new();
    for piece in &seat.pieces {
        *sizes.entry(piece.domain).or_default() += piece.size;
    }
    let widest = tenant.caps.iter().copied().max().unwrap_or(1).max(1);
    let needed = tenant.vcpus.div_ceil(widest) as usize;
    let llcs = list(
        sizes
            .keys()
            .map(|&domain| site.domains[domain as usize].llc.0),
    );
    let [least, most] =
        [sizes.values().min(), sizes.values().max()].map(|size| size.copied().unwrap_or(0));
    let each = if least == most {
        format!("{most}")
    } else {
        format!("{least} to {most}")
    };
    let name = &now.vms[vm].vm.name;
    let n = tenant.vcpus;
    if let Some((&domain, _)) = sizes.first_key_value().filter(|_| sizes.len() == 1) {
        let own_cap = tenant.caps[domain as usize].max(tenant.stays[domain as usize].min(n));
        return Reason::new(
            "one-llc",
            format!("{name}: {n} vCPUs fit LLC {llcs}, which takes up to {own_cap}"),
        );
    }
    let farthest = farthest(state, seat);
    let what = format!(
        "{name}: {n} vCPUs are {} groups of {each} on LLCs {llcs}",
        sizes.len()
    );
    let is_free = tenant.cells.len() == 1 && tenant.cells[0].blocks.is_empty();
    if is_free && sizes.len() > needed {
        return Reason::new(
            "more-llcs",
            format!(
                "{what}; {needed} might hold them, but with what else runs there these cost less"
            ),
        );
    }
    let apart = format!(
        "; an LLC takes up to {widest}, and no two are more than {farthest} ns farther than one"
    );
    Reason::new("fewest-llcs", what + &apart)
}

/// Extra ns between the two groups of a VM that are farthest apart.
fn farthest(state: &State, seat: &Seat) -> i64 {
    let pairs = seat
        .pieces
        .iter()
        .flat_map(|a| seat.pieces.iter().map(move |b| (a, b)));
    let ns = pairs.map(|(a, b)| {
        let home = state
            .home(&seat.memory, a.cell)
            .filter(|_| a.cell == b.cell);
        state.problem.site.extra_ns(a.domain, b.domain, home)
    });
    ns.max().unwrap_or(0)
}

fn memory_reason(state: &State, now: &Snapshot, seat: &Seat) -> Option<Reason> {
    let nodes = |homes: &[Memory]| {
        list(
            homes
                .iter()
                .map(|home| now.host.nodes[home.node.index()].id),
        )
    };
    let site = &state.problem.site;
    let is_away = |home: &&Memory| {
        !seat.pieces.iter().any(|piece| {
            piece.cell == home.cell && site.domains[piece.domain as usize].node == home.node
        })
    };
    let away: Vec<Memory> = seat.memory.iter().filter(is_away).copied().collect();
    if away.is_empty() {
        return None;
    }
    let mib: u64 = away.iter().map(|home| home.mib).sum();
    Some(Reason::new(
        "remote-memory",
        format!(
            "{mib} MiB of its memory are on node {}, away from its vCPUs",
            nodes(&away)
        ),
    ))
}

/// Why a VM had to leave its place.
pub(super) fn displaced(now: &Snapshot, vm: usize) -> Reason {
    let name = &now.vms[vm].vm.name;
    Reason::new(
        "place-gone",
        format!(
            "{name}: its place no longer fits it: CPUs or memory are gone, reserved or outside its affinity, or its size changed"
        ),
    )
}

/// Why a VM is refused.
pub(super) fn refusal(state: &State, now: &Snapshot, vm: usize) -> Reason {
    let (tenant, wanted) = (state.tenant(vm), &now.vms[vm].vm);
    let (name, n) = (&wanted.name, wanted.vcpus);
    let room = tenant.room;
    let free: u64 = state.free_mib.iter().map(|free| free.unwrap_or(0)).sum();
    let is_limited = state.free_mib.iter().any(Option::is_some);
    if n == 0 {
        return Reason::new(
            "no-vcpus",
            format!("{name} has no vCPUs: give it at least 1"),
        );
    }
    if let Some(limit) = wanted.limit.filter(|limit| *limit < wanted.reservation) {
        let reserved = wanted.reservation;
        return Reason::new(
            "reservation-above-limit",
            format!(
                "{name} reserves {reserved} milli-CPU but may use {limit}: raise the limit or lower the reservation"
            ),
        );
    }
    if room == 0 && !wanted.hard.is_empty() {
        return Reason::new(
            "affinity-no-cpus",
            format!(
                "{name}: its hard affinity leaves no usable CPU of {}",
                now.host.name
            ),
        );
    }
    if room < n && wanted.dedicated {
        return Reason::new(
            "no-whole-cores",
            format!("{name} is dedicated and needs {n} whole cores; it may use {room}"),
        );
    }
    if room < n {
        return Reason::new(
            "more-vcpus-than-cpus",
            format!(
                "{name} has {n} vCPUs, but may use {room} CPUs: no VM runs on fewer CPUs than vCPUs"
            ),
        );
    }
    if is_limited && free < wanted.memory_mib {
        let need = wanted.memory_mib;
        return Reason::new(
            "no-memory",
            format!("{name} needs {need} MiB of memory; {free} MiB are free"),
        );
    }
    taken(wanted)
}

/// Why a VM is refused that would fit an empty host.
fn taken(wanted: &Vm) -> Reason {
    let (name, n) = (&wanted.name, wanted.vcpus);
    if wanted.dedicated {
        return Reason::new(
            "no-whole-cores",
            format!("{name} is dedicated and needs {n} whole cores; not as many are free"),
        );
    }
    if wanted.reservation > 0 {
        let need = wanted.reservation;
        return Reason::new(
            "reservation",
            format!(
                "{name} reserves {need} milli-CPU, more than any choice of LLCs can still promise"
            ),
        );
    }
    if wanted.apart.is_some() {
        return Reason::new(
            "keeps-apart",
            format!("{name} keeps apart from VMs that are everywhere it could be"),
        );
    }
    Reason::new(
        "no-room",
        format!("{name}: dedicated VMs have all the cores it could use"),
    )
}

/// Why a VM is refused whose LLC has room, but not on the CPUs it must stay on.
pub(super) fn affinity_taken(now: &Snapshot, vm: usize) -> Reason {
    let name = &now.vms[vm].vm.name;
    Reason::new(
        "affinity-taken",
        format!("{name}: dedicated VMs have the CPUs that its hard affinity leaves it"),
    )
}

/// What changes for VMs that were placed before.
pub(super) fn moves(
    now: &Snapshot,
    placement: &Placement,
    gains: &[(usize, i64)],
    displaced: &[usize],
) -> Vec<Move> {
    let mut moves = Vec::new();
    for vm in (0..now.vms.len()).map(id) {
        let (old, new) = (now.placement.groups_of(vm), placement.groups_of(vm));
        if old.is_empty() || new.is_empty() {
            continue;
        }
        let reason = reason_of(now, vm, gains, displaced);
        let mut shifted: BTreeMap<(LlcId, LlcId), CpuSet> = BTreeMap::new();
        for (from, to) in old
            .iter()
            .flat_map(|from| new.iter().map(move |to| (from, to)))
        {
            let vcpus = from.vcpus.intersection(&to.vcpus);
            if from.llc != to.llc && !vcpus.is_empty() {
                let sum = shifted.entry((from.llc, to.llc)).or_default();
                *sum = sum.union(&vcpus);
            }
        }
        let of_vcpus =
            shifted
                .into_iter()
                .map(|((from, to), vcpus)| Moved::Vcpus { vcpus, from, to });
        let of_memory = memory_moves(now, placement, vm);
        moves.extend(of_vcpus.chain(of_memory).map(|what| Move {
            vm,
            what,
            reason: reason.clone(),
        }));
    }
    moves
}

fn reason_of(now: &Snapshot, vm: VmId, gains: &[(usize, i64)], displaced_vms: &[usize]) -> Reason {
    if displaced_vms.contains(&vm.index()) {
        return displaced(now, vm.index());
    }
    let gain = gains
        .iter()
        .find(|(moved, _)| *moved == vm.index())
        .map_or(0, |(_, gain)| *gain);
    let name = &now.vms[vm.index()].vm.name;
    Reason::new(
        "costs-less",
        format!(
            "{name}: its new place saves {} vCPUs of work, the move included",
            milli(gain)
        ),
    )
}

fn memory_moves(now: &Snapshot, placement: &Placement, vm: VmId) -> Vec<Moved> {
    let mut change: BTreeMap<(u32, model::host::NodeId), i128> = BTreeMap::new();
    for home in now.placement.memory_of(vm) {
        *change.entry((home.cell, home.node)).or_default() -= i128::from(home.mib);
    }
    for home in placement.memory_of(vm) {
        *change.entry((home.cell, home.node)).or_default() += i128::from(home.mib);
    }
    let mut moves = Vec::new();
    let (mut from, mut to): (Vec<_>, Vec<_>) = change
        .into_iter()
        .filter(|(_, mib)| *mib != 0)
        .partition(|(_, mib)| *mib < 0);
    for ((cell, target), need) in &mut to {
        for ((source_cell, source), left) in &mut from {
            let mib = (-*left).min(*need);
            if source_cell == cell && mib > 0 {
                (*left, *need) = (*left + mib, *need - mib);
                moves.push(Moved::Memory {
                    mib: u64::try_from(mib).unwrap_or(0),
                    from: *source,
                    to: *target,
                });
            }
        }
    }
    moves
}

/// Nano-vCPU as vCPUs with three decimals.
fn milli(nano: i64) -> String {
    let rounded = (nano + PER_MILLI / 2) / PER_MILLI;
    format!(
        "{}.{:03}",
        rounded / (VCPU / PER_MILLI),
        (rounded % 1000).abs()
    )
}

fn list(numbers: impl Iterator<Item = u32>) -> String {
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    let set: CpuSet = numbers.into_iter().map(model::CpuId).collect();
    set.to_string()
}
