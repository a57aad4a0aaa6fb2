"""inspect: what a model is, for which audits it can be taken, and how it was read."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from engine.audit.command_line import command
from engine.audit.fields import fields_of
from engine.audit.tracks import track_named, tracks
from engine.core.errors import Fault, RequestError, refusal
from engine.core.types import Values


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "inspect", help="what a model is, for which audits it serves, and how it was read"
    )
    parser.add_argument("model", metavar="NAME_OR_FOLDER")
    parser.add_argument(
        "--weights", metavar="FILE", help="weights of an image architecture that is named"
    )
    parser.add_argument("--revision", help="of a language model on the hub")
    parser.add_argument("--track", choices=list(tracks()), help="only for audits of this kind")
    command(parser, run, store=False)


def run(args: argparse.Namespace) -> tuple[Values, str]:
    """Ask every kind of audit what it says of the model. RequestError where none can take it, with
    all reasons.

    The hub is asked only of a name that nothing here has: "resnet18" is an architecture, and nobody
    else is told of it.
    """
    given = {
        name: getattr(args, name)
        for name in ("model", "weights", "revision")
        if getattr(args, name)
    }
    tracks_asked = [one for one in _reading(given) if args.track in (None, one)]
    with patch.dict(os.environ, HF_HUB_OFFLINE="1"):
        said, refused = _asked(tracks_asked, given)
    if (
        not said and not Path(args.model).exists()
    ):  # only what is nothing here may be a name that the hub knows
        said, refused = _asked(tracks_asked, given)
    if not said and not refused:
        what = "and --revision are not for models of this kind, or not both."
        raise refusal("--weights", what, "Leave one of them out.")
    if not said:
        raise RequestError(
            list(dict.fromkeys(fault for faults in refused.values() for fault in faults))
        )
    why = {
        name: [f"{fault.where}: {fault.what}" for fault in faults]
        for name, faults in refused.items()
    }
    return {"model": args.model, "said": said, "refused": why}, _text(said, why)


def _asked(
    names: Sequence[str], given: Values
) -> tuple[dict[str, list[str]], dict[str, tuple[Fault, ...]]]:
    """What kinds of audits say of the model, and the faults of those that cannot take it."""
    said, refused = {}, {}
    for name in names:
        try:
            said[name] = track_named(name).part("inspect")(given)
        except RequestError as error:
            refused[name] = tuple(error.faults)
    return said, refused


def _reading(given: Values) -> list[str]:
    """Kinds of audits whose requests have all that was given: what one of them would leave unread
    is not for it."""
    every = {
        name: {field.name for field in fields_of(track.part("request"))}
        for name, track in tracks().items()
    }
    return [name for name, known in every.items() if set(given) <= known]


def _text(said: dict[str, list[str]], refused: dict[str, list[str]]) -> str:
    """Kinds of audits that say the same share a paragraph; those that cannot take it come last, in
    a line each."""
    same: dict[tuple[str, ...], list[str]] = {}
    for name, lines in said.items():
        same.setdefault(tuple(lines), []).append(track_named(name).about)
    parts = ["\n  ".join(["; ".join(kinds) + ":", *lines]) for lines, kinds in same.items()]
    parts += [
        f"Not for audits of {track_named(name).cuts}: {why[0]}" for name, why in refused.items()
    ]
    return "\n".join(parts)
