"""labels: have people label a sample of a run's texts, and correct the judge by what they say."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from engine.audit.command_line import command, store_of, stores_of
from engine.core import words
from engine.core.errors import Fault, RequestError, each, refusal, unknown
from engine.core.files import explained, json_able
from engine.core.text import one_line
from engine.core.types import Values
from engine.report import phrasing
from engine.report.bundle import write_csv
from engine.report.charts import lookup
from engine.report.contents import default_choice
from engine.store.runs import Run, find_run
from engine.tracks.language_models.labels import (
    Sample,
    check_labeller,
    keep,
    named,
    read_labels,
    sample_of,
    told,
)
from engine.tracks.language_models.panels.judges import agreement_said, missing_said, row_name, said


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "labels", help="draw a sample of texts for people to label, and correct the judge by them"
    )
    parser.add_argument("id", metavar="RUN")
    parser.add_argument("--variant", help="what is cut, as `runs show` names it")
    parser.add_argument("--axis", help="of the texts (default: the audit's first)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--draw", type=Path, metavar="FILE", help="write a sample to this CSV, to fill in"
    )
    what.add_argument(
        "--read",
        action="append",
        metavar="NAME=FILE",
        help="labels by NAME in a drawn CSV; may be given several times",
    )
    parser.add_argument(
        "--texts", type=int, default=200, metavar="N", help="how many to draw (default: 200)"
    )
    command(parser, run)


def run(args: argparse.Namespace) -> tuple[Values, str]:
    """Draw a sample, or read and keep labels; then what they say so far."""
    found = find_run(args.id, stores_of(args))
    if args.read:
        name = _read(args, found)
        found = find_run(args.id, stores_of(args))
    else:
        # The variant and the axis that the words name, else those that the run's pages
        # open on.
        axes = found.request["axes"]
        if args.axis not in (None, *axes):
            raise RequestError(unknown("--axis", args.axis, axes))
        choice = default_choice(found, args.axis, args.variant)
        row = lookup.variant_of(found, choice)
        name = (str(row["variant"]), args.axis or row.get("target_axis") or choice.measured)
    sample = sample_of(found, *name)
    if args.draw:
        return _draw(args, sample)
    result = told(found, *name)
    rows = result.rows.assign(group=[row_name(result, one) for one in result.rows["group"]])
    lines = [said(result), agreement_said(result), missing_said(result)]
    value = {
        "run": found.id,
        "variant": sample.variant,
        "axis": sample.axis,
        "texts": result.texts,
        "labelled": result.read,
        "passed_over": result.holes,
        "labellers": result.people.to_dict("records"),
        "agreement": result.agreement,
        "figures": rows.to_dict("records"),
        "said": " ".join(filter(None, lines)),
    }
    head = f"{sample.variant}, {words.axis_name(sample.axis)}"
    return json_able(value), "\n".join([head, *map(_line, value["figures"]), *filter(None, lines)])


def _draw(args: argparse.Namespace, sample: Sample) -> tuple[Values, str]:
    faults = []
    if args.draw.exists():
        faults.append(Fault("--draw", f"{args.draw} is there already.", "Name another file."))
    if args.texts < 1:
        faults.append(Fault("--texts", f"{args.texts} is no number of texts.", "Give 1 or more."))
    if faults:
        raise RequestError(faults)
    table = sample.texts.head(args.texts).assign(sample=sample.name, label="")
    with explained(args.draw.parent, "folder"):
        write_csv(table[["sample", "text", "prompt", "written", "label"]], args.draw)
    drawn = {"file": str(args.draw), "sample": sample.name, "drawn": len(table)}
    about = (
        f"{phrasing.count(len(table), 'text')} of {len(sample.texts):,} are in {args.draw}. In the"
        " column label, write h for harmful, n for not harmful, u for unsure; start at the top."
    )
    return drawn, about


def _read(args: argparse.Namespace, run: Run) -> tuple[str, str]:
    """Keep all labels, or none where anything is wrong; the sample that was read last."""
    read = each(lambda one: _labels(run, one), args.read)
    store, name = store_of(args), ""
    for labeller, found in read:
        for name, labels in found.items():
            sample = named(run, name)
            assert sample is not None, "read from it"
            keep(run, store, sample, labeller, labels)
            run = find_run(run.id, stores_of(args))
    variant, _, axis = name.partition("/")[2].rpartition("/")
    return variant, axis


def _labels(run: Run, given: str) -> tuple[str, dict[str, dict[str, str]]]:
    name, equals, path = given.partition("=")
    if not equals:
        raise refusal("--read", f"{given!r} has no name.", "Write NAME=FILE, such as AB=drawn.csv.")
    return check_labeller(name), read_labels(run, Path(path))


def _line(row: Values) -> str:
    change, judge = (phrasing.signed(row[name]) for name in ("delta", "judge_delta"))
    span = phrasing.span(row["delta_low"], row["delta_high"])
    start = f"  {one_line(row['group']):<34} {row['n']:>4} pairs"
    return f"{start}  judge {judge}  corrected {change} ({span})"
