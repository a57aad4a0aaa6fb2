"""More of a finished audit: heads that a person chose, silenced in the full models, measured as its
own arms were.

Nothing is trained for the set itself: every seed's full model answers with the heads off, as for
arms that train nothing again. Full models that neither the run nor the store holds are fine-tuned
again first, as the audit did it. A set is tried on validation texts, or on training texts where the
task has none, before it is measured on test texts. What comes out is an addition to the run
(engine/store/additions.py).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pandas as pd

from engine.audit.executors import Executor
from engine.audit.growing import Grown, check_asked, check_units, grown_run, run_of
from engine.audit.growth import Growth
from engine.core.errors import Fault, RequestError
from engine.core.types import Hooks
from engine.report import hand_classifiers as hand
from engine.report.charts import lookup
from engine.resident.warm import Warm
from engine.store.runs import Run, Store
from engine.store.shards import Used
from engine.surgery.heads.named import mask_of_units

if TYPE_CHECKING:
    from engine.tracks.text_classifiers.hand_measured import HandSet


def grow(
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
    from engine.tracks.text_classifiers.hand_measured import (
        measured,
        opened,
    )  # torch: pages check growths, too

    grown = grown_of(request, store)

    def measure(chosen: Executor, used: Used) -> None:
        audit = opened(grown, store, hooks, chosen, warm)
        found = measured(grown, audit)
        grown.write(
            store, audit, used, tables_of(grown, found), found.notes, hand.keys_of("text_id")
        )

    return grown_run(grown, store, hooks, executor, measure)


def check_growth(request: Growth, store: Store) -> None:
    """RequestError with what is wrong with it."""
    grown_of(request, store)


def grown_of(request: Growth, store: Store) -> Grown:
    """The growth, checked. RequestError where it cannot be measured, or the run would not be the
    same run today."""
    run = run_of(request, store)
    return hand.grown_of(run, request, *chosen_of(run, request))


def chosen_of(run: Run, request: Growth) -> tuple[hand.Chosen, str]:
    """The set that a growth asks of a run, and the split of its texts. RequestError where there is
    none."""
    check_asked(run, request, (hand.TEST, hand.trial_split(run)))
    if request.level is not None:
        what = (
            "of a text classifier's method is trained or walked for: it is asked as an audit with"
            " one level more."
        )
        raise RequestError(
            Fault("sparsity", what, "Give heads, or start the audit again with the level added.")
        )
    model = run.meta["model"]
    counted = f": layer times {model['n_heads']} plus head"
    check_units(request.units, lookup.total_heads(run), "heads", model["name"], counted)
    mask = mask_of_units(run, request.units)
    return hand.chosen_of(run, request, mask, mask.units, cut_of)


def cut_of(variant: Any) -> tuple[int, ...] | None:
    """Heads of a row of the variants table; None for one whose seeds cut other heads each."""
    return tuple(json.loads(variant["cut"])) if variant["cut"] else None


def tables_of(grown: Grown, found: HandSet) -> dict[str, pd.DataFrame]:
    """What the addition holds."""
    tables = hand.measured_tables(
        grown, found.rows, found.dense, found.answers, found.texts, "text_id"
    )
    return {**tables, "variants": _variants(grown, found), "costs": found.costs}


def _variants(grown: Grown, found: HandSet) -> pd.DataFrame:
    chosen, table = grown.variants[0], lookup.frame(grown.run, "variants")
    dense, share = table[table["variant"] == "dense"].iloc[0].to_dict(), chosen.mask.sparsity
    same = {
        **dense,
        "sparsity": share,
        "realised": share,
        "n_cut": len(chosen.units),
        "retrained": False,
        "cut": json.dumps(list(chosen.units)),
        "mask_digest": chosen.mask.digest,
        "parameters": found.parameters,
        "ticket": "",
    }
    return hand.variant_rows(grown, list(table.columns), same, found.flat, {})
