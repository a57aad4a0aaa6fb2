"""mask.json of one trial that cuts filters: which, of which model, chosen how, and the history that
replays the cut."""

from __future__ import annotations

import json
from typing import Any

from engine.core.types import FilterMask
from engine.store.runs import Run
from engine.surgery.filters.record import FilterRecord, groups_of


def record_of(run: Run, variant: dict[str, Any], **more: Any) -> FilterRecord:
    """What a row of the variants table says of its filters and of their model, with `more` fields
    of the record."""
    model = run.meta["model"]
    cut = {group: tuple(indices) for group, indices in json.loads(variant["cut"]).items()}
    mask = FilterMask(
        tuple((name, int(width)) for name, width in model["layers"]), tuple(cut.items())
    )
    return FilterRecord(
        model=model["name"],
        architecture=model["architecture"],
        weight_hash=model["weight_hash"],
        classes=tuple(model["classes"]),
        size=int(model["size"]),
        groups=groups_of(mask),
        history=json.loads(variant["history"]),
        run=run.id,
        created=run.meta["created"],
        **more,
    )
