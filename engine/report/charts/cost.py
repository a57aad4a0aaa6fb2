"""What is saved: parameters, bytes and measured time of the really cut model, and proof that it is
the masked one."""

from __future__ import annotations

import math
import re

import pandas as pd
import plotly.graph_objects as go

from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.headline import MANY
from engine.report.charts.kinds import ON_STRONG, bars
from engine.report.charts.lookup import View, views
from engine.report.charts.panel import Choice, Panel, blank, nothing
from engine.report.tracks import Measure, track_of
from engine.store.runs import Run, where

QUESTION = "What does the cut save: parameters, bytes, time?"
WIDTHS = (
    ("latency_ms", "time"),
    ("bytes", "bytes"),
    ("parameters", "parameters"),
    ("flops", "FLOPs"),
)
"""Columns of the costs table with their names; those a run has no numbers for are left out."""
NARROW = 14
"""Percent below which a bar has no room for its own number."""
UNITS = {"latency_ms": " ms", "bytes": " bytes", "parameters": " parameters", "flops": " FLOPs"}


def cost(run: Run, choice: Choice) -> Panel:
    """The chosen cut variant as percent of the dense model. Time is measured, never inferred from
    parameters."""
    if not run.has("costs"):
        return nothing("cost", QUESTION, "This run has no measured costs.")
    view = View(run, choice)
    variant, is_dense, ways = view.variant, view.is_dense, view.track.ways
    dense, mine = costs_of(run, "dense"), costs_of(run, view.name)
    if dense is None or mine is None:
        return nothing("cost", QUESTION, "Costs were not measured for this variant.")
    if not is_dense:  # its time beside this variant's, not that of another moment
        dense = {**dense, "latency_ms": mine["dense_latency_ms"]}
    start = ways.saves(variant, dense, mine) or (
        f"Cutting {lookup.amount(run, variant)} removes"
        f" {phrasing.percent(1 - mine['parameters'] / dense['parameters'])} of the parameters"
    )
    untimed = ways.untimed(variant)
    if untimed:
        mine = {**mine, "latency_ms": math.nan, "speedup_low": math.nan}
    table = _table(dense, mine)
    answer, figure, mind, more = _dense_answer(dense), None, "", ""
    if not is_dense:
        answer = _answer(dense, mine, start, untimed)
        colour = view.track.methods.style(variant["method"], choice.dark).colour
        figure = _figure(choice, colour, dense, mine, view.track.nouns.whole)
        proof = ways.size_note(variant, mine) or agreement(mine)
        agrees = not pd.isna(mine.get("agrees")) and bool(mine["agrees"])
        mind = "" if agrees else proof
        more = f"{proof * agrees}{_milliseconds(dense, mine)}{_in_theory(mine)}".strip()
    device = run.meta.get("provenance", {}).get("device", "unknown device")
    n = f"{int(mine['n'])} timings" if math.isfinite(mine["n"]) else "timings"
    time = (
        f"Time: median of {n} on {device}, cut and uncut in turn. Its bar is the median of the"
        " paired ratios, its range their middle half. Other machines differ. "
    )
    stored = f"Bytes: the weights as stored.{file_said(run)}"
    note = f"{time * (not untimed)}{stored}"
    return Panel("cost", QUESTION, answer, figure, table, note, mind=mind, more=more)


def agreement(row: Values) -> str:
    """Whether the cut model is the masked one, in words."""
    agrees, difference = row.get("agrees"), row.get("max_logit_difference", math.nan)
    if agrees is None or pd.isna(agrees):
        return "Masked and cut model were not compared."
    size = f"largest difference of a logit {phrasing.number(difference)}"
    if "greedy_equal" in row:
        size += f", {'same' if bool(row['greedy_equal']) else 'different'} greedy text"
    return f"Masked and cut model {'' if agrees else 'do NOT '}agree: {size}."


def _measured(dense: Values, mine: Values) -> list[tuple[str, str]]:
    """Columns and names of what both models have."""
    return [
        (key, name)
        for key, name in WIDTHS
        if all(math.isfinite(row.get(key, math.nan)) for row in (dense, mine))
    ]


def _table(dense: Values, mine: Values) -> pd.DataFrame:
    rows = [
        ("time (ms)" if name == "time" else name, dense[key], mine[key], mine[key] / dense[key])
        for key, name in reversed(_measured(dense, mine))
    ]
    return pd.DataFrame(rows, columns=["what", "before", "after", "after as share"])


def _dense_answer(dense: Values) -> str:
    time = phrasing.with_interval(dense["latency_ms"], dense["latency_low"], dense["latency_high"])
    return (
        f"Uncut, the model has {phrasing.number(dense['parameters'])} parameters and needs"
        f" {time} ms."
    )


def _answer(dense: Values, mine: Values, start: str, untimed: str) -> str:
    """`start`, and what it does to time; untimed: why that is not said."""
    kind = phrasing.pace(mine, dense)
    if untimed or kind == "unknown":
        return f"{start}; {untimed or 'time was not measured'}."
    half = f"{mine['speedup_low']:.2f} to {mine['speedup_high']:.2f}"
    ratio = f"{mine['speedup']:.2f} × (in pairs; middle half {half})"
    way = {"faster": "and makes it faster", "slower": "and makes it slower"}
    return f"{start}, {way.get(kind, 'with no clear difference in time')}, {ratio}."


def _milliseconds(dense: Values, mine: Values) -> str:
    """Both medians, where they differ the same way as the paired ratio; under load they may not."""
    if (kind := phrasing.pace(mine, dense)) == "unknown":
        return ""
    if (mine["latency_ms"] < dense["latency_ms"]) == (mine["speedup"] > 1):
        times = [phrasing.number(row["latency_ms"]) for row in (mine, dense)]
        return f" Medians, not in pairs: {times[0]} ms against {times[1]} ms."
    said = " The medians in milliseconds are not paired, and they differ the other way."
    return said * (kind != "unclear")


def _in_theory(mine: Values) -> str:
    """What the FLOPs alone would promise."""
    ratio = mine.get("theoretical", math.nan)
    said = f" By FLOPs alone it would be {phrasing.factor(ratio)} as fast."
    return said * math.isfinite(ratio)


def _figure(choice: Choice, colour: str, dense: Values, mine: Values, whole: str) -> go.Figure:
    drawn, look = _measured(dense, mine), choice.theme
    figure = blank(choice, 120 + 30 * len(drawn), f"percent of the {whole}")
    paired = {"latency_ms": 1 / mine["speedup"]}  # what the range is of, and the answer
    shares = pd.Series([100 * paired.get(key, mine[key] / dense[key]) for key, _ in drawn])
    low, high = shares.copy(), shares.copy()
    if drawn[0][0] == "latency_ms":
        low[0] = min(shares[0], 100 / mine["speedup_high"])
        high[0] = max(shares[0], 100 / mine["speedup_low"])
    hover = [
        ", before ".join(f"{phrasing.number(row[key])}{UNITS[key]}" for row in (mine, dense))
        for key, _ in drawn
    ]
    bar = {
        "text": [f"{share:.1f}%" for share in shares],
        "textposition": "inside",
        "textfont": {"color": ON_STRONG[choice.dark]},
        "textangle": 0,
        "insidetextanchor": "start",
        "orientation": "h",
        "marker": {"color": colour},
        "width": 0.5,
        "error_x": bars(shares, low, high, look.ink, 1.5),
        "showlegend": False,
        "customdata": hover,
        "hovertemplate": "%{customdata}<extra></extra>",
    }
    if min(shares) < NARROW:
        bar["textposition"] = ["outside" if share < NARROW else "inside" for share in shares]
        bar["outsidetextfont"] = {"color": look.ink}
    figure.add_bar(x=shares, y=[name for _, name in drawn], **bar)
    figure.add_vline(x=100, line={"color": look.ink, "width": 1, "dash": "dot"})
    figure.update_xaxes(range=[0, max(112, 1.05 * high.max())])
    figure.update_yaxes(showgrid=False, showline=False)
    return figure


# Paired differences between two models on the same items: when one is claimed, how it is said.


MAX_Q = 0.05
"""False discovery rate up to which a difference is claimed."""
BY_CHANCE = "by chance"


def as_change(row: Values) -> Values:
    """A difference (value, low, high) under the names of a change."""
    return {"delta": row["value"], "delta_low": row["low"], "delta_high": row["high"]}


def direction(row: Values) -> str:
    """What phrasing.direction gives; "by chance" where the interval leaves out zero and q is too
    large for a claim."""
    kind = phrasing.direction(as_change(row))
    return BY_CHANCE if kind in ("rose", "fell") and not row.get("q", 0.0) <= MAX_Q else kind


def verdict_on(measure: Measure, row: Values) -> str:
    """ "helps", "harms" or "unclear" from the interval of a difference."""
    kind = phrasing.direction(as_change(row))
    return {measure.better: "helps", measure.worse: "harms"}.get(kind, "unclear")


def q_said(row: Values) -> str:
    """The false discovery rate in a hover; "" where none was computed."""
    return f"q = {phrasing.number(row['q'])}" if math.isfinite(row["q"]) else ""


# What a cut costs in quality and what it saves, in a sentence each; measured time only where it
# clearly differs.


SAVED = (("flops", "of the FLOPs"), ("bytes", "of the bytes"))
"""Columns of the costs table that are said, in order."""
TRIFLE = 0.01
"""A saving that counts as none, as a share."""


def cost_said(view: View, sentence: str) -> str:
    """E.g. "Perplexity does not clearly change (13.4). It saves 8.3 % of the bytes and runs 1.1
    times as fast here."; not what the first sentence says of the quality."""
    found: list[str] = []
    for one in views(view.run, view.choice):
        quality, row = one.reading.quality, one.row(one.reading.quality)
        is_worse = row is not None and phrasing.direction(row) == quality.worse
        if not re.search(f"{quality.name} (from|by)", sentence) and (is_worse or not found):
            found.append(_quality(quality, row, view.is_dense))
    saved = saved_said(view.run, view.variant)
    return f"{' '.join((*found, saved)).strip()}{file_said(view.run) * (' bytes' in saved)}"


def _quality(measure: Measure, row: Values | None, is_dense: bool) -> str:
    name = phrasing.sentence(measure.name)
    if row is None or not math.isfinite(row["value"]):
        return f"{name} was not measured."
    if is_dense:
        return f"{name} is {phrasing.short(row['value'])}."
    kind = phrasing.direction(row)
    now = phrasing.short(row["value"])
    if kind == "unknown":
        return f"{name} is {now}; there are too few {measure.few} to tell whether it changed."
    if kind == "unclear":
        return f"{name} does not clearly change ({now})."
    verb, before = "falls" if kind == "fell" else "rises", row["value"] - row["delta"]
    if measure.metric == "perplexity" and row["value"] < MANY * before:
        return f"{name} {verb} by {phrasing.per_cent(row['delta'] / before)}."
    return f"{name} {verb} from {' to '.join(phrasing.apart(before, row['value']))}."


def saved_said(run: Run, variant: Values) -> str:
    """What the cut saves, of what was measured; "" for the uncut model."""
    if variant["variant"] == "dense":
        return ""
    dense, mine = costs_of(run, "dense"), costs_of(run, variant["variant"])
    if dense is None or mine is None:
        return "What it saves was not measured."
    parts = [_share(dense, mine, column, of) for column, of in SAVED]
    said = phrasing.listing(filter(None, parts))
    time = track_of(run).ways.untimed(variant) or _time(mine, dense)
    return f"It saves {said}; {time}." if said else f"It makes the model no smaller; {time}."


def file_said(run: Run) -> str:
    """How many bytes the model has unpacked, and packed as it was read; "" where it was read as it
    is."""
    dense, packed = costs_of(run, "dense"), run.model.get("file_bytes")
    if dense is None or not packed:
        return ""
    whole, file = (f"{one / 1e6:,.0f} MB" for one in (dense["bytes"], packed))
    return f" Unpacked, the model has {whole}; its file, {file}."


def savings(run: Run, variant: Values) -> list[str]:
    """What a cut gains in size and speed, of what was measured and is no trifle, as verbs: "saves
    8.3 % of the bytes"."""
    dense, mine = costs_of(run, "dense"), costs_of(run, variant["variant"])
    if dense is None or mine is None:
        return []
    columns = [
        (column, of)
        for column, of in SAVED
        if mine.get(column, math.nan) <= (1 - TRIFLE) * dense.get(column, math.nan)
    ]
    found = [f"saves {_share(dense, mine, *one)}" for one in columns[:1]]
    is_faster = (
        phrasing.pace(mine, dense) == "faster"
        and mine.get("speedup_low", math.nan) > 1 + TRIFLE
        and not track_of(run).ways.untimed(variant)
    )
    return [*found, _time(mine, dense).removeprefix("it ")] if is_faster else found


def costs_of(run: Run, variant: str) -> Values | None:
    """What a variant's costs were, None where they were not measured."""
    table = lookup.table(run, "costs", "variant")
    rows = where(table, variant=variant)
    return None if rows.empty else rows.iloc[0].to_dict()


def _share(dense: Values, mine: Values, column: str, of: str) -> str:
    before, after = (row.get(column, math.nan) for row in (dense, mine))
    if not (math.isfinite(before) and math.isfinite(after)) or after >= before:
        return ""
    return f"{phrasing.per_cent(1 - after / before)} {of}"


def _time(mine: Values, dense: Values) -> str:
    kind, middle = phrasing.pace(mine, dense), mine.get("speedup", math.nan)
    if kind == "unknown":
        return "time was not measured"
    if kind == "faster" and middle >= 1.095:
        return f"it ran {phrasing.short(middle)} times as fast here"
    if kind == "faster":
        return f"it ran {phrasing.per_cent(middle - 1)} faster here"
    return "it ran more slowly here" if kind == "slower" else "not measurably faster here"
