"""runs: list them, show one, verify one."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from engine.audit.command_line import json_flag, store_option, stores_of
from engine.store.runs import find_run


def add(commands: Any) -> None:
    parser = commands.add_parser("runs", help="look at finished runs")
    actions = parser.add_subparsers(dest="action", required=True)
    for name, run, takes_id in (("list", list_runs, False), ("show", show, True), ("verify", verify, True)):
        action = actions.add_parser(name)
        if takes_id:
            action.add_argument("id", metavar="RUN")
        store_option(action)
        json_flag(action)
        action.set_defaults(run=run)


def list_runs(args: argparse.Namespace) -> tuple[list[dict[str, Any]], str]:
    """Every finished run, newest first; the embedded demo last; then those that are damaged or of a newer version."""
    found = [summary for store in stores_of(args) for summary in store.list()]
    damaged = {run_id: why for store in stores_of(args) for run_id, why in store.damaged().items()}
    lines = [f"{item.id}  {item.created}  {item.title}" for item in found]
    lines += [f"{run_id}  cannot be read: {why}" for run_id, why in damaged.items()]
    listed = [*map(asdict, found), *({"id": run_id, "damaged": why} for run_id, why in damaged.items())]
    return listed, "\n".join(lines) or "No finished runs yet."


def show(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """The results of one run, as on its Overview page."""
    from engine.report.summary import summary_of, summary_text

    run = find_run(args.id, stores_of(args))
    return summary_of(run), summary_text(run)


def verify(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Check the files' hashes and compute the reported biases again from the stored verdicts."""
    from engine.audit.verification import verify_run

    report = verify_run(find_run(args.id, stores_of(args)))
    lines = [f"{'ok ' if check['ok'] else 'NOT'} {check['what']}" for check in report["checks"]]
    return report, "\n".join(lines)
