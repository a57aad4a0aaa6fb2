"""A made-up finished run of fair training for tests of screens and exports. Nothing in it was
measured on a model.

Test images are those of tests/classifiers/made_up_images.py. Answers are drawn from a latent world
in which sparser models harm men most, the fairness term holds part of that back, and BiFP holds
back most; groups, gaps and differences are then computed from the answers by the engine's own
statistics. Deterministic.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.tables import (
    UNCUT,
    differences_table,
    over_cuts,
    variant_row,
    weights_table,
)
from engine.core.types import FilterMask, rng
from engine.store.runs import Run, Store
from engine.tracks.fair_training.context import FairShard
from engine.tracks.fair_training.methods import fair_method
from engine.tracks.fair_training.request import SPARSITY, FairArm, FairRequest, arms_of
from engine.tracks.fair_training.tables import (
    _differences,
    _lost,
    hypervolume_table,
    tradeoff_table,
)
from tests.builders import hash_of, options_of, shared
from tests.classifiers.made_up_images import (
    FLOPS,
    WIDTHS,
    ImageWorld,
    asked,
    cost_row,
    draw_image_world,
    made_up_meta,
    measured_tables,
    widths_after,
)

SPARSITIES = (0.488, 0.672, 0.832)
STRENGTHS = (0.25, 1.0, 4.0)
PAYS = {
    "bifp-str": (0.5, 0.5),
    "bifp-uns": (0.35, 0.5),
    "snip": (0.8, 1.9),
    "fpgm": (0.6, 1.7),
    "lottery": (0.35, 1.6),
    "pf": (0.75, 0.9),
    "pf-random": (1.2, 1.3),
    "fp": (0.8, 1.2),
    "dense-tuned": (0.0, 0.4),
    "dense-fair": (0.1, 0.1),
    "bifp-str-no-m": (0.6, 0.8),
    "bifp-str-no-w": (0.5, 1.1),
    "bifp-str-no-both": (0.45, 1.8),
}
"""What a method costs of accuracy, and what it harms men."""
UNITS = {name: fair_method(name).units for name in PAYS}
MAIN = tuple(name for name in UNITS if "-no-" not in name)
ABLATIONS = ("bifp-str-no-m", "bifp-str-no-w", "bifp-str-no-both")
WEIGHTS = tuple(
    9 * width * before for (_, width), before in zip(WIDTHS, (3, 8, 8, 16, 16, 32), strict=True)
)
ITERATIONS, EVERY = 400, 40
FEW = {
    "methods": ("bifp-str", "bifp-uns", "dense-tuned"),
    "seeds": 2,
    "images": 120,
    "sparsities": (0.488,),
    "surface": False,
}
"""Options of a small run."""


def make_run(folder: Path | str, run_id: str = "fair-run", **options: Any) -> Run:
    """Write the made-up run below the store `folder` and return it.

    Options: methods (MAIN and ABLATIONS); tradeoff and surface (True); images (300) and seeds (3);
    sparsities; weights (the table of kept weights); created (ISO time); title; stream. Numbers are
    computed once per process for the same options, whatever title and time.
    """
    title = "Synthetic fair training (made-up numbers, for tests)"
    every, computed = options_of(
        options,
        {"title": title, "created": "2026-03-01T12:00:00+00:00"},
        methods=(*MAIN, *ABLATIONS),
        tradeoff=True,
        surface=True,
        images=300,
        seeds=3,
        sparsities=SPARSITIES,
        weights=True,
        stream=0,
    )
    world, notes, tables = _computed(computed)
    return Store(folder).write(
        run_id, _meta(replace(world, options=every), tables["groups"], notes), tables
    )


@shared
def _computed(
    options: tuple[tuple[str, Any], ...],
) -> tuple[ImageWorld, Any, dict[str, pd.DataFrame]]:
    """World, notes and tables of the run with these options."""
    world = draw_image_world(dict(options))
    request = _request(world)
    arms = arms_of(request)
    dense = _answers(world, FairShard("", "dense"))
    layers = {
        arm.id_of(shard): _widths(shard)
        for arm in arms
        for shard in arm.shards()
        if arm.units != "none"
    }
    tables, measured, notes = measured_tables(
        world, arms, dense, lambda shard: _answers(world, shard), layers
    )
    curves = _curves(arms)
    tables |= {
        "results": pd.concat([tables["results"], *_lost(measured)], ignore_index=True),
        "variants": _variants(arms),
        "arm_differences": differences_table(_differences(measured), "method", "base", "sparsity"),
        "curves": curves,
        "reached": _reached(arms, curves),
        "costs": _costs(arms),
    }
    if world.options["tradeoff"]:
        tables["tradeoff"] = tradeoff_table(request, arms, measured)
        tables["hypervolume"] = hypervolume_table(request, arms, measured, world.images)
    if world.options["surface"]:
        tables |= _surface()
    if world.options["weights"]:
        tables["weights"] = weights_table(
            (arm.id_of(arm.shards()[0]), {"conv1.weight": np.float32([1, 0, 2])})
            for arm in arms
            if arm.role == SPARSITY
        )
    return world, notes, tables


def _answers(world: ImageWorld, shard: FairShard) -> np.ndarray:
    """Probabilities (images, 2) of one model."""
    method, sparsity, strength, seed = shard.own
    labels = world.images["label"].to_numpy()
    male = (world.images[world.axes[0]] == "male").to_numpy()
    draw = rng("synthetic fair answers", world.options["stream"], method, sparsity, strength, seed)
    costs, harms = PAYS.get(method, (0.0, 0.55))
    cut = costs * sparsity**2 * 1.2
    kept = strength / (1 + strength)
    harm = 0.75 * harms * (0.25 + sparsity) * (1.2 - kept if strength else 1.0)
    lost = cut + 0.06 * strength + harm * male
    margin = (
        world.ease
        - lost
        + (0.15 + 0.3 * sparsity) * draw.normal(size=len(labels)) * (method != "dense")
    )
    margin += 0.1 * draw.normal()
    one = 1 / (1 + np.exp(-np.where(labels == 1, margin, -margin)))
    return np.stack([1 - one, one], axis=1)


def _mask(method: str, sparsity: float, seed: int) -> FilterMask:
    draw = rng("synthetic fair filters", method, seed)
    keep = []
    for place, (_, width) in enumerate(WIDTHS):
        share = min(0.97, sparsity * (0.8 + 0.08 * place))
        gone = np.argsort(draw.random(width))[: min(width - 1, round(share * width))]
        keep.append(~np.isin(np.arange(width), gone))
    return FilterMask.from_keep(WIDTHS, np.concatenate(keep))


def _variants(arms: list[FairArm]) -> pd.DataFrame:
    usual = {
        **UNCUT,
        "units": "none",
        "strength": 0.0,
        "parameters_cut": 0.0,
        "speedup": 1.0,
        "flops": FLOPS,
    }
    rows = [variant_row("dense", "dense", {"base": "", "role": "dense"}, **usual)]
    for arm in arms:
        method, sparsity, role = arm.method, arm.sparsity, arm.role
        first = {"base": method, "role": role}
        same = {**usual, "sparsity": sparsity, "units": arm.units, "strength": arm.strength}
        seeds = []
        for shard in arm.shards():
            own = {**same, **_cut(shard), "seed": shard.seed, "pooled": arm.pooled}
            seeds.append(variant_row(arm.id_of(shard), method, first, **own, chosen=False))
        more = over_cuts(seeds, "realised", "parameters_cut", "speedup", "flops")
        more |= {"chosen": role == "sparsity"}
        rows += [variant_row(arm.pooled, method, first, **{**same, **more}), *seeds]
    return pd.DataFrame(rows)


def _cut(shard: FairShard) -> dict[str, Any]:
    """What one seed's model lacks."""
    method, sparsity, seed = shard.method, shard.sparsity, shard.seed
    if UNITS[method] == "none":
        return {}
    if UNITS[method] == "weights":
        gone = round(sparsity * sum(WEIGHTS))
        return {
            "realised": gone / sum(WEIGHTS),
            "n_cut": gone,
            "parameters_cut": 0.97 * gone / sum(WEIGHTS),
            "cut": "",
            "history": "",
            "mask_digest": hash_of("weights", method, sparsity, seed),
        }
    mask = _mask(method, sparsity, seed)
    speedup = 1 / (1 - 0.9 * mask.sparsity)
    return {
        "realised": mask.sparsity,
        "n_cut": mask.n_cut,
        "parameters_cut": 1 - (1 - mask.sparsity) ** 1.6,
        "speedup": speedup,
        "flops": FLOPS / speedup,
        "cut": json.dumps(mask.to_dict()),
        "history": json.dumps([[group, True, gone] for group, gone in mask.to_dict().items()]),
        "mask_digest": mask.digest,
    }


def _curves(arms: list[FairArm]) -> pd.DataFrame:
    steps = np.arange(10, ITERATIONS + 1, 10)
    phases = {
        "bifp-str": ("both",),
        "bifp-uns": ("both",),
        "pf": ("fair",),
        "fp": ("fair", "plain"),
    }
    parts = []
    for arm in arms:
        method, sparsity, strength = arm.method, arm.sparsity, arm.strength
        costs, harms = PAYS[method]
        for shard in arm.shards():
            draw = rng("synthetic fair curve", method, sparsity, strength, arm.role, shard.seed)
            names = phases.get(method, ("plain",))
            phase = [
                names[min(len(names) - 1, step * len(names) // (ITERATIONS + 1))] for step in steps
            ]
            seen = steps % EVERY == 0
            slow = 60 if method.startswith("bifp") else 160
            gap = (
                0.05
                + harms * 0.08
                + 0.14 * np.exp(-steps / slow)
                + 0.008 * draw.normal(size=len(steps))
            )
            accuracy = (
                0.86
                - 0.05 * costs
                - 0.3 * np.exp(-steps / 90)
                + 0.008 * draw.normal(size=len(steps))
            )
            parts.append(
                pd.DataFrame(
                    {
                        "variant": arm.id_of(shard),
                        "phase": phase,
                        "step": steps,
                        "loss": (
                            0.35 + 0.5 * np.exp(-steps / 80) + 0.02 * draw.normal(size=len(steps))
                        ),
                        "penalty": 0.6 * np.maximum(gap, 0) * (strength > 0),
                        "surrogate_gap": np.maximum(
                            0.0, 0.8 * gap + 0.02 * draw.normal(size=len(steps))
                        ),
                        "mask_updates": steps if method.startswith("bifp") else 0,
                        "examples": 64 * steps,
                        "seconds": 0.05 * steps * (2 if method.startswith("bifp") else 1),
                        "accuracy": np.where(seen, accuracy, np.nan),
                        "gap": np.where(seen, np.maximum(gap, 0), np.nan),
                        "degradation": np.where(seen, np.maximum(0.9 * gap, 0), np.nan),
                        "val_loss": np.where(seen, 0.4 + 0.4 * np.exp(-steps / 100), np.nan),
                        "cut": sparsity,
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)


TARGETS = {"gap": 0.132, "accuracy": 0.80}


def _reached(arms: list[FairArm], curves: pd.DataFrame) -> pd.DataFrame:
    looks = curves.dropna(subset=["gap"])
    spent = {
        "iterations": "step",
        "mask_updates": "mask_updates",
        "examples": "examples",
        "seconds": "seconds",
    }
    rows = []
    for arm in arms:
        for shard in arm.shards():
            name = arm.id_of(shard)
            mine = looks[looks["variant"] == name]
            met = mine[(mine["gap"] <= TARGETS["gap"]) & (mine["accuracy"] >= TARGETS["accuracy"])]
            last = mine.iloc[-1]
            rows.append(
                {
                    "variant": name,
                    "method": arm.method,
                    "sparsity": arm.sparsity,
                    "strength": arm.strength,
                    "seed": shard.seed,
                    "gap_target": TARGETS["gap"],
                    "accuracy_target": TARGETS["accuracy"],
                    "reached": len(met) > 0,
                    "notion": "accuracy",
                    "held": bool(len(met) and met.index[-1] == last.name),
                }
                | {
                    key: float(met[column].iloc[0]) if len(met) else np.nan
                    for key, column in spent.items()
                }
                | {f"total_{key}": float(last[column]) for key, column in spent.items()}
            )
    return pd.DataFrame(rows)


def _surface() -> dict[str, pd.DataFrame]:
    """A bowl around BiFP with ablations on its rim."""
    grid = np.linspace(-0.5, 1.5, 9)
    x, y = (part.ravel() for part in np.meshgrid(grid, grid))
    loss = 0.42 + 0.25 * (x**2 + y**2) + 0.12 * x * y
    surface = pd.DataFrame(
        {
            "method_b": "bifp-str-no-w",
            "x": x,
            "y": y,
            "loss": loss,
            "accuracy": 0.86 - 0.1 * (loss - 0.42),
            "gap": 0.08 + 0.1 * (x**2 + y**2),
        }
    )
    points = pd.DataFrame(
        {
            "method": ["bifp-str", "bifp-str-no-w", "bifp-str-no-m"],
            "x": [0.0, 1.0, 0.0],
            "y": [0.0, 0.0, 1.0],
        }
    )
    t, parts = np.linspace(0, 1, 11), []
    for other, height in (
        ("bifp-str-no-w", 0.3),
        ("bifp-str-no-m", 0.02),
        ("bifp-str-no-both", 0.5),
    ):
        bump = 0.42 + 0.1 * t + height * np.sin(np.pi * t)
        parts.append(
            pd.DataFrame(
                {
                    "other": other,
                    "t": t,
                    "loss": bump,
                    "accuracy": 0.86 - 0.2 * (bump - 0.42),
                    "gap": 0.08 + 0.12 * t + 0.1 * height * np.sin(np.pi * t),
                    "loss_without_recalibration": bump + 0.4 * np.sin(np.pi * t),
                }
            )
        )
    return {
        "surface": surface,
        "surface_points": points,
        "path": pd.concat(parts, ignore_index=True),
    }


def _widths(shard: FairShard) -> list[tuple[str, int, int]]:
    """(group, filters or weights, how many stay) of every layer."""
    if UNITS[shard.method] == "filters":
        return list(widths_after(_mask(shard.method, shard.sparsity, shard.seed)))
    return [
        (group, weights, round(weights * (1 - shard.sparsity) * (1.2 - 0.08 * place)))
        for place, ((group, _), weights) in enumerate(zip(WIDTHS, WEIGHTS, strict=True))
    ]


def _costs(arms: list[FairArm]) -> pd.DataFrame:
    rows = []
    for name, method, sparsity in [
        ("dense", "dense", 0.0),
        *((arm.pooled, arm.method, arm.sparsity) for arm in arms),
    ]:
        whole = method == "dense" or UNITS[method] != "filters"
        theory = 1.0 if whole else 1 / (1 - 0.9 * sparsity)
        gain = theory**0.5 if not whole else 1.0 + 0.01 * rng("synthetic fair cost", name).normal()
        size = 270_000 if whole else int(270_000 * (1 - sparsity) ** 1.6)
        rows.append(cost_row(name, theory, gain, size, 2e-6))
    return pd.DataFrame(rows)


def _request(world: ImageWorld) -> FairRequest:
    options = world.options
    swept = [name for name in ("bifp-str", "pf", "fp") if name in options["methods"]]
    return FairRequest(
        **asked(world),
        methods=options["methods"],
        sparsities=options["sparsities"],
        iterations=ITERATIONS,
        check_every=EVERY,
        seeds=options["seeds"],
        equal="FLOPs",
        tradeoff_strengths=STRENGTHS if options["tradeoff"] else (),
        tradeoff_methods=tuple(swept),
        surface=options["surface"],
        within=0.02,
    )


def _meta(world: ImageWorld, groups: pd.DataFrame, notes: tuple[str, ...]) -> dict[str, Any]:
    male = float((world.images[world.axes[0]] == "male").mean())
    data = {
        "fair_axis": world.axes[0],
        "group_shares": {"male": male, "non-male": 1 - male},
    }
    return made_up_meta(world, groups, notes, _request(world), {}, data, targets=TARGETS)
