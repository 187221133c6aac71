"""Runs an engine and makes figures of what it says."""

import json
import os
import statistics
import subprocess
import threading
from dataclasses import dataclass

from drivers import Driver


class Broken(Exception):
    """An engine failed, or did something else than it was asked for."""


@dataclass(frozen=True)
class Run:
    """One process: what it counted, what it timed, and the most memory it had."""

    events: int
    # Of all draws: equal sums mean equal events.
    sum: str
    # Nanoseconds of computing for one event, one figure for each repeat.
    ns: list[float]
    # The same by the time of day: more when something else ran on the CPU.
    wall_ns: list[float]
    peak_kib: int


def run(driver: Driver, cpu: int | None, entities: int, events: int, repeats: int, limit_s: int) -> Run:
    """Runs an engine on one CPU."""
    pin = [] if cpu is None else ["taskset", "-c", str(cpu)]
    numbers = [str(number) for number in (entities, events, repeats)]
    command = [*pin, *driver.command, *numbers, *driver.options]
    with subprocess.Popen(command, env={**os.environ, **driver.environment}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        late = threading.Event()
        timer = threading.Timer(limit_s, lambda: (late.set(), process.kill()))
        timer.start()
        # Little is written to either, so that none fills while the other is read.
        text, errors = process.stdout.read(), process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    if late.is_set():
        raise Broken(f"took longer than {limit_s} s")
    if process.returncode:
        lines = errors.strip().splitlines() or ["no reason given"]
        raise Broken(f"ended with {process.returncode}: {lines[-1]}")
    return read(text, repeats, usage.ru_maxrss)


def read(text: str, repeats: int, peak_kib: int) -> Run:
    """What an engine printed."""
    try:
        document = json.loads(text)
        timed = document["repeats"]
        if len(timed) != repeats or min(it["events"] for it in timed) < 1:
            raise Broken(f"timed {timed}, asked for {repeats} repeats")
        ns, wall_ns = ([it[clock] / it["events"] for it in timed] for clock in ("ns", "wall_ns"))
        return Run(document["events"], document["sum"], ns, wall_ns, peak_kib)
    except (KeyError, TypeError, ValueError) as error:
        raise Broken(f"printed what cannot be read: {error!r}") from error


def row(driver: Driver, entities: int, asked: int, run: Run, reference: Run) -> dict:
    """The figures of a run. The reference is our run of the same events."""
    if (run.events, run.sum) != (reference.events, reference.sum):
        raise Broken(f"ran other events: {run.events} with sum {run.sum}, ours {reference.events} with {reference.sum}")
    median = statistics.median(run.ns)
    return {
        "engine": driver.name,
        "version": driver.version,
        "entities": entities,
        "events": asked,
        "repeats": len(run.ns),
        "ns_median": round(median, 2),
        "ns_min": round(min(run.ns), 2),
        "ns_max": round(max(run.ns), 2),
        "wall_ns_median": round(statistics.median(run.wall_ns), 2),
        "events_per_s": round(1e9 / median),
        "peak_mib": round(run.peak_kib / 1024, 1),
    }


def add_ratios(rows: list[dict]) -> None:
    """How many times our time for an event each engine takes, by medians."""
    ours = {it["entities"]: it["ns_median"] for it in rows if it["engine"] == "ours"}
    for it in rows:
        base = ours.get(it["entities"])
        it["ratio"] = round(it["ns_median"] / base, 2) if base else None
