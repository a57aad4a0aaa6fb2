"""Noise of every token, and the token that wins with it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engine.models.decode import gumbel, winners


def test_gumbel_noise_has_the_right_law_and_argmax_samples_the_softmax():
    noise = gumbel(torch.arange(20_000), 3, 4)
    assert abs(float(noise.mean()) - np.euler_gamma) < 0.02
    assert abs(float(noise.var()) - np.pi**2 / 6) < 0.05
    logits = torch.log(torch.tensor([0.1, 0.2, 0.3, 0.4]))
    shares = torch.bincount((logits + noise).argmax(-1), minlength=4) / 20_000
    assert torch.allclose(shares, logits.exp(), atol=4 * (0.25 / 20_000) ** 0.5)


def test_noise_differs_by_prompt_step_and_token():
    keys = torch.tensor([1, 2])
    first, second = gumbel(keys, 0, 5), gumbel(keys, 1, 5)
    assert len(torch.cat([first, second]).unique()) == 20


@pytest.mark.parametrize(
    "rows, vocabulary, spread", [(400, 48, 0.1), (300, 2, 20.0), (60, 1, 1.0), (9, 70_000, 4.0)]
)
def test_the_winner_and_its_lead_are_those_of_all_the_noise(rows, vocabulary, spread):
    generator = torch.Generator().manual_seed(vocabulary)
    keys = torch.randint(-(2**62), 2**62, (rows,), generator=generator)
    steps = torch.randint(0, 60, (rows,), generator=generator)
    logits = torch.randn(rows, vocabulary, generator=generator) * spread
    logits[:, 3::5] = float("-inf")
    scores = logits + gumbel(keys, steps, vocabulary)
    two = torch.cat([scores, torch.full((rows, 1), float("-inf"))], dim=1).topk(2).values
    found, lead = winners(logits, keys, steps, near=0.5)
    assert torch.equal(found, scores.argmax(-1)) and torch.equal(
        found, winners(logits, keys, steps)[0]
    )
    assert torch.equal(lead, (two[:, 0] - two[:, 1]).clamp(max=0.5))


def test_a_tie_goes_to_the_lower_token_and_leads_by_nothing():
    keys = torch.arange(50)
    logits = -gumbel(keys, 0, 9)  # every sum is exactly zero
    found, lead = winners(logits, keys, 0, near=0.1)
    assert found.tolist() == [0] * 50 and lead.tolist() == [0.0] * 50
