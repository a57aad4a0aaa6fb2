"""Another level of an audit whose variants are trained: a job of the same audit with one level
more."""

import pytest

from engine.audit import tracks as entries
from engine.audit.session import plan_of
from engine.core.errors import RequestError
from engine.core.files import PROJECT
from engine.report.tracks import tracks
from engine.store import runs
from engine.store.runs import Store
from pages.shared import jobs
from tests.made_up import make, small
from tests.pages.checks import assert_calm, opened, use_store, words_of

TRAINED = [name for name, track in entries.tracks().items() if not track.prediction]


@pytest.mark.parametrize("track", TRAINED)
def test_another_level_is_asked_with_everything_else_as_it_was(track, tmp_path, monkeypatch):
    use_store(tmp_path, monkeypatch)
    small(track, tmp_path, "grown")
    started = []
    monkeypatch.setattr(jobs, "start", lambda request: started.append(request) or "job-0")
    monkeypatch.setattr(jobs, "one", lambda job: None)
    at = opened("summary", "grown")
    request, level = Store(tmp_path).open("grown").meta["request"], tracks()[track].level
    value = 31.0
    at.number_input(key="another_level").set_value(value).run()
    at.button[[one.label.startswith("Measure") for one in at.button].index(True)].click().run()
    assert_calm(at)
    wanted = value if level.is_ratio else value / 100
    assert started == [
        {
            **request,
            level.asked: sorted([*map(float, request[level.asked]), wanted]),
            "title": started[0]["title"],
        }
    ]
    assert "one level more" in words_of(at)


def assert_not_measured(why):
    at = opened("trade_off", "a-run", sparsity="15.6 %")
    assert_calm(at)
    assert [one.disabled for one in at.button if one.label.startswith("Measure")] == [True]
    assert why in words_of(at).replace("\\", "")


def test_where_nothing_can_be_written_what_is_predicted_stands_and_nothing_is_measured(
    tmp_path, monkeypatch
):
    use_store(tmp_path, monkeypatch)
    run = make("language_models", tmp_path, "a-run")
    monkeypatch.setattr(runs, "EMBEDDED", run.path.parent.parent)
    (tmp_path / "file").touch()
    monkeypatch.setenv("PRUNEAUDIT_STORE", str(tmp_path / "file" / "store"))
    assert_not_measured("cannot be written: nothing that is measured could be kept")


def test_a_file_that_the_audit_read_and_that_is_gone_is_named_before_anything_is_asked(
    tmp_path, monkeypatch
):
    """The embedded audit of a real model offered to measure, and then lacked its text."""
    use_store(tmp_path, monkeypatch)
    run = make("language_models", tmp_path, "a-run")
    meta = {**run.meta, "request": {**run.meta["request"], "corpus": "gone/corpus.txt"}}
    runs.write_meta(run.path, meta, run.rests_on)
    with pytest.raises(RequestError, match=f"put it at {PROJECT / 'gone' / 'corpus.txt'}"):
        plan_of(Store(tmp_path).open("a-run"))
    assert_not_measured("this audit read corpus.txt, which is not")
