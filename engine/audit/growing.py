"""What growing a finished run takes, whatever its track: the run and its plan, faults of what is
asked, the addition.

Kept under what was asked, the run and the code that computes it, so that the same growth is written
once.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pandas as pd

from engine.audit.fields import fields_of
from engine.audit.provenance import provenance
from engine.audit.request import Growth, Plan
from engine.audit.session import Executor, Local, Session, damaged_words
from engine.audit.tracks import request_from, track_of_run
from engine.core.errors import Fault, RequestError, unknown
from engine.core.files import PROJECT, json_able
from engine.core.types import Hooks
from engine.store.additions import id_of, write_addition
from engine.store.runs import EMBEDDED, Run, Store, find_run
from engine.store.shards import Used, noted

P = TypeVar("P", bound=Plan)

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
    def asked(self) -> dict[str, Any]:
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
        that it rests on; keys and numbered: of `engine.store.additions.Addition`."""
        meta = {
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
            "title": self.request.title,
            "asked": self.asked,
            "provenance": {**provenance(audit.context), "code": self.plan.versions},
            "spent": {phase: round(seconds, 2) for phase, seconds in audit.progress.spent.items()},
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
    run = find_run(request.run, [store, Store(EMBEDDED, read_only=True)])
    if track_of_run(run).name != request.track:
        raise RequestError(
            Fault("run", f"is of {track_of_run(run).cuts}.", f"Name one of {request.track}.")
        )
    return run


def absent(run: Run, spared: bool = False) -> list[Fault]:
    """Files that the run read and that are not there any more: nothing more of it can be measured
    without them. spared: those without which only the perplexity cannot (TEXTS)."""
    asked = run.meta["request"]
    texts = TEXTS if asked.get("max_corpus_tokens") is not None else ()
    paths = {
        field.label: PROJECT / asked[field.name]
        for field in fields_of(track_of_run(run).part("request"))
        if field.kind == "path" and asked.get(field.name) and (field.name in texts) == spared
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
    if faults := absent(run):
        raise RequestError(faults)
    return same_plan(run, track_of_run(run).part("validate")(request_from(run.meta["request"])))


def same_plan(run: Run, plan: P) -> P:
    """The plan, where it is the run's. RequestError where it would not be the same run today."""
    if plan.run_id != run.id:
        what = (
            f"data, weights or code have changed since {run.id} was made: the same request is now"
            f" {plan.run_id}."
        )
        raise RequestError(Fault("run", what, "Audit again, and measure on that run."))
    return plan


def check_asked(run: Run, request: Growth, splits: Sequence[str], benchmarks: bool = False) -> None:
    """RequestError where axis, split or what to measure are not known.

    benchmarks: whether the track measures any.
    """
    known, wanted = run.meta["request"]["axes"], dict.fromkeys((request.axis, *request.axes))
    faults = [unknown("axis", axis, known) for axis in wanted if axis not in known]
    if request.split not in ("", *splits):
        faults.append(unknown("split", request.split, splits))
    if request.judge:
        faults.append(
            Fault("judge", "this audit holds no texts written by a model.", "Leave it out.")
        )
    if request.benchmarks and not benchmarks:
        faults.append(Fault("benchmarks", "are not for this kind of audit.", "Leave them out."))
    if sum((bool(request.units), request.level is not None, bool(request.benchmarks))) != 1:
        faults.append(
            Fault(
                "request",
                "a level of a method or a set of units is needed.",
                "Give one of the two.",
            )
        )
    if faults:
        raise RequestError(faults)


def check_units(units: Sequence[int], total: int, many: str, model: str, counted: str = "") -> None:
    """RequestError unless these are units of the model, once each; `counted` says how they are
    numbered."""
    if not all(0 <= unit < total for unit in units) or len(set(units)) != len(units):
        said = f"{list(units)[:20]} are not {many} of {model}, once each."
        raise RequestError(Fault(many, said, f"Units go from 0 to {total - 1}{counted}."))


def check_name(name: str) -> None:
    """RequestError where a set's name cannot be shown."""
    if len(name) > LONGEST or not (name or "x").isprintable() or set(name) & set("<>&"):
        what = "is too long or holds what charts cannot show."
        raise RequestError(Fault("name", what, f"At most {LONGEST} letters, none of < > &."))
