"""Filters chosen by hand join a finished audit: masked and not retrained, tried before test,
verified, exported."""

import numpy as np
import pytest

from engine.audit.jobs import check
from engine.audit.request import Growth
from engine.core.errors import RequestError
from engine.resident.asks import answer_here
from engine.store.runs import Store
from engine.surgery.named import filter_units, widths_of, written_filters
from engine.tracks.image_classifiers.run import grow, run_image_audit
from tests.pages.checks import assert_calm, html_of, opened, use_store, words_of
from tests.tracks.image_classifiers.worlds import image_request

UNITS = (0, 1, 5)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """It fitted its dense model itself, so its weights are the run's."""
    request = image_request(methods=("magnitude",), speedups=(2.0,), trials=1)
    return run_image_audit(request, Store(tmp_path_factory.mktemp("store")))


@pytest.fixture
def store(copy, tmp_path):
    return Store(tmp_path)


def growth(run, **asked):
    axis = run.meta["request"]["axes"][0]
    return Growth(
        **{"track": "image_classifiers", "run": run.id, "axis": axis, "units": UNITS, **asked}
    )


def test_answers_are_those_of_the_model_with_these_filters_cut_for_real(run, store):
    found = grow(growth(run, split="test"), store)
    name = next(
        name
        for name in found.table("variants")["variant"]
        if name.startswith("by-hand-") and "#" not in name
    )
    costs = found.table("costs").set_index("variant")
    assert costs.loc[name, "agrees"] and costs.loc[name, "max_logit_difference"] < 1e-3
    answers = found.table("predictions").set_index("variant")
    columns = [column for column in answers if column.startswith("p_")]
    np.testing.assert_allclose(answers.loc[f"{name}#0", columns].sum(axis=1), 1.0, atol=1e-5)
    assert not np.allclose(answers.loc[f"{name}#0", columns], answers.loc["dense", columns])
    image = found.table("thumbs")["image_id"].iat[0]
    asked = answer_here(
        "picture", {"run": run.id, "image": image, "variant": name, "way": "grad-cam"}, store
    )
    mine = answers.loc[f"{name}#0"].set_index("image_id").loc[image, columns].astype(float)
    np.testing.assert_allclose(asked["pruned"]["probabilities"], mine, atol=1e-3)
    assert any("was not trained again" in note for note in asked["notes"])


def test_filters_are_named_by_layer_and_ranges_and_read_back(run):
    widths = widths_of(run)
    first = widths[0][0]
    assert filter_units(run, f"{first}.0-1, {widths[1][0]}.1") == (0, 1, widths[0][1] + 1)
    assert written_filters(run, (0, 1, 3)) == f"{first}.0-1_3"
    for units in (UNITS, (0, 1, 3), (), tuple(range(1, widths[0][1]))):
        assert filter_units(run, written_filters(run, units)) == units
    for wrong, words in (
        (f"{first}.999", "no filter of this model"),
        ("nowhere.1", "no filter"),
        ("1-0", "no filter"),
        (f"{first}.0,{first}.0", "named twice"),
        (f"{first}.0-{widths[0][1] - 1}", "every filter of"),
        ("<b>", "no filter"),
    ):
        with pytest.raises(RequestError, match=words):
            filter_units(run, wrong)


def test_a_level_between_those_that_were_trained_is_refused(run, store):
    with pytest.raises(RequestError, match="one level more"):
        check(growth(run, units=(), level=2.0, method="random"), store)


def test_filters_are_switched_on_the_page(run, store, monkeypatch):
    use_store(store.root, monkeypatch)
    at = opened("bench", run.id, off=f"{widths_of(run)[0][0]}.0-1")
    assert_calm(at)
    assert "No prediction here" in html_of(at)
    assert len(at.slider) == len(widths_of(run))
    at.slider[0].set_value(1)  # two quick moves come in one run: both count
    at.slider[1].set_value(1).run()
    assert_calm(at)
    assert "2 filters of" in html_of(at) + words_of(at)
