"""Sampling with a stream per prompt."""

from __future__ import annotations

import pytest
import torch

from engine.core.types import Decoding, HeadMask, Hooks
from engine.models.decode import filtered, left_pad, prompt_tokens, sample
from engine.surgery.heads.mask import masked
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


def test_another_seed_gives_other_texts_and_the_same_seed_the_same():
    lm = tiny_model("gpt2")
    assert draw(lm, seed=1) != draw(lm, seed=0) == draw(lm, seed=0)


def test_a_mask_that_changes_nothing_changes_no_text():
    lm = tiny_model("gpt2")
    plain = draw(lm)
    with masked(lm, HeadMask(3, 4)):
        assert draw(lm) == plain


def test_top_k_and_top_p_leave_what_they_should():
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]]))
    assert (filtered(logits, Decoding(top_k=2)) > float("-inf")).tolist() == [
        [True, True, False, False]
    ]
    assert (filtered(logits, Decoding(top_p=0.7)) > float("-inf")).tolist() == [
        [True, True, False, False]
    ]
    assert torch.equal(filtered(logits, Decoding()), logits)


def test_prompts_are_cut_to_their_first_tokens_and_padded_on_the_left():
    lm = tiny_model("gpt2")
    rows = prompt_tokens(lm, [PROMPTS[2], PROMPTS[1]], 4)
    assert [len(row) for row in rows] == [4, 1]
    batch = left_pad(rows, "cpu")
    assert batch.mask.tolist() == [[1, 1, 1, 1], [0, 0, 0, 1]]
    assert batch.positions.tolist() == [[0, 1, 2, 3], [0, 0, 0, 0]]


def test_an_answer_stops_at_end_of_text():
    lm = tiny_model("gpt2")
    drawn = [tokens for seed in range(40) for tokens in draw(lm, seed=seed).values()]
    ended = [tokens for tokens in drawn if 2 in tokens]
    assert ended and all(tokens.index(2) == len(tokens) - 1 for tokens in ended)
    assert all(len(tokens) == 12 for tokens in drawn if 2 not in tokens)
