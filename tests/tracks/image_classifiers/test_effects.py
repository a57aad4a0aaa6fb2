"""What filters do alone: as if cut for real, summed by hand, shown, and not predicted from where
sums do not serve."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from engine.audit.jobs import check
from engine.audit.request import Growth
from engine.audit.session import plan_of
from engine.core.errors import RequestError
from engine.report.charts.panel import Choice
from engine.store.runs import Store, read_addition, write_addition
from engine.surgery.filters.graph import cut_filters, with_weights
from engine.tracks.image_classifiers import run as audit
from engine.tracks.image_classifiers.effects import Sums, ahead_of_set, nothing_said, sums_of
from engine.training.fit import probabilities
from tests.pages.checks import assert_calm, html_of, measured_by, opened, use_store, words_of
from tests.tracks.image_classifiers.worlds import image_request

CHOICE = Choice("magnitude", "class", 2.0, reading="auc")


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    request = image_request(methods=("magnitude",), speedups=(2.0,), trials=1)
    return audit.run_image_audit(request, Store(tmp_path_factory.mktemp("store")))


@pytest.fixture(scope="module")
def grown(before):
    return audit.grow(asked(before), Store(before.path.parent.parent))


def asked(run, **more):
    return Growth(
        **{"track": "image_classifiers", "run": run.id, "axis": "class", "effects": True, **more}
    )


def test_a_filter_alone_does_what_its_cut_does_for_real(grown):
    plan = plan_of(grown)
    context = audit.context_of(plan)
    dense = with_weights(context.start, audit.kept_weights(grown, "dense"))
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
            half = 1.96 * change[mine].std(ddof=1) / mine.sum() ** 0.5
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
        check(asked(grown, units=(0,)), store)
    with pytest.raises(RequestError, match="axis"):
        check(asked(grown, axis="age"), store)
    with pytest.raises(RequestError, match="effects"):
        asked(grown, effects=1)
    assert len(audit.grow(asked(grown), store).additions) == 1
    assert all(len(json.loads(cut)) > 1 for cut in grown.table("effect_sets")["cut"])


def test_pages_measure_what_filters_do_and_show_and_predict_it(grown, tmp_path, monkeypatch):
    """The store holds what was measured, and no addition yet: a killed measuring goes on there."""
    before, whole = grown, grown.path.parent.parent
    shutil.copytree(whole, tmp_path / "s", ignore=shutil.ignore_patterns("additions"))
    use_store(tmp_path / "s", monkeypatch)
    at = measured_by(opened("filters", before.id, tab="Scores"), "Measure what each does alone")
    at.selectbox(key="effect").set_value("3").run()
    assert_calm(at)
    assert "What does each filter do to 3 when it is cut alone?" in words_of(at)
    assert "clearly lower the log-probability of the right class for a subgroup of" in html_of(
        at
    ) + words_of(at)
    at = opened("bench", before.id, off="conv1.0-1")
    assert_calm(at)
    assert "is the sum of what each does alone" in html_of(at)
