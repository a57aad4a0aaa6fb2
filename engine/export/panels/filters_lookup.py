"""Reading the tables of an image run: arms, their trials, and the groups that may be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from engine import words
from engine.export import say
from engine.export.panels import lookup
from engine.export.panels.base import Choice
from engine.export.tracks import track_of
from engine.export.tracks.base import Measure
from engine.store.runs import Run

PLAIN, PW = "plain", "pw"
DENSE = "dense"
CLASS_AXIS = "class"
"""The axis whose subgroups are the classes."""


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


def trials_of(run: Run, choice: Choice) -> pd.DataFrame:
    """Variants that are the trials behind a choice, by their number; empty for the dense model."""
    variant = lookup.variant_of(run, choice)
    table = lookup.frame(run, "variants")
    return table[(table["pooled"] == variant["variant"]) & (table["seed"] >= 0)].sort_values("seed")


def speedup_of(run: Run, choice: Choice) -> float:
    """The chosen speedup; where nothing is cut, the one at which a reader starts."""
    level = track_of(run).level
    if choice.level > level.none:
        return choice.level
    return level.first([float(value) for value in sorted(pooled(run)["speedup"].unique())])


def arm_groups(run: Run, choice: Choice, losses: tuple[str, ...] = (PLAIN, PW)) -> pd.DataFrame:
    """The choice's measure per subgroup of every arm with one of these losses, at every speedup.

    Columns: base, loss, speedup, achieved, degenerate, group, value, low, high, n, delta, delta_low, delta_high,
    verdict; only subgroups that may be compared.
    """
    metric = lookup.reading(run, choice).group.metric
    rows = lookup.frame(run, "groups")
    rows = rows[(rows["metric"] == metric) & (rows["axis"] == choice.measured) & (rows["split"] == lookup.REPORTED)]
    rows = rows[rows["verdict"] == ""].drop(columns=["split", "axis", "metric"])
    arms = pooled(run)
    arms = arms[arms["loss"].isin(losses)]
    columns = ["variant", "base", "loss", "speedup", "achieved", "degenerate"]
    return arms[columns].merge(rows, on="variant").sort_values(["base", "loss", "speedup"], ignore_index=True)


def groups_in_order(run: Run, choice: Choice) -> list[str]:
    """Subgroups that may be compared, the one that starts worst off first."""
    reading = lookup.reading(run, choice)
    rows = lookup.groups_of(run, DENSE, reading.group.metric, choice.measured)
    rows = rows[(rows["verdict"] == "") & rows["value"].notna()]
    return rows.sort_values("value", ascending=reading.group.sign < 0)["group"].tolist()


@dataclass(frozen=True)
class Paid:
    """Which subgroup paid most. `most`: its row; `clear`: its interval leaves out zero; `unclear`: the row of one whose
    change is lower still but may be chance."""

    most: dict[str, Any]
    clear: bool
    unclear: dict[str, Any] | None = None

    def doubt(self, measure: Measure) -> str:
        """What must be added where another subgroup may have paid more."""
        if self.unclear is None:
            return ""
        return f"{words.quoted(self.unclear['group'])} may have lost more: {measure.brief(self.unclear)}"


def paid_most(table: pd.DataFrame) -> Paid | None:
    """Of subgroups that clearly lost the one that lost most; else the lowest change. None where nothing is known.

    Higher is better in every measure of a subgroup here.
    """
    rows = table[table["delta"].notna()].sort_values("delta", kind="stable").to_dict("records")
    if not rows:
        return None
    clear = [row for row in rows if say.direction(row) == "fell"]
    if not clear:
        return Paid(rows[0], False)
    return Paid(clear[0], True, rows[0] if rows[0]["group"] != clear[0]["group"] else None)


def arm_name(base: str, loss: str) -> str:
    """An arm in words."""
    return words.method_name(base if loss == PLAIN else f"{base}+{loss}")


def loss_said(loss: str) -> str:
    """A loss inside a sentence."""
    return "the PW loss" if loss == PW else words.loss_name(loss)


def axis_note(run: Run, choice: Choice) -> str:
    """What must be known about an axis before its numbers are compared."""
    two = len(run.meta["data"]["classes"]) == 2
    if choice.measured == CLASS_AXIS and two and lookup.reading(run, choice).name == "auc":
        return (
            "With two classes, telling one from the other is one task: both have the same AUC. Read accuracy instead."
        )
    return ""


def trials_said(run: Run) -> str:
    """E.g. "3 trials"."""
    return say.count(int(run.meta["request"]["trials"]), "trial")
