"""Tasks of lm-eval on the model as it is loaded here: the package asks, the model answers, its mask
acting."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

import pandas as pd

from engine.core.errors import PruneAuditError
from engine.core.types import Hooks
from engine.data.benchmarks.base import Benchmark
from engine.data.lm_tasks import Built, quiet, tasks_of
from engine.models.load_language_model import LanguageModel

BATCH = 16


def task_scores(
    lm: LanguageModel,
    benchmark: Benchmark,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
) -> pd.DataFrame:
    """One row per row of the benchmark's choices: logp, tokens and cut as
    `measurements.task_scores` has them.

    PruneAuditError where the tasks are no longer those that were read.
    """
    tasks, made = _built(benchmark.path, benchmark.digest)
    if made != dict(zip(benchmark.items["item_id"], benchmark.items["made_of"], strict=True)):
        raise PruneAuditError(
            f"The tasks of {benchmark.source} are not those that this audit began with."
        )
    answering = _answering(lm, hooks)
    found: dict[str, float] = {}
    for one in tasks:
        found |= _of_task(one, answering)
    score = benchmark.choices["item_id"].map(found).astype(float)
    logp = score.where(benchmark.choices["role"] == "right", 1 - score)
    return pd.DataFrame({"logp": logp.to_numpy(), "tokens": 1, "cut": False})


@lru_cache(maxsize=1)
def _built(path: str, digest: str) -> tuple[list[Built], dict[str, str]]:
    """The tasks and the digest of every item, by its id: built once for all variants of an audit.
    digest: of the benchmark, so that another file in the same place is read."""
    tasks = tasks_of(path)
    with quiet():
        return tasks, {item: made for one in tasks for item, _, made in one.items()}


def _answering(lm: LanguageModel, hooks: Hooks) -> Any:
    """The model as lm-eval asks it: the very object, with a copy of the tokenizer, which the
    package changes. A cancel is heeded before every batch."""
    with quiet():
        from lm_eval.models.huggingface import HFLM

        class Heeding(HFLM):
            def _model_call(self, *args: Any, **kwargs: Any) -> Any:
                hooks.check()
                return super()._model_call(*args, **kwargs)

            def _model_generate(self, *args: Any, **kwargs: Any) -> Any:
                hooks.check()
                return super()._model_generate(*args, **kwargs)

        return Heeding(
            pretrained=lm.model,
            tokenizer=copy.deepcopy(lm.tokenizer),
            backend="causal",
            max_length=lm.n_positions,
            batch_size=BATCH,
        )


def _of_task(one: Built, answering: Any) -> dict[str, float]:
    """Every item's number, by its id."""
    with quiet():
        from lm_eval.evaluator import evaluate

        said = evaluate(
            lm=answering, task_dict={one.name: one.task}, bootstrap_iters=0, log_samples=True
        )
    samples = said["samples"][one.name]
    first = samples[0]["filter"]
    found = {
        f"{one.name} {row['doc_id']}": float(row[one.score])
        for row in samples
        if row["filter"] == first
    }
    if wrong := [item for item, value in found.items() if not 0 <= value <= 1]:
        raise PruneAuditError(
            f"{one.name}: {one.score} of {wrong[0]} is {found[wrong[0]]}, no number from 0 to 1."
        )
    return found
