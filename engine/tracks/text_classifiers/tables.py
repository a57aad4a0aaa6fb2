"""From finished trials to the tables of a text classifier's run. Their columns are described in
docs/TABLES.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.groups import Arm as MeasuredArm
from engine.classifiers.groups import GroupMeasure, arm_difference
from engine.classifiers.layout import TEXTS
from engine.classifiers.metrics import degenerate
from engine.core.types import POOLED
from engine.stats.student import benjamini_hochberg
from engine.store.tables import pack, unpack, within
from engine.tracks.text_classifiers.arms import (
    DENSE,
    Finished,
    TextArm,
    cost_shards,
    dense_trials,
    lens_shards,
)
from engine.tracks.text_classifiers.context import TEST, TextContext, TextShard
from engine.tracks.text_classifiers.importance import agreement_table, importance_table, truth_table
from engine.tracks.text_classifiers.metrics import (
    MATTHEWS,
    BorkanMeasure,
    ByTrial,
    CellArm,
    TaskMetric,
    task_metric,
)
from engine.tracks.text_classifiers.null_tables import null_tables
from engine.tracks.text_classifiers.procedures import Iteration
from engine.tracks.text_classifiers.request import TextRequest
from engine.tracks.text_classifiers.winning_tickets import ticket_tables

DIFFERENCES = ("auc", "accuracy", "auc_gap", "accuracy_gap")
"""What is compared between two scores of the same procedure."""
REFERENCES = ("random", "magnitude", "michel")
"""Scores that another is compared with, where both were asked for."""
Check = Callable[[], None]


@dataclass(frozen=True)
class Measures:
    """Everything that is measured on answers, on the same test texts."""

    groups: GroupMeasure
    task: TaskMetric | None
    """None where the task's metric is accuracy, which `groups` measures anyway."""
    borkan: BorkanMeasure

    def variant(self, trials: ByTrial) -> MeasuredText:
        """One variant, measured from the answers of its trials, [texts, classes] each."""
        task = None if self.task is None else self.task.variant(trials)
        return MeasuredText(self.groups.variant(trials), task, self.borkan.variant(trials))

    @property
    def dense(self) -> MeasuredText:
        task = None if self.task is None else self.task.dense_arm
        return MeasuredText(self.groups.dense_arm, task, self.borkan.dense_arm)


@dataclass(frozen=True)
class MeasuredText:
    """One variant, measured in every way."""

    groups: MeasuredArm
    task: CellArm | None
    borkan: CellArm

    def rows(self, name: str, trial: int | None) -> tuple[list[pd.DataFrame], list[pd.DataFrame]]:
        """Rows of `results` and of `groups`, of one trial or (None) of the mean over all."""

        def of(arm: Any) -> Any:
            return arm.pooled(name) if trial is None else arm.trial(trial, name)

        whole = of(self.groups)
        return [whole.results, *([of(self.task)] if self.task else [])], [
            whole.groups,
            of(self.borkan),
        ]


def text_tables(
    context: TextContext,
    request: TextRequest,
    arms: Sequence[TextArm],
    finished: Finished,
    check: Check,
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """All tables of the run, and sentences about the groups that a screen must show."""
    texts, dense = context.table(TEST), dense_trials(context, request.trials)
    measures = _measures(context, request, texts, dense)
    results, groups, differences = _numbers(context, arms, finished, measures, check)
    variants = _variants(context, arms, finished, dense)
    levels, tickets = ticket_tables(context, arms, finished, dense, measures.groups)
    words = levels[levels["axis"] == ""].set_index(["method", "sparsity"])["word"]
    variants["ticket"] = [
        words.get((row.method, row.sparsity), "") if row.seed == POOLED else ""
        for row in variants.itertuples()
    ]
    masks, ranks = null_tables(context, arms, finished, measures.groups)
    importance = importance_table(context, arms, request.trials)
    truth = truth_table(context, request.trials)
    check()
    tables = {
        "variants": variants,
        "results": results,
        "groups": groups,
        "arm_differences": differences,
        "texts": texts[["text_id", "split", "label", *context.texts.groups, "text", "text_b"]],
        "predictions": _predictions(context, arms, finished, dense, texts),
        "importance": importance,
        "iterations": _iterations(context, arms, finished),
        "iteration_scores": _iteration_scores(arms, finished),
        "ticket_levels": levels,
        "tickets": tickets,
        "random_masks": masks,
        "random_ranks": ranks,
        "head_truth": truth,
        "truth_agreement": agreement_table(importance, truth),
        "lens": _lens(context, arms, finished),
        "costs": _costs(context, arms, finished),
        "curves": _curves(context, arms, finished, dense),
    }
    weights = _weights(context, request, arms, finished, dense)
    if len(weights):
        tables["weights"] = weights
    return tables, list(measures.groups.notes)


def _measures(
    context: TextContext, request: TextRequest, texts: pd.DataFrame, dense: Sequence[TextShard]
) -> Measures:
    answers = [context.answers(shard).astype(np.float64) for shard in dense]
    given: Any = answers if context.settings.retune else answers[0]
    classes = context.any_model.classes
    return Measures(
        GroupMeasure(texts, classes, request.axes, given, items=TEXTS),
        TaskMetric(texts, classes, given) if context.texts.metric == MATTHEWS else None,
        BorkanMeasure(texts, classes, request.axes, given),
    )


def answers_at(
    context: TextContext, arm: TextArm, finished: Finished, sparsity: float
) -> list[np.ndarray]:
    """Answers of every trial, in order, float64 [texts, classes]."""
    shards = (finished.answers(arm, sparsity, trial) for trial in range(arm.n_trials))
    return [context.answers(one).astype(np.float64) for one in shards]


def _numbers(
    context: TextContext,
    arms: Sequence[TextArm],
    finished: Finished,
    measures: Measures,
    check: Check,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """results and groups of the full model, every pooled variant and every trial; differences
    between scores."""
    numbers = measures.groups.dense_arm.trials.numbers if context.settings.retune else ()
    found = [
        measures.dense.rows(DENSE, None),
        *(measures.dense.rows(f"{DENSE}#{one}", one) for one in numbers),
    ]
    measured: dict[tuple[str, float], MeasuredArm] = {}
    for arm in arms:
        for sparsity in arm.sparsities:
            check()
            mine = measures.variant(answers_at(context, arm, finished, sparsity))
            measured[arm.name, sparsity] = mine.groups
            trials = (mine.rows(arm.id_of(sparsity, trial), trial) for trial in range(arm.n_trials))
            found += [mine.rows(arm.pooled(sparsity), None), *trials]
    results, groups = (
        pd.concat([part for pair in found for part in pair[place] if len(part)], ignore_index=True)
        for place in (0, 1)
    )
    return results, groups, _differences(arms, measured)


def _differences(
    arms: Sequence[TextArm], measured: dict[tuple[str, float], MeasuredArm]
) -> pd.DataFrame:
    """Every score minus its references, by procedure and sparsity; q: Benjamini-Hochberg per
    metric."""
    columns = [
        "base",
        "score",
        "other",
        "sparsity",
        "axis",
        "metric",
        "group",
        "value",
        "low",
        "high",
        "p",
        "q",
        "n",
        "n_trials",
        "verdict",
    ]
    parts = []
    for one, other in _compared(arms):
        for sparsity in one.sparsities:
            table = arm_difference(measured[one.name, sparsity], measured[other.name, sparsity])
            table = table[table["metric"].isin(DIFFERENCES)]
            parts.append(
                table.assign(
                    base=one.procedure.name,
                    score=one.score,
                    other=other.score,
                    sparsity=sparsity,
                    n_trials=one.n_trials,
                )
            )
    if not parts:
        return pd.DataFrame(columns=columns)
    table = pd.concat(parts, ignore_index=True)
    return table.assign(q=table.groupby("metric")["p"].transform(benjamini_hochberg))[columns]


def _compared(arms: Sequence[TextArm]) -> Iterator[tuple[TextArm, TextArm]]:
    """Conductance with every reference, and any other score with random."""
    for one in arms:
        for other in arms:
            same = one.procedure is other.procedure and one is not other
            wanted = (
                other.score in REFERENCES if one.score == "conductance" else other.score == "random"
            )
            if same and wanted:
                yield one, other


def _variants(
    context: TextContext, arms: Sequence[TextArm], finished: Finished, dense: Sequence[TextShard]
) -> pd.DataFrame:
    """The full model, every pooled variant, every trial."""
    full = [
        _row(
            f"{DENSE}#{shard.trial}",
            DENSE,
            parameters=context.any_model.n_parameters,
            seed=shard.trial,
            pooled=DENSE,
            chosen=False,
            degenerate=int(degenerate(context.answers(shard))),
            retrained=True,
        )
        for shard in dense
    ]
    whole = _row(
        DENSE,
        DENSE,
        parameters=context.any_model.n_parameters,
        retrained=context.settings.retune,
        degenerate=sum(row["degenerate"] for row in full),
    )
    rows = [whole, *(full if context.settings.retune else ())]
    for arm in arms:
        for sparsity in arm.sparsities:
            trials = [
                _trial_row(context, arm, finished, sparsity, trial) for trial in range(arm.n_trials)
            ]
            rows += [_pooled_row(arm, sparsity, trials), *trials]
    return pd.DataFrame(rows)


def _row(name: str, method: str, **more: Any) -> dict[str, Any]:
    usual = {
        "base": "",
        "score": "",
        "target_axis": "",
        "gamma": np.nan,
        "sparsity": 0.0,
        "realised": 0.0,
        "n_cut": 0,
        "seed": POOLED,
        "pooled": "",
        "chosen": True,
        "degenerate": 0,
        "retrained": False,
        "cut": "[]",
        "mask_digest": "",
        "parameters": 0,
        "max_logit_difference": 0.0,
    }
    return {"variant": name, "method": method, **usual, **more}


def _trial_row(
    context: TextContext, arm: TextArm, finished: Finished, sparsity: float, trial: int
) -> dict[str, Any]:
    found, answers = finished.at(arm, sparsity, trial), finished.answers(arm, sparsity, trial)
    mask = context.mask(found.cut)
    _, plain = context.without_weights(answers)
    return _row(
        arm.id_of(sparsity, trial),
        arm.name,
        base=arm.procedure.name,
        score=arm.score,
        sparsity=sparsity,
        realised=mask.sparsity,
        n_cut=len(found.cut),
        seed=trial,
        pooled=arm.pooled(sparsity),
        chosen=False,
        degenerate=int(degenerate(context.answers(answers))),
        retrained=found.retrained,
        cut=json.dumps(list(mask.units)),
        mask_digest=mask.digest,
        parameters=context.parameters_after(found.cut),
        max_logit_difference=float(plain.get("max_logit_difference", np.nan)),
    )


def _pooled_row(arm: TextArm, sparsity: float, trials: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return _row(
        arm.pooled(sparsity),
        arm.name,
        base=arm.procedure.name,
        score=arm.score,
        sparsity=sparsity,
        realised=float(np.mean([row["realised"] for row in trials])),
        n_cut=trials[0]["n_cut"],
        degenerate=sum(row["degenerate"] for row in trials),
        retrained=trials[0]["retrained"],
        cut="",
        parameters=int(np.mean([row["parameters"] for row in trials])),
        max_logit_difference=float(np.max([row["max_logit_difference"] for row in trials])),
    )


def _predictions(
    context: TextContext,
    arms: Sequence[TextArm],
    finished: Finished,
    dense: Sequence[TextShard],
    texts: pd.DataFrame,
) -> pd.DataFrame:
    """Answers of every trial; "dense" is the mean of the full models' probabilities where there are
    several."""
    full = [(f"{DENSE}#{shard.trial}", context.answers(shard)) for shard in dense]
    parts = [
        (DENSE, np.mean([part for _, part in full], axis=0)),
        *(full if context.settings.retune else ()),
    ]
    for arm in arms:
        for sparsity in arm.sparsities:
            for trial in range(arm.n_trials):
                shard = finished.answers(arm, sparsity, trial)
                parts.append((arm.id_of(sparsity, trial), context.answers(shard)))
    columns = [f"p_{place}" for place in range(len(context.any_model.classes))]
    tables = [
        pd.DataFrame(part.astype(np.float32), columns=columns).assign(
            variant=name, text_id=texts["text_id"]
        )
        for name, part in parts
    ]
    return pd.concat(tables, ignore_index=True)[["variant", "text_id", *columns]]


def _iterations(context: TextContext, arms: Sequence[TextArm], finished: Finished) -> pd.DataFrame:
    """Every round of every procedure: what it cut, and the task's metric of the model after it."""
    labels = context.table(TEST)["label"].to_numpy()
    rows = []
    for arm in arms:
        for trial in range(arm.n_trials):
            for one in finished.rounds[arm.name, trial]:
                metric = float("nan")
                if one.answers is not None:
                    metric = task_metric(context.texts.metric, context.answers(one.answers), labels)
                rows.append(
                    {
                        "method": arm.name,
                        "seed": trial,
                        "iteration": one.number,
                        "n_cut": len(one.cut),
                        "sparsity": len(one.cut) / context.n_units,
                        "units": json.dumps(list(one.cut)),
                        "newly": json.dumps(list(one.newly)),
                        "metric": metric,
                        **_scored(context, one),
                        "parameters": context.parameters_after(one.cut),
                        "retrained": one.retrained,
                    }
                )
    return pd.DataFrame(rows)


def _scored(context: TextContext, one: Iteration) -> dict[str, Any]:
    """How far the attributions of a round are from complete, and on how many texts they rest."""
    arrays, plain = context.without_weights(one.importance)
    delta = np.abs(arrays["delta"])
    known = delta[np.isfinite(delta)]
    return {
        "delta": float(known.mean()) if len(known) else np.nan,
        "n_texts": len(plain["text_ids"]),
    }


def _iteration_scores(arms: Sequence[TextArm], finished: Finished) -> pd.DataFrame:
    """The importance that each round cut by; NaN for heads that were gone."""
    parts = []
    for arm in arms:
        for trial in range(arm.n_trials):
            for one in finished.rounds[arm.name, trial]:
                units = np.arange(len(one.values))
                parts.append(
                    pd.DataFrame(
                        {
                            "method": arm.name,
                            "seed": trial,
                            "iteration": one.number,
                            "unit": units,
                            "value": one.values,
                        }
                    )
                )
    return pd.concat(parts, ignore_index=True)


def _lens(context: TextContext, arms: Sequence[TextArm], finished: Finished) -> pd.DataFrame:
    found = lens_shards(context, arms, finished)
    tables = context.fetch(list(found.values()))
    parts = [
        table.assign(stage=stage) for stage, table in zip(found, tables, strict=True) if len(table)
    ]
    return pd.concat(parts, ignore_index=True) if parts else tables[0].assign(stage="")


def _costs(context: TextContext, arms: Sequence[TextArm], finished: Finished) -> pd.DataFrame:
    """The full model, and the first trial of every pooled variant."""
    shards = {DENSE: TextShard("text_cost"), **cost_shards(arms, finished)}
    tables = context.fetch(list(shards.values()))
    found = pd.concat(
        [table.assign(variant=name) for name, table in zip(shards, tables, strict=True)]
    )
    return found.reset_index(drop=True)


def _trained(arms: Sequence[TextArm], finished: Finished) -> Iterator[tuple[str, int, TextShard]]:
    """Variant id, trial and shard of every fine-tuned cut model at an asked sparsity."""
    for arm in arms:
        for sparsity in arm.sparsities if arm.procedure.retrains else ():
            for trial in range(arm.n_trials):
                yield arm.id_of(sparsity, trial), trial, finished.answers(arm, sparsity, trial)


def _curves(
    context: TextContext, arms: Sequence[TextArm], finished: Finished, dense: Sequence[TextShard]
) -> pd.DataFrame:
    """Loss per epoch of every fine-tuning that ends at an asked sparsity, and of the full
    models."""
    full = [(f"{DENSE}#{shard.trial}", shard.trial, shard) for shard in dense]
    parts = []
    for name, _, shard in [*full, *_trained(arms, finished)]:
        found = within(context.without_weights(shard)[0], "curve/")
        if found:
            parts.append(
                pd.DataFrame(found)
                .rename(columns={"epoch": "step"})
                .assign(variant=name, phase="tune")
            )
    columns = ["variant", "phase", "step", "loss", "rate"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _weights(
    context: TextContext,
    request: TextRequest,
    arms: Sequence[TextArm],
    finished: Finished,
    dense: Sequence[TextShard],
) -> pd.DataFrame:
    """Weights of fine-tuned models: of the first trials, of all or of none. The brought model's are
    its own file."""
    full = [
        (f"{DENSE}#{shard.trial}", shard.trial, shard) for shard in dense if context.settings.retune
    ]
    parts = []
    for name, trial, shard in [*full, *_trained(arms, finished)]:
        if request.keep_weights == "all" or (request.keep_weights == "first" and trial == 0):
            arrays = within(unpack(context.fetch([shard])[0])[0], "weights/")
            parts.append(pack(arrays).assign(variant=name))
    columns = ["variant", "name", "shape", "dtype", "data"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)
