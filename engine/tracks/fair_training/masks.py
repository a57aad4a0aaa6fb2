"""mask.json of one seed of fair training: filters that are cut, or weights that are zero and stay.
No torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.classifiers.images.masks import record_of
from engine.core.errors import Fault, RequestError
from engine.core.files import write_json
from engine.report.charts import lookup
from engine.store.runs import Run
from engine.surgery.filters.record import FilterRecord, write_filter_mask
from engine.tracks.fair_training import words as own

SCHEMA = 1
WEIGHTS = "weights"
SETTINGS = ("first_seed", "iterations", "recipe", "tolerance", "notion", "tune_on")
"""Fields of the request that decide which units are cut and what the model is worth."""


def write_fair_mask(run: Run, variant: dict[str, Any], path: Path) -> Path:
    """Filters: as `apply` reads it. Weights: where they came from and how many of each layer are
    left.

    RequestError for a row that is no seed's, or cuts nothing.
    """
    _must_be_a_seed(variant)
    if variant["units"] == WEIGHTS:
        write_json(path, weights_record(run, variant))
        return path
    return write_filter_mask(path, fair_record(run, variant))


def fair_record(run: Run, variant: dict[str, Any]) -> FilterRecord:
    """The record of one seed's row of the variants table whose units are filters."""
    _must_be_a_seed(variant)
    return record_of(
        run,
        variant,
        method=str(variant["method"]),
        settings=_settings(run, variant),
        achieved_speedup=float(variant["speedup"]),
    )


def weights_record(run: Run, variant: dict[str, Any]) -> dict[str, Any]:
    """The record of one seed's row whose units are weights, JSON-able: the zeros themselves are in
    the checkpoint."""
    model = run.meta["model"]
    record = {
        "schema": SCHEMA,
        "kind": WEIGHTS,
        "units": WEIGHTS,
        "note": own.NOT_FASTER,
        **{name: model[name] for name in ("architecture", "weight_hash", "classes", "size")},
        "model": model["name"],
        "method": str(variant["method"]),
        "asked_sparsity": float(variant["sparsity"]),
        "realised_sparsity": float(variant["realised"]),
        "zero_weights": int(variant["n_cut"]),
        "parameters_zero": float(variant["parameters_cut"]),
        "speedup": 1.0,
        "mask_digest": str(variant["mask_digest"]),
        "layers": _layers(run, str(variant["variant"])),
        "settings": _settings(run, variant),
        "run": run.id,
        "created": run.meta["created"],
    }
    return record


def _layers(run: Run, variant: str) -> list[dict[str, Any]]:
    if not run.has("layers"):
        return []
    table = lookup.frame(run, "layers")
    rows = table[table["variant"] == variant].sort_values("layer")
    return [
        {"layer": str(row.group), "weights": int(row.filters), "kept": int(row.kept)}
        for row in rows.itertuples()
    ]


def _settings(run: Run, variant: dict[str, Any]) -> dict[str, Any]:
    request, data = run.meta["request"], run.meta["data"]
    return {
        "variant": variant["variant"],
        "seed": int(variant["seed"]),
        "asked_sparsity": float(variant["sparsity"]),
        "strength": float(variant["strength"]),
        "method_settings": (request.get("method_settings") or {}).get(str(variant["method"]), {}),
        "fair_axis": data.get("fair_axis", ""),
        "data": data["digest"],
        "target": data.get("target", ""),
        **{name: request[name] for name in SETTINGS if name in request},
    }


def _must_be_a_seed(variant: dict[str, Any]) -> None:
    if variant["n_cut"] and variant["seed"] >= 0:
        return
    what = "stands for several seeds." if variant["n_cut"] else "cuts nothing."
    raise RequestError(
        Fault(
            "variant", f"{variant['variant']!r} {what}", "Choose that of a seed, such as one of #0."
        )
    )
