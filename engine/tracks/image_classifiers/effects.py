"""What filters do when they are cut alone, as a finished audit holds it, and what that says of a
set of them. No torch.

A set is predicted to change AUC or accuracy of a group by the sum of what its filters do alone,
gaps by those sums. Intervals are ranks of what sums missed in random sets that were measured with
them, in units of how much a set moves in all (split conformal, `engine.stats.reliability`). Sums
serve as far as they miss these sets by less than "no change" does. A set is as large as the shares
that it takes of each layer, added up: a layer of which much goes is what sums miss most.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.hand_sets import CELL, TEST, foretold
from engine.report.tracks import Ahead, Units
from engine.stats.clustered import MISSED, benjamini_hochberg, unwarned
from engine.stats.reliability import ENOUGH, ends
from engine.store.runs import Run, where
from engine.surgery.named import filter_mask, filter_name, widths_of
from engine.tracks.image_classifiers.words import NO_EFFECTS, said

EFFECT_KEYS = {
    "effects": ["unit", "axis", "group", "metric"],
    "effect_sets": ["set", "axis", "group", "metric"],
}
SMOOTH, CLEAR = "log_probability", 0.05
"""What single filters are judged by, and the largest q of a clear change."""
SUMMED = ("auc", "accuracy")
LIMITS = (0.1, 0.25, 0.5, 1.0)
"""Sizes of sets up to which sums may serve, in layers."""
SERVES = 0.75
"""Most of what "no change" misses that sums may miss."""
NAMED = 3
"""Filters that a sentence names."""
LITTLE = 0.2
"""Of the mean effect: how much a filter counts at least for the width of an interval."""


def effects_table(alone: pd.DataFrame) -> pd.DataFrame:
    """The table `effects` from rows of single filters, by Student's t of a group's images; q: over
    filters and groups of an axis."""
    value, error = alone["value"].to_numpy(), alone["error"].to_numpy()
    freedom = alone["n"].to_numpy() - 1.0
    with unwarned():
        p = np.where(value == 0, 1.0, 2 * stdtr(freedom, -np.abs(value) / error))
    p = np.where(np.isfinite(error), p, np.nan)
    table = alone.assign(unit=alone["cut"].map(json.loads).str[0], p=p)
    half = -stdtrit(freedom, MISSED / 2) * error
    table = table.assign(low=value - half, high=value + half)
    table["q"] = table.groupby(["axis", "metric"])["p"].transform(benjamini_hochberg)
    columns = ["unit", "axis", "group", "metric", "value", "low", "high", "p", "q", "n"]
    return table[columns].reset_index(drop=True)


def effects_on(run: Run, axis: str, group: str | None = None) -> pd.DataFrame:
    """Rows of single filters on the groups of an axis, or on one group, the largest harm first;
    `clear`: whether it is told from noise."""
    table = where(lookup.frame(run, "effects"), metric=SMOOTH, axis=axis)
    table = table if group is None else where(table, group=group)
    return table.assign(clear=table["q"] <= CLEAR).sort_values(
        "value", ignore_index=True, kind="stable"
    )


def effects_said(run: Run, axis: str) -> str:
    """Which filters clearly change what for which groups of an axis, the worst first."""
    table = effects_on(run, axis)
    if table["q"].isna().all():
        return said(run, f"Too few images of each subgroup of {words.axis_name(axis)} to tell.")
    clear, tested, parts = table[table["clear"]], table["unit"].nunique(), []
    signs = {"lower": clear[clear["value"] < 0], "raise": clear[clear["value"] > 0][::-1]}
    for verb, rows in signs.items():
        first = rows.drop_duplicates("unit").head(NAMED)
        named = phrasing.listing(
            f"{filter_name(run, row.unit)} ({words.group_name(row.group) or 'all images'}"
            f" {phrasing.signed(row.value)}, {phrasing.span(row.low, row.high)})"
            for row in first.itertuples()
        )
        count = f"{rows['unit'].nunique()} of {tested} filters clearly {verb}"
        whom = f"a subgroup of {words.axis_name(axis)}" if axis else "all images"
        parts.append(f"Cut alone, {count} the log-probability of the right class for {whom}.")
        parts += [f"Most of all, in nats: {named}."] if named else []
    groups = f" times {phrasing.count(table['group'].nunique(), 'subgroup')}" if axis else ""
    tests = f"{tested} filters{groups}"
    parts.append(
        f"Tested were {tests}; of all that are counted {phrasing.percent(CLEAR)} may be chance."
        " Effects of those named look too large: they were picked for it."
    )
    return said(run, " ".join(parts))


@dataclass(frozen=True, eq=False)
class Sums:
    """cells: rows of CELL, n and dense (NaN of gaps, which come last). alone: what each filter
    does, [cells without gaps, units]. gaps: the places of the groups of each. shares: of its layer
    that each filter is, [units].

    low, high: ends of misses, [cells]. limits: by metric the largest size of a set for which sums
    serve, 0 for none. missed: by metric what sums and "no change" missed (root mean square) of how
    many sets of up to that size."""

    cells: pd.DataFrame
    alone: np.ndarray
    gaps: Sequence[np.ndarray]
    shares: np.ndarray
    low: np.ndarray
    high: np.ndarray
    limits: Mapping[str, float]
    missed: Mapping[str, tuple[float, float, int]]

    def levels(self, changes: np.ndarray) -> np.ndarray:
        """Levels [cells, sets] from changes [cells without gaps, sets]."""
        found = np.clip(self.cells["dense"].to_numpy()[: len(changes), None] + changes, 0, 1)
        return np.concatenate([found, *(np.ptp(found[at], axis=0)[None] for at in self.gaps)])

    def widths(self, member: np.ndarray) -> np.ndarray:
        """How much sets [units, sets] move in all, [cells, sets]."""
        size = np.abs(self.alone)
        found = (size + LITTLE * size.mean(axis=1, keepdims=True) + 1e-12) @ member
        return np.concatenate([found, *(found[at].mean(axis=0)[None] for at in self.gaps)])

    def guess(self, units: Sequence[int]) -> pd.DataFrame:
        """CELL, n; value, low, high; delta, delta_low, delta_high of a set, of the metrics for
        which sums serve."""
        member = np.zeros((len(self.shares), 1))
        member[list(units)] = 1
        dense, value, wide = (
            found[:, 0]
            for found in (
                self.levels(self.alone @ member * 0),
                self.levels(self.alone @ member),
                self.widths(member),
            )
        )
        table = self.cells[[*CELL, "n"]].assign(value=value, delta=value - dense)
        for end, by in (("low", self.low), ("high", self.high)):
            table[end] = np.clip(value + by * wide, 0, 1)
            table[f"delta_{end}"] = table[end] - dense
        most = self.cells["metric"].map(_of_metric).map(self.limits)
        return table[most >= self.size(units) - 1e-9].reset_index(drop=True)

    def size(self, units: Sequence[int]) -> float:
        """Layers that a set takes, counted by shares."""
        return float(self.shares[list(units)].sum())


def _of_metric(metric: str) -> str:
    return metric.removesuffix("_gap")


@lookup.remembered("effects", "effect_sets", "results", "groups")
def sums_of(run: Run) -> Sums:
    """What single effects and random sets of a run teach."""
    effects, sets = (lookup.frame(run, name) for name in EFFECT_KEYS)
    alone = effects[effects["metric"].isin(SUMMED)].pivot(
        index=list(CELL), columns="unit", values="value"
    )
    levels = pd.concat([lookup.frame(run, "results").assign(group=""), lookup.frame(run, "groups")])
    levels = where(levels, variant="dense", split=TEST).set_index(list(CELL))
    cells = levels.loc[alone.index, ["value", "n"]].set_axis(["dense", "n"], axis=1).reset_index()
    compared = [
        (rows.index.to_numpy(), {"axis": axis, "group": "", "metric": f"{metric}_gap"})
        for (axis, metric), rows in cells[cells["axis"] != ""].groupby(["axis", "metric"])
        if len(rows) > 1
    ]
    gaps = [places for places, _ in compared]
    of_gaps = [row | {"n": cells["n"].iloc[at].sum()} for at, row in compared]
    cuts = sets.drop_duplicates("set").set_index("set")["cut"].map(json.loads)
    member = np.zeros((alone.shape[1], len(cuts)))
    for place, cut in enumerate(cuts):
        member[cut, place] = 1
    widths = [width for _, width in widths_of(run)]
    found = Sums(
        pd.concat([cells, pd.DataFrame(of_gaps)], ignore_index=True),
        alone.to_numpy(),
        gaps,
        np.repeat([1 / width for width in widths], widths),
        nothing := np.zeros(len(cells) + len(gaps)),
        nothing,
        {},
        {},
    )
    measured = sets.pivot(index=list(CELL), columns="set", values="value")
    truth = found.levels(measured.loc[alone.index, cuts.index].to_numpy())
    return _calibrated(found, member, truth)


def _calibrated(found: Sums, member: np.ndarray, truth: np.ndarray) -> Sums:
    """With ends, limits and what was missed, from sets [units, sets] and their levels [cells,
    sets]."""
    summed = found.levels(found.alone @ member)
    miss, still = truth - summed, truth - found.levels(found.alone @ member * 0)
    ratios, size = miss / found.widths(member), found.shares @ member
    metric = found.cells["metric"].map(_of_metric).to_numpy()
    low, high = found.low.copy(), found.high.copy()
    limits, missed = dict.fromkeys(SUMMED, 0.0), dict[str, tuple[float, float, int]]()
    for name in SUMMED:
        rows, below = np.flatnonzero(metric == name), 0.0
        for limit in LIMITS:
            inside = size <= limit
            serve = inside.sum() >= ENOUGH and all(
                _rms(miss[rows][:, part]) <= SERVES * _rms(still[rows][:, part])
                for part in (inside, inside & (size > below))
            )
            below = limit
            if not serve:
                continue
            limits[name] = limit
            for row in rows:
                low[row], high[row] = ends(ratios[row, inside])
            own, none = (_rms(one[rows][:, inside]) for one in (miss, still))
            missed[name] = own, none, int(inside.sum())
    return replace(found, low=low, high=high, limits=limits, missed=missed)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt((values**2).mean())) if values.size else 0.0


def ahead_of_set(run: Run, choice: Choice, units: Units) -> Ahead | None:
    """What a set is predicted to do to every group; None where `nothing_said` says why not."""
    if not run.has("effects"):
        return None
    found = sums_of(run)
    guesses = found.guess(units)
    if choice.reading not in set(guesses["metric"]):
        return None
    mask, (missed, still, sets) = filter_mask(run, units), found.missed[choice.reading]
    numbers = f"by {phrasing.number(missed)}, a guess of no change by {phrasing.number(still)}"
    told = (
        f"The prediction for {phrasing.count(len(units), 'filter')} off is the sum of what each"
        f" does alone. In {sets} random sets such sums missed"
        f" {lookup.reading(run, choice).quality.name} {numbers}. All numbers are of test images:"
        " these are no independent check of a set that is chosen by them."
    )
    columns = {"cut": json.dumps(mask.to_dict()), "achieved": np.nan, "flops": np.nan}
    return foretold(run, mask, units, guesses, columns, said(run, told))


def nothing_said(run: Run, choice: Choice) -> str:
    """Why nothing is predicted of a set."""
    if not run.has("effects"):
        return said(run, NO_EFFECTS)
    limit, name = sums_of(run).limits[choice.reading], lookup.reading(run, choice).quality.name
    if not limit:
        why = f"sums of what filters do alone miss the {name} of random sets as “no change” does"
        return said(run, f"No prediction here: {why}. It can be measured.")
    layers = "one layer" if limit == 1 else f"{phrasing.percent(limit)} of a layer"
    most = f"sets that take up to {layers}, shares of several layers added up"
    return said(run, f"No prediction here: sums of single filters serve for {most}. Measure it.")
