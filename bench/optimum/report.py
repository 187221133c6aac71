"""The report: one document, and the same as text for people."""

import statistics
from fractions import Fraction

# DESIGN's targets: gaps as shares, spans as the share of instances.
MEAN_GAP, WORST_GAP, WITHIN_SPANS = Fraction(1, 100), Fraction(5, 100), Fraction(95, 100)
WORST_SHOWN = 10
NANO = 1_000_000_000


def summary(rows: list[dict]) -> dict:
    """Figures over all instances and by class."""
    compared = [row for row in rows if "gap" in row]
    document = {"all": figures(compared), "refusals": {}, "classes": {}}
    document["broken"] = {row["index"]: row["faults"] for row in rows if "faults" in row}
    for row in rows:
        if "refusal" in row:
            document["refusals"].setdefault(row["refusal"], []).append(row["index"])
    for name in sorted({name for row in compared for name in row["classes"]}):
        document["classes"][name] = figures([row for row in compared if name in row["classes"]])
    document["missed"] = missed(document["all"])
    if document["broken"]:
        document["missed"].append(f"{len(document['broken'])} plans break a rule")
    if wrong := document["refusals"].get("wrong"):
        document["missed"].append(f"{len(wrong)} refusals although all VMs fit")
    return document


def figures(rows: list[dict]) -> dict:
    """Gaps in percent. Where nothing is proven the bound stands for the optimum, so that no gap is too small."""
    if not rows:
        return {"instances": 0}
    gaps = sorted(row["gap"] for row in rows)
    proven = [row["gap"] for row in rows if row["proven"]]
    within = [row for row in rows if row["spans"] <= row["spans_best"]]
    return {
        "instances": len(rows),
        "proven": len(proven),
        "optimal": sum(row["proven"] and row["ours"] == row["found"] for row in rows),
        "mean": percent(statistics.fmean(gaps)),
        "median": percent(statistics.median(gaps)),
        "p95": percent(gaps[-(-95 * len(gaps) // 100) - 1]),
        "worst": percent(gaps[-1]),
        "proven_mean": percent(statistics.fmean(proven)) if proven else None,
        "proven_worst": percent(max(proven)) if proven else None,
        "certain_mean": percent(statistics.fmean(row["gap_found"] for row in rows)),
        "certain_worst": percent(max(row["gap_found"] for row in rows)),
        "within_spans": percent(len(within) / len(rows)),
        "within_solver_spans": percent(sum(row["spans"] <= row["spans_solver"] for row in rows) / len(rows)),
        "seconds": round(sum(row["seconds"] for row in rows), 1),
    }


def missed(every: dict) -> list[str]:
    """Targets that are missed; none is success."""
    if not every["instances"]:
        return ["no instance was compared"]
    found = []
    if every["mean"] > 100 * MEAN_GAP:
        found.append(f"mean gap {every['mean']} %, at most {float(100 * MEAN_GAP):g} %")
    if every["worst"] > 100 * WORST_GAP:
        found.append(f"worst gap {every['worst']} %, at most {float(100 * WORST_GAP):g} %")
    if every["within_spans"] < 100 * WITHIN_SPANS:
        found.append(f"within the optimum's LLCs on {every['within_spans']} %, at least {float(100 * WITHIN_SPANS):g} %")
    return found


def percent(share: float) -> float:
    return round(100 * share, 3)


def markdown(document: dict, rows: list[dict]) -> str:
    lines = ["# Distance to the optimum", "", command(document), ""]
    lines += table(document)
    lines += ["", "Gaps in percent of (worst feasible - optimum). *certain* is what the solver's own plans save, proven or not."]
    for kind, indices in document["refusals"].items():
        lines.append(f"Refusals that are {kind}: {len(indices)} instances ({', '.join(map(str, indices))}); not in the gaps.")
    lines += [f"Index {index} breaks rules and is not in the gaps: {'; '.join(faults)}." for index, faults in document["broken"].items()]
    lines += ["", "Targets missed: " + ("; ".join(document["missed"]) or "none") + ".", ""]
    compared = [row for row in rows if "gap" in row]
    for title, key in [("Worst gaps", "gap"), ("Most that is certain to be lost", "gap_found")]:
        lines += [f"## {title}", ""]
        for row in sorted(compared, key=lambda row: (-row[key], row["index"]))[:WORST_SHOWN]:
            if row[key]:
                lines += case(row)
    for row in rows:
        if row.get("refusal") == "wrong" or "faults" in row:
            what = "; ".join(row["faults"]) if "faults" in row else f"{', '.join(row['refused'])} refused, although all fit"
            lines += [f"## seed {row['seed']} index {row['index']}: {what}", "", row["host"], "", *seats(row)]
    return "\n".join(lines) + "\n"


def command(document: dict) -> str:
    options = f"--count {document['count']} --seed {document['seed']} --limit {document['limit']:g}"
    options += f" --first {document['first']}" if document["first"] else ""
    options += " --patient" if document["patient"] else ""
    return f"`cargo xtask optimum {options}`, {document['solver']}."


def table(document: dict) -> list[str]:
    columns = ["instances", "proven", "optimal", "mean", "median", "p95", "worst", "proven_mean", "proven_worst", "certain_mean",
               "certain_worst", "within_spans", "within_solver_spans"]
    heads = ["instances", "proven", "ours optimal", "mean", "median", "p95", "worst", "mean, proven", "worst, proven", "mean, certain",
             "worst, certain", "within spans %", "within solver's spans %"]
    lines = ["| | " + " | ".join(heads) + " |", "|---|" + "--:|" * len(heads)]
    for name, row in [("all", document["all"]), *document["classes"].items()]:
        lines.append(f"| {name} | " + " | ".join(str(row.get(column, "")) for column in columns) + " |")
    return lines


def case(row: dict) -> list[str]:
    """One instance as a person wants to see it."""
    proven = "proven" if row["proven"] else f"not proven, bound {nano(row['bound'])}"
    lines = [
        f"### seed {row['seed']} index {row['index']}: gap {percent(row['gap'])} % ({percent(row['gap_found'])} % certain)",
        "",
        f"{row['host']} ({', '.join(row['classes'])})  ",
        f"ours {nano(row['ours'])}, best found {nano(row['found'])} ({proven}), worst {nano(row['worst'])};"
        f" LLCs spanned {row['spans']} and {row['spans_solver']}",
        "",
        *seats(row),
    ]
    lines += ["| term | ours | optimum | difference |", "|---|--:|--:|--:|"]
    for term in sorted(row["terms"].keys() | row["terms_best"].keys()):
        ours, best = row["terms"].get(term, 0), row["terms_best"].get(term, 0)
        lines.append(f"| {term} | {nano(ours)} | {nano(best)} | {nano(ours - best)} |")
    return [*lines, ""]


def seats(row: dict) -> list[str]:
    lines = ["| VM | ours | the solver's |", "|---|---|---|"]
    for vm in row["vms"]:
        fixed = " (fixed)" if vm["fixed"] else ""
        same = vm["best"] if vm["best"] != vm["ours"] else "same"
        lines.append(f"| {vm['name']}{fixed} {vm['text']} | {vm['ours']} | {same} |")
    return [*lines, ""]


def nano(value: int) -> str:
    """In vCPUs."""
    return f"{value / NANO:.4f}"
