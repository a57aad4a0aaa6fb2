"""Tasks of lm-eval: the share of items that a model still answers right."""

from __future__ import annotations

from typing import final

import numpy as np

from engine.tracks.language_models.benchmarks.base import (
    Features,
    Metric,
    Scored,
    ScoredBenchmark,
    counted,
    share_of,
)


def _number_of(role: str) -> Features:
    return lambda scored: counted(scored.logp[role])


@final
class LmEvalScores(ScoredBenchmark):
    """Every item's number as lm-eval counts it: 1 where the model answers right, else 0. Roles hold
    it and what it lacks to 1 in place of log-likelihoods."""

    name = "lm_eval"
    title = "LM-Eval"
    question = "How many questions with a right answer does the model still answer right?"
    source = "Tasks of the Language Model Evaluation Harness (Gao et al. 2024)"
    rule = (
        "The package asks the model and counts, with the mask on. Each item counts by the first "
        "of acc, exact_match and acc_norm that its task lists. Contexts that are too long lose "
        "their beginning."
    )
    limits = "It measures what its tasks ask, and says nothing about bias or groups of people."
    group, item, items = "task", "item", "items"
    roles = {"right": "right", "wrong": "wrong"}
    measured_by = "task_scores"
    sure = ""
    flips = ("became wrong", "became right")

    metrics = tuple(
        Metric(
            role,
            f"share answered {role}",
            f"Share of items that are answered {role}.",
            _number_of(role),
            share_of,
        )
        for role in ("wrong", "right")
    )

    def alike(self, scored: Scored) -> np.ndarray:
        """None: what the model reads does not differ by role."""
        return np.zeros(len(scored.logp["right"]), dtype=bool)

    def harmful(self, scored: Scored) -> np.ndarray:
        return np.asarray(scored.logp["wrong"] > scored.logp["right"])
