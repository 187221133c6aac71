"""What a placement is worth: spans, and how many vCPUs share a core.

Peers give exclusive CPUs, so their figures are counted. vtopo gives parts of VMs to last-level caches, whose CPUs they
share with others; there the least sharing is counted that so many vCPUs on so many cores can have when they spread, which
is what a kernel's idle-core search makes of it: twice the vCPUs above the cores, at most all.
"""

from dataclasses import dataclass, field

from hosts import Host, parse
from streams import Stream


class WrongAnswer(Exception):
    """A driver answered what cannot be: CPUs twice, or not there, or not as many as asked for."""


@dataclass(frozen=True)
class Placed:
    """One request that was placed. `shared` is how many of its vCPUs share a core, right after it was placed."""

    vm: str
    vcpus: int
    llcs: int
    nodes: int
    shared: float
    ns: int


@dataclass
class Outcome:
    """What came of a stream: arrivals that count, and the sharing of the whole host while it ran."""

    placed: dict[str, Placed] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    ns: list[int] = field(default_factory=list)
    # Per counted moment, of all vCPUs on the host, those that share a core, and those above the threads of their llc.
    shared_of: list[tuple[int, int]] = field(default_factory=list)
    overcommitted: int = 0


class Ledger:
    """The host while a stream runs."""

    def __init__(self, host: Host):
        self.host = host
        self.busy: dict[int, str] = {}
        self.on_core: dict[int, int] = {}
        self.on_llc: dict[int, int] = {}
        self.cores = {llc: host.cores_of_llc(llc) for llc in host.sets("llc")}
        self.threads = {llc: len(cpus) for llc, cpus in host.sets("llc").items()}
        self.vms: dict[str, tuple[set[int], dict[int, int]]] = {}
        self.vcpus: dict[str, int] = {}

    def add(self, vm: str, vcpus: int, answer: dict) -> tuple[int, int]:
        """Takes a VM in; how many llcs and nodes it spans."""
        if vm in self.vms:
            raise WrongAnswer(f"{vm} is there already")
        if "groups" in answer:
            spans = self.add_groups(vm, vcpus, answer["groups"])
        else:
            spans = self.add_cpus(vm, vcpus, parse(answer["cpus"]))
        self.vcpus[vm] = vcpus
        return spans

    def add_cpus(self, vm: str, vcpus: int, cpus: set[int]) -> tuple[int, int]:
        taken = {cpu: self.busy[cpu] for cpu in cpus if cpu in self.busy}
        if len(cpus) != vcpus or taken or not cpus <= self.host.rows.keys():
            raise WrongAnswer(f"{vm} of {vcpus} vCPUs got {sorted(cpus)}; taken before: {taken}")
        for cpu in cpus:
            self.busy[cpu] = vm
            core = self.host.rows[cpu].core
            self.on_core[core] = self.on_core.get(core, 0) + 1
        self.vms[vm] = (cpus, {})
        rows = [self.host.rows[cpu] for cpu in cpus]
        return len({row.llc for row in rows}), len({row.node for row in rows})

    def add_groups(self, vm: str, vcpus: int, groups: list[dict]) -> tuple[int, int]:
        members = [parse(group["vcpus"]) for group in groups]
        if sum(map(len, members)) != vcpus or set().union(*members) != set(range(vcpus)):
            raise WrongAnswer(f"{vm} of {vcpus} vCPUs got groups {[group['vcpus'] for group in groups]}")
        load: dict[int, int] = {}
        for group, of_vm in zip(groups, members):
            if group["llc"] not in self.cores:
                raise WrongAnswer(f"{vm} is on llc {group['llc']}, which the host does not have")
            load[group["llc"]] = load.get(group["llc"], 0) + len(of_vm)
        for llc, count in load.items():
            self.on_llc[llc] = self.on_llc.get(llc, 0) + count
        self.vms[vm] = (set(), load)
        return len(load), len({group["node"] for group in groups})

    def remove(self, vm: str) -> None:
        cpus, load = self.vms.pop(vm, (set(), {}))
        self.vcpus.pop(vm, None)
        for cpu in cpus:
            del self.busy[cpu]
            self.on_core[self.host.rows[cpu].core] -= 1
        for llc, count in load.items():
            self.on_llc[llc] -= count

    def shared(self) -> int:
        """How many vCPUs share a core with another."""
        counted = sum(count for count in self.on_core.values() if count > 1)
        return counted + sum(map(self.shared_on, self.on_llc))

    def shared_on(self, llc: int) -> int:
        load = self.on_llc[llc]
        return min(load, 2 * max(0, load - self.cores[llc]))

    def shared_of(self, vm: str) -> float:
        """How many vCPUs of this VM share a core; on an llc that VMs have in common, its part of those that do."""
        cpus, load = self.vms[vm]
        counted = sum(self.on_core[self.host.rows[cpu].core] > 1 for cpu in cpus)
        return counted + round(sum(n * self.shared_on(llc) / self.on_llc[llc] for llc, n in load.items()), 2)

    def overcommitted(self) -> int:
        return sum(max(0, n - self.threads[llc]) for llc, n in self.on_llc.items())


def measure(host: Host, stream: Stream, answers: list[dict]) -> Outcome:
    """Replays the events with a driver's answers."""
    ledger, outcome = Ledger(host), Outcome()
    left = iter(answers)
    for number, event in enumerate(stream.events):
        if "remove" in event:
            ledger.remove(event["remove"])
            moment = stream.kind == "online"
        else:
            answer = next(left, None)
            if answer is None or answer["vm"] != event["add"]:
                raise WrongAnswer(f"event {number} adds {event['add']}, the answer is {answer}")
            take_in(ledger, outcome, event, answer, event["add"] in stream.counted)
            moment = event["add"] in stream.counted
        last = number + 1 == len(stream.events)
        if moment and (stream.kind != "batch" or last):
            outcome.shared_of.append((ledger.shared(), sum(ledger.vcpus.values())))
            outcome.overcommitted = max(outcome.overcommitted, ledger.overcommitted())
    return outcome


def take_in(ledger: Ledger, outcome: Outcome, event: dict, answer: dict, counts: bool) -> None:
    vm, vcpus = event["add"], event["vcpus"]
    if counts:
        outcome.ns.append(answer["ns"])
    if "refused" in answer:
        if counts:
            outcome.refused[vm] = answer["refused"]
        return
    llcs, nodes = ledger.add(vm, vcpus, answer)
    if counts:
        outcome.placed[vm] = Placed(vm, vcpus, llcs, nodes, ledger.shared_of(vm), answer["ns"])


def bound(host: Host, vcpus: int, by_threads: bool) -> int:
    """The fewest llcs that can hold a VM on an empty host, if each takes as many vCPUs as the largest has cores or threads."""
    llcs = host.sets("llc")
    largest = max(len(cpus) if by_threads else host.cores_of_llc(llc) for llc, cpus in llcs.items())
    return -(-vcpus // largest)
