"""The language model's audit that the project ships, and its model, prompts and text with nothing
measured."""

from __future__ import annotations

from functools import cache

from engine.store.runs import EMBEDDED, Run, Store
from engine.tracks.language_models.context import PromptContext
from engine.tracks.language_models.opening import context_of
from engine.tracks.language_models.request import REQUEST, PromptPlan, validate


@cache
def embedded_plan() -> PromptPlan:
    return validate(REQUEST)


def embedded_run() -> Run:
    return Store(EMBEDDED, read_only=True).open(embedded_plan().run_id)


def embedded_context() -> PromptContext:
    return context_of(embedded_plan())
