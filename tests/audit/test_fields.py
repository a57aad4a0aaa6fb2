"""One declaration of a field: what it allows, what is wrong with a value, its option, its words,
its row."""

import argparse
import dataclasses
import math
import shlex
from dataclasses import dataclass
from typing import Any

import pytest

import engine
from engine.audit.command_line import add_options, request_of
from engine.audit.fields import asked, checked, fields_of, part, rows
from engine.audit.jobs import job_id_of
from engine.audit.request import Request
from engine.audit.session import begin, ended
from engine.audit.tracks import tracks
from engine.core.errors import RequestError
from engine.core.types import Setting
from engine.store.runs import Store
from tests.builders import faults_of

DEPTH = Setting("depth", "integer", 3, "How deep.", 1, 9)
UNLABELLED = ("product", "settings per method")
"""Each part, or method, has a label of its own."""
KNOWN = {"dig": (DEPTH,), "fill": ()}


@dataclass(frozen=True)
class Garden(Request):
    """A made-up request with a field of every kind."""

    place: str = asked(kind="source", metavar="PLACE", help="where", counts="content")
    tools: tuple[str, ...] = asked(
        ("dig",),
        kind="names",
        option="--tool",
        commas=True,
        known=lambda: list(KNOWN),
        where="tool",
        help="with what",
    )
    shares: tuple[float, ...] = asked(
        (0.5,),
        kind="numbers",
        option="--share",
        above=0.0,
        below=1.0,
        where="share",
        example="0.2,0.5",
    )
    beds: int = asked(2, kind="integer", minimum=1, maximum=9, help="how many")
    water: float | str = asked(1.0, kind="number", word="rain", minimum=0.0)
    most: int | None = asked(None, kind="integer", optional=True, minimum=5, metavar="N")
    fence: bool = asked(False, kind="flag", help="with a fence")
    shade: bool | None = asked(None, kind="flag", optional=True)
    birds: bool | None = asked(None, kind="flag", optional=True, option="--no-birds")
    soil: str = asked("loam", kind="choice", choices=("loam", "sand"))
    map: str | None = asked(None, kind="path", optional=True)
    settings: dict[str, dict[str, Any]] = asked(
        {}, kind="settings per method", option="--set", where="setting", of=lambda values: KNOWN
    )
    recipe: dict[str, Any] = asked({}, kind="pairs")
    pairs: tuple[str, ...] = asked(
        ("dig:loam",),
        kind="product",
        parts=(part("how", "names", ("dig",)), part("on", "names", ("loam",))),
        join=lambda parts: tuple(f"{how}:{on}" for how in parts[0] for on in parts[1]),
    )
    hidden: str = asked("", kind="text", option="", counts="no")

    track = "garden"


def read(words):
    """What a command line asks for."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_options(parser, fields_of(Garden))
    return request_of(parser.parse_args(shlex.split(words)), Garden)


def wrong(**values):
    return {
        fault.where: f"{fault.what} {fault.fix}" for fault in checked(Garden("here", **values))[1]
    }


def test_every_kind_is_read_from_its_option():
    found = read(
        "--place here --tool dig,fill --tool dig --share 0.2,0.5 --beds 4 --water rain --most 7"
        " --fence --no-shade --no-birds --soil sand --map /there/x --set dig.depth=5"
        " --recipe rate=0.1 --how dig --how fill --seed 3 --restart"
    )
    assert found == Garden(
        "here",
        ("dig", "fill"),
        (0.2, 0.5),
        4,
        "rain",
        7,
        True,
        False,
        False,
        "sand",
        "/there/x",
        {"dig": {"depth": 5}},
        {"rate": 0.1},
        ("dig:loam", "fill:loam"),
        first_seed=3,
        restart=True,
    )


def test_what_is_not_said_is_the_declared_default():
    assert read("--place here") == Garden("here")
    assert read("--place here --shade").shade is True


def test_all_that_cannot_be_read_is_told_together_by_option():
    with pytest.raises(RequestError) as error:
        read("--share a --beds many --water x --set depth=1 --recipe fast")
    told = {fault.where: fault.what for fault in error.value.faults}
    assert told == {
        "--share": "'a' is not a list of numbers.",
        "--beds": "'many' is no whole number.",
        "--water": "'x' is no number.",
        "--set": "'depth' names no method.",
        "--recipe": "'fast' is no NAME=VALUE.",
        "--place": "is missing.",
    }


@pytest.mark.parametrize(
    ("values", "where", "said"),
    [
        ({"tools": ("rake",)}, "tool", "'rake' is not known. Known: dig, fill."),
        ({"tools": ()}, "tool", "none is named. Known: dig, fill."),
        ({"tools": ("dig", "dig")}, "tool", "one is named twice. Name each once."),
        (
            {"shares": (0.5, 1.0)},
            "share",
            "1.0 is not allowed. Give numbers above 0 and below 1, such as 0.2,0.5.",
        ),
        (
            {"shares": (0.5, math.nan)},
            "share",
            "nan is not allowed. Give numbers above 0 and below 1",
        ),
        ({"beds": 0}, "beds", "0 is not allowed. Give a whole number from 1 to 9."),
        ({"water": math.inf}, "water", 'inf is not allowed. Give a number from 0, or "rain".'),
        ({"fence": "yes"}, "fence", "'yes' is not allowed. Give true or false."),
        ({"soil": "clay"}, "soil", "'clay' is not known. Known: loam, sand."),
        ({"settings": {"rake": {}}}, "setting", "'rake' is not known. Known: dig, fill."),
        ({"settings": {"dig": 3}}, "setting of dig", "3 is none. Give NAME=VALUE."),
        (
            {"settings": {"dig": {"width": 3}}},
            "setting of dig",
            "'width' is not known. Known: depth.",
        ),
        (
            {"settings": {"dig": {"depth": 0}}},
            "setting of dig, depth",
            "0 is not allowed. Give a whole number from 1 to 9.",
        ),
        ({"device": "tpu"}, "device", ""),
        # of another type, which is not looked into
        ({"tools": 5}, "tool", "5 is not allowed. Give a list of names."),
        ({"tools": ("dig", 5)}, "tool", "5 is not allowed. Give a list of names."),
        (
            {"shares": 0.5},
            "share",
            "0.5 is not allowed. Give numbers above 0 and below 1, such as 0.2,0.5.",
        ),
        ({"shares": (0.5, "x", None)}, "share", "None is not allowed."),
        ({"beds": math.nan}, "beds", "nan is not allowed. Give a whole number from 1 to 9."),
        ({"soil": ["loam"]}, "soil", "('loam',) is not allowed. Give one of loam, sand."),
        ({"map": 5}, "map", "5 is not allowed. Give a path."),
        ({"settings": 5}, "setting", "5 is not allowed. Give values by name, by method."),
        ({"recipe": "fast"}, "recipe", "'fast' is not allowed. Give values by name."),
        ({"pairs": ({},)}, "pairs", "{} is not allowed. Give a list of names."),
    ],
)
def test_what_is_wrong_is_named_by_the_field(values, where, said):
    found = wrong(**values)
    assert set(found) == {where} and found[where].startswith(said)


def test_numbers_and_lists_of_them_are_kept_in_one_way():
    found = Garden("here", shares=(0.5, 0.25, 0.5), water=2)
    assert found.shares == (0.25, 0.5) and isinstance(found.water, float)
    assert found == Garden("here", ["dig"], [0.5, 0.25], water=2.0), "a list is as good as a tuple"


def test_types_are_told_together_with_all_else_and_only_without_a_place_nothing_else():
    assert set(wrong(tools=5, beds=0, soil="clay")) == {"tool", "beds", "soil"}
    found = faults_of(checked, Garden(5, tools=5, beds=0))
    assert {fault.where for fault in found} == {"place", "tool"}
    assert set(wrong(tools=("rake", 5), shares=(0.5, "x", 2.0))) == {"tool", "share"}
    sound, faults = checked(Garden("here", shares=(0.5, "x", 2.0)))
    assert sound == Garden("here", shares=(0.5, 2.0)) and [fault.what[:3] for fault in faults] == [
        "'x'",
        "2.0",
    ]
    sound, faults = checked(Garden("here", tools=5, beds=4))
    assert sound == Garden("here", beds=4) and len(faults) == 1


def test_what_does_not_count_makes_no_other_request():
    """One declaration says so, for jobs, resuming and ids alike."""
    silent = {
        field.name: "x" if field.kind == "text" else True
        for field in fields_of(Garden)
        if field.counts == "no"
    }
    one, other = Garden("here"), dataclasses.replace(Garden("here"), **silent)
    assert silent.keys() == {"title", "restart", "hidden"} and one != other
    assert one.identity == other.identity and job_id_of(one) == job_id_of(other)
    assert job_id_of(one) != job_id_of(Garden("there")) and job_id_of(one) != job_id_of(
        Garden("here", beds=3)
    )


@dataclass(frozen=True)
class Bed:
    """A plan of a garden, as far as the guard asks."""

    request: Garden
    content: list[Any]


def test_a_request_that_begins_again_is_guarded_as_the_one_that_was_begun(tmp_path):
    store, one = Store(tmp_path), Garden("here", title="one")
    begin(store, Bed(one, ["clay"]))
    with pytest.raises(RequestError, match="data or weights changed|changed since"):
        begin(store, Bed(dataclasses.replace(one, title="other"), ["sand"]))
    begin(store, Bed(dataclasses.replace(one, restart=True), ["sand"]))
    begin(store, Bed(one, ["sand"]))
    ended(store, Bed(dataclasses.replace(one, restart=True), ["sand"]))
    assert not list((tmp_path / "begun").iterdir())


WRONG = (5, "x", None, math.nan, [{}], [None], {"x": {"y": [{}]}}, [[]])
"""What a notebook or a JSON file may say where something else is meant."""


def nowhere(track):
    """What a request of a track cannot do without, and nothing of it is there."""
    fields = fields_of(tracks()[track].part("request"))
    files = {field.name: "/no/such" for field in fields if field.kind in ("source", "path")}
    return files | {
        field.name: () for field in fields if field.required and field.name not in files
    }


@pytest.mark.parametrize("track", tracks())
def test_no_value_of_any_field_of_a_track_is_more_than_a_fault(track):
    """Every field with values of every type: faults, which name the field where its type is
    another."""
    kind, validate = tracks()[track].part("request"), tracks()[track].part("validate")
    for field in fields_of(kind):
        for value in WRONG:
            with pytest.raises(RequestError) as error:
                validate(kind.from_dict(nowhere(track) | {field.name: value}))
            request = kind.from_dict(nowhere(track) | {field.name: value})
            if field.type_faults(getattr(request, field.name)):
                assert field.called in {fault.where for fault in error.value.faults}, (
                    field.name,
                    value,
                )


@pytest.mark.parametrize("track", tracks())
def test_a_request_of_wrong_types_only_tells_all_of_them(track, tmp_path):
    """Also what lies there is looked at then, and no job is begun."""
    kind = tracks()[track].part("request")
    usable = [field for field in fields_of(kind) if not (field.required and field.kind == "source")]
    request = kind.from_dict(nowhere(track) | {field.name: {5: 5} for field in usable})
    found = faults_of(tracks()[track].part("validate"), request)
    assert {field.called for field in usable} <= {fault.where for fault in found}
    with pytest.raises(RequestError):
        engine.audit(request, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("track", tracks())
def test_every_field_of_a_track_is_declared_and_every_option_says_what_it_is(track):
    request = tracks()[track].part("request")
    assert {field.name for field in fields_of(request)} == {
        item.name for item in dataclasses.fields(request)
    }
    assert all(row["meaning"] for row in rows(request))
    assert all(
        field.label
        for field in fields_of(request)
        if field.section and field.kind not in UNLABELLED
    )
