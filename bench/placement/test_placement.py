"""Tests of the comparison itself: python3 -B -m unittest discover -s bench/placement"""

import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import measure  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402

ANSWER = '{"vms": 2, "placed": 2, "refused": 0, "hash": "ab", "place_ns": 4000}'


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def a_run(hash_: str, place_ns: int, wall_s: float) -> measure.Run:
    return measure.Run({"vms": 4, "placed": 3, "refused": 1, "hash": hash_, "place_ns": place_ns}, wall_s, wall_s / 2, 10)


class Measuring(unittest.TestCase):
    def test_an_answer_is_the_last_line(self):
        run = measure.run(python(f"print('hello'); print('''{ANSWER}''')"), 30)
        self.assertEqual(run.answer["hash"], "ab")
        self.assertGreater(run.wall_s, 0)
        self.assertGreater(run.rss_mib, 1)

    def test_memory_and_time_are_the_childs(self):
        run = measure.run(python(f"x = bytearray(200 << 20); [None for _ in range(10**6)]; print('''{ANSWER}''')"), 30)
        self.assertGreater(run.rss_mib, 200)
        self.assertGreater(run.cpu_s, 0.01)

    def test_a_program_may_say_its_memory_itself(self):
        answer = ANSWER.replace("}", ', "peak_kib": 2048}')
        self.assertEqual(measure.run(python(f"print('''{answer}''')"), 30).rss_mib, 2)

    def test_what_gives_no_answer_says_why(self):
        cases = [("import sys; sys.exit('no such file')", "ended with 1: no such file"), ("print('x')", "gave no answer: 'x"),
                 ("", "gave no answer"), ("import time; time.sleep(60)", "stopped after 1 s")]
        for code, why in cases:
            with self.assertRaisesRegex(measure.Failed, why):
                measure.run(python(code), 1 if "sleep" in code else 30)

    def test_much_output_does_not_block(self):
        code = f"import sys; sys.stderr.write('x' * 10**6); print('y' * 10**6); print('''{ANSWER}''')"
        self.assertEqual(measure.run(python(code), 30).answer["vms"], 2)

    def test_medians(self):
        it = measure.summary([a_run("a", 1000, 9), a_run("a", 8000, 1), a_run("a", 4000, 2)])
        self.assertEqual((it["runs"], it["place_s"], it["us_per_vm"], it["wall_s"], it["cpu_s"]), (3, 4e-6, 1, 2, 1))

    def test_runs_that_differ_are_no_result(self):
        with self.assertRaisesRegex(measure.Failed, "differently"):
            measure.summary([a_run("a", 1, 1), a_run("b", 1, 1)])


class Reporting(unittest.TestCase):
    def row(self, ours, peer):
        return report.row({"case": "c", "algorithm": "a", "way": "play", "ours": ours, "peer": peer})

    def test_sides_are_compared(self):
        ours, peer = measure.summary([a_run("a", 1000, 1)]), measure.summary([a_run("a", 7000, 2)])
        cells = self.row(ours, peer)
        self.assertEqual(cells[2:6], ["1, its policy alone", "1 µs", "7 µs", "7"])
        self.assertEqual(cells[-4:], ["250 ns", "10 MiB", "10 MiB", "yes"][-4:])
        self.assertEqual(self.row(ours, measure.summary([a_run("b", 1, 1)]))[-1], "NO")

    def test_a_missing_peer_leaves_cells_empty_and_a_line(self):
        ours = measure.summary([a_run("a", 1000, 1)])
        text = report.markdown({"rows": [{"case": "c", "algorithm": "a", "way": "play", "ours": ours, "peer": None}],
                                "skipped": ["CloudSim Plus: no java"]})
        self.assertIn("- skipped: CloudSim Plus: no java", text)
        self.assertEqual({line.count("|") for line in text.splitlines() if line.startswith("|")}, {len(report.HEADS) + 1})


class Fetching(unittest.TestCase):
    def test_a_missing_program_is_skipped_with_advice(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch("shutil.which", return_value=None):
            with self.assertRaisesRegex(peers.Skip, "java is not installed: type"):
                peers.cloudsimplus(pathlib.Path(folder))

    def test_a_failing_fetch_is_skipped_with_its_first_line(self):
        with self.assertRaisesRegex(peers.Skip, "could not: gone"):
            peers.step(python("import sys; sys.exit('gone')"), "could not")


if __name__ == "__main__":
    unittest.main()
