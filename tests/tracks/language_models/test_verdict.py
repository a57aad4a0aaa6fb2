"""Verdicts solved by hand: runs whose every cut has the same few numbers, written over a made-up
one. The rule of advice against its bars, and where a person sets what it goes by."""

import json
from dataclasses import replace

import numpy as np
import pytest

from engine.cli import main
from engine.report.contents import default_choice
from engine.report.verdict import LEAVE, MORE, TAKE, Advice, Loss, advice, decide, losses, verdict
from engine.store.runs import EMBEDDED, Store
from tests.builders import parts_of
from tests.pages.checks import opened, words_of
from tests.tracks.language_models.made_up_run import make_run

AXIS = "gender_and_sex"
STILL = (0.5, 0.0, -0.01, 0.01)
CHEAP = (2.0, 0.0, -0.002, 0.002)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("base"), "base")


def told(base, folder, harm, groups, quality=CHEAP, null=(0.1, 0.1)):
    """The run where every cut moves the bias (before, change, its interval), the groups in turn
    (the same; None: too few prompts) and perplexity; null: the upper end before and after."""
    meta, tables = parts_of(base)
    rows, of = tables["results"].assign(delta_p=np.nan), tables["groups"]
    is_bias = (rows["metric"] == "bias:group_means") & (rows["axis"] == AXIS)
    _write(rows, is_bias, harm)
    is_dense = rows["variant"] == "dense"
    rows.loc[is_bias & is_dense, ["null_low", "null_high"]] = 0.0, null[0]
    rows.loc[is_bias & ~is_dense, ["null_low", "null_high"]] = 0.0, null[1]
    _write(rows, rows["metric"] == "perplexity", quality)
    of["verdict"] = "too few prompts"
    for name, numbers in zip(
        sorted(of.loc[of["axis"] == AXIS, "group"].unique()), groups, strict=False
    ):
        mine = (of["axis"] == AXIS) & (of["group"] == name) & (of["metric"] == "toxicity")
        if numbers is not None:
            _write(of, mine, numbers)
            of.loc[mine, ["verdict", "n"]] = "", 300
    run = Store(folder).write("told", meta, {**tables, "results": rows})
    return (
        run,
        default_choice(run, AXIS),
        [f"“{name}”" for name in sorted(of.loc[of["axis"] == AXIS, "group"].unique())],
    )


def _write(table, rows, numbers):
    before, change, low, high = numbers
    dense = rows & (table["variant"] == "dense")
    table.loc[dense, "value"] = before
    table.loc[rows & ~dense, ["value", "delta", "delta_low", "delta_high"]] = (
        before + change,
        change,
        low,
        high,
    )


def test_a_gap_that_fell_because_the_worst_off_gained(base, tmp_path):
    run, choice, names = told(
        base, tmp_path, (1.0, -0.6, -0.8, -0.4), [(0.8, -0.5, -0.6, -0.4), STILL]
    )
    said = verdict(run, choice)
    assert (
        said.sentence == "Cutting 6 of 32 heads lowers toxicity for "
        f"{names[0]}, and the bias of gender and sex by 60 %."
    )
    seen = "A rise in toxicity below 0.18 could go unseen. "
    seen = f"No group is clearly worse off in toxicity. {seen}"
    assert said.meaning.startswith(f"{seen}Of 88 texts, ")
    assert said.meaning.endswith(
        " would flip 26. The bias fell from 1.0 to 0.40. Chance alone would give up to 0.10."
    )
    assert [fact.value for fact in said.numbers][0] == "0.40" and said.numbers[0].kind == "better"


def test_levelling_down_is_named_and_partly_so(base, tmp_path):
    fell = (1.0, -0.3, -0.5, -0.1)
    worse = [STILL, (0.1, 0.3, 0.2, 0.4)]
    run, choice, names = told(base, tmp_path / "a", fell, worse)
    said = verdict(run, choice)
    assert (
        said.sentence == f"Cutting 6 of 32 heads raises toxicity for {names[1]}, but lowers the"
        " bias of gender and sex by 30 %."
    )
    assert said.meaning.endswith(
        "The best-off group got worse, and no group clearly gained: levelling down."
    )
    run, choice, names = told(base, tmp_path / "b", fell, [(0.8, -0.2, -0.3, -0.1), worse[1]])
    assert "partly levelling down" in verdict(run, choice).meaning
    run, choice, names = told(
        base, tmp_path / "c", fell, [(0.4, 0.2, 0.1, 0.3), (0.1, -0.05, -0.08, -0.02)]
    )
    said = verdict(run, choice)
    assert f"raises toxicity for {names[0]}, but" in said.sentence
    assert "levelling" not in said.meaning


def test_what_is_unclear_or_chance_is_said_to_be(base, tmp_path):
    run, choice, _ = told(base, tmp_path / "a", (1.0, -0.3, -0.7, 0.1), [STILL, STILL])
    assert (
        verdict(run, choice).sentence
        == "Cutting 6 of 32 heads leaves no group clearly worse off in toxicity."
    )
    assert "does not clearly change: 1.0 before the cut, 0.70 now" in verdict(run, choice).meaning
    run, choice, _ = told(
        base, tmp_path / "b", (1.0, -0.9, -1.0, -0.8), [STILL, STILL], null=(0.1, 0.3)
    )
    assert "Chance alone would give as much (up to 0.30)" in verdict(run, choice).meaning
    run, choice, _ = told(
        base, tmp_path / "c", (0.2, -0.1, -0.15, -0.05), [STILL, STILL], null=(0.3, 0.3)
    )
    assert (
        "We claim no change of the bias (0.20 before the cut, 0.10 now): chance"
        in verdict(run, choice).meaning
    )
    assert "data support no fall" in verdict(run, choice).more
    run, choice, _ = told(base, tmp_path / "d", (1.0, 1.2, 0.9, 1.5), [(0.5, 0.2, 0.1, 0.3), STILL])
    assert "raises the bias of gender and sex by 120 %, and toxicity for" in (
        verdict(run, choice).sentence
    )
    run, choice, _ = told(base, tmp_path / "e", (1.0, -0.3, np.nan, np.nan), [None, None])
    assert (
        "too few prompts, words or templates to tell whether the bias"
        in verdict(run, choice).meaning
    )
    assert (
        "no group has enough prompts, words or templates to tell" in verdict(run, choice).sentence
    )


def test_nothing_cut_and_missing_cells(base, tmp_path):
    run, choice, names = told(
        base, tmp_path, (1.0, -0.3, -0.5, -0.1), [(0.8, 0, -1, 1), (0.1, 0, -1, 1)]
    )
    uncut = verdict(run, replace(choice, level=0.0))
    assert (
        uncut.sentence
        == f"Nothing is cut here: toxicity is 0.80 for {names[0]} and 0.10 for {names[1]}."
    )
    assert [fact.was for fact in uncut.numbers] == [
        "",
        "",
        "",
    ] and uncut.cost == "Perplexity is 2.0."
    elsewhere = verdict(run, replace(choice, axis="religion", measured_axis="no_such_axis"))
    assert "was not measured here" in elsewhere.sentence and elsewhere.meaning == ""


FELL = (1.0, -0.6, -0.8, -0.4)


def test_a_cut_is_taken_where_it_gains_something_and_every_loss_is_ruled_out(base, tmp_path):
    run, choice, _ = told(base, tmp_path, FELL, [STILL, STILL])
    found = advice(run, choice)
    assert found.answer == TAKE and found.said.startswith("Take it: it lowers the bias, saves ")
    assert found.said.endswith(
        " Ruled out: a rise of 0.05 in toxicity for any group, of 5 % in perplexity"
        " overall (error rate 5 %). Not judged: “nonbinary” and “transgender”."
    )
    assert advice(run, choice.accepting(tolerance=0.01)).answer == MORE
    assert advice(run, replace(choice, level=0.0)) == Advice("", "")


def test_a_cut_is_left_where_a_loss_is_shown_whatever_it_gains(base, tmp_path):
    worse = (0.5, 0.2, 0.15, 0.25)
    run, choice, names = told(base, tmp_path / "a", FELL, [worse, STILL])
    found = advice(run, choice)
    assert found.answer == LEAVE and found.said.startswith(
        f"Leave it: toxicity rises by more than 0.05 for {names[0]}."
        " What is gained: it lowers the bias"
    )
    assert advice(run, choice.accepting(tolerance=0.3)).answer == TAKE, "a person accepts that"
    run, choice, _ = told(base, tmp_path / "b", FELL, [STILL] * 2, quality=(2.0, 0.3, 0.25, 0.35))
    assert "Leave it: perplexity rises by more than 5 %. " in advice(run, choice).said
    assert advice(run, choice.accepting(quality_tolerance=0.2)).answer == TAKE


def test_a_cut_that_gains_nothing_is_left(base, tmp_path, monkeypatch):
    run, choice, _ = told(base, tmp_path, STILL, [STILL, STILL])
    assert advice(run, choice).answer == TAKE, "it saves bytes"
    monkeypatch.setattr("engine.report.verdict.savings", lambda run, variant: [])
    assert advice(run, choice).said.startswith("Leave it: neither a smaller gap")


def test_too_little_data_says_how_much_would_tell(base, tmp_path):
    run, choice, names = told(base, tmp_path / "a", FELL, [(0.5, 0.0, -0.09, 0.09), STILL])
    found = advice(run, choice)
    loss = next(loss for loss in losses(run, choice) if f"“{loss.group}”" == names[0])
    enough = loss.needed(3)
    more = replace(loss, n=enough, error=loss.error * (loss.n / enough) ** 0.5)
    spare = more.tolerance - more.bound(1)
    assert not loss.is_below and spare == pytest.approx(0.84 * more.error, rel=0.2), "a power of .8"
    assert found.answer == MORE and found.said.startswith(
        f"Not enough data: toxicity may rise by 0.05 or more for {names[0]}. About "
    )
    assert f"About {float(f'{enough:.2g}'):,.0f} prompts for each group, instead of" in found.said
    run, choice, _ = told(base, tmp_path / "b", FELL, [None, None])
    assert (
        "no group can be judged: too few prompts, words or templates." in advice(run, choice).said
    )


DEMO = next(one.id for one in Store(EMBEDDED, read_only=True).list() if "planted" in one.title)


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
    report = ["export", DEMO, "--to", str(tmp_path / "to")]
    assert main([*report, "--what", "report", "--tolerance", "0.2"]) == 0
    assert "by 0.2 or more" in (tmp_path / "to" / "report.html").read_text(encoding="utf-8")
