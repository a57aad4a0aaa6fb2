"""mask.json of one seed's text classifier: which heads are cut, of which model, chosen and trained
how."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.core.errors import Fault, RequestError
from engine.core.types import HeadMask
from engine.store.runs import Run
from engine.surgery.heads.record import MaskRecord, write_mask

SETTINGS = (
    "first_seed",
    "step",
    "score_settings",
    "score_texts",
    "length_filter",
    "max_length",
    "tune",
)
"""Fields of the request that decide which heads are cut and what the cut model is worth."""


def text_record(run: Run, variant: dict[str, Any]) -> MaskRecord:
    """The record of one seed's row of the variants table. RequestError for a row that is no seed's,
    or cuts nothing."""
    if not variant["cut"] or not variant["n_cut"]:
        what = "cuts nothing." if variant["method"] == "dense" else "stands for several seeds."
        raise RequestError(
            Fault(
                "variant",
                f"{variant['variant']!r} {what}",
                "Choose that of a seed, such as one ending in #0.",
            )
        )
    model, request = run.meta["model"], run.meta["request"]
    mask = HeadMask.from_units(model["n_layers"], model["n_heads"], json.loads(variant["cut"]))
    retrained = bool(variant["retrained"])
    settings = {
        "variant": variant["variant"],
        "seed": int(variant["seed"]),
        "procedure": str(variant["base"]),
        "score": str(variant["score"]),
        "trained": "from the pre-trained weights, after the cut" if retrained else "before the cut",
        "pretrained_hash": model.get("pretrained_hash"),
        "data": run.meta["data"]["digest"],
        **{name: request[name] for name in SETTINGS if name in request},
    }
    return MaskRecord(
        model=model["name"],
        revision=model.get("revision"),
        weight_hash=model["weight_hash"],
        n_layers=mask.n_layers,
        n_heads=mask.n_heads,
        units=mask.cut,
        method=str(variant["method"]),
        settings=settings,
        asked=float(variant["sparsity"]),
        realised=mask.sparsity,
        run=run.id,
        created=run.meta["created"],
    )


def write_text_mask(run: Run, variant: dict[str, Any], path: Path) -> Path:
    """mask.json of one seed's model."""
    return write_mask(path, text_record(run, variant))
