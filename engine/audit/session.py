"""One audit under way, the same for every track: run found or computed, resuming guarded.

Also its progress, and where missing shards are computed: every executor gives the same tables,
within rounding.
"""

from __future__ import annotations

import datetime
import math
import os
import platform
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Generic, TypeVar

import pandas as pd

import engine
from engine.audit.fields import fields_of
from engine.audit.measurements import MeasurementContext
from engine.audit.request import Growth, Plan
from engine.audit.tracks import request_from, track_of_run
from engine.audit.turn import device_named, working
from engine.core import memory
from engine.core.errors import Fault, StoreError, refusal, refuse, unknown
from engine.core.files import PROJECT, json_able, sha256_of
from engine.core.types import Event, Hooks, Values, digest_of
from engine.store.runs import Run, Store, damaged_tables, id_of, run_in, write_addition
from engine.store.sealed import DamagedError, Used, noted, read_document, write_document

# Where a result comes from: versions of packages, the machine, the source files that compute.


PACKAGES = (
    "torch",
    "torchvision",
    "torch-pruning",
    "transformers",
    "tokenizers",
    "safetensors",
    "captum",
    "detoxify",
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "pyarrow",
)


def versions() -> dict[str, str]:
    """Installed versions of what the numbers pass through."""
    found = {"pruneaudit": engine.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def provenance(context: MeasurementContext) -> Values:
    """JSON-able: versions of packages, device, number format."""
    device_name = platform.processor() or platform.machine()
    if context.device.type == "cuda":
        import torch

        device_name = torch.cuda.get_device_name(context.device)
    return {
        "versions": versions(),
        "device": str(context.device),
        "device_name": device_name,
        "dtype": context.dtype,
    }


# Which code computes. No torch: pages ask it with every question.


ENGINE = PROJECT / "engine"


def source_digest() -> str:
    """Digest of the engine's source files as they are on disk, wherever they lie; read again once
    one changed."""
    found = ((path, path.stat()) for path in sorted(ENGINE.rglob("*.py")))
    return _digest(tuple((path, about.st_size, about.st_mtime_ns) for path, about in found))


@lru_cache(maxsize=2)
def _digest(stamped: tuple[tuple[Path, int, int], ...]) -> str:
    hashes = [[os.path.relpath(path, PROJECT), sha256_of(path)] for path, _, _ in stamped]
    return digest_of(hashes)[:16]


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

    @property
    def origin(self) -> Values:
        """With which code it was computed, where, and what it took."""
        return {
            "provenance": {**provenance(self.context), "code": self.plan.versions},
            "spent": {phase: round(seconds, 2) for phase, seconds in self.progress.spent.items()},
        }

    def meta(self, title: str) -> dict[str, Any]:
        """What run.json says of every audit: what was asked, with which code, and what it took."""
        return {
            "track": self.request.track,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "title": self.request.title or title,
            "request": json_able(self.plan.spelled_out()),
            **self.origin,
            "memory": {"budget": memory.budget(), "peak": memory.peak()},
            "computed": round(self.progress.computed, 3),
        }


def run_session(
    plan: Plan,
    store: Store,
    hooks: Hooks,
    executor: Executor | None,
    audit: Callable[[Executor], tuple[Values, Tables]],
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
            for warning in plan.warnings:
                hooks.report(Event("load", 0, 0, note=warning))
            with noted() as used:
                meta, tables = audit(chosen)
            for path in used.damaged:
                hooks.report(Event("write", 0, 0, note=damaged_words(path)))
            run = store.write(plan.run_id, meta, tables, used.hashes)
            ended(store, plan)
            return run


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


# What an unfinished audit was begun with, so that other data or weights are noticed.


def begin(store: Store, plan: Plan) -> None:
    """Note what the audit rests on. RequestError where the same words were begun with other data or
    weights.

    Parts are kept under the digest of what they were computed from, so nothing is ever mixed. But a
    user who resumes expects to go on, and must hear that nothing of the earlier try will be used.
    """
    path = _path(store, plan)
    earlier = _read(path)
    if earlier is not None and earlier != plan.content and not plan.request.restart:
        what = "changed since this audit was begun, so none of its finished parts can be used."
        raise refusal(
            "data or weights", what, "Put the old ones back, or begin again with --restart."
        )
    write_document(path, {"content": plan.content}, 1)


def ended(store: Store, plan: Plan) -> None:
    """Forget what the audit was begun with: it is finished."""
    _path(store, plan).unlink(missing_ok=True)


def _path(store: Store, plan: Plan) -> Path:
    return store.root / "begun" / f"{digest_of(plan.request.identity)[:16]}.json"


def _read(path: Path) -> list[Any] | None:
    """What was noted; None for a note that is damaged, or of a version that kept no hash: it guards
    nothing."""
    try:
        return read_document(path, "what an audit was begun with", 1)["content"]
    except (StoreError, KeyError):
        return None


# How far long work is, and how long it will take.


SETTLED = 2.0
"""Seconds of computing before a forecast is said: first batches warm up, at half the speed of what
follows."""


@dataclass
class Progress:
    """Counts work over all phases of one audit. Work found finished on disk counts as done but not
    for the speed.

    Where all work is known before it begins, the share that is said to be done never falls. What
    turns up beyond it lets the share stand still for a while.
    """

    report: Callable[[Event], None]
    clock: Callable[[], float] = time.monotonic
    total: float = 0.0
    done: float = 0.0
    _fresh: float = 0.0
    _spent: float = 0.0
    _phase: str = ""
    _share: float = 0.0
    _in_all: bool = False
    spent: dict[str, float] = field(default_factory=dict)
    afterwards: float = 0.0
    """Seconds of what comes after all that is counted, such as statistics, as far as that is known.
    """
    settled: float = SETTLED
    """Seconds of computing before a forecast is said: more while the next results decide how much
    there is to do."""

    _counted: set[Hashable] = field(default_factory=set)

    def uncounted(self, shards: Sequence[Any]) -> list[Any]:
        """Those that were not counted as work yet: what several phases ask for is done once."""
        return [shard for shard in dict.fromkeys(shards) if shard not in self._counted]

    def count(self, shards: Sequence[Any]) -> list[Any]:
        """As `uncounted`; from here on they are."""
        found = self.uncounted(shards)
        self._counted.update(found)
        return found

    def expect_in_all(self, size: float) -> None:
        """Set the amount of all work, in the unit of the measurements' size, where it is known
        before it begins."""
        self.total, self._in_all = size, True

    def expect(self, size: float) -> None:
        """Work that begins now: counted already where all of it was known, more only where that was
        too little."""
        self.total = max(self.total, self.done + size)

    def advance(
        self, phase: str, size: float, seconds: float, what: str = "", fresh: bool = True
    ) -> None:
        """A part of `size` was finished in `seconds`."""
        self.done += size
        self.spent[phase] = self.spent.get(phase, 0.0) + seconds
        if fresh:
            self._fresh += size
            self._spent += seconds
        self.say(phase, what)

    def partly(self, phase: str, size: float, seconds: float, what: str = "") -> None:
        """Report from the inside of a part: `size` of it is done after `seconds`."""
        self.report(self._event(phase, self.done + size, what, self._left(size, seconds)))

    def say(self, phase: str, what: str = "") -> None:
        """Report where things stand."""
        self._phase = phase
        self.report(self._event(phase, self.done, what, self.eta))

    def over(self, phase: str) -> None:
        """Say that nothing is left: work that was counted and turned out not to be needed is
        forgotten."""
        self.total = self.done
        self.say(phase)

    def tell(self, note: str) -> None:
        """A sentence to keep on screen, where things stand."""
        self.report(replace(self._event(self._phase, self.done, "", self.eta), note=note))

    def _event(self, phase: str, done: float, what: str, eta: float | None) -> Event:
        total = round(self.total)
        if total and self._in_all:
            done = min(math.ceil(max(self._share, done / self.total) * total - 1e-9), total)
            self._share = done / total
        return Event(phase, round(done), total, what, eta)

    @property
    def computed(self) -> float:
        """Share of the work that was computed, the rest was found finished; 1 where there was
        none."""
        return self._fresh / self.done if self.done > 0 else 1.0

    @property
    def eta(self) -> float | None:
        """Seconds left at the speed so far; None before enough was computed to tell."""
        return self._left(0.0, 0.0)

    def _left(self, size: float, seconds: float) -> float | None:
        """As `eta`, where `size` of the part under way is done after `seconds`."""
        fresh, spent = self._fresh + size, self._spent + seconds
        if fresh <= 0 or spent < self.settled:
            return None
        return max(self.total - self.done - size, 0.0) * spent / fresh + self.afterwards


# Where missing shards are computed.


OFTEN = 0.1
"""Seconds between two reports from the inside of a part, at least."""


class Executor(ABC):
    """Computes shards and leaves the tables in the context's keeper."""

    @abstractmethod
    def run(
        self, context: MeasurementContext, phase: str, shards: Sequence[Any], progress: Progress
    ) -> None:
        """Finish all shards. Raises Cancelled between batches when the user asked to stop."""

    def close(self) -> None:  # noqa: B027  (most have no workers)
        """End its worker processes, where it has any; `run` may be called again."""


class Local(Executor):
    """One bundle after the other, in this process."""

    def run(
        self, context: MeasurementContext, phase: str, shards: Sequence[Any], progress: Progress
    ) -> None:
        bundles = context.bundles(shards)
        sizes = [context.effort(progress.count(bundle)) for bundle in bundles]
        progress.expect(sum(sizes))
        context.beside = frozenset(shards)
        for bundle, size in zip(bundles, sizes, strict=True):
            context.hooks.check()
            fresh = not all(context.kept(shard) for shard in bundle)
            start, what = progress.clock(), context.describe_all(bundle)
            progress.say(phase, what)
            context.inside = _partly(progress, phase, size, what, start)
            if fresh:
                context.fetch(bundle)
            progress.advance(phase, size, progress.clock() - start, what, fresh)


def _partly(
    progress: Progress, phase: str, size: float, what: str, start: float
) -> Callable[[float], None]:
    """A function that reports the share done of one bundle while it is computed. What begins again
    within it, as answering does after fitting, stands still until it has come as far. It is called
    at every step, and says something every OFTEN seconds.
    """
    most, told = 0.0, start

    def report(share: float) -> None:
        nonlocal most, told
        most, now = max(most, share), progress.clock()
        if now - told >= OFTEN:
            told = now
            progress.partly(phase, size * most, now - start, what)

    return report


# What growing a finished run takes, whatever its track: the run and its plan, faults of what is
# asked, the addition.
#
# Kept under what was asked, the run and the code that computes it, so that the same growth is
# written once.


TEXTS = ("corpus", "validation_corpus")
"""Files of which a run keeps what it needs to be the same run."""
LONGEST = 60
"""Characters of a name."""


@dataclass(frozen=True)
class Grown:
    """A growth that holds up: the run, its plan, and what of it the run does not have yet.

    variants: of the track's own kind. axes: those on which something is missing; none where nothing
    is.
    """

    run: Run
    plan: Any
    variants: tuple[Any, ...]
    split: str
    axes: tuple[str, ...]
    request: Growth
    content: Mapping[str, str] = field(default_factory=dict)
    """What it rests on besides the run, digests by name: it counts for the addition's id."""

    @property
    def asked(self) -> Values:
        """What is measured, JSON-able: what a growth is called in lists does not count."""
        found = {**self.request.identity, "axes": list(self.axes), "split": self.split}
        return {**found, "content": dict(self.content)} if self.content else found

    @property
    def id(self) -> str:
        """The addition's id."""
        return id_of(self.run.id, self.asked, self.plan.versions)

    def write(
        self,
        store: Store,
        audit: Session,
        used: Used,
        tables: Mapping[str, pd.DataFrame],
        notes: Sequence[str],
        keys: Mapping[str, Sequence[str]],
        numbered: Mapping[str, str] | None = None,
    ) -> None:
        """Write the addition, whole or not at all. audit: what measured it; used: finished parts
        that it rests on; keys and numbered: of `engine.store.runs.Addition`."""
        meta = {
            "title": self.request.title,
            "asked": self.asked,
            **audit.origin,
            "notes": [*notes, *map(damaged_words, used.damaged)],
            "shards": used.hashes,
            "keys": keys,
            "numbered": numbered or {},
        }
        kept = {name: table for name, table in tables.items() if len(table)}
        write_addition(store.root, self.run.id, self.id, json_able(meta), kept)


def grown_run(
    grown: Grown,
    store: Store,
    hooks: Hooks,
    executor: Executor | None,
    measure: Callable[[Executor, Used], None],
) -> Run:
    """The run with the growth, measured now or found. measure: writes the addition; called where
    nobody else has it.

    What was finished before an interruption is found in the store; a growth asked twice at once is
    measured once.
    """
    if not grown.axes:
        return grown.run
    store.prove_writable()
    with (
        store.alone(f"{grown.run.id}-{grown.id}", hooks.check),
        closing(executor or Local()) as chosen,
    ):
        if grown.id not in {one.id for one in run_of(grown.request, store).added}:
            with noted() as used:
                measure(chosen, used)
    return run_of(grown.request, store)


def run_of(request: Growth, store: Store) -> Run:
    """The run that is to grow, with what was added to it: of the store, or one that the project
    ships. RequestError where it is of another track."""
    run = run_in(store, request.run)
    if track_of_run(run).name != request.track:
        raise refusal("run", f"is of {track_of_run(run).cuts}.", f"Name one of {request.track}.")
    return run


def absent(run: Run, spared: bool = False) -> list[Fault]:
    """Files that the run read and that are not there any more: nothing more of it can be measured
    without them. spared: those without which only the perplexity cannot (TEXTS)."""
    asked = run.request
    texts = TEXTS if asked.get("max_corpus_tokens") is not None else ()
    paths = {
        field.label: PROJECT / asked[field.name]
        for field in fields_of(track_of_run(run).part("request"))
        if asked.get(field.name)
        and (
            field.kind == "path"
            or field.upload is not None
            and Path(asked[field.name]).suffix[1:] in field.upload
        )
        and (field.name in texts) == spared
        and not Path(asked[field.name]).exists()  # from where the program runs
    }
    more = "its perplexity" if spared else "more"
    return [
        Fault(
            label,
            f"this audit read {path.name}, which is not on this machine.",
            f"To measure {more}, put it at {path}; its contents are checked.",
        )
        for label, path in paths.items()
        if not path.exists()
    ]


def plan_of(run: Run) -> Plan:
    """What the run was asked, checked again. RequestError where it would not be the same run
    today."""
    refuse(absent(run))
    return same_plan(run, track_of_run(run).part("validate")(request_from(run.request)))


def same_plan(run: Run, plan: PlanT) -> PlanT:
    """The plan, where it is the run's. RequestError where it would not be the same run today."""
    if plan.run_id != run.id:
        what = (
            f"data, weights or code have changed since {run.id} was made: the same request is now"
            f" {plan.run_id}."
        )
        raise refusal("run", what, "Audit again, and measure on that run.")
    return plan


def check_asked(run: Run, request: Growth, splits: Sequence[str], also: str = "") -> None:
    """RequestError where axis, split or what to measure are not known.

    also: what the track measures besides levels and sets of units: "benchmarks", "effects".
    """
    known, wanted = run.request["axes"], dict.fromkeys((request.axis, *request.axes))
    faults = [unknown("axis", axis, known) for axis in wanted if axis not in known]
    if request.split not in ("", *splits):
        faults.append(unknown("split", request.split, splits))
    if request.judge:
        faults.append(
            Fault("judge", "this audit holds no texts written by a model.", "Leave it out.")
        )
    more = {"benchmarks": bool(request.benchmarks), "effects": request.effects}
    for name in (name for name, wanted in more.items() if wanted and name != also):
        faults.append(Fault(name, "are not for this kind of audit.", "Leave them out."))
    if sum((bool(request.units), request.level is not None, *more.values())) != 1:
        faults.append(
            Fault(
                "request",
                "a level of a method or a set of units is needed.",
                "Give one of the two.",
            )
        )
    refuse(faults)


def check_units(units: Sequence[int], total: int, many: str, model: str, counted: str) -> None:
    """RequestError unless these are units of the model, once each; `counted` says how they are
    numbered."""
    if not all(0 <= unit < total for unit in units) or len(set(units)) != len(units):
        said = f"{list(units)[:20]} are not {many} of {model}, once each."
        raise refusal(many, said, f"Units go from 0 to {total - 1}{counted}.")


def check_name(name: str) -> None:
    """RequestError where a set's name cannot be shown."""
    if len(name) > LONGEST or not (name or "x").isprintable() or set(name) & set("<>&"):
        what = "is too long or holds what charts cannot show."
        raise refusal("name", what, f"At most {LONGEST} letters, none of < > &.")
