"""Which heads survive, seed by seed, in which order they go, and whether seeds and tasks keep the
same ones."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import Values, at_level, is_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.heat_map import Scale, head_grid, mark, matrix_figure
from engine.report.charts.kinds import hover, lines
from engine.report.charts.lookup import DENSE, remembered, repeats, trials_of, trials_said
from engine.report.charts.panel import Choice, Panel, nothing
from engine.report.charts.reliability_parts import chance_said, overlap_row
from engine.report.palette import Style
from engine.report.schema import hovers, readable
from engine.report.tracks import Measure, track_of
from engine.stats.reliability import SetOverlap, cross_overlap, set_overlap
from engine.store.runs import Run, where
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.tables import (
    LOST,
    MATCHING,
    MIN_SEEDS,
    UNJUDGED,
    WON,
    by_spread_only,
)

# Reading the tables of a text classifier's run: arms, levels, seeds, tickets, and which heads are
# kept.


PRETRAINED, TUNED = "pre-trained", "fine-tuned"
TICKET = (WON, MATCHING)
OF_GROUP = Measure("accuracy", few="texts")
"""What a ticket of a group is judged by."""


def arm_of(method: str) -> tuple[str, str]:
    """(procedure, score) of an arm: "isp:conductance" is ("isp", "conductance")."""
    procedure, _, score = method.partition(":")
    return procedure, score


def task(run: Run) -> Measure:
    """The metric of the run's task."""
    return Measure(str(run.data.get("metric") or "accuracy"), per_axis=False, few="texts")


def measure_of(run: Run, group: str) -> Measure:
    """What a ticket is judged by: the task's metric on all texts, accuracy on those of a group."""
    return OF_GROUP if group else task(run)


def few_seeds(run: Run) -> str:
    """What must be said where no arm has enough for a ticket; else ""."""
    most = (
        lookup.frame(run, "ticket_levels")["n_seeds"].max()
        if run.has("ticket_levels")
        else repeats(run)
    )
    return own.FEW_SEEDS if most < MIN_SEEDS else ""


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
    return (run.request.get("score_settings") or {}).get("conductance", {}).get(name, usual)


@remembered("ticket_levels", "variants")
def all_levels(run: Run) -> pd.DataFrame:
    """The table `ticket_levels` with `realised` (the share that is cut), `state` and `by_spread`
    (matching only because its seeds differ widely), by arm and share; empty where there is none.

    state: WON (matching, trained from the pre-trained weights), MATCHING, LOST, or UNJUDGED.
    """
    if not run.has("ticket_levels"):
        return pd.DataFrame(columns=["method", "axis", "group", "sparsity", "state", "by_spread"])
    rows = lookup.frame(run, "ticket_levels")
    arms = lookup.pooled(run)[["method", "sparsity", "realised"]].round({"sparsity": 9})
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
    rows = levels.sort_values("sparsity", kind="stable")
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
    n_heads = int(run.model["n_heads"])
    return words.head_name(int(unit) // n_heads, int(unit) % n_heads)


def heads_said(run: Run, units: list[int], limit: int = 4) -> str:
    """Heads apart by semicolons, for their names hold commas."""
    more = [f"and {len(units) - limit} more"] if len(units) > limit else []
    return "; ".join([*(head_said(run, unit) for unit in units[:limit]), *more])


def spread(mean: float, std: float, measure: Any) -> str:
    """Mean and standard deviation over seeds, e.g. "0.912 ± 0.010"; the mean alone of a single
    model."""
    return measure.number(mean) + ("" if math.isnan(std) else f" \u00b1 {phrasing.number(std)}")


def level_row(run: Run, variant: Values) -> Values | None:
    """The row of ticket_levels about a pooled variant on all texts."""
    rows = where(_levels_of(run, variant), group="")
    return None if rows.empty else rows.iloc[0].to_dict()


def lost_groups(run: Run, variant: Values, axis: str) -> list[str]:
    """Groups of the axis for which alone a variant is no ticket."""
    lost = set(where(_levels_of(run, variant), axis=axis, state=LOST)["group"])
    return [group for group in groups_of_axis(run, axis) if group in lost]


def _levels_of(run: Run, variant: Values) -> pd.DataFrame:
    rows = where(all_levels(run), method=variant["method"])
    return rows[at_level(rows["sparsity"], variant["sparsity"])]


RANDOM = "random"
UNCUT = "Nothing is cut here: every head survives."
NO_ROUNDS = "This run keeps no iterations of this arm."
MEAN = -1
"""In place of a seed: the mean over them."""
SAME_DRAWS = (
    "Random choice draws the same heads for the same seed on every task, so shared heads would "
    "mean nothing."
)
SAME_ORDER = "Chance: kept sets of the same sizes drawn at random."


def survival(run: Run, choice: Choice) -> Panel:
    """Share of seeds that keep each head at the chosen level; overlap between seeds against
    chance."""
    question = "Which heads survive, and do the seeds agree?"
    kept = kept_by_seed(run, choice)
    if kept.empty:
        return nothing("tickets_survival", question, UNCUT)
    at, share = phrasing.percent(lookup.level_of(run, choice)), kept.mean(axis=1).to_numpy()
    scale = Scale(0, 1, [0.08, 0.5, 0.92], ["cut by all", "half", "kept by all"])
    hover = [_hover(run, int(unit), row) for unit, row in kept.iterrows()]
    figure = head_grid(run, choice, share, scale, hover)
    mark(figure, run, choice, np.flatnonzero(share == 0).tolist(), "x-thin", "cut by every seed")
    seeds = {f"kept by seed {seed}": kept[seed] for seed in kept}
    table = _by_head(run, {"share of seeds": share, **seeds})
    answer = f"{words.method_name(choice.method)} at {at}: {_always(share)}"
    more = f"{_agree(set_overlap(units_of(kept), len(kept)), kept.shape[1])}{_gone(run, share)}"
    note = f"{trials_said(run)}. {SAME_ORDER} {words.COUNTING}"
    return Panel(
        "tickets_survival", question, phrasing.sentence(answer), figure, table, note, more=more
    )


def _by_head(run: Run, columns: Values) -> pd.DataFrame:
    """A table with a row per head; the columns are [units] each."""
    layers, heads = np.divmod(np.arange(run.n_units), int(run.model["n_heads"]))
    return pd.DataFrame({"layer": layers, "head": heads, **columns})


def _hover(run: Run, unit: int, kept: pd.Series) -> str:
    seeds = kept.index[kept]
    said = f"kept by seed {', '.join(map(str, seeds))}" if len(seeds) else "cut by every seed"
    return hover(head_said(run, unit), said, f"{len(seeds)} of {len(kept)} seeds")


def _always(share: np.ndarray) -> str:
    """How many heads every seed keeps and how many every seed cuts; share of seeds that keep a
    head, [units]."""
    every, never = int((share == 1).sum()), int((share == 0).sum())
    differ = len(share) - every - never
    kept = f"every seed keeps {phrasing.count(every, 'head')} of {len(share)}"
    kept = kept if every else "no head is kept by every seed"
    if never:
        gone = f"cuts {never}" if every else f"every seed cuts {never} of {len(share)}"
    else:
        gone = "no head is cut by every seed" if every else "none is cut by every seed"
    rest = f"; they differ about the other {differ}" if differ else ""
    return f"{kept} and {gone}{rest}."


def _agree(found: SetOverlap, n: int) -> str:
    if n < 2 or math.isnan(found.share):
        return "With one seed nothing can be said about agreement."
    by_chance = chance_said(found.expected, found.high, not found.chance)
    return (
        f"Two seeds share {phrasing.percent(round(found.share, 3))} of the heads they keep;"
        f" {by_chance}."
    )


def _gone(run: Run, share: np.ndarray) -> str:
    """Layers of which no seed keeps a head, in a sentence; share of seeds that keep a head,
    [units]."""
    heads = int(run.model["n_heads"])
    empty = [str(layer) for layer, row in enumerate(share.reshape(-1, heads)) if not row.any()]
    many = "layers" if len(empty) > 1 else "layer"
    return f" No seed keeps a head of {many} {phrasing.listing(empty)}." if empty else ""


def cut_order(run: Run, choice: Choice) -> Panel:
    """In which iteration each head was cut, mean over seeds."""
    question = "In which order do the heads go?"
    table = steps(run, choice.method).explode("heads").dropna(subset=["heads"])
    if table.empty:
        return nothing("tickets_order", question, NO_ROUNDS)
    total, last, n = run.n_units, int(table["iteration"].max()), table["seed"].nunique()
    rounds = table.groupby(table["heads"].astype(int))["iteration"]
    mean, counts = (
        rounds.mean().reindex(range(total)),
        rounds.size().reindex(range(total), fill_value=0),
    )
    said = [
        hover(head_said(run, unit), _when_said(mean[unit], int(counts[unit])))
        for unit in range(total)
    ]
    values = last + 1 - mean.to_numpy(dtype=float)  # the first to go is darkest
    ticks = [last - 0.1 * (last - 1), 1 + 0.1 * (last - 1)]
    scale = Scale(0.5, last + 0.5, ticks, ["first iteration", "last iteration"])
    if last == 1:
        scale = Scale(0, 1.5, [1], ["cut in the only iteration"])
    figure = head_grid(run, choice, values, scale, said)
    gone = np.flatnonzero(counts == 0).tolist()
    mark(figure, run, choice, gone, "circle-open", "never cut")
    first = mean[counts == n].sort_values(kind="stable")
    verb = "is" if len(gone) == 1 else "are"
    answer = f"{_first_said(run, first)}; {len(gone)} of {total} heads {verb} never cut."
    shown = _by_head(run, {"iteration (mean)": mean, "seeds that cut it": counts})
    arm, seeds = phrasing.sentence(words.method_name(choice.method)), phrasing.count(n, "seed")
    note = f"{arm}, {seeds}; mean over the seeds that cut a head. {words.COUNTING}"
    return Panel("tickets_order", question, phrasing.sentence(answer), figure, shown, note)


def _when_said(iteration: float, seeds: int) -> str:
    if not seeds:
        return "never cut"
    return f"cut in iteration {iteration:.3g} (mean of {phrasing.count(seeds, 'seed')})"


def _first_said(run: Run, first: pd.Series) -> str:
    """Which heads go first, all that tie; `first`: iterations of the heads that every seed cuts, in
    order."""
    if first.empty:
        return "no head is cut by every seed"
    tied = [int(unit) for unit in first.index[first <= first.iloc[0] + 1e-9]]
    start = "of the heads that every seed cuts,"
    if len(tied) == 1:
        return f"{start} {head_said(run, tied[0])} goes first"
    return f"{start} {len(tied)} go first, in the same iteration ({heads_said(run, tied)})"


def comparable(run: Run, others: Sequence[Run]) -> list[Run]:
    """Runs on other texts, of the same shape and from the same pre-trained weights; the first of
    each set of texts."""
    names = ("n_layers", "n_heads", "pretrained_hash")
    mine = [run.model.get(name) for name in names]
    found = {run.data["digest"]: run}
    for other in others if mine[-1] else ():
        if [other.model.get(name) for name in names] == mine:
            found.setdefault(other.data["digest"], other)
    return list(found.values())[1:]


def between_tasks(run: Run, choice: Choice, others: Sequence[Run] = ()) -> Panel:
    """Overlap of surviving heads between this run and others from the same pre-trained weights,
    against chance."""
    question = "Do other tasks keep the same heads?"
    if choice.method == DENSE:
        return nothing("tickets_tasks", question, UNCUT)
    if arm_of(choice.method)[1] == RANDOM:
        return nothing("tickets_tasks", question, SAME_DRAWS)
    at, total = lookup.level_of(run, choice), run.n_units
    found, without = _kept_of(run, choice, at, others)
    if len(found) < 2:
        return nothing("tickets_tasks", question, _alone(run, choice, others, without))
    names, rows = list(found), []
    share = np.full((len(names), len(names)), np.nan)
    for (i, first), (j, second) in itertools.combinations_with_replacement(enumerate(names), 2):
        one = (
            set_overlap(found[first], total)
            if i == j
            else cross_overlap(found[second], found[first], total)
        )
        share[i, j] = share[j, i] = one.share
        rows.append({"task": second, "and": first, **overlap_row(one)})
    texts = [
        ["\u2013" if math.isnan(value) else f"{100 * value:.0f} %" for value in row]
        for row in share
    ]
    table = pd.DataFrame(rows)
    figure = matrix_figure(np.nan_to_num(share), names, choice, 0.0, 1.0, texts)
    note = (
        f"{phrasing.sentence(words.method_name(choice.method))} at {phrasing.percent(at)}. Share "
        "of the kept heads that two tasks have in common, mean over pairs of seeds. On the "
        "diagonal: two seeds of one task. Chance: the same, after the heads of one task are "
        "renamed at random. All start from the same pre-trained weights."
    )
    return Panel("tickets_tasks", question, _tasks_said(table, without), figure, table, note)


def _kept_of(
    run: Run, choice: Choice, at: float, others: Sequence[Run]
) -> tuple[dict[str, list[list[int]]], list[str]]:
    """Kept units per seed of every task that has the arm at this level; names of those that have
    not."""
    found: dict[str, list[list[int]]] = {}
    without = []
    for one in (run, *comparable(run, others)):
        name, axis = _task_name(one, found), one.request["axes"][0]
        known = (
            lookup.levels(one, choice.method, axis) if choice.method in lookup.methods(one) else ()
        )
        if is_level(at, known):
            found[name] = units_of(kept_by_seed(one, Choice(choice.method, axis, at)))
        else:
            without.append(name)
    return found, without


def _task_name(run: Run, taken: Container[str]) -> str:
    name = str(run.data["name"])
    longer = (name, f"{name} ({run.meta['title']})", f"{name} ({run.id})")
    return next((one for one in longer if one not in taken), run.id)


def _alone(run: Run, choice: Choice, others: Sequence[Run], without: list[str]) -> str:
    if without:
        arm, at = words.method_name(choice.method), phrasing.percent(lookup.level_of(run, choice))
        whose = f"Other audits of the same pre-trained weights have no {arm} at {at}"
        return f"{whose}: {phrasing.listing(without)}."
    if not run.model.get("pretrained_hash"):
        return "This audit has no pre-trained weights, so there is nothing that tasks could share."
    many = phrasing.count(len(others), "other audit")
    why = f"of {many} none is of another task from these" if others else "there is no other audit"
    return f"For that, another task must be audited from the same pre-trained weights; {why}."


def _tasks_said(table: pd.DataFrame, without: list[str]) -> str:
    pairs = table[table["task"] != table["and"]].sort_values(
        "shared", ascending=False, kind="stable"
    )
    row, many = pairs.iloc[0], int(pairs["more than chance"].sum())
    by_chance = chance_said(row["by chance"], row["chance high"], row["more than chance"])
    shared = phrasing.percent(round(row["shared"], 3))
    parts = [f"{row['task']} and {row['and']} keep {shared} of their heads in common; {by_chance}."]
    if len(pairs) > 1:
        parts.append(f"{many} of {len(pairs)} pairs of tasks share more than chance gives.")
    if without:
        parts.append(f"Not at this level: {phrasing.listing(without)}.")
    return phrasing.sentence(" ".join(parts))


def mostly_cut(run: Run, choice: Choice) -> list[int]:
    """Heads of the choice that most seeds cut, for marks on maps."""
    if choice.level <= 0:
        return []
    share = kept_by_seed(run, choice).mean(axis=1)
    return share.index[share < 0.5].tolist()


SCORED_ONCE = ("once", "one-shot-isp")
"""Procedures whose iterations are the asked levels, all cut by one scoring."""
ROUND_COLUMNS = "method seed iteration n_cut sparsity heads metric delta n_texts retrained seconds"


def iterations(run: Run, choice: Choice) -> Panel:
    """The metric after every iteration, a thin line per seed, their mean heavier."""
    question = "What did each iteration cut, and how good was the model after it?"
    table = steps(run, choice.method)
    if table.empty:
        return nothing("tickets_iterations", question, NO_ROUNDS)
    measure, full = task(run), lookup.result(run, DENSE, task(run).metric)
    figure = _rounds_figure(run, choice, table, measure, full)
    answer, more = _rounds_answer(choice, table, measure, full)
    shown = readable(
        table.assign(heads=[heads_said(run, units, 99) for units in table["heads"]]),
        ROUND_COLUMNS,
        sparsity="share cut",
        heads="newly cut",
        metric=str,
        delta="convergence delta",
        retrained="fine-tuned again",
    )
    said, note = phrasing.sentence(answer), _rounds_note(table)
    return Panel("tickets_iterations", question, said, figure, shown, note, more=more)


def steps(run: Run, method: str) -> pd.DataFrame:
    """One row per seed and iteration of an arm; `heads`: the units it cut."""
    rows = lookup.table(run, "iterations", "method seed iteration newly")
    rows = rows[rows["method"] == method].sort_values(["seed", "iteration"], ignore_index=True)
    return rows.assign(heads=rows["newly"].map(json.loads))


def _rounds_figure(
    run: Run, choice: Choice, table: pd.DataFrame, measure: Measure, full: Values | None
) -> go.Figure:
    mean = table.groupby("iteration")[["sparsity", "metric"]].mean().reset_index()
    drawn = pd.concat([table, mean.assign(seed=MEAN)], ignore_index=True)
    said = hovers(
        drawn,
        "seed iteration n_cut metric heads",
        seed=_seed_said,
        metric=measure.name,
        heads=lambda units: (
            f"newly: {heads_said(run, units, 6)}" if isinstance(units, list) else ""
        ),
    )
    dashes = ("dot", "dash", "dashdot", "longdash")
    looks = {
        seed: Style(choice.theme.soft, "circle", dashes[place % len(dashes)])
        for place, seed in enumerate(sorted(table["seed"].unique()))
    }
    looks[MEAN] = track_of(run).methods.style(choice.method, choice.dark)
    return lines(
        choice,
        drawn.assign(hover=said),
        "sparsity",
        "metric",
        looks,
        ("share of heads cut", measure.title),
        by="seed",
        named=_seed_said,
        chosen=MEAN,
        level=None if full is None else (full["value"], "full model"),
        connectgaps=True,
    )


def _seed_said(seed: int) -> str:
    return "mean over seeds" if seed == MEAN else f"seed {seed}"


def _rounds_answer(
    choice: Choice, table: pd.DataFrame, measure: Measure, full: Values | None
) -> tuple[str, str]:
    """Where the arm ends; then which iteration costs most."""
    name, last = words.method_name(choice.method), int(table["iteration"].max())
    mean = table.groupby("iteration")[["n_cut", "metric"]].mean()
    how = f"takes {phrasing.count(last, 'iteration')} to cut"
    if arm_of(choice.method)[0] in SCORED_ONCE:
        how = f"scores once and cuts {phrasing.count(last, 'time')}, in the end"
    before = math.nan if full is None else float(full["value"])
    drops = mean["metric"] - mean["metric"].shift(fill_value=before)
    end = measure.number(mean["metric"].iloc[-1])
    text = f"{name} {how} {mean['n_cut'].iloc[-1]:.3g} heads; the {measure.name} ends at {end}"
    text += "" if full is None else f", the full model's is {measure.number(before)}"
    most = ""
    if last > 1 and drops.min() < 0:
        lost = measure.signed(float(drops.min()))
        most = f"Iteration {int(drops.idxmin())} costs most ({lost})."
    return f"{text}.", most


def _rounds_note(table: pd.DataFrame) -> str:
    """Seeds, training, texts, how exact the attributions are."""
    n = table["seed"].nunique()
    parts = [f"{phrasing.count(n, 'seed')}, no interval: lines are single models."]
    trained = table["retrained"].astype(bool)
    if trained.all():
        parts.append("Fine-tuned again after every iteration.")
    elif table["metric"].isna().any():
        parts.append("Fine-tuned, and measured, only where a level was asked for.")
    else:
        some = "Only some iterations are" if trained.any() else "No iteration is"
        parts.append(f"{some} followed by fine-tuning.")
    if (table["n_texts"] > 0).any():
        parts.append(f"Scored on {phrasing.count(int(table['n_texts'].max()), 'training text')}.")
    if table["delta"].notna().any():
        delta = phrasing.number(float(table["delta"].abs().max()))
        parts.append(
            f"Attributions miss the change of the model's output by at most {delta} on average."
        )
    return " ".join(parts)
