"""One question answered inside the engine: what the asker is told while it runs, and what ends it,
whatever happens."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from engine.audit import turn
from engine.core import errors
from engine.core.errors import Cancelled, Fault, PruneAuditError, RequestError, unknown
from engine.core.files import json_able
from engine.core.types import Event, Hooks
from engine.resident.asks import Ask
from engine.resident.lines import STOPPED, Question
from engine.resident.warm import Warm, memory_ran_out
from engine.resident.wire import TOLD, packed
from engine.store.runs import Store

KINDS = {kind.__name__: kind for kind in (errors.StoreError, errors.MaskError)}
"""Errors that keep their kind on the way to the asker."""


def answered(
    question: Question,
    device: str,
    known: Callable[[], Mapping[str, Ask]],
    warm: Warm,
    store: Store,
) -> dict[str, Any]:
    """The last message to the asker. Raises nothing: an error in one answer never ends the
    engine."""
    try:
        question.check()
        asks = known()
        if question.name not in asks:
            raise RequestError(unknown("question", question.name, asks))
        with turn.answering(store, device, question.check), warm.answering():
            value = asks[question.name].answer(question.given, warm, _hooks(question), store)
        message = {"kind": "answer", "value": json_able(value)}
        packed(message, TOLD)  # whether it is JSON, and not too much
        return message
    except Cancelled:
        return {"kind": "again"} if question.again else {"kind": "cancelled"}
    except BaseException as error:
        if memory_ran_out(error):
            warm.clear()
        return told(error)


def told(error: BaseException) -> dict[str, Any]:
    """An error as a message."""
    if isinstance(error, RequestError):
        return {"kind": "faults", "faults": [asdict(fault) for fault in error.faults]}
    if isinstance(error, PruneAuditError):
        return {"kind": "error", "error": str(error), "class": type(error).__name__}
    traceback.print_exception(error)
    sys.stderr.flush()
    if memory_ran_out(error):
        return {
            "kind": "error",
            "error": "There is not enough memory for this. Ask for less, or for a smaller model.",
        }
    return {
        "kind": "error",
        "error": f"An error in the program: {type(error).__name__}. See the engine's log.",
    }


def raised(message: Mapping[str, Any]) -> PruneAuditError:
    """The error that such a message tells, as the asker's own process would have raised it."""
    if message["kind"] == "faults":
        return RequestError([Fault.from_dict(fault) for fault in message["faults"]])
    if message["kind"] == "cancelled":
        return Cancelled(STOPPED)
    return KINDS.get(message.get("class", ""), PruneAuditError)(message["error"])


def _hooks(question: Question) -> Hooks:
    def report(event: Event) -> None:
        question.tell({"kind": "event", **json_able(asdict(event))})

    def point(row: Mapping[str, Any]) -> None:
        question.tell({"kind": "point", "row": json_able(dict(row))})

    return Hooks(report, question.check, point)
