//! Better seats for VMs that may still sit anywhere: one VM at a time until none gains, then few at a time.

use super::insert::{Effort, best_seat};
use super::state::{Seat, State};

/// Evaluations of a domain that one search may spend for itself, and for each VM. About 10 ns each; see
/// docs/performance.md for what they buy.
const BUDGET: u64 = 60_000;
const BUDGET_PER_VM: u64 = 100;
/// The search ends within one part in so many of what cannot be undercut.
const GOOD_ENOUGH: i64 = 1000;
/// Draws of three VMs that may fail for each VM before the search gives up.
const IDLE_DRAWS: usize = 50;

/// A search over VMs that may sit anywhere.
#[derive(Debug)]
struct Search<'s, 'p> {
    state: &'s mut State<'p>,
    vms: Vec<usize>,
    /// What each VM costs on an empty host, by position in `vms`: nobody gains below.
    ideal: Vec<i64>,
    budget: u64,
}

/// Seats all of `vms` that fit, in order, and improves until nothing helps or the budget is spent. Returns those that
/// fit nowhere.
pub(super) fn seat_all(state: &mut State, vms: &[usize]) -> Vec<usize> {
    let budget = state.evaluations + BUDGET + BUDGET_PER_VM * vms.len() as u64;
    let (mut seated, mut left_out) = (Vec::new(), Vec::new());
    for &vm in vms {
        if let Some(seat) = best_seat(state, vm, Effort::QUICK) {
            state.put(vm, seat);
            seated.push(vm);
        } else {
            left_out.push(vm);
        }
    }
    let ideal = ideal_costs(state, &seated);
    if left_out.is_empty() && is_optimal(state) {
        return left_out;
    }
    let mut search = Search {
        state,
        vms: seated,
        ideal,
        budget,
    };
    search.settle();
    search.regroup_pairs();
    search.regroup_drawn();
    // A VM that found no place at first may find one after the others have moved.
    left_out.retain(|&vm| {
        let seat = best_seat(search.state, vm, Effort::THOROUGH);
        let is_out = seat.is_none();
        if let Some(seat) = seat {
            search.state.put(vm, seat);
        }
        is_out
    });
    // The end is always a placement that no VM would leave by itself, so that the next plan leaves it alone.
    search.vms = vms
        .iter()
        .copied()
        .filter(|vm| !left_out.contains(vm))
        .collect();
    search.ideal = ideal_costs(search.state, &search.vms);
    search.budget = search.state.evaluations + BUDGET;
    search.settle();
    left_out
}

/// Whether nothing can be gained any more: by convexity, all load on one domain with the room of all is never dearer
/// than the same load on several, and no VM by itself costs less than on an empty host.
fn is_optimal(state: &State) -> bool {
    let seated: Vec<usize> = (0..state.seats.len())
        .filter(|&vm| state.is_seated(vm))
        .collect();
    let mut empty = State::new(state.problem);
    let mut last: Option<(usize, i64)> = None;
    let mut bound = state.whole_host_cost();
    for vm in seated {
        let own = match last.filter(|&(twin, _)| empty.tenant(twin) == empty.tenant(vm)) {
            Some((_, own)) => own,
            None => {
                best_seat(&mut empty, vm, Effort::QUICK).map_or(0, |seat| empty.own_cost(vm, &seat))
            }
        };
        last = Some((vm, own));
        bound += own;
    }
    state.cost - bound <= bound / GOOD_ENOUGH
}

/// What each VM costs alone on the empty host. VMs that are alike come in a row and are looked at once.
pub(super) fn ideal_costs(state: &State, vms: &[usize]) -> Vec<i64> {
    let mut empty = State::new(state.problem);
    let mut costs: Vec<i64> = Vec::with_capacity(vms.len());
    for (index, &vm) in vms.iter().enumerate() {
        let twin = index
            .checked_sub(1)
            .filter(|&last| empty.tenant(vms[last]) == empty.tenant(vm));
        let cost = twin.map_or_else(|| alone(&mut empty, vm), |last| costs[last]);
        costs.push(cost);
    }
    costs
}

fn alone(empty: &mut State, vm: usize) -> i64 {
    let Some(seat) = best_seat(empty, vm, Effort::QUICK) else {
        return 0;
    };
    empty.put(vm, seat);
    let cost = empty.cost;
    empty.take(vm);
    cost
}

impl Search<'_, '_> {
    /// Whether the VM at a position has anything to gain.
    fn presses(&self, position: usize) -> bool {
        self.state.burden(self.vms[position]) > self.ideal[position]
    }

    fn is_spent(&self) -> bool {
        self.state.evaluations >= self.budget
    }

    /// Moves one VM at a time to its best seat until none gains.
    fn settle(&mut self) {
        let mut since_gain = 0;
        for position in (0..self.vms.len()).cycle() {
            if since_gain >= self.vms.len() || self.is_spent() {
                return;
            }
            since_gain += 1;
            let vm = self.vms[position];
            if self.presses(position)
                && (reseat(self.state, &[vm], &[0], Effort::QUICK) || shift(self.state, vm))
            {
                since_gain = 0;
            }
        }
    }

    /// Takes two VMs out and seats them again in both orders, until no pair gains in which one has something to gain.
    fn regroup_pairs(&mut self) {
        let n = self.vms.len();
        let mut gained = true;
        while gained {
            gained = false;
            for (a, b) in (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))) {
                if self.is_spent() {
                    return;
                }
                if self.presses(a) || self.presses(b) {
                    let pair = [self.vms[a], self.vms[b]];
                    gained |= reseat(self.state, &pair, &[1, 0], Effort::QUICK)
                        || reseat(self.state, &pair, &[0, 1], Effort::THOROUGH);
                }
            }
        }
    }

    /// Takes three VMs out, drawn by a fixed sequence, and seats them again.
    fn regroup_drawn(&mut self) {
        let n = self.vms.len();
        let mut sequence = Sequence(0x9E37_79B9_7F4A_7C15);
        let mut idle = 0;
        while n >= 3 && !self.is_spent() && idle < IDLE_DRAWS * n {
            if idle % n == 0 && !(0..n).any(|position| self.presses(position)) {
                return;
            }
            idle += 1;
            let [a, b, c] = std::array::from_fn(|_| sequence.below(n));
            let drawn = [self.vms[a], self.vms[b], self.vms[c]];
            if a != b
                && b != c
                && a != c
                && reseat(self.state, &drawn, &[0, 1, 2], Effort::THOROUGH)
            {
                idle = 0;
                self.settle();
            }
        }
    }
}

/// Takes VMs out and seats them in the given order; keeps the outcome if it costs less.
pub(super) fn reseat(state: &mut State, vms: &[usize], order: &[usize], effort: Effort) -> bool {
    let before = state.cost;
    let old: Vec<Seat> = vms.iter().map(|&vm| state.take(vm)).collect();
    let mut seated = 0;
    for &index in order {
        let Some(seat) = best_seat(state, vms[index], effort) else {
            break;
        };
        state.put(vms[index], seat);
        seated += 1;
    }
    if seated == order.len() && state.cost < before {
        return true;
    }
    for &index in &order[..seated] {
        state.take(vms[index]);
    }
    for (&vm, seat) in vms.iter().zip(old) {
        state.put(vm, seat);
    }
    false
}

/// Moves a VM by as little as possible: as a VM that sits already and pays for its moves would. Keeps the outcome if it
/// costs less.
fn shift(state: &mut State, vm: usize) -> bool {
    let before = state.cost;
    let old = state.take(vm);
    let was_before = std::mem::replace(&mut state.before[vm], old.clone());
    let seat = best_seat(state, vm, Effort::QUICK);
    state.before[vm] = was_before;
    state.put(vm, seat.unwrap_or_else(|| old.clone()));
    if state.cost < before {
        return true;
    }
    state.take(vm);
    state.put(vm, old);
    false
}

/// A fixed sequence of numbers (xorshift, Marsaglia 2003): variety without chance.
#[derive(Debug)]
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % n as u64).unwrap_or(0)
    }
}
