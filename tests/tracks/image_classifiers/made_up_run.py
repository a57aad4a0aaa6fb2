"""A made-up finished run of the image track for tests of screens and exports. Nothing in it was
measured on a model.

The answers of every trial are drawn from a latent world in which cutting filters harms blond men
most and the PW loss holds part of that back; groups, gaps and differences are then computed from
those answers by the engine's own statistics, so that the tables agree with each other.
Deterministic.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.images.context import ImageShard
from engine.classifiers.tables import differences_table, weights_table
from engine.core.types import FilterMask, rng
from engine.store.runs import Run, Store
from engine.tracks.image_classifiers.measurements.trial import chosen_shard
from engine.tracks.image_classifiers.request import Arm, ImageRequest, arms_of
from engine.tracks.image_classifiers.run import (
    _curves,
    _differences,
    _masks,
    _scores,
    _variants,
)
from tests.builders import options_of, shared
from tests.classifiers.made_up_images import (
    FLOPS,
    WIDTHS,
    ImageWorld,
    asked,
    cost_row,
    draw_image_world,
    made_up_meta,
    measured_tables,
)
from tests.tracks.image_classifiers.made_up_world import (
    ARMS,
    SPEEDUPS,
    SWITCHES,
    answers,
    pick,
    picture,
)

SIZES = [width for _, width in WIDTHS]
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
    world, notes, tables = _computed(computed)
    meta = _meta(replace(world, options=every), tables["groups"], notes)
    return Store(folder).write(run_id, meta, tables)


@shared
def _computed(
    options: tuple[tuple[str, Any], ...],
) -> tuple[ImageWorld, Any, dict[str, pd.DataFrame]]:
    """World, notes and tables of the run with these options."""
    world = draw_image_world(dict(options))
    speedups, request = world.options["speedups"], _request(world)
    arms = [arm for arm in arms_of(request) if arm.name in ARMS or arm.speedup in speedups[-2:]]
    context = MadeUp(world)
    tables, measured, notes = measured_tables(
        world, arms, context.dense, context.answers, _masks(context, arms)
    )
    tables |= {
        "variants": _variants(context, arms),
        "arm_differences": differences_table(
            _differences(measured), "base", "loss", "speedup", rates=False
        ),
        "thumbs": _thumbs(context, arms),
        "scores": _scores(context, arms),
        "costs": _costs(arms),
        "curves": _curves(context, request, arms),
        "weights": weights_table(
            (arm.id_of(arm.shards()[0]), {"conv1.weight": np.float32([1, 2])}) for arm in arms
        ),
    }
    if world.options["loss_share"]:
        tables["loss_share"] = _loss_share(world)
    return world, notes, tables


class MadeUp:
    """What the engine asks of finished trials, made up."""

    graph = SimpleNamespace(
        flops=lambda: FLOPS,
        mask=lambda keep: FilterMask.from_keep(WIDTHS, keep),
        total=sum(SIZES),
        group_of=np.repeat(np.arange(len(SIZES)), SIZES),
        groups=[
            SimpleNamespace(root=name, start=sum(SIZES[:place]))
            for place, (name, _) in enumerate(WIDTHS)
        ],
    )

    def __init__(self, world: ImageWorld) -> None:
        self.world = world
        self.answers = cache(partial(answers, world))
        self.dense = self.answers(ImageShard(""))

    def without_weights(self, shard: ImageShard) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and what else is known of one trial, or of its choice of filters."""
        keep, scores = pick(chosen_shard(shard))
        gain = 1 + 0.03 * rng("synthetic speedup", *shard.own).normal()
        steps, top = np.arange(10), 0.9 if shard.kind == "chosen" else 0.6
        noise = rng("synthetic curve", shard.kind, *shard.own).random(len(steps))
        cut = self.graph.mask(keep).to_dict()
        return {
            "keep": keep,
            "scores": scores,
            "probabilities": self.answers(shard),
            "curve/step": steps,
            "curve/loss": top * np.exp(-steps / 5) + 0.02 * noise,
        }, {
            "flops": FLOPS / shard.speedup / gain,
            "met": abs(1 / gain - 1) <= 1e-3,
            "history": [[group, True, indices] for group, indices in cut.items()],
            "max_logit_difference": 0.0,
        }


def _thumbs(context: MadeUp, arms: list[Arm]) -> pd.DataFrame:
    world, dense = context.world, context.dense.argmax(1)
    changed = np.zeros(len(dense), dtype=bool)
    for arm in arms:
        changed |= context.answers(arm.shards()[0]).argmax(1) != dense
    rows = np.flatnonzero(changed)[:200]
    return pd.DataFrame(
        {
            "image_id": world.images["image_id"].iloc[rows].to_numpy(),
            "png": [picture(world, int(row)) for row in rows],
        }
    )


def _costs(arms: list[Arm]) -> pd.DataFrame:
    rows = [cost_row("dense", 1.0, 1.0, 270_000, 0.0)]
    for arm in arms:
        speedup = arm.speedup
        gain = speedup**0.55 * (1 + 0.04 * rng("synthetic cost", arm.pooled).normal())
        rows.append(cost_row(arm.pooled, speedup, gain, int(270_000 / speedup**0.9), 3e-6))
    return pd.DataFrame(rows)


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


def _request(world: ImageWorld) -> ImageRequest:
    options = world.options
    return ImageRequest(
        **asked(world),
        methods=(*ARMS, *(SWITCHES if options["switches"] else ())),
        speedups=options["speedups"],
        trials=options["trials"],
        loss_share=40 * bool(options["loss_share"]),
    )


def _meta(world: ImageWorld, groups: pd.DataFrame, notes: tuple[str, ...]) -> dict[str, Any]:
    model = {"units": "heads"} if world.options["heads"] else {}
    return made_up_meta(world, groups, notes, _request(world), model, {})
