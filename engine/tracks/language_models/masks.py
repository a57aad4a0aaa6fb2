"""mask.json of a variant that cuts heads: which, of which model, chosen how."""

from __future__ import annotations

import math
from typing import Any

from engine.core.types import HeadMask
from engine.report.charts import lookup
from engine.store.runs import Run
from engine.surgery.heads.record import MaskRecord


def mask_record(run: Run, variant: dict[str, Any]) -> MaskRecord:
    """The record of one row of the variants table."""
    model, request = run.meta["model"], run.meta["request"]
    mask = HeadMask.from_units(model["n_layers"], model["n_heads"], lookup.cut_units(variant))
    gamma = float(variant["gamma"])
    settings = {
        "variant": variant["variant"],
        "target_axis": variant["target_axis"] or None,
        "gamma": gamma if math.isfinite(gamma) else None,
        "selection_seed": int(variant["seed"]) if variant["seed"] >= 0 else None,
        "estimator": request["estimator"],
        "reading": request.get("reading"),
        "ablation": request.get("ablation", "zero"),
        "seeds": request["seeds"],
        "first_seed": request.get("first_seed", request.get("seed")),
        "judge": run.meta["judge"]["name"],
        "prompts": run.meta["prompts"]["digest"],
    }
    return MaskRecord(
        model=model["name"],
        revision=model.get("revision"),
        weight_hash=model["weight_hash"],
        n_layers=mask.n_layers,
        n_heads=mask.n_heads,
        units=mask.cut,
        method=variant["method"],
        settings=settings,
        asked=float(variant["sparsity"]),
        realised=mask.sparsity,
        run=run.id,
        created=run.meta["created"],
        means=_means(run, mask),
    )


def _means(run: Run, mask: HeadMask) -> tuple[tuple[float, ...], ...]:
    """What the cut heads hand over in a run with mean ablation, else an empty tuple."""
    if "head_means" not in run.meta["tables"]:
        return ()
    table = run.table("head_means").set_index("unit")
    rows = table.loc[[layer * mask.n_heads + head for layer, head in mask.cut]].to_numpy()
    return tuple(tuple(map(float, row)) for row in rows)
