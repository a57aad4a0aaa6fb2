"""Questions to the engine that a page does not wait for: they go on when the page is left, and any
page can look.

A thread asks and only notes what it is told; it never calls Streamlit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.core.errors import Cancelled, Fault, PruneAuditError, RequestError
from engine.core.types import Event, Hooks, digest_of
from engine.store.runs import default_root
from pages.shared import roots
from pages.shared.cache import works

_log = logging.getLogger("pruneaudit")


@dataclass
class Work:
    """One question under way: what it was last told, what it came to."""

    event: Event | None = None
    answer: dict[str, Any] | None = None
    faults: tuple[Fault, ...] = ()
    message: str = ""
    over: threading.Event = field(default_factory=threading.Event)
    _stop: threading.Event = field(default_factory=threading.Event)

    @property
    def running(self) -> bool:
        return not self.over.is_set()

    def cancel(self) -> None:
        """Ask it to stop; it does so at its next batch."""
        self._stop.set()

    def ask(self, name: str, given: Mapping[str, Any]) -> None:
        """Ask and wait, in a thread of its own."""
        from engine.resident.client import ask

        try:
            roots.refuse_outside(given)
            self.answer = ask(name, given, hooks=Hooks(self._told, self._check))
        except Cancelled:
            self.message = "Cancelled. What was finished is kept; measure again to go on."
        except RequestError as error:
            self.faults = error.faults
        except PruneAuditError as error:
            self.message = str(error)
        except Exception:
            _log.exception("a question failed")
            self.message = (
                "The engine could not answer. The details are in the terminal where the app runs."
            )
        finally:
            self.over.set()

    def _told(self, event: Event) -> None:
        self.event = event

    def _check(self) -> None:
        if self._stop.is_set():
            raise Cancelled


def _key(name: str, given: Mapping[str, Any]) -> str:
    return digest_of([str(default_root()), name, dict(given)])


def work_of(name: str, given: Mapping[str, Any]) -> Work | None:
    """The question as it stands, None where it was never asked. Equal questions are one."""
    return works().get(_key(name, given))


def begin(name: str, given: Mapping[str, Any]) -> None:
    """Ask, unless the same is being asked now."""
    known = work_of(name, given)
    if known and known.running:
        return
    work = works()[_key(name, given)] = Work()
    threading.Thread(target=work.ask, args=(name, given), daemon=True).start()
