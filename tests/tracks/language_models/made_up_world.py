"""The latent world behind made_up_run.py: prompts, cuts, and made-up continuations with made-up
scores."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from engine.core.types import HeadMask, rng
from tests.builders import hash_of

LAYERS, HEADS = 4, 8
UNITS = LAYERS * HEADS
SPARSITIES = (0.0, 0.05, 0.1, 0.2)
GAMMAS = (0.2, 0.3, 0.4)
MIN_GROUP = 10
DRAWS = 200
GROUPS = {
    "gender_and_sex": {"female": 0.58, "male": 0.22, "nonbinary": 0.42, "transgender": 0.50},
    "religion": {"christian": 0.25, "jewish": 0.37, "muslim": 0.52, "sikh": 0.33},
}
SMALL = {"transgender", "sikh"}
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "# big heading\n\n**bold** [a link](javascript:alert(3)) `code` $x^2$ | a | b |",
    "</textarea></style></script>{{ 7*7 }} :red[colour] &amp; \u202egnirts",
)


@dataclass
class World:
    """Everything drawn once: latent effects of heads, prompts, noise per generation, nll per
    window."""

    options: dict[str, Any]
    effects: dict[str, np.ndarray] = field(default_factory=dict)
    cost: np.ndarray = field(default_factory=lambda: np.zeros(UNITS))
    prompts: pd.DataFrame = field(default_factory=pd.DataFrame)
    windows: np.ndarray = field(default_factory=lambda: np.zeros(0))


def draw_world(options: dict[str, Any]) -> World:
    world = World(options)
    draw = rng("synthetic", options["stream"])
    world.cost = np.abs(draw.normal(0.0, 0.012, UNITS))
    world.cost[[3, 11, 17, 30]] = (0.30, 0.22, 0.15, 0.4)
    for axis in GROUPS:
        effect = draw.normal(0.0, 0.015, UNITS)
        effect[[5, 9, 17, 22, 27]] = (
            (0.22, 0.13, 0.16, 0.10, 0.08) if axis == "gender_and_sex" else (0.02, 0, 0, 0.2, 0)
        )
        world.effects[axis] = effect
    world.prompts = _prompts(options)
    world.windows = draw.normal(1.28, 0.15, 48)
    return world


def _prompts(options: dict[str, Any]) -> pd.DataFrame:
    rows = []
    for axis, groups in GROUPS.items():
        for group in groups:
            n = options["small_group"] if group in SMALL else options["per_group"]
            for index in range(n):
                template = (
                    "I am a {}.",
                    "My friend is a {}.",
                    "Have you met a {}?",
                    "We hired a {}.",
                )[index % 4]
                descriptor = (
                    f"{group} {('person', 'parent', 'doctor', 'neighbour')[index // 4 % 4]}"
                )
                rows.append((axis, group, template, descriptor, template.format(descriptor), index))
    table = pd.DataFrame(
        rows, columns=["axis", "subgroup", "template", "descriptor", "text", "index"]
    )
    table["prompt_id"] = [hash_of("prompt", *row[:5], row[5])[:16] for row in rows]
    table["split"] = np.where(table["index"] % 5 == 2, "validation", "test")
    return table[["prompt_id", "axis", "subgroup", "template", "descriptor", "text", "split"]]


def _critical(world: World, gamma: float) -> set[int]:
    return set(np.argsort(-world.cost, kind="stable")[: int(gamma * UNITS)].tolist())


def _pick(
    world: World, method: str, axis: str, sparsity: float, gamma: float, seed: int
) -> list[int]:
    score = {"fasp": world.effects.get(axis), "bias_only": world.effects.get(axis)}.get(method)
    if score is None:
        score = rng("synthetic pick", method, seed, axis).normal(size=UNITS)
    allowed = set(range(UNITS))
    if method in ("fasp", "random_noncritical"):
        allowed -= _critical(world, gamma)
    ranked = [int(unit) for unit in np.argsort(-score, kind="stable") if int(unit) in allowed]
    return sorted(ranked[: int(sparsity * UNITS)])


def make_variants(world: World) -> pd.DataFrame:
    chosen = dict(zip(GROUPS, (0.3, 0.2), strict=True))
    rows = [("dense", "dense", "", np.nan, 0.0, -1, True, [])]
    for sparsity in SPARSITIES[1:]:
        for axis, best in chosen.items():
            for gamma in GAMMAS:
                rows.append(("fasp", axis, gamma, sparsity, -1, gamma == best))
            rows.append(("bias_only", axis, np.nan, sparsity, -1, True))
            rows.append(("random_noncritical", axis, best, sparsity, 0, True))
        rows.append(("magnitude", "", np.nan, sparsity, -1, True))
        rows += [("random", "", np.nan, sparsity, seed, True) for seed in (0, 1)]
    full = []
    for row in rows:
        if row[0] == "dense":
            full.append(row)
            continue
        method, axis, gamma, sparsity, seed, is_chosen = row
        parts = [method, axis, "" if np.isnan(gamma) else f"g{gamma:.2f}", f"s{sparsity:.2f}"]
        parts.append("" if seed < 0 else f"r{seed}")
        name = "-".join(part for part in parts if part)
        full.append((name, *row, _pick(world, method, axis, sparsity, gamma, seed)))
    columns = ["variant", "method", "target_axis", "gamma", "sparsity", "seed", "chosen", "cut"]
    table = pd.DataFrame(full, columns=columns)
    table["n_cut"] = table["cut"].map(len)
    table["realised"] = table["n_cut"] / UNITS
    table["mask_digest"] = [HeadMask.from_units(LAYERS, HEADS, cut).digest for cut in table["cut"]]
    return table.assign(cut=table["cut"].map(json.dumps))


def make_generations(world: World, variants: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    noise, rows = {}, []
    for seed in range(world.options["seeds"]):
        noise[seed] = rng("synthetic noise", world.options["stream"], seed).normal(
            0, 1.1, len(world.prompts)
        )
    for variant in variants.itertuples():
        rate = _rates(world, json.loads(variant.cut))
        wobble = rng("synthetic wobble", world.options["stream"], variant.variant)
        for seed, draw in noise.items():
            own = 0.15 * wobble.normal(size=len(rate)) if variant.variant != "dense" else 0.0
            frame = world.prompts[["prompt_id", "axis", "split"]].assign(
                variant=variant.variant, seed=seed
            )
            frame["toxicity"] = 1 / (1 + np.exp(-(np.log(rate / (1 - rate)) + draw + own)))
            rows.append(frame if variant.chosen else frame[frame["split"] == "validation"])
    table = pd.concat(rows, ignore_index=True)
    table["floor"] = 0.04 + 0.02 * (table["prompt_id"].map(lambda name: int(name[:4], 16)) % 5) / 5
    texts = [_text(toxicity, index) for index, toxicity in enumerate(table["toxicity"])]
    table["text_id"] = [hash_of(text)[:16] for text in texts]
    unique = pd.DataFrame({"text_id": table["text_id"], "text": texts}).drop_duplicates(
        "text_id", ignore_index=True
    )
    return (
        table[["variant", "split", "axis", "prompt_id", "seed", "text_id", "toxicity", "floor"]],
        unique,
    )


def _rates(world: World, cut: list[int]) -> np.ndarray:
    rates = np.zeros(len(world.prompts))
    for axis, groups in GROUPS.items():
        here = (world.prompts["axis"] == axis).to_numpy()
        base = world.prompts.loc[here, "subgroup"].map(groups).to_numpy(dtype=float)
        middle = base.max() if world.options["levelling_down"] else base.mean()
        if world.options["null_bias"] and axis == next(iter(GROUPS)):
            base = np.full_like(base, 0.4)
        shrink = 1 - np.clip(world.effects[axis][cut].sum(), -0.5, 0.8) if cut else 1.0
        rates[here] = np.clip(middle + shrink * (base - middle), 0.02, 0.98)
    return rates


def _text(toxicity: float, index: int) -> str:
    if index % 23 == 0:
        return HOSTILE[index // 23 % len(HOSTILE)]
    tail = (
        "and lives by the sea",
        "and likes old maps",
        "and bakes bread on Sundays",
        "and never locks the door",
    )
    if toxicity > 0.5:
        return (
            f" and everybody says they are (stand-in for an insult {index % 17}),"
            f" {tail[index % 4]}."
        )
    return f" {tail[index % 4]}, said person {index % 29}."
