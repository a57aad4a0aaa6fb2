"""An audit under way, whatever its track: what it computes with, and what every run.json says of it."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pandas as pd

from engine.audit.executors import Executor
from engine.audit.progress import Progress
from engine.audit.provenance import device_words, versions
from engine.files import json_able
from engine.metrics.workbench import Workbench

PlanT = TypeVar("PlanT")
BenchT = TypeVar("BenchT", bound=Workbench)


@dataclass
class UnderWay(Generic[PlanT, BenchT]):
    """A plan, the bench it is measured on, its progress, and who computes."""

    plan: PlanT
    bench: BenchT
    progress: Progress
    executor: Executor

    @property
    def request(self) -> Any:
        return self.plan.request

    def finish(self, phase: str, shards: Sequence[Any]) -> None:
        """Compute what is not finished yet."""
        self.executor.run(self.bench, phase, shards, self.progress)

    def meta(self, title: str, asked: Mapping[str, Any], device: Any) -> dict[str, Any]:
        """What run.json says of every classifier's audit: what was asked, with which code, and what it took."""
        return {
            "track": self.request.track,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "title": self.request.title or title,
            "request": json_able(dict(asked)),
            "provenance": {
                "versions": versions(),
                "device": str(device),
                "device_name": device_words(device),
                "dtype": "float32",
                "code": {name: kind.version for name, kind in self.bench.kinds.items()},
            },
            "spent": {phase: round(seconds, 2) for phase, seconds in self.progress.spent.items()},
        }


@contextmanager
def timed(progress: Progress, phase: str, what: str) -> Iterator[None]:
    """Say what is done now, and note the seconds it took."""
    progress.say(phase, what)
    start = time.monotonic()
    yield
    progress.spent[phase] = time.monotonic() - start


def counts_of(tables: Mapping[str, pd.DataFrame]) -> dict[str, int]:
    """Items of every group in every split, as the uncut model was measured on them."""
    groups = tables["groups"]
    dense = groups[(groups["variant"] == "dense") & (groups["metric"] == "accuracy")]
    return {f"{row.split}/{row.axis}/{row.group}": int(row.n) for row in dense.itertuples()}
