"""Bad plans on purpose: VMs heaped on the same domains, memory far away. What the gap is measured against."""

import random

from instance import Plan, Seat, cost, wrong

# Plans tried; ours. The best of the first hundred is seldom beaten.
TRIES = 200


def heaped(instance: dict, ours: Plan, seed: int) -> Plan:
    """The most expensive of many plans that fill domains in one order for all VMs; ours when none is feasible."""
    rng = random.Random(seed)
    worst, most = ours, sum(cost(instance, ours).values())
    for _ in range(TRIES):
        plan = heap(instance, ours, rng)
        if plan and not wrong(instance, plan):
            total = sum(cost(instance, plan).values())
            if total > most:
                worst, most = plan, total
    return worst


def heap(instance: dict, ours: Plan, rng: random.Random) -> Plan | None:
    vms, n_domains = instance["vms"], len(instance["domains"])
    order = rng.sample(range(n_domains), n_domains)
    # Dedicated VMs need cores that nobody shares: they go to the other end.
    plan: Plan = {}
    for index in ours:
        vm = vms[index]
        if vm["fixed"] or rng.random() < 0.1:
            plan[index] = ours[index]
            continue
        room = list(vm["caps"])
        own = order[::-1] if vm["dedicated"] else order if rng.random() < 0.9 else rng.sample(order, n_domains)
        parts, ways = [], []
        for cell in vm["cells"]:
            part: dict[int, int] = {}
            left = cell["vcpus"]
            for domain in own:
                count = min(room[domain], left)
                if count:
                    part[domain] = count
                    room[domain] -= count
                    left -= count
            if left:
                return None
            parts.append(part)
            ways.append(farthest(cell, part) if rng.random() < 0.7 else rng.randrange(len(cell["ways"])))
        may = [d for d in own if vm["caps"][d] and not instance["domains"][d]["isolated"]]
        system = None if vm["system"] is None else may[0 if rng.random() < 0.5 else -1]
        plan[index] = Seat(tuple(parts), tuple(ways), system)
    return plan


def farthest(cell: dict, part: dict[int, int]) -> int:
    def far(way: int) -> int:
        return sum(count * cell["ways"][way]["extra"][domain] for domain, count in part.items())

    return max(range(len(cell["ways"])), key=far)
