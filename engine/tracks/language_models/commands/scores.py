"""The part of language models in `scores`: the effect of every head on bias and perplexity."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from engine.audit.command_line import request_of
from engine.audit.fields import fields_of
from engine.audit.session import Executor
from engine.core.errors import refusal
from engine.core.types import Hooks
from engine.store.runs import Store
from engine.tracks.language_models.request import SEARCH, AuditRequest

if TYPE_CHECKING:
    import pandas as pd


FIELDS = fields_of(AuditRequest)


def claims(args: argparse.Namespace) -> bool:
    """Language models take every request that no other track claims."""
    return False


def request_of_words(args: argparse.Namespace) -> AuditRequest:
    """The request of an audit with these options; γ is not searched for."""
    request = request_of(args, AuditRequest)
    if request.gamma == SEARCH:
        raise refusal(
            "gamma", "a search needs an audit.", "Name a number, or run `audit --gamma search`."
        )
    return request


def table(
    request: AuditRequest, store: Store, hooks: Hooks, executor: Executor | None
) -> pd.DataFrame:
    """One row per head."""
    from engine.tracks.language_models.run import scores_only  # loads torch

    return scores_only(request, store, hooks, executor)
