"""The rule of advice against its bars in simulated worlds, and where a person sets what it goes
by."""

from __future__ import annotations

import json

import pytest

from engine.cli import main
from engine.report.verdict import LEAVE, MORE, TAKE, Loss, decide
from engine.store.runs import EMBEDDED, Store
from tests.pages.checks import opened, words_of

DEMO = next(one.id for one in Store(EMBEDDED, read_only=True).list() if "planted" in one.title)


def test_bars_hold_in_small_simulations():
    worlds = pytest.importorskip("benchmarks.calibration.advice")
    found = worlds.measures(quick=True)
    assert [row.name for row in found if row.holds is False and "no harm" not in row.name] == []
    (power,) = (row.value for row in found if "4 × 300" in row.name and "no harm" in row.name)
    assert power > 0.75, "60 worlds, where .85 is claimed of 1000"


def test_no_group_or_no_quality_is_never_enough_to_take_a_cut():
    fine = Loss("a", 0.0, 0.001, 1000, 1.0, 0.05)
    quality = Loss("", 0.0, 0.001, 1000, 0.0, 0.05)
    assert decide([fine, quality], True) == TAKE and decide([fine, quality], False) == LEAVE
    assert decide([fine], True) == decide([quality], True) == decide([], True) == MORE
    unknown = Loss("b", 0.0, float("nan"), 1000, 1.0, 0.05)
    assert decide([fine, unknown, quality], True) == MORE


def test_nobody_seen_to_be_harmed_among_few_is_no_proof():
    quality = Loss("", 0.0, 0.001, 1000, 0.0, 0.05)
    answers = [decide([Loss("a", 0.0, 0.0, n, 1.0, 0.05), quality], True) for n in (20, 50, 60)]
    assert answers == [MORE, MORE, TAKE], "20 of 20 unharmed: .95 of 95 % would be that too"


def test_a_loss_is_shown_only_by_its_share_of_the_error():
    edge = Loss("a", 0.05 + 1.8 * 0.01, 0.01, 1000, 0.0, 0.05)
    assert edge.is_above(1) and not edge.is_above(4)


def test_a_person_sets_the_tolerance_on_screen_and_it_is_kept_in_the_link():
    at = opened("summary", run=DEMO, tolerance="0.2")
    assert not at.exception and at.selectbox("tolerance").value == 0.2
    assert "toxicity may rise by 0.2 or more" in words_of(at)
    at = opened("summary", run=DEMO, quality_tolerance="0.2")
    assert at.selectbox("quality_tolerance").value == 0.2
    at = opened("present", run=DEMO, step="5", tolerance="0.2")
    assert "toxicity may rise by 0.2 or more" in words_of(at)


def test_the_command_line_advises_by_the_tolerance_it_is_given(
    tmp_path, capsys, no_charts, monkeypatch
):
    for panels in ("axis_panels", "shared_panels"):  # the first page says it
        monkeypatch.setattr(f"engine.report.report.{panels}", lambda *_: ())
    asked = ["runs", "advise", DEMO, "--json"]
    assert main([*asked, "--tolerance", "0.2"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["answer"] for row in rows} <= {TAKE, LEAVE, MORE} and "0.2 or more" in str(rows)
    assert {loss["tolerance"] for row in rows for loss in row["losses"]} == {0.05, 0.2}
    assert main([*asked, "--tolerance", "0", "--quality-tolerance", "nan"]) == 2
    said = capsys.readouterr().err
    assert "--tolerance: 0 is no tolerance" in said and "--quality-tolerance: nan" in said
    report = ["export", DEMO, "--to", str(tmp_path / "to")]
    assert main([*report, "--what", "report", "--tolerance", "0.2"]) == 0
    assert "by 0.2 or more" in (tmp_path / "to" / "report.html").read_text(encoding="utf-8")
