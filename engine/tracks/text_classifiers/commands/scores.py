"""The part of text classifiers in `scores`: importance of every head by some scores."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from engine.audit.command_line import given, made, read_fields
from engine.audit.fields import fields_of, part
from engine.audit.session import Executor
from engine.core.errors import Fault
from engine.core.types import Hooks
from engine.store.runs import Store
from engine.tracks.text_classifiers.request import CLASS_AXIS, TextRequest

if TYPE_CHECKING:
    import pandas as pd

NOT_ASKED = ("methods", "sparsities", "step", "keep_weights", "title")
SCORES = part("method", "names", metavar="METHOD", help="a score; may be given several times")
DECLARED = tuple(field for field in fields_of(TextRequest) if field.name not in NOT_ASKED)
FIELDS = (*DECLARED, SCORES)
TASK = next(field for field in DECLARED if field.name == "data")


def claims(args: argparse.Namespace) -> bool:
    """Whether texts are named that a classifier tells apart."""
    return given(args, TASK.flag) is not None


def request_of_words(args: argparse.Namespace) -> TextRequest:
    """Single scoring by every score that is named; nothing is cut, so what else an audit asks has
    no bearing."""
    faults: list[Fault] = []
    values = {"axes": (CLASS_AXIS,), **read_fields(args, FIELDS, faults)}
    scores = values.pop("method", ("conductance",))
    if "random" in scores:
        faults.append(
            Fault(
                "--method",
                "random draws its numbers; they say nothing about heads.",
                "Leave it out.",
            )
        )
    methods = tuple(f"once:{score}" for score in scores)
    return made(TextRequest, {**values, "methods": methods, "sparsities": (0.5,)}, faults)


def table(
    request: TextRequest, store: Store, hooks: Hooks, executor: Executor | None
) -> pd.DataFrame:
    """One row per stage, score, group of texts and head."""
    from engine.tracks.text_classifiers.run import importance_only

    return importance_only(request, store, hooks, executor)
