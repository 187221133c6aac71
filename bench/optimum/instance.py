"""An instance, plans for it, and what a plan costs: the same sum as `policy::cost::evaluate`, in nano-vCPU.

The document of an instance is a line of `cargo run -p policy --example instances`. Numbers are integers, always.
"""

from dataclasses import dataclass
from itertools import combinations

NONE = "none"
# Of a load, by the document's index: cores, threads, shares, footprint, traffic.
RESOURCES = 5


@dataclass(frozen=True)
class Seat:
    """Where a VM is: vCPUs by domain for each cell, the way each cell has its memory, the domain of system threads."""

    parts: tuple[dict[int, int], ...]
    ways: tuple[int, ...]
    system: int | None

    def counts(self) -> dict[int, int]:
        """vCPUs of all cells by domain."""
        found: dict[int, int] = {}
        for part in self.parts:
            for domain, count in part.items():
                found[domain] = found.get(domain, 0) + count
        return found


Plan = dict[int, Seat]


def our_plan(instance: dict) -> Plan:
    """The plan that `best` made; refused VMs are not in it."""
    plan = {}
    for index, vm in enumerate(instance["vms"]):
        if vm["name"] in instance["refused"]:
            continue
        parts = tuple({domain: count for domain, count in cell["our_parts"]} for cell in vm["cells"])
        plan[index] = Seat(parts, tuple(cell["our_way"] for cell in vm["cells"]), vm["our_system"])
    return plan


def cost(instance: dict, plan: Plan) -> dict[str, int]:
    """What a plan costs, by term."""
    total: dict[str, int] = {}

    def add(term: str, value: int) -> None:
        total[term] = total.get(term, 0) + value

    for index, seat in plan.items():
        vm = instance["vms"][index]
        for term, value in own_terms(instance, vm, seat):
            add(term, value)
        for other, per_ns in vm["partners"]:
            if other in plan:
                add("near", near(instance, per_ns, seat, plan[other]))
    for domain, load in enumerate(loads(instance, plan)):
        for hinge in instance["domains"][domain]["hinges"]:
            add(hinge["term"], hinge["slope"] * max(0, load[hinge["resource"]] - hinge["threshold"]))
    return {term: value for term, value in total.items() if value}


def own_cost(instance: dict, vm: dict, seat: Seat) -> int:
    """What a VM costs by itself, without partners and without what it asks of its domains."""
    return sum(value for _, value in own_terms(instance, vm, seat))


def own_terms(instance: dict, vm: dict, seat: Seat) -> list[tuple[str, int]]:
    terms = [("distance", distance(instance, vm, seat))]
    for cell, parts, way in zip(vm["cells"], seat.parts, seat.ways, strict=True):
        extra = cell["ways"][way]["extra"]
        for domain, count in parts.items():
            terms.append(("memory", count * vm["per_extra_dram"] * extra[domain]))
            terms.append(("device", count * vm["device"][domain]))
            terms.append(("affinity", count * vm["soft"][domain]))
        if cell["balanced"]:
            beyond = max(0, max(parts.values()) - min(parts.values()) - 1)
            terms.append(("balance", vm["balance"] * beyond**2))
    if seat.system is not None:
        far = instance["extra_ns"][NONE]
        ns = sum(count * far[domain][seat.system] for domain, count in seat.counts().items())
        terms.append(("system", vm["per_system_ns"] * ns))
    return terms


def distance(instance: dict, vm: dict, seat: Seat) -> int:
    """Pairs of parts; those of one cell know where its memory is."""
    pieces = [(at, domain, count) for at, parts in enumerate(seat.parts) for domain, count in sorted(parts.items())]
    total = 0
    for (cell, domain, count), (other_cell, other, others) in combinations(pieces, 2):
        home = home_of(vm["cells"][cell], seat.ways[cell]) if cell == other_cell else NONE
        total += count * others * vm["per_pair_ns"] * instance["extra_ns"][home][domain][other]
    return total


def home_of(cell: dict, way: int) -> str:
    """The key of the table of distances for memory given this way."""
    home = cell["ways"][way]["home"]
    return NONE if home is None else str(home)


def near(instance: dict, per_ns: int, a: Seat, b: Seat) -> int:
    """What two VMs that talk lose by the mean distance of their vCPUs."""
    far = instance["extra_ns"][NONE]
    a_counts, b_counts = a.counts(), b.counts()
    ns = sum(m * n * far[x][y] for x, m in a_counts.items() for y, n in b_counts.items())
    return per_ns * ns // (sum(a_counts.values()) * sum(b_counts.values()))


def loads(instance: dict, plan: Plan) -> list[list[int]]:
    """What is asked of each domain."""
    found = [[0] * RESOURCES for _ in instance["domains"]]
    for index, seat in plan.items():
        vm = instance["vms"][index]
        for domain, count in seat.counts().items():
            found[domain] = [sum_ + count * one for sum_, one in zip(found[domain], vm["load"], strict=True)]
        if seat.system is not None:
            found[seat.system] = [sum_ + one for sum_, one in zip(found[seat.system], vm["system"], strict=True)]
    return found


def wrong(instance: dict, plan: Plan) -> list[str]:
    """Hard constraints that a plan breaks; the same as `State::fits` knows. Empty when all is well."""
    found = []
    for index, seat in plan.items():
        vm = instance["vms"][index]
        for cell, parts in zip(vm["cells"], seat.parts, strict=True):
            if sum(parts.values()) != cell["vcpus"] or min(parts.values()) < 1:
                found.append(f"{vm['name']}: parts {parts} are not {cell['vcpus']} vCPUs")
        # What sits already may stay where it would not be put.
        most = vm["stays" if vm["fixed"] else "caps"]
        found += [f"{vm['name']}: {n} vCPUs on domain {d}" for d, n in seat.counts().items() if n > most[d]]
    found += wrong_domains(instance, plan) + wrong_memory(instance, plan)
    for a, b in combinations(plan, 2):
        for unit in units_apart(instance, a, b):
            if all(any(domain in unit for domain in plan[index].counts()) for index in (a, b)):
                found.append(f"VMs {a} and {b} are not apart")
    return found


def wrong_domains(instance: dict, plan: Plan) -> list[str]:
    found = []
    for index, domain in enumerate(instance["domains"]):
        dedicated = shared = reserved = 0
        for at, seat in plan.items():
            vm, count = instance["vms"][at], seat.counts().get(index, 0)
            reserved += vm["reservation"] * count
            dedicated += count if vm["dedicated"] else 0
            shared += (0 if vm["dedicated"] else count) + (seat.system == index)
        if dedicated + (shared > 0) > domain["cores"] and dedicated:
            found.append(f"domain {index}: {dedicated} dedicated cores")
        if reserved > domain["capacity"]:
            found.append(f"domain {index}: {reserved} reserved")
    return found


def wrong_memory(instance: dict, plan: Plan) -> list[str]:
    used = [0] * len(instance["node_mib"])
    for index, seat in plan.items():
        for cell, way in zip(instance["vms"][index]["cells"], seat.ways, strict=True):
            for node, mib in cell["ways"][way]["mib"]:
                used[node] += mib
    pairs = enumerate(zip(used, instance["node_mib"], strict=True))
    return [f"node {node}: {mib} MiB" for node, (mib, most) in pairs if most is not None and mib > most]


def units_apart(instance: dict, a: int, b: int) -> list[frozenset[int]]:
    """Sets of domains of which two VMs may not both have one."""
    labels = [instance["vms"][index]["apart"] for index in (a, b)]
    if None in labels or labels[0][0] != labels[1][0]:
        return []
    key = ["llc", "node", "package"][max(scope for _, scope in labels)]
    units: dict[int, set[int]] = {}
    for index, domain in enumerate(instance["domains"]):
        units.setdefault(domain[key], set()).add(index)
    return [frozenset(unit) for unit in units.values()]


def llcs_spanned(instance: dict, plan: Plan) -> int:
    """LLCs of all VMs that are free to choose, in sum."""
    free = [seat for index, seat in plan.items() if not instance["vms"][index]["fixed"]]
    return sum(len({instance["domains"][domain]["llc"] for domain in seat.counts()}) for seat in free)
