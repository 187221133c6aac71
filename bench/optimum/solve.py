"""One instance: the proven optimum, the worst plan found, and how far ours is from both."""

import time

from ortools.sat.python import cp_model

from instance import Plan, Seat, cost, llcs_spanned, our_plan, wrong
from model import Model
from worst import heaped


# Of wall time for each unit of work: only a machine that is stuck takes as long.
MOST_WALL_SECONDS = 30


class Mismatch(Exception):
    """Two sums that must be equal are not; the text says which."""


def solve(instance: dict, limit: float, worst_limit: float) -> dict:
    """The row of an instance for the report."""
    row = {key: instance[key] for key in ("seed", "index", "host", "classes", "refused")}
    row["free"] = sum(not vm["fixed"] for vm in instance["vms"])
    row["llcs"] = len({domain["llc"] for domain in instance["domains"]})
    if evicted := [vm["name"] for vm in instance["vms"] if vm["fixed"] and vm["name"] in instance["refused"]]:
        return row | {"faults": [f"{name} sits already and is refused" for name in evicted], "vms": drawn(instance, our_plan(instance), {})}
    if instance["refused"]:
        refusal, plan = check_refusal(instance, limit)
        return row | {"refusal": refusal, "vms": drawn(instance, our_plan(instance), plan)}
    ours = our_plan(instance)
    terms = cost(instance, ours)
    check_ours(instance, terms)
    if faults := wrong(instance, ours):
        return row | {"faults": faults, "vms": drawn(instance, ours, {})}
    start = time.monotonic()
    best, status, bound = search(instance, ours, limit)
    seconds = time.monotonic() - start
    best_terms = cost(instance, best)
    found = sum(best_terms.values())
    total = sum(terms.values())
    is_proven = status == cp_model.OPTIMAL
    if is_proven and found > total or broken(instance, best):
        raise Mismatch(f"instance {instance['index']}: CP-SAT's plan costs {found}, ours {total}: {broken(instance, best)}")
    # A bound below the optimum and a worst plan that is not the worst both make the gap larger, never smaller.
    # No term is negative, so that 0 is a bound too.
    bound = max(bound, 0)
    optimum = found if is_proven else min(bound, found, total)
    worst = find_worst(instance, ours, worst_limit)
    span = max(worst, found, total) - optimum
    row |= {
        "ours": total,
        "found": found,
        "bound": bound,
        "proven": is_proven,
        "worst": worst,
        "gap": (total - optimum) / span if span else 0.0,
        # What is certain to be lost, where nothing is proven.
        "gap_found": max(0, total - found) / span if span else 0.0,
        "seconds": round(seconds, 2),
        "spans": llcs_spanned(instance, ours),
        "spans_best": llcs_spanned(instance, best) if found < total else llcs_spanned(instance, ours),
        "spans_solver": llcs_spanned(instance, best),
        "terms": terms,
        "terms_best": best_terms,
        "vms": drawn(instance, ours, best),
    }
    return row


def check_ours(instance: dict, terms: dict[str, int]) -> None:
    """Our own sum of our own plan must be the program's, term by term."""
    theirs = {term: value for term, value in instance["cost"].items() if value}
    if terms != theirs or sum(terms.values()) != instance["total"]:
        raise Mismatch(f"instance {instance['index']}: {terms} here, {theirs} by the program")


def broken(instance: dict, plan: Plan) -> str:
    return "; ".join(wrong(instance, plan))


def search(instance: dict, ours: Plan, limit: float) -> tuple[Plan, int, int]:
    """The best plan found, how it ended, and the proven bound."""
    model = Model(instance)
    complete(model, ours, instance["total"])
    model.cp.add(model.objective <= instance["total"])
    solver = solver_of(limit)
    status = solver.solve(model.cp)
    if status == cp_model.UNKNOWN:
        # Nothing found in time, not even ours, which is there: the bound still holds.
        return ours, status, round(solver.best_objective_bound)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise Mismatch(f"instance {instance['index']}: {solver.status_name(status)}, although our plan is feasible")
    plan = model.plan(solver)
    value, total = round(solver.objective_value), sum(cost(instance, plan).values())
    if value < total or status == cp_model.OPTIMAL and value != total:
        raise Mismatch(f"instance {instance['index']}: the model says {value}, the sum is {total}")
    return plan, status, round(solver.best_objective_bound)


def complete(model: Model, ours: Plan, total: int) -> None:
    """Gives the solver our plan with all auxiliary values; the model must price it as the program does."""
    model.hint(ours)
    solver = solver_of(20)
    solver.parameters.fix_variables_to_their_hinted_value = True
    status = solver.solve(model.cp)
    if status != cp_model.OPTIMAL or round(solver.objective_value) != total:
        name = solver.status_name(status)
        raise Mismatch(f"instance {model.instance['index']}: our plan is {name} in the model, {solver.objective_value} instead of {total}")
    values = [solver.value(model.cp.get_int_var_from_proto_index(index)) for index in range(len(model.cp.proto.variables))]
    model.cp.clear_hints()
    for index, value in enumerate(values):
        model.cp.add_hint(model.cp.get_int_var_from_proto_index(index), value)


def find_worst(instance: dict, ours: Plan, limit: float) -> int:
    """The cost of the worst plan found in the time."""
    known = heaped(instance, ours, instance["index"])
    most = sum(cost(instance, known).values())
    model = Model(instance, maximise=True)
    model.hint(known)
    solver = solver_of(limit)
    if solver.solve(model.cp) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return most
    plan = model.plan(solver)
    if wrong(instance, plan):
        raise Mismatch(f"instance {instance['index']}: the worst plan is not feasible here: {broken(instance, plan)}")
    return max(most, sum(cost(instance, plan).values()))


def check_refusal(instance: dict, limit: float) -> tuple[str, Plan]:
    """Whether all VMs could not have been placed; if they could, how."""
    whole = instance | {"refused": []}
    model = Model(whole)
    model.cp.clear_objective()
    solver = solver_of(limit)
    status = solver.solve(model.cp)
    if status == cp_model.INFEASIBLE:
        return "right", {}
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return "unknown", {}
    plan = model.plan(solver)
    if faults := broken(whole, plan):
        raise Mismatch(f"instance {instance['index']}: the plan that places all VMs is not feasible here: {faults}")
    return "wrong", plan


def solver_of(limit: float) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    # The solver's own measure of work, about a second of a core: what else runs here does not change what is proven.
    solver.parameters.max_deterministic_time = limit
    solver.parameters.max_time_in_seconds = MOST_WALL_SECONDS * limit
    solver.parameters.num_workers = 1
    # Products and tables need cuts more than speed: at level 1 half as many instances are proven.
    solver.parameters.linearization_level = 2
    solver.parameters.random_seed = 1
    return solver


def drawn(instance: dict, ours: Plan, best: Plan) -> list[dict]:
    """Both plans by VM, for people."""

    def text(index: int, plan: Plan) -> str:
        return seat_text(instance, instance["vms"][index], plan[index]) if index in plan else "nowhere"

    return [
        {"name": vm["name"], "text": vm["text"], "fixed": vm["fixed"], "ours": text(index, ours), "best": text(index, best)}
        for index, vm in enumerate(instance["vms"])
    ]


def seat_text(instance: dict, vm: dict, seat: Seat) -> str:
    """`2@L0 2@L1 mem N0`, cells divided by `/`."""
    cells = []
    for cell, parts, way in zip(vm["cells"], seat.parts, seat.ways, strict=True):
        words = [f"{count}@L{instance['domains'][domain]['llc']}" for domain, count in sorted(parts.items())]
        words += [f"mem N{node}" if len(cell["ways"][way]["mib"]) == 1 else f"{mib} MiB N{node}" for node, mib in cell["ways"][way]["mib"]]
        cells.append(" ".join(words))
    system = "" if seat.system is None else f" sys L{instance['domains'][seat.system]['llc']}"
    return " / ".join(cells) + system
