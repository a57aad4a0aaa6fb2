"""More of a finished audit: heads that a person chose, silenced in the full models, measured as its
own arms were.

Nothing is trained for the set itself: every seed's full model answers with the heads off, as for
arms that train nothing again. Full models that neither the run nor the store holds are fine-tuned
again first, as the audit did it. A set is tried on validation texts, or on training texts where the
task has none, before it is measured on test texts. What comes out is an addition to the run
(engine/store/additions.py). No torch until something is measured.
"""

from __future__ import annotations

import json
from typing import Any

from engine.audit.executors import Executor
from engine.audit.growing import Grown
from engine.audit.growth import Growth
from engine.audit.session import Session
from engine.core.errors import Fault
from engine.core.types import Hooks
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.hand_classifiers import TEST, Chosen, HandSet, HandSets, check_set, chosen_of
from engine.report.hand_told import classifier_rows, told_of
from engine.resident.warm import Warm
from engine.store.runs import Run, Store
from engine.surgery.heads.named import mask_of_units
from engine.tracks.text_classifiers.ahead import ahead_of_set
from engine.tracks.text_classifiers.words import NOT_RETUNED

LEVEL = Fault(
    "sparsity",
    "of a text classifier's method is trained or walked for: it is asked as an audit with one level"
    " more.",
    "Give heads, or start the audit again with the level added.",
)


def chosen_heads(run: Run, request: Growth) -> tuple[Chosen, str]:
    """The set that a growth asks of a run, and the split of its texts. RequestError where there is
    none."""
    counted = f": layer times {run.meta['model']['n_heads']} plus head"
    check_set(run, request, LEVEL, lookup.total_heads(run), counted)
    mask = mask_of_units(run, request.units)
    return chosen_of(run, request, mask, mask.units, cut_of)


def cut_of(variant: Any) -> tuple[int, ...] | None:
    """Heads of a row of the variants table; None for one whose seeds cut other heads each."""
    return tuple(json.loads(variant["cut"])) if variant["cut"] else None


def _measured(
    grown: Grown, store: Store, hooks: Hooks, executor: Executor, warm: Warm | None
) -> tuple[Session[Any, Any], HandSet]:
    from engine.tracks.text_classifiers.hand_measured import measured_heads  # torch

    return measured_heads(grown, store, hooks, executor, warm)


HAND = HandSets("text_id", chosen_heads, _measured)
grow, check_growth = HAND.grow, HAND.check


def told(before: Run, after: Run, growth: Growth) -> dict[str, Any]:
    """As `told_of` says it; the notes say what the numbers are of."""
    chosen, split = chosen_heads(after, growth)
    units = chosen.mask.units
    ahead = ahead_of_set(
        before, Choice(chosen.name, growth.axis, chosen.mask.sparsity, reading="accuracy"), units
    )
    notes = (
        [f"Predictions are for test texts; these are {split} texts."]
        if ahead and split != TEST
        else []
    )
    notes += [NOT_RETUNED, *([ahead.said] if ahead else [])]
    rows = classifier_rows(after, growth, chosen.name, split, ahead)
    return told_of(before, after, split, {chosen.name: chosen.mask.cut}, rows, notes)
