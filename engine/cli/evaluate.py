"""evaluate: what a classifier of images or texts, whole or cut, gets right, per group."""

from __future__ import annotations

import argparse
from itertools import chain
from typing import Any

from engine.audit.command_line import command, foreign_options
from engine.audit.tracks import parts_of, tracks
from engine.core.errors import refuse
from engine.core.files import json_able
from engine.core.types import Values

SHOWN = ("axis", "metric", "group", "value", "low", "high", "n", "verdict")


def add(commands: Any) -> None:
    """Each track that evaluates brings its options: `options`, `claims`, `ITEMS` and
    `evaluated`."""
    parts = parts_of("evaluate")
    if not parts:
        return
    parser = commands.add_parser("evaluate", help="AUC and accuracy of a classifier per group")
    add = parser.add_argument
    add(
        "--model",
        required=True,
        metavar="NAME_OR_FOLDER",
        help="as for audit, or a folder that export or apply wrote",
    )
    add("--data", metavar="NAME_OR_PATH", help="images or texts (default: those of the demo)")
    add("--target", metavar="COLUMN")
    named = "the data's classes in the order of the model's outputs, unless its files name them"
    add("--classes", action="append", metavar="LIST", help=named)
    add(
        "--axis",
        action="append",
        metavar="AXIS",
        help="group column (default: the data's usual ones)",
    )
    add("--split", default="test", help="train, validation or test")
    add(
        "--max-images",
        "--max-texts",
        type=int,
        metavar="N",
        help="at most this many per split",
        dest="most",
    )
    add("--device", default="auto")
    own = {}
    for name, part in parts.items():
        group = parser.add_argument_group(tracks()[name].cuts)
        part.options(group.add_argument)
        own[part.ITEMS] = [action.option_strings[0] for action in group._group_actions]
    command(parser, run, store=False, own=own)


def run(args: argparse.Namespace) -> tuple[Values, str]:
    """Load, ask every image or text of the split, measure."""
    parts = list(parts_of("evaluate").values())
    part = next((part for part in parts if part.claims(args)), parts[-1])
    own, about = args.own[part.ITEMS], f"classifiers of {part.ITEMS}"
    refuse(foreign_options(args, chain(*args.own.values()), own, about))
    found = part.evaluated(args)
    rows = [{name: row.get(name) for name in SHOWN} for row in found.rows]
    value = {
        "model": found.model,
        "data": found.data,
        part.ITEMS: found.n,
        "results": json_able(rows),
        "notes": list(found.notes),
    }
    lines = [
        f"{found.model} on {found.data}, {found.n} {args.split} {part.ITEMS}",
        *map(_line, rows),
        *(f"! {note}" for note in found.notes),
    ]
    return value, "\n".join(lines)


def _line(row: Values) -> str:
    where = "overall" if not row["axis"] else f"{row['axis']} {row['group']}".strip()
    ends = "" if row["low"] != row["low"] else f" [{row['low']:.4f}, {row['high']:.4f}]"
    note = f"  ({row['verdict']})" if row["verdict"] else ""
    return f"  {row['metric']:<14} {where:<24} {row['value']:.4f}{ends}  n = {row['n']:.0f}{note}"
