"""Tests of what is ours here: reading hosts, requests, Nova's rule, hwloc's texts, and the measuring.

Run as `python3 -B -m unittest discover -s bench/peers`.
"""

import shutil
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True

import hwloc  # noqa: E402
from drivers import Driver  # noqa: E402
from hosts import Host, format_cpus, parse, rows_of  # noqa: E402
from measure import Ledger, Placed, WrongAnswer, bound, measure  # noqa: E402
from nova import Nova  # noqa: E402
from report import compare, dominated, markdown, misses, summary  # noqa: E402
from streams import HALF_PERCENT, ONLINE_EVENTS, Stream, make_streams  # noqa: E402


def even(packages: int, llcs: int, cores: int, threads: int, smt: str = "on") -> Host:
    """A host of equal parts, one node per package; siblings are numbered after all cores."""
    total = packages * llcs * cores

    def sets(count: int) -> list[dict]:
        size = total // count
        return [{"cpus": format_cpus({t * total + i * size + c for t in range(threads) for c in range(size)})} for i in range(count)]

    caches = [{**part, "node": i // llcs} for i, part in enumerate(sets(packages * llcs))]
    document = {"cpus": format_cpus(set(range(total * threads))), "packages": sets(packages), "nodes": sets(packages),
                "llcs": caches, "cores": sets(total)}
    return Host("even", smt, [], None, document, rows_of(document))


class Hosts(unittest.TestCase):
    def test_cpu_texts(self):
        for text, cpus in [("", set()), ("3", {3}), ("0-3,8", {0, 1, 2, 3, 8}), ("0,2,4-5", {0, 2, 4, 5})]:
            self.assertEqual(parse(text), cpus)
            self.assertEqual(format_cpus(cpus), text)

    def test_a_cpu_is_in_the_smallest_node_and_gaps_are_filled(self):
        document = {"cpus": "0-5", "packages": [{"cpus": "0-3"}], "cores": [{"cpus": "0-1"}],
                    "nodes": [{"cpus": "0-3"}, {"cpus": "2-3"}, {"cpus": ""}],
                    "llcs": [{"cpus": "0-1", "node": 0}, {"cpus": "4", "node": 1}]}
        rows = rows_of(document)
        self.assertEqual([rows[cpu].node for cpu in range(6)], [0, 0, 1, 1, 1, 0])
        self.assertEqual([rows[cpu].llc for cpu in (0, 1, 4)], [0, 0, 1])
        self.assertEqual(len({rows[cpu].core for cpu in range(6)}), 5, "a CPU in no core is one")


class Streams(unittest.TestCase):
    def test_the_same_seed_is_the_same_stream(self):
        self.assertEqual(make_streams(128, 1), make_streams(128, 1))
        self.assertNotEqual(make_streams(128, 1), make_streams(128, 2))

    def test_streams_keep_their_limits(self):
        for capacity in (8, 32, 128, 384):
            for stream in make_streams(capacity, 1):
                running: dict[str, int] = {}
                for event in stream.events:
                    if stream.kind == "single" and event.get("add") == "single-1":
                        self.assertLessEqual(sum(running.values()), capacity * HALF_PERCENT // 100)
                    if "remove" in event:
                        del running[event["remove"]]
                    else:
                        self.assertNotIn(event["add"], running)
                        running[event["add"]] = event["vcpus"]
                    self.assertLessEqual(sum(running.values()), capacity * 3 // 4, f"{stream.name} on {capacity}")
                if stream.kind == "online":
                    self.assertEqual(len(stream.events), ONLINE_EVENTS)

    def test_a_host_too_small_has_no_stream(self):
        self.assertEqual(make_streams(2, 1), [])


class NovaRule(unittest.TestCase):
    def test_packs(self):
        smt, plain = even(2, 4, 4, 2), even(2, 4, 4, 1)
        cases = [
            ("siblings first, in order", smt, [], 4, "0-1,32-33"),
            ("an odd one leaves a thread", smt, [], 3, "0-1,32"),
            ("the emptiest cores first, past the half-used one", smt, [3], 2, "2,34"),
            ("single threads where no whole cores are left", smt, [31, 31], 1, "47"),
            # Cell 0 has 46, 15 and 47 left: two of each core are 2 CPUs, one of each core too, any are 3.
            ("any threads where no number per core is enough", smt, [29], 3, "15,46-47"),
            ("the cell in use before the free one", plain, [14], 2, "14-15"),
            ("the free cell where the used one is too full", plain, [14], 4, "16-19"),
            ("two cells for what one cannot hold", plain, [], 18, "0-8,16-24"),
            ("never cut where one empty cell would do", plain, [9, 9], 8, None),
        ]
        for about, host, before, vcpus, cpus in cases:
            with self.subTest(about):
                nova = Nova(host)
                for number, size in enumerate(before):
                    self.assertIn("cpus", nova.add(f"before{number}", size))
                self.assertEqual(nova.add("vm", vcpus).get("cpus"), cpus)

    def test_refuses_what_no_cells_hold(self):
        self.assertIn("refused", Nova(even(2, 4, 4, 1)).add("vm", 33))

    def test_departures_free(self):
        nova = Nova(even(1, 1, 4, 2))
        first = nova.add("a", 8)["cpus"]
        nova.remove("a")
        nova.remove("never there")
        self.assertEqual(nova.add("b", 8)["cpus"], first)


class Hwloc(unittest.TestCase):
    def test_masks(self):
        for cpus, text in [({0}, "0x00000001"), ({33}, "0x00000002,0x00000000"), (set(), "0x00000000")]:
            self.assertEqual(hwloc.mask(cpus), text)
            self.assertEqual(hwloc.unmask(text), cpus)
        self.assertEqual(hwloc.unmask("0x00000001,,0x0"), {64}, "an empty word is zero")

    def test_synthetic_keeps_numbers(self):
        self.assertEqual(hwloc.synthetic(even(2, 1, 2, 2)), "pack:2 numa:1 l3:1 core:2 pu:2(indexes=0,4,1,5,2,6,3,7)")

    def test_uneven_hosts_are_refused(self):
        document = {"cpus": "0-4", "packages": [{"cpus": "0-4"}], "nodes": [{"cpus": "0-4"}], "cores": [],
                    "llcs": [{"cpus": "0-1", "node": 0}, {"cpus": "2-4", "node": 0}]}
        with self.assertRaises(hwloc.Unsupported):
            hwloc.synthetic(Host("uneven", "none", [], None, document, rows_of(document)))

    @unittest.skipUnless(shutil.which(hwloc.PROGRAM), "hwloc-distrib is not installed")
    def test_distributes(self):
        host = even(2, 4, 4, 2)
        cases = [(False, 4, 4, 2), (False, 8, 8, 2), (True, 4, 1, 1), (True, 8, 1, 1), (True, 16, 4, 1)]
        for near, vcpus, llcs, nodes in cases:
            with self.subTest(near=near, vcpus=vcpus):
                answer = hwloc.Distrib(host, near).add("vm", vcpus)
                self.assertEqual(Ledger(host).add("vm", vcpus, answer), (llcs, nodes))

    @unittest.skipUnless(shutil.which("hwloc-calc"), "hwloc-calc is not installed")
    def test_hwloc_sees_the_same_caches(self):
        host = even(2, 4, 4, 2)
        command = ["hwloc-calc", *hwloc.topology_arguments(host), "l3:5"]
        seen = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        self.assertEqual(hwloc.unmask(seen), host.sets("llc")[5])


def groups(*parts: tuple[str, int, int]) -> dict:
    return {"groups": [{"vcpus": vcpus, "llc": llc, "node": node} for vcpus, llc, node in parts]}


class Measuring(unittest.TestCase):
    def test_spans_and_sharing(self):
        cases = [
            ("whole cores: all four share", {"cpus": "0-1,32-33"}, 4, (1, 1), 4),
            ("one thread of each: none shares", {"cpus": "0-3"}, 4, (1, 1), 0),
            ("a core in each package", {"cpus": "0,16,32,48"}, 4, (2, 2), 4),
            ("on an llc of 4 cores, 4 share nothing", groups(("0-3", 0, 0)), 4, (1, 1), 0),
            ("6 on 4 cores: two above, each with one other", groups(("0-5", 0, 0)), 6, (1, 1), 4),
            ("9 on 4 cores: all", groups(("0-8", 0, 0)), 9, (1, 1), 9),
            ("two groups on one llc are one span", groups(("0-1", 0, 0), ("2-3", 0, 0)), 4, (1, 1), 0),
            ("two llcs, two nodes", groups(("0-3", 0, 0), ("4-7", 4, 1)), 8, (2, 2), 0),
        ]
        for about, answer, vcpus, spans, shared in cases:
            with self.subTest(about):
                ledger = Ledger(even(2, 4, 4, 2))
                self.assertEqual(ledger.add("vm", vcpus, answer), spans)
                self.assertEqual(ledger.shared(), shared)
                ledger.remove("vm")
                self.assertEqual(ledger.shared(), 0)

    def test_a_vm_has_its_part_of_the_sharing(self):
        ledger = Ledger(even(2, 4, 4, 2))
        ledger.add("a", 4, groups(("0-3", 0, 0)))
        self.assertEqual(ledger.shared_of("a"), 0)
        # Six on four cores: four of six share, and so 2 x 4 / 6 of b's.
        ledger.add("b", 4, groups(("0-1", 0, 0), ("2-3", 1, 0)))
        self.assertEqual((ledger.shared_of("b"), ledger.shared_of("a")), (1.33, 2.67))

    def test_wrong_answers_are_told(self):
        wrong = [{"cpus": "0-2"}, {"cpus": "0-4"}, {"cpus": "100-103"}, {"cpus": "8-11"},
                 groups(("0-2", 0, 0)), groups(("0-3", 9, 0)), groups(("0-1", 0, 0), ("1-2", 1, 0))]
        for answer in wrong:
            with self.subTest(answer=answer):
                ledger = Ledger(even(2, 4, 4, 2))
                ledger.add("other", 1, {"cpus": "8"})
                with self.assertRaises(WrongAnswer):
                    ledger.add("vm", 4, answer)

    def test_over_commit_of_an_llc_is_counted(self):
        ledger = Ledger(even(2, 4, 4, 2))
        ledger.add("vm", 11, groups(("0-10", 0, 0)))
        self.assertEqual(ledger.overcommitted(), 3)

    def test_only_counted_arrivals_count(self):
        events = [{"add": "a", "vcpus": 4}, {"add": "b", "vcpus": 4}, {"remove": "b"}]
        answers = [{"vm": "a", "cpus": "0-3", "ns": 5}, {"vm": "b", "cpus": "4-5,32-33", "ns": 7}]
        outcome = measure(even(2, 4, 4, 2), Stream("s", "single", events, frozenset("b")), answers)
        # CPUs 32 and 33 are siblings of a's 0 and 1: two of b's vCPUs share a core, four on the host.
        self.assertEqual(list(outcome.placed.values()), [Placed("b", 4, 2, 1, 2, 7)])
        self.assertEqual((outcome.ns, outcome.shared_of), ([7], [(4, 8)]))

    def test_answers_must_match_events(self):
        stream = Stream("s", "batch", [{"add": "a", "vcpus": 4}], frozenset("a"))
        for answers in ([], [{"vm": "b", "cpus": "0-3", "ns": 1}]):
            with self.assertRaises(WrongAnswer):
                measure(even(2, 4, 4, 2), stream, answers)

    def test_bounds(self):
        host = even(2, 4, 4, 2)
        for vcpus, cores, threads in [(1, 1, 1), (4, 1, 1), (5, 2, 1), (8, 2, 1), (9, 3, 2)]:
            self.assertEqual((bound(host, vcpus, False), bound(host, vcpus, True)), (cores, threads))


class Verdicts(unittest.TestCase):
    def test_missed_and_dominated(self):
        def placed(llcs: int, nodes: int, shared: int) -> Placed:
            return Placed("vm", 8, llcs, nodes, shared, 0)

        cases = [
            ("the same", placed(2, 1, 0), placed(2, 1, 0), False, False, False),
            ("more llcs for less sharing: a choice", placed(2, 1, 0), placed(1, 1, 8), True, False, False),
            ("more of both", placed(2, 1, 8), placed(1, 1, 4), True, True, True),
            ("more llcs, the same sharing", placed(2, 1, 4), placed(1, 1, 4), True, False, True),
            ("more nodes, fewer llcs", placed(1, 2, 0), placed(2, 1, 0), True, False, False),
            ("only more sharing", placed(1, 1, 8), placed(1, 1, 4), False, False, True),
        ]
        for about, ours, peer, plain, smt, worse in cases:
            with self.subTest(about):
                self.assertEqual(misses(False, ours, peer), plain)
                self.assertEqual(misses(True, ours, peer), smt)
                self.assertEqual(dominated(ours, peer), worse)

    def test_a_comparison_counts_and_prints(self):
        host, events = even(2, 4, 4, 1, smt="off"), [{"add": "a", "vcpus": 8}, {"add": "b", "vcpus": 4}]
        stream = Stream("batch", "batch", events, frozenset("ab"))
        ours = [{"vm": "a", **groups(("0-3", 0, 0), ("4-7", 4, 1)), "ns": 1}, {"vm": "b", **groups(("0-3", 1, 0)), "ns": 1}]
        peer = [{"vm": "a", "cpus": "0-7", "ns": 1}, {"vm": "b", "refused": "no", "ns": 1}]
        drivers = (Driver("vtopo", "", run=None, ours=True), Driver("peer", "", run=None))
        outcomes = [measure(host, stream, answers) for answers in (ours, peer)]
        it = compare(host, stream, (drivers[0], outcomes[0]), (drivers[1], outcomes[1]))
        counts = [it[key] for key in ("compared", "only_ours", "only_peer", "more_llcs", "more_nodes", "missed", "missed_mean")]
        self.assertEqual(counts, [1, 1, 0, 0, 1, 1, 1])
        self.assertEqual((it["sums"]["nodes"], len(it["dominated"])), ([2, 1], 1))
        rows = [summary(host, stream, driver, outcome) for driver, outcome in zip(drivers, outcomes)]
        text = markdown({"seed": 1, "skipped": [], "rows": rows, "comparisons": [it]})
        self.assertIn("| even | off | batch | a | 8 | vtopo | 2, 2, 0 | peer | 2, 1, 0 | 1 |", text)
        for table in text.split("\n\n"):
            widths = {row.count("|") for row in table.splitlines() if row.startswith("|")}
            self.assertLessEqual(len(widths), 1, table)


if __name__ == "__main__":
    unittest.main()
