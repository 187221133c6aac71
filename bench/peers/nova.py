"""Packing like OpenStack Nova's, re-implemented from its published description; no code of Nova's is here.

What is described: a flavour with `hw:cpu_policy=dedicated` and `hw:cpu_thread_policy=prefer` pins each vCPU to a host CPU
of its own. The VM's NUMA cells (one, unless the flavour asks for more) each go into one host cell, cells that are in use
first (`packing_host_numa_cells_allocation_strategy`). Within a cell, cores are grouped by how many free threads they have;
Nova begins with the emptiest cores and takes that many threads of each, in order, and goes on to fewer threads per core
until the VM fits; if it never does, it takes free threads wherever they are. It knows nothing of last-level caches.
"""

import itertools
import time

from hosts import Host, format_cpus


class Nova:
    """Who has which CPUs; cells and cores in the order of their numbers."""

    def __init__(self, host: Host):
        siblings = sorted(host.sets("core").values(), key=min)
        self.cells: list[list[list[int]]] = []
        for _, cpus in sorted(host.sets("node").items()):
            self.cells.append([sorted(core & cpus) for core in siblings if core & cpus])
        self.free = set(host.rows)
        self.vms: dict[str, set[int]] = {}

    def add(self, vm: str, vcpus: int) -> dict:
        start = time.perf_counter_ns()
        cpus = self.place(vcpus)
        ns = time.perf_counter_ns() - start
        if cpus is None:
            return {"vm": vm, "refused": "no host cells hold its NUMA cells", "ns": ns}
        self.vms[vm] = cpus
        self.free -= cpus
        return {"vm": vm, "cpus": format_cpus(cpus), "ns": ns}

    def remove(self, vm: str) -> None:
        self.free |= self.vms.pop(vm, set())

    def place(self, vcpus: int) -> set[int] | None:
        """One guest cell in one host cell each, the first order of host cells that works."""
        parts = self.guest_cells(vcpus)
        if parts == 0:
            return None
        # Stable: among cells equally used, the lower number first.
        order = sorted(range(len(self.cells)), key=lambda cell: -self.used(cell))
        for chosen in itertools.permutations(order, parts):
            taken = [self.pin(cell, vcpus // parts) for cell in chosen]
            if all(cpus is not None for cpus in taken):
                return set().union(*taken)
        return None

    def guest_cells(self, vcpus: int) -> int:
        """What a sensible flavour asks for: the fewest equal cells that an empty host could hold, 0 if there are none."""
        sizes = sorted((sum(map(len, cell)) for cell in self.cells), reverse=True)
        for parts in range(1, len(sizes) + 1):
            if vcpus % parts == 0 and vcpus // parts <= sizes[parts - 1]:
                return parts
        return 0

    def used(self, cell: int) -> int:
        return sum(cpu not in self.free for core in self.cells[cell] for cpu in core)

    def pin(self, cell: int, vcpus: int) -> set[int] | None:
        cores = [[cpu for cpu in core if cpu in self.free] for core in self.cells[cell]]
        for threads in range(max(map(len, cores), default=0), 0, -1):
            usable = [cpu for core in cores if len(core) >= threads for cpu in core[:threads]]
            if len(usable) >= vcpus:
                return set(usable[:vcpus])
        single = [cpu for core in cores for cpu in core]
        return set(single[:vcpus]) if len(single) >= vcpus else None
