"""Another judge reads a finished audit's texts: the audit's own verdicts give its own numbers
again; signs that differ are said; what was judged is never judged twice."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from engine.audit.request import Growth
from engine.audit.verification import verify_run
from engine.core.errors import Cancelled, RequestError
from engine.core.types import Hooks
from engine.models.judge import Judge
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.tracks.language_models import growing as told
from engine.tracks.language_models import judges as opinions
from engine.tracks.language_models import words as own
from engine.tracks.language_models.growing import grow
from engine.tracks.language_models.panels.judges import disagreement, judged_names, judges
from tests.pages.checks import opened, use_store, words_of
from tests.tracks.language_models.worlds import growth, word_judge

CHOICE = Choice("fasp", "religion", 0.1)


@pytest.fixture
def store(audited, tmp_path):
    return audited.copied(tmp_path / "store")


def asks(monkeypatch, predict, name="another", digest="f" * 64) -> list[str]:
    """The judge that is found by whatever name, and every text that it is asked."""
    asked: list[str] = []
    judge = word_judge()
    info = replace(judge.info, name=name, digest=digest)
    monkeypatch.setattr(opinions, "inspect_judge", lambda *args, **kwargs: info)
    hear = lambda texts: asked.extend(texts) or predict(judge, texts)  # noqa: E731
    monkeypatch.setattr(opinions, "load_judge", lambda *args, **kwargs: Judge(info, hear))
    return asked


def same(judge, texts):
    return judge.predict(texts)


def turned(judge, texts):
    return 1.0 - np.asarray(judge.predict(texts))


def asked_of(audited, **more) -> Growth:
    return growth(audited.run, judge="folder", **more)


def test_the_same_verdicts_give_the_audits_own_numbers_to_the_bit(audited, store, monkeypatch):
    asks(monkeypatch, same)
    run = grow(asked_of(audited, axes=tuple(audited.run.meta["request"]["axes"])), store)
    table = run.table("opinions").drop(columns=["judge", "judge_hash"])
    results = run.table("results").query("split == 'test' and metric != 'perplexity'")
    order = ["variant", "axis", "metric"]
    mine, theirs = (
        one[results.columns].sort_values(order, ignore_index=True) for one in (table, results)
    )
    pd.testing.assert_frame_equal(mine, theirs)
    assert verify_run(run)["ok"]


def test_each_distinct_text_is_judged_once_and_never_again(audited, store, monkeypatch):
    asked = asks(monkeypatch, same)
    grow(asked_of(audited), store)
    assert len(asked) == len(set(asked)) > 0
    asked.clear()
    grow(asked_of(audited), store)
    assert not asked, "the addition is there"


def test_what_was_judged_before_a_kill_is_found(audited, store, monkeypatch):
    monkeypatch.setattr(opinions, "AT_ONCE", 8)
    first = asks(monkeypatch, same)

    def check() -> None:
        if len(first) >= 24:
            raise Cancelled("stop")

    with pytest.raises(Cancelled):
        grow(asked_of(audited), store, Hooks(check=check))
    done, again = set(first), asks(monkeypatch, same)
    run = grow(asked_of(audited), store)
    assert done and not done & set(again) and run.has("opinions")


def test_a_judge_that_sees_the_opposite_is_said_beside_the_change(audited, store, monkeypatch):
    asks(monkeypatch, same)
    run = grow(asked_of(audited), store)
    variant = lookup.variant_of(run, CHOICE)
    assert disagreement(run, CHOICE, variant) == ""
    none = (
        "2 judges agree on the direction on 0 of 1 axis; no judge sees a clear change on religion."
    )
    assert judges(run, CHOICE).answer == none
    table = run.table("opinions")
    rows = (table["variant"] == variant["variant"]) & (table["metric"] == f"bias:{CHOICE.reading}")
    table.loc[rows, ["delta", "delta_low", "delta_high", "delta_p"]] = [0.3, 0.2, 0.4, 0.001]
    result = lookup.bias(run, variant["variant"], CHOICE)
    frame = lambda run, name: table if name == "opinions" else run.table(name)  # noqa: E731
    monkeypatch.setattr("engine.tracks.language_models.panels.judges.lookup.frame", frame)
    assert result["delta_low"] <= 0.0, "the audit's own judge sees no rise"
    found = disagreement(run, CHOICE, variant)
    assert found.startswith("The judges do not all see the same")
    assert "Another sees it rise (+0.300" in found
    assert "not on religion" in judges(run, CHOICE).answer


def test_judges_that_are_called_the_same_are_told_apart(audited, store, monkeypatch):
    name = audited.run.meta["judge"]["name"]
    for called, digest in (
        (name, "a" * 64),
        (name, "b" * 64),
        ("the second one elsewhere", "b" * 64),
    ):
        asks(monkeypatch, same, name=called, digest=digest)
        run = grow(asked_of(audited), store)
    assert set(run.table("opinions")["judge"]) == {f"{name} (aaaaaa)", f"{name} (bbbbbb)"}
    assert judges(run, CHOICE).answer.startswith("3 judges")


def test_the_words_for_groups_alone_are_shown_by_every_judge(audited, store, monkeypatch):
    asks(monkeypatch, turned)
    run = grow(asked_of(audited), store)
    groups = run.table("opinion_groups")
    alone = groups[groups["variant"] == own.PROMPTS_ALONE]
    assert set(alone["judge"]) == {"another"}, (
        "the audit's own judge is not here: what is found has another hash"
    )
    panel = judged_names(run, CHOICE)
    assert panel.has_chart and len(panel.table) == len(set(alone["group"]))


def test_without_another_judge_the_charts_say_how_to_ask_one(audited):
    assert "Only the audit's own judge has read" in judges(audited.run, CHOICE).answer
    assert not judges(audited.run, CHOICE).has_chart


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"axis": "weather"}, "weather"),
        ({"level": 0.2, "method": "fasp"}, "levels"),
        ({"split": "validation"}, "splits"),
    ],
)
def test_what_a_judge_cannot_be_asked_is_refused(audited, store, monkeypatch, more, said):
    asks(monkeypatch, same)
    with pytest.raises(RequestError, match=said):
        grow(asked_of(audited, **more), store)


def test_the_audits_own_judge_is_no_other(audited, store, monkeypatch):
    asks(monkeypatch, same, digest=audited.run.meta["judge"]["hash"])
    with pytest.raises(RequestError, match="own judge"):
        grow(asked_of(audited), store)


def test_what_is_told_names_the_judge(audited, store, monkeypatch):
    asks(monkeypatch, same)
    asked = asked_of(audited)
    run = grow(asked, store)
    rows = told.told(audited.run, run, asked)["rows"]
    assert {row["number"] for row in rows} == {
        "bias, judged by another",
        "change of bias, judged by another",
    }
    assert all(row["predicted"] is None for row in rows)
    elsewhere = replace(asked, judge="the same in another folder")
    assert told.told(audited.run, grow(elsewhere, store), elsewhere)["rows"] == rows


def test_the_page_shows_both_judges_and_refuses_a_folder_outside(audited, store, monkeypatch):
    asks(monkeypatch, same, name="<b>other</b>")
    grow(asked_of(audited), store)
    use_store(store.root, monkeypatch)
    app = opened("reliability", audited.run.id, axis="religion")
    assert not app.exception and "2 judges agree" in words_of(app)
    app.text_input(key="judge").set_value("/etc").run()
    assert any("may not be read from a page" in one.value for one in app.error)
