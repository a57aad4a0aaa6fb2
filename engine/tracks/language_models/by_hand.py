"""Heads chosen by hand, measured as an audit measures its variants."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from engine.audit.executors import Local
from engine.core.types import POOLED, Hooks
from engine.core.words import BY_HAND
from engine.store.runs import Run, Store
from engine.surgery.heads.named import mask_of
from engine.tracks.language_models.opening import open_audit
from engine.tracks.language_models.request import prompt_plan_of
from engine.tracks.language_models.run import measure
from engine.tracks.language_models.variants import Variant, dense_variant


def measure_by_hand(run: Run, cut: Sequence[tuple[int, int]], store: Store) -> pd.DataFrame:
    """Rows of `results` for the dense model and for the model without the heads `cut`, (layer,
    head) from 0, on the test prompts and test text of the run. RequestError for heads that the
    model does not have."""
    plan, mask = prompt_plan_of(run), mask_of(run, cut)
    store.prove_writable()
    audit = open_audit(plan, store, Hooks(), Local())
    chosen = Variant(BY_HAND, BY_HAND, "", float("nan"), mask.sparsity, POOLED, mask.units)
    results = measure(audit, [dense_variant(), chosen])["results"]
    return results[results["split"] == "test"].reset_index(drop=True)
