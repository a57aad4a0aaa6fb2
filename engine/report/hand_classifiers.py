"""What sets by hand share where they are of a classifier: the variant, where it is tried, the
tables of an addition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

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
from engine.classifiers.metrics import degenerate
from engine.classifiers.tables import answers_table
from engine.classifiers.verification import TRIED, TRIED_ITEMS
from engine.core.errors import Fault, RequestError
from engine.core.types import Hooks
from engine.core.words import is_by_hand
from engine.report.charts import lookup
from engine.report.hand_sets import CutOf, check_taken, name_of
from engine.report.tracks import track_of
from engine.resident.warm import Warm
from engine.store.runs import Run, Store
from engine.store.shards import Used

TEST, TRAIN, VALIDATION = "test", "train", "validation"
MOST_TRIED = 2000
"""Texts or images that a set is tried on at most: drawn, the same for every set."""
ON_KNOWN = (
    "The model was trained on them, because there is no validation data here. So levels look "
    "better on them than on new data."
)


@dataclass(frozen=True)
class Chosen:
    """A set as a variant; units: flat, ascending; reported: measured on test, so that every page
    shows it."""

    name: str
    mask: Any
    units: tuple[int, ...]
    reported: bool


def trial_split(run: Run) -> str:
    """The split on which a set is tried before it is measured on test: training data where none is
    for validation."""
    return VALIDATION if run.meta["data"][track_of(run).items].get(VALIDATION) else TRAIN


def trial_said(run: Run) -> str:
    """What it is tried on, in words: "validation texts"."""
    kind = "validation" if trial_split(run) == VALIDATION else "training"
    return f"{kind} {track_of(run).items}"


def chosen_of(
    run: Run, request: Growth, mask: Any, units: tuple[int, ...], cut_of: CutOf
) -> tuple[Chosen, str]:
    """The set that a growth asks of a run, whose units are known to be the model's, and the split
    it is measured on. RequestError where its name cannot be its own."""
    check_name(request.name)
    name, split = name_of(mask.digest, request.name), request.split or trial_split(run)
    check_taken(run, name, units, cut_of, track_of(run).many)
    reported = split == TEST or name in set(lookup.reported(run)["variant"])
    return Chosen(name, mask, units, reported), split


@dataclass(frozen=True)
class HandSet:
    """What was measured of a set: on which items, with the probabilities of the model with all
    units and without the set, by trial.

    rows: the tables results and groups, of the model with all units too. columns: what the rows of
    the table variants say of the set besides its size.
    """

    items: pd.DataFrame
    dense: Mapping[int, np.ndarray]
    answers: Mapping[int, np.ndarray]
    rows: Mapping[str, pd.DataFrame]
    columns: Mapping[str, Any]
    costs: pd.DataFrame = field(default_factory=pd.DataFrame)
    layers: pd.DataFrame = field(default_factory=pd.DataFrame)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class HandSets:
    """How a track measures sets on its finished runs.

    key: the column that names an item. chosen: the set that a growth asks of a run, and the split
    it is measured on, RequestError where there is none. measured: the session that measured it, and
    what came out; it may load torch when it is called.
    """

    key: str
    chosen: Callable[[Run, Growth], tuple[Chosen, str]]
    measured: Callable[
        [Grown, Store, Hooks, Executor, Warm | None], tuple[Session[Any, Any], HandSet]
    ]

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
            audit, found = self.measured(grown, store, hooks, chosen, warm)
            grown.write(
                store,
                audit,
                used,
                addition_of(grown, found, self.key),
                found.notes,
                keys_of(self.key),
            )

        return grown_run(grown, store, hooks, executor, measure)

    def check(self, request: Growth, store: Store) -> None:
        """RequestError with what is wrong with it."""
        self.grown_of(request, store)

    def grown_of(self, request: Growth, store: Store) -> Grown:
        """The growth, checked; no axes where the set was measured there: one pass over the data
        serves all axes. RequestError where it cannot be measured, or the run would not be the same
        run today."""
        run = run_of(request, store)
        chosen, split = self.chosen(run, request)
        done = lookup.result(run, chosen.name, "accuracy", "", split) is not None
        axes = tuple(run.meta["request"]["axes"])
        return Grown(run, plan_of(run), (chosen,), split, () if done else axes, request)


def rows_of(dense: Any, mine: Any, name: str, trials: Iterable[int]) -> dict[str, pd.DataFrame]:
    """The tables results and groups of a set and of the model with all units. dense: measured;
    mine: the set in all trials, by `pooled` and `trial`."""
    found = [dense, mine.pooled(name), *(mine.trial(one, f"{name}#{one}") for one in trials)]
    return {
        table: pd.concat([getattr(part, table) for part in found], ignore_index=True)
        for table in ("results", "groups")
    }


def check_set(run: Run, request: Growth, level: Fault, total: int, counted: str = "") -> None:
    """RequestError unless a growth asks for units of the run's model. level: said where one asks
    for a level of a method; counted: how units are numbered."""
    check_asked(run, request, (TEST, trial_split(run)))
    if request.level is not None:
        raise RequestError(level)
    many = track_of(run).many
    check_units(request.units, total, many, run.meta["model"]["name"], counted)


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
    tables |= {
        "variants": variant_rows(grown, found),
        "costs": found.costs,
        "layers": found.layers,
    }
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
    whole = {
        **same,
        "variant": chosen.name,
        "chosen": chosen.reported,
        "degenerate": sum(flat.values()),
    }
    rows = [
        {
            **same,
            "variant": f"{chosen.name}#{seed}",
            "chosen": False,
            "seed": seed,
            "pooled": chosen.name,
            "degenerate": is_flat,
        }
        for seed, is_flat in flat.items()
    ]
    return pd.DataFrame([whole, *rows])[list(table.columns)]
