"""Questions wait in line, one line per device: interactive ones before the others, and one at a
time is answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.core.errors import Cancelled
from engine.resident.wire import Closed

PATIENCE = 2.0
"""Seconds that an answer has to stop once nobody waits for it."""


@dataclass(eq=False)
class Question:
    """What was asked by one asker, who hears by `send`. `interactive`: before those that can
    wait."""

    name: str
    given: Mapping[str, Any]
    send: Callable[[Mapping[str, Any]], None]
    interactive: bool = True
    gone: threading.Event = field(default_factory=threading.Event)
    """Set once nobody waits for the answer, or the engine ends."""
    again: bool = False
    """Whether the asker is to ask the next engine."""
    place: int = 0
    """Questions before it, as the asker was last told."""

    def tell(self, message: Mapping[str, Any]) -> None:
        """Tell the asker; where that is impossible, nobody waits any more."""
        try:
            self.send(message)
        except Closed:
            self.gone.set()

    def check(self) -> None:
        """Cancelled once nobody waits for the answer."""
        if self.gone.is_set():
            raise Cancelled("Cancelled. What was finished is kept.")


class Lines:
    """Every device's line, each with a thread of its own that answers with `answered` and tells
    what it returns."""

    def __init__(self, answered: Callable[[Question, str], Mapping[str, Any]]) -> None:
        self._answered = answered
        self._waiting: dict[str, list[Question]] = {}
        self._running: dict[str, Question] = {}
        self._moved = threading.Condition()
        self._closed = False
        self.last_moved = time.monotonic()

    def join(self, question: Question, device: str) -> None:
        """Take a place on the device's line."""
        with self._moved:
            if self._closed:
                question.tell({"kind": "again"})
                return
            if device not in self._waiting:
                self._waiting[device] = []
                threading.Thread(target=self._work, args=(device,), daemon=True).start()
            self._waiting[device].append(question)
            self._waiting[device].sort(
                key=lambda one: not one.interactive
            )  # stable: first come, first served
            self._changed()

    def leave(self, question: Question) -> None:
        """Nobody waits for this one any more: it loses its place, or its answer stops at the next
        check."""
        question.gone.set()
        with self._moved:
            for line in self._waiting.values():
                if question in line:
                    line.remove(question)
                    question.tell({"kind": "cancelled"})
            self._changed()

    def busy(self) -> bool:
        """Whether a question waits or is answered."""
        with self._moved:
            return bool(self._running or any(self._waiting.values()))

    def listed(self) -> dict[str, list[dict[str, str]]]:
        """What is answered and what waits, JSON-able."""
        with self._moved:
            running = [
                {"question": one.name, "device": device} for device, one in self._running.items()
            ]
            waiting = [
                {"question": one.name, "device": name}
                for name, line in self._waiting.items()
                for one in line
            ]
            return {"answering": running, "waiting": waiting}

    def close(self, again: bool, grace: float) -> None:
        """End: who waits is sent away, to the next engine where `again`; what is answered has
        `grace` seconds to end and is then stopped."""
        with self._moved:
            self._closed = True
            for line in self._waiting.values():
                for question in line:
                    question.tell(
                        {"kind": "again"} if again else {"kind": "error", "error": STOPPED}
                    )
                line.clear()
            self._moved.wait_for(lambda: not self._running, grace)
            for question in self._running.values():
                question.again = again
                question.gone.set()
            self._moved.notify_all()
            self._moved.wait_for(lambda: not self._running, PATIENCE)

    def _work(self, device: str) -> None:
        line = self._waiting[device]
        while True:
            with self._moved:
                self._moved.wait_for(lambda: line or self._closed)
                if not line:
                    return
                question = self._running[device] = line.pop(0)
                self._changed()
            message = self._answered(question, device)
            question.tell(message)
            with self._moved:
                del self._running[device]
                self._changed()

    def _changed(self) -> None:
        """Wake whoever waits for a change, and tell those whose place is another now."""
        self.last_moved = time.monotonic()
        for device, line in self._waiting.items():
            for place, question in enumerate(line, start=int(device in self._running)):
                if place != question.place:
                    question.place = place
                    question.tell({"kind": "queued", "place": place})
        self._moved.notify_all()


STOPPED = "The engine was stopped. What was finished is kept; ask again to go on."
