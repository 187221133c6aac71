"""The placement problem for CP-SAT: any number of vCPUs of each cell on each domain, any home for its memory.

Wider than the search space of `best`: nothing here knows of groups, splits or orders.
"""

import math
from collections.abc import Iterator
from itertools import combinations, permutations

from ortools.sat.python import cp_model

from instance import NONE, Plan, Seat, home_of, near, our_plan, own_cost, units_apart
from tree import Split, Tree, grow

Expression = cp_model.LinearExprT


class Model:
    """The model of one instance, to be minimised or maximised."""

    def __init__(self, instance: dict, maximise: bool = False):
        self.instance, self.maximise = instance, maximise
        self.cp = cp_model.CpModel()
        self.n_domains = len(instance["domains"])
        self.tree: Tree = grow(instance["extra_ns"][NONE])
        self.far: dict[str, Split] = {home: self.tree.split(ns) for home, ns in instance["extra_ns"].items()}
        self.ours = our_plan(instance)
        self.vms = [index for index, vm in enumerate(instance["vms"]) if vm["name"] not in instance["refused"]]
        self.counts: dict[tuple[int, int], list[Expression]] = {}
        self.ways: dict[tuple[int, int], list[Expression]] = {}
        self.systems: dict[int, list[Expression]] = {}
        self.terms: list[Expression] = []
        self.is_size: dict[tuple[int, int], list[list[Expression]]] = {}
        self.split_counts: dict[tuple[int, int], dict[str, list[Expression]]] = {}
        self.by_node: dict[int, tuple[int, ...]] = {}
        for domain, it in enumerate(instance["domains"]):
            self.by_node[it["node"]] = (*self.by_node.get(it["node"], ()), domain)
        for index in self.vms:
            self.add_vm(index)
        self.constrain_domains()
        self.constrain_memory()
        self.constrain_apart()
        for index in self.vms:
            self.price_vm(index)
        self.price_domains()
        self.objective: Expression = sum(self.terms)
        (self.cp.maximize if maximise else self.cp.minimize)(self.objective)

    # What is decided.

    def add_vm(self, index: int) -> None:
        vm = self.instance["vms"][index]
        for at, cell in enumerate(vm["cells"]):
            key = (index, at)
            if vm["fixed"]:
                parts = dict(cell["our_parts"])
                self.counts[key] = [parts.get(domain, 0) for domain in range(self.n_domains)]
                self.ways[key] = [1]
                continue
            most = [min(cap, cell["vcpus"]) for cap in vm["caps"]]
            self.counts[key] = [self.cp.new_int_var(0, n, f"n{key}{d}") if n else 0 for d, n in enumerate(most)]
            self.cp.add(sum(self.counts[key]) == cell["vcpus"])
            self.ways[key] = [self.cp.new_bool_var(f"y{key}{way}") for way in range(len(cell["ways"]))]
            self.cp.add_exactly_one(self.ways[key])
            self.add_pattern(index, at, most)
        if not vm["fixed"] and len(vm["cells"]) > 1:
            for domain in range(self.n_domains):
                self.cp.add(self.on(index, (domain,)) <= vm["caps"][domain])
        if vm["system"] is not None:
            self.add_system(index)

    def add_pattern(self, index: int, at: int, most: list[int]) -> None:
        """How the cell is cut, whatever part goes where: one of all partitions. What parts of some size there are, are
        then those of whole partitions, which makes the relaxation tight where every domain by itself is not."""
        counts, vcpus = self.counts[index, at], self.instance["vms"][index]["cells"][at]["vcpus"]
        is_size = [self.one_hot(count, n, 1) if n else [1] for count, n in zip(counts, most, strict=True)]
        self.is_size[index, at] = is_size
        patterns = list(partitions(vcpus, sorted(most, reverse=True)))
        chosen = [self.cp.new_bool_var("") for _ in patterns]
        self.cp.add_exactly_one(chosen)
        for size in range(1, max(most) + 1):
            parts = sum(it[size] for it in is_size if len(it) > size)
            self.cp.add(parts == sum(pattern.count(size) * it for pattern, it in zip(patterns, chosen, strict=True)))
        vm = self.instance["vms"][index]
        if vm["cells"][at]["balanced"]:
            for pattern, it in zip(patterns, chosen, strict=True):
                self.terms.append(vm["balance"] * max(0, pattern[0] - pattern[-1] - 1) ** 2 * it)

    def add_system(self, index: int) -> None:
        vm = self.instance["vms"][index]
        if vm["fixed"]:
            self.systems[index] = [int(domain == vm["our_system"]) for domain in range(self.n_domains)]
            return
        may = [vm["caps"][d] > 0 and not domain["isolated"] for d, domain in enumerate(self.instance["domains"])]
        self.systems[index] = [self.cp.new_bool_var(f"s{index},{d}") if may[d] else 0 for d in range(self.n_domains)]
        self.cp.add_exactly_one(it for it in self.systems[index] if not is_number(it))

    def on(self, index: int, domains: tuple[int, ...], cell: int | None = None) -> Expression:
        """vCPUs of a VM, or of one of its cells, on some domains."""
        cells = range(len(self.instance["vms"][index]["cells"])) if cell is None else [cell]
        return sum(self.counts[index, at][domain] for at in cells for domain in domains)

    def most_on(self, index: int, domains: tuple[int, ...], cell: int | None = None) -> int:
        """The most that `on` can be."""
        vm = self.instance["vms"][index]
        cells = vm["cells"] if cell is None else [vm["cells"][cell]]
        caps = vm["stays" if vm["fixed"] else "caps"]
        return min(sum(caps[domain] for domain in domains), sum(it["vcpus"] for it in cells))

    # What must hold.

    def constrain_domains(self) -> None:
        vms = self.instance["vms"]
        dedicated = [index for index in self.vms if vms[index]["dedicated"]]
        reserved = [index for index in self.vms if vms[index]["reservation"]]
        for at, domain in enumerate(self.instance["domains"]):
            if reserved:
                self.cp.add(sum(vms[v]["reservation"] * self.on(v, (at,)) for v in reserved) <= domain["capacity"])
            if dedicated:
                shared = self.cp.new_bool_var(f"shared{at}")
                for index in self.vms:
                    if index not in dedicated:
                        self.cp.add(self.on(index, (at,)) <= self.most_on(index, (at,)) * shared)
                    if index in self.systems:
                        self.cp.add(self.systems[index][at] <= shared)
                self.cp.add(sum(self.on(v, (at,)) for v in dedicated) + shared <= domain["cores"])

    def constrain_memory(self) -> None:
        for node, most in enumerate(self.instance["node_mib"]):
            if most is None:
                continue
            used = [
                mib * self.ways[index, at][way]
                for index in self.vms
                for at, cell in enumerate(self.instance["vms"][index]["cells"])
                for way, given in enumerate(cell["ways"])
                for place, mib in given["mib"]
                if place == node
            ]
            self.cp.add(sum(used) <= most)

    def constrain_apart(self) -> None:
        for a, b in combinations(self.vms, 2):
            for unit in units_apart(self.instance, a, b):
                unit = tuple(sorted(unit))
                is_a = self.cp.new_bool_var("")
                self.cp.add(self.on(a, unit) <= self.most_on(a, unit) * is_a)
                self.cp.add(self.on(b, unit) <= self.most_on(b, unit) * (1 - is_a))

    # What it costs.

    def price_vm(self, index: int) -> None:
        vm = self.instance["vms"][index]
        for other, per_ns in vm["partners"]:
            if other in self.vms:
                self.price_near(index, other, per_ns)
        if vm["fixed"]:
            self.terms.append(own_cost(self.instance, vm, self.ours[index]))
            return
        for domain in range(self.n_domains):
            alone = vm["device"][domain] + vm["soft"][domain]
            self.terms.append(alone * self.on(index, (domain,)))
        for at in range(len(vm["cells"])):
            self.price_memory(index, at)
        if vm["per_pair_ns"]:
            self.price_distance(index)
        if index in self.systems and vm["per_system_ns"]:
            self.price_system(index)

    def price_memory(self, index: int, at: int) -> None:
        """Each vCPU is served by the way that was chosen: a transport from the domains of a node to ways."""
        vm = self.instance["vms"][index]
        cell, ways = vm["cells"][at], self.ways[index, at]
        flows = []
        for domains in self.by_node.values():
            inside = self.on(index, domains, at)
            most = self.most_on(index, domains, at)
            flow = [self.cp.new_int_var(0, most, "") for _ in ways]
            self.cp.add(sum(flow) == inside)
            for way, amount in enumerate(flow):
                self.terms.append(vm["per_extra_dram"] * cell["ways"][way]["extra"][domains[0]] * amount)
            flows.append(flow)
        for way, chosen in enumerate(ways):
            self.cp.add(sum(flow[way] for flow in flows) == cell["vcpus"] * chosen)
        homes = self.homes(index, at)
        for home, of_home in self.by_home(index, at).items():
            for domains, flow in zip(self.by_node.values(), flows, strict=True):
                self.cp.add(sum(flow[way] for way in homes[home]) == sum(of_home[domain] for domain in domains))

    def homes(self, index: int, at: int) -> dict[str, list[int]]:
        """The ways to give a cell memory, by the key of the distances that go with them."""
        found: dict[str, list[int]] = {}
        for way in range(len(self.ways[index, at])):
            found.setdefault(home_of(self.instance["vms"][index]["cells"][at], way), []).append(way)
        return found

    def by_home(self, index: int, at: int) -> dict[str, list[Expression]]:
        """The counts of a cell for each home: all 0 but for the home that was chosen."""
        if (index, at) in self.split_counts:
            return self.split_counts[index, at]
        counts, homes = self.counts[index, at], self.homes(index, at)
        if len(homes) == 1:
            found = dict.fromkeys(homes, counts)
        else:
            most = [self.most_on(index, (domain,), at) for domain in range(self.n_domains)]
            found = {home: [self.cp.new_int_var(0, n, "") if n else 0 for n in most] for home in homes}
            for domain, count in enumerate(counts):
                if not is_number(count):
                    self.cp.add(sum(found[home][domain] for home in homes) == count)
            for home, ways in homes.items():
                chosen = sum(self.ways[index, at][way] for way in ways)
                vcpus = self.instance["vms"][index]["cells"][at]["vcpus"]
                self.cp.add(sum(found[home]) == vcpus * chosen)
        self.split_counts[index, at] = found
        return found

    def price_distance(self, index: int) -> None:
        """Pairs of the VM by distance; those within a cell may be farther, by the home of its memory."""
        vm = self.instance["vms"][index]
        n_cells = len(vm["cells"])
        per_ns = vm["per_pair_ns"]
        for at in range(n_cells):
            split: dict[int, list[list[Expression]]] = {}
            for home, counts in self.by_home(index, at).items():
                chosen = sum(self.ways[index, at][way] for way in self.homes(index, at)[home])
                is_only = len(self.homes(index, at)) == 1
                for members, weight, base in zip(self.tree.sets, self.far[home].weights, self.far[NONE].weights, strict=True):
                    # Pairs of different cells know no home: theirs are all pairs of the VM without those of its cells.
                    weight -= base if n_cells > 1 else 0
                    if not weight:
                        continue
                    if is_only and len(members) == 1:
                        pairs = pairs_of(self.is_size[index, at][members[0]])
                    else:
                        inside = sum(counts[domain] for domain in members)
                        is_n = self.one_hot(inside, self.most_on(index, members, at), 1 if is_only else chosen)
                        pairs = pairs_of(is_n)
                        if len(members) == 1:
                            split.setdefault(members[0], []).append(is_n)
                    self.terms.append(per_ns * weight * pairs)
                for (a, b), ns in self.far[home].rest.items():
                    mosts = [self.most_on(index, (domain,), at) for domain in (a, b)]
                    self.terms.append(per_ns * ns * self.times(counts[a], counts[b], *mosts))
            self.join(self.is_size[index, at], split, len(self.homes(index, at)))
        if n_cells > 1:
            for members, weight in zip(self.tree.sets, self.far[NONE].weights, strict=True):
                if weight:
                    is_n = self.one_hot(self.on(index, members), self.most_on(index, members), 1)
                    self.terms.append(per_ns * weight * pairs_of(is_n))
            for one, other in permutations(range(n_cells), 2):
                for (a, b), ns in self.far[NONE].rest.items():
                    x, y = self.counts[index, one][a], self.counts[index, other][b]
                    mosts = self.most_on(index, (a,), one), self.most_on(index, (b,), other)
                    self.terms.append(per_ns * ns * self.times(x, y, *mosts))

    def join(self, is_size: list[list[Expression]], split: dict[int, list[list[Expression]]], n_homes: int) -> None:
        """The sizes by home are the sizes."""
        for domain, by_home in split.items():
            if len(by_home) == n_homes:
                for size, it in enumerate(is_size[domain]):
                    self.cp.add(it == sum(is_n[size] for is_n in by_home))

    def price_system(self, index: int) -> None:
        """vCPUs by their distance to the domain of the system threads."""
        per_ns, places = self.instance["vms"][index]["per_system_ns"], self.systems[index]
        for members, weight in zip(self.tree.sets, self.far[NONE].weights, strict=True):
            inside = sum(places[domain] for domain in members)
            both = self.product(self.on(index, members), inside, self.most_on(index, members))
            self.terms.append(per_ns * weight * both)
        for pair, ns in self.far[NONE].rest.items():
            for a, b in (pair, pair[::-1]):
                both = self.product(self.on(index, (a,)), places[b], self.most_on(index, (a,)))
                self.terms.append(per_ns * ns * both)

    def price_near(self, a: int, b: int, per_ns: int) -> None:
        """The mean distance of two VMs, rounded down as the cost function does."""
        vms, far = self.instance["vms"], self.far[NONE]
        if vms[a]["fixed"] and vms[b]["fixed"]:
            self.terms.append(near(self.instance, per_ns, self.ours[a], self.ours[b]))
            return
        sets = [(members, members, weight) for members, weight in zip(self.tree.sets, far.weights, strict=True) if weight]
        sets += [((x,), (y,), ns) for pair, ns in far.rest.items() for x, y in (pair, pair[::-1])]
        ns = [weight * self.times(self.on(a, x), self.on(b, y), self.most_on(a, x), self.most_on(b, y)) for x, y, weight in sets]
        total = vms[a]["vcpus"] * vms[b]["vcpus"]
        price = self.cp.new_int_var(0, per_ns * max(map(max, self.instance["extra_ns"][NONE])), "")
        self.cp.add(total * price <= per_ns * sum(ns))
        self.cp.add(total * price >= per_ns * sum(ns) - total + 1)
        self.terms.append(price)

    def price_domains(self) -> None:
        vms = self.instance["vms"]
        for at, domain in enumerate(self.instance["domains"]):
            for hinge in domain["hinges"]:
                ask = [(vms[v]["load"][hinge["resource"]], self.on(v, (at,)), self.most_on(v, (at,))) for v in self.vms]
                ask += [(vms[v]["system"][hinge["resource"]], self.systems[v][at], 1) for v in self.systems]
                ask = [(each, count, most) for each, count, most in ask if each and not (is_number(count) and count == 0)]
                most = sum(each * most for each, _, most in ask) - hinge["threshold"]
                if hinge["slope"] and most > 0:
                    divisor = math.gcd(hinge["threshold"], *(each for each, _, _ in ask))
                    load = sum(each // divisor * count for each, count, _ in ask) - hinge["threshold"] // divisor
                    self.terms.append(hinge["slope"] * divisor * self.above(load, most // divisor))

    # Functions that are not linear.

    def above(self, value: Expression, most: int) -> Expression:
        """The larger of a value and 0."""
        if is_number(value):
            return max(0, value)
        found = self.cp.new_int_var(0, max(0, most), "")
        if self.maximise:
            self.cp.add_max_equality(found, [value, 0])
        else:
            self.cp.add(found >= value)
        return found

    def one_hot(self, value: Expression, most: int, is_on: Expression) -> list[Expression]:
        """Whether a value is 0, 1, 2 and so on, where something is on; else nothing."""
        if is_number(value):
            return [int(n == value) * is_on for n in range(most + 1)]
        is_n = [self.cp.new_bool_var("") for _ in range(most + 1)]
        self.cp.add(sum(is_n) == is_on)
        self.cp.add(sum(n * it for n, it in enumerate(is_n)) == value)
        return is_n

    def product(self, value: Expression, is_on: Expression, most: int) -> Expression:
        """A value where something is on, else 0."""
        if is_number(is_on) or is_number(value):
            return value * is_on
        found = self.cp.new_int_var(0, most, "")
        self.cp.add(found <= most * is_on)
        self.cp.add(found <= value)
        self.cp.add(found >= value - most + most * is_on)
        return found

    def times(self, a: Expression, b: Expression, most_a: int, most_b: int) -> Expression:
        if is_number(a) or is_number(b):
            return a * b
        found = self.cp.new_int_var(0, most_a * most_b, "")
        self.cp.add_multiplication_equality(found, [a, b])
        return found

    # Plans in and out.

    def hint(self, plan: Plan) -> None:
        for index, seat in plan.items():
            for at, parts in enumerate(seat.parts):
                for domain, count in enumerate(self.counts[index, at]):
                    if not is_number(count):
                        self.cp.add_hint(count, parts.get(domain, 0))
                for way, chosen in enumerate(self.ways[index, at]):
                    if not is_number(chosen):
                        self.cp.add_hint(chosen, int(way == seat.ways[at]))
            for domain, chosen in enumerate(self.systems.get(index, ())):
                if not is_number(chosen):
                    self.cp.add_hint(chosen, int(domain == seat.system))

    def plan(self, solver: cp_model.CpSolver) -> Plan:
        """The plan that was found."""

        def read(it: Expression) -> int:
            return it if is_number(it) else solver.value(it)

        plan = {}
        for index in self.vms:
            parts, ways = [], []
            for at in range(len(self.instance["vms"][index]["cells"])):
                counts = {domain: read(it) for domain, it in enumerate(self.counts[index, at])}
                parts.append({domain: count for domain, count in counts.items() if count})
                ways.append([read(it) for it in self.ways[index, at]].index(1))
            system = [read(it) for it in self.systems[index]].index(1) if index in self.systems else None
            plan[index] = Seat(tuple(parts), tuple(ways), system)
        return plan


def pairs_of(is_n: list[Expression]) -> Expression:
    """Pairs among so many: a table, whose relaxation is as tight as one number allows."""
    return sum(math.comb(n, 2) * it for n, it in enumerate(is_n))


def partitions(n: int, rooms: list[int], most: int | None = None) -> Iterator[tuple[int, ...]]:
    """All ways to cut `n` into parts that fit, each into a room of its own; parts and rooms by falling size."""
    if n == 0:
        yield ()
    elif rooms:
        first = min(n, rooms[0], most if most is not None else n)
        for part in range(first, 0, -1):
            for rest in partitions(n - part, rooms[1:], part):
                yield (part, *rest)


def is_number(value: Expression) -> bool:
    return isinstance(value, int)
