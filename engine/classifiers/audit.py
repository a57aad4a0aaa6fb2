"""One audit of a classifier, whatever it classifies: opened, measured, written, and asked again.

A track says what is its own in a `ClassifierAudit`: how its request is checked, and what a plan is
measured in. It names the measurements, and which tables and words for run.json follow from them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd

from engine.audit.measurements import Measurement, MeasurementContext
from engine.audit.request import Plan
from engine.audit.session import Executor, Progress, Session, Tables, run_session, timed
from engine.classifiers.groups import GroupMeasure
from engine.core.types import Hooks, Values, key_of
from engine.resident.warm import Warm
from engine.store.runs import Run, Store, unpack

PlanT = TypeVar("PlanT", bound=Plan)
ContextT = TypeVar("ContextT", bound="ArrayContext")


@dataclass(frozen=True)
class ClassifierAudit(Generic[PlanT, ContextT]):
    """What is a track's own in its audits.

    validate: a request that holds up as a plan; RequestError with all faults. context: what a plan
    is measured in, kept in a store where there is one. compute: every measurement of the run; what
    it returns is handed on to the others. tables: all tables, and sentences about the groups that a
    screen must show. meta: what run.json says besides what every audit does.
    """

    validate: Callable[[Any], PlanT]
    context: Callable[[PlanT, Store | None, Hooks], ContextT]
    compute: Callable[[Session[PlanT, ContextT]], Any]
    tables: Callable[[Session[PlanT, ContextT], Any], tuple[dict[str, pd.DataFrame], list[str]]]
    meta: Callable[[Session[PlanT, ContextT], Any, Tables, Sequence[str]], dict[str, Any]]
    ready: Callable[[PlanT, Store], None] = lambda plan, store: None
    """RequestError where a plan cannot be measured in this store."""
    prove: Callable[[ContextT], None] = lambda context: context.prove()
    """That masks act on the very model that is loaded; MaskError where they do not."""

    def run(
        self,
        request: Any,
        store: Store,
        hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
        executor: Executor | None = None,
    ) -> Run:
        """The finished run, computed or found. Raises RequestError before anything heavy loads,
        Cancelled when stopped.

        What was finished before an interruption is found in the store and not computed again; a
        training that was interrupted goes on from its last kept step.
        """
        plan = self.validate(request)

        def audited(chosen: Executor) -> tuple[Values, Tables]:
            self.ready(plan, store)
            audit = self.opened(plan, store, hooks, chosen)
            found = self.compute(audit)
            with timed(audit.progress, "measure", "groups and intervals"):
                tables, notes = self.tables(audit, found)
            return self.meta(audit, found, tables, notes), tables

        return run_session(plan, store, hooks, executor, audited)

    def opened(
        self, plan: Any, store: Store, hooks: Hooks, executor: Executor
    ) -> Session[PlanT, ContextT]:
        """The model loaded, and masks proved to act on it."""
        progress = Progress(hooks.report)
        with timed(progress, "load", _loaded(plan)):
            context = self.context(plan, store, hooks)
            self.prove(context)
        return Session(plan, context, progress, executor)

    def reopened(
        self,
        plan: Any,
        store: Store,
        hooks: Hooks,
        executor: Executor,
        warm: Warm | None,
        name: str,
        bytes_of: Callable[[ContextT], int],
    ) -> Session[PlanT, ContextT]:
        """As `opened`, for more of a finished run: what is loaded stays warm under `name`."""
        progress = Progress(hooks.report)

        def proved() -> ContextT:
            context = self.context(plan, store, Hooks())
            context.prove()
            return context

        with timed(progress, "load", _loaded(plan)):
            kept = (warm or Warm(0)).get(name, proved, bytes_of)
            kept_here: Any = kept  # a dataclass
            context = replace(kept_here, hooks=hooks, keeper=store.shards, partial=store.partial)
        return Session(plan, context, progress, executor)


def _loaded(plan: Any) -> str:
    """What is loaded, for progress."""
    return str(plan.model.name)


def kept_in(store: Store | None) -> Values:
    """Where a context keeps measurements: in the store, in memory where there is none."""
    return {} if store is None else {"keeper": store.shards, "partial": store.partial}


class ArrayContext(MeasurementContext):
    """What measurement contexts of classifiers share."""

    settings: Any
    kinds: Mapping[str, Measurement]

    @property
    def first_seed(self) -> int:
        """Seed of trial 0."""
        return int(self.settings.first_seed)

    def kind(self, name: str) -> Measurement:
        return self.kinds[name]

    def seed(self, purpose: str, trial: int) -> int:
        """The seed of a trial for one purpose, the same for all methods, so that arms differ in the
        method only."""
        return key_of(purpose, self.first_seed + trial) % 2**31

    def fetch_arrays(self, shard: Any) -> tuple[dict[str, np.ndarray], Values]:
        """A measurement as arrays by name, in the shapes its `Measurement` gives them, and its
        plain values."""
        return unpack(self.fetch([shard])[0])

    def without_weights(self, shard: Any) -> tuple[dict[str, np.ndarray], Values]:
        """As `fetch_arrays`, without the arrays weights/<name>; remembered, for tables ask for
        every trial many times.

        The arrays have the names and shapes that the shard's `Measurement` gives them.
        """
        if shard not in self._light:
            arrays, plain = self.fetch_arrays(shard)
            slim = {
                name: array for name, array in arrays.items() if not name.startswith("weights/")
            }
            self._light[shard] = slim, plain
        return self._light[shard]

    @cached_property
    def _light(self) -> dict[Any, tuple[dict[str, np.ndarray], Values]]:
        """What `without_weights` has read: (arrays by name, in any shape, and plain values) by
        shard."""
        return {}


class EachAlone(Measurement):
    """A measurement whose shards have nothing in common: each is computed on its own."""

    def parts(self, context: Any, shard: Any) -> dict[str, Any]:
        return {}

    def together(self, context: Any, shard: Any) -> Hashable:
        return shard

    def compute(self, context: Any, shards: Sequence[Any]) -> list[pd.DataFrame]:
        """The tables of the shards, as `table` describes them."""
        return [self.table(context, shard) for shard in shards]

    @abstractmethod
    def table(self, context: Any, shard: Any) -> pd.DataFrame:
        """The finished table of one shard."""


@dataclass(frozen=True)
class Evaluation:
    """What evaluating one classifier on one set of images or texts gives.

    rows: axis ("" for all items), metric, group, value, low, high (95 %, over items), n, verdict.
    notes: sentences that must be read with them.
    """

    model: str
    data: str
    n: int
    rows: list[dict[str, Any]]
    notes: tuple[str, ...] = ()


def evaluation(
    model: str,
    data: str,
    measure: GroupMeasure,
    notes: Iterable[str],
) -> Evaluation:
    """The evaluation of the model that `measure` measured."""
    found = measure.dense()
    parts = [
        found.results[found.results["axis"] == ""],
        found.groups,
        found.results[found.results["metric"].str.endswith("_gap")],
    ]
    rows = [row for part in parts for row in part.to_dict("records")]
    return Evaluation(model, data, len(measure), rows, tuple(dict.fromkeys(notes)))
