"""Small audits of every kind, each in a process of its own that can be killed, and their
comparison."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeVar

import pandas as pd

import engine
from benchmarks.report import Measure, said, timed
from engine.audit.tracks import tracks
from engine.store.runs import Run, Store

T = TypeVar("T")
R = TypeVar("R")
CORES = 2
LONGEST = 300.0
"""Seconds after which a command counts as hanging."""
TIMES = {"costs"}
"""Tables that hold seconds and nothing else that could be compared."""


@dataclass(frozen=True)
class Audited:
    """A small audit that nothing interrupted: its track, the words of its command, its store, the
    seconds it took."""

    track: str
    words: tuple[str, ...]
    store: Path
    run: str
    seconds: float


@dataclass(frozen=True)
class Done:
    """How a command ended (negative: by this signal), and all it said."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err


def loaded() -> None:
    """Import what every command needs, so that processes forked from this one start at once."""
    import torch

    torch.set_num_threads(1)
    for found in pkgutil.walk_packages(engine.__path__, "engine."):
        if not found.name.rpartition(".")[2].startswith(("_", "ray_")):
            importlib.import_module(found.name)
    for name in tracks():
        importlib.import_module(f"tests.tracks.{name}.worlds")


def forked(words: Sequence[str], log: Path, after: float | None = None) -> Done:
    """One command in a process of its own; killed (-9) `after` so many seconds where it has not
    ended by then."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if not (child := os.fork()):
        _child(words, log)
    end = time.monotonic() + (LONGEST if after is None else after)
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() >= end:
            os.kill(child, signal.SIGKILL)
            ended = os.waitpid(child, 0)
            break
        time.sleep(0.002)
    texts = [Path(f"{log}.{kind}").read_text(errors="replace") for kind in ("out", "err")]
    return Done(os.waitstatus_to_exitcode(ended[1]), *texts)


def _child(words: Sequence[str], log: Path) -> None:
    """Does not return."""
    code = 70
    try:
        with open(f"{log}.out", "w") as out, open(f"{log}.err", "w") as err:
            os.dup2(out.fileno(), 1), os.dup2(err.fileno(), 2)
            sys.stdout, sys.stderr = out, err
            from engine.cli import main

            code = main([str(word) for word in words])
    finally:
        os._exit(code)


@cache
def audits() -> tuple[Audited, ...]:
    """An uninterrupted small audit of every kind, computed once."""
    loaded()
    return tuple(side_by_side(_audited, list(tracks())))


def _audited(track: str) -> Audited:
    folder = Path(mkdtemp(prefix=f"hardening-{track}-"))
    words = importlib.import_module(f"tests.tracks.{track}.worlds").small_audit(folder)
    store = folder / "store"
    asked = [*words, "--json", "--store", str(store)]
    done, seconds = timed(lambda: forked(asked, folder / "log"))
    if done.code:
        raise RuntimeError(f"{track}: {done.said[-2000:]}")
    return Audited(track, tuple(words), store, json.loads(done.out)["run"], seconds)


def side_by_side(do: Callable[[T], R], over: Sequence[T]) -> list[R]:
    """`do` of each, as many at once as there are cores here; in processes forked from this one."""
    with ProcessPoolExecutor(CORES, mp_context=get_context("fork")) as pool:
        return list(pool.map(do, over))


def differences(one: Run, other: Run, exact: bool = True) -> list[str]:
    """Names of tables that are not equal, but for times: to the bit, or within rounding."""
    names = sorted({*one.meta["tables"], *other.meta["tables"]} - TIMES)
    return [
        name
        for name in names
        if not one.has(name) or not other.has(name) or not _equal(one, other, name, exact)
    ]


def _equal(one: Run, other: Run, name: str, exact: bool) -> bool:
    first, second = (_timeless(run.table(name)) for run in (one, other))
    try:
        pd.testing.assert_frame_equal(first, second, check_exact=exact, rtol=1e-4, atol=1e-4)
    except AssertionError:
        return False
    return True


def _timeless(table: pd.DataFrame) -> pd.DataFrame:
    return table[[column for column in table if "seconds" not in column]]


def again(audit: Audited, store: Path, done: Done) -> str:
    """What is wrong with an audit that was asked for again in another store: how it ended, or
    tables that are not equal to the bit but for times; "" where nothing is."""
    if done.code:
        return f"ended with {done.code}: {done.said[-500:]}"
    wrong = differences(Store(audit.store).open(audit.run), Store(store).open(audit.run))
    return f"{', '.join(wrong)} differ" if wrong else ""


def tell(row: str, failed: Sequence[str]) -> None:
    """What did not hold, one line each, on standard error."""
    for one in filter(None, failed):
        said(f"  {row}: {one}")


def right(row: str, name: str, failed: Sequence[str], unit: str = "") -> Measure:
    """How many held, which should be all; what did not is told."""
    tell(row, failed)
    count, total = sum(not one for one in failed), len(failed)
    return Measure(name, count, unit or f"of {total}", total, at_least=True)
