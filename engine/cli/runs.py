"""runs: list them, show one, verify one; call one something else, delete one and have it back."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from engine.audit.command_line import command, store_of, stores_of, tolerance_options, tolerances_of
from engine.core.text import one_line
from engine.core.types import Values
from engine.store.runs import as_called, find_run


def add(commands: Any) -> None:
    parser = commands.add_parser("runs", help="look at finished runs")
    actions = parser.add_subparsers(dest="action", required=True)
    for name, run, words in (
        ("list", list_runs, ()),
        ("show", show, ("RUN",)),
        ("advise", advise, ("RUN",)),
        ("verify", verify, ("RUN",)),
        ("rename", rename_run, ("RUN", "TITLE")),
        ("delete", delete_run, ("RUN",)),
        ("restore", restore_run, ("RUN",)),
    ):
        action = actions.add_parser(name, help=(run.__doc__ or "").partition(".")[0])
        for word in words:
            action.add_argument({"RUN": "id"}.get(word, word.lower()), metavar=word)
        if run is advise:
            tolerance_options(action)
        command(action, run)


def list_runs(args: argparse.Namespace) -> tuple[list[dict[str, Any]], str]:
    """Every finished run, newest first; the embedded demo last; then those that are damaged or of a
    newer version."""
    found = as_called(
        [summary for store in stores_of(args) for summary in store.list()], stores_of(args)
    )
    damaged = {run_id: why for store in stores_of(args) for run_id, why in store.damaged().items()}
    lines = [f"{item.id}  {item.created}  {one_line(item.title)}" for item in found]
    lines += [f"{run_id}  cannot be read: {why}" for run_id, why in damaged.items()]
    listed = [
        *map(asdict, found),
        *({"id": run_id, "damaged": why} for run_id, why in damaged.items()),
    ]
    return listed, "\n".join(lines) or "No finished runs yet."


def show(args: argparse.Namespace) -> tuple[Values, str]:
    """The results of one run, as on its Summary page."""
    from engine.report.summary import summary_of, summary_text

    run = find_run(args.id, stores_of(args))
    return summary_of(run), summary_text(run)


def advise(args: argparse.Namespace) -> tuple[list[dict[str, Any]], str]:
    """What to do about each cut of one run: take it, leave it, or measure more first."""
    from engine.report.verdict import advised

    found = advised(find_run(args.id, stores_of(args)), tolerances_of(args))
    lines = [f"{one['variant']}: {one['said']}" for one in found]
    return found, "\n".join(lines) or "Nothing is cut in this run."


def verify(args: argparse.Namespace) -> tuple[Values, str]:
    """Check the files' hashes and compute the reported biases again from the stored verdicts."""
    from engine.audit.verification import verify_run

    report = verify_run(find_run(args.id, stores_of(args)))
    lines = [f"{'ok ' if check['ok'] else 'NOT'} {check['what']}" for check in report["checks"]]
    return report, "\n".join(lines)


def rename_run(args: argparse.Namespace) -> tuple[Values, str]:
    """Call a run something else; with an empty title by its own again. The run itself is not
    touched."""
    run = find_run(args.id, stores_of(args))
    store_of(args).rename(run.id, args.title)
    title = find_run(args.id, stores_of(args)).meta["title"]
    return {"id": run.id, "title": title}, f"{run.id} is called “{title}”."


def delete_run(args: argparse.Namespace) -> tuple[Values, str]:
    """Move a run to the store's trash. `runs restore` brings it back."""
    store = next((one for one in stores_of(args) if one.has(args.id)), store_of(args))
    store.delete(args.id)
    folder = store.root / "trash" / args.id
    again = f"`runs restore {args.id}` brings it back; delete {folder} to free the space."
    return {"id": args.id, "trash": str(folder)}, f"{args.id} is in the trash. {again}"


def restore_run(args: argparse.Namespace) -> tuple[Values, str]:
    """Bring a deleted run back from the store's trash."""
    run = store_of(args).restore(args.id)
    return {"id": run.id, "title": run.meta["title"]}, f"{run.id}, “{run.meta['title']}”, is back."
