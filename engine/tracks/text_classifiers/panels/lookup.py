"""Reading the tables of a text classifier's run: arms, levels, seeds, tickets, and which heads are
kept."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from engine.core import words
from engine.core.ids import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import DENSE, repeats, trials_of
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


def arm_of(method: str) -> tuple[str, str]:
    """(procedure, score) of an arm: "isp:conductance" is ("isp", "conductance")."""
    procedure, _, score = method.partition(":")
    return procedure, score


def task(run: Run) -> Measure:
    """The metric of the run's task."""
    return Measure(str(run.meta["data"].get("metric") or "accuracy"), per_axis=False, few="texts")


def measure_of(run: Run, group: str) -> Measure:
    """What a ticket is judged by: the task's metric on all texts, accuracy on those of a group."""
    return Measure("accuracy", few="texts") if group else task(run)


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


def ticket_levels(run: Run, axis: str = "", group: str = "") -> pd.DataFrame:
    """Rows of the table `ticket_levels` about all texts or one group, with `realised`, `variant`,
    `state` and `by_spread` (matching only because its seeds differ widely).

    state: "winning" (matching, trained from the pre-trained weights), "matching", "no", or "" with
    too few seeds.
    """
    if not run.has("ticket_levels"):
        return pd.DataFrame()
    table = lookup.frame(run, "ticket_levels")
    return _levels(run, where(table, axis=axis, group=group))


def _levels(run: Run, rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows.drop(columns="degenerate", errors="ignore")
    arms = pooled(run)[["method", "sparsity", "realised", "variant", "degenerate"]]
    rows = rows.merge(arms.round({"sparsity": 9}), on=["method", "sparsity"], how="left")
    rows = rows.assign(realised=rows["realised"].fillna(rows["sparsity"]))
    tuned = {method: from_pretrained(run, method) for method in rows["method"].unique()}
    state = [
        state_of(tuned[row.method], bool(row.matching), row.n_seeds) for row in rows.itertuples()
    ]
    ends = rows[["matching", "mean", "full_mean", "full_std"]].itertuples(index=False)
    rows = rows.assign(by_spread=[by_spread_only(*end) for end in ends])
    return rows.assign(state=state).sort_values(["method", "sparsity"], ignore_index=True)


def state_of(pretrained: bool, matching: bool, n_seeds: float) -> str:
    """What a level of an arm is; `pretrained`: whether its models were trained from the pre-trained
    weights."""
    if n_seeds < LEAST_SEEDS:
        return UNJUDGED
    if not matching:
        return LOST
    return WON if pretrained else MATCHING


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
        parts = (
            [f"not at {phrasing.listing(map(phrasing.percent, self.failed))}"]
            if self.failed
            else []
        )
        if self.by_spread:
            parts.append(f"at {phrasing.percent(self.share)} only because its seeds differ widely")
        return " and ".join(parts)


def reach_of(levels: pd.DataFrame) -> Reach:
    """How far an arm gets, from its rows of ticket_levels, on all texts or one group."""
    rows = levels.sort_values("sparsity")
    good, lost = rows[rows["state"].isin(TICKET)], rows[rows["state"] == LOST]
    if good.empty:
        return Reach(state=LOST if len(lost) else UNJUDGED)
    last = good.iloc[-1]
    failed = lost.loc[lost["sparsity"] < last["sparsity"], "sparsity"].tolist()
    whole = good.loc[good["sparsity"] < failed[0], "sparsity"].max() if failed else last["sparsity"]
    unbroken = 0.0 if pd.isna(whole) else float(whole)
    return Reach(
        float(last["sparsity"]), unbroken, last["state"], tuple(failed), bool(last["by_spread"])
    )


def reaches(run: Run, axis: str) -> dict[tuple[str, str], Reach]:
    """(arm, group) -> how far it gets, for all texts ("") and the groups of an axis."""
    if not run.has("ticket_levels"):
        return {}
    table = lookup.frame(run, "ticket_levels")
    rows = table[(table["group"] == "") | (table["axis"] == axis)]
    found = [(group, _levels(run, part)) for group, part in rows.groupby("group", sort=False)]
    return {
        (str(method), str(group)): reach_of(part)
        for group, whole in found
        for method, part in whole.groupby("method", sort=False)
    }


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
            if is_so(one)
        ]
        for is_so in (lambda one: one.failed, lambda one: one.by_spread)
    )
    text = (
        f" {phrasing.listing(again)} {'have' if len(again) > 1 else 'has'} it again at a larger"
        " share."
        if again
        else ""
    )
    if wide:
        ends = "largest shares" if len(wide) > 1 else "largest share"
        verb = "match" if len(wide) > 1 else "matches"
        text += f" The {ends} of {phrasing.listing(wide)} {verb} only because seeds differ widely."
    return text


def from_pretrained(run: Run, method: str) -> bool:
    """Whether an arm's models were trained from the pre-trained weights after heads were cut."""
    rows = pooled(run)
    rows = rows[rows["method"] == method]
    return bool(rows["retrained"].astype(bool).any())


def tickets(run: Run) -> pd.DataFrame:
    """The table `tickets`, empty where the run has none."""
    return lookup.frame(run, "tickets") if run.has("tickets") else pd.DataFrame()


def groups_of_axis(run: Run, axis: str) -> list[str]:
    """Groups of an axis that may be compared, the one that starts worst off first."""
    rows = lookup.groups_of(run, DENSE, "accuracy", axis)
    rows = rows[(rows["verdict"] == "") & rows["value"].notna()]
    return rows.sort_values("value", kind="stable")["group"].tolist()


def kept_by_seed(run: Run, choice: Choice) -> dict[int, set[int]]:
    """Heads that every seed of the choice keeps, as flat units."""
    at = Choice(choice.method, choice.axis, lookup.level_of(run, choice))
    units = set(range(lookup.total_heads(run)))
    return {
        int(row["seed"]): units - set(json.loads(row["cut"]))
        for row in trials_of(run, at).to_dict("records")
    }


def head_said(run: Run, unit: int) -> str:
    """One head in words."""
    n_heads = int(run.meta["model"]["n_heads"])
    return words.head_name(int(unit) // n_heads, int(unit) % n_heads)


def heads_said(run: Run, units: list[int], limit: int = 4) -> str:
    """Heads apart by semicolons, for their names hold commas."""
    named = [head_said(run, unit) for unit in units]
    return "; ".join(named[:limit]) + (
        f"; and {len(named) - limit} more" if len(named) > limit else ""
    )


def spread(mean: float, std: float, measure: Any) -> str:
    """Mean and standard deviation over seeds, e.g. "0.912 ± 0.010"; the mean alone of a single
    model."""
    return measure.number(mean) + ("" if math.isnan(std) else f" \u00b1 {phrasing.number(std)}")


def level_row(
    run: Run, variant: dict[str, Any], axis: str = "", group: str = ""
) -> dict[str, Any] | None:
    """The row of ticket_levels about a pooled variant."""
    table = ticket_levels(run, axis, group)
    if table.empty:
        return None
    rows = table[
        (table["method"] == variant["method"]) & at_level(table["sparsity"], variant["sparsity"])
    ]
    return None if rows.empty else rows.iloc[0].to_dict()


def lost_groups(run: Run, variant: dict[str, Any], axis: str) -> list[str]:
    """Groups of the axis for which alone a variant is no ticket."""
    return [group for group in groups_of_axis(run, axis) if _lost(run, variant, axis, group)]


def _lost(run: Run, variant: dict[str, Any], axis: str, group: str) -> bool:
    row = level_row(run, variant, axis, group)
    return row is not None and row["state"] == LOST
