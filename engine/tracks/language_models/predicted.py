"""What cutting any set of heads will do, predicted from the audit's own single effects. No model,
no torch.

The change of bias is minus the sum of the pooled effects z_bias of the heads, and subgroups alike.
Log perplexity changes by the sum of its single changes. Where sums are off is learnt from every set
of heads that this audit measured on test prompts: variants, random cuts with all prompts, what was
added. `engine.stats.reliability` learns residuals, measured minus summed, with a head's size from
its effect. So a prediction goes along with measured sets that share its
strong heads and pairs of these, and its interval is wide where none do.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pandas as pd

from engine.core.errors import Fault, RequestError, refusal, unknown
from engine.core.types import POOLED, HeadMask, exact_count, is_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.hand_sets import name_of
from engine.report.tracks import Ahead, Units
from engine.stats.reliability import ENOUGH, Learnt, learnt
from engine.store.runs import Run, where
from engine.tracks.language_models.arms import variants_of_arm
from engine.tracks.language_models.compressions import compression
from engine.tracks.language_models.evidence import seeds_drawn
from engine.tracks.language_models.request import AuditRequest
from engine.tracks.language_models.scores.perplexity import ExactPerplexity
from engine.tracks.language_models.selection import selection_method
from engine.tracks.language_models.tables import TEST
from engine.tracks.language_models.variants import Variant, all_variants, variant_table

POWER, LEAST, PAIR, ALIKE = 1.5, 0.03, 1.0, 0.25
"""In learning a head counts by this power of its effect and twice its error, and at least so much
of the mean; pairs count so much beside heads; sets that share more than this part of their heads
are left out together. Tried on sets of the embedded audit's heads: a power of 1 is too narrow for a
strong head that was never cut without another, 2 misses measured levels by more."""
WIDE, MISSES = 0.5, 3.0
"""Where too few sets were measured to learn from: an effect may be off by this share of itself and
by twice its error, all heads the same way, and a sum by so many times the median of what sums
missed per sqrt(head)."""
GROUPS = "head_groups"


VALUE, DELTA = ("value", "low", "high"), ("delta", "delta_low", "delta_high")


class Guess(NamedTuple):
    """A predicted number with its interval; NaN where it cannot be predicted."""

    value: float
    low: float
    high: float

    def named(self, *names: str) -> dict[str, float]:
        """The value and both ends under these three names."""
        return dict(zip(names, self, strict=True))


@dataclass(frozen=True)
class Prediction:
    """What a cut of these heads will do, against the dense model on test prompts.

    change: of the bias of the axis; bias: its level, never below 0; perplexity: its level. groups:
    a row per subgroup with the change of its mean toxicity, value, low and high; empty where the
    run has no effects per subgroup. sets: how many measured sets the interval of bias rests on;
    note: what must be said of it.
    """

    axis: str
    units: tuple[int, ...]
    change: Guess
    bias: Guess
    perplexity: Guess
    groups: pd.DataFrame
    sets: int
    note: str


@dataclass(frozen=True)
class Singles:
    """Effects of single heads by unit, [units] each, and how large an effect's uncertainty is,
    [units]."""

    value: np.ndarray
    size: np.ndarray


@dataclass(frozen=True)
class Sums:
    """Sums, and what measured sets say of how far they are off; learnt: None where they are too
    few. sizes: of heads in it, [units]."""

    singles: Singles
    sizes: np.ndarray
    learnt: Learnt | None
    missed: dict[Units, float]
    """What the sums of measured sets missed, measured minus summed."""

    def guess(self, units: Sequence[int]) -> Guess:
        """The sum over heads, corrected, with its interval; exactly 0 for none."""
        at = list(units)
        value = float(self.singles.value[at].sum())
        if self.learnt is not None:
            ends = self.learnt.guess(_members([units], self.sizes))
            return Guess(*(value + float(end[0, 0]) for end in ends))
        wide = float((WIDE * np.abs(self.singles.value[at]) + 2 * self.singles.size[at]).sum())
        if self.missed:
            part, miss = max(
                (len({*units} & {*one}) / len({*units} | {*one}), miss)
                for one, miss in self.missed.items()
            )
            value += part**2 * miss
            typical = np.median([abs(miss) / len(one) ** 0.5 for one, miss in self.missed.items()])
            wide += MISSES * float(typical) * len(units) ** 0.5
        return Guess(value, value - wide, value + wide)


def predicted(run: Run, units: Sequence[int], axis: str) -> Prediction:
    """The prediction for a set of heads (flat units, from 0). RequestError for heads or axes that
    the run has not."""
    total, axes = run.n_units, run.request["axes"]
    faults = [] if axis in axes else [unknown("axis", axis, axes)]
    if not all(0 <= unit < total for unit in units) or len(set(units)) != len(units):
        what = f"{list(units)} are not heads of the model, once each."
        faults.append(Fault("heads", what, f"Units go from 0 to {total - 1}."))
    if faults:
        raise RequestError(faults)
    units, bias = tuple(sorted(units)), f"bias:{run.request['reading']}"
    level, text = _dense(run, bias, axis), _dense(run, "perplexity")
    bias_sums, text_sums = sums(run, axis)
    least, log = np.maximum(-level, bias_sums.guess(units)), text_sums.guess(units)
    change = Guess(*least.tolist())  # a bias falls to zero at most
    by_group = _group_sums(Run(run.path, run.additions), axis) if run.has(GROUPS) else {}
    groups = {group: mine.guess(units) for group, mine in by_group.items()}
    return Prediction(
        axis,
        units,
        change,
        Guess(*(level + end for end in change)),
        Guess(*(text * math.exp(end) for end in log)),
        pd.DataFrame([(name, *guess) for name, guess in groups.items()], columns=["group", *VALUE]),
        len(bias_sums.missed),
        _note(bias_sums, change, len(units), "z_bias" in set(lookup.frame(run, "scores")["score"])),
    )


def _dense(run: Run, *what: str) -> float:
    """The dense model's value of a metric, on an axis; NaN where the run has none."""
    row = lookup.result(run, "dense", *what)
    return math.nan if row is None else float(row["value"])


def sums(run: Run, axis: str) -> tuple[Sums, Sums]:
    """Of bias on an axis, and of log perplexity; computed once per content of the run's tables."""
    return _sums(Run(run.path, run.additions), axis)


@lookup.remembered("scores", "variants", "results", "controls")
def _sums(run: Run, axis: str) -> tuple[Sums, Sums]:
    changes, logs = measured_sets(run, axis)
    return fitted(_bias_singles(run, axis), changes), fitted(_text_singles(run), logs)


def fitted(singles: Singles, measured: dict[Units, float]) -> Sums:
    """The sums of an audit: singles, and the measured change of every set of heads."""
    off = np.nan_to_num(np.abs(singles.value) + 2 * singles.size) ** POWER
    sizes = np.sqrt(off / (off.mean() or 1.0) + LEAST)
    off_by = {cut: change - singles.value[list(cut)].sum() for cut, change in measured.items()}
    missed = {cut: float(miss) for cut, miss in off_by.items() if math.isfinite(miss)}
    residual = np.array([*missed.values()])[:, None]
    found = learnt(_members([*missed], sizes), residual, PAIR, ALIKE)
    return Sums(singles, sizes, found, missed)


def _members(sets: Sequence[Sequence[int]], sizes: np.ndarray) -> np.ndarray:
    """[sets, units]: sizes of the heads in each, 0 for others."""
    found = np.zeros((len(sets), len(sizes)))
    for row, units in zip(found, sets, strict=True):
        row[list(units)] = sizes[list(units)]
    return found


def measured_sets(run: Run, axis: str) -> tuple[dict[Units, float], dict[Units, float]]:
    """Measured on test: the change of bias on the axis and of log perplexity by set of heads.

    A head whose perplexity was measured exactly, if on validation text, is a set of its own there.
    Else one that was cut with others alone takes the blame for what they do together. Heads may be
    no more than sets, since the interval is read off both.
    """
    test, cuts = where(lookup.frame(run, "results"), split=TEST), _cuts(run)
    metric = f"bias:{run.request['reading']}"
    bias = where(test, metric=metric, axis=axis).set_index("variant")
    text = where(test, metric="perplexity").set_index("variant")["value"]
    changes = {cuts[name]: float(change) for name, change in bias["delta"].items() if cuts[name]}
    logs = {
        cuts[name]: math.log(value / text["dense"]) for name, value in text.items() if cuts[name]
    }
    for row in _whole_controls(run, bias, axis).itertuples():
        if cut := tuple(json.loads(row.cut)):
            changes.setdefault(cut, float(row.bias - bias.loc["dense", "value"]))
            logs.setdefault(cut, math.log(row.perplexity / text["dense"]))
    exact = run.request.get("perplexity_estimator") == ExactPerplexity.name
    if exact and ENOUGH <= len(logs) >= run.n_units:
        logs = {(unit,): one for unit, one in enumerate(_text_singles(run).value.tolist())} | logs
    return changes, logs


def _cuts(run: Run) -> dict[str, tuple[int, ...]]:
    """Heads of every variant."""
    return {
        row.variant: tuple(json.loads(row.cut))
        for row in lookup.frame(run, "variants").itertuples()
    }


def _whole_controls(run: Run, bias: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Random cuts beside variants of the axis that were measured on every test prompt and seed."""
    if not run.has("controls") or "dense" not in bias.index:
        return pd.DataFrame()
    return where(
        lookup.frame(run, "controls"),
        target_axis=axis,
        prompts=bias.loc["dense", "n"],
        draws=seeds_drawn(run.meta),
    )


def _bias_singles(run: Run, axis: str) -> Singles:
    """Changes of bias (minus z), and their standard errors; where an estimator gives none, the
    effect's own size."""
    rows = _pooled(run, "z_bias", axis)
    size = rows.get("error", rows["value"].abs()).astype(float).fillna(rows["value"].abs())
    return Singles(-rows["value"].to_numpy(), size.to_numpy())


def _text_singles(run: Run) -> Singles:
    """Changes of log perplexity, from z (ppl on minus off) on validation text relative to the dense
    test perplexity."""
    rows = _pooled(run, "z_ppl", "")
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.log1p(-rows["value"].to_numpy() / _dense(run, "perplexity"))
    return Singles(value, np.abs(value))


def _pooled(run: Run, score: str, axis: str) -> pd.DataFrame:
    rows = where(lookup.frame(run, "scores"), score=score, axis=axis, seed=POOLED).set_index("unit")
    return rows.reindex(range(run.n_units))


@lookup.remembered(GROUPS, "variants", "groups")
def _group_sums(run: Run, axis: str) -> dict[str, Sums]:
    """Of the mean toxicity of every subgroup, learnt as bias is."""
    cuts, found = _cuts(run), {}
    test = where(lookup.frame(run, "groups"), metric="toxicity", axis=axis, split=TEST)
    for group, rows in where(lookup.frame(run, GROUPS), axis=axis).groupby("group"):
        rows = rows.set_index("unit").reindex(range(run.n_units))
        error = rows["error"].fillna(rows["value"].abs())
        measured = where(test, group=group).set_index("variant")["delta"].dropna()
        sets = {cuts[name]: float(change) for name, change in measured.items() if cuts[name]}
        found[str(group)] = fitted(Singles(rows["value"].to_numpy(), error.to_numpy()), sets)
    return found


def _note(found: Sums, change: Guess, heads: int, scored: bool) -> str:
    if math.isnan(change.value):
        said = "were not ranked" if scored else "were not scored for it"
        return f"The heads of this axis {said}, so nothing can be predicted."
    sets = len(found.missed)
    if found.learnt is not None:
        most = found.learnt.most
        note = (
            f"The sum is corrected by what sums missed in {sets} sets that this audit measured, and"
            " its interval is read off these misses."
        )
        if heads <= most:
            return note
        return f"{note} None of them has more than {most} heads: of so many it may say too little."
    return (
        f"This audit measured {phrasing.count(sets, 'set')} of heads, fewer than the {ENOUGH} from"
        " which an interval can be read off. So it is wide: every effect may be off by"
        f" {WIDE:.0%} of itself and twice its error, all the same way. {MISSES:g} times what"
        " measured sums missed is added."
    )


# A set of heads that nobody measured, as rows of a run's tables: what their single effects say
# of it.


START = 6.0
"""Seconds that opening a model takes where nothing is known."""


def ahead_of_level(run: Run, choice: Choice) -> Ahead | None:
    """What the chosen method would cut at a level that is not finished; None where nothing can be
    predicted."""
    if choice.method in compressions_of(run):
        return None
    return _ahead(run, choice, variants_at(run, choice.method, choice.axis, choice.level)[0])


def ahead_of_set(run: Run, choice: Choice, units: tuple[int, ...]) -> Ahead | None:
    """The same for heads chosen by hand."""
    mask = HeadMask.from_units(run.model["n_layers"], run.model["n_heads"], units)
    name = name_of(mask.digest)
    return _ahead(run, choice, Variant(name, name, "", math.nan, mask.sparsity, POOLED, mask.units))


def _ahead(run: Run, choice: Choice, variant: Variant) -> Ahead | None:
    """None for another reading of bias than effects were measured by, and for heads that were not
    ranked."""
    if choice.reading != run.request["reading"]:
        return None
    found = predicted(run, variant.cut, choice.measured)
    if math.isnan(found.change.value):
        return None
    model = run.model
    tables = {
        "variants": variant_table([variant], model["n_layers"], model["n_heads"]),
        "results": pd.DataFrame(_results(run, choice, found)),
        "groups": _ahead_groups(run, choice, found),
    }
    for name in ("results", "groups"):
        tables[name] = tables[name].assign(variant=variant.id, split=TEST)
    heads = phrasing.count(len(found.units), "head")
    said = f"The prediction for {heads} off is the sum of their single effects. {found.note}"
    return Ahead(variant.id, tables, said, _seconds(run))


def _results(run: Run, choice: Choice, found: Prediction) -> list[dict[str, object]]:
    """Bias on the axis and perplexity, with the ends of the prediction."""
    bias, text = lookup.bias(run, "dense", choice), lookup.result(run, "dense", "perplexity")
    rows = []
    if bias is not None:
        rows.append((f"bias:{choice.reading}", choice.measured, bias, found.bias, found.change))
    if text is not None:
        moved = Guess(*(end - text["value"] for end in found.perplexity))
        rows.append(("perplexity", "", text, found.perplexity, moved))
    same = {"group": "", "verdict": "", "group_note": ""}
    return [
        same
        | {"metric": metric, "axis": axis, "n": dense["n"]}
        | level.named(*VALUE)
        | change.named(*DELTA)
        for metric, axis, dense, level, change in rows
    ]


def _ahead_groups(run: Run, choice: Choice, found: Prediction) -> pd.DataFrame:
    """Mean toxicity per subgroup where the run has effects per subgroup; a share stays between 0
    and 1."""
    dense = lookup.groups_of(run, "dense", "toxicity", choice.measured)
    was = dense[["group", "metric", "axis", "n", "verdict"]].assign(was=dense["value"])
    table = found.groups.merge(was, on="group")
    moved = {delta: table[name] for delta, name in zip(DELTA, VALUE, strict=True)}
    ends = {name: (table["was"] + table[name]).clip(0.0, 1.0) for name in VALUE}
    return table.assign(**moved, **ends).drop(columns="was")


def _seconds(run: Run) -> float:
    """About what measuring one variant on one axis takes: the audit's time for all of them, shared
    out; NaN where it measured none itself."""
    spent = float(run.meta.get("spent", {}).get("measure variants", 0.0))
    variants, axes = len(lookup.reported(run)), len(run.request["axes"])
    return START + spent / (variants * axes) if spent > 1 else math.nan


# Any level of a method: which heads it would cut, read off the stored scores of a finished run.


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
    total, most = run.n_units, most_heads(run, method, axis)
    if not 0 < level < 1 or not 0 < exact_count(level, total) <= most:
        what = (
            f"{level:g} does not cut between 1 and {most} of {total} heads, which is what {method}"
            " can cut here."
        )
        raise refusal("sparsity", what, f"Give {1 / total:.4f} to {most / total:.4f}.")
    asked = replace(
        _request(run), methods=(method,), axes=(axis,), sparsities=(level,), gamma=_gamma(run, axis)
    )
    groups = lookup.frame(run, GROUPS) if run.has(GROUPS) else None
    unsupported = run.meta.get("scoring", {}).get("unsupported", {})
    dense, *found = all_variants(
        asked, lookup.frame(run, "scores"), total, groups=groups, unsupported=unsupported
    )
    if not found:
        what = f"heads for {axis} were {unsupported.get(axis, 'not ranked in this audit')}."
        raise refusal("axis", what, "Choose another method.")
    return found


def arms_at(run: Run, method: str, level: float) -> list[Variant]:
    """One of the audit's compressions at another level. RequestError where it has none like it."""
    known, level = _offered(run, method), round(level, 3)
    found = compression(method).levels(_shape(run), (level,)) if known and 0 < level < 1 else ()
    if not known or not found or found[0] >= 1 or (len(known) == 1 and not is_level(level, known)):
        fix = "It has only one level, and the audit has it: nothing is left to measure."
        if len(known) == 1:
            fix = f"It has one level, which the audit has or {known[0]:g}."
        elif known:
            fix = f"Give a number between 0 and 1, such as {known[len(known) // 2]:g}."
        raise refusal("sparsity", f"{level:g} is no level of {method}.", fix)
    return variants_of_arm(_request(run), method, found[0])


def _offered(run: Run, method: str) -> Sequence[float]:
    """Levels of a compression that the run's model can be asked for."""
    return compression(method).offered(_shape(run))


def _shape(run: Run) -> SimpleNamespace:
    return SimpleNamespace(n_layers=run.model["n_layers"])


def heads_at(run: Run, method: str, axis: str, level: float) -> tuple[int, ...]:
    """The heads it would cut, flat units ascending; of methods that draw, those of the first
    selection seed."""
    return variants_at(run, method, axis, level)[0].cut


def heads_beside(
    run: Run, method: str, axis: str, level: float, held: Collection[int]
) -> tuple[int, ...]:
    """As many heads as `heads_at`, none of `held` among them: those that come next in the method's
    order take their place, as far as it can cut."""
    wanted, total = len(heads_at(run, method, axis, level)), run.n_units
    found: tuple[int, ...] = ()
    for count in range(wanted, most_heads(run, method, axis) + 1):
        every = heads_at(run, method, axis, count / total)
        found = tuple(unit for unit in every if unit not in held)
        if len(found) == wanted:
            break
    return found


def most_heads(run: Run, method: str, axis: str) -> int:
    """The most heads that a method can cut: those it does not protect, and never the whole
    model. RequestError for a method or an axis that the audit has not."""
    request, total = _request(run), run.n_units
    known = request.selections if method in request.methods else request.methods
    faults = [] if method in request.selections else [unknown("method", method, known)]
    faults += [unknown("axis", axis, request.axes)] if axis not in request.axes else []
    if faults:
        raise RequestError(faults)
    protected = exact_count(_gamma(run, axis), total) if selection_method(method).uses_gamma else 1
    return total - max(protected, 1)


def stops(run: Run, method: str, axis: str) -> list[Stop]:
    """Every number of heads that a method can cut, from none to the most, each once. Where the run
    has a level that cuts as many, that level."""
    total, variants = run.n_units, lookup.of_axis(run, lookup.reported(run), axis)
    rows = where(variants, method=method).sort_values("sparsity", ascending=False, kind="stable")
    finished = dict(zip(rows["n_cut"], rows["sparsity"].astype(float), strict=True)) | {0: 0.0}
    counts = range(most_heads(run, method, axis) + 1)
    return [Stop(finished.get(count, count / total), count, count in finished) for count in counts]


@lookup.remembered("variants", "scores")
def levels_of(run: Run, method: str, axis: str) -> list[float]:
    """Levels of the `stops`, or those that a compression has; none where the method's scores could
    not be ranked, or where it is none of the audit's."""
    request = _request(run)
    if method in request.compressions:
        return list(_offered(run, method))
    needs = selection_method(method).needs if method in request.selections else (method,)
    if not set(needs) <= set(lookup.frame(run, "scores")["score"]) or method not in lookup.methods(
        run, axis
    ):
        return []
    return [stop.level for stop in stops(run, method, axis)]


def compressions_of(run: Run) -> tuple[str, ...]:
    """The compressions that the audit was asked for."""
    return _request(run).compressions


def _request(run: Run) -> AuditRequest:
    return AuditRequest.from_dict(run.request)


def _gamma(run: Run, axis: str) -> float:
    """The share of heads that is protected for this axis: as asked, or as the search chose it."""
    return float(run.meta["gamma"][axis])
