"""The report: one document, and the same as tables for people."""

ABOUT = (
    "Nanoseconds of computing for one event: median of the repeats, in brackets the least and the most. Ratio: times ours. "
    "Peak: the most memory of the whole process, setup included."
)
HEADS = ["entities", "engine", "ns for an event", "events/s", "ratio", "events a repeat", "peak MiB"]
# What we want to reach at so many entities: peer, at least so many times our time.
TARGET_ENTITIES = 100_000
TARGETS = {"simcore": 2, "nexosim": 10, "simpy": 10, "simgrid": 10}


def check_targets(rows: list[dict]) -> list[dict]:
    """Each target with what was measured; no row, no verdict."""
    ratios = {it["engine"]: it["ratio"] for it in rows if it["entities"] == TARGET_ENTITIES}
    found = []
    for engine, target in TARGETS.items():
        ratio = ratios.get(engine)
        met = None if ratio is None else ratio >= target
        found.append({"engine": engine, "entities": TARGET_ENTITIES, "target": target, "ratio": ratio, "met": met})
    return found


def markdown(document: dict) -> str:
    lines = ["# Engines: the hold model, one run", "", f"- {document['machine']}", f"- {document['tools']}"]
    lines += [f"- load of the machine before: {document['load']}", f"- command: `{document['command']}`"]
    lines += [f"- {name}: {version}" for name, version in document["versions"].items()]
    lines += [f"- skipped: {line}" for line in document["skipped"]]
    lines += ["", ABOUT, "", line(HEADS), "|--:|---|" + "--:|" * (len(HEADS) - 2)]
    lines += [line(cells(it)) for it in document["rows"]]
    lines += ["", f"Targets at {TARGET_ENTITIES:,} entities:", ""]
    lines += [target_line(it) for it in document["targets"]]
    return "\n".join(lines) + "\n"


def cells(row: dict) -> list[str]:
    spread = f"{short(row['ns_median'])} ({short(row['ns_min'])}–{short(row['ns_max'])})"
    ratio = "–" if row["ratio"] is None else f"{row['ratio']:.1f}"
    return [f"{row['entities']:,}", row["engine"], spread, f"{row['events_per_s']:,}", ratio,
            f"{row['events']:,} × {row['repeats']}", f"{row['peak_mib']:,.0f}"]


def target_line(target: dict) -> str:
    asked = f"- {target['engine']}: at least {target['target']} times ours"
    if target["met"] is None:
        return f"{asked}: not measured"
    return f"{asked}: {'met' if target['met'] else 'MISSED'}, {target['ratio']:.1f}"


def short(ns: float) -> str:
    return f"{ns:,.0f}" if ns >= 100 else f"{ns:.1f}"


def line(parts: list[str]) -> str:
    return "| " + " | ".join(parts) + " |"
