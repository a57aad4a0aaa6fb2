"""Options of the command line from declared fields, words as a request, a request as words."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from engine.audit.fields import (
    Field,
    faults_among,
    fields_of,
    option_fields,
    usual_words,
    values_of,
)
from engine.audit.session import Executor
from engine.audit.tracks import request_from, track_of_request
from engine.core import memory
from engine.core.errors import Fault, RequestError, refuse
from engine.core.files import in_full
from engine.core.text import visible
from engine.core.types import Event, Values
from engine.store.runs import EMBEDDED, Store, default_root

MEMORY_HELP = (
    f"memory that may be taken, like 4G (default: ${memory.STATED}, else {memory.SHARE:.0%}% of"
    " what is free)"
)


def command(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], tuple[Any, str]],
    store: bool = True,
    ray: bool = False,
    **more: Any,
) -> None:
    """What every command ends with: where runs are kept, --json, and what it runs.

    ray: whether it says where it computes. more: what else `run` finds in its arguments.
    """
    if ray:
        parser.add_argument(
            "--ray",
            metavar="ADDRESS",
            default=os.environ.get("PRUNEAUDIT_RAY"),
            help=(
                'compute on this Ray cluster, host:port or "auto" (default: $PRUNEAUDIT_RAY, else'
                " this process)"
            ),
        )
        memory_option(parser)
    if store:
        parser.add_argument(
            "--store",
            metavar="DIR",
            help="where runs are kept (default: $PRUNEAUDIT_STORE or user data)",
        )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run, **more)


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
    refuse(faults)
    return found


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
        left, line, is_terminal = "", f"{event.phase}: {event.what}", sys.stderr.isatty()
        if event.eta is not None:
            is_long = event.eta > 90
            left = f", {event.eta / 60:.0f} min left" if is_long else f", {event.eta:.0f} s left"
        if event.total:
            line += f" ({event.done}/{event.total}{left})"
        line = visible(line)
        if time.monotonic() - self.last < (0.2 if is_terminal else 5.0) or line == self.line:
            return
        self.last, self.line = time.monotonic(), line
        before, end = ("\r\x1b[2K", "") if is_terminal else ("", "\n")
        print(f"{before}{line}", end=end, file=sys.stderr)


# Words as values. What cannot be read becomes a fault.


RequestT = TypeVar("RequestT")


def add_options(parser: argparse.ArgumentParser, fields: Iterable[Field], group: str = "") -> None:
    """The option of every field, but for those that the parser has already; all others under the
    title `group`."""
    fields = [
        field for field in option_fields(fields) if field.flag not in parser._option_string_actions
    ]
    place = parser.add_argument_group(group) if group and fields else parser
    for field in fields:
        place.add_argument(field.flag, help=_help(field), default=None, **_action(field))


def _help(field: Field) -> str:
    usual = "" if field.kind == "flag" or "default" in field.help else usual_words(field)
    return f"{field.help}{f' (default: {usual})' if usual else ''}".replace("%", "%%")


def _action(field: Field) -> Values:
    if field.kind == "flag":
        if field.optional and not field.flag.startswith("--no-"):
            return {"action": argparse.BooleanOptionalAction}
        return {"action": "store_const", "const": not field.flag.startswith("--no-")}
    several = field.kind in ("names", "pairs", "settings", "settings per method", "changes")
    return {"metavar": field.metavar, **({"action": "append"} if several else {})}


def given(args: argparse.Namespace, flag: str) -> Any:
    """What the words say with an option; None where nothing."""
    return getattr(args, flag.lstrip("-").replace("-", "_"), None)


def foreign_options(
    args: argparse.Namespace, others: Iterable[str], own: Iterable[str], about: str
) -> list[Fault]:
    """Options given that are among `others`, and mean nothing here: not among the `own` ones of
    what is `about` something."""
    wrong = [flag for flag in dict.fromkeys(others) if given(args, flag) is not None]
    mine = set(own)
    return [
        Fault(flag, f"is not for {about}.", "Leave it out.") for flag in wrong if flag not in mine
    ]


def flags_of(fields: Iterable[Field]) -> list[str]:
    """The options of fields."""
    return [field.flag for field in option_fields(fields)]


def read_fields(
    args: argparse.Namespace, fields: Iterable[Field], faults: list[Fault]
) -> dict[str, Any]:
    """Values of the fields that the words say something about, by name; without those that cannot
    be read."""
    found = {}
    for field in fields:
        before = len(faults)
        value = _read_parts(args, field, faults) if field.parts else _read_one(args, field, faults)
        if value is not None and len(faults) == before:
            found[field.name] = value
    return found


def request_of(args: argparse.Namespace, request: type[RequestT], **fixed: Any) -> RequestT:
    """The request the words ask for; `fixed`: what they do not say here. RequestError with all that
    cannot be read."""
    faults: list[Fault] = []
    values = {**read_fields(args, fields_of(request), faults), **fixed}
    return made(request, values, faults)


def made(request: type[RequestT], values: Values, faults: Sequence[Fault] = ()) -> RequestT:
    """A request of what was read, with what is usual where nothing was said.

    faults: what could not be read. RequestError with all of these, and with what is wrong with the
    values that could.
    """
    values, faults = dict(values), list(faults)
    for field in fields_of(request):
        if field.name not in values and field.usual:
            values[field.name] = field.usual(values)
        if field.name not in values and field.required:
            faults.append(Fault(field.flag, "is missing.", "Name it."))
    if faults:
        raise RequestError([*faults, *faults_among(request, values)])
    return request(**values)


def _read_parts(args: argparse.Namespace, field: Field, faults: list[Fault]) -> Any:
    values = [_read_one(args, part, faults) for part in field.parts]
    if field.join is None or all(value is None for value in values):
        return None
    pairs = zip(values, field.parts, strict=True)
    return field.join([part.default if value is None else value for value, part in pairs])


def _read_one(args: argparse.Namespace, field: Field, faults: list[Fault]) -> Any:
    words = given(args, field.flag) if field.flag else None
    if words is None:
        return None
    if field.read:
        return field.read(field.flag, words, faults)
    return _READERS[field.kind](field, words, faults)


def absolute(text: str) -> str:
    """A path in full where something is there: a job's process may start in another folder. Names
    stay."""
    path = Path(in_full(text))
    return str(path) if os.path.exists(path) and ("/" in text or path.is_file()) else text


def _number(field: Field, text: str, faults: list[Fault]) -> float | str | None:
    if text == field.word:
        return text
    try:
        return int(text) if field.kind == "integer" else float(text)
    except ValueError:
        what = f"{text!r} is no {'whole number' if field.kind == 'integer' else 'number'}."
        faults.append(Fault(field.flag, what, f"Give {field.allowed()}."))
        return None


def numbers_of(
    where: str, text: str, faults: list[Fault], example: str = "2,4,16"
) -> tuple[float, ...]:
    """ "2,4,16x" -> (2.0, 4.0, 16.0)."""
    try:
        return tuple(float(part.strip().rstrip("x×")) for part in text.split(",") if part.strip())
    except ValueError:
        faults.append(
            Fault(where, f"{text!r} is not a list of numbers.", f"Write for example {example}.")
        )
        return ()


def names_in(words: Sequence[str] | None, commas: bool = True) -> tuple[str, ...]:
    """["a,b", "c"] -> ("a", "b", "c"), each once; commas: whether they separate."""
    parts = [
        part.strip() for item in words or () for part in (item.split(",") if commas else [item])
    ]
    return tuple(dict.fromkeys(filter(None, parts)))


def settings_of(where: str, words: Sequence[str], faults: list[Fault]) -> dict[str, dict[str, Any]]:
    """["autobot.iterations=100"] -> {"autobot": {"iterations": 100}}."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in pairs_of(where, words, faults).items():
        method, dot, setting = name.partition(".")
        if not dot:
            faults.append(
                Fault(
                    where, f"{name!r} names no method.", "Write for example autobot.iterations=100."
                )
            )
        found.setdefault(method, {})[setting] = value
    return found


def pairs_of(where: str, words: Sequence[str], faults: list[Fault]) -> dict[str, Any]:
    """["a=1", "b=x"] -> {"a": 1, "b": "x"}; values are read as JSON, else taken as text. "default"
    says nothing."""
    found = {}
    for item in words:
        name, equals, value = item.partition("=")
        if item == "default":
            continue
        if not (name and equals):
            faults.append(
                Fault(where, f"{item!r} is no NAME=VALUE.", "Write for example epochs=5.")
            )
            continue
        try:
            found[name.strip()] = json.loads(value)
        except ValueError:
            found[name.strip()] = value
    return found


_READERS: Mapping[str, Callable[[Field, Any, list[Fault]], Any]] = {
    **dict.fromkeys(("text", "choice", "flag"), lambda field, words, faults: words),
    # In full, whether something is there or not; "" says nothing.
    "path": lambda field, text, faults: in_full(text) if text else None,
    "source": lambda field, text, faults: absolute(text),
    "integer": _number,
    "number": _number,
    "numbers": lambda field, text, faults: numbers_of(field.flag, text, faults, field.example),
    "names": lambda field, words, faults: names_in(words, field.commas),
    "settings": lambda field, words, faults: pairs_of(field.flag, words, faults),
    "settings per method": lambda field, words, faults: settings_of(field.flag, words, faults),
    "pairs": lambda field, words, faults: pairs_of(field.flag, words, faults),
}


# A request as words: the inverse of reading, given only where reading gives the request back.


def command_of(asked: Values) -> str:
    """The command that asks for what run.json's `request` holds; "" where no words give just
    that."""
    try:
        request = request_from(asked)
        kind = type(request)
        words = [
            word
            for field in fields_of(kind)
            for word in _words(field, getattr(request, field.name))
        ]
        again = _read(words, kind)
        if again is None or _said(again) != _said(request):
            return ""
    except (RequestError, TypeError, ValueError, KeyError):
        return ""
    return shlex.join(["python", "-m", "engine", track_of_request(request).word, *words])


def _read(words: list[str], kind: type) -> Any:
    """The request that the words ask for."""
    parser = argparse.ArgumentParser(exit_on_error=False, add_help=False, allow_abbrev=False)
    add_options(parser, fields_of(kind))
    faults: list[Any] = []
    try:
        with redirect_stderr(StringIO()):
            args = parser.parse_args(words)
    except (SystemExit, argparse.ArgumentError):
        return None
    values = read_fields(args, fields_of(kind), faults)
    return None if faults else made(kind, values)


def _said(request: Any) -> dict[str, Any]:
    """The values of a request; of settings per method those that say something."""
    values = values_of(request)
    for field in fields_of(type(request)):
        if field.kind == "settings per method":
            values[field.name] = {
                method: given for method, given in values[field.name].items() if given
            }
    return values


def _words(field: Field, value: Any) -> list[str]:
    """The option of a field and its words; none where it is what it would be anyway, or has none of
    its own."""
    is_usual = value == field.default and not field.usual
    if not field.flag or field.parts or is_usual or value is None:
        return []
    if field.kind == "flag":
        return _flag(field, bool(value))
    return [
        word for one in _WRITTEN.get(field.kind, _one)(value, field) for word in (field.flag, one)
    ]


def _flag(field: Field, value: bool) -> list[str]:
    if field.flag.startswith("--no-"):
        return [] if value else [field.flag]
    return [field.flag if value else f"--no-{field.flag[2:]}"] if value or field.optional else []


def _one(value: Any, _: Field) -> list[str]:
    return [
        f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
    ]


def _names(value: Any, field: Field) -> list[str]:
    return [",".join(value)] if field.commas else list(value)


def _pairs(value: Values, _: Field) -> list[str]:
    return [f"{name}={_json(one)}" for name, one in value.items()]


def _per_method(value: Mapping[str, Values], _: Field) -> list[str]:
    return [
        f"{method}.{name}={_json(one)}"
        for method, given in value.items()
        for name, one in given.items()
    ]


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_WRITTEN: Mapping[str, Callable[[Any, Field], list[str]]] = {
    "numbers": lambda value, field: [",".join(_one(one, field)[0] for one in value)],
    "names": _names,
    "product": _names,
    "pairs": _pairs,
    "settings": _pairs,
    "settings per method": _per_method,
}
