"""Questions without a model, and an engine of them in a process of its own: `python -m
tests.resident.fakes STORE`."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from engine.core.errors import Fault, RequestError, StoreError
from engine.core.types import Event
from engine.resident.asks import Ask
from engine.resident.server import run
from engine.resident.warm import Warm
from engine.store.runs import Store


class Echo(Ask):
    """Says back what it is given, with the process that answered; an event and a row before."""

    name = "echo"

    def answer(self, given, warm, hooks, store):
        hooks.report(Event("echo", 1, 2, "half", eta=0.5, note="hear"))
        hooks.point({"step": 1, "loss": float("nan")})
        model = warm.get("model", lambda: bytearray(1000), len)
        return {
            "given": dict(given),
            "pid": os.getpid(),
            "store": str(store.root),
            "model": len(model),
        }


class Wrong(Ask):
    """Fails in the way it is told to."""

    name = "wrong"

    def answer(self, given, warm, hooks, store):
        if given["how"] == "faults":
            raise RequestError(
                [Fault("one", "is wrong.", "Do this."), Fault("two", "is wrong.", "Do that.")]
            )
        if given["how"] == "store":
            raise StoreError("the store is full")
        if given["how"] == "exit":
            sys.exit(3)
        if given["how"] == "memory":
            raise MemoryError
        if given["how"] == "no json":
            return {"thing": object()}
        raise ZeroDivisionError


class Long(Ask):
    """Begins, says so, and goes on until nobody waits or `let_go` is set."""

    name = "long"

    def __init__(self) -> None:
        self.let_go, self.stopped = threading.Event(), threading.Event()
        self.answered: list[Any] = []

    def answer(self, given, warm, hooks, store):
        hooks.point({"begun": given.get("who", ""), "pid": os.getpid()})
        try:
            while not self.let_go.wait(0.01):
                hooks.check()
        finally:
            self.stopped.set()
        self.answered.append(given.get("who", ""))
        return {"who": given.get("who", "")}


class Second(Ask):
    """Answers whoever asks a second time; before that it never ends."""

    name = "second"

    def answer(self, given, warm, hooks, store):
        mark = store.root / "asked-before"
        if mark.exists():
            return {"pid": os.getpid()}
        mark.touch()
        hooks.point({"pid": os.getpid()})
        while True:
            hooks.check()
            threading.Event().wait(0.01)


def known() -> dict[str, Ask]:
    return {one.name: one for one in (Echo(), Wrong(), Long(), Second())}


if __name__ == "__main__":
    asks = known()
    sys.exit(
        run(
            Store(sys.argv[1]), known=lambda: asks, device_of=lambda name: "cpu", warm=Warm(1 << 20)
        )
    )
