"""The bench: which filters a reader switched off, layer by layer in the order of a method's
scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from engine.core import words
from engine.core.types import Values, at_level
from engine.report import hand_sets, phrasing
from engine.report.charts import by_group, lookup
from engine.report.charts.heat_map import bar_above
from engine.report.charts.kinds import add_points, hover
from engine.report.charts.panel import Choice, Panel, blank
from engine.report.hand_sets import trial_said, trial_split
from engine.report.tracks import Bench, Row, Units
from engine.store.runs import Run
from engine.surgery.named import cut_of, filter_name, filter_units, widths_of, written_filters
from engine.surgery.named import starts_of as starts
from engine.tracks.image_classifiers.effects import ahead_of_set, nothing_said
from engine.tracks.image_classifiers.words import HEADS, NOT_RETRAINED, in_units
from engine.tracks.image_classifiers.words import said as in_words

ROW = 19
"""Pixels of a row of filters."""
NARROWEST, WIDE = 8, 20
"""Places in a row at least, and where squares are to be 15 pixels wide."""


def bench_map(run: Run, choice: Choice, off: Units) -> Panel:
    """A square per filter, the layers below each other, in each the lowest score first and
    lightest; those that are off are empty. A layer goes on in the next row where it is long."""
    table = _table(run, choice, off)
    total, widest = len(table), max(width for _, width in widths_of(run))
    # Filters in a row of the map.
    across = max(NARROWEST, min(WIDE if total <= 1000 else 64 if total <= 5000 else 128, widest))
    lines = [-(-width // across) for _, width in widths_of(run)]
    tops = np.cumsum([0, *(line + 0.6 for line in lines)])
    table = table.assign(
        x=(table["place"] - 1) % across, y=tops[table["layer"]] + (table["place"] - 1) // across
    )
    figure = blank(choice, int(90 + ROW * tops[-1]))
    has_scores = _scored_by(run, choice) is not None
    size = 15 if across <= WIDE else 9 if across <= 32 else 5
    for is_off, part in table.groupby("off"):
        dots = {"size": size, "symbol": "square", "color": choice.theme.ink}
        if is_off:
            soft = choice.theme.soft
            dots |= {"symbol": "square-x-open", "color": soft, "opacity": 0.6}
        elif has_scores:
            rank = part["place"] / part["layer"].map(
                dict(enumerate(width for _, width in widths_of(run)))
            )
            bar = bar_above(choice, [0.12, 0.95], ["lowest score", "highest"], 0.7)
            dots |= {"color": rank, "cmin": 0, "cmax": 1, "colorbar": bar}
            dots |= {
                "colorscale": choice.theme.sequential,
                "line": {"width": 1, "color": choice.theme.soft},
            }
        texts = [_hover(row) for row in part.to_dict("records")]
        more = {"customdata": part[["unit"]].to_numpy(), "name": "off" if is_off else "on"}
        more["showlegend"] = bool(is_off or not has_scores)
        add_points(figure, part["x"], part["y"], texts, dots, **more)
    names = [name for name, _ in widths_of(run)]
    figure.update_yaxes(
        tickvals=list(tops[:-1]),
        ticktext=names,
        range=[tops[-1], -1],
        showgrid=False,
        showline=False,
    )
    figure.update_xaxes(range=[-1, across], showgrid=False, showline=False, showticklabels=False)
    at = {"y": 1, "yanchor": "bottom", "x": 1, "xanchor": "right"}
    figure.update_layout(margin={"t": 48}, legend=at)
    said = (
        f"{phrasing.count(len(off), in_words(run, 'filter'))} of {total} off"
        f" ({phrasing.percent(len(off) / total)})."
    )
    answer = in_words(run, f"{said if off else 'None is off.'} Click a filter to switch it.")
    note = f"{ordered(run, choice)} {in_words(run, 'Filters are counted from 0, as in mask.json.')}"
    shown = table[["filter", "place", "score", "off"]].rename(
        columns={"filter": in_words(run, "filter")}
    )
    return Panel("bench_map", in_words(run, "Which filters are off?"), answer, figure, shown, note)


def _table(run: Run, choice: Choice, off: Units) -> pd.DataFrame:
    """A row per filter: unit, layer, name, place in its layer by score, score, off."""
    found, gone, first, values = [], set(off), starts(run), _scores(run, choice)
    for layer, row in enumerate(rows(run, choice)):
        found += [
            {
                "unit": unit,
                "layer": layer,
                "filter": f"{row.name}.{unit - first[row.name]}",
                "place": place,
                "score": float(values[unit]),
                "off": unit in gone,
            }
            for place, unit in enumerate(row.units, 1)
        ]
    return pd.DataFrame(found)


def _hover(row: Values) -> str:
    score = f"score {phrasing.number(row['score'])}" if np.isfinite(row["score"]) else ""
    return hover(
        row["filter"], f"place {row['place']} of its layer", score, "off" if row["off"] else "on"
    )


def rows(run: Run, choice: Choice) -> list[Row]:
    """Every layer with its filters, the lowest score first, ties by number."""
    values, found = _scores(run, choice), []
    for (name, width), first in zip(widths_of(run), starts(run).values(), strict=True):
        order = np.argsort(values[first : first + width], kind="stable")
        found.append(Row(name, tuple(int(first + place) for place in order)))
    return found


def ordered(run: Run, choice: Choice) -> str:
    """By what filters are ordered."""
    method = _scored_by(run, choice)
    if method is None:
        return in_words(run, "In the order of their numbers: this audit has no scores of filters.")
    trials = int(lookup.frame(run, "scores").query("method == @method")["seed"].nunique())
    over = f", mean over {phrasing.count(trials, 'trial')}" if trials > 1 else ""
    return f"In each layer the lowest scores of {words.method_name(method)} come first{over}."


def _scored_by(run: Run, choice: Choice) -> str | None:
    """The chosen method where it scored filters, else the first that did."""
    known = lookup.table(run, "scores", "method")["method"].unique()
    return choice.method if choice.method in known else next(iter(known), None)


def _scores(run: Run, choice: Choice) -> np.ndarray:
    """Scores [units], means over trials, at the chosen speedup where the method was there."""
    method, total = _scored_by(run, choice), int(run.model["n_filters"])
    if method is None:
        return np.arange(total, dtype=float)
    table = lookup.frame(run, "scores")
    mine = table[table["method"] == method]
    here = mine[at_level(mine["speedup"], choice.level)]
    mine = here if len(here) else mine[at_level(mine["speedup"], mine["speedup"].min())]
    return mine.groupby("unit")["value"].mean().reindex(range(total)).to_numpy(dtype=float)


def on_trial(run: Run, choice: Choice, off: Units) -> Panel | None:
    ahead = ahead_of_set(run, choice, off)
    return hand_sets.on_trial(run, choice, off, lambda row: cut_of(run, row), ahead)


BENCH = Bench(
    picture=bench_map,
    ahead=ahead_of_set,
    nothing=nothing_said,
    tried=on_trial,
    said=hand_sets.tries_said,
    who=by_group.paid_by_group,
    units=filter_units,
    written=written_filters,
    cut_of=cut_of,
    as_method=lambda run, choice, spared: hand_sets.as_method(
        run, choice, lambda row: cut_of(run, row)
    ),
    name=filter_name,
    example="conv1.0-3, conv1.7",
    first=trial_said,
    last="test images",
    first_split=trial_split,
    about=NOT_RETRAINED,
    protects=False,
    rows=rows,
    ordered=ordered,
)

BENCH_OF_HEADS = replace(
    BENCH, about=in_units(NOT_RETRAINED, HEADS), example="vit.layers.0.attention.0-1"
)
"""Of vision transformers."""
