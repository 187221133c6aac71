"""Tests of what needs no solver: the cost of a plan, its rules, distances as trees, and the figures of the report.

Run as `python3 -B -m unittest discover -s bench/optimum`.
"""

import sys
import unittest

sys.dont_write_bytecode = True

import report  # noqa: E402
from instance import Seat, cost, wrong  # noqa: E402
from tree import grow  # noqa: E402

# Two packages of two LLCs.
FAR = [[0, 85, 190, 190], [85, 0, 190, 190], [190, 190, 0, 85], [190, 190, 85, 0]]


def host(far: list[list[int]] = FAR) -> dict:
    def domain(index: int) -> dict:
        smt = {"term": "smt", "resource": 0, "threshold": 2000, "slope": 7}
        return {"llc": index, "node": index // 2, "package": index // 2, "cores": 2, "threads": 4, "isolated": False,
                "capacity": 2600, "hinges": [smt]}

    remote = [[max(ns, 190) if ns else 0 for ns in row] for row in far]
    homes = {"0": [far[0], far[1], remote[2], remote[3]], "1": [remote[0], remote[1], far[2], far[3]]}
    return {"domains": [domain(index) for index in range(4)], "node_mib": [1000, 1000], "vms": [],
            "extra_ns": {"none": far, **homes}, "refused": []}


def vm(vcpus: int, **changes) -> dict:
    ways = [{"mib": [[node, 600]], "home": node, "extra": [680 * (domain // 2 != node) for domain in range(4)]} for node in (0, 1)]
    one = {"name": "vm", "vcpus": vcpus, "fixed": False, "load": [1000, 1000, 1000, 4000, 1500], "system": None, "per_pair_ns": 10,
           "per_system_ns": 0, "per_extra_dram": 3, "caps": [4] * 4, "stays": [4] * 4, "device": [0] * 4, "soft": [0] * 4,
           "balance": 1060, "dedicated": False, "reservation": 0, "apart": None, "partners": [],
           "cells": [{"vcpus": vcpus, "balanced": True, "ways": ways}]}
    return one | changes


def seat(parts: dict[int, int], way: int = 0, system: int | None = None) -> Seat:
    return Seat((parts,), (way,), system)


class Cost(unittest.TestCase):
    def test_terms_by_hand(self):
        rows = [
            ("together", vm(4), seat({0: 4}), {"smt": 7 * 2000}),
            ("two LLCs of a node", vm(4), seat({0: 2, 1: 2}), {"distance": 4 * 10 * 85}),
            ("memory behind the other package", vm(4), seat({0: 2, 1: 2}, 1), {"distance": 4 * 10 * 190, "memory": 4 * 3 * 680}),
            ("two packages", vm(2), seat({1: 1, 2: 1}), {"distance": 10 * 190, "memory": 3 * 680}),
            ("uneven by two", vm(4), seat({0: 3, 1: 1}), {"distance": 3 * 10 * 85, "balance": 1060, "smt": 7000}),
            ("uneven by four", vm(6), seat({0: 5, 1: 1}), {"distance": 5 * 10 * 85, "balance": 1060 * 9, "smt": 7 * 3000}),
            ("devices", vm(1, device=[0, 0, 5, 5]), seat({2: 1}, 1), {"device": 5}),
        ]
        for name, one, where, terms in rows:
            with self.subTest(name):
                self.assertEqual(cost(host() | {"vms": [one]}, {0: where}), terms)

    def test_system_threads_load_their_domain_and_are_near_or_far(self):
        one = vm(2, system=[500, 500, 500, 0, 0], per_system_ns=3)
        instance = host() | {"vms": [one]}
        self.assertEqual(cost(instance, {0: seat({0: 2}, 0, 0)}), {"smt": 7 * 500})
        self.assertEqual(cost(instance, {0: seat({0: 2}, 0, 1)}), {"system": 2 * 3 * 85})

    def test_vms_that_talk_pay_for_their_mean_distance_rounded_down(self):
        instance = host() | {"vms": [vm(2, partners=[[1, 7]], per_pair_ns=0), vm(1)]}
        plan = {0: seat({0: 1, 1: 1}), 1: seat({0: 1})}
        self.assertEqual(cost(instance, plan), {"near": 7 * 85 // 2})


class Rules(unittest.TestCase):
    def test_each_rule_can_be_broken(self):
        rows = [
            ("sound", [vm(2), vm(2)], [seat({0: 2}), seat({1: 2}, 1)], None),
            ("vCPUs lost", [vm(3)], [seat({0: 2})], "are not 3 vCPUs"),
            ("too wide", [vm(5)], [seat({0: 5})], "5 vCPUs on domain 0"),
            ("memory", [vm(1), vm(1)], [seat({0: 1}), seat({1: 1})], "node 0: 1200 MiB"),
            ("whole cores", [vm(2, dedicated=True), vm(1)], [seat({0: 2}), seat({0: 1}, 1)], "2 dedicated cores"),
            ("reservations", [vm(2, reservation=1301)], [seat({0: 2})], "2602 reserved"),
            ("apart by node", [vm(1, apart=[0, 0]), vm(1, apart=[0, 1])], [seat({0: 1}), seat({1: 1}, 1)], "not apart"),
            ("other labels", [vm(1, apart=[0, 0]), vm(1, apart=[1, 1])], [seat({0: 1}), seat({0: 1}, 1)], None),
        ]
        for name, vms, seats, fault in rows:
            with self.subTest(name):
                found = wrong(host() | {"vms": vms}, dict(enumerate(seats)))
                self.assertEqual(len(found), int(fault is not None), found)
                self.assertIn(fault or "", " ".join(found))


class Trees(unittest.TestCase):
    def check(self, ns: list[list[int]], base: list[list[int]]) -> dict:
        """Weights and rest add up to the distances, whatever they are."""
        tree = grow(base)
        split = tree.split(ns)
        for a in range(len(ns)):
            for b in range(a + 1, len(ns)):
                weights = sum(w for members, w in zip(tree.sets, split.weights, strict=True) if a in members and b in members)
                self.assertEqual(weights + split.rest.get((a, b), 0), ns[a][b], (a, b))
        for domain in range(len(ns)):
            inside = sum(w for members, w in zip(tree.sets, split.weights, strict=True) if domain in members)
            self.assertEqual(inside, 0, "a domain is no distance from itself")
        return split.rest

    def test_nested_distances_leave_nothing_over(self):
        self.assertEqual(self.check(FAR, FAR), {})
        for home in ("0", "1"):
            self.assertEqual(self.check(host()["extra_ns"][home], FAR), {})
        self.assertEqual(self.check([[0, 0, 9], [0, 0, 9], [9, 9, 0]], [[0, 0, 9], [0, 0, 9], [9, 9, 0]]), {}, "two domains of one LLC")

    def test_noise_is_left_over_and_never_negative(self):
        noisy = [[0, 85, 190, 193], [85, 0, 191, 190], [190, 191, 0, 80], [193, 190, 80, 0]]
        rest = self.check(noisy, noisy)
        self.assertEqual(set(rest.values()), {1, 3})


class Report(unittest.TestCase):
    def row(self, index: int, gap: float, **changes) -> dict:
        row = {"index": index, "classes": ["even"], "gap": gap, "gap_found": 0.0, "proven": True, "ours": 1, "found": 1,
               "spans": 1, "spans_best": 1, "spans_solver": 1, "seconds": 1.0}
        return row | changes

    def test_figures_and_targets(self):
        good = [self.row(index, 0.0) for index in range(19)]
        rows = [
            ("all is well", good, []),
            ("mean", [self.row(0, 0.04), self.row(1, 0.0)], ["mean"]),
            ("worst", [*good, self.row(19, 0.06)], ["worst"]),
            ("spans", [*good[:18], self.row(18, 0.0, spans=2), self.row(19, 0.0, spans=2)], ["within"]),
            ("refusal", [*good, {"index": 20, "refusal": "wrong"}], ["1 refusals"]),
            ("right refusal", [*good, {"index": 20, "refusal": "right"}], []),
            ("rule", [*good, {"index": 20, "faults": ["x"]}], ["1 plans"]),
            ("nothing", [], ["no instance"]),
        ]
        for name, found, missed in rows:
            with self.subTest(name):
                texts = report.summary(found)["missed"]
                self.assertEqual([text[: len(start)] for text, start in zip(texts, missed, strict=True)], missed)

    def test_the_95th_percentile_is_a_gap_that_occurs(self):
        every = report.figures([self.row(index, index / 100) for index in range(20)])
        self.assertEqual((every["p95"], every["worst"], every["median"]), (18.0, 19.0, 9.5))


if __name__ == "__main__":
    unittest.main()
