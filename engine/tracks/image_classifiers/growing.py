"""More of a finished audit: filters that a person chose, silenced in the dense model, measured
group by group.

Nothing is trained again, unlike for the audit's own variants. A set is tried on validation images,
or on training images where there are none, before it is measured on test images; then it is also
cut for real, proved to be the masked model, and costs what that costs. What comes out is an
addition to the run (engine/store/additions.py).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

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
from engine.surgery.filters.named import checked, cut_of, filter_mask
from engine.tracks.image_classifiers.words import units_of

if TYPE_CHECKING:
    from engine.tracks.image_classifiers.hand_measured import HandSet
from typing import Any

from engine.report.hand_told import classifier_rows, told_of
from engine.tracks.image_classifiers.words import NO_EFFECTS, NOT_RETRAINED, said


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
    from engine.tracks.image_classifiers.hand_measured import (
        measured,
        opened,
    )  # torch: pages check growths, too

    grown = grown_of(request, store)

    def measure(chosen: Executor, used: Used) -> None:
        audit = opened(grown, store, hooks, chosen, warm)
        found = measured(grown, audit)
        grown.write(
            store, audit, used, tables_of(grown, found), found.notes, hand.keys_of("image_id")
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
    """The set that a growth asks of a run, and the split of its images. RequestError where there is
    none."""
    check_asked(run, request, (hand.TEST, hand.trial_split(run)))
    if request.level is not None:
        what = (
            "of an image classifier's method is trained: it is asked as an audit with one level"
            " more."
        )
        raise RequestError(
            Fault(
                "speedup",
                what,
                f"Give {units_of(run)}, or start the audit again with the speedup added.",
            )
        )
    model = run.meta["model"]
    check_units(request.units, int(model["n_filters"]), units_of(run), model["name"])
    units = checked(run, request.units)
    return hand.chosen_of(
        run, request, filter_mask(run, units), units, lambda row: cut_of(run, row)
    )


def tables_of(grown: Grown, found: HandSet) -> dict[str, pd.DataFrame]:
    """What the addition holds."""
    tables = hand.measured_tables(
        grown, found.rows, found.dense, found.answers, found.images, "image_id"
    )
    return {
        **tables,
        "variants": _variants(grown, found),
        "costs": found.costs,
        "layers": found.layers,
    }


def _variants(grown: Grown, found: HandSet) -> pd.DataFrame:
    """The set and its one trial; how fast the cut model is in FLOPs is both asked and reached."""
    chosen, table = grown.variants[0], lookup.frame(grown.run, "variants")
    dense, share = table[table["variant"] == "dense"].iloc[0].to_dict(), chosen.mask.sparsity
    speedup = float(dense["flops"]) / found.flops
    same = {
        **dense,
        "speedup": speedup,
        "achieved": speedup,
        "flops": found.flops,
        "sparsity": share,
        "realised": share,
        "n_cut": chosen.mask.n_cut,
        "mask_digest": chosen.mask.digest,
        "cut": json.dumps(chosen.mask.to_dict()),
        "history": json.dumps(found.history),
        "max_logit_difference": found.apart,
    }
    return hand.variant_rows(grown, list(table.columns), same, found.flat, {})


# What was measured of a set of filters, for whoever asked for it. No torch.


def told(before: Run, after: Run, growth: Growth) -> dict[str, Any]:
    """As `told_of` says it; nothing is predicted."""
    chosen, split = chosen_of(after, growth)
    notes = [said(before, text) for text in (NOT_RETRAINED, NO_EFFECTS)]
    rows = classifier_rows(after, growth, chosen.name, split, None)
    return told_of(before, after, split, {chosen.name: chosen.mask.to_dict()}, rows, notes)
