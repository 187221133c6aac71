"""The document as a table for people."""

ABOUT = (
    "Medians. Process: from start to end, with the start of the program (a Java virtual machine on the peer's side) and the "
    "reading of the requests. CPU: user and system time of that. Placing: in process, from the requests in memory to all "
    "answers, with the making of the hosts. Ratio: the peer's over ours. Same: whether both gave every VM the same host."
)
HEADS = ["case", "algorithm", "peer runs", "placing, ours", "placing, peer", "ratio", "CPU, ours", "CPU, peer", "ratio",
         "process, ours", "process, peer", "per VM, ours", "peak memory, ours", "peer", "same"]
WAYS = {"simulate": "its simulation", "play": "its policy alone"}


def markdown(document: dict) -> str:
    lines = ["# Placing a trace", "", ABOUT, "", cells(HEADS), cells(["---"] * len(HEADS))]
    lines += [cells(row(it)) for it in document["rows"]]
    if document["skipped"]:
        lines += ["", *(f"- skipped: {it}" for it in document["skipped"])]
    return "\n".join(lines) + "\n"


def row(it: dict) -> list[str]:
    ours, peer = it["ours"] or {}, it["peer"] or {}
    return [
        it["case"], it["algorithm"], f"{peer['runs']}, {WAYS[it['way']]}" if peer else "",
        seconds(ours.get("place_s")), seconds(peer.get("place_s")), ratio(peer.get("place_s"), ours.get("place_s")),
        seconds(ours.get("cpu_s")), seconds(peer.get("cpu_s")), ratio(peer.get("cpu_s"), ours.get("cpu_s")),
        seconds(ours.get("wall_s")), seconds(peer.get("wall_s")),
        f"{1e3 * ours['us_per_vm']:.0f} ns" if ours else "",
        memory(ours), memory(peer), same(ours, peer),
    ]


def cells(texts: list[str]) -> str:
    return f"| {' | '.join(texts)} |"


def seconds(value: float | None) -> str:
    """Three digits are what a few runs are good for."""
    if value is None:
        return ""
    if value < 1e-3:
        return f"{1e6 * value:.3g} µs"
    return f"{1e3 * value:.3g} ms" if value < 1 else f"{value:.3g} s"


def ratio(peer: float | None, ours: float | None) -> str:
    return f"{peer / ours:,.0f}" if peer and ours else ""


def memory(side: dict) -> str:
    return f"{side['rss_mib']:.0f} MiB" if side else ""


def same(ours: dict, peer: dict) -> str:
    if not ours or not peer:
        return ""
    return "yes" if ours["hash"] == peer["hash"] else "NO"
