"""mask.json of one trial that cuts filters: which, of which model, chosen how, and the history that
replays the cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.classifiers.images.masks import record_of
from engine.core.errors import Fault, RequestError
from engine.store.runs import Run
from engine.surgery.filters.record import FilterRecord, write_filter_mask


def filter_record(run: Run, variant: dict[str, Any]) -> FilterRecord:
    """The record of one trial's row of the variants table. RequestError for a row that is no trial,
    or cuts nothing."""
    if not variant["cut"] or not variant["n_cut"]:
        what = "cuts nothing." if variant["variant"] == "dense" else "stands for several trials."
        raise RequestError(
            Fault(
                "variant",
                f"{variant['variant']!r} {what}",
                "Choose a trial, such as one ending in #0.",
            )
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
    speedups = {
        "asked_speedup": float(variant["speedup"]),
        "achieved_speedup": float(variant["achieved"]),
    }
    return record_of(
        run, variant, method=base, loss=str(variant["loss"]), settings=settings, **speedups
    )


def write_trial_mask(run: Run, variant: dict[str, Any], path: Path) -> Path:
    """mask.json of one trial, as `apply` reads it."""
    return write_filter_mask(path, filter_record(run, variant))
