"""The engine's process: `python -m engine.resident.server STORE`. Started by whoever asks first,
never by hand.

It ends by itself: after an idle time, when its store or its socket is gone, and when the code on
disk is another.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.audit import turn
from engine.audit.turn import device_named
from engine.core.errors import PruneAuditError, RequestError, refusal
from engine.core.files import EVERY, taken
from engine.core.text import visible
from engine.core.types import Values
from engine.resident.asks import Ask, answered, asks, told
from engine.resident.lines import JobLine, Lines, Question
from engine.resident.warm import Warm
from engine.resident.wire import ASKED, TOLD, Closed, Place, Wire, code_digest, keep_short, place_of
from engine.store.runs import Store

IDLE = 15 * 60.0
"""Seconds without a question or a job after which the engine ends."""
DRAIN = 10.0
"""Seconds that an answer has to come to its end when another engine takes over."""
SUCCESSION = 20.0
"""Seconds that an engine waits for the one before it to end."""
SILENT = 30.0
"""Seconds after which a connection that asks nothing is closed."""
MOST = 64
"""Connections at a time."""
LOOK = 2.0
"""Seconds between two looks at whether to end."""


@dataclass(eq=False)
class Server:
    """One engine. `known`: the questions it answers; `prepare`: imports what is heavy, before the
    first answer."""

    store: Store
    place: Place
    known: Callable[[], Mapping[str, Ask]] = asks
    prepare: Callable[[], None] = lambda: None
    device_of: Callable[[str], str] = device_named
    warm: Warm = field(default_factory=Warm)
    idle: float = IDLE

    def __post_init__(self) -> None:
        self.code = code_digest()
        self.lines = Lines(
            lambda question, device: answered(question, device, self.known, self.warm, self.store)
        )
        self.job_line = JobLine(self.store, self.device_of)
        self.ready = threading.Event()
        self.failed = False
        self._ended = threading.Event()
        self._again = True
        self._began = self._looked = time.monotonic()
        self._own_store = self._store_there()
        self._connections: set[Wire] = set()

    def serve(self) -> None:
        """Listen until it is time to end. The caller holds the lock."""
        with _listening(self.place.socket) as (listener, mine):
            self.job_line.take_over()
            threading.Thread(target=self._prepare, daemon=True).start()
            while not self._ended.is_set() and not self._is_over(mine):
                try:
                    connection, _ = listener.accept()
                    threading.Thread(target=self._converse, args=(connection,), daemon=True).start()
                except TimeoutError:
                    continue
                except (
                    OSError,
                    RuntimeError,
                ):  # too many files or threads: those that are there go on
                    traceback.print_exc()
                    time.sleep(EVERY)
        self._ended.set()
        self.job_line.look_now.set()
        self.lines.close(self._again, DRAIN if self._again else 0.0)
        self.job_line.close()
        for wire in list(self._connections):
            wire.close()

    def stop(self, again: bool = False) -> None:
        """End soon. again: whoever waits is to ask the next engine."""
        self._again = again
        self._ended.set()

    def status(self) -> Values:
        """What this engine is and does, JSON-able."""
        return {
            "running": True,
            "pid": os.getpid(),
            "store": str(self.store.root),
            "uptime": round(time.monotonic() - self._began, 1),
            "ready": self.ready.is_set(),
            "code": self.code,
            "log": str(self.place.log),
            "memory": {"used": self.warm.used, "budget": self.warm.budget},
            "loaded": self.warm.names(),
            "kept": self.warm.listed(),
            **self.lines.listed(),
        }

    def _prepare(self) -> None:
        """Load what is heavy, while audits step aside; then start those that wait."""
        try:
            with turn.answering(self.store, "cpu", lambda: None):
                self.prepare()
        except BaseException:  # such as code with a mistake: whoever asks is told by the log
            traceback.print_exc()
            self.failed = True
            self.stop()
        self.ready.set()
        self.job_line.work(self._ended)

    def _is_over(self, socket_file: int) -> bool:
        if time.monotonic() - self._looked < LOOK:
            return False
        self._looked = time.monotonic()
        with contextlib.suppress(OSError):
            keep_short(self.place.log)
        try:
            if self.place.socket.stat().st_ino != socket_file:
                return True
        except OSError:
            return True
        now = self._store_there()
        self._own_store = self._own_store or now
        if now != self._own_store:
            return True
        if self.lines.busy():
            return False
        unused = time.monotonic() - self.lines.last_moved > self.idle and not self.job_line.busy
        return unused or code_digest() != self.code

    def _store_there(self) -> tuple[int, int] | None:
        """Which folder the store is; None where there is none. One of the same name may be another:
        whoever writes a marker makes the folder anew where it was moved away."""
        try:
            found = self.store.root.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _converse(self, connection: socket.socket) -> None:
        """One connection, in a thread of its own: at most one question, and what becomes of it."""
        wire = Wire(connection, sends=TOLD, takes=ASKED)
        self._connections.add(wire)
        question = None
        try:
            if not wire.is_of_this_user() or len(self._connections) > MOST:
                return
            wire.send({"kind": "hello", "code": self.code, "pid": os.getpid()})
            while (message := wire.receive(SILENT)) is not None or question is not None:
                question = self._heard(message or {}, wire, question)
        except Closed:
            pass
        except RequestError as error:  # what came was no message, so nothing after it can be read
            with contextlib.suppress(Closed):
                wire.send(told(error))
        finally:
            if question is not None:
                self.lines.leave(question)
            wire.close()
            self._connections.discard(wire)

    def _heard(self, message: Values, wire: Wire, question: Question | None) -> Question | None:
        """Do what a message says; the connection's question."""
        kind = message.get("kind")
        if kind == "ask" and question is None:
            return self._asked(message, wire)
        if kind == "cancel" and question is not None:
            self.lines.leave(question)
        elif kind == "status":
            wire.send({"kind": "status", **self.status()})
        elif kind == "stop":
            wire.send({"kind": "stopping"})
            self.stop(again=bool(message.get("again")))
        elif message:
            raise refusal(
                "message", f"{kind!r} is not understood here.", "Ask one question at a time."
            )
        return question

    def _asked(self, message: Values, wire: Wire) -> Question:
        name, given = message.get("name"), message.get("given")
        if not isinstance(name, str) or not isinstance(given, dict):
            raise refusal(
                "question", "has no name, or nothing is given.", "Give a name and an object."
            )
        question = Question(name, given, self._send_by(wire))
        if not self.ready.is_set():
            question.tell(
                {"kind": "event", "phase": "starting the engine", "what": "", "done": 0, "total": 0}
            )
            self.ready.wait()
        try:
            device = self.device_of(str(given.get("device") or "auto"))
        except PruneAuditError:  # the answer says so
            device = self.device_of("auto")
        self.lines.join(question, device)
        return question

    def _send_by(self, wire: Wire) -> Callable[[Values], None]:
        def send(message: Values) -> None:
            wire.send(message)
            if message["kind"] == "answer":
                self.job_line.look_now.set()  # it may have put a job in the line

        return send


@contextlib.contextmanager
def _listening(path: Path) -> Iterator[tuple[socket.socket, int]]:
    """A socket at `path` that only this user can open, and the number of its file; a stale one is
    replaced.

    Once it is there, it listens.
    """
    own = path.with_suffix(".new")
    own.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(own))
        own.chmod(0o600)
        mine = own.stat().st_ino
        listener.listen(MOST)
        own.replace(path)
        listener.settimeout(EVERY)
        try:
            yield listener, mine
        finally:
            with contextlib.suppress(OSError):
                if path.stat().st_ino == mine:
                    path.unlink()


def load() -> None:
    """Import what every answer needs: torch and the questions. A track's check and audit come with
    the first question that is for them."""
    gc.disable()  # an import leaves next to nothing to collect
    asks()
    device_named("auto")
    # What was imported stays: looking through it at every dropped model takes half a second.
    gc.freeze()
    gc.enable()


def main(words: list[str] | None = None) -> int:
    """Serve the store that is named until it is time to end."""
    parser = argparse.ArgumentParser(prog="python -m engine.resident.server")
    parser.add_argument("store")
    parser.add_argument(
        "--idle", type=float, default=float(os.environ.get("PRUNEAUDIT_ENGINE_IDLE") or IDLE)
    )
    args = parser.parse_args(words)
    try:
        return run(Store(args.store), prepare=load, idle=args.idle)
    except PruneAuditError as error:
        print(visible(str(error)), file=sys.stderr)
        return error.exit_code


def run(store: Store, **parts: Any) -> int:
    """Serve a store in this process, which ends with it; `parts` are those of `Server`. 0 where
    another serves it."""
    place = place_of(store)
    until = time.monotonic() + SUCCESSION
    while (lock := taken(place.lock)) is None:
        if place.dialled():
            return 0
        if time.monotonic() > until:
            print(
                f"{place.lock} is held by an engine that does not answer. End that process.",
                file=sys.stderr,
            )
            return 1
        time.sleep(EVERY)
    with lock:
        server = Server(store, place, **parts)
        server.serve()
        sys.stderr.flush()
        os._exit(int(server.failed))  # an answer that never comes to a check must not keep it alive


if __name__ == "__main__":
    sys.exit(main())
