"""universal: masks that an audit found on one task, fine-tuned on others; which are matching on all
of them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from engine.audit.command_line import Ticker, command, executor_of, store_of, stores_of
from engine.core.errors import refusal
from engine.core.files import json_able, writable, write_whole
from engine.core.types import Hooks, Values
from engine.report.bundle import write_csv
from engine.report.phrasing import percent
from engine.store.runs import EMBEDDED, Run, Store, find_run
from engine.tracks.text_classifiers.request import TextRequest

METHOD, SPARSITY, RANDOM_MASKS = "one-shot-isp:conductance", 0.5, 2


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "universal", help="try masks of one task on others (text classifiers)"
    )
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help="audits of one model on two or more tasks (default: the embedded ones)",
    )
    parser.add_argument(
        "--method",
        default=METHOD,
        metavar="PROCEDURE:SCORE",
        help=f"whose masks (default {METHOD})",
    )
    parser.add_argument(
        "--sparsity", type=float, default=SPARSITY, help=f"share of heads cut (default {SPARSITY})"
    )
    said = (
        f"random masks of as many heads beside them (default {RANDOM_MASKS}; ranks among them from"
        " 19 on)"
    )
    parser.add_argument("--random-masks", type=int, default=RANDOM_MASKS, metavar="N", help=said)
    parser.add_argument(
        "--quick", action="store_true", help="fewer texts and epochs, on the audits' own masks"
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help=(
            "write the table (FILE.csv), or table and chart as one page that "
            "opens offline (FILE.html)"
        ),
    )
    command(parser, run, ray=True)


def run(args: argparse.Namespace) -> tuple[Values, str]:
    """Fine-tune what no audit in the store did yet, and say which masks match on every task."""
    from engine.tracks.text_classifiers.universal import (
        Ask,
        few_masks,
        line_of,
        universal,
        universal_masks,
        verdicts,
    )  # late: it loads torch

    if args.out and not writable(Path(args.out)):
        raise refusal("--out", f"{args.out} cannot be written.", "Choose another place.")
    ask, runs = Ask(args.method, args.sparsity, args.random_masks, args.quick), _runs(args)
    table = universal(runs, ask, store_of(args), Hooks(Ticker()), executor_of(args))
    found = universal_masks(table)
    head = f"{ask.method}, {percent(ask.sparsity)} of heads cut{', in small' if ask.quick else ''}"
    if args.out:
        _write(Path(args.out), head, table, found, runs)
    value = {
        "method": ask.method,
        "sparsity": ask.sparsity,
        "quick": ask.quick,
        "universal": found,
        "rows": table.to_dict("records"),
    }
    lines = [
        head,
        *map(line_of, table.to_dict("records")),
        "",
        *verdicts(table, found),
        few_masks(table),
    ]
    return json_able(value), "\n".join(lines).rstrip()


def _write(
    out: Path, head: str, table: pd.DataFrame, found: Mapping[str, bool | None], runs: Sequence[Run]
) -> None:
    """The table as CSV, or with the chart as one page."""
    from engine.report.charts.panel import Choice
    from engine.report.report import page_html
    from engine.tracks.text_classifiers.universal import universal_panel

    if out.suffix.lower() != ".html":
        return write_whole(out, lambda path: write_csv(table, path), "file")
    light, dark = (
        universal_panel(table, found, Choice("", "", 0.0, dark=theme)) for theme in (False, True)
    )
    page = page_html("universal subnetworks", head, light.table, runs, [light], [dark])
    write_whole(out, lambda path: path.write_text(page, encoding="utf-8"), "file")


def _runs(args: argparse.Namespace) -> list[Run]:
    """The audits that are named; the embedded ones where none is."""
    if args.runs:
        return [find_run(name, stores_of(args)) for name in dict.fromkeys(args.runs)]
    store = Store(EMBEDDED, read_only=True)
    return [
        one for one in map(store.open, store.ids()) if one.meta.get("track") == TextRequest.track
    ]
