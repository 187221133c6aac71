#!/usr/bin/env python3
"""Runs the same requests through vtopo and its peers, and prints who spans what. See the README beside this file."""

import argparse
import json
import pathlib
import shlex
import sys

sys.dont_write_bytecode = True  # Before our own modules are loaded: nothing is written beside the sources.

import drivers  # noqa: E402
import report  # noqa: E402
from hosts import PRESETS, Host, read_hosts  # noqa: E402
from measure import Outcome, WrongAnswer, measure  # noqa: E402
from streams import Stream, make_streams  # noqa: E402


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="vtopo and its peers on the same requests")
    parser.add_argument("--vtopo", default="target/debug/vtopo", help="the vtopo binary (default: %(default)s)")
    parser.add_argument("--vtopo-stream", help="the command that replays events through vtopo, VM by VM")
    parser.add_argument("--hosts-dir", help="a folder of hwloc XML files to run on besides the presets")
    parser.add_argument("--preset", action="append", help="run on this preset instead of the usual ones; repeatable")
    parser.add_argument("--driver", action="append", help="run only drivers of this name; repeatable")
    parser.add_argument("--build", default="target/peers", help="where what is built goes (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the requests (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the document instead of the tables")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    build = pathlib.Path(args.build)
    build.mkdir(parents=True, exist_ok=True)
    if not pathlib.Path(args.vtopo).is_file():
        print(f"peers: there is no {args.vtopo}: type 'cargo build -p cli', or name it with --vtopo", file=sys.stderr)
        return 2
    hosts, left_out = read_hosts(args.vtopo, args.preset or PRESETS, args.hosts_dir)
    skipped = Skipped()
    skipped.extend(left_out)
    stream = shlex.split(args.vtopo_stream) if args.vtopo_stream else None
    everybody = []
    for found, missing in (drivers.ours(args.vtopo, stream), drivers.peers(build)):
        everybody += found
        skipped.extend(missing)
    chosen = [it for it in everybody if not args.driver or it.name in args.driver]
    if not chosen or not hosts:
        print(f"peers: nothing to run; drivers are {', '.join(it.name for it in everybody)}", file=sys.stderr)
        return 2
    document = {"seed": args.seed, "rows": [], "comparisons": []}
    for host in hosts:
        run_host(host, chosen, document, skipped)
    document["skipped"] = skipped.lines()
    text, tables = json.dumps(document, indent=1) + "\n", report.markdown(document)
    (build / "peers.json").write_text(text)
    (build / "peers.md").write_text(tables)
    sys.stdout.write(text if args.json else tables)
    if skipped.failed:
        print("peers: vtopo failed; the lines 'skipped' say where", file=sys.stderr)
    return int(skipped.failed)


class Skipped:
    """What did not run, and where; the same reason on many hosts is one line."""

    def __init__(self) -> None:
        self.where: dict[str, list[str]] = {}
        # Whether vtopo is among those that failed.
        self.failed = False

    def add(self, why: str, where: str = "", failed: bool = False) -> None:
        self.failed |= failed
        places = self.where.setdefault(why, [])
        if where and where not in places:
            places.append(where)

    def extend(self, reasons: list[str]) -> None:
        for why in reasons:
            self.add(why)

    def lines(self) -> list[str]:
        return [f"{why} [{'; '.join(places)}]" if places else why for why, places in self.where.items()]


def run_host(host: Host, chosen: list[drivers.Driver], document: dict, skipped: Skipped) -> None:
    print(f"peers: {host.label()}, {host.capacity()} CPUs", file=sys.stderr)
    streams = make_streams(host.capacity(), document["seed"])
    if not streams:
        skipped.add("too small for any stream", host.label())
    for stream in streams:
        outcomes: list[tuple[drivers.Driver, Outcome]] = []
        for driver in chosen:
            outcome = run_one(host, stream, driver, skipped)
            if outcome is not None:
                outcomes.append((driver, outcome))
                document["rows"].append(report.summary(host, stream, driver, outcome))
        for ours in (it for it in outcomes if it[0].ours):
            for peer in (it for it in outcomes if not it[0].ours):
                document["comparisons"].append(report.compare(host, stream, ours, peer))


def run_one(host: Host, stream: Stream, driver: drivers.Driver, skipped: Skipped) -> Outcome | None:
    """What came of it, or nothing and a line that says why."""
    where = f"{host.label()}, {stream.name}"
    try:
        return measure(host, stream, driver.run(host, stream))
    except drivers.Skip as why:
        skipped.add(f"{driver.name}: {why}", host.label())
    except drivers.Broken as error:
        skipped.add(f"{driver.name}: {error}", where, failed=driver.ours)
    except (WrongAnswer, KeyError, TypeError, ValueError) as error:
        skipped.add(f"{driver.name} gave a WRONG ANSWER: {error!r}", where, failed=driver.ours)
    return None


if __name__ == "__main__":
    sys.exit(main())
