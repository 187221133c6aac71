use model::tenant::NORMAL_SHARES;
use proptest::prelude::*;

use super::*;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// The same rules once more, in plain Rust with wide numbers: what the C is held against.
mod twin {
    use super::{Idle, Seat};

    fn narrow(wide: u128) -> u64 {
        u64::try_from(wide).unwrap_or(u64::MAX)
    }

    pub(super) fn charge(vtime: u64, ran_ns: u64, weight: u32) -> u64 {
        let passed = (u128::from(ran_ns) * 1000).div_ceil(u128::from(weight.max(1)));
        narrow(u128::from(vtime) + passed)
    }

    pub(super) fn wake_vtime(vtime: u64, queue_vtime: u64, slice_ns: u64) -> u64 {
        vtime.max(queue_vtime.saturating_sub(slice_ns))
    }

    pub(super) fn move_vtime(vtime: u64, from_vtime: u64, to_vtime: u64) -> u64 {
        let moved = i128::from(vtime) - i128::from(from_vtime) + i128::from(to_vtime);
        narrow(moved.max(0).unsigned_abs())
    }

    pub(super) fn slice(base_ns: u64, waiting: u32, cpus: u32) -> u64 {
        let share = u128::from(base_ns) * u128::from(cpus) / u128::from(waiting.max(1));
        if waiting <= cpus {
            base_ns
        } else {
            narrow(share).max(500_000).min(base_ns)
        }
    }

    pub(super) fn preempts(running_vtime: u64, woken_vtime: u64, slice_ns: u64) -> bool {
        i128::from(running_vtime) - i128::from(woken_vtime) > i128::from(slice_ns)
    }

    /// Whether the wait of all who would gain is worth the way.
    fn is_worth(distance: u32, waited_ns: u64, waiting: u64) -> bool {
        let cost_ns: u128 = match distance {
            0 => 0,
            1 => 1_600_000,
            2 => 2_200_000,
            _ => 5_600_000,
        };
        u128::from(waited_ns) * u128::from(waiting.clamp(1, 8)) >= cost_ns
    }

    pub(super) fn seat(idle: Idle, distance: u32, waited_ns: u64, waiting: u32) -> Seat {
        let home = [
            (Idle::PREV_CORE, Seat::PrevCore),
            (Idle::HOME_CORE, Seat::HomeCore),
            (Idle::PREV_THREAD, Seat::PrevThread),
            (Idle::HOME_THREAD, Seat::HomeThread),
        ];
        let away = [
            (Idle::AWAY_CORE, Seat::AwayCore),
            (Idle::AWAY_THREAD, Seat::AwayThread),
        ];
        let spills = is_worth(distance, waited_ns, u64::from(waiting) + 1);
        home.iter()
            .chain(away.iter().filter(|_| spills))
            .find(|(flag, _)| idle.contains(*flag))
            .map_or(Seat::Wait, |(_, seat)| *seat)
    }

    pub(super) fn may_steal(distance: u32, waited_ns: u64, waiting: u32) -> bool {
        waiting != 0 && is_worth(distance, waited_ns, u64::from(waiting))
    }
}

/// Any number, and often one at the edge of something: of the type, of a cost, of a slice.
fn nanos() -> impl Strategy<Value = u64> {
    let edges = vec![
        0,
        1,
        200_000,
        500_000,
        1_600_000,
        2_200_000,
        5_600_000,
        u64::from(u32::MAX),
        u64::MAX / 1000,
        u64::MAX,
    ];
    prop_oneof![
        any::<u64>(),
        0..20_000_000u64,
        (prop::sample::select(edges), 0..5u64)
            .prop_map(|(edge, step)| edge.wrapping_add(step).wrapping_sub(2)),
    ]
}

/// Any count, and often a small or an extreme one.
fn count() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        0..40u32,
        Just(NORMAL_SHARES),
        Just(u32::MAX - 1),
        Just(u32::MAX)
    ]
}

/// Any set, with bits that mean nothing.
fn idle() -> impl Strategy<Value = Idle> {
    prop_oneof![any::<u32>(), 0..64u32, Just(u32::MAX)].prop_map(Idle)
}

fn distance() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..5u32, 1 => any::<u32>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn virtual_time_is_as_in_the_twin(a in nanos(), b in nanos(), c in nanos(), weight in count()) {
        prop_assert_eq!(charge(a, b, weight), twin::charge(a, b, weight));
        prop_assert_eq!(wake_vtime(a, b, c), twin::wake_vtime(a, b, c));
        prop_assert_eq!(move_vtime(a, b, c), twin::move_vtime(a, b, c));
        prop_assert_eq!(preempts(a, b, c), twin::preempts(a, b, c));
        let near = a.saturating_sub(c);
        prop_assert_eq!(preempts(a, near, c), twin::preempts(a, near, c));
    }

    #[test]
    fn slices_are_as_in_the_twin(base_ns in nanos(), waiting in count(), cpus in count()) {
        prop_assert_eq!(slice(base_ns, waiting, cpus), twin::slice(base_ns, waiting, cpus));
    }

    #[test]
    fn seats_and_steals_are_as_in_the_twin(
        idle in idle(),
        distance in distance(),
        waited_ns in nanos(),
        waiting in count(),
    ) {
        prop_assert_eq!(
            seat(idle, distance, waited_ns, waiting),
            twin::seat(idle, distance, waited_ns, waiting)
        );
        prop_assert_eq!(
            may_steal(distance, waited_ns, waiting),
            twin::may_steal(distance, waited_ns, waiting)
        );
    }

    #[test]
    fn who_runs_longer_or_weighs_less_is_charged_no_less(
        vtime in nanos(),
        ran in nanos(),
        more in nanos(),
        weight in count(),
        heavier in count(),
    ) {
        let charged = charge(vtime, ran, weight);
        prop_assert!(charge(vtime, ran.saturating_add(more), weight) >= charged);
        prop_assert!(charge(vtime, ran, weight.saturating_add(heavier)) <= charged);
        prop_assert!(charged > vtime || ran == 0 || charged == u64::MAX, "a run was free");
    }

    #[test]
    fn sleeping_longer_earns_no_more_than_a_slice(vtime in nanos(), clock in nanos(), slice_ns in nanos()) {
        let woken = wake_vtime(vtime, clock, slice_ns);
        prop_assert!(woken >= vtime);
        prop_assert!(clock.saturating_sub(woken) <= slice_ns);
        prop_assert!(!preempts(clock, woken, slice_ns), "credit alone must not interrupt");
    }

    #[test]
    fn moving_there_and_back_changes_nothing(
        lag in 0..MS,
        ahead: bool,
        from in MS..u64::MAX / 2,
        to in MS..u64::MAX / 2,
    ) {
        let vtime = if ahead { from + lag } else { from - lag };
        prop_assert_eq!(move_vtime(move_vtime(vtime, from, to), to, from), vtime);
    }

    #[test]
    fn slices_stay_between_their_bounds_and_shrink_with_the_queue(
        base_ns in nanos(),
        waiting in count(),
        more in count(),
        cpus in count(),
    ) {
        let now = slice(base_ns, waiting, cpus);
        prop_assert!(now <= base_ns);
        prop_assert!(now >= base_ns.min(500 * US));
        prop_assert!(slice(base_ns, waiting.saturating_add(more), cpus) <= now);
    }

    #[test]
    fn of_two_one_at_most_interrupts_the_other(a in nanos(), b in nanos(), slice_ns in nanos()) {
        prop_assert!(!(preempts(a, b, slice_ns) && preempts(b, a, slice_ns)));
    }

    #[test]
    fn a_seat_was_idle_and_waiting_is_for_those_without_one_at_home(
        idle in idle(),
        distance in distance(),
        waited_ns in nanos(),
        waiting in count(),
    ) {
        let taken = match seat(idle, distance, waited_ns, waiting) {
            Seat::PrevCore => Idle::PREV_CORE,
            Seat::HomeCore => Idle::HOME_CORE,
            Seat::PrevThread => Idle::PREV_THREAD,
            Seat::HomeThread => Idle::HOME_THREAD,
            Seat::AwayCore => Idle::AWAY_CORE,
            Seat::AwayThread => Idle::AWAY_THREAD,
            Seat::Wait => Idle::NONE,
        };
        prop_assert!(idle.contains(taken));
        let home = [Idle::PREV_CORE, Idle::HOME_CORE, Idle::PREV_THREAD, Idle::HOME_THREAD];
        let has_home = home.iter().any(|flag| idle.contains(*flag));
        prop_assert_eq!(home.contains(&taken), has_home);
    }

    #[test]
    fn what_is_not_worth_it_is_not_farther_away_nor_earlier(
        near in distance(),
        farther in distance(),
        waited_ns in nanos(),
        longer in nanos(),
        waiting in count(),
    ) {
        let far = near.saturating_add(farther);
        let steals = |distance, waited_ns| may_steal(distance, waited_ns, waiting);
        let spills = |distance, waited_ns| {
            seat(Idle::AWAY_CORE, distance, waited_ns, waiting) == Seat::AwayCore
        };
        let later = waited_ns.saturating_add(longer);
        prop_assert!(steals(near, waited_ns) || !steals(far, waited_ns));
        prop_assert!(spills(near, waited_ns) || !spills(far, waited_ns));
        prop_assert!(steals(near, later) || !steals(near, waited_ns));
        prop_assert!(spills(near, later) || !spills(near, waited_ns));
        prop_assert!(patience(near, waiting) <= patience(far, waiting));
    }

    #[test]
    fn patience_is_when_stealing_begins(distance in distance(), waiting in 1..u32::MAX) {
        let patience_ns = patience(distance, waiting);
        prop_assert!(may_steal(distance, patience_ns, waiting));
        prop_assert!(patience_ns == 0 || !may_steal(distance, patience_ns - 1, waiting));
        prop_assert!(patience(distance, waiting + 1) <= patience_ns, "a longer queue waits no longer");
    }
}

#[test]
#[rustfmt::skip]
fn virtual_time_passes_by_weight() {
    for (words, vtime, ran_ns, weight, expect) in [
        ("normal weight: like real time", 5 * MS, 3 * MS, NORMAL_SHARES, 8 * MS),
        ("twice the weight: half as fast", 5 * MS, 3 * MS, 2 * NORMAL_SHARES, 6_500_000),
        ("half the weight: twice as fast", 5 * MS, 3 * MS, NORMAL_SHARES / 2, 11 * MS),
        ("no run, no charge", 5 * MS, 0, NORMAL_SHARES, 5 * MS),
        ("no weight counts as 1", 0, 1, 0, 1000),
        ("no run is free", 0, 1, u32::MAX, 1),
        ("time ends, it does not turn over", u64::MAX - 1, 3 * MS, NORMAL_SHARES, u64::MAX),
        ("nor where it is multiplied", 0, u64::MAX, 1, u64::MAX),
        ("the longest run at normal weight", 0, u64::MAX, NORMAL_SHARES, u64::MAX),
    ] {
        assert_eq!(charge(vtime, ran_ns, weight), expect, "{words}");
    }
}

#[test]
fn two_weights_share_a_cpu_by_weight() {
    // Always the least virtual time runs next, a slice each: after a second the times are as 1 to 3.
    let weights = [1000, 3000];
    let (mut vtimes, mut ran) = ([0u64; 2], [0u64; 2]);
    while ran.iter().sum::<u64>() < 1000 * MS {
        let next = usize::from(vtimes[1] < vtimes[0]);
        vtimes[next] = charge(vtimes[next], 500 * US, weights[next]);
        ran[next] += 500 * US;
    }
    assert_eq!(ran, [250 * MS, 750 * MS]);
}

#[test]
#[rustfmt::skip]
fn sleepers_have_credit_and_new_homes_keep_it() {
    for (words, vtime, clock, expect) in [
        ("a long sleep is worth a slice", 0, 100 * MS, 97 * MS),
        ("a short sleep is worth itself", 99 * MS, 100 * MS, 99 * MS),
        ("debt is not forgiven", 120 * MS, 100 * MS, 120 * MS),
        ("a young queue starts at 0", 0, MS, 0),
    ] {
        assert_eq!(wake_vtime(vtime, clock, 3 * MS), expect, "{words}");
    }
    for (words, vtime, from, to, expect) in [
        ("credit goes along", 98 * MS, 100 * MS, 7 * MS, 5 * MS),
        ("debt goes along", 120 * MS, 100 * MS, 7 * MS, 27 * MS),
        ("before the beginning is the beginning", 0, 100 * MS, 7 * MS, 0),
        ("after the end is the end", u64::MAX, 0, 1, u64::MAX),
    ] {
        assert_eq!(move_vtime(vtime, from, to), expect, "{words}");
    }
}

#[test]
#[rustfmt::skip]
fn slices_shrink_when_more_wait_than_there_are_cpus() {
    for (words, base_ns, waiting, cpus, expect) in [
        ("nobody waits", 3 * MS, 0, 8, 3 * MS),
        ("nobody waits where nobody can run", 3 * MS, 0, 0, 3 * MS),
        ("one for each CPU", 3 * MS, 8, 8, 3 * MS),
        ("two for each CPU", 3 * MS, 16, 8, 1_500 * US),
        ("never below what caches need", 3 * MS, 800, 8, 500 * US),
        ("a short base is kept", 100 * US, 800, 8, 100 * US),
        ("an LLC without CPUs", 3 * MS, 1, 0, 500 * US),
        ("the longest base", u64::MAX, u32::MAX, u32::MAX / 2, twin::slice(u64::MAX, u32::MAX, u32::MAX / 2)),
    ] {
        assert_eq!(slice(base_ns, waiting, cpus), expect, "{words}");
    }
}

#[test]
#[rustfmt::skip]
fn interrupting_takes_more_than_a_slice() {
    for (words, running, woken, expect) in [
        ("far behind", 10 * MS, 2 * MS, true),
        ("a slice and a nanosecond", 10 * MS, 7 * MS - 1, true),
        ("just a slice", 10 * MS, 7 * MS, false),
        ("ahead", 10 * MS, 20 * MS, false),
        ("a full credit against one at the clock", 100 * MS, wake_vtime(0, 100 * MS, 3 * MS), false),
        ("a full credit against one beyond the clock", 101 * MS, wake_vtime(0, 100 * MS, 3 * MS), true),
    ] {
        assert_eq!(preempts(running, woken, 3 * MS), expect, "{words}");
    }
}

#[test]
#[rustfmt::skip]
fn a_woken_vcpu_goes_to_the_best_seat_at_home() {
    let all = Idle(u32::MAX);
    let (pc, hc) = (Idle::PREV_CORE, Idle::HOME_CORE);
    let (pt, ht) = (Idle::PREV_THREAD, Idle::HOME_THREAD);
    let away = Idle::AWAY_CORE | Idle::AWAY_THREAD;
    for (words, idle, expect) in [
        ("its last core wins over everything", all, Seat::PrevCore),
        ("an idle core at home wins over its last CPU beside a busy sibling", hc | pt | ht | away, Seat::HomeCore),
        ("its last CPU wins over another thread at home", pt | ht | away, Seat::PrevThread),
        ("a thread at home wins over a whole core away", ht | away, Seat::HomeThread),
        ("the last core wins over another core at home", pc | hc, Seat::PrevCore),
        ("nothing is idle", Idle::NONE, Seat::Wait),
        ("bits without a meaning are no seat", Idle(64), Seat::Wait),
    ] {
        // However crowded the queue and however near the other LLC.
        for (distance, waited_ns, waiting) in
            [(0, 0, 0), (1, 0, 0), (1, u64::MAX, u32::MAX), (3, 0, 0)]
        {
            assert_eq!(seat(idle, distance, waited_ns, waiting), expect, "{words}");
        }
    }
}

#[test]
#[rustfmt::skip]
fn a_woken_vcpu_leaves_home_when_waiting_costs_more() {
    const QUADRANT: u32 = 1;
    const PACKAGE: u32 = 2;
    const REMOTE: u32 = 3;
    let both = Idle::AWAY_CORE | Idle::AWAY_THREAD;
    for (words, idle, distance, waited_ns, waiting, expect) in [
        ("a queue of 1 that waited 10 us does not spill to another package", both, REMOTE, 10 * US, 1, Seat::Wait),
        ("nor to the LLC beside it", both, QUADRANT, 10 * US, 1, Seat::Wait),
        ("nor does a long queue for that", both, QUADRANT, 10 * US, 1000, Seat::Wait),
        ("an empty queue never spills", both, QUADRANT, 0, 0, Seat::Wait),
        ("behind a head that waited 0.8 ms: to the LLC beside it", both, QUADRANT, 800 * US, 1, Seat::AwayCore),
        ("but not across the package", both, PACKAGE, 800 * US, 1, Seat::Wait),
        ("which takes 1.1 ms", both, PACKAGE, 1_100 * US, 1, Seat::AwayCore),
        ("nor to another package", both, REMOTE, 1_100 * US, 1, Seat::Wait),
        ("which takes 2.8 ms", both, REMOTE, 2_800 * US, 1, Seat::AwayCore),
        ("a longer queue leaves sooner", both, REMOTE, 1_400 * US, 3, Seat::AwayCore),
        ("a crowd after 200 us to the LLC beside it", both, QUADRANT, 200 * US, 50, Seat::AwayCore),
        ("but not before", both, QUADRANT, 199 * US, 50, Seat::Wait),
        ("a crowd after 700 us to another package", both, REMOTE, 700 * US, u32::MAX, Seat::AwayCore),
        ("a thread away, when there is no whole core", Idle::AWAY_THREAD, QUADRANT, 5 * MS, 4, Seat::AwayThread),
        ("nowhere, when nothing is idle", Idle::NONE, QUADRANT, u64::MAX, 4, Seat::Wait),
        ("what is farther than another package is no farther", both, 17, 2_800 * US, 1, Seat::AwayCore),
    ] {
        assert_eq!(seat(idle, distance, waited_ns, waiting), expect, "{words}");
    }
}

#[test]
#[rustfmt::skip]
fn an_idle_cpu_steals_what_has_waited_for_long() {
    for (words, distance, waited_ns, waiting, expect) in [
        ("its own queue at once", 0, 0, 1, true),
        ("nothing from an empty queue", 0, 0, 0, false),
        ("nothing from an empty queue, whatever the clock says", 1, u64::MAX, 0, false),
        ("a lone head beside it after 1.6 ms", 1, 1_600 * US, 1, true),
        ("not before", 1, 1_599 * US, 1, false),
        ("one of two after half of it", 1, 800 * US, 2, true),
        ("one of three after a third of it", 3, 1_866_667, 3, true),
        ("not a nanosecond before", 3, 1_866_666, 3, false),
        ("across the package after 2.2 ms", 2, 2_200 * US, 1, true),
        ("not as soon as from beside it", 2, 1_600 * US, 1, false),
        ("from another package after 5.6 ms", 3, 5_600 * US, 1, true),
        ("not as soon as across its own", 3, 2_200 * US, 1, false),
        ("a few microseconds move nobody", 1, 50 * US, u32::MAX, false),
        ("nobody starves", u32::MAX, 6 * MS, 1, true),
    ] {
        assert_eq!(may_steal(distance, waited_ns, waiting), expect, "{words}");
    }
    assert_eq!(patience(3, 0), patience(3, 1), "an empty queue is as one with a head");
}
