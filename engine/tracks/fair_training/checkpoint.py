"""A model of fair training as weights, ready to load: really cut, or whole with zeros; checked
against its answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.classifiers.images.checkpoint import (
    answers_agree,
    dense_classifier,
    record_of,
    write_cut,
)
from engine.classifiers.tables import first_repeat, hold_or_refuse, kept_weights, not_one_cut
from engine.core.errors import MaskError
from engine.core.files import empty_folder, write_json
from engine.core.types import Values
from engine.report.charts import lookup
from engine.report.one_input import PictureAsk
from engine.store.runs import Run
from engine.surgery.record import FilterRecord
from engine.tracks.fair_training import words as own


def write_checkpoint(
    run: Run, variant: Values, folder: Path, base: str | None = None
) -> list[Path]:
    """Below `folder`, for filters what `load_cut_classifier` reads; for weights a model folder and
    mask.json.

    A pooled variant stands for its first seed. RequestError where the weights of this seed were not
    kept or the model is not the run's. MaskError where the reloaded model does not answer as the
    audit says, or its zeros are not there.
    """
    seed = first_repeat(run, variant)
    arrays = kept_weights(run, seed["variant"])
    if seed["units"] != WEIGHTS and seed["n_cut"]:
        record = fair_record(run, seed)
        return write_cut(run, seed["variant"], record, dense_classifier(run, base), arrays, folder)
    return _whole(run, seed, arrays, folder, dense_classifier(run, base))


def _whole(
    run: Run, seed: Values, arrays: dict[str, np.ndarray], folder: Path, dense: Any
) -> list[Path]:
    """The dense architecture with the trained weights, zeros among them, in `folder`: the files
    written.

    seed: the row of the variants table; arrays: weights by name, in the full shapes of the dense
    model.
    """
    from engine.models.load_image_classifier import load_classifier, save_classifier
    from engine.models.state_dicts import state_hash
    from engine.surgery.filters.graph import with_weights

    zeros = sum(int((array == 0).sum()) for array in arrays.values())
    if zeros < seed["n_cut"]:
        raise MaskError(
            f"{seed['variant']} must have {seed['n_cut']:.0f} zeros and has {zeros}; nothing was"
            " kept."
        )
    folder = empty_folder(folder)
    trained = replace(with_weights(dense, arrays), target=run.data.get("target", ""))
    save_classifier(trained, folder)
    if seed["n_cut"]:
        write_json(folder / "mask.json", weights_record(run, seed))
    again = load_classifier(str(folder), device="cpu")
    same = state_hash(trained.model.state_dict()) == state_hash(
        again.model.state_dict()
    )  # batch counters left out
    found = {"same_weights": same, "zero_parameters": zeros}
    hold_or_refuse(folder, {**found, **answers_agree(run, seed["variant"], again)})
    return sorted(folder.iterdir())


# mask.json of one seed of fair training: filters that are cut, or weights that are zero and
# stay. No torch.


SCHEMA = 1
WEIGHTS = "weights"
SETTINGS = ("first_seed", "iterations", "recipe", "tolerance", "notion", "tune_on")
"""Fields of the request that decide which units are cut and what the model is worth."""


def mask_record(run: Run, variant: Values) -> FilterRecord | Values:
    """Filters: as `apply` reads it. Weights: where they came from and how many of each layer are
    left.

    RequestError for a row that is no seed's, or cuts nothing.
    """
    _must_be_a_seed(variant)
    return (weights_record if variant["units"] == WEIGHTS else fair_record)(run, variant)


def fair_record(run: Run, variant: Values) -> FilterRecord:
    """The record of one seed's row of the variants table whose units are filters."""
    _must_be_a_seed(variant)
    return record_of(
        run,
        variant,
        method=str(variant["method"]),
        settings=_settings(run, variant),
        achieved_speedup=float(variant["speedup"]),
    )


def weights_record(run: Run, variant: Values) -> Values:
    """The record of one seed's row whose units are weights, JSON-able: the zeros themselves are in
    the checkpoint."""
    model = run.model
    return {
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


def _layers(run: Run, variant: str) -> list[Values]:
    table = lookup.table(run, "layers", "variant layer")
    rows = table[table["variant"] == variant].sort_values("layer")
    return [
        {"layer": str(row.group), "weights": int(row.filters), "kept": int(row.kept)}
        for row in rows.itertuples()
    ]


def _settings(run: Run, variant: Values) -> dict[str, Any]:
    request, data = run.request, run.data
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


def _must_be_a_seed(variant: Values) -> None:
    if not (variant["n_cut"] and variant["seed"] >= 0):
        raise not_one_cut(variant, "seed")


# What the starting model and a trained one answer to an image, and where each of them looks.


class TrainedPicture(PictureAsk):
    """Of filters that are cut, and of weights that are zero; either way as trained."""

    name = "trained picture"

    def cut(self, run: Run, variant: Values, dense: Any, arrays: dict[str, Any]) -> Any:
        from engine.classifiers.images.checkpoint import cut_with  # torch
        from engine.surgery.filters.graph import with_weights

        whole = variant["units"] == WEIGHTS or not variant["n_cut"]
        return (
            with_weights(dense, arrays)
            if whole
            else cut_with(dense, fair_record(run, variant), arrays)
        )
