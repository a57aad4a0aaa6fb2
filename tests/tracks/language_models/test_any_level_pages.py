"""Any level and any set of heads on screen: predicted at once, measured on the spot, part of the
audit from then on."""

import pytest

from engine.report import phrasing
from engine.report.bundle import export_run
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.tracks import prediction_of
from engine.store.runs import Run, Store, find_run
from engine.tracks.language_models.examples import pairs
from engine.tracks.language_models.growing import grow
from tests.builders import changed, parts_of
from tests.pages.checks import (
    assert_calm,
    charts_of,
    click,
    html_of,
    measured_by,
    opened,
    use_store,
    words_of,
)
from tests.tracks.language_models.made_up_run import make_run
from tests.tracks.language_models.worlds import growth

PREDICTED = "Predicted, not measured"


@pytest.fixture(scope="module")
def folder(audited, tmp_path_factory, words_judged_here):
    return audited.copied(tmp_path_factory.mktemp("world") / "store").root


@pytest.fixture
def run(folder, monkeypatch) -> Run:
    use_store(folder, monkeypatch)
    store = Store(folder)
    return find_run(store.ids()[0], [store])


def between(run: Run, method: str, axis: str) -> float:
    """A level that is not finished."""
    finished, stops = lookup.levels(run, method, axis), prediction_of(run).stops
    return next(level for level in stops(run, method, axis) if level not in finished)


def test_a_level_between_finished_ones_is_predicted_and_then_measured(run):
    axis = run.meta["request"]["axes"][0]
    at = opened("summary", run.id, axis=axis.capitalize())
    method = at.selectbox(key="method").value
    finished, new = lookup.levels(run, method, axis), between(run, method, axis)
    at.select_slider(key="sparsity").set_value(new).run()
    assert_calm(at)
    for said in (PREDICTED, "predicted</b>", "pa-measured"):  # numbers and dots, too
        assert said in html_of(at)
    assert "circle-open" in str(charts_of(at))
    measured_by(at, "Measure")
    assert PREDICTED not in html_of(at)
    again = find_run(run.id, [Store(run.path.parents[1])])
    assert lookup.levels(again, method, axis) == sorted([*finished, new])


def test_heads_are_switched_by_hand_predicted_and_measured_in_two_steps(run):
    """At a level that nobody measured."""
    at = opened("bench", run.id, off="0.1,2.3")
    axis, method = at.selectbox(key="axis").value, at.selectbox(key="method").value
    at.select_slider(key="sparsity").set_value(between(run, method, axis)).run()
    assert_calm(at)
    assert at.multiselect(key="off").value == [1, 11]
    assert PREDICTED in html_of(at)
    assert "prediction intervals: bias" in words_of(at).replace("\\", "")
    at.multiselect(key="off").set_value([1]).run()
    assert "1 head of 12 off" in words_of(at) or "1 head" in html_of(at)
    click(at, "Undo")
    assert at.multiselect(key="off").value == [1, 11]
    measured_by(at, "Measure on validation")
    assert "Does it do what was predicted?" in words_of(at)
    assert PREDICTED in html_of(at), "test prompts were not touched"
    measured_by(at, "Measure on test")
    assert PREDICTED not in html_of(at) and "a variant like any other" in words_of(at)
    assert "1 set tried by hand" in words_of(at)


def test_heads_that_a_method_cut_are_measured_already(run):
    axis = run.meta["request"]["axes"][0]
    method = lookup.methods(run, axis)[0]
    row = lookup.variant_of(run, Choice(method, axis, max(lookup.levels(run, method, axis))))
    heads = (divmod(unit, run.meta["model"]["n_heads"]) for unit in lookup.cut_units(row))
    cut = ",".join(f"{layer}.{head}" for layer, head in heads)
    at = opened("bench", run.id, axis=axis.capitalize(), off=cut)
    assert_calm(at)
    assert PREDICTED not in html_of(at) and "Measured on test prompts already" in words_of(at)


def test_heads_that_are_not_there_are_refused_in_words_and_the_page_serves(run):
    at = opened("bench", run.id, off="99.99")
    assert "outside 3 layers" in at.error[0].value and not at.exception
    at.text_input(key="pasted_heads").set_value("0.5, nonsense").run()
    click(at, "Switch these off")
    assert any("is no head" in error.value for error in at.error) and not at.exception
    assert at.multiselect(key="off").value == []
    at.multiselect(key="off").set_value([1]).run()
    assert not at.error and "1 head of 12 off" in words_of(at) + html_of(at)


def test_where_heads_are_not_ranked_nothing_is_predicted_and_a_set_can_still_be_measured(
    tmp_path, monkeypatch
):
    use_store(tmp_path, monkeypatch)
    ranked = make_run(tmp_path)
    scores = ranked.table("scores")
    value = scores["value"].mask(scores["score"] == "z_bias")
    run = changed(ranked, tmp_path, "scores", {"value": value})
    at = opened("bench", run.id, off="0.1")
    assert_calm(at)
    assert "No prediction here" in html_of(at) and PREDICTED not in html_of(at)
    assert any(one.label.startswith("Measure on validation") for one in at.button)


def test_a_protected_head_is_marked_and_not_among_those_a_method_cuts(run):
    at = opened("bench", run.id, method="Magnitude", sparsity="30 %")
    press = next(one for one in at.button if one.label.startswith("What "))
    press.click().run()
    plain = at.multiselect(key="off").value
    assert "protected by you" not in str(charts_of(at))
    at.multiselect(key="protected").set_value([plain[0]]).run()
    assert "protected by you" in str(
        charts_of(at)
    ) and "that you protect is off by hand" in words_of(at) + html_of(at)
    click(at, "What ")
    assert_calm(at)
    found = at.multiselect(key="off").value
    assert plain[0] not in found and len(found) == len(plain) and set(plain[1:]) < set(found)


def test_a_kept_set_is_a_variant_like_any_other_on_every_page_and_in_the_report(
    run, tmp_path, no_charts
):
    """Under its name and with its own numbers."""
    axis, store = run.meta["request"]["axes"][0], Store(run.path.parents[1])
    found = grow(growth(run, axis=axis, units=(2, 9), name="my own", split="test"), store)
    meta, tables = parts_of(run)
    store.write("zz-other", {**meta, "title": "another audit"}, tables)
    rows = lookup.reported(found).to_dict("records")
    row = next(one for one in rows if lookup.cut_units(one) == [2, 9])
    choice = Choice(row["method"], axis, float(row["sparsity"]))
    bias = phrasing.number(lookup.bias(found, row["variant"], choice)["value"])
    n = len(pairs(found, row["variant"], axis))
    chosen = {"axis": axis.capitalize(), "method": "By hand: my own", "sparsity": "16.7 %"}
    for page, told in (
        ("summary", bias),
        ("trade_off", "my own"),
        ("examples", f"{n} pairs of texts"),
        ("export", "my"),
        ("compare", "my own"),
    ):
        at = opened(page, run.id, **chosen)
        assert_calm(at)
        assert at.selectbox(key="method").value == row["method"], page
        assert told in html_of(at) + words_of(at) + str(charts_of(at)), page
    written = export_run(found, tmp_path, ("report", "masks"), False, row["variant"])
    html = next(path for path in written if path.suffix == ".html").read_text(encoding="utf-8")
    assert "my own" in html and bias in html and n
    assert any("my" in path.name for path in written if path.name.endswith("mask.json")), written
