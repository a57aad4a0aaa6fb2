"""export: take masks, tables, figures, the report and checkpoints of a run away."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from engine.audit.command_line import Ticker, command, stores_of, tolerance_options, tolerances_of
from engine.audit.verification import refuse_unsound
from engine.core.types import Hooks, Values
from engine.store.runs import find_run


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "export", help="write a run's masks, tables, figures, report, PDF or checkpoints"
    )
    parser.add_argument("id", metavar="RUN")
    parser.add_argument("--to", metavar="DIR", required=True, help="the folder to write into")
    parser.add_argument(
        "--what",
        default="masks,tables,figures,report",
        help="comma-separated; pdf, checkpoint and model_card too",
    )
    parser.add_argument(
        "--variant", help="one variant only, as `runs show` names it (for checkpoints)"
    )
    parser.add_argument(
        "--base", metavar="NAME_OR_FOLDER", help="where the model is now (for checkpoints)"
    )
    parser.add_argument(
        "--show-offensive", action="store_true", help="do not redact generated text"
    )
    tolerance_options(parser)
    command(parser, run)


def run(args: argparse.Namespace) -> tuple[Values, str]:
    """Write the parts that are asked for, all of them or none."""
    from engine.report.bundle import export_run

    found = find_run(args.id, stores_of(args))
    refuse_unsound(found, numbers=True)
    what = tuple(part.strip() for part in args.what.split(",") if part.strip())
    asked = what, args.show_offensive, args.variant, args.base, tolerances_of(args), Hooks(Ticker())
    paths = [str(path) for path in export_run(found, Path(args.to), *asked)]
    return {"run": found.id, "files": paths}, "\n".join(paths)
