"""transfer: how much of what a finished audit's cut does arrives on another source of prompts."""

from __future__ import annotations

import argparse
import math
from typing import Any

from engine.audit.command_line import Ticker, command, store_of, stores_of
from engine.core.files import in_full, json_able
from engine.core.types import Hooks, Values
from engine.report.tracks import track_of
from engine.store.runs import find_run
from engine.tracks.language_models.evidence import ELSEWHERE, transfer_text


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "transfer", help="how much of a cut's change arrives on other prompts or a benchmark"
    )
    parser.add_argument("id", metavar="RUN")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompts", metavar="FILE_OR_FOLDER", help="prompts of another source")
    source.add_argument("--benchmark", metavar="NAME=PATH", help="a bias benchmark")
    parser.add_argument("--axis", help="default: the audit's first")
    parser.add_argument("--method", help="which method cuts (default: the audit's first)")
    parser.add_argument(
        "--sparsity", dest="level", type=float, help="how much it cuts (default: the audit's most)"
    )
    parser.add_argument("--heads", metavar="UNITS", help="heads by hand in its place: 0.1,2.3")
    parser.add_argument("--max-prompts", type=int, metavar="N", help="of the other source, at most")
    parser.add_argument(
        "--controls",
        type=int,
        default=ELSEWHERE,
        metavar="N",
        help=f"random cuts (default: {ELSEWHERE})",
    )
    command(parser, run)


def run(args: argparse.Namespace) -> tuple[Values, str]:
    """Measure here; what was measured before is found."""
    from engine.tracks.language_models.growing import Ask, transfer  # loads torch

    before = find_run(args.id, stores_of(args))
    asked, bench = before.request, track_of(before).bench
    units = bench.units(before, args.heads) if bench and args.heads else ()
    name, equals, path = (args.benchmark or "").partition("=")
    ask = Ask(
        args.axis or asked["axes"][0],
        args.method or asked["methods"][0],
        max(asked["sparsities"]) if args.level is None else args.level,
        tuple(units),
        in_full(args.prompts) if args.prompts else "",
        f"{name}={in_full(path)}" if equals else args.benchmark or "",
        args.max_prompts,
        args.controls,
    )
    row = transfer(before, ask, store_of(args), Hooks(report=Ticker()))
    return json_able(row), _text(row)


def _text(row: Values) -> str:
    lines = [f"{row['variant']}, {row['axis']}: home and {row['source']}"]
    for name, label in (("home", "change at home"), ("away", "change there")):
        ends = row[f"{name}_low"], row[f"{name}_high"]
        span = (
            "[{:+.1f}, {:+.1f}]".format(*ends) if all(map(math.isfinite, ends)) else "no interval"
        )
        lines.append(f"  {label:<16} {row[name]:+.1f} % {span}, n {row[f'{name}_n']}")
    return "\n".join([*lines, transfer_text(row)])
