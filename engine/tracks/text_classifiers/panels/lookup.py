"""Reading the tables of a text classifier's run: arms, levels, seeds, tickets, and which heads are
kept."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from engine.core import words
from engine.core.ids import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import DENSE, repeats, trials_of
from engine.report.charts.heat_map import Scale
from engine.report.charts.lookup import remembered
from engine.report.charts.panel import Choice
from engine.report.contract import Measure
from engine.store.runs import Run
from engine.store.tables import where
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.winning_tickets import by_spread_only

PRETRAINED, TUNED = "pre-trained", "fine-tuned"
LEAST_SEEDS = 3
"""Seeds from which on a standard deviation is read."""
WON, MATCHING, LOST, UNJUDGED = "winning", "matching", "no", ""
"""What a level is; the last where there are too few seeds."""
TICKET = (WON, MATCHING)
OF_GROUP = Measure("accuracy", few="texts")
"""What a ticket of a group is judged by."""


def arm_of(method: str) -> tuple[str, str]:
    """(procedure, score) of an arm: "isp:conductance" is ("isp", "conductance")."""
    procedure, _, score = method.partition(":")
    return procedure, score


def task(run: Run) -> Measure:
    """The metric of the run's task."""
    return Measure(str(run.meta["data"].get("metric") or "accuracy"), per_axis=False, few="texts")


def measure_of(run: Run, group: str) -> Measure:
    """What a ticket is judged by: the task's metric on all texts, accuracy on those of a group."""
    return OF_GROUP if group else task(run)


def pooled(run: Run) -> pd.DataFrame:
    """Variants that stand for all seeds of an arm at a level, without the full model."""
    table = lookup.reported(run)
    return table[table["method"] != DENSE]


def few_seeds(run: Run) -> str:
    """What must be said where no arm has enough for a ticket; else ""."""
    most = (
        lookup.frame(run, "ticket_levels")["n_seeds"].max()
        if run.has("ticket_levels")
        else repeats(run)
    )
    return own.FEW_SEEDS if most < LEAST_SEEDS else ""


def proof_said(run: Run) -> str:
    """How far this audit's conductance is from Captum's; "" in runs of before it was proven."""
    proof = run.meta["provenance"].get("conductance")
    if not proof:
        return ""
    apart, allowed = (
        phrasing.number(proof[name]) for name in ("largest_relative_difference", "tolerance")
    )
    return own.PROOF.format(
        apart=apart, allowed=allowed, **{name: proof[name] for name in ("captum", "tokens")}
    )


def scoring(run: Run, name: str, usual: object) -> object:
    """A setting of conductance as the run was asked for it."""
    return (run.meta["request"].get("score_settings") or {}).get("conductance", {}).get(name, usual)


@remembered("ticket_levels", "variants")
def all_levels(run: Run) -> pd.DataFrame:
    """The table `ticket_levels` with `realised` (the share that is cut), `state` and `by_spread`
    (matching only because its seeds differ widely), by arm and share; empty where there is none.

    state: WON (matching, trained from the pre-trained weights), MATCHING, LOST, or UNJUDGED.
    """
    if not run.has("ticket_levels"):
        return pd.DataFrame(columns=["method", "axis", "group", "sparsity", "state", "by_spread"])
    rows = lookup.frame(run, "ticket_levels")
    arms = pooled(run)[["method", "sparsity", "realised"]].round({"sparsity": 9})
    rows = rows.merge(arms, on=["method", "sparsity"], how="left")
    rows["realised"] = rows["realised"].fillna(rows["sparsity"])
    rows = rows.assign(state=rows["word"], by_spread=by_spread_only(rows))
    return rows.sort_values(["method", "sparsity"], kind="stable", ignore_index=True)


def target_said(run: Run) -> str:
    """The class that attributions are of: "predicted" or "true"."""
    return "true" if scoring(run, "target", "predicted") == "gold" else "predicted"


def correlation_said(run: Run) -> str:
    """Which correlation of maps a run's conductance takes, in words."""
    name = str(scoring(run, "correlation", "spearman"))
    return f"{own.MAP_CORRELATIONS[name].name} correlation"


def two_sided(end: float, low: str, high: str) -> Scale:
    """Colours around zero, whose ends are named; `end`: how far they go."""
    signed = [f"{low}<br>{phrasing.number(-end)}", "0<br> ", f"{high}<br>+{phrasing.number(end)}"]
    return Scale(-end, end, [-0.86 * end, 0, 0.86 * end], signed, diverges=True)


def ticket_levels(run: Run, axis: str = "", group: str = "") -> pd.DataFrame:
    """Rows of `all_levels` about all texts or one group."""
    return where(all_levels(run), axis=axis, group=group).reset_index(drop=True)


@dataclass(frozen=True)
class Reach:
    """How far an arm gets, on all texts or one group.

    share: the largest that is a ticket; unbroken: the largest up to which every measured one is
    (both 0 where there is none). state: that of the largest ticket, else LOST, or UNJUDGED where no
    level has enough different models. failed: smaller shares that are none; by_spread: the largest
    matches only because its seeds differ widely.
    """

    share: float = 0.0
    unbroken: float = 0.0
    state: str = UNJUDGED
    failed: tuple[float, ...] = ()
    by_spread: bool = False

    @property
    def kind(self) -> str:
        return "a winning ticket" if self.state == WON else "matching, but no winning ticket"

    @property
    def but(self) -> str:
        """What must be said with the largest share; "" where nothing must."""
        failed = phrasing.listing(map(phrasing.percent, self.failed))
        wide = f"at {phrasing.percent(self.share)} only because its seeds differ widely"
        parts = {f"none at {failed}": self.failed, wide: self.by_spread}
        return ", and ".join(part for part, holds in parts.items() if holds)


def reach_of(levels: pd.DataFrame) -> Reach:
    """How far an arm gets, from its rows of ticket_levels, on all texts or one group."""
    rows = levels.sort_values("sparsity")
    good, lost = rows[rows["state"].isin(TICKET)], rows[rows["state"] == LOST]
    if good.empty:
        return Reach(state=LOST if len(lost) else UNJUDGED)
    last = good.iloc[-1]
    failed = lost.loc[lost["sparsity"] < last["sparsity"], "sparsity"].tolist()
    unbroken = good.loc[good["sparsity"] < min(failed, default=2.0), "sparsity"].max()
    found = float(last["sparsity"]), float(np.nan_to_num(unbroken)), str(last["state"])
    return Reach(*found, tuple(failed), bool(last["by_spread"]))


def reaches(run: Run, axis: str) -> dict[tuple[str, str], Reach]:
    """(arm, group) -> how far it gets, for all texts ("") and the groups of an axis."""
    table = all_levels(run)
    mine = table[(table["group"] == "") | (table["axis"] == axis)]
    parts = mine.groupby(["method", "group"], sort=False)
    return {(str(method), str(group)): reach_of(part) for (method, group), part in parts}


def first_and_last(reach: Mapping[str, Reach]) -> tuple[list[str], list[str]]:
    """Groups that lose the ticket first, and those that keep it longest, as shares are cut one
    after the other."""
    ends = [pick(one.unbroken for one in reach.values()) for pick in (min, max)]
    first, last = ([group for group, one in reach.items() if one.unbroken == end] for end in ends)
    return first, last


def but_said(reach: Mapping[str, Reach]) -> str:
    """Groups that have it again at a larger share, or only because seeds differ widely; "" where
    there are none."""
    again, wide = (
        [
            f"{words.quoted(group)} ({phrasing.percent(one.share)})"
            for group, one in reach.items()
            if getattr(one, name)
        ]
        for name in ("failed", "by_spread")
    )
    parts = []
    if again:
        verb = "have" if len(again) > 1 else "has"
        parts.append(f"{phrasing.listing(again)} {verb} it again at a larger share.")
    if wide:
        ends = "largest shares" if len(wide) > 1 else "largest share"
        verb = "match" if len(wide) > 1 else "matches"
        why = f"{verb} only because seeds differ widely"
        parts.append(f"The {ends} of {phrasing.listing(wide)} {why}.")
    return " ".join(parts)


def tickets(run: Run) -> pd.DataFrame:
    """The table `tickets`, empty where the run has none."""
    return lookup.frame(run, "tickets") if run.has("tickets") else pd.DataFrame()


def groups_of_axis(run: Run, axis: str) -> list[str]:
    """Groups of an axis that may be compared, the one that starts worst off first."""
    rows = lookup.groups_of(run, DENSE, "accuracy", axis)
    rows = rows[(rows["verdict"] == "") & rows["value"].notna()]
    return rows.sort_values("value", kind="stable")["group"].tolist()


def kept_by_seed(run: Run, choice: Choice) -> pd.DataFrame:
    """Whether every seed of the choice keeps every head: bool, rows are units, columns seeds; none
    of the dense model."""
    at = replace(choice, level=lookup.level_of(run, choice))
    units = np.arange(run.n_units)
    trials = trials_of(run, at)
    trials = trials[trials["method"] != DENSE]
    cut = zip(trials["seed"].astype(int), trials["cut"].map(json.loads), strict=True)
    kept = {seed: ~np.isin(units, gone) for seed, gone in cut}
    return pd.DataFrame(kept, index=units, dtype=bool)


def units_of(kept: pd.DataFrame) -> list[list[int]]:
    """Units that every seed keeps, by seed."""
    return [kept.index[kept[seed]].tolist() for seed in kept]


def head_said(run: Run, unit: int) -> str:
    """One head in words."""
    n_heads = int(run.meta["model"]["n_heads"])
    return words.head_name(int(unit) // n_heads, int(unit) % n_heads)


def heads_said(run: Run, units: list[int], limit: int = 4) -> str:
    """Heads apart by semicolons, for their names hold commas."""
    more = [f"and {len(units) - limit} more"] if len(units) > limit else []
    return "; ".join([*(head_said(run, unit) for unit in units[:limit]), *more])


def spread(mean: float, std: float, measure: Any) -> str:
    """Mean and standard deviation over seeds, e.g. "0.912 ± 0.010"; the mean alone of a single
    model."""
    return measure.number(mean) + ("" if math.isnan(std) else f" \u00b1 {phrasing.number(std)}")


def level_row(run: Run, variant: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row of ticket_levels about a pooled variant on all texts."""
    rows = where(_levels_of(run, variant), group="")
    return None if rows.empty else rows.iloc[0].to_dict()


def lost_groups(run: Run, variant: Mapping[str, Any], axis: str) -> list[str]:
    """Groups of the axis for which alone a variant is no ticket."""
    lost = set(where(_levels_of(run, variant), axis=axis, state=LOST)["group"])
    return [group for group in groups_of_axis(run, axis) if group in lost]


def _levels_of(run: Run, variant: Mapping[str, Any]) -> pd.DataFrame:
    rows = where(all_levels(run), method=variant["method"])
    return rows[at_level(rows["sparsity"], variant["sparsity"])]
