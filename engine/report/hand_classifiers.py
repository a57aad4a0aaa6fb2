"""What sets by hand share where they are of a classifier: the variant, where it is tried, the
tables of an addition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.growing import Grown, check_name, plan_of
from engine.audit.growth import Growth
from engine.classifiers.verification import TRIED, TRIED_ITEMS
from engine.core.words import is_by_hand
from engine.report.charts import lookup
from engine.report.hand_sets import CutOf, check_taken, name_of
from engine.report.tracks import track_of
from engine.store.runs import Run

TEST, TRAIN, VALIDATION = "test", "train", "validation"
MOST_TRIED = 2000
"""Texts or images that a set is tried on at most: drawn, the same for every set."""
ON_KNOWN = (
    "They are what the model has learned, for there is nothing for validation here: levels look"
    " better on them than on what is new."
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


def grown_of(run: Run, request: Growth, chosen: Chosen, split: str) -> Grown:
    """The growth; no axes where the set was measured there: one pass over the data serves all
    axes."""
    done = lookup.result(run, chosen.name, "accuracy", "", split) is not None
    axes = tuple(run.meta["request"]["axes"])
    return Grown(run, plan_of(run), (chosen,), split, () if done else axes, request)


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


def measured_tables(
    grown: Grown,
    rows: Mapping[str, pd.DataFrame],
    dense: Mapping[int, np.ndarray],
    answers: Mapping[int, np.ndarray],
    items: pd.DataFrame,
    item: str,
) -> dict[str, pd.DataFrame]:
    """results, groups and answers; answers to what a set was tried on stand apart from those to
    test items.

    rows: results and groups, of the dense model too, whose own the run has of test items. dense,
    answers: by trial.
    """
    name = grown.variants[0].name
    trials = {f"{name}#{trial}": found for trial, found in answers.items()}
    shown = {
        table: found[found["variant"].map(is_by_hand) | (grown.split != TEST)]
        for table, found in rows.items()
    }
    if grown.split == TEST:
        return {**shown, "predictions": answers_table(trials, items, item)}
    full = {f"dense#{trial}": found for trial, found in dense.items()}
    tried = items[[item, "label"]].reset_index(drop=True)
    return {**shown, TRIED_ITEMS: tried, TRIED: answers_table({**full, **trials}, items, item)}


def answers_table(
    answers: Mapping[str, np.ndarray], items: pd.DataFrame, item: str
) -> pd.DataFrame:
    """A row per variant and item, the probabilities of its classes beside it; answers [items,
    classes] by variant."""
    parts = []
    for name, found in answers.items():
        columns = [f"p_{place}" for place in range(found.shape[1])]
        table = pd.DataFrame(found.astype(np.float32), columns=columns)
        parts.append(
            table.assign(variant=name, **{item: items[item].to_numpy()})[
                ["variant", item, *columns]
            ]
        )
    return pd.concat(parts, ignore_index=True)


def variant_rows(
    grown: Grown,
    columns: list[str],
    same: Mapping[str, Any],
    flat: Mapping[int, bool],
    trial: Mapping[str, Any],
) -> pd.DataFrame:
    """The set, which stands for all trials, and a row per trial: the same units are off in all.

    same: values by column of all rows; trial: of the trials' rows alone; flat: whether a trial's
    model names one class only."""
    chosen = grown.variants[0]
    same = {**same, "method": chosen.name}
    whole = {
        **same,
        "variant": chosen.name,
        "chosen": chosen.reported,
        "degenerate": sum(flat.values()),
    }
    rows = [
        {
            **same,
            **trial,
            "variant": f"{chosen.name}#{seed}",
            "chosen": False,
            "seed": seed,
            "pooled": chosen.name,
            "degenerate": int(found),
        }
        for seed, found in flat.items()
    ]
    return pd.DataFrame([whole, *rows])[columns]
