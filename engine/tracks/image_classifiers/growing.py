"""More of a finished audit: filters that a person chose, silenced in the dense model, measured
group by group.

Nothing is trained again, unlike for the audit's own variants. A set is tried on validation images,
or on training images where there are none, before it is measured on test images. Then it is also
cut for real, proved to be the masked model, and costs what that costs. What comes out is an
addition to the run (engine/store/additions.py). No torch until something is measured.
"""

from __future__ import annotations

from typing import Any

from engine.audit.growing import Grown
from engine.audit.request import Growth
from engine.audit.session import Executor, Session
from engine.core.errors import Fault
from engine.core.types import Hooks
from engine.report.hand_classifiers import Chosen, HandSet, HandSets, check_set, chosen_of
from engine.report.hand_told import classifier_rows, told_of
from engine.resident.warm import Warm
from engine.store.runs import Run, Store
from engine.surgery.named import checked_filters, cut_of, filter_mask
from engine.tracks.image_classifiers.words import NO_EFFECTS, NOT_RETRAINED, said, units_of


def chosen_filters(run: Run, request: Growth) -> tuple[Chosen, str]:
    """The set that a growth asks of a run, and the split of its images. RequestError where there is
    none."""
    level = Fault(
        "speedup",
        "of an image classifier's method is trained: it is asked as an audit with one level more.",
        f"Give {units_of(run)}, or start the audit again with the speedup added.",
    )
    check_set(run, request, level, int(run.meta["model"]["n_filters"]))
    units = checked_filters(run, request.units)
    return chosen_of(run, request, filter_mask(run, units), units, lambda row: cut_of(run, row))


def _measured(
    grown: Grown, store: Store, hooks: Hooks, executor: Executor, warm: Warm | None
) -> tuple[Session[Any, Any], HandSet]:
    from engine.tracks.image_classifiers.hand_measured import measured_filters  # torch

    return measured_filters(grown, store, hooks, executor, warm)


HAND = HandSets("image_id", chosen_filters, _measured)
grow, check_growth = HAND.grow, HAND.check


def told(before: Run, after: Run, growth: Growth) -> dict[str, Any]:
    """As `told_of` says it; nothing is predicted."""
    chosen, split = chosen_filters(after, growth)
    notes = [said(before, text) for text in (NOT_RETRAINED, NO_EFFECTS)]
    rows = classifier_rows(after, growth, chosen.name, split, None)
    return told_of(before, after, split, {chosen.name: chosen.mask.to_dict()}, rows, notes)
