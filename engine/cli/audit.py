"""audit, and the tracks' own words for it: measure who pays when a model is cut, keep the run."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from itertools import chain, groupby
from typing import Any

from engine.audit.command_line import (
    Ticker,
    add_options,
    checked,
    command,
    executor_of,
    flags_of,
    foreign_options,
    made,
    read_fields,
    store_of,
)
from engine.audit.fields import attempt, fields_of
from engine.audit.fitting import fit, scales_of, seconds_of
from engine.audit.tracks import TrackEntry, track_of_request, tracks
from engine.core.errors import Fault, refusal, refuse
from engine.core.types import Hooks, Values


def add(commands: Any) -> None:
    """One command per word; tracks with the same word share it, each with the options of its
    request."""
    by_word = sorted(tracks().values(), key=lambda track: (track.word, track.place))
    for word, found in groupby(by_word, key=lambda track: track.word):
        answering = list(found)
        parser = commands.add_parser(word, help="; ".join(track.asks for track in answering))
        for place, track in enumerate(answering):
            add_options(parser, fields_of(track.part("request")), track.cuts if place else "")
        parser.add_argument(
            "--resume", metavar="JOB", help="go on with an unfinished job, as it was begun"
        )
        if any(scales_of(track.part("request")) for track in answering):
            parser.add_argument(
                "--within",
                dest="time",
                metavar="TIME",
                help="try it, and measure no more than fits into 90s, 30m or 2h on this machine",
            )
        command(parser, run, ray=True, tracks=answering)


def run(args: argparse.Namespace) -> tuple[Values, str]:
    """Run the audit here; an equal one that is under way elsewhere is waited for, a finished one is
    found."""
    from engine.audit.jobs import run_job
    from engine.report.summary import summary_of, summary_text

    request = checked(args, request_of_words, [*words_of_others(args), *_faults_of_time(args)])
    if getattr(args, "time", None):
        chosen = read_fields(args, fields_of(type(request)), [])
        fitted = fit(request, seconds_of(args.time), store_of(args), Hooks(Ticker()), chosen)
        print(fitted.said, file=sys.stderr)
        request = fitted.request
    found = run_job(store_of(args), request, Ticker(), executor_of(args))
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return summary_of(found), summary_text(found)


def _faults_of_time(args: argparse.Namespace) -> list[Fault]:
    """Why the audit cannot be made to fit the time that was given, if one was."""
    if not getattr(args, "time", None):
        return []
    faults: list[Fault] = []
    attempt(lambda: seconds_of(args.time), faults)
    track = track_of_words(args)
    if not scales_of(track.part("request")):
        faults.append(Fault("--within", f"is not for {track.cuts}.", "Leave it out."))
    if args.resume or args.ray:
        what = "is for an audit that begins on this machine."
        faults.append(Fault("--within", what, "Leave out --resume and --ray, or --within."))
    return faults


def words_of_others(args: argparse.Namespace) -> list[Fault]:
    """Options given that are of another track than the one that is asked for."""
    track = track_of_words(args)
    flags = {one.name: flags_of(fields_of(one.part("request"))) for one in args.tracks}
    return foreign_options(args, chain(*flags.values()), flags[track.name], track.cuts)


def request_of_words(args: argparse.Namespace) -> Any:
    """The request the words ask for. Everything that cannot be read raises RequestError
    together."""
    kind = track_of_words(args).part("request")
    faults: list[Fault] = []
    values = read_fields(args, fields_of(kind), faults)
    if not args.resume:
        return made(kind, values, faults)
    begun = _begun(args)
    faults += _other_than_begun(args.resume, begun, values)
    refuse(faults)
    return replace(begun, restart=values.get("restart", begun.restart))


def track_of_words(args: argparse.Namespace) -> TrackEntry:
    """The track that the words ask for: that of the job, the last that claims them, else the
    first."""
    if args.resume:
        return track_of_request(_begun(args))
    claiming = [track for track in args.tracks if track.claims and track.part("claims")(args)]
    return claiming[-1] if claiming else args.tracks[0]


def _begun(args: argparse.Namespace) -> Any:
    """The request of a job that this command can go on with."""
    from engine.audit.jobs import job_request

    begun = job_request(store_of(args), args.resume)
    if not isinstance(begun, tuple(track.part("request") for track in args.tracks)):
        what = f"{args.resume} is no audit of {' or '.join(track.cuts for track in args.tracks)}."
        raise refusal("--resume", what, "Resume it where it was begun.")
    return begun


def _other_than_begun(job: str, begun: Any, values: Values) -> list[Fault]:
    """Settings given beside the job that are not its own: nothing is ever mixed."""
    faults = []
    for name, value in values.items():
        was, now = getattr(begun, name), getattr(replace(begun, **{name: value}), name)
        if was != now and name != "restart":
            what = f"{job} was begun with {was!r}, not {now!r}."
            faults.append(
                Fault(name, what, "Leave it out, or begin another audit without --resume.")
            )
    return faults
