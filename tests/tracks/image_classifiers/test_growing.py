"""Filters chosen by hand join a finished audit: masked and not retrained, tried before test,
verified, exported."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from scipy.stats import sem, t

from engine.audit.jobs import check
from engine.audit.request import Growth
from engine.audit.session import plan_of
from engine.core.errors import RequestError
from engine.report.charts.panel import Choice
from engine.resident.asks import answer_here
from engine.store.runs import Store, read_addition, write_addition
from engine.surgery.filters.graph import cut_filters, with_weights
from engine.surgery.named import filter_units, widths_of, written_filters
from engine.tracks.image_classifiers.effects import Sums, ahead_of_set, nothing_said, sums_of
from engine.tracks.image_classifiers.run import context_of, grow, kept_weights, run_image_audit
from engine.training.fit import probabilities
from tests.pages.checks import assert_calm, html_of, measured_by, opened, use_store, words_of
from tests.tracks.image_classifiers.worlds import image_request

UNITS = (0, 1, 5)
ALONE = {"units": (), "effects": True}
"""Asks what every filter does alone."""


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


def test_filters_are_switched_on_the_page(run, visit):
    at = visit("bench", off=f"{widths_of(run)[0][0]}.0-1")
    assert "No prediction here" in html_of(at)
    assert len(at.slider) == len(widths_of(run))
    at.slider[0].set_value(1)  # two quick moves come in one run: both count
    at.slider[1].set_value(1).run()
    assert_calm(at)
    assert "2 filters of" in html_of(at) + words_of(at)


# What filters do alone: as if cut for real, summed by hand, shown, and not predicted from where
# sums do not serve.


CHOICE = Choice("magnitude", "class", 2.0, reading="auc")


@pytest.fixture(scope="module")
def grown(run):
    return grow(growth(run, **ALONE), Store(run.path.parent.parent))


def test_a_filter_alone_does_what_its_cut_does_for_real(grown):
    plan = plan_of(grown)
    context = context_of(plan)
    dense = with_weights(context.start, kept_weights(grown, "dense"))
    rows, labels = context.rows("test"), context.labels("test")

    def log_probability(model):
        found = probabilities(model.model, rows, plan.images.read, model.prepared).numpy()
        return np.log(found[np.arange(len(labels)), labels])

    table = grown.table("effects").set_index(["unit", "group", "metric"]).sort_index()
    for unit in (0, 17, context.graph.total - 1):
        keep = np.ones(context.graph.total, dtype=bool)
        keep[unit] = False
        small, _ = cut_filters(dense, context.graph.mask(keep))
        change = log_probability(small) - log_probability(dense)
        for group, mine in (("", labels >= 0), ("3", labels == 3)):
            row = table.loc[(unit, group, "log_probability")]
            assert row["value"] == pytest.approx(change[mine].mean(), abs=1e-4)
            half = t.ppf(0.975, mine.sum() - 1) * sem(change[mine])
            assert row["high"] - row["value"] == pytest.approx(half, rel=1e-2, abs=1e-5)


def test_sums_and_their_ends_by_hand():
    """Two groups at .9 and .8; filter 0 costs the first .1, filter 1 the second .2."""
    views = pd.DataFrame(
        {
            "axis": "a",
            "group": ["one", "two", ""],
            "metric": ["auc", "auc", "auc_gap"],
            "n": 10,
            "dense": [0.9, 0.8, np.nan],
        }
    )
    alone, ends = np.array([[-0.1, 0.0], [0.0, -0.2]]), np.array([-1.0, -1.0, -2.0])
    sums = Sums(
        views, alone, [np.array([0, 1])], np.array([0.25, 0.25]), ends, -ends / 2, {"auc": 0.5}, {}
    )
    found = sums.guess((0, 1)).set_index("group")
    assert found["value"].tolist() == pytest.approx([0.8, 0.6, 0.2])
    assert found["delta"].tolist() == pytest.approx([-0.1, -0.2, 0.1])
    # widths: what both move, and a fifth of the mean effect for each: .12, .24, and their mean
    assert found["low"].tolist() == pytest.approx([0.68, 0.36, 0.0])
    assert found["delta_high"].tolist() == pytest.approx([-0.04, -0.08, 0.28])
    assert sums.guess((0,)).set_index("group")["value"].tolist() == pytest.approx([0.8, 0.8, 0.0])
    smaller = Sums(views, alone, sums.gaps, sums.shares, ends, -ends, {"auc": 0.25}, {})
    assert smaller.guess((0, 1)).empty, "larger than sums serve for"


def test_sums_that_say_no_more_than_no_change_are_not_shown(grown, tmp_path):
    shutil.copytree(grown.path, tmp_path / "runs" / grown.id)
    kept = read_addition(grown.additions[0])
    turned = kept.table("effect_sets")
    turned["value"] *= -1
    tables = {"effects": kept.table("effects"), "effect_sets": turned}
    write_addition(tmp_path, grown.id, kept.id, {**kept.meta, "keys": {}}, tables)
    other = Store(tmp_path).open(grown.id)
    assert sums_of(other).limits["auc"] == 0 and ahead_of_set(other, CHOICE, (0, 1)) is None
    assert "as “no change” does" in nothing_said(other, CHOICE)
    known = sums_of(grown)
    missed, still, sets = known.missed["auc"]
    assert missed < 0.75 * still and sets >= 39
    assert ahead_of_set(grown, CHOICE, (0, 1)) is not None
    every = tuple(range(1, 16)) + tuple(range(17, 32))
    assert ahead_of_set(grown, CHOICE, every) is None
    assert "serve for sets that take up to" in nothing_said(grown, CHOICE)


def test_asked_wrongly_it_is_refused_and_asked_twice_it_is_one(grown):
    store = Store(grown.path.parent.parent)
    with pytest.raises(RequestError, match="one of the two"):
        check(growth(grown, effects=True), store)
    with pytest.raises(RequestError, match="axis"):
        check(growth(grown, **ALONE, axis="age"), store)
    with pytest.raises(RequestError, match="effects"):
        growth(grown, effects=1)
    assert len(grow(growth(grown, **ALONE), store).additions) == 1
    assert all(len(json.loads(cut)) > 1 for cut in grown.table("effect_sets")["cut"])


def test_pages_measure_what_filters_do_and_show_and_predict_it(grown, tmp_path, monkeypatch):
    """The store holds what was measured, and no addition yet: a killed measuring goes on there."""
    whole = grown.path.parent.parent
    shutil.copytree(whole, tmp_path / "s", ignore=shutil.ignore_patterns("additions"))
    use_store(tmp_path / "s", monkeypatch)
    at = measured_by(opened("filters", grown.id, tab="Scores"), "Measure what each does alone")
    at.selectbox(key="effect").set_value("3").run()
    assert_calm(at)
    assert "What does each filter do to 3 when it is cut alone?" in words_of(at)
    assert "clearly lower the log-probability of the right class for a subgroup of" in html_of(
        at
    ) + words_of(at)
    at = opened("bench", grown.id, off="conv1.0-1")
    assert_calm(at)
    assert "is the sum of what each does alone" in html_of(at)
