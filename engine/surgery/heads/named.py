"""Sets of heads as people name them: words, units, a mask.json; read for the model of a run. No
torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.core.errors import Fault, RequestError
from engine.core.types import HeadMask
from engine.store.runs import Run
from engine.surgery.heads.record import read_mask


def heads_of(words: Sequence[Any], n_layers: int, n_heads: int) -> HeadMask:
    """A mask from heads by layer and head ("2.3") or as units (19, "19"). RequestError for what is
    none."""
    found, faults = [], []
    for word in words:
        match = re.fullmatch(r"\s*(?:(\d{1,9})\.)?(\d{1,9})\s*", str(word))
        if match is None or isinstance(word, bool):
            fix = (
                "Write layer.head, as in 2.3, both from 0, or the head's number in the whole model."
            )
            faults.append(Fault("heads", f"{str(word)[:40]!r} is no head.", fix))
        else:
            found.append(
                (int(match[1]), int(match[2])) if match[1] else divmod(int(match[2]), n_heads)
            )
    if faults:
        raise RequestError(faults[:10])
    try:
        return HeadMask(n_layers, n_heads, tuple(found))
    except ValueError as error:
        raise RequestError(
            Fault("heads", f"{error}.", "Name heads of this model, once each.")
        ) from error


def units_of(run: Run, said: str | Path) -> tuple[int, ...]:
    """Flat units of a mask.json (a path), or of words: "0.1,2.3" is head 1 of layer 0 and head 3 of
    layer 2."""
    if isinstance(said, Path):
        return units_of_mask(run, said)
    model = run.meta["model"]
    return heads_of(
        re.split(r"[\s,;]+", said.strip(" ,;")) if said else (), model["n_layers"], model["n_heads"]
    ).units


def units_of_mask(run: Run, path: str | Path) -> tuple[int, ...]:
    """Flat units of a mask.json. RequestError unless it was made for the very model of the run,
    silenced alike."""
    record, model = read_mask(path), run.meta["model"]
    shape, known = (record.n_layers, record.n_heads), (model["n_layers"], model["n_heads"])
    if shape != known or record.weight_hash != model["weight_hash"]:
        what = (
            f"is for {record.model} with other weights or another shape than {model['name']} of"
            " this run."
        )
        raise RequestError(Fault("mask", what, "Give a mask of the model that was audited."))
    if bool(record.means) != (run.meta["request"].get("ablation", "zero") == "mean"):
        what = "sets silenced heads to something else than this run does (zero, or their mean)."
        raise RequestError(
            Fault("mask", what, "Give a mask from an audit with the same --ablation.")
        )
    return record.mask.units


def mask_of(run: Run, cut: Sequence[tuple[int, int]]) -> HeadMask:
    """Heads of the run's model, (layer, head) from 0. RequestError for others."""
    try:
        return HeadMask(run.meta["model"]["n_layers"], run.meta["model"]["n_heads"], tuple(cut))
    except ValueError as error:
        raise RequestError(
            Fault("cut", f"{error}.", "Name heads of this model once each, as (layer, head).")
        ) from error


def mask_of_units(run: Run, units: Sequence[int]) -> HeadMask:
    """The same of flat units."""
    return mask_of(run, [divmod(unit, int(run.meta["model"]["n_heads"])) for unit in units])


def written(run: Run, units: Sequence[int]) -> str:
    """Heads as `units_of` reads them."""
    n_heads = int(run.meta["model"]["n_heads"])
    return ",".join(f"{unit // n_heads}.{unit % n_heads}" for unit in units)
