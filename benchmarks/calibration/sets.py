"""Predicted sets of heads of the demo: how often 95 % intervals hold what is measured, by kind of
set.

Sets hold both of the two heads with the largest effects on an axis, one of them, or are drawn at
random; none was measured by the audit. Then what the audit did measure, every level of every method
on every axis, each left out in turn. Measuring takes a quarter of an hour; finished parts are kept
in the store (the command line's default, $PRUNEAUDIT_STORE), so a second run takes seconds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np
import pandas as pd

from benchmarks.interactive import demo
from benchmarks.report import Measure
from engine.audit.session import Local
from engine.core.types import Hooks, rng
from engine.core.words import axis_name
from engine.report.charts import lookup
from engine.report.tracks import Units
from engine.store.runs import Run, Store, default_root
from engine.tracks.language_models.bias import bias
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.opening import Audit, open_audit
from engine.tracks.language_models.perplexity import perplexity
from engine.tracks.language_models.predicted import Guess, fitted, measured_sets, sums
from engine.tracks.language_models.request import prompt_plan_of
from engine.tracks.language_models.tables import TEST, Measured
from engine.tracks.language_models.variants import What

NUMBERS = ("bias", "log perplexity")
BOTH, ONE, RANDOM = "both strong heads", "one strong head", "random heads"
ASKED = {BOTH: 15, ONE: 15, RANDOM: 15}
"""Kinds of the sets of an axis, and how many of each are drawn."""
BESIDE, RANDOMLY = 7, 8
"""So many sizes come in turn: of other heads beside strong ones, and of random sets."""
HELD, HALF = 0.9, 0.5
"""Bars: share of intervals that hold; median miss over the median miss of sums."""
Row = tuple[str, str, str, bool, float, float]
"""Number, kind of set, axis, whether its interval holds, what it misses, how wide it is."""
COLUMNS = ["number", "kind", "axis", "holds", "miss", "width"]


def measures(quick: bool) -> list[Measure]:
    run = demo()
    axes = run.request["axes"][: 1 if quick else None]
    rows = pd.DataFrame(_new(run, axes, quick), columns=COLUMNS)
    strong = rows[(rows["number"] == "bias") & (rows["kind"] != RANDOM)]
    found = []
    for (number, kind), mine in rows.groupby(["number", "kind"], sort=False):
        name = f"predicted {number}, {kind}"
        found += [_share(name, mine), *_size(name, mine)]
    for axis, mine in strong.groupby("axis", sort=False):
        found.append(_share(f"predicted bias, strong heads, {axis_name(str(axis))}", mine))
    return found + _levels(run, axes)


def _share(name: str, rows: pd.DataFrame) -> Measure:
    held = rows["holds"].mean()
    return Measure(f"{name}: 95 % intervals that hold, of {len(rows)}", held, "", HELD, True)


def _size(name: str, rows: pd.DataFrame) -> list[Measure]:
    middle = rows[["miss", "width"]].median()
    return [
        Measure(f"{name}: missed by, median", middle["miss"], ""),
        Measure(f"{name}: width, median", middle["width"], ""),
    ]


def _row(number: str, kind: str, axis: str, guess: Guess, true: float) -> Row:
    inside = guess.low <= true <= guess.high
    return number, kind, axis, inside, abs(true - guess.value), guess.high - guess.low


def _new(run: Run, axes: Sequence[str], quick: bool) -> Iterator[Row]:
    """Of sets that nobody measured."""
    with closing(Local()) as executor:
        audit = open_audit(prompt_plan_of(run), Store(default_root()), Hooks(), executor)
        for axis in axes:
            sets = _drawn(run, axis)
            if quick:  # one of each kind
                sets = {
                    one: kind for kind, one in {kind: one for one, kind in sets.items()}.items()
                }
            for units, *true in _measured(audit, axis, list(sets)):
                for name, scale, one in zip(NUMBERS, sums(run, axis), true, strict=True):
                    yield _row(name, sets[units], axis, scale.guess(units), one)


def _drawn(run: Run, axis: str) -> dict[Units, str]:
    """Sets with their kinds, drawn with a stated seed. Critical heads are drawn too."""
    known, single = measured_sets(run, axis)[0], sums(run, axis)[0].singles.value
    strong = np.argsort(-np.abs(single))[:2].tolist()
    draw, total = rng("predicted sets", "dev", axis), run.n_units
    found: dict[Units, str] = {}
    for kind, count in ASKED.items():
        at, wanted = 0, len(found) + count
        while len(found) < wanted:
            order = draw.permutation(total).tolist()
            others = [unit for unit in order if unit not in strong]
            units = {
                BOTH: strong + others[: at % BESIDE],
                ONE: [strong[at % 2], *others[: 1 + at // 2 % BESIDE]],
                RANDOM: order[: 1 + at % RANDOMLY],
            }[kind]
            at += 1
            if tuple(sorted(units)) not in known:  # nor one that was drawn before
                found.setdefault(tuple(sorted(units)), kind)
    return found


def _measured(audit: Audit, axis: str, sets: list[Units]) -> Iterator[tuple[Units, float, float]]:
    """Each set with its change of bias and of log perplexity on test data."""
    every, reading = [(), *sets], audit.request.reading
    texts = [Shard("windows", cut, split=TEST) for cut in every]
    seeds = audit.request.seed_list
    verdicts = [Shard("verdicts", cut, axis, TEST, seed) for cut in every for seed in seeds]
    audit.finish("sets", [*verdicts, *texts])
    here = Measured(audit.context, audit.request, audit.progress).on(axis, TEST)
    window = audit.context.settings.window
    dense, *logs = (math.log(perplexity(one, window)) for one in audit.context.fetch(texts))
    for units, log in zip(sets, logs, strict=True):
        change = bias(here.toxicity(What(units)), reading) - bias(here.dense, reading)
        yield units, change, log - dense


def _levels(run: Run, axes: Sequence[str]) -> list[Measure]:
    """Of the levels that the audit measured, each predicted from all other sets."""
    rows = pd.DataFrame(_left_out(run, axes), columns=[*COLUMNS, "summed", "edge"])
    found = []
    for number, mine in rows.groupby("number", sort=False):
        name = f"measured levels left out in turn, {number}"
        against = mine["miss"].median() / mine["summed"].median()
        edge = mine["edge"].sum()
        found += [
            _share(name, mine),
            Measure(f"{name}: median miss over that of sums", against, "", HALF),
            Measure(f"{name}: predicted values at the edge of their interval", edge, "", 0),
            *_size(name, mine),
        ]
    return found


def _left_out(run: Run, axes: Sequence[str]) -> Iterator[tuple[object, ...]]:
    levels = dict.fromkeys(tuple(json.loads(cut)) for cut in lookup.reported(run)["cut"])
    for axis in axes:
        for number, scale, sets in zip(
            NUMBERS, sums(run, axis), measured_sets(run, axis), strict=True
        ):
            for units in levels:
                if units in sets:
                    others = {cut: change for cut, change in sets.items() if cut != units}
                    guess = fitted(scale.singles, others).guess(units)
                    summed = abs(sets[units] - scale.singles.value[list(units)].sum())
                    edge = not guess.low < guess.value < guess.high
                    yield *_row(number, "level", axis, guess, sets[units]), summed, edge
