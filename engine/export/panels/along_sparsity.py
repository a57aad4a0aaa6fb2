"""How bias and perplexity move as more heads are cut, for every method of the run."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine import words
from engine.export import say
from engine.export.palette import method_colour, method_symbol
from engine.export.panels import lookup
from engine.export.panels.base import Choice, Panel, apart, blank, needs_log, nothing
from engine.export.panels.headline import null_warning
from engine.store.runs import Run


def bias_along_sparsity(run: Run, choice: Choice) -> Panel:
    """Bias against the share of heads cut, every method, with the null band of the chosen method."""
    axis = words.axis_name(choice.measured)
    question = f"As more heads are cut, does the bias of {axis} fall, and does it matter which heads?"
    table = _along(run, choice, f"bias:{choice.reading}", choice.measured)
    if table.empty:
        return nothing("bias_along_sparsity", question, "This run has no bias for this choice.")
    figure = _figure(run, choice, table, f"bias ({words.READINGS[choice.reading].name})")
    dense = lookup.bias(run, "dense", choice)
    note = lookup.caveat(run, dense, more=f"{_seeds_note(table)} {words.METRICS['bias:group_means'].caveat}")
    answer = f"{null_warning(run, choice)} {_answer(choice, table, 'lowers', 'raises', 'bias')}".strip()
    return Panel("bias_along_sparsity", question, answer, figure, _readable(table), note)


def perplexity_along_sparsity(run: Run, choice: Choice) -> Panel:
    """Perplexity against the share of heads cut, every method."""
    question = "As more heads are cut, how much worse does the model predict text?"
    table = _along(run, choice, "perplexity", "")
    if table.empty:
        return nothing("perplexity_along_sparsity", question, "This run has no perplexity.")
    figure = _figure(run, choice, table, "perplexity")
    corpus = run.meta.get("corpus") or {}
    tokens = corpus.get("tokens")
    tokens = tokens.get(lookup.REPORTED) if isinstance(tokens, dict) else tokens
    size = f", {say.count(int(tokens), 'token')}" if tokens else ""
    note = f"Text: {corpus.get('name', 'not named')}{size}. {words.INTERVALS_PERPLEXITY} {_seeds_note(table)}"
    answer = _answer(choice, table, "lowers", "raises", "perplexity")
    return Panel("perplexity_along_sparsity", question, answer, figure, _readable(table, True), note.strip())


def _along(run: Run, choice: Choice, metric: str, axis: str) -> pd.DataFrame:
    """Reported variants of this target axis (or of none) and the dense model, with their test result."""
    results = lookup.frame(run, "results")
    rows = results[(results["metric"] == metric) & (results["axis"] == axis) & (results["split"] == lookup.REPORTED)]
    variants = lookup.reported(run)
    variants = lookup.of_axis(run, variants, choice.axis)
    columns = ["variant", "method", "sparsity", "realised", "n_cut", "seed"]
    table = variants[columns].merge(rows.drop(columns=["split", "axis", "metric"]), on="variant")
    is_dense = table["method"] == "dense"
    return table[is_dense | (table["n_cut"] > 0)].sort_values(["method", "sparsity", "seed"], ignore_index=True)


def _pooled(table: pd.DataFrame) -> pd.DataFrame:
    """One point per method and sparsity: several selection seeds become their mean and the outermost interval ends."""
    how = dict.fromkeys(["realised", "n_cut", "value", "null_low", "null_high", "delta"], "mean")
    how |= {"variant": "first", "low": "min", "high": "max", "delta_low": "min", "delta_high": "max"}
    grouped = table.groupby(["method", "sparsity"])
    return grouped.agg(how).assign(selections=grouped.size()).reset_index()


def _seeds_note(table: pd.DataFrame) -> str:
    several = _pooled(table).query("selections > 1")
    if several.empty:
        return ""
    names = say.listing(words.method_name(name) for name in several["method"].unique())
    return (
        f"{names.capitalize()}: mean of {int(several['selections'].max())} selections, bars reach the outermost ends."
    )


def _figure(run: Run, choice: Choice, table: pd.DataFrame, y_title: str) -> go.Figure:
    points = _pooled(table)
    figure = blank(choice, 400, "share of heads cut", y_title)
    dense = points[points["method"] == "dense"]
    order = [
        name for name in lookup.methods(run, choice.axis) if name in set(points["method"]) and name != choice.method
    ]
    order += [choice.method] if choice.method in set(points["method"]) - {"dense"} else []
    if y_title != "perplexity":
        _null_band(figure, choice, points, dense)
    is_log = needs_log(points["high"].fillna(points["value"]).tolist() + points["value"].tolist())
    if not dense.empty:
        figure.add_hline(y=float(dense["value"].iat[0]), line={"color": choice.theme.ink, "width": 1, "dash": "dot"})
    step = 0.0035 * max(0.1, points["realised"].max()) / 0.2
    for index, method in enumerate(order):
        shift = step * (index - (len(order) - 1) / 2)
        figure.add_trace(_line(run, choice, points, dense, method, shift))
    _end_labels(figure, choice, points, order, dense, is_log)
    figure.update_xaxes(tickformat=".0%", nticks=5, tickangle=0)
    figure.update_yaxes(type="log" if is_log else "linear", nticks=6)
    figure.update_layout(showlegend=False)
    return figure


def _null_band(figure: go.Figure, choice: Choice, points: pd.DataFrame, dense: pd.DataFrame) -> None:
    """The chosen method's null band at each share; the dense model's where nothing is chosen."""
    mine = pd.concat([dense, points[points["method"] == choice.method]]).drop_duplicates("realised")
    mine = mine[mine["null_high"].notna()].sort_values("realised")
    if mine.empty:
        return
    x = mine["realised"].tolist() if len(mine) > 1 else [0.0, points["realised"].max()]
    low, high = (
        mine["null_low"].tolist() * (3 - min(len(mine), 2)),
        mine["null_high"].tolist() * (3 - min(len(mine), 2)),
    )
    figure.add_trace(go.Scatter(
        x=x + x[::-1], y=high + low[::-1], fill="toself", fillcolor=choice.theme.band, line={"width": 0},
        mode="lines", hoverinfo="skip", showlegend=False,
    ))  # fmt: skip
    figure.add_annotation(
        x=x[0], y=low[0], text="null band: no difference", showarrow=False, xanchor="left", yanchor="top",
        font={"size": 11, "color": choice.theme.soft}, xshift=4,
    )  # fmt: skip


def _line(run: Run, choice: Choice, points: pd.DataFrame, dense: pd.DataFrame, method: str, shift: float) -> go.Scatter:
    """One method from the dense model on; the chosen one heavier."""
    mine = points[points["method"] == method]
    start = dense.assign(low=math.nan, high=math.nan)
    joined = pd.concat([start, mine]).sort_values("realised")
    colour, chosen = method_colour(method, choice.dark), method == choice.method
    bars = {"type": "data", "symmetric": False, "array": joined["high"] - joined["value"], "width": 0,
            "arrayminus": joined["value"] - joined["low"],
            "color": colour, "thickness": 2 if chosen else 1}  # fmt: skip
    x = [share + (shift if share > 0 else 0) for share in joined["realised"]]
    return go.Scatter(
        x=x, y=joined["value"], error_y=bars, mode="lines+markers", name=words.method_name(method),
        line={"color": colour, "width": 3 if chosen else 1.5}, opacity=1 if chosen else 0.85,
        marker={"symbol": method_symbol(method), "size": 10 if chosen else 7, "color": colour},
        customdata=joined["variant"], text=[_hover(run, row) for row in joined.to_dict("records")],
        hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip


def _hover(run: Run, row: dict[str, Any]) -> str:
    is_ppl = not math.isfinite(row.get("null_high", math.nan))
    if row["method"] == "dense":
        return f"<b>{words.METHODS['dense'].name}</b><br>{say.number(row['value'], is_ppl)}"
    head = f"<b>{words.method_name(row['method'])}</b>, {say.percent(row['sparsity'])} asked, "
    head += f"{row['n_cut']:.0f} of {lookup.total_heads(run)} heads cut ({say.percent(row['realised'])})"
    value = say.with_interval(row["value"], row["low"], row["high"], is_ppl)
    return f"{head}<br>{value}<br>change {say.change(row, is_ppl)}"


def _end_labels(
    figure: go.Figure, choice: Choice, points: pd.DataFrame, order: list[str], dense: pd.DataFrame, is_log: bool
) -> None:
    """Method names at the right end of their lines, moved apart where they would overlap."""
    ends = [(name, points[points["method"] == name].iloc[-1]["value"]) for name in order]
    ends += [("dense", float(value)) for value in dense["value"]]
    heights = [math.log10(value) if is_log else value for _, value in ends]
    column = points[["low", "high", "value", "null_low"]].to_numpy(dtype=float)
    column = [math.log10(value) if is_log else value for value in column[(column > 0) & (column < math.inf)]]
    room = 1.1 * (max(column) - min(column)) or 1.0
    for (name, _), place in zip(ends, apart(heights, room * 17 / 330), strict=True):
        text = "dense" if name == "dense" else words.method_name(name)
        bold = f"<b>{text}</b>" if name == choice.method else text
        figure.add_annotation(
            x=1, xref="paper", xshift=8, y=place, text=bold, showarrow=False, xanchor="left", yanchor="middle",
            font={"size": 12, "color": method_colour(name, choice.dark)},
        )  # fmt: skip
    longest = max(len(words.method_name(name)) for name, _ in ends if name != "dense") if order else 5
    figure.update_layout(margin={"r": 20 + int(6.7 * longest)})


def _answer(choice: Choice, table: pd.DataFrame, fell: str, rose: str, what: str) -> str:
    """At the chosen sparsity: what the chosen method does, then the others, from the interval of each change."""
    points = _pooled(table[table["method"] != "dense"])
    if points.empty:
        return f"No variant's {what} was measured here."
    at = choice.sparsity if choice.sparsity > 0 else points["sparsity"].max()
    here = points[(points["sparsity"] - at).abs() < 1e-9]
    is_ppl = what == "perplexity"
    mine, parts = here[here["method"] == choice.method], []
    verbs = {"fell": fell, "rose": rose, "unclear": "does not clearly change", "unknown": "has no interval for"}
    for row in mine.to_dict("records"):
        name = words.method_name(row["method"])
        parts.append(f"At {say.percent(at)}, {name} {verbs[say.direction(row)]} {what} ({say.change(row, is_ppl)})")
    others = here[here["method"] != choice.method].to_dict("records")
    for kind, verb in (("fell", "lower"), ("rose", "raise"), ("unclear", "do not clearly change")):
        names = [words.method_name(row["method"]) for row in others if say.direction(row) == kind]
        if names:
            parts.append(f"{say.listing(names)} {verb if len(names) > 1 else verbs[kind]} it")
    return "; ".join(parts) + "." if parts else f"Nothing was measured at {say.percent(at)}."


def _readable(table: pd.DataFrame, is_ppl: bool = False) -> pd.DataFrame:
    names = {"method": "method", "sparsity": "share asked", "realised": "share cut", "n_cut": "heads cut",
             "seed": "selection seed", "value": "value", "low": "low", "high": "high", "delta": "change",
             "delta_low": "change low", "delta_high": "change high", "delta_p": "p of change", "n": "n"}  # fmt: skip
    if not is_ppl:
        names |= {"null_low": "null low", "null_high": "null high", "null_p": "p against null"}
    shown = table.assign(method=table["method"].map(words.method_name))
    return shown[list(names)].rename(columns=names)
