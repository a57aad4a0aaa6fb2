"""Options that several commands share, and how they become a request."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from engine.audit.executors import Executor
from engine.core import memory
from engine.core.errors import Fault, RequestError
from engine.core.text import visible
from engine.core.types import Event
from engine.store.runs import EMBEDDED, Store, default_root

MEMORY_HELP = (
    f"memory that may be taken, like 4G (default: ${memory.STATED}, else {memory.SHARE:.0%}% of"
    " what is free)"
)


def json_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def store_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        metavar="DIR",
        help="where runs are kept (default: $PRUNEAUDIT_STORE or user data)",
    )


def store_of(args: argparse.Namespace) -> Store:
    return Store(args.store or default_root())


def stores_of(args: argparse.Namespace) -> list[Store]:
    """The store asked for and, when none was, the embedded demo too."""
    return [store_of(args)] if args.store else [store_of(args), Store(EMBEDDED, read_only=True)]


def tolerance_options(parser: argparse.ArgumentParser) -> None:
    """How much worse things may get for a cut to be advised."""
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="X",
        help="how much worse a group may get, for the advice (default: 0.05)",
    )
    parser.add_argument(
        "--quality-tolerance",
        type=float,
        metavar="X",
        help="by what share the quality may get worse, for the advice (default: 0.05)",
    )


def tolerances_of(args: argparse.Namespace) -> dict[str, float]:
    """Those that were given. RequestError for each that is not above 0 and at most 1."""
    given = {name: getattr(args, name) for name in ("tolerance", "quality_tolerance")}
    found = {name: value for name, value in given.items() if value is not None}
    faults = [
        Fault(f"--{name.replace('_', '-')}", f"{value:g} is no tolerance.", "Above 0, at most 1.")
        for name, value in found.items()
        if not 0 < value <= 1
    ]
    if faults:
        raise RequestError(faults)
    return found


def ray_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        default=os.environ.get("PRUNEAUDIT_RAY"),
        help=(
            'compute on this Ray cluster, host:port or "auto" (default: $PRUNEAUDIT_RAY, else this'
            " process)"
        ),
    )

    memory_option(parser)


def memory_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--memory", metavar="AMOUNT", action=_Memory, help=MEMORY_HELP)


class _Memory(argparse.Action):
    """States what this process may take, before anything is checked or loaded."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        memory.amount(str(values), "memory")
        os.environ[memory.STATED] = str(values)
        setattr(namespace, self.dest, values)


def executor_of(args: argparse.Namespace) -> Executor | None:
    """Where shards are computed: None is this process. RequestError where the cluster cannot be
    reached."""
    if not args.ray:
        return None
    from engine.audit.ray_executor import OnRay, connect

    connect(args.ray)
    return OnRay(args.ray)


def checked(
    args: argparse.Namespace,
    asked: Callable[[argparse.Namespace], Any],
    faults: Sequence[Fault] = (),
) -> Any:
    """The request, once it, the store and the cluster's address hold up; else RequestError with all
    faults together, `faults` first.

    Nothing is loaded or written: a wrong request leaves nothing behind.
    """
    from engine.audit.jobs import check, check_store
    from engine.audit.ray_executor import address_faults

    faults = [*faults, *address_faults(vars(args).get("ray"), "--ray")]
    try:
        request = asked(args)
    except RequestError as error:
        check_store(store_of(args), [*faults, *error.faults])
        raise
    check(request, store_of(args), faults)
    return request


class Ticker:
    """Progress on standard error: one line a second at most, rewritten on a terminal."""

    def __init__(self) -> None:
        self.last, self.line = 0.0, ""

    def __call__(self, event: Event) -> None:
        if event.note:
            print(visible(f"{event.note}"), file=sys.stderr)
            return
        left = (
            ""
            if event.eta is None
            else (
                f", {event.eta / 60:.0f} min left"
                if event.eta > 90
                else f", {event.eta:.0f} s left"
            )
        )
        line = (
            f"{event.phase}: {event.what} ({event.done}/{event.total}{left})"
            if event.total
            else f"{event.phase}: {event.what}"
        )
        line = visible(line)
        if (
            time.monotonic() - self.last < (0.2 if sys.stderr.isatty() else 5.0)
            or line == self.line
        ):
            return
        self.last, self.line = time.monotonic(), line
        print(
            f"\r\x1b[2K{line}" if sys.stderr.isatty() else line,
            end="" if sys.stderr.isatty() else "\n",
            file=sys.stderr,
        )
