"""One model with the prompts of one axis, all of them in the validation split, and timed scoring on
it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.core.files import PROJECT
from engine.core.types import POOLED, PromptSet, Values
from engine.data.prompts.load import load_prompts
from engine.data.texts.load import load_corpus
from engine.models.judge import load_judge
from engine.models.load_language_model import load_language_model
from engine.tracks.language_models.context import InMemory, PromptContext, Settings
from engine.tracks.language_models.request import REQUEST, data_of
from engine.tracks.language_models.scores import ScoreJob, ScoreMethod, method_for

DATA = PROJECT.parent / "shared" / "data"


@dataclass(frozen=True)
class Case:
    """What is scored: a model by name or folder, an axis, and where prompts and text come from."""

    name: str
    model: str
    axis: str
    prompts: Path
    corpus: Path
    max_prompts: int | None = None
    max_corpus_tokens: int | None = None


DEMO = Case("demo-gpt2", "demo-gpt2", "nationality", *data_of(REQUEST), None, 12_000)
STORIES = Case(
    "stories260k",
    str(DATA / "stories260k"),
    "gender_and_sex",
    DATA / "holistic_bias" / "v1.1",
    DATA / "tinystories" / "tinystories.txt",
    420,
    12_000,
)


@dataclass
class Timed:
    """A finished score table and the seconds of processor time it took from an empty store, with
    generation and judging."""

    table: pd.DataFrame
    seconds: float
    report: Values

    def by_seed(self) -> np.ndarray:
        """Values, shape (units, seeds)."""
        single = self.table[self.table["seed"] != POOLED]
        return single.pivot(index="unit", columns="seed", values="value").to_numpy()

    def pooled(self) -> np.ndarray:
        rows = self.table[self.table["seed"] == POOLED]
        return rows.sort_values("unit")["value"].to_numpy()


def open_bench(case: Case, prompts: int | None = None) -> PromptContext:
    """A fresh context: nothing computed, nothing judged."""
    found = load_prompts(case.prompts, (case.axis,), max_prompts=prompts or case.max_prompts)
    table = found.table.assign(split="validation")
    lm = load_language_model(case.model)
    settings = Settings(max_corpus_tokens=case.max_corpus_tokens, validation_share=1.0)
    corpus = load_corpus(case.corpus)
    return PromptContext(
        lm, load_judge("demo-judge"), PromptSet(found.name, table, found.digest), corpus, settings
    )


def score(
    case: Case,
    estimator: str,
    seeds: Sequence[int],
    context: PromptContext | None = None,
    options: Mapping[str, Any] | None = None,
) -> Timed:
    """Score all heads from nothing with these decoding seeds, and time it. A given context lends
    model and prompts."""
    context = context or open_bench(case)
    fresh = replace(context, keeper=InMemory(), judge=load_judge("demo-judge"))
    job = ScoreJob(fresh, (case.axis,), tuple(seeds), n_boot=400, options=dict(options or {}))
    method = method_for("z_bias", estimator)
    start = time.process_time()
    finish(job, method)
    table = method.table(job)
    return Timed(table, time.process_time() - start, method.report(job))


def finish(job: ScoreJob, method: ScoreMethod) -> None:
    """Compute what the method asks for until it asks for nothing new."""
    done: set[Any] = set()
    while wanted := [shard for shard in method.shards(job) if shard not in done]:
        job.fetch(wanted)
        done |= set(wanted)
