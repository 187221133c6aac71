//! Small changes to the seats of VMs that sit: one piece to another domain, some vCPUs of a piece, two pieces swapped,
//! memory to another node. Cheap to price, so that all of them can be tried.

use model::host::NodeId;

use super::state::{FREE, Memory, Piece, Seat, State};

/// Evaluations that pricing one changed seat stands for.
const PRICE: u64 = 6;

/// Takes the best small change to one VM's seat, if any lowers the cost.
pub(super) fn polish(state: &mut State, vm: usize) -> bool {
    let old = state.take(vm);
    let price = state.quote(vm, &old);
    let mut best: Option<(i64, Seat)> = None;
    let mut consider = |state: &mut State, seat: Seat| {
        state.evaluations += PRICE;
        let cost = state.quote(vm, &seat);
        if cost < best.as_ref().map_or(price, |(least, _)| *least) {
            best = Some((cost, seat));
        }
    };
    for index in 0..old.pieces.len() {
        for domain in 0..domain_count(state) {
            for size in part_sizes(&old.pieces[index]) {
                if let Some(seat) = shifted(state, vm, &old, (index, size, domain)) {
                    consider(state, seat);
                }
            }
        }
    }
    for seat in rehomed(state, &old) {
        consider(state, seat);
    }
    let gained = best.is_some();
    state.put(vm, best.map_or(old, |(_, seat)| seat));
    gained
}

/// Swaps a piece of one VM with a piece of another, if that lowers the cost: the best pair of pieces.
pub(super) fn swap(state: &mut State, a: usize, b: usize) -> bool {
    let (old_a, old_b) = (state.take(a), state.take(b));
    state.put(a, old_a.clone());
    let price = state.cost + state.quote(b, &old_b);
    state.take(a);
    let mut best: Option<(i64, Seat, Seat)> = None;
    for (i, mine) in old_a.pieces.iter().enumerate() {
        for (j, theirs) in old_b.pieces.iter().enumerate() {
            let seats = (mine.domain != theirs.domain).then(|| {
                let mine = shifted(state, a, &old_a, (i, mine.size, theirs.domain));
                let theirs = shifted(state, b, &old_b, (j, theirs.size, old_a.pieces[i].domain));
                mine.zip(theirs)
            });
            let Some((mine, theirs)) = seats.flatten() else {
                continue;
            };
            state.evaluations += 3 * PRICE;
            state.put(a, mine.clone());
            let may = state.seat_fits(b, &theirs);
            let cost = state.cost + state.quote(b, &theirs);
            state.take(a);
            if may && cost < best.as_ref().map_or(price, |(least, _, _)| *least) {
                best = Some((cost, mine, theirs));
            }
        }
    }
    let gained = best.is_some();
    let (seat_a, seat_b) = best.map_or((old_a, old_b), |(_, a, b)| (a, b));
    state.put(a, seat_a);
    state.put(b, seat_b);
    gained
}

fn domain_count(state: &State) -> u32 {
    u32::try_from(state.problem.site.domains.len()).unwrap_or(u32::MAX)
}

/// How many vCPUs of a piece may go elsewhere: all; of a free piece also one, or half of them.
fn part_sizes(piece: &Piece) -> impl Iterator<Item = u32> + use<> {
    let (size, is_free) = (piece.size, piece.block == FREE);
    let parts = [size, 1, size / 2];
    (0..3)
        .filter(move |&at| {
            at == 0 || is_free && parts[at] > 0 && parts[at] < size && (at == 1 || parts[at] > 1)
        })
        .map(move |at| parts[at])
}

/// The seat with so many vCPUs of a piece on another domain; `None` when they do not fit there.
fn shifted(
    state: &State,
    vm: usize,
    seat: &Seat,
    (index, size, domain): (usize, u32, u32),
) -> Option<Seat> {
    let piece = seat.pieces[index];
    if piece.domain == domain || state.tenant(vm).caps[domain as usize] == 0 {
        return None;
    }
    let mut changed = seat.clone();
    changed.pieces[index].size -= size;
    let key = |piece: &Piece| (piece.cell, piece.domain, piece.block);
    let target = Piece {
        domain,
        size,
        ..piece
    };
    match changed
        .pieces
        .iter_mut()
        .find(|other| key(other) == key(&target))
    {
        Some(same) => same.size += size,
        None => changed.pieces.push(target),
    }
    changed.pieces.retain(|piece| piece.size > 0);
    state.seat_fits(vm, &changed).then_some(changed)
}

/// The seat with the memory of one cell on one other node that has room for all of it.
fn rehomed(state: &State, seat: &Seat) -> Vec<Seat> {
    let mut seats = Vec::new();
    let mut cells: Vec<u32> = seat.memory.iter().map(|home| home.cell).collect();
    cells.dedup();
    for cell in cells {
        let mib: u64 = seat
            .memory
            .iter()
            .filter(|home| home.cell == cell)
            .map(|home| home.mib)
            .sum();
        let nodes = (0..)
            .zip(&state.free_mib)
            .filter(|(_, free)| free.is_none_or(|free| free >= mib));
        for (node, _) in nodes {
            let mut changed = seat.clone();
            changed.memory.retain(|home| home.cell != cell);
            changed.memory.push(Memory {
                cell,
                node: NodeId(node),
                mib,
            });
            changed.memory.sort_unstable();
            if state.memory_fits(&changed) {
                seats.push(changed);
            }
        }
    }
    seats
}
