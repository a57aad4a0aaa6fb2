"""A change of code that changes numbers is never answered by an old run; embedded runs whose model
is here lie under their present ids."""

import importlib
import inspect
import json
import pkgutil
import sys
from dataclasses import replace

import pytest

from engine.audit.fields import fields_of
from engine.audit.measurements import Measurement
from engine.audit.request import versions_of
from engine.audit.tracks import request_from, track_of_meta, tracks
from engine.classifiers import images as dense
from engine.classifiers.images.request import ImagePlan
from engine.core.discover import members, modules
from engine.store.runs import EMBEDDED, Run, Store
from tests.places import DEMOS

RUNS = list(DEMOS)


def meta_of(folder):
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def plan_of(folder):
    """The plan of what an embedded run was asked."""
    meta = meta_of(folder)
    return track_of_meta(meta).part("validate")(
        request_from(meta["request"] | {"track": meta["track"]})
    )


@pytest.fixture(scope="module", params=tracks())
def plan(request):
    """Of the first embedded audit of every track."""
    return plan_of(next(run for run in RUNS if track_of_meta(meta_of(run)).name == request.param))


@pytest.mark.contract
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_embedded_runs_are_found_under_their_present_ids(run):
    assert plan_of(run).run_id == run.name
    assert Store(EMBEDDED, read_only=True).has(run.name) and Run(run).meta["id"] == run.name


def test_of_every_kind_of_code_that_has_a_version_something_is_in_the_id(plan, monkeypatch):
    """Kinds are found in the track's folders, not asked of the plan, so one that the plan forgets
    is missed here; of measurements all must be there, of methods those that compute
    (tests/tracks/NAME/test_request.py says which).
    """
    parts, found = list(parts_of(plan, monkeypatch).values()), versioned(plan)
    assert len(found) > 1 and found[Measurement], "methods have versions too"
    every = list(parts_of(asking_all(plan), monkeypatch).values())
    for kind, names in found.items():
        named = {part.name for part in parts if isinstance(part, kind)}
        assert named <= names and (kind is not Measurement or named == names), kind
        assert any(isinstance(part, kind) for part in every), kind


def asking_all(plan):
    """The plan with every method there is."""
    field = next(one for one in fields_of(type(plan.request)) if one.name == "methods")
    known = field.known() if field.known else plan.request.methods
    return replace(plan, request=replace(plan.request, methods=tuple(known)))


def test_raising_the_version_of_anything_that_computes_a_run_makes_it_stale(plan, monkeypatch):
    """Of the audit itself, of every measurement, and of every method that the request names: raised
    where the code says it, the version leads to a new id, and no two lead to the same."""
    parts, module = parts_of(plan, monkeypatch), sys.modules[type(plan).__module__]
    assert set(plan.versions) == {"audit", *(f"{kind} {name}" for kind, name in parts)}
    ids = [plan.run_id]
    for part in parts.values():
        ids.append(with_raised(part, plan, monkeypatch))
    with monkeypatch.context() as patch:
        patch.setattr(module, "CODE", module.CODE + 1)
        ids.append(plan.run_id)
    assert len(set(ids)) == len(parts) + 2 and plan.run_id == ids[0]


def test_a_method_that_is_not_asked_for_touches_no_run(plan, monkeypatch):
    """As if it did not exist: its version is not in the id."""
    named = {f"{kind} {name}" for kind, name in parts_of(plan, monkeypatch)}
    asked = list(plan.request.methods)
    fewer = replace(plan, request=replace(plan.request, methods=tuple(asked[:1])))
    assert set(fewer.versions) <= named | {"audit"} and fewer.run_id != plan.run_id
    assert len(asked) == 1 or set(fewer.versions) < set(plan.versions)


def versioned(plan):
    """Names of the members of every kind of thing with a version: measurements, and the kinds that
    are declared below the track's package. Those that came later count where they are asked for,
    which embedded audits do not.
    """
    folders = packages_of(type(plan).__module__.rpartition(".")[0])
    folders += [dense] if isinstance(plan, ImagePlan) else []
    declared = [
        one for folder in folders for module in modules(folder) for one in vars(module).values()
    ]
    kinds = {
        one
        for one in declared
        if inspect.isclass(one) and inspect.isabstract(one) and "version" in vars(one)
    }
    every = {
        kind: [one for folder in folders for one in members(folder, kind)]
        for kind in {*kinds, Measurement}
    }
    found = {
        kind: {
            one.name for one in those if isinstance(one, kind) and not getattr(one, "later", False)
        }
        for kind, those in every.items()
    }
    return {kind: names for kind, names in found.items() if names}


def packages_of(name):
    """A package and all packages below it, imported."""
    package = importlib.import_module(name)
    below = [
        info.name for info in pkgutil.walk_packages(package.__path__, f"{name}.") if info.ispkg
    ]
    return [package, *map(importlib.import_module, below)]


def parts_of(plan, monkeypatch):
    """Everything whose version is in the plan's id, by kind and name."""
    found = {}

    def noted(audit, **parts):
        found.update(
            {(kind, name): part for kind, named in parts.items() for name, part in named.items()}
        )
        return versions_of(audit, **parts)

    with monkeypatch.context() as patch:
        patch.setattr(sys.modules[type(plan).__module__], "versions_of", noted)
        assert plan.versions
    return found


def with_raised(part, plan, monkeypatch):
    """The plan's id while the version of a part is one higher: of its class, or its own where it is
    a row."""
    with monkeypatch.context() as patch:
        if "version" in vars(part):
            patch.setitem(vars(part), "version", part.version + 1)
        else:
            patch.setattr(type(part), "version", part.version + 1)
        return plan.run_id


def test_a_changed_default_of_a_method_is_a_new_run(plan, monkeypatch):
    """Of every declared setting of every method in use, where the request leaves it open."""
    bare = replace(plan, request=replace(plan.request, **left_open(plan.request)))
    parts = [part for part in parts_of(bare, monkeypatch).values() if is_asked(part, bare)]
    assert parts
    for part in parts:
        changed = tuple(replace(one, default=other_than(one)) for one in part.settings)
        with monkeypatch.context() as patch:
            old = bare.run_id
            if "settings" in vars(part):
                patch.setitem(vars(part), "settings", changed)
            else:
                patch.setattr(type(part), "settings", changed)
            assert bare.run_id != old, part.name


def left_open(request):
    """Nothing said of any method's settings."""
    return {
        field.name: {} for field in fields_of(type(request)) if field.kind.startswith("settings")
    }


def is_asked(part, plan):
    """Whether the plan writes the part's settings out: a method whose code another uses takes that
    one's."""
    told = [plan.spelled_out()[name] for name in left_open(plan.request)]
    wanted = {setting.name for setting in getattr(part, "settings", ())}
    return bool(wanted) and any(wanted in (set(one), set(one.get(part.name, ()))) for one in told)


def other_than(setting):
    """Another value than the default."""
    if setting.kind == "choice":
        return next(choice for choice in setting.choices if choice != setting.default)
    return (not setting.default) if setting.kind == "flag" else setting.default + 1
