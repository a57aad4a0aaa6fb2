"""Sampling with a stream per prompt."""

import numpy as np
import pytest
import torch

from engine.core.types import Decoding, Hooks
from engine.models.decode import filtered, gumbel, prompt_tokens, sample, winners
from tests.tiny import TINY, text, tiny_model

PROMPTS = [text(1, 2, 3), text(4), text(5, 6, 7, 8, 9), text(3, 3), text(10, 11, 12, 13)]
IDS = [f"p{at}" for at in range(len(PROMPTS))]
DECODING = Decoding(max_new_tokens=12, max_prompt_tokens=4)


def draw(lm, order=(0, 1, 2, 3, 4), seed=0, **more):
    drawn = sample(
        lm,
        [PROMPTS[at] for at in order],
        [IDS[at] for at in order],
        [seed] * len(order),
        DECODING,
        **more,
    )
    return {at: tokens for at, tokens in zip(order, drawn, strict=True)}


@pytest.mark.parametrize("name", sorted(TINY))
def test_neither_batch_size_nor_order_changes_a_text(name):
    lm = tiny_model(name)
    shares = []
    alone = draw(lm, batch_size=1, hooks=Hooks(inside=shares.append))
    assert shares == sorted(shares) and len(shares) > len(PROMPTS) and shares[-1] <= 1
    assert draw(lm, batch_size=5) == alone
    assert draw(lm, order=[4, 2, 0, 3, 1], batch_size=2) == alone


@pytest.mark.parametrize("name", sorted(TINY))
def test_what_prompts_begin_with_is_read_once_for_all_their_texts(name):
    lm, read = tiny_model(name), []
    names, seeds = [*IDS, *IDS, "another"], [0] * 5 + [1] * 5 + [0]
    hook = lm.model.register_forward_pre_hook(
        lambda module, args, asked: read.append(tuple(asked["input_ids"].shape)), with_kwargs=True
    )
    drawn = sample(lm, [*PROMPTS, *PROMPTS, PROMPTS[1]], names, seeds, DECODING)
    hook.remove()
    # 1 2 | 5 6 7 | 3 | 10 11 12, in a row of their own each or in one
    assert read[:2] == [(1, 9) if lm.adapter.packs else (5, 3), (11, 1)]
    alone = [draw(lm, seed=seed, batch_size=1) for seed in (0, 1)]
    assert drawn[:10] == [*alone[0].values(), *alone[1].values()]
    assert drawn[10] == sample(lm, PROMPTS[1:2], ["another"], [0], DECODING)[0]


def test_another_seed_gives_other_texts_and_the_same_seed_the_same():
    lm = tiny_model("gpt2")
    assert draw(lm, seed=1) != draw(lm, seed=0) == draw(lm, seed=0)


def test_top_k_and_top_p_leave_what_they_should():
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]]))
    assert (filtered(logits, Decoding(top_k=2)) > float("-inf")).tolist() == [
        [True, True, False, False]
    ]
    assert (filtered(logits, Decoding(top_p=0.7)) > float("-inf")).tolist() == [
        [True, True, False, False]
    ]
    assert torch.equal(filtered(logits, Decoding()), logits)


def test_prompts_are_cut_to_their_first_tokens():
    rows = prompt_tokens(tiny_model("gpt2"), [PROMPTS[2], PROMPTS[1]], 4)
    assert [len(row) for row in rows] == [4, 1]


def test_an_answer_stops_at_end_of_text():
    lm = tiny_model("gpt2")
    drawn = [tokens for seed in range(40) for tokens in draw(lm, seed=seed).values()]
    ended = [tokens for tokens in drawn if 2 in tokens]
    assert ended and all(tokens.index(2) == len(tokens) - 1 for tokens in ended)
    assert all(len(tokens) == 12 for tokens in drawn if 2 not in tokens)


# Noise of every token, and the token that wins with it.


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
