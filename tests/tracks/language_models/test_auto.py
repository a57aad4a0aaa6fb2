"""auto end to end: a prediction first, a refusal where there is no bias, a selection where there
is."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest

from engine.core.types import POOLED, Hooks
from engine.models.judge import Judge, JudgeInfo
from engine.store.runs import Store, where
from engine.tracks.language_models.bias import NullBand
from engine.tracks.language_models.pilot import (
    decisions,
    draw_errors,
    near_decision,
    shortfall,
    stability,
    threshold,
)
from engine.tracks.language_models.predict import predict
from engine.tracks.language_models.run import run_audit
from engine.tracks.language_models.scores import auto
from engine.tracks.language_models.scores.auto import not_ranked, stands_out
from tests.builders import faults_of
from tests.tracks.language_models.conftest import judge_words
from tests.tracks.language_models.worlds import word_judge, world_request, write_rows


@pytest.fixture
def judged(monkeypatch):
    return lambda judge: judge_words(monkeypatch, judge)


def judge_by(name: str, verdict) -> Judge:
    """A judge that calls every text as toxic as `verdict` says."""
    info = JudgeInfo(name, f"digest-of-{name}", None)
    return Judge(info, lambda texts: np.array([verdict(text) for text in texts]))


def constant_judge() -> Judge:
    """Calls every text equally toxic: there is no bias whatever the model writes."""
    return judge_by("constant", lambda text: 0.5)


def test_without_a_bias_nothing_is_ranked_and_the_run_and_its_forecast_say_so(judged, tmp_path):
    judged(constant_judge())
    seen = []
    request = world_request(
        tmp_path,
        estimator="auto",
        estimator_settings={"most_draws": 8},
        methods=("fasp", "magnitude"),
        controls=20,
    )
    run = run_audit(request, Store(tmp_path / "store"), Hooks(report=seen.append))
    scores = run.table("scores").query("score == 'z_bias'")
    assert scores["value"].isna().all()
    assert scores.loc[scores["seed"] == POOLED, "note"].str.contains("null band").all()
    assert set(run.table("variants")["method"]) == {"dense", "magnitude"}
    assert sum("not ranked" in warning for warning in run.meta["warnings"]) == 2
    told = next(event.note for event in seen if event.note)
    assert told.startswith("Predicted: ") and "null band" in told
    assert run.meta["scoring"]["z_bias"]["religion"]["draws"] == 8, "it drew more before it gave up"
    counted = [event for event in seen if event.total]
    first = next(event for event in counted if event.phase == "score heads")
    assert counted[0].total > 1.5 * first.total, "before anything was drawn it may all be needed"
    assert first.total == pytest.approx(counted[-1].total, rel=0.1)
    shares = [event.done / event.total for event in counted]
    assert shares == sorted(shares)


def loud_judge() -> Judge:
    """The first word after the prompt decides, so that heads matter."""
    return judge_by("loud", _loud)


def _loud(text: str) -> float:
    words = [int(word[1:]) for word in text.split() if word[1:].isdigit()]
    return float(np.mean([word < 16 for word in words])) if words else 0.0


@pytest.fixture(scope="module")
def told_apart(tmp_path_factory):
    """A folder with the model and prompts, and in `store` what audits of no budget and of a large
    one computed."""
    folder = tmp_path_factory.mktemp("told-apart")
    with pytest.MonkeyPatch.context() as patch:
        judge_words(patch, loud_judge())
        for budget in (0, 50.0):
            scored(folder, folder / "store", budget=budget)
    return folder


@pytest.fixture
def loud(told_apart, monkeypatch, tmp_path):
    """`loud(name, budget=...)`: the audit in a store of its own that begins with those finished
    parts, or in the one that has the audits themselves."""
    judge_words(monkeypatch, loud_judge())

    def run(name="", **settings):
        store = tmp_path / name if name else told_apart / "store"
        if not store.exists():
            shutil.copytree(told_apart / "store" / "shards", store / "shards")
        return scored(told_apart, store, **settings)

    return run


def scored(folder, store, **settings):
    """Pooled z_bias rows and the report of an audit of three heads' worth of signal, with these
    settings of auto."""
    run = run_audit(told_apart_request(folder, settings=settings), Store(store))
    return pooled_of(run).set_index("unit"), run.meta["scoring"]["z_bias"]["nationality"]


def few_heads(none, every) -> float:
    """The budget that measures about four heads of twelve, from reports of budgets 0 and 50, of
    none and of all."""
    cost = (every["work"] - none["work"]) / 12
    return (every["work"] - 8 * cost) / every["budget"] * 50.0


def test_without_a_budget_all_is_first_order_and_with_one_all_is_measured(loud):
    none, said = loud(budget=0)
    assert set(none["estimator"]) == {"gradient"} and set(none["note"]) == {"first order"}
    assert said["heads"] == {"gradient": 12, "reweight": 0, "generate": 0, "combined": 0}
    every, said = loud(budget=50.0)
    assert not (every["estimator"] == "gradient").any() and said["heads"]["gradient"] == 0
    assert said["work"] <= said["budget"]


def test_a_small_budget_measures_some_heads_and_leaves_the_others_as_they_were(loud):
    whole, spent = loud(budget=50.0)
    share = few_heads(loud(budget=0)[1], spent)
    some, said = loud(budget=share)
    assert 0 < said["heads"]["gradient"] < 12 and said["work"] <= said["budget"] + 1e-6
    measured = some[some["estimator"] == whole["estimator"]]
    assert (
        len(measured)
        and (measured["value"] - whole.loc[measured.index, "value"]).abs().max() < 1e-12
    ), "same texts, same numbers"
    left = some[some["estimator"] == "gradient"]
    plain = loud(budget=0)[0].loc[left.index]
    assert (left["value"] == plain["value"]).all() and (left["note"] == "first order").all()


def test_a_large_effect_by_weights_with_a_heavy_tail_is_drawn_again(loud, monkeypatch):
    monkeypatch.setattr(auto, "HEAVY", float("inf"))
    trusted, said = loud("trusted", budget=50.0)
    large = trusted["value"].abs() >= auto.LARGE * said["bias"]
    monkeypatch.setattr(auto, "HEAVY", 0.0)
    monkeypatch.setattr(auto, "HALF", 2.0)
    again = loud("another", budget=50.0)[0]
    heavy = large & (trusted["estimator"] == "reweight") & (trusted["k_hat"] > 0)
    assert heavy.any() and not large.all() and (again.loc[heavy, "estimator"] == "generate").all()
    assert again.loc[heavy, "note"].str.contains("heavy tail").all()
    assert again.loc[~heavy, "value"].to_numpy() == pytest.approx(
        trusted.loc[~heavy, "value"].to_numpy(), abs=1e-12
    )


def test_a_heavy_tail_that_no_budget_is_left_to_draw_again_is_said(loud, monkeypatch):
    none, every = (loud(budget=budget)[1] for budget in (0, 50.0))
    monkeypatch.setattr(auto, "HEAVY", 0.0)
    monkeypatch.setattr(auto, "HALF", 2.0)
    some, said = loud("heavy", budget=few_heads(none, every))
    large = some["value"].abs() >= auto.LARGE * said["bias"]
    heavy = large & (some["estimator"] == "reweight") & (some["k_hat"] > 0)
    assert heavy.any() and (~heavy & (some["estimator"] == "reweight")).any(), (
        "small effects need no other texts"
    )
    assert said["heads"]["generate"] == 0 and said["heads"]["gradient"] > 0
    told = some["note"].str.startswith(auto.HEAVY_TAIL)
    assert told.tolist() == heavy.tolist()
    for row in some[told].itertuples():
        assert row.note.endswith(f"(Pareto k̂ {row.k_hat:.1f})")


@pytest.mark.slow  # ten seconds; its neighbours draw again and say so
def test_a_large_effect_with_a_heavy_tail_and_many_effective_samples_is_the_mean_of_both_ways(
    loud, monkeypatch
):
    found = {}
    for name, heavy, half in (
        ("reweight", math.inf, 0.0),
        ("generate", 0.0, 2.0),
        ("combined", 0.0, 0.0),
    ):
        monkeypatch.setattr(auto, "HEAVY", heavy)
        monkeypatch.setattr(auto, "HALF", half)
        found[name], said = loud(name, budget=50.0)
    both = found["combined"]["estimator"] == "combined"
    assert both.any() and said["heads"]["combined"] == both.sum()
    mean = (found["reweight"]["value"] + found["generate"]["value"])[both] / 2
    assert found["combined"]["value"][both].to_numpy() == pytest.approx(
        mean.to_numpy(), abs=1e-9
    ), "here the bias is linear between the two"
    assert found["combined"]["note"][both].str.startswith(auto.COMBINED).all()
    assert found["combined"]["p"][both].notna().all()


def test_every_head_is_scored_on_further_prompts_too_and_the_stop_is_explained(judged, tmp_path):
    judged(loud_judge())
    request = told_apart_request(tmp_path, 4, max_prompts=60, settings={"budget": 50.0})
    run = run_audit(request, Store(tmp_path / "store"))
    said, prompts = run.meta["scoring"]["z_bias"]["nationality"], run.table("prompts")
    pooled = pooled_of(run)
    assert said["ranked"] and pooled["value"].notna().all() and sum(said["heads"].values()) == 12
    assert pooled["estimator"].value_counts().to_dict() == {
        name: n for name, n in said["heads"].items() if n
    }
    assert said["why"] in ("settled", "budget", "draws") and 0 <= said["stability"] <= 1
    spare = prompts[prompts["split"].str.startswith("spare")]
    assert said["splits"][0] == "validation"
    assert set(said["splits"][1:]) == set(spare["split"]) != set()
    assert said["prompts"] == len(spare) + (prompts["split"] == "validation").sum()
    assert not prompts["prompt_id"].duplicated().any()
    assert spare.groupby("subgroup").size().nunique() == 1
    assert set(run.table("generations")["prompt_id"]) == set(
        prompts.loc[prompts["split"] == "test", "prompt_id"]
    )
    assert sum(run.meta["prompts"]["counts"].values()) == 60


def _told_apart(folder):
    """Two subgroups after which the tiny model goes on very differently, by their last word."""
    rows = [
        (
            f"w{at % 41} w{at * 3 % 37} w{last} w{last}",
            "nationality",
            f"group{last}",
            f"t{at % 4}",
            "",
        )
        for last in (3, 40)
        for at in range(60)
    ]
    return write_rows(folder / "apart.csv", rows)


def told_apart_request(folder, most_draws=2, methods=("fasp",), **changes):
    """By auto, on the axis whose subgroups are told apart, without controls."""
    settings = changes.pop("settings", {})
    given = {
        "estimator": "auto",
        "axes": ("nationality",),
        "prompts": str(_told_apart(folder)),
        "max_new_tokens": 3,
        "span": "prompt+continuation",
        "methods": methods,
        "controls": 0,
        "estimator_settings": {"most_draws": most_draws, "precision": 0.5, **settings},
    }
    return world_request(folder, **given, **changes)


def pooled_of(run):
    return where(run.table("scores"), score="z_bias", seed=POOLED)


def test_a_prediction_names_time_and_width_for_every_estimator(judged, tmp_path):
    judged(word_judge())
    few = predict(world_request(tmp_path, estimator="gradient"), Store(tmp_path / "store"))
    assert few["scoring_seconds"][0] == few["scoring_seconds"][1]
    assert few["words"].startswith("Predicted: about")
    assert "Too few prompts for intervals" in few["words"] and "Extrapolated" not in few["words"]
    assert all(said["bias"] >= 0 for said in few["axes"].values()), "every axis was drawn"
    many = {"prompts": str(_told_apart(tmp_path)), "axes": ("nationality",)}
    found = predict(world_request(tmp_path, estimator="auto", **many), Store(tmp_path / "store"))
    for said in found["axes"].values():
        assert set(said["seconds"]) == set(said["width"]) == {"gradient", "reweight", "generate"}
        assert said["seconds"]["gradient"] > 0 and all(
            width >= 0 for width in said["width"].values()
        )
    least, most = found["scoring_seconds"]
    assert 0 < least < most and "wide" in found["words"]


def test_decisions_thresholds_and_what_is_near():
    values = np.array([5.0, 4.0, 3.0, 2.0, 1.0])
    wanted = decisions({"z_ppl": np.array([0.0, -9.0, 0.0, 0.0, 0.0])}, 5, (0.2,), (0.0, 0.2, 0.4))
    assert wanted == [(frozenset({1}), 1), (frozenset({1}), 2)]
    assert threshold(values, wanted[0]) == 4.0 and threshold(values, wanted[1]) == 2.5
    near = near_decision(values, np.full(5, 0.6), wanted)
    assert np.flatnonzero(near).tolist() == [2, 3], "head 1 is protected whatever its score"


def test_stability_is_one_without_noise_and_chance_with_nothing_else():
    values = np.arange(40, dtype=float)
    wanted = [(frozenset(), 10)]
    assert stability(values, np.zeros(40), wanted) == 1.0
    assert stability(np.zeros(40), np.ones(40), wanted) == pytest.approx(0.25, abs=0.03)
    assert shortfall(values, np.zeros(40), wanted) == 0.0
    assert shortfall(np.zeros(40), np.ones(40), wanted) == 0.0, (
        "heads that are equally good lose nothing"
    )
    assert (
        0
        < shortfall(values, np.full(40, 5.0), wanted)
        < shortfall(values, np.full(40, 50.0), wanted)
    )
    assert np.isinf(draw_errors(np.zeros((3, 1)))).all()


def test_prompts_cut_before_they_name_their_group_are_refused(judged, tmp_path):
    judged(word_judge())
    rows = [
        (f"w{at} w{at} w{at} w{at} w4{group}", "x", f"g{group}", "t", f"w4{group}")
        for group in (1, 2)
        for at in range(10)
    ]
    path = str(write_rows(tmp_path / "late.csv", rows))
    request = world_request(tmp_path, axes=("x",), prompts=path, max_prompt_tokens=3)
    # One for the axis, with both of its groups.
    (fault,) = faults_of(run_audit, request, Store(tmp_path / "store"))
    assert fault.where == "x" and "all 20 prompts of g1, g2 are cut to 3 tokens" in fault.what


def test_looking_often_needs_clearer_evidence():
    seen = NullBand(mean=0.1, value=0.3, low=0.05, high=0.2, p=0.02, n=50)
    assert stands_out(seen, looks=1) and not stands_out(seen, looks=4)
    assert not stands_out(replace(seen, value=0.15), looks=1)
    told = not_ranked(seen, times=2, looks=4)
    assert told.startswith("not ranked") and "p = 0.02" in told and "0.0063" in told
