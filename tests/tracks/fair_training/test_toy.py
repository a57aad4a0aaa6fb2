"""The enumerable toy: BiFP finds one of the best masks there are, through the same code as on
images."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks.fair_toy import (
    BEST,
    IMAGES,
    KEPT,
    SLACK,
    bifp,
    dense,
    every_mask,
    greedy,
    magnitude,
    place_of,
    ranked,
    snip,
    summary,
    toy,
)
from engine.tracks.fair_training.surrogate import Surrogate

SEEDS = (12, 14)


@cache
def table(seed: int) -> pd.DataFrame:
    """Fewer steps than the benchmark takes: three times as many change next to nothing."""
    return ranked(toy(seed), steps=200)


def test_the_ranking_s_gap_is_the_surrogate_of_the_training():
    """The same number for the same weights: those of the dense model under one of the masks."""
    problem, model = toy(0), dense(toy(0))
    with torch.no_grad():
        model.score.weight *= torch.as_tensor(every_mask()[7]).float()
        logits = model(torch.as_tensor(problem.x))
    held = Surrogate(torch.as_tensor(problem.y), torch.as_tensor(problem.groups))
    _, gap = held.of(torch.arange(IMAGES), logits)
    right = logits.softmax(dim=1)[torch.arange(IMAGES), torch.as_tensor(problem.y)].numpy()
    by_hand = abs(right[problem.groups == 0].mean() - right[problem.groups == 1].mean())
    assert gap == pytest.approx(by_hand, abs=1e-5)


def test_places_are_shares_of_the_masks_that_meet_the_tolerance():
    problem = replace(toy(0), strength=0.5)  # some weights rather pay than meet it
    found = ranked(problem, steps=200)
    assert (found["met"] == (found["gap"] <= problem.tolerance + SLACK)).all() and 0.3 < found[
        "met"
    ].mean() < 1.0
    met = found[found["met"]].sort_values("loss")
    assert met["place"].tolist() == pytest.approx((np.arange(len(met)) / len(met)).tolist())
    assert found.loc[~found["met"], "place"].isna().all()
    assert place_of(found, every_mask()[met.index[3]]) == pytest.approx(3 / len(met))


@pytest.mark.slow
def test_bifp_finds_a_mask_among_the_best_that_meet_the_constraint():
    """As the method is declared; over twenty seeds, of which it misses four, see `python -m
    benchmarks.fair_toy`."""
    for seed in SEEDS:
        keep = bifp(toy(seed))
        assert keep.sum() == KEPT
        assert place_of(table(seed), keep) < BEST, seed


@pytest.mark.slow
def test_what_looks_at_no_group_does_not():
    """The largest weights, SNIP and even the best mask for the loss alone miss: the toy is no
    gift."""
    for blind in (
        magnitude,
        snip,
        greedy,
        lambda problem: bifp(problem, fair_mask=False, fair_weights=False),
    ):
        assert not place_of(table(12), blind(toy(12))) < BEST


def test_the_summary_counts_seeds():
    found = pd.DataFrame(
        {
            "seed": [0, 0, 1, 1],
            "way": ["a", "b"] * 2,
            "place": [0.01, np.nan, 0.2, 0.04],
            "met": [0.8, 0.8, 0.6, 0.6],
        }
    )
    shown = summary(found)
    half = [0.5, 0.0945, 0.9055]  # Wilson's interval of one in two
    assert shown.loc["a"].tolist() == pytest.approx([*half, 1.0, 0.105], abs=1e-4)
    assert shown.loc["b"].tolist() == pytest.approx([*half, 0.5, 0.04], abs=1e-4)
    assert shown.loc["any mask, at random"].tolist() == pytest.approx(
        [0.035, np.nan, np.nan, 0.7, 0.5], nan_ok=True
    )
