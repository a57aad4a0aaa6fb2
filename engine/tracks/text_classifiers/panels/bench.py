"""The bench: which heads a reader switched off, what each is said to do alone, and what came out
where it was tried."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from engine.core import words
from engine.core.types import Values
from engine.report import hand_sets, phrasing
from engine.report.charts import by_group
from engine.report.charts.heat_map import head_grid, mark
from engine.report.charts.kinds import hover
from engine.report.charts.panel import Choice, Panel
from engine.report.hand_sets import trial_said, trial_split
from engine.report.tracks import Bench, Units
from engine.store.runs import Run
from engine.surgery.named import units_of, written_heads
from engine.tracks.text_classifiers.growing import (
    GAP,
    VIEW,
    Known,
    ahead_of_set,
    cut_of,
    known,
    nothing_said,
    seconds,
)
from engine.tracks.text_classifiers.panels.survival import head_said, two_sided
from engine.tracks.text_classifiers.words import NOT_RETUNED


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
    hovers = [_hover(run, row, row["unit"] in off) for row in table.to_dict("records")]
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
    deltas = guesses.pivot(index="unit", columns=list(VIEW), values="delta")
    for name, view in (("change of gap", (axis, "", GAP)), ("change of accuracy", found.whole)):
        table[name] = deltas[view] if view in found.views else np.nan
    return table


def _hover(run: Run, row: Values, is_off: bool) -> str:
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
