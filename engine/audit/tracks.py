"""The tracks that are here: one folder of engine/tracks each, found and nowhere listed.

What a track declares for audits is a `TrackEntry` in its `__init__`, light enough for a page to
read: where its request, its run and its screen are. What it declares for charts and reports is
`engine.report.tracks.Track`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from engine.audit.request import Growth, is_growth
from engine.core.errors import chosen, refusal
from engine.core.types import Values
from engine.store.runs import Run

TRACKS = "engine.tracks"


@dataclass(frozen=True)
class Quick:
    """The audit that naming a model is enough to ask for: its request, JSON-able, and what it can
    and cannot show."""

    request: Callable[[str], dict[str, Any]]
    said: str


@dataclass(frozen=True)
class TrackEntry:
    """Where the parts of a track are, as "module:name" within its package; each is imported when it
    is asked for.

    `package` is `__name__` of the track's folder.
    """

    package: str
    about: str
    """What is cut, for the form and the command line: "Attention heads of a language model"."""
    place: int
    """Order in lists."""
    word: str = "audit"
    """The command that starts an audit of this track."""
    asks: str = ""
    """What that command does, for its help."""
    claims: str = ""
    """A function that tells from the parsed words whether they ask for this track, where several
    have one word; none: it takes what no other claims."""
    question: str = ""
    """What can be asked of a run on the spot, an `engine.resident.asks.Ask`; empty where nothing
    can."""
    request: str = "request:Request"
    validate: str = "request:validate"
    run: str = "run:run_audit"
    verify: str = "summary:recomputed"
    screen: str = "track:SCREEN"
    summary: str = "summary:SUMMARY"
    mask: str = "checkpoint:mask_record"
    """What mask.json holds of one takable row of the variants table, (run, row) -> record."""
    checkpoint: str = "checkpoint:write_checkpoint"
    """Writes such a row as weights, (run, row, folder, base) -> files; `base` is where the run's
    model is now."""
    embedded: str = "request:REQUESTS"
    """Requests of the audits that the project ships."""
    grow: str = ""
    """What adds to a finished run, (Growth, store, hooks, executor) -> Run; empty where nothing can
    be added."""
    check_growth: str = ""
    """What is checked of a growth before anything heavy loads, (Growth, store); RequestError with
    all faults."""
    told: str = ""
    """What a growth says, (run before, run after, Growth) -> {"rows": predicted beside measured,
    "notes", …}."""
    measure: str = ""
    """Where units that are chosen by hand are measured, (run, units, store) -> table; empty where
    none can be."""

    inspect: str = "summary:inspected"
    """What a model is, before an audit is asked for: what a request says of the model, JSON-able ->
    sentences."""
    prediction: str = ""
    """What is said of levels that nobody measured; empty where variants are trained."""
    benchmarks: str = ""
    """Published tests that variants can be measured on; empty where there are none."""
    published: str = ""
    """Published scores that can be shown in place of an audit's."""
    shelves: str = ""
    """What the library holds for this kind of audit, () -> shelves."""

    quick: str = ""
    """A `Quick`; empty where naming a model is not enough to ask for an audit."""

    @property
    def cuts(self) -> str:
        """What its audits are about, in the plural: "language models"."""
        return self.name.replace("_", " ")

    @property
    def name(self) -> str:
        """The folder's name: the same in requests, runs, commands and on the screen."""
        return self.package.rpartition(".")[2]

    def part(self, which: str) -> Any:
        """The object that one of the fields names, e.g. part("run"); its module is imported now.
        RequestError where the track has none."""
        module, _, name = getattr(self, which).partition(":")
        if not module:
            can = ", ".join(entry.cuts for entry in tracks().values() if getattr(entry, which))
            raise refusal(
                "run",
                f"is of {self.cuts}, for which this cannot be done.",
                f"It can for: {can}.",
            )
        return getattr(importlib.import_module(f"{self.package}.{module}"), name)

    def given(self, which: str) -> Any:
        """As `part`; None where the track has none."""
        return self.part(which) if getattr(self, which) else None

    def commands(self) -> dict[str, str]:
        """Modules of the track's folder `commands` by name: a command each, or its part in one that
        tracks share."""
        folder = f"{self.package}.commands"
        found = pkgutil.iter_modules(importlib.import_module(folder).__path__)
        return {info.name: f"{folder}.{info.name}" for info in found}


@cache
def tracks() -> Mapping[str, TrackEntry]:
    """Every track by name, in the order of lists."""
    package = importlib.import_module(TRACKS)
    found = [
        importlib.import_module(f"{TRACKS}.{info.name}")
        for info in pkgutil.iter_modules(package.__path__)
    ]
    entries = [module.TRACK for module in found if hasattr(module, "TRACK")]
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.place)}


def track_named(name: str) -> TrackEntry:
    """The track of this name; RequestError with the known names."""
    return chosen("track", name, tracks())


def track_of_request(request: Any) -> TrackEntry:
    return track_named(request.track)


def track_of_meta(meta: Values) -> TrackEntry:
    """The track of a run, from its run.json."""
    return track_named(str(meta.get("track") or ""))


def track_of_run(run: Run) -> TrackEntry:
    return track_of_meta(run.meta)


def request_from(value: Values) -> Any:
    """A request, or a growth, from its JSON form, whichever track it is of. RequestError where it
    is none."""
    if is_growth(value):
        return Growth.from_dict(value)
    track = track_named(str(value.get("track") or ""))
    make: Callable[[Values], Any] = track.part("request").from_dict
    return make({name: item for name, item in value.items() if name != "track"})


def parts_of(command: str) -> dict[str, Any]:
    """The tracks' parts in a command that they share, by track: modules of the command's name, the
    last track first.

    Whose words they are is asked in this order; the first track in lists takes what no other
    claims.
    """
    found = {
        name: track.commands().get(command) for name, track in reversed(list(tracks().items()))
    }
    return {name: importlib.import_module(module) for name, module in found.items() if module}
