"""Do the same heads matter for every axis, and do methods choose the same heads?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.errors import RequestError, unknown
from engine.core.types import exact_count, is_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.headline import null_warning
from engine.report.charts.heat_map import bar_below, cells, head_axes, matrix_figure
from engine.report.charts.kinds import HOVER
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain
from engine.stats import reliability
from engine.store.runs import Run
from engine.tracks.language_models.panels.heads import pooled_scores
from engine.tracks.language_models.published_scores import PublishedScores

KINDS = ("pearson", "spearman")

TOP_SHARE = 0.2


def axis_correlation(run: Run, choice: Choice, kind: str = "pearson") -> Panel:
    """Correlation of z_bias over heads between the axes of the run."""
    wide = wide_scores(run)
    supported = _supported(run, choice, list(wide.columns))
    note = (
        f"Over {len(wide)} heads, effects pooled over all draws; noise in the effects pulls "
        "correlations towards 0."
    )
    return correlation_panel("axis_correlation", wide, kind, choice, note, supported)


def correlation_panel(
    key: str, wide: pd.DataFrame, kind: str, choice: Choice, caveat: str, warning: str = ""
) -> Panel:
    """The matrix for any table heads x axes; used for runs and for published scores."""
    if kind not in KINDS:
        raise RequestError(unknown("correlation", kind, KINDS))
    question = "Do the same heads add to the bias of every axis?"
    if wide.shape[1] < 2:
        found = "one" if wide.shape[1] else "none"
        return nothing(key, question, f"A correlation needs at least two axes; this has {found}.")
    matrix = reliability.correlation(wide, kind)
    names = [words.axis_name(axis) for axis in matrix.columns]
    values = matrix.to_numpy().copy()
    np.fill_diagonal(values, np.nan)  # always 1: no news, so no colour
    figure = matrix_figure(values, names, choice, -1.0, 1.0)
    rest = reliability.correlation(reliability.without_strongest(wide), kind)
    said = _pair_answer(matrix, rest, kind)
    answer, more = (warning, said) if warning else (said, "")
    table = (
        matrix.rename(index=words.axis_name, columns=words.axis_name)
        .rename_axis("axis")
        .reset_index()
    )
    return Panel(
        key,
        question,
        answer,
        figure,
        table,
        f"{kind.capitalize()} correlation. {caveat}",
        more=more,
    )


def method_agreement(run: Run, choice: Choice) -> Panel:
    """How many heads two methods share at the chosen sparsity, against what chance would give."""
    question = "Do the methods cut the same heads?"
    at = choice.level or max(lookup.levels(run, choice.method, choice.axis))
    cuts = {name: _cut_by(run, choice, name, at) for name in lookup.methods(run, choice.axis)}
    cuts = {words.method_name(name): units for name, units in cuts.items() if units}
    if len(cuts) < 2:
        return nothing(
            "method_agreement",
            question,
            f"Fewer than two methods cut heads at {phrasing.percent(at)}.",
        )
    total, sizes = run.n_units, {name: len(units) for name, units in cuts.items()}
    rows = [
        {
            "method": a,
            "and": b,
            "shared": len(cuts[a] & cuts[b]),
            "expected by chance": sizes[a] * sizes[b] / total,
            "of": min(sizes[a], sizes[b]),
        }
        for a, b in itertools.combinations(cuts, 2)
    ]
    table = pd.DataFrame(rows)
    counts = [[len(one & other) for other in cuts.values()] for one in cuts.values()]
    share = np.array(counts) / np.minimum.outer([*sizes.values()], [*sizes.values()])
    texts = [list(map(str, row)) for row in counts]
    figure = matrix_figure(share, list(cuts), choice, 0.0, 1.0, texts)
    top = table.sort_values("shared", ascending=False, kind="stable").iloc[0]
    answer = (
        f"At {phrasing.percent(at)}, {top['method']} and {top['and']} share most: {top['shared']} "
        f"of {top['of']} heads, where chance gives {phrasing.number(top['expected by chance'])}."
    )
    note = (
        f"Numbers are heads in common, of {total} in the model. Methods that aim at a bias: at that"
        f" of {words.axis_name(choice.axis)}. Random methods: first selection seed."
    )
    return Panel("method_agreement", question, answer, figure, table, note)


def top_heads(run: Run, choice: Choice) -> Panel:
    """In how many axes each head is among those that add most bias (Fig. 3 of the paper)."""
    wide = wide_scores(run)
    warning = _supported(run, choice, list(wide.columns))
    heads = int(run.model["n_heads"])
    names = {unit: words.head_name(unit // heads, unit % heads) for unit in wide.index}
    note = (
        f"{words.COUNTING} Top {phrasing.percent(TOP_SHARE)} of heads by effect on bias, per axis."
    )
    return top_panel("top_heads", wide, heads, choice, names, note, warning)


def top_panel(
    key: str,
    wide: pd.DataFrame,
    n_heads: int,
    choice: Choice,
    names: dict[int, str],
    note: str,
    warning: str = "",
) -> Panel:
    """Layer x head map of the number of axes a head is at the top of. `wide` is indexed by 0-based
    unit."""
    question = "Which heads are among the strongest for several axes at once?"
    if wide.shape[1] < 2:
        return nothing(key, question, "This needs effects on the bias of two axes at least.")
    chosen = reliability.top_heads(wide, TOP_SHARE)
    counts = pd.Series(reliability.in_axes(chosen)).reindex(wide.index, fill_value=0)
    figure = _count_figure(counts, n_heads, wide.shape[1], choice, names, chosen)
    rows = [
        {"head": names[unit], "axes": int(counts[unit]), "which": ", ".join(_axes_of(unit, chosen))}
        for unit in counts.sort_values(ascending=False, kind="stable").index
        if counts[unit]
    ]
    top = _top_answer(counts, names, len(wide), wide.shape[1])
    answer, more = (warning, top) if warning else (top, "")
    return Panel(key, question, answer, figure, pd.DataFrame(rows), note, more=more)


def wide_scores(run: Run) -> pd.DataFrame:
    """z_bias, rows = units, columns = axes."""
    columns = {}
    for axis in run.request["axes"]:
        table = pooled_scores(run, "z_bias", axis)
        if not table.empty and table["value"].notna().any():
            columns[axis] = table.set_index("unit")["value"]
    return pd.DataFrame(columns)


def published(
    scores: PublishedScores | Sequence[PublishedScores], choice: Choice, kind: str = "pearson"
) -> list[Panel]:
    """Every panel about imported scores, model by model; keys are unique."""
    several = [scores] if isinstance(scores, PublishedScores) else list(scores)
    found = []
    for place, one in enumerate(several):
        for panel in (published_correlation(one, choice, kind), published_top_heads(one, choice)):
            found.append(panel if place == 0 else replace(panel, key=f"{panel.key}_{place + 1}"))
    return found


def published_correlation(scores: PublishedScores, choice: Choice, kind: str = "pearson") -> Panel:
    """The matrix of Fig. 4 from imported scores. Of `choice` only `dark` is used."""
    seeds = phrasing.count(scores.seeds, "seed") if scores.seeds else "an unknown number of seeds"
    note = (
        f"{scores.model}, {scores.n_heads} heads, mean of {seeds}; imported. No null band is known."
    )
    return correlation_panel(
        "published_correlation", scores.wide(), kind, choice, " ".join([note, *scores.notes])
    )


def published_top_heads(scores: PublishedScores, choice: Choice) -> Panel:
    """Fig. 3 from imported scores; heads keep the 1-based ids of the files."""
    wide = scores.wide()
    wide.index = wide.index - 1
    heads = scores.shape[1] if scores.shape else min(12, scores.n_heads)
    names = {
        unit: f"head {unit + 1} (layer {unit // heads}, head {unit % heads} from 0)"
        for unit in wide.index
    }
    if not scores.shape:
        names = {unit: f"head {unit + 1}" for unit in wide.index}
    note = (
        f"{scores.model}: ids count heads from 1, as in the files. Top"
        f" {phrasing.percent(TOP_SHARE)} per axis; imported."
    )
    if not scores.shape:
        note += f" The shape of this model is not known: rows of {heads}, not layers."
    return top_panel("published_top_heads", wide, heads, choice, names, note)


def _pair_answer(matrix: pd.DataFrame, rest: pd.DataFrame, kind: str) -> str:
    """The pairs most and least alike; rest: the matrix without the two strongest heads, on which a
    correlation may hang."""
    pairs = [(matrix.loc[a, b], a, b) for a, b in itertools.combinations(matrix.columns, 2)]
    pairs = [pair for pair in pairs if math.isfinite(pair[0])]
    if not pairs:
        return "No correlation can be computed: the effects do not vary."
    (high, a, b), (low, c, d) = max(pairs), min(pairs)
    text = (
        f"{'Most' if len(pairs) > 1 else 'How'} alike: {_quoted(a, b)} ({kind.capitalize()}"
        f" {phrasing.correlation(high)}; {phrasing.correlation(rest.loc[a, b])} without the two"
        " heads furthest out over all axes)"
    )
    if len(pairs) > 1:
        text += (
            f"; least alike: {_quoted(c, d)}"
            f" ({phrasing.correlation(low)}; {phrasing.correlation(rest.loc[c, d])})"
        )
    return text + "."


def _quoted(*axes: str) -> str:
    """Axes in a sentence; their names may hold an "and"."""
    return phrasing.listing(words.quoted(words.axis_name(axis)) for axis in axes)


def _supported(run: Run, choice: Choice, axes: list[str]) -> str:
    """Names the axes whose dense bias is inside its null band."""
    dense = replace(choice, method="dense", level=0.0, measured_axis=None)
    weak = [axis for axis in axes if null_warning(run, replace(dense, axis=axis))]
    if not weak:
        return ""
    start = f"Not supported for {_quoted(*weak)}"
    return f"{start}: the dense bias lies inside its null band, so head effects are noise."


def _cut_by(run: Run, choice: Choice, method: str, sparsity: float) -> set[int]:
    if not is_level(sparsity, lookup.levels(run, method, choice.axis)):
        return set()
    mine = replace(choice, method=method, level=sparsity, measured_axis=None)
    return set(lookup.cut_units(lookup.variant_of(run, mine)))


def _axes_of(unit: int, chosen: dict[str, list[int]]) -> list[str]:
    return [words.axis_name(axis) for axis, units in chosen.items() if unit in units]


def _top_answer(counts: pd.Series, names: dict[int, str], total: int, axes: int) -> str:
    shared, every = counts[counts == axes], "both" if axes == 2 else f"all {axes}"
    expected = total * (exact_count(TOP_SHARE, total) / total) ** axes
    share = phrasing.percent(TOP_SHARE)
    by_chance = f"chance would give {phrasing.number(expected)}"
    if len(shared):
        top = f"In the top {share} of {every} axes ({by_chance})"
        return f"{top}: {_heads(names[unit] for unit in shared.index)}."
    most = int(counts.max())
    listed = _heads(names[unit] for unit in counts.index[counts == most])
    none = f"No head is in the top {share} of {every} axes ({by_chance})"
    return f"{none}; most often: {listed} ({most} of {axes})."


def _heads(names: Iterable[str]) -> str:
    """Heads apart by semicolons, for their names hold commas."""
    found = list(names)
    return "; ".join(found[:8]) + (f"; and {len(found) - 8} more" if len(found) > 8 else "")


def _count_figure(
    counts: pd.Series,
    n_heads: int,
    axes: int,
    choice: Choice,
    names: dict[int, str],
    chosen: dict[str, list[int]],
) -> go.Figure:
    layers = math.ceil((int(counts.index.max()) + 1) / n_heads)
    values, texts = np.full((layers, n_heads), np.nan), np.full((layers, n_heads), "", dtype=object)
    for unit, number in counts.items():
        place = divmod(int(unit), n_heads)
        values[place] = number
        which = ", ".join(_axes_of(int(unit), chosen)) or "none"
        texts[place] = (
            f"<b>{names[unit]}</b><br>in the top of {number} of {axes} axes: {plain(which)}"
        )
    figure = blank(choice, 138 + 28 * layers, "head", "layer")
    figure.update_layout(margin={"b": 96})
    bar = {
        name: value for name, value in bar_below(choice).items() if name not in ("nticks", "xpad")
    }
    said = {"text": "axes in which the head is at the top", "font": {"size": 11}, "side": "bottom"}
    bar |= {"dtick": 1, "tickfont": {"size": 11}, "title": said}
    cells(
        figure,
        values,
        choice.theme.sequential,
        text=texts,
        hovertemplate=HOVER,
        zmin=0,
        zmax=axes,
        colorbar=bar,
    )
    head_axes(figure, layers, n_heads)
    figure.update_xaxes(fixedrange=None)
    figure.update_yaxes(fixedrange=None)
    return figure
