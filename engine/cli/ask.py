"""ask: one text or picture of one's own, answered by the dense and a pruned model of a finished
audit, side by side."""

from __future__ import annotations

import argparse
from itertools import chain
from typing import Any

from engine.audit.command_line import command, foreign_options, store_of, stores_of
from engine.audit.tracks import parts_of, track_of_run, tracks
from engine.core.errors import refusal, refuse
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
    others = chain(*(other.OPTIONS for other in parts.values()))
    refuse(foreign_options(args, others, part.OPTIONS, f"audits of {track.cuts}"))
    given = {"run": found.id, "variant": args.variant, **part.given(found, args)}
    value, text = part.said(ask(part.ASKS, given, store_of(args)), args.show_offensive)
    return value, f"{text}\n{ANECDOTE}"
