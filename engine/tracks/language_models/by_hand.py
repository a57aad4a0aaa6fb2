"""Heads chosen by hand, measured as an audit measures its variants."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from engine.audit.executors import Local
from engine.audit.tracks import request_from
from engine.core.errors import Fault, RequestError
from engine.core.types import POOLED, HeadMask, Hooks
from engine.store.runs import Run, Store
from engine.tracks.language_models.opening import open_audit
from engine.tracks.language_models.request import PromptPlan, validate
from engine.tracks.language_models.run import measure
from engine.tracks.language_models.variants import Variant, dense_variant

BY_HAND = "by hand"


def measure_by_hand(run: Run, cut: Sequence[tuple[int, int]], store: Store) -> pd.DataFrame:
    """Rows of `results` for the dense model and for the model without the heads `cut`, (layer, head) from 0, on the
    test prompts and test text of the run. RequestError for heads that the model does not have."""
    plan, mask = _plan_of(run), _mask_of(run, cut)
    store.prove_writable()
    audit = open_audit(plan, store, Hooks(), Local())
    chosen = Variant(BY_HAND, BY_HAND, "", float("nan"), mask.sparsity, POOLED, mask.units)
    results = measure(audit, [dense_variant(), chosen])["results"]
    return results[results["split"] == "test"].reset_index(drop=True)


def _plan_of(run: Run) -> PromptPlan:
    """What the run was asked, checked again. RequestError where it would not be the same run today."""
    plan = validate(request_from(run.meta["request"]))
    if plan.run_id != run.id:
        what = f"{run.id} rests on other data, weights or code than are here now: the same request is {plan.run_id}."
        raise RequestError(Fault("run", what, "Audit again, and measure on that run."))
    return plan


def _mask_of(run: Run, cut: Sequence[tuple[int, int]]) -> HeadMask:
    try:
        return HeadMask(run.meta["model"]["n_layers"], run.meta["model"]["n_heads"], tuple(cut))
    except ValueError as error:
        raise RequestError(
            Fault("cut", f"{error}.", "Name heads of this model once each, as (layer, head).")
        ) from error
