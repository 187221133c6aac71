"""Bad plans on purpose: VMs heaped on the same domains, memory far away. What the gap is measured against."""

import random

from instance import Plan, Seat, cost, wrong

# Plans tried from scratch, and changes tried to the worst of them; ours.
TRIES, CHANGES = 100, 400


def heaped(instance: dict, ours: Plan, seed: int) -> Plan:
    """The most expensive of many plans that fill domains in one order for all VMs, made worse VM by VM."""
    rng = random.Random(seed)
    n_domains = len(instance["domains"])
    free = [index for index in ours if not instance["vms"][index]["fixed"]]
    worst, most = ours, sum(cost(instance, ours).values())
    for attempt in range(TRIES + CHANGES):
        order = rng.sample(range(n_domains), n_domains)
        changing = free if attempt < TRIES else [rng.choice(free)]
        plan = (ours if attempt < TRIES else worst) | {index: heap(instance, index, order, rng) for index in changing}
        if None in plan.values() or wrong(instance, plan):
            continue
        total = sum(cost(instance, plan).values())
        if total > most:
            worst, most = plan, total
    return worst


def heap(instance: dict, index: int, order: list[int], rng: random.Random) -> Seat | None:
    """A VM on the first domains of an order that take it."""
    vm = instance["vms"][index]
    room = list(vm["caps"])
    # Dedicated VMs need cores that nobody shares: they go to the other end.
    own = order[::-1] if vm["dedicated"] else order
    parts, ways = [], []
    for cell in vm["cells"]:
        part: dict[int, int] = {}
        for domain in own:
            if count := min(room[domain], cell["vcpus"] - sum(part.values())):
                part[domain] = count
                room[domain] -= count
        if sum(part.values()) < cell["vcpus"]:
            return None
        parts.append(part)
        ways.append(farthest(cell, part) if rng.random() < 0.7 else rng.randrange(len(cell["ways"])))
    may = [d for d in own if vm["caps"][d] and not instance["domains"][d]["isolated"]]
    system = None if vm["system"] is None or not may else may[0 if rng.random() < 0.5 else -1]
    return Seat(tuple(parts), tuple(ways), system)


def farthest(cell: dict, part: dict[int, int]) -> int:
    def far(way: int) -> int:
        return sum(count * cell["ways"][way]["extra"][domain] for domain, count in part.items())

    return max(range(len(cell["ways"])), key=far)
