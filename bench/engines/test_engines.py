"""Tests of the comparison itself: figures, refusals, and that Python draws what it should."""

import pathlib
import sys
import types
import unittest

import drivers
import report
import run
from drivers import Driver, Skip
from measure import Broken, Run, add_ratios, read, row
from measure import run as run_engine

HERE = pathlib.Path(__file__).resolve().parent
ENGINE = Driver("peer", "1.0", ["peer"])


def python(program: str, **fields) -> Driver:
    """An engine that is a line of Python."""
    return Driver("peer", "1.0", [sys.executable, "-c", program], **fields)


class Figures(unittest.TestCase):
    def test_time_of_an_event_is_per_repeat_and_the_row_has_the_median(self):
        text = ('{"events": 60, "sum": "ab", "repeats": [{"events": 10, "ns": 1000, "wall_ns": 1000}, '
                '{"events": 20, "ns": 600, "wall_ns": 4000}, {"events": 5, "ns": 250, "wall_ns": 250}]}')
        found = read(text, 3, 2048)
        self.assertEqual(found.ns, [100.0, 30.0, 50.0])
        self.assertEqual((found.wall_ns, found.peak_kib), ([100.0, 200.0, 50.0], 2048))
        it = row(ENGINE, 64, 10, found, found)
        self.assertEqual((it["ns_median"], it["ns_min"], it["ns_max"]), (50.0, 30.0, 100.0))
        self.assertEqual(it["wall_ns_median"], 100.0)
        self.assertEqual((it["events_per_s"], it["repeats"], it["events"], it["peak_mib"]), (20_000_000, 3, 10, 2.0))

    def test_ratios_are_to_ours_of_the_same_size(self):
        rows = [
            {"engine": "ours", "entities": 64, "ns_median": 10.0},
            {"engine": "peer", "entities": 64, "ns_median": 25.0},
            {"engine": "ours", "entities": 1000, "ns_median": 20.0},
            {"engine": "peer", "entities": 1000, "ns_median": 20.0},
            {"engine": "peer", "entities": 5, "ns_median": 20.0},
        ]
        add_ratios(rows)
        self.assertEqual([it["ratio"] for it in rows], [1.0, 2.5, 1.0, 1.0, None])

    def test_targets_are_met_from_their_ratio_on_and_only_at_their_size(self):
        rows = [
            {"engine": "simcore", "entities": 100_000, "ratio": 2.0},
            {"engine": "nexosim", "entities": 100_000, "ratio": 9.99},
            {"engine": "simpy", "entities": 64, "ratio": 50.0},
        ]
        met = {it["engine"]: it["met"] for it in report.check_targets(rows)}
        self.assertEqual(met, {"simcore": True, "nexosim": False, "simpy": None, "simgrid": None})

    def test_slow_engines_run_fewer_events_but_never_more_than_asked(self):
        cases = [("simgrid", 1_000_000, 10**6, 200_000), ("simgrid", 1_000_000, 5, 5), ("simgrid", 999, 10**6, 10**6), ("ours", 10**6, 10**6, 10**6)]
        for engine, entities, asked, expected in cases:
            self.assertEqual(run.events_of(engine, entities, asked), expected, (engine, entities))

    def test_tables_have_a_line_for_each_row_and_say_what_is_missing(self):
        found = Run(10, "ab", [100.0], [120.0], 1024)
        rows = [row(Driver("ours", "1", []), 100_000, 10, found, found)]
        add_ratios(rows)
        document = {"machine": "m", "tools": "t", "load": "0.0", "command": "c", "versions": {"ours": "1"}, "rows": rows,
                    "skipped": ["simpy: no network"], "targets": report.check_targets(rows)}
        text = report.markdown(document)
        self.assertIn("| 100,000 | ours | 100 (100–100) | 10,000,000 | 1.0 | 10 × 1 | 1 |", text)
        self.assertIn("- skipped: simpy: no network", text)
        self.assertIn("- simpy: at least 10 times ours: not measured", text)


class Answers(unittest.TestCase):
    def test_other_events_than_ours_are_refused(self):
        ours = Run(10, "ab", [1.0], [1.0], 0)
        for other in (Run(11, "ab", [1.0], [1.0], 0), Run(10, "ac", [1.0], [1.0], 0)):
            with self.assertRaisesRegex(Broken, "other events"):
                row(ENGINE, 64, 10, other, ours)

    def test_what_cannot_be_read_is_said(self):
        cases = ["", "{}", "[]", '{"events": 1, "sum": "a", "repeats": []}',
                 '{"events": 1, "sum": "a", "repeats": [{"events": 0, "ns": 1, "wall_ns": 1}]}', '{"events": 1, "sum": "a", "repeats": [{"events": 1, "ns": 1}]}']
        for text in cases:
            with self.assertRaises(Broken, msg=text):
                read(text, 1, 0)

    def test_engines_that_fail_or_hang_are_ended(self):
        with self.assertRaisesRegex(Broken, "ended with 3: why"):
            run_engine(python("import sys; print('why', file=sys.stderr); sys.exit(3)"), None, 1, 1, 1, 60)
        with self.assertRaisesRegex(Broken, "longer than"):
            run_engine(python("import time; time.sleep(60)"), None, 1, 1, 1, 1)

    def test_an_engine_gets_its_numbers_options_and_environment(self):
        program = ("import os, sys; assert sys.argv[1:] == ['7', '8', '1', '--x'] and os.environ['LIKE'] == 'this'; "
                   "print('{\"events\": 9, \"sum\": \"0a\", \"repeats\": [{\"events\": 4, \"ns\": 8, \"wall_ns\": 12}]}')")
        found = run_engine(python(program, options=["--x"], environment={"LIKE": "this"}), None, 7, 8, 1, 60)
        self.assertEqual((found.events, found.sum, found.ns), (9, "0a", [2.0]))
        self.assertGreater(found.peak_kib, 1000)

    def test_what_does_not_fit_is_not_started(self):
        run.enough_memory(ENGINE, 1)
        with self.assertRaisesRegex(Skip, "GiB available"):
            run.enough_memory(ENGINE, 10**12)


class Building(unittest.TestCase):
    def test_versions_come_from_the_lock(self):
        lock = '[[package]]\nname = "simcore-x"\nversion = "9"\n\n[[package]]\nname = "simcore"\nversion = "0.1.0"\n'
        self.assertEqual(drivers.locked_version(lock, "simcore"), "0.1.0")
        self.assertEqual(drivers.locked_version(lock, "none"), "?")
        own = (HERE / "rust" / "Cargo.lock").read_text()
        self.assertEqual(drivers.locked_version(own, "simcore"), "0.1.0")
        self.assertEqual(drivers.locked_version(own, "nexosim"), "1.0.0")

    def test_packages_to_install_are_those_apt_would(self):
        plan = "Reading package lists...\nInst liba (1.0 Debian [amd64])\nInst libb-dev (2)\nConf liba (1.0)\n"
        self.assertEqual(drivers.to_install(plan), ["liba", "libb-dev"])

    def test_the_reason_of_a_failure_is_in_the_refusal(self):
        with self.assertRaisesRegex(Skip, "E: it is not there"):
            drivers.call([sys.executable, "-c", "import sys; sys.exit('E: it is not there')"])
        with self.assertRaisesRegex(Skip, "not installed"):
            drivers.call(["no-such-program-of-ours"])


class Draws(unittest.TestCase):
    def test_the_process_draws_what_the_other_engines_draw(self):
        sys.modules.setdefault("simpy", types.SimpleNamespace(Environment=object))
        import hold

        def draw(now: int, entity: int) -> int:
            bits = (1 << 64) - 1
            mixed = (now ^ (entity * 0x9E3779B97F4A7C15 & bits)) * 0xBF58476D1CE4E5B9 & bits
            return (mixed ^ (mixed >> 32)) * 0x94D049BB133111EB & bits

        env, tally = types.SimpleNamespace(now=0, timeout=lambda delay: delay), hold.Tally()
        process = hold.entity(env, 5, tally)
        delays, total = [], 0
        for _ in range(20_000):
            total += draw(env.now, 5)
            delays.append(next(process))
            env.now += delays[-1]
        self.assertEqual((tally.events, tally.sum), (20_000, total))
        self.assertGreaterEqual(min(delays), 1)
        # Mean and standard deviation of an exponential law are equal.
        mean = sum(delays) / len(delays)
        variance = sum((it - mean) ** 2 for it in delays) / len(delays)
        self.assertAlmostEqual(mean / 1e9, 1, delta=0.03)
        self.assertAlmostEqual(variance**0.5 / 1e9, 1, delta=0.05)


if __name__ == "__main__":
    unittest.main()
