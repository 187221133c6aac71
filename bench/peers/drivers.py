"""Who places: each driver takes a host and a stream, and gives one answer per arrival.

An answer is `{"vm", "cpus", "ns"}` (exclusive CPUs), `{"vm", "groups", "ns"}` (parts on last-level caches) or
`{"vm", "refused", "ns"}`.
"""

import functools
import json
import pathlib
import shutil
import subprocess
import time
from dataclasses import asdict, dataclass
from typing import Callable

import hwloc
from hosts import Host, first_line
from nova import Nova
from streams import Stream

# The options of each Kubernetes driver; also its name.
KUBERNETES = [[], ["uncore"], ["full"], ["uncore", "full"], ["uncore", "numa"]]
HERE = pathlib.Path(__file__).parent


class Skip(Exception):
    """This driver cannot take this host or stream; the text says why."""


class Broken(Exception):
    """This driver failed; for a peer that is a line of the report, for vtopo the run fails."""


@dataclass(frozen=True)
class Driver:
    """A placer and what its time per request is."""

    name: str
    timed: str
    run: Callable[[Host, Stream], list[dict]]
    ours: bool = False


def peers(build: pathlib.Path) -> tuple[list[Driver], list[str]]:
    """All peers that can run here; also says which cannot, and why."""
    found = [Driver("nova", "in process, our Python", lambda host, stream: replay(Nova(host), stream))]
    skipped = []
    if shutil.which(hwloc.PROGRAM):
        found += [distrib("hwloc-distrib", near=False), distrib("hwloc-distrib-near", near=True)]
    else:
        skipped.append("hwloc-distrib: not installed (package hwloc)")
    try:
        program = build_go(build)
        found += [kubernetes(program, *options) for options in KUBERNETES]
    except Skip as why:
        skipped.append(f"k8s: {why}")
    return found, skipped


def ours(vtopo: str, stream_command: list[str] | None) -> tuple[list[Driver], list[str]]:
    """vtopo itself: VM by VM through its stream program, and whole batches through `vtopo place`."""
    found, skipped = [], []
    if stream_command is None:
        skipped.append("vtopo, VM by VM: no --vtopo-stream was given")
    else:
        by_vm = functools.partial(external, stream_command)
        found.append(Driver("vtopo", "in process", by_vm, ours=True))
    if subprocess.run([vtopo, "place", "--help"], check=False, capture_output=True).returncode == 0:
        found.append(Driver("vtopo-place", "process / requests", functools.partial(place, vtopo), ours=True))
    else:
        skipped.append("vtopo place: this vtopo has no such command")
    return found, skipped


def replay(placer, stream: Stream) -> list[dict]:
    answers = []
    for event in stream.events:
        if "add" in event:
            answers.append(placer.add(event["add"], event["vcpus"]))
        else:
            placer.remove(event["remove"])
    return answers


def distrib(name: str, near: bool) -> Driver:
    def run(host: Host, stream: Stream) -> list[dict]:
        try:
            return replay(hwloc.Distrib(host, near), stream)
        except hwloc.Unsupported as why:
            raise Skip(str(why)) from why

    return Driver(name, "one process each", run)


def kubernetes(program: pathlib.Path, *options: str) -> Driver:
    def run(host: Host, stream: Stream) -> list[dict]:
        if "full" in options and not host.has_smt():
            raise Skip("left out without SMT, where it is the same as without this option")
        return external([str(program), *(f"-{it}" for it in options)], host, stream)

    return Driver("-".join(["k8s", *options]), "in process", run)


def build_go(build: pathlib.Path) -> pathlib.Path:
    """Fetches and builds the Go driver; minutes the first time."""
    if not shutil.which("go"):
        raise Skip("there is no Go compiler")
    program = build.resolve() / "k8s"
    command = ["go", "build", "-trimpath", "-o", str(program), "."]
    done = subprocess.run(command, cwd=HERE / "k8s", check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise Skip(f"go build failed: {first_line(done.stderr)}")
    return program


def external(command: list[str], host: Host, stream: Stream) -> list[dict]:
    """A driver that is a program: the document on its standard input, the answers on its standard output."""
    table = [asdict(row) for row in host.rows.values()]
    document = {"host": host.document, "table": table, "events": stream.events}
    return json.loads(answer_text(command, (0,), json.dumps(document)))


def answer_text(command: list[str], good: tuple[int, ...], given: str = "") -> str:
    """What a program prints, if that is JSON and the program ended well."""
    try:
        done = subprocess.run(command, input=given, check=False, capture_output=True, text=True)
        if done.returncode not in good:
            raise Broken(f"ended with {done.returncode}: {first_line(done.stderr)}")
        json.loads(done.stdout)
    except OSError as error:
        raise Broken(f"cannot start {command[0]}: {error.strerror}") from error
    except ValueError as error:
        raise Broken(f"its answer is no JSON: {error}") from error
    return done.stdout


def place(vtopo: str, host: Host, stream: Stream) -> list[dict]:
    """A batch in one call of `vtopo place`, which knows all VMs before it places one."""
    if stream.kind != "batch":
        raise Skip("vtopo place takes batches; it has no departures")
    # Little memory, known or not: this comparison is about CPUs. One option per VM keeps their order and names.
    vms = [word for event in stream.events for word in ("--vm", f"{event['vcpus']}x64M")]
    command = [vtopo, "place", "--host", *host.argument, *vms, "--json"]
    start = time.perf_counter_ns()
    # 1 is an answer too: some VM could not be placed.
    text = answer_text(command, (0, 1))
    ns = (time.perf_counter_ns() - start) // len(stream.events)
    groups: dict[str, list[dict]] = {}
    for group in json.loads(text)["groups"]:
        groups.setdefault(group["vm"], []).append(group)
    return [answer_of(event["add"], groups, ns) for event in stream.events]


def answer_of(vm: str, groups: dict[str, list[dict]], ns: int) -> dict:
    if vm in groups:
        return {"vm": vm, "groups": groups[vm], "ns": ns}
    return {"vm": vm, "refused": "it is in no group of vtopo's answer", "ns": ns}
