"""Bias benchmarks on screen and in files: answers from data, a reading of the trade-off, a fold
that measures one, examples that stay hidden, texts that are escaped."""

from dataclasses import replace

import pandas as pd
import pytest

from engine.report.bundle import HIDDEN, export_run
from engine.report.charts import compare, lookup
from engine.report.contents import default_choice, shared_panels
from engine.report.tracks import benchmarks_of
from engine.store.runs import Run, Store, find_run
from engine.tracks.language_models.growing import grow
from engine.tracks.language_models.panels import benchmarks as panel
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
from tests.tracks.language_models.worlds import growth, write_pairs

HOSTILE = "<img src=x onerror=alert(1)>"


def hostile_pairs(folder, n=120):
    pairs = ((at % 20, at % 7, at % 2) for at in range(n) if at % 20 != at % 7)
    rows = [
        (f"w{a} w{b} w2 {HOSTILE}", f"w{b} w{a} w2 {HOSTILE} ", HOSTILE if odd else "gender")
        for a, b, odd in pairs
    ]
    return write_pairs(folder, rows)


@pytest.fixture(scope="module")
def folder(audited, tmp_path_factory, words_judged_here):
    return audited.copied(tmp_path_factory.mktemp("world") / "store").root


@pytest.fixture(scope="module")
def grown(folder, words_judged_here) -> Run:
    store = Store(folder)
    pairs = f"crows_pairs={hostile_pairs(folder)}"
    return grow(growth(store.open(store.ids()[0]), benchmarks=(pairs,)), store)


@pytest.fixture
def here(folder, monkeypatch):
    return use_store(folder, monkeypatch)


def test_a_benchmark_is_asked_for_on_the_trade_off_and_joins_the_audit(
    audited, tmp_path, monkeypatch, words_judged
):
    store = audited.copied(tmp_path / "store")
    use_store(store.root, monkeypatch)
    monkeypatch.setenv("PRUNEAUDIT_ROOTS", str(tmp_path))
    at = opened("trade_off", audited.run.id)
    assert not [one for one in at.segmented_control if one.key == "reading"]
    at.session_state["fold_benchmark"] = True
    at.run()
    next(box for box in at.selectbox if box.label == "Benchmark").set_value("crows_pairs").run()
    path = next(box for box in at.text_input if "CrowS-Pairs" in box.label)
    path.set_value(str(tmp_path / "none.csv")).run()
    click(at, "Measure CrowS")
    from pages.shared.jobs import WORKS

    assert all(work.over.wait(60) for work in WORKS.values())
    assert "no such file" in " ".join(one.value for one in at.run().error)
    next(box for box in at.text_input if "CrowS-Pairs" in box.label).set_value(
        str(hostile_pairs(tmp_path))
    ).run()
    at = measured_by(at, "Measure CrowS-Pairs")
    assert find_run(audited.run.id, [store]).has("benchmarks")
    assert [one for one in at.segmented_control if one.key == "reading"]


def test_a_benchmark_is_a_reading_and_a_fold_of_the_trade_off(grown, here):
    at = opened("trade_off", grown.id, reading="CrowS-Pairs")
    assert_calm(at)
    assert "one-sidedness (CrowS-Pairs)" in words_of(at) + str(charts_of(at))
    at.session_state["fold_crows_pairs"] = True
    at.run()
    assert_calm(at)
    assert "does the model find the stereotype likelier?" in words_of(
        at
    ) and HOSTILE not in html_of(at)
    assert HOSTILE not in str(charts_of(at))


def test_items_whose_answer_changed_are_hidden_until_asked_for_and_escaped(grown, here):
    own, rows = benchmarks_of(grown), lookup.reported(grown).to_dict("records")
    choices = [replace(default_choice(grown, variant=row["variant"]), variant="") for row in rows]
    most = max(choices, key=lambda one: len(own.changed(grown, one, "crows_pairs").table))
    table = own.changed(grown, most, "crows_pairs").table
    total = len(lookup.frame(grown, "benchmark_items")) // 2
    assert len(table) and (table["before"] != table["after"]).all()
    at = opened(
        "examples",
        grown.id,
        tab="benchmarks",
        axis=most.axis.capitalize(),
        method=most.method,
        sparsity=f"{100 * most.level:.0f} %",
    )
    assert_calm(at)
    assert f"{len(table)} of {total} pairs are answered otherwise" in words_of(at)
    assert "w2 &lt;img" not in html_of(at) and HOSTILE not in html_of(at)
    at.toggle(key="show_all_texts").set_value(True).run()
    assert_calm(at)
    shown = html_of(at)
    assert "w2 &lt;img src=x onerror" in shown and HOSTILE not in shown


def test_answers_are_compared_only_with_a_dense_model_that_was_measured(grown, monkeypatch):
    read = panel.stored
    monkeypatch.setattr(
        panel, "stored", lambda run, one, name: None if name == "dense" else read(run, one, name)
    )
    found = benchmarks_of(grown).changed(grown, default_choice(grown), "crows_pairs")
    assert found.table.empty and "was not measured on CrowS-Pairs" in found.said


def test_the_panel_answers_from_its_table(grown):
    choice = default_choice(grown)
    panel = next(one for one in shared_panels(grown, choice) if one.key == "benchmark_crows_pairs")
    share = panel.table[
        (panel.table["measure"] == "stereotype likelier") & (panel.table["kind of bias"] == "all")
    ]
    assert f"{share['value'].iloc[0]:.3g}" in panel.answer and "95 % interval" in panel.answer
    assert panel.has_chart and "Blodgett" in panel.caveat and "Benjamini" in panel.caveat
    dense = benchmarks_of(grown).panel(grown, default_choice(grown, variant="dense"), "crows_pairs")
    assert " pairs." in dense.answer and "uncut" in dense.answer
    none = benchmarks_of(grown).panel(grown, choice, "bbq")
    assert not none.has_chart and "not measured on BBQ" in none.answer


def test_audits_on_other_files_of_a_benchmark_are_compared_with_a_warning(
    audited, grown, tmp_path, words_judged
):
    store = audited.copied(tmp_path / "store")
    pairs = f"crows_pairs={hostile_pairs(tmp_path, n=100)}"
    other = grow(growth(audited.run, benchmarks=(pairs,)), store)
    assert (
        compare.comparability([grown, grown])[1]
        == []
        == compare.comparability([grown, audited.run])[1]
    )
    assert compare.comparability([grown, other])[1] == [
        "Another file of CrowS-Pairs: its numbers are of other items."
    ]


def test_texts_of_benchmarks_stay_out_of_an_export_until_asked_for(grown, tmp_path):
    export_run(grown, tmp_path / "out", ["tables", "report"])
    found = pd.read_parquet(next((tmp_path / "out").rglob("benchmark_items.parquet")))
    assert set(found["text"]) == {HIDDEN} and len(found)
    report = next((tmp_path / "out").rglob("*.html")).read_text(encoding="utf-8")
    assert "CrowS-Pairs" in report and HOSTILE not in report
