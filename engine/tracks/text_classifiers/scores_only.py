"""Importance of every head of a text classifier by some scores, without cutting anything."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pandas as pd

from engine.audit.executors import Executor, Local
from engine.core.types import POOLED, Hooks
from engine.store.runs import Store
from engine.tracks.text_classifiers.arms import arms_of
from engine.tracks.text_classifiers.importance import importance_table
from engine.tracks.text_classifiers.request import TextRequest, validate_text
from engine.tracks.text_classifiers.run import open_text_audit
from engine.tracks.text_classifiers.shards import importance_shards


def importance_only(
    request: TextRequest,
    store: Store,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    executor: Executor | None = None,
) -> pd.DataFrame:
    """One row per stage, score, group of texts and head, pooled over seeds (columns of the table
    `importance`).

    Shares its measurements with `run_text_audit`, so an audit that follows finds them finished.
    """
    plan = validate_text(
        replace(request, methods=tuple(dict.fromkeys(f"once:{score}" for _, score in request.arms)))
    )
    store.prove_writable()
    with closing(executor or Local()) as chosen:
        audit, arms = open_text_audit(plan, store, hooks, chosen), arms_of(plan.request)
        shards = importance_shards(audit.context, arms, plan.request.trials)
        audit.finish("score heads", shards)
        table = importance_table(audit.context, arms, plan.request.trials)
    return table[table["seed"] == POOLED].drop(columns="seed").reset_index(drop=True)
