"""The documents: as short as promised, current where they are generated, and every path, command
and link real."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from engine.cli import parser
from tests.places import ROOT

README = ROOT / "README.md"
DOCUMENTS = [README, *sorted((ROOT / "docs").glob("*.md"))]
NAMING = [*DOCUMENTS, *sorted((ROOT / "assets").glob("*/CARD.md"))]
"""Documents, and the cards of the embedded models and data."""
FOLDERS = ("engine", "pages", "tests", "benchmarks", "docs", "assets")
PLACEHOLDER = re.compile(r"NAME|TRACK|[<…]")


def build():
    spec = importlib.util.spec_from_file_location("build", ROOT / "docs" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_name(paths: list[Path]):
    return pytest.mark.parametrize(
        "path", paths, ids=[path.relative_to(ROOT).as_posix() for path in paths]
    )


def words_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def commands_of(text: str) -> list[str]:
    """What follows `python -m` on a line or between backticks, continued lines joined."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"(?<=python -m)\n", " ", text))
    return [found.strip() for found in re.findall(r"python -m ([^`\n]+)", joined)]


def anchors_of(text: str) -> set[str]:
    """Addresses of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_fits_on_two_screens():
    text = words_of(README)
    assert len(text.splitlines()) <= 200
    assert len(text.encode()) <= 16 * 1024
    assert "built:" not in text, "generated parts belong into docs/"


@by_name(DOCUMENTS)
def test_generated_parts_are_as_the_code_is(path):
    assert build().built(words_of(path)) == words_of(path), "run `python docs/build.py`"


def test_every_folder_of_code_says_what_it_is_for():
    for tree in build().TREES:
        for folder in {path.parent for path in (ROOT / tree).rglob("*.py")}:
            assert (folder / "__init__.py").is_file(), folder
            assert build().first_line(folder), folder


def test_every_track_has_a_page_that_the_readme_links_to():
    from engine.audit.tracks import tracks

    for name in tracks():
        assert f"(docs/{name}.md)" in words_of(README)


def test_every_method_is_in_the_table_with_its_own_file_and_a_command_that_is_understood():
    rows = list(build().method_rows())
    assert len({(paper, name) for paper, name, _, _ in rows}) == len(rows) > 40
    for _, name, file, command in rows:
        assert (ROOT / file).is_file() and Path(file).stem != "base", name
        parser().parse_args(shlex.split(command))


@by_name(NAMING)
def test_every_path_that_is_named_exists(path):
    for named in re.findall(rf"`((?:{'|'.join(FOLDERS)})/[^`\s]*)`", words_of(path)):
        if not PLACEHOLDER.search(named):
            assert list(ROOT.glob(named.rstrip("/"))), f"{path.name} names {named}"


@by_name(NAMING)
def test_every_module_that_is_named_exists(path):
    for named in re.findall(r"`((?:engine|benchmarks|assets|pages)(?:\.\w+)+)`", words_of(path)):
        module, _, last = named.rpartition(".")
        assert hasattr(importlib.import_module(module), last) or importlib.util.find_spec(named), (
            named
        )


@by_name(NAMING)
def test_every_command_is_understood(path):
    for command in commands_of(words_of(path)):
        module, *words = shlex.split(command.replace("…", "x"), comments=True)
        if module == "engine":
            if words:
                parser().parse_args(words)
        elif not PLACEHOLDER.search(module):
            spec = importlib.util.find_spec(module)
            if spec and spec.submodule_search_locations:  # a package is run by its __main__
                spec = importlib.util.find_spec(f"{module}.__main__")
            assert spec and '__name__ == "__main__"' in words_of(Path(spec.origin)), command


@by_name(DOCUMENTS)
def test_every_make_target_exists(path):
    known = set(re.findall(r"^([\w-]+):", words_of(ROOT / "Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", words_of(path), re.MULTILINE))
    assert named <= known
    assert path != README or {"run", "test"} <= named


@by_name(DOCUMENTS)
def test_every_link_leads_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", words_of(path)):
        file, _, anchor = target.partition("#")
        place = path.parent / file if file else path
        assert place.is_file(), f"{path.name} links to {target}"
        assert not anchor or anchor in anchors_of(words_of(place)), f"{path.name} links to {target}"
