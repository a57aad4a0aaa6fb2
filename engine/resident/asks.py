"""What can be asked of the engine on the spot, and how one question is answered.

A track's `TrackEntry` names its kind of question; those of no track are here. What a question needs
loaded it takes from `Warm`, so that the second finds it in memory.
"""

from __future__ import annotations

import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from engine.audit import fitting, jobs, turn
from engine.audit.fields import attempt
from engine.audit.ray_executor import address_faults
from engine.audit.request import Growth
from engine.audit.tracks import request_from, track_named, track_of_run, tracks
from engine.core import errors, memory
from engine.core.errors import Cancelled, Fault, PruneAuditError, RequestError, chosen, refusal
from engine.core.files import json_able
from engine.core.types import Event, Hooks, Values
from engine.resident.lines import STOPPED, Question
from engine.resident.warm import Warm, memory_ran_out
from engine.resident.wire import TOLD, packed
from engine.store.runs import Store, run_in


class Ask(ABC):
    """One kind of question. `given` and the answer are JSON-able; rows told by `hooks.point` reach
    the asker at once, one by one, and `hooks.check` raises Cancelled once nobody waits for the
    answer any more."""

    name: str

    @abstractmethod
    def answer(self, given: Values, warm: Warm, hooks: Hooks, store: Store) -> dict[str, Any]:
        """The answer. RequestError with every fault of what was given."""


def asks() -> dict[str, Ask]:
    """Every question there is, by name."""
    own = [kind for kind in Ask.__subclasses__() if kind.__module__ == __name__]
    found = [*own, *(entry.part("question") for entry in tracks().values() if entry.question)]
    return {one.name: one for one in (kind() for kind in found)}


def answer_here(
    name: str,
    given: Values,
    store: Store,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    warm: Warm | None = None,
) -> dict[str, Any]:
    """The answer, computed in this process. RequestError for a question that nobody knows."""
    return chosen("question", name, asks()).answer(given, warm or Warm(), hooks, store)


# One question answered inside the engine: what the asker is told, and what ends it.


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
        asked = chosen("question", question.name, known())
        with turn.answering(store, device, question.check), warm.answering():
            value = asked.answer(question.given, warm, _hooks(question), store)
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
        said = "There is not enough memory for this. Ask for less, or for a smaller model."
    else:
        said = f"An error in the program: {type(error).__name__}. See the engine's log."
    return {"kind": "error", "error": said}


def raised(message: Values) -> PruneAuditError:
    """The error that such a message tells, as the asker's own process would have raised it."""
    if message["kind"] == "faults":
        return RequestError([Fault.from_dict(fault) for fault in message["faults"]])
    if message["kind"] == "cancelled":
        return Cancelled(STOPPED)
    return KINDS.get(message.get("class", ""), PruneAuditError)(message["error"])


def _hooks(question: Question) -> Hooks:
    def report(event: Event) -> None:
        question.tell({"kind": "event", **json_able(asdict(event))})

    def point(row: Values) -> None:
        question.tell({"kind": "point", "row": json_able(dict(row))})

    return Hooks(report, question.check, point)


# Questions of the kernel itself, whatever the track.


class Inspect(Ask):
    """What a model is and how it was read, before an audit of it is asked for.

    given: track, model, and what else of a request says how that is loaded (revision, weights,
    size, device). The
    answer: said, a list of sentences. One that is read by its structure is loaded once, to prove
    it.
    """

    name = "inspect"

    def answer(self, given: Values, warm: Warm, hooks: Hooks, store: Store) -> dict[str, Any]:
        if not str(given.get("model") or "").strip():
            raise refusal("model", "is missing.", "Name a model, or give its folder.")
        return {"said": track_named(str(given.get("track") or "")).part("inspect")(given)}


class Forecast(Ask):
    """How long an audit will take, by its own forecast: it computes for a while, and goes on from
    there once it is started.

    given: `request`, the JSON form of one; `within`, seconds that it shall fit into, if any. The
    answer: seconds in all, None where nothing can be told yet; with `within` also the fields that
    were changed, and what was done.
    """

    name = "forecast"

    def answer(self, given: Values, warm: Warm, hooks: Hooks, store: Store) -> dict[str, Any]:
        request = request_from(given["request"])
        if not given.get("within"):
            return {"seconds": fitting.forecast(request, store, hooks)}
        jobs.check(request, store)
        found = fitting.fit(request, float(given["within"]), store, hooks)
        return {name: item for name, item in vars(found).items() if name != "request"}


class Measure(Ask):
    """Another level of an audit, or units chosen by hand, measured with the model kept loaded.

    given: run (id), axis, and method and level or units (flat, from 0) and name; axes and split
    as in `engine.audit.request.Growth`. The answer is what the track's `told` says; the run holds
    it from then on. Progress goes to `hooks.report`, as that of an audit.
    """

    name = "measure"

    def answer(self, given: Values, warm: Warm, hooks: Hooks, store: Store) -> dict[str, Any]:
        before = run_in(store, given.get("run"))
        track = track_of_run(before)
        growth = Growth.from_dict({"track": track.name, **given})
        after = track.part("grow")(growth, store, hooks, warm=warm)
        return track.part("told")(before, after, growth)


class Start(Ask):
    """Check a request and start its audit as a job: done where torch is loaded already.

    given: `request`, the JSON form of one, or `job_id` of a job to go on with; `start`: false only
    checks. `ray`: address of the cluster that computes it, if any; `memory`: what it may take, like
    "4G".

    The answer has `job_id`, "" where nothing was started.
    """

    name = "start"

    def answer(self, given: Values, warm: Warm, hooks: Hooks, store: Store) -> dict[str, Any]:
        request = self._request(given, store)
        hooks.check()
        address, allowed = given.get("ray"), given.get("memory")
        faults = address_faults(address, "address of the cluster")
        if allowed:
            attempt(lambda: memory.amount(str(allowed), "memory"), faults)
        jobs.check(request, store, faults)
        hooks.check()
        starts = given.get("start", True)
        return {"job_id": jobs.submit(request, store, address, allowed) if starts else ""}

    def _request(self, given: Values, store: Store) -> Any:
        if "job_id" not in given:
            if not isinstance(given.get("request"), Mapping):
                raise refusal("request", "is missing.", "Give a request, or the id of a job.")
            return request_from(given["request"])
        return jobs.job_request(store, str(given["job_id"]))
