//! The best seat for one VM, given where the others sit: cell by cell, every home for its memory, every way to split
//! it, piece by piece where it costs least.

mod view;

use super::state::{FREE, Memory, Piece, Seat, State};
use crate::cost::weights::{CROWDING_PERMILLE, PER_MILLI};
use crate::group;
use view::View;

/// Most groups of a cell that are tried for their own sake: beyond, only as few as needed and one for each vCPU.
const MANY_GROUPS: u32 = 64;

/// How thoroughly to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Effort {
    /// Domains tried as the first of a cell.
    pub(super) anchors: usize,
    /// The same for splits into more groups than needed.
    pub(super) more_anchors: usize,
}

impl Effort {
    pub(super) const QUICK: Self = Self {
        anchors: 4,
        more_anchors: 1,
    };
    pub(super) const THOROUGH: Self = Self {
        anchors: 24,
        more_anchors: 8,
    };
}

/// A place for a cell, and what it adds to the cost.
#[derive(Debug, Clone)]
struct Offer {
    pieces: Vec<Piece>,
    memory: Vec<Memory>,
    cost: i64,
}

/// The sizes of a cell's pieces, with the guest LLC each belongs to.
type Split = Vec<(u32, u32)>;

/// The cheapest seat found; `None` when the VM fits nowhere. The state is as before.
pub(super) fn best_seat(state: &mut State, vm: usize, effort: Effort) -> Option<Seat> {
    let mut seat = Seat::default();
    for cell in 0..state.tenant(vm).cells.len() {
        let Some(offer) = best_offer(state, vm, (cell, &seat), effort) else {
            retract(state, vm, &seat);
            return None;
        };
        for piece in &offer.pieces {
            state.load(vm, piece.domain, i64::from(piece.size));
        }
        for memory in &offer.memory {
            state.hold(*memory);
        }
        seat.pieces.extend(offer.pieces);
        seat.memory.extend(offer.memory);
    }
    seat.system = best_system(state, vm, &seat);
    let placed = state.tenant(vm).system.is_none() || seat.system.is_some();
    retract(state, vm, &seat);
    placed.then_some(seat)
}

fn retract(state: &mut State, vm: usize, seat: &Seat) {
    for piece in &seat.pieces {
        state.load(vm, piece.domain, -i64::from(piece.size));
    }
    for memory in &seat.memory {
        state.release(*memory);
    }
}

fn best_offer(
    state: &mut State,
    vm: usize,
    (cell, earlier): (usize, &Seat),
    effort: Effort,
) -> Option<Offer> {
    let mut best: Option<Offer> = None;
    for memory in view::memories(state, vm, cell, earlier) {
        let view = View::new(state, vm, (cell, earlier), memory);
        let mut try_split = |state: &mut State, split: &Split, anchors: usize| {
            for anchor in view.anchors(state, split, anchors) {
                let most = best.as_ref().map_or(i64::MAX, |best| best.cost);
                best = fill(state, &view, split, (anchor, most)).or(best.take());
            }
        };
        let first = fewest(state, &view);
        let busy = crowd(state, &view, &first);
        try_split(state, &first, effort.anchors);
        if busy {
            for split in more_splits(state, &view) {
                try_split(state, &split, effort.more_anchors);
            }
        }
    }
    best
}

/// As few pieces as possible: the guest's LLCs, or balanced groups of at most one LLC's cores.
fn fewest(state: &State, view: &View) -> Split {
    let cell = &state.tenant(view.vm).cells[view.cell];
    let widest = view.widest(state).max(1);
    if cell.blocks.is_empty() {
        let n = count(cell.vcpus.len());
        return group::balanced(n, n.div_ceil(widest))
            .map(|size| (size, FREE))
            .collect();
    }
    let blocks = (0..).zip(&cell.blocks);
    let cut = |(block, vcpus): (u32, &model::CpuSet)| {
        let n = count(vcpus.len());
        group::balanced(n, n.div_ceil(widest)).map(move |size| (size, block))
    };
    blocks.flat_map(cut).collect()
}

/// Whether the fewest pieces press on anything but themselves, wherever they go: then other splits are worth a try.
fn crowd(state: &mut State, view: &View, split: &Split) -> bool {
    let n: u32 = split.iter().map(|(size, _)| size).sum();
    let free = i64::from(n) * CROWDING_PERMILLE * PER_MILLI;
    let Some(offer) = fill(state, view, split, (None, i64::MAX)) else {
        return true;
    };
    let pressure = offer
        .pieces
        .iter()
        .map(|piece| state.more_load_cost(view.vm, piece.domain, piece.size));
    pressure.sum::<i64>() > free
}

/// Other ways to cut a cell: more groups (which bandwidth-hungry VMs want), full groups and a rest, and what the free
/// cores of the domains suggest. The guest's LLCs cannot be cut otherwise.
fn more_splits(state: &State, view: &View) -> Vec<Split> {
    let cell = &state.tenant(view.vm).cells[view.cell];
    if !cell.blocks.is_empty() {
        return Vec::new();
    }
    let n = count(cell.vcpus.len());
    let widest = view.widest(state).max(1);
    let least = n.div_ceil(widest);
    let mut groups = vec![least + 1, least + 2, 2 * least, 3 * least, 4 * least, n];
    groups
        .retain(|&groups| groups > least && groups <= n && (groups <= MANY_GROUPS || groups == n));
    groups.sort_unstable();
    groups.dedup();
    let free = |size: u32| (size, FREE);
    let mut splits: Vec<Split> = groups
        .into_iter()
        .map(|groups| group::balanced(n, groups).map(free).collect())
        .collect();
    splits.push(group::full_and_rest(n, widest).map(free).collect());
    splits.push(by_room(state, view, n));
    splits.retain(|split| !split.is_empty());
    splits.dedup();
    splits
}

/// Sizes that fill free cores, the emptiest domain first; nothing when they are not enough.
fn by_room(state: &State, view: &View, n: u32) -> Split {
    let mut rooms: Vec<u32> = view
        .domains
        .iter()
        .map(|&domain| state.free_cores(view.vm, domain))
        .collect();
    rooms.sort_unstable_by(|a, b| b.cmp(a));
    let mut rest = n;
    let mut split = Split::new();
    for room in rooms.into_iter().take_while(|&room| room > 0) {
        let size = room.min(rest);
        split.push((size, FREE));
        rest -= size;
        if rest == 0 {
            return split;
        }
    }
    Split::new()
}

/// Seats the pieces one by one, each where it costs least; the first at `anchor`, if there is one. `None` when a piece
/// fits nowhere, or when all of it does not cost less than `most`.
fn fill(
    state: &mut State,
    view: &View,
    split: &Split,
    (anchor, most): (Option<u32>, i64),
) -> Option<Offer> {
    let tenant = state.tenant(view.vm);
    let cell = count(view.cell);
    let mut pieces: Vec<Piece> = Vec::with_capacity(split.len());
    let mut unit = view.unit.clone();
    let mut cost = view.memory_moved;
    for &(size, block) in split {
        let chosen = match anchor.filter(|_| pieces.is_empty()) {
            Some(anchor) => {
                price(state, view, (&pieces, &unit), size, anchor).map(|price| (price, anchor))
            }
            None => cheapest(state, view, (&pieces, &unit), size),
        };
        cost += chosen.map_or(0, |(price, _)| price);
        let Some((_, domain)) = chosen.filter(|_| cost < most) else {
            undo(state, view.vm, &pieces);
            return None;
        };
        state.load(view.vm, domain, i64::from(size));
        let weight = i64::from(size) * tenant.per_pair_ns;
        state
            .problem
            .site
            .add_extra_ns(domain, view.home, weight, &mut unit);
        match pieces
            .iter_mut()
            .find(|piece| block == FREE && piece.domain == domain)
        {
            Some(piece) => piece.size += size,
            None => pieces.push(Piece {
                cell,
                domain,
                size,
                block,
            }),
        }
    }
    cost += state.balance(view.vm, &pieces);
    undo(state, view.vm, &pieces);
    (cost < most).then(|| Offer {
        pieces,
        memory: view.memory.clone(),
        cost,
    })
}

fn cheapest(
    state: &mut State,
    view: &View,
    so_far: (&[Piece], &[i64]),
    size: u32,
) -> Option<(i64, u32)> {
    state.evaluations += view.domains.len() as u64;
    let priced = view
        .domains
        .iter()
        .filter_map(|&domain| Some((price(state, view, so_far, size, domain)?, domain)));
    priced.min()
}

/// What a piece adds to the cost on a domain; `None` where it does not fit.
fn price(
    state: &State,
    view: &View,
    (pieces, unit): (&[Piece], &[i64]),
    size: u32,
    domain: u32,
) -> Option<i64> {
    let own = own_count(pieces, domain);
    if !state.fits(view.vm, domain, own + view.earlier_count(domain), size) {
        return None;
    }
    let load = state.more_load_cost(view.vm, domain, size);
    Some(load + i64::from(size) * unit[domain as usize] + view.moving(domain, own, size))
}

fn undo(state: &mut State, vm: usize, pieces: &[Piece]) {
    for piece in pieces {
        state.load(vm, piece.domain, -i64::from(piece.size));
    }
}

fn own_count(pieces: &[Piece], domain: u32) -> u32 {
    pieces
        .iter()
        .filter(|piece| piece.domain == domain)
        .map(|piece| piece.size)
        .sum()
}

/// Where the VM's system threads cost least: beside its vCPUs if there is room.
fn best_system(state: &State, vm: usize, seat: &Seat) -> Option<u32> {
    let tenant = state.tenant(vm);
    let load = tenant.system.as_ref()?;
    let domains = (0..count(state.problem.site.domains.len()))
        .filter(|&domain| state.fits_system(vm, domain));
    let cost = |domain: u32| {
        let far = seat.pieces.iter().map(|piece| {
            i64::from(piece.size) * state.problem.site.extra_ns(piece.domain, domain, None)
        });
        state.more_cost(domain, load, 1) + tenant.per_system_ns * far.sum::<i64>()
    };
    domains.min_by_key(|&domain| (cost(domain), domain))
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
