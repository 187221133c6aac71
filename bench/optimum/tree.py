"""Distances as a tree: quadratic sums of vCPU pairs become sums of functions of one number.

Where the distance of two domains depends only on the smallest of a nested family of sets that holds both, the pairs of a
VM cost `sum over sets S of weight(S) x pairs inside S`. The model then needs one table for each set instead of a product
for each pair of domains, and its relaxation is far tighter. Measured matrices have noise; what the tree leaves over stays
a product.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tree:
    """Nested sets of domains, the whole host first; and the index of each set's parent, -1 for the first."""

    sets: tuple[tuple[int, ...], ...]
    parents: tuple[int, ...]

    def split(self, ns: list[list[int]]) -> "Split":
        """Distances as weights of sets, and what they are short of `ns` by pair of domains (never less than 0)."""
        n = len(ns)
        values: list[int | None] = [None] * len(self.sets)
        pairs = [(a, b, self.smallest(a, b)) for a in range(n) for b in range(a + 1, n)]
        for a, b, index in pairs:
            known = values[index]
            values[index] = ns[a][b] if known is None else min(known, ns[a][b])
        for index in range(len(self.sets)):
            if values[index] is None:
                # A domain is no distance from itself.
                values[index] = 0
        weights = [values[index] - (values[parent] if parent >= 0 else 0) for index, parent in enumerate(self.parents)]
        rest = {(a, b): ns[a][b] - values[index] for a, b, index in pairs if ns[a][b] > values[index]}
        return Split(weights, rest)

    def smallest(self, a: int, b: int) -> int:
        """The smallest set that holds both."""
        return max(index for index, members in enumerate(self.sets) if a in members and b in members)


@dataclass(frozen=True)
class Split:
    """`ns[a][b]` is the sum of the weights of the sets that hold both, plus the rest of the pair."""

    weights: list[int]
    rest: dict[tuple[int, int], int]


def grow(ns: list[list[int]]) -> Tree:
    """The tree that these distances suggest: sets of domains no farther apart than each value that occurs."""
    n = len(ns)
    found: list[tuple[int, ...]] = [tuple(range(n))]
    for value in sorted({ns[a][b] for a in range(n) for b in range(n) if a != b}, reverse=True):
        found += components(ns, value)
    found += [(domain,) for domain in range(n)]
    # Larger sets first, so that a parent comes before its children.
    sets = tuple(sorted(set(found), key=lambda members: (-len(members), members)))
    parents = []
    for index, members in enumerate(sets):
        holders = [other for other in range(index) if set(members) < set(sets[other])]
        parents.append(max(holders, default=-1))
    return Tree(sets, tuple(parents))


def components(ns: list[list[int]], value: int) -> list[tuple[int, ...]]:
    """Domains connected by steps of at most `value`."""
    left = set(range(len(ns)))
    found = []
    while left:
        todo, members = [min(left)], set()
        while todo:
            domain = todo.pop()
            if domain in left:
                left.remove(domain)
                members.add(domain)
                todo += [other for other in left if ns[domain][other] <= value]
        found.append(tuple(sorted(members)))
    return found
