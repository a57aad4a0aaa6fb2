"""Reading the tables of an image run: arms, their trials, and the groups that may be compared."""

from __future__ import annotations

import pandas as pd

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import DENSE
from engine.report.charts.panel import Choice
from engine.report.palette import Look, Style, pair_style
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.store.tables import where
from engine.tracks.image_classifiers import words as own

PLAIN, PW = "plain", "pw"


def arm_of(method: str) -> tuple[str, str]:
    """(base method, loss) of an arm's name: "autobot+pw" is ("autobot", "pw")."""
    base, _, loss = method.partition("+")
    return base, loss or PLAIN


def pooled(run: Run) -> pd.DataFrame:
    """Variants that stand for all trials of an arm at a speedup, without the dense model."""
    table = lookup.reported(run)
    return table[table["method"] != DENSE]


def bases(run: Run) -> list[str]:
    """Methods of the run without their losses, in the order of the track."""
    found = list(dict.fromkeys(pooled(run)["base"]))
    return [name for name in track_of(run).order(found) if name in found]


def arm_groups(run: Run, choice: Choice, losses: tuple[str, ...] = (PLAIN, PW)) -> pd.DataFrame:
    """The choice's measure per subgroup of every arm with one of these losses, at every speedup.

    Columns: base, loss, speedup, achieved, degenerate, group, value, low, high, n, delta,
    delta_low, delta_high, verdict; only subgroups that may be compared.
    """
    metric = lookup.reading(run, choice).group.metric
    rows = lookup.frame(run, "groups")
    rows = where(rows, metric=metric, axis=choice.measured, split=lookup.REPORTED)
    rows = rows[rows["verdict"] == ""].drop(columns=["split", "axis", "metric"])
    arms = pooled(run)
    arms = arms[arms["loss"].isin(losses)]
    columns = ["variant", "base", "loss", "speedup", "achieved", "degenerate"]
    return (
        arms[columns]
        .merge(rows, on="variant")
        .sort_values(["base", "loss", "speedup"], ignore_index=True)
    )


def missed(run: Run, variant: str) -> str:
    """What every trial of a pooled variant reached, where some miss the target; else ""."""
    trials = where(run.table("variants"), pooled=variant)
    wrong = int((~trials["met"].astype(bool)).sum())
    if not wrong:
        return ""
    got = phrasing.listing(f"{one:.4g}×" for one in trials["achieved"])
    miss = "misses" if wrong == 1 else "miss"
    aim = phrasing.factor(trials["speedup"].iloc[0])
    return f"{wrong} of {len(trials)} trials {miss} {aim} by more than 0.1 %: {got}"


def arm_name(base: str, loss: str) -> str:
    """An arm in words."""
    return words.method_name(base if loss == PLAIN else f"{base}+{loss}")


def loss_said(loss: str) -> str:
    """A loss inside a sentence."""
    return "the PW loss" if loss == PW else own.loss_name(loss)


# How each method looks with each loss, in every chart.


LOOKS: dict[str, Look] = {
    "autobot": ("#0072B2", "#56B4E9", "square", "solid"),
    "taylor": ("#882255", "#D46A98", "triangle-up", "solid"),
    "fpgm": ("#CC79A7", "#E59BC3", "pentagon", "solid"),
    "magnitude": ("#009E73", "#2CC79B", "diamond", "solid"),
    "by hand": ("#6A3D9A", "#B794F4", "hexagon", "dot"),
    "random": ("#7a7a7a", "#b0b0b0", "x", "solid"),
}
BY_LOSS = {"": ("-open", "dot"), "pw": ("", "solid")}
"""What ends the symbol of a method, and its dash, by the loss: filled and solid with the whole PW
loss."""


def arm_style(arm: str, dark: bool = False) -> Style:
    """A method with a loss, "taylor+pw": the method's colour and symbol; filling and dash tell the
    loss."""
    return pair_style(arm, "+", LOOKS, BY_LOSS, dark)
