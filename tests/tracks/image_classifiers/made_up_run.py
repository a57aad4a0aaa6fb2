"""A made-up finished run of the image track for tests of screens and exports. Nothing in it was
measured on a model.

The answers of every trial are drawn from a latent world in which cutting filters harms blond men
most and the PW loss holds part of that back; groups, gaps and differences are then computed from
those answers by the engine's own statistics, so that the tables agree with each other.
Deterministic.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.groups import Arm, GroupMeasure, arm_difference
from engine.core.ids import rng
from engine.store.runs import Run, Store
from engine.store.tables import where
from tests.builders import hash_of, options_of
from tests.classifiers.made_up_images import CLASSES, FLOPS, WIDTHS, ImageWorld, draw_image_world
from tests.tracks.image_classifiers.made_up_world import (
    ARMS,
    SPEEDUPS,
    SWITCHES,
    answers,
    dense_answers,
    pick,
    picture,
    variant_rows,
)

DRAWS = 30
SAID = ("title", "created", "heads")
FEW = {"images": 120, "trials": 2, "speedups": (2.0, 8.0), "switches": False, "loss_share": False}
"""Options of a small run."""


def make_run(folder: Path | str, run_id: str = "image-run", **options: Any) -> Run:
    """Write the made-up run below the store `folder` and return it.

    Options: pw_helps (True; False: the PW loss changes nothing); hostile (names of groups and of
    one axis are HTML and Markdown); switches (True: the ablation's arms, at two speedups);
    loss_share (True); images (300) and trials (3); speedups; weights (the table of retrained
    weights); heads (False: units are filters); created (ISO time); title; stream (re-draws all).
    Numbers are computed once per process for the same options, whatever the title and the time.
    """
    usual = {
        "pw_helps": True,
        "hostile": False,
        "switches": True,
        "loss_share": True,
        "images": 300,
        "trials": 3,
    }
    more = {
        "speedups": SPEEDUPS,
        "weights": True,
        "created": "2026-02-01T12:00:00+00:00",
        "stream": 0,
    }
    more |= {"heads": False}
    more["title"] = "Synthetic image run (made-up numbers, for tests)"
    every = options_of(options, {**usual, **more})
    world, arms, notes, tables = _computed(
        tuple(item for item in every.items() if item[0] not in SAID)
    )
    return Store(folder).write(
        run_id, _meta(replace(world, options=every), arms, tables["groups"], notes), tables
    )


@cache
def _computed(
    options: tuple[tuple[str, Any], ...],
) -> tuple[ImageWorld, dict[str, Any], Any, dict[str, pd.DataFrame]]:
    """World, arms with their speedups, notes and tables of the run with these options."""
    world = draw_image_world(dict(options))
    arms = {arm: tuple(world.options["speedups"]) for arm in ARMS}
    if world.options["switches"]:
        arms |= {arm: tuple(world.options["speedups"])[-2:] for arm in SWITCHES}
    measure = GroupMeasure(
        world.images, CLASSES, world.axes, dense_answers(world), n_boot=DRAWS, n_permutations=DRAWS
    )
    measured = {
        (arm, speedup): measure.variant(_trials(world, arm, speedup))
        for arm in arms
        for speedup in arms[arm]
    }
    results, groups = _numbers(measure, measured)
    tables = {
        "variants": variant_rows(world, arms),
        "results": results,
        "groups": groups,
        "arm_differences": _differences(measured),
        "images": world.images,
        "predictions": _predictions(world, arms),
        "thumbs": _thumbs(world, arms),
        "scores": _scores(world, arms),
        "layers": _layers(world, arms),
        "costs": _costs(arms),
        "curves": _curves(world, arms),
    }
    if world.options["loss_share"]:
        tables["loss_share"] = _loss_share(world)
    if world.options["weights"]:
        tables["weights"] = _weights(arms)
    return world, arms, measure.notes, tables


def _trials(world: ImageWorld, arm: str, speedup: float) -> list[np.ndarray]:
    return [answers(world, arm, speedup, trial) for trial in range(world.options["trials"])]


def _numbers(
    measure: GroupMeasure, measured: dict[tuple[str, float], Arm]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    parts = [measure.dense()]
    for (arm, speedup), mine in measured.items():
        parts.append(mine.pooled(f"{arm}-{speedup:g}x"))
        parts += [mine.trial(trial, f"{arm}-{speedup:g}x#{trial}") for trial in mine.trials.numbers]
    return tuple(
        pd.concat([getattr(part, name) for part in parts], ignore_index=True)
        for name in ("results", "groups")
    )


def _differences(measured: dict[tuple[str, float], Arm]) -> pd.DataFrame:
    """Every arm minus the plain arm of its method."""
    parts = []
    for (arm, speedup), mine in measured.items():
        base, _, loss = arm.partition("+")
        if loss:
            table = arm_difference(mine, measured[base, speedup])
            table = table[table["metric"].isin(("auc", "accuracy", "auc_gap", "accuracy_gap"))]
            parts.append(
                table.assign(
                    base=base, loss=loss, speedup=speedup, n_trials=len(mine.trials.numbers)
                )
            )
    names = "base loss speedup axis metric group value low high p n n_trials verdict"
    return pd.concat(parts, ignore_index=True)[names.split()]


def _predictions(world: ImageWorld, arms: dict[str, tuple[float, ...]]) -> pd.DataFrame:
    parts = [("dense", dense_answers(world))]
    for arm, speedups in arms.items():
        for speedup in speedups:
            parts += [
                (f"{arm}-{speedup:g}x#{trial}", found)
                for trial, found in enumerate(_trials(world, arm, speedup))
            ]
    return pd.concat(
        [
            pd.DataFrame(found.astype(np.float32), columns=["p_0", "p_1"]).assign(
                variant=name, image_id=world.images["image_id"]
            )[["variant", "image_id", "p_0", "p_1"]]
            for name, found in parts
        ],
        ignore_index=True,
    )


def _thumbs(world: ImageWorld, arms: dict[str, tuple[float, ...]]) -> pd.DataFrame:
    dense, changed = dense_answers(world).argmax(1), np.zeros(len(world.images), dtype=bool)
    for arm, speedups in arms.items():
        for speedup in speedups:
            changed |= answers(world, arm, speedup, 0).argmax(1) != dense
    rows = np.flatnonzero(changed)[:200]
    return pd.DataFrame(
        {
            "image_id": world.images["image_id"].iloc[rows].to_numpy(),
            "png": [picture(world, int(row)) for row in rows],
        }
    )


def _scores(world: ImageWorld, arms: dict[str, tuple[float, ...]]) -> pd.DataFrame:
    names = [group for group, width in WIDTHS for _ in range(width)]
    layer = np.repeat(np.arange(len(WIDTHS)), [width for _, width in WIDTHS])
    filters = np.concatenate([np.arange(width) for _, width in WIDTHS])
    parts = []
    for arm, speedups in arms.items():
        for speedup in speedups:
            for trial in range(world.options["trials"]):
                mask, values = pick(arm, speedup, trial)
                parts.append(
                    pd.DataFrame(
                        {
                            "unit": np.arange(len(names)),
                            "layer": layer,
                            "group": names,
                            "filter": filters,
                            "method": arm,
                            "speedup": speedup,
                            "seed": trial,
                            "value": values.astype(np.float32),
                            "kept": mask.keep(),
                        }
                    )
                )
    return pd.concat(parts, ignore_index=True)


def _layers(world: ImageWorld, arms: dict[str, tuple[float, ...]]) -> pd.DataFrame:
    rows = []
    for arm, speedups in arms.items():
        for speedup in speedups:
            for trial in range(world.options["trials"]):
                gone = dict(pick(arm, speedup, trial)[0].cut)
                rows += [
                    (
                        f"{arm}-{speedup:g}x#{trial}",
                        place,
                        group,
                        width,
                        width - len(gone.get(group, ())),
                    )
                    for place, (group, width) in enumerate(WIDTHS)
                ]
    return pd.DataFrame(rows, columns=["variant", "layer", "group", "filters", "kept"])


def _costs(arms: dict[str, tuple[float, ...]]) -> pd.DataFrame:
    rows = [_cost("dense", 1.0, 0.0)]
    rows += [
        _cost(f"{arm}-{speedup:g}x", speedup, 3e-6)
        for arm, speedups in arms.items()
        for speedup in speedups
    ]
    return pd.DataFrame(rows)


def _cost(variant: str, speedup: float, difference: float) -> dict[str, Any]:
    gain = (
        speedup**0.55 * (1 + 0.04 * rng("synthetic cost", variant).normal()) if speedup > 1 else 1.0
    )
    parameters = int(270_000 / speedup**0.9)
    return {
        "variant": variant,
        "flops": FLOPS / speedup,
        "parameters": parameters,
        "bytes": 4 * parameters,
    } | {
        "latency_ms": 9.4 / gain,
        "latency_low": 9.1 / gain,
        "latency_high": 9.9 / gain,
        "dense_latency_ms": 9.4,
        "speedup": gain,
        "speedup_low": 0.95 * gain,
        "speedup_high": 1.06 * gain,
        "theoretical": speedup,
        "n": 20,
        "max_logit_difference": difference,
        "agrees": True,
    }


def _curves(world: ImageWorld, arms: dict[str, tuple[float, ...]]) -> pd.DataFrame:
    steps = np.arange(10)
    parts = []
    for arm, speedups in arms.items():
        for trial in range(world.options["trials"]):
            name = f"{arm}-{speedups[0]:g}x#{trial}"
            for phase, top in (("prune", 0.9), ("retrain", 0.6)):
                loss = top * np.exp(-steps / 5) + 0.02 * rng("synthetic curve", name, phase).random(
                    len(steps)
                )
                parts.append(
                    pd.DataFrame({"variant": name, "phase": phase, "step": steps, "loss": loss})
                )
    return pd.concat(parts, ignore_index=True).assign(flops=np.nan)


def _loss_share(world: ImageWorld) -> pd.DataFrame:
    """Blond men's share of the loss grows with the PW loss."""
    men, others = world.name("male"), world.name("non-male")
    usual = {(men, 0): 0.26, (men, 1): 0.09, (others, 0): 0.33, (others, 1): 0.32}
    rows = []
    for arm in ("autobot", "autobot+pw", "taylor", "taylor+pw"):
        for trial in range(world.options["trials"]):
            draw = rng("synthetic loss share", arm, trial)
            for step in range(40):
                share = np.array(list(usual.values())) + 0.03 * draw.normal(size=4)
                share[1] += 0.12 * ("pw" in arm)
                share = np.clip(share, 0.01, None) / np.clip(share, 0.01, None).sum()
                rows += [
                    (
                        arm,
                        arm.partition("+")[0],
                        arm.partition("+")[2] or "plain",
                        trial,
                        step,
                        world.axes[0],
                        *cell,
                        value,
                        16,
                    )
                    for cell, value in zip(usual, share, strict=True)
                ]
    names = ["method", "base", "loss", "trial", "step", "axis", "group", "label", "share", "n"]
    return pd.DataFrame(rows, columns=names)


def _weights(arms: dict[str, tuple[float, ...]]) -> pd.DataFrame:
    """Stand-ins for weights: a few bytes each."""
    rows = [
        (f"{arm}-{speedup:g}x#0", "conv1.weight", "[2]", "<f4", np.float32([1, 2]).tobytes())
        for arm, speedups in arms.items()
        for speedup in speedups
    ]
    return pd.DataFrame(rows, columns=["variant", "name", "shape", "dtype", "data"])


def _meta(
    world: ImageWorld,
    arms: dict[str, tuple[float, ...]],
    groups: pd.DataFrame,
    notes: tuple[str, ...],
) -> dict[str, Any]:
    options = world.options
    dense = where(groups, variant="dense", metric="accuracy")
    stand_in = "Drawn faces, not photographs: a stand-in for images of people."
    request = {
        "track": "image_classifiers",
        "model": "demo-resnet",
        "data": "avatars",
        "axes": list(world.axes),
        "target": "blond",
        "weights": None,
        "size": None,
        "max_images": None,
        "changes": [],
        "methods": list(arms),
        "method_settings": {},
        "pw": {},
        "speedups": list(options["speedups"]),
        "trials": options["trials"],
        "first_seed": 0,
        "retrain": {},
        "train": None,
        "mirror": True,
        "keep_weights": "first",
        "loss_share": 40 * bool(options["loss_share"]),
        "device": "cpu",
        "experiment": "",
        "title": "",
    }
    model = {
        "name": "synthetic-resnet",
        "architecture": "resnet20",
        "revision": None,
        "weight_hash": hash_of("weights"),
        "starting_weight_hash": hash_of("weights"),
        "classes": list(CLASSES),
        "n_groups": len(WIDTHS),
        "n_filters": sum(width for _, width in WIDTHS),
        "layers": [list(pair) for pair in WIDTHS],
        "kept_whole": [],
        "parameters": 270_000,
        "flops": FLOPS,
        "size": 48,
        **({"units": "heads"} if options["heads"] else {}),
    }
    data = {
        "name": "synthetic faces",
        "digest": hash_of("images", options["stream"], options["images"]),
        "notes": [],
        "stand_in": stand_in,
        "target": "blond",
        "classes": list(CLASSES),
        "groups": list(world.axes[:2]),
        "counts": {f"{row.split}/{row.axis}/{row.group}": int(row.n) for row in dense.itertuples()},
        "images": {"test": options["images"], "train": 4 * options["images"]},
    }
    return {
        "track": "image_classifiers",
        "experiment": "",
        "created": options["created"],
        "title": options["title"],
        "request": request,
        "model": model,
        "data": data,
        "provenance": {
            "versions": {"python": "3.11", "torch": "2.13.0"},
            "device": "cpu",
            "dtype": "float32",
            "code": {"trial": 1},
        },
        "warnings": [stand_in, "Synthetic run: every number is made up.", *notes],
        "spent": {"load": 0.4, "cut and retrain": 61.0, "measure": 5.2},
    }
