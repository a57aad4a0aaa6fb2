"""What could have been found: the level, the share of heads, and the prompts for half of it."""

import numpy as np
import pandas as pd
import pytest

from engine.core.types import POOLED
from engine.stats.clustered import smallest_effect
from engine.tracks.language_models.evidence import power_of
from engine.tracks.language_models.words import power_words


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
