"""The README's tree names every file that is there, and its commands exist."""

from __future__ import annotations

import importlib.util
import re
import shlex

from engine.cli import parser
from tests.places import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def script(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tree_is_as_the_code_is():
    assert script("tree").with_tree(README) == README, "run `python docs/tree.py`"


def test_every_method_is_in_the_table_with_its_file_and_a_command_that_is_understood():
    methods = script("methods")
    assert methods.with_methods(README) == README, "run `python docs/methods.py`"
    for _, name, file, command in methods.rows():
        assert (ROOT / file).is_file(), name
        parser().parse_args(shlex.split(command))


def test_every_command_of_the_readme_is_understood():
    known = {"COMMAND`."} | set(next(action for action in parser()._actions if action.dest == "command").choices)
    named = set(re.findall(r"python -m engine (\S+)", README))
    assert named and named <= known
    assert {"run", "test"} <= set(re.findall(r"make (\w+)", README))


def test_requirements_are_pinned():
    for name in ("requirements.txt", "requirements-dev.txt"):
        lines = [line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")]
        assert lines and all(re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9.+]+", line) for line in lines), name
