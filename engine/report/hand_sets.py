"""Sets of units that a person chose, as variants of a run: what they are called, which were kept,
how many were tried.

Each set is a method of its own with one variant; `chosen` once it was measured on test, and so
counts as reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from engine.audit.request import Growth
from engine.audit.session import (
    Executor,
    Grown,
    Session,
    check_asked,
    check_name,
    check_units,
    grown_run,
    plan_of,
    run_of,
)
from engine.classifiers.groups import degenerate
from engine.classifiers.tables import TRIED, TRIED_ITEMS, answers_table
from engine.core import words
from engine.core.errors import Fault, RequestError, refusal
from engine.core.files import json_able
from engine.core.types import Hooks, Values, at_level
from engine.core.words import PREFIX, is_by_hand
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel
from engine.report.tracks import Ahead, Units, track_of
from engine.resident.warm import Warm
from engine.stats.clustered import TAILS
from engine.store.runs import Run, Store, where
from engine.store.sealed import Used

CutOf = Callable[[Values], Sequence[int] | None]
"""Flat units of a row of the variants table, ascending; None for one that stands for several cuts.
"""


def name_of(digest: str, name: str = "") -> str:
    """The variant of a set, and its method: by its name, else by the digest of its mask."""
    return f"{PREFIX}{name or digest[:8]}"


def variants_by_hand(run: Run) -> pd.DataFrame:
    """Rows of the variants table that stand for a set: tried or kept."""
    table = lookup.frame(run, "variants")
    return table[table["method"].map(is_by_hand) & (table["variant"] == table["method"])]


def kept_name(run: Run, units: Sequence[int], cut_of: CutOf) -> str:
    """What a set that was kept is called, "" where it was not: measured on another axis it is the
    same variant."""
    kept = (row["method"] for row in _of_units(run, units, cut_of) if row["chosen"])
    return next(kept, "").removeprefix(PREFIX)


def tried_variant(run: Run, units: Sequence[int], cut_of: CutOf) -> str | None:
    """The variant of this very set, tried or kept."""
    return next((row["variant"] for row in _of_units(run, units, cut_of)), None)


def _of_units(run: Run, units: Sequence[int], cut_of: CutOf) -> list[Values]:
    """Rows of the variants table that stand for this very set."""
    rows = variants_by_hand(run).to_dict("records")
    return [row for row in rows if list(cut_of(row) or ()) == sorted(units)]


def tried(run: Run) -> int:
    """How many sets were tried by hand on this run: the more, the better the best looks by
    chance."""
    return int(variants_by_hand(run)["cut"].nunique())


def check_taken(run: Run, name: str, units: Sequence[int], cut_of: CutOf, many: str) -> None:
    """RequestError where the name stands for another set of the run."""
    table = lookup.frame(run, "variants")
    rows = table[table["variant"] == name].to_dict("records")
    if rows and list(cut_of(rows[0]) or ()) != sorted(units):
        said = f"{name.removeprefix(PREFIX)!r} is another set of {many}."
        raise refusal("name", said, "Give another name.")


def rows_by_hand(run: Run, metric: str, axis: str, split: str) -> pd.DataFrame:
    """Results of sets chosen by hand."""
    results = lookup.frame(run, "results")
    rows = results[
        results["variant"].isin(variants_by_hand(run)["variant"]) & (results["split"] == split)
    ]
    return where(rows, metric=metric, axis=axis)


def tried_said(
    run: Run, metric: str, axis: str, first: str, last: str, called: tuple[str, str]
) -> str:
    """How many sets were tried by hand on this audit, and how good the best of as many looks by
    chance alone.

    metric, axis: what they are judged by. first, last: the splits on which sets are tried and then
    measured once more; called: what a reader calls these two.
    """
    count, rows = tried(run), rows_by_hand(run, metric, axis, first)
    # Standard error of a change: the median of what was measured by hand.
    error = float(((rows["delta_high"] - rows["delta_low"]) / (2 * ndtri(TAILS[1]))).median())
    if count < 2 or not error > 0:
        return f"{phrasing.count(count, 'set')} tried by hand on this audit so far." * bool(count)
    # Blom 1958: expected largest of n normals.
    luck = phrasing.number(float(ndtri((count - 0.375) / (count + 0.25))) * error)
    again = len(rows_by_hand(run, metric, axis, last))
    also = (
        f" {again} sets were: the best of these looks too good again, and its interval does "
        "not allow for that."
    )
    return (
        f"{count} sets were tried by hand on this audit. Even if none did anything, the best would "
        f"look about {luck} better on {called[0]} by chance, or more if chosen by the map. So "
        f"measure the chosen set once more, on {called[1]}.{also * (again > 1)}"
    )


# What was predicted beside what was measured, for whoever asked for more of an audit. No torch.


def told_of(
    before: Run,
    after: Run,
    split: str,
    variants: Values,
    rows: Iterable[Values],
    notes: list[str],
) -> Values:
    """What a command tells of a run that was extended, JSON-able. before, after: the run without
    and with the addition.

    added: the addition's id, None where nothing was missing. variants: units by variant. rows: a
    number about a variant each, as it was predicted with both ends of its interval, and as it was
    measured with both ends. tried: how many sets were tried by hand. notes: sentences.
    """
    new = [one for one in after.added if one.id not in {old.id for old in before.added}]
    said = [*(note for one in new for note in one.meta["notes"]), *notes]
    return json_able(
        {
            "run": after.id,
            "split": split,
            "added": new[-1].id if new else None,
            "variants": dict(variants),
            "rows": list(rows),
            "tried": tried(after),
            "notes": list(dict.fromkeys(said)),
        }
    )


def classifier_rows(
    run: Run, growth: Growth, name: str, split: str, ahead: Ahead | None
) -> Iterator[Values]:
    """A set of a classifier's units on the axes that were asked for: all items, the gaps, accuracy
    of every group."""
    table = lookup.frame(run, "variants").set_index("variant")
    for axis in growth.axes:
        same = {"variant": name, "n_cut": int(table.loc[name, "n_cut"]), "axis": axis}
        found: list[tuple[str, Values | None, tuple[str, ...]]] = [
            (metric.replace("_", " "), lookup.result(run, name, metric, of, split), (metric, of))
            for metric in ("accuracy", "accuracy_gap", "auc", "auc_gap")
            for of in [axis * metric.endswith("_gap")]
        ]
        for row in lookup.groups_of(run, name, "accuracy", axis, split).to_dict("records"):
            group = row["group"]
            found.append((f"accuracy, {group}", row, ("accuracy", axis, group)))
        for number, row, of in found:
            if row:
                ends = {"measured": row["value"], "low": row["low"], "high": row["high"]}
                yield {**same, "number": number, **_predicted(ahead, *of), **ends}


def _predicted(
    ahead: Ahead | None, metric: str, axis: str, group: str = ""
) -> dict[str, float | None]:
    """What was predicted of a number and both ends of its interval; None where nothing was."""
    nothing = dict.fromkeys(("predicted", "predicted_low", "predicted_high"))
    table = pd.DataFrame() if ahead is None else ahead.tables["groups" if group else "results"]
    rows = table if table.empty else where(table, metric=metric, axis=axis, group=group)
    if rows.empty:
        return nothing
    return dict(zip(nothing, rows.iloc[0][["value", "low", "high"]], strict=True))


# What sets by hand share where they are of a classifier: the variant, where it is tried, the
# tables of an addition.


TEST, TRAIN, VALIDATION = "test", "train", "validation"
MOST_TRIED = 2000
"""Texts or images that a set is tried on at most: drawn, the same for every set."""
ON_KNOWN = (
    "The model was trained on them, because there is no validation data here. So levels look "
    "better on them than on new data."
)


@dataclass(frozen=True)
class Chosen:
    """A set as a variant. mask: the HeadMask or FilterMask of its units; units: flat, ascending;
    reported: measured on test, so that every page shows it."""

    name: str
    mask: Any
    units: tuple[int, ...]
    reported: bool


def trial_split(run: Run) -> str:
    """The split on which a set is tried before it is measured on test: training data where none is
    for validation."""
    return VALIDATION if run.data[track_of(run).nouns.items].get(VALIDATION) else TRAIN


def trial_said(run: Run) -> str:
    """What it is tried on, in words: "validation texts"."""
    kind = "validation" if trial_split(run) == VALIDATION else "training"
    return f"{kind} {track_of(run).nouns.items}"


def chosen_of(
    run: Run, request: Growth, mask: Any, units: tuple[int, ...], cut_of: CutOf
) -> tuple[Chosen, str]:
    """The set that a growth asks of a run, whose units are known to be the model's, and the split
    it is measured on. RequestError where its name cannot be its own."""
    check_name(request.name)
    name, split = name_of(mask.digest, request.name), request.split or trial_split(run)
    check_taken(run, name, units, cut_of, track_of(run).nouns.many)
    reported = split == TEST or name in set(lookup.reported(run)["variant"])
    return Chosen(name, mask, units, reported), split


@dataclass(frozen=True)
class HandSet:
    """What was measured of a set on some items, a row each.

    dense, answers: probabilities [items, classes] by trial, of the model with all units and of the
    model without the set. rows: the tables results and groups, of the model with all units too.
    columns: what the rows of the table variants say of the set besides its size.
    """

    items: pd.DataFrame
    dense: Mapping[int, np.ndarray]
    answers: Mapping[int, np.ndarray]
    rows: Mapping[str, pd.DataFrame]
    columns: Values
    costs: pd.DataFrame = field(default_factory=pd.DataFrame)
    layers: pd.DataFrame = field(default_factory=pd.DataFrame)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class HandSets:
    """How a track measures sets on its finished runs.

    key: the column that names an item. chosen: the set that a growth asks of a run, and the split
    it is measured on, RequestError where there is none. measured: the session that measured it, and
    what came out; it may load torch when it is called. effects: likewise the tables of what each
    unit does alone, which are those that `effect_keys` names; None where the track has none.
    """

    key: str
    chosen: Callable[[Run, Growth], tuple[Chosen, str]]
    measured: Callable[
        [Grown, Store, Hooks, Executor, Warm | None], tuple[Session[Any, Any], HandSet]
    ]
    effects: Callable[..., tuple[Session[Any, Any], dict[str, pd.DataFrame]]] | None = None
    effect_keys: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def grow(
        self,
        request: Growth,
        store: Store,
        hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
        executor: Executor | None = None,
        warm: Warm | None = None,
    ) -> Run:
        """The run with what was asked, measured now or found. warm: keeps the model between two
        questions.

        RequestError before anything heavy loads.
        """
        grown = self.grown_of(request, store)

        def measure(chosen: Executor, used: Used) -> None:
            given = grown, store, hooks, chosen, warm
            if self.effects and request.effects:
                audit, tables = self.effects(*given)
                grown.write(store, audit, used, tables, (), self.effect_keys)
                return
            audit, found = self.measured(*given)
            tables = addition_of(grown, found, self.key)
            grown.write(store, audit, used, tables, found.notes, keys_of(self.key))

        return grown_run(grown, store, hooks, executor, measure)

    def check(self, request: Growth, store: Store) -> None:
        """RequestError with what is wrong with it."""
        self.grown_of(request, store)

    def grown_of(self, request: Growth, store: Store) -> Grown:
        """The growth, checked; no axes where the set was measured there: one pass over the data
        serves all axes. RequestError where it cannot be measured, or the run would not be the same
        run today."""
        run = run_of(request, store)
        axes = tuple(run.request["axes"])
        if self.effects and request.effects:
            check_asked(run, request, (TEST,), "effects")
            axes = () if all(map(run.has, self.effect_keys)) else axes
            return Grown(run, plan_of(run), (), TEST, axes, request)
        chosen, split = self.chosen(run, request)
        done = lookup.result(run, chosen.name, "accuracy", "", split) is not None
        return Grown(run, plan_of(run), (chosen,), split, () if done else axes, request)


def rows_of(dense: Any, mine: Any, name: str, trials: Iterable[int]) -> dict[str, pd.DataFrame]:
    """The tables results and groups, of the model with all units and of a set as `name`. dense: the
    tables of that model (`GroupMeasure.dense`). mine: the set's, over all trials (`pooled`) and of
    each (`trial`)."""
    found = [dense, mine.pooled(name), *(mine.trial(one, f"{name}#{one}") for one in trials)]
    return {
        table: pd.concat([getattr(part, table) for part in found], ignore_index=True)
        for table in ("results", "groups")
    }


def check_set(run: Run, request: Growth, level: Fault, total: int, counted: str = "") -> None:
    """RequestError unless a growth asks for units of the run's model, of which there are `total`.
    level: the fault where it asks for a level of a method instead; counted: how units are
    numbered, for the message."""
    check_asked(run, request, (TEST, trial_split(run)))
    if request.level is not None:
        raise RequestError(level)
    many = track_of(run).nouns.many
    check_units(request.units, total, many, run.model["name"], counted)


def keys_of(item: str) -> dict[str, list[str]]:
    """What tells the rows of an addition's tables apart; item: the column that names a text or an
    image."""
    return {
        "variants": ["variant"],
        "results": ["variant", "split", "axis", "metric"],
        "groups": ["variant", "split", "axis", "metric", "group"],
        "predictions": ["variant", item],
        TRIED: ["variant", item],
        TRIED_ITEMS: [item],
        "costs": ["variant"],
        "layers": ["variant", "group"],
    }


def addition_of(grown: Grown, found: HandSet, key: str) -> dict[str, pd.DataFrame]:
    """The tables of the addition. Answers to what a set was tried on stand apart from those to test
    items; the run has the numbers of the model with all units on those.
    """
    name, items = grown.variants[0].name, found.items
    trials = {f"{name}#{trial}": answers for trial, answers in found.answers.items()}
    tables = {
        table: rows[rows["variant"].map(is_by_hand) | (grown.split != TEST)]
        for table, rows in found.rows.items()
    }
    tables |= {"variants": variant_rows(grown, found)}
    tables |= {"costs": found.costs, "layers": found.layers}
    if grown.split == TEST:
        return {**tables, "predictions": answers_table(trials, items, key)}
    full = {f"dense#{trial}": answers for trial, answers in found.dense.items()}
    tried = items[[key, "label"]].reset_index(drop=True)
    return {**tables, TRIED_ITEMS: tried, TRIED: answers_table({**full, **trials}, items, key)}


def variant_rows(grown: Grown, found: HandSet) -> pd.DataFrame:
    """The set, which stands for all trials, and a row per trial: the same units are off in all."""
    chosen, table = grown.variants[0], lookup.frame(grown.run, "variants")
    same = {
        **table[table["variant"] == "dense"].iloc[0].to_dict(),
        "method": chosen.name,
        "sparsity": chosen.mask.sparsity,
        "realised": chosen.mask.sparsity,
        "n_cut": len(chosen.units),
        "mask_digest": chosen.mask.digest,
        **found.columns,
    }
    flat = {seed: int(degenerate(answers)) for seed, answers in found.answers.items()}
    trial = {**same, "chosen": False, "pooled": chosen.name}
    rows = [
        {
            **same,
            "variant": chosen.name,
            "chosen": chosen.reported,
            "degenerate": sum(flat.values()),
        }
    ]
    rows += [
        {**trial, "variant": f"{chosen.name}#{seed}", "seed": seed, "degenerate": is_flat}
        for seed, is_flat in flat.items()
    ]
    return pd.DataFrame(rows)[list(table.columns)]


CELL = ("axis", "group", "metric")
"""What a predicted number of a classifier is about: ("", "", metric) of all items, (axis, group,
metric), (axis, "", a gap)."""


def foretold(
    run: Run,
    mask: Any,
    units: Sequence[int],
    guesses: pd.DataFrame,
    columns: Values,
    told: str,
    seconds: float = math.nan,
) -> Ahead:
    """A set as its prediction. guesses: a row per CELL with n, value, delta and their ends.
    columns: what its variant has besides its size."""
    name, table = name_of(mask.digest), lookup.frame(run, "variants")
    row = {
        **table[table["variant"] == "dense"].iloc[0].to_dict(),
        **dict.fromkeys(("variant", "method"), name),
        **dict.fromkeys(("sparsity", "realised"), mask.sparsity),
        "n_cut": len(units),
        "degenerate": 0,
        "mask_digest": mask.digest,
        **columns,
    }
    guesses = guesses.assign(variant=name, split=TEST, verdict="")
    is_group = guesses["group"] != ""
    dense = where(lookup.frame(run, "results"), variant="dense", split=TEST)
    ends = dense.loc[dense["metric"].str.match("worst_|best_"), list(CELL)]
    ends = ends.assign(of=ends["metric"].str.partition("_")[2])
    same = guesses.rename(columns={"metric": "of"})
    ends = same.merge(ends, on=["axis", "group", "of"]).drop(columns="of")
    tables = {
        "variants": pd.DataFrame([row]),
        "results": pd.concat([guesses[~is_group], ends], ignore_index=True),
        "groups": guesses[is_group].assign(n_positive=math.nan).reset_index(drop=True),
    }
    return Ahead(name, tables, told, seconds)


# A run as it would look with a variant that is predicted and not measured: the same charts, its
# marks hollow.


LEAD = "Predicted, not measured:"
WHERE = (
    "A 95 % prediction interval shows where the measured value should lie. The measured value has "
    "an interval of its own, often a wider one."
)


def joined(run: Run, name: str, ahead: Ahead) -> pd.DataFrame:
    """A table of the run with the predicted rows below its own; in `variants` the column
    `predicted` tells them apart."""
    own, rows = run.table(name), ahead.tables[name]
    # Its own rows: tried on validation prompts, or kept and read on another axis.
    own = own[own["variant"] != ahead.variant]
    # An empty column must not decide a type.
    rows = rows.reindex(columns=own.columns).dropna(axis=1, how="all")
    both = pd.concat([own, rows], ignore_index=True)
    return both.assign(predicted=both["variant"] == ahead.variant) if name == "variants" else both


def said(run: Run, found: Panel) -> Panel:
    """What a chart of `run` says of a predicted variant, called a prediction."""
    if not found.has_chart:
        return found
    answer, mind, more = (
        text.replace("95 % interval", "95 % prediction interval")
        for text in (f"{LEAD} {found.answer}", found.mind, found.more)
    )
    caveat = f"{found.caveat} Of what is predicted: {WHERE}"
    return replace(found, answer=answer, mind=mind, more=more, caveat=caveat)


# The bench of a classifier: a set that was tried, beside what was predicted of it; how many were
# tried.


def on_trial(
    run: Run, choice: Choice, off: Units, cut_of: CutOf, ahead: Ahead | None
) -> Panel | None:
    """A set that was tried: what came out, beside what was predicted. None where it was not
    tried."""
    split, variant = trial_split(run), tried_variant(run, off, cut_of)
    gap = lookup.harm(run, variant, choice, split) if variant else None
    if variant is None or gap is None:
        return None
    reading = lookup.reading(run, choice)
    whole = lookup.measured(run, variant, reading.quality, choice, split) or {}
    guess = ahead.tables["results"] if ahead else pd.DataFrame(columns=["metric", "axis"])
    lines = []
    for measure, row in ((reading.harm, gap), (reading.quality, whole)):
        mine = where(guess, metric=measure.metric, axis=row["axis"]).to_dict("records")
        said = {"number": f"change of {measure.name}"}
        for called, one in [*(("predicted", one) for one in mine[:1]), ("measured", row)]:
            said |= {called: one["delta"]}
            said |= {f"{called} {end}": one[f"delta_{end}"] for end in ("low", "high")}
        lines.append(said)
    answer = (
        f"On {trial_said(run)} {reading.quality.name} changes by {reading.quality.change(whole)},"
        f" the {reading.harm.name} of {words.axis_name(choice.measured)} by"
        f" {reading.harm.change(gap)}."
    )
    note, items = f"n = {int(whole['n'])} {trial_said(run)}.", track_of(run).nouns.items
    if ahead is not None:
        note += f" What is predicted is the change on test {items}, which are others."
    note += "" if split == VALIDATION else f" {ON_KNOWN}"
    return Panel(
        "on_trial", "What came out where it was tried?", answer, None, pd.DataFrame(lines), note
    )


def tries_said(run: Run, choice: Choice) -> str:
    """How many sets were tried, and what chance makes of the best."""
    metric, items = lookup.reading(run, choice).harm.metric, track_of(run).nouns.items
    return tried_said(
        run, metric, choice.measured, trial_split(run), TEST, (trial_said(run), f"test {items}")
    )


def as_method(run: Run, choice: Choice, cut_of: CutOf) -> Units:
    """The units that the chosen method cuts in its first repeat, at the chosen level."""
    table, level = lookup.frame(run, "variants"), track_of(run).level
    mine = table[(table["method"] == choice.method) & (table["seed"] >= 0)].sort_values("seed")
    mine = mine[at_level(mine[level.column], choice.level)]
    return () if mine.empty else tuple(cut_of(mine.iloc[0].to_dict()) or ())


def head_name(run: Run, unit: int) -> str:
    """A head as it is written: "0.3"."""
    return ".".join(map(str, divmod(unit, run.model["n_heads"])))
