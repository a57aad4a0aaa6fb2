"""The house holds: imports run one way, no circle, the kernel names no track, and what few use is
where they are."""

import ast
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from benchmarks import sentences
from benchmarks.house import BUDGETS, _count, long_docstrings, tokens
from engine.audit.tracks import tracks
from engine.core import words
from tests.imports import imports_of, module_name, modules, reached, used_by
from tests.places import ROOT

ORDER = (
    "core",
    "store",
    "data",
    "models",
    "surgery",
    "training",
    "stats",
    "audit",
    "resident",
    "classifiers",
    "report",
    "tracks",
    "cli",
)
"""Every folder may import itself and what stands before it."""
APART = {"store", "data"}
"""These stand side by side: neither imports the other."""
ENGINE = sorted(name for name in modules() if name.startswith("engine."))
KERNEL = [name for name in ENGINE if not name.startswith(("engine.tracks", "engine.cli"))]
SHARING = ("engine.audit.", "engine.classifiers.", "engine.report.")
"""Folders of what tracks share: nothing there serves one track only."""
FROM_OUTSIDE = {"engine.audit.embedded", "engine.audit.worker"}
"""Started as processes (`python -m`), or handed on to notebooks by engine/__init__.py: their users
lie outside."""


def folder(name):
    """ "engine.data.texts.load" -> "data"; "" outside the engine."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "engine" else ""


def track_of(name):
    """The track of a module's name; "" for what is in no track's folder."""
    parts = name.split(".")
    return parts[2] if parts[:2] == ["engine", "tracks"] and len(parts) > 2 else ""


@pytest.mark.parametrize("name", BUDGETS)
def test_a_folder_keeps_its_budget(name):
    """`python -m benchmarks.house` prints where it stands and where it shall come to."""
    assert tokens(name) <= BUDGETS[name]


def test_layout_comments_and_docstrings_are_no_tokens():
    dense = "def f(a):\n    return [a, -a]"
    told = 'def f(a):  # a note\n    """What it does."""\n\n    return [\n        a,\n        -a]'
    assert _count(dense) == 13 and _count(told) == 13


def test_no_docstring_has_a_sentence_of_over_thirty_words():
    assert not long_docstrings()


def test_no_text_that_a_person_reads_needs_a_second_reading():
    """`python -m benchmarks.sentences --flagged` prints them."""
    found = sentences.said()
    assert len(found) > 1000 and not [one for one in found if one.flags]


def test_every_folder_of_the_engine_has_its_place():
    assert {folder(name) for name in ENGINE} - {"__main__"} == set(ORDER)


@pytest.mark.parametrize("own", ORDER)
def test_a_folder_imports_only_itself_and_those_before_it(own):
    allowed = set(ORDER[: ORDER.index(own) + 1]) - (APART - {own} if own in APART else set())
    wrong = [
        f"{name} imports {used}"
        for name in ENGINE
        if folder(name) == own
        for used in imports_of(name)
        if folder(used) and folder(used) not in allowed
    ]
    assert not wrong


def test_the_engine_knows_no_screen_and_no_script():
    outside = {"streamlit", "pages", "app", "assets", "benchmarks", "tests", "docs"}
    wrong = [
        f"{name} imports {used}"
        for name in ENGINE
        for used in imports_of(name)
        if used.split(".")[0] in outside
    ]
    assert not wrong


def test_tracks_import_no_other_track():
    wrong = [
        f"{name} imports {used}"
        for name in ENGINE
        if track_of(name)
        for used in imports_of(name)
        if track_of(used) not in ("", track_of(name))
    ]
    assert not wrong


def test_nothing_below_the_tracks_imports_or_names_one():
    wrong = [
        f"{name} imports {used}" for name in KERNEL for used in imports_of(name) if track_of(used)
    ]
    wrong += [
        f"{name} says {text!r}" for name in KERNEL for text in literals(name) if text in tracks()
    ]
    assert not wrong


def test_a_track_names_no_other_one():
    wrong = [
        f"{name} says {text!r}"
        for name in ENGINE
        if track_of(name)
        for text in literals(name)
        if text in tracks() and text != track_of(name)
    ]
    assert not wrong


@cache
def literals(name):
    """Strings in the code of a module."""
    nodes = ast.walk(ast.parse(modules()[name].read_text(encoding="utf-8")))
    return tuple(
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def test_what_tracks_share_has_a_second_user():
    """A file of audit/, classifiers/ or report/ whose every way up leads to one track belongs into
    that track."""
    shared = [
        name
        for name in KERNEL
        if name.startswith(SHARING) and modules()[name].name != "__init__.py"
    ]
    users = {name: ways_up(name) for name in shared if name not in FROM_OUTSIDE}
    assert not {
        name: found
        for name, found in users.items()
        if len(found) < 2 and not found & {"pages", "cli"}
    }


def ways_up(name):
    """Who uses a module, directly or through others of the kernel: tracks by name, "cli",
    "pages"."""
    found = set()
    for user in reached(
        name, lambda one: [*used_by(one), *_found_by(one)] if one == name or one in KERNEL else []
    ):
        if track_of(user):
            found.add(track_of(user))
        elif user.split(".")[0] in ("pages", "app"):
            found.add("pages")
        elif folder(user) == "cli":
            found.add("cli")
    return found


def _found_by(name):
    """The package of a module, where the package finds its modules instead of importing them by
    name."""
    package = name.rpartition(".")[0]
    return [package] if "engine.core.discover" in imports_of(package) else []


def test_no_two_files_import_each_other_not_even_by_way_of_others():
    assert not circles()


def circles():
    """Modules that reach themselves, one list per circle."""
    reach = {name: reached(name, imports_of) - {name} for name in modules()}
    within = {
        frozenset({name, *(one for one in reach[name] if name in reach.get(one, ()))})
        for name in modules()
    }
    return [sorted(circle) for circle in within if len(circle) > 1]


def test_a_circle_would_be_seen():
    assert reached("a", {"a": ["b"], "b": ["c"], "c": ["a"]}.__getitem__) == {"a", "b", "c"}
    assert module_name(Path("engine/data/__init__.py")) == "engine.data"
    assert "engine.core.files" in imports_of("engine.store.sealed")
    late = "engine.report.summary"  # imported inside a function of cli/runs.py
    assert late in imports_of("engine.cli.runs")


def test_pages_never_import_torch():
    pages = [name for name in modules() if name.startswith("pages.")]
    code = f"import sys\nimport {', '.join(pages)}\nimport engine.audit.jobs\n"
    code += "import engine.report.tracks; engine.report.tracks.tracks()\n"
    code += "print(sorted({'torch', 'transformers', 'detoxify'} & set(sys.modules)))"
    environment = {**os.environ, "PRUNEAUDIT_STORE": "/nonexistent"}
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert ended.stdout.strip().splitlines()[-1] == "[]", ended.stderr[-2000:]


def test_one_file_names_session_keys_and_one_caches():
    for path in [ROOT / "app.py", *(ROOT / "pages").rglob("*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert "session_state" not in used or path.name == "state.py", path
        assert not used & {"cache_data", "cache_resource"} or path.name == "cache.py", path
        literal = [
            word.value.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            for word in node.keywords
            if word.arg == "key"
            and isinstance(word.value, ast.Constant)
            and isinstance(word.value.value, str)
        ]
        assert not literal or path.name == "state.py", (path, literal)


@pytest.mark.parametrize("name", ["engine.report.palette", "engine.core.words"])
def test_the_kernel_has_no_look_and_no_word_for_a_method_of_a_track(name):
    methods = set(words.gathered("METHODS")) - set(words.METHODS)
    assert methods, "tracks have words for their methods"
    assert not methods & set(literals(name))


def test_one_file_runs_a_script_in_the_browser_and_it_is_a_file_of_ours():
    found = [
        path
        for path in (ROOT / "pages").rglob("*.py")
        if "allow_javascript" in path.read_text(encoding="utf-8")
    ]
    assert [path.name for path in found] == ["frame.py"]
    text = found[0].read_text(encoding="utf-8")
    assert text.count("allow_javascript") == 1 and '"history.js", "names.js", "save.js")' in text
