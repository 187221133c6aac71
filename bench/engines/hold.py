#!/usr/bin/env python3
"""The hold model in SimPy: a process for each entity, which yields timeouts. rust/src/lib.rs says what all engines share."""

import gc
import json
import math
import sys
import time

import simpy

MEAN_NS = 1e9
BITS = (1 << 64) - 1


class Tally:
    """What happened so far."""

    __slots__ = ("events", "sum")

    def __init__(self) -> None:
        self.events = 0
        self.sum = 0


def entity(env: simpy.Environment, number: int, tally: Tally):
    """One entity: its draws are those of the other engines, bit for bit, without a call for each."""
    log, timeout = math.log, env.timeout
    key = number * 0x9E3779B97F4A7C15 & BITS
    while True:
        mixed = (env.now ^ key) * 0xBF58476D1CE4E5B9 & BITS
        draw = (mixed ^ mixed >> 32) * 0x94D049BB133111EB & BITS
        tally.events += 1
        tally.sum += draw
        yield timeout(1 + int(-log(((draw >> 11) + 0.5) * (1.0 / (1 << 53))) * MEAN_NS))


def main() -> None:
    entities, events, repeats = map(int, sys.argv[1:])
    env, tally = simpy.Environment(), Tally()
    for number in range(entities):
        env.process(entity(env, number, tally))
    moment = int(max(entities, 20_000) * MEAN_NS / entities)
    env.run(until=moment)
    # What lives as long as the run need not be looked at by the collector again and again.
    gc.collect()
    gc.freeze()
    timed = []
    for _ in range(repeats):
        moment += int(events * MEAN_NS / entities)
        before, start, computed = tally.events, time.perf_counter_ns(), time.process_time_ns()
        env.run(until=moment)
        ns, wall_ns = time.process_time_ns() - computed, time.perf_counter_ns() - start
        timed.append({"events": tally.events - before, "ns": ns, "wall_ns": wall_ns})
    print(json.dumps({"engine": "simpy", "events": tally.events, "sum": f"{tally.sum & BITS:016x}", "repeats": timed}))


if __name__ == "__main__":
    main()
