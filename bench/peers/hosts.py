"""Hosts of the comparison, as `vtopo host --json` describes them."""

import json
import pathlib
import subprocess
from dataclasses import dataclass

# Two AMD generations of small caches, one of larger ones, Intel's one cache per package, a desktop.
PRESETS = ["epyc-7702-2s", "epyc-7763-2s", "epyc-9654-2s", "xeon-8380-2s", "ryzen-7950x-1s"]


@dataclass(frozen=True)
class Row:
    """What a CPU belongs to: indices of the host's tables."""

    cpu: int
    core: int
    llc: int
    node: int
    package: int


@dataclass(frozen=True)
class Host:
    """A host with its CPUs as one table, so that every driver and the measuring agree about it."""

    name: str
    smt: str  # "on", "off", or "none" where cores have one thread anyway.
    argument: list[str]  # HOST and options, for vtopo.
    xml: str | None  # The file that hwloc may read.
    document: dict
    rows: dict[int, Row]

    def label(self) -> str:
        return f"{self.name} (SMT {self.smt})"

    def capacity(self) -> int:
        return len(self.rows)

    def sets(self, column: str) -> dict[int, set[int]]:
        """The CPUs of each core, llc, node or package."""
        found: dict[int, set[int]] = {}
        for row in self.rows.values():
            found.setdefault(getattr(row, column), set()).add(row.cpu)
        return found

    def cores_of_llc(self, llc: int) -> int:
        return len({row.core for row in self.rows.values() if row.llc == llc})

    def has_smt(self) -> bool:
        return any(len(cpus) > 1 for cpus in self.sets("core").values())


def read_hosts(vtopo: str, presets: list[str], directory: str | None) -> tuple[list[Host], list[str]]:
    """Reads all hosts, with SMT on and off where there is SMT. Also says what was left out, and why."""
    sources: list[tuple[str, str, str | None]] = [(name, name, None) for name in presets]
    skipped = []
    if directory is None:
        skipped.append("hosts from files: no --hosts-dir was given")
    elif not (files := sorted(pathlib.Path(directory).glob("*.xml"))):
        skipped.append("hosts from files: there is no .xml in the folder of --hosts-dir")
    else:
        sources += [(file.stem, str(file), str(file)) for file in files]
    hosts = []
    for name, argument, xml in sources:
        try:
            host = read_host(vtopo, name, [argument], xml)
            hosts.append(host)
            if host.smt == "on":
                hosts.append(read_host(vtopo, name, [argument, "--smt", "off"], xml))
        except subprocess.CalledProcessError as error:
            skipped.append(f"{name}: vtopo cannot read it: {first_line(error.stderr)}")
    return hosts, skipped


def read_host(vtopo: str, name: str, argument: list[str], xml: str | None) -> Host:
    command = [vtopo, "host", *argument, "--json"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    document = json.loads(text)
    rows = rows_of(document)
    host = Host(name, "on", argument, xml, document, rows)
    smt = "off" if "--smt" in argument else "on" if host.has_smt() else "none"
    return Host(name, smt, argument, xml, document, rows)


def rows_of(document: dict) -> dict[int, Row]:
    """Finds for each CPU the smallest set of each kind that has it.

    A host does not nest and may have gaps: a CPU without a node gets that of its cache, one without a cache the cache of
    its core's first CPU or a cache of its own, one without a package the first.
    """
    kinds = ("cores", "llcs", "nodes", "packages")
    tables = {kind: [parse(part["cpus"]) for part in document[kind]] for kind in kinds}
    rows = {}
    for cpu in sorted(parse(document["cpus"])):
        core = smallest(tables["cores"], cpu, 1_000_000 + cpu)
        llc = smallest(tables["llcs"], cpu, 1_000_000 + cpu)
        near = document["llcs"][llc]["node"] if llc < len(tables["llcs"]) else 0
        node = smallest(tables["nodes"], cpu, near)
        rows[cpu] = Row(cpu, core, llc, node, smallest(tables["packages"], cpu, 0))
    return rows


def smallest(sets: list[set[int]], cpu: int, otherwise: int) -> int:
    holders = [(len(cpus), index) for index, cpus in enumerate(sets) if cpu in cpus]
    return min(holders)[1] if holders else otherwise


def parse(text: str) -> set[int]:
    """The CPUs of a text such as "0-3,8"."""
    cpus: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def format_cpus(cpus: set[int]) -> str:
    """The text of some CPUs, the shortest that `parse` reads back."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and parts[-1][1] + 1 == cpu:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def first_line(text: str | None) -> str:
    lines = [line.strip(" ×│╰─▶") for line in (text or "").splitlines()]
    return next((line for line in lines if line), "it said nothing")
