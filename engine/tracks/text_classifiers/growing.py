"""More of a finished audit: heads that a person chose, silenced in the full models, measured as its own arms were.

Nothing is trained for the set itself: every seed's full model answers with the heads off, as for arms that train
nothing again. Full models that neither the run nor the store holds are fine-tuned again first, as the audit did it. A
set is tried on validation texts, or on training texts where the task has none, before it is measured on test texts.
What comes out is an addition to the run (engine/store/additions.py).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from engine.audit.executors import Executor, Local
from engine.audit.growing import Grown, check_asked, check_name, check_units, plan_of, run_of
from engine.audit.growth import Growth
from engine.classifiers.verification import TRIED, TRIED_ITEMS
from engine.core.errors import Fault, RequestError
from engine.core.types import HeadMask, Hooks
from engine.report.charts import lookup
from engine.report.hand_sets import check_taken, name_of
from engine.resident.warm import Warm
from engine.store.runs import Run, Store
from engine.store.shards import noted
from engine.surgery.heads.named import mask_of_units

if TYPE_CHECKING:
    from engine.tracks.text_classifiers.hand_measured import HandSet

TEST, TRAIN, VALIDATION = "test", "train", "validation"


@dataclass(frozen=True)
class Chosen:
    """A set of heads as a variant; `reported`: measured on test texts, so that every page shows it."""

    name: str
    mask: HeadMask
    reported: bool


def trial_split(run: Run) -> str:
    """The texts on which a set is tried before it is measured on test texts."""
    return VALIDATION if run.meta["data"]["texts"].get(VALIDATION) else TRAIN


def grow(
    request: Growth,
    store: Store,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    executor: Executor | None = None,
    warm: Warm | None = None,
) -> Run:
    """The run with what was asked, measured now or found. warm: keeps the model between two questions.

    RequestError before anything heavy loads; what was finished before an interruption is found in the store.
    """
    from engine.tracks.text_classifiers.hand_measured import measured, opened  # torch: pages check growths, too

    grown = grown_of(request, store)
    if not grown.axes:
        return grown.run
    store.prove_writable()
    with store.alone(f"{grown.run.id}-{grown.id}", hooks.check), closing(executor or Local()) as chosen:
        if grown.id not in {one.id for one in run_of(request, store).added}:
            with noted() as used:
                audit = opened(grown, store, hooks, chosen, warm)
                found = measured(grown, audit)
            grown.write(store, audit, used, tables_of(grown, found), found.notes, KEYS)
    return run_of(request, store)


def check_growth(request: Growth, store: Store) -> None:
    """RequestError with what is wrong with it."""
    grown_of(request, store)


def grown_of(request: Growth, store: Store) -> Grown:
    """The growth, checked. RequestError where it cannot be measured, or the run would not be the same run today."""
    run = run_of(request, store)
    chosen, split = chosen_of(run, request)
    axes = tuple(run.meta["request"]["axes"])  # one pass over the texts serves all
    done = lookup.result(run, chosen.name, "accuracy", "", split) is not None
    return Grown(run, plan_of(run), (chosen,), split, () if done else axes, request)


def chosen_of(run: Run, request: Growth) -> tuple[Chosen, str]:
    """The set that a growth asks of a run, and the split of its texts. RequestError where there is none."""
    check_asked(run, request, (TEST, trial_split(run)))
    if request.level is not None:
        what = "of a text classifier's method is trained or walked for: it is asked as an audit with one level more."
        raise RequestError(Fault("sparsity", what, "Give heads, or start the audit again with the level added."))
    model = run.meta["model"]
    counted = f": layer times {model['n_heads']} plus head"
    check_units(request.units, lookup.total_heads(run), "heads", model["name"], counted)
    check_name(request.name)
    mask = mask_of_units(run, request.units)
    name, split = name_of(mask.digest, request.name), request.split or trial_split(run)
    check_taken(run, name, mask.units, cut_of, "heads")
    reported = split == TEST or name in set(lookup.reported(run)["variant"])
    return Chosen(name, mask, reported), split


def cut_of(variant: Any) -> tuple[int, ...] | None:
    """Heads of a row of the variants table; None for one whose seeds cut other heads each."""
    return tuple(json.loads(variant["cut"])) if variant["cut"] else None


KEYS = {
    "variants": ["variant"],
    "results": ["variant", "split", "axis", "metric"],
    "groups": ["variant", "split", "axis", "metric", "group"],
    "predictions": ["variant", "text_id"],
    TRIED: ["variant", "text_id"],
    TRIED_ITEMS: ["text_id"],
    "costs": ["variant"],
}
"""What tells the rows of a table apart."""


def tables_of(grown: Grown, found: HandSet) -> dict[str, pd.DataFrame]:
    """What the addition holds; answers to the texts a set was tried on stand apart from those to test texts."""
    chosen = grown.variants[0]
    trials = {f"{chosen.name}#{seed}": answers for seed, answers in found.answers.items()}
    shown = {name: rows[rows["variant"].ne("dense") | (grown.split != TEST)] for name, rows in found.rows.items()}
    tables = {"variants": _variants(grown, found), **shown}
    if grown.split == TEST:
        return {**tables, "predictions": _answers(trials, found.texts), "costs": found.costs}
    full = {f"dense#{seed}": answers for seed, answers in found.dense.items()}
    tried = found.texts[["text_id", "label"]]
    return {**tables, TRIED_ITEMS: tried, TRIED: _answers({**full, **trials}, found.texts)}


def _answers(answers: dict[str, np.ndarray], texts: pd.DataFrame) -> pd.DataFrame:
    """A row per variant and text, the probabilities of its classes beside it."""
    parts = []
    for name, found in answers.items():
        columns = [f"p_{place}" for place in range(found.shape[1])]
        table = pd.DataFrame(found.astype(np.float32), columns=columns)
        parts.append(table.assign(variant=name, text_id=texts["text_id"])[["variant", "text_id", *columns]])
    return pd.concat(parts, ignore_index=True)


def _variants(grown: Grown, found: HandSet) -> pd.DataFrame:
    """The set, which stands for all seeds, and a row per seed: the same heads are off in all."""
    chosen, table = grown.variants[0], lookup.frame(grown.run, "variants")
    dense = table[table["variant"] == "dense"].iloc[0].to_dict()
    units, share = list(chosen.mask.units), chosen.mask.sparsity
    same = {**dense, "method": chosen.name, "sparsity": share, "realised": share, "n_cut": len(units),
            "retrained": False, "cut": json.dumps(units), "mask_digest": chosen.mask.digest,
            "parameters": found.parameters, "ticket": ""}  # fmt: skip
    whole = {**same, "variant": chosen.name, "chosen": chosen.reported, "degenerate": sum(found.flat.values())}
    seeds: Sequence[dict[str, Any]] = [
        {**same, "variant": f"{chosen.name}#{seed}", "chosen": False, "seed": seed, "pooled": chosen.name,
         "degenerate": int(flat)}
        for seed, flat in found.flat.items()
    ]  # fmt: skip
    return pd.DataFrame([whole, *seeds])[list(table.columns)]
