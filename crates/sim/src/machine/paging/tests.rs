use super::*;
use crate::time::MS;

#[test]
fn memory_goes_where_there_is_room() {
    // Free, wanted, order; taken, left.
    let rows = [
        ([100, 100, 100], 60, &[1, 0, 2][..], [0, 60, 0], 0),
        ([100, 40, 100], 60, &[1, 0, 2], [20, 40, 0], 0),
        ([5, 0, 7], 60, &[1, 0, 2], [5, 0, 7], 48),
        ([5, 5, 5], 0, &[0], [0, 0, 0], 0),
    ];
    for (mut free, wanted, order, expected, left) in rows {
        let before = free;
        let mut taken = [0; 3];
        assert_eq!(place_memory(&mut free, wanted, order, &mut taken), left);
        assert_eq!(taken, expected);
        assert!((0..3).all(|node| free[node] + taken[node] == before[node]));
    }
}

#[test]
fn interleaving_is_even_as_long_as_it_can() {
    let rows: [([u64; 3], u64, [u64; 3], u64); 5] = [
        ([100, 100, 100], 90, [30, 30, 30], 0),
        ([100, 100, 100], 91, [31, 30, 30], 0),
        ([100, 10, 100], 90, [40, 10, 40], 0),
        ([1, 2, 3], 90, [1, 2, 3], 84),
        ([9, 9, 9], 0, [0, 0, 0], 0),
    ];
    for (mut free, wanted, expected, left) in rows {
        let mut taken = [0; 3];
        assert_eq!(interleave(&mut free, wanted, &[0, 1, 2], &mut taken), left);
        assert_eq!(taken, expected);
        let mut parts = [0.0; 3];
        weights(&taken, &mut parts);
        assert!((parts.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
}

#[test]
fn pages_move_at_their_rate() {
    let mut mover = Mover::new(ESXI_PAGES_PER_S);
    // 8 pages each ms, whatever the steps; fractions are kept.
    let sum: u64 = (0..1000).map(|_| mover.pages(u64::MAX, MS)).sum();
    assert_eq!(sum, 8000);
    let sum: u64 = (0..10_000).map(|_| mover.pages(u64::MAX, MS / 10)).sum();
    assert_eq!(sum, 8000);
    // What nobody wanted is gone: a day of rest gives no burst.
    assert_eq!(mover.pages(0, 86_400 * S), 0);
    assert_eq!(mover.pages(u64::MAX, MS), 8);
    // A GiB takes 32.8 s.
    assert_eq!(1024 * PAGES_PER_MIB / ESXI_PAGES_PER_S, 32);
}

fn resident(kind: u32, mib: u64, active_permille: u32) -> Resident {
    Resident {
        kind,
        mib,
        active_permille,
    }
}

#[test]
fn shortage_is_met_by_sharing_then_by_balloons() {
    let residents = [
        resident(1, 1000, 500),
        resident(1, 1000, 500),
        resident(2, 1000, 500),
    ];
    let mut answers = [Squeezed::default(); 3];
    // Nothing is short: nothing happens.
    assert_eq!(squeeze(&residents, 0, &mut answers), 0);
    assert!(answers.iter().all(|answer| *answer
        == Squeezed {
            speed: 1.0,
            ..Squeezed::default()
        }));
    // The second VM has 290 MiB in common with the first, the third is of another kind.
    assert_eq!(squeeze(&residents, 200, &mut answers), 0);
    assert_eq!(answers.map(|answer| answer.shared_mib), [0, 200, 0]);
    assert!(
        answers
            .iter()
            .all(|answer| answer.ballooned_mib == 0 && (answer.speed - 1.0).abs() < 1e-12)
    );
    // More: idle memory of all, at a few percent.
    assert_eq!(squeeze(&residents, 590, &mut answers), 0);
    assert_eq!(answers.map(|answer| answer.shared_mib), [0, 290, 0]);
    assert_eq!(
        answers
            .iter()
            .map(|answer| answer.ballooned_mib)
            .sum::<u64>(),
        300
    );
    assert!(
        answers
            .iter()
            .all(|answer| answer.speed > 0.97 && answer.speed < 1.0),
        "{answers:?}"
    );
    // Much more: what is used, and it hurts.
    assert_eq!(squeeze(&residents, 2000, &mut answers), 0);
    assert!(
        answers.iter().all(|answer| answer.speed < 0.8),
        "{answers:?}"
    );
    // More than there is.
    assert_eq!(squeeze(&residents, 5000, &mut answers), 2000);
    let taken = |answer: &Squeezed| answer.shared_mib + answer.ballooned_mib;
    assert!(
        answers
            .iter()
            .all(|answer| taken(answer) == 1000 && answer.speed > 0.0)
    );
}

#[test]
fn equal_vms_on_one_node_share_more_than_on_two() {
    // Claim S3-65: a node for each LLC means less page sharing.
    let shared = |count: usize| {
        let residents = vec![resident(7, 1000, 300); count];
        let mut answers = vec![Squeezed::default(); count];
        squeeze(&residents, u64::MAX, &mut answers);
        answers.iter().map(|answer| answer.shared_mib).sum::<u64>()
    };
    assert_eq!(shared(4), 3 * 290);
    assert_eq!(2 * shared(2), 2 * 290);
}

#[test]
fn a_greater_shortage_never_makes_anybody_faster() {
    let residents = [
        resident(1, 800, 900),
        resident(1, 1000, 200),
        resident(2, 300, 500),
    ];
    let mut last = [1.0; 3];
    for short in (0..2200).step_by(50) {
        let mut answers = [Squeezed::default(); 3];
        squeeze(&residents, short, &mut answers);
        for (answer, last) in answers.iter().zip(&mut last) {
            assert!(answer.speed <= *last + 0.01, "{short}: {answer:?} {last}");
            *last = answer.speed;
        }
    }
}
