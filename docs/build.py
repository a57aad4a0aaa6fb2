"""Writes the generated parts of the documents: `python docs/build.py`.

A part stands between `<!-- built: NAME ARGUMENTS -->` and `<!-- end -->`. Folders come from the
docstrings of their `__init__.py`, methods from discovery, options from the command line's parser,
so none of them is kept by hand.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

PART = re.compile(r"(<!-- built: (\w+)([^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)
TREES = ("engine", "pages", "tests", "benchmarks", "assets/build")

HEADS = "audit --model demo-gpt2 --axis nationality"
SCORES = "scores --model demo-gpt2 --axis nationality --out scores.csv {option}"
IMAGES = "audit --model demo-resnet --data avatars --axis male"
TEXTS = "tickets --model demo-bert --task remarks --retune"
FAIR = "fairtrain --model demo-resnet --data avatars --target blond --group male"
METHODS = (
    ("FASP", "language_models.selection:selection_methods", f"{HEADS} --method {{}}"),
    ("Compressions", "language_models.compressions:compressions", f"{HEADS} --method {{}}"),
    ("FASP, scores", "language_models.scores:score_methods", SCORES),
    ("PW loss", "image_classifiers.methods:filter_methods", f"{IMAGES} --method {{}}"),
    ("IG-BERT, scores", "text_classifiers.scores.base:head_importances", f"{TEXTS} --score {{}}"),
    ("IG-BERT", "text_classifiers.procedures:procedures", f"{TEXTS} --procedure {{}}"),
    ("BiFP", "fair_training.methods:fair_methods", f"{FAIR} --method {{}}"),
)
"""Paper, where its methods are found (below engine.tracks), and the command that uses one."""
ESTIMATORS = {"z_bias": "--estimator", "z_ppl": "--perplexity-estimator"}


def folders() -> str:
    """One line per folder: what its `__init__.py` says first."""
    found = [path.parent for tree in TREES for path in sorted((ROOT / tree).rglob("__init__.py"))]
    names = [folder.relative_to(ROOT).as_posix() for folder in sorted(found)]
    width = max(map(len, names)) + 2
    return "\n".join(
        [
            "```",
            *(f"{name + '/':<{width}}{first_line(ROOT / name)}".rstrip() for name in names),
            "```",
        ]
    )


def first_line(folder: Path) -> str:
    """First paragraph of a package's docstring; "" where it has none."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


def methods() -> str:
    """Every method that is found, with its file and a command that uses it."""
    lines = ["| paper | method | file | after `python -m engine` |", "|---|---|---|---|"]
    rows = (
        f"| {paper} | {name} | `{file}` | `{command}` |"
        for paper, name, file, command in method_rows()
    )
    return "\n".join([*lines, *rows])


def method_rows() -> Iterator[tuple[str, str, str, str]]:
    """(paper, method, file, command), without those of a track that is not here."""
    from engine.audit.tracks import tracks

    for paper, place, command in METHODS:
        if place.partition(".")[0] not in tracks():
            continue
        module, _, name = place.partition(":")
        found = getattr(importlib.import_module(f"engine.tracks.{module}"), name)()
        for method in found.values() if isinstance(found, dict) else found:
            by_score = command == SCORES
            asked = (
                command.format(option=_score_option(method))
                if by_score
                else command.format(method.name)
            )
            yield (
                paper,
                f"{method.score}: {method.name}" if by_score else method.name,
                file_of(method),
                asked,
            )
        if paper == "PW loss":
            yield paper, "+pw", "engine/training/losses.py", f"{IMAGES} --method autobot+pw"
    yield from experiment_rows()


def experiment_rows() -> Iterator[tuple[str, str, str, str]]:
    """(paper, figure and name, file, command) of every experiment."""
    from engine.audit.experiments import experiments

    for one in experiments().values():
        yield f"{one.paper}, {one.figure}", one.name, file_of(one), f"experiment {one.name} --quick"


def _score_option(method: Any) -> str:
    """The option that asks for one way to score heads of a language model."""
    option = ESTIMATORS.get(method.score)
    return f"{option} {method.name}" if option else f"--method {method.score}"


def file_of(method: Any) -> str:
    """The file that declares a method: as one of its `ROWS`, else as a class of its own."""
    own = sys.modules[type(method).__module__]
    beside = [module for name, module in sys.modules.items() if name.startswith("engine.")]
    tables = ((module, getattr(module, "ROWS", ())) for module in beside)
    holds = (
        module
        for module, rows in tables
        if isinstance(rows, tuple) and any(row is method for row in rows)
    )
    return Path(inspect.getfile(next(holds, own))).resolve().relative_to(ROOT).as_posix()


def fields(track: str) -> str:
    """What an audit of a track can be asked, as its request declares it, and the other options of
    its command."""
    from engine.audit.fields import fields_of, option_fields, rows
    from engine.audit.tracks import tracks

    entry = tracks()[track]
    own = rows(entry.part("request"))
    sharing = [one.part("request") for one in tracks().values() if one.word == entry.word]
    declared = {field.flag for request in sharing for field in option_fields(fields_of(request))}
    lines = [f"| option of `{entry.word}` | takes | default | |", "|---|---|---|---|"]
    lines += [
        f"| `{row['option']}` | {_cell(row['takes'])} | {_cell(row['usual'])} |"
        f" {_cell(row['meaning'])} |"
        for row in own
    ]
    rest = [action for action in _actions(entry.word) if not declared & set(action.option_strings)]
    return "\n".join(
        lines
        + [f"| `{_name(action)}` | | | {_cell((action.help or '') % {})} |" for action in rest]
    )


def options(command: str) -> str:
    """The options of a command."""
    lines = [f"| option of `{command}` | default | |", "|---|---|---|"]
    return "\n".join(lines + [_option(action) for action in _actions(command)])


def _actions(command: str) -> list[argparse.Action]:
    from engine.cli import parser

    commands = next(
        action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    return [action for action in commands.choices[command]._actions if _said(action)]


def _said(action: argparse.Action) -> bool:
    return (
        bool(action.option_strings) and action.dest != "help" and action.help != argparse.SUPPRESS
    )


def _name(action: argparse.Action) -> str:
    """An option with what it takes."""
    value = (
        ""
        if action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction)
        else action.metavar
    )
    if value is None:
        value = "|".join(map(str, action.choices)) if action.choices else action.dest.upper()
    return _cell(f"{', '.join(action.option_strings)} {value}".rstrip())


def _option(action: argparse.Action) -> str:
    unsaid = action.default is None or action.default is False or action.default == ""
    default = "" if unsaid else f"`{action.default}`"
    return (
        f"| `{_name(action)}` | {default} |"
        f" {_cell((action.help or '') % {'default': action.default})} |"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def results(track: str) -> str:
    """What the track's first embedded run found, as docs/results/TRACK.py lays it out."""
    from engine.audit.tracks import track_named
    from engine.store.runs import EMBEDDED, Store

    store, (request, *_) = Store(EMBEDDED, read_only=True), track_named(track).part("embedded")
    run = next(run for run in map(store.open, store.ids()) if run.meta["title"] == request.title)
    table = importlib.import_module(f"docs.results.{track}").table(run)
    return f"\n{table}\n"


def file_fields(file: str) -> str:
    """What becomes of every field of a configuration file; fields that share a fate share a row."""
    from engine.models.file_fields import FIELDS

    rows: dict[tuple[str, str], list[str]] = {}
    for name, fate in FIELDS[file].items():
        rows.setdefault((fate.kind, fate.why), []).append(f"`{name}`")
    order = sorted(rows, key=lambda fate: ("obeyed", "refused", "irrelevant").index(fate[0]))
    cells = (
        f"| {', '.join(sorted(rows[fate]))} | {fate[0]} | {_cell(fate[1])} |" for fate in order
    )
    return "\n".join(["| fields | | |", "|---|---|---|", *cells])


PARTS: dict[str, Callable[..., str]] = {
    "folders": folders,
    "methods": methods,
    "fields": fields,
    "options": options,
    "results": results,
    "file_fields": file_fields,
}


def built(text: str) -> str:
    """A document with its generated parts as they should be now."""
    return PART.sub(
        lambda found: f"{found[1]}{PARTS[found[2]](*found[3].split())}\n{found[4]}", text
    )


if __name__ == "__main__":
    for document in sorted(DOCS.glob("*.md")):
        before = document.read_text(encoding="utf-8")
        after = built(before)
        if after != before:
            document.write_text(after, encoding="utf-8")
            print(document.relative_to(ROOT))
