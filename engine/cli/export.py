"""export: take masks, tables, figures, the report and checkpoints of a run away, or put a cut model on the hub."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.audit.command_line import json_flag, store_option, stores_of
from engine.audit.verification import refuse_unsound
from engine.core.errors import Fault, RequestError
from engine.core.text import visible
from engine.store.runs import Run, find_run

if TYPE_CHECKING:
    from engine.report.push import Upload


def add(commands: Any) -> None:
    parser = commands.add_parser("export", help="write a run's masks, tables, figures, report, PDF or checkpoints")
    parser.add_argument("id", metavar="RUN")
    parser.add_argument("--to", metavar="DIR", help="the folder to write into")
    parser.add_argument(
        "--what", default="masks,tables,figures,report", help="comma-separated; pdf, checkpoint and model_card too"
    )
    parser.add_argument("--variant", help="one variant only, as `runs show` names it (for checkpoints)")
    parser.add_argument("--base", metavar="NAME_OR_FOLDER", help="where the model is now (for checkpoints)")
    parser.add_argument("--show-offensive", action="store_true", help="do not redact generated text")
    parser.add_argument(
        "--push", metavar="OWNER/NAME", help="send the checkpoint with its card to the hub, after asking (private)"
    )
    parser.add_argument("--public", action="store_true", help="with --push: for everybody to see")
    parser.add_argument("--yes", action="store_true", help="with --push: do not ask")
    store_option(parser)
    json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Write the parts that are asked for, all of them or none; then send, where that is asked for."""
    if faults := _faults(args):
        raise RequestError(faults)
    found = find_run(args.id, stores_of(args))
    refuse_unsound(found, numbers=True)
    paths = _written(found, args) if args.to else []
    said, lines = {"run": found.id, "files": [str(path) for path in paths]}, [str(path) for path in paths]
    if args.push:
        address = _pushed(found, args)
        said["pushed"] = address
        lines.append(address or "Nothing was sent.")
    return said, "\n".join(lines)


def _faults(args: argparse.Namespace) -> list[Fault]:
    faults = []
    if not args.to and not args.push:
        faults.append(Fault("--to", "is missing.", "Name the folder to write into, or a hub name with --push."))
    for name in ("public", "yes"):
        if getattr(args, name) and not args.push:
            faults.append(Fault(f"--{name}", "goes with --push only.", "Leave it out, or name OWNER/NAME."))
    if args.push and not args.yes and not sys.stdin.isatty():
        faults.append(Fault("--push", "would have to ask, and nobody is at the terminal.", "Add --yes."))
    return faults


def _written(found: Run, args: argparse.Namespace) -> list[Path]:
    from engine.report.bundle import export_run

    what = tuple(part.strip() for part in args.what.split(",") if part.strip())
    return export_run(found, Path(args.to), what, args.show_offensive, args.variant, args.base)


def _pushed(found: Run, args: argparse.Namespace) -> str | None:
    from engine.report.push import push_checkpoint

    agreed = (lambda upload: True) if args.yes else _asked
    return push_checkpoint(found, args.push, agreed, args.variant, args.base, private=not args.public)


def _asked(upload: Upload) -> bool:
    """Says on the error stream what would be sent, and waits for a yes."""
    who = "only you and whom you let in" if upload.private else "everybody"
    lines = [f"  {path}  {size:,} bytes" for path, size in upload.files]
    head = f"To be sent to {upload.name} on the hub ({upload.size:,} bytes), to be seen by {who}:"
    print(visible("\n".join([head, *lines, "Send? [y/N] "])), end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
