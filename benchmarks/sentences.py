"""Every sentence a person can read, with made-up fillings: `python -m benchmarks.sentences`.

Sentences are read off the code: strings of three words or more in `engine` and `pages` that are no
docstring, with what is filled in replaced by an example. `--flagged` prints only those that are too
long, turned around, or use words of the house.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.house import sources
from engine.core.files import PROJECT

LONGEST = 25
"""Words of a sentence."""
INVERSIONS = re.compile(
    r"\b(what of|so is|so are|nor is|nor are|nor does|"
    r"no change is claimed|are those that|owes? to|hands? over|"
    r"than would|as much as would|shall|thereof|wherein|the former|the latter)\b",
    re.IGNORECASE,
)
"""Turns of phrase that need a second reading."""
HOUSE = re.compile(
    r"\b(shards?|arms|digests?|dataclass|tuple|kwargs|refit|estimand|clusters? of)\b"
)
"""Words of the code."""
FILLINGS = (
    (r"per_?cent|share", "20 %"),
    (r"seconds|duration|time", "3 min"),
    (r"count|len\(|number|size|level|limit|value|signed|round|low|high|\bn\b|total|most", "12"),
    (r"quoted|group|subgroup", "“north”"),
    (r"listing|names|join", "this and that"),
    (r"path|folder|file", "data/file.csv"),
    (r"axis", "religion"),
    (r"model", "demo-gpt2"),
    (r"method|variant", "FASP"),
)
"""What stands for a filling, by what its code speaks of."""


@dataclass(frozen=True)
class Said:
    """A text with example fillings, and where it stands."""

    path: str
    line: int
    text: str

    @property
    def sentences(self) -> list[str]:
        return [one for one in re.split(r"(?<=[.?!])\s+", self.text) if one.strip()]

    @property
    def longest(self) -> int:
        return max((len(one.split()) for one in self.sentences), default=0)

    @property
    def flags(self) -> list[str]:
        """What should be looked at."""
        found = [f"{self.longest} words"] if self.longest > LONGEST else []
        for what, pattern in (("turned", INVERSIONS), ("house", HOUSE)):
            found += [f"{what}: {one.group(0)}" for one in pattern.finditer(self.text)]
        return found


def said(folders: tuple[str, ...] = ("engine", "pages")) -> list[Said]:
    """All texts below these folders of the project, in the order of files and lines."""
    return [one for folder in folders for path in sources(folder) for one in _of_file(path)]


def _of_file(path: Path) -> Iterator[Said]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in _outermost(tree):
        text = re.sub(r"\s+", " ", re.sub(r"(?<=[.?!])(?=this)", " ", _filled(node))).strip()
        if re.search(r"[a-z]{2,}[,:]? \S+ \S", text) and not re.search(
            r"[{}\\<>]|\(\?|_\w+ \w+_|resnet18 ", text
        ):
            yield Said(path.relative_to(PROJECT).as_posix(), node.lineno, text)


def _outermost(node: ast.AST) -> Iterator[ast.expr]:
    """Strings that are part of no other string; without docstrings."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if isinstance(child, ast.expr) and _is_text(child):
            yield child
            for gap in _gaps(child):
                yield from _outermost(ast.Expression(gap))
        else:
            yield from _outermost(child)


def _gaps(node: ast.expr) -> Iterator[ast.expr]:
    """The code that a text is filled by."""
    if isinstance(node, ast.JoinedStr | ast.BinOp) and _is_text(node):
        parts = node.values if isinstance(node, ast.JoinedStr) else (node.left, node.right)
        for part in parts:
            yield from _gaps(part)
    elif not isinstance(node, ast.Constant):
        yield node.value if isinstance(node, ast.FormattedValue) else node


def _is_text(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _filled(node: ast.expr) -> str:
    """A text with an example in every gap."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_filled, node.values))
    if isinstance(node, ast.BinOp) and _is_text(node):
        return _filled(node.left) + _filled(node.right)
    return _example(ast.unparse(node.value if isinstance(node, ast.FormattedValue) else node))


def _example(code: str) -> str:
    return next((text for word, text in FILLINGS if re.search(word, code)), "this")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folders", nargs="*", default=["engine", "pages"], help="folders to read")
    options.add_argument("--flagged", action="store_true", help="only what should be looked at")
    given = options.parse_args()
    texts = said(tuple(given.folders))
    flagged = [one for one in texts if one.flags]
    for one in flagged if given.flagged else texts:
        marks = "".join(f" [{flag}]" for flag in one.flags)
        print(f"{one.path}:{one.line} ({len(one.text.split())}){marks} {one.text}")
    print(f"{len(texts)} texts, of which {len(flagged)} should be looked at", file=sys.stderr)
    sys.exit(bool(flagged))
