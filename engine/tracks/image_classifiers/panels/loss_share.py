"""Which images the loss is about: its share per subgroup and class in every batch, with and without
PW (Fig. 4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import trials_said
from engine.report.charts.kinds import dots, lines, looks_of
from engine.report.charts.panel import Choice, Panel, nothing, plain, wrapped
from engine.report.schema import hovers, readable
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.store.tables import where
from engine.tracks.image_classifiers.panels.lookup import PLAIN, PW, arm_of
from engine.tracks.image_classifiers.words import units_of

QUESTION = "Which subgroups does the PW loss give more weight in pruning?"
SMOOTH = 10
"""Steps of the running mean of the lines; the numbers in the answer are plain means."""
LONGEST = 6
KEYS = ["group", "label"]
COLUMNS = f"base group label {PLAIN} {PW} change least most"
HEADS = {
    "label": "class",
    PLAIN: "share, plain loss",
    PW: "share, PW loss",
    "least": "change least",
    "most": "change most",
}


def has_loss_share(run: Run, choice: Choice) -> bool:
    """Whether shares of the loss were noted on the axis the reader chose."""
    return not shares(run, choice).empty


def loss_share(run: Run, choice: Choice) -> Panel:
    """Change of the share since the plain loss, step by step, one column per method."""
    table = shares(run, choice)
    if table.empty:
        return nothing(
            "loss_share",
            QUESTION,
            "This run has no shares of the loss with and without PW on this axis.",
        )
    summary = _summary(table)
    cells = (
        summary.groupby(KEYS)["change"]
        .apply(lambda values: values.abs().max())
        .nlargest(LONGEST)
        .index.tolist()
    )
    columns = track_of(run).order(set(table["base"]))
    reach = _reach(table, cells)
    parts = tuple(
        _column(run, choice, table[table["base"] == base], base, cells, reach) for base in columns
    )
    steps = int(table["step"].max()) + 1
    note = (
        f"The first {steps} batches while {units_of(run)} are chosen: mean of {trials_said(run)}, "
        f"running mean of {SMOOTH} batches. Both losses saw the same batches. Ranges in the table "
        "are over trials."
    )
    return Panel(
        "loss_share",
        QUESTION,
        _answer(run, summary),
        None,
        readable(summary.assign(label=_classes(run, summary)), COLUMNS, **HEADS),
        note,
        parts,
    )


def shares(run: Run, choice: Choice) -> pd.DataFrame:
    """Columns base, trial, step, group, label, plain, pw, change: of methods that were run both
    ways."""
    if not run.has("loss_share"):
        return pd.DataFrame()
    table = lookup.frame(run, "loss_share")
    if "axis" in table:
        table = table[table["axis"] == choice.measured]
    table = table.assign(base=[arm_of(method)[0] for method in table["method"]])
    index = ["base", "trial", "step", *KEYS]
    wide = table[table["loss"].isin([PLAIN, PW])].pivot_table(
        index=index, columns="loss", values="share"
    )
    if not {PLAIN, PW} <= set(wide.columns):
        return pd.DataFrame()
    wide = wide.dropna().reset_index()
    return wide.assign(change=wide[PW] - wide[PLAIN])


def _summary(table: pd.DataFrame) -> pd.DataFrame:
    """Mean share per method, subgroup and class, and the change's range over trials."""
    by_trial = table.groupby(["base", "trial", *KEYS])[[PLAIN, PW, "change"]].mean().reset_index()
    grouped = by_trial.groupby(["base", *KEYS])
    found = grouped[[PLAIN, PW, "change"]].mean()
    found["least"], found["most"] = grouped["change"].min(), grouped["change"].max()
    return found.reset_index()


def _cell_name(run: Run, group: str, label: int) -> str:
    return f"{words.group_name(group)}, {run.meta['data']['classes'][int(label)]}"


def _classes(run: Run, summary: pd.DataFrame) -> pd.Series:
    return summary["label"].map(lambda label: run.meta["data"]["classes"][int(label)])


def _smooth(table: pd.DataFrame, cell: tuple[str, int]) -> pd.DataFrame:
    """Columns step and change: mean over trials, running mean over steps."""
    mine = where(table, group=cell[0], label=cell[1])
    mean = mine.groupby("step")["change"].mean()
    return mean.rolling(SMOOTH, min_periods=1, center=True).mean().reset_index()


def _reach(table: pd.DataFrame, cells: Sequence[tuple[str, int]]) -> float:
    """How far the lines of any method go from zero."""
    far = [
        _smooth(mine, cell)["change"].abs().max()
        for _, mine in table.groupby("base")
        for cell in cells
    ]
    return 1.1 * float(np.nanmax([0.01, *far]))


def _column(
    run: Run,
    choice: Choice,
    table: pd.DataFrame,
    base: str,
    cells: Sequence[tuple[str, int]],
    reach: float,
) -> go.Figure:
    """One method: a line per subgroup and class."""
    found = {plain(_cell_name(run, *cell)): _smooth(table, cell) for cell in cells}
    drawn = pd.concat([rows.assign(cell=name) for name, rows in found.items()], ignore_index=True)
    figure = lines(
        choice,
        drawn.assign(hover=hovers(drawn, "cell step change", cell=str, step="batch")),
        "step",
        "change",
        looks_of(choice, list(found)),
        ("batch", "change of its share of the loss"),
        by="cell",
        named=str,
        title=plain(words.method_name(base)),
        level=(0, ""),
        ticks="",
        mode="lines",
    )
    figure.update_yaxes(tickformat="+.0%", nticks=6, range=[-reach, reach])
    return figure


def _answer(run: Run, summary: pd.DataFrame) -> str:
    """Per method: whose share grows most, whose shrinks most."""
    parts = []
    for base in track_of(run).order(set(summary["base"])):
        mine = summary[summary["base"] == base]
        up, down = mine.loc[mine["change"].idxmax()], mine.loc[mine["change"].idxmin()]
        text = f"With PW, {words.method_name(base)}'s loss is more about {_said(run, up)}"
        parts.append(
            f"{text} and less about {_said(run, down)}." if down["change"] < 0 else f"{text}."
        )
    return " ".join(parts)


def _said(run: Run, row: pd.Series) -> str:
    name = words.quoted(_cell_name(run, row["group"], row["label"]))
    spread = (
        f", {_points(row['least'])} to {_points(row['most'])} over trials"
        if row["least"] < row["most"]
        else ""
    )
    return (
        f"{name} ({phrasing.percent(row[PLAIN])} of it before, {_points(row['change'])}"
        f" points{spread})"
    )


def _points(change: float) -> str:
    return ("+" if change > 0 else "") + f"{100 * change:.1f}".replace("-", phrasing.MINUS)


# Fig. 7: the mean AUC of the classes that the images were changed about, every arm, against the
# dense model.


AFFECTED_QUESTION = "Do the classes whose images were changed pay for the cut?"
AFFECTED_COLUMNS = "method speedup classes value low high delta delta_low delta_high n_trials"


def has_affected(run: Run) -> bool:
    return run.has("affected")


def affected(run: Run, choice: Choice) -> Panel:
    """A row per arm and speedup: the change of the affected classes' mean AUC, each class against
    the rest."""
    if not has_affected(run):
        return nothing("affected", AFFECTED_QUESTION, "This run changed no classes.")
    table = lookup.frame(run, "affected").merge(
        lookup.frame(run, "variants")[["variant", "method", "speedup"]]
    )
    dense, rows = table[table["variant"] == "dense"].iloc[0], table[table["variant"] != "dense"]
    classes = str(dense["classes"])
    clear = rows[rows["delta_high"] < 0]
    start = phrasing.with_interval(dense["value"], dense["low"], dense["high"], few="images")
    told = (
        f"{len(clear)} of {len(rows)} variants clearly lose"
        if len(clear)
        else "no variant clearly loses"
    )
    answer = (
        f"The mean AUC of {classes}, each against the rest, is {start} uncut; {told} some of it."
    )
    note = (
        "Mean over the classes named, one against the rest, as in the paper's Fig. 7; change"
        f" against the dense model on the same {track_of(run).items}; intervals are 95 %, over"
        " images and trials."
    )
    figure, shown = (
        _figure(run, choice, rows),
        readable(table, AFFECTED_COLUMNS, value="mean AUC"),
    )
    return Panel("affected", AFFECTED_QUESTION, answer, figure, shown, note)


def _figure(run: Run, choice: Choice, rows: pd.DataFrame) -> go.Figure:
    """A point with its interval per variant."""
    names = {name: wrapped(name, 24) for name in rows["variant"]}
    looks = {name: track_of(run).style(name, choice.dark) for name in rows["method"].unique()}
    drawn, title = rows.assign(hover=hovers(rows, "variant delta")), "change of the mean AUC"
    return dots(choice, drawn, "delta", names, looks, title, row="variant", apart=0)
