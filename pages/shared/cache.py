"""What is read once and kept. The only file with st.cache_*; keys are run ids and table digests,
never frames."""

from __future__ import annotations

import contextlib
import gc
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from engine.audit.jobs import JobState, list_jobs
from engine.audit.tracks import tracks
from engine.core.types import digest_of, is_level
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel
from engine.report.hand_sets import joined, said
from engine.report.tracks import Ahead, prediction_of, track_name
from engine.store.runs import (
    Run,
    RunSummary,
    Store,
    Where,
    as_called,
    default_root,
    default_stores,
    find_run,
    matching,
)


@dataclass(frozen=True)
class KeptRun(Run):
    """A run whose tables are read from disk once. Callers get shallow copies, which pandas copies
    on write."""

    _tables: dict[str, pd.DataFrame] = field(default_factory=dict, compare=False, repr=False)

    def table(self, name: str) -> pd.DataFrame:
        if name not in self._tables:
            self._tables[name] = super().table(name)
        return self._tables[name].copy(deep=False)

    def part(self, name: str, where: Where, columns: Sequence[str] | None = None) -> pd.DataFrame:
        if name in self._tables:  # also what is predicted, which lies in no file
            return matching(self._tables[name], where, columns)
        return super().part(name, where, columns)

    @cached_property
    def key(self) -> tuple[str, str]:
        """Run id and digest of its title and all its rows, added and predicted ones too: equal
        keys, equal panels."""
        added = [[one.id, one.meta["tables"]] for one in self.added]
        return self.id, digest_of([self.meta["tables"], added, self.ahead, self.called])


# What is here: runs and jobs as they stood two seconds ago at most. Stores are told apart by their
# roots.

_lately = st.cache_data(
    ttl=2, show_spinner=False, hash_funcs={Store: lambda store: str(store.root)}
)


@_lately
def runs(stores: list[Store]) -> list[RunSummary]:
    """Finished runs of all stores, the user's own newest first, then the embedded ones in the order
    of tracks."""
    seen: dict[str, RunSummary] = {}
    places = {name: entry.place for name, entry in tracks().items()}
    for store in stores:
        found = store.list()
        if store.read_only:
            found.sort(key=lambda one: places.get(track_name(store.open(one.id).meta), len(places)))
        for summary in found:
            seen.setdefault(summary.id, summary)
    return as_called(seen.values(), stores)


@_lately
def _damaged(stores: list[Store]) -> dict[str, str]:
    return {run_id: why for store in stores for run_id, why in store.damaged().items()}


@_lately
def _jobs(store: Store) -> list[JobState]:
    return list_jobs(store)


def all_runs() -> list[RunSummary]:
    return runs(default_stores())


def damaged_runs() -> dict[str, str]:
    """Why, by id, runs that are there cannot be read."""
    return _damaged(default_stores())


def jobs() -> list[JobState]:
    """All jobs of the user's store, newest first."""
    return _jobs(Store(default_root()))


def look_again() -> None:
    """Read the list of runs anew when it is next asked for: one was renamed, deleted or brought
    back."""
    runs.clear()
    _damaged.clear()


def open_run(run_id: str) -> KeptRun:
    """The run with its tables kept in memory; read again when its files change or something was
    added to it."""
    found = find_run(run_id, default_stores())
    additions = tuple(map(str, found.additions))
    return _opened(str(found.path), _changed(found.path), additions, found.called)


def track_name_of(run_id: str) -> str:
    """Which kind of audit a run is, without keeping its tables."""
    path = find_run(run_id, default_stores()).path
    return _track_name(str(path), _changed(path))


def _changed(path: Path) -> int:
    return (path / "run.json").stat().st_mtime_ns


@st.cache_data(max_entries=500, show_spinner=False)
def _track_name(path: str, changed: int) -> str:
    return track_name(Run(Path(path)).meta)


@st.cache_resource(max_entries=12, show_spinner=False)
def _opened(path: str, changed: int, additions: tuple[str, ...], called: str) -> KeptRun:
    return KeptRun(Path(path), tuple(map(Path, additions)), called)


# Results of functions of runs, made once for all sessions.

ROOM = 1 << 28
"""Bytes of tables that are kept for redraws; they have a row for every text of a variant."""


class Memory:
    """Results by key, the least recently used dropped first. Safe to use from several threads.

    size: how many there are at most; room: bytes that tables among them may take together."""

    def __init__(self, size: int = 1500, room: int = ROOM) -> None:
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._bytes: dict[Hashable, int] = {}
        self._lock = threading.Lock()
        self._size, self._room = size, room
        self._turn = 0

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What is kept under `key`, made now if it is not there (by two threads at once: twice, to
        no harm)."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        value = make()
        with self._lock:
            self._kept[key], self._bytes[key] = value, _bytes_of(value)
            while len(self._kept) > self._size or (
                len(self._kept) > 1 and sum(self._bytes.values()) > self._room
            ):
                self._bytes.pop(self._kept.popitem(last=False)[0])
        made_one()
        return value

    def prepare(self, calls: Sequence[Call]) -> None:
        """Make results ahead, in order, beside the page's thread; a later call stops an earlier
        one."""
        with self._lock:
            self._turn += 1
            missing = [call for call in calls if call.key not in self._kept]
        if missing:
            threading.Thread(target=self._work, args=(missing, self._turn), daemon=True).start()

    def _work(self, calls: Sequence[Call], turn: int) -> None:
        for call in calls:
            if turn != self._turn:
                return
            # The page that needs it will meet the error and say so.
            with contextlib.suppress(Exception):
                self.get(call.key, call)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._bytes.clear()


def _bytes_of(value: Any) -> int:
    """Bytes of a table; figures and sentences are small, and counted by their number."""
    return int(value.memory_usage(deep=True).sum()) if isinstance(value, pd.DataFrame) else 0


MEMORY = Memory()


@dataclass(frozen=True)
class Call:
    """`make(run, *arguments, **options)`, keyed by the run's content, the function and its
    arguments.

    Arguments must print fully and stably (numbers, texts, frozen dataclasses of them); results must
    not be changed.
    """

    run: KeptRun
    make: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def key(self) -> Hashable:
        name = f"{self.make.__module__}.{self.make.__qualname__}"
        return self.run.key, name, repr(self.arguments), repr(self.options)

    def __call__(self) -> Any:
        made = self.make(self.run, *self.arguments, **dict(self.options))
        return said(self.run, made) if self.run.ahead and isinstance(made, Panel) else made


def made(run: KeptRun, make: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """A result computed once per run content, function and arguments; see Call."""
    call = Call(run, make, arguments, tuple(sorted(options.items())))
    return MEMORY.get(call.key, call)


def predicted_at(run: KeptRun, choice: Choice) -> tuple[KeptRun, Ahead | None]:
    """The run as charts shall show it at this choice, and what is predicted where the level is not
    measured."""
    if is_level(choice.level, lookup.levels(run, choice.method, choice.axis)):
        return run, None
    prediction = prediction_of(run)
    return predicted(run, choice, prediction.ahead) if prediction else (run, None)


def predicted(
    run: KeptRun, choice: Choice, make: Callable[..., Ahead | None], *arguments: Any
) -> tuple[KeptRun, Ahead | None]:
    """The run with the rows that `make(run, choice, *arguments)` predicts, and that; the run alone
    where it predicts nothing."""
    return made(run, _with_predicted, choice, *arguments, predict=make)


def _with_predicted(
    run: KeptRun, choice: Choice, *arguments: Any, predict: Callable[..., Ahead | None]
) -> tuple[KeptRun, Ahead | None]:
    ahead = predict(run, choice, *arguments)
    if ahead is None:
        return run, None
    tables = {name: joined(run, name, ahead) for name in run.meta["tables"] if name in ahead.tables}
    asked = [ahead.variant, choice.method, choice.axis, choice.level, choice.reading]
    digest = digest_of([*asked, repr(arguments)])
    return replace(run, ahead=digest, _tables=tables), ahead


def load_published(read: Callable[[list[Path]], Any], paths: list[Path]) -> Any:
    """Imported head scores, parsed once per file content."""
    key = tuple((str(path), path.stat().st_mtime_ns) for path in paths)
    return MEMORY.get(("published", key), lambda: read(paths))


class Ready(go.Figure):
    """A figure as plain JSON: put into it once, not at every redraw of every session. Only to be
    drawn."""

    def __init__(self, spec: dict[str, Any]) -> None:
        # Nothing of a figure's own is needed, and all of it takes time.
        self.__dict__["_spec"] = spec

    def to_dict(self) -> dict[str, Any]:
        return self.__dict__["_spec"]


def ready(figure: go.Figure) -> Ready:
    """The figure, which nobody may change any more, as it is sent to browsers."""
    if "_ready" not in figure.__dict__:
        figure.__dict__["_ready"] = Ready(json.loads(figure.to_json()))
    return figure.__dict__["_ready"]


# What stays in memory is kept out of Python's search for circles.
#
# Streamlit has Python search all objects for circles that nobody holds after every run of every
# page, while all other sessions wait. With the libraries, tables and figures of this app that takes
# .2 s, more than all else a redraw costs. Objects that stay are set aside (`gc.freeze`), again
# whenever many more were made; what was let go of meanwhile is found then.


MANY = 16
"""So many results are made between two searches of everything."""
_lock = threading.Lock()
_made = 0


def settle() -> None:
    """Search everything once, and set aside what is left."""
    with _lock:
        gc.unfreeze()
        gc.collect()
        gc.freeze()


def made_one() -> None:
    """A result was made that is kept for other redraws."""
    global _made
    _made += 1
    if _made % MANY == 0:
        settle()
