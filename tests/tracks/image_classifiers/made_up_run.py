"""A made-up finished run of the image track for tests of screens and exports. Nothing in it was
measured on a model.

The answers of every trial are drawn from a latent world in which cutting filters harms blond men
most and the PW loss holds part of that back; groups, gaps and differences are then computed from
those answers by the engine's own statistics, so that the tables agree with each other.
Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.groups import Arm, arm_difference
from engine.classifiers.tables import differences_table, weights_table
from engine.core.types import rng
from engine.store.runs import Run, Store
from engine.tracks.image_classifiers.request import ImageRequest
from tests.builders import options_of, shared
from tests.classifiers.made_up_images import (
    WIDTHS,
    ImageWorld,
    MadeArm,
    asked,
    cost_row,
    draw_image_world,
    made_up_meta,
    measured_tables,
    widths_after,
)
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

DIFFERENCES = ("auc", "accuracy", "auc_gap", "accuracy_gap")
FEW = {"images": 120, "trials": 2, "speedups": (2.0, 8.0), "switches": False, "loss_share": False}
"""Options of a small run."""


def make_run(folder: Path | str, run_id: str = "image-run", **options: Any) -> Run:
    """Write the made-up run below the store `folder` and return it.

    Options: pw_helps (True; False: the PW loss changes nothing); switches (True: the ablation's
    arms, at two speedups); loss_share (True); images (300) and trials (3); speedups; heads (False:
    units are filters); created (ISO time); title; stream (re-draws all). Numbers are computed once
    per process for the same options, whatever the title and the time.
    """
    title = "Synthetic image run (made-up numbers, for tests)"
    every, computed = options_of(
        options,
        {"title": title, "created": "2026-02-01T12:00:00+00:00", "heads": False},
        pw_helps=True,
        switches=True,
        loss_share=True,
        images=300,
        trials=3,
        speedups=SPEEDUPS,
        stream=0,
    )
    world, arms, notes, tables = _computed(computed)
    return Store(folder).write(
        run_id, _meta(replace(world, options=every), arms, tables["groups"], notes), tables
    )


@shared
def _computed(
    options: tuple[tuple[str, Any], ...],
) -> tuple[ImageWorld, tuple[str, ...], Any, dict[str, pd.DataFrame]]:
    """World, names of arms, notes and tables of the run with these options."""
    world = draw_image_world(dict(options))
    speedups = world.options["speedups"]
    of_arm = {arm: tuple(speedups) for arm in ARMS}
    if world.options["switches"]:
        of_arm |= {arm: tuple(speedups)[-2:] for arm in SWITCHES}
    arms = [
        MadeArm(f"{arm}-{speedup:g}x", (arm, speedup), world.options["trials"])
        for arm in of_arm
        for speedup in of_arm[arm]
    ]
    layers = {name: widths_after(pick(*model)[0]) for arm in arms for name, model in arm.models()}
    tables, measured, notes = measured_tables(
        world, arms, dense_answers(world), lambda model: answers(world, *model), layers
    )
    tables |= {
        "variants": variant_rows(arms),
        "arm_differences": differences_table(
            _differences(measured), "base", "loss", "speedup", rates=False
        ),
        "thumbs": _thumbs(world, arms),
        "scores": _scores(arms),
        "costs": _costs(arms),
        "curves": _curves(arms),
        "weights": weights_table(
            (arm.id_of(arm.shards()[0]), {"conv1.weight": np.float32([1, 2])}) for arm in arms
        ),
    }
    if world.options["loss_share"]:
        tables["loss_share"] = _loss_share(world)
    return world, tuple(of_arm), notes, tables


def _differences(measured: dict[MadeArm, Arm]) -> Iterator[pd.DataFrame]:
    """Every arm minus the plain arm of its method."""
    by_place = {arm.place: mine for arm, mine in measured.items()}
    for (name, speedup), mine in by_place.items():
        base, _, loss = name.partition("+")
        if loss:
            table = arm_difference(mine, by_place[base, speedup])
            yield table[table["metric"].isin(DIFFERENCES)].assign(
                base=base, loss=loss, speedup=speedup, n_trials=len(mine.trials.numbers)
            )


def _thumbs(world: ImageWorld, arms: list[MadeArm]) -> pd.DataFrame:
    dense, changed = dense_answers(world).argmax(1), np.zeros(len(world.images), dtype=bool)
    for arm in arms:
        changed |= answers(world, *arm.shards()[0]).argmax(1) != dense
    rows = np.flatnonzero(changed)[:200]
    return pd.DataFrame(
        {
            "image_id": world.images["image_id"].iloc[rows].to_numpy(),
            "png": [picture(world, int(row)) for row in rows],
        }
    )


def _scores(arms: list[MadeArm]) -> pd.DataFrame:
    names = [group for group, width in WIDTHS for _ in range(width)]
    layer = np.repeat(np.arange(len(WIDTHS)), [width for _, width in WIDTHS])
    filters = np.concatenate([np.arange(width) for _, width in WIDTHS])
    parts = []
    for arm in arms:
        for method, speedup, trial in arm.shards():
            mask, values = pick(method, speedup, trial)
            parts.append(
                pd.DataFrame(
                    {
                        "unit": np.arange(len(names)),
                        "layer": layer,
                        "group": names,
                        "filter": filters,
                        "method": method,
                        "speedup": speedup,
                        "seed": trial,
                        "value": values.astype(np.float32),
                        "kept": mask.keep(),
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)


def _costs(arms: list[MadeArm]) -> pd.DataFrame:
    rows = [cost_row("dense", 1.0, 1.0, 270_000, 0.0)]
    for arm in arms:
        speedup = arm.place[1]
        gain = speedup**0.55 * (1 + 0.04 * rng("synthetic cost", arm.name).normal())
        rows.append(cost_row(arm.name, speedup, gain, int(270_000 / speedup**0.9), 3e-6))
    return pd.DataFrame(rows)


def _curves(arms: list[MadeArm]) -> pd.DataFrame:
    steps = np.arange(10)
    parts = []
    for arm in {arm.place[0]: arm for arm in reversed(arms)}.values():  # the first of each method
        for name, _ in arm.models():
            for phase, top in (("prune", 0.9), ("retrain", 0.6)):
                noise = rng("synthetic curve", name, phase).random(len(steps))
                loss = top * np.exp(-steps / 5) + 0.02 * noise
                parts.append(
                    pd.DataFrame({"variant": name, "phase": phase, "step": steps, "loss": loss})
                )
    return pd.concat(parts, ignore_index=True).assign(flops=np.nan)


def _loss_share(world: ImageWorld) -> pd.DataFrame:
    """Blond men's share of the loss grows with the PW loss."""
    men, others = "male", "non-male"
    usual = {(men, 0): 0.26, (men, 1): 0.09, (others, 0): 0.33, (others, 1): 0.32}
    rows = []
    for arm in ("autobot", "autobot+pw", "taylor", "taylor+pw"):
        base, _, loss = arm.partition("+")
        for trial in range(world.options["trials"]):
            draw = rng("synthetic loss share", arm, trial)
            for step in range(40):
                share = np.array(list(usual.values())) + 0.03 * draw.normal(size=4)
                share[1] += 0.12 * ("pw" in arm)
                share = np.clip(share, 0.01, None)
                here = arm, base, loss or "plain", trial, step, world.axes[0]
                rows += [
                    (*here, *cell, value, 16)
                    for cell, value in zip(usual, share / share.sum(), strict=True)
                ]
    names = ["method", "base", "loss", "trial", "step", "axis", "group", "label", "share", "n"]
    return pd.DataFrame(rows, columns=names)


def _meta(
    world: ImageWorld, arms: tuple[str, ...], groups: pd.DataFrame, notes: tuple[str, ...]
) -> dict[str, Any]:
    options = world.options
    request = ImageRequest(
        **asked(world),
        methods=arms,
        speedups=options["speedups"],
        trials=options["trials"],
        loss_share=40 * bool(options["loss_share"]),
    )
    model = {"units": "heads"} if options["heads"] else {}
    return made_up_meta(world, groups, notes, request, model, {})
