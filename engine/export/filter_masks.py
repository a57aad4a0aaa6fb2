"""mask.json of one trial that cuts filters: which, of which model, chosen how, and the history that replays the cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.errors import Fault, RequestError
from engine.store.runs import Run
from engine.surgery.filter_record import FilterRecord, groups_of, write_filter_mask
from engine.types import FilterMask


def filter_record(run: Run, variant: dict[str, Any]) -> FilterRecord:
    """The record of one trial's row of the variants table. RequestError for a row that is no trial, or cuts nothing."""
    if not variant["cut"] or not variant["n_cut"]:
        what = "cuts nothing." if variant["variant"] == "dense" else "stands for several trials."
        raise RequestError(
            Fault("variant", f"{variant['variant']!r} {what}", "Choose a trial, such as one ending in #0.")
        )
    request, data = run.meta["request"], run.meta["data"]
    base = str(variant["base"])
    settings = {
        "variant": variant["variant"],
        "trial": int(variant["seed"]),
        "first_seed": request.get("first_seed", 0),
        "method_settings": (request.get("method_settings") or {}).get(base, {}),
        "pw": (request.get("pw") or {}).get(base, {}),
        "retrain": request.get("retrain") or {},
        "data": data["digest"],
        "target": data.get("target", ""),
    }
    speedups = {"asked_speedup": float(variant["speedup"]), "achieved_speedup": float(variant["achieved"])}
    return record_of(run, variant, method=base, loss=str(variant["loss"]), settings=settings, **speedups)


def record_of(run: Run, variant: dict[str, Any], **more: Any) -> FilterRecord:
    """What a row of the variants table says of its filters and of their model, with `more` fields of the record."""
    model = run.meta["model"]
    cut = {group: tuple(indices) for group, indices in json.loads(variant["cut"]).items()}
    mask = FilterMask(tuple((name, int(width)) for name, width in model["layers"]), tuple(cut.items()))
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


def write_trial_mask(run: Run, variant: dict[str, Any], path: Path) -> Path:
    """mask.json of one trial, as `apply` reads it."""
    return write_filter_mask(path, filter_record(run, variant))
