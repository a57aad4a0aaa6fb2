"""A made-up finished run for tests of screens and exports. Nothing in it was measured on a model.

A latent effect per head moves the toxicity of each subgroup and the perplexity; every table is then
computed from the same made-up generations, so that the tables agree with each other. Deterministic.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.core.types import READINGS, rng
from engine.store.runs import Run, Store
from engine.tracks.language_models.request import AuditRequest
from tests.builders import hash_of, options_of, shared
from tests.tracks.language_models.made_up_world import (
    DRAWS,
    GROUPS,
    HEADS,
    HOSTILE,
    LAYERS,
    MIN_GROUP,
    SMALL,
    SPARSITIES,
    UNITS,
    World,
    draw_world,
    make_generations,
    make_variants,
)

__all__ = ["GROUPS", "HEADS", "HOSTILE", "LAYERS", "SPARSITIES", "make_run"]
FEW = {"per_group": 8}
"""Options of a small run."""


def make_run(folder: Path | str, run_id: str = "synthetic-run", **options: Any) -> Run:
    """Write the made-up run below the store `folder` and return it.

    Options: null_bias (subgroups of the first axis do not differ, so its bias lies inside its null
    band); levelling_down (the gap shrinks because the better-off groups get worse); per_group and
    small_group (prompts of a full and of the small subgroup: 16, 6); seeds (2); judge (name);
    created (ISO time); title; stream (re-draws all). Numbers are computed once per process for the
    same options, whatever the judge, the title and the time.
    """
    title = "Synthetic run (made-up numbers, for tests)"
    every, computed = options_of(
        options,
        {"title": title, "created": "2026-01-01T12:00:00+00:00", "judge": "demo-judge"},
        null_bias=False,
        levelling_down=False,
        per_group=16,
        small_group=6,
        seeds=2,
        stream=0,
    )
    world, tables = _computed(computed)
    return Store(folder).write(run_id, _meta(replace(world, options=every)), tables)


@shared
def _computed(options: tuple[tuple[str, Any], ...]) -> tuple[World, dict[str, pd.DataFrame]]:
    """World and tables of the run with these options."""
    world = draw_world(dict(options))
    variants = make_variants(world)
    generations, texts = make_generations(world, variants)
    results, groups = _measure(world, variants, generations)
    return world, {
        "scores": _scores(world),
        "variants": variants,
        "results": results,
        "groups": groups,
        "prompts": world.prompts,
        "generations": generations,
        "texts": texts,
        "costs": _costs(variants),
    }


def _shares(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Row weights [1 + DRAWS, rows] (first row: the data itself) and subgroup membership [groups,
    rows]."""
    groups = sorted(table["subgroup"].unique())
    member = np.stack([(table["subgroup"] == group).to_numpy(float) for group in groups])
    ids = table["prompt_id"].to_numpy()
    names, first, where = np.unique(ids, return_index=True, return_inverse=True)
    group_of = table["subgroup"].to_numpy()[first]
    draw = rng("synthetic bootstrap", len(names), table["axis"].iat[0])
    weights = np.ones((1 + DRAWS, len(names)))
    for group in groups:
        inside = np.flatnonzero(group_of == group)
        weights[1:, inside] = draw.multinomial(
            len(inside), np.full(len(inside), 1 / len(inside)), size=DRAWS
        )
    return weights[:, where], member


def _quantities(
    toxicity: np.ndarray, weights: np.ndarray, member: np.ndarray, worst: int, best: int
) -> dict:
    """Every metric for the data and each draw: name -> [1 + DRAWS]."""
    totals = (weights * toxicity) @ member.T
    means = totals / (weights @ member.T)
    overall = totals.sum(1) / weights.sum(1)
    spread = np.abs(overall[:, None] - means).sum(1)
    flat = np.abs(means.mean(1, keepdims=True) - means).sum(1)
    values = dict(
        zip([f"bias:{name}" for name in READINGS], (spread, flat, spread * 1.08), strict=True)
    )
    values |= {
        "toxicity": overall,
        "toxic_share": (weights * (toxicity > 0.5)).sum(1) / weights.sum(1),
    }
    large = _large(member)
    values |= {
        "gap": np.ptp(means[:, large], axis=1),
        "worst_group": means[:, worst],
        "best_group": means[:, best],
    }
    return values | {f"group:{index}": means[:, index] for index in range(means.shape[1])}


def _large(member: np.ndarray) -> np.ndarray:
    """Subgroups large enough to be worst-off or best-off; all where none is (rows = prompts x 2
    seeds)."""
    large = member.sum(1) >= 2 * MIN_GROUP
    return large if large.any() else ~large


def _null(table: pd.DataFrame, member: np.ndarray) -> np.ndarray:
    draw, ids = rng("synthetic null", table["axis"].iat[0]), table["prompt_id"].to_numpy()
    names, first, where = np.unique(ids, return_index=True, return_inverse=True)
    toxicity, values = table["toxicity"].to_numpy(), []
    for _ in range(DRAWS):
        mixed = member[:, first][:, draw.permutation(len(names))][:, where]
        means = (mixed @ toxicity) / mixed.sum(1)
        values.append(np.abs(toxicity.mean() - means).sum())
    return np.array(values)


def _interval(draws: np.ndarray) -> tuple[float, float, float]:
    """Value, low, high, where item 0 is the data."""
    return float(draws[0]), *(float(x) for x in np.percentile(draws[1:], [2.5, 97.5]))


def _p(draws: np.ndarray) -> float:
    return float(min(1.0, 2 * min((draws[1:] <= 0).mean(), (draws[1:] >= 0).mean()) + 1 / DRAWS))


def _measure(
    world: World, variants: pd.DataFrame, generations: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    results, groups = [], []
    table = generations.merge(world.prompts[["prompt_id", "subgroup"]], on="prompt_id")
    for (split, axis), part in table.groupby(["split", "axis"]):
        by_variant = {
            name: rows.sort_values(["prompt_id", "seed"]) for name, rows in part.groupby("variant")
        }
        weights, member = _shares(by_variant["dense"])
        uncut = by_variant["dense"]["toxicity"].to_numpy()
        plain = _quantities(uncut, weights, member, 0, 0)
        means = np.array([plain[f"group:{index}"][0] for index in range(len(member))])
        large = _large(member)
        worst = int(np.where(large, means, -np.inf).argmax())
        best = int(np.where(large, means, np.inf).argmin())
        dense = _quantities(uncut, weights, member, worst, best)
        for name, rows in by_variant.items():
            values = _quantities(rows["toxicity"].to_numpy(), weights, member, worst, best)
            key = {"variant": name, "split": split, "axis": axis}
            results += _result_rows(key, values, dense, rows, member)
            groups += _group_rows(key, values, dense, rows)
        floor = by_variant["dense"]["floor"].mean() * 0.5
        key = {"variant": "dense", "split": split, "axis": axis, "metric": "bias_floor"}
        ends = {"value": floor, "low": floor * 0.6, "high": floor * 1.5}
        results.append({**key, **ends, "n": part["prompt_id"].nunique()})
    more_results, more_groups = _perplexities(world, variants)
    found = pd.DataFrame(groups + more_groups).drop(columns="delta_p")
    return _columns(pd.DataFrame(results + more_results)), found


def _result_rows(
    key: dict, values: dict, dense: dict, rows: pd.DataFrame, member: np.ndarray
) -> list[dict]:
    null, out = _null(rows, member), []
    low, high = np.percentile(null, [2.5, 97.5])
    same = {**key, "n": rows["prompt_id"].nunique()}
    for metric, draws in values.items():
        if metric.startswith("group:"):
            continue
        row = _with_delta(draws, None if key["variant"] == "dense" else dense[metric])
        if metric.startswith("bias:"):
            row |= {"null_mean": null.mean(), "null_low": low, "null_high": high}
            row |= {"null_p": (1 + (null >= row["value"]).sum()) / (1 + DRAWS)}
        out.append({**same, "metric": metric, **row})
    return out


def _group_rows(key: dict, values: dict, dense: dict, rows: pd.DataFrame) -> list[dict]:
    out = []
    for index, (group, part) in enumerate(sorted(rows.groupby("subgroup"))):
        of = f"group:{index}"
        row = _with_delta(values[of], None if key["variant"] == "dense" else dense[of])
        out.append({**key, "metric": "toxicity", "group": group, **row, **_n(part)})
    return out


def _n(part: pd.DataFrame) -> dict[str, Any]:
    n = part["prompt_id"].nunique()
    return {"n": n, "verdict": "too few prompts" if n < MIN_GROUP else ""}


def _with_delta(draws: np.ndarray, dense: np.ndarray | None) -> dict[str, float]:
    """Value and change with their ends, and p of the change; NaN for the dense model."""
    nothing = dense is None
    delta = (np.nan,) * 3 if nothing else _interval(draws - dense)
    values = *_interval(draws), *delta, np.nan if nothing else _p(draws - dense)
    names = ("value", "low", "high", "delta", "delta_low", "delta_high", "delta_p")
    return dict(zip(names, values, strict=True))


def _perplexities(world: World, variants: pd.DataFrame) -> tuple[list[dict], list[dict]]:
    n = len(world.windows)
    drawn = rng("synthetic windows").multinomial(n, np.full(n, 1 / n), size=DRAWS)
    weights = np.vstack([np.ones(n), drawn])
    base = np.exp(weights @ world.windows / n)
    results, groups = [], []
    for variant in variants.itertuples():
        slope = 1 + 0.2 * rng("synthetic ppl", variant.variant).normal(size=n)
        cost = world.cost[json.loads(variant.cut)].sum()
        draws = np.exp(weights @ (world.windows + cost * slope) / n)
        splits = ("test", "validation") if variant.chosen else ("validation",)
        key = {"variant": variant.variant, "metric": "perplexity"}

        def told(times: float, draws=draws, is_dense=variant.variant == "dense"):
            return _with_delta(draws * times, None if is_dense else base * times)

        results += [{**key, "axis": "", "n": n, "split": one, **told(1.0)} for one in splits]
        for axis, members in GROUPS.items():
            for index, group in enumerate(members):
                few = world.options["small_group" if group in SMALL else "per_group"]
                row = {"axis": axis, "group": group, **told(1.3 + 0.1 * index), "n": few}
                row["verdict"] = "too few prompts" if few < MIN_GROUP else ""
                groups += [{**key, "split": split, **row} for split in splits]
    return results, groups


def _columns(table: pd.DataFrame) -> pd.DataFrame:
    names = "variant split axis metric value low high n null_mean null_low null_high null_p"
    return table.reindex(columns=[*names.split(), "delta", "delta_low", "delta_high", "delta_p"])


def _scores(world: World) -> pd.DataFrame:
    rows = []
    for unit in range(UNITS):
        place = {"unit": unit, "layer": unit // HEADS, "head": unit % HEADS, "note": "", "n": 20}
        for axis, effect in world.effects.items():
            seeds = range(world.options["seeds"])
            noise = rng("synthetic scores", axis, unit).normal(0, 0.02, len(seeds))
            same = place | {"score": "z_bias", "estimator": "generate", "axis": axis}
            for seed in seeds:
                rows.append(same | {"seed": seed} | _ends(effect[unit] + noise[seed], 0.06))
            value = effect[unit] + noise.mean()
            p = float(np.exp(-((value / 0.03) ** 2)))
            rows.append(same | {"seed": -1, "p": p, "q": min(1.0, p * 4)} | _ends(value, 0.04))
        ppl, norm = -3.6 * np.expm1(world.cost[unit]), 2 + 5 * world.cost[unit] + unit % 3 / 10
        same = place | {"axis": "", "seed": -1, "estimator": "exact"}
        ends = {"value": ppl, "low": ppl * 1.1 - 0.005, "high": ppl * 0.9 + 0.005}
        drawn = {"seed": 0, "value": rng("synthetic random", unit).random()}
        rows += [
            same | {"score": "z_ppl"} | ends,
            same | {"score": "magnitude", "value": norm},
            same | {"score": "random"} | drawn,
        ]
    names = "unit layer head score estimator axis seed value low high p q n note"
    return pd.DataFrame(rows).reindex(columns=names.split())


def _ends(value: float, half: float) -> dict[str, float]:
    return {"value": value, "low": value - half, "high": value + half}


def _costs(variants: pd.DataFrame) -> pd.DataFrame:
    kept = variants[variants["chosen"]]
    rows = []
    for variant in kept.itertuples():
        latency = (
            41.0 - 0.55 * variant.n_cut + rng("synthetic latency", variant.variant).normal(0, 0.4)
        )
        parameters = 800_000 - 8_224 * variant.n_cut
        rows.append(
            {"variant": variant.variant, "parameters": parameters, "bytes": 4 * parameters, "n": 20}
            | {"latency_ms": latency, "latency_low": latency - 0.7, "latency_high": latency + 0.8}
            | {"dense_latency_ms": 41.1, "speedup": 41.1 / latency}
            | {"speedup_low": 40.7 / latency, "speedup_high": 41.5 / latency}
            | {"max_logit_difference": 0.0 if variant.n_cut == 0 else 2.1e-6, "greedy_equal": True}
            | {"agrees": True}
        )
    return pd.DataFrame(rows)


def _meta(world: World) -> dict[str, Any]:
    options = world.options
    counts = world.prompts.groupby(["axis", "split"]).size()
    asked = AuditRequest(
        model="demo-gpt2",
        axes=tuple(GROUPS),
        methods=("fasp", "bias_only", "magnitude", "random", "random_noncritical"),
        estimator="generate",
        gamma="search",
        sparsities=SPARSITIES,
        seeds=options["seeds"],
        judge=options["judge"],
        device="cpu",
    )
    return {
        "track": "language_models",
        "created": options["created"],
        "title": options["title"],
        "request": asked.to_dict(),
        "model": {
            "name": "synthetic-gpt2",
            "revision": None,
            "weight_hash": hash_of("weights"),
            "model_type": "gpt2",
            "n_layers": LAYERS,
            "n_heads": HEADS,
            "parameters": 800_000,
        },
        "prompts": {
            "name": "synthetic prompts",
            "digest": hash_of("prompts", len(world.prompts)),
            "notes": ["In religion the subgroup is the descriptor."],
            "counts": {f"{axis}/{split}": int(n) for (axis, split), n in counts.items()},
        },
        "corpus": {
            "name": "synthetic corpus",
            "digest": hash_of("corpus"),
            "tokens": {"test": 48 * 128, "validation": 1600},
        },
        "judge": {
            "name": options["judge"],
            "hash": hash_of(options["judge"]),
            "note": "Made-up scores.",
        },
        "gamma": {"gender_and_sex": 0.3, "religion": 0.2},
        "provenance": {
            "versions": {"python": "3.11", "torch": "2.13.0"},
            "device": "cpu",
            "dtype": "float32",
            "code": hash_of("code")[:12],
        },
        "warnings": ["Synthetic run: every number is made up."],
        "spent": {"scores": 61.2, "variants": 33.5, "costs": 4.1},
    }
