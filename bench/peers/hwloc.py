"""hwloc-distrib as a placer: the CPUs of a VM are the items that it distributes over what is free."""

import subprocess
import time

from hosts import Host, first_line, format_cpus

PROGRAM = "hwloc-distrib"


class Unsupported(Exception):
    """This host cannot be told to hwloc."""


class Distrib:
    """Who has which CPUs. hwloc-distrib remembers nothing, so each request says what is free.

    With `near`, it distributes over the smallest part of the host that still holds the VM (an llc, a node, a package, the
    host; of equal parts the fullest): the choice of the part is ours, since hwloc-distrib spreads over what it is given.
    """

    def __init__(self, host: Host, near: bool):
        self.source = topology_arguments(host)
        self.parts = [host.sets(kind) for kind in ("llc", "node", "package")] if near else []
        self.free = set(host.rows)
        self.vms: dict[str, set[int]] = {}

    def add(self, vm: str, vcpus: int) -> dict:
        start = time.perf_counter_ns()
        cpus, why = self.distribute(self.part_for(vcpus), vcpus)
        ns = time.perf_counter_ns() - start
        if why:
            return {"vm": vm, "refused": why, "ns": ns}
        self.vms[vm] = cpus
        self.free -= cpus
        return {"vm": vm, "cpus": format_cpus(cpus), "ns": ns}

    def remove(self, vm: str) -> None:
        self.free |= self.vms.pop(vm, set())

    def part_for(self, vcpus: int) -> set[int]:
        """The free CPUs that the VM is distributed over."""
        for parts in self.parts:
            left = [(len(cpus & self.free), index) for index, cpus in sorted(parts.items())]
            fitting = [it for it in left if it[0] >= vcpus]
            if fitting:
                return parts[min(fitting)[1]] & self.free
        return self.free

    def distribute(self, over: set[int], items: int) -> tuple[set[int], str]:
        if len(over) < items:
            return set(), f"{items} CPUs were asked for, {len(over)} are free"
        command = [PROGRAM, *self.source, "--restrict", mask(over), "--single", str(items)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            return set(), first_line(done.stderr)
        singles = [unmask(line) for line in done.stdout.split()]
        cpus = set().union(*singles)
        if len(cpus) != items:
            return set(), f"hwloc-distrib gave {len(cpus)} different CPUs for {items} items"
        return cpus, ""


def topology_arguments(host: Host) -> list[str]:
    """How to tell hwloc of a host: its file where there is one, else a synthetic text with the same numbering."""
    if host.xml is not None:
        return ["--if", "xml", "-i", host.xml]
    return ["--if", "synthetic", "-i", synthetic(host)]


def synthetic(host: Host) -> str:
    """The synthetic text of a host whose parts nest and are equal; its CPUs have the host's numbers."""
    names = {"package": "pack", "node": "numa", "llc": "l3", "core": "core"}
    # Coarse to fine. Among as many, the order above; hwloc lets any of these lie in any other.
    kinds = sorted(names, key=lambda kind: len(host.sets(kind)))
    order: list[set[int]] = [set(host.rows)]
    words = []
    for kind in kinds:
        inner = sorted(host.sets(kind).values(), key=min)
        nested = [[cpus for cpus in inner if cpus <= outer] for outer in order]
        arities = {len(children) for children in nested}
        if len(arities) != 1 or sum(map(len, nested)) != len(inner):
            raise Unsupported(f"its {kind}s do not divide it evenly, which a synthetic text cannot say")
        words.append(f"{names[kind]}:{arities.pop()}")
        order = [cpus for children in nested for cpus in children]
    threads = {len(cpus) for cpus in order}
    if len(threads) != 1:
        raise Unsupported("its cores have different numbers of threads, which a synthetic text cannot say")
    indexes = ",".join(str(cpu) for cpus in order for cpu in sorted(cpus))
    return " ".join([*words, f"pu:{threads.pop()}(indexes={indexes})"])


def mask(cpus: set[int]) -> str:
    """hwloc's text of a set: words of 32 bits, the highest first."""
    bits = sum(1 << cpu for cpu in cpus)
    words = []
    while bits or not words:
        words.append(f"0x{bits & 0xFFFFFFFF:08x}")
        bits >>= 32
    return ",".join(reversed(words))


def unmask(text: str) -> set[int]:
    """The set of such a text; an empty word is zero."""
    cpus = set()
    for place, word in enumerate(reversed(text.split(","))):
        bits = int(word or "0", 16)
        cpus.update(place * 32 + bit for bit in range(32) if bits >> bit & 1)
    return cpus
