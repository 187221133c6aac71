#!/usr/bin/env python3
"""Runs the same hold model on our event queue and on other engines. See the README beside this file."""

import argparse
import json
import os
import pathlib
import platform
import shlex
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # Before our own modules are loaded: nothing is written beside the sources.

import drivers  # noqa: E402
import report  # noqa: E402
from measure import Broken, Run, add_ratios, row, run  # noqa: E402

SIZES = [64, 1_000, 100_000, 1_000_000]
# An engine that does not end within this many seconds is left out.
LIMIT_S = 900
# Where an engine takes minutes for a repeat, so many events are enough: engine, at least so many entities.
FEWER = {("simgrid", 1_000_000): 200_000, ("simpy", 1_000_000): 200_000}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="the hold model on our queue and on other engines")
    parser.add_argument("--entities", type=int, action="append", help="run this size instead of the usual ones; repeatable")
    parser.add_argument("--engine", action="append", choices=list(drivers.PEERS), help="compare only with this; repeatable")
    parser.add_argument("--events", type=int, default=1_000_000, help="of a repeat, about (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=7, help="default: %(default)s")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)), help="to run on (default: the last)")
    parser.add_argument("--build", default="target/engines", help="where what is built goes (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the document instead of the tables")
    args = parser.parse_args()
    sizes = args.entities or SIZES
    if min(*sizes, args.events, args.repeats, 10**9) < 1 or max(sizes) > 10**8:
        parser.error("sizes, events and repeats are numbers from 1 on, sizes up to 100,000,000")
    args.entities = sizes
    return args


def main() -> int:
    args = arguments()
    build = pathlib.Path(args.build)
    build.mkdir(parents=True, exist_ok=True)
    cpu = args.cpu
    document = describe(args)
    if not shutil.which("taskset"):
        document["skipped"].append("pinning to a CPU: taskset is not installed")
        cpu = None
    try:
        engines = [drivers.ours(build)]
    except drivers.Skip as why:
        print(f"engines: ours cannot be built: {why}", file=sys.stderr)
        return 1
    for name in args.engine or drivers.PEERS:
        print(f"engines: building {name}", file=sys.stderr)
        try:
            engines.append(drivers.PEERS[name](build))
        except drivers.Skip as why:
            document["skipped"].append(f"{name}: {why}")
    document["versions"] = {it.name: it.version for it in engines}
    failed = False
    for entities in args.entities:
        failed |= not run_size(entities, engines, cpu, args, document)
    add_ratios(document["rows"])
    document["targets"] = report.check_targets(document["rows"])
    text, tables = json.dumps(document, indent=1, ensure_ascii=False) + "\n", report.markdown(document)
    (build / "engines.json").write_text(text)
    (build / "engines.md").write_text(tables)
    sys.stdout.write(text if args.json else tables)
    return int(failed)


def run_size(entities: int, engines: list[drivers.Driver], cpu: int | None, args: argparse.Namespace, document: dict) -> bool:
    """Runs every engine at one size; false when ours failed."""
    references: dict[int, Run] = {}
    for engine in engines:
        print(f"engines: {engine.name}, {entities} entities", file=sys.stderr)
        events = events_of(engine.name, entities, args.events)
        try:
            enough_memory(engine, entities)
            if events not in references:
                references[events] = run(engines[0], cpu, entities, events, args.repeats, LIMIT_S)
            ours = engine is engines[0]
            found = references[events] if ours else run(engine, cpu, entities, events, args.repeats, LIMIT_S)
            document["rows"].append(row(engine, entities, events, found, references[events]))
        except (Broken, drivers.Skip) as why:
            document["skipped"].append(f"{engine.name}, {entities} entities: {why}")
            if not references:
                return False
    return True


def events_of(engine: str, entities: int, asked: int) -> int:
    """Events of a repeat: as many as asked for, or fewer where that takes too long."""
    fewer = [events for (name, least), events in FEWER.items() if name == engine and entities >= least]
    return min([asked, *fewer])


def enough_memory(engine: drivers.Driver, entities: int) -> None:
    """Refuses what would make this machine swap."""
    need = engine.bytes_per_entity * entities / 2**30
    have = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines() if pathlib.Path("/proc/meminfo").is_file() else []
    have = max([have, *(int(it.split()[1]) / 2**20 for it in lines if it.startswith("MemAvailable:"))])
    if need > have * 0.8:
        raise drivers.Skip(f"needs about {need:.0f} GiB, of {have:.0f} GiB available")


def describe(args: argparse.Namespace) -> dict:
    """The machine and the command, without names of hosts and folders."""
    words = ["cargo", "xtask", "engines", *sys.argv[1:]]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    tools = [first_line(["rustc", "--version"]), first_line(["g++", "--version"]), f"Python {platform.python_version()}"]
    return {
        "machine": f"{processor()}, {os.cpu_count()} CPUs, {memory:.0f} GiB, Linux {platform.machine()}, pinned to one CPU",
        "tools": ", ".join(it for it in tools if it),
        "load": f"{os.getloadavg()[0]:.1f}",
        "command": shlex.join(words),
        "rows": [],
        "skipped": [],
    }


def processor() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [it.partition(":")[2].strip() for it in lines if it.startswith("model name")]
    return names[0] if names else platform.machine()


def first_line(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.partition("\n")[0]
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
