"""Any level of a method: which heads it would cut, read off the stored scores of a finished run."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from types import SimpleNamespace

from engine.core.errors import Fault, RequestError, unknown
from engine.core.levels import exact_count, is_level
from engine.report.charts import lookup
from engine.store.runs import Run
from engine.tracks.language_models.arms import variants_of_arm
from engine.tracks.language_models.compressions.base import compression
from engine.tracks.language_models.request import AuditRequest
from engine.tracks.language_models.selection.base import selection_method
from engine.tracks.language_models.variants import DENSE, Variant, all_variants


@dataclass(frozen=True)
class Stop:
    """A level that differs from those beside it: so many heads; finished: the run has it as a
    reported variant."""

    level: float
    n_cut: int
    finished: bool


def variants_at(run: Run, method: str, axis: str, level: float) -> list[Variant]:
    """What an audit would cut had it asked this level from the start, at γ* of the axis: one
    variant, one per selection seed of methods that draw. RequestError where it cuts nothing or more
    than can be cut.
    """
    request = _request(run)
    _check(run, request, method, axis)
    total, most = lookup.total_heads(run), most_heads(run, method, axis)
    if not 0 < level < 1 or not 0 < exact_count(level, total) <= most:
        what = (
            f"{level:g} does not cut between 1 and {most} of {total} heads, which is what {method}"
            " can cut here."
        )
        raise RequestError(Fault("sparsity", what, f"Give {1 / total:.4f} to {most / total:.4f}."))
    asked = replace(
        request, methods=(method,), axes=(axis,), sparsities=(level,), gamma=_gamma(run, axis)
    )
    found = [
        one for one in all_variants(asked, lookup.frame(run, "scores"), total) if one.id != DENSE
    ]
    if not found:
        raise RequestError(
            Fault(
                "axis", f"heads for {axis} were not ranked in this audit.", "Choose another method."
            )
        )
    return found


def arms_at(run: Run, method: str, level: float) -> list[Variant]:
    """One of the audit's compressions at another level. RequestError where it has none like it."""
    request, n_layers = _request(run), run.meta["model"]["n_layers"]
    model, level = SimpleNamespace(n_layers=n_layers), round(level, 3)
    known = compression(method).offered(model)
    found = compression(method).levels(model, (level,)) if known and 0 < level < 1 else ()
    if not known or not found or found[0] >= 1 or (len(known) == 1 and not is_level(level, known)):
        own = "It has one level of its own, which the audit has: nothing is left to measure."
        said = f"It has one level, which the audit has or {known[0]:g}." if known else own
        fix = (
            said
            if len(known) < 2
            else f"Give a number between 0 and 1, such as {known[len(known) // 2]:g}."
        )
        raise RequestError(Fault("sparsity", f"{level:g} is no level of {method}.", fix))
    return variants_of_arm(request, method, found[0])


def heads_at(run: Run, method: str, axis: str, level: float) -> tuple[int, ...]:
    """The heads it would cut, flat units ascending; of methods that draw, those of the first
    selection seed."""
    return variants_at(run, method, axis, level)[0].cut


def heads_beside(
    run: Run, method: str, axis: str, level: float, held: Collection[int]
) -> tuple[int, ...]:
    """As many heads as `heads_at`, none of `held` among them: those that come next in the method's
    order take their place, as far as it can cut."""
    wanted, total = len(heads_at(run, method, axis, level)), lookup.total_heads(run)
    found: tuple[int, ...] = ()
    for count in range(wanted, most_heads(run, method, axis) + 1):
        found = tuple(
            unit for unit in heads_at(run, method, axis, count / total) if unit not in held
        )
        if len(found) == wanted:
            break
    return found


def most_heads(run: Run, method: str, axis: str) -> int:
    """The most heads that a method can cut: those it does not protect, and never the whole
    model."""
    _check(run, _request(run), method, axis)
    total = lookup.total_heads(run)
    protected = exact_count(_gamma(run, axis), total) if selection_method(method).uses_gamma else 1
    return total - max(protected, 1)


def stops(run: Run, method: str, axis: str) -> list[Stop]:
    """Every number of heads that a method can cut, from none to the most, each once. Where the run
    has a level that cuts as many, that level."""
    total, variants = lookup.total_heads(run), lookup.of_axis(run, lookup.reported(run), axis)
    mine = variants[variants["method"] == method].sort_values("sparsity", ascending=False)
    finished = {len(json.loads(row.cut)): float(row.sparsity) for row in mine.itertuples()} | {
        0: 0.0
    }
    counts = range(most_heads(run, method, axis) + 1)
    return [Stop(finished.get(count, count / total), count, count in finished) for count in counts]


@lookup.remembered("variants", "scores")
def levels_of(run: Run, method: str, axis: str) -> list[float]:
    """Levels of the `stops`, or those that a compression has; none where the method's scores could
    not be ranked, or where it is none of the audit's."""
    request = _request(run)
    if method in request.compressions:
        return list(
            compression(method).offered(SimpleNamespace(n_layers=run.meta["model"]["n_layers"]))
        )
    known = method in request.selections and not lookup.frame(run, "scores").empty
    return (
        [stop.level for stop in stops(run, method, axis)]
        if known and method in lookup.methods(run, axis)
        else []
    )


def compressions_of(run: Run) -> tuple[str, ...]:
    """The compressions that the audit was asked for."""
    return _request(run).compressions


def _request(run: Run) -> AuditRequest:
    return AuditRequest.from_dict(run.meta["request"])


def _check(run: Run, request: AuditRequest, method: str, axis: str) -> None:
    known = request.selections if method in request.methods else request.methods
    faults = [] if method in request.selections else [unknown("method", method, known)]
    faults += [unknown("axis", axis, request.axes)] if axis not in request.axes else []
    if faults:
        raise RequestError(faults)


def _gamma(run: Run, axis: str) -> float:
    """The share of heads that is protected for this axis: as asked, or as the search chose it."""
    return float(run.meta["gamma"][axis])
