"""The command line: same engine, same store, same numbers as the pages. One command, one file."""

from __future__ import annotations

import argparse
import errno
import importlib
import pkgutil
import sys
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NoReturn

from engine.audit.fields import special_fault, too_long_fault
from engine.audit.tracks import tracks
from engine.core.errors import PruneAuditError, RequestError, refusal
from engine.core.files import is_special
from engine.core.text import json_text, one_line, visible


class _Parser(argparse.ArgumentParser):
    """argparse that raises our own error, so that wrong words and wrong requests look alike, and
    guesses nothing: an option that is shortened, given twice or given nothing is refused."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "allow_abbrev": False})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if twice := self._twice(args or ()):
            self.error(f"{', '.join(twice)}: given more than once")
        if nothing := self._nothing(args or ()):
            self.error(f"{', '.join(nothing)}: given nothing")
        return super().parse_known_args(args, namespace)

    def _twice(self, words: Sequence[str]) -> list[str]:
        """Options given more than once that take one value, of which the last would win in silence,
        and switches."""
        given = [
            self._option_string_actions.get(word.split("=", 1)[0]) for word in _before_rest(words)
        ]
        ones = [
            action
            for action in given
            if isinstance(action, argparse._StoreAction | argparse._StoreConstAction)
        ]
        return sorted({action.option_strings[0] for action in ones if ones.count(action) > 1})

    def _nothing(self, words: Sequence[str]) -> list[str]:
        """Options given an empty value: some would read it as not given at all."""
        words, takes = _before_rest(words), argparse._StoreAction | argparse._AppendAction
        pairs = [
            word.split("=", 1) if "=" in word else [word, *words[at : at + 1]]
            for at, word in enumerate(words, 1)
        ]
        given = {
            self._option_string_actions.get(name): name for name, *value in pairs if value == [""]
        }
        return sorted(name for action, name in given.items() if isinstance(action, takes))

    def error(self, message: str) -> NoReturn:
        raise refusal("command line", f"{message}.", f"See {self.prog} --help.")


def parser() -> argparse.ArgumentParser:
    """All commands: those found beside this file, and the tracks' own."""
    top = _Parser(
        prog="python -m engine",
        description="If we cut these parts of a model, who pays, and how sure are we?",
    )
    commands = top.add_subparsers(dest="command", required=True, parser_class=_Parser)
    shared = {info.name: f"{__name__}.{info.name}" for info in pkgutil.iter_modules(__path__)}
    own = {name: module for track in tracks().values() for name, module in track.commands().items()}
    for _, module in sorted({**own, **shared}.items()):
        importlib.import_module(module).add(commands)
    return top


def main(words: Sequence[str] | None = None) -> int:
    """Run one command. Returns 0 when done, 2 when the request is wrong, 1 for anything else."""
    words = list(sys.argv[1:] if words is None else words)
    as_json = "--json" in words
    try:
        args = parser().parse_args(words)
        _refuse_special(args)
        value, text = args.run(args)
        print(json_text(value, indent=2, allow_nan=True) if args.json else visible(str(text)))
        return 0 if value is None or not isinstance(value, dict) or value.get("ok", True) else 1
    except PruneAuditError as error:
        return _fail(as_json, error)
    except KeyboardInterrupt:
        said = "Stopped. What was finished is kept; the same command goes on from there."
        return _fail(as_json, PruneAuditError(said))
    except BrokenPipeError:
        return 1
    except Exception as error:
        return _fail(as_json, _in_our_words(error))


def _before_rest(words: Sequence[str]) -> Sequence[str]:
    """The words before "--", behind which nothing is an option."""
    return words[: words.index("--")] if "--" in words else words


def _refuse_special(args: argparse.Namespace) -> None:
    """Paths that are neither file nor folder are refused before anybody opens them: reading might
    never end."""
    read = {
        name: value for name, value in vars(args).items() if name != "out"
    }  # writing to one is nobody's harm
    if faults := [
        special_fault(f"--{name.replace('_', '-')}", path)
        for name, value in read.items()
        for path in (value if isinstance(value, list | tuple) else [value])
        if isinstance(path, str) and is_special(path)
    ]:
        raise RequestError(faults)


def _in_our_words(error: Exception) -> PruneAuditError:
    """What Python says of wrong words, as a wrong request; all else is a defect of ours."""
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return RequestError(too_long_fault("command line", str(error.filename)))
    if isinstance(error, RuntimeError) and "home directory" in str(error):  # of pathlib: ~NAME
        what = "begins with ~ and a name that nobody has here."
        return refusal("path", what, "Write the folder in full.")
    print(visible(traceback.format_exc()), file=sys.stderr)
    said = (str(error).splitlines() or [""])[0][:300]
    return PruneAuditError(f"An error in the program: {type(error).__name__}: {said}")


def _fail(as_json: bool, error: PruneAuditError) -> int:
    """Say it in the form that was asked for; the exit code."""
    faults = [asdict(fault) for fault in getattr(error, "faults", ())]
    message = "The request is wrong:" if isinstance(error, RequestError) else str(error)
    if as_json:
        print(json_text({"error": message, "faults": faults}, indent=2))
    lines = []
    for fault in faults:
        lines.append(
            f"  - {one_line(fault['where'])}: {one_line(fault['what'])} {one_line(fault['fix'])}"
        )
        lines += [
            f"      “{one_line(text)}”: {one_line(said)}"
            for text, said in fault.get("examples", ())
        ]
    print(visible("\n".join([message, *lines])), file=sys.stderr)
    return error.exit_code
