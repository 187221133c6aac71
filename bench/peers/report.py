"""The report: one document, and the same as tables for people."""

import statistics
from dataclasses import asdict

from drivers import Driver
from hosts import Host
from measure import Outcome, Placed, bound
from streams import Stream

ROWS_ABOUT = (
    "LLCs and nodes: mean per VM placed. Above bound: mean LLCs minus the mean of ceil(vCPUs / cores of the largest LLC), "
    "below 0 where sibling threads are used as cores. Shared: vCPUs that share a core, percent."
)
ROWS_HEADS = ["host", "SMT", "stream", "driver", "requests", "refused", "LLCs", "above bound", "nodes", "shared %",
              "over-committed", "median ns", "time is"]
PEERS_ABOUT = (
    "Requests that both placed, over all hosts, and those that only one did. Missed: more LLCs or nodes than the peer and, with SMT on, more sharing too. "
    "Dominated: worse in something, better in nothing. Hosts missed: the same as missed, of the stream's means. "
    "Sums of LLCs and nodes: ours / peer's."
)
PEERS_HEADS = ["ours", "peer", "SMT", "stream", "compared", "only ours", "only peer",
               "fewer LLCs", "more LLCs", "fewer nodes", "more nodes", "less shared", "more shared", "missed", "dominated", "hosts missed", "LLCs", "nodes"]
WORST_HEADS = ["host", "SMT", "stream", "vm", "vCPUs", "driver", "LLCs, nodes, shared", "peer", "LLCs, nodes, shared",
               "peers that do"]
# Lines of worst requests in the tables; the document has all.
WORST_SHOWN = 40


def summary(host: Host, stream: Stream, driver: Driver, outcome: Outcome) -> dict:
    """One row: means over the requests that were placed."""
    placed = list(outcome.placed.values())
    row = {
        "host": host.name,
        "smt": host.smt,
        "stream": stream.name,
        "driver": driver.name,
        "requests": len(stream.counted),
        "refused": len(outcome.refused),
        "refusals": sorted(set(outcome.refused.values())),
        "ns_median": int(statistics.median(outcome.ns)) if outcome.ns else None,
        "ns_max": max(outcome.ns, default=None),
        "timed": driver.timed,
        "shared_percent": shared_percent(stream, outcome),
        "overcommitted_vcpus": outcome.overcommitted,
    }
    row["llcs_mean"] = mean([it.llcs for it in placed])
    row["nodes_mean"] = mean([it.nodes for it in placed])
    row["bound_cores_mean"] = mean([bound(host, it.vcpus, False) for it in placed])
    row["bound_threads_mean"] = mean([bound(host, it.vcpus, True) for it in placed])
    return row


def shared_percent(stream: Stream, outcome: Outcome) -> float | None:
    """Of all vCPUs on the host, those that share a core; for single requests, of the request's own."""
    if stream.kind == "single":
        placed = outcome.placed.values()
        return percent(sum(it.shared for it in placed), sum(it.vcpus for it in placed))
    return mean([share for it in outcome.shared_of if (share := percent(*it)) is not None])


def percent(part: float, whole: int) -> float | None:
    return round(100 * part / whole, 2) if whole else None


def mean(values: list) -> float | None:
    return round(statistics.fmean(values), 4) if values else None


def compare(host: Host, stream: Stream, ours: tuple[Driver, Outcome], peer: tuple[Driver, Outcome]) -> dict:
    """Request by request, where both placed it. The hosts' states differ: each placed earlier requests its own way."""
    pairs = [(mine, theirs) for vm, mine in ours[1].placed.items() if (theirs := peer[1].placed.get(vm))]
    sums = {what: [sum(getattr(pair[side], what) for pair in pairs) for side in (0, 1)] for what in ("llcs", "nodes")}
    shared = [shared_percent(stream, outcome) or 0.0 for outcome in (ours[1], peer[1])]
    spans_more = any(mine > theirs for mine, theirs in sums.values())
    return {
        "host": host.name,
        "smt": host.smt,
        "stream": stream.name,
        "ours": ours[0].name,
        "peer": peer[0].name,
        "compared": len(pairs),
        "only_ours": len(ours[1].placed.keys() - peer[1].placed.keys()),
        "only_peer": len(peer[1].placed.keys() - ours[1].placed.keys()),
        "fewer_llcs": sum(a.llcs < b.llcs for a, b in pairs),
        "more_llcs": sum(a.llcs > b.llcs for a, b in pairs),
        "fewer_nodes": sum(a.nodes < b.nodes for a, b in pairs),
        "more_nodes": sum(a.nodes > b.nodes for a, b in pairs),
        "less_shared": sum(a.shared < b.shared for a, b in pairs),
        "more_shared": sum(a.shared > b.shared for a, b in pairs),
        "missed": sum(misses(host.smt == "on", a, b) for a, b in pairs),
        "missed_mean": int(spans_more and (host.smt != "on" or shared[0] > shared[1])),
        "dominated": [worst(a, b) for a, b in pairs if dominated(a, b)],
        "sums": sums,
        "shared_percent": shared,
    }


def misses(smt: bool, ours: Placed, peer: Placed) -> bool:
    """Whether the target is missed: without SMT more spans; with SMT more spans and more sharing at once."""
    spans = ours.llcs > peer.llcs or ours.nodes > peer.nodes
    return spans and (not smt or ours.shared > peer.shared)


def dominated(ours: Placed, peer: Placed) -> bool:
    """Whether the peer is better in something and worse in nothing."""
    gaps = [ours.llcs - peer.llcs, ours.nodes - peer.nodes, ours.shared - peer.shared]
    return min(gaps) >= 0 and max(gaps) > 0


def worst(ours: Placed, peer: Placed) -> dict:
    keys = ("llcs", "nodes", "shared")
    sides = {name: {key: asdict(it)[key] for key in keys} for name, it in (("ours", ours), ("peer", peer))}
    return {"vm": ours.vm, "vcpus": ours.vcpus, **sides}


def markdown(document: dict) -> str:
    parts = ["# Peers: the same requests, one run", "", f"Seed {document['seed']}."]
    parts += [f"- skipped: {line}" for line in document["skipped"]]
    parts += rows_table(document["rows"])
    parts += comparison_table(document["comparisons"])
    parts += worst_table(document["comparisons"])
    return "\n".join(parts) + "\n"


def rows_table(rows: list[dict]) -> list[str]:
    lines = ["", "## Every host, stream and driver", "", ROWS_ABOUT, "", *heads(ROWS_HEADS, words=4)]
    for row in rows:
        above = None if row["llcs_mean"] is None else row["llcs_mean"] - row["bound_cores_mean"]
        cells = [row[key] for key in ("host", "smt", "stream", "driver", "requests", "refused")]
        cells += map(number, (row["llcs_mean"], above, row["nodes_mean"], row["shared_percent"]))
        cells += [row[key] for key in ("overcommitted_vcpus", "ns_median", "timed")]
        lines.append(line(cells))
    return lines


def comparison_table(comparisons: list[dict]) -> list[str]:
    """Sums over hosts: one row per stream, peer and SMT."""
    if not comparisons:
        return ["", "## Against each peer", "", "vtopo did not run: nothing to compare."]
    lines = ["", "## Against each peer", "", PEERS_ABOUT, "", *heads(PEERS_HEADS, words=4)]
    groups: dict[tuple, list[dict]] = {}
    for it in comparisons:
        groups.setdefault((it["ours"], it["peer"], "on" if it["smt"] == "on" else "off", it["stream"]), []).append(it)
    keys = ("compared", "only_ours", "only_peer", "fewer_llcs", "more_llcs", "fewer_nodes", "more_nodes",
            "less_shared", "more_shared", "missed")
    for group, members in sorted(groups.items()):
        counts = [sum(it[key] for it in members) for key in keys]
        hosts = f"{sum(it['missed_mean'] for it in members)} of {len(members)}"
        sums = [both_sums(members, what) for what in ("llcs", "nodes")]
        lines.append(line([*group, *counts, sum(len(it["dominated"]) for it in members), hosts, *sums]))
    return lines


def both_sums(members: list[dict], what: str) -> str:
    return " / ".join(str(sum(it["sums"][what][side] for it in members)) for side in (0, 1))


def worst_table(comparisons: list[dict]) -> list[str]:
    """One row per request: the peer that beats it by most, and how many do."""
    requests: dict[tuple, list[tuple[dict, dict]]] = {}
    for it in comparisons:
        for bad in it["dominated"]:
            key = (it["host"], it["smt"], it["stream"], bad["vm"], it["ours"])
            requests.setdefault(key, []).append((it, bad))
    if not requests:
        return []
    found = [(max(beaten, key=lambda pair: excess(pair[1])), len(beaten)) for beaten in requests.values()]
    found.sort(key=lambda it: excess(it[0][1]), reverse=True)
    shown = min(len(found), WORST_SHOWN)
    title = f"## Worst single requests ({shown} of {len(found)} that some peer dominates)"
    lines = ["", title, "", *heads(WORST_HEADS, words=len(WORST_HEADS))]
    for (it, bad), count in found[:WORST_SHOWN]:
        sides = [", ".join(f"{value:g}" for value in bad[side].values()) for side in ("ours", "peer")]
        where = [it["host"], it["smt"], it["stream"], bad["vm"], bad["vcpus"]]
        lines.append(line([*where, it["ours"], sides[0], it["peer"], sides[1], count]))
    return lines


def excess(bad: dict) -> tuple:
    gaps = {key: bad["ours"][key] - bad["peer"][key] for key in bad["ours"]}
    return gaps["nodes"], gaps["llcs"], gaps["shared"]


def heads(cells: list[str], words: int) -> list[str]:
    """The head of a table whose first columns are words."""
    return [line(cells), "|" + "---|" * words + "--:|" * (len(cells) - words)]


def line(cells: list) -> str:
    return "| " + " | ".join("–" if cell is None else str(cell) for cell in cells) + " |"


def number(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"
