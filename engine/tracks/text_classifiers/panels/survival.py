"""Which heads survive, seed by seed, in which order they go, and whether seeds and tasks keep the
same ones."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Container, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.ids import is_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import trials_said
from engine.report.charts.heat_map import Scale, head_grid, mark, matrix_figure
from engine.report.charts.kinds import lines
from engine.report.charts.marks import hover
from engine.report.charts.panel import Choice, Panel, nothing
from engine.report.charts.reliability_parts import chance_said, overlap_row
from engine.report.contract import Measure
from engine.report.palette import Style
from engine.report.schema import hovers, readable
from engine.report.tracks import track_of
from engine.stats.reliability import SetOverlap, cross_overlap, set_overlap
from engine.store.runs import Run
from engine.tracks.text_classifiers.panels.lookup import (
    DENSE,
    arm_of,
    head_said,
    heads_said,
    kept_by_seed,
    task,
    units_of,
)

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


def _by_head(run: Run, columns: dict[str, Any]) -> pd.DataFrame:
    """A table with a row per head; the columns are [units] each."""
    layers, heads = np.divmod(np.arange(run.n_units), int(run.meta["model"]["n_heads"]))
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
    rest = f"they differ about {f'the other {differ}' if differ else 'none'}"
    return f"{kept} and {gone}; {rest}."


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
    heads = int(run.meta["model"]["n_heads"])
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
    mine = [run.meta["model"].get(name) for name in names]
    found: dict[str, Run] = {run.meta["data"]["digest"]: run}
    for other in others if mine[-1] else ():
        if [other.meta["model"].get(name) for name in names] == mine:
            found.setdefault(other.meta["data"]["digest"], other)
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
    without: list[str] = []
    for one in (run, *comparable(run, others)):
        name, axis = _task_name(one, found), one.meta["request"]["axes"][0]
        known = (
            lookup.levels(one, choice.method, axis) if choice.method in lookup.methods(one) else ()
        )
        if is_level(at, known):
            found[name] = units_of(kept_by_seed(one, Choice(choice.method, axis, at)))
        else:
            without.append(name)
    return found, without


def _task_name(run: Run, taken: Container[str]) -> str:
    name = str(run.meta["data"]["name"])
    longer = (name, f"{name} ({run.meta['title']})", f"{name} ({run.id})")
    return next((one for one in longer if one not in taken), run.id)


def _alone(run: Run, choice: Choice, others: Sequence[Run], without: list[str]) -> str:
    if without:
        arm, at = words.method_name(choice.method), phrasing.percent(lookup.level_of(run, choice))
        whose = f"Other audits of the same pre-trained weights have no {arm} at {at}"
        return f"{whose}: {phrasing.listing(without)}."
    if not run.meta["model"].get("pretrained_hash"):
        return "This audit has no pre-trained weights, so there is nothing that tasks could share."
    many = phrasing.count(len(others), "other audit")
    why = f"of {many} none is of another task from these" if others else "there is no other audit"
    return f"For that, another task must be audited from the same pre-trained weights; {why}."


def _tasks_said(table: pd.DataFrame, without: list[str]) -> str:
    pairs = table[table["task"] != table["and"]].sort_values("shared", ascending=False)
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
    if not run.has("iterations"):
        return pd.DataFrame(columns=["heads"])
    rows = lookup.frame(run, "iterations")
    rows = rows[rows["method"] == method].sort_values(["seed", "iteration"], ignore_index=True)
    return rows.assign(heads=rows["newly"].map(json.loads))


def _rounds_figure(
    run: Run, choice: Choice, table: pd.DataFrame, measure: Measure, full: dict[str, Any] | None
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
    looks[MEAN] = track_of(run).style(choice.method, choice.dark)
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
    choice: Choice, table: pd.DataFrame, measure: Measure, full: dict[str, Any] | None
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
