"""Asking the engine of a store, which is started where there is none. No torch here: pages use
it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from typing import Any

from engine.core.errors import Cancelled, PruneAuditError
from engine.core.files import PROJECT, json_able
from engine.core.types import Event, Hooks, Values
from engine.resident.asks import answer_here, raised
from engine.resident.wire import Closed, Place, Wire, code_digest, last_words, opened_log, place_of
from engine.store.runs import Store, default_root

START = 60.0
"""Seconds until an engine that was started has to listen."""
HELLO = 20.0
"""Seconds that a listening engine has to say who it is: it may be importing."""
EVERY = 0.1
"""Seconds between two looks at whether the asker still waits."""
COLD = 6.0
"""Seconds that an engine takes to start, as measured on two shared cores."""
TRIES = 2
"""Engines that may die over one question."""


class _Gone(Exception):
    """The engine ended before it answered."""


def ask(
    name: str,
    given: Values,
    store: Store | None = None,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
) -> dict[str, Any]:
    """The answer of the store's engine, the user's own store by default.

    Errors are those that answering in this process would raise. An engine that dies is started
    again and asked once more. With PRUNEAUDIT_ENGINE=off, or where the system has no local sockets,
    this process answers.
    """
    store = store or Store(default_root())
    if _is_off():
        return _as_sent(answer_here(name, _as_sent(given), store, hooks))
    question = {"kind": "ask", "name": name, "given": json_able(dict(given))}
    place = place_of(store)
    for _ in range(TRIES):
        wire = _connected(store, place, hooks)
        try:
            return _answer(wire, question, hooks)
        except _Gone:
            continue
        finally:
            wire.close()
    raise PruneAuditError(
        f"The engine ended twice over this question. Its last words:\n{last_words(place.log)}"
    )


def start_takes(store: Store | None = None) -> float:
    """Seconds until the store's engine, by default that of the user's own, can begin: COLD where it
    has to be started. Asks nothing of it and starts nothing."""
    if _is_off():
        return 0.0
    try:
        wire = place_of(store or Store(default_root())).dialled()
    except PruneAuditError:  # who measures is told why
        return 0.0
    if wire is None:
        return COLD
    wire.close()
    return 0.0


def start(store: Store) -> Values:
    """Have an engine run for the store; its status."""
    _connected(store, place_of(store), Hooks()).close()
    return status(store)


def status(store: Store) -> Values:
    """What the store's engine is and does; only {"running": False, …} where there is none. Starts
    nothing."""
    wire = place_of(store).dialled()
    found = _said(wire, {"kind": "status"}, "status") if wire else None
    if found is None:
        return {"running": False, "store": str(store.root)}
    return {**found, "current": found["code"] == code_digest()}


def stop(store: Store) -> bool:
    """End the store's engine and wait until it is gone; whether there was one. Its jobs that run go
    on."""
    wire = place_of(store).dialled()
    if wire is None:
        return False
    was_heard = False
    with contextlib.suppress(Closed):  # which is how it says that it is gone
        wire.send({"kind": "stop"})
        while (heard := wire.receive(HELLO)) is not None:
            was_heard |= heard["kind"] == "stopping"
    wire.close()
    return was_heard


def _is_off() -> bool:
    return os.environ.get("PRUNEAUDIT_ENGINE", "").lower() == "off" or not hasattr(
        socket, "AF_UNIX"
    )


def _as_sent(value: Values) -> dict[str, Any]:
    """As it arrives over the wire: whoever is answered without an engine gets the same."""
    return json.loads(json.dumps(json_able(dict(value))))


def _said(wire: Wire, message: Values, kind: str) -> dict[str, Any] | None:
    """What the engine says of that kind; None where it is gone before."""
    try:
        wire.send(message)
        while (heard := wire.receive(HELLO)) is not None:
            if heard.pop("kind") == kind:
                return heard
    except Closed:
        pass
    finally:
        wire.close()
    return None


def _connected(store: Store, place: Place, hooks: Hooks) -> Wire:
    """A connection to an engine that runs the code on disk, started where there is none."""
    until = time.monotonic() + START
    process = None
    while True:
        hooks.check()
        wire = place.dialled()
        if wire is not None and _is_current(wire):
            return wire
        if process is None or process.poll() == 0:  # one that was faster than ours is gone again
            process = _started(store, place)
        if process.poll():
            raise PruneAuditError(f"The engine could not start:\n{last_words(place.log)}")
        if time.monotonic() > until:
            raise PruneAuditError(
                f"The engine does not answer. See {place.log}, or set PRUNEAUDIT_ENGINE=off."
            )
        time.sleep(EVERY)


def _is_current(wire: Wire) -> bool:
    """Whether the engine runs the code that is here; one of other code is sent away, once its
    answer is done."""
    try:
        hello = wire.receive(HELLO)
        if hello and hello.get("code") == code_digest():
            return True
        wire.send({"kind": "stop", "again": True})
        wire.receive(HELLO)
    except Closed:
        pass
    wire.close()
    return False


def _started(store: Store, place: Place) -> subprocess.Popen:
    """A new engine's process, which ends at once where another is faster."""
    with opened_log(place.log) as log:
        return subprocess.Popen(
            [sys.executable, "-m", "engine.resident.server", str(store.root)],
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _answer(wire: Wire, question: Values, hooks: Hooks) -> dict[str, Any]:
    """Ask, pass on what is told, and wait. _Gone where the engine ends before it answered."""
    try:
        wire.send(question)
        while True:
            try:
                hooks.check()
            except Cancelled:
                wire.send({"kind": "cancel"})
                raise
            message = wire.receive(EVERY) or {"kind": ""}
            kind = message.pop("kind")
            if kind == "answer":
                return message["value"]
            if kind in ("faults", "error", "cancelled"):
                raise raised({"kind": kind, **message})
            if kind == "again":
                raise _Gone
            if kind == "event":
                hooks.report(Event(**message))
            elif kind == "point":
                hooks.point(message["row"])
            elif kind == "queued":
                before = message["place"]
                hooks.report(
                    Event("queued", 0, 0, f"{before} question{'s' * (before != 1)} before this one")
                )
    except Closed as error:
        raise _Gone from error
