"""Would the scores come out again? Statistics against textbooks, panels against known repeats."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from engine.report.charts.panel import Choice
from engine.report.charts.reliability_parts import reliable_said
from engine.tracks.language_models.panels import bench, heads, reliability
from engine.tracks.language_models.published_scores import load_published
from tests.builders import changed
from tests.places import SHARED
from tests.tracks.language_models.made_up_run import make_run

DATA = SHARED / "fasp_head_scores"
CHOICE = Choice("fasp", "gender_and_sex", 0.2)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("store"))


def panels_of(run):
    shown = (
        reliability.run_repeats,
        reliability.seed_scatter,
        reliability.more_seeds,
        bench.additivity,
    )
    return [panel(run, CHOICE) for panel in shown]


def test_one_seed_says_that_it_takes_two(run, tmp_path):
    one = changed(run, tmp_path, "scores", lambda scores: scores[scores["seed"].isin([-1, 0])])
    for panel in panels_of(one)[:3]:
        assert panel.figure is None and "at least two seeds" in panel.said


def test_heads_that_were_not_ranked_are_not_drawn(run, tmp_path):
    def hide(scores: pd.DataFrame) -> pd.DataFrame:
        mine = (scores["score"] == "z_bias") & (scores["axis"] == "gender_and_sex")
        note = scores["note"].mask(mine, "not ranked: the dense bias is inside its null band")
        return scores.assign(value=scores["value"].mask(mine), note=note)

    hidden = changed(run, tmp_path, "scores", hide)
    assert heads.head_map(hidden, CHOICE).figure is None
    assert "not ranked" in heads.head_map(hidden, CHOICE).said
    assert "not ranked" in heads.fasp_picture(hidden, CHOICE).said
    assert bench.additivity(hidden, CHOICE).figure is None


def test_heads_that_were_drawn_again_are_marked_and_counted(run, tmp_path):
    def fall_back(scores: pd.DataFrame) -> pd.DataFrame:
        mine = scores["score"] == "z_bias"
        who = np.select(
            [scores["unit"] < 1, scores["unit"] < 2, scores["unit"] < 5],
            ["combined", "generate", "reweight"],
            "gradient",
        )
        ess = np.where(scores["unit"] < 2, 0.1, np.where(scores["unit"] < 5, 0.6, np.nan))
        return scores.assign(
            estimator=scores["estimator"].mask(mine, pd.Series(who, scores.index)),
            ess=pd.Series(ess, scores.index).where(mine),
        )

    panel = heads.head_map(changed(run, tmp_path, "scores", fall_back), CHOICE)
    assert "3 heads by reweighting (ESS at least 0.600 of n)" in panel.caveat
    assert "Reweighting said too little about 2 heads, so new texts were drawn" in panel.caveat
    rings = [
        trace
        for trace in panel.figure.data
        if trace.type == "scatter" and trace.marker.symbol == "circle-open"
    ]
    assert [len(trace.x) for trace in rings] == [2, 1], "two rings, and the legend's"
    assert (
        panel.table["estimator"].value_counts()["generate"] == 1
        and "ESS (share of n)" in panel.table
    )


@pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data/fasp_head_scores")
def test_published_seeds_are_noise_for_the_two_large_models():
    scores = load_published(sorted(DATA.rglob("*.csv")))
    icc, overlap = reliability.published(scores, CHOICE)
    means = icc.table.groupby("name")["ICC"].mean()
    assert len(means) == 5
    for name in ("EleutherAI/gpt-neo-1.3B", "meta-llama/Llama-2-7b-chat-hf"):
        assert 0 < means[name] < 0.05 and name in icc.said
    assert overlap.table["overlap"].between(0, 1).all() and "chance" in overlap.said


def test_scores_that_never_vary_are_said_to_be_so(run, tmp_path):
    flat = changed(
        run,
        tmp_path,
        "scores",
        lambda scores: scores.assign(value=scores["value"].where(scores["seed"] < 0, 0.5)),
    )
    panels = {panel.key: panel for panel in panels_of(flat)}
    assert panels["run_repeats"].figure is None and panels["more_seeds"].figure is None
    assert "same score" in panels["seed_scatter"].said


def test_axes_whose_noise_hides_small_effects_are_named(run, tmp_path):
    noise = np.random.default_rng(0).normal(size=len(run.table("scores")))
    loud = changed(
        run,
        tmp_path,
        "scores",
        lambda scores: scores.assign(value=scores["value"] + 5 * noise * (scores["seed"] >= 0)),
    )
    panel = reliability.run_repeats(loud, CHOICE)
    assert "noise hides" in panel.caveat and set(panel.table["over"]) == {"all heads"}
    wide = pd.DataFrame([{"name": "religion", "ICC": 0.97, "low": 0.06, "high": 0.99}])
    assert "for 0 of 1 axis" in reliable_said(wide, "axis", "axes")
