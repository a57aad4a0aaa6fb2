"""A made-up finished run of the track of text classifiers for tests of screens and exports. Nothing
was measured.

The answers of every seed are drawn from a latent world in which cutting heads harms short texts
most, fine-tuning after the cut holds much of that back, and conductance knows which heads are
needed (option `helps`); results, groups, differences and tickets are computed from those answers by
the engine's own statistics, so that the tables agree. Deterministic.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.tables import (
    differences_table,
    measured_arms,
    numbers_of,
    weights_table,
)
from engine.core.types import rng
from engine.store.runs import Run, Store
from engine.tracks.text_classifiers.context import TextContext, TextSettings, TextShard
from engine.tracks.text_classifiers.procedures import (
    ArmLevel,
    Finished,
    Iteration,
    TextArm,
    dense_trials,
    procedures,
)
from engine.tracks.text_classifiers.request import TextRequest
from engine.tracks.text_classifiers.tables import (
    agreement_table,
    iteration_scores,
    iterations_table,
    measure_of,
    null_tables,
    predictions_table,
    score_differences,
    ticket_tables,
    variants_table,
)
from tests.builders import hash_of, options_of, shared
from tests.classifiers.made_up_images import cost_row
from tests.tracks.text_classifiers.made_up_world import (
    CONSTANT,
    HEADS,
    LAYERS,
    PROCEDURES,
    SCORES,
    SPARSITIES,
    UNITS,
    TextWorld,
    answers,
    cut_of,
    draw_text_world,
    importance_of,
    latent,
    words_of,
)

DRAWS, MASKS = 40, 50
PARAMETERS = 530_000
READING = ("conductance", "michel")
"""Scores that read texts."""
FEW = {"trials": 2, "sparsities": (0.5,), "texts": 120}
"""Options of a small run."""
PAPER = {"procedures": ("once", "one-shot-isp", "igspf", "igspp")}
"""Options of a run of which every table of the thesis reads something."""


def make_run(folder: Path | str, run_id: str = "text-run", **options: Any) -> Run:
    """Write the made-up run below the store `folder` and return it.

    Options: helps (True; False: all scores choose equally well); procedures, scores, sparsities;
    texts (240) and trials (3); metric ("accuracy" or "matthews"); task (name of the data);
    pretrained (True; False: only a fine-tuned model was brought); created (ISO time); title; stream
    (re-draws all). Numbers are computed once per process for the same options, whatever the task's
    name, the title and the time.
    """
    title = "Synthetic text run (made-up numbers, for tests)"
    every, computed = options_of(
        options,
        {"title": title, "created": "2026-03-01T12:00:00+00:00", "task": "synthetic remarks"},
        helps=True,
        procedures=PROCEDURES,
        scores=SCORES,
        sparsities=SPARSITIES,
        texts=240,
        trials=3,
        metric="accuracy",
        pretrained=True,
        stream=0,
    )
    world, notes, tables = _computed(computed)
    return Store(folder).write(
        run_id, _meta(replace(world, options=every), tables["groups"], notes), tables
    )


class MadeUp(TextContext):
    """The context of an audit whose answers are drawn from a world."""

    def __init__(self, world: TextWorld) -> None:
        options = world.options
        texts = SimpleNamespace(
            table=world.texts,
            groups=world.axes[:2],
            metric=options["metric"],
            classes=world.classes,
        )
        settings = TextSettings(retune=options["pretrained"], random_masks=MASKS)
        super().__init__(None, None, (), texts, settings, {})
        self.world, self.found = world, {}

    @cached_property
    def any_model(self) -> Any:
        return SimpleNamespace(
            classes=self.world.classes, n_parameters=PARAMETERS, n_layers=LAYERS, n_heads=HEADS
        )

    def table(self, split: str) -> pd.DataFrame:
        return self.world.texts

    def parameters_after(self, units: Any) -> int:
        return PARAMETERS - 4_000 * len(units)

    def answers(self, shard: TextShard) -> np.ndarray:
        if shard not in self.found:
            self.found[shard] = answers(self.world, "dense", 0.0, shard.trial)
        return self.found[shard]

    def without_weights(self, shard: TextShard) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        if shard.kind == "importance":
            texts = 80 if shard.score in READING else 0
            delta = 0.004 if shard.score == "conductance" else np.nan
            return {"delta": np.array([delta])}, {"text_ids": [""] * texts}
        if shard.kind != "random_masks":
            return {}, {"max_logit_difference": 0.0}
        draw = rng("synthetic random masks", shard.n_cut)
        units = [np.sort(draw.choice(UNITS, shard.n_cut, replace=False)) for _ in range(MASKS)]
        labels = self.world.texts["label"].to_numpy()
        right = 0.9 - 0.3 * shard.n_cut / UNITS + 0.05 * draw.normal(size=(MASKS, 1))
        is_right = rng("synthetic guesses", shard.n_cut, shard.trial).random((MASKS, len(labels)))
        predicted = np.where(is_right < right, labels, 1 - labels)
        return {"units": np.stack(units), "predicted": predicted}, {}

    def finished(self) -> Finished:
        """Every arm as if it had been walked: one round per share."""
        options, rounds, levels = self.world.options, {}, []
        shares, trials = options["sparsities"], range(options["trials"])
        arms = tuple(
            TextArm(procedures()[name], score, shares, 0.25, len(trials))
            for name, score in (arm.split(":") for arm in self.world.arms)
        )
        for arm in arms:
            for trial in trials:
                rounds[arm.name, trial] = tuple(self._rounds(arm, trial))
            levels += [
                ArmLevel(arm, share, tuple(rounds[arm.name, trial][place] for trial in trials))
                for place, share in enumerate(shares)
            ]
        return Finished(arms, rounds, tuple(levels))

    def _rounds(self, arm: TextArm, trial: int) -> Iterator[Iteration]:
        scored, before = TextShard("importance", score=arm.score, trial=trial), ()
        for number, share in enumerate(arm.sparsities, 1):
            cut = cut_of(self.world, arm.name, share, trial).units
            values = importance_of(self.world, arm.score, "fine-tuned", trial).copy()
            values[list(before)] = np.nan
            trains = arm.procedure.retrains
            shard = TextShard("tuned", cut, trial=trial)
            shard = shard if trains else TextShard("silenced", off=cut, trial=trial)
            self.found[shard] = answers(self.world, arm.name, share, trial)
            newly = tuple(sorted(set(cut) - set(before)))
            yield Iteration(number, newly, cut, scored, values, shard, (share,), trains)
            before = cut


@shared
def _computed(
    options: tuple[tuple[str, Any], ...],
) -> tuple[TextWorld, tuple[str, ...], dict[str, pd.DataFrame]]:
    """World, notes and tables of the run with these options."""
    world = draw_text_world(dict(options))
    context = MadeUp(world)
    finished, dense = context.finished(), dense_trials(context, world.options["trials"])
    several = world.options["pretrained"]
    full = {f"dense#{shard.trial}": shard for shard in dense} if several else {}
    given = [context.answers(shard) for shard in dense]
    measure = measure_of(
        context.texts, world.texts, world.axes, given if several else given[0], n_boot=DRAWS
    )
    measured = measured_arms(context.answers, finished.levels, measure, lambda: None)
    levels, tickets = ticket_tables(context, finished, dense, measure)
    masks, ranks = null_tables(context, finished, measure)
    numbers = {name: shard.trial for name, shard in full.items()}
    results, groups = numbers_of(measure, measured, lambda: None, numbers)
    importance, truth = _importance(world), _truth(world)
    texts = [words_of(world, row) for row in range(len(world.texts))]
    tables = {
        "random_masks": masks,
        "random_ranks": ranks,
        "head_truth": truth,
        "truth_agreement": agreement_table(importance, truth),
        "variants": variants_table(context, finished, dense, full, levels),
        "results": results,
        "groups": groups,
        "texts": world.texts.assign(text=texts, text_b=""),
        "predictions": predictions_table(context, finished, dense, full, world.texts),
        "importance": importance,
        "iterations": iterations_table(context, finished),
        "iteration_scores": iteration_scores(finished),
        "ticket_levels": levels,
        "tickets": tickets,
        "costs": _costs(finished),
        "curves": _curves([*full, *(name for name, _ in finished.trained())]),
        "arm_differences": differences_table(
            score_differences(measured), "base", "score", "other", "sparsity"
        ),
    }
    firsts = [level.id_of(level.shards()[0]) for level in finished.levels]
    tables["lens"] = _lens(world, firsts[-2 * len(world.options["sparsities"])])
    trained = [name for name, shard in finished.trained() if not shard.trial]
    bias = {"classifier.bias": np.float32([1, 2])}
    tables["weights"] = weights_table((name, bias) for name in ("dense#0", *trained))
    return world, tuple(measure.notes), tables


def _by_head(**columns: Any) -> pd.DataFrame:
    layers, heads = np.divmod(np.arange(UNITS), HEADS)
    return pd.DataFrame({"unit": np.arange(UNITS), "layer": layers, "head": heads, **columns})


def _truth(world: TextWorld) -> pd.DataFrame:
    """What silencing each head costs: what the task needs it for."""
    rows = []
    for metric, scale in (("loss", 0.2), ("accuracy", 0.05)):
        for seed in (*range(world.options["trials"]), -1):
            noise = rng("synthetic truth", metric, seed).normal(size=UNITS)
            cost = scale * latent(world.options["stream"]) + 0.1 * scale * noise
            ends = {"cost": cost, "low": cost - 0.02, "high": cost + 0.02}
            rows.append(_by_head(metric=metric, seed=seed, **ends, n=len(world.texts)))
    return pd.concat(rows, ignore_index=True)


def _importance(world: TextWorld) -> pd.DataFrame:
    """Per stage and score: every seed over all texts, and pooled with intervals over all texts and
    per group."""
    rows, trials = [], world.options["trials"]
    scopes = [("", ""), *((world.axes[0], group) for group in ("short", "long"))]
    stages = ("pre-trained", "fine-tuned")[not world.options["pretrained"] :]
    scores = [score for score in world.options["scores"] if score != "random"]
    for stage, score, (axis, group) in itertools.product(stages, scores, scopes):
        if group and score not in READING:
            continue
        parts = [importance_of(world, score, stage, seed, group) for seed in range(trials)]
        shown = [] if group else list(enumerate(parts))
        for seed, value in [*shown, (-1, np.mean(parts, axis=0))]:
            spread = 0.03 if seed == -1 and score in READING else np.nan
            n = 0 if score == "magnitude" else 80 * (trials if seed == -1 else 1)
            constant = np.where(np.arange(UNITS) == CONSTANT, n, 0) * (score == "conductance")
            named = {"stage": stage, "score": score, "seed": seed, "axis": axis, "group": group}
            ends = {"value": value, "low": value - spread, "high": value + spread}
            rows.append(_by_head(**named, **ends, n=n, n_constant=constant))
    return pd.concat(rows, ignore_index=True)


def _costs(finished: Finished) -> pd.DataFrame:
    shares = {"dense": 0.0} | {level.pooled: level.sparsity for level in finished.levels}
    rows = [
        cost_row(name, 1.0, 1 + 0.15 * share, PARAMETERS - int(64_000 * share), 0.0)
        for name, share in shares.items()
    ]
    return pd.DataFrame(rows).drop(columns=["flops", "theoretical"])


def _curves(names: list[str]) -> pd.DataFrame:
    steps = np.arange(3)
    fit = pd.DataFrame({"phase": "tune", "step": steps, "loss": 0.7 * np.exp(-steps)})
    return pd.concat([fit.assign(variant=name) for name in names], ignore_index=True)


def _lens(world: TextWorld, cut: str) -> pd.DataFrame:
    """Two layers, all heads, of three texts at each stage; head 13's attention never varies."""
    rows, stages = [], ["pre-trained", "fine-tuned", cut]
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


def _meta(world: TextWorld, groups: pd.DataFrame, notes: tuple[str, ...]) -> dict[str, Any]:
    options = world.options
    dense = groups[(groups["variant"] == "dense") & (groups["metric"] == "accuracy")]
    stand_in = "Generated remarks about invented people: a stand-in for texts that people wrote."
    pretrained = hash_of("pretrained") if options["pretrained"] else None
    request = TextRequest(
        model="demo-bert",
        pretrained="demo-bert/pretrained" if pretrained else None,
        data="remarks",
        axes=world.axes,
        methods=tuple(world.arms),
        sparsities=options["sparsities"],
        step=0.25,
        trials=options["trials"],
        retune=bool(pretrained),
        tune={"epochs": 3, "rate": 2e-5, "batch": 32},
        score_texts=80,
        max_length=64,
        device="cpu",
    )
    model = {
        "name": "synthetic-bert",
        "model_type": "bert",
        "revision": None,
        "weight_hash": hash_of("weights"),
        "pretrained_hash": pretrained,
        "n_layers": LAYERS,
        "n_heads": HEADS,
        "parameters": PARAMETERS,
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
        "request": request.to_dict(),
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
            *notes,
        ],
        "spent": {"load": 0.4, "fine-tune": 61.0, "measure": 5.2},
    }
