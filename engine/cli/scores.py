"""scores: one row per head, without building or measuring any variant."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from engine.audit.command_line import (
    Ticker,
    add_options,
    checked,
    command,
    executor_of,
    flags_of,
    foreign_options,
    store_of,
)
from engine.audit.tracks import parts_of, tracks
from engine.core.errors import Fault
from engine.core.files import writable, write_whole
from engine.report.bundle import write_csv


def add(commands: Any) -> None:
    """Each track that scores heads brings its options: `FIELDS`, `claims`, `request_of_words` and
    `table`."""
    parts = parts_of("scores")
    if not parts:
        return
    parser = commands.add_parser("scores", help="score heads and write them as a table")
    for place, (name, part) in enumerate(reversed(parts.items())):
        add_options(parser, part.FIELDS, tracks()[name].cuts if place else "")
    parser.add_argument("--out", required=True, metavar="scores.csv|.parquet")
    command(parser, run, ray=True)


def run(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Score, reshape to one row per head, write whole."""
    from engine.core.types import Hooks

    parts, out = parts_of("scores"), Path(args.out)
    name = next((name for name, part in parts.items() if part.claims(args)), list(parts)[-1])
    flags = {track: flags_of(part.FIELDS) for track, part in parts.items()}
    others = chain(*flags.values())
    faults = [*_out_faults(out), *foreign_options(args, others, flags[name], tracks()[name].cuts)]
    request = checked(args, parts[name].request_of_words, faults)
    return _written(
        out, parts[name].table(request, store_of(args), Hooks(Ticker()), executor_of(args))
    )


def _out_faults(out: Path) -> list[Fault]:
    faults = []
    if out.suffix not in (".csv", ".parquet"):
        faults.append(
            Fault("--out", f"{out.suffix!r} is not a known ending.", "Known: .csv, .parquet.")
        )
    if not writable(out):
        faults.append(Fault("--out", f"{out} cannot be written.", "Choose another place."))
    return faults


def _written(out: Path, table: pd.DataFrame) -> tuple[dict[str, Any], str]:
    if out.suffix == ".csv":
        write_whole(out, lambda path: write_csv(table, path), "file")
    else:
        write_whole(out, lambda path: table.to_parquet(path, index=False))
    notes: Sequence[str] = table.attrs.get("notes", ())
    said = {
        "out": str(out),
        "heads": len(table),
        "columns": list(table.columns),
        "notes": list(notes),
    }
    return said, "\n".join(
        [
            f"{len(table)} rows, one per head{_more(table)} -> {out}",
            *(f"! {note}" for note in notes),
        ]
    )


def _more(table: pd.DataFrame) -> str:
    """Columns by which rows differ besides the head."""
    return ", stage, score and group" if "stage" in table else ""
