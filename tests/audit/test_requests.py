"""Requests of every track: JSON and words and back, equal ones are one run and one job, and
whatever counts makes another run. All that is wrong is named at once, each with what would do."""

import json
import shlex
from dataclasses import replace
from functools import cache

import pytest

from engine.audit.command_line import command_of
from engine.audit.fields import fields_of, values_of
from engine.audit.jobs import job_id_of
from engine.audit.tracks import request_from, track_of_request, tracks
from engine.core.errors import RequestError
from tests.audit.run_checks import smallest_request
from tests.made_up import small
from tests.places import ROOT

HELD = {"device"}
"""What counts though no other value of it can be tried on every machine."""
SILENT = {"title", "restart", "experiment"}
"""What changes no number."""
ALWAYS = {"first_seed", "seeds", "trials", "methods", "step", "iterations"}
"""Of these some other value always holds up."""


@pytest.fixture(scope="module", params=tracks())
def request_(request, tmp_path_factory):
    """The request of the smallest audit of a track."""
    return smallest_request(request.param, tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def plan(request_):
    return validated(request_)


def validated(request):
    return track_of_request(request).part("validate")(request)


def others(field, value, request):
    """Values that may be allowed in place of this one; settings of methods that are asked."""
    if field.kind in ("integer", "number"):
        given = value if isinstance(value, int | float) else field.default
        start = given if isinstance(given, int | float) else field.minimum or 1
        yield from (start + 1, start / 2, start * 2)
    elif field.kind == "numbers":
        yield from ([*value, 0.3], [*value, 3.0], [*value, 0.6])
    elif field.kind == "flag":
        yield from (True, False)
    elif field.kind == "choice":
        yield from field.choices
    elif field.kind in ("names", "product") and len(value) > 1:
        yield value[1:]
    elif field.kind == "pairs":
        yield from ({**(value or {}), name: 2} for name in ("batch", "epochs"))
    elif field.kind == "changes":
        yield from ([{"name": name}] for name in field.of({}))
    elif field.kind == "settings per method":
        for name, declared in field.of(values_of(request)).items():
            for one in declared if any(name in method for method in request.methods) else ():
                yield from ({name: {one.name: new}} for new in others(one, one.default, request))


def test_it_goes_to_json_and_back_and_knows_its_track(request_):
    kind, value = type(request_), json.loads(json.dumps(request_.to_dict()))
    assert value["track"] == kind.track == track_of_request(request_).name
    assert request_from(value) == kind.from_dict(value) == request_
    assert request_from(value).to_dict() == value
    with pytest.raises(RequestError, match="'colour' is not known") as caught:
        kind.from_dict({"colour": 1})
    needed = [field.name for field in fields_of(kind) if field.required]
    assert all(f"{name} is missing" in str(caught.value) for name in needed)
    with pytest.raises(RequestError, match=f"'words' is not known. Known: .*{kind.track}"):
        request_from({"track": "words"})


def test_equal_requests_in_other_words_are_one_run_and_one_job(request_, plan):
    named = replace(request_, title="another", restart=True)
    assert named != request_ and job_id_of(named) == job_id_of(request_)
    spelled = request_from({**json.loads(json.dumps(plan.spelled_out())), "title": "x"})
    assert {validated(other).run_id for other in (named, spelled)} == {plan.run_id}
    if hasattr(request_, "data"):  # columns of a table, which are found in any capitals
        axes = (*(axis.upper() for axis in request_.axes), *request_.axes)
        capitals = replace(request_, axes=axes)
        assert validated(capitals).request.axes == request_.axes
        assert validated(capitals).run_id == plan.run_id


def test_every_field_that_counts_makes_another_run(request_, plan):
    """Other values are tried until one holds up. What lies in a place counts, not the place."""
    tried, fields = set(), fields_of(type(request_))
    assert {field.name for field in fields if field.counts == "no"} <= SILENT
    for field in fields:
        if field.counts != "value" or field.name in HELD:
            continue
        for value in others(field, getattr(request_, field.name), request_):
            other = replace(request_, **{field.name: value})
            try:
                found = validated(other)
            except RequestError:
                continue
            assert job_id_of(other) != job_id_of(request_) or other == request_, field.name
            if found.run_id != plan.run_id:
                tried.add(field.name)
                break
        else:
            assert field.name not in ALWAYS, field.name
    assert len(tried) >= 12, sorted(tried)


def test_words_say_the_request_or_nothing(tmp_path):
    said = 0
    for track in tracks():
        asked = {
            **small(track, tmp_path, f"of-{track}").meta["request"],
            "track": track,
            "title": "it's mine; rm -rf",
        }
        words = shlex.split(command_of(asked))
        if words:
            said += 1
            assert words[:4] == ["python", "-m", "engine", tracks()[track].word]
            assert "it's mine; rm -rf" in words, "quoted as one word"
    assert said, "some requests can be said"


def test_a_request_that_nobody_knows_has_no_words():
    assert (
        command_of({"track": "no_such_track"})
        == ""
        == command_of({"track": next(iter(tracks())), "odd": 1})
    )


def rows():
    """(track, changed fields, words that are said) of every row of every track's
    `wrong_requests.json`: fields of its smallest audit set to something wrong, and what is said."""
    found = []
    for track in tracks():
        table = ROOT / "tests" / "tracks" / track / "wrong_requests.json"
        for change, said in json.loads(table.read_text(encoding="utf-8")):
            found.append(pytest.param(track, change, said, id=f"{track}-{'-'.join(change)}"))
    return found


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The request of the smallest audit of a track, as JSON."""
    folder = tmp_path_factory.mktemp
    return cache(lambda track: smallest_request(track, folder(track)).to_dict())


@pytest.mark.parametrize(("track", "change", "said"), rows())
def test_what_is_wrong_is_named(sound, track, change, said):
    with pytest.raises(RequestError) as caught:
        request = request_from({**sound(track), **change})
        track_of_request(request).part("validate")(request)
    faults = [str(fault) for fault in caught.value.faults]
    assert [words for words in said if not any(words in one for one in faults)] == [], faults
    assert len(faults) == len(set(faults))


def test_every_track_has_a_row_of_many_faults():
    for track in tracks():
        assert max(len(said) for one, _, said in (row.values for row in rows()) if one == track) > 5
