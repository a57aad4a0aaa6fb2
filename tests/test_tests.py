"""The tests themselves: each can fail, none looks at a clock, none needs another track's tests to
be read."""

import ast

import pytest

from tests.imports import imported
from tests.places import ROOT

FILES = sorted((ROOT / "tests").rglob("*.py"))
CLOCKS = {
    "sleep",
    "monotonic",
    "perf_counter",
    "process_time",
    "time_ns",
    "monotonic_ns",
    "perf_counter_ns",
}
RAISES = {"raises", "warns", "fail"}


def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def called(node):
    """Last names of what is called: `np.testing.assert_allclose(...)` gives assert_allclose."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            yield (
                call.func.attr
                if isinstance(call.func, ast.Attribute)
                else getattr(call.func, "id", "")
            )


def decorators(node):
    return {
        name for one in node.decorator_list for name in [*called(one), getattr(one, "attr", "")]
    }


def asserts(node, helpers):
    """Whether code can fail: it asserts, expects an error, or calls a helper that does."""
    if any(isinstance(inner, ast.Assert | ast.Raise) for inner in ast.walk(node)):
        return True
    return any(
        name in RAISES | helpers or name.startswith(("assert_", "_assert_"))
        for name in called(node)
    )


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.name.startswith("test_")], ids=lambda path: path.stem
)
def test_every_test_can_fail(path):
    functions = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef)]
    helpers = {
        node.name for node in functions if not node.name.startswith("test") and asserts(node, set())
    }
    tests = [
        node
        for node in functions
        if node.name.startswith("test_") and "fixture" not in decorators(node)
    ]
    idle = [node.name for node in tests if not asserts(node, helpers)]
    assert not idle


def test_an_idle_test_would_be_seen():
    idle = ast.parse("def test_nothing():\n    value = 1\n    print(value)")
    busy = ast.parse("def test_something():\n    with pytest.raises(ValueError):\n        int('x')")
    assert not asserts(idle, set()) and asserts(busy, set())


def test_no_test_looks_at_a_clock():
    """What another process or thread does is waited for by events; time is a thing that a test
    hands in."""
    found = {
        str(path.relative_to(ROOT)): names
        for path in FILES
        if (names := {name for name in called(tree_of(path)) if name in CLOCKS})
    }
    assert not found


def test_tests_of_a_track_are_read_without_those_of_another():
    wrong = []
    for path in FILES:
        parts = path.relative_to(ROOT / "tests").parts
        own = parts[1] if parts[0] == "tracks" else ""
        used = {
            name.split(".")[2]
            for name in imported(path, ())
            if name.startswith(("tests.tracks.", "engine.tracks."))
        }
        wrong += [f"{path.relative_to(ROOT)} imports {name}" for name in sorted(used - {own})]
    assert not wrong
