"""What a run of a classifier stored of its repeats: the row of the first one, and the weights that
were kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.core.errors import Fault, RequestError
from engine.store.array_table import unpack
from engine.store.runs import Run


def first_repeat(run: Run, variant: dict[str, Any]) -> dict[str, Any]:
    """The row of a trial or seed itself; the first one's for a pooled variant."""
    table = run.table("variants")
    seeds = table[(table["pooled"] == variant["variant"]) & (table["seed"] >= 0)].sort_values(
        "seed"
    )
    return variant if seeds.empty else seeds.iloc[0].to_dict()


def kept_weights(run: Run, variant: str) -> dict[str, np.ndarray]:
    """Weights of a model by name, in the shapes they had when kept. RequestError where the audit
    kept none of it."""
    table = run.table("weights") if run.has("weights") else None
    mine = None if table is None else table[table["variant"] == variant]
    if mine is None or mine.empty:
        kept = run.meta["request"].get("keep_weights", "first")
        what = f"{variant!r} has no weights in this audit, which kept those of: {kept}."
        raise RequestError(
            Fault("variant", what, "Choose the first one, or audit again with --keep-weights all.")
        )
    return unpack(mine.drop(columns="variant"))[0]
