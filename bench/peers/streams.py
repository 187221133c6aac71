"""The requests: the same events for every driver, from a seed."""

import random
from dataclasses import dataclass

# Of a host's CPUs, what batches ask for in sum; ours: full enough to matter, not so full that all differences vanish.
FULL_PERCENT = 75
HALF_PERCENT = 50
ONLINE_EVENTS = 300
SIZES = [2, 4, 8, 16]
# Also sizes that divide no cache evenly.
SINGLE_SIZES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]


@dataclass(frozen=True)
class Stream:
    """Events in order, and which arrivals count; the others only prepare the host."""

    name: str
    kind: str  # "batch", "online" or "single".
    events: list[dict]
    counted: frozenset[str]


def make_streams(capacity: int, seed: int) -> list[Stream]:
    """All streams that make sense on a host of so many CPUs; a host too small for a stream has none of it."""
    streams = [
        batch("batch-4", capacity, lambda: 4),
        batch("batch-8", capacity, lambda: 8),
        batch("batch-mixed", capacity, chooser(seed, "batch", capacity)),
        online(capacity, seed),
        single(capacity, seed),
    ]
    return [stream for stream in streams if stream.counted]


def batch(name: str, capacity: int, size) -> Stream:
    """VMs until the next would not fit into the share."""
    events = arrivals(capacity, size)
    return Stream(name, "batch", events, names_of(events))


def online(capacity: int, seed: int) -> Stream:
    """Arrivals and departures about the share; whether a driver refused a VM does not change the events."""
    rng = random.Random(f"online {seed}")
    size = chooser(seed, "online", capacity)
    limit = capacity * FULL_PERCENT // 100
    running: list[tuple[str, int]] = []
    events: list[dict] = []
    count = 0
    while size is not None and len(events) < ONLINE_EVENTS:
        vcpus = size()
        fits = sum(n for _, n in running) + vcpus <= limit
        # Six in ten: the host fills and then stays about full.
        if not running or (fits and rng.random() < 0.6):
            count += 1
            running.append((f"vm{count}", vcpus))
            events.append({"add": f"vm{count}", "vcpus": vcpus})
        else:
            name, _ = running.pop(rng.randrange(len(running)))
            events.append({"remove": name})
    return Stream("online", "online", events, names_of(events))


def single(capacity: int, seed: int) -> Stream:
    """Each size alone on a host that was filled, then half emptied at random: its free CPUs are fragmented."""
    rng = random.Random(f"single {seed}")
    events = arrivals(capacity, chooser(seed, "single", capacity))
    used = sum(event["vcpus"] for event in events)
    running = list(events)
    while used > capacity * HALF_PERCENT // 100:
        gone = running.pop(rng.randrange(len(running)))
        used -= gone["vcpus"]
        events.append({"remove": gone["add"]})
    probes = [n for n in SINGLE_SIZES if n <= (capacity - used) // 2] if running else []
    for vcpus in probes:
        events += [{"add": f"single-{vcpus}", "vcpus": vcpus}, {"remove": f"single-{vcpus}"}]
    return Stream("single", "single", events, frozenset(f"single-{n}" for n in probes))


def chooser(seed: int, purpose: str, capacity: int):
    """Sizes at random, one stream of numbers per purpose; none where even the smallest size does not fit."""
    rng = random.Random(f"sizes {purpose} {seed}")
    sizes = [n for n in SIZES if n <= capacity // 2]
    return (lambda: rng.choice(sizes)) if sizes else None


def arrivals(capacity: int, size) -> list[dict]:
    limit, used = capacity * FULL_PERCENT // 100, 0
    events: list[dict] = []
    while size is not None:
        vcpus = size()
        if used + vcpus > limit:
            break
        used += vcpus
        events.append({"add": f"vm{len(events) + 1}", "vcpus": vcpus})
    return events


def names_of(events: list[dict]) -> frozenset[str]:
    return frozenset(event["add"] for event in events if "add" in event)
