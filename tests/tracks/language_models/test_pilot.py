"""What a pilot can say, what first order misses, and what could have been found. A request that is
too large to be predicted from its own texts gets a first number from a few prompts of one axis."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from engine.core.files import json_able
from engine.core.types import POOLED
from engine.stats.clustered import smallest_effect
from engine.store.runs import Store
from engine.tracks.language_models import pilot
from engine.tracks.language_models import predict as extrapolated
from engine.tracks.language_models.controls import unlike_scores, variant_shards
from engine.tracks.language_models.effects import Effects
from engine.tracks.language_models.evidence import power_of
from engine.tracks.language_models.pilot import FirstOrderError, learned, with_error
from engine.tracks.language_models.predict import FEW_PROMPTS, predict
from engine.tracks.language_models.request import AuditRequest
from engine.tracks.language_models.words import power_words
from tests.tracks.language_models.worlds import world_request, write_prompts


def table(*drawn: float) -> pd.DataFrame:
    """A pilot of 60 texts: reweight with an error of .02 for four heads, generate with errors
    `drawn` for the first."""
    rows = [("reweight", unit, 0.02, 1.0) for unit in range(4)] + [
        ("gradient", unit, 0.02, 0.1) for unit in range(4)
    ]
    rows += [("generate", unit, error, 2.0) for unit, error in enumerate(drawn)]
    return pd.DataFrame(rows, columns=["estimator", "unit", "error", "seconds"]).assign(
        ess=0.9, effective=50.0, n=60
    )


def test_heads_of_which_no_text_turned_neither_cost_nothing_nor_have_intervals_of_no_width():
    still = table(0.0, 1e-9)
    assert math.isnan(pilot.widths_for(still, 60)["generate"])
    assert pilot.widths_for(still, 60)["reweight"] > 0
    assert pilot.cheapest(still, 0.3) == "reweight"


def test_only_heads_of_which_some_text_turned_are_compared():
    some, one = table(0.0, 0.04), table(0.04)
    for name in ("reweight", "generate"):
        assert pilot.cost(some, name) == pytest.approx(pilot.cost(one, name))
        assert pilot.widths_for(some, 60)[name] == pytest.approx(pilot.widths_for(one, 60)[name])
    assert pilot.widths_for(some, 60)["generate"] == pytest.approx(
        2 * pilot.widths_for(some, 60)["reweight"]
    )


def effects(value: np.ndarray, error: float) -> Effects:
    nan = np.full(len(value), np.nan)
    p = 2 * norm.sf(np.abs(value) / error)
    return Effects(
        value,
        value - 1.96 * error,
        value + 1.96 * error,
        p,
        np.full(len(value), error),
        nan,
        nan,
        nan,
    )


def test_slope_and_spread_come_back():
    draw = np.random.default_rng(0)
    first = draw.normal(0, 0.1, 4000)
    found = learned(first, 1.8 * first + draw.normal(0, 0.01, 4000))
    assert found.slope == pytest.approx(1.8, abs=0.02) and found.spread == pytest.approx(
        0.01, rel=0.1
    )
    assert np.isnan(learned(first[:3], first[:3]).slope), "three heads teach nothing"


def test_intervals_hold_the_true_effect_where_first_order_alone_does_not():
    draw, error = np.random.default_rng(1), FirstOrderError(1.6, 0.01, 0.2, 20)
    first = draw.normal(0, 0.05, 5000)
    true = draw.normal(error.slope * first, error.of(first))
    seen = effects(first + draw.normal(0, 0.005, 5000), 0.005)
    alone = np.mean((seen.low <= true) & (true <= seen.high))
    held = with_error(seen, error)
    assert alone < 0.6 and np.mean((held.low <= true) & (true <= held.high)) >= 0.95
    assert (held.value == seen.value).all() and (held.p >= seen.p).all()


def test_without_anything_learned_there_is_no_interval():
    held = with_error(effects(np.array([0.1, -0.2]), 0.05), learned(np.zeros(0), np.zeros(0)))
    assert np.isnan(held.low).all()
    assert np.isnan(held.p).all()
    assert held.value.tolist() == [0.1, -0.2]


def scores_of(error: np.ndarray, freedom: float = 1e9, n: int = 200) -> pd.DataFrame:
    same = {"score": "z_bias", "axis": "religion", "seed": POOLED, "n": n, "freedom": freedom}
    return pd.DataFrame({"unit": range(len(error)), "error": error, **same})


def test_the_effect_is_that_of_the_noisiest_tenth_at_the_level_of_the_first_head():
    found = power_of(scores_of(np.linspace(0.01, 0.05, 41)))["religion"]
    assert found["level"] == pytest.approx(0.05 / 41) and found["heads"] == 41
    assert found["effect"] == pytest.approx(
        smallest_effect(np.array([0.046]), np.array([1e6]), 0.05 / 41)[0]
    )
    assert 799 <= found["half_prompts"] <= 802  # errors shrink by the root: four times as many


def test_few_clusters_gain_more_than_the_root():
    found = power_of(scores_of(np.full(10, 0.05), freedom=4.0))["religion"]
    assert found["half_prompts"] < 4 * 200 and "about" in power_words(found)


def test_axes_without_tests_are_left_out_and_an_older_run_says_so():
    table = pd.concat(
        [scores_of(np.full(3, 0.1)), scores_of(np.full(3, np.nan)).assign(axis="not ranked")]
    )
    assert list(power_of(table)) == ["religion"]
    assert "earlier version" in power_words(None)


@pytest.fixture
def large(tmp_path, words_judged):
    """Two axes of 240 prompts each."""
    return world_request(tmp_path, estimator="auto", prompts=str(write_prompts(tmp_path, n=120)))


def test_a_large_request_is_predicted_from_few_prompts_and_nothing_is_kept(
    large, tmp_path, monkeypatch
):
    monkeypatch.setattr(extrapolated, "PATIENCE", 0.0)
    store = Store(tmp_path / "store")
    found = predict(large, store)
    assert found["tried"]["prompts"] <= FEW_PROMPTS
    assert found["sure"] >= 1
    assert set(found["axes"]) == set(large.axes)
    assert found["words"].startswith("Predicted: ")
    assert f"{found['tried']['prompts']} prompts of" in found["words"]
    assert "nan" not in json.dumps(json_able(found), allow_nan=True).lower().split()
    assert "nan" not in found["words"]
    least, most = found["scoring_seconds"]
    assert 0 < least <= most and found["measuring_seconds"] > 0
    assert not list(store.root.rglob("*.shard"))
    per_prompt = [one["seconds"]["gradient"] / one["prompts"] for one in found["axes"].values()]
    assert per_prompt == pytest.approx(per_prompt[:1] * 2), "twice the prompts, twice as long"
    assert not any("bias" in said for said in found["axes"].values())


def test_of_a_slow_model_only_the_first_tokens_are_drawn(large, tmp_path, monkeypatch):
    monkeypatch.setattr(extrapolated, "PATIENCE", 0.0)
    monkeypatch.setattr(extrapolated, "SHORTLY", 0.0)
    drawn, plain = [], extrapolated.piloted

    def piloted(small, shard, **options):
        drawn.append((small.settings.decoding.max_new_tokens, options))
        return plain(small, shard, **options)

    monkeypatch.setattr(extrapolated, "piloted", piloted)
    found = predict(large, Store(tmp_path / "store"))
    tokens = min(extrapolated.BRIEF, large.max_new_tokens)
    assert drawn == [(tokens, {"reweighted": 2, "regenerated": 1})]
    least, most = found["scoring_seconds"]
    assert 0 < least <= most and "nan" not in found["words"]


def test_methods_and_axes_are_expected_to_cut_different_heads_whatever_the_axes_are_called():
    request = AuditRequest(
        model="demo-gpt2",
        axes=("religion", "gendered"),
        methods=("fasp", "bias_only", "magnitude"),
        sparsities=(0.0, 0.1, 0.2),
        gamma=0.3,
        controls=0,
    )
    cuts = {shard.cut for shard in variant_shards(request, 48, made_up=unlike_scores)}
    assert len(cuts) == 1 + 2 * (2 * 2 + 1)
