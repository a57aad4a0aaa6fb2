"""A made-up finished run of fair training for tests of screens and exports. Nothing in it was
measured on a model.

Test images are those of tests/classifiers/made_up_images.py. Answers are drawn from a latent world
in which sparser models harm men most, the fairness term holds part of that back, and BiFP holds
back most; groups, gaps and differences are then computed from the answers by the engine's own
statistics. Deterministic.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch

from engine.classifiers.tables import differences_table, weights_table
from engine.core.types import FilterMask, rng
from engine.store.runs import Run, Store
from engine.tracks.fair_training.context import FairShard
from engine.tracks.fair_training.methods import fair_method
from engine.tracks.fair_training.request import SPARSITY, FairArm, FairRequest, arms_of
from engine.tracks.fair_training.tables import (
    _curves,
    _differences,
    _layers,
    _lost,
    _reached,
    _variants,
    hypervolume_table,
    tradeoff_table,
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
    context = MadeUp(world)
    layers = dict(_layers(context, arms))
    tables, measured, notes = measured_tables(
        world, arms, dense, lambda shard: _answers(world, shard), layers
    )
    tables |= {
        "results": pd.concat([tables["results"], *_lost(measured)], ignore_index=True),
        "variants": _variants(context, arms),
        "arm_differences": differences_table(_differences(measured), "method", "base", "sparsity"),
        "curves": _curves(context, request, arms),
        "reached": _reached(context, request, arms, TARGETS),
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


class MadeUp:
    """What the engine asks of finished trainings, made up."""

    settings = SimpleNamespace(equal="filters")
    graph = SimpleNamespace(
        flops=lambda: FLOPS, mask=lambda keep: FilterMask.from_keep(WIDTHS, keep)
    )

    def __init__(self, world: ImageWorld) -> None:
        self.world, size = world, 3
        layers = []
        for name, width in WIDTHS:
            layers.append((name, torch.nn.Conv2d(size, width, 3)))
            size = width
        model = SimpleNamespace(named_modules=lambda: layers)
        self.start = SimpleNamespace(model=model, n_parameters=270_000)
        self.without_weights = cache(self._trained)

    def _trained(self, shard: FairShard) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and what else is known of one training."""
        units, whole = UNITS[shard.method], self.start.n_parameters
        keep = _keep(units, shard)
        cut = float(1 - keep.mean()) if len(keep) else 0.0
        curve = _curve(shard, cut)
        ends = curve.iloc[-1].rename({"step": "iterations"})
        filters = cut if units == "filters" else 0.0
        gone = self.graph.mask(keep).to_dict() if filters else {}
        return {
            "keep": keep,
            "probabilities": _answers(self.world, shard),
            **curve.add_prefix("curve/"),
        }, {
            "history": [[group, True, of_group] for group, of_group in gone.items()],
            "max_logit_difference": 0.0,
            "flops": FLOPS * (1 - 0.9 * filters),
            "parameters": whole * (1 - filters) ** 1.6,
            "n_zero": 0.97 * (cut - filters) * whole,
            "spent": ends[["iterations", "mask_updates", "examples", "seconds"]].to_dict(),
        }


def _keep(units: str, shard: FairShard) -> np.ndarray:
    """What stays: of each layer of filters about its share, of weights as many as asked."""
    draw = rng("synthetic fair filters", shard.method, shard.seed)
    if units == "none":
        return np.zeros(0, dtype=bool)
    if units == "weights":
        return draw.permutation(sum(WEIGHTS)) >= round(shard.sparsity * sum(WEIGHTS))
    keep = []
    for place, (_, width) in enumerate(WIDTHS):
        share = min(0.97, shard.sparsity * (0.8 + 0.08 * place))
        gone = np.argsort(draw.random(width))[: min(width - 1, round(share * width))]
        keep.append(~np.isin(np.arange(width), gone))
    return np.concatenate(keep)


def _curve(shard: FairShard, cut: float) -> pd.DataFrame:
    steps = np.arange(10, ITERATIONS + 1, 10)
    method, strength = shard.method, shard.strength
    names = {"pf": ("fair",), "fp": ("fair", "plain")}.get(method, ("plain",))
    names = ("both",) if method in ("bifp-str", "bifp-uns") else names
    costs, harms = PAYS[method]
    draw, n = rng("synthetic fair curve", *shard.own), len(steps)
    seen, is_bifp = steps % EVERY == 0, method.startswith("bifp")
    gap = 0.05 + harms * 0.08 + 0.14 * np.exp(-steps / (60 if is_bifp else 160))
    gap += 0.008 * draw.normal(size=n)
    accuracy = 0.86 - 0.05 * costs - 0.3 * np.exp(-steps / 90) + 0.008 * draw.normal(size=n)
    looks = {
        "accuracy": accuracy,
        "gap": np.maximum(gap, 0),
        "degradation": np.maximum(0.9 * gap, 0),
        "val_loss": 0.4 + 0.4 * np.exp(-steps / 100),
    }
    return pd.DataFrame(
        {
            "phase": [names[step * len(names) // (ITERATIONS + 1)] for step in steps],
            "step": steps,
            "loss": 0.35 + 0.5 * np.exp(-steps / 80) + 0.02 * draw.normal(size=n),
            "penalty": 0.6 * np.maximum(gap, 0) * (strength > 0),
            "surrogate_gap": np.maximum(0.0, 0.8 * gap + 0.02 * draw.normal(size=n)),
            "mask_updates": steps if is_bifp else 0,
            "examples": 64 * steps,
            "seconds": 0.05 * steps * (2 if is_bifp else 1),
            **{name: np.where(seen, values, np.nan) for name, values in looks.items()},
            "cut": cut,
        }
    )


TARGETS = {"gap": 0.132, "accuracy": 0.80}


def _surface() -> dict[str, pd.DataFrame]:
    """A bowl around BiFP with ablations on its rim."""
    grid = np.linspace(-0.5, 1.5, 9)
    x, y = (part.ravel() for part in np.meshgrid(grid, grid))
    own, no_w, no_m, no_both = "bifp-str", *(f"bifp-str-no-{part}" for part in ("w", "m", "both"))

    def looked(loss: np.ndarray, gap: np.ndarray, **columns: Any) -> pd.DataFrame:
        accuracy = 0.86 - 0.1 * (loss - 0.42)
        return pd.DataFrame({**columns, "loss": loss, "accuracy": accuracy, "gap": gap})

    bowl = 0.42 + 0.25 * (x**2 + y**2) + 0.12 * x * y
    surface = looked(bowl, 0.08 + 0.1 * (x**2 + y**2), method_b=no_w, x=x, y=y)
    points = pd.DataFrame({"method": [own, no_w, no_m], "x": [0.0, 1, 0], "y": [0.0, 0, 1]})
    t, parts = np.linspace(0, 1, 11), []
    for other, height in ((no_w, 0.3), (no_m, 0.02), (no_both, 0.5)):
        ridge = np.sin(np.pi * t)
        loss = 0.42 + 0.1 * t + height * ridge
        path = looked(loss, 0.08 + 0.12 * t + 0.1 * height * ridge, other=other, t=t)
        parts.append(path.assign(loss_without_recalibration=loss + 0.4 * ridge))
    return {
        "surface": surface,
        "surface_points": points,
        "path": pd.concat(parts, ignore_index=True),
    }


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
