"""Every page with the run of a text classifier: alone and through app.py, with hostile names and
texts."""

import json

import pandas as pd
import pytest

from engine.report.charts import lookup
from engine.report.contents import default_choice
from engine.store.runs import Store
from tests.pages.checks import (
    assert_calm,
    charts_of,
    html_of,
    opened,
    use_store,
)
from tests.tracks.text_classifiers.made_up_run import make_run

TEXT_RUN = "text-run"


@pytest.fixture(scope="module")
def texts_store(tmp_path_factory):
    """A run, and the same model on another task."""
    folder = tmp_path_factory.mktemp("texts")
    make_run(folder, TEXT_RUN)
    more = {"title": "Another task", "stream": 4, "sparsities": (0.5,)}
    make_run(folder, "other-task", task="other remarks", **more)
    return folder


@pytest.fixture
def texts(texts_store, monkeypatch):
    return use_store(texts_store, monkeypatch)


def test_texts_that_changed_class_stand_on_both_sides_and_come_only_when_asked(texts):
    """Counted from the stored answers, of the seed's own full model where there is one."""
    run = Store(texts).open(TEXT_RUN)
    choice = default_choice(run)
    variant = f"{lookup.variant_of(run, choice)['variant']}#0"
    stored = run.table("predictions").set_index("text_id")
    uncut = "dense#0" if (stored["variant"] == "dense#0").any() else "dense"
    sides = run.table("texts").set_index("text_id")[["label", "text"]]
    for name in (uncut, variant):
        answers = stored[stored["variant"] == name].filter(regex="^p_")
        sides[name] = answers.to_numpy().argmax(axis=1)[answers.index.get_indexer(sides.index)]
    wrong = sides[(sides[uncut] == sides["label"]) & (sides[variant] != sides["label"])]
    right = sides[(sides[uncut] != sides["label"]) & (sides[variant] == sides["label"])]
    assert len(wrong), "else nothing is counted here"
    at = opened("examples", TEXT_RUN)
    said = " ".join(item.value for item in at.header)
    assert f"Newly wrong: {len(wrong)} text" in said and f"Newly right: {len(right)} text" in said
    assert not any(text in html_of(at) for text in sides["text"])
    at.toggle(key="show_all_texts").set_value(True).run()
    assert_calm(at)
    assert any(text in html_of(at) for text in wrong["text"])


@pytest.mark.parametrize(
    ("tab", "charts"), [("Who", 4), ("Which heads", 6), ("Iterations", 1), ("Tasks", 1)]
)
def test_every_chart_of_the_tickets_page_is_there(texts, tab, charts):
    assert len(charts_of(opened("tickets", run=TEXT_RUN, tab=tab))) == charts


def test_a_table_taken_from_a_page_runs_no_formula(monkeypatch):
    from engine.report.charts.panel import Panel
    from pages.shared import panels

    files = {}
    monkeypatch.setattr(
        panels.st,
        "download_button",
        lambda label, data, name, *rest, **more: files.update({name: data}),
    )
    table = pd.DataFrame({"subgroup": ["=HYPERLINK(1)", "fair"], "change": [-0.5, 1.0]})
    panels._files(Panel("made_up", "Who?", "One.", None, table, ""), "made_up")
    assert files["made_up.csv"].decode().splitlines() == [
        "subgroup,change",
        "'=HYPERLINK(1),-0.5",
        "fair,1.0",
    ]


def test_the_words_of_a_text_come_only_when_asked(texts):
    at = opened("heads", run=TEXT_RUN, tab="Lens", show_text="true")
    drawn = json.dumps(charts_of(at))
    assert "keeper" not in html_of(at) and "keeper" not in drawn and "pa-veil" in html_of(at)
    at.toggle(key="show_text").set_value(True).run()
    assert_calm(at)
    assert "the keeper of the mill" in html_of(at) and "keeper" in json.dumps(charts_of(at))
    second = at.selectbox(key="text").options
    assert len(second) == 3 and all("keeper" not in option for option in second)
    at.selectbox(key="text").set_value(_ids(at)[1]).run()
    assert_calm(at)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html_of(at) and "<script" not in html_of(at)
    assert "\u202e" not in html_of(at) + json.dumps(charts_of(at), ensure_ascii=False)
    assert "<script" not in json.dumps(charts_of(at))


def _ids(at):
    from engine.tracks.text_classifiers.panels import lens as tickets_lens
    from pages.shared import cache

    return tickets_lens.examples(cache.open_run(TEXT_RUN))["text_id"].tolist()


def test_importance_of_a_group_and_of_one_head(texts):
    at = opened("heads", run=TEXT_RUN)
    assert at.selectbox(key="score").value == "conductance" and len(charts_of(at)) == 2 + 1
    first = html_of(at)
    at.selectbox(key="texts_of").set_value("short").run()
    assert_calm(at)
    assert html_of(at) != first
    at.selectbox(key="head").set_value(13).run()
    assert_calm(at)
    assert "fine-tuned" in str([table.value.to_dict() for table in at.dataframe])
