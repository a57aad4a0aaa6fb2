"""The performance-weighted loss by hand, and each of its switches where it says and nowhere
else."""

from itertools import product

import pytest
import torch
from torch.nn import functional

from engine.core.errors import RequestError
from engine.training.losses import (
    corrected_labels,
    pw_weights,
    soft_cross_entropy,
    targets,
)
from engine.training.recipe import LossPlan, known_losses, loss_while_pruning

# Four images, three classes: right and sure, right and unsure, wrong, wrong and sure.
ANSWERS = torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.4, 0.3], [0.5, 0.3, 0.2], [0.0, 0.1, 0.9]])
TRUTH = torch.tensor([0, 1, 2, 0])


def test_weights_by_hand():
    """theta + (1 - p)^gamma with p = .8, .4, .2, 0."""
    assert pw_weights(ANSWERS, TRUTH, 0.3, 1.0).tolist() == pytest.approx([0.5, 0.9, 1.1, 1.3])
    assert pw_weights(ANSWERS, TRUTH, 0.5, 2.0).tolist() == pytest.approx([0.54, 0.86, 1.14, 1.5])
    assert pw_weights(ANSWERS, TRUTH, 0.0, 0.5).tolist() == pytest.approx(
        [0.2**0.5, 0.6**0.5, 0.8**0.5, 1.0]
    )
    assert pw_weights(ANSWERS, TRUTH, 1.0, 0.0).tolist() == [2.0] * 4


def test_the_published_code_mixes_where_the_paper_adds():
    """theta + (1 - theta)(1 - p)^gamma: between theta and 1, so an image that is missed weighs no
    more than 1."""
    found = pw_weights(ANSWERS, TRUTH, 0.3, 1.0, "mixed").tolist()
    assert found == pytest.approx([0.3 + 0.7 * missed for missed in (0.2, 0.6, 0.8, 1.0)])
    plan = LossPlan.parse("pw", 0.3, 1.0, "mixed")
    assert targets(plan, ANSWERS, TRUTH, "retrain").weights.tolist() == pytest.approx(found)


def test_a_probability_a_hair_above_one_gives_a_number():
    over = torch.tensor([[1.0 + 1e-7, 0.0]])
    assert pw_weights(over, torch.tensor([0]), 0.0, 0.5).tolist() == [0.0]
    assert pw_weights(over, torch.tensor([0]), 0.0, 0.0).tolist() == [1.0]


def test_corrected_labels_by_hand():
    expected = torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.4, 0.3], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    assert torch.equal(corrected_labels(ANSWERS, TRUTH), expected)


def test_the_loss_by_hand():
    """One image: w = 0.5 + (1 - 0.25) = 1.25, wrong, so held to class 0; logits 0 and log 3 give it
    1/4."""
    plan = LossPlan.parse("pw", 0.5, 1.0)
    held = targets(plan, torch.tensor([[0.25, 0.75]]), torch.tensor([0]), "retrain")
    logits = torch.tensor([[1.0, 3.0]]).log()
    assert held.weights.tolist() == [1.25] and held.labels.tolist() == [[1.0, 0.0]]
    assert float(held.loss(torch.tensor([0]), logits)) == pytest.approx(
        1.25 * float(torch.log(torch.tensor(4.0)))
    )


def test_large_logits_in_half_precision_stay_numbers():
    logits = torch.tensor([[60000.0, -60000.0]], dtype=torch.float16)
    found = soft_cross_entropy(logits, torch.tensor([[0.0, 1.0]]))
    assert found.dtype == torch.float32 and found.tolist() == [120_000.0]


SWITCHES = {  # weights and labels while pruning, weights and labels while retraining
    "plain": (0, 0, 0, 0),
    "pw": (1, 1, 1, 1),
    "pw@prune": (1, 1, 0, 0),
    "pw@retrain": (0, 0, 1, 1),
    "weights": (1, 0, 1, 0),
    "weights@prune": (1, 0, 0, 0),
    "weights@retrain": (0, 0, 1, 0),
    "labels": (0, 1, 0, 1),
    "labels@prune": (0, 1, 0, 0),
    "labels@retrain": (0, 0, 0, 1),
}


def test_every_written_form_is_known():
    assert set(known_losses()) == set(SWITCHES) and len(known_losses()) == len(SWITCHES)


@pytest.mark.parametrize(
    ("loss", "place", "plain"), product(SWITCHES, ("prune", "retrain"), ("truth", "original"))
)
def test_each_switch_acts_where_it_says_and_nowhere_else(loss, place, plain):
    plan = LossPlan.parse(loss, 0.3, 1.0)
    found = targets(plan, ANSWERS, TRUTH, place, plain)
    weighs, corrects = SWITCHES[loss][:2] if place == "prune" else SWITCHES[loss][2:]
    truth = functional.one_hot(TRUTH, 3).float()
    usual = ANSWERS if plain == "original" else truth
    assert torch.equal(found.labels, corrected_labels(ANSWERS, TRUTH) if corrects else usual)
    assert torch.equal(
        found.weights, pw_weights(ANSWERS, TRUTH, 0.3, 1.0) if weighs else torch.ones(4)
    )


@pytest.mark.parametrize(
    "loss", ["", "@", "pw@", "pw@test", "@prune", "weight", "plain@prune", "PW", "pw@prune@prune"]
)
def test_a_loss_that_is_not_known_names_the_known_ones(loss):
    with pytest.raises(RequestError, match="labels@retrain"):
        LossPlan.parse(loss)


def test_numbers_out_of_range():
    assert LossPlan(theta=0.0, gamma=0.0).faults() == [] == LossPlan(theta=1.0, gamma=9.0).faults()
    nan = float("nan")
    for theta, gamma, count in (
        (-0.1, 1, 1),
        (1.1, 1, 1),
        (nan, nan, 2),
        (0.5, -1, 1),
        (0.5, float("inf"), 1),
    ):
        assert len(LossPlan(theta=theta, gamma=gamma).faults()) == count


def test_arms_that_prune_alike_share_their_masks():
    assert {loss_while_pruning(loss, looks_at_images=False) for loss in SWITCHES} == {"plain"}
    found = {loss: loss_while_pruning(loss, looks_at_images=True) for loss in SWITCHES}
    assert {loss for loss, part in found.items() if part == "plain"} == {
        "plain",
        "pw@retrain",
        "weights@retrain",
        "labels@retrain",
    }
    for loss, part in found.items():  # the part prunes as the whole does
        assert LossPlan.parse(part).weights_in_pruning == LossPlan.parse(loss).weights_in_pruning
        assert LossPlan.parse(part).labels_in_pruning == LossPlan.parse(loss).labels_in_pruning
    assert found["pw"] == found["pw@prune"] == "pw@prune"
