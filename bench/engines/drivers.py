"""Who is compared: each engine is fetched and built below the build folder, and answers to `ENTITIES EVENTS REPEATS`."""

import os
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass, field

HERE = pathlib.Path(__file__).resolve().parent
RUST = HERE / "rust"
SIMGRID_PACKAGE = "libsimgrid-dev"
# Stacks of actors in KiB, and no guard pages: with the defaults (8 MiB, guarded) a million actors need more memory
# mappings than Linux gives a process. What the actors do needs less than a page.
SIMGRID_OPTIONS = ["--cfg=contexts/stack-size:8", "--cfg=contexts/guard-size:0", "--log=root.thres:error"]


class Skip(Exception):
    """An engine cannot be had here; the text says why."""


@dataclass(frozen=True)
class Driver:
    """An engine that is ready to run."""

    name: str
    version: str
    command: list[str]
    # After the three numbers.
    options: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    # Measured with a million entities and rounded up; only to refuse what cannot fit.
    bytes_per_entity: int = 2_500


def ours(build: pathlib.Path) -> Driver:
    return rust_driver("ours", "sim", [], build)


def simcore(build: pathlib.Path) -> Driver:
    return rust_driver("simcore", "simcore", ["--features", "simcore"], build)


def nexosim(build: pathlib.Path) -> Driver:
    return rust_driver("nexosim", "nexosim", ["--features", "nexosim"], build)


def simpy(build: pathlib.Path) -> Driver:
    python = build / "venv" / "bin" / "python"
    if not python.is_file():
        call([sys.executable, "-m", "venv", str(build / "venv")])
    requirements = HERE / "requirements.txt"
    call([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(requirements)])
    version = call([str(python), "-c", "import simpy; print(simpy.__version__)"]).strip()
    return Driver("simpy", version, [str(python), "-B", str(HERE / "hold.py")])


def simgrid(build: pathlib.Path) -> Driver:
    include, libraries = [], []
    environment = {}
    if not compiles("#include <simgrid/s4u.hpp>\nint main() {}"):
        root = unpacked_simgrid(build / "simgrid")
        folder = next(iter(root.glob("usr/lib/*/libsimgrid.so")), root / "none").parent
        include = ["-I", str(root / "usr" / "include")]
        libraries = ["-L", str(folder), f"-Wl,-rpath-link,{folder}"]
        environment = {"LD_LIBRARY_PATH": str(folder)}
    program = build / "hold-simgrid"
    source = str(HERE / "simgrid" / "hold.cpp")
    call(["g++", "-std=c++17", "-O3", "-DNDEBUG", *include, source, "-o", str(program), *libraries, "-lsimgrid"])
    version = call([str(program), "--version"], environment)
    number = re.search(r"version (\d[\w.]*)", version)
    return Driver("simgrid", number[1] if number else "?", [str(program)], SIMGRID_OPTIONS, environment, 10_000)


PEERS = {"simcore": simcore, "nexosim": nexosim, "simpy": simpy, "simgrid": simgrid}


def rust_driver(name: str, crate: str, features: list[str], build: pathlib.Path) -> Driver:
    target = (build / "rust").resolve()
    call(["cargo", "build", "--release", "--manifest-path", str(RUST / "Cargo.toml"), "--target-dir", str(target),
          "--bin", name, *features])
    lock = (RUST / "Cargo.lock").read_text()
    return Driver(name, locked_version(lock, crate), [str(target / "release" / name)])


def locked_version(lock: str, crate: str) -> str:
    """The version of a crate in a Cargo.lock."""
    found = re.search(rf'^name = "{re.escape(crate)}"\nversion = "([^"]+)"', lock, re.MULTILINE)
    return found[1] if found else "?"


def unpacked_simgrid(folder: pathlib.Path) -> pathlib.Path:
    """SimGrid's packages and what they need, fetched with apt and unpacked: nothing on the machine changes."""
    root = folder / "root"
    done = folder / "done"
    if done.is_file():
        return root
    folder.mkdir(parents=True, exist_ok=True)
    plan = call(["apt-get", "install", "--simulate", "--no-install-recommends", "--no-remove", SIMGRID_PACKAGE])
    names = to_install(plan)
    if not names:
        raise Skip(f"apt has nothing to fetch for {SIMGRID_PACKAGE}, and its headers do not compile")
    call(["apt-get", "download", *names], folder=folder)
    for package in sorted(folder.glob("*.deb")):
        call(["dpkg-deb", "-x", str(package), str(root)])
    done.touch()
    return root


def to_install(plan: str) -> list[str]:
    """The packages that a simulated installation would install."""
    return [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]


def compiles(program: str) -> bool:
    try:
        run = subprocess.run(["g++", "-std=c++17", "-fsyntax-only", "-x", "c++", "-"], input=program, text=True,
                             stderr=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise Skip(f"g++ is not installed ({error.strerror})") from error
    return run.returncode == 0


def call(command: list[str], environment: dict[str, str] | None = None, folder: pathlib.Path | None = None) -> str:
    """What a command printed; the last line of its errors is the reason when it fails."""
    try:
        run = subprocess.run(command, env={**os.environ, **(environment or {})}, cwd=folder, text=True,
                             capture_output=True, check=False)
    except OSError as error:
        raise Skip(f"{command[0]} is not installed ({error.strerror})") from error
    if run.returncode:
        lines = [line.strip() for line in run.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower() or line.startswith("E:")]
        name = pathlib.Path(command[0]).name
        raise Skip(f"'{name} {command[1]}' failed: {(errors or lines or ['no reason given'])[-1]}")
    return run.stdout
