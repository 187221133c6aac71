//! The queue against a list that is kept sorted.

use proptest::prelude::*;

use super::*;
use crate::time::{S, US};

/// What must come out: all that waits, in order.
#[derive(Default)]
struct Model {
    waiting: Vec<(Nanos, u32)>,
    scheduled: u32,
    now: Nanos,
}

impl Model {
    fn push(&mut self, at: Nanos) -> u32 {
        let place = self.waiting.partition_point(|it| it.0 <= at);
        self.waiting.insert(place, (at, self.scheduled));
        self.scheduled += 1;
        self.scheduled - 1
    }

    fn pop(&mut self) -> Option<(Nanos, u32)> {
        let first = (!self.waiting.is_empty()).then(|| self.waiting.remove(0));
        self.now = first.map_or(self.now, |it| it.0);
        first
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// After the event taken last, so many nanoseconds.
    After(Nanos),
    /// At the moment of the event taken last, so many events.
    Burst(u8),
    /// At any time, the past included.
    At(Nanos),
    Pop(u8),
    PopBefore(Nanos),
}

fn delay() -> impl Strategy<Value = Nanos> {
    prop_oneof![
        1 => Just(0),
        4 => 1..100 * US,
        // Few values: many events meet at one moment.
        3 => (0..20_u64).prop_map(|it| it * US),
        2 => (0..64_u32).prop_map(|bit| (1 << bit) - 1),
        1 => Just(2 * S),
    ]
}

fn steps(past: bool) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => delay().prop_map(Step::After),
        1 => (1..200_u8).prop_map(Step::Burst),
        u32::from(past) => any::<Nanos>().prop_map(Step::At),
        u32::from(past) => (0..100 * US).prop_map(Step::At),
        3 => (1..6_u8).prop_map(Step::Pop),
        1 => (50..250_u8).prop_map(Step::Pop),
        1 => delay().prop_map(Step::PopBefore),
    ];
    prop::collection::vec(step, 1..400)
}

fn check(steps: &[Step]) -> Result<(), TestCaseError> {
    let (mut queue, mut model) = (Queue::with_capacity(10), Model::default());
    let push = |queue: &mut Queue<u32>, model: &mut Model, at| queue.push(at, model.push(at));
    for step in steps {
        match *step {
            Step::After(delay) => {
                let at = model.now.saturating_add(delay);
                push(&mut queue, &mut model, at);
            }
            Step::Burst(count) => {
                for _ in 0..count {
                    let at = model.now;
                    push(&mut queue, &mut model, at);
                }
            }
            Step::At(at) => push(&mut queue, &mut model, at),
            Step::Pop(count) => {
                for _ in 0..count {
                    prop_assert_eq!(queue.pop(), model.pop());
                }
            }
            Step::PopBefore(delay) => {
                let moment = model.now.saturating_add(delay);
                let due = model.waiting.first().is_some_and(|it| it.0 < moment);
                let expected = if due { model.pop() } else { None };
                prop_assert_eq!(queue.pop_before(moment), expected);
            }
        }
        prop_assert_eq!(queue.next_at(), model.waiting.first().map(|it| it.0));
        prop_assert_eq!(queue.len(), model.waiting.len());
        prop_assert_eq!(queue.is_empty(), model.waiting.is_empty());
    }
    while let Some(expected) = model.pop() {
        prop_assert_eq!(queue.pop(), Some(expected));
    }
    prop_assert_eq!(queue.pop(), None);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn events_come_by_time_then_by_scheduling_order(steps in steps(false)) {
        check(&steps)?;
    }

    #[test]
    fn any_time_may_be_scheduled_at_any_moment(steps in steps(true)) {
        check(&steps)?;
    }
}

#[test]
fn extreme_times_are_kept() {
    let mut queue = Queue::with_capacity(0);
    let times = [Nanos::MAX, 0, Nanos::MAX - 1, 1, 1 << 63, Nanos::MAX, 0];
    // More than the front holds, so that buckets of every level are used.
    for round in 0..100 {
        for (index, at) in (0..).zip(times) {
            queue.push(at, (round, index));
        }
    }
    let mut taken = Vec::new();
    while let Some(it) = queue.pop() {
        taken.push(it);
    }
    let mut expected: Vec<_> = (0..100)
        .flat_map(|round| {
            (0..)
                .zip(times)
                .map(move |(index, at)| (at, (round, index)))
        })
        .collect();
    expected.sort_unstable();
    assert_eq!(taken, expected);
}

#[test]
fn an_event_of_the_past_comes_next_with_its_own_time() {
    let mut queue = Queue::with_capacity(4);
    queue.push(10, 'a');
    queue.push(20, 'b');
    assert_eq!(queue.pop(), Some((10, 'a')));
    queue.push(5, 'c');
    assert_eq!(queue.next_at(), Some(5));
    assert_eq!(queue.pop(), Some((5, 'c')));
    assert_eq!(queue.pop(), Some((20, 'b')));
}

#[test]
fn pop_before_leaves_what_is_at_the_moment() {
    let mut queue = Queue::with_capacity(4);
    queue.push(10, ());
    assert_eq!(queue.pop_before(10), None);
    assert_eq!(queue.len(), 1);
    assert_eq!(queue.pop_before(11), Some((10, ())));
    assert_eq!(queue.pop_before(Nanos::MAX), None);
}

/// Memory that the queue holds, in events.
fn held<E: Copy>(queue: &Queue<E>) -> usize {
    queue.front.capacity() + queue.chunks.capacity()
}

#[test]
fn memory_does_not_grow_with_time() {
    // Delays that a linear congruential generator draws, bursty and far ones among them.
    let mut state = 1_u64;
    let mut delay = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        match state >> 60 {
            0 => 2 * S,
            1..4 => 40 * US,
            _ => (state >> 33) % (100 * US),
        }
    };
    let mut queue = Queue::with_capacity(2_000);
    for entity in 0..2_000_u32 {
        queue.push(delay(), entity);
    }
    let before = held(&queue);
    for _ in 0..300_000 {
        let (now, entity) = queue.pop().expect("each event schedules another");
        queue.push(now + delay(), entity);
    }
    assert_eq!(held(&queue), before);
    assert_eq!(queue.len(), 2_000);
}

#[test]
fn events_without_delay_do_not_pile_up() {
    let mut queue = Queue::with_capacity(100);
    for entity in 0..1_000_u32 {
        queue.push(7, entity);
    }
    queue.push(9, 1_000);
    for round in 0..200_000_u32 {
        let (at, entity) = queue.pop().expect("each event schedules another");
        assert_eq!((at, entity), (7, round % 1_000));
        queue.push(at, entity);
    }
    assert!(held(&queue) < 10_000, "{}", held(&queue));
}
