"""Which answers flipped with the cut, and which way: in a sentence, per group, in a chart."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.kinds import HOVER, add_points, bars_of, row_names
from engine.report.charts.lookup import View
from engine.report.charts.panel import Choice, Panel, blank, nothing, wrapped
from engine.report.schema import hovers, readable
from engine.report.tracks import Flips
from engine.stats.clustered import MISSED, Clustered, Student, benjamini_hochberg
from engine.stats.resampling import EXCHANGES, MANY_WORDS, churn, direction
from engine.store.runs import Run

LONGEST = 16
HOW = (
    f"Direction: both models exchanged within each item, {EXCHANGES} times; within whole words or "
    f"clusters where there are {MANY_WORDS} or more. q: Benjamini–Hochberg over subgroups. Bars: "
    "95 % intervals of the net share. Both are clustered by"
)
COLUMNS = "group n bad good other net net_low net_high p q churn"
LOOKS = {"bad": ("#D55E00", "#F0803C"), "good": ("#0072B2", "#56B4E9")}
"""Light and dark colour of each way."""


def flips_of(run: Run, choice: Choice, trial: int | None = None) -> Flips | None:
    """The answers before and after the cut; None where nothing is cut, or nobody measured it.
    trial: one model of several."""
    view = View(run, choice)
    if view.is_dense or view.is_predicted:
        return None
    found = view.track.flips(run, choice, trial)
    return None if found is None or found.table.empty else found


def flipped_said(run: Run, choice: Choice) -> str:
    """How many flipped, which way, and how many would without a cut; "" where
    nobody knows."""
    found = flips_of(run, choice)
    return "" if found is None else _said(found, _row(found, found.table))


def flips(run: Run, choice: Choice, trial: int | None = None) -> Panel:
    """Per subgroup, how many answers became bad and how many recovered. trial: as for
    `flips_of`."""
    found, key = flips_of(run, choice, trial), "flips"
    question = "Which answers flipped with the cut, and which way?"
    if found is None:
        return nothing(key, question, "Nothing is cut here, or no answers to it were kept.")
    table = by_group(found)
    shown = readable(table, COLUMNS, **_named(found))
    start = phrasing.sentence(lookup.measured_on(run, None))
    note = f"{start}. {HOW} {found.by}. {found.note}"
    answer, figure = _said(found, _row(found, found.table)), _figure(choice, found, table)
    mind, more = _groups(found, table), _certain(found)
    return Panel(key, question, answer, figure, shown, note, mind=mind, more=more)


def _named(found: Flips) -> dict[str, str]:
    return {
        "n": found.items,
        "bad": found.bad,
        "good": found.good,
        "other": "otherwise",
        "churn": f"flip if {found.again}" if found.again else "churn",
    }


def by_group(found: Flips) -> pd.DataFrame:
    """A row per subgroup: n, bad, good, other, net share with interval, p, q and churn, those that
    lost most first."""
    table = found.table[found.table["group"] != ""]
    parts = list(table.groupby("group"))
    rows = pd.DataFrame([{"group": group, **_row(found, part)} for group, part in parts])
    if rows.empty:
        return rows
    code = table["group"].map({group: at for at, (group, _) in enumerate(parts)}).to_numpy()
    moved = _moved(table)
    nested, *crossed = _clusters(table.assign(word=table["group"] + "\x1f" + table["word"]))
    means = Clustered(code, np.ones(len(code)), nested, next(iter(crossed), None))
    each = np.eye(len(rows))[:, None]
    variance, freedom = means.covariance(moved[:, None]).of(each)
    net = Student(rows["net"].to_numpy(), np.where(freedom > 0, np.sqrt(variance), np.nan), freedom)
    rows = rows.assign(net_low=net.low, net_high=net.high, q=benjamini_hochberg(rows["p"]))
    return rows.sort_values(["net", "group"], ascending=[False, True], ignore_index=True)


def _row(found: Flips, table: pd.DataFrame) -> Values:
    """Of some of the answers."""
    moved, unit = _moved(table), _codes(table["unit"])
    ways = [direction(moved, unit, together) for together in _clusters(table)]
    return {
        "n": len(table),
        "bad": int((moved > 0).sum()),
        "good": int((moved < 0).sum()),
        **({"other": int(table["other"].sum())} if "other" in table else {}),
        "net": float(moved.mean()),
        "p": max(ways),  # clear only where neither words nor templates alone could give it
        "churn": churn(table["before"].to_numpy(), unit) if found.again else np.nan,
    }


def _moved(table: pd.DataFrame) -> np.ndarray:
    return table["after"].to_numpy(dtype=float) - table["before"].to_numpy(dtype=float)


def _clusters(table: pd.DataFrame) -> list[np.ndarray]:
    """What moves together: by words, and by templates where there are several, [answers] each."""
    several = "template" in table and table["template"].nunique() > 1
    return [_codes(table[name]) for name in ("word", "template")[: 1 + several]]


def _codes(names: pd.Series) -> np.ndarray:
    return np.unique(names.to_numpy(dtype=str), return_inverse=True)[1]


def _said(found: Flips, row: Values) -> str:
    of = f"of {row['n']:,} {found.items}"
    if not row["bad"] + row["good"]:
        said = f"None {of} {found.bad} or {found.good}"
    else:
        way = f"clearly more {found.bad if row['net'] > 0 else found.good}"
        clear = way if row["p"] < MISSED else "no clear direction"
        good = found.good.removeprefix("became ")
        said = f"O{of[1:]}, {row['bad']:,} {found.bad} and {row['good']:,} {good}: {clear}"
    if np.isfinite(row["churn"]):
        said += f"; the uncut model, {found.again}, would flip {round(row['churn'] * row['n']):,}"
    return f"{said}."


def _groups(found: Flips, table: pd.DataFrame) -> str:
    """For which subgroups the direction is clear."""
    if len(table) < 2:
        return ""
    clear = phrasing.listing(
        f"{words.quoted(row['group'])} ({row['bad']} {found.bad}, {row['good']} {found.good})"
        for row in table[table["q"] < MISSED].to_dict("records")
    )
    return f"The direction is clear for {clear or 'no single subgroup'}."


def _certain(found: Flips) -> str:
    """Whether those flip of which the uncut model was less sure."""
    if "sure" not in found.table:
        return ""
    sure = found.table["sure"].rank(method="first") > len(found.table) / 2
    shares = [
        phrasing.percent(round(float((_moved(part) != 0).mean()), 3))
        for part in (found.table[sure], found.table[~sure])
    ]
    return (
        f"Of the half that was surest before the cut, {shares[0]} flipped;"
        f" of the other half, {shares[1]}."
    )


def _figure(choice: Choice, found: Flips, table: pd.DataFrame) -> go.Figure | None:
    """Bars to the right for what became bad, to the left for what recovered. The net share has its
    interval; grey is what another draw of the uncut model flips each way."""
    if table.empty:
        return None
    drawn = table.head(LONGEST).iloc[::-1].reset_index(drop=True)
    names = [wrapped(words.group_name(group)) for group in drawn["group"]]
    lines = max(name.count("<br>") for name in names)
    title = f"share of the subgroup's {found.items}"
    figure = blank(choice, 110 + (42 + 16 * lines) * len(drawn), title)
    look, bar = choice.theme, {"y": drawn.index, "orientation": "h", "hovertemplate": HOVER}
    bar |= {"text": hovers(drawn, COLUMNS, **_named(found)), "textposition": "none"}
    if found.again:
        half, name = drawn["churn"] / 2, f"the uncut model {found.again}"
        colour = {"color": look.band}
        figure.add_bar(x=2 * half, base=-half, width=0.84, name=name, marker=colour, **bar)
    for side, sign, name in (("good", -1, found.good), ("bad", 1, found.bad)):
        colour = {"color": LOOKS[side][choice.dark]}
        x = sign * drawn[side] / drawn["n"]
        figure.add_bar(x=x, width=0.5, name=name, marker=colour, **bar)
    error = {**bars_of(drawn, "net", look.ink, 1.4), "width": 3}
    marker = {"size": 8, "symbol": "diamond", "color": look.ink}
    add_points(figure, drawn["net"], drawn.index, bar["text"], marker, name="net", error_x=error)
    small = f"<span style='font-size:11px;color:{look.soft}'>"
    labels = [f"{name}<br>{small}n = {n}</span>" for name, n in zip(names, drawn["n"], strict=True)]
    row_names(figure, labels, upwards=True)
    figure.update_xaxes(tickformat=".0%", showgrid=True, zeroline=True, nticks=6)
    figure.update_layout(barmode="overlay")
    return figure
