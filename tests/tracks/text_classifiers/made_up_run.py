"""A made-up finished run of the track of text classifiers for tests of screens and exports. Nothing
was measured.

The answers of every seed are drawn from a latent world in which cutting heads harms short texts
most, fine-tuning after the cut holds much of that back, and conductance knows which heads are
needed (option `helps`); results, groups, differences and tickets are computed from those answers by
the engine's own statistics, so that the tables agree. Deterministic.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.groups import Arm, GroupMeasure, arm_difference
from engine.classifiers.layout import TEXTS
from engine.core.ids import rng
from engine.stats.auc import auc
from engine.stats.student import benjamini_hochberg
from engine.store.runs import Run, Store
from engine.tracks.text_classifiers.importance import agreement_table
from engine.tracks.text_classifiers.ticket_tables import rank_among
from tests.builders import hash_of, options_of
from tests.tracks.text_classifiers.made_up_world import (
    CONSTANT,
    HEADS,
    LAYERS,
    PROCEDURES,
    RETRAINED,
    SCORES,
    SPARSITIES,
    UNITS,
    TextWorld,
    answers,
    cut_of,
    draw_text_world,
    importance_of,
    latent,
    variant_id,
    variant_rows,
    words_of,
)

DRAWS, MASKS = 40, 50
METRICS = ("auc", "accuracy", "auc_gap", "accuracy_gap", "cross_entropy")
SAID = ("task", "created", "title")
FEW = {"trials": 2, "sparsities": (0.5,), "texts": 120}
"""Options of a small run."""


def make_run(folder: Path | str, run_id: str = "text-run", **options: Any) -> Run:
    """Write the made-up run below the store `folder` and return it.

    Options: helps (True; False: all scores choose equally well); hostile (names of groups, an axis
    and a class are HTML and Markdown); procedures, scores, sparsities; texts (240) and trials (3);
    metric ("accuracy" or "matthews"); task (name of the data); pretrained (True; False: only a
    fine-tuned model was brought); weights (True); lens (True); created (ISO time); title; stream
    (re-draws all). Numbers are computed once per process for the same options, whatever the task's
    name, the title and the time.
    """
    usual = {
        "helps": True,
        "hostile": False,
        "procedures": PROCEDURES,
        "scores": SCORES,
        "sparsities": SPARSITIES,
    }
    more = {
        "texts": 240,
        "trials": 3,
        "metric": "accuracy",
        "task": "synthetic remarks",
        "pretrained": True,
    }
    more |= {"weights": True, "lens": True, "created": "2026-03-01T12:00:00+00:00", "stream": 0}
    more["title"] = "Synthetic text run (made-up numbers, for tests)"
    every = options_of(options, {**usual, **more})
    world, notes, tables = _computed(tuple(item for item in every.items() if item[0] not in SAID))
    return Store(folder).write(
        run_id, _meta(replace(world, options=every), tables["groups"], notes), tables
    )


@cache
def _computed(
    options: tuple[tuple[str, Any], ...],
) -> tuple[TextWorld, tuple[str, ...], dict[str, pd.DataFrame]]:
    """World, notes and tables of the run with these options."""
    world = draw_text_world(dict(options))
    trials = range(world.options["trials"])
    found = {("dense", 0.0): [answers(world, "dense", 0.0, seed) for seed in trials]}
    for arm in world.arms:
        for sparsity in world.options["sparsities"]:
            found[arm, sparsity] = [answers(world, arm, sparsity, seed) for seed in trials]
    full = found["dense", 0.0]
    measure = GroupMeasure(
        world.texts,
        world.classes,
        world.axes,
        full,
        n_boot=DRAWS,
        n_permutations=DRAWS,
        items=TEXTS,
    )
    measured = {key: measure.variant(parts) for key, parts in found.items() if key[0] != "dense"}
    results, groups = _numbers(world, measure, measured, found)
    levels = _ticket_levels(world, found, groups)
    masks, ranks = _random_masks(world, found)
    importance, truth = _importance(world), _truth(world)
    tables = {
        "random_masks": masks,
        "random_ranks": ranks,
        "head_truth": truth,
        "truth_agreement": agreement_table(importance, truth),
        "variants": _with_tickets(variant_rows(world), levels),
        "results": results,
        "groups": groups,
        "texts": _texts(world),
        "predictions": _predictions(world, found),
        "importance": importance,
        "iterations": _iterations(world, found),
        "iteration_scores": _iteration_scores(world),
        "ticket_levels": levels,
        "tickets": _tickets(levels),
        "costs": _costs(world),
        "curves": _curves(world),
        "arm_differences": _differences(world, measured),
    }
    if world.options["lens"]:
        tables["lens"] = _lens(world)
    if world.options["weights"]:
        tables["weights"] = _weights(world)
    return world, measure.notes, tables


def _numbers(
    world: TextWorld, measure: GroupMeasure, measured: dict[tuple[str, float], Arm], found: dict
) -> tuple[pd.DataFrame, pd.DataFrame]:
    parts = [
        measure.dense(),
        *(
            measure.dense_arm.trial(seed, f"dense#{seed}")
            for seed in measure.dense_arm.trials.numbers
        ),
    ]
    for (arm, sparsity), mine in measured.items():
        parts.append(mine.pooled(variant_id(arm, sparsity)))
        parts += [mine.trial(seed, variant_id(arm, sparsity, seed)) for seed in mine.trials.numbers]
    results = pd.concat([part.results for part in parts], ignore_index=True)
    groups = pd.concat([*(part.groups for part in parts), _borkan(world, found)], ignore_index=True)
    groups["verdict"] = groups["verdict"].str.replace("images", "texts")
    if world.options["metric"] == "matthews":
        results = pd.concat([results, _matthews_rows(world, found)], ignore_index=True)
    return results, groups


def _borkan(world: TextWorld, found: dict) -> pd.DataFrame:
    """BPSN and BNSP AUC of every group of the axes that are not the class; intervals made up around
    them."""
    labels, rows = world.texts["label"].to_numpy() == 1, []
    for (arm, sparsity), trials in found.items():
        for axis in world.axes[:2]:
            for group in sorted(world.texts[axis].unique()):
                inside = (world.texts[axis] == group).to_numpy()
                for metric, chosen in (
                    ("bpsn_auc", inside != labels),
                    ("bnsp_auc", inside == labels),
                ):
                    value, dense = (
                        _mean_auc(parts, labels, chosen) for parts in (trials, found["dense", 0.0])
                    )
                    change = value - dense if arm != "dense" else np.nan
                    few = "too few texts" if inside.sum() < 10 else ""
                    rows.append(
                        (
                            "dense" if arm == "dense" else variant_id(arm, sparsity),
                            "test",
                            axis,
                            metric,
                            group,
                            value,
                            value - 0.03,
                            min(1.0, value + 0.03),
                            int(inside.sum()),
                            float((inside & labels).sum()),
                            change,
                            change - 0.02,
                            change + 0.02,
                            few,
                        )
                    )
    names = (
        "variant split axis metric group value low high n n_positive delta delta_low delta_high"
        " verdict"
    )
    return pd.DataFrame(rows, columns=names.split())


def _mean_auc(trials: list[np.ndarray], labels: np.ndarray, chosen: np.ndarray) -> float:
    ones = np.ones((int(chosen.sum()), 1))
    if labels[chosen].all() or not labels[chosen].any():
        return float("nan")
    return float(np.mean([auc(part[chosen, 1], labels[chosen], ones)[0] for part in trials]))


def matthews(answer: np.ndarray, labels: np.ndarray) -> float:
    said = answer[:, 1] > 0.5
    if said.all() or not said.any():
        return 0.0
    return float(np.corrcoef(said, labels)[0, 1])


def _matthews_rows(world: TextWorld, found: dict) -> pd.DataFrame:
    labels, rows = world.texts["label"].to_numpy(), []
    dense = np.mean([matthews(part, labels) for part in found["dense", 0.0]])
    nan = float("nan")
    for (arm, sparsity), trials in found.items():
        value = float(np.mean([matthews(part, labels) for part in trials]))
        change = nan if arm == "dense" else value - dense
        rows.append(
            {
                "variant": "dense" if arm == "dense" else variant_id(arm, sparsity),
                "split": "test",
                "axis": "",
                "metric": "matthews",
                "value": value,
                "low": value - 0.08,
                "high": value + 0.08,
                "n": len(labels),
                "null_mean": nan,
                "null_low": nan,
                "null_high": nan,
                "null_p": nan,
                "delta": change,
                "delta_low": change - 0.05,
                "delta_high": change + 0.05,
                "delta_p": nan,
                "group": "",
                "verdict": "",
            }
        )
    return pd.DataFrame(rows)


def _scopes(world: TextWorld, groups: pd.DataFrame) -> Iterator[tuple[str, str, np.ndarray]]:
    """All texts, then every group that may be compared."""
    yield "", "", np.ones(len(world.texts), dtype=bool)
    known = groups[(groups["variant"] == "dense") & (groups["metric"] == "accuracy")]
    for row in known[known["verdict"] == ""].itertuples():
        column = (
            pd.Series(np.array(world.classes)[world.texts["label"]])
            if row.axis == "class"
            else world.texts[row.axis]
        )
        yield row.axis, row.group, (column == row.group).to_numpy()


def _ticket_levels(world: TextWorld, found: dict, groups: pd.DataFrame) -> pd.DataFrame:
    """Means and deviations over seeds, and whether full mean <= mean + deviation."""
    labels, rows = world.texts["label"].to_numpy(), []
    for axis, group, chosen in _scopes(world, groups):
        metric = "accuracy" if group else world.options["metric"]
        full = [_task(part, labels, chosen, metric) for part in found["dense", 0.0]]
        for (arm, sparsity), trials in found.items():
            if arm == "dense":
                continue
            values = [_task(part, labels, chosen, metric) for part in trials]
            (mean, std), (full_mean, full_std) = (
                (float(np.mean(one)), float(np.std(one, ddof=1)) if len(one) > 1 else float("nan"))
                for one in (values, full)
            )
            rows.append(
                (
                    arm,
                    sparsity,
                    axis,
                    group,
                    metric,
                    mean,
                    std,
                    full_mean,
                    full_std,
                    len(values),
                    bool(len(values) >= 3 and full_mean <= mean + std),
                    int(chosen.sum()),
                    0,
                )
            )
    names = (
        "method sparsity axis group metric mean std full_mean full_std n_seeds matching n"
        " degenerate"
    )
    table = pd.DataFrame(rows, columns=names.split())
    return table.assign(
        word=[_ticket_word(world, *row) for row in table[["method", "matching"]].values]
    )


def _ticket_word(world: TextWorld, method: str, matching: bool) -> str:
    """What a level is called: "" where there are too few seeds to say."""
    won = (
        "winning"
        if method.split(":")[0] in RETRAINED and world.options["pretrained"]
        else "matching"
    )
    return "" if world.options["trials"] < 3 else won if matching else "no"


def _task(answer: np.ndarray, labels: np.ndarray, chosen: np.ndarray, metric: str) -> float:
    if metric == "matthews":
        return matthews(answer[chosen], labels[chosen])
    return float(((answer[chosen, 1] > 0.5) == labels[chosen]).mean())


def _tickets(levels: pd.DataFrame) -> pd.DataFrame:
    """The largest matching share per arm and group, and the largest up to which every share
    matches."""
    rows = []
    for (method, axis, group, metric), part in levels.groupby(
        ["method", "axis", "group", "metric"], sort=False
    ):
        part = part.sort_values("sparsity")
        good = part[part["matching"]]
        unbroken = part[part["matching"].cummin()]["sparsity"].max()
        row = good.iloc[-1] if len(good) else None
        nan = float("nan")
        rows.append(
            {
                "method": method,
                "axis": axis,
                "group": group,
                "metric": metric,
                "sparsity": nan if row is None else row["sparsity"],
                "unbroken": unbroken,
                "mean": nan if row is None else row["mean"],
                "std": nan if row is None else row["std"],
                "full_mean": part["full_mean"].iat[0],
                "full_std": part["full_std"].iat[0],
                "n_seeds": part["n_seeds"].iat[0],
            }
        )
    return pd.DataFrame(rows)


def _with_tickets(variants: pd.DataFrame, levels: pd.DataFrame) -> pd.DataFrame:
    whole = levels[levels["group"] == ""].set_index(["method", "sparsity"])["word"]
    for row in variants[(variants["method"] != "dense") & variants["chosen"]].itertuples():
        variants.loc[row.Index, "ticket"] = whole[row.method, row.sparsity]
    return variants


def _random_masks(world: TextWorld, found: dict) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Masks of random heads and the ranks of arms that train nothing, on all texts."""
    labels, everything, metric = (
        world.texts["label"].to_numpy(),
        slice(None),
        world.options["metric"],
    )
    seeds, masks, ranks = range(world.options["trials"]), [], []
    for sparsity in world.options["sparsities"]:
        draw = rng("synthetic random masks", sparsity)
        chance = 0.9 - 0.3 * sparsity + 0.05 * draw.normal(size=(len(seeds), MASKS))
        units = [
            json.dumps(sorted(draw.choice(UNITS, round(sparsity * UNITS), replace=False).tolist()))
            for _ in range(MASKS)
        ]
        for seed in seeds:
            masks.append(
                pd.DataFrame(
                    {
                        "sparsity": sparsity,
                        "seed": seed,
                        "mask": range(MASKS),
                        "axis": "",
                        "group": "",
                        "metric": metric,
                        "value": chance[seed],
                        "n_cut": round(sparsity * UNITS),
                        "units": units,
                    }
                )
            )
        for arm in (arm for arm in world.arms if arm.split(":")[0] not in RETRAINED):
            values = np.array(
                [_task(part, labels, everything, metric) for part in found[arm, sparsity]]
            )
            rank = rank_among(values, chance)
            ranks.append(
                {
                    "method": arm,
                    "sparsity": sparsity,
                    "axis": "",
                    "group": "",
                    "metric": metric,
                    "value": values.mean(),
                    "percentile": rank.percentile,
                    "p": rank.p,
                    "null_mean": rank.mean,
                    "null_low": rank.low,
                    "null_high": rank.high,
                    "n_masks": MASKS,
                    "n_seeds": len(seeds),
                    "n": len(labels),
                }
            )
    table = pd.DataFrame(ranks)
    return pd.concat(masks, ignore_index=True), table.assign(q=benjamini_hochberg(table["p"]))


def _truth(world: TextWorld) -> pd.DataFrame:
    """What silencing each head costs: what the task needs it for."""
    units, rows = np.arange(UNITS), []
    for metric, scale in (("loss", 0.2), ("accuracy", 0.05)):
        for seed in (*range(world.options["trials"]), -1):
            noise = rng("synthetic truth", metric, seed).normal(size=UNITS)
            cost = scale * latent(world.options["stream"]) + 0.1 * scale * noise
            rows.append(
                pd.DataFrame(
                    {
                        "metric": metric,
                        "seed": seed,
                        "unit": units,
                        "layer": units // HEADS,
                        "head": units % HEADS,
                        "cost": cost,
                        "low": cost - 0.02,
                        "high": cost + 0.02,
                        "n": len(world.texts),
                    }
                )
            )
    return pd.concat(rows, ignore_index=True)


def _texts(world: TextWorld) -> pd.DataFrame:
    return world.texts.assign(
        text=[words_of(world, row) for row in range(len(world.texts))], text_b=""
    )


def _predictions(world: TextWorld, found: dict) -> pd.DataFrame:
    parts = [("dense", np.mean(found["dense", 0.0], axis=0))]
    for (arm, sparsity), trials in found.items():
        name = "dense" if arm == "dense" else variant_id(arm, sparsity)
        parts += [(f"{name}#{seed}", part) for seed, part in enumerate(trials)]
    return pd.concat(
        [
            pd.DataFrame(part.astype(np.float32), columns=["p_0", "p_1"]).assign(
                variant=name, text_id=world.texts["text_id"]
            )[["variant", "text_id", "p_0", "p_1"]]
            for name, part in parts
        ],
        ignore_index=True,
    )


def _importance(world: TextWorld) -> pd.DataFrame:
    """Per stage and score: every seed over all texts, and pooled with intervals over all texts and
    per group."""
    rows, units = [], np.arange(UNITS)
    scopes = [("", ""), *((world.axes[0], world.name(group)) for group in ("short", "long"))]
    for stage in ("pre-trained", "fine-tuned") if world.options["pretrained"] else ("fine-tuned",):
        for score in (score for score in world.options["scores"] if score != "random"):
            for axis, group in scopes if score in ("conductance", "michel") else scopes[:1]:
                parts = [
                    importance_of(world, score, stage, seed, group)
                    for seed in range(world.options["trials"])
                ]
                shown = [(seed, part) for seed, part in enumerate(parts)] if not group else []
                for seed, value in [*shown, (-1, np.mean(parts, axis=0))]:
                    spread = 0.03 if seed == -1 and score in ("conductance", "michel") else np.nan
                    n = (
                        0
                        if score == "magnitude"
                        else 80 * (world.options["trials"] if seed == -1 else 1)
                    )
                    constant = np.where(units == CONSTANT, n, 0) * (score == "conductance")
                    rows.append(
                        pd.DataFrame(
                            {
                                "stage": stage,
                                "score": score,
                                "seed": seed,
                                "axis": axis,
                                "group": group,
                                "unit": units,
                                "layer": units // HEADS,
                                "head": units % HEADS,
                                "value": value,
                                "low": value - spread,
                                "high": value + spread,
                                "n": n,
                                "n_constant": constant,
                            }
                        )
                    )
    return pd.concat(rows, ignore_index=True)


def _iterations(world: TextWorld, found: dict) -> pd.DataFrame:
    labels, rows = world.texts["label"].to_numpy(), []
    everything = np.ones(len(labels), dtype=bool)
    for arm in world.arms:
        for seed in range(world.options["trials"]):
            before: tuple[int, ...] = ()
            for iteration, sparsity in enumerate(world.options["sparsities"], 1):
                mask = cut_of(world, arm, sparsity, seed)
                value = _task(
                    found[arm, sparsity][seed], labels, everything, world.options["metric"]
                )
                reads = arm.endswith(("conductance", "michel"))
                rows.append(
                    {
                        "method": arm,
                        "seed": seed,
                        "iteration": iteration,
                        "n_cut": len(mask.units),
                        "sparsity": mask.sparsity,
                        "units": json.dumps(list(mask.units)),
                        "newly": json.dumps(sorted(set(mask.units) - set(before))),
                        "metric": value,
                        "delta": 0.004 * iteration if arm.endswith("conductance") else np.nan,
                        "n_texts": 80 if reads else 0,
                        "retrained": arm.split(":")[0] in RETRAINED,
                        "seconds": 3.5 + iteration,
                    }
                )
                before = mask.units
    return pd.DataFrame(rows)


def _iteration_scores(world: TextWorld) -> pd.DataFrame:
    rows = []
    for arm in world.arms:
        for seed in range(world.options["trials"]):
            gone: tuple[int, ...] = ()
            for iteration, sparsity in enumerate(world.options["sparsities"], 1):
                value = importance_of(world, arm.split(":")[1], "fine-tuned", seed).copy()
                value[list(gone)] = np.nan
                rows.append(
                    pd.DataFrame(
                        {
                            "method": arm,
                            "seed": seed,
                            "iteration": iteration,
                            "unit": np.arange(UNITS),
                            "value": value,
                        }
                    )
                )
                gone = cut_of(world, arm, sparsity, seed).units
    return pd.concat(rows, ignore_index=True)


def _costs(world: TextWorld) -> pd.DataFrame:
    rows = [("dense", 530_000, 1.0)]
    rows += [
        (variant_id(arm, share), 530_000 - int(64_000 * share), 1 + 0.15 * share)
        for arm in world.arms
        for share in world.options["sparsities"]
    ]
    return pd.DataFrame(
        [
            {
                "variant": name,
                "parameters": parameters,
                "bytes": 4 * parameters,
                "latency_ms": 6.1 / gain,
                "latency_low": 5.9 / gain,
                "latency_high": 6.4 / gain,
                "dense_latency_ms": 6.1,
                "speedup": gain,
                "speedup_low": 0.97 * gain,
                "speedup_high": 1.04 * gain,
                "n": 20,
                "max_logit_difference": 0.0 if name == "dense" else 2e-6,
                "agrees": True,
            }
            for name, parameters, gain in rows
        ]
    )


def _curves(world: TextWorld) -> pd.DataFrame:
    steps, parts = np.arange(3), []
    names = [f"dense#{seed}" for seed in range(world.options["trials"])]
    names += [
        variant_id(arm, share, 0)
        for arm in world.arms
        for share in world.options["sparsities"]
        if arm.split(":")[0] in RETRAINED
    ]
    for name in names:
        parts.append(
            pd.DataFrame(
                {"variant": name, "phase": "tune", "step": steps, "loss": 0.7 * np.exp(-steps)}
            )
        )
    return pd.concat(parts, ignore_index=True)


def _differences(world: TextWorld, measured: dict[tuple[str, float], Arm]) -> pd.DataFrame:
    """Every score against random, and conductance against the others."""
    parts = []
    for (arm, sparsity), mine in measured.items():
        procedure, score = arm.split(":")
        others = [other for other in world.options["scores"] if other != score]
        for other in (
            others if score == "conductance" else [one for one in others if one == "random"]
        ):
            table = arm_difference(mine, measured[f"{procedure}:{other}", sparsity])
            table = table[table["metric"].isin(METRICS)]
            parts.append(
                table.assign(
                    base=procedure,
                    score=score,
                    other=other,
                    sparsity=sparsity,
                    q=benjamini_hochberg(table["p"].to_numpy()),
                    n_trials=len(mine.trials.numbers),
                )
            )
    names = "base score other sparsity axis metric group value low high p q n n_trials verdict"
    return pd.concat(parts, ignore_index=True)[names.split()]


def _lens(world: TextWorld) -> pd.DataFrame:
    """Two layers, all heads, of three texts at each stage; head 13's attention never varies."""
    rows, stages = (
        [],
        [
            "pre-trained",
            "fine-tuned",
            variant_id(world.arms[-2], world.options["sparsities"][0], 0),
        ],
    )
    for place in (0, 3, 5):
        tokens = ["[CLS]", *words_of(world, place).split()[:9], "[SEP]"]
        for stage in stages if world.options["pretrained"] else stages[1:]:
            for unit in (*range(HEADS), CONSTANT):
                rows.append(_lens_row(world, place, tokens, stage, unit))
    return pd.DataFrame(rows)


def _lens_row(
    world: TextWorld, place: int, tokens: list[str], stage: str, unit: int
) -> dict[str, Any]:
    n, draw = len(tokens), rng("synthetic lens", place, stage, unit)
    attention = (
        draw.dirichlet(np.full(n, 0.6), size=n) if unit != CONSTANT else np.full((n, n), 1 / n)
    )
    strength = {"pre-trained": 0.1}.get(stage, 0.5)
    attribution = strength * (attention - 1 / n) + 0.1 * draw.normal(size=(n, n))
    scale = float(np.abs(attribution).max())
    ranks = [pd.Series(part.ravel()).rank() for part in (attention, attribution)]
    label = int(world.texts["label"].iat[place])
    return {
        "text_id": world.texts["text_id"].iat[place],
        "stage": stage,
        "layer": unit // HEADS,
        "head": unit % HEADS,
        "tokens": json.dumps(tokens),
        "n_tokens": n,
        "attention": attention.astype(np.float16).tobytes(),
        "attribution": (attribution / scale).astype(np.float16).tobytes(),
        "correlation": float("nan") if unit == CONSTANT else float(ranks[0].corr(ranks[1])),
        "scale": scale,
        "predicted": world.classes[label * (stage != "pre-trained")],
        "label": world.classes[label],
    }


def _weights(world: TextWorld) -> pd.DataFrame:
    """Stand-ins for weights: a few bytes each."""
    names = [
        "dense#0",
        *(
            variant_id(arm, share, 0)
            for arm in world.arms
            for share in world.options["sparsities"]
            if arm.split(":")[0] in RETRAINED
        ),
    ]
    rows = [(name, "classifier.bias", "[2]", "<f4", np.float32([1, 2]).tobytes()) for name in names]
    return pd.DataFrame(rows, columns=["variant", "name", "shape", "dtype", "data"])


def _meta(world: TextWorld, groups: pd.DataFrame, notes: tuple[str, ...]) -> dict[str, Any]:
    options = world.options
    dense = groups[(groups["variant"] == "dense") & (groups["metric"] == "accuracy")]
    stand_in = "Generated remarks about invented people: a stand-in for texts that people wrote."
    pretrained = hash_of("pretrained") if options["pretrained"] else None
    request = {
        "track": "text_classifiers",
        "model": "demo-bert",
        "pretrained": "demo-bert/pretrained" if pretrained else None,
        "data": "remarks",
        "text": None,
        "text_b": None,
        "target": None,
        "axes": list(world.axes),
        "methods": world.arms,
        "sparsities": list(options["sparsities"]),
        "step": 0.25,
        "trials": options["trials"],
        "first_seed": 0,
        "retune": bool(pretrained),
        "tune": {"epochs": 3, "rate": 2e-5, "batch": 32},
        "score_settings": {},
        "score_texts": 80,
        "max_length": 64,
        "max_texts": None,
        "keep_weights": "first",
        "title": "",
        "device": "cpu",
        "restart": False,
    }
    model = {
        "name": "synthetic-bert",
        "model_type": "bert",
        "revision": None,
        "weight_hash": hash_of("weights"),
        "pretrained_hash": pretrained,
        "n_layers": LAYERS,
        "n_heads": HEADS,
        "parameters": 530_000,
        "classes": list(world.classes),
        "max_length": 64,
        "retuned": bool(pretrained),
    }
    data = {
        "name": options["task"],
        "digest": hash_of("texts", options["stream"], options["texts"]),
        "notes": [],
        "stand_in": stand_in,
        "metric": options["metric"],
        "classes": list(world.classes),
        "groups": list(world.axes[:2]),
        "pair": False,
        "texts": {"test": options["texts"], "train": 900},
        "counts": {f"{row.split}/{row.axis}/{row.group}": int(row.n) for row in dense.itertuples()},
        "truncated": {"test": 0, "train": 2},
    }
    return {
        "track": "text_classifiers",
        "created": options["created"],
        "title": options["title"],
        "request": request,
        "model": model,
        "data": data,
        "provenance": {
            "versions": {"python": "3.11", "torch": "2.13.0"},
            "device": "cpu",
            "dtype": "float32",
            "code": {"tuned": 1},
        },
        "warnings": [
            stand_in,
            "Synthetic run: every number is made up.",
            *(note.replace("images", "texts") for note in notes),
        ],
        "spent": {"load": 0.4, "fine-tune": 61.0, "measure": 5.2},
    }
