"""Who pays: every subgroup before and after the cut, and whether a smaller gap means better or only equally bad."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine import words
from engine.export import say
from engine.export.palette import method_colour
from engine.export.panels import lookup
from engine.export.panels.base import Choice, Panel, blank, nothing, plain, wrapped
from engine.store.runs import Run

LONGEST = 24
"""Subgroups drawn at most; the table always has all of them."""


_LEVELLED = "Levelling down: the gap shrank only because the best-off subgroup got worse"


def who_pays(run: Run, choice: Choice) -> Panel:
    """Toxicity per subgroup, dense against pruned."""
    question = "Who pays? How toxic are the texts about each subgroup, before and after the cut?"
    table = _pairs(run, choice, "toxicity")
    if table.empty:
        return nothing("who_pays", question, "This run has no toxicity per subgroup for this choice.")
    figure = _dumbbell(run, choice, table, "mean toxicity (0 to 1)")
    caveat = lookup.caveat(run, None, more=f"n = test prompts. {words.JUDGE}{_left_out(table)}")
    return Panel("who_pays", question, _answer(run, choice, table, "toxic"), figure, readable(table), caveat)


def perplexity_by_group(run: Run, choice: Choice) -> Panel:
    """Perplexity on the texts about each subgroup, dense against pruned: being fair helps nobody if text breaks."""
    question = "Does the model still predict text about every subgroup equally well?"
    table = _pairs(run, choice, "perplexity")
    if table.empty:
        return nothing("perplexity_by_group", question, "This run has no perplexity per subgroup for this choice.")
    figure = _dumbbell(run, choice, table, "perplexity (lower is better)")
    caveat = f"n = prompts. {words.INTERVALS}{_left_out(table)}"
    answer = _answer(run, choice, table, "surprised")
    return Panel("perplexity_by_group", question, answer, figure, readable(table, True), caveat)


def levelling_down(run: Run, choice: Choice) -> Panel:
    """Change of the dense model's worst and best subgroup, and of the gap between worst and best."""
    question = "If the gap shrank: did the worst-off subgroup gain, or did the best-off lose?"
    variant = lookup.variant_of(run, choice)
    if variant["variant"] == "dense":
        return nothing("levelling_down", question, "Nothing is cut here, so nothing changed.")
    rows = _extremes(run, choice, variant["variant"])
    if not rows:
        return nothing("levelling_down", question, "This run has no worst and best subgroup for this choice.")
    figure = _changes(choice, variant, rows)
    table = pd.DataFrame(
        {"what": row["what"], "before": row["value"] - row["delta"], "after": row["value"], "change": row["delta"],
         "change low": row["delta_low"], "change high": row["delta_high"], "n": row["n"]} for row in rows
    )  # fmt: skip
    more = "Worst-off and best-off are chosen on the dense model, so part of a change towards the middle is chance."
    prompts = lookup.result(run, variant["variant"], "gap", choice.measured)  # n of the ends counts texts
    note = lookup.caveat(run, prompts, more=more)
    return Panel("levelling_down", question, levelling_verdict(run, choice), figure, table, note)


def levelling_verdict(run: Run, choice: Choice) -> str:
    """One sentence: levelling down, improvement of the worst-off, both, or neither."""
    variant = lookup.variant_of(run, choice)
    rows = {row["metric"]: row for row in _extremes(run, choice, variant["variant"])}
    if not {"worst_group", "best_group", "gap"} <= set(rows):
        return "Worst-off and best-off subgroup were not both measured."
    worst, best, gap = (rows[name] for name in ("worst_group", "best_group", "gap"))
    gains, loses = say.direction(worst) == "fell", say.direction(best) == "rose"
    hurt = say.direction(worst) == "rose"
    facts = (
        f"the worst-off subgroup ({words.quoted(worst['group'])}) changed by {say.change(worst)}; "
        f"the best-off ({words.quoted(best['group'])}) by {say.change(best)}"
    )
    kind = say.direction(gap)
    if hurt and loses:
        return f"Both ends got worse: {facts}."
    if kind == "fell" and loses:
        start = "Partly levelling down: the gap shrank from both ends" if gains else _LEVELLED
    elif kind == "fell":
        gained = "because the worst-off subgroup gained; the best-off did not clearly lose"
        start = f"The gap shrank {gained}" if gains else "The gap shrank, but neither end clearly changed"
    elif kind == "rose":
        start = "The gap grew"
    else:
        start = "The worst-off subgroup got worse" if hurt else "The gap did not clearly change"
    return f"{start}: {facts}."


def _pairs(run: Run, choice: Choice, metric: str) -> pd.DataFrame:
    """One row per subgroup: dense value and interval, variant value, interval and change, n, verdict; worst first."""
    groups, variant = lookup.frame(run, "groups"), lookup.variant_of(run, choice)["variant"]
    here = groups[(groups["metric"] == metric) & (groups["axis"] == choice.measured)]
    here = here[here["split"] == lookup.REPORTED]
    dense = here[here["variant"] == "dense"][["group", "value", "low", "high", "n", "verdict"]]
    after = here[here["variant"] == variant][["group", "value", "low", "high", "delta", "delta_low", "delta_high"]]
    table = dense.merge(after, on="group", suffixes=("_dense", ""))
    return table.sort_values("value_dense", ascending=False, ignore_index=True)


def readable(table: pd.DataFrame, is_ppl: bool = False) -> pd.DataFrame:
    """The table behind the chart with column names for people."""
    names = {"group": "subgroup", "n": "prompts", "value_dense": "before", "low_dense": "before low",
             "high_dense": "before high", "value": "after", "low": "after low", "high": "after high",
             "delta": "change", "delta_low": "change low", "delta_high": "change high", "verdict": "note"}  # fmt: skip
    shown = table.assign(group=table["group"].map(words.group_name))
    return shown[list(names)].rename(columns=names)


def _answer(run: Run, choice: Choice, table: pd.DataFrame, adjective: str) -> str:
    variant, is_ppl = lookup.variant_of(run, choice), adjective == "surprised"
    enough = table[table["verdict"] == ""]
    few = table.loc[table["verdict"] != "", "group"].map(words.quoted).tolist()
    tail = f" {say.listing(few)}: too few prompts for a verdict." if few else ""
    if enough.empty:
        return f"No subgroup has enough prompts for a verdict.{tail}"
    top, low = enough.iloc[0], enough.iloc[-1]
    if variant["variant"] == "dense":
        what = "most surprised by texts" if is_ppl else "most toxic"
        return (
            f"Uncut, the model is {what} about {words.quoted(top['group'])} "
            f"({say.number(top['value_dense'], is_ppl)}) and least about {words.quoted(low['group'])} "
            f"({say.number(low['value_dense'], is_ppl)}).{tail}"
        )
    kinds = {row["group"]: say.direction(row) for row in enough.to_dict("records")}
    return f"{_moves(enough, kinds, adjective, is_ppl)}{tail}"


def _moves(table: pd.DataFrame, kinds: dict[str, str], adjective: str, is_ppl: bool) -> str:
    """Which subgroups got less, more, or neither; the largest move each way with its interval."""
    parts = []
    for kind, word, pick in (("fell", "less", "idxmin"), ("rose", "more", "idxmax")):
        moved = table[table["group"].map(kinds) == kind]
        if moved.empty:
            continue
        most = table.loc[getattr(moved["delta"], pick)()]
        names = say.listing(words.quoted(group) for group in moved["group"])
        verb = "is" if len(moved) == 1 else "are"
        after = f"Text about {names} {verb} {word} {adjective}" if not is_ppl else f"Text about {names} {word}"
        sentence = after if not is_ppl else f"The model is {word} surprised by text about {names}"
        largest = "" if len(moved) == 1 else f"most for {words.quoted(most['group'])}, "
        parts.append(f"{sentence} ({largest}{say.change(most, is_ppl)}).")
    still = [words.quoted(group) for group, kind in kinds.items() if kind in ("unclear", "unknown")]
    if still:
        parts.append(f"No clear change for {say.listing(still)}.")
    return " ".join(parts)


def _dumbbell(run: Run, choice: Choice, table: pd.DataFrame, x_title: str) -> go.Figure:
    """Two points with intervals per subgroup, the uncut model above the cut one, worst-off subgroup on top."""
    variant = lookup.variant_of(run, choice)
    drawn = table.head(LONGEST).iloc[::-1].reset_index(drop=True)
    figure = blank(choice, 96 + 46 * len(drawn), x_title)
    is_cut = variant["variant"] != "dense"
    if is_cut:
        figure.add_trace(_links(choice, drawn))
    figure.add_trace(_points(choice, drawn, "_dense", "dense", words.METHODS["dense"].name, 0.14 if is_cut else 0))
    if is_cut:
        figure.add_trace(_points(choice, drawn, "", variant["method"], lookup.variant_label(variant), -0.14))
    labels = [
        f"{wrapped(words.group_name(row['group']))}<br><span style='font-size:11px;color:{choice.theme.soft}'>"
        f"n = {row['n']:.0f}{'; too few' if row['verdict'] else ''}</span>"
        for row in drawn.to_dict("records")
    ]
    figure.update_yaxes(tickvals=list(range(len(drawn))), ticktext=labels, range=[-0.6, len(drawn) - 0.4])
    figure.update_yaxes(showgrid=False)
    figure.update_xaxes(showgrid=True, nticks=6)
    return figure


def _links(choice: Choice, table: pd.DataFrame) -> go.Scatter:
    """A thin line from each dense point to its pruned point."""
    x, y = [], []
    for index, row in table.iterrows():
        x += [row["value_dense"], row["value"], None]
        y += [index + 0.14, index - 0.14, None]
    line = {"color": choice.theme.soft, "width": 1}
    return go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False)


def _points(choice: Choice, table: pd.DataFrame, suffix: str, method: str, name: str, shift: float) -> go.Scatter:
    colour = method_colour(method, choice.dark)
    value, low, high = (table[f"{column}{suffix}"] for column in ("value", "low", "high"))
    is_ppl = bool(value.max() > 1)
    hover = [_hover(row, suffix, name, is_ppl) for row in table.to_dict("records")]
    faded = [0.4 if verdict else 1.0 for verdict in table["verdict"]]
    marker = {"size": 11, "color": colour, "opacity": faded, "line": {"width": 2, "color": colour}}
    marker["symbol"] = "circle-open" if suffix else "circle"
    bars = {"type": "data", "symmetric": False, "array": high - value, "arrayminus": value - low, "thickness": 1.6}
    return go.Scatter(
        x=value, y=table.index + shift, mode="markers", marker=marker, name=name, text=hover,
        error_x={**bars, "color": colour, "width": 0}, hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip


def _hover(row: dict[str, Any], suffix: str, name: str, is_ppl: bool) -> str:
    value = say.with_interval(row[f"value{suffix}"], row[f"low{suffix}"], row[f"high{suffix}"], is_ppl)
    text = f"<b>{plain(words.group_name(row['group']))}</b>, {row['n']:.0f} prompts<br>{name}: {value}"
    if not suffix and math.isfinite(row["delta"]):
        text += f"<br>change {say.change(row, is_ppl)}"
    return text + (f"<br>{row['verdict']}: no verdict" if row["verdict"] else "")


def _left_out(table: pd.DataFrame) -> str:
    hidden = len(table) - LONGEST
    return f" The chart shows the {LONGEST} highest; {hidden} more are in the table." if hidden > 0 else ""


def _extremes(run: Run, choice: Choice, variant: str) -> list[dict[str, Any]]:
    """Result rows for worst-off, best-off and gap, with `what` and the name of the `group`."""
    rows = []
    for metric in ("worst_group", "best_group", "gap"):
        row = lookup.result(run, variant, metric, choice.measured)
        if row is None or not math.isfinite(row["value"]):
            continue
        group = _named(run, choice, metric)
        what = words.metric_name(metric) + (f": {group}" if group else " between worst and best")
        rows.append({**row, "group": group, "what": what})
    return rows


def _named(run: Run, choice: Choice, metric: str) -> str:
    """Which subgroup the dense model's worst or best is: the one whose value is the reported one."""
    row = lookup.result(run, "dense", metric, choice.measured)
    groups = lookup.frame(run, "groups")
    here = groups[(groups["variant"] == "dense") & (groups["metric"] == "toxicity")]
    here = here[(here["axis"] == choice.measured) & (here["split"] == lookup.REPORTED)]
    if metric == "gap" or row is None or here.empty:
        return ""
    nearest = (here["value"] - row["value"]).abs()
    return words.group_name(here.loc[nearest.idxmin(), "group"]) if nearest.min() < 1e-6 else ""


def _changes(choice: Choice, variant: dict[str, Any], rows: list[dict[str, Any]]) -> go.Figure:
    colour = method_colour(variant["method"], choice.dark)
    figure = blank(choice, 220, "change of toxicity")
    order = rows[::-1]
    delta = [row["delta"] for row in order]
    bars = {"type": "data", "symmetric": False, "color": colour, "thickness": 2, "width": 0,
            "array": [row["delta_high"] - row["delta"] for row in order],
            "arrayminus": [row["delta"] - row["delta_low"] for row in order]}  # fmt: skip
    figure.add_vline(x=0, line={"color": choice.theme.soft, "width": 1})
    figure.add_trace(go.Scatter(
        x=delta, y=list(range(len(order))), mode="markers+text", error_x=bars, showlegend=False,
        marker={"size": 12, "color": colour}, text=[say.signed(value) for value in delta], textposition="top center",
        customdata=[f"<b>{plain(row['what'])}</b><br>change {say.change(row)}" for row in order], cliponaxis=False,
        hovertemplate="%{customdata}<extra></extra>",
    ))  # fmt: skip
    labels = [wrapped(row["what"], 18) for row in order]
    figure.update_yaxes(tickvals=list(range(len(order))), ticktext=labels, range=[-0.5, len(order) - 0.3])
    figure.update_yaxes(showgrid=False)
    figure.update_xaxes(showgrid=True, nticks=6)
    return figure
