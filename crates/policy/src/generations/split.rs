//! Cutting vCPUs over containers (LLCs of a node, nodes of a host) of limited capacity.

use crate::group;

/// The fewest containers that hold `n` together; `None` when all of them do not.
pub(super) fn fewest(capacities: &[u32], n: u32) -> Option<u32> {
    let mut sorted = capacities.to_vec();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0_u64;
    for (count, capacity) in (1..).zip(sorted) {
        sum += u64::from(capacity);
        if sum >= u64::from(n) {
            return Some(count);
        }
    }
    None
}

/// Sizes of the pieces: as few as possible, equal if the largest containers hold equal ones, otherwise full containers
/// and the rest. Placed in this order, each piece finds a container that no earlier piece is in. `None` when there is
/// not enough room.
pub(super) fn sizes(capacities: &[u32], n: u32) -> Option<Vec<u32>> {
    let count = fewest(capacities, n)?;
    let mut sorted = capacities.to_vec();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    sorted.truncate(count as usize);
    if sorted
        .last()
        .is_some_and(|&least| least >= n.div_ceil(count))
    {
        return Some(group::balanced(n, count).collect());
    }
    Some(full(sorted, n))
}

/// Sizes of the pieces: containers filled to the brim, largest first, and the rest. `None` when there is not enough room.
pub(super) fn full_sizes(capacities: &[u32], n: u32) -> Option<Vec<u32>> {
    fewest(capacities, n)?;
    let mut sorted = capacities.to_vec();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    Some(full(sorted, n))
}

fn full(capacities: Vec<u32>, n: u32) -> Vec<u32> {
    let mut left = n;
    let fill = capacities.into_iter().map(|capacity| {
        let piece = capacity.min(left);
        left -= piece;
        piece
    });
    fill.filter(|&piece| piece > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_few_and_equal_where_they_can_be() {
        type Case<'a> = (&'a [u32], u32, Option<&'a [u32]>);
        let cases: [Case; 9] = [
            (&[4, 4, 4, 4], 4, Some(&[4])),
            (&[4, 4, 4, 4], 5, Some(&[3, 2])),
            (&[4, 4, 4, 4], 8, Some(&[4, 4])),
            (&[4, 4, 4, 4], 9, Some(&[3, 3, 3])),
            (&[4, 8, 4], 10, Some(&[8, 2])),
            (&[4, 8, 4], 8, Some(&[8])),
            (&[8, 8, 4], 16, Some(&[8, 8])),
            (&[4, 4], 9, None),
            (&[], 1, None),
        ];
        for (capacities, n, expected) in cases {
            assert_eq!(
                sizes(capacities, n).as_deref(),
                expected,
                "{n} on {capacities:?}"
            );
        }
        assert_eq!(full_sizes(&[8, 8], 10), Some(vec![8, 2]));
    }
}
