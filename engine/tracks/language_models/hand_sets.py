"""Sets of heads that a person chose: which model they are of, what they are called, how many were tried. No torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from engine.audit.tracks import request_from
from engine.core.errors import Fault, RequestError
from engine.core.types import HeadMask
from engine.report.charts import lookup
from engine.store.runs import Run
from engine.surgery.heads.record import read_mask
from engine.tracks.language_models.playground import heads_of
from engine.tracks.language_models.request import PromptPlan, validate
from engine.tracks.language_models.words import PREFIX, is_by_hand


def name_of(mask: HeadMask, name: str = "") -> str:
    """The variant of a set, and its method: by its name, else by its heads."""
    return f"{PREFIX}{name or mask.digest[:8]}"


def kept_name(run: Run, units: Sequence[int]) -> str:
    """What a set that was kept is called, "" where it was not: measured on another axis it is the same variant."""
    rows = [row for row in lookup.reported(run).to_dict("records") if is_by_hand(row["method"])]
    found = (row["method"] for row in rows if lookup.cut_units(row) == sorted(units))
    return next(found, "").removeprefix(PREFIX)


def tried(run: Run) -> int:
    """How many sets of heads were tried by hand on this run: the more, the better the best looks by chance."""
    variants = lookup.frame(run, "variants")
    return int(variants.loc[variants["method"].map(is_by_hand), "cut"].nunique())


def units_of(run: Run, said: str | Path) -> tuple[int, ...]:
    """Flat units of a mask.json (a path), or of words: "0.1,2.3" is head 1 of layer 0 and head 3 of layer 2."""
    if isinstance(said, Path):
        return units_of_mask(run, said)
    model = run.meta["model"]
    return heads_of(re.split(r"[\s,;]+", said.strip(" ,;")) if said else (), model["n_layers"], model["n_heads"]).units


def units_of_mask(run: Run, path: str | Path) -> tuple[int, ...]:
    """Flat units of a mask.json. RequestError unless it was made for the very model of the run, silenced alike."""
    record, model = read_mask(path), run.meta["model"]
    shape, known = (record.n_layers, record.n_heads), (model["n_layers"], model["n_heads"])
    if shape != known or record.weight_hash != model["weight_hash"]:
        what = f"is for {record.model} with other weights or another shape than {model['name']} of this run."
        raise RequestError(Fault("mask", what, "Give a mask of the model that was audited."))
    if bool(record.means) != (run.meta["request"].get("ablation", "zero") == "mean"):
        what = "sets silenced heads to something else than this run does (zero, or their mean)."
        raise RequestError(Fault("mask", what, "Give a mask from an audit with the same --ablation."))
    return record.mask.units


def mask_of(run: Run, cut: Sequence[tuple[int, int]]) -> HeadMask:
    """Heads of the run's model, (layer, head) from 0. RequestError for others."""
    try:
        return HeadMask(run.meta["model"]["n_layers"], run.meta["model"]["n_heads"], tuple(cut))
    except ValueError as error:
        raise RequestError(
            Fault("cut", f"{error}.", "Name heads of this model once each, as (layer, head).")
        ) from error


def plan_of(run: Run) -> PromptPlan:
    """What the run was asked, checked again. RequestError where it would not be the same run today."""
    plan = validate(request_from(run.meta["request"]))
    if plan.run_id != run.id:
        what = f"{run.id} rests on other data, weights or code than are here now: the same request is {plan.run_id}."
        raise RequestError(Fault("run", what, "Audit again, and measure on that run."))
    return plan
