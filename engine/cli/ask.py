"""ask: one text or picture of one's own, answered by the dense and a pruned model of a finished
audit, side by side."""

from __future__ import annotations

import argparse
from typing import Any

from engine.audit.command_line import command, store_of, stores_of
from engine.audit.tracks import parts_of, track_of_run, tracks
from engine.core.errors import Fault, RequestError, refusal
from engine.core.types import Values
from engine.report import phrasing
from engine.store.runs import find_run

ANECDOTE = "This is an anecdote: one input. What holds on many, with intervals, is in `runs show`."


def add(commands: Any) -> None:
    """Each track that answers brings `ASKS` (the name of its question), `OPTIONS` (its words) and
    `given` (what they ask of a run). Its `said` gives an answer as value and text, without what a
    model wrote unless it is to be shown.
    """
    parts = parts_of("ask")
    if not parts:
        return
    parser = commands.add_parser(
        "ask", help="what a dense and a pruned model say to an input of one's own"
    )
    parser.add_argument("id", metavar="RUN")
    parser.add_argument(
        "--variant", metavar="ID", help="as `runs show` names it (default: where its readers start)"
    )
    for options, names in _groups(parts):
        group = parser.add_argument_group(phrasing.listing([tracks()[name].cuts for name in names]))
        for option, how in options.items():
            group.add_argument(option, **how)
    parser.add_argument(
        "--show-offensive", action="store_true", help="do not redact what a model wrote"
    )
    command(parser, run)


def _groups(parts: Values) -> list[tuple[Values, list[str]]]:
    """The options of each kind of input, with the tracks that read it."""
    found: list[tuple[Values, list[str]]] = []
    for name, part in parts.items():
        same = next((names for options, names in found if options == part.OPTIONS), None)
        if same is None:
            found.append((part.OPTIONS, [name]))
        else:
            same.append(name)
    return found


def run(args: argparse.Namespace) -> tuple[Values, str]:
    """Find the run, ask its track's question, say the answer."""
    from engine.resident.client import ask

    found, parts = find_run(args.id, stores_of(args)), parts_of("ask")
    track = track_of_run(found)
    if track.name not in parts:
        can = ", ".join(tracks()[name].cuts for name in parts)
        raise refusal(
            "run", f"{found.id} is about {track.cuts}.", f"Audits that can be asked: {can}."
        )
    part = parts[track.name]
    others = [
        option for other in parts.values() for option in other.OPTIONS if option not in part.OPTIONS
    ]
    foreign = [option for option in others if getattr(args, option[2:].replace("-", "_"))]
    if foreign:
        what = f"is not for audits of {track.cuts}."
        raise RequestError([Fault(option, what, "Leave it out.") for option in foreign])
    given = {"run": found.id, "variant": args.variant, **part.given(found, args)}
    value, text = parts[track.name].said(
        ask(parts[track.name].ASKS, given, store_of(args)), args.show_offensive
    )
    return value, f"{text}\n{ANECDOTE}"
