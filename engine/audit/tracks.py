"""What can be audited: heads of language models, filters of image classifiers, heads of text classifiers,
models trained to be sparse and fair.

Jobs and the command line ask here. A track is a kind of request, how it is checked, run and verified. Nothing here
loads torch before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from engine.errors import RequestError, unknown
from engine.store.runs import Run


@dataclass(frozen=True)
class Track:
    """Where its parts are, as module:name."""

    name: str
    request: str
    validate: str
    run: str
    verify: str

    def part(self, which: str) -> Callable[..., Any]:
        """One of the parts, imported now."""
        module, _, name = getattr(self, which).partition(":")
        return getattr(import_module(module), name)


HEADS = Track(
    "heads",
    "engine.audit.request:AuditRequest",
    "engine.audit.request:validate",
    "engine.audit.run:run_audit",
    "engine.audit.verify:recomputed",
)
FILTERS = Track(
    "filters",
    "engine.audit.image_request:ImageRequest",
    "engine.audit.image_request:validate_images",
    "engine.audit.image_run:run_image_audit",
    "engine.audit.image_verify:recomputed",
)
TICKETS = Track(
    "tickets",
    "engine.audit.text_request:TextRequest",
    "engine.audit.text_request:validate_text",
    "engine.audit.text_run:run_text_audit",
    "engine.audit.text_verify:recomputed",
)
FAIR = Track(
    "fair",
    "engine.audit.fair_request:FairRequest",
    "engine.audit.fair_request:validate_fair",
    "engine.audit.fair_run:run_fair_audit",
    "engine.audit.fair_verify:recomputed",
)
TRACKS: dict[str, Track] = {track.name: track for track in (HEADS, FILTERS, TICKETS, FAIR)}


def track_named(name: str) -> Track:
    """The track, or RequestError with the known names."""
    if name not in TRACKS:
        raise RequestError(unknown("track", name, TRACKS))
    return TRACKS[name]


def track_of_request(request: Any) -> Track:
    return track_named(getattr(request, "track", HEADS.name))


def track_of_run(run: Run) -> Track:
    return track_named(run.meta.get("track", HEADS.name))


def request_from(value: Mapping[str, Any]) -> Any:
    """A request from its JSON form, whichever track it is of. RequestError where it is none."""
    track = track_named(str(value.get("track", HEADS.name)))
    return track.part("request").from_dict({name: item for name, item in value.items() if name != "track"})
