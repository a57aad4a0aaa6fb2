"""mask.json of reported variants: which heads to cut, of which model, chosen how."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from engine.errors import Fault, RequestError
from engine.export.contents import variant_row
from engine.export.panels import lookup
from engine.store.runs import Run
from engine.surgery.record import MaskRecord, write_mask
from engine.types import HeadMask, digest_of


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
    """What the cut heads hand over in a run with mean ablation; else nothing."""
    if "head_means" not in run.meta["tables"]:
        return ()
    table = run.table("head_means").set_index("unit")
    rows = table.loc[[layer * mask.n_heads + head for layer, head in mask.cut]].to_numpy()
    return tuple(tuple(map(float, row)) for row in rows)


def write_masks(run: Run, folder: Path, variant: str | None = None) -> list[Path]:
    """One file per reported variant that cuts something, or only the named one, which must cut something."""
    if variant is not None:
        rows = [variant_row(run, variant)]
        if rows[0]["n_cut"] == 0:
            raise RequestError(Fault("variant", f"{variant!r} cuts nothing.", "Choose one with a sparsity above 0."))
    else:
        rows = [row for row in lookup.reported(run).to_dict("records") if row["n_cut"] > 0]
    return [write_mask(folder / f"{file_name(row['variant'])}.mask.json", mask_record(run, row)) for row in rows]


def file_name(variant: str) -> str:
    """A plain file name from a variant id."""
    name = "".join(letter if letter.isalnum() or letter in "-_.," else "_" for letter in variant)
    name = name.replace("..", "_").lstrip(".")[:100] or "variant"
    return name if name == variant else f"{name}-{digest_of(variant)[:6]}"  # two names must not become one file
