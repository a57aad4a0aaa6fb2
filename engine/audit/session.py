"""One audit under way, the same for every track: run found or computed, resuming guarded, progress,
provenance."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pandas as pd

from engine.audit.executors import Executor, Local
from engine.audit.measurements import MeasurementContext
from engine.audit.progress import Progress
from engine.audit.provenance import provenance
from engine.audit.request import Plan
from engine.audit.resume_guard import begin, ended
from engine.audit.turn import device_named, working
from engine.core import memory
from engine.core.files import json_able
from engine.core.types import Event, Hooks
from engine.store.runs import Run, Store, damaged_tables
from engine.store.sealed import DamagedError
from engine.store.shards import noted

PlanT = TypeVar("PlanT", bound=Plan)
ContextT = TypeVar("ContextT", bound=MeasurementContext)
Tables = Mapping[str, pd.DataFrame]


@dataclass
class Session(Generic[PlanT, ContextT]):
    """A plan, the context it is measured in, its progress, and the executor that computes."""

    plan: PlanT
    context: ContextT
    progress: Progress
    executor: Executor

    @property
    def request(self) -> Any:
        return self.plan.request

    def finish(self, phase: str, shards: Sequence[Any]) -> None:
        """Compute what is not finished yet."""
        if shards:
            self.executor.run(self.context, phase, shards, self.progress)

    def finish_all(self, phases: Mapping[str, Sequence[Any]]) -> None:
        """Compute phase after phase; how much there is in all is known before the first begins."""
        found = [shard for shards in phases.values() for shard in shards]
        self.progress.expect_in_all(
            self.progress.done + self.context.effort(self.progress.uncounted(found))
        )
        for phase, shards in phases.items():
            self.finish(phase, shards)

    def meta(self, title: str) -> dict[str, Any]:
        """What run.json says of every audit: what was asked, with which code, and what it took."""
        return {
            "track": self.request.track,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "title": self.request.title or title,
            "request": json_able(self.plan.spelled_out()),
            "provenance": {**provenance(self.context), "code": self.plan.versions},
            "memory": {"budget": memory.budget(), "peak": memory.peak()},
            "spent": {phase: round(seconds, 2) for phase, seconds in self.progress.spent.items()},
            "computed": round(self.progress.computed, 3),
        }


def run_session(
    plan: Plan,
    store: Store,
    hooks: Hooks,
    executor: Executor | None,
    audit: Callable[[Executor], tuple[dict[str, Any], Tables]],
) -> Run:
    """The finished run of a plan: found, awaited where another process computes it, or audited
    here.

    `audit` computes run.json and the tables with the executor it is given, this process where none
    is. RequestError where the same words were begun with other data or weights, Cancelled when
    stopped; parts that were finished before are found in the store and not computed again.
    """
    if found := finished(store, plan.run_id, hooks):
        return found
    store.prove_writable()
    with store.alone(plan.run_id, hooks.check), closing(executor or Local()) as chosen:
        if found := finished(
            store, plan.run_id
        ):  # another process, asked in other words, was faster
            return found
        begin(store, plan)
        with working(store, device_named(plan.request.device), hooks):
            return _computed(plan, store, hooks, audit, chosen)


def finished(store: Store, run_id: str, hooks: Hooks | None = None) -> Run | None:
    """The run, where it is there and as it was written. A damaged one counts as not finished, which
    `hooks` are told; NewerError for one of a newer version, which is nobody's to replace."""
    if not store.has(run_id):
        return None
    run = store.open(run_id)
    try:
        tables, _ = damaged_tables(run), run.rests_on
        why = (
            f"run {run_id} is damaged: other bytes than were written in {', '.join(tables)}."
            if tables
            else ""
        )
    except DamagedError as error:
        why = str(error)
    if why and hooks:
        hooks.report(Event("load", 0, 0, note=f"{why} It is computed again."))
    return None if why else run


def _computed(
    plan: Plan,
    store: Store,
    hooks: Hooks,
    audit: Callable[[Executor], tuple[dict[str, Any], Tables]],
    executor: Executor,
) -> Run:
    """The run, computed here and written, with what it rests on and what was found damaged on the
    way."""
    for warning in plan.warnings:
        hooks.report(Event("load", 0, 0, note=warning))
    with noted() as used:
        meta, tables = audit(executor)
    for path in used.damaged:
        hooks.report(Event("write", 0, 0, note=damaged_words(path)))
    run = store.write(plan.run_id, meta, tables, used.hashes)
    ended(store, plan)
    return run


def damaged_words(path: Path) -> str:
    """Said of a finished part that was not as it was written."""
    return f"{path.name} in the store was damaged: what it held was computed again."


@contextmanager
def timed(progress: Progress, phase: str, what: str) -> Iterator[None]:
    """Say what is done now, and note the seconds it took."""
    progress.say(phase, what)
    start = time.monotonic()
    yield
    progress.spent[phase] = progress.spent.get(phase, 0.0) + time.monotonic() - start


def counts_of(tables: Tables) -> dict[str, int]:
    """Items of every group in every split, as the dense model was measured on them:
    {"split/axis/group": n}.

    tables: the run's tables by name, of which only `groups` is read.
    """
    groups = tables["groups"]
    dense = groups[(groups["variant"] == "dense") & (groups["metric"] == "accuracy")]
    return {f"{row.split}/{row.axis}/{row.group}": int(row.n) for row in dense.itertuples()}
