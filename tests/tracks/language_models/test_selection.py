"""Selections: exactly k heads, ties by index, critical heads stay. Every method is found and held
to the same."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from engine.core.types import rng
from engine.tracks.language_models.scores import score_methods
from engine.tracks.language_models.selection import (
    Ballot,
    GroupEffects,
    candidates,
    choose_gamma,
    critical_heads,
    fasp_ties,
    protected,
    selection_method,
    selection_methods,
)

SCORES = {one.name: np.arange(10.0) for one in score_methods()} | {
    "z_bias": np.array([0.5, 0.1, 0.9, 0.9, -0.2, 0.0, 0.3, 0.2, 0.9, 0.0]),
    "z_ppl": np.array([-9.0, 0.0, -8.0, 0.1, -0.1, -7.0, 0.0, 0.0, 0.2, 0.3]),
    "diffheads": np.array([0.9, 0.3, 0.8, -0.1, 0.2, 0.7, 0.0, 0.4, 0.0, -0.2]),
    "gradient": np.arange(10.0)[::-1],
}


def ballot(sparsity=0.2, gamma=0.3, seed=0):
    return Ballot(SCORES, 10, sparsity, gamma, seed)


def test_algorithm_1_by_hand():
    """γ = .3 protects heads 0, 2, 5 (lowest z_ppl); of the rest 3 and 8 have the highest z_bias."""
    assert ballot().critical == (0, 2, 5)
    assert selection_method("fasp").select(ballot()) == (3, 8)
    assert selection_method("diffheads").select(ballot()) == (1, 7), "under the same protection"
    assert selection_method("bias_only").select(ballot()) == (2, 3)
    assert selection_method("ppl_only").select(ballot()) == (8, 9)
    assert selection_method("magnitude").select(ballot()) == (0, 1)
    assert selection_method("gradient").select(ballot()) == (8, 9)


def test_critical_heads_are_the_lowest_z_ppl_ties_by_unit():
    assert critical_heads(np.array([0.0, -1.0, -1.0, -2.0, -1.0]), 0.6) == (1, 2, 3)
    assert critical_heads(np.array([0.0, -1.0]), 0.0) == ()
    with pytest.raises(ValueError, match="no score"):
        critical_heads(np.array([0.0, np.nan]), 0.5)


def test_random_cuts_follow_one_drawn_order_and_the_control_passes_over_critical_heads():
    order = rng("random heads", 3).permutation(10).tolist()
    assert selection_method("random").select(ballot(0.3, seed=3)) == tuple(sorted(order[:3]))
    free = [unit for unit in order if unit not in (0, 2, 5)]
    assert selection_method("random_noncritical").select(ballot(0.3, seed=3)) == tuple(
        sorted(free[:3])
    )


@pytest.mark.parametrize("name", sorted(selection_methods()))
@pytest.mark.parametrize("sparsity", [0.0, 0.1, 0.5, 0.7])
def test_every_method_cuts_exactly_k_and_repeats_itself(name, sparsity):
    method = selection_method(name)
    cut = method.select(ballot(sparsity))
    assert len(cut) == len(set(cut)) == ballot(sparsity).k and list(cut) == sorted(cut)
    assert method.select(ballot(sparsity)) == cut
    if method.uses_gamma:
        assert not set(cut) & set(ballot().critical)
    if method.uses_seed and 0 < sparsity < 0.7:
        assert len({method.select(ballot(sparsity, seed=seed)) for seed in range(20)}) > 1


@pytest.mark.parametrize("seed", range(5))
def test_annealing_finds_the_set_with_the_least_predicted_bias_that_perplexity_allows(seed):
    """Against every set of three among seven heads that are not critical."""
    draw = rng("annealing", seed)
    effects = GroupEffects(
        np.array([0.2, 0.5, 0.9]), np.array([30.0, 20.0, 10.0]), draw.normal(0, 0.15, (10, 3))
    )
    z_bias = effects.bias(np.zeros((1, 3))) - effects.bias(effects.change)
    scores = {"z_bias": z_bias, "z_ppl": draw.normal(0, 1, 10)}
    asked = Ballot(scores, 10, 0.3, 0.3, effects=effects)
    fasp, found = (selection_method(name).select(asked) for name in ("fasp", "annealed"))

    def said(cut):
        return effects.bias(effects.change[list(cut)].sum(axis=0)[None])[0]

    free = [unit for unit in range(10) if unit not in asked.critical]
    allowed = [
        cut
        for cut in combinations(free, 3)
        if scores["z_ppl"][list(cut)].sum() >= scores["z_ppl"][list(fasp)].sum() - 1e-12
    ]
    assert said(found) == pytest.approx(min(map(said, allowed))) and found in allowed
    assert selection_method("annealed").select(asked) == found
    assert selection_method("annealed").select(replace(asked, effects=None)) == fasp


def test_predicted_bias_of_a_set_is_that_of_its_subgroup_means():
    """.6 + .1 and .8 − .1, as many prompts of each: nothing is left between them."""
    effects = GroupEffects(np.array([0.6, 0.8]), np.ones(2), np.array([[0.1, -0.1]]))
    assert effects.bias(np.zeros((1, 2)))[0] == pytest.approx(0.2)  # FASP Table 1
    assert effects.bias(effects.change)[0] == pytest.approx(0.0)
    assert effects.bias(2 * effects.change)[0] == pytest.approx(0.2)  # past the mean


def test_too_much_asked_raises():
    with pytest.raises(ValueError, match="may be cut"):
        selection_method("fasp").select(ballot(0.8, 0.3))


def test_gamma_star_is_the_lowest_bias_within_the_margin():
    bias, log_ppl = np.array([[0.1], [0.2], [0.3]]), np.log([[14.0], [10.5], [10.0]])
    assert choose_gamma(bias, log_ppl, np.log([10.0])) == 1
    assert choose_gamma(bias, log_ppl, np.log([10.0]), margin=0.5) == 0, (
        "a wider margin lets the lowest bias in"
    )
    assert choose_gamma(bias, log_ppl, np.log([5.0])) == 2, (
        "none within the margin: lowest perplexity"
    )
    draws = np.stack([bias, bias[::-1]])
    assert choose_gamma(draws, np.zeros_like(draws), np.zeros((2, 1))).tolist() == [
        0,
        2,
    ], "every draw on its own"


def test_ties_are_counted_and_settled_by_either_rule():
    z_ppl = np.array([-3.0, -2.0, -2.0, -2.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    assert protected(z_ppl, 0.3) == (0, 1, 2) and protected(z_ppl, 0.3, "published") == (0,)
    assert protected(z_ppl, 0.5) == protected(z_ppl, 0.5, "published") == (0, 1, 2, 3, 4), (
        "no tie at this boundary"
    )
    z_bias = np.array([0.0, 0, 0, 5, 5, 5, 1, 1, 1, 1])
    assert fasp_ties({"z_ppl": z_ppl, "z_bias": z_bias}, (0, 1, 2), (3, 4)) == (2, 2)
    assert fasp_ties({"z_ppl": z_ppl, "z_bias": z_bias}, (0, 1, 2), (3, 4, 5)) == (2, 0)


def test_gamma_leaves_room_for_the_largest_sparsity():
    assert candidates((0.05, 0.5)) == (0.2, 0.3, 0.4, 0.5)
