"""Methods of every track, found by being in their folder: each says what it is and takes."""

import importlib
import inspect
import re

import pytest

from tests.builders import assert_torch_stays_out
from tests.places import ROOT

STATED = (
    "engine.audit.tracks",
    "engine.store.sealed",
    "engine.surgery.heads.replay",
    "engine.surgery.record",
    "engine.training.recipe",
)


def finders():
    """Whatever a package of a track, or its `base.py`, finds with `members` or `named`; those of
    measurements load torch."""
    folder = ROOT / "engine" / "tracks"
    for path in sorted([*folder.rglob("base.py"), *folder.rglob("__init__.py")]):
        if path.parent.name == "measurements":
            continue
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for function in filter(callable, [*vars(importlib.import_module(name)).values()]):
            own = inspect.isroutine(inspect.unwrap(function)) and function.__module__ == name
            if not own or inspect.signature(function).parameters:
                continue
            if re.search(r"\b(members|named)\(", inspect.getsource(function)):
                yield function


def methods():
    """What is found, with the folder it is of."""
    found = []
    for function in finders():
        kind, every = function.__module__.removesuffix(".base").rpartition(".")[2], function()
        every = every.values() if isinstance(every, dict) else every
        found += [pytest.param(one, id=f"{kind}-{one.name}") for one in every]
    return found


@pytest.mark.parametrize("method", methods())
def test_a_method_says_what_it_is(method):
    assert method.name.replace("-", "_").isidentifier() and type(method).__doc__
    version = getattr(method, "version", 1)
    assert isinstance(version, int) and version >= 1
    settings = getattr(method, "settings", ())
    for setting in settings:
        assert setting.allows(setting.default) and setting.help and setting.name.isidentifier()
    assert len({setting.name for setting in settings}) == len(settings)


def test_methods_of_every_kind_are_found():
    kinds = {one.id.partition("-")[0] for one in methods()}
    assert len(kinds) >= 2 and len(methods()) > 10 * len(kinds)


def test_what_there_is_is_stated_without_torch():
    """In a process of its own: forms, lists and the command line begin at once."""
    asked = [f"import {one.__module__} as here; here.{one.__name__}()" for one in finders()]
    asked += ["import engine.audit.experiments; engine.audit.experiments.experiments()"]
    asked += [f"import {name}" for name in STATED]
    assert_torch_stays_out(*asked)
