"""One run of one side as a process: its answer, its time, its memory."""

import json
import os
import signal
import statistics
import subprocess
import threading
import time
from dataclasses import dataclass


class Failed(Exception):
    """A run that gave no answer."""


@dataclass
class Run:
    answer: dict
    wall_s: float
    cpu_s: float
    rss_mib: float


def run(command: list[str], limit_s: float) -> Run:
    """Starts the command and waits; its last line on standard output is the answer."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    stopped = threading.Event()

    def stop() -> None:
        stopped.set()
        os.killpg(process.pid, signal.SIGKILL)

    watch = threading.Timer(limit_s, stop)
    watch.start()
    # Read beside each other, so that neither pipe fills up and the child waits for us.
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
    reader.start()
    text = process.stdout.read()
    reader.join()
    # wait4 gives the usage of this child alone; subprocess has no call for it.
    _, status, usage = os.wait4(process.pid, 0)
    watch.cancel()
    wall_s = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    process.stderr.close()
    if stopped.is_set():
        raise Failed(f"stopped after {limit_s:.0f} s")
    if process.returncode != 0:
        last = (errors[0].strip().splitlines() or ["nothing on standard error"])[0]
        raise Failed(f"ended with {process.returncode}: {last}")
    try:
        answer = json.loads(text.strip().splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise Failed(f"gave no answer: {text[-200:]!r}") from error
    # What the kernel tells of a child begins with our own size, as it was before the child became another program: a small
    # program says itself what it had. Both are in KiB.
    peak_kib = answer.get("peak_kib", usage.ru_maxrss)
    return Run(answer, wall_s, usage.ru_utime + usage.ru_stime, peak_kib / 1024)


def summary(runs: list[Run]) -> dict:
    """Medians over runs that must all have placed the same."""
    hashes = {it.answer["hash"] for it in runs}
    if len(hashes) != 1:
        raise Failed(f"placed differently from run to run: {', '.join(sorted(hashes))}")
    first = runs[0].answer
    place_s = statistics.median(it.answer["place_ns"] for it in runs) / 1e9
    return {
        "runs": len(runs),
        "vms": first["vms"],
        "placed": first["placed"],
        "refused": first["refused"],
        "hash": first["hash"],
        "wall_s": statistics.median(it.wall_s for it in runs),
        "cpu_s": statistics.median(it.cpu_s for it in runs),
        "place_s": place_s,
        "us_per_vm": 1e6 * place_s / max(first["vms"], 1),
        "rss_mib": statistics.median(it.rss_mib for it in runs),
    }
