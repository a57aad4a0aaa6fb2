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
    hold_or_refuse,
    write_cut,
)
from engine.classifiers.stored_weights import first_repeat, kept_weights
from engine.core.errors import Fault, MaskError, RequestError
from engine.core.files import explained, write_json
from engine.store.runs import Run
from engine.tracks.fair_training.masks import WEIGHTS, fair_record, weights_record


def write_fair_checkpoint(
    run: Run, variant: dict[str, Any], folder: Path, base: str | None = None
) -> list[Path]:
    """Below `folder`, for filters what `load_cut_classifier` reads; for weights a model folder and
    mask.json.

    A pooled variant stands for its first seed. RequestError where the weights of this seed were not
    kept or the model is not the run's; MaskError where the reloaded model does not answer as the
    audit says, or its zeros are not there.
    """
    seed = first_repeat(run, variant)
    arrays = kept_weights(run, seed["variant"])
    if seed["units"] != WEIGHTS and seed["n_cut"]:
        record = fair_record(run, seed)
        return write_cut(run, seed["variant"], record, dense_classifier(run, base), arrays, folder)
    return _whole(run, seed, arrays, folder, dense_classifier(run, base))


def _whole(
    run: Run, seed: dict[str, Any], arrays: dict[str, np.ndarray], folder: Path, dense: Any
) -> list[Path]:
    """The dense architecture with the trained weights, zeros among them, in `folder`: the files
    written.

    seed: the row of the variants table; arrays: weights by name, in the full shapes of the dense
    model.
    """
    from engine.models.load_image_classifier import load_classifier, save_classifier, state_hash
    from engine.surgery.filters.weights import with_weights

    zeros = sum(int((array == 0).sum()) for array in arrays.values())
    if zeros < seed["n_cut"]:
        raise MaskError(
            f"{seed['variant']} must have {seed['n_cut']:.0f} zeros and has {zeros}; nothing was"
            " kept."
        )
    folder = Path(folder).expanduser()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RequestError(
            Fault("to", f"{folder} is not an empty folder.", "Choose another folder.")
        )
    with explained(folder, "folder"):
        folder.mkdir(parents=True, exist_ok=True)
    trained = replace(with_weights(dense, arrays), target=run.meta["data"].get("target", ""))
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
