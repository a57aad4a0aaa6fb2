"""Masks of one task tried on another: is a subnetwork universal?

Thesis, Sec. 6.6.4 (after Chen et al. 2020): a subnetwork is universal for some tasks when it is
matching for the training of each. Masks that an audit found on one task are cut from the
pre-trained weights and fine-tuned on every task, each with its own recipe. Trial i takes the mask
that trial i of the audit found, and the seed that the task's own masks have there. Beside them
stand masks of as many heads drawn at random, the same heads in every trial.

All of it is made of measurements that audits make too (`tuned`), so what an audit in the same store
did is not done again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.audit.session import Executor, Local
from engine.audit.tracks import request_from
from engine.classifiers.groups import GroupMeasure
from engine.core import words
from engine.core.errors import Fault, RequestError, refusal, unknown
from engine.core.types import POOLED, Hooks, Values, at_level
from engine.report import phrasing
from engine.report.charts.kinds import dots, entry, title
from engine.report.charts.panel import Choice, Panel, plain, wrapped
from engine.report.palette import series_styles
from engine.report.schema import hovers, readable
from engine.store.runs import Run, Store, where
from engine.tracks.text_classifiers.context import TEST, TextContext, TextShard
from engine.tracks.text_classifiers.measurements.importance import random_units
from engine.tracks.text_classifiers.procedures import dense_trials
from engine.tracks.text_classifiers.request import TextPlan, TextRequest, validate_text
from engine.tracks.text_classifiers.run import AUDIT, at_chance
from engine.tracks.text_classifiers.tables import (
    Cell,
    measure_of,
    rank_among,
    ticket_of,
    values_of,
)

RANDOM = "random"
QUICK_TEXTS, QUICK_EPOCHS = 400, 3
Masks = dict[str, list[tuple[int, ...]]]
"""By name, the heads cut in every trial: a task's own masks, or "random 1"."""


@dataclass(frozen=True)
class Ask:
    """Which masks: of an arm ("isp:conductance") at a share of heads; how many random ones; in
    small or as it was."""

    method: str = "one-shot-isp:conductance"
    sparsity: float = 0.5
    random_masks: int = 2
    quick: bool = False


@dataclass(frozen=True)
class Task:
    """One finished audit: its plan, now with the one arm, and the mask of every trial."""

    run: Run
    plan: TextPlan
    masks: tuple[tuple[int, ...], ...]

    @property
    def name(self) -> str:
        return self.plan.texts.name


def universal(
    runs: Sequence[Run],
    ask: Ask,
    store: Store,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    executor: Executor | None = None,
) -> pd.DataFrame:
    """One row per mask and task: mask, task, own, n_cut, mean, std, full_mean, full_std (over
    trials), delta with its interval over trials and texts, n_seeds, n. word: of winning_tickets; ""
    where the full model is at chance, which anything matches; doubt says that it is. percentile, p
    and n_random say where it stands among the random masks (NaN, NaN, 0 for those themselves).
    RequestError with all faults before anything loads.
    """
    tasks = tasks_of(runs, ask)
    masks = masks_of(tasks, ask)
    store.prove_writable()
    with closing(executor or Local()) as chosen:
        return pd.concat(
            [_on_task(task, masks, store, hooks, chosen) for task in tasks], ignore_index=True
        )


def universal_masks(table: pd.DataFrame) -> dict[str, bool | None]:
    """By mask, whether it is matching on every task; None where a task gives no word."""
    words = table.groupby("mask", sort=False)["word"]
    return {
        str(mask): None if (part == "").any() else bool((part != "no").all())
        for mask, part in words
    }


def tasks_of(runs: Sequence[Run], ask: Ask) -> list[Task]:
    """The audits, ready to be measured on; RequestError with every fault of every one."""
    faults = []
    if len(runs) < 2:
        faults.append(
            Fault(
                "RUN",
                "a universal subnetwork needs two tasks.",
                "Name finished audits of two tasks.",
            )
        )
    if ask.random_masks < 0:
        faults.append(Fault("--random-masks", f"{ask.random_masks} is below 0.", "0 for none."))
    tasks = []
    for run in runs:
        try:
            tasks.append(_task(run, ask))
        except RequestError as error:
            faults += [Fault(f"{run.id}: {one.where}", one.what, one.fix) for one in error.faults]
    faults += _unlike(tasks)
    if faults:
        raise RequestError(faults)
    return tasks


def _task(run: Run, ask: Ask) -> Task:
    if run.meta.get("track") != TextRequest.track:
        raise refusal("RUN", "no audit of a text classifier.", "See `runs list`.")
    masks = _masks(run, ask)
    request = request_from(run.request)
    kept: dict[str, Any] = {"random_masks": 0, "leave_one_out": False}
    if ask.quick:
        kept |= {"max_texts": QUICK_TEXTS, "tune": {**request.tune, "epochs": QUICK_EPOCHS}}
    one = {"methods": (ask.method,), "sparsities": (ask.sparsity,)}
    plan = validate_text(replace(request, **one, **kept))
    faults = []
    if plan.start is None:
        faults.append(
            Fault(
                "model",
                "its weights before fine-tuning are not known.",
                "Audit it with --pretrained.",
            )
        )
    elif plan.start.weight_hash != run.model["pretrained_hash"]:
        faults.append(
            Fault("model", "the pre-trained weights have changed since.", "Audit the model again.")
        )
    if not ask.quick and plan.texts.digest != run.data["digest"]:
        faults.append(Fault("data", "the texts have changed since.", "Audit them again."))
    if faults:
        raise RequestError(faults)
    return Task(run, plan, masks)


def _masks(run: Run, ask: Ask) -> tuple[tuple[int, ...], ...]:
    """The heads that each trial cut."""
    table = run.table("variants")
    mine = table[(table["method"] == ask.method) & (table["seed"] != POOLED)]
    if mine.empty:
        raise RequestError(
            unknown(
                "--method", ask.method, [name for name in table["method"].unique() if ":" in name]
            )
        )
    at = mine[at_level(mine["sparsity"], ask.sparsity)].sort_values("seed")
    if at.empty:
        known = ", ".join(f"{share:g}" for share in sorted(mine["sparsity"].unique()))
        raise refusal("--sparsity", f"{ask.sparsity:g} was not cut.", f"It has {known}.")
    return tuple(tuple(json.loads(cut)) for cut in at["cut"])


def _unlike(tasks: Sequence[Task]) -> list[Fault]:
    """Tasks that are one, and models whose masks mean different heads."""
    faults = []
    if len({task.plan.start and task.plan.start.weight_hash for task in tasks}) > 1:
        what = (
            "the audits start from different pre-trained weights, so their masks are of different"
            " models."
        )
        faults.append(Fault("RUN", what, "Name audits of one model."))
    if len({task.name for task in tasks}) < len(tasks):
        what = f"two audits are of the same task ({', '.join(task.name for task in tasks)})."
        faults.append(Fault("RUN", what, "Name one audit per task."))
    return faults


def masks_of(tasks: Sequence[Task], ask: Ask) -> Masks:
    """Every task's own masks, for as many trials as all have, and random ones of as many heads."""
    trials = min(len(task.masks) for task in tasks)
    found = {task.name: list(task.masks[:trials]) for task in tasks}
    info = tasks[0].plan.model
    units = random_units(
        info.n_layers * info.n_heads, len(tasks[0].masks[0]), ask.random_masks, seed=0
    )
    return found | {
        f"{RANDOM} {at}": [tuple(map(int, row))] * trials for at, row in enumerate(units, 1)
    }


def _on_task(
    task: Task, masks: Masks, store: Store, hooks: Hooks, executor: Executor
) -> pd.DataFrame:
    """Every mask, fine-tuned on one task."""
    audit = AUDIT.opened(task.plan, store, hooks, executor)
    context, trials = audit.context, len(masks[task.name])
    shards = {
        name: [context.tuned_shard(cut, trial) for trial, cut in enumerate(cuts)]
        for name, cuts in masks.items()
    }
    full = dense_trials(context, trials)
    audit.finish("fine-tune the full model", full)
    audit.finish(
        "fine-tune the masks",
        list(dict.fromkeys(shard for part in shards.values() for shard in part)),
    )
    first = context.answers(full[0])
    doubt = at_chance(first, context.table(TEST)["label"].to_numpy())
    dense = context.exact(full)
    given = dense if context.settings.retune else dense[0]
    measure = measure_of(context.texts, context.table(TEST), (), given)
    values = {name: _values(context, part) for name, part in shards.items()}
    full_values = _values(context, full)
    chance = [values[name] for name in masks if name.startswith(RANDOM + " ")]
    rows = [
        {
            "mask": name,
            "task": task.name,
            "own": name == task.name,
            "metric": context.texts.metric,
            "n_cut": len(masks[name][0]),
            **_level(values[name], full_values, doubt),
            **_change(context, measure, part),
            **_among(values[name], () if name.startswith(RANDOM + " ") else chance),
        }
        for name, part in shards.items()
    ]
    return pd.DataFrame(rows)


def _values(context: TextContext, shards: Sequence[TextShard]) -> np.ndarray:
    """The task's metric of every trial, [trials] float."""
    everything = np.arange(len(context.table(TEST)))
    return np.array(values_of(context, shards, everything, Cell("", "", context.texts.metric)))


def _level(values: np.ndarray, full: np.ndarray, doubt: str) -> Values:
    found = ticket_of(list(values), list(full))
    word = "" if doubt else found.word(retrained=True)
    return {**asdict(found), "word": word, "doubt": doubt}


def _change(context: TextContext, measure: GroupMeasure, shards: Sequence[TextShard]) -> Values:
    """How a mask differs from the full model on the same texts, with an interval over trials and
    texts."""
    table = measure.variant(context.exact(shards)).pooled("mask").results
    row = where(table, metric=context.texts.metric, axis="").iloc[0]
    return {name: row[name] for name in ("delta", "delta_low", "delta_high", "n")}


def _among(values: np.ndarray, chance: Sequence[np.ndarray]) -> dict[str, float]:
    """Percentile and rank p-value among random masks."""
    if not chance:
        return {"percentile": np.nan, "p": np.nan, "n_random": 0}
    found = rank_among(values, np.stack(chance, axis=1))
    return {"percentile": found.percentile, "p": found.p, "n_random": len(chance)}


# Masks of every task fine-tuned on every task, beside random masks, in words and drawn.


ENOUGH = 19
"""Random masks from which a rank among them can be as rare as .05."""
QUESTION = "If heads are cut for one task, can the rest be trained on other tasks?"
MATCHING = (
    "Matching: the full model's mean is no higher than the masks' mean plus their standard"
    " deviation."
)
FEW = "seeds or texts"
COLUMNS = (
    "mask task metric mean std full_mean full_std delta delta_low delta_high word percentile p"
    " n_random n_seeds n"
)


def universal_panel(table: pd.DataFrame, found: Mapping[str, bool | None], choice: Choice) -> Panel:
    """A column per task, a row per mask: its change against the task's full model. table: as
    `universal` gives it;
    found: by mask, whether it is matching on every task (None: nothing can be said)."""
    parts = tuple(_figure(choice, table, str(task)) for task in dict.fromkeys(table["task"]))
    bars = "Bars: 95 % intervals over seeds and test texts, of each mask alone."
    note = f"{bars} {few_masks(table)}".strip()
    first, *rest = verdicts(table, found)
    heads = {"mask": "masks of", "task": "fine-tuned on", "word": "ticket", "mean": "mean of seeds"}
    shown = readable(ranked(table), COLUMNS, **heads, n_random="random masks", n="texts")
    return Panel("universal", QUESTION, first, None, shown, note, parts, more=" ".join(rest))


def ranked(table: pd.DataFrame) -> pd.DataFrame:
    """The table without percentiles and p-values among so few random masks that they say
    nothing."""
    few = table["n_random"] < ENOUGH
    return table.assign(percentile=table["percentile"].mask(few), p=table["p"].mask(few))


def few_masks(table: pd.DataFrame) -> str:
    """Why no rank is told; "" where one is, or where no random masks were asked for."""
    many = int(table["n_random"].max())
    if not 0 < many < ENOUGH:
        return ""
    return (
        f"No rank among {phrasing.count(many, 'random mask')}: with {ENOUGH} or more, a rank can "
        "be as rare as .05."
    )


def verdicts(table: pd.DataFrame, found: Mapping[str, bool | None]) -> list[str]:
    """Which masks are universal, of the tasks' own and of the random ones."""
    tasks = list(dict.fromkeys(table["task"]))
    if any(one is None for one in found.values()):
        doubts = table[table["doubt"] != ""].drop_duplicates("task")
        why = [f"{row.task}: {row.doubt}" for row in doubts.itertuples()] or [
            "There are fewer than three seeds."
        ]
        return [*why, "So nothing is called universal."]
    lines = [
        f"Masks of {task} are {'matching' if found[task] else 'not matching'} on every task "
        f"({phrasing.listing(tasks)}): {'universal' if found[task] else 'not universal'}."
        for task in tasks
    ]
    chance = [holds for name, holds in found.items() if name not in tasks]
    if chance:
        many = sum(map(bool, chance))
        verb = "matches" if many == 1 else "match"
        lines.append(
            f"Of {phrasing.count(len(chance), 'random mask')} of as many heads, {many} {verb} on"
            " every task."
        )
    return [*lines, MATCHING]


def line_of(row: Values) -> str:
    """E.g. "masks of remarks on topics: accuracy 0.912 ± 0.004, full model 0.931 ± 0.002; change
    −0.019, …; no"."""
    among = f"; {among_said(row)}" if among_said(row) else ""
    word = f"; {row['word']}" if row["word"] else ""
    told = f"{_levels_said(row)}; change {phrasing.change(row, few=FEW)}{word}{among}"
    return (
        f"  {mask_said(row['mask'])} on {row['task']}: {row['metric']} {told} ({_counts_said(row)})"
    )


def mask_said(mask: str) -> str:
    return f"mask {mask}" if _is_random(mask) else f"masks of {mask}"


def among_said(row: Values) -> str:
    """Where it stands among the random masks; "" where these are too few."""
    if row["n_random"] < ENOUGH:
        return ""
    return (
        f"percentile {100 * row['percentile']:.0f} of {row['n_random']} random masks, p ="
        f" {row['p']:.2g}"
    )


def _is_random(mask: str) -> bool:
    return mask.startswith("random ")


def _levels_said(row: Values) -> str:
    return (
        f"{row['mean']:.3f} ± {row['std']:.3f}, full model {row['full_mean']:.3f} ±"
        f" {row['full_std']:.3f}"
    )


def _counts_said(row: Values) -> str:
    return f"{row['n_seeds']} seeds, {row['n']:.0f} texts"


SYMBOLS = {"winning": "circle", "matching": "circle", "no": "circle-open", "": "x-thin-open"}


def _figure(choice: Choice, table: pd.DataFrame, task: str) -> go.Figure:
    """One task: rows of the tasks' own masks with intervals, then all random ones in one row."""
    mine = ranked(table[table["task"] == task]).reset_index(drop=True)
    chance = mine["mask"].map(_is_random)
    own = mine.loc[~chance, "mask"]
    rows = {mask: wrapped(mask_said(mask), 18) for mask in own}
    if chance.any():
        rows["random"] = wrapped(phrasing.count(int(chance.sum()), "random mask"), 18)
    said = hovers(
        mine, "mask delta mean std full_mean full_std percentile p n_seeds n", mask=mask_said
    )
    drawn = mine.assign(
        hover=said,
        row=mine["mask"].mask(chance, "random"),
        kind=chance.map({True: "random", False: ""}),
        symbol=mine["word"].map(SYMBOLS),
        delta_low=mine["delta_low"].mask(chance),
        delta_high=mine["delta_high"].mask(chance),
    )
    styles = series_styles(choice.dark)
    looks, name = {"": styles[0], "random": styles[5]}, words.metric_name(mine["metric"].iloc[0])
    about = f"change in {name}"
    figure = dots(choice, drawn, "delta", rows, looks, about, row="row", by="kind", apart=0)
    for word, told in (("winning", "matching"), ("no", "not matching"), ("", "not told")):
        if (table["word"] == word).any():
            dot = {"symbol": SYMBOLS[word], "color": styles[0].colour, "size": 11}
            entry(figure, told, mode="markers", marker=dot)
    title(figure, f"fine-tuned on {plain(task)}")
    figure.update_layout(legend_y=1.14, height=figure.layout.height + 40)
    return figure
