"""measure: another level of an audit, units chosen by hand, a benchmark or another judge; it joins
the audit."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from engine.audit.command_line import Ticker, checked, command, executor_of, store_of
from engine.audit.request import Growth
from engine.audit.tracks import track_of_run
from engine.core.errors import Fault, refusal, refuse
from engine.core.files import in_full
from engine.core.types import Values
from engine.report.tracks import track_of
from engine.store.runs import Run, run_in


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "measure",
        help=(
            "measure a level, units by hand or a benchmark, or ask another judge; it joins the"
            " audit"
        ),
    )
    parser.add_argument("id", metavar="RUN")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--sparsity", "--speedup", dest="level", type=float, metavar="LEVEL", help="how much is cut"
    )
    what.add_argument("--mask", type=Path, metavar="FILE", help="a mask.json of the audited model")
    what.add_argument(
        "--heads",
        metavar="UNITS",
        help="units from 0: heads as 0.1,2.3, filters as conv1.0-3,conv2.7",
    )
    about = "a bias benchmark that all variants are measured on; may be given several times"
    what.add_argument("--benchmark", action="append", metavar="NAME=PATH", help=about)
    what.add_argument(
        "--judge",
        metavar="NAME_OR_FOLDER",
        help="another judge of the audit's texts: none is drawn again",
    )
    what.add_argument(
        "--effects", action="store_true", help="what each filter does to every group, cut alone"
    )
    parser.add_argument(
        "--judge-label",
        default="",
        metavar="LABEL",
        help="which label is harm, where that judge is a classifier of texts",
    )
    parser.add_argument(
        "--method", help="which method cuts at the level (default: the audit's first)"
    )
    parser.add_argument(
        "--axis", help="what it aims at and is measured on (default: the audit's first)"
    )
    parser.add_argument(
        "--all-axes", action="store_true", help="measure on every axis of the audit"
    )
    parser.add_argument("--name", default="", help="what a set chosen by hand is called")
    parser.add_argument(
        "--split",
        choices=("validation", "train", "test"),
        default="",
        help="of the data: sets by hand are tried on one of the first two before test",
    )
    command(parser, run, ray=True)


def run(args: argparse.Namespace) -> tuple[Values, str]:
    """Measure here, as a job that pages see; what was measured before is found."""
    from engine.audit.jobs import run_job

    store = store_of(args)
    before = run_in(store, args.id)
    growth = checked(args, lambda words: growth_of_words(words, before))
    after = run_job(store, growth, Ticker(), executor_of(args))
    if sys.stderr.isatty():
        print(file=sys.stderr)
    told = track_of_run(after).part("told")(before, after, growth)
    guesses = (row["predicted"] for row in told["rows"])
    unpredicted = all(guess is None or guess != guess for guess in guesses)
    return told, _text({**told, "unpredicted": unpredicted}, track_of(after).nouns.items)


UNFIT = {
    "judge": ("method", "name", "split"),
    "benchmark": ("method", "name", "judge_label"),
    "effects": ("method", "name", "judge_label"),
    "level": ("name", "judge_label"),
    "mask": ("method", "judge_label"),
    "heads": ("method", "judge_label"),
}
"""By what is measured: options that say nothing of it."""


def growth_of_words(args: argparse.Namespace, run: Run) -> Growth:
    """What the words ask of the run. RequestError for options that do not go together."""
    track, asked = track_of_run(run), run.request
    given = {name: getattr(args, name) for name in UNFIT}
    what = next(name for name, value in given.items() if value is not None and value is not False)
    said = "--sparsity or --speedup" if what == "level" else f"--{what}"
    refuse(
        Fault(f"--{name.replace('_', '-')}", f"does not go with {said}.", "Leave it out.")
        for name in UNFIT[what]
        if getattr(args, name)
    )
    axis = args.axis or asked["axes"][0]
    same = {
        "track": track.name,
        "run": run.id,
        "axis": axis,
        "axes": tuple(asked["axes"]) if args.all_axes else (axis,),
        "split": args.split,
    }
    if what == "judge":
        return Growth(**same, judge=args.judge, label=args.judge_label)
    if what == "benchmark":
        return Growth(**same, benchmarks=tuple(map(_in_full, args.benchmark)))
    if what == "effects":
        return Growth(**same, effects=True)
    if what == "level":
        return Growth(**same, method=args.method or asked["methods"][0], level=args.level)
    return Growth(**same, units=_units(run, getattr(args, what)), name=args.name)


def _in_full(words: str) -> str:
    """NAME=PATH with the path in full: a job may go on in another folder."""
    name, equals, path = words.partition("=")
    return f"{name}={in_full(path)}" if equals and path else words


def _units(run: Run, said: str | Path) -> tuple[int, ...]:
    """The units that words or a mask.json name. RequestError where the run's track has none to
    choose by hand."""
    bench = track_of(run).bench
    if bench is None:
        what = (
            f"is of {track_of_run(run).cuts}, whose variants are trained: units cannot be chosen by"
            " hand."
        )
        raise refusal("run", what, "Ask for another level instead.")
    return bench.units(run, said)


def _text(told: Values, items: str) -> str:
    """One line per number: predicted, then measured. items: what it was measured on."""
    lines = [
        f"run {told['run']}, {told['split']} {items}, added"
        f" {told['added'] or 'nothing: it was there'}"
    ]
    shown = None
    for row in told["rows"]:
        if (row["variant"], row["axis"]) != shown:
            shown = row["variant"], row["axis"]
            cut = f"{row['n_cut']} cut, " if row["n_cut"] else ""
            lines.append(f"\n{row['variant']}, {cut}{row['axis']}")
        guess = _number(row["predicted"], row["predicted_low"], row["predicted_high"])
        guess = "" if told["unpredicted"] else f"predicted {guess:<28} "
        lines.append(
            f"  {row['number']:<32} {guess}measured"
            f" {_number(row['measured'], row['low'], row['high'])}"
        )
    return "\n".join([*lines, "", *told["notes"]])


def _number(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "unknown"
    return (
        f"{value:.3f} (no interval)"
        if low is None or high is None
        else f"{value:.3f} [{low:.3f}, {high:.3f}]"
    )
