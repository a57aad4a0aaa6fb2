"""How large the house is: tokens and files per folder, members of the tracks' contract, long lines
and sentences.

Tokens are those of production code, without comments and docstrings, so that dense lines win
nothing. The bars are where the house is meant to come to; `BUDGETS` is where it stands, and
`tests/test_architecture.py` holds that.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from benchmarks.report import Measure, parser, show
from engine.core.files import PROJECT

BUDGETS = {"engine": 586_670, "pages": 49_390, "tests": 351_020, "benchmarks": 58_590}
"""Tokens that a folder may have. Who needs more takes it from another and says why in the commit.
"""
BARS = {"engine": 400_000, "pages": 42_000, "tests": 290_000, "benchmarks": 35_000}
FILES, MEMBERS, SKIPS, LINE, WORDS = 330, 30, 40, 100, 30
"""Bars: files of the engine, members of Track, `# fmt: skip`, columns of a line, words of a
docstring's sentence."""
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def sources(folder: str) -> list[Path]:
    """Python files of a folder of the project, sorted."""
    return sorted((PROJECT / folder).rglob("*.py"))


def tokens(folder: str) -> int:
    """Tokens of all its production code."""
    return sum(_count(path.read_text(encoding="utf-8")) for path in sources(folder))


def _count(text: str) -> int:
    told = {line for line, _ in docstrings(ast.parse(text))}
    found = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(
        one.type not in _LAYOUT and not (one.type == tokenize.STRING and one.start[0] in told)
        for one in found
    )


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """First line and text of every docstring of modules, classes and functions."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body
        ):
            first = node.body[0]
            text = ast.get_docstring(node, clean=False)
            if text is not None:
                yield first.lineno, text


def long_sentences(text: str) -> int:
    """Sentences of more than WORDS words."""
    return sum(len(one.split()) > WORDS for one in re.split(r"(?<=[.?!])\s+", text))


def long_docstrings() -> list[str]:
    """Where docstrings of engine and pages have such sentences, once per sentence."""
    return [
        f"{path}:{line}"
        for folder in ("engine", "pages")
        for path in sources(folder)
        for line, text in docstrings(ast.parse(path.read_text(encoding="utf-8")))
        for _ in range(long_sentences(text))
    ]


def measures() -> list[Measure]:
    """The house as it stands."""
    from engine.report.tracks import Track, tracks

    texts = [
        path.read_text(encoding="utf-8")
        for folder in ("engine", "pages")
        for path in sources(folder)
    ]
    members = {*dir(Track), *(one.name for one in fields(Track))}
    found = [
        Measure(f"tokens of {name}", tokens(name) / 1000, "thousand", bar / 1000)
        for name, bar in BARS.items()
    ]
    return [
        *found,
        Measure("files of engine", len(sources("engine")), "", FILES),
        Measure("members of Track", sum(not name.startswith("_") for name in members), "", MEMBERS),
        Measure(
            "members of Track that one track alone fills",
            sum(
                sum(getattr(track, one.name) is not one.default for track in tracks().values()) == 1
                for one in fields(Track)
            ),
            "",
            0,
        ),
        Measure(
            "fmt: skip in engine and pages",
            sum(text.count("# fmt: skip") for text in texts),
            "",
            SKIPS,
        ),
        Measure(
            "longest line",
            max(len(line) for text in texts for line in text.splitlines()),
            "columns",
            LINE,
        ),
        Measure(
            f"docstring sentences of more than {WORDS} words",
            len(long_docstrings()),
            "",
            0,
        ),
    ]


if __name__ == "__main__":
    sys.exit(show(measures(), parser(__doc__).parse_args().json))
