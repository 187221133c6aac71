#!/usr/bin/env python3
"""Places the same VMs with vtopo and with CloudSim Plus, and prints time and memory. See the README beside this file."""

import argparse
import json
import pathlib
import subprocess
import sys
from dataclasses import dataclass

sys.dont_write_bytecode = True  # Before our own modules are loaded: nothing is written beside the sources.

import peers  # noqa: E402
import report  # noqa: E402
from measure import Failed, run, summary  # noqa: E402


@dataclass(frozen=True)
class Case:
    name: str
    # What is drawn: arguments of the example's `draw`, without the seed.
    draw: tuple[str, ...]
    hosts: int
    cpus: int
    gib: int
    algorithms: tuple[str, ...]
    # How the peer is asked: its whole simulation, or its policy alone.
    way: str


ALL = ("first-fit", "next-fit", "best-fit", "worst-fit")
# The peer's others look at all hosts for every VM: more than a minute a run from 1,000 hosts on.
SEARCHES = ("next-fit", "first-fit")
# Hosts of 144 CPUs and 200 GiB are those of the example that DSLab and CloudSim Plus share; 300 of 64 CPUs and 128 GiB are
# those of DSLab's trace replay. 20 of them are too few for the day: some VMs are refused.
CASES = [
    Case("100 hosts, 1,000 VMs", ("fill", "1000"), 100, 144, 200, ALL, "simulate"),
    Case("1,000 hosts, 10,000 VMs", ("fill", "10000"), 1_000, 144, 200, SEARCHES, "simulate"),
    Case("a day on 300 hosts", ("day",), 300, 64, 128, ("best-fit", "first-fit"), "play"),
    Case("a day on 20 hosts", ("day",), 20, 64, 128, ("best-fit", "first-fit"), "play"),
    # Last, for the peer takes minutes.
    Case("5,000 hosts, 50,000 VMs", ("fill", "50000"), 5_000, 144, 200, SEARCHES, "simulate"),
]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="vtopo and CloudSim Plus place the same VMs")
    parser.add_argument("--program", default="target/release/examples/placement", help="our side (default: %(default)s)")
    parser.add_argument("--build", default="target/placement", help="where what is made goes (default: %(default)s)")
    parser.add_argument("--case", action="append", help="run only cases whose name holds this; repeatable")
    parser.add_argument("--algorithm", action="append", choices=ALL, help="run only this one; repeatable")
    parser.add_argument("--runs", type=int, default=7, help="of our side (default: %(default)s)")
    parser.add_argument("--peer-runs", type=int, default=3, help="of the peer (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one run (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the VMs (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the document instead of the tables")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    build = pathlib.Path(args.build)
    build.mkdir(parents=True, exist_ok=True)
    if not pathlib.Path(args.program).is_file():
        print(f"placement: there is no {args.program}: type 'cargo xtask placement'", file=sys.stderr)
        return 2
    cases = [it for it in CASES if not args.case or any(part in it.name for part in args.case)]
    if not cases:
        print(f"placement: no such case; there are {'; '.join(it.name for it in CASES)}", file=sys.stderr)
        return 2
    document = {"seed": args.seed, "rows": [], "skipped": []}
    try:
        peer = peers.cloudsimplus(build)
    except peers.Skip as why:
        peer = None
        document["skipped"].append(f"CloudSim Plus: {why}")
    failed = False
    for case in cases:
        requests = draw(args, case, build)
        for algorithm in case.algorithms:
            if not args.algorithm or algorithm in args.algorithm:
                failed |= measure(args, (case, algorithm, requests), peer, document)
                write(build, document)
    sys.stdout.write(json.dumps(document, indent=1) + "\n" if args.json else report.markdown(document))
    return int(failed)


def draw(args: argparse.Namespace, case: Case, build: pathlib.Path) -> pathlib.Path:
    """Writes the requests that both sides read."""
    file = build / f"{'-'.join(case.draw)}-{args.seed}.csv"
    with file.open("w") as out:
        subprocess.run([args.program, "draw", *case.draw, str(args.seed)], stdout=out, check=True)
    return file


def measure(args: argparse.Namespace, what: tuple[Case, str, pathlib.Path], peer: list[str] | None, document: dict) -> bool:
    """Adds a row; true if our side failed."""
    case, algorithm, requests = what
    print(f"placement: {case.name}, {algorithm}", file=sys.stderr)
    arguments = [str(requests), str(case.hosts), str(case.cpus), str(case.gib), algorithm]
    row = {"case": case.name, "algorithm": algorithm, "way": case.way, "ours": None, "peer": None}
    failed = False
    try:
        row["ours"] = summary([run([args.program, "run", *arguments], args.limit) for _ in range(args.runs)])
    except Failed as why:
        document["skipped"].append(f"vtopo, {case.name}, {algorithm}: {why}")
        failed = True
    if peer is not None:
        try:
            command = [*peer, *arguments, case.way]
            row["peer"] = summary([run(command, args.limit) for _ in range(args.peer_runs)])
        except Failed as why:
            document["skipped"].append(f"CloudSim Plus, {case.name}, {algorithm}: {why}")
    document["rows"].append(row)
    return failed


def write(build: pathlib.Path, document: dict) -> None:
    """After each row, so that what is measured stays if a later run is broken off."""
    (build / "placement.json").write_text(json.dumps(document, indent=1) + "\n")
    (build / "placement.md").write_text(report.markdown(document))


if __name__ == "__main__":
    sys.exit(main())
