#!/usr/bin/env python3
"""Solves random instances to the proven optimum and reports how far `best` is from it. See the README beside this file."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed

sys.dont_write_bytecode = True  # Before our own modules are loaded: nothing is written beside the sources.

import ortools  # noqa: E402

import report  # noqa: E402
from solve import Mismatch, solve  # noqa: E402


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="the distance of `best` to the proven optimum")
    parser.add_argument("--program", default="target/release/examples/instances", help="what prints instances (default: %(default)s)")
    parser.add_argument("--count", type=int, default=240, help="how many instances (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the instances (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="index of the first instance (default: %(default)s)")
    parser.add_argument("--patient", action="store_true", help="measure `best` as planning runs it, not as a live host does")
    parser.add_argument("--limit", type=float, default=10, help="work for the optimum of one instance, about seconds of a core (default: %(default)s)")
    parser.add_argument("--worst-limit", type=float, default=2, help="the same for its worst plan (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="instances at a time (default: %(default)s)")
    parser.add_argument("--out", default="target/optimum", help="where the report goes (default: %(default)s)")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    options = [f"--{name}={getattr(args, name)}" for name in ("count", "seed", "first")]
    try:
        instances = read(args.program, [word for option in options for word in option.split("=")] + ["--patient"] * args.patient)
        rows = solve_all(instances, args)
    except (Mismatch, OSError, subprocess.CalledProcessError) as why:
        print(f"optimum: {why}", file=sys.stderr)
        return 2
    document = report.summary(rows)
    document |= {"patient": args.patient, "first": args.first, "count": args.count, "seed": args.seed, "limit": args.limit, "solver": f"OR-tools {ortools.__version__} CP-SAT"}
    text = report.markdown(document, rows)
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "optimum.json").write_text(json.dumps(document | {"rows": rows}, indent=1) + "\n")
    (out / "optimum.md").write_text(text)
    print(text.split("\n## ")[0])
    print(f"all of it: {out}/optimum.md and {out}/optimum.json")
    return 1 if document["missed"] else 0


def read(program: str, options: list[str]) -> list[dict]:
    output = subprocess.run([program, *options], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def solve_all(instances: list[dict], args: argparse.Namespace) -> list[dict]:
    """Rows by index, solved some at a time; a mismatch ends it all."""
    rows = []
    # Whoever uses the machine goes first.
    with ProcessPoolExecutor(args.processes, initializer=os.nice, initargs=(10,)) as pool:
        jobs = [pool.submit(solve, instance, args.limit, args.worst_limit) for instance in instances]
        try:
            for done in as_completed(jobs):
                rows.append(done.result())
                tell(len(rows), len(jobs))
        except Mismatch:
            pool.shutdown(cancel_futures=True)
            raise
    return sorted(rows, key=lambda row: row["index"])


def tell(done: int, total: int) -> None:
    if sys.stderr.isatty() or done % 20 == 0 or done == total:
        end = "\n" if done == total or not sys.stderr.isatty() else ""
        print(f"\r{done} of {total} instances", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception:  # Python's own exit code, 1, means a missed target here.
        traceback.print_exc()
        sys.exit(2)
