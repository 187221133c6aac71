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
    let tenant = state.tenant(vm);
    if tenant.vcpus == 0 || tenant.room < tenant.vcpus {
        return None;
    }
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
    let mut prices = Prices::default();
    let homes = view::homes(state, vm, earlier);
    for memory in view::memories(state, vm, cell, &homes) {
        let view = View::new(state, vm, (cell, earlier), (memory, &homes));
        // Every partner is looked at from every domain.
        state.evaluations += (state.tenant(vm).partners.len() * view.domains.len()) as u64;
        let first = fewest(state, &view);
        best = better(state, &view, &mut prices, (&first, effort.anchors), best);
        if crowds(state, &view, best.as_ref()) {
            for split in more_splits(state, &view) {
                best = better(
                    state,
                    &view,
                    &mut prices,
                    (&split, effort.more_anchors),
                    best,
                );
            }
        }
    }
    best
}

/// The best offer so far, or a better one with this split.
fn better(
    state: &mut State,
    view: &View,
    prices: &mut Prices,
    (split, anchors): (&Split, usize),
    mut best: Option<Offer>,
) -> Option<Offer> {
    prices.prepare(state, view, split);
    for anchor in view.anchors(state, split, anchors) {
        let most = best.as_ref().map_or(i64::MAX, |best| best.cost);
        best = fill(state, view, prices, split, (anchor, most)).or(best);
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

/// Whether the best place so far presses on anything: then other splits are worth a try.
fn crowds(state: &State, view: &View, best: Option<&Offer>) -> bool {
    let Some(offer) = best else {
        return true;
    };
    let n: u32 = offer.pieces.iter().map(|piece| piece.size).sum();
    let free = i64::from(n) * CROWDING_PERMILLE * PER_MILLI;
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

/// What a piece of some size adds to the load of each domain, as long as the cell has no other piece there; the same
/// for every split and every home of its memory.
#[derive(Debug, Default)]
struct Prices {
    by_size: Vec<(u32, Vec<i64>)>,
}

/// A price that was not computed yet.
const UNKNOWN: i64 = i64::MIN;
/// The price of a domain where a piece does not fit.
const NO_ROOM: i64 = i64::MAX;

impl Prices {
    /// Computes what is missing for a split. None of the cell's pieces may sit meanwhile.
    fn prepare(&mut self, state: &State, view: &View, split: &Split) {
        for &(size, _) in split {
            let known = self.by_size.iter().position(|(known, _)| *known == size);
            let index = known.unwrap_or_else(|| {
                self.by_size
                    .push((size, vec![UNKNOWN; state.problem.site.domains.len()]));
                self.by_size.len() - 1
            });
            let row = &mut self.by_size[index].1;
            for &domain in &view.domains {
                if row[domain as usize] == UNKNOWN {
                    row[domain as usize] = load_price(state, view, 0, size, domain);
                }
            }
        }
    }

    /// By domain; the size must be prepared.
    fn of_size(&self, size: u32) -> &[i64] {
        let known = self.by_size.iter().find(|(known, _)| *known == size);
        known.map_or(&[], |(_, row)| row)
    }
}

/// What a piece adds to the load of a domain where the cell has `own` vCPUs already; [`NO_ROOM`] where it does not fit.
fn load_price(state: &State, view: &View, own: u32, size: u32, domain: u32) -> i64 {
    if state.fits(view.vm, domain, own + view.earlier_count(domain), size) {
        state.more_load_cost(view.vm, domain, size)
    } else {
        NO_ROOM
    }
}

/// Seats the pieces one by one, each where it costs least; the first at `anchor`, if there is one. `None` when a piece
/// fits nowhere, or when all of it does not cost less than `most`.
fn fill(
    state: &mut State,
    view: &View,
    prices: &Prices,
    split: &Split,
    (anchor, most): (Option<u32>, i64),
) -> Option<Offer> {
    let cell = count(view.cell);
    let mut pieces: Vec<Piece> = Vec::with_capacity(split.len());
    let mut unit = view.unit.clone();
    let mut cost = view.memory_moved;
    for &(size, block) in split {
        let row = prices.of_size(size);
        state.evaluations += view.domains.len() as u64;
        let chosen = cheapest(
            state,
            view,
            (&pieces, &unit, row),
            size,
            anchor.filter(|_| pieces.is_empty()),
        );
        cost += chosen.map_or(0, |(price, _)| price);
        let Some((_, domain)) = chosen.filter(|_| cost < most) else {
            undo(state, view.vm, &pieces);
            return None;
        };
        state.load(view.vm, domain, i64::from(size));
        let weight = i64::from(size) * state.tenant(view.vm).per_pair_ns;
        let site = &state.problem.site;
        site.add_extra_ns(domain, view.home, weight, (&view.domains, &mut unit));
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

/// The domain where a piece costs least, and what; only `anchor`, if there is one.
fn cheapest(
    state: &State,
    view: &View,
    (pieces, unit, row): (&[Piece], &[i64], &[i64]),
    size: u32,
    anchor: Option<u32>,
) -> Option<(i64, u32)> {
    let mut best: Option<(i64, u32)> = None;
    let only = anchor.map(|anchor| [anchor]);
    for &domain in only.as_ref().map_or(view.domains.as_slice(), |only| only) {
        let index = domain as usize;
        let own = own_count(pieces, domain);
        let load = if own == 0 {
            row[index]
        } else {
            load_price(state, view, own, size, domain)
        };
        if load == NO_ROOM {
            continue;
        }
        let price = load + i64::from(size) * unit[index] + view.moving(domain, own, size);
        if best.is_none_or(|(least, _)| price < least) {
            best = Some((price, domain));
        }
    }
    best
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
