"""More of a finished audit: heads that a person chose, silenced in the full models, measured as its
own arms were.

Nothing is trained for the set itself: every seed's full model answers with the heads off, as for
arms that train nothing again. Full models that neither the run nor the store holds are fine-tuned
again first, as the audit did it. A set is tried on validation texts, or on training texts where the
task has none, before it is measured on test texts. What comes out is an addition to the run
(engine/store/runs.py). No torch until something is measured.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from engine.audit.request import Growth
from engine.audit.session import Executor, Grown, Session
from engine.core import words
from engine.core.errors import Fault
from engine.core.types import Hooks, Values
from engine.core.words import PREFIX
from engine.report import hand_sets, phrasing
from engine.report.charts import by_group, lookup
from engine.report.charts.heat_map import head_grid, mark
from engine.report.charts.kinds import hover
from engine.report.charts.panel import Choice, Panel
from engine.report.hand_sets import (
    CELL,
    TEST,
    Chosen,
    HandSet,
    HandSets,
    check_set,
    chosen_of,
    classifier_rows,
    foretold,
    told_of,
    trial_said,
    trial_split,
)
from engine.report.tracks import Ahead, Bench, Units
from engine.resident.warm import Warm
from engine.stats.clustered import TAILS
from engine.stats.reliability import Learnt, learnt
from engine.store.runs import Run, Store, where
from engine.surgery.named import mask_of_units, units_of, written_heads
from engine.tracks.text_classifiers.panels.survival import head_said, two_sided
from engine.tracks.text_classifiers.tables import Cell
from engine.tracks.text_classifiers.words import NOT_RETUNED

NO_LEVEL = Fault(
    "sparsity",
    "of a text classifier's method is trained or walked for: it is asked as an audit with one level"
    " more.",
    "Give heads, or start the audit again with the level added.",
)


def chosen_heads(run: Run, request: Growth) -> tuple[Chosen, str]:
    """The set that a growth asks of a run, and the split of its texts. RequestError where there is
    none."""
    counted = f": layer times {run.model['n_heads']} plus head"
    check_set(run, request, NO_LEVEL, run.n_units, counted)
    mask = mask_of_units(run, request.units)
    return chosen_of(run, request, mask, mask.units, cut_of)


def cut_of(variant: Any) -> tuple[int, ...] | None:
    """Heads of a row of the variants table; None for one whose seeds cut other heads each."""
    return tuple(json.loads(variant["cut"])) if variant["cut"] else None


def _measured(
    grown: Grown, store: Store, hooks: Hooks, executor: Executor, warm: Warm | None
) -> tuple[Session[Any, Any], HandSet]:
    from engine.tracks.text_classifiers.run import measured_heads  # torch

    return measured_heads(grown, store, hooks, executor, warm)


HAND = HandSets("text_id", chosen_heads, _measured)
grow, check_growth = HAND.grow, HAND.check


def told(before: Run, after: Run, growth: Growth) -> Values:
    """As `told_of` says it; the notes say what the numbers are of."""
    chosen, split = chosen_heads(after, growth)
    units = chosen.mask.units
    ahead = ahead_of_set(
        before, Choice(chosen.name, growth.axis, chosen.mask.sparsity, reading="accuracy"), units
    )
    notes = (
        [f"Predictions are for test texts; these are {split} texts."]
        if ahead and split != TEST
        else []
    )
    notes += [NOT_RETUNED, *([ahead.said] if ahead else [])]
    rows = classifier_rows(after, growth, chosen.name, split, ahead)
    return told_of(before, after, split, {chosen.name: chosen.mask.cut}, rows, notes)


# Every random mask is a set of heads whose accuracy on all texts and on those of every group the
# audit knows, in every seed; so is every set that was kept by hand. Accuracies are learnt as log
# odds (so that they stay between 0 and 1), Matthews' correlation likewise. A gap lies between
# the groups' predictions; see `engine.stats.reliability`.
#
# Tried on the embedded audit of remarks, 600 masks of 4, 8 and 12 of 16 heads: left out one by
# one, their accuracy on all texts is missed by .011, .023 and .025 (root mean square). The sum
# of what each head costs alone misses it by .034, .111 and .195, as log odds by .022, .068 and
# .111: of text classifiers such sums do not serve. Single heads, none of which is among the
# masks, are missed by .08 in log odds, which range over .84.
#
# `python -m benchmarks.hand_sets` measures new random sets and counts how many predicted
# intervals hold what came out.
#
# The masks were measured on test texts: what is predicted, and a set that is chosen by it, has
# seen them.


NO_MASKS = (
    "No prediction here: it is learnt from random masks, and this audit measured fewer than 39. "
    "It can be measured."
)
ONLY_ACCURACY = (
    "Nothing can be predicted of {}: random masks were measured by accuracy. Read by accuracy"
    " instead, or measure."
)


def ahead_of_set(run: Run, choice: Choice, units: Units) -> Ahead | None:
    """What the set is predicted to do to accuracy; None where `nothing_said` says why not."""
    found = known(run)
    if found is None or nothing_said(run, choice):
        return None
    mask, columns = mask_of_units(run, units), {"retrained": False, "ticket": ""}
    columns |= {"cut": json.dumps(list(mask.units))}
    told = _said(found, len(units))
    return foretold(run, mask, units, found.guess(units), columns, told, seconds(run))


def nothing_said(run: Run, choice: Choice) -> str:
    """Why nothing can be predicted; "" where it can."""
    if choice.reading != "accuracy":
        return ONLY_ACCURACY.format(lookup.reading(run, choice).quality.name)
    return "" if known(run) else NO_MASKS


def _said(found: Known, count: int) -> str:
    """What the prediction rests on."""
    sets, missed = found.model.sets, phrasing.number(found.missed)
    said = (
        f"The prediction for {phrasing.count(count, 'head')} off is learnt from {sets} sets of "
        "heads, most of them random, measured on test texts. It misses the accuracy of a set "
        f"that was left out by {missed} (median)."
    )
    if count < found.least:
        said += (
            f" Fewer than {found.least} heads were not cut at random: the interval reaches from no"
            f" change to all that sets of {found.least} did."
        )
    if count > found.model.most:
        said += (
            f" None of them has more than {found.model.most} heads, so of so many the interval may"
            " say too little."
        )
    return said


def seconds(run: Run) -> float:
    """About what measuring a set takes once the full models are there; what training them took,
    where they are not."""
    spent, kept = run.meta.get("spent", {}), run.request.get("keep_weights")
    trained = float(spent.get("fine-tune the full model", 0.0)) if run.model.get("retuned") else 0.0
    share = {"all": 0.0, "first": 1 - 1 / max(1, run.request["trials"])}.get(str(kept), 1.0)
    done = any(
        one.meta["asked"].get("units") for one in run.added
    )  # the store holds the full models since
    return 8.0 + (0.0 if done else trained * share)


SOME = 10
"""Sets that were measured at random, of so many heads or fewer, with which these count as measured.
"""
GAP = "accuracy_gap"
"""The metric of the cell (axis, "", GAP)."""


@dataclass(frozen=True)
class Known:
    """What was learnt of a run: cells in the order of the numbers, the full model's value of each,
    texts behind it."""

    cells: tuple[Cell, ...]
    dense: np.ndarray
    texts: np.ndarray
    model: Learnt
    off: np.ndarray
    """Median distance of left-out sets from what was predicted of them, in the unit of each cell.
    """
    least: int
    """Heads of the smallest sets of which some were measured."""
    reach: np.ndarray
    """What those did at least and at most, as it is learnt, [2, cells]. Nothing vouches for what is
    learnt of fewer heads, so their intervals hold that and no change."""

    @property
    def whole(self) -> Cell:
        """The cell of all texts."""
        return next(cell for cell in self.cells if not cell.axis)

    @property
    def missed(self) -> float:
        """How far predicted accuracies of all texts were off."""
        return float(self.off[self.cells.index(self.whole)])

    def guess(self, units: Sequence[int]) -> pd.DataFrame:
        """A row per cell: axis, group, metric, n; value, low, high; delta, delta_low, delta_high.

        A gap lies between what is predicted of the groups: what is learnt of gaps themselves is
        noise that a reader who looks for a small one picks.
        """
        member = np.zeros((1, self.model.member.shape[1]))
        member[0, list(units)] = 1
        dense = _forth(self.cells, self.dense, self.texts)
        table = pd.DataFrame(self.cells, columns=list(CELL)).assign(n=self.texts)
        value, low, high = self.model.guess(member)
        few = len(units) < self.least
        if few:
            low, high = np.minimum(low, self.reach[0]), np.maximum(high, self.reach[1])
        for name, change in zip(("value", "low", "high"), (value, low, high), strict=True):
            table[name] = _back(self.cells, dense + change[0]) if len(units) else self.dense
        if few and len(units):
            table["low"] = np.minimum(table["low"], self.dense)
            table["high"] = np.maximum(table["high"], self.dense)
        for place in np.flatnonzero(table["metric"] == GAP) if len(units) else ():
            groups = where(table, axis=table["axis"][place], metric="accuracy")
            if len(groups) > 1:
                least = max(0.0, groups["low"].max() - groups["high"].min())
                ends = np.ptp(groups["value"]), least, groups["high"].max() - groups["low"].min()
                table.loc[place, ["value", "low", "high"]] = ends
        for end in ("", "_low", "_high"):
            table[f"delta{end}"] = table[end.removeprefix("_") or "value"] - self.dense
        return table


def known(run: Run) -> Known | None:
    """What the run's measured sets teach; None where they are too few. Computed once per content of
    the tables."""
    names = ("random_masks", "variants", "results", "groups")
    if not run.has("random_masks"):
        return None
    return _known(run.path, run.additions, tuple(run.content(name) for name in names))


@lru_cache(maxsize=32)
def _known(path: Path, additions: tuple[Path, ...], content: tuple) -> Known | None:
    run = Run(path, additions)
    measured = _measured_sets(run)
    if measured.empty:
        return None
    dense, texts = (
        _by_view(run, of)["dense"].reindex(measured.columns).to_numpy() for of in ("value", "n")
    )
    there = np.isfinite(dense)
    cells = tuple(map(Cell._make, measured.columns[there]))
    dense, texts = dense[there], texts[there]
    values = measured.loc[:, there].to_numpy(dtype=float)
    member = np.zeros((len(measured), run.n_units))
    for row, units in enumerate(measured.index):
        member[row, list(units)] = 1
    was = _forth(cells, dense, texts)
    changes = _forth(cells, values, texts) - was
    model = learnt(member, changes)
    if model is None:
        return None
    left_out = _back(cells, changes[model.places] - model.residuals.T + was)
    off = np.median(np.abs(left_out - values[model.places]), axis=0)
    sizes = member.sum(axis=1)
    least = int(np.sort(sizes)[SOME - 1])
    reach = np.quantile(changes[sizes <= least], TAILS, axis=0)
    return Known(cells, dense, texts, model, off, least, reach)


def _measured_sets(run: Run) -> pd.DataFrame:
    """A row per measured set (index: its heads), a column per cell: means over seeds, and the gaps
    between them. Random masks, then sets that were kept by hand."""
    table = lookup.frame(run, "random_masks")
    if table.empty:
        return pd.DataFrame()
    key = ["sparsity", "mask"]
    heads = table[table["units"] != ""].groupby(key)["units"].first().map(_units)
    means = table[table["axis"] != ""].groupby([*key, "axis", "group"])["value"].mean()
    groups = means.groupby([*key, "axis"]).agg(["max", "min", "size"])
    gaps = (groups["max"] - groups["min"])[groups["size"] > 1].reset_index(name="value")
    rows = pd.concat([table, gaps.assign(group="", metric=GAP)])
    wide = rows.pivot_table(index=key, columns=list(CELL), values="value", aggfunc="mean")
    variants = lookup.reported(run)
    mine = variants[variants["method"].str.startswith(PREFIX)]
    kept = _by_view(run, "value").reindex(index=wide.columns, columns=mine["variant"]).T
    both = pd.concat([wide, kept])
    units = [*heads.loc[wide.index], *mine["cut"].map(_units)]
    both.index = pd.Index(units, tupleize_cols=False)
    both = both.dropna()
    return both[~both.index.duplicated()]


def _units(cut: str) -> tuple[int, ...]:
    return tuple(json.loads(cut))


def _by_view(run: Run, column: str) -> pd.DataFrame:
    """A column of the tables `results` and `groups` on test texts: rows are cells, columns
    variants."""
    whole = lookup.frame(run, "results").assign(group="")
    table = where(pd.concat([whole, lookup.frame(run, "groups")]), split=TEST)
    return table.pivot_table(index=list(CELL), columns="variant", values=column)


def _forth(cells: Sequence[Cell], values: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """Numbers [..., cells] as they are learnt: log odds, of a correlation's distance from -1; gaps
    as they are."""
    metric = np.array([cell.metric for cell in cells])
    share = np.where(metric == "matthews", (1 + values) / 2, values)
    odds = logit(np.clip(share, 0.5 / texts, 1 - 0.5 / texts))
    return np.where(metric == GAP, values, odds)


def _back(cells: Sequence[Cell], values: np.ndarray) -> np.ndarray:
    """The inverse of `_forth`; a gap lies between 0 and 1."""
    metric, share = np.array([cell.metric for cell in cells]), expit(values)
    share = np.where(metric == "matthews", 2 * share - 1, share)
    return np.where(metric == GAP, np.clip(values, 0.0, 1.0), share)


# The bench: which heads a reader switched off, what each is said to do alone, and what came out
# where it was tried.


def bench_map(run: Run, choice: Choice, off: Units) -> Panel:
    """What every head alone is predicted to do to the gap; those that are off crossed. Without a
    prediction, a grid."""
    found, axis = known(run), words.axis_name(choice.measured)
    table = _alone(run, found, choice.measured)
    question = "Which heads are off?"
    if found is not None:
        question = (
            f"Which heads are off, and what would each alone do to the accuracy gap of {axis}?"
        )
    end = float(np.nan_to_num(table["change of gap"].abs().max())) or 1.0
    scale = two_sided(end, "smaller gap", "larger gap")
    scale = scale if found is not None else replace(scale, texts=["", "", ""])
    hovers = [_bench_hover(run, row, row["unit"] in off) for row in table.to_dict("records")]
    values = table["change of gap"].fillna(0.0).to_numpy()
    figure = head_grid(run, choice, values, scale, hovers)
    mark(figure, run, choice, off, "x-thin-open", "off")
    total = len(table)
    share = phrasing.percent(len(off) / total)
    said = (
        f"{phrasing.count(len(off), 'head')} of {total} off ({share})." if off else "None is off."
    )
    note = (
        "Colours are predicted from measured sets, not measured head by head. "
        if found is not None
        else ""
    )
    shown = table.assign(off=table["unit"].isin(off)).drop(columns="unit")
    return Panel(
        "bench_map",
        question,
        f"{said} Click a head to switch it.",
        figure,
        shown,
        f"{note}{words.COUNTING}",
    )


def _alone(run: Run, found: Known | None, axis: str) -> pd.DataFrame:
    """A row per head: what silencing it alone is predicted to do, and what it was measured to cost
    where it was."""
    n_heads, units = int(run.model["n_heads"]), np.arange(run.n_units)
    table = pd.DataFrame({"unit": units, "layer": units // n_heads, "head": units % n_heads})
    if found is None:
        return table.assign(**{"change of gap": np.nan})
    guesses = pd.concat([found.guess((int(unit),)).assign(unit=unit) for unit in units])
    deltas = guesses.pivot(index="unit", columns=list(CELL), values="delta")
    for name, cell in (("change of gap", (axis, "", GAP)), ("change of accuracy", found.whole)):
        table[name] = deltas[cell] if cell in found.cells else np.nan
    return table


def _bench_hover(run: Run, row: Values, is_off: bool) -> str:
    parts = [
        f"predicted {name}: {phrasing.signed(row[name])}"
        for name in ("change of gap", "change of accuracy")
        if np.isfinite(row.get(name, np.nan))
    ]
    return hover(head_said(run, row["unit"]), *parts, "off" if is_off else "on")


def on_trial(run: Run, choice: Choice, off: Units) -> Panel | None:
    """A set that was tried: what came out, beside what was predicted."""
    return hand_sets.on_trial(run, choice, off, cut_of, ahead_of_set(run, choice, off))


BENCH = Bench(
    picture=bench_map,
    ahead=ahead_of_set,
    nothing=nothing_said,
    tried=on_trial,
    said=hand_sets.tries_said,
    who=by_group.paid_by_group,
    units=units_of,
    written=written_heads,
    cut_of=lambda run, variant: cut_of(variant),
    as_method=lambda run, choice, held: hand_sets.as_method(run, choice, cut_of),
    name=hand_sets.head_name,
    example="0.1, 3.2",
    first=trial_said,
    last="test texts",
    first_split=trial_split,
    seconds=seconds,
    about=NOT_RETUNED,
    protects=False,
)
