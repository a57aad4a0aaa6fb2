"""scores: one row per head, without building or measuring any variant."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from engine.audit.request import SEARCH
from engine.cli._options import (
    Ticker,
    checked,
    executor_of,
    json_flag,
    ray_option,
    request_options,
    store_of,
    store_option,
)
from engine.errors import Fault
from engine.files import writable, write_whole


def add(commands: Any) -> None:
    parser = commands.add_parser("scores", help="score heads and write them as a table")
    request_options(parser)
    ray_option(parser)
    store_option(parser)
    json_flag(parser)
    parser.add_argument("--out", required=True, metavar="scores.csv|.parquet")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Score, reshape to one row per head, write whole."""
    from engine.audit.run import scores_only
    from engine.types import Hooks

    out, faults = Path(args.out), []
    if out.suffix not in (".csv", ".parquet"):
        faults.append(Fault("--out", f"{out.suffix!r} is not a known ending.", "Known: .csv, .parquet."))
    if args.gamma == SEARCH:
        faults.append(Fault("gamma", "a search needs an audit.", "Name a number, or run `audit --gamma search`."))
    if not writable(out):
        faults.append(Fault("--out", f"{out} cannot be written.", "Choose another place."))
    request = checked(args, faults)
    table = scores_only(request, store_of(args), Hooks(Ticker()), executor_of(args, request))
    if out.suffix == ".csv":
        write_whole(out, lambda path: table.to_csv(path, index=False), "file")
    else:
        write_whole(out, lambda path: table.to_parquet(path, index=False))
    notes = table.attrs["notes"]
    said = {"out": str(out), "heads": len(table), "columns": list(table.columns), "notes": notes}
    return said, "\n".join([f"{len(table)} heads -> {out}", *(f"! {note}" for note in notes)])
