//! Better seats for VMs that may still sit anywhere: one VM at a time until none gains, then few at a time.

use super::insert::{Effort, best_seat};
use super::state::{Seat, State};
use super::{floor, polish};
use crate::cost::problem::Problem;
use crate::cost::site::{HINGES, Hinges};
use crate::cost::weights::Load;

/// How many evaluations of a domain a search may spend: about 10 ns each; docs/performance.md says what they buy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Patience {
    /// For itself.
    pub(super) search: u64,
    /// For each VM.
    pub(super) per_vm: u64,
}

/// The search ends within one part in so many of what cannot be undercut.
const GOOD_ENOUGH: i64 = 1000;
/// VMs that are asked to make room for one that found none.
const SQUEEZED: usize = 32;
/// Draws of some VMs that may fail for each VM before the search gives up.
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

/// What became of VMs that wanted seats.
#[derive(Debug)]
pub(super) struct Seating {
    /// VMs that have one, in the order they were given.
    pub(super) vms: Vec<usize>,
    /// What each of them costs alone on the empty host.
    pub(super) ideal: Vec<i64>,
    /// VMs that fit nowhere.
    pub(super) left_out: Vec<usize>,
}

/// Seats all of `vms` that fit, in order, and improves until nothing helps or the budget is spent.
pub(super) fn seat_all(state: &mut State, vms: &[usize], patience: Patience) -> Seating {
    let allowance = patience.search + patience.per_vm * vms.len() as u64;
    let budget = state.evaluations + allowance;
    let (mut seated, mut left_out) = (Vec::new(), Vec::new());
    state.set_hinges(levelled(state.problem));
    for &vm in vms {
        if let Some(seat) = best_seat(state, vm, Effort::QUICK) {
            state.put(vm, seat);
            seated.push(vm);
        } else {
            left_out.push(vm);
        }
    }
    state.set_hinges(state.problem.hinges.clone());
    let ideal = ideal_costs(state, &seated);
    if left_out.is_empty() && is_optimal(state) {
        return Seating {
            vms: seated,
            ideal,
            left_out,
        };
    }
    let mut search = Search {
        state,
        vms: seated,
        ideal,
        budget,
    };
    search.polish();
    search.settle();
    search.regroup_drawn();
    let others = search.vms.clone();
    left_out.retain(|&vm| !squeeze_in(search.state, vm, &others));
    // The end is a placement that no VM would leave by itself, if the budget lasts.
    search.vms = vms
        .iter()
        .copied()
        .filter(|vm| !left_out.contains(vm))
        .collect();
    search.ideal = ideal_costs(search.state, &search.vms);
    search.budget = search.state.evaluations + allowance;
    search.settle();
    Seating {
        vms: search.vms,
        ideal: search.ideal,
        left_out,
    }
}

/// Seats VMs that found no place before, but do now that others have moved. Returns whether there are any.
pub(super) fn seat_left_out(state: &mut State, seating: &mut Seating) -> bool {
    let mut found = false;
    for vm in std::mem::take(&mut seating.left_out) {
        let quick = best_seat(state, vm, Effort::QUICK);
        let Some(seat) = quick.or_else(|| best_seat(state, vm, Effort::THOROUGH)) else {
            seating.left_out.push(vm);
            continue;
        };
        state.put(vm, seat);
        seating.vms.push(vm);
        seating.ideal.extend(ideal_costs(state, &[vm]));
        found = true;
    }
    found
}

/// The hinges as they look from the end, when everybody sits: load up to what each domain gets of all load in proportion
/// to its room costs nothing extra, since it has to go somewhere. Who is seated first would otherwise spread over cores
/// that will be shared anyway.
fn levelled(problem: &Problem) -> Vec<Hinges> {
    let mut all = Load::default();
    for tenant in &problem.tenants {
        all.add(&tenant.load, i64::from(tenant.vcpus));
    }
    let mut levelled = problem.hinges.clone();
    for (index, (_, resource)) in HINGES.iter().enumerate() {
        let room: i64 = problem
            .hinges
            .iter()
            .map(|hinges| hinges.thresholds[index])
            .sum();
        let wanted = all.of(*resource);
        if wanted > room && room > 0 {
            for hinges in &mut levelled {
                let share =
                    i128::from(hinges.thresholds[index]) * i128::from(wanted) / i128::from(room);
                hinges.thresholds[index] = i64::try_from(share).unwrap_or(i64::MAX);
            }
        }
    }
    levelled
}

/// Whether nothing can be gained any more: by convexity, all load on one domain with the room of all is never dearer
/// than the same load on several, and no VM by itself costs less than its floor, or than where it sits if it need not
/// keep to its capacities there. A seat of its own choice on an empty host would be no bound: it does not look for
/// uneven splits where nothing crowds.
fn is_optimal(state: &State) -> bool {
    let seated = (0..state.seats.len()).filter(|&vm| state.is_seated(vm));
    let empty = State::new(state.problem);
    let nearest_ns = floor::nearest_ns(state);
    let mut last: Option<(usize, i64)> = None;
    let mut bound = state.whole_host_cost();
    for vm in seated {
        let own = match last.filter(|&(twin, _)| empty.tenant(twin) == empty.tenant(vm)) {
            Some((_, own)) => own,
            None => floor::own(state, vm, nearest_ns),
        };
        last = Some((vm, own));
        bound += own.min(empty.own_cost(vm, &state.seats[vm]));
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

    /// Small changes to one VM, then swaps of two, until none gains.
    fn polish(&mut self) {
        let n = self.vms.len();
        let mut gained = true;
        while gained {
            gained = false;
            for position in 0..n {
                while !self.is_spent()
                    && self.presses(position)
                    && polish::polish(self.state, self.vms[position])
                {
                    gained = true;
                }
            }
            for (a, b) in (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))) {
                if self.is_spent() {
                    return;
                }
                if self.presses(a) || self.presses(b) {
                    gained |= polish::swap(self.state, self.vms[a], self.vms[b]);
                }
            }
        }
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

    /// Takes two to four VMs out, drawn by a fixed sequence among those that have something to gain and any others, seats
    /// them again, makes small changes, and keeps what costs less.
    fn regroup_drawn(&mut self) {
        let n = self.vms.len();
        let mut sequence = Sequence(0x9E37_79B9_7F4A_7C15);
        let mut idle = 0;
        while n >= 2 && !self.is_spent() && idle < IDLE_DRAWS * n {
            // Looking at all VMs is work, too.
            self.state.evaluations += n as u64;
            let pressing: Vec<usize> = (0..n).filter(|&position| self.presses(position)).collect();
            if pressing.is_empty() {
                return;
            }
            let mut drawn = vec![pressing[sequence.below(pressing.len())]];
            for _ in 0..=sequence.below(3) {
                let other = sequence.below(n);
                if !drawn.contains(&other) {
                    drawn.insert(sequence.below(drawn.len() + 1), other);
                }
            }
            idle = if self.shake(&drawn) { 0 } else { idle + 1 };
        }
    }

    /// Seats the drawn VMs anew, in their order, with small changes to them and swaps with all others afterwards. Keeps
    /// the outcome if it costs less.
    fn shake(&mut self, drawn: &[usize]) -> bool {
        let (seats, cost) = (self.state.seats.clone(), self.state.cost);
        let vms: Vec<usize> = drawn.iter().map(|&position| self.vms[position]).collect();
        for &vm in &vms {
            self.state.take(vm);
        }
        let mut all_sit = true;
        for &vm in &vms {
            match best_seat(self.state, vm, Effort::QUICK) {
                Some(seat) => self.state.put(vm, seat),
                None => all_sit = false,
            }
        }
        if all_sit {
            self.polish_around(&vms);
        }
        if all_sit && self.state.cost < cost {
            return true;
        }
        self.restore(seats);
        false
    }

    fn restore(&mut self, seats: Vec<Seat>) {
        let changed: Vec<usize> = (0..seats.len())
            .filter(|&vm| self.state.seats[vm] != seats[vm])
            .collect();
        for &vm in &changed {
            self.state.take(vm);
        }
        for (vm, seat) in seats
            .into_iter()
            .enumerate()
            .filter(|(vm, _)| changed.contains(vm))
        {
            self.state.put(vm, seat);
        }
    }

    /// Small changes to some VMs, and swaps of theirs with all others.
    fn polish_around(&mut self, vms: &[usize]) {
        let mut gained = true;
        while gained && !self.is_spent() {
            gained = false;
            for &vm in vms {
                while !self.is_spent() && polish::polish(self.state, vm) {
                    gained = true;
                }
            }
            for (&vm, other) in vms
                .iter()
                .flat_map(|vm| (0..self.vms.len()).map(move |other| (vm, other)))
            {
                let other = self.vms[other];
                if vm != other && !self.is_spent() {
                    gained |= polish::swap(self.state, vm, other);
                }
            }
        }
    }
}

/// Seats a VM that found no place: as things are now, or first, before those it keeps apart from, or before any one of
/// the smallest others.
fn squeeze_in(state: &mut State, vm: usize, others: &[usize]) -> bool {
    let label = state.tenant(vm).apart.map(|(label, _)| label);
    let is_mate = |other: &usize| {
        label.is_some() && state.tenant(*other).apart.map(|(label, _)| label) == label
    };
    let mates: Vec<usize> = others.iter().copied().filter(is_mate).collect();
    if seat_before(state, vm, &[]) || !mates.is_empty() && seat_before(state, vm, &mates) {
        return true;
    }
    others
        .iter()
        .rev()
        .take(SQUEEZED)
        .any(|&other| seat_before(state, vm, &[other]))
}

/// Takes VMs out, seats `vm`, and them again. Undoes everything when one of them finds no place.
fn seat_before(state: &mut State, vm: usize, others: &[usize]) -> bool {
    let old: Vec<Seat> = others.iter().map(|&other| state.take(other)).collect();
    let mut seated = Vec::with_capacity(others.len() + 1);
    for &next in [vm].iter().chain(others) {
        let Some(seat) = best_seat(state, next, Effort::THOROUGH) else {
            break;
        };
        state.put(next, seat);
        seated.push(next);
    }
    if seated.len() == others.len() + 1 {
        return true;
    }
    for &vm in &seated {
        state.take(vm);
    }
    for (&other, seat) in others.iter().zip(old) {
        state.put(other, seat);
    }
    false
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
