"""Audits that the project ships: each track names its own, and they are computed again into
assets/demo-run.

python -m engine.audit.embedded [TRACK] [--store DIR]
python -m engine.audit.embedded --run ID [--store DIR].

The second takes over a finished audit of a model that the project cannot ship. Its tables are all
that is kept of it, and its pages show the command.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from engine.audit.jobs import run_job
from engine.audit.tracks import track_named, track_of_run, tracks
from engine.core.files import folder_whole
from engine.core.types import Event
from engine.store.runs import EMBEDDED, Run, Store, default_root


def main(words: Sequence[str] | None = None) -> int:
    """Compute the embedded audits of one track or of all."""
    parser = argparse.ArgumentParser(prog="python -m engine.audit.embedded", description=__doc__)
    parser.add_argument("track", nargs="?", choices=list(tracks()), help="only this one")
    parser.add_argument(
        "--store", default=default_root(), help="where parts are kept, so that it can be resumed"
    )
    parser.add_argument("--run", metavar="ID", help="take over this finished audit, compute none")
    args = parser.parse_args(words)
    if args.run:
        keep(Store(args.store).open(args.run))
        return 0
    for name in [args.track] if args.track else tracks():
        for request in track_named(name).part("embedded"):
            embed(request, Store(args.store))
    return 0


def embed(request: Any, store: Store) -> None:
    """Audit in the store, then `keep` the run."""
    keep(run_job(store, request, tell))


def keep(run: Run) -> None:
    """Put a finished run, and what was measured later, where the app looks for what is embedded, in
    place of an older one."""
    for name in Store(EMBEDDED, read_only=True).ids():
        old = Run(EMBEDDED / "runs" / name)
        if track_of_run(old) is track_of_run(run) and old.meta["title"] == run.meta["title"]:
            shutil.rmtree(old.path)
    with folder_whole(EMBEDDED / "runs" / run.id) as folder:
        shutil.copytree(run.path, folder, dirs_exist_ok=True)
    for added in run.additions:
        with folder_whole(EMBEDDED / "additions" / run.id / added.name) as folder:
            shutil.copytree(added, folder, dirs_exist_ok=True)
    print(f"{EMBEDDED / 'runs' / run.id}")


def tell(event: Event) -> None:
    print(f"\r\x1b[2K{event.phase} {event.done}/{event.total}", end="", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
