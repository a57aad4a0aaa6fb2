"""How likely every text of a bias benchmark is."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pandas as pd

from engine.core.errors import PruneAuditError
from engine.core.types import Hooks, Values
from engine.data.benchmarks.base import Benchmark
from engine.data.benchmarks.lm_eval_tasks import Built, quiet, tasks_of
from engine.models.load_language_model import LanguageModel
from engine.tracks.language_models.context import Measurement, PromptContext, Shard
from engine.tracks.language_models.likelihoods import choice_logps


class _OfBenchmark(Measurement):
    """Columns: logp, tokens, cut; rows as the benchmark's choices. The shard's `axis` names the
    benchmark."""

    any_threads = True
    later = True
    letters: float
    """About so many are a token that is read."""

    def parts(self, context: PromptContext, shard: Shard) -> Values:
        return {"benchmark": context.benchmark(shard.axis).digest}

    @abstractmethod
    def scored(self, lm: LanguageModel, benchmark: Benchmark, hooks: Hooks) -> pd.DataFrame:
        """The table of a benchmark under the mask that acts."""

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        with context.applied(shards[0]) as lm:
            return [
                self.scored(lm, context.benchmark(shard.axis), context.hooks) for shard in shards
            ]

    def size(self, context: PromptContext, shard: Shard) -> float:
        """As in `windows`, 70 tokens that are read are one continuation."""
        choices = context.benchmark(shard.axis).choices
        return float(choices[["prefix", "text"]].map(len).sum().sum()) / self.letters / 70


class ChoiceLogps(_OfBenchmark):
    """logp (nats, summed), tokens (scored), cut (whether the text was too long)."""

    name = "choice_logps"
    letters = 4

    def scored(self, lm: LanguageModel, benchmark: Benchmark, hooks: Hooks) -> pd.DataFrame:
        return choice_logps(lm, benchmark.choices, hooks)


# What a model scores on every item of tasks of lm-eval.


class TaskScores(_OfBenchmark):
    """logp (role right: the item's number, 0 to 1; role wrong: what it lacks to 1), tokens (1), cut
    (False). A question has four answers, where it has two texts here."""

    name = "task_scores"
    letters = 2

    def scored(self, lm: LanguageModel, benchmark: Benchmark, hooks: Hooks) -> pd.DataFrame:
        return task_scores(lm, benchmark, hooks)


# Tasks of lm-eval on the model as it is loaded here: the package asks, the model answers, its
# mask acting.


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
